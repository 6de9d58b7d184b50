/* actor.h — the actors that this process calls: where they are, and the calls on their way, in order.
 *
 *   UNKNOWN ── first call ──► LOCATING ── node's answer ──► OPENING ── link open ──► READY
 *      ▲                         └── it is dead ──► DEAD                              │
 *      └───────────────────── link closed: what was sent fails, what waits stays ◄────┘
 *
 * Calls are sent in the order they were made; one whose arguments are not there yet holds back those after it. With the
 * context's lock held. */
#pragma once
#include "base/list.h"
#include "miniray/value.h"
#include "runtime/failure.h"
#include "runtime/object.h"
#include "runtime/resources.h"

typedef struct actors {
    struct mr_context *mr;
    list known; /* of actor */
    uint64_t next_serial;
} actors;

void actors_init(actors *actors, struct mr_context *mr);
void actors_fini(actors *actors); /* after actors_over and the end of all calls */

typedef struct actor_plan {
    const char *class_name, *name; /* name "": none */
    resources need;
    uint32_t restarts;
} actor_plan;

/* Waits for the node's word that it takes it: MR_EXISTS for a name that is taken. The actor itself starts later. */
MR_MUST mr_status actors_create(actors *actors, const actor_plan *plan, const mr_arg *args, size_t count,
                                mr_actor *out);
MR_MUST mr_status actors_submit(actors *actors, mr_actor actor, const char *method, const mr_arg *args, size_t count,
                                object *result); /* takes a hold on the result */
void actors_feed(actors *actors);
void actors_over(actors *actors, failure *why);
