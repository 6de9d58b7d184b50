/* actor.c — see actor.h. */
#include "runtime/actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/cargo.h"
#include "runtime/client.h"
#include "runtime/worker.h"

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
    route_user user;
    route *route;
    list waiting, sent;    /* of actor_call */
    bool parting;          /* its handle goes with the last call */
    bool feeding;          /* the end of a call may settle the next one, which is not fed inside of it but after it */
    uint64_t calls;        /* made so far */
    uint32_t open;         /* of them that have not ended */
    uint32_t call_retries; /* of calls that say nothing of their own */
    failure *dead;
} actor;

typedef struct actor_call {
    request request; /* first; its place: in the actor's waiting or sent */
    actor *actor;
    uint64_t number; /* among the calls to that actor: they are sent in this order, again too */
    uint32_t retries;
    bool here; /* it was given to the worker of this process */
} actor_call;

static actor_call *call_of(request *request) { return container_of(request, actor_call, request); }
static actor_call *call_at(list *place) { return call_of(container_of(place, request, place)); }

void actors_init(actors *actors, client *client) {
    *actors = (struct actors){.client = client, .next_serial = 1};
    slab_init(&actors->slab, sizeof(actor_call));
    list_init(&actors->known);
    list_init(&actors->creations);
}

static void feed(actor *actor);

/* ---- Handles. */

static handle *handle_of(actor *actor) { return handle_meet(&actor->actors->client->handles, actor->id); }

static void part(actor *actor) {
    handles *handles = &actor->actors->client->handles;
    handle *handle = handle_find(handles, actor->id);
    actor->parting = false;
    if (handle != NULL) handle_unuse(handles, handle);
}

/* ---- A call's end. */

static void call_free(wire_call *wire) {
    actor_call *call = call_of(container_of(wire, request, call));
    actors *actors = call->actor->actors;
    actor *actor = call->actor;
    request_fini(&call->request);
    call->actor = NULL; /* nobody's */
    slab_give(&actors->slab, call);
    if (--actor->open == 0 && actor->parting) part(actor);
}

static void describe(const request *request, char *out, size_t size) {
    const actor_call *call = (const actor_call *)(const void *)request; /* its first field */
    snprintf(out, size, "method '%s' of actor %llx", request->name->text, (unsigned long long)call->actor->id.word[1]);
}

static failure *call_failure(const actor_call *call, mr_status code, const char *message, failure *cause) {
    return request_failure(&call->request, describe, code, message, cause);
}

/* Lost with the actor's process: waits for the next one, among those that wait already, in the order they were made. */
static bool try_again(actor_call *call) {
    actor *actor = call->actor;
    if (call->retries == 0 || actor->state == ACTOR_DEAD || actor->actors->client->over != NULL) return false;
    if (call->request.streams && flow_began(&call->request)) return false;
    call->retries--;
    list_remove(&call->request.place);
    list *before = &actor->waiting;
    while (before->prev != &actor->waiting && call_at(before->prev)->number > call->number) before = before->prev;
    list_insert_before(before, &call->request.place);
    return true; /* fed when the route has closed */
}

static void call_done(wire_call *wire, const call_result *result) {
    actor_call *call = call_of(container_of(wire, request, call));
    actor *actor = call->actor;
    if (result->status == MR_OK && actor->route != NULL) request_learn(&call->request, actor->route);
    if (request_end_small(&call->request, result)) return;
    bool lost;
    wire_values values;
    failure *failed = request_outcome(&call->request, result, describe, &values, &lost);
    if (lost && try_again(call)) {
        failure_unref(failed);
        if (result->why == NULL) feed(actor); /* the actor lives: only what it returned is gone */
        return;
    }
    if (lost) {
        char origin[REQUEST_TEXT_MAX];
        describe(&call->request, origin, sizeof origin);
        failed =
            client_lost(actor->actors->client, failed, MR_ACTOR_DIED, "the actor died while it ran or waited", origin);
    }
    if (failed != NULL)
        request_end_failure(&call->request, failed);
    else
        request_end_values(&call->request, &values);
}

/* ---- Finding the actor. */

static void fail_waiting(actor *actor, failure *why) {
    actor->feeding = true;
    while (!list_empty(&actor->waiting)) {
        actor_call *call = call_at(actor->waiting.next);
        request_end_failure(&call->request, call_failure(call, why->code, "never ran", failure_ref(why)));
    }
    actor->feeding = false;
}

static void die(actor *actor, failure *why) { /* the reference is taken over */
    if (actor->dead == NULL)
        actor->dead = why;
    else
        failure_unref(why);
    actor->state = ACTOR_DEAD;
    fail_waiting(actor, actor->dead);
}

static void opened(route_user *user) {
    actor *actor = container_of(user, struct actor, user);
    actor->state = ACTOR_READY;
    feed(actor);
}

static void closed(route_user *user, const cause *why) {
    actor *actor = container_of(user, struct actor, user);
    bool unreachable = route_unreachable(actor->route, why);
    actor->route = NULL;
    if (actor->state != ACTOR_DEAD) actor->state = ACTOR_UNKNOWN;
    if (!unreachable) {
        feed(actor);
        return;
    }
    failure *refused = failure_create(why->status, why->text, "no link to the actor", NULL);
    fail_waiting(actor, refused);
    failure_unref(refused);
}

static void located(wire_call *call, const call_result *result) {
    actor *actor = container_of(call, struct actor, where);
    reader reader = reader_of(result->payload.data, result->payload.size);
    uint64_t process = reader_u64(&reader);
    *call = (wire_call){.done = call->done};
    if (result->why != NULL) { /* lost with the node: actors_over follows */
        actor->state = ACTOR_UNKNOWN;
        return;
    }
    if (result->status != MR_OK || reader.failed) {
        die(actor, wire_failure(result, "the node"));
        return;
    }
    if (process == actor->actors->client->objects.process) {
        actor->state = ACTOR_HERE;
        feed(actor);
        return;
    }
    actor->state = ACTOR_OPENING;
    mr_status status = client_use(actor->actors->client, process, &actor->user, &actor->route);
    if (status != MR_OK)
        die(actor, failure_create(status, mr_last_error(), "", NULL));
    else if (actor->route->open)
        opened(&actor->user);
}

static void locate(actor *actor) {
    uint8_t fields[16];
    writer writer = writer_of(fields, sizeof fields);
    wire_put_actor(&writer, actor->id);
    actor->state = ACTOR_LOCATING;
    actor->where = (wire_call){.done = located};
    wire_message message = {.fields = span_of(fields, sizeof fields)};
    mr_status status = client_ask_node(actor->actors->client, NODE_ACTOR_WHERE, &message, &actor->where);
    if (status == MR_BUSY)
        actor->state = ACTOR_UNKNOWN; /* asked again when there is room */
    else if (status != MR_OK)
        die(actor, failure_create(status, mr_last_error(), "", NULL));
}

/* ---- Sending. */

static mr_status send_call(actor *actor, actor_call *call) {
    MR_TRY(request_send(&call->request, actor->route, &actor->id));
    list_remove(&call->request.place);
    list_push_back(&actor->sent, &call->request.place);
    return MR_OK;
}

/* To the worker of this process: the actor calls itself. */
static mr_status send_here(actor *actor, actor_call *call) {
    if (call->request.streams) return error_set(MR_INVALID, "an actor cannot take a stream of its own");
    MR_TRY(worker_call_here(actor->actors->client->worker, &call->request, actor->id, call->number));
    list_remove(&call->request.place);
    list_push_back(&actor->sent, &call->request.place);
    call->here = true;
    return MR_OK;
}

static void feed(actor *actor) {
    if (list_empty(&actor->waiting) || actor->feeding) return;
    if (actor->state == ACTOR_UNKNOWN) locate(actor);
    if (actor->state == ACTOR_DEAD) return die(actor, failure_ref(actor->dead));
    actor->feeding = true;
    while ((actor->state == ACTOR_READY || actor->state == ACTOR_HERE) && !list_empty(&actor->waiting)) {
        actor_call *call = call_at(actor->waiting.next);
        const arguments *arguments = &call->request.arguments;
        if (actor->actors->client->mutations.no_order && !arguments_are_settled(arguments)) {
            call = call_at(actor->waiting.prev);
            arguments = &call->request.arguments;
        }
        if (!arguments_are_settled(arguments)) break; /* holds back those after it */
        if (arguments->failed != NULL) {
            failure *cause = failure_ref(arguments->failed);
            request_end_failure(&call->request, call_failure(call, cause->code, "could not start", cause));
            continue;
        }
        mr_status status = actor->state == ACTOR_HERE ? send_here(actor, call) : send_call(actor, call);
        if (status == MR_BUSY || status == MR_CLOSED) break;
        if (status != MR_OK) request_end_failure(&call->request, call_failure(call, status, mr_last_error(), NULL));
    }
    actor->feeding = false;
    client_stir(actor->actors->client);
}

static void settled(arguments *arguments) { feed(call_of(container_of(arguments, request, arguments))->actor); }

static uint64_t key_of(mr_actor id) { return id.word[0] * UINT64_C(0x9e3779b97f4a7c15) ^ id.word[1]; }

static actor *find(const actors *actors, mr_actor id) {
    actor *actor = map_get(&actors->by_key, key_of(id));
    while (actor != NULL && (actor->id.word[0] != id.word[0] || actor->id.word[1] != id.word[1]))
        actor = actor->next_same;
    return actor;
}

static actor *add(actors *actors, mr_actor id, actor_state state) {
    actor *actor = xcalloc_lines(sizeof *actor);
    actor->actors = actors;
    actor->id = id;
    actor->state = state;
    actor->user = (route_user){.opened = opened, .closed = closed};
    list_init(&actor->user.place);
    list_init(&actor->waiting);
    list_init(&actor->sent);
    list_push_front(&actors->known, &actor->place);
    actor->next_same = map_put(&actors->by_key, key_of(id), actor);
    return actor;
}

static actor *actor_of(actors *actors, mr_actor id) {
    actor *actor = actors->recent;
    if (actor == NULL || actor->id.word[1] != id.word[1] || actor->id.word[0] != id.word[0]) actor = find(actors, id);
    if (actor == NULL) actor = add(actors, id, ACTOR_UNKNOWN);
    actors->recent = actor;
    return actor;
}

/* Nothing is before a call that is made now. */
static bool is_free(const actor *actor) {
    return actor->state == ACTOR_READY && list_empty(&actor->waiting) && !actor->feeding;
}

static void start(request *request) {
    actor_call *call = call_of(request);
    actor *actor = call->actor;
    call->number = ++actor->calls;
    const arguments *arguments = &request->arguments;
    bool ready = is_free(actor) && arguments_are_settled(arguments) && arguments->failed == NULL;
    if (ready && send_call(actor, call) == MR_OK) {
        client_stir(actor->actors->client);
        return;
    }
    list_push_back(&actor->waiting, &request->place);
    feed(actor);
}

static mr_status cancel(request *request, wire_how how) {
    actor_call *call = call_of(request);
    actor *actor = call->actor;
    if (how == WIRE_BY_FORCE)
        return error_set(MR_INVALID, "a call of an actor is not ended by force; mr_actor_kill ends the actor");
    bool sent = request->call.id.number != 0, alone = how == WIRE_ALONE;
    if (sent && alone) MR_TRY(request_spare_children(request, actor->route));
    if (sent) return calls_cancel(request->client->calls, request->call.id); /* in call_done */
    call_token here = {.number = call->number};
    if (call->here && alone) worker_spare_children(request->client->worker, here);
    if (call->here) worker_cancel(request->client->worker, here);
    request_end_failure(request, call_failure(call, MR_CANCELLED, "cancelled", NULL));
    feed(actor); /* it may have held back others */
    return MR_OK;
}

bool actors_have_calls(const actors *actors) {
    for (uint32_t i = 0; i < actors->slab.count; i++) {
        const actor_call *call = slab_at(&actors->slab, i);
        if (call->actor != NULL) return true;
    }
    return false;
}

void actors_cancel_children(actors *actors, uint64_t parent) {
    for (uint32_t i = 0; i < actors->slab.count; i++) {
        actor_call *call = slab_at(&actors->slab, i);
        if (call->actor == NULL || call->request.parent != parent) continue;
        if (cancel(&call->request, WIRE_WITH_CHILDREN) != MR_OK) error_clear(); /* it has just ended */
    }
}

/* Whether a call can be on its way before this returns, and is not needed here after that: then its arguments need not
 * be kept. */
static bool goes_at_once(const actor *actor, const request_plan *plan, uint32_t retries) {
    return is_free(actor) && retries == 0 && plan->group == NULL;
}

/* The call's record is filled in; the arguments are kept in it, or were left with the caller (plan->straight). */
static mr_status begin_call(actor_call *call, const request_plan *plan) {
    actor *actor = call->actor;
    const arguments *arguments = &call->request.arguments;
    bool sent = false;
    if (plan->straight != NULL && *plan->straight != 0) {
        sent = request_send_straight(&call->request, actor->route, &actor->id, plan) == MR_OK;
        if (!sent) MR_TRY(request_keep(&call->request, plan, settled));
    } else if (plan->straight != NULL && is_free(actor) /* still: they may have waited for memory */ &&
               arguments_are_settled(arguments) && arguments->failed == NULL) {
        sent = request_send(&call->request, actor->route, &actor->id) == MR_OK; /* as most are */
    }
    actor->open++;
    if (sent) {
        call->number = ++actor->calls;
        list_push_back(&actor->sent, &call->request.place);
        client_stir(actor->actors->client);
    } else if (!call->request.held) {
        start(&call->request);
    }
    return MR_OK;
}

static const request_ops call_ops = {.start = start, .fail = request_end_failure, .cancel = cancel};

/* What a call's record has before it is sent. */
static inline void name_call(actor_call *call, actor *actor, uint32_t retries) {
    call->actor = actor;
    call->here = false;
    call->retries = retries;
    call->request.ops = &call_ops;
}

void actors_foresee(const actors *actors, mr_actor id) {
    const actor *actor = actors->recent;
    if (actor != NULL && actor->route != NULL && wire_same_actor(actor->id, id))
        calls_foresee(actors->client->calls, actor->route->link);
}

bool actors_submit_straight(actors *actors, mr_actor id, name *name, const mr_arg *args, size_t args_count,
                            object *result) {
    actor *actor = actors->recent;
    if (actor == NULL || !wire_same_actor(actor->id, id) || !is_free(actor) || actor->call_retries != 0 ||
        !route_knows(actor->route, name->number))
        return false;
    uint64_t words[REQUEST_WORDS];
    size_t count = request_words(name, args, args_count, words);
    actor_call *call = count == 0 ? NULL : slab_take(&actors->slab);
    if (call == NULL) return false;
    client *client = actors->client;
    wire_call *wire = &call->request.call;
    if (wire_call_words(client->calls, actor->route->link, WORKER_ACTOR_CALL, words, count, wire) != MR_OK) {
        slab_give(&actors->slab, call);
        return false;
    }
    *wire = (wire_call){.id = wire->id, .done = call_done, .free = call_free};
    name_call(call, actor, 0);
    request_sent(&call->request, client, name, result);
    call->number = ++actor->calls;
    actor->open++;
    list_push_back(&actor->sent, &call->request.place);
    client_stir(client);
    return true;
}

mr_status actors_submit(actors *actors, mr_actor id, request_plan *plan, int retries) {
    if (actors->client->over != NULL) return failure_raise(actors->client->over);
    actor_call *call = slab_take(&actors->slab);
    if (call == NULL) return MR_NOMEM;
    actor *actor = actor_of(actors, id);
    name_call(call, actor, retries >= 0 ? (uint32_t)retries : actor->call_retries);
    size_t straight = 0;
    plan->straight = goes_at_once(actor, plan, call->retries) ? &straight : NULL;
    mr_status status = request_init(&call->request, actors->client, plan, settled);
    if (status == MR_OK) {
        call->request.call = (wire_call){.done = call_done, .free = call_free};
        status = begin_call(call, plan);
        if (status != MR_OK) request_fini(&call->request);
    }
    plan->straight = NULL;
    if (status == MR_OK) return MR_OK;
    call->actor = NULL; /* nobody's */
    slab_give(&actors->slab, call);
    return status;
}

/* ---- Creating. */

typedef struct creation { /* an actor that the node has not taken yet */
    wire_call call;
    list place; /* in actors.creations until it was asked for */
    actor *actor;
    arguments arguments;
    actor_birth *birth; /* NULL: nobody waits for the node's word */
    size_t fields_size;
    uint8_t fields[];
} creation;

static void creation_free(wire_call *call) {
    creation *creation = container_of(call, struct creation, call);
    list_remove(&creation->place);
    arguments_fini(&creation->arguments);
    free(creation);
}

/* The node has taken it (`refused` NULL), or it will never be. The reference is taken over. */
static void creation_end(creation *creation, failure *refused) {
    actor *actor = creation->actor;
    actor_birth *birth = creation->birth;
    wire_call_end(&creation->call);
    if (birth != NULL) birth->told(birth, refused);
    handle *handle = handle_of(actor);
    handles *handles = &actor->actors->client->handles;
    if (refused == NULL) handle_take(handles, handle);
    handle_unuse(handles, handle);
    if (refused != NULL) {
        die(actor, refused);
        return;
    }
    if (actor->state == ACTOR_CREATING) actor->state = ACTOR_UNKNOWN;
    feed(actor);
}

static void creation_answered(wire_call *call, const call_result *result) {
    failure *refused = NULL;
    if (result->why != NULL)
        refused = failure_create(MR_CLOSED, result->why->text, "the node is gone", NULL);
    else if (result->status != MR_OK)
        refused = wire_failure(result, "the node");
    creation_end(container_of(call, creation, call), refused);
}

/* The node keeps the arguments as they travel, and holds what they need; we do until it says so. */
static mr_status creation_ask(creation *creation) {
    client *client = creation->actor->actors->client;
    wire_message message = {.fields = span_of(creation->fields, creation->fields_size)};
    if (creation->arguments.values == NULL) {
        message.small = arguments_bytes(&creation->arguments);
        return client_ask_node(client, NODE_ACTOR_CREATE, &message, &creation->call);
    }
    MR_TRY(cargo_dress(creation->arguments.values, &message.bundle));
    mr_status status = client_ask_node(client, NODE_ACTOR_CREATE, &message, &creation->call);
    bundle_unref(message.bundle);
    return status;
}

/* Asks the node, if the arguments are there. One that finds no room is asked for again when there is some. */
static void creation_feed(creation *creation) {
    if (!arguments_are_settled(&creation->arguments)) return;
    if (creation->arguments.failed != NULL) {
        failure *cause = failure_ref(creation->arguments.failed);
        creation_end(creation, failure_create(MR_ACTOR_DIED, "could not be created", "an actor", cause));
        return;
    }
    mr_status status = creation_ask(creation);
    if (status == MR_OK)
        list_remove(&creation->place);
    else if (status != MR_BUSY)
        creation_end(creation, failure_create(status, mr_last_error(), "", NULL));
}

static void creation_settled(arguments *arguments) { creation_feed(container_of(arguments, creation, arguments)); }

static size_t write_fields(const actor_plan *plan, mr_actor id, uint8_t *out, size_t size) {
    writer writer = writer_of(out, size);
    wire_put_actor(&writer, id);
    writer_span32(&writer, span_of(plan->class_name, strlen(plan->class_name)));
    writer_span32(&writer, span_of(plan->name, strlen(plan->name)));
    writer_span32(&writer, span_of(plan->name_space, strlen(plan->name_space)));
    writer_u32(&writer, plan->restarts);
    writer_u8(&writer, plan->detached);
    writer_u32(&writer, plan->threads);
    writer_span32(&writer, plan->about);
    resources_encode(&plan->need, &writer);
    MR_ASSERT(!writer.failed);
    return writer_size(&writer);
}

mr_status actors_create(actors *actors, const actor_plan *plan, const mr_arg *args, size_t count, actor_birth *birth,
                        mr_actor *out) {
    if (actors->client->over != NULL) return failure_raise(actors->client->over);
    uint8_t fields[2048 + MR_ABOUT_MAX];
    mr_actor id = {{actors->client->objects.process, actors->next_serial}};
    size_t size = write_fields(plan, id, fields, sizeof fields);
    void *memory;
    MR_TRY(alloc_try(sizeof(creation) + size, &memory));
    creation *creation = memory;
    mr_status status =
        arguments_init(&creation->arguments, &actors->client->objects, args, count, false, NULL, creation_settled);
    if (status != MR_OK) {
        free(creation);
        return status;
    }
    actors->next_serial++;
    creation->call = (wire_call){.done = creation_answered, .free = creation_free};
    creation->actor = add(actors, id, ACTOR_CREATING);
    creation->actor->call_retries = plan->call_retries;
    handle_name(handle_of(creation->actor)); /* the program's */
    handle_use(handle_of(creation->actor));  /* until the node has taken it */
    creation->fields_size = size;
    memcpy(creation->fields, fields, size);
    list_init(&creation->place);
    list_push_back(&actors->creations, &creation->place);
    *out = id;
    /* What failed with an argument shows in the calls, whether the argument was quick or slow. */
    birth->due = arguments_are_settled(&creation->arguments) && creation->arguments.failed == NULL;
    creation->birth = birth->due ? birth : NULL;
    creation_feed(creation);
    return MR_OK;
}

bool actors_kill_unborn(actors *actors, mr_actor id) {
    list_for_each (at, &actors->creations) {
        creation *creation = container_of(at, struct creation, place);
        if (creation->actor->id.word[0] != id.word[0] || creation->actor->id.word[1] != id.word[1]) continue;
        creation_end(creation, failure_create(MR_ACTOR_DIED, "was killed before it was created", "an actor", NULL));
        return true;
    }
    return false;
}

void actors_feed(actors *actors) {
    list again; /* one that ends may end others, wherever they are */
    list_init(&again);
    for (list *at; (at = list_pop_front(&actors->creations)) != NULL;) list_push_back(&again, at);
    for (list *at; (at = list_pop_front(&again)) != NULL;) {
        list_push_back(&actors->creations, at);
        creation_feed(container_of(at, creation, place));
    }
    list_for_each (at, &actors->known) feed(container_of(at, actor, place));
}

bool actors_part(actors *actors, mr_actor id) {
    actor *actor = find(actors, id);
    if (actor == NULL || actor->open == 0) return false;
    if (actor->parting) return true;
    actor->parting = true;
    handle_use(handle_of(actor));
    return true;
}

static actor_call *find_here(const actor *actor, uint64_t number) {
    list_for_each (at, &actor->sent)
        if (call_at(at)->here && (number == 0 || call_at(at)->number == number)) return call_at(at);
    return NULL;
}

void actors_answer_here(actors *actors, mr_actor id, uint64_t number, wire_values *values, failure *failed) {
    const actor *actor = find(actors, id);
    actor_call *call = actor == NULL ? NULL : find_here(actor, number);
    if (call != NULL && failed == NULL) {
        request_end_values(&call->request, values);
        return;
    }
    if (call != NULL)
        request_end_failure(&call->request, failed);
    else /* it was cancelled meanwhile */
        failure_unref(failed);
    bundle_unref(values->owner);
}

/* What other processes have fails with its link; what this one has will never be run. */
static void fail_here(actor *actor, failure *why) {
    for (actor_call *call; (call = find_here(actor, 0)) != NULL;)
        request_end_failure(&call->request, call_failure(call, why->code, "was lost", failure_ref(why)));
}

void actors_over(actors *actors, failure *why) {
    while (!list_empty(&actors->creations))
        creation_end(container_of(actors->creations.next, creation, place), failure_ref(why));
    list_for_each (at, &actors->known) {
        fail_here(container_of(at, actor, place), why);
        die(container_of(at, actor, place), failure_ref(why));
    }
}

void actors_fini(actors *actors) {
    for (list *at; (at = list_pop_front(&actors->known)) != NULL;) {
        actor *actor = container_of(at, struct actor, place);
        route_leave(&actor->user);
        failure_unref(actor->dead);
        free(actor);
    }
    map_fini(&actors->by_key);
    slab_fini(&actors->slab);
}

/* ---- Being seen. */

static const char *const state_names[] = {
    [ACTOR_CREATING] = "being created",
    [ACTOR_UNKNOWN] = "not asked for yet",
    [ACTOR_LOCATING] = "not alive yet",
    [ACTOR_OPENING] = "no link to it yet",
    [ACTOR_READY] = "alive",
    [ACTOR_HERE] = "alive",
    [ACTOR_DEAD] = "dead",
};

static bool show(const actor *actor, const list *calls, bool sent, sight_fn *fn, void *context) {
    list_for_each (at, calls) {
        const request *request = &call_at(at)->request;
        bool settled = arguments_are_settled(&request->arguments);
        sight sight = {.is_call = true,
                       .name = request->name->text,
                       .result = request->result,
                       .arguments = &request->arguments,
                       .state = sent      ? SIGHT_SENT
                                : settled ? SIGHT_QUEUED
                                          : SIGHT_ARGUMENTS,
                       .process = !sent                  ? 0
                                  : actor->route != NULL ? actor->route->process
                                                         : request->client->objects.process,
                       .call = call_at(at)->here ? call_at(at)->number : request->call.id.number,
                       .since_us = request->since_us,
                       .actor = actor->id,
                       .actor_state = state_names[actor->state]};
        if (!fn(context, &sight)) return false;
    }
    return true;
}

bool actors_each(const actors *actors, sight_fn *fn, void *context) {
    list_for_each (at, &actors->known) {
        const actor *actor = container_of(at, struct actor, place);
        if (!show(actor, &actor->sent, true, fn, context)) return false;
        if (!show(actor, &actor->waiting, false, fn, context)) return false;
    }
    return true;
}
