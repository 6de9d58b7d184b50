/* task.h — the tasks that this process has submitted, from the call to the result.
 *
 *   submitted ──► waiting for futures ──► queued ──► sent to a leased worker ──► result
 *                      │                    ▲  └── cancelled        │  └── cancelled; by force: with its worker
 *                      └── one failed: the  └──── worker died, ─────┘
 *                          task fails             retries left
 *
 * Tasks of one shape (the resources they need) share a queue and a set of leases. A lease is a worker that the node
 * gave us for that shape: we feed it directly, the more tasks deep the shorter they are, and give it back when it has
 * been idle for a while or when the node asks for it. Short tasks go to few workers, as many as we keep busy. A worker
 * that is held up, or is to end for the sake of one task, gives back what it has not begun (worker.h), and it is queued
 * again. A worker that was given as many tasks of a name as one may run (task_plan.calls_max) is given nothing more,
 * and leaves instead of being given back; so does one that was given some of them, since its next user would not know
 * of those.
 *
 * Pure over the client's calls. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "runtime/client/invocation.h"
#include "runtime/client/task_snapshot.h"
#include "runtime/common/resources.h"
#include "runtime/refs/failure.h"

typedef struct tasks {
    struct core_worker *worker;
    slab slab; /* of task */
    list shapes;
    map shapes_by_need;             /* hash of the need → shape */
    size_t shape_count;             /* in it; */
    size_t shapes_most;             /* with this many a new shape first frees those that are not in use */
    struct scheduling_class *usual; /* of tasks that need one CPU; NULL: there was none yet */
    size_t open;                    /* tasks without a result */
    list waiting;                   /* of task: for their arguments */
    list doomed;                    /* an argument failed: about to end */
    bool dooming;                   /* somebody is ending those */
} tasks;

void tasks_init(tasks *tasks, struct core_worker *worker);
void tasks_fini(tasks *tasks); /* after tasks_over and the end of all calls */

typedef struct task_plan { /* what is asked for, checked */
    invocation_plan request;
    const resources *need; /* NULL: one CPU */
    int retries;
    uint32_t calls_max; /* of this name, that one worker may run before it ends; 0: any number */
} task_plan;

MR_MUST mr_status tasks_submit(tasks *tasks, const task_plan *plan); /* as invocation_init */

/* The usual task by the shortest way: it needs one CPU, and a worker that knows its name has room for it. tasks_foresee
 * gives that lease; NULL: there is none. tasks_submit_straight, at once after it: few and small arguments, none of them
 * a future; it is sent first and written down afterwards, and its result, which is the program's, made here. NULL:
 * nothing has happened. tasks_submit takes what does not go so. */
struct lease *tasks_foresee(const tasks *tasks, const interned_name *name);
object *tasks_submit_straight(tasks *tasks, struct lease *lease, interned_name *name, const mr_arg *args,
                              size_t args_count, int retries);

void tasks_cancel_children(tasks *tasks, uint64_t parent); /* those that this run of a body has made */

void tasks_feed(tasks *tasks);                          /* there may be room again */
void tasks_reclaim(tasks *tasks, uint64_t lease);       /* the node wants it back */
void tasks_reclaim_group(tasks *tasks, uint64_t group); /* all that are met from this group, which is no more */
bool tasks_tick(tasks *tasks, int64_t now_us);          /* true: call again in a while */
bool tasks_have_leases(const tasks *tasks);
void tasks_over(tasks *tasks, failure *why); /* the node is gone: everything fails, and whatever comes later */
/* those without a result; false: fn said no */
bool tasks_each(const tasks *tasks, task_snapshot_fn *fn, void *context);
