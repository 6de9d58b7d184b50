/* task.c — see task.h. Tested by tests/runtime_task_test.c. */
#include "runtime/task.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/task_state.h"

void tasks_init(tasks *tasks, client *client) {
    *tasks = (struct tasks){.client = client};
    slab_init(&tasks->slab, sizeof(task));
    list_init(&tasks->shapes);
    list_init(&tasks->waiting);
    list_init(&tasks->doomed);
}

/* ---- A task's end. */

static void task_free(wire_call *call) {
    task *task = task_of(container_of(call, request, call));
    tasks *tasks = task->shape->tasks;
    task->shape->open--;
    task->shape = NULL; /* nobody's */
    request_fini(&task->request);
    slab_give(&tasks->slab, task);
}

static void describe(const request *request, char *out, size_t size) {
    snprintf(out, size, "task '%s'", request->name->text);
}

/* The reference to the failure is taken over. */
static void task_fail(task *task, failure *failed) {
    task->shape->tasks->open--;
    request_end_failure(&task->request, failed);
}

static failure *task_failure(const task *task, mr_status code, const char *message, failure *cause) {
    return request_failure(&task->request, describe, code, message, cause);
}

/* No worker will come for what is queued. */
void task_shape_fail(shape *shape, failure *why) {
    while (!list_empty(&shape->queue)) {
        task *task = task_at(shape->queue.next);
        shape->queued--;
        task_fail(task, task_failure(task, why->code, "could not run", failure_ref(why)));
    }
}

/* ---- Feeding. */

static void task_done(wire_call *call, const call_result *result);

static void count_bounded(const task *task, lease *lease) {
    uint64_t number = task->request.name->number;
    uintptr_t count = (uintptr_t)map_get(&lease->bounded, number) + 1;
    map_put(&lease->bounded, number, (void *)count);
    if (count < task->calls_max) return;
    lease->spent = true;
    lease->spent_by = number;
}

/* It was given back, so it did not run there. */
static void uncount_bounded(const task *task, lease *lease) {
    uint64_t number = task->request.name->number;
    uintptr_t count = (uintptr_t)map_get(&lease->bounded, number) - 1;
    if (count == 0)
        (void)map_remove(&lease->bounded, number);
    else
        map_put(&lease->bounded, number, (void *)count);
    if (lease->spent_by == number && count < task->calls_max) lease->spent = false;
}

static mr_status send_task(task *task, lease *lease) {
    MR_TRY(request_send(&task->request, lease->route, NULL));
    list_remove(&task->request.place);
    list_push_back(&lease->running, &task->request.place);
    task->lease = lease;
    lease->in_flight++;
    task->shape->queued--;
    if (task->calls_max > 0) count_bounded(task, lease);
    return MR_OK;
}

void task_shape_feed(shape *shape) {
    tasks *tasks = shape->tasks;
    if (list_empty(&shape->queue) || tasks->client->over != NULL) return;
    uint32_t depth = task_shape_depth(shape);
    int64_t now_us = 0;
    while (!list_empty(&shape->queue)) {
        lease *lease = task_lease_to_feed(shape, depth);
        if (lease == NULL) break;
        task *task = task_at(shape->queue.next);
        mr_status status = send_task(task, lease);
        if (status == MR_BUSY || status == MR_CLOSED) break; /* on_room, or the link's end, comes */
        if (status != MR_OK) {
            shape->queued--;
            task_fail(task, task_failure(task, status, mr_last_error(), NULL));
            continue;
        }
        if (lease->in_flight == 1 && shape->service_us >= TASK_SERVICE_US_SHORT)
            task->sent_us = now_us != 0 ? now_us : (now_us = task_now(tasks));
    }
    task_shape_ask(shape);
    client_stir(tasks->client);
}

void tasks_feed(tasks *tasks) {
    list_for_each (at, &tasks->shapes) task_shape_feed(container_of(at, shape, place));
}

static void queue_task(task *task) {
    task->lease = NULL;
    list_remove(&task->request.place);
    list_push_back(&task->shape->queue, &task->request.place);
    task->shape->queued++;
    task_shape_feed(task->shape);
}

/* In front of all that were never sent, and among those that came back in the order of their submission: a worker gives
 * back its first one first. */
static void queue_again(task *task) {
    shape *shape = task->shape;
    list *at = shape->queue.next;
    while (at != &shape->queue && task_at(at)->returned && task_at(at)->request.since_us <= task->request.since_us)
        at = at->next;
    list_insert_before(at, &task->request.place);
    task->lease = NULL;
    task->returned = true;
    shape->queued++; /* fed when the lease has gone */
}

/* Its worker is gone, or has not begun it and will not; but it may be tried again. */
static bool try_again(task *task, failure *cause, bool began) {
    shape *shape = task->shape;
    if ((began && task->retries == 0) || task->cancelled || shape->tasks->client->over != NULL) return false;
    if (MUTATED("no-requeue") || (task->request.streams && flow_began(&task->request))) return false;
    if (began) task->retries -= !MUTATED("no-retry-count");
    if (MUTATED("fail-and-retry")) object_fail(&shape->tasks->client->objects, task->request.result, cause);
    queue_again(task);
    return true;
}

/* Lost with its worker; the reference to the cause is taken over. */
static void task_lost(task *task, failure *cause, bool began) {
    if (try_again(task, cause, began)) {
        failure_unref(cause);
        return;
    }
    char origin[REQUEST_TEXT_MAX];
    describe(&task->request, origin, sizeof origin);
    task_fail(task, client_lost(task->shape->tasks->client, cause, MR_WORKER_DIED, "its worker died", origin));
}

/* A task of this lease is done. */
static void lease_next(lease *lease, bool give_back) {
    shape *shape = lease->shape;
    if (give_back) task_lease_give_back(lease);
    if (!list_empty(&shape->queue)) task_shape_feed(shape);
}

/* Its worker is held up: what it ran before takes longer than we thought. Others get it, and less of it each. */
static void task_given_back(task *task, lease *lease) {
    shape *shape = task->shape;
    if (task->calls_max > 0) uncount_bounded(task, lease);
    if (task->request.streams) flow_unsent(&task->request);
    lease->held_up = lease->in_flight > 0;
    if (!lease->held_up) lease->idle_since_us = client_about_now(shape->tasks->client);
    lease->last_done_us = task_now(shape->tasks);
    lease->last_done_count = lease->done_count;
    if (shape->service_us < TASK_SERVICE_US_FIRST) shape->service_us = TASK_SERVICE_US_FIRST;
    task_lost(task, failure_create(MR_BUSY, "its worker is busy with earlier tasks", "", NULL), false);
    if (task_lease_is_over(lease)) task_lease_give_back(lease);
    task_shape_feed(shape);
}

static void task_done(wire_call *call, const call_result *result) {
    task *task = task_of(container_of(call, request, call));
    lease *lease = task->lease;
    shape *shape = task->shape;
    list_remove(&task->request.place);
    lease->in_flight--;
    if (result->status == MR_BUSY && result->why == NULL) {
        task_given_back(task, lease);
        return;
    }
    task_lease_note(lease, task);
    lease->held_up = false;
    bool give_back = task_lease_is_over(lease), lost;
    wire_values values;
    if (result->status == MR_OK) {
        request_learn(&task->request, lease->route);
        shape->tasks->open--;
        if (request_end_small(&task->request, result)) {
            lease_next(lease, give_back);
            return;
        }
        shape->tasks->open++;
    }
    failure *failed = request_outcome(&task->request, result, describe, &values, &lost);
    if (lost) {
        task_lost(task, failed, true);
        if (result->why == NULL) task_shape_feed(shape); /* its worker lives: only what it returned is gone */
        return;
    }
    shape->tasks->open--;
    if (failed != NULL)
        request_end_failure(&task->request, failed);
    else
        request_end_values(&task->request, &values);
    lease_next(lease, give_back);
}

/* ---- Submitting. */

/* Ends a task whose argument failed, and then those that hang on it in turn, however many: each is put in line by the
 * end of the one before it. */
static void doom(tasks *tasks, task *first) {
    list_remove(&first->request.place);
    list_push_back(&tasks->doomed, &first->request.place);
    if (tasks->dooming) return;
    tasks->dooming = true;
    while (!list_empty(&tasks->doomed)) {
        task *task = task_at(tasks->doomed.next);
        failure *why = task->request.arguments.failed;
        task_fail(task, task_failure(task, why->code, "could not start", failure_ref(why)));
    }
    tasks->dooming = false;
}

static void arguments_settled(arguments *arguments) {
    task *task = task_of(container_of(arguments, request, arguments));
    if (task->request.held) return;
    failure *over = task->shape->tasks->client->over;
    if (arguments->failed != NULL)
        doom(task->shape->tasks, task);
    else if (over != NULL) /* its arguments came after all, from a worker that outlived the node */
        task_fail(task, task_failure(task, over->code, "could not run", failure_ref(over)));
    else
        queue_task(task);
}

static shape *usual_shape(tasks *tasks) {
    if (tasks->usual == NULL) {
        resources one = {0};
        MR_ASSERT(resources_set(&one, "cpu", 1) == MR_OK);
        tasks->usual = task_shape_find(tasks, &one);
    }
    return tasks->usual;
}

static void start(request *request) {
    task *task = task_of(request);
    if (arguments_are_settled(&request->arguments))
        arguments_settled(&request->arguments);
    else
        list_push_back(&task->shape->tasks->waiting, &request->place);
}

static void fail(request *request, failure *failed) { task_fail(task_of(request), failed); }

typedef struct ending { /* a worker was asked to end */
    wire_call call;
    tasks *tasks;
    uint64_t lease;
} ending;

/* It answers only if the task had not begun: then it lives on, and its lease with it. */
static void ending_done(wire_call *call, const call_result *result) {
    ending *ending = container_of(call, struct ending, call);
    lease *lease = result->why != NULL ? NULL : task_lease_find(ending->tasks, ending->lease);
    wire_call_end(call);
    if (lease == NULL) return;
    lease->ended = false;
    lease_next(lease, task_lease_is_over(lease));
}

/* Its worker ends itself if it runs this very task, and gives back before what waits in it for its turn. */
static mr_status end_worker(const task *task) {
    uint64_t number = task->request.call.id.number;
    wire_message message = {.fields = span_of(&number, sizeof number)};
    ending *ending = XNEW(struct ending, .call = {.done = ending_done, .free = wire_call_free},
                          .tasks = task->shape->tasks, .lease = task->lease->id);
    mr_status status =
        wire_ask(task->request.client->calls, task->lease->route->link, WORKER_END, &message, &ending->call);
    if (status != MR_OK) free(ending);
    if (status == MR_BUSY) return status;
    task->lease->ended = true;
    return MR_OK; /* a link that closes takes it along anyway */
}

static mr_status cancel(request *request, wire_how how) {
    task *task = task_of(request);
    bool sent = request->call.id.number != 0;
    if (sent && how == WIRE_BY_FORCE) MR_TRY(end_worker(task));
    if (sent && how == WIRE_ALONE) MR_TRY(request_spare_children(request, task->lease->route));
    task->cancelled = true;
    if (sent) return calls_cancel(request->client->calls, request->call.id); /* ends in task_done */
    if (arguments_are_settled(&request->arguments) && !request->held) task->shape->queued--;
    task_fail(task, task_failure(task, MR_CANCELLED, "cancelled", NULL));
    return MR_OK;
}

/* The body that submits it was cancelled, and has not asked. Its caller and others go on feeding the worker: a late
 * child could wait in line behind a body that waits, in turn, for its own behind this one. */
static bool is_late(const client *client) {
    return client->run != 0 && client->run == client->cancelled_run && !MUTATED("no-late-cancel");
}

static const request_ops task_ops = {.start = start, .fail = fail, .cancel = cancel};

/* What a task's record has besides its request; it was not sent yet. */
static inline void name_task(task *task, shape *shape, int retries, uint32_t calls_max) {
    task->shape = shape;
    shape->open++;
    task->lease = NULL;
    task->retries = retries;
    task->calls_max = calls_max;
    task->cancelled = false;
    task->returned = false;
    task->sent_us = 0;
    task->request.ops = &task_ops;
}

lease *tasks_foresee(const tasks *tasks, const name *name) {
    const client *client = tasks->client;
    const shape *shape = tasks->usual;
    if (shape == NULL || !list_empty(&shape->queue) || client->over != NULL || is_late(client)) return NULL;
    lease *lease = task_lease_to_feed(shape, task_shape_depth(shape));
    if (lease == NULL || !route_knows(lease->route, name->number)) return NULL;
    calls_foresee(client->calls, lease->route->link);
    return lease;
}

object *tasks_submit_straight(tasks *tasks, lease *lease, name *name, const mr_arg *args, size_t args_count,
                              int retries) {
    client *client = tasks->client;
    shape *shape = lease->shape;
    uint64_t words[REQUEST_WORDS];
    size_t count = request_words(name, args, args_count, words, REQUEST_WORDS);
    task *task = count == 0 || !objects_ready(&client->objects) ? NULL : slab_take(&tasks->slab);
    if (task == NULL) return NULL;
    wire_call *wire = &task->request.call;
    if (wire_call_words(client->calls, lease->route->link, WORKER_TASK, words, count, wire) != MR_OK) {
        slab_give(&tasks->slab, task);
        return NULL;
    }
    object *result = object_create(&client->objects, true);
    wire_call_fill_in(wire, task_done, task_free);
    name_task(task, shape, retries, 0);
    request_sent(&task->request, client, name, result);
    if (count > 1) request_keep_words(&task->request, words, count);
    task->lease = lease;
    list_push_back(&lease->running, &task->request.place);
    lease->in_flight++;
    if (lease->in_flight == 1 && shape->service_us >= TASK_SERVICE_US_SHORT) task->sent_us = task_now(tasks);
    tasks->open++;
    client_stir(client);
    return result;
}

mr_status tasks_submit(tasks *tasks, const task_plan *plan) {
    client *client = tasks->client;
    if (client->over != NULL) return failure_raise(client->over);
    task *task = slab_take(&tasks->slab);
    if (task == NULL) return MR_NOMEM;
    mr_status status = request_init(&task->request, client, &plan->request, arguments_settled);
    if (status != MR_OK) {
        task->shape = NULL;
        slab_give(&tasks->slab, task);
        return status;
    }
    task->request.call = (wire_call){.done = task_done, .free = task_free};
    name_task(task, plan->need != NULL ? task_shape_find(tasks, plan->need) : usual_shape(tasks), plan->retries,
              plan->calls_max);
    tasks->open++;
    if (is_late(client))
        task_fail(task, task_failure(task, MR_CANCELLED, "cancelled, because the task that submitted it was cancelled",
                                     NULL));
    else if (!task->request.held)
        start(&task->request);
    return MR_OK;
}

/* The end of one may end others and make new ones: the slab is gone through, whatever is in it by then. */
void tasks_cancel_children(tasks *tasks, uint64_t parent) {
    for (uint32_t i = 0; i < tasks->slab.count; i++) {
        task *task = slab_at(&tasks->slab, i);
        if (task->shape == NULL || task->request.parent != parent || task->cancelled) continue;
        if (cancel(&task->request, WIRE_WITH_CHILDREN) != MR_OK) error_clear(); /* it has just ended */
    }
}

/* ---- The end. */

/* What was sent ends with its link, what waits for futures with those. */
void tasks_over(tasks *tasks, failure *why) {
    list_for_each (at, &tasks->shapes) task_shape_fail(container_of(at, shape, place), why);
}

void tasks_fini(tasks *tasks) {
    task_shapes_fini(tasks);
    slab_fini(&tasks->slab);
}

/* ---- Being seen. */

static bool show(const list *tasks, sight_state state, sight_fn *fn, void *context) {
    list_for_each (at, tasks) {
        const task *task = task_at(at);
        const request *request = &task->request;
        sight sight = {.name = request->name->text,
                       .result = request->result,
                       .arguments = &request->arguments,
                       .state = state,
                       .process = task->lease == NULL ? 0 : task->lease->process,
                       .since_us = request->since_us,
                       .need = &task->shape->need,
                       .retries = task->retries};
        if (!fn(context, &sight)) return false;
    }
    return true;
}

bool tasks_each(const tasks *tasks, sight_fn *fn, void *context) {
    list_for_each (at, &tasks->shapes) {
        const shape *shape = container_of(at, struct shape, place);
        list_for_each (item, &shape->leases) {
            const lease *lease = container_of(item, struct lease, place);
            if (!show(&lease->running, SIGHT_SENT, fn, context)) return false;
        }
        if (!show(&shape->queue, SIGHT_QUEUED, fn, context)) return false;
    }
    return show(&tasks->waiting, SIGHT_ARGUMENTS, fn, context);
}
