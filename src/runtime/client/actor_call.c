/* actor_call.c — see actor.h: one call, from its submission to its end. Tested by tests/runtime_actor_test.c. */
#include <stdio.h>

#include "base/assert.h"
#include "base/error.h"
#include "runtime/client/actor_internal.h"
#include "runtime/common/worker_exit.h"

/* ---- A call's end. */

static void call_free(wire_call *wire) {
    actor_call *call = actor_call_of(container_of(wire, invocation, call));
    actors *actors = call->actor->actors;
    actor *actor = call->actor;
    invocation_fini(&call->invocation);
    slab_give(&actors->slab, call);
    if (--actor->open == 0 && actor->parting) actor_part(actor);
}

static void describe(const invocation *invocation, char *out, size_t size) {
    const actor_call *call = (const actor_call *)(const void *)invocation; /* the invocation is the first field */
    snprintf(out, size, "method '%s' of actor %llx", invocation->name->text,
             (unsigned long long)call->actor->id.word[1]);
}

/* A call lost with the actor's process waits for the next process, in submission order among the waiting calls. */
static bool try_again(actor_call *call) {
    actor *actor = call->actor;
    if (call->retries == 0 || actor->state == ACTOR_DEAD || actor->actors->worker->over != NULL) return false;
    if (call->invocation.streams && stream_reader_began(&call->invocation)) return false;
    call->retries--;
    list_remove(&call->invocation.place);
    list *before = &actor->waiting;
    while (before->prev != &actor->waiting && actor_call_at(before->prev)->number > call->number) before = before->prev;
    list_insert_before(before, &call->invocation.place);
    return true; /* actor_feed sends the call again */
}

/* Ends a call whose answer is not one small value. */
static __attribute__((noinline)) void end_otherwise(actor_call *call, const rpc_call_result *result) {
    actor *actor = call->actor;
    bool lost;
    wire_values values;
    failure *failed = invocation_outcome(&call->invocation, result, &values, &lost);
    if (lost && try_again(call)) {
        failure_unref(failed);
        if (result->why == NULL) actor_feed(actor); /* the actor is alive: only the result objects are lost */
        return;
    }
    if (lost) {
        if (failed != NULL && worker_exit_was_wished(failed->message)) invocation_expect_failure(&call->invocation);
        failed = invocation_lost(&call->invocation, MR_ACTOR_DIED, "the actor died while it ran or waited", failed);
    }
    if (failed != NULL)
        invocation_end_failure(&call->invocation, failed);
    else
        invocation_end_values(&call->invocation, &values);
}

static void call_done(wire_call *wire, const rpc_call_result *result) {
    actor_call *call = actor_call_of(container_of(wire, invocation, call));
    peer_link *link = call->actor->link;
    if (result->status == MR_OK && link != NULL) invocation_learn(&call->invocation, link);
    if (!invocation_end_small(&call->invocation, result)) end_otherwise(call, result);
}

/* ---- Sending. */

/* Passes a call to the worker of this process: the actor calls itself. */
static mr_status send_here(actor *actor, actor_call *call) {
    if (call->invocation.streams)
        return error_set(MR_INVALID, "an actor cannot read a stream of its own method %s: return a list instead",
                         call->invocation.name->text);
    core_worker *worker = actor->actors->worker;
    MR_TRY(worker->worker_ops->call_here(worker->worker, &call->invocation, actor->id, call->number));
    call->here = true;
    return MR_OK;
}

mr_status actor_call_send(actor_call *call) {
    actor *actor = call->actor;
    MR_TRY(actor->state == ACTOR_HERE ? send_here(actor, call)
                                      : invocation_send(&call->invocation, actor->link, &actor->id));
    list_remove(&call->invocation.place);
    list_push_back(&actor->sent, &call->invocation.place);
    return MR_OK;
}

static void settled(arguments *arguments) {
    actor_feed(actor_call_of(container_of(arguments, invocation, arguments))->actor);
}

static void start(invocation *invocation) {
    actor_call *call = actor_call_of(invocation);
    actor *actor = call->actor;
    call->number = ++actor->calls;
    if (call->retries > 0) invocation->repeat = call->number;
    const arguments *arguments = &invocation->arguments;
    bool ready = actor_is_free(actor) && arguments_are_settled(arguments) && arguments->failed == NULL;
    if (ready && actor_call_send(call) == MR_OK) {
        core_worker_stir(actor->actors->worker);
        return;
    }
    list_push_back(&actor->waiting, &invocation->place);
    actor_feed(actor);
}

static mr_status cancel(invocation *invocation, wire_how how) {
    actor_call *call = actor_call_of(invocation);
    actor *actor = call->actor;
    if (how == WIRE_BY_FORCE)
        return error_set(MR_INVALID, "force is not supported for calls of actors such as %s: use mr_actor_kill",
                         invocation->name->text);
    bool sent = invocation->call.id.number != 0, alone = how == WIRE_ALONE;
    if (sent && alone) MR_TRY(invocation_spare_children(invocation, actor->link));
    if (sent) return rpc_cancel(invocation->worker->rpc, invocation->call.id); /* the call ends in call_done */
    rpc_call_token here = {.number = call->number};
    core_worker *worker = invocation->worker;
    if (call->here && alone) worker->worker_ops->spare_children(worker->worker, here);
    if (call->here) worker->worker_ops->cancel(worker->worker, here);
    invocation_fail(invocation, MR_CANCELLED, "cancelled", NULL);
    actor_feed(actor); /* the cancelled call may have held back others */
    return MR_OK;
}

/* ---- Submitting. */

/* Whether a call is sent during its submission and never again: then its arguments need not be kept. */
static bool goes_at_once(const actor *actor, const invocation_plan *plan, uint32_t retries) {
    return actor_is_free(actor) && retries == 0 && plan->group == NULL;
}

/* Sends or queues a call whose record is filled in. The arguments are in the record, or left with the caller
 * (plan->straight). */
static mr_status begin_call(actor_call *call, const invocation_plan *plan) {
    actor *actor = call->actor;
    const arguments *arguments = &call->invocation.arguments;
    bool sent = false;
    MR_ASSERT(plan->straight == NULL || call->retries == 0); /* a call that is sent here has no `repeat` */
    if (plan->straight != NULL && *plan->straight != 0) {
        sent = invocation_send_straight(&call->invocation, actor->link, &actor->id, plan) == MR_OK;
        if (!sent) MR_TRY(invocation_keep(&call->invocation, plan, settled));
    } else if (plan->straight != NULL && actor_is_free(actor) /* still: invocation_init may have waited for memory */ &&
               arguments_are_settled(arguments) && arguments->failed == NULL) {
        sent = invocation_send(&call->invocation, actor->link, &actor->id) == MR_OK; /* the usual case */
    }
    actor->open++;
    if (sent) {
        call->number = ++actor->calls;
        list_push_back(&actor->sent, &call->invocation.place);
        core_worker_stir(actor->actors->worker);
    } else if (!call->invocation.held) {
        start(&call->invocation);
    }
    return MR_OK;
}

static const invocation_ops call_ops = {.start = start, .cancel = cancel, .describe = describe};

/* Sets the fields of an unsent call's record, except its invocation's. */
static inline void name_call(actor_call *call, actor *actor, uint32_t retries) {
    call->actor = actor;
    call->here = false;
    call->retries = retries;
    call->invocation.ops = &call_ops;
}

void actors_foresee(const actors *actors, mr_actor id) {
    const actor *actor = actors->recent;
    if (actor != NULL && actor->link != NULL && wire_same_actor(actor->id, id))
        rpc_foresee(actors->worker->rpc, actor->link->link);
}

object *actors_submit_straight(actors *actors, mr_actor id, interned_name *name, const mr_arg *args,
                               size_t args_count) {
    actor *actor = actors->recent;
    core_worker *worker = actors->worker;
    if (actor == NULL || !wire_same_actor(actor->id, id) || !actor_is_free(actor) || actor->call_retries != 0 ||
        !peer_link_knows(actor->link, name->number) || !objects_ready(&worker->objects))
        return NULL;
    uint64_t words[INVOCATION_WORDS_MAX];
    size_t count = invocation_words(name, args, args_count, words, INVOCATION_WORDS_MAX);
    actor_call *call = count == 0 ? NULL : slab_take(&actors->slab);
    if (call == NULL) return NULL;
    wire_call *wire = &call->invocation.call;
    if (wire_call_words(worker->rpc, actor->link->link, WORKER_ACTOR_CALL, words, count, wire) != MR_OK) {
        slab_give(&actors->slab, call);
        return NULL;
    }
    object *result = object_create(&worker->objects, true);
    wire_call_fill_in(wire, call_done, call_free);
    name_call(call, actor, 0);
    invocation_sent(&call->invocation, worker, name, result);
    call->number = ++actor->calls;
    actor->open++;
    list_push_back(&actor->sent, &call->invocation.place);
    core_worker_stir(worker);
    return result;
}

mr_status actors_submit(actors *actors, mr_actor id, invocation_plan *plan, int retries) {
    if (actors->worker->over != NULL) return failure_raise(actors->worker->over);
    actor_call *call = slab_take(&actors->slab);
    if (call == NULL) return MR_NOMEM;
    actor *actor = actor_of(actors, id);
    name_call(call, actor, retries >= 0 ? (uint32_t)retries : actor->call_retries);
    size_t straight = 0;
    plan->straight = goes_at_once(actor, plan, call->retries) ? &straight : NULL;
    mr_status status = invocation_init(&call->invocation, actors->worker, plan, settled);
    if (status == MR_OK) {
        call->invocation.call = (wire_call){.done = call_done, .free = call_free};
        status = begin_call(call, plan);
        if (status != MR_OK) invocation_fini(&call->invocation);
    }
    plan->straight = NULL;
    if (status != MR_OK) slab_give(&actors->slab, call);
    return status;
}

/* ---- Calls to this process's own actor. */

actor_call *actor_call_here(const actor *actor, uint64_t number) {
    list_for_each (at, &actor->sent)
        if (actor_call_at(at)->here && (number == 0 || actor_call_at(at)->number == number)) return actor_call_at(at);
    return NULL;
}

void actors_answer_here(actors *actors, mr_actor id, uint64_t number, wire_values *values, failure *failed) {
    const actor *actor = actor_find(actors, id);
    actor_call *call = actor == NULL ? NULL : actor_call_here(actor, number);
    if (call != NULL && failed == NULL) {
        invocation_end_values(&call->invocation, values);
        return;
    }
    if (call != NULL)
        invocation_end_failure(&call->invocation, failed);
    else /* the call was cancelled meanwhile */
        failure_unref(failed);
    value_pack_unref(values->owner);
}
