/* result_holds.h — answers that name objects of the store: their objects are kept by the sender until the receiver
 * holds them.
 *
 *   here:  answered, result_holds_keep ──► kept ── CLIENT_TOOK, the call was cancelled, or the link closed ──► let go
 *  there:  result_holds_arrived ──► taken at once, or when the store server has answered; what is on loan kept
 *          (borrow.h) ──►
 *           CLIENT_TOOK is sent ──► over
 *
 * An object on its way belongs to the message that carries it (store/object_header.h): with this, messages need no hold
 * counters, and a process that dies loses nothing that the other has. Objects that a request names need none of it: the
 * caller keeps its arguments until the answer.
 *
 * Pure over `rpc`. With the context's lock held. */
#pragma once
#include "runtime/client/borrow_rpc.h"
#include "runtime/refs/store_provider.h"

typedef struct result_holds {
    rpc *rpc;               /* borrowed */
    borrow_rpc *borrow_rpc; /* borrowed */
    list kept;              /* of what we answered */
    list arrived;           /* of what was answered to us and is not taken, or not said to be */
} result_holds;

void result_holds_init(result_holds *holds, rpc *rpc, borrow_rpc *borrow_rpc);
void result_holds_fini(result_holds *holds);

void result_holds_keep(result_holds *holds, rpc_call_token token, value_pack *values); /* a reference is taken */
void result_holds_took(result_holds *holds, rpc_call_token token, span payload);       /* the request CLIENT_TOOK */
/* the answer met a cancellation: nobody takes it */
void result_holds_crossed(result_holds *holds, rpc_call_token token);
void result_holds_closed(result_holds *holds, link_id link);

void result_holds_arrived(result_holds *holds, rpc_call_id answer, value_pack *values); /* a reference is taken */
void result_holds_feed(result_holds *holds); /* the store server has answered, or there is room again */
