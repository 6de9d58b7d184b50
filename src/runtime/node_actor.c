/* node_actor.c — see node_actor.h. */
#include "runtime/node_actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

typedef struct asker {
    list place;
    call_token token;
} asker;

void node_actors_init(node_actors *actors, const node_actor_ops *ops, void *host) {
    *actors = (node_actors){.ops = ops, .host = host};
    list_init(&actors->list);
}

void node_actors_fini(node_actors *actors) {
    for (list *at; (at = list_pop_front(&actors->list)) != NULL;) {
        node_actor *actor = container_of(at, node_actor, place);
        for (list *item; (item = list_pop_front(&actor->waiting)) != NULL;) free(container_of(item, asker, place));
        bundle_unref(actor->args);
        failure_unref(actor->dead);
        free(actor);
    }
    map_fini(&actors->by_id);
    map_fini(&actors->by_name);
    map_fini(&actors->by_ticket);
    map_fini(&actors->by_process);
}

/* ---- Finding. */

static uint64_t id_key(mr_actor id) { return id.word[0] * UINT64_C(0x9e3779b97f4a7c15) ^ id.word[1]; }

static uint64_t name_key(span name) { /* FNV-1a */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < name.size; i++) hash = (hash ^ name.data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

node_actor *node_actor_find(node_actors *actors, mr_actor id) {
    node_actor *actor = map_get(&actors->by_id, id_key(id));
    while (actor != NULL && memcmp(&actor->id, &id, sizeof id) != 0) actor = actor->same_id;
    return actor;
}

node_actor *node_actor_named(node_actors *actors, span name) {
    node_actor *actor = name.size == 0 ? NULL : map_get(&actors->by_name, name_key(name));
    while (actor != NULL && (strlen(actor->name) != name.size || memcmp(actor->name, name.data, name.size) != 0))
        actor = actor->same_name;
    return actor;
}

node_actor *node_actor_ticket(node_actors *actors, uint64_t ticket) { return map_get(&actors->by_ticket, ticket); }

static void chain_add(map *map, uint64_t key, node_actor *actor, node_actor **next) {
    *next = map_get(map, key);
    map_put(map, key, actor);
}

static void names_add(node_actors *actors, node_actor *actor) {
    span name = span_of(actor->name, strlen(actor->name));
    if (name.size > 0) chain_add(&actors->by_name, name_key(name), actor, &actor->same_name);
}

/* The name is free again. */
static void names_remove(node_actors *actors, node_actor *actor) {
    span name = span_of(actor->name, strlen(actor->name));
    if (name.size == 0) return;
    node_actor *first = map_get(&actors->by_name, name_key(name));
    if (first == actor) {
        map_remove(&actors->by_name, name_key(name));
        if (actor->same_name != NULL) map_put(&actors->by_name, name_key(name), actor->same_name);
        return;
    }
    while (first->same_name != actor) first = first->same_name;
    first->same_name = actor->same_name;
}

/* ---- Living and dying. */

static void tell_all(node_actors *actors, node_actor *actor) {
    for (list *at; (at = list_pop_front(&actor->waiting)) != NULL;) {
        asker *asker = container_of(at, struct asker, place);
        actors->ops->tell(actors->host, asker->token, actor);
        free(asker);
    }
}

/* It waits for a worker, or has one, no longer. */
static void leave(node_actors *actors, node_actor *actor) {
    if (actor->state == NODE_ACTOR_PENDING)
        map_remove(&actors->by_ticket, actor->ticket);
    else
        map_remove(&actors->by_process, actor->process);
    actor->process = 0;
}

static void begin(node_actors *actors, node_actor *actor) {
    actor->state = NODE_ACTOR_PENDING;
    actor->ticket = actors->ops->request(actors->host, actor);
    map_put(&actors->by_ticket, actor->ticket, actor);
}

static void die(node_actors *actors, node_actor *actor, failure *why) { /* the reference is taken over */
    leave(actors, actor);
    if (!actors->mutations.no_name_end) names_remove(actors, actor);
    actor->state = NODE_ACTOR_DEAD;
    actor->dead = why;
    bundle_unref(actor->args);
    actor->args = NULL;
    if (!actors->mutations.no_tell) tell_all(actors, actor);
}

mr_status node_actor_create(node_actors *actors, const node_actor_plan *plan) {
    MR_ASSERT(plan->class_name.size < 256 && plan->name.size < 256);
    if (node_actor_named(actors, plan->name) != NULL)
        return error_set(MR_EXISTS, "an actor is called '%.*s' already", (int)plan->name.size, plan->name.data);
    if (node_actor_find(actors, plan->id) != NULL) return error_set(MR_EXISTS, "there is such an actor already");
    node_actor *actor = xcalloc(1, sizeof *actor);
    actor->id = plan->id;
    memcpy(actor->class_name, plan->class_name.data, plan->class_name.size);
    if (plan->name.size > 0) memcpy(actor->name, plan->name.data, plan->name.size);
    actor->restarts = plan->restarts;
    actor->need = plan->need;
    actor->args = bundle_ref(plan->args);
    list_init(&actor->waiting);
    list_push_back(&actors->list, &actor->place);
    chain_add(&actors->by_id, id_key(actor->id), actor, &actor->same_id);
    names_add(actors, actor);
    begin(actors, actor);
    return MR_OK;
}

void node_actor_granted(node_actors *actors, node_actor *actor, uint64_t process) {
    MR_ASSERT(actor->state == NODE_ACTOR_PENDING);
    leave(actors, actor);
    actor->state = NODE_ACTOR_STARTING;
    actor->process = process;
    map_put(&actors->by_process, process, actor);
    actor->starts++;
    actors->ops->start(actors->host, actor);
}

void node_actor_created(node_actors *actors, mr_actor id, uint32_t start, failure *failed) {
    node_actor *actor = node_actor_find(actors, id);
    if (actor == NULL || actor->state != NODE_ACTOR_STARTING) return;
    if (actor->starts != start && !actors->mutations.no_start_check) return; /* overtaken */
    if (failed == NULL) {
        actor->state = NODE_ACTOR_ALIVE;
        tell_all(actors, actor);
        return;
    }
    uint64_t process = actor->process;
    die(actors, actor, failure_create(MR_ACTOR_DIED, "could not be created", actor->class_name, failure_ref(failed)));
    actors->ops->kill(actors->host, process);
}

void node_actor_process_gone(node_actors *actors, uint64_t process, const cause *why) {
    node_actor *actor = map_get(&actors->by_process, process);
    if (actor == NULL) return;
    if (actor->restarts > 0) {
        actor->restarts -= !actors->mutations.no_restart_count;
        leave(actors, actor);
        begin(actors, actor);
    } else {
        die(actors, actor, failure_create(MR_ACTOR_DIED, why->text, actor->class_name, NULL));
    }
}

void node_actor_kill(node_actors *actors, node_actor *actor) {
    if (actor->state == NODE_ACTOR_DEAD) return;
    uint64_t process = actor->process, ticket = actor->ticket;
    bool pending = actor->state == NODE_ACTOR_PENDING;
    die(actors, actor, failure_create(MR_ACTOR_DIED, "was killed by the program", actor->class_name, NULL));
    if (pending)
        actors->ops->forget(actors->host, ticket);
    else if (!actors->mutations.no_kill)
        actors->ops->kill(actors->host, process);
}

void node_actors_give_up(node_actors *actors, const char *why) {
    list_for_each (at, &actors->list) {
        node_actor *actor = container_of(at, node_actor, place);
        if (actor->state != NODE_ACTOR_PENDING) continue;
        uint64_t ticket = actor->ticket;
        die(actors, actor, failure_create(MR_ACTOR_DIED, why, actor->class_name, NULL));
        actors->ops->forget(actors->host, ticket);
    }
}

void node_actor_where(node_actors *actors, node_actor *actor, call_token token) {
    if (actor->state == NODE_ACTOR_ALIVE || actor->state == NODE_ACTOR_DEAD) {
        actors->ops->tell(actors->host, token, actor);
        return;
    }
    asker *asker = xcalloc(1, sizeof *asker);
    asker->token = token;
    list_push_back(&actor->waiting, &asker->place);
}
