/* borrow_rpc.h — messages about borrowed references: those that borrow.h decides, and the fetching of outcomes.
 *
 *   CLIENT_BORROW, CLIENT_RETURN   borrower → owner: serials that it has, or has no more; answered at once
 *   CLIENT_FETCH                   borrower → owner: a serial; answered as a task is, when the outcome is there; also
 *                                  whether it is to be kept only, so that its failure may yet stay unseen
 *   CLIENT_CANCEL                  borrower → owner: a serial whose task or call is cancelled; answered at once
 *
 * The outcome of a borrowed reference is fetched from its owner when a thread here waits for it, or as soon as it is
 * kept beyond the message that brought it (the first KEEPING_MAX of an owner; the others when those have come): so what
 * is there is not lost with its owner. When the last reference here is released, the fetch is cancelled. When the owner
 * is gone, what is not here fails, and says which process it was and how it ended.
 *
 * Pure over the client's calls and routes. With the context's lock held. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/refs/borrow.h"
#include "runtime/refs/object.h"
#include "runtime/refs/wire.h"

struct core_worker;

typedef struct borrow_rpc {
    struct core_worker *worker; /* borrowed */
    borrow borrow;
    map routes;       /* process → our way to that owner; owned */
    map fetches;      /* the place of an object → what is under way to bring its outcome */
    list askers;      /* who waits for an outcome of ours */
    list answers;     /* of them: their outcome is there, the answer found no room */
    list owed;        /* answers to what was borrowed or returned that found no room */
    list unreachable; /* fetches from owners to whom there is no way: about to fail */
} borrow_rpc;

void borrow_rpc_init(borrow_rpc *rpc, struct core_worker *worker);
void borrow_rpc_start(borrow_rpc *rpc); /* the client's objects are there */
void borrow_rpc_fini(borrow_rpc *rpc);

bool borrow_rpc_request(borrow_rpc *rpc, const rpc_call_request *request); /* false: it is not for us */
void borrow_rpc_cancelled(borrow_rpc *rpc, rpc_call_token token);          /* perhaps of somebody who fetched */
void borrow_rpc_closed(borrow_rpc *rpc, link_id link);
void borrow_rpc_feed(borrow_rpc *rpc);            /* there may be room again, or some time has passed */
bool borrow_rpc_is_needed(const borrow_rpc *rpc); /* others have something of ours */

/* Asks its owner to cancel what makes it, in this way, as soon as there is a way to it; nobody hears of what comes
 * of that but those who wait for the outcome. MR_OBJECT_LOST: the owner is gone. */
MR_MUST mr_status borrow_rpc_cancel(borrow_rpc *rpc, object *object, wire_how how);

/* After all that was kept: says so. True: the gate is open already, and its `open` is not called. */
bool borrow_rpc_through(borrow_rpc *rpc, borrow_gate *gate);
/* Keeps what a received value pack refers to and what is not here, and the actors it has handles of, through the gate.
 * */
void borrow_rpc_keep_all(borrow_rpc *rpc, const value_pack *values, borrow_gate *gate);
/* Lets go of a value pack, a reference to which is taken over; what of it is needed by others here is kept through the
 * gate. */
void borrow_rpc_keep_rest(borrow_rpc *rpc, value_pack *values, borrow_gate *gate);

/* ---- borrow_serve.c, for borrow_rpc.c: those who wait for an outcome of ours. */

void borrow_rpc_fetch_asked(borrow_rpc *rpc, const rpc_call_request *request);
void borrow_rpc_answer_again(borrow_rpc *rpc); /* there may be room again */
void borrow_rpc_forget_askers(borrow_rpc *rpc, link_id link);
void borrow_rpc_askers_fini(borrow_rpc *rpc);
