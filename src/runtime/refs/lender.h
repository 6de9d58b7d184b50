/* lender.h — messages about borrowed references: those that borrow.h decides, and the fetching of outcomes.
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
#include "net/call.h"
#include "runtime/refs/borrow.h"
#include "runtime/refs/object.h"
#include "runtime/wire.h"

struct client;

typedef struct lender {
    struct client *client; /* borrowed */
    borrow borrow;
    map routes;       /* process → our way to that owner; owned */
    map fetches;      /* the place of an object → what is under way to bring its outcome */
    list askers;      /* who waits for an outcome of ours */
    list answers;     /* of them: their outcome is there, the answer found no room */
    list owed;        /* answers to what was borrowed or returned that found no room */
    list unreachable; /* fetches from owners to whom there is no way: about to fail */
} lender;

void lender_init(lender *lender, struct client *client);
void lender_start(lender *lender); /* the client's objects are there */
void lender_fini(lender *lender);

bool lender_request(lender *lender, const call_request *request); /* false: it is not for us */
void lender_cancelled(lender *lender, call_token token);          /* perhaps of somebody who fetched */
void lender_closed(lender *lender, link_id link);
void lender_feed(lender *lender);            /* there may be room again, or some time has passed */
bool lender_is_needed(const lender *lender); /* others have something of ours */

/* Asks its owner to cancel what makes it, in this way, as soon as there is a way to it; nobody hears of what comes
 * of that but those who wait for the outcome. MR_OBJECT_LOST: the owner is gone. */
MR_MUST mr_status lender_cancel(lender *lender, object *object, wire_how how);

/* After all that was kept: says so. True: the gate is open already, and its `open` is not called. */
bool lender_through(lender *lender, borrow_gate *gate);
/* Keeps what a received bundle refers to and what is not here, and the actors it has handles of, through the gate. */
void lender_keep_all(lender *lender, const bundle *values, borrow_gate *gate);
/* Lets go of a bundle, a reference to which is taken over; what of it is needed by others here is kept through the
 * gate. */
void lender_keep_rest(lender *lender, bundle *values, borrow_gate *gate);

/* ---- lender_answer.c, for lender.c: those who wait for an outcome of ours. */

void lender_fetch_asked(lender *lender, const call_request *request);
void lender_answer_again(lender *lender); /* there may be room again */
void lender_forget_askers(lender *lender, link_id link);
void lender_askers_fini(lender *lender);
