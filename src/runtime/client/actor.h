/* actor.h — actors that this process creates and calls: their locations, and pending calls in order.
 *
 *   CREATING ── node accepts it ────┐
 *      └── refused ──► DEAD         ▼
 *   UNKNOWN ── first call ──► LOCATING ── node's answer ──► OPENING ── link open ──► READY
 *      ▲                         └── dead ──► DEAD                                    │
 *      └───────────────────── link closed: sent calls fail, waiting calls stay ◄──────┘
 *   An actor that calls itself is HERE: its calls go to the worker of this process without a message.
 *
 * Calls are sent in the order of their submission; a call whose arguments are not ready holds back the calls after it.
 * A call that was sent and lost with the actor's process waits again, at its position in that order, if it may be
 * retried. Pure over the core worker's RPCs. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "miniray/runtime.h"
#include "runtime/client/invocation.h"
#include "runtime/client/task_snapshot.h"
#include "runtime/common/resources.h"
#include "runtime/refs/failure.h"

typedef struct actors {
    struct core_worker *worker;
    list known;           /* elements: actor */
    map by_key;           /* the same actors, by id */
    struct actor *recent; /* actor called last; NULL: none */
    slab slab;            /* elements: actor_call, without an answer */
    list creations;       /* elements: creation, not requested from the node yet */
    uint64_t next_serial;
} actors;

void actors_init(actors *actors, struct core_worker *worker);
void actors_fini(actors *actors); /* called after actors_over and the end of all calls */

typedef struct actor_plan {
    const char *class_name;
    const mr_actor_options *options; /* checked; borrowed while the actor is created */
    resources need;
} actor_plan;

typedef struct actor_birth { /* waiter for the node's response; valid until `told` is called */
    void (*told)(struct actor_birth *birth, failure *refused); /* NULL: accepted by the node */
    bool due;                                                  /* whether `told` will be called; see actors_create */
} actor_birth;

/* Requests an actor from the node. If all arguments are ready, `birth->told` is called with the node's response
 * (MR_EXISTS: the name is taken), perhaps before this function returns. If an argument is pending or has failed, `told`
 * is not called: the request is sent when all arguments are ready; calls made meanwhile wait, and fail if an argument
 * fails or the node refuses. The actor itself starts later. The program has a handle of the actor from now on
 * (actor_handle_unname). */
MR_MUST mr_status actors_create(actors *actors, const actor_plan *plan, const mr_arg *args, size_t count,
                                actor_birth *birth, mr_actor *out);
/* Submits a call. As invocation_init; sets plan->straight itself. `retries`: how often a call that is lost with the
 * actor's process is sent again; < 0: the number given when the actor was created. */
MR_MUST mr_status actors_submit(actors *actors, mr_actor actor, invocation_plan *plan, int retries);
/* Fast path of a call: the actor is READY, no call waits before this one, the worker knows the name, one value is
 * returned, the arguments are few and small, and the call is never sent again. The message is sent before the record is
 * filled in and the result object created. Returns the result, a reference of the program. NULL: the fast path does not
 * apply or the ring has no room; nothing has happened, and actors_submit takes the call. `name` is borrowed. */
object *actors_submit_straight(actors *actors, mr_actor actor, interned_name *name, const mr_arg *args, size_t count);
/* Hint: a call to this actor will probably be sent soon. */
void actors_foresee(const actors *actors, mr_actor actor);
/* Ends an actor that was not requested from the node yet because its arguments are pending. False: no such actor. */
bool actors_kill_unborn(actors *actors, mr_actor actor);
/* Called when the program ends the actor: failures of its calls are not logged if the program does not read them. */
void actors_expect_end(actors *actors, mr_actor actor);
/* This process has released its last handle of the actor. True: calls are pending, and the end of the last one calls
 * actor_handle_unuse. */
bool actors_part(actors *actors, mr_actor actor);
/* Outcome of a call that the worker of this process was given (call_here): a failure or values; both are taken over. No
 * effect if the call was cancelled. */
void actors_answer_here(actors *actors, mr_actor actor, uint64_t number, wire_values *values, failure *failed);
void actors_feed(actors *actors);
void actors_over(actors *actors, failure *why);
/* visits calls without a result; false: fn returned false */
bool actors_each(const actors *actors, task_snapshot_fn *fn, void *context);
