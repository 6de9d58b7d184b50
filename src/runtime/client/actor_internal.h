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
    struct actor *next_same; /* of those with the same key */
    actors *actors;
    mr_actor id;
    actor_state state;
    wire_call where;
    peer_link_user user;
    peer_link *link;
    list waiting, sent;    /* of actor_call */
    bool parting;          /* the last call releases its handle */
    bool feeding;          /* the end of a call may make the next one ready, which is sent after it, not inside it */
    uint64_t calls;        /* made so far */
    uint32_t open;         /* calls that have not ended */
    uint32_t call_retries; /* for calls submitted without a number of retries */
    failure *dead;
} actor;

typedef struct actor_call {
    invocation invocation; /* first; its place: in the actor's waiting or sent */
    actor *actor;
    uint64_t number; /* among the calls to that actor: they are sent in this order, again too */
    uint32_t retries;
    bool here; /* given to the worker of this process */
} actor_call;

static inline actor_call *actor_call_of(invocation *invocation) {
    return container_of(invocation, actor_call, invocation);
}
static inline actor_call *actor_call_at(list *place) { return actor_call_of(container_of(place, invocation, place)); }

/* ---- actor.c */

actor *actor_find(const actors *actors, mr_actor id);             /* NULL: unknown here */
actor *actor_add(actors *actors, mr_actor id, actor_state state); /* creates an unknown one */
actor *actor_of(actors *actors, mr_actor id);                     /* finds or creates */
actor_handle *actor_get_handle(actor *actor);
void actor_part(actor *actor);              /* releases the handle that the last call kept */
void actor_feed(actor *actor);              /* sends all calls that can be sent */
void actor_die(actor *actor, failure *why); /* waiting calls fail; the reference is taken over */

/* No call waits before one that is made now. */
static inline bool actor_is_free(const actor *actor) {
    return actor->state == ACTOR_READY && list_empty(&actor->waiting) && !actor->feeding;
}

/* ---- actor_call.c */

/* Sends a call whose arguments are ready to the actor's process. As invocation_send. */
mr_status actor_call_send(actor_call *call);
actor_call *actor_call_here(const actor *actor, uint64_t number); /* given to our worker; number 0: any; NULL: none */

/* ---- actor_create.c: actors not requested from the node yet. */

void actors_feed_unborn(actors *actors);
void actors_end_unborn(actors *actors, failure *why);
