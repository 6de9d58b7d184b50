/* actor.c — see actor.h: location of actors, and the queue of calls to each. Tested by tests/runtime_actor_test.c. */
#include "runtime/client/actor.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/client/actor_internal.h"

void actors_init(actors *actors, core_worker *worker) {
    *actors = (struct actors){.worker = worker, .next_serial = 1};
    slab_init(&actors->slab, sizeof(actor_call));
    list_init(&actors->known);
    list_init(&actors->creations);
}

/* ---- Handles of actors. */

actor_handle *actor_get_handle(actor *actor) { return actor_handle_meet(&actor->actors->worker->handles, actor->id); }

void actor_part(actor *actor) {
    actor_handles *handles = &actor->actors->worker->handles;
    actor_handle *handle = actor_handle_find(handles, actor->id);
    actor->parting = false;
    if (handle != NULL) actor_handle_unuse(handles, handle);
}

/* ---- Location of an actor. */

static void fail_waiting(actor *actor, failure *why) {
    actor->feeding = true;
    while (!list_empty(&actor->waiting)) {
        invocation *invocation = &actor_call_at(actor->waiting.next)->invocation;
        invocation_fail(invocation, why->code, "never ran", failure_ref(why));
    }
    actor->feeding = false;
}

void actor_die(actor *actor, failure *why) { /* takes over the reference to `why` */
    if (actor->dead == NULL)
        actor->dead = why;
    else
        failure_unref(why);
    actor->state = ACTOR_DEAD;
    fail_waiting(actor, actor->dead);
}

static void opened(peer_link_user *user) {
    actor *actor = container_of(user, struct actor, user);
    actor->state = ACTOR_READY;
    actor_feed(actor);
}

static void closed(peer_link_user *user, const cause *why) {
    actor *actor = container_of(user, struct actor, user);
    bool unreachable = peer_link_unreachable(actor->link, why);
    actor->link = NULL;
    if (actor->state != ACTOR_DEAD) actor->state = ACTOR_UNKNOWN;
    if (!unreachable) {
        actor_feed(actor);
        return;
    }
    failure *refused = failure_create(why->status, why->text, "cannot connect to the actor", NULL);
    fail_waiting(actor, refused);
    failure_unref(refused);
}

static void located(wire_call *call, const rpc_call_result *result) {
    actor *actor = container_of(call, struct actor, where);
    reader reader = reader_of(result->payload.data, result->payload.size);
    uint64_t process = reader_u64(&reader);
    *call = (wire_call){.done = call->done};
    if (result->why != NULL) { /* the node is gone: actors_over follows */
        actor->state = ACTOR_UNKNOWN;
        return;
    }
    if (result->status != MR_OK || reader.failed) {
        actor_die(actor, wire_failure(result, "")); /* the text begins with the actor */
        return;
    }
    if (process == actor->actors->worker->objects.process) {
        actor->state = ACTOR_HERE;
        actor_feed(actor);
        return;
    }
    actor->state = ACTOR_OPENING;
    mr_status status = core_worker_use(actor->actors->worker, process, &actor->user, &actor->link);
    if (status != MR_OK)
        actor_die(actor, failure_create(status, mr_last_error(), "", NULL));
    else if (actor->link->open)
        opened(&actor->user);
}

static void locate(actor *actor) {
    actor->state = ACTOR_LOCATING;
    actor->where = (wire_call){.done = located};
    wire_message message = {.fields = span_of(&actor->id, sizeof actor->id)};
    mr_status status = core_worker_ask_node(actor->actors->worker, NODE_ACTOR_WHERE, &message, &actor->where);
    if (status == MR_BUSY)
        actor->state = ACTOR_UNKNOWN; /* actor_feed repeats the request when the link has room */
    else if (status != MR_OK)
        actor_die(actor, failure_create(status, mr_last_error(), "", NULL));
}

/* ---- Known actors. */

static uint64_t key_of(mr_actor id) { return id.word[0] * UINT64_C(0x9e3779b97f4a7c15) ^ id.word[1]; }

actor *actor_find(const actors *actors, mr_actor id) {
    actor *actor = map_get(&actors->by_key, key_of(id));
    while (actor != NULL && (actor->id.word[0] != id.word[0] || actor->id.word[1] != id.word[1]))
        actor = actor->next_same;
    return actor;
}

actor *actor_add(actors *actors, mr_actor id, actor_state state) {
    actor *actor = xcalloc_lines(sizeof *actor);
    actor->actors = actors;
    actor->id = id;
    actor->state = state;
    actor->user = (peer_link_user){.opened = opened, .closed = closed};
    list_init(&actor->user.place);
    list_init(&actor->waiting);
    list_init(&actor->sent);
    list_push_front(&actors->known, &actor->place);
    actor->next_same = map_put(&actors->by_key, key_of(id), actor);
    return actor;
}

/* The id is passed in two words, for the reason given at object_known (object.h). */
static __attribute__((noinline)) actor *meet(actors *actors, uint64_t first, uint64_t second) {
    mr_actor id = {{first, second}};
    actor *actor = actor_find(actors, id);
    if (actor == NULL) actor = actor_add(actors, id, ACTOR_UNKNOWN);
    actors->recent = actor;
    return actor;
}

actor *actor_of(actors *actors, mr_actor id) {
    actor *recent = actors->recent;
    return recent != NULL && wire_same_actor(recent->id, id) ? recent : meet(actors, id.word[0], id.word[1]);
}

/* ---- Sending waiting calls. */

void actor_feed(actor *actor) {
    if (list_empty(&actor->waiting) || actor->feeding) return;
    if (actor->state == ACTOR_UNKNOWN) locate(actor);
    if (actor->state == ACTOR_DEAD) {
        actor_die(actor, failure_ref(actor->dead));
        return;
    }
    actor->feeding = true;
    while ((actor->state == ACTOR_READY || actor->state == ACTOR_HERE) && !list_empty(&actor->waiting)) {
        actor_call *call = actor_call_at(actor->waiting.next);
        const arguments *arguments = &call->invocation.arguments;
        if (MUTATED("no-order") && !arguments_are_settled(arguments)) {
            call = actor_call_at(actor->waiting.prev);
            arguments = &call->invocation.arguments;
        }
        if (!arguments_are_settled(arguments)) break; /* a call that is not ready holds back the calls after it */
        if (arguments->failed != NULL) {
            failure *cause = failure_ref(arguments->failed);
            if (arguments_are_named(arguments))
                invocation_end_failure(&call->invocation, cause);
            else
                invocation_fail(&call->invocation, cause->code, "could not start", cause);
            continue;
        }
        mr_status status = actor_call_send(call);
        if (status == MR_BUSY || status == MR_CLOSED) break;
        if (status != MR_OK) invocation_fail(&call->invocation, status, mr_last_error(), NULL);
    }
    actor->feeding = false;
    core_worker_stir(actor->actors->worker);
}

void actors_feed(actors *actors) {
    actors_feed_unborn(actors);
    list_for_each (at, &actors->known) actor_feed(container_of(at, actor, place));
}

bool actors_part(actors *actors, mr_actor id) {
    actor *actor = actor_find(actors, id);
    if (actor == NULL || actor->open == 0) return false;
    if (actor->parting) return true;
    actor->parting = true;
    actor_handle_use(actor_get_handle(actor));
    return true;
}

/* ---- Shutdown. */

void actors_expect_end(actors *actors, mr_actor id) {
    actor *actor = actor_find(actors, id);
    if (actor == NULL) return;
    list_for_each (at, &actor->waiting) invocation_expect_failure(&actor_call_at(at)->invocation);
    list_for_each (at, &actor->sent) invocation_expect_failure(&actor_call_at(at)->invocation);
}

/* Calls sent to other processes fail with their link; calls in this process will never be run. */
static void fail_here(actor *actor, failure *why) {
    for (actor_call *call; (call = actor_call_here(actor, 0)) != NULL;)
        invocation_fail(&call->invocation, why->code, "was lost", failure_ref(why));
}

void actors_over(actors *actors, failure *why) {
    actors_end_unborn(actors, why);
    list_for_each (at, &actors->known) {
        fail_here(container_of(at, actor, place), why);
        actor_die(container_of(at, actor, place), failure_ref(why));
    }
}

void actors_fini(actors *actors) {
    for (list *at; (at = list_pop_front(&actors->known)) != NULL;) {
        actor *actor = container_of(at, struct actor, place);
        peer_link_leave(&actor->user);
        failure_unref(actor->dead);
        free(actor);
    }
    map_fini(&actors->by_key);
    slab_fini(&actors->slab);
}

/* ---- Reports. */

static const char *const state_names[] = {
    [ACTOR_CREATING] = "being created",
    [ACTOR_UNKNOWN] = "not located yet",
    [ACTOR_LOCATING] = "not alive yet",
    [ACTOR_OPENING] = "being connected to",
    [ACTOR_READY] = "alive",
    [ACTOR_HERE] = "alive",
    [ACTOR_DEAD] = "dead",
};

static bool show(const actor *actor, const list *calls, bool sent, task_snapshot_fn *fn, void *context) {
    list_for_each (at, calls) {
        const invocation *invocation = &actor_call_at(at)->invocation;
        bool settled = arguments_are_settled(&invocation->arguments);
        task_snapshot snapshot = {.is_call = true,
                                  .invocation = invocation,
                                  .state = sent      ? TASK_SNAPSHOT_SENT
                                           : settled ? TASK_SNAPSHOT_QUEUED
                                                     : TASK_SNAPSHOT_ARGUMENTS,
                                  .process = !sent                 ? 0
                                             : actor->link != NULL ? actor->link->process
                                                                   : invocation->worker->objects.process,
                                  .actor = actor->id,
                                  .actor_state = state_names[actor->state]};
        if (!fn(context, &snapshot)) return false;
    }
    return true;
}

bool actors_each(const actors *actors, task_snapshot_fn *fn, void *context) {
    list_for_each (at, &actors->known) {
        const actor *actor = container_of(at, struct actor, place);
        if (!show(actor, &actor->sent, true, fn, context)) return false;
        if (!show(actor, &actor->waiting, false, fn, context)) return false;
    }
    return true;
}
