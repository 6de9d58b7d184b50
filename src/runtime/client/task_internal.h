/* task_internal.h — the state of the tasks that a client has submitted, for the files that are it: task.c sends them
 * and ends them, task_lease.c has the workers that they are sent to.
 *
 * Invariants  a task is in tasks.waiting until its arguments are there, then in its shape's queue, then, sent, among
 *             its lease's running, which `in_flight` counts; a lease is in its shape's list until it goes back.
 *             A shape is in use while it has tasks, leases or lease requests, or is tasks.usual. */
#pragma once
#include "base/list.h"
#include "base/map.h"
#include "runtime/client/core_worker.h"
#include "runtime/client/task.h"

enum {
    TASK_SERVICE_US_FIRST = 500, /* what a task takes, until it is known */
    TASK_SERVICE_US_SHORT = 20,  /* those that take less are not timed one by one */
};

typedef struct scheduling_class {
    list place;
    tasks *tasks;
    uint64_t hash;                 /* of `need` */
    struct scheduling_class *same; /* the next one with this hash; NULL: none */
    size_t open;                   /* tasks whose record names this shape */
    resources need;
    list queue; /* of task: ready to be sent */
    size_t queued;
    list leases;
    uint32_t requests;
    double service_us; /* what a task takes, as a moving average */
} scheduling_class;

typedef struct lease {
    list place;
    scheduling_class *class;
    uint64_t id, process;
    peer_link_user user;
    peer_link *link;
    list running; /* of task */
    uint32_t in_flight;
    bool reclaimed;
    map bounded;       /* number of a name → how many tasks of it were sent, of those that have a calls_max */
    bool spent;        /* it was given as many as it may run, */
    uint64_t spent_by; /* of the name with this number */
    bool held_up;      /* a body of it takes long: it gets nothing more until that is done */
    bool ended;        /* a task of it was cancelled by force: its worker is about to die, if it still runs that */
    uint32_t done_count, last_done_count; /* tasks done, and how many when it was timed last */
    int64_t idle_since_us, last_done_us;
} lease;

typedef struct task {
    invocation invocation; /* its place: in tasks.waiting, a shape's queue or a lease's running */
    scheduling_class *class;
    lease *lease; /* NULL: not sent */
    int retries;
    uint32_t calls_max;
    bool cancelled;
    bool returned; /* a worker that had it has not done it */
    int64_t sent_us;
} task;

static inline task *task_of(invocation *invocation) { return container_of(invocation, task, invocation); }
static inline task *task_at(list *place) { return task_of(container_of(place, invocation, place)); }

static inline int64_t task_now(const tasks *tasks) { return clock_now_us(tasks->worker->env->clock); }

/* ---- task.c. */

void scheduling_class_feed(scheduling_class *class);
void scheduling_class_fail(scheduling_class *class, failure *why); /* no worker will come for what is queued */

/* ---- scheduling_class.c. */

scheduling_class *scheduling_class_find(tasks *tasks, const resources *need); /* creates it if there is none */
void task_shapes_fini(tasks *tasks);

/* ---- task_lease.c. */

void scheduling_class_ask(scheduling_class *class); /* for as many workers as its tasks are worth */
/* How many tasks one worker is given at a time; which one is given the next, NULL: none. */
uint32_t scheduling_class_depth(const scheduling_class *class);
lease *task_lease_to_feed(const scheduling_class *class, uint32_t depth);
void task_lease_note(lease *lease, task *task); /* it is done */
static inline bool task_lease_is_over(const lease *lease) {
    return (lease->reclaimed || lease->spent) && lease->in_flight == 0;
}
lease *task_lease_find(const tasks *tasks, uint64_t id); /* NULL */
void task_lease_give_back(lease *lease);
void task_lease_free(lease *lease);
