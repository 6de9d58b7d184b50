/* worker.c — see worker.h. */
#include "runtime/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/client.h"
#include "runtime/notice.h"
#include "runtime/registry.h"
#include "runtime/yield.h"

typedef struct known_names { /* what a link's other side calls by number */
    link_id link;
    name **by_number; /* owned; references; NULL: not told yet */
    uint32_t count;
} known_names;

struct worker {
    client *client;
    slab slab;    /* of mr_call */
    list queue;   /* of mr_call: to be run, in the order they came */
    list running; /* of mr_call: taken */
    list answers; /* of mr_call: done, but their answers found no room */
    list parting; /* of mr_call: done, but what is kept of their arguments is not borrowed yet */
    map names;    /* of known_names, by link */
    known_names *recent;
    bundle_spares spares; /* memory of arguments that are gone, for the next ones */
    name *speaker;        /* of the last task; a reference; NULL: none */
    uint64_t printed;     /* until it began, by whomever */
    uint64_t runs;        /* of bodies that are alone */
    uint32_t threads, running_count;
    uint32_t ticks;
    int64_t ticked_us;
    bool waits; /* so do the bodies that run: nothing stands in line behind them */
    bool over;
    bool leaves; /* over, but in peace: serve_out, and the state of an actor is to be destroyed */
    bool is_actor;
    mr_actor actor;
    char class_name[256];
    call_self self;
};

static mr_call *call_at(list *place) { return container_of(place, mr_call, place); }

worker *worker_create(client *client) {
    worker *worker = xcalloc_lines(sizeof *worker);
    worker->client = client;
    worker->threads = 1;
    slab_init(&worker->slab, sizeof(mr_call));
    list_init(&worker->queue);
    list_init(&worker->running);
    list_init(&worker->answers);
    list_init(&worker->parting);
    return worker;
}

static void call_free(worker *worker, mr_call *call) {
    list_remove(&call->place);
    if (call->args_owner != NULL && bundle_spares_keep(&worker->spares, call->args_owner)) call->args_owner = NULL;
    call_fini(call);
    slab_give(&worker->slab, call);
}

/* ---- Names by number. */

static void names_free(known_names *names) {
    for (uint32_t i = 0; i < names->count; i++) name_unref(names->by_number[i]);
    free(names->by_number);
    free(names);
}

static known_names *names_of(worker *worker, link_id link) {
    if (worker->recent != NULL && worker->recent->link.v == link.v) return worker->recent;
    known_names *names = map_get(&worker->names, link.v);
    if (names == NULL) {
        names = xcalloc(1, sizeof *names);
        names->link = link;
        map_put(&worker->names, link.v, names);
    }
    return worker->recent = names;
}

/* The other side's number stands for this name from now on. */
static mr_status learn(known_names *names, uint32_t number, name *name) {
    if (number > NAMES_MAX) return error_set(MR_CORRUPT, "a name has the number %u", number);
    if (number >= names->count) {
        void *table = names->by_number;
        uint32_t count = number < 16 ? 16 : 2 * number;
        MR_TRY(alloc_try_resize(&table, count * sizeof *names->by_number));
        names->by_number = table;
        memset(names->by_number + names->count, 0, (count - names->count) * sizeof *names->by_number);
        names->count = count;
    }
    name_unref(names->by_number[number]);
    names->by_number[number] = name_ref(name);
    return MR_OK;
}

void worker_destroy(worker *worker) {
    while (!list_empty(&worker->queue)) call_free(worker, call_at(worker->queue.next));
    while (!list_empty(&worker->running)) call_free(worker, call_at(worker->running.next));
    while (!list_empty(&worker->answers)) call_free(worker, call_at(worker->answers.next));
    while (!list_empty(&worker->parting)) call_free(worker, call_at(worker->parting.next));
    for (map_slot slot; map_next(&worker->names, 0, &slot) != 0;) names_free(map_remove(&worker->names, slot.key));
    map_fini(&worker->names);
    name_unref(worker->speaker);
    for (uint32_t i = 0; i < worker->slab.count; i++) call_forget(slab_at(&worker->slab, i));
    slab_fini(&worker->slab);
    bundle_spares_fini(&worker->spares);
    if (worker->self.destroy != NULL) worker->self.destroy(worker->self.state);
    free(worker);
}

/* ---- Answering. */

static mr_status try_answer(worker *worker, mr_call *call) {
    calls *calls = worker->client->calls;
    if (call->failed != NULL) return wire_answer_failure(calls, call->token, call->failed);
    if (call->result != NULL) return wire_answer_values(calls, call->token, call->result);
    return wire_answer_bytes(calls, call->token, span_of(call->result_small, call->result_size));
}

/* The asker is this process. */
static void answer_here(worker *worker, mr_call *call) {
    wire_values values = {.owner = call->result == NULL ? NULL : bundle_ref(call->result)};
    failure *failed = call->failed == NULL ? NULL : failure_ref(call->failed);
    span bytes = values.owner == NULL ? span_of(call->result_small, call->result_size)
                                      : span_of(values.owner->bytes, values.owner->size);
    if (failed == NULL && bundle_open(bytes, &values.view) != MR_OK)
        failed = failure_create(MR_CORRUPT, mr_last_error(), worker->client->origin, NULL);
    actors_answer_here(&worker->client->actors, worker->actor, call->token.number, &values, failed);
    call_free(worker, call);
}

/* Answers and frees the call. False: there was no room, and nothing has happened. */
static bool answer(worker *worker, mr_call *call) {
    if (call->token.link.v == 0) {
        answer_here(worker, call);
        return true;
    }
    mr_status status = try_answer(worker, call);
    if (status == MR_TOO_LARGE || status == MR_NOMEM) {
        failure_unref(call->failed);
        call->failed = failure_create(status, mr_last_error(), worker->client->origin, NULL);
        status = try_answer(worker, call);
    }
    if (status == MR_BUSY) return false;
    bool names_objects = call->failed == NULL && call->result != NULL && call->result->cargo != NULL;
    if (status == MR_OK && names_objects && !worker->client->mutations.no_keep)
        transit_keep(&worker->client->transit, call->token, call->result); /* until the asker has taken it */
    call_free(worker, call);
    return true;
}

/* Each may be on a link of its own: one that is full holds back no other. */
void worker_room(worker *worker) {
    list_for_each (at, &worker->answers) (void)answer(worker, call_at(at));
}

/* ---- Requests. */

static bool same_token(call_token a, call_token b) { return a.link.v == b.link.v && a.number == b.number; }

/* Reads name and arguments of a task or a method; a body is taken over, whatever comes of it. */
static mr_status read_call(worker *worker, const call_request *request, mr_call *call, const uint8_t **rest) {
    wire_head head;
    span payload = request->payload;
    if (payload.size < sizeof head) return error_set(MR_CORRUPT, "a request that cannot be read");
    memcpy(&head, payload.data, sizeof head);
    known_names *names = names_of(worker, request->token.link);
    call->returns = head.returns;
    if ((head.flags & WIRE_STREAM) != 0) MR_TRY(yield_open(call));
    *rest = payload.data + sizeof head;
    if (head.name_size == 0) {
        name *known = head.number < names->count ? names->by_number[head.number] : NULL;
        if (known == NULL || head.returns == 0)
            return error_set(MR_CORRUPT, "a request names number %u, which was never told", head.number);
        call->name = name_ref(known);
        call->actor = worker->actor;
        return MR_OK;
    }
    reader reader = reader_of(*rest, payload.size - sizeof head);
    if (request->method == WORKER_ACTOR_CALL) call->actor = wire_get_actor(&reader);
    const uint8_t *text = reader_bytes(&reader, wire_padded(head.name_size));
    if (text == NULL || head.returns == 0 || head.name_size > WIRE_NAME_MAX || memchr(text, 0, head.name_size) != NULL)
        return error_set(MR_CORRUPT, "a request that cannot be read");
    span code = {0};
    if ((head.flags & WIRE_CODE) != 0) {
        uint64_t size = reader_u64(&reader);
        const uint8_t *bytes = size > MR_CODE_MAX ? NULL : reader_bytes(&reader, wire_padded((size_t)size));
        if (bytes == NULL) return error_set(MR_CORRUPT, "a request with code that cannot be read");
        code = span_of(bytes, (size_t)size);
    }
    *rest = reader.at;
    call->name = names_get(&worker->client->names, (const char *)text, head.name_size, code);
    if (call->name == NULL) return MR_NOMEM;
    return head.number == 0 ? MR_OK : learn(names, head.number, call->name);
}

/* The class of an actor that is to be made here, as the node asks for it. */
static mr_status read_init(worker *worker, const call_request *request, mr_call *call, const uint8_t **rest) {
    span payload = request->payload;
    reader reader = reader_of(payload.data, payload.size);
    call->actor = wire_get_actor(&reader);
    span name = wire_get_name(&reader);
    call->threads = reader_u32(&reader);
    if (reader.failed || call->threads == 0 || call->threads > WORKER_THREADS_MAX)
        return error_set(MR_CORRUPT, "a request that cannot be read");
    size_t fields = wire_padded((size_t)(reader.at - payload.data));
    if (fields > payload.size) return error_set(MR_CORRUPT, "a request ends inside its fields");
    *rest = payload.data + fields;
    call->name = names_get(&worker->client->names, (const char *)name.data, name.size, (span){0});
    return call->name == NULL ? MR_NOMEM : MR_OK;
}

static mr_status read_request(worker *worker, const call_request *request, mr_call *call) {
    const uint8_t *rest = NULL;
    mr_status status = request->method == WORKER_ACTOR_INIT ? read_init(worker, request, call, &rest)
                                                            : read_call(worker, request, call, &rest);
    if (status != MR_OK || (request->body.size > 0 && request->body.data == NULL)) {
        wire_body_drop(request->body.data);
        return status != MR_OK ? status
                               : error_set(MR_NOMEM, "no memory for arguments of %zu bytes", request->body.size);
    }
    if (request->body.size > 0) return call_take_bundle(call, wire_body_bundle(request->body.data));
    size_t size = (size_t)(request->payload.data + request->payload.size - rest);
    return size == 0 ? MR_OK : call_take_args(call, span_of(rest, size), &worker->spares); /* 0: there are none */
}

void *worker_body_room(worker *worker, uint64_t size) {
    bundle *room;
    if (size > SIZE_MAX || bundle_spares_room(&worker->spares, (size_t)size, &room) != MR_OK) return NULL;
    return room->bytes;
}

/* Nobody waits for it any more. */
static void cancel_running(worker *worker, mr_call *call) {
    call->cancelled = true;
    notice_cancelled(call);
    if (call->yield != NULL) yield_wake(call);
    if (call->run == 0 || call->alone) return;
    worker->client->cancelled_run = call->run;
    tasks_cancel_children(&worker->client->tasks, call->run);
    actors_cancel_children(&worker->client->actors, call->run);
}

void worker_cancel(worker *worker, call_token token) {
    list_for_each (at, &worker->queue) {
        if (same_token(call_at(at)->token, token)) call_free(worker, call_at(at));
    }
    list_for_each (at, &worker->running)
        if (same_token(call_at(at)->token, token)) cancel_running(worker, call_at(at));
}

void worker_spare_children(worker *worker, call_token token) {
    list_for_each (at, &worker->running)
        if (same_token(call_at(at)->token, token)) call_at(at)->alone = true;
}

/* Its cancellation comes next. */
static void spare_children(worker *worker, const call_request *request) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    worker_spare_children(worker, (call_token){.link = request->token.link, .number = reader_u64(&reader)});
    wire_body_drop(request->body.data);
    if (wire_answer(worker->client->calls, request->token, (span){0}) != MR_OK) error_clear(); /* nobody waits for it */
}

/* Nobody has a handle of the actor any more, and its calls were all answered; or whoever had the worker is done. */
static void leave(worker *worker, const call_request *request) {
    wire_body_drop(request->body.data);
    worker->leaves = worker->over = true;
    worker->client->host->called(worker->client->host->context);
}

/* The next result of a call that runs, or waits for its turn. */
static void next_asked(worker *worker, const call_request *request) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    call_token token = {.link = request->token.link, .number = reader_u64(&reader)};
    mr_call *found = NULL;
    list_for_each (at, &worker->running)
        if (same_token(call_at(at)->token, token)) found = call_at(at);
    for (list *at = worker->queue.prev; found == NULL && at != &worker->queue; at = at->prev)
        if (same_token(call_at(at)->token, token)) found = call_at(at); /* it came just before this */
    wire_body_drop(request->body.data);
    mr_status status = found != NULL && found->yield != NULL ? yield_ask(found, request->token)
                                                             : error_set(MR_NOT_FOUND, "no such call gives anything");
    if (status != MR_OK) wire_refuse(worker->client->calls, request->token, status, mr_last_error());
}

/* ---- What does not get its turn. */

/* True: the task is gone, and so is whoever asked for what it was to give: it asks the next worker. Where there is no
 * room to say so it waits on. */
static bool give_back(worker *worker, mr_call *call) {
    if (call->method != WORKER_TASK) return false;
    if (calls_fail(worker->client->calls, call->token, MR_BUSY, NULL) == MR_BUSY) return false;
    call_free(worker, call);
    return true;
}

static void give_all_back(worker *worker) {
    list_for_each (at, &worker->queue) (void)give_back(worker, call_at(at));
}

void worker_tick(worker *worker, int64_t now_us) {
    if (now_us - worker->ticked_us < WORKER_TICK_US) return;
    worker->ticked_us = now_us;
    worker->ticks++;
    if (list_empty(&worker->queue)) return;
    if (worker->ticks - call_at(worker->queue.next)->tick >= 2) give_all_back(worker); /* a whole tick, at least */
}

void worker_waits(worker *worker, bool all_of_them) {
    worker->waits = all_of_them;
    if (worker->waits) give_all_back(worker);
}

/* A task that does not end by itself takes the process along. One that has not begun is left to its cancellation, which
 * comes next. */
static void end_task(worker *worker, const call_request *request) {
    reader reader = reader_of(request->payload.data, request->payload.size);
    call_token token = {.link = request->token.link, .number = reader_u64(&reader)};
    const client_host *host = worker->client->host;
    list_for_each (at, &worker->running) {
        const mr_call *call = call_at(at);
        if (call->method != WORKER_TASK || !same_token(call->token, token) || host->end == NULL) continue;
        wire_body_drop(request->body.data);
        host->end(host->context); /* which is the answer */
        return;
    }
    wire_body_drop(request->body.data);
    bundle *nothing;
    if (bundle_create(NULL, 0, &nothing) == MR_OK)
        late_answer(&worker->client->late, worker->client->calls, request->token, nothing);
}

static __attribute__((noinline)) void other_request(worker *worker, const call_request *request) {
    switch (request->method) {
    case WORKER_END: end_task(worker, request); break;
    case WORKER_ALONE: spare_children(worker, request); break;
    case WORKER_LEAVE: leave(worker, request); break;
    case WORKER_NEXT: next_asked(worker, request); break;
    default:
        wire_body_drop(request->body.data);
        wire_refuse(worker->client->calls, request->token, MR_INVALID, "a worker does not know this method");
    }
}

void worker_request(worker *worker, const call_request *request) {
    if (!wire_is_work(request->method)) {
        other_request(worker, request);
        return;
    }
    mr_call *call = slab_take(&worker->slab);
    if (call == NULL) {
        wire_body_drop(request->body.data);
        wire_refuse(worker->client->calls, request->token, MR_NOMEM, "no memory for a request");
        return;
    }
    call_init(call);
    call->mr = worker->client->host->mr;
    call->worker = worker;
    call->token = request->token;
    call->method = request->method;
    call->tick = worker->ticks;
    mr_status status = read_request(worker, request, call);
    if (status != MR_OK) {
        wire_refuse(worker->client->calls, request->token, status, mr_last_error());
        call_free(worker, call);
        return;
    }
    if (worker->waits && give_back(worker, call)) return;
    list_push_back(&worker->queue, &call->place);
    worker->client->host->called(worker->client->host->context);
}

mr_status worker_call_here(worker *worker, const request *request, mr_actor actor, uint64_t number) {
    mr_call *call = slab_take(&worker->slab);
    if (call == NULL) return error_set(MR_NOMEM, "no memory for a request");
    call_init(call);
    call->mr = worker->client->host->mr;
    call->worker = worker;
    call->token = (call_token){.number = number};
    call->method = WORKER_ACTOR_CALL;
    call->name = name_ref(request->name);
    call->actor = actor;
    call->returns = request->returns;
    bundle *values = request->arguments.values;
    mr_status status = values != NULL ? call_take_bundle(call, bundle_ref(values))
                                      : call_take_args(call, arguments_bytes(&request->arguments), &worker->spares);
    if (status != MR_OK) {
        call_free(worker, call);
        return status;
    }
    list_push_back(&worker->queue, &call->place);
    worker->client->host->called(worker->client->host->context);
    return MR_OK;
}

/* Its caller is gone, and nobody else has anything of it. A call that may have changed an actor is another matter. */
static bool is_in_vain(const mr_call *call, link_id link) {
    return call->token.link.v == link.v && (call->method == WORKER_TASK || call->yield != NULL);
}

void worker_link_closed(worker *worker, link_id link) {
    list_for_each (at, &worker->answers)
        if (call_at(at)->token.link.v == link.v) call_free(worker, call_at(at)); /* nobody waits for it any more */
    list_for_each (at, &worker->queue)
        if (is_in_vain(call_at(at), link)) call_free(worker, call_at(at));
    list_for_each (at, &worker->running)
        if (is_in_vain(call_at(at), link)) cancel_running(worker, call_at(at));
    known_names *names = map_remove(&worker->names, link.v);
    if (names == NULL) return;
    if (worker->recent == names) worker->recent = NULL;
    names_free(names);
}

void worker_over(worker *worker) {
    worker->over = true;
    list_for_each (at, &worker->running)
        if (call_at(at)->yield != NULL) cancel_running(worker, call_at(at)); /* it may wait for whoever takes it */
    worker->client->host->called(worker->client->host->context);
}

/* ---- Running. */

static mr_status no_such(const char *what, const mr_call *call, void (*list_known)(char *out, size_t size)) {
    char known[512];
    list_known(known, sizeof known);
    return error_set(MR_NOT_FOUND, "%s '%s' does not exist in this program; there is: %s", what, call->name->text,
                     known[0] != '\0' ? known : "none");
}

static mr_status find_task(worker *worker, mr_call *call) {
    name *name = call->name;
    if (worker->is_actor) return error_set(MR_INVALID, "this worker is an actor and runs no tasks");
    if (!name->task_known) name->task = registry_task(name->text, name->size);
    name->task_known = true;
    call->body = name->task;
    return call->body != NULL ? MR_OK : no_such("task", call, registry_tasks_text);
}

static mr_status find_class(worker *worker, mr_call *call) {
    const name *name = call->name;
    if (worker->is_actor) return error_set(MR_INVALID, "this worker is an actor already");
    worker->is_actor = true;
    worker->actor = call->actor;
    worker->threads = call->threads;
    strcpy(worker->class_name, name->text);
    call->self = &worker->self;
    call->body = registry_method(name->text, name->size, NULL, 0); /* a class may do without MR_CREATE */
    return call->body != NULL || registry_class(name->text, name->size) ? MR_OK
                                                                        : no_such("class", call, registry_classes_text);
}

static __attribute__((noinline)) mr_status look_up_method(worker *worker, mr_call *call) {
    name *name = call->name;
    if (!worker->is_actor || !wire_same_actor(worker->actor, call->actor))
        return error_set(MR_ACTOR_DIED, "that actor does not live here");
    if (!name->method_known)
        name->method = registry_method(worker->class_name, strlen(worker->class_name), name->text, name->size);
    name->method_known = true;
    call->body = name->method;
    if (call->body != NULL) return MR_OK;
    char known[512];
    registry_methods_text(worker->class_name, strlen(worker->class_name), known, sizeof known);
    return error_set(MR_NOT_FOUND, "method '%s' does not exist in this program; there is: %s", name->text,
                     known[0] != '\0' ? known : "none");
}

static inline mr_status find_method(worker *worker, mr_call *call) {
    call->self = &worker->self;
    call->body = call->name->method; /* of this actor's class, if it was looked up */
    bool known = call->body != NULL && worker->is_actor && wire_same_actor(worker->actor, call->actor);
    return __builtin_expect(known, 1) ? MR_OK : look_up_method(worker, call);
}

static uint64_t note_begin(worker *worker, const mr_call *call) {
    event_kind kind = call->method == WORKER_TASK         ? EVENT_TASK
                      : call->method == WORKER_ACTOR_INIT ? EVENT_CREATE
                                                          : EVENT_METHOD;
    return diary_begin(&worker->client->diary, kind, call->token, call->name->text, call->name->size,
                       call->name->number);
}

/* A task of another name than the last is about to begin: what was printed since belongs to that. */
static void change_speaker(worker *worker, name *name) {
    const client_host *host = worker->client->host;
    uint64_t printed = host->printed == NULL ? 0 : host->printed(host->context);
    const struct name *before = worker->speaker;
    if (before != NULL && printed != worker->printed)
        events_mark(&worker->client->diary.events, before->text, before->size, printed);
    worker->printed = printed;
    name_unref(worker->speaker);
    worker->speaker = name_ref(name);
}

mr_call *worker_next(worker *worker) {
    list *at = list_pop_front(&worker->queue);
    if (at == NULL) return NULL;
    list_push_back(&worker->running, at);
    worker->running_count++;
    mr_call *call = call_at(at);
    call->run = worker->threads == 1 ? ++worker->runs : 0;
    worker->client->run = call->run;
    call->refused = call->method == WORKER_ACTOR_CALL ? find_method(worker, call)
                    : call->method == WORKER_TASK     ? find_task(worker, call)
                                                      : find_class(worker, call);
    if (call->refused != MR_OK) call->message = xstrdup(mr_last_error());
    if (call->method == WORKER_TASK && call->name != worker->speaker) change_speaker(worker, call->name);
    call->event = note_begin(worker, call);
    return call;
}

static failure *failure_of(const worker *worker, const mr_call *call, mr_status status) {
    char origin[420];
    const char *kind = call->method == WORKER_TASK ? "task" : call->method == WORKER_ACTOR_INIT ? "class" : "method";
    snprintf(origin, sizeof origin, "%s '%s' in %s", kind, call->name->text, worker->client->origin);
    const char *text = call->message != NULL ? call->message : mr_last_error();
    failure *made = failure_create(status, text[0] != '\0' ? text : mr_status_text(status), origin, NULL);
    failure_attach(made, span_of(call->detail, call->detail_size));
    return made;
}

void worker_show(worker *worker, mr_call *call) {
    mr_status status = call->refused != MR_OK ? MR_OK : call_show_args(call, &worker->client->objects);
    if (status != MR_OK) call->failed = failure_of(worker, call, status);
}

void worker_run(worker *worker, mr_call *call) {
    if (call->failed != NULL) return;
    mr_status status = call->refused;
    if (status == MR_OK && call->body != NULL) {
        error_clear();
        status = call->body(call);
    }
    if (!call->deferred || status != MR_OK) worker_conclude(worker, call, status);
}

void worker_conclude(worker *worker, mr_call *call, mr_status status) {
    if (status == MR_OK) status = call_gather(call);
    if (status != MR_OK) call->failed = failure_of(worker, call, status);
}

static void answer_or_keep(worker *worker, mr_call *call) {
    if (!answer(worker, call)) list_push_back(&worker->answers, &call->place);
}

static void parted(borrow_gate *gate) {
    mr_call *call = container_of(gate, mr_call, gate);
    list_remove(&call->place);
    answer_or_keep(call->worker, call);
}

/* What the arguments referred to and something here still has (a reference that was retained, a task that was started,
 * the result) is borrowed before the answer: until then the asker keeps it. True: the answer waits for that. */
static bool is_kept(worker *worker, mr_call *call, bundle *args) {
    call->gate = (borrow_gate){.open = parted};
    list_push_back(&worker->parting, &call->place);
    lender_keep_rest(&worker->client->lender, args, &call->gate);
    if (!lender_through(&worker->client->lender, &call->gate)) return true;
    list_remove(&call->place);
    return false;
}

void worker_left(worker *worker, const mr_call *call) {
    if (worker->client->run == call->run) worker->client->run = 0;
}

/* The usual answer: one small value, and nothing is kept of the arguments. */
static inline bool answer_first(worker *worker, const mr_call *call) {
    if (call->result_size == 0 || call->failed != NULL || call->result != NULL || call->args_owner != NULL ||
        call->token.link.v == 0)
        return false;
    span values = span_of(call->result_small, call->result_size);
    return wire_answer_bytes(worker->client->calls, call->token, values) == MR_OK;
}

/* What can be done while the answer is on its way is done after it. */
void worker_finish(worker *worker, mr_call *call) {
    bool answered = answer_first(worker, call);
    worker->running_count--;
    uint64_t event = call->event;
    mr_status outcome = call->failed == NULL ? MR_OK : call->failed->code;
    list_remove(&call->place);
    worker_left(worker, call);
    bundle *args = answered ? NULL : call_give_up_args(call);
    if (answered)
        call_free(worker, call);
    else if (args == NULL || !is_kept(worker, call, args))
        answer_or_keep(worker, call);
    diary_end(&worker->client->diary, event, outcome);
}

objects *worker_objects(worker *worker) { return &worker->client->objects; }
bool worker_is_over(const worker *worker) { return worker->over; }
void worker_bid_farewell(worker *worker) {
    call_self self = worker->self;
    if (!worker->leaves || self.destroy == NULL) return;
    worker->self = (call_self){0};
    self.destroy(self.state);
}

bool worker_is_needed(const worker *worker) {
    const client *client = worker->client;
    if (!worker->leaves || worker->is_actor || client->over != NULL) return false;
    return client->tasks.open > 0 || client->lender.borrow.lent > 0 || !list_empty(&client->transit.kept) ||
           actors_have_calls(&client->actors);
}

bool worker_is_actor(const worker *worker) { return worker->is_actor; }
uint32_t worker_threads(const worker *worker) { return worker->threads; }
uint32_t worker_running(const worker *worker) { return worker->running_count; }
bool worker_is_running(const worker *worker) { return !list_empty(&worker->running); }

size_t worker_queued(const worker *worker) {
    size_t count = 0;
    list_for_each (at, &worker->queue) count++;
    return count;
}
