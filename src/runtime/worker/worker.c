/* worker.c — see worker.h: requests and their answers. Tested by tests/runtime_task_test.c. */
#include "runtime/worker/worker.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/worker/stream_writer.h"
#include "runtime/worker/worker_internal.h"

void worker_call_free(worker *worker, mr_call *call) {
    list_remove(&call->place);
    if (call->args_owner != NULL && value_pack_spares_keep(&worker->spares, call->args_owner)) call->args_owner = NULL;
    call_fini(call);
    slab_give(&worker->slab, call);
}

static void destroy(worker *worker) {
    while (!list_empty(&worker->queue)) worker_call_free(worker, worker_call_at(worker->queue.next));
    while (!list_empty(&worker->running)) worker_call_free(worker, worker_call_at(worker->running.next));
    while (!list_empty(&worker->answers)) worker_call_free(worker, worker_call_at(worker->answers.next));
    while (!list_empty(&worker->parting)) worker_call_free(worker, worker_call_at(worker->parting.next));
    worker_names_fini(worker);
    interned_name_unref(worker->speaker);
    for (uint32_t i = 0; i < worker->slab.count; i++) call_forget(slab_at(&worker->slab, i));
    slab_fini(&worker->slab);
    value_pack_spares_fini(&worker->spares);
    if (worker->self.destroy != NULL) worker->self.destroy(worker->self.state);
    value_pack_unref(worker->state);
    free(worker);
}

/* ---- Answers. */

static mr_status try_answer(worker *worker, mr_call *call) {
    rpc *rpc = worker->worker->rpc;
    if (call->failed != NULL) return wire_answer_failure(rpc, call->token, call->failed);
    if (call->result != NULL) return wire_answer_values(rpc, call->token, call->result);
    return wire_answer_bytes(rpc, call->token, span_of(call->result_small, call->result_size), false);
}

/* Answers a call whose caller is this process. */
static void answer_here(worker *worker, mr_call *call) {
    wire_values values = {.owner = call->result == NULL ? NULL : value_pack_ref(call->result)};
    failure *failed = call->failed == NULL ? NULL : failure_ref(call->failed);
    span bytes = values.owner == NULL ? span_of(call->result_small, call->result_size)
                                      : span_of(values.owner->bytes, values.owner->size);
    if (failed == NULL && value_pack_open(bytes, &values.view) != MR_OK)
        failed = failure_create(MR_CORRUPT, mr_last_error(), worker->worker->origin, NULL);
    actors_answer_here(&worker->worker->actors, worker->actor, call->token.number, &values, failed);
    worker_call_free(worker, call);
}

bool worker_answer(worker *worker, mr_call *call) {
    if (call->token.link.v == 0) {
        answer_here(worker, call);
        return true;
    }
    if (call->yield != NULL && call->yield->cut) { /* the end of its link is the answer */
        worker_call_free(worker, call);
        return true;
    }
    mr_status status = try_answer(worker, call);
    if (status == MR_TOO_LARGE || status == MR_NOMEM) {
        failure_unref(call->failed);
        call->failed = failure_create(status, mr_last_error(), worker->worker->origin, NULL);
        status = try_answer(worker, call);
    }
    if (status == MR_BUSY) return false;
    bool names_objects = call->failed == NULL && call->result != NULL && call->result->attachment != NULL;
    if (status == MR_OK && names_objects && !MUTATED("no-keep"))
        result_holds_keep(&worker->worker->holds, call->token, call->result); /* until the caller took them */
    worker_call_free(worker, call);
    return true;
}

/* The answers may be for different links: a full link holds back no other. */
static void answer_again(worker *worker) {
    list_for_each (at, &worker->answers) (void)worker_answer(worker, worker_call_at(at));
}

/* ---- Requests. */

/* Searches from the last to the first, since requests about a call mostly follow it at once. NULL: none. */
static mr_call *find_call(const list *calls, rpc_call_token token) {
    for (list *at = calls->prev; at != calls; at = at->prev) {
        mr_call *call = worker_call_at(at);
        if (call->token.link.v == token.link.v && call->token.number == token.number) return call;
    }
    return NULL;
}

static void *body_room(worker *worker, uint64_t size) {
    value_pack *room;
    if (size > SIZE_MAX || value_pack_spares_room(&worker->spares, (size_t)size, &room) != MR_OK) return NULL;
    return room->bytes;
}

/* Cancels a running call: its caller does not wait any more. */
static void cancel_running(worker *worker, mr_call *call) {
    const core_worker_host *host = worker->worker->host;
    call->cancelled = true;
    if (call->on_cancel.fn != NULL) host->cancelled(host->context, call);
    if (call->yield != NULL) stream_writer_wake(call);
    if (call->run == 0 || call->alone) return;
    worker->worker->cancelled_run = call->run;
    invocations_cancel_children(&worker->worker->tasks.slab, call->run);
    invocations_cancel_children(&worker->worker->actors.slab, call->run);
}

static void cancel(worker *worker, rpc_call_token token) {
    mr_call *queued = find_call(&worker->queue, token), *running = find_call(&worker->running, token);
    if (queued != NULL) worker_call_free(worker, queued);
    if (running != NULL) cancel_running(worker, running);
}

static void spare_children(worker *worker, rpc_call_token token) {
    mr_call *call = find_call(&worker->running, token);
    if (call != NULL) call->alone = true;
}

/* Token of the call, on the same link, that a request is about. */
static rpc_call_token subject_of(const rpc_call_request *request) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    return (rpc_call_token){.link = request->token.link, .number = reader_u64(&reader)};
}

/* Handles WORKER_ALONE: the cancellation of the call follows. */
static void spare_asked(worker *worker, const rpc_call_request *request) {
    spare_children(worker, subject_of(request));
    if (wire_answer(worker->worker->rpc, request->token, (span){0}) != MR_OK)
        error_clear(); /* the caller does not wait for the answer */
}

/* Handles WORKER_LEAVE: the actor has no handles any more, and its calls were all answered; or the client of the worker
 * is done. */
static void leave(worker *worker, const rpc_call_request *request) {
    worker->leaves = worker->over = true;
    worker->worker->host->called(worker->worker->host->context);
}

/* Handles WORKER_NEXT: a request for the next result of a call that is running or queued. */
static void next_asked(worker *worker, const rpc_call_request *request) {
    rpc_call_token token = subject_of(request);
    mr_call *found = find_call(&worker->running, token);
    if (found == NULL) found = find_call(&worker->queue, token);
    mr_status status = found != NULL && found->yield != NULL
                           ? stream_writer_ask(found, request->token)
                           : error_set(MR_NOT_FOUND, "call %llu is not a stream", (unsigned long long)token.number);
    if (status != MR_OK) wire_refuse(worker->worker->rpc, request->token, status, mr_last_error());
}

/* ---- Tasks that are given back. */

/* Gives a task back to its caller, and drops its pending stream requests: the caller sends them to the next worker.
 * False: the call is no task, or there is no room for the answer; it stays queued. */
static bool give_back(worker *worker, mr_call *call) {
    if (call->method != WORKER_TASK) return false;
    if (rpc_fail(worker->worker->rpc, call->token, MR_BUSY, NULL) == MR_BUSY) return false;
    worker_call_free(worker, call);
    return true;
}

static void give_all_back(worker *worker) {
    list_for_each (at, &worker->queue) (void)give_back(worker, worker_call_at(at));
}

void worker_tick(worker *worker, int64_t now_us) {
    if (now_us - worker->ticked_us < WORKER_TICK_US) return;
    worker->ticked_us = now_us;
    worker->ticks++;
    if (list_empty(&worker->queue)) return;
    if (worker->ticks - worker_call_at(worker->queue.next)->tick >= 2)
        give_all_back(worker); /* the first call has waited for a whole tick, at least */
}

bool worker_needs_ticks(const worker *worker) { return !worker->is_actor && !list_empty(&worker->queue); }

void worker_waits(worker *worker, bool all_of_them) {
    worker->waits = all_of_them;
    if (worker->waits) give_all_back(worker);
}

/* Handles WORKER_END. A task that does not end by itself ends with the process, but queued tasks do not: they are given
 * back, so that their callers know that they have not begun. A task that has not begun itself is left to its
 * cancellation, which follows. */
static void end_task(worker *worker, const rpc_call_request *request) {
    const core_worker_host *host = worker->worker->host;
    const mr_call *call = find_call(&worker->running, subject_of(request));
    if (call != NULL && call->method == WORKER_TASK && host->end != NULL) {
        give_all_back(worker);
        host->end(host->context); /* the end of the link is the answer */
        return;
    }
    value_pack *nothing;
    if (value_pack_create(NULL, 0, &nothing) == MR_OK)
        reply_queue_answer(&worker->worker->replies, worker->worker->rpc, request->token, nothing);
}

value_pack *worker_state(const worker *worker) { return worker->state; }
worker_state_area *worker_state_area_of(worker *worker) { return &worker->area; }

void worker_set_state(worker *worker, value_pack *state) {
    value_pack *before = worker->state;
    worker->state = value_pack_ref(state);
    value_pack_unref(before);
}

/* Handles WORKER_ACTOR_STATE: the state of the actor's last process. WORKER_ACTOR_INIT follows. */
static void take_state(worker *worker, const rpc_call_request *request) {
    const reader reader = reader_of(request->payload.data, request->payload.size);
    value_pack *state = NULL;
    mr_status status = wire_take_pack(&reader, request->payload, request->body, &state);
    if (status == MR_OK) status = attachment_receive(&worker->worker->objects, state);
    if (status == MR_OK) worker_set_state(worker, state);
    value_pack_unref(state);
    if (status != MR_OK)
        wire_refuse(worker->worker->rpc, request->token, status, mr_last_error());
    else if (wire_answer(worker->worker->rpc, request->token, (span){0}) != MR_OK)
        error_clear(); /* the node acts only on a refusal */
}

static __attribute__((noinline)) void other_request(worker *worker, const rpc_call_request *request) {
    if (request->method == WORKER_ACTOR_STATE) {
        take_state(worker, request);
        return;
    }
    wire_body_drop(request->body.data); /* these requests have no body */
    switch (request->method) {
    case WORKER_END: end_task(worker, request); break;
    case WORKER_ALONE: spare_asked(worker, request); break;
    case WORKER_LEAVE: leave(worker, request); break;
    case WORKER_NEXT: next_asked(worker, request); break;
    default: wire_refuse(worker->worker->rpc, request->token, MR_INVALID, "unknown request to a worker");
    }
}

/* Takes a record, whose other fields are as after call_fini; NULL: no memory. */
static inline mr_call *take_call(worker *worker) {
    mr_call *call = slab_take(&worker->slab);
    if (call == NULL) return NULL;
    list_init(&call->place);
    call->mr = worker->worker->host->mr;
    call->worker = worker;
    return call;
}

static void request_came(worker *worker, const rpc_call_request *request) {
    if (!wire_is_work(request->method)) {
        other_request(worker, request);
        return;
    }
    mr_call *call = take_call(worker);
    if (call == NULL) {
        wire_body_drop(request->body.data);
        wire_refuse(worker->worker->rpc, request->token, MR_NOMEM, "the worker has no memory for a request");
        return;
    }
    bytes_copy_words(&call->token, &request->token, sizeof call->token); /* in words, as it was just written */
    call->method = request->method;
    call->tick = worker->ticks;
    mr_status status = worker_read(worker, request, call);
    if (status != MR_OK) {
        wire_refuse(worker->worker->rpc, request->token, status, mr_last_error());
        worker_call_free(worker, call);
        return;
    }
    if (worker->waits && give_back(worker, call)) return;
    list_push_back(&worker->queue, &call->place);
    worker->worker->host->called(worker->worker->host->context);
}

static mr_status call_here(worker *worker, const invocation *invocation, mr_actor actor, uint64_t number) {
    mr_call *call = take_call(worker);
    if (call == NULL) return error_set(MR_NOMEM, "no memory for a call of %s", invocation->name->text);
    call->token = (rpc_call_token){.number = number};
    call->method = WORKER_ACTOR_CALL;
    call->name = interned_name_ref(invocation->name);
    call->actor = actor;
    call->returns = invocation->returns;
    call->holds = invocation->holds;
    value_pack *values = invocation->arguments.values;
    mr_status status = values != NULL ? call_take_pack(call, value_pack_ref(values))
                                      : call_take_args(call, arguments_bytes(&invocation->arguments), &worker->spares);
    if (status != MR_OK) {
        worker_call_free(worker, call);
        return status;
    }
    list_push_back(&worker->queue, &call->place);
    worker->worker->host->called(worker->worker->host->context);
    return MR_OK;
}

/* Whether a call is useless: its caller is gone, and no other process gets its results. A method that does not stream
 * may still change its actor. */
static bool is_in_vain(const mr_call *call, link_id link) {
    return call->token.link.v == link.v && (call->method == WORKER_TASK || call->yield != NULL);
}

static void link_closed(worker *worker, link_id link) {
    list_for_each (at, &worker->answers)
        if (worker_call_at(at)->token.link.v == link.v)
            worker_call_free(worker, worker_call_at(at)); /* the caller is gone */
    list_for_each (at, &worker->queue)
        if (is_in_vain(worker_call_at(at), link)) worker_call_free(worker, worker_call_at(at));
    list_for_each (at, &worker->running)
        if (is_in_vain(worker_call_at(at), link)) cancel_running(worker, worker_call_at(at));
    worker_forget_names(worker, link);
}

/* Called when the node is gone. Wakes streaming bodies that wait for their readers. Children are not cancelled: they
 * end with the node, like everything else, and report that. */
static void over(worker *worker) {
    worker->over = true;
    list_for_each (at, &worker->running)
        if (worker_call_at(at)->yield != NULL) stream_writer_wake(worker_call_at(at));
    worker->worker->host->called(worker->worker->host->context);
}

/* ---- Inspection. */

bool worker_is_over(const worker *worker) { return worker->over; }
void worker_bid_drain(worker *worker) {
    call_self self = worker->self;
    if (!worker->leaves || self.destroy == NULL) return;
    worker->self = (call_self){0};
    self.destroy(self.state);
}

bool worker_is_needed(const worker *worker) {
    const core_worker *core_worker = worker->worker;
    if (!worker->leaves || worker->is_actor || core_worker->over != NULL) return false;
    return core_worker->tasks.slab.taken > 0 || core_worker->borrow_rpc.borrow.borrowed > 0 ||
           !list_empty(&core_worker->holds.kept) || core_worker->actors.slab.taken > 0;
}

uint32_t worker_threads(const worker *worker) { return worker->threads; }
uint32_t worker_running(const worker *worker) { return worker->running_count; }
bool worker_is_running(const worker *worker) { return !list_empty(&worker->running); }

/* ---- Operations for the core worker. */

static bool is_actor(const worker *worker) { return worker->is_actor; }

static size_t queued(const worker *worker) {
    size_t count = 0;
    list_for_each (at, &worker->queue) count++;
    return count;
}

static const core_worker_worker_ops ops = {.destroy = destroy,
                                           .body_room = body_room,
                                           .request = request_came,
                                           .cancel = cancel,
                                           .spare_children = spare_children,
                                           .call_here = call_here,
                                           .room = answer_again,
                                           .link_closed = link_closed,
                                           .over = over,
                                           .is_actor = is_actor,
                                           .queued = queued};

void worker_attach(core_worker *core_worker) {
    worker *worker = xcalloc_lines(sizeof *worker);
    worker->worker = core_worker;
    worker->threads = 1;
    slab_init(&worker->slab, sizeof(mr_call));
    list_init(&worker->queue);
    list_init(&worker->running);
    list_init(&worker->answers);
    list_init(&worker->parting);
    core_worker->worker = worker;
    core_worker->worker_ops = &ops;
}
