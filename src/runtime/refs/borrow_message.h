/* borrow_message.h — a message of borrow.h as a call: sent, and its answer handed back. */
#pragma once
#include "runtime/refs/borrow.h"
#include "runtime/refs/wire.h"

/* The borrow is borrowed until the answer. Fails as wire_ask does; MR_OK: borrow_answered follows, unless the link
 * closes, which is its host's to tell (borrow_owner_gone). */
MR_MUST mr_status borrow_message_send(borrow *borrow, rpc *rpc, link_id link, wire_method method, span fields,
                                      borrow_message *message);
