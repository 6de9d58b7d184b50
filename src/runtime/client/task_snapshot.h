/* task_snapshot.h — state of a task or call without a result, in its owner: description and cause of waiting. For
 * reports only. */
#pragma once
#include "runtime/client/invocation.h"
#include "runtime/common/resources.h"

typedef enum task_snapshot_state {
    TASK_SNAPSHOT_ARGUMENTS, /* some arguments are pending */
    TASK_SNAPSHOT_QUEUED,    /* waits: a task for a worker, a call for its actor or an earlier call */
    TASK_SNAPSHOT_SENT,      /* sent to its worker: running or queued there */
} task_snapshot_state;

typedef struct task_snapshot { /* all borrowed */
    bool is_call;              /* actor call; else a task */
    const invocation *invocation;
    task_snapshot_state state;
    uint64_t process;        /* worker it was sent to; 0: not sent */
    const resources *need;   /* needs of a task */
    int retries;             /* retries left of a task */
    mr_actor actor;          /* actor of a call */
    const char *actor_state; /* state of a call's actor */
} task_snapshot;

typedef bool task_snapshot_fn(void *context, const task_snapshot *snapshot); /* false: stop */
