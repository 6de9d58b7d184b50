/* actor_internal.h — state of the actors that a core worker knows, shared by three files: actor.c finds actors and
 * sends their calls, actor_call.c is one call, actor_create.c requests new actors.
 *
 * Invariants a call is in its actor's `waiting` until it is sent, then in `sent`; `open` counts both, and calls that a
 *             batch holds back. */
#pragma once
#include "runtime/client/actor.h"
#include "runtime/client/core_worker.h"

typedef enum actor_state {
    ACTOR_CREATING,
    ACTOR_UNKNOWN,
    ACTOR_LOCATING,
    ACTOR_OPENING,
    ACTOR_READY,
    ACTOR_HERE,
    ACTOR_DEAD
} actor_state;

typedef struct actor {
    list place;
    struct actor *next_same; /* next actor with the same key; NULL: none */
    actors *actors;
    mr_actor id;
    actor_state state;
    wire_call where;
    peer_link_user user;
    peer_link *link;
    list waiting, sent;    /* elements: actor_call */
    bool parting;          /* the end of the last call releases its handle */
    bool feeding;          /* actor_feed runs: it sends calls that become ready meanwhile, without recursion */
    uint64_t calls;        /* number of calls made so far */
    uint32_t open;         /* calls that have not ended */
    uint32_t call_retries; /* default for calls submitted without a number of retries */
    failure *dead;
} actor;

typedef struct actor_call {
    invocation invocation; /* first field; its `place` is in the actor's waiting or sent */
    actor *actor;
    uint64_t number; /* position in the order of calls to the actor; a retry keeps it */
    uint32_t retries;
    bool here; /* given to the worker of this process */
} actor_call;

static inline actor_call *actor_call_of(invocation *invocation) {
    return container_of(invocation, actor_call, invocation);
}
static inline actor_call *actor_call_at(list *place) { return actor_call_of(container_of(place, invocation, place)); }

/* ---- actor.c */

actor *actor_find(const actors *actors, mr_actor id);             /* NULL: unknown to this process */
actor *actor_add(actors *actors, mr_actor id, actor_state state); /* creates the record of an actor that is unknown */
actor *actor_of(actors *actors, mr_actor id);                     /* finds or creates */
actor_handle *actor_get_handle(actor *actor);
void actor_part(actor *actor);              /* releases the handle kept for the last call */
void actor_feed(actor *actor);              /* sends all calls that can be sent */
void actor_die(actor *actor, failure *why); /* fails waiting calls; takes over the reference to `why` */

/* Whether the actor is ready, and no earlier call waits. */
static inline bool actor_is_free(const actor *actor) {
    return actor->state == ACTOR_READY && list_empty(&actor->waiting) && !actor->feeding;
}

/* ---- actor_call.c */

/* Sends a call whose arguments are ready to the actor's process. Fails as invocation_send does. */
mr_status actor_call_send(actor_call *call);
actor_call *actor_call_here(const actor *actor, uint64_t number); /* a call with `here`; 0: any; NULL: none */

/* ---- actor_create.c: actors not requested from the node yet. */

void actors_feed_unborn(actors *actors);
void actors_end_unborn(actors *actors, failure *why);
