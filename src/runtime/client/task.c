/* task.c — see task.h. Tested by tests/runtime_task_test.c. */
#include "runtime/client/task.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/client/task_internal.h"

enum {
    EVICTED_US = 1000 * 1000, /* pause before the first retry of an evicted task, doubled with each eviction */
    EVICTED_DOUBLINGS = 6,    /* so the longest pause is 64 s */
};

void tasks_init(tasks *tasks, core_worker *worker) {
    *tasks = (struct tasks){.worker = worker, .evictions_max = UINT32_MAX};
    slab_init(&tasks->slab, sizeof(task));
    list_init(&tasks->shapes);
    list_init(&tasks->waiting);
    list_init(&tasks->evicted);
    list_init(&tasks->doomed);
}

/* ---- A task's end. */

static void task_free(wire_call *call) {
    task *task = task_of(container_of(call, invocation, call));
    tasks *tasks = task->class->tasks;
    task->class->open--;
    invocation_fini(&task->invocation);
    slab_give(&tasks->slab, task);
}

static void describe(const invocation *invocation, char *out, size_t size) {
    snprintf(out, size, "task '%s'", invocation->name->text);
}

/* Fails all queued tasks of a class. */
void scheduling_class_fail(scheduling_class *class, failure *why) {
    while (!list_empty(&class->queue)) {
        task *task = task_at(class->queue.next);
        class->queued--;
        invocation_fail(&task->invocation, why->code, "could not run", failure_ref(why));
    }
}

/* ---- Sending queued tasks. */

static void task_done(wire_call *call, const rpc_call_result *result);

static void count_bounded(const task *task, lease *lease) {
    uint64_t number = task->invocation.name->number;
    uintptr_t count = (uintptr_t)map_get(&lease->bounded, number) + 1;
    map_put(&lease->bounded, number, (void *)count);
    if (count < task->calls_max) return;
    lease->spent = true;
    lease->spent_by = number;
}

/* The task was given back, so the worker did not run it. */
static void uncount_bounded(const task *task, lease *lease) {
    uint64_t number = task->invocation.name->number;
    uintptr_t count = (uintptr_t)map_get(&lease->bounded, number) - 1;
    if (count == 0)
        (void)map_remove(&lease->bounded, number);
    else
        map_put(&lease->bounded, number, (void *)count);
    if (lease->spent_by == number && count < task->calls_max) lease->spent = false;
}

static mr_status send_task(task *task, lease *lease) {
    MR_TRY(invocation_send(&task->invocation, lease->link, NULL));
    list_remove(&task->invocation.place);
    list_push_back(&lease->running, &task->invocation.place);
    task->lease = lease;
    lease->in_flight++;
    task->class->queued--;
    if (task->calls_max > 0) count_bounded(task, lease);
    return MR_OK;
}

void scheduling_class_feed(scheduling_class *class) {
    tasks *tasks = class->tasks;
    if (list_empty(&class->queue) || tasks->worker->over != NULL) return;
    uint32_t depth = scheduling_class_depth(class);
    int64_t now_us = 0;
    while (!list_empty(&class->queue)) {
        lease *lease = task_lease_to_feed(class, depth);
        if (lease == NULL) break;
        task *task = task_at(class->queue.next);
        mr_status status = send_task(task, lease);
        if (status == MR_BUSY || status == MR_CLOSED) break; /* continued when the link has room, or has closed */
        if (status != MR_OK) {
            class->queued--;
            invocation_fail(&task->invocation, status, mr_last_error(), NULL);
            continue;
        }
        if (lease->in_flight == 1 && class->service_us >= TASK_SERVICE_US_SHORT)
            task->sent_us = now_us != 0 ? now_us : (now_us = task_now(tasks));
    }
    scheduling_class_ask(class);
    core_worker_stir(tasks->worker);
}

void tasks_feed(tasks *tasks) {
    list_for_each (at, &tasks->shapes) scheduling_class_feed(container_of(at, scheduling_class, place));
}

static void queue_task(task *task) {
    task->lease = NULL;
    list_remove(&task->invocation.place);
    list_push_back(&task->class->queue, &task->invocation.place);
    task->class->queued++;
    scheduling_class_feed(task->class);
}

/* Queues a task again: before all tasks that were never sent, and among those that came back in submission order. A
 * worker gives back its first task first. */
static void queue_again(task *task) {
    scheduling_class *class = task->class;
    list *at = class->queue.next;
    while (at != &class->queue && task_at(at)->returned &&
           task_at(at)->invocation.since_us <= task->invocation.since_us)
        at = at->next;
    list_insert_before(at, &task->invocation.place);
    task->lease = NULL;
    task->returned = true;
    class->queued++; /* the class is fed when the lease has ended, or by the caller */
}

/* Queues a task again, if it may be retried, whose worker is gone or gave it back unbegun (`began` is false). */
static bool try_again(task *task, failure *cause, bool began) {
    scheduling_class *class = task->class;
    if ((began && task->retries == 0) || task->cancelled || class->tasks->worker->over != NULL) return false;
    if (MUTATED("no-requeue") || (task->invocation.streams && stream_reader_began(&task->invocation))) return false;
    if (began) task->retries -= !MUTATED("no-retry-count");
    if (MUTATED("fail-and-retry")) object_fail(&class->tasks->worker->objects, task->invocation.result, cause);
    queue_again(task);
    return true;
}

/* Lets a task wait, whose worker was ended to free memory, and then queues it again; false: it may not be retried. The
 * pause gives other tasks the time to end and free theirs. */
static bool try_later(task *task) {
    tasks *tasks = task->class->tasks;
    bool begun = task->invocation.streams && stream_reader_began(&task->invocation);
    if (MUTATED("no-later")) return task->retries = 0, false;
    if (task->cancelled || begun || tasks->worker->over != NULL || task->evictions >= tasks->evictions_max)
        return false;
    int64_t pause_us = EVICTED_US << (task->evictions < EVICTED_DOUBLINGS ? task->evictions : EVICTED_DOUBLINGS);
    task->evictions++;
    task->lease = NULL;
    task->returned = true;
    task->due_us = task_now(tasks) + pause_us;
    list_push_back(&tasks->evicted, &task->invocation.place);
    core_worker_stir(tasks->worker);
    return true;
}

static void end_pause(task *task) {
    task->due_us = 0;
    list_remove(&task->invocation.place);
    queue_again(task);
}

int64_t tasks_retry(tasks *tasks, int64_t now_us) {
    int64_t next_us = CLOCK_NEVER_US;
    list_for_each (at, &tasks->evicted) {
        task *task = task_at(at);
        if (task->due_us > now_us) {
            if (task->due_us < next_us) next_us = task->due_us;
            continue;
        }
        end_pause(task);
        scheduling_class_feed(task->class);
    }
    return next_us;
}

/* Whether the worker was killed because this task needed too much memory: the worker runs its tasks in order. */
static bool is_condemned(const task *task, lease *lease, const rpc_call_result *result) {
    if (result->why == NULL || result->why->status != MR_NOMEM || result->why->signal == 0) return false;
    if (lease->condemned || lease->running.next != &task->invocation.place) return false;
    lease->condemned = true;
    return true;
}

/* Retries or fails a task lost with its worker. Takes over the reference to `cause`. */
static void task_lost(task *task, failure *cause, bool began) {
    if (try_again(task, cause, began)) {
        failure_unref(cause);
        return;
    }
    invocation *invocation = &task->invocation;
    invocation_end_failure(invocation, invocation_lost(invocation, MR_WORKER_DIED, "its worker died", cause));
}

/* A task of this lease is done: returns the lease, or feeds its class. */
static void lease_next(lease *lease, bool give_back) {
    scheduling_class *class = lease->class;
    if (give_back) task_lease_give_back(lease);
    if (!list_empty(&class->queue)) scheduling_class_feed(class);
}

/* The worker gave the task back because it is blocked: the task before this one takes longer than estimated. Other
 * workers get the task, with shorter queues. */
static void task_given_back(task *task, lease *lease) {
    scheduling_class *class = task->class;
    if (task->calls_max > 0) uncount_bounded(task, lease);
    if (task->invocation.streams) stream_reader_unsent(&task->invocation);
    lease->held_up = lease->in_flight > 0;
    if (!lease->held_up) lease->idle_since_us = core_worker_about_now(class->tasks->worker);
    lease->last_done_us = task_now(class->tasks);
    lease->last_done_count = lease->done_count;
    if (class->service_us < TASK_SERVICE_US_FIRST) class->service_us = TASK_SERVICE_US_FIRST;
    task_lost(task, failure_create(MR_BUSY, "its worker is busy with earlier tasks", "", NULL), false);
    if (task_lease_is_over(lease)) task_lease_give_back(lease);
    scheduling_class_feed(class);
}

static void task_done(wire_call *call, const rpc_call_result *result) {
    task *task = task_of(container_of(call, invocation, call));
    lease *lease = task->lease;
    scheduling_class *class = task->class;
    bool condemned = is_condemned(task, lease, result);
    list_remove(&task->invocation.place);
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
        invocation_learn(&task->invocation, lease->link);
        if (invocation_end_small(&task->invocation, result)) {
            lease_next(lease, give_back);
            return;
        }
    }
    failure *failed = invocation_outcome(&task->invocation, result, &values, &lost);
    if (lost && result->status == MR_EVICTED && try_later(task)) {
        failure_unref(failed);
        return;
    }
    if (condemned) task->retries = 0;
    if (lost) {
        task_lost(task, failed, true);
        if (result->why == NULL) scheduling_class_feed(class); /* the worker is alive: only results are lost */
        return;
    }
    if (failed != NULL)
        invocation_end_failure(&task->invocation, failed);
    else
        invocation_end_values(&task->invocation, &values);
    lease_next(lease, give_back);
}

/* ---- Submitting. */

/* Ends a task whose argument failed, then the tasks that depend on it, without recursion: the end of each task adds its
 * dependents to the list. */
static void doom(tasks *tasks, task *first) {
    list_remove(&first->invocation.place);
    list_push_back(&tasks->doomed, &first->invocation.place);
    if (tasks->dooming) return;
    tasks->dooming = true;
    while (!list_empty(&tasks->doomed)) {
        task *task = task_at(tasks->doomed.next);
        failure *why = task->invocation.arguments.failed;
        invocation_fail(&task->invocation, why->code, "could not start", failure_ref(why));
    }
    tasks->dooming = false;
}

static void arguments_settled(arguments *arguments) {
    task *task = task_of(container_of(arguments, invocation, arguments));
    if (task->invocation.held) return;
    failure *over = task->class->tasks->worker->over;
    if (arguments->failed != NULL)
        doom(task->class->tasks, task);
    else if (over != NULL) /* the arguments became ready after the node's end, from a worker still alive */
        invocation_fail(&task->invocation, over->code, "could not run", failure_ref(over));
    else
        queue_task(task);
}

static scheduling_class *usual_shape(tasks *tasks, bool retriable) {
    if (tasks->usual[retriable] == NULL) {
        resources one = {0};
        MR_ASSERT(resources_set(&one, "cpu", 1) == MR_OK);
        tasks->usual[retriable] = scheduling_class_find(tasks, &one, retriable);
    }
    return tasks->usual[retriable];
}

static void start(invocation *invocation) {
    task *task = task_of(invocation);
    if (arguments_are_settled(&invocation->arguments))
        arguments_settled(&invocation->arguments);
    else
        list_push_back(&task->class->tasks->waiting, &invocation->place);
}

typedef struct ending { /* WORKER_END, sent to a worker */
    wire_call call;
    tasks *tasks;
    uint64_t lease;
} ending;

/* The worker answers only if the task had not begun: then the worker and its lease remain. */
static void ending_done(wire_call *call, const rpc_call_result *result) {
    ending *ending = container_of(call, struct ending, call);
    lease *lease = result->why != NULL ? NULL : task_lease_find(ending->tasks, ending->lease);
    wire_call_end(call);
    if (lease == NULL) return;
    lease->ended = false;
    lease_next(lease, task_lease_is_over(lease));
}

/* Asks the worker to end if it runs this very task; before its end the worker gives back its queued tasks. */
static mr_status end_worker(const task *task) {
    uint64_t number = task->invocation.call.id.number;
    wire_message message = {.fields = span_of(&number, sizeof number)};
    ending *ending = XNEW(struct ending, .call = {.done = ending_done, .free = wire_call_free},
                          .tasks = task->class->tasks, .lease = task->lease->id);
    mr_status status =
        wire_ask(task->invocation.worker->rpc, task->lease->link->link, WORKER_END, &message, &ending->call);
    if (status != MR_OK) free(ending);
    if (status == MR_BUSY) return status;
    task->lease->ended = true;
    return MR_OK; /* MR_CLOSED: the task ends with the link */
}

static mr_status cancel(invocation *invocation, wire_how how) {
    task *task = task_of(invocation);
    bool sent = invocation->call.id.number != 0;
    if (sent && how == WIRE_BY_FORCE) MR_TRY(end_worker(task));
    if (sent && how == WIRE_ALONE) MR_TRY(invocation_spare_children(invocation, task->lease->link));
    task->cancelled = true;
    if (sent) return rpc_cancel(invocation->worker->rpc, invocation->call.id); /* the task ends in task_done */
    bool queued = arguments_are_settled(&invocation->arguments) && !invocation->held && task->due_us == 0;
    task->class->queued -= queued;
    invocation_fail(&task->invocation, MR_CANCELLED, "cancelled", NULL);
    return MR_OK;
}

/* Whether the submitting body was cancelled and still submits. Callers send the worker more tasks meanwhile: a late
 * child could be queued behind a body that waits for its own child, which is queued behind the cancelled body. */
static bool is_late(const core_worker *worker) {
    return worker->run != 0 && worker->run == worker->cancelled_run && !MUTATED("no-late-cancel");
}

static const invocation_ops task_ops = {.start = start, .cancel = cancel, .describe = describe};

/* Sets the fields of an unsent task's record, except its invocation's. */
static inline void name_task(task *task, scheduling_class *class, int retries, uint32_t calls_max) {
    task->class = class;
    class->open++;
    task->lease = NULL;
    task->retries = retries;
    task->evictions = 0;
    task->due_us = 0;
    task->calls_max = calls_max;
    task->cancelled = false;
    task->returned = false;
    task->sent_us = 0;
    task->invocation.ops = &task_ops;
}

lease *tasks_foresee(const tasks *tasks, const interned_name *name, int retries) {
    const core_worker *worker = tasks->worker;
    const scheduling_class *class = tasks->usual[retries != 0];
    if (class == NULL || !list_empty(&class->queue) || worker->over != NULL || is_late(worker)) return NULL;
    lease *lease = task_lease_to_feed(class, scheduling_class_depth(class));
    if (lease == NULL || !peer_link_knows(lease->link, name->number)) return NULL;
    rpc_foresee(worker->rpc, lease->link->link);
    return lease;
}

object *tasks_submit_straight(tasks *tasks, lease *lease, interned_name *name, const mr_arg *args, size_t args_count,
                              int retries) {
    core_worker *worker = tasks->worker;
    scheduling_class *class = lease->class;
    uint64_t words[INVOCATION_WORDS];
    size_t count = invocation_words(name, args, args_count, words, INVOCATION_WORDS);
    task *task = count == 0 || !objects_ready(&worker->objects) ? NULL : slab_take(&tasks->slab);
    if (task == NULL) return NULL;
    wire_call *wire = &task->invocation.call;
    if (wire_call_words(worker->rpc, lease->link->link, WORKER_TASK, words, count, wire) != MR_OK) {
        slab_give(&tasks->slab, task);
        return NULL;
    }
    object *result = object_create(&worker->objects, true);
    wire_call_fill_in(wire, task_done, task_free);
    name_task(task, class, retries, 0);
    invocation_sent(&task->invocation, worker, name, result);
    if (count > 1) invocation_keep_words(&task->invocation, words, count);
    task->lease = lease;
    list_push_back(&lease->running, &task->invocation.place);
    lease->in_flight++;
    if (lease->in_flight == 1 && class->service_us >= TASK_SERVICE_US_SHORT) task->sent_us = task_now(tasks);
    core_worker_stir(worker);
    return result;
}

mr_status tasks_submit(tasks *tasks, const task_plan *plan) {
    core_worker *worker = tasks->worker;
    if (worker->over != NULL) return failure_raise(worker->over);
    task *task = slab_take(&tasks->slab);
    if (task == NULL) return MR_NOMEM;
    mr_status status = invocation_init(&task->invocation, worker, &plan->request, arguments_settled);
    if (status != MR_OK) {
        slab_give(&tasks->slab, task);
        return status;
    }
    task->invocation.call = (wire_call){.done = task_done, .free = task_free};
    bool retriable = plan->retries != 0;
    scheduling_class *class =
        plan->need != NULL ? scheduling_class_find(tasks, plan->need, retriable) : usual_shape(tasks, retriable);
    name_task(task, class, plan->retries, plan->calls_max);
    if (is_late(worker))
        invocation_fail(&task->invocation, MR_CANCELLED, "cancelled, because the task that submitted it was cancelled",
                        NULL);
    else if (!task->invocation.held)
        start(&task->invocation);
    return MR_OK;
}

/* ---- Shutdown. */

/* Sent tasks end with their link, tasks that wait for futures end with those. */
void tasks_over(tasks *tasks, failure *why) {
    while (!list_empty(&tasks->evicted)) end_pause(task_at(tasks->evicted.next));
    list_for_each (at, &tasks->shapes) scheduling_class_fail(container_of(at, scheduling_class, place), why);
}

void tasks_fini(tasks *tasks) {
    task_shapes_fini(tasks);
    slab_fini(&tasks->slab);
}

/* ---- Reports. */

static bool show(const list *tasks, task_snapshot_state state, task_snapshot_fn *fn, void *context) {
    list_for_each (at, tasks) {
        const task *task = task_at(at);
        task_snapshot snapshot = {.invocation = &task->invocation,
                                  .state = state,
                                  .process = task->lease == NULL ? 0 : task->lease->process,
                                  .need = &task->class->need,
                                  .retries = task->retries};
        if (!fn(context, &snapshot)) return false;
    }
    return true;
}

bool tasks_each(const tasks *tasks, task_snapshot_fn *fn, void *context) {
    list_for_each (at, &tasks->shapes) {
        const scheduling_class *class = container_of(at, struct scheduling_class, place);
        list_for_each (item, &class->leases) {
            const lease *lease = container_of(item, struct lease, place);
            if (!show(&lease->running, TASK_SNAPSHOT_SENT, fn, context)) return false;
        }
        if (!show(&class->queue, TASK_SNAPSHOT_QUEUED, fn, context)) return false;
    }
    return show(&tasks->evicted, TASK_SNAPSHOT_QUEUED, fn, context) &&
           show(&tasks->waiting, TASK_SNAPSHOT_ARGUMENTS, fn, context);
}
