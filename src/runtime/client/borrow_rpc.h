/* borrow_rpc.h — messages about borrowed references: those that borrow.h decides, and fetches of outcomes.
 *
 *   CLIENT_BORROW, CLIENT_RETURN   borrower → owner: serials that it has, or has released; answered at once
 *   CLIENT_FETCH                   borrower → owner: a serial; answered like a task when the outcome is ready; also
 *                                  whether the value is only kept, so that its failure may stay unread
 *   CLIENT_CANCEL                  borrower → owner: a serial whose task or call is cancelled; answered at once
 *
 * The outcome of a borrowed reference is fetched from its owner when a thread here waits for it, or as soon as it is
 * kept beyond the message that brought the reference (the first KEEPING_MAX of an owner; the others when those have
 * arrived): so a ready outcome is not lost with its owner. When the last reference here is released, the fetch is
 * cancelled. When the owner ends, outcomes not fetched yet fail with a text that names the process and how it ended.
 *
 * Pure over the core worker's RPCs and peer links. With the context's lock held. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/refs/borrow.h"
#include "runtime/refs/object.h"
#include "runtime/refs/wire.h"

struct core_worker;

typedef struct borrow_rpc {
    struct core_worker *worker; /* borrowed */
    borrow borrow;
    map routes;       /* process → link to that owner; owned */
    map fetches;      /* place of an object → fetch of its outcome */
    list askers;      /* fetches of this process's outcomes by other processes */
    list answers;     /* askers whose outcome is ready, and whose answer found no room */
    list unreachable; /* fetches from owners that cannot be reached: about to fail */
} borrow_rpc;

void borrow_rpc_init(borrow_rpc *rpc, struct core_worker *worker);
void borrow_rpc_start(borrow_rpc *rpc); /* after the core worker's objects are initialized */
void borrow_rpc_fini(borrow_rpc *rpc);

bool borrow_rpc_request(borrow_rpc *rpc, const rpc_call_request *request); /* false: another module's method */
void borrow_rpc_cancelled(borrow_rpc *rpc, rpc_call_token token);          /* the token may be that of a fetch */
void borrow_rpc_closed(borrow_rpc *rpc, link_id link);
void borrow_rpc_feed(borrow_rpc *rpc);            /* called when a ring has room, and at every tick */
bool borrow_rpc_is_needed(const borrow_rpc *rpc); /* other processes borrow or fetch objects of this one */

/* Asks the owner to cancel the task or call that makes the object, in the way `how`, as soon as the link to the owner
 * is open; the effect shows only in the outcome. MR_OBJECT_LOST: the owner is gone. */
MR_MUST mr_status borrow_rpc_cancel(borrow_rpc *rpc, object *object, wire_how how);

/* Called after the last keep: sends the gate's messages. True: the gate is open already, and its `open` is not
 * called. */
bool borrow_rpc_through(borrow_rpc *rpc, borrow_gate *gate);
/* Keeps, through the gate, the references of a received value pack whose outcomes this process lacks, and actor
 * handles. */
void borrow_rpc_keep_all(borrow_rpc *rpc, const value_pack *values, borrow_gate *gate);
/* Releases a value pack, a reference to which is taken over; its references that this process still uses are kept
 * through the gate. */
void borrow_rpc_keep_rest(borrow_rpc *rpc, value_pack *values, borrow_gate *gate);

/* ---- borrow_serve.c, for borrow_rpc.c: fetches of this process's outcomes by other processes. */

void borrow_rpc_fetch_asked(borrow_rpc *rpc, const rpc_call_request *request);
void borrow_rpc_answer_again(borrow_rpc *rpc); /* called when a ring has room */
void borrow_rpc_forget_askers(borrow_rpc *rpc, link_id link);
void borrow_rpc_askers_fini(borrow_rpc *rpc);
