/* client.c — see client.h. Tested by tests/runtime_life_test.c. */
#include "runtime/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/mutation.h"
#include "runtime/look/look.h"
#include "runtime/refs/saying.h"

enum { TICK_US = 50 * 1000 /* idle leases are looked at this often */ };

/* ---- Joining. */

/* Asks for what a process may do without; again if there was no room to ask. */
static void settle_in(client *client) {
    if (client->role == WIRE_WATCHER) return;
    shelf_join(&client->shelf, client->calls, client->node);
    diary_join(&client->diary, client->calls, client->node);
}

static void join_answered(wire_call *call, const call_result *result) {
    client *client = container_of(call, struct client, joining);
    reader reader = reader_of(result->payload.data, result->payload.size);
    if (result->status == MR_OK) {
        client->workers = reader_u32(&reader);
        client->program = reader_u32(&reader);
    }
    if (result->status != MR_OK)
        client_end(client, wire_failure(result, "the node"));
    else if (reader.failed)
        client_end(client, failure_create(MR_CORRUPT, "malformed answer of the node to a join request", "", NULL));
    else
        client->joined = true;
    if (client->joined) settle_in(client);
    *call = (wire_call){.done = call->done};
}

/* A link that is full says so, and on_room brings us here again. */
static void join(client *client) {
    if (client->joined || client->over != NULL || client->joining.id.number != 0) return;
    const span about = client->host->about;
    size_t size = 4 + 1 + 4 + about.size;
    void *fields;
    mr_status status = alloc_try(size, &fields);
    if (status == MR_OK) {
        writer writer = writer_of(fields, size);
        writer_u32(&writer, WIRE_VERSION);
        writer_u8(&writer, (uint8_t)client->role);
        writer_u32(&writer, (uint32_t)client->pid);
        writer_bytes(&writer, about.data, about.size);
        client->joining = (wire_call){.done = join_answered};
        wire_message message = {.fields = span_of(fields, size)};
        status = client_ask_node(client, NODE_JOIN, &message, &client->joining);
        free(fields);
    }
    if (status == MR_OK && client->role == WIRE_WORKER) /* right behind it, to be there before the first call is */
        diary_join(&client->diary, client->calls, client->node);
    if (status != MR_OK && status != MR_BUSY)
        client_end(client, failure_create(status, mr_last_error(), "the node", NULL));
}

/* ---- Events of the calls. */

/* What workers have printed. True: the host answers when it was shown. */
static bool print(client *client, reader *reader, call_token token) {
    uint8_t where = reader_u8(reader);
    span text = reader_span32(reader);
    if (client->host->print == NULL || reader->failed || where >= OUTLETS) return false;
    client->host->print(client->host->context, where, text, token);
    return true;
}

static void see_gpus(const client *client, reader *reader) {
    span devices = wire_get_name(reader);
    if (client->host->see_gpus != NULL && !reader->failed) client->host->see_gpus(client->host->context, devices);
}

/* Anything but work. */
static __attribute__((noinline)) void on_other_request(client *client, const call_request *request) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    bool answered = false;
    switch (request->method) {
    case CLIENT_RECLAIM: tasks_reclaim(&client->tasks, reader_u64(&reader)); break;
    case CLIENT_GROUP_GONE: placed_forget(&client->placed, reader_u64(&reader)); break;
    case CLIENT_STORE: shelf_poll(&client->shelf); break;
    case WORKER_GPUS: see_gpus(client, &reader); break;
    case CLIENT_PRINT: answered = print(client, &reader, request->token); break;
    case CLIENT_LOOK: look_answer(client, request); return;
    case CLIENT_TOOK:
        transit_took(&client->transit, request->token, request->payload);
        answered = true;
        break;
    default:
        if (lender_request(&client->lender, request)) return;
        if (client->worker != NULL) {
            client->worker_ops->request(client->worker, request);
            return;
        }
        wire_refuse(client->calls, request->token, MR_INVALID, "this process is not a worker");
        answered = true;
    }
    wire_body_drop(request->body.data);
    if (!answered && wire_answer(client->calls, request->token, (span){0}) != MR_OK)
        error_clear(); /* the node does not wait for it */
}

static void on_request(void *context, const call_request *request) {
    client *client = context;
    if (client->worker != NULL && wire_is_work(request->method))
        client->worker_ops->request(client->worker, request);
    else
        on_other_request(client, request);
}

static void on_cancel(void *context, call_token token) {
    client *client = context;
    if (client->worker != NULL) client->worker_ops->cancel(client->worker, token);
    lender_cancelled(&client->lender, token);
}

static void on_crossed(void *context, call_token token) {
    client *client = context;
    if (!MUTATED("no-crossing")) transit_crossed(&client->transit, token);
}

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    client *client = context;
    return client->worker != NULL ? client->worker_ops->body_room(client->worker, size) : wire_body_room(size);
}

static void on_link_open(void *context, link_id link, const peer *who) {
    client *client = context;
    if (link.v == client->node.v) join(client);
    diary_link(&client->diary, link, who->process);
    routes_opened(&client->routes, link);
}

static void on_link_closed(void *context, link_id link, const cause *why) {
    client *client = context;
    if (link.v == client->node.v) client_end(client, failure_create(MR_CLOSED, why->text, "the node is gone", NULL));
    transit_closed(&client->transit, link);
    diary_unlink(&client->diary, link);
    lender_closed(&client->lender, link);
    routes_closed(&client->routes, link, why);
    if (client->worker != NULL) client->worker_ops->link_closed(client->worker, link);
}

static void tell_again(client *client);

static void on_room(void *context, link_id link) {
    client *client = context;
    if (link.v == client->node.v) join(client);
    tell_again(client);
    if (client->joined) settle_in(client);
    if (client->worker != NULL) client->worker_ops->room(client->worker);
    late_room(&client->late, client->calls);
    lender_feed(&client->lender);
    handles_feed(&client->handles);
    transit_feed(&client->transit);
    tasks_feed(&client->tasks);
    actors_feed(&client->actors);
    flows_feed(&client->flows);
}

static const call_handlers handlers = {.on_request = on_request,
                                       .on_cancel = on_cancel,
                                       .on_crossed = on_crossed,
                                       .on_body = on_body,
                                       .on_link_open = on_link_open,
                                       .on_link_closed = on_link_closed,
                                       .on_room = on_room};

int64_t client_tick(client *client, int64_t now_us) {
    client->now_us = now_us;
    lender_feed(&client->lender);
    handles_feed(&client->handles);
    int64_t next_us = calls_next_us(client->calls);
    if (next_us <= now_us) {
        calls_tick(client->calls, now_us);
        next_us = calls_next_us(client->calls);
    }
    if (tasks_tick(&client->tasks, now_us) && now_us + TICK_US < next_us) next_us = now_us + TICK_US;
    return next_us;
}

/* ---- Asking. */

/* The transport may know it before the link to the node says so. */
static mr_status say_gone(mr_status status) {
    return status == MR_CLOSED ? error_wrap(status, "the node is gone") : status;
}

mr_status client_use(client *client, uint64_t process, route_user *user, route **out) {
    if (client->over != NULL) return failure_raise(client->over);
    return say_gone(routes_use(&client->routes, process, user, out));
}

failure *client_lost(client *client, failure *cause, mr_status code, const char *message, const char *origin) {
    if (client->over == NULL) return failure_create(code, message, origin, cause);
    failure_unref(cause);
    return failure_create(client->over->code, "was lost", origin, failure_ref(client->over));
}

/* It does not overtake what was told before: a task asks for a worker in a group that the node has heard of. */
mr_status client_ask_node(client *client, wire_method method, const wire_message *message, wire_call *call) {
    if (client->over != NULL) return failure_raise(client->over);
    if (!list_empty(&client->tales) && method != NODE_JOIN)
        return error_set(MR_BUSY, "the node's queue is full; retry, or submit from fewer processes");
    mr_status status = say_gone(wire_ask(client->calls, client->node, method, message, call));
    if (status == MR_OK) client_stir(client);
    return status;
}

static mr_status try_tell(client *client, wire_method method, span fields) {
    if (client->over != NULL) return failure_raise(client->over);
    mr_status status = wire_tell(client->calls, client->node, method, fields);
    if (status == MR_OK) client_stir(client);
    return status;
}

typedef struct tale { /* for the node; there was no room for it */
    list place;
    wire_method method;
    size_t size;
    uint8_t fields[];
} tale;

void client_tell_node(client *client, wire_method method, span fields) {
    if (list_empty(&client->tales) && try_tell(client, method, fields) != MR_BUSY) return;
    tale *tale = xmalloc(sizeof *tale + fields.size);
    tale->method = method;
    tale->size = fields.size;
    if (fields.size > 0) memcpy(tale->fields, fields.data, fields.size);
    list_push_back(&client->tales, &tale->place);
}

static void tell_again(client *client) {
    while (!list_empty(&client->tales)) {
        tale *tale = container_of(client->tales.next, struct tale, place);
        if (try_tell(client, tale->method, span_of(tale->fields, tale->size)) == MR_BUSY) return;
        list_remove(&tale->place);
        free(tale);
    }
}

/* ---- Handles of actors. */

/* A hold or a drop of one actor. */
static mr_status send_handle(void *context, borrow_message *message) {
    client *client = container_of(context, struct client, handles);
    mr_actor actor = {{message->owner, message->serials[0]}};
    FAILPOINT("runtime.handle_tell");
    if (client->over != NULL) return failure_raise(client->over);
    MR_TRY(saying_send(&client->handles.borrow, client->calls, client->node,
                       message->verb == BORROW ? NODE_ACTOR_HOLD : NODE_ACTOR_DROP, span_of(&actor, sizeof actor),
                       message));
    client_stir(client);
    return MR_OK;
}

static bool part_from_actor(handles *handles, mr_actor actor) {
    return actors_part(&container_of(handles, client, handles)->actors, actor);
}

/* ---- The store's waiting. */

static mr_status wait_for_vault(void *context, int64_t timeout_us) {
    client *client = context;
    if (client->over != NULL) return MR_CLOSED;
    client->memory_waits++;
    mr_status status = client->host->wait(client->host->context, timeout_us);
    client->memory_waits--;
    return status != MR_OK || client->over == NULL ? status : MR_CLOSED;
}

static void vault_answered(void *context) {
    client *client = context;
    transit_feed(&client->transit);
    if (!list_empty(&client->actors.creations)) actors_feed(&client->actors);
    if (client->host->answered != NULL) client->host->answered(client->host->context);
}

/* ---- Life. */

void client_init(client *client, const env *env, const client_host *host, wire_role role, int pid) {
    *client = (struct client){.env = env, .host = host, .role = role, .pid = pid};
    snprintf(client->origin, sizeof client->origin, "%sprocess %d", role == WIRE_WORKER ? "worker " : "", pid);
    client->calls = calls_create(env, &handlers, client);
    lender_init(&client->lender, client);
    handles_init(&client->handles, send_handle, part_from_actor);
    transit_init(&client->transit, client->calls, &client->lender);
    routes_init(&client->routes, env, host->address, host->context);
    late_init(&client->late);
    list_init(&client->tales);
    tasks_init(&client->tasks, client);
    actors_init(&client->actors, client);
    flows_init(&client->flows, client);
    placed_init(&client->placed, client);
}

mr_status client_start(client *client, uint64_t process, const arena *arena) {
    shelf_host host = {client, client->host->wait == NULL ? NULL : wait_for_vault, vault_answered};
    shelf_init(&client->shelf, arena, process, client->env->clock, &host);
    diary_init(&client->diary, arena, client->env->clock,
               &(events_identity){.process = process, .pid = (uint32_t)client->pid, .role = client->role});
    objects_init(&client->objects, process);
    client->objects.shelf = &client->shelf;
    client->objects.handles = &client->handles;
    lender_start(&client->lender);
    transport transport = client->env->transport;
    return say_gone(transport.ops->open(transport.self, client->host->node, &client->node));
}

void client_end(client *client, failure *why) {
    if (client->over != NULL) {
        failure_unref(why);
        return;
    }
    client->over = why;
    tasks_over(&client->tasks, why);
    actors_over(&client->actors, why);
    if (client->worker != NULL) client->worker_ops->over(client->worker);
    client_stir(client);
}

void client_leave(client *client, bool alone) {
    diary_close(&client->diary);
    shelf_close(&client->shelf, alone);
}

void client_fini(client *client) {
    calls_destroy(client->calls);
    if (client->worker != NULL) client->worker_ops->destroy(client->worker);
    late_fini(&client->late);
    for (list *at; (at = list_pop_front(&client->tales)) != NULL;) free(container_of(at, tale, place));
    diary_fini(&client->diary);
    flows_fini(&client->flows);
    placed_fini(&client->placed);
    tasks_fini(&client->tasks);
    actors_fini(&client->actors);
    transit_fini(&client->transit);
    lender_fini(&client->lender);
    routes_fini(&client->routes);
    names_fini(&client->names);
    objects_fini(&client->objects);
    handles_fini(&client->handles);
    shelf_fini(&client->shelf);
    failure_unref(client->over);
}
