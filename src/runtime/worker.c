/* worker.c — see worker.h. */
#include "runtime/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/client.h"
#include "runtime/registry.h"

typedef struct answer { /* one that found no room */
    list place;
    call_token token;
    bundle *values;
    failure *failed;
} answer;

struct worker {
    client *client;
    list queue;   /* of mr_call: to be run, in the order they came */
    list running; /* of mr_call: taken */
    list answers; /* of answer */
    bool over;
    bool is_actor;
    mr_actor actor;
    char class_name[256];
    call_self self;
};

worker *worker_create(client *client) {
    worker *worker = xcalloc(1, sizeof *worker);
    worker->client = client;
    list_init(&worker->queue);
    list_init(&worker->running);
    list_init(&worker->answers);
    return worker;
}

static void call_free(mr_call *call) {
    list_remove(&call->place);
    call_fini(call);
    free(call);
}

void worker_destroy(worker *worker) {
    while (!list_empty(&worker->queue)) call_free(container_of(worker->queue.next, mr_call, place));
    while (!list_empty(&worker->running)) call_free(container_of(worker->running.next, mr_call, place));
    for (list *at; (at = list_pop_front(&worker->answers)) != NULL;) {
        answer *answer = container_of(at, struct answer, place);
        bundle_unref(answer->values);
        failure_unref(answer->failed);
        free(answer);
    }
    if (worker->self.destroy != NULL) worker->self.destroy(worker->self.state);
    free(worker);
}

/* ---- Answering. References are taken over. */

static mr_status try_answer(worker *worker, call_token token, bundle *values, failure *failed) {
    return failed != NULL ? wire_answer_failure(worker->client->calls, token, failed)
                          : wire_answer_values(worker->client->calls, token, values);
}

/* What it names is kept until the asker has taken it. */
static void sent(worker *worker, call_token token, bundle *values) {
    if (values != NULL && values->cargo != NULL) transit_keep(&worker->client->transit, token, values);
}

static void send_answer(worker *worker, call_token token, bundle *values, failure *failed) {
    bool keep = !list_empty(&worker->answers); /* in order, behind those that wait */
    if (!keep) {
        mr_status status = try_answer(worker, token, values, failed);
        if (status == MR_TOO_LARGE || status == MR_NOMEM) {
            failure *reason = failure_create(status, mr_last_error(), worker->client->origin, NULL);
            status = try_answer(worker, token, NULL, reason);
            failure_unref(reason);
        } else if (status == MR_OK) {
            sent(worker, token, values);
        }
        keep = status == MR_BUSY;
    }
    if (!keep) {
        bundle_unref(values);
        failure_unref(failed);
        return;
    }
    answer *answer = xcalloc(1, sizeof *answer);
    *answer = (struct answer){.token = token, .values = values, .failed = failed};
    list_push_back(&worker->answers, &answer->place);
}

void worker_room(worker *worker) {
    while (!list_empty(&worker->answers)) {
        answer *answer = container_of(worker->answers.next, struct answer, place);
        mr_status status = try_answer(worker, answer->token, answer->values, answer->failed);
        if (status == MR_BUSY) return;
        if (status == MR_OK) sent(worker, answer->token, answer->values);
        list_remove(&answer->place);
        bundle_unref(answer->values);
        failure_unref(answer->failed);
        free(answer);
    }
}

/* ---- Requests. */

static mr_status read_request(const call_request *request, mr_call *call) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    if (request->method != WORKER_TASK) call->actor = wire_get_actor(&reader);
    span name = wire_get_name(&reader);
    if (reader.failed) {
        wire_body_drop(request->body.data);
        return error_set(MR_CORRUPT, "a request that cannot be read");
    }
    if (name.size > 0) memcpy(call->name, name.data, name.size);
    return wire_take_bundle(&reader, request->payload, request->body, &call->args);
}

void worker_request(worker *worker, const call_request *request) {
    mr_call *call = xcalloc(1, sizeof *call);
    list_init(&call->place);
    call->mr = worker->client->host->mr;
    call->token = request->token;
    call->method = request->method;
    if (request->method < WORKER_TASK || request->method > WORKER_ACTOR_CALL) {
        wire_body_drop(request->body.data);
        wire_refuse(worker->client->calls, request->token, MR_INVALID, "a worker does not know this method");
        free(call);
        return;
    }
    mr_status status = read_request(request, call);
    if (status != MR_OK) {
        wire_refuse(worker->client->calls, request->token, status, mr_last_error());
        free(call);
        return;
    }
    list_push_back(&worker->queue, &call->place);
    worker->client->host->called(worker->client->host->context);
}

static bool same_token(call_token a, call_token b) { return a.link.v == b.link.v && a.number == b.number; }

void worker_cancel(worker *worker, call_token token) {
    list_for_each (at, &worker->queue) {
        mr_call *call = container_of(at, mr_call, place);
        if (same_token(call->token, token)) call_free(call);
    }
    list_for_each (at, &worker->running) {
        mr_call *call = container_of(at, mr_call, place);
        if (same_token(call->token, token)) call->cancelled = true;
    }
}

void worker_over(worker *worker) {
    worker->over = true;
    worker->client->host->called(worker->client->host->context);
}

/* ---- Running. */

static mr_status no_such(const char *what, const mr_call *call, const char *known) {
    return error_set(MR_NOT_FOUND, "%s '%s' does not exist in this program; there is: %s", what, call->name,
                     known[0] != '\0' ? known : "none");
}

static mr_status find_body(worker *worker, mr_call *call, mr_body_fn **out) {
    char known[512];
    size_t size = strlen(call->name);
    if (call->method == WORKER_TASK) {
        if (worker->is_actor) return error_set(MR_INVALID, "this worker is an actor and runs no tasks");
        *out = registry_task(call->name, size);
        registry_tasks_text(known, sizeof known);
        return *out != NULL ? MR_OK : no_such("task", call, known);
    }
    if (call->method == WORKER_ACTOR_INIT) {
        if (worker->is_actor) return error_set(MR_INVALID, "this worker is an actor already");
        worker->is_actor = true;
        worker->actor = call->actor;
        strcpy(worker->class_name, call->name);
        *out = registry_method(call->name, size, NULL, 0);
        registry_classes_text(known, sizeof known);
        return *out != NULL || registry_class(call->name, size) ? MR_OK : no_such("class", call, known);
    }
    if (!worker->is_actor || memcmp(&worker->actor, &call->actor, sizeof call->actor) != 0)
        return error_set(MR_ACTOR_DIED, "that actor does not live here");
    *out = size == 0 ? NULL : registry_method(worker->class_name, strlen(worker->class_name), call->name, size);
    registry_methods_text(worker->class_name, strlen(worker->class_name), known, sizeof known);
    return *out != NULL ? MR_OK : no_such("method", call, known);
}

static failure *failure_of(const worker *worker, const mr_call *call, mr_status status) {
    char origin[420];
    const char *kind = call->method == WORKER_TASK ? "task" : call->method == WORKER_ACTOR_INIT ? "class" : "method";
    snprintf(origin, sizeof origin, "%s '%s' in %s", kind, call->name, worker->client->origin);
    const char *text = call->message != NULL ? call->message : mr_last_error();
    failure *made = failure_create(status, text[0] != '\0' ? text : mr_status_text(status), origin, NULL);
    failure_attach(made, span_of(call->detail, call->detail_size));
    return made;
}

mr_call *worker_next(worker *worker) {
    list *at = list_pop_front(&worker->queue);
    if (at == NULL) return NULL;
    list_push_back(&worker->running, at);
    return container_of(at, mr_call, place);
}

static mr_status run_body(worker *worker, mr_call *call) {
    mr_body_fn *body = NULL;
    MR_TRY(find_body(worker, call, &body));
    MR_TRY(call_open_args(call));
    if (call->method != WORKER_TASK) call->self = &worker->self;
    error_clear();
    return body == NULL ? MR_OK : body(call); /* a class may do without MR_CREATE */
}

void worker_show(worker *worker, mr_call *call) {
    mr_status status = call_show_args(call, &worker->client->shelf);
    if (status != MR_OK) call->failed = failure_of(worker, call, status);
}

void worker_run(worker *worker, mr_call *call) {
    if (call->failed != NULL) return;
    mr_status status = run_body(worker, call);
    if (status == MR_OK && call->result == NULL) status = mr_return(call, mr_nil());
    if (status != MR_OK) call->failed = failure_of(worker, call, status);
}

void worker_finish(worker *worker, mr_call *call) {
    bundle *values = call->failed == NULL ? bundle_ref(call->result) : NULL;
    failure *failed = call->failed;
    call->failed = NULL;
    send_answer(worker, call->token, values, failed);
    call_free(call);
}

bool worker_is_over(const worker *worker) { return worker->over; }
bool worker_is_running(const worker *worker) { return !list_empty(&worker->running); }

size_t worker_queued(const worker *worker) {
    size_t count = 0;
    list_for_each (at, &worker->queue) count++;
    return count;
}
