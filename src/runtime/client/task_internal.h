/* task_internal.h — state of the tasks that a process has submitted, shared by three files: task.c sends and ends
 * tasks, task_lease.c has the workers that run them, scheduling_class.c the classes.
 *
 * Invariants a task is in tasks.waiting until its arguments are ready, then in its class's queue, then, sent, among
 *             its lease's running, which `in_flight` counts; after an eviction it is in tasks.evicted until
 *             due_us; a lease is in its class's list until it is returned.
 *             A class is in use while it has tasks, leases or lease requests, or is in tasks.usual. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "runtime/client/core_worker.h"
#include "runtime/client/task.h"

enum {
    TASK_SERVICE_US_FIRST = 500, /* assumed duration of a task, until measured */
    TASK_SERVICE_US_SHORT = 20,  /* shorter tasks are not timed one by one */
};

typedef struct scheduling_class {
    list place;
    tasks *tasks;
    uint64_t hash;                 /* hash of `need` and `retriable` */
    struct scheduling_class *same; /* next class with this hash; NULL: none */
    size_t open;                   /* tasks of this class */
    resources need;
    bool retriable; /* the tasks may be retried: the node ends their workers first when memory runs out */
    list queue;     /* elements: task, ready to be sent */
    size_t queued;
    list leases;
    uint32_t requests;
    double service_us; /* duration of a task, moving average */
} scheduling_class;

typedef struct lease {
    list place;
    scheduling_class *class;
    uint64_t id, process;
    peer_link_user user;
    peer_link *link;
    list running; /* elements: task */
    uint32_t in_flight;
    bool reclaimed;
    map bounded;       /* number of a name → tasks of it sent, for names with a calls_max */
    bool spent;        /* the worker was sent the maximum number of tasks of a name */
    uint64_t spent_by; /* number of that name */
    bool held_up;      /* a body runs long: no more tasks until it is done */
    bool ended;        /* a task was cancelled by force: the worker ends if it still runs that task */
    bool condemned;    /* the worker was killed because the task that it ran needed too much memory */
    uint32_t done_count, last_done_count; /* tasks done, and their count when last timed */
    int64_t idle_since_us, last_done_us;
} lease;

typedef struct task {
    invocation invocation; /* first field; its `place` is in tasks.waiting, a class's queue or a lease's running */
    scheduling_class *class;
    lease *lease; /* NULL: not sent */
    int retries;
    uint32_t evictions; /* how often its worker was ended to free memory */
    int64_t due_us;     /* while it is in tasks.evicted: when it is queued again; else 0 */
    uint32_t calls_max;
    bool cancelled;
    bool returned; /* a worker gave it back or died */
    int64_t sent_us;
} task;

static inline task *task_of(invocation *invocation) { return container_of(invocation, task, invocation); }
static inline task *task_at(list *place) { return task_of(container_of(place, invocation, place)); }

static inline int64_t task_now(const tasks *tasks) { return clock_now_us(tasks->worker->env->clock); }

/* ---- task.c. */

void scheduling_class_feed(scheduling_class *class);
void scheduling_class_fail(scheduling_class *class, failure *why); /* fails all queued tasks */

/* ---- scheduling_class.c. */

/* created if there is none */
scheduling_class *scheduling_class_find(tasks *tasks, const resources *need, bool retriable);
void task_shapes_fini(tasks *tasks);

/* ---- task_lease.c. */

void scheduling_class_ask(scheduling_class *class); /* requests as many workers as the queued tasks justify */
/* Limit of tasks sent to one worker at a time; and the lease that gets the next task, NULL: none. */
uint32_t scheduling_class_depth(const scheduling_class *class);
lease *task_lease_to_feed(const scheduling_class *class, uint32_t depth);
void task_lease_note(lease *lease, task *task); /* measures a task that is done */
static inline bool task_lease_is_over(const lease *lease) {
    return (lease->reclaimed || lease->spent) && lease->in_flight == 0;
}
lease *task_lease_find(const tasks *tasks, uint64_t id); /* NULL: none */
void task_lease_give_back(lease *lease);
void task_lease_free(lease *lease);
