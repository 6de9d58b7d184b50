/* context.c — see context.h. */
#include "runtime/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/futex.h"
#include "runtime/worker.h"

enum {
    HELPER_TICK_US = 2000,
    HELPER_QUIET_TICKS = 50, /* then it parks */
    JOIN_TIMEOUT_US = 10 * 1000 * 1000,
    TICK_US = 50 * 1000, /* idle leases are looked at this often */
};

/* ---- Peers. */

static context_peer *peer_by_link(mr_context *mr, link_id link) {
    list_for_each (at, &mr->peers) {
        context_peer *peer = container_of(at, context_peer, place);
        if (peer->link.v == link.v) return peer;
    }
    return NULL;
}

mr_status context_use(mr_context *mr, uint64_t process, context_user *user, context_peer **out) {
    if (mr->over != NULL) return failure_raise(mr->over);
    context_peer *found = NULL;
    list_for_each (at, &mr->peers) {
        context_peer *peer = container_of(at, context_peer, place);
        if (peer->process == process) found = peer;
    }
    if (found == NULL) {
        char address[32];
        link_id link;
        snprintf(address, sizeof address, "shm:#%llx", (unsigned long long)process);
        MR_TRY(mr->env.transport.ops->open(mr->env.transport.self, address, &link));
        found = xcalloc(1, sizeof *found);
        found->process = process;
        found->link = link;
        list_init(&found->users);
        list_push_back(&mr->peers, &found->place);
    }
    list_push_back(&found->users, &user->place);
    *out = found;
    return MR_OK;
}

void context_leave(context_user *user) { list_remove(&user->place); }

bool context_unreachable(const context_peer *peer, const cause *why) {
    bool gone = why->status == MR_PEER_DIED || why->status == MR_NOT_FOUND || why->status == MR_CLOSED;
    return !peer->open && !gone;
}

/* ---- Events of the calls. */

static void on_request(void *context, const call_request *request) {
    mr_context *mr = context;
    mr->activity++;
    if (request->method == CLIENT_RECLAIM) {
        reader reader = reader_of(request->payload.data, request->payload.size);
        tasks_reclaim(&mr->tasks, reader_u64(&reader));
        if (wire_answer(mr->calls, request->token, (span){0}) != MR_OK) return; /* the node does not wait for it */
        return;
    }
    if (mr->worker != NULL) {
        worker_request(mr->worker, request);
        return;
    }
    wire_body_drop(request->body.data);
    wire_refuse(mr->calls, request->token, MR_INVALID, "this process is no worker");
}

static void on_cancel(void *context, call_token token) {
    mr_context *mr = context;
    if (mr->worker != NULL) worker_cancel(mr->worker, token);
}

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    return wire_body_room(size);
}

static void on_link_open(void *context, link_id link, const peer *who) {
    mr_context *mr = context;
    if (link.v == mr->node.v) mr->node_open = true;
    context_peer *peer = peer_by_link(mr, link);
    if (peer == NULL) return; /* opened by the other side: it asks, we answer */
    peer->open = true;
    list_for_each (at, &peer->users) {
        context_user *user = container_of(at, context_user, place);
        user->opened(user);
    }
}

static void on_link_closed(void *context, link_id link, const cause *why) {
    mr_context *mr = context;
    mr->activity++;
    if (link.v == mr->node.v) {
        mr->node_open = false;
        if (mr->over == NULL) {
            mr->over = failure_create(MR_CLOSED, why->text, "the node is gone", NULL);
            tasks_over(&mr->tasks, mr->over);
            actors_over(&mr->actors, mr->over);
            if (mr->worker != NULL) worker_over(mr->worker);
        }
    }
    context_peer *peer = peer_by_link(mr, link);
    if (peer == NULL) return;
    list_remove(&peer->place);
    for (list *at; (at = list_pop_front(&peer->users)) != NULL;) {
        context_user *user = container_of(at, context_user, place);
        user->closed(user, why);
    }
    free(peer);
}

static void on_room(void *context, link_id link) {
    mr_context *mr = context;
    if (mr->worker != NULL) worker_room(mr->worker);
    tasks_feed(&mr->tasks);
    actors_feed(&mr->actors);
}

static const call_handlers handlers = {.on_request = on_request,
                                       .on_cancel = on_cancel,
                                       .on_body = on_body,
                                       .on_link_open = on_link_open,
                                       .on_link_closed = on_link_closed,
                                       .on_room = on_room};

/* ---- Driving. */

/* One look, with the lock held. Returns whether anything was there. */
static bool look(mr_context *mr) {
    if (port_poll(mr->port) == 0) return false;
    mr->activity++;
    return true;
}

/* Deadlines and idle leases. Returns when it wants to be called again. */
static int64_t tick(mr_context *mr, int64_t now_us) {
    int64_t next_us = calls_next_us(mr->calls);
    if (next_us <= now_us) {
        calls_tick(mr->calls, now_us);
        next_us = calls_next_us(mr->calls);
    }
    if (tasks_tick(&mr->tasks, now_us) && now_us + TICK_US < next_us) next_us = now_us + TICK_US;
    return next_us;
}

static void wait_for_more(mr_context *mr, int64_t deadline_us) {
    int64_t now_us = clock_now_us(mr->env.clock), until_us = tick(mr, now_us);
    if (deadline_us < until_us) until_us = deadline_us;
    port_wait(mr->port, &mr->baton, until_us == CLOCK_NEVER_US ? -1 : until_us > now_us ? until_us - now_us : 0);
}

mr_status context_wait(mr_context *mr, baton_waiter *waiter, int64_t timeout_us) {
    int64_t deadline_us = timeout_us < 0 ? CLOCK_NEVER_US : clock_deadline_us(clock_now_us(mr->env.clock), timeout_us);
    for (;;) {
        int64_t left = timeout_us < 0 ? -1 : deadline_us - clock_now_us(mr->env.clock);
        baton_turn turn = baton_wait(&mr->baton, waiter, timeout_us < 0 ? -1 : left > 0 ? left : 0);
        if (turn == BATON_DONE) return MR_OK;
        if (turn == BATON_TIMEOUT) return error_set(MR_TIMEOUT, "not there in time");
        bool late = false;
        while (!waiter->done && !late) {
            if (look(mr)) continue;
            late = deadline_us != CLOCK_NEVER_US && clock_now_us(mr->env.clock) >= deadline_us;
            if (!late) wait_for_more(mr, deadline_us);
        }
        baton_pass(&mr->baton);
        if (waiter->done) return MR_OK;
        if (late) return error_set(MR_TIMEOUT, "not there in time");
    }
}

/* ---- The helper. */

static void helper_wake(mr_context *mr) {
    atomic_fetch_add(&mr->helper_word, 1);
    futex_wake(&mr->helper_word, FUTEX_WITHIN);
}

void context_stir(mr_context *mr) {
    mr->activity++;
    if (atomic_load_explicit(&mr->helper_parked, memory_order_relaxed) != 0) helper_wake(mr);
}

/* Drives for a tick, if nobody else does. A thread that comes to wait meanwhile is in line and gets the baton next. */
static void helper_drive(mr_context *mr) {
    baton_waiter waiter;
    baton_waiter_init(&waiter);
    if (baton_wait(&mr->baton, &waiter, 0) != BATON_DRIVE) return;
    while (look(mr)) {}
    if (list_empty(&mr->baton.line) && !mr->stopping) wait_for_more(mr, clock_now_us(mr->env.clock) + HELPER_TICK_US);
    while (look(mr)) {}
    baton_pass(&mr->baton);
}

static void *helper_main(void *argument) {
    mr_context *mr = argument;
    uint64_t activity = 0;
    int quiet = 0;
    context_lock(mr);
    while (!mr->stopping) {
        uint32_t seen = atomic_load(&mr->helper_word);
        quiet = mr->activity == activity ? quiet + 1 : 0;
        activity = mr->activity;
        bool park = quiet > HELPER_QUIET_TICKS && calls_open_count(mr->calls) == 0 && !tasks_have_leases(&mr->tasks);
        atomic_store(&mr->helper_parked, park);
        if (!park && !mr->baton.driven && calls_open_count(mr->calls) > 0) {
            helper_drive(mr);
            continue;
        }
        if (!park) tick(mr, clock_now_us(mr->env.clock));
        context_unlock(mr);
        futex_wait(&mr->helper_word, seen, park ? -1 : HELPER_TICK_US, FUTEX_WITHIN);
        context_lock(mr);
    }
    context_unlock(mr);
    return NULL;
}

/* ---- Asking the node. */

failure *context_lost(mr_context *mr, failure *cause, mr_status code, const char *message, const char *origin) {
    if (mr->over == NULL) return failure_create(code, message, origin, cause);
    failure_unref(cause);
    return failure_create(mr->over->code, "was lost", origin, failure_ref(mr->over));
}

mr_status context_ask_node(mr_context *mr, wire_method method, const wire_message *message, wire_call *call) {
    if (mr->over != NULL) return failure_raise(mr->over);
    mr_status status = wire_ask(mr->calls, mr->node, method, message, call);
    if (status == MR_OK) context_stir(mr);
    return status;
}

static void told(wire_call *call, const call_result *result) { wire_call_end(call); }
static void told_free(wire_call *call) { free(call); }

void context_tell_node(mr_context *mr, wire_method method, span fields) {
    wire_call *call = xcalloc(1, sizeof *call);
    *call = (wire_call){.done = told, .free = told_free};
    if (context_ask_node(mr, method, &(wire_message){.fields = fields}, call) != MR_OK) free(call);
}

typedef struct node_answer {
    wire_call call;
    mr_context *mr;
    baton_waiter waiter;
    mr_status status;
    char text[512];
    uint8_t *answer;
    size_t size, answer_size;
} node_answer;

static void node_answered(wire_call *call, const call_result *result) {
    node_answer *answer = container_of(call, node_answer, call);
    answer->status = result->status;
    if (result->status != MR_OK) {
        failure *failure = wire_failure(result, "the node");
        failure_text(failure, answer->text, sizeof answer->text);
        failure_unref(failure);
    } else if (result->payload.size <= answer->size) {
        answer->answer_size = result->payload.size;
        if (result->payload.size > 0) memcpy(answer->answer, result->payload.data, result->payload.size);
    } else {
        answer->status = MR_CORRUPT;
        snprintf(answer->text, sizeof answer->text, "the node's answer is too long");
    }
    baton_finish(&answer->mr->baton, &answer->waiter);
}

static void not_freed(wire_call *call) {}

mr_status context_call_node(mr_context *mr, wire_method method, const wire_message *message, void *out, size_t size,
                            size_t *answer_size) {
    node_answer answer = {.call = {.done = node_answered, .free = not_freed}, .mr = mr, .answer = out, .size = size};
    baton_waiter_init(&answer.waiter);
    for (;;) {
        mr_status status = context_ask_node(mr, method, message, &answer.call);
        if (status == MR_OK) break;
        if (status != MR_BUSY) return status;
        baton_waiter pause;
        baton_waiter_init(&pause);
        if (context_wait(mr, &pause, 1000) == MR_OK) MR_UNREACHABLE();
    }
    MR_TRY(context_wait(mr, &answer.waiter, -1));
    if (answer.status != MR_OK) return error_set(answer.status, "%s", answer.text);
    if (answer_size != NULL) *answer_size = answer.answer_size;
    return MR_OK;
}

/* ---- Life. */

static mr_status join_node(mr_context *mr, wire_role role) {
    MR_TRY(mr->env.transport.ops->open(mr->env.transport.self, "shm:node", &mr->node));
    int64_t deadline_us = clock_now_us(mr->env.clock) + JOIN_TIMEOUT_US;
    while (!mr->node_open && mr->over == NULL) {
        if (clock_now_us(mr->env.clock) > deadline_us)
            return error_set(MR_TIMEOUT, "the node did not answer within %d s", JOIN_TIMEOUT_US / 1000000);
        if (!look(mr)) wait_for_more(mr, clock_now_us(mr->env.clock) + 100 * 1000);
    }
    uint8_t fields[16], answer[8];
    writer writer = writer_of(fields, sizeof fields);
    writer_u32(&writer, WIRE_VERSION);
    writer_u8(&writer, (uint8_t)role);
    writer_u32(&writer, (uint32_t)getpid());
    wire_message message = {.fields = span_of(fields, writer_size(&writer))};
    size_t size;
    MR_TRY(context_call_node(mr, NODE_JOIN, &message, answer, sizeof answer, &size));
    reader reader = reader_of(answer, size);
    mr->workers = reader_u32(&reader);
    return reader.failed ? error_set(MR_CORRUPT, "the node's greeting cannot be read") : MR_OK;
}

mr_status context_open(const char *path, const char *name, wire_role role, mr_context **out) {
    mr_context *mr = xcalloc(1, sizeof *mr);
    baton_init(&mr->baton);
    list_init(&mr->peers);
    rng_init(&mr->rng, rng_system_seed());
    mr->lifeline_fd = -1;
    mr->env = (env){.clock = clock_real(), .rng = &mr->rng};
    snprintf(mr->origin, sizeof mr->origin, "process %d", (int)getpid());
    mr->calls = calls_create(&mr->env, &handlers, mr);
    mr_status status = port_open(&(port_options){.hub = path, .name = name}, &calls_events, mr->calls, &mr->port);
    if (status != MR_OK) goto destroy_calls;
    mr->env.transport = port_transport(mr->port);
    objects_init(&mr->objects, port_process(mr->port));
    tasks_init(&mr->tasks, mr);
    actors_init(&mr->actors, mr);
    if (role == WIRE_WORKER) mr->worker = worker_create(mr); /* work may come as soon as the node knows us */
    context_lock(mr);
    status = join_node(mr, role);
    context_unlock(mr);
    if (status != MR_OK) goto close_port;
    int failed = pthread_create(&mr->helper, NULL, helper_main, mr);
    if (failed != 0) {
        errno = failed;
        status = error_errno("no thread for the runtime");
        goto close_port;
    }
    mr->has_helper = true;
    *out = mr;
    return MR_OK;

close_port:
    context_close(mr);
    return status;
destroy_calls:
    calls_destroy(mr->calls);
    free(mr);
    return status;
}

void context_close(mr_context *mr) {
    if (mr->has_helper) {
        context_lock(mr);
        mr->stopping = true;
        context_unlock(mr);
        helper_wake(mr);
        pthread_join(mr->helper, NULL);
    }
    context_lock(mr);
    if (mr->over == NULL) mr->over = failure_create(MR_CLOSED, "the runtime was shut down", "", NULL);
    tasks_over(&mr->tasks, mr->over);
    actors_over(&mr->actors, mr->over);
    context_unlock(mr);
    port_close(mr->port); /* ends every call */
    calls_destroy(mr->calls);
    if (mr->worker != NULL) worker_destroy(mr->worker);
    tasks_fini(&mr->tasks);
    actors_fini(&mr->actors);
    objects_fini(&mr->objects);
    failure_unref(mr->over);
    free(mr);
}
