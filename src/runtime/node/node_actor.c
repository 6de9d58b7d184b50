/* node_actor.c — see node_actor.h. */
#include "runtime/node/node_actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/mutation.h"
#include "runtime/refs/attachment.h"

/* A holder id is a process number, or with this bit the number of an actor that holds the handles among its
 * arguments. */
#define HOLDER_IS_ACTOR (UINT64_C(1) << 63)

typedef struct asker {
    list place;
    rpc_call_token token;
} asker;

void node_actors_init(node_actors *actors, const node_actor_ops *ops, void *host) {
    *actors = (node_actors){.ops = ops, .host = host};
    list_init(&actors->list);
    list_init(&actors->dead);
}

typedef struct holder { /* a process, or an actor */
    uint64_t process;
    list holds;
} holder;

typedef struct hold {
    list of_actor, of_holder;
    node_actor *actor;
    holder *holder;
} hold;

static void hold_free(node_actors *actors, hold *hold) {
    holder *holder = hold->holder;
    list_remove(&hold->of_actor);
    list_remove(&hold->of_holder);
    free(hold);
    if (!list_empty(&holder->holds)) return;
    map_remove(&actors->holders, holder->process);
    free(holder);
}

static void actor_free(node_actors *actors, node_actor *actor) {
    for (list *item; (item = list_pop_front(&actor->waiting)) != NULL;) free(container_of(item, asker, place));
    while (!list_empty(&actor->holds)) hold_free(actors, container_of(actor->holds.next, hold, of_actor));
    list_remove(&actor->place);
    value_pack_unref(actor->args); /* the host itself frees the objects that arguments and saved state need */
    value_pack_unref(actor->saved);
    failure_unref(actor->dead);
    free(actor->about);
    free(actor);
}

void node_actors_fini(node_actors *actors) {
    while (!list_empty(&actors->list)) actor_free(actors, container_of(actors->list.next, node_actor, place));
    while (!list_empty(&actors->dead)) actor_free(actors, container_of(actors->dead.next, node_actor, place));
    map_fini(&actors->holders);
    map_fini(&actors->by_id);
    map_fini(&actors->by_name);
    map_fini(&actors->by_ticket);
    map_fini(&actors->by_process);
}

/* ---- Lookup. */

static uint64_t id_key(mr_actor id) { return id.word[0] * UINT64_C(0x9e3779b97f4a7c15) ^ id.word[1]; }

static uint64_t name_key(span name_space, span name) { /* hash of both, with a zero byte in between */
    uint64_t hash = hash_byte(hash_on(HASH_BEGIN, name_space.data, name_space.size), 0);
    return hash_on(hash, name.data, name.size);
}

static uint64_t name_key_of(const node_actor *actor) {
    return name_key(span_of(actor->name_space, strlen(actor->name_space)), span_of(actor->name, strlen(actor->name)));
}

node_actor *node_actor_find(node_actors *actors, mr_actor id) {
    node_actor *actor = map_get(&actors->by_id, id_key(id));
    while (actor != NULL && memcmp(&actor->id, &id, sizeof id) != 0) actor = actor->same_id;
    return actor;
}

static bool is_text(const char *text, span other) {
    return strlen(text) == other.size && (other.size == 0 || memcmp(text, other.data, other.size) == 0);
}

node_actor *node_actor_named(node_actors *actors, span name_space, span name) {
    node_actor *actor = name.size == 0 ? NULL : map_get(&actors->by_name, name_key(name_space, name));
    while (actor != NULL && (!is_text(actor->name, name) || !is_text(actor->name_space, name_space)))
        actor = actor->same_name;
    return actor;
}

const char *node_actor_hint(const node_actors *actors, span name_space, span name, char out[NEAREST_NAME_HINT_MAX]) {
    nearest_name nearest = nearest_name_of(name);
    list_for_each (at, &actors->list) {
        const node_actor *actor = container_of(at, node_actor, place);
        if (is_text(actor->name_space, name_space)) nearest_name_offer_text(&nearest, actor->name);
    }
    return nearest_name_hint(&nearest, out);
}

node_actor *node_actor_in(node_actors *actors, uint64_t process) { return map_get(&actors->by_process, process); }

node_actor *node_actor_ticket(node_actors *actors, uint64_t ticket) { return map_get(&actors->by_ticket, ticket); }

static node_actor **same(node_actor *actor, bool name) { return name ? &actor->same_name : &actor->same_id; }

/* Removes an actor from the chain of its key in by_name (`name` true) or by_id. */
static void chain_remove(map *map, uint64_t key, node_actor *actor, bool name) {
    node_actor *before = map_get(map, key), *next = *same(actor, name);
    if (before != actor) {
        while (*same(before, name) != actor) before = *same(before, name);
        *same(before, name) = next;
    } else if (next != NULL) {
        map_put(map, key, next);
    } else {
        map_remove(map, key);
    }
}

/* ---- Creation and death. */

static void tell_all(node_actors *actors, node_actor *actor) {
    for (list *at; (at = list_pop_front(&actor->waiting)) != NULL;) {
        asker *asker = container_of(at, struct asker, place);
        actors->ops->tell(actors->host, asker->token, actor);
        free(asker);
    }
}

/* Ends the actor's wait for a worker, or its use of one. */
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

/* The holder releases all its handles. */
static void drop_holds(node_actors *actors, uint64_t holder_id) {
    for (holder *holder; (holder = map_get(&actors->holders, holder_id)) != NULL;)
        node_actor_drop(actors, container_of(holder->holds.next, hold, of_holder)->actor, holder_id);
}

typedef struct holding {
    node_actors *actors;
    uint64_t holder;
} holding;

static mr_status hold_one(void *context, const attachment_need *need) {
    const holding *holding = context;
    mr_actor id = {{need->ref.word[0], need->ref.word[1]}};
    node_actor *inside = need->what == ATTACHMENT_NEEDS_ACTOR ? node_actor_find(holding->actors, id) : NULL;
    if (inside != NULL) node_actor_hold(holding->actors, inside, holding->holder);
    return MR_OK;
}

/* The actor holds the handles among its arguments until its death, independently of its processes. */
static void hold_arguments(node_actors *actors, node_actor *actor) {
    holding holding = {actors, actor->keeps};
    if (attachment_each_need(actor->args, hold_one, &holding) != MR_OK) error_clear(); /* the worker reports it */
}

static void replace_state(node_actors *actors, node_actor *actor, value_pack *saved, struct node_kept *kept) {
    struct node_kept *before = actor->saved_kept;
    value_pack_unref(actor->saved);
    actor->saved = saved == NULL ? NULL : value_pack_ref(saved);
    actor->saved_kept = kept;
    if (before != NULL) actors->ops->let_go(actors->host, before);
}

void node_actor_set_state(node_actors *actors, node_actor *actor, value_pack *saved, struct node_kept *kept) {
    if (actor->args != NULL)
        replace_state(actors, actor, saved, kept);
    else if (kept != NULL)
        actors->ops->let_go(actors->host, kept);
}

/* Releases arguments and state: the actor will not be created again. */
static void forget_arguments(node_actors *actors, node_actor *actor) {
    struct node_kept *kept = actor->kept;
    value_pack_unref(actor->args);
    actor->args = NULL;
    actor->kept = NULL;
    if (kept != NULL) actors->ops->let_go(actors->host, kept);
    replace_state(actors, actor, NULL, NULL);
}

static void die(node_actors *actors, node_actor *actor, failure *why) { /* `why` is moved */
    uint64_t keeps = actor->keeps;
    leave(actors, actor);
    if (actor->name[0] != '\0' && !MUTATED("no-name-end"))
        chain_remove(&actors->by_name, name_key_of(actor), actor, true);
    actor->state = NODE_ACTOR_DEAD;
    actor->dead = why;
    forget_arguments(actors, actor);
    if (!MUTATED("no-tell")) tell_all(actors, actor);
    actors->ops->died(actors->host, actor);
    list_remove(&actor->place);
    list_push_back(&actors->dead, &actor->place);
    if (++actors->dead_count > NODE_ACTORS_DEAD_MAX) {
        node_actor *oldest = container_of(actors->dead.next, node_actor, place);
        chain_remove(&actors->by_id, id_key(oldest->id), oldest, false);
        actor_free(actors, oldest);
        actors->dead_count--;
    }
    drop_holds(actors, keeps);
}

mr_status node_actor_create(node_actors *actors, const node_actor_plan *plan) {
    MR_ASSERT(plan->class_name.size < 256 && plan->name.size < 256 && plan->name_space.size < 256);
    if (node_actor_named(actors, plan->name_space, plan->name) != NULL)
        return error_set(MR_EXISTS, "an actor named '%.*s' exists already", (int)plan->name.size, plan->name.data);
    if (node_actor_find(actors, plan->id) != NULL)
        return error_set(MR_EXISTS, "actor a%u:%llu exists already", (unsigned)plan->id.word[0],
                         (unsigned long long)plan->id.word[1]);
    node_actor *actor = XNEW(node_actor, .id = plan->id, .program = plan->program, .detached = plan->detached,
                             .restarts = plan->restarts, .restarts_max = plan->restarts, .threads = plan->threads,
                             .need = plan->need, .kept = plan->kept, .args = value_pack_ref(plan->args),
                             .keeps = HOLDER_IS_ACTOR | ++actors->last_holder, .about_size = plan->about.size);
    memcpy(actor->class_name, plan->class_name.data, plan->class_name.size);
    if (plan->name.size > 0) memcpy(actor->name, plan->name.data, plan->name.size);
    if (plan->name_space.size > 0) memcpy(actor->name_space, plan->name_space.data, plan->name_space.size);
    if (plan->about.size > 0) actor->about = xcopy(plan->about.data, plan->about.size);
    list_init(&actor->waiting);
    list_init(&actor->holds);
    list_push_back(&actors->list, &actor->place);
    actor->same_id = map_put(&actors->by_id, id_key(actor->id), actor);
    if (actor->name[0] != '\0') actor->same_name = map_put(&actors->by_name, name_key_of(actor), actor);
    hold_arguments(actors, actor);
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

static failure *death_of(const node_actor *actor, const char *what, failure *cause) {
    char origin[FAILURE_TEXT_MAX + 1];
    snprintf(origin, sizeof origin, "actor %s", actor->class_name);
    return failure_create(MR_ACTOR_DIED, what, origin, cause);
}

void node_actor_created(node_actors *actors, mr_actor id, uint32_t start, failure *failed) {
    node_actor *actor = node_actor_find(actors, id);
    if (actor == NULL || actor->state != NODE_ACTOR_STARTING) return;
    if (actor->starts != start && !MUTATED("no-start-check")) return; /* answer of an earlier start */
    if (failed == NULL) {
        actor->state = NODE_ACTOR_ALIVE;
        if (actor->restarts == 0) forget_arguments(actors, actor);
        tell_all(actors, actor);
        return;
    }
    uint64_t process = actor->process;
    die(actors, actor, death_of(actor, "could not be created", failure_ref(failed)));
    actors->ops->kill(actors->host, process);
}

/* The actor dies and releases everything; its process, if any, is ended with `end`. */
static void put_down_by(node_actors *actors, node_actor *actor, void (*end)(void *host, uint64_t process),
                        const char *why) {
    uint64_t process = actor->process, ticket = actor->ticket;
    bool pending = actor->state == NODE_ACTOR_PENDING;
    if (pending) actors->ops->forget(actors->host, actor, ticket);
    die(actors, actor, death_of(actor, why, NULL));
    if (!pending && !MUTATED("no-kill")) end(actors->host, process);
}

static void put_down(node_actors *actors, node_actor *actor, const char *why) {
    put_down_by(actors, actor, actors->ops->kill, why);
}

static hold *find_hold(const node_actor *actor, uint64_t process) {
    list_for_each_item (hold, &actor->holds, struct hold, of_actor)
        if (hold->holder->process == process) return hold;
    return NULL;
}

void node_actor_hold(node_actors *actors, node_actor *actor, uint64_t process) {
    if (actor->state == NODE_ACTOR_DEAD || find_hold(actor, process) != NULL) return;
    holder *holder = map_get(&actors->holders, process);
    if (holder == NULL) {
        holder = XNEW(struct holder, .process = process);
        list_init(&holder->holds);
        map_put(&actors->holders, process, holder);
    }
    hold *made = XNEW(hold, .actor = actor, .holder = holder);
    list_push_back(&actor->holds, &made->of_actor);
    list_push_back(&holder->holds, &made->of_holder);
}

void node_actor_drop(node_actors *actors, node_actor *actor, uint64_t process) {
    hold *hold = find_hold(actor, process);
    if (hold == NULL) return;
    hold_free(actors, hold);
    if (list_empty(&actor->holds) && !actor->detached && actor->state != NODE_ACTOR_DEAD)
        put_down_by(actors, actor, actor->state == NODE_ACTOR_ALIVE ? actors->ops->dismiss : actors->ops->kill,
                    "all its handles were released");
}

void node_actor_not_told(node_actors *actors, mr_actor id, uint32_t start) {
    node_actor *actor = node_actor_find(actors, id);
    if (actor == NULL || actor->state != NODE_ACTOR_STARTING || actor->starts != start) return; /* an earlier start */
    uint64_t process = actor->process;
    leave(actors, actor);
    begin(actors, actor);
    actors->ops->kill(actors->host, process);
}

/* False: none is left. */
static bool use_restart(node_actor *actor) {
    if (actor->restarts == 0) return false;
    if (actor->restarts != MR_NO_LIMIT && !MUTATED("no-restart-count")) actor->restarts--;
    return true;
}

void node_actor_process_gone(node_actors *actors, uint64_t process, const cause *why) {
    drop_holds(actors, process);
    node_actor *actor = map_get(&actors->by_process, process);
    if (actor == NULL) return;
    if (use_restart(actor)) {
        leave(actors, actor);
        begin(actors, actor);
    } else {
        die(actors, actor, death_of(actor, why->text, NULL));
    }
}

void node_actor_kill(node_actors *actors, node_actor *actor) {
    if (actor->state != NODE_ACTOR_DEAD) put_down(actors, actor, "was killed by a program (kill)");
}

void node_actor_restart(node_actors *actors, node_actor *actor) {
    if (actor->state == NODE_ACTOR_STARTING || actor->state == NODE_ACTOR_ALIVE)
        actors->ops->kill(actors->host, actor->process);
}

uint32_t node_actors_give_up(node_actors *actors, uint32_t program, bool spares, const char *why) {
    uint32_t left = 0;
    list_for_each_item (actor, &actors->list, node_actor, place) {
        if (actor->state != NODE_ACTOR_PENDING || actor->program != program) continue;
        if (spares && use_restart(actor) && !MUTATED("no-patient-actors"))
            left++;
        else
            put_down(actors, actor, why);
    }
    return left;
}

void node_actors_evict(node_actors *actors, uint64_t group, const char *why) {
    list_for_each_item (actor, &actors->list, node_actor, place) {
        bool forgotten = actor->state == NODE_ACTOR_PENDING && MUTATED("no-evict");
        if (actor->state != NODE_ACTOR_DEAD && actor->need.group == group && !forgotten) put_down(actors, actor, why);
    }
}

void node_actors_end_program(node_actors *actors, uint32_t program) {
    list_for_each_item (actor, &actors->list, node_actor, place)
        if (actor->state != NODE_ACTOR_DEAD && actor->program == program && !actor->detached)
            put_down(actors, actor, "its driver has ended");
}

void node_actor_where(node_actors *actors, node_actor *actor, rpc_call_token token) {
    if (actor->state == NODE_ACTOR_ALIVE || actor->state == NODE_ACTOR_DEAD) {
        actors->ops->tell(actors->host, token, actor);
        return;
    }
    asker *asker = XNEW(struct asker, .token = token);
    list_push_back(&actor->waiting, &asker->place);
}
