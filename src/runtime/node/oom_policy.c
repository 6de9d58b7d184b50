/* oom_policy.c — see oom_policy.h. */
#include "runtime/node/oom_policy.h"

enum { BYTES_PER_US = 8192 }; /* how fast usage is assumed to grow: several CPUs that write new pages */

static bool in_group(const oom_worker *worker, uint64_t owner) {
    return worker->role == OOM_TASK && worker->retriable && worker->owner == owner;
}

/* Number of the owner's retriable tasks. */
static size_t group_size(const oom_worker *workers, size_t count, uint64_t owner) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) size += in_group(&workers[i], owner);
    return size;
}

/* Rank of a worker: those with the highest are ended first. */
static int rank_of(const oom_worker *worker) {
    switch (worker->role) {
    case OOM_IDLE: return worker->bytes >= OOM_POLICY_IDLE_BYTES ? 5 : 0;
    case OOM_TASK: return worker->retriable ? 4 : 3;
    case OOM_ACTOR: return worker->retriable ? 2 : 1;
    }
    return 0;
}

/* Whether `a` is ended before `b`, of the same rank. */
static bool goes_first(const oom_worker *workers, size_t count, const oom_worker *a, const oom_worker *b) {
    if (a->role == OOM_IDLE) return a->bytes > b->bytes;
    if (a->role == OOM_TASK && a->retriable) {
        size_t of_a = group_size(workers, count, a->owner), of_b = group_size(workers, count, b->owner);
        if (of_a != of_b) return of_a > of_b;
    }
    return a->since_us > b->since_us;
}

bool oom_policy_choose(const oom_worker *workers, size_t count, oom_choice *out) {
    const oom_worker *best = NULL;
    for (const oom_worker *at = workers; at < workers + count; at++) {
        int rank = rank_of(at), best_rank = best == NULL ? 0 : rank_of(best);
        if (rank > best_rank || (rank == best_rank && rank > 0 && goes_first(workers, count, at, best))) best = at;
    }
    if (best == NULL) return false;
    bool retriable = best->role == OOM_TASK && best->retriable;
    *out = (oom_choice){.index = (size_t)(best - workers),
                        .retry = retriable && group_size(workers, count, best->owner) > 1};
    return true;
}

static uint64_t threshold_of(uint64_t limit, uint32_t percent) { return limit / 100 * percent; }

bool oom_policy_is_over(uint64_t used, uint64_t limit, uint32_t percent) {
    return limit > 0 && used > threshold_of(limit, percent);
}

int64_t oom_policy_interval_us(uint64_t used, uint64_t limit, uint32_t percent, int64_t shortest_us, bool tasks_run) {
    int64_t longest_us = tasks_run ? OOM_POLICY_TASKS_US : OOM_POLICY_ACTORS_US;
    uint64_t threshold = threshold_of(limit, percent);
    int64_t grows_us = used < threshold ? (int64_t)((threshold - used) / BYTES_PER_US) : 0;
    int64_t interval_us = grows_us < longest_us ? grows_us : longest_us;
    return interval_us > shortest_us ? interval_us : shortest_us;
}
