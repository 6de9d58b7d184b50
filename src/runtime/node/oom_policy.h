/* oom_policy.h — which worker the memory monitor ends when memory is nearly used up (Ray: worker-killing policy). Pure.
 *
 * In this order:
 *   1. an idle worker that keeps much memory: its end costs nothing;
 *   2. of the tasks that may be retried, the newest one of the owner that has most of them (among equals: of the owner
 *      with the newest one). It is retried if the owner has another: one task of each owner goes on, and makes
 *      progress. The only one of its owner fails, since it would need the same memory again;
 *   3. the newest task that may not be retried;
 *   4. the newest actor, actors that may be restarted before others. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OOM_POLICY_IDLE_BYTES = 64 << 20 }; /* an idle worker with less is not ended */

typedef enum oom_role { OOM_IDLE, OOM_TASK, OOM_ACTOR } oom_role;

typedef struct oom_worker {
    uint64_t process;
    int pid;
    oom_role role;
    bool retriable;   /* of a task: it may be retried; of an actor: it may be restarted */
    uint64_t owner;   /* of a task: process that submitted it */
    int64_t since_us; /* when its task or actor began */
    uint64_t bytes;   /* memory that its end frees */
} oom_worker;

typedef struct oom_choice {
    size_t index; /* of the worker to end */
    bool retry;   /* its task is retried, and the retry does not count */
} oom_choice;

bool oom_policy_choose(const oom_worker *workers, size_t count, oom_choice *out); /* false: there is none to end */

/* Whether more than `percent` of the limit is used. */
bool oom_policy_is_over(uint64_t used, uint64_t limit, uint32_t percent);

/* When to look at the usage again: `shortest_us` near the threshold, and the later the more memory is left below it,
 * at most OOM_POLICY_TASKS_US, or OOM_POLICY_ACTORS_US while there are only actors. */
enum { OOM_POLICY_TASKS_US = 1000 * 1000, OOM_POLICY_ACTORS_US = 2000 * 1000 };
int64_t oom_policy_interval_us(uint64_t used, uint64_t limit, uint32_t percent, int64_t shortest_us, bool tasks_run);
