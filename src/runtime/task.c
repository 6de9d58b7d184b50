/* task.c — see task.h. */
#include "runtime/task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/arguments.h"
#include "runtime/client.h"

enum {
    REQUESTS_MAX = 64,          /* leases of one shape that are asked for at a time */
    DEPTH_MAX = 128,            /* tasks that wait in one worker */
    DEPTH_US = 500,             /* as many as take about this long */
    IDLE_US = 100 * 1000,       /* a lease without work goes back after this */
    SERVICE_US_FIRST = DEPTH_US /* until it is known how long a task takes */
};

typedef struct shape {
    list place;
    tasks *tasks;
    resources need;
    list queue; /* of task: ready to be sent */
    size_t queued;
    list leases;
    uint32_t requests;
    double service_us; /* what a task takes, as a moving average */
} shape;

typedef struct lease {
    list place;
    shape *shape;
    uint64_t id, process;
    route_user user;
    route *route;
    list running; /* of task */
    uint32_t in_flight;
    bool reclaimed;
    int64_t idle_since_us, last_done_us;
} lease;

typedef struct lease_request {
    wire_call call;
    shape *shape;
} lease_request;

typedef struct task {
    wire_call call;
    list place; /* in tasks.waiting, a shape's queue or a lease's running */
    shape *shape;
    lease *lease; /* NULL: not sent */
    arguments arguments;
    object *result; /* held */
    int retries;
    bool cancelled;
    int64_t sent_us, since_us;
    char name[];
} task;

static int64_t now_of(const tasks *tasks) { return clock_now_us(tasks->client->env->clock); }

void tasks_init(tasks *tasks, client *client) {
    *tasks = (struct tasks){.client = client};
    list_init(&tasks->shapes);
    list_init(&tasks->waiting);
    list_init(&tasks->doomed);
}

/* ---- A task's end. */

static void task_free(wire_call *call) {
    task *task = container_of(call, struct task, call);
    arguments_fini(&task->arguments);
    free(task);
}

static void task_origin(const task *task, char *out, size_t size) { snprintf(out, size, "task '%s'", task->name); }

/* Ends the task. The result gets the values, or the failure, of which a reference is taken over. */
static void task_end(task *task, bundle *values, failure *failed) {
    tasks *tasks = task->shape->tasks;
    object *result = task->result;
    list_remove(&task->place);
    if (values != NULL && values->count != 1) {
        bundle_unref(values);
        values = NULL;
        failed = failure_create(MR_CORRUPT, "the worker returned nothing that can be used", "", NULL);
    }
    tasks->open--;
    wire_call_end(&task->call);
    if (values != NULL)
        object_fulfil(&tasks->client->objects, result, values, 0);
    else
        object_fail(&tasks->client->objects, result, failed);
    bundle_unref(values);
    failure_unref(failed);
    object_drop(&tasks->client->objects, result);
}

static failure *task_failure(const task *task, mr_status code, const char *message, failure *cause) {
    char origin[300];
    task_origin(task, origin, sizeof origin);
    return failure_create(code, message, origin, cause);
}

/* ---- Leases. */

static void lease_free(lease *lease) {
    MR_ASSERT(lease->in_flight == 0);
    route_leave(&lease->user);
    list_remove(&lease->place);
    free(lease);
}

static void lease_give_back(lease *lease) {
    uint8_t fields[9];
    writer writer = writer_of(fields, sizeof fields);
    writer_u64(&writer, lease->id);
    writer_u8(&writer, 1);
    client_tell_node(lease->shape->tasks->client, NODE_RELEASE, span_of(fields, sizeof fields));
    lease_free(lease);
}

static void shape_feed(shape *shape);

static void lease_opened(route_user *user) { shape_feed(container_of(user, lease, user)->shape); }

/* No worker will come for what is queued. */
static void fail_queued(shape *shape, failure *why) {
    while (!list_empty(&shape->queue)) {
        task *task = container_of(shape->queue.next, struct task, place);
        shape->queued--;
        task_end(task, NULL, task_failure(task, why->code, "could not run", failure_ref(why)));
    }
}

/* Its worker is gone, and the calls to it have ended already: the node knows. Or it lives but cannot be reached, and
 * neither could the next. */
static void lease_closed(route_user *user, const cause *why) {
    lease *lease = container_of(user, struct lease, user);
    shape *shape = lease->shape;
    if (!route_unreachable(lease->route, why)) {
        lease_free(lease);
        shape_feed(shape);
        return;
    }
    lease_give_back(lease);
    failure *refused = failure_create(why->status, why->text, "no link to a worker", NULL);
    if (list_empty(&shape->leases)) fail_queued(shape, refused);
    failure_unref(refused);
}

static void lease_answered(wire_call *call, const call_result *result) {
    lease_request *request = container_of(call, lease_request, call);
    shape *shape = request->shape;
    client *client = shape->tasks->client;
    shape->requests--;
    reader reader = reader_of(result->payload.data, result->payload.size);
    uint64_t id = reader_u64(&reader), process = reader_u64(&reader);
    bool granted = result->status == MR_OK && !reader.failed;
    failure *refused = granted || client->over != NULL ? NULL : wire_failure(result, "the node");
    wire_call_end(call);
    if (refused != NULL && list_empty(&shape->leases)) fail_queued(shape, refused);
    failure_unref(refused);
    if (!granted || client->over != NULL) return;
    lease *lease = xcalloc(1, sizeof *lease);
    *lease = (struct lease){.shape = shape,
                            .id = id,
                            .process = process,
                            .user = {.opened = lease_opened, .closed = lease_closed},
                            .idle_since_us = now_of(shape->tasks)};
    list_init(&lease->running);
    list_init(&lease->user.place);
    list_push_back(&shape->leases, &lease->place);
    mr_status status = client_use(client, process, &lease->user, &lease->route);
    if (status == MR_OK) {
        shape_feed(shape);
        return;
    }
    refused = failure_create(status, mr_last_error(), "no link to a worker", NULL);
    lease_give_back(lease);
    if (list_empty(&shape->leases)) fail_queued(shape, refused);
    failure_unref(refused);
}

static void lease_request_free(wire_call *call) { free(container_of(call, lease_request, call)); }

static void ask_for_leases(shape *shape) {
    client *client = shape->tasks->client;
    while (shape->requests < shape->queued && shape->requests < REQUESTS_MAX && shape->requests < client->workers) {
        lease_request *request = xcalloc(1, sizeof *request);
        *request = (lease_request){.call = {.done = lease_answered, .free = lease_request_free}, .shape = shape};
        uint8_t fields[1024];
        writer writer = writer_of(fields, sizeof fields);
        resources_encode(&shape->need, &writer);
        wire_message message = {.fields = span_of(fields, writer_size(&writer))};
        if (client_ask_node(client, NODE_LEASE, &message, &request->call) != MR_OK) {
            free(request);
            return; /* busy: asked again with the next feed */
        }
        shape->requests++;
    }
}

/* ---- Feeding. */

static uint32_t depth_of(const shape *shape) {
    double depth = DEPTH_US / (shape->service_us > 0.1 ? shape->service_us : 0.1);
    return depth < 1 ? 1 : depth > DEPTH_MAX ? DEPTH_MAX : (uint32_t)depth;
}

static void task_done(wire_call *call, const call_result *result);

static mr_status send_task(task *task, lease *lease) {
    uint8_t fields[4 + WIRE_NAME_MAX];
    writer writer = writer_of(fields, sizeof fields);
    writer_span32(&writer, span_of(task->name, strlen(task->name)));
    wire_message message = {.fields = span_of(fields, writer_size(&writer)), .bundle = task->arguments.values};
    MR_TRY(wire_ask(task->shape->tasks->client->calls, lease->route->link, WORKER_TASK, &message, &task->call));
    list_remove(&task->place);
    list_push_back(&lease->running, &task->place);
    task->lease = lease;
    lease->in_flight++;
    task->shape->queued--;
    return MR_OK;
}

/* The open lease with the least to do, below the depth. */
static lease *least_busy(shape *shape, uint32_t depth) {
    lease *best = NULL;
    list_for_each (at, &shape->leases) {
        lease *lease = container_of(at, struct lease, place);
        if (lease->route == NULL || !lease->route->open || lease->reclaimed || lease->in_flight >= depth) continue;
        if (best == NULL || lease->in_flight < best->in_flight) best = lease;
    }
    return best;
}

static void shape_feed(shape *shape) {
    tasks *tasks = shape->tasks;
    if (list_empty(&shape->queue) || tasks->client->over != NULL) return;
    uint32_t depth = depth_of(shape);
    int64_t now_us = 0;
    while (!list_empty(&shape->queue)) {
        lease *lease = least_busy(shape, depth);
        if (lease == NULL) break;
        task *task = container_of(shape->queue.next, struct task, place);
        mr_status status = send_task(task, lease);
        if (status == MR_BUSY || status == MR_CLOSED) break; /* on_room, or the link's end, comes */
        if (status != MR_OK) {
            shape->queued--;
            task_end(task, NULL, task_failure(task, status, mr_last_error(), NULL));
            continue;
        }
        if (lease->in_flight == 1) task->sent_us = now_us != 0 ? now_us : (now_us = now_of(tasks));
    }
    ask_for_leases(shape);
    client_stir(tasks->client);
}

void tasks_feed(tasks *tasks) {
    list_for_each (at, &tasks->shapes) shape_feed(container_of(at, shape, place));
}

static void queue_task(task *task, bool first) {
    task->lease = NULL;
    list_remove(&task->place);
    if (first)
        list_push_front(&task->shape->queue, &task->place);
    else
        list_push_back(&task->shape->queue, &task->place);
    task->shape->queued++;
    shape_feed(task->shape);
}

/* How long the worker had this task to itself. */
static void note_service(task *task, lease *lease, int64_t now_us) {
    int64_t since = task->sent_us > lease->last_done_us ? task->sent_us : lease->last_done_us;
    double took = since > 0 && now_us > since ? (double)(now_us - since) : 0;
    task->shape->service_us += (took - task->shape->service_us) / 8;
    lease->last_done_us = now_us;
}

static void task_done(wire_call *call, const call_result *result) {
    task *task = container_of(call, struct task, call);
    lease *lease = task->lease;
    shape *shape = task->shape;
    int64_t now_us = now_of(shape->tasks);
    list_remove(&task->place);
    lease->in_flight--;
    note_service(task, lease, now_us);
    if (lease->in_flight == 0) lease->idle_since_us = now_us;
    char origin[300];
    bundle *values;
    failure *failed;
    task_origin(task, origin, sizeof origin);
    bool lost = client_outcome(shape->tasks->client, call, result, origin, &values, &failed);
    if (lost && task->retries > 0 && !task->cancelled && shape->tasks->client->over == NULL) {
        failure_unref(failed);
        task->retries--;
        task->lease = NULL;
        list_push_front(&shape->queue, &task->place);
        shape->queued++; /* fed when the lease has gone */
        return;
    }
    if (lost) failed = client_lost(shape->tasks->client, failed, MR_WORKER_DIED, "its worker died", origin);
    bool give_back = lease->reclaimed && lease->in_flight == 0 && !lost;
    task_end(task, values, failed);
    if (give_back)
        lease_give_back(lease);
    else if (!lost)
        shape_feed(shape);
}

/* ---- Submitting. */

/* Ends a task whose argument failed, and then those that hang on it in turn, however many: each is put in line by the
 * end of the one before it. */
static void doom(tasks *tasks, task *first) {
    list_remove(&first->place);
    list_push_back(&tasks->doomed, &first->place);
    if (tasks->dooming) return;
    tasks->dooming = true;
    while (!list_empty(&tasks->doomed)) {
        task *task = container_of(tasks->doomed.next, struct task, place);
        failure *why = task->arguments.failed;
        task_end(task, NULL, task_failure(task, why->code, "could not start", failure_ref(why)));
    }
    tasks->dooming = false;
}

static void arguments_settled(arguments *arguments) {
    task *task = container_of(arguments, struct task, arguments);
    if (arguments->failed != NULL)
        doom(task->shape->tasks, task);
    else
        queue_task(task, false);
}

static shape *shape_of(tasks *tasks, const resources *need) {
    list_for_each (at, &tasks->shapes) {
        shape *shape = container_of(at, struct shape, place);
        if (resources_equal(&shape->need, need)) return shape;
    }
    shape *shape = xcalloc(1, sizeof *shape);
    shape->tasks = tasks;
    shape->need = *need;
    shape->service_us = SERVICE_US_FIRST;
    list_init(&shape->queue);
    list_init(&shape->leases);
    list_push_back(&tasks->shapes, &shape->place);
    return shape;
}

mr_status tasks_submit(tasks *tasks, const task_plan *plan, const mr_arg *args, size_t count, object *result) {
    if (tasks->client->over != NULL) return failure_raise(tasks->client->over);
    size_t length = strlen(plan->name);
    void *memory;
    MR_TRY(alloc_try(sizeof(task) + length + 1, &memory));
    task *task = memory;
    task->call = (wire_call){.done = task_done, .free = task_free};
    list_init(&task->place);
    memcpy(task->name, plan->name, length + 1);
    mr_status status = arguments_init(&task->arguments, &tasks->client->objects, args, count, arguments_settled);
    if (status != MR_OK) {
        free(task);
        return status;
    }
    task->shape = shape_of(tasks, &plan->need);
    task->retries = plan->retries;
    task->result = object_hold(result);
    result->maker = task;
    task->since_us = client_about_now(tasks->client);
    tasks->open++;
    if (arguments_are_settled(&task->arguments))
        arguments_settled(&task->arguments);
    else
        list_push_back(&tasks->waiting, &task->place);
    return MR_OK;
}

mr_status tasks_cancel(tasks *tasks, object *result) {
    task *task = result->maker;
    if (task == NULL) return error_set(MR_NOT_FOUND, "the result is there already, or no task makes it");
    task->cancelled = true;
    if (task->call.id.number != 0) return calls_cancel(tasks->client->calls, task->call.id); /* ends in task_done */
    if (arguments_are_settled(&task->arguments)) task->shape->queued--;
    task_end(task, NULL, task_failure(task, MR_CANCELLED, "cancelled", NULL));
    return MR_OK;
}

/* ---- Time, and the end. */

void tasks_reclaim(tasks *tasks, uint64_t id) {
    list_for_each (at, &tasks->shapes) {
        shape *shape = container_of(at, struct shape, place);
        list_for_each (item, &shape->leases) {
            lease *lease = container_of(item, struct lease, place);
            if (lease->id != id) continue;
            lease->reclaimed = true;
            if (lease->in_flight == 0) lease_give_back(lease);
            return;
        }
    }
}

bool tasks_tick(tasks *tasks, int64_t now_us) {
    bool any = false;
    list_for_each (at, &tasks->shapes) {
        shape *shape = container_of(at, struct shape, place);
        list_for_each (item, &shape->leases) {
            lease *lease = container_of(item, struct lease, place);
            any = true;
            if (lease->in_flight == 0 && list_empty(&shape->queue) && now_us - lease->idle_since_us > IDLE_US)
                lease_give_back(lease);
        }
    }
    return any;
}

bool tasks_have_leases(const tasks *tasks) {
    list_for_each (at, &tasks->shapes) {
        if (!list_empty(&container_of(at, shape, place)->leases)) return true;
    }
    return false;
}

/* What was sent ends with its link, what waits for futures with those. */
void tasks_over(tasks *tasks, failure *why) {
    list_for_each (at, &tasks->shapes) fail_queued(container_of(at, shape, place), why);
}

void tasks_fini(tasks *tasks) {
    for (list *at; (at = list_pop_front(&tasks->shapes)) != NULL;) {
        shape *shape = container_of(at, struct shape, place);
        while (!list_empty(&shape->leases)) lease_free(container_of(shape->leases.next, lease, place));
        free(shape);
    }
}

/* ---- Being seen. */

static bool show(const list *tasks, sight_state state, sight_fn *fn, void *context) {
    list_for_each (at, tasks) {
        const task *task = container_of(at, struct task, place);
        sight sight = {.name = task->name,
                       .result = task->result,
                       .arguments = &task->arguments,
                       .state = state,
                       .process = task->lease == NULL ? 0 : task->lease->process,
                       .call = task->call.id.number,
                       .since_us = task->since_us,
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
