/* actor.h — the actors that this process creates and calls: where they are, and the calls on their way, in order.
 *
 *   CREATING ── the node takes it ──┐
 *      └── it is refused ──► DEAD   ▼
 *   UNKNOWN ── first call ──► LOCATING ── node's answer ──► OPENING ── link open ──► READY
 *      ▲                         └── it is dead ──► DEAD                              │
 *      └───────────────────── link closed: what was sent fails, what waits stays ◄────┘
 *   An actor that calls itself is found HERE: its calls are given to the worker of this process, with no message.
 *
 * Calls are sent in the order they were made; one whose arguments are not there yet holds back those after it. What was
 * sent and lost with its process waits again, in its place of that order, if it may be retried. Pure over the client's
 * calls. */
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
    list known;           /* of actor */
    map by_key;           /* the same, by id */
    struct actor *recent; /* the one called last; NULL: none */
    slab slab;            /* of actor_call */
    list creations;       /* of those that the node was not asked for yet */
    uint64_t next_serial;
} actors;

void actors_init(actors *actors, struct core_worker *worker);
void actors_fini(actors *actors); /* after actors_over and the end of all calls */

typedef struct actor_plan {
    const char *class_name;
    const mr_actor_options *options; /* checked; borrowed while the actor is created */
    resources need;
} actor_plan;

typedef struct actor_birth { /* somebody who waits for the node's word; lives until told */
    void (*told)(struct actor_birth *birth, const failure *refused); /* NULL: the node has taken it */
    bool due;                                                        /* whether `told` will come; see below */
} actor_birth;

/* Asks the node for an actor. With all its arguments there, `birth` is told what the node says (MR_EXISTS for a name
 * that is taken), perhaps before this returns. With futures among them that are still to come it is not: the node is
 * asked when they are there, calls made meanwhile wait, and a refusal shows in those. The actor itself starts later.
 * The program has a handle of it from now on (actor_handle_unname). */
MR_MUST mr_status actors_create(actors *actors, const actor_plan *plan, const mr_arg *args, size_t count,
                                actor_birth *birth, mr_actor *out);
/* As invocation_init; plan->straight is its own. `retries`: how often it is sent again if it is lost with the actor's
 * process; < 0: as the actor was created with. */
MR_MUST mr_status actors_submit(actors *actors, mr_actor actor, invocation_plan *plan, int retries);
/* The usual call, by the shortest way: its actor is there, nothing stands before it, the worker knows the name, one
 * value is asked for, the arguments are few and small, and it is never sent again. It leaves before its record is
 * filled in and its result made, which is done while it is on its way. Returns that result, which is the program's;
 * NULL: it is not that usual, or found no room, nothing has happened; actors_submit takes it. `name` is borrowed. */
object *actors_submit_straight(actors *actors, mr_actor actor, interned_name *name, const mr_arg *args, size_t count);
/* A call to it will be sent in a moment, most likely. */
void actors_foresee(const actors *actors, mr_actor actor);
bool actors_have_calls(const actors *actors);                 /* that were not answered; looks at all */
void actors_cancel_children(actors *actors, uint64_t parent); /* the calls that this run of a body has made */
/* Ends one that the node was not asked for yet, for its arguments are still to come. False: it is no such one. */
bool actors_kill_unborn(actors *actors, mr_actor actor);
/* The program itself ends it: what its calls fail with is no news, if nobody asks. */
void actors_expect_end(actors *actors, mr_actor actor);
/* Nobody here has a handle of it. True: calls to it are under way, and actor_handle_unuse is called with the last. */
bool actors_part(actors *actors, mr_actor actor);
/* Of a call that the worker of this process was given (call_here): its outcome, a failure or values; both are
 * taken over. Nothing happens if it was cancelled. */
void actors_answer_here(actors *actors, mr_actor actor, uint64_t number, wire_values *values, failure *failed);
void actors_feed(actors *actors);
void actors_over(actors *actors, failure *why);
/* calls without a result; false: fn said no */
bool actors_each(const actors *actors, task_snapshot_fn *fn, void *context);
