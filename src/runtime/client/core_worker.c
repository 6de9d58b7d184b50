/* core_worker.c — see core_worker.h. Tested by tests/runtime_life_test.c. */
#include "runtime/client/core_worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/mutation.h"
#include "runtime/client/inspect_query.h"
#include "runtime/refs/borrow_message.h"

/* ---- Joining the node. */

/* Requests the optional parts: a hold table of the store, and an event ring. on_room repeats requests that found no
 * room. */
static void settle_in(core_worker *worker) {
    if (worker->role == WIRE_WATCHER) return;
    store_provider_join(&worker->provider, worker->rpc, worker->node);
    event_writer_join(&worker->writer, worker->rpc, worker->node);
}

static void join_answered(wire_call *call, const rpc_call_result *result) {
    core_worker *worker = container_of(call, struct core_worker, joining);
    reader reader = reader_of(result->payload.data, result->payload.size);
    span folder = {0};
    if (result->status == MR_OK) {
        worker->workers = reader_u32(&reader);
        worker->program = reader_u32(&reader);
        folder = reader_span32(&reader);
    }
    if (result->status != MR_OK)
        core_worker_end(worker, wire_failure(result, "the node"));
    else if (reader.failed)
        core_worker_end(worker, failure_create(MR_CORRUPT, "malformed answer of the node to NODE_JOIN", "", NULL));
    else
        worker->joined = true;
    if (worker->joined && folder.size < sizeof worker->folder && folder.size > 0)
        memcpy(worker->folder, folder.data, folder.size);
    if (worker->joined) settle_in(worker);
    *call = (wire_call){.done = call->done};
}

/* A full link returns MR_BUSY, and on_room calls this function again. */
static void join(core_worker *worker) {
    if (worker->joined || worker->over != NULL || worker->joining.id.number != 0) return;
    const span about = worker->host->about;
    size_t size = 4 + 1 + 4 + about.size;
    void *fields;
    mr_status status = alloc_try(size, &fields);
    if (status == MR_OK) {
        writer writer = writer_of(fields, size);
        writer_u32(&writer, WIRE_VERSION);
        writer_u8(&writer, (uint8_t)worker->role);
        writer_u32(&writer, (uint32_t)worker->pid);
        writer_bytes(&writer, about.data, about.size);
        worker->joining = (wire_call){.done = join_answered};
        wire_message message = {.fields = span_of(fields, size)};
        status = core_worker_ask_node(worker, NODE_JOIN, &message, &worker->joining);
        free(fields);
    }
    if (status == MR_OK && worker->role == WIRE_WORKER) /* right after NODE_JOIN: open before the first call */
        event_writer_join(&worker->writer, worker->rpc, worker->node);
    if (status != MR_OK && status != MR_BUSY)
        core_worker_end(worker, failure_create(status, mr_last_error(), "the node", NULL));
}

/* ---- RPC events. */

/* Passes worker output to the host. True: the host answers the token when the output was written. */
static bool print(core_worker *worker, reader *reader, rpc_call_token token) {
    uint8_t where = reader_u8(reader);
    span text = reader_span32(reader);
    if (worker->host->print == NULL || reader->failed || where >= STD_STREAMS) return false;
    worker->host->print(worker->host->context, where, text, token);
    return true;
}

static void refuse_work(const core_worker *worker, const rpc_call_request *request) {
    char text[64];
    snprintf(text, sizeof text, "process %d is not a worker: it runs no tasks", worker->pid);
    wire_refuse(worker->rpc, request->token, MR_INVALID, text);
}

static void see_gpus(const core_worker *worker, reader *reader) {
    span devices = wire_get_name(reader);
    if (worker->host->see_gpus != NULL && !reader->failed) worker->host->see_gpus(worker->host->context, devices);
}

/* Handles requests other than work (wire_is_work). */
static __attribute__((noinline)) void on_other_request(core_worker *worker, const rpc_call_request *request) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    bool answered = false;
    switch (request->method) {
    case CLIENT_RECLAIM: tasks_reclaim(&worker->tasks, reader_u64(&reader)); break;
    case CLIENT_GROUP_GONE: placement_cache_forget(&worker->cache, reader_u64(&reader)); break;
    case CLIENT_STORE: store_provider_poll(&worker->provider); break;
    case WORKER_GPUS: see_gpus(worker, &reader); break;
    case CLIENT_PRINT: answered = print(worker, &reader, request->token); break;
    case CLIENT_LOOK: inspect_query_answer(worker, request); return;
    case CLIENT_TOOK:
        result_holds_took(&worker->holds, request->token, request->payload);
        answered = true;
        break;
    default:
        if (borrow_rpc_request(&worker->borrow_rpc, request)) return;
        if (worker->worker != NULL) {
            worker->worker_ops->request(worker->worker, request);
            return;
        }
        refuse_work(worker, request);
        answered = true;
    }
    wire_body_drop(request->body.data);
    if (!answered && wire_answer(worker->rpc, request->token, (span){0}) != MR_OK)
        error_clear(); /* the node does not wait for the answer */
}

static void on_request(void *context, const rpc_call_request *request) {
    core_worker *worker = context;
    if (worker->worker != NULL && wire_is_work(request->method))
        worker->worker_ops->request(worker->worker, request);
    else
        on_other_request(worker, request);
}

static void on_cancel(void *context, rpc_call_token token) {
    core_worker *worker = context;
    if (worker->worker != NULL) worker->worker_ops->cancel(worker->worker, token);
    borrow_rpc_cancelled(&worker->borrow_rpc, token);
}

static void on_crossed(void *context, rpc_call_token token) {
    core_worker *worker = context;
    if (!MUTATED("no-crossing")) result_holds_crossed(&worker->holds, token);
}

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    core_worker *worker = context;
    return worker->worker != NULL ? worker->worker_ops->body_room(worker->worker, size) : wire_body_room(size);
}

static void on_link_open(void *context, link_id link, const peer *who) {
    core_worker *worker = context;
    if (link.v == worker->node.v) join(worker);
    event_writer_link(&worker->writer, link, who->process);
    peer_links_opened(&worker->links, link);
}

static void node_ended(core_worker *worker, const cause *why) {
    char more[256] = "", text[CAUSE_TEXT_MAX + sizeof more];
    if (worker->host->explain_end != NULL) worker->host->explain_end(worker->host->context, why, more, sizeof more);
    snprintf(text, sizeof text, "%s%s", why->text, more);
    core_worker_end(worker, failure_create(MR_CLOSED, text, "the node is gone", NULL));
}

static void on_link_closed(void *context, link_id link, const cause *why) {
    core_worker *worker = context;
    if (link.v == worker->node.v) node_ended(worker, why);
    result_holds_closed(&worker->holds, link);
    event_writer_unlink(&worker->writer, link);
    borrow_rpc_closed(&worker->borrow_rpc, link);
    peer_links_closed(&worker->links, link, why);
    if (worker->worker != NULL) worker->worker_ops->link_closed(worker->worker, link);
}

static void tell_again(core_worker *worker);

static void on_room(void *context, link_id link) {
    core_worker *worker = context;
    if (link.v == worker->node.v) join(worker);
    tell_again(worker);
    if (worker->joined) settle_in(worker);
    if (worker->worker != NULL) worker->worker_ops->room(worker->worker);
    reply_queue_room(&worker->replies, worker->rpc);
    borrow_rpc_feed(&worker->borrow_rpc);
    actor_handles_feed(&worker->handles);
    result_holds_feed(&worker->holds);
    tasks_feed(&worker->tasks);
    actors_feed(&worker->actors);
    stream_readers_feed(&worker->readers);
}

static const rpc_call_handlers handlers = {.on_request = on_request,
                                           .on_cancel = on_cancel,
                                           .on_crossed = on_crossed,
                                           .on_body = on_body,
                                           .on_link_open = on_link_open,
                                           .on_link_closed = on_link_closed,
                                           .on_room = on_room};

int64_t core_worker_tick(core_worker *worker, int64_t now_us) {
    worker->now_us = now_us;
    borrow_rpc_feed(&worker->borrow_rpc);
    actor_handles_feed(&worker->handles);
    int64_t next_us = rpc_next_us(worker->rpc);
    if (next_us <= now_us) {
        rpc_tick(worker->rpc, now_us);
        next_us = rpc_next_us(worker->rpc);
    }
    next_us = clock_earlier_us(next_us, tasks_tick(&worker->tasks, now_us));
    return clock_earlier_us(next_us, tasks_retry(&worker->tasks, now_us));
}

/* ---- Messages to the node. */

/* Names the cause of MR_CLOSED: the transport may return it before the link to the node closes. */
static mr_status say_gone(mr_status status) {
    return status == MR_CLOSED ? error_wrap(status, "the node is gone") : status;
}

mr_status core_worker_use(core_worker *worker, uint64_t process, peer_link_user *user, peer_link **out) {
    if (worker->over != NULL) return failure_raise(worker->over);
    return say_gone(peer_links_use(&worker->links, process, user, out));
}

/* The request does not overtake earlier messages: a task requests a worker in a group that the node already knows. */
mr_status core_worker_ask_node(core_worker *worker, wire_method method, const wire_message *message, wire_call *call) {
    if (worker->over != NULL) return failure_raise(worker->over);
    if (!list_empty(&worker->deferrals) && method != NODE_JOIN)
        return error_set(MR_BUSY,
                         "the queue from process %d to the node is full; retry, or submit from fewer processes",
                         worker->pid);
    mr_status status = say_gone(wire_ask(worker->rpc, worker->node, method, message, call));
    if (status == MR_OK) core_worker_stir(worker);
    return status;
}

static mr_status try_tell(core_worker *worker, wire_method method, span fields) {
    if (worker->over != NULL) return failure_raise(worker->over);
    mr_status status = wire_tell(worker->rpc, worker->node, method, fields);
    if (status == MR_OK) core_worker_stir(worker);
    return status;
}

typedef struct deferred { /* message to the node for which there was no room */
    list place;
    wire_method method;
    size_t size;
    uint8_t fields[];
} deferred;

void core_worker_tell_node(core_worker *worker, wire_method method, span fields) {
    if (list_empty(&worker->deferrals) && try_tell(worker, method, fields) != MR_BUSY) return;
    deferred *deferred = xmalloc(sizeof *deferred + fields.size);
    deferred->method = method;
    deferred->size = fields.size;
    if (fields.size > 0) memcpy(deferred->fields, fields.data, fields.size);
    list_push_back(&worker->deferrals, &deferred->place);
}

static void tell_again(core_worker *worker) {
    while (!list_empty(&worker->deferrals)) {
        deferred *deferred = container_of(worker->deferrals.next, struct deferred, place);
        if (try_tell(worker, deferred->method, span_of(deferred->fields, deferred->size)) == MR_BUSY) return;
        list_remove(&deferred->place);
        free(deferred);
    }
}

/* ---- Handles of actors. */

/* Sends NODE_ACTOR_HOLD or NODE_ACTOR_DROP for one actor. */
static mr_status send_handle(void *context, borrow_message *message) {
    core_worker *worker = container_of(context, struct core_worker, handles);
    mr_actor actor = {{message->owner, message->serials[0]}};
    FAILPOINT("runtime.handle_tell");
    if (worker->over != NULL) return failure_raise(worker->over);
    MR_TRY(borrow_message_send(&worker->handles.borrow, worker->rpc, worker->node,
                               message->verb == BORROW ? NODE_ACTOR_HOLD : NODE_ACTOR_DROP,
                               span_of(&actor, sizeof actor), message));
    core_worker_stir(worker);
    return MR_OK;
}

static bool part_from_actor(actor_handles *handles, mr_actor actor) {
    core_worker *worker = container_of(handles, struct core_worker, handles);
    core_worker_stir(worker); /* NODE_ACTOR_DROP is sent by the next tick */
    return actors_part(&worker->actors, actor);
}

/* ---- Waits for the store server. */

static mr_status wait_for_store_server(void *context, int64_t timeout_us) {
    core_worker *worker = context;
    if (worker->over != NULL) return MR_CLOSED;
    worker->memory_waits++;
    mr_status status = worker->host->wait(worker->host->context, timeout_us);
    worker->memory_waits--;
    return status != MR_OK || worker->over == NULL ? status : MR_CLOSED;
}

static void store_server_answered(void *context) {
    core_worker *worker = context;
    result_holds_feed(&worker->holds);
    if (!list_empty(&worker->actors.creations)) actors_feed(&worker->actors);
    if (worker->host->answered != NULL) worker->host->answered(worker->host->context);
}

/* ---- Start and end. */

void core_worker_init(core_worker *worker, const env *env, const core_worker_host *host, wire_role role, int pid) {
    *worker = (struct core_worker){.env = env, .host = host, .role = role, .pid = pid};
    snprintf(worker->origin, sizeof worker->origin, "%sprocess %d", role == WIRE_WORKER ? "worker " : "", pid);
    worker->rpc = rpc_create(env, &handlers, worker);
    borrow_rpc_init(&worker->borrow_rpc, worker);
    actor_handles_init(&worker->handles, send_handle, part_from_actor);
    result_holds_init(&worker->holds, worker->rpc, &worker->borrow_rpc);
    peer_links_init(&worker->links, env, host->address, host->context);
    reply_queue_init(&worker->replies);
    list_init(&worker->deferrals);
    tasks_init(&worker->tasks, worker);
    actors_init(&worker->actors, worker);
    stream_readers_init(&worker->readers, worker);
    placement_cache_init(&worker->cache, worker);
}

mr_status core_worker_start(core_worker *worker, uint64_t process, const arena *arena) {
    store_provider_host host = {worker, worker->host->wait == NULL ? NULL : wait_for_store_server,
                                store_server_answered};
    store_provider_init(&worker->provider, arena, process, worker->env->clock, &host);
    event_writer_init(&worker->writer, arena, worker->env->clock,
                      &(event_ring_identity){.process = process, .pid = (uint32_t)worker->pid, .role = worker->role});
    objects_init(&worker->objects, process);
    worker->objects.provider = &worker->provider;
    worker->objects.handles = &worker->handles;
    borrow_rpc_start(&worker->borrow_rpc);
    transport transport = worker->env->transport;
    return say_gone(transport.ops->open(transport.self, worker->host->node, &worker->node));
}

void core_worker_end(core_worker *worker, failure *why) {
    if (worker->over != NULL) {
        failure_unref(why);
        return;
    }
    worker->over = why;
    tasks_over(&worker->tasks, why);
    actors_over(&worker->actors, why);
    if (worker->worker != NULL) worker->worker_ops->over(worker->worker);
    core_worker_stir(worker);
}

void core_worker_leave(core_worker *worker, bool alone) {
    event_writer_close(&worker->writer);
    store_provider_close(&worker->provider, alone);
}

void core_worker_fini(core_worker *worker) {
    rpc_destroy(worker->rpc);
    if (worker->worker != NULL) worker->worker_ops->destroy(worker->worker);
    reply_queue_fini(&worker->replies);
    for (list *at; (at = list_pop_front(&worker->deferrals)) != NULL;) free(container_of(at, deferred, place));
    event_writer_fini(&worker->writer);
    stream_readers_fini(&worker->readers);
    placement_cache_fini(&worker->cache);
    tasks_fini(&worker->tasks);
    actors_fini(&worker->actors);
    result_holds_fini(&worker->holds);
    borrow_rpc_fini(&worker->borrow_rpc);
    peer_links_fini(&worker->links);
    name_table_fini(&worker->names);
    objects_fini(&worker->objects);
    actor_handles_fini(&worker->handles);
    store_provider_fini(&worker->provider);
    failure_unref(worker->over);
}
