/* result_holds.h — store objects named by answers: the sender holds them until the receiver does.
 *
 *   here:  answered, result_holds_keep ──► kept ── CLIENT_TOOK, the call was cancelled, or the link closed ──► released
 *  there:  result_holds_arrived ──► taken at once, or when the store server has answered; borrowed references kept
 *          (borrow.h) ──► CLIENT_TOOK is sent ──► over
 *
 * An object in transit is held for the message that names it (store/object_header.h): with this protocol, messages
 * need no hold counters, and a process that dies loses nothing that its peer has. Objects that a request names need no
 * such protocol: the caller keeps its arguments until the answer.
 *
 * Pure over `rpc`. With the context's lock held. */
#pragma once
#include "runtime/client/borrow_rpc.h"
#include "runtime/refs/store_provider.h"

typedef struct result_holds {
    rpc *rpc;               /* borrowed */
    borrow_rpc *borrow_rpc; /* borrowed */
    list kept;              /* elements: kept, of answers sent */
    list arrived;           /* elements: kept, of received answers not taken or not confirmed yet */
} result_holds;

void result_holds_init(result_holds *holds, rpc *rpc, borrow_rpc *borrow_rpc);
void result_holds_fini(result_holds *holds);

void result_holds_keep(result_holds *holds, rpc_call_token token, value_pack *values); /* takes a reference */
void result_holds_took(result_holds *holds, rpc_call_token token, span payload); /* handles the request CLIENT_TOOK */
/* the answer crossed a cancellation: the receiver ignores it */
void result_holds_crossed(result_holds *holds, rpc_call_token token);
void result_holds_closed(result_holds *holds, link_id link);

void result_holds_arrived(result_holds *holds, rpc_call_id answer, value_pack *values); /* takes a reference */
void result_holds_feed(result_holds *holds); /* called when the store server has answered, or a link has room */
