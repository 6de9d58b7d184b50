/* task.h — tasks that this process has submitted, from submission to result.
 *
 *   submitted ──► waiting for futures ──► queued ──► sent to a leased worker ──► result
 *                      │                    ▲  └── cancelled        │  └── cancelled; by force: with its worker
 *                      └── one failed: the  └──── worker died, ─────┘
 *                          task fails             retries left
 *
 * Tasks of one scheduling class (the resources they need, and whether they may be retried) share a queue and a set of
 * leases. A worker lease is a worker that the node granted for that class: this process sends it tasks directly, with
 * a queue that is deeper for shorter tasks, and returns the lease when the worker has been idle for a while or when
 * the node reclaims it. Short tasks go to few workers, as many as can be kept busy. A worker that is blocked, or must
 * end because of one task, gives back the tasks it has not begun (worker.h), which are queued again. A worker that
 * was sent the maximum number of tasks of a name (task_plan.calls_max) gets no more tasks, and exits instead of
 * returning to the node; so does a worker that was sent some of them, since its next client would not know the count.
 *
 * A task whose worker the node has ended to free memory (MR_EVICTED) is queued again after a pause that doubles with
 * each time; this does not count as a retry. If the node ends the only task of this process (MR_NOMEM), the task fails:
 * it would need the same memory again.
 *
 * Pure over the core worker's RPCs. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "runtime/client/invocation.h"
#include "runtime/client/task_snapshot.h"
#include "runtime/common/resources.h"
#include "runtime/refs/failure.h"

typedef struct tasks {
    struct core_worker *worker;
    slab slab; /* elements: task, without a result */
    list shapes;
    map shapes_by_need;                /* hash of the need → scheduling class */
    size_t shape_count;                /* number of classes */
    size_t shapes_most;                /* number of classes at which a new class first frees unused ones */
    struct scheduling_class *usual[2]; /* classes of tasks that need one CPU, by `retriable`; NULL: none yet */
    list waiting;                      /* elements: task, waiting for its arguments */
    list evicted;           /* elements: task whose worker was ended to free memory, and which waits before its retry */
    uint32_t evictions_max; /* retries of a task after that */
    list doomed;            /* elements: task whose argument failed, about to end */
    bool dooming;           /* `doomed` is being emptied */
} tasks;

void tasks_init(tasks *tasks, struct core_worker *worker);
void tasks_fini(tasks *tasks); /* called after tasks_over and the end of all calls */

typedef struct task_plan { /* checked options */
    invocation_plan request;
    const resources *need; /* NULL: one CPU */
    int retries;
    uint32_t calls_max; /* tasks of this name that one worker may run before it exits; 0: no limit */
} task_plan;

MR_MUST mr_status tasks_submit(tasks *tasks, const task_plan *plan); /* as invocation_init */

/* Fast path of a task: it needs one CPU, and a worker that knows its name has room for it. tasks_foresee returns that
 * lease; NULL: there is none. tasks_submit_straight follows at once: few and small arguments, none of them a future;
 * the task is sent first and recorded afterwards, and its result, a reference of the program, is created here. NULL:
 * nothing has happened, and tasks_submit takes the task. */
struct lease *tasks_foresee(const tasks *tasks, const interned_name *name, int retries);
object *tasks_submit_straight(tasks *tasks, struct lease *lease, interned_name *name, const mr_arg *args,
                              size_t args_count, int retries);

void tasks_feed(tasks *tasks);                          /* called when a link has room */
void tasks_reclaim(tasks *tasks, uint64_t lease);       /* the node reclaims this lease */
void tasks_reclaim_group(tasks *tasks, uint64_t group); /* returns all leases of a removed placement group */
int64_t tasks_tick(tasks *tasks, int64_t now_us);       /* returns leases; returns when the next one is due */
int64_t tasks_retry(tasks *tasks, int64_t now_us);      /* queues evicted tasks again; when to call next */
bool tasks_have_leases(const tasks *tasks);             /* or evicted tasks */
void tasks_over(tasks *tasks, failure *why);            /* the node is gone: pending and later tasks fail */
/* tasks without a result; false: fn returned false */
bool tasks_each(const tasks *tasks, task_snapshot_fn *fn, void *context);
