/* borrow_message.h — a message of borrow.h as an RPC: sent, and its answer passed back. */
#pragma once
#include "runtime/refs/borrow.h"
#include "runtime/refs/wire.h"

/* `borrow` must live until the answer. Fails as wire_ask does; MR_OK: borrow_answered follows, unless the link closes,
 * which the host reports (borrow_owner_gone). */
MR_MUST mr_status borrow_message_send(borrow *borrow, rpc *rpc, link_id link, wire_method method, span fields,
                                      borrow_message *message);
