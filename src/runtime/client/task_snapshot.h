/* task_snapshot.h — a task or call without a result, as its owner sees it: what it is and what it waits for. For
 * reports only.
 */
#pragma once
#include "runtime/client/arguments.h"
#include "runtime/common/resources.h"

typedef enum task_snapshot_state {
    TASK_SNAPSHOT_ARGUMENTS, /* futures among its arguments are not there */
    TASK_SNAPSHOT_QUEUED,    /* a task: for a worker; a call: for its actor, or for a call before it */
    TASK_SNAPSHOT_SENT,      /* it is with its worker, and runs there or waits its turn */
} task_snapshot_state;

typedef struct task_snapshot { /* all borrowed */
    bool is_call;              /* of an actor; else a task */
    const char *name;
    const object *result;
    const arguments *arguments;
    task_snapshot_state state;
    uint64_t process;        /* where it was sent; 0: nowhere yet */
    int64_t since_us;        /* when it was submitted, to some milliseconds */
    const resources *need;   /* of a task */
    int retries;             /* of a task: how often it may be lost with its worker */
    mr_actor actor;          /* of a call */
    const char *actor_state; /* of a call: what is known about its actor */
} task_snapshot;

typedef bool task_snapshot_fn(void *context, const task_snapshot *snapshot); /* false: no more */
