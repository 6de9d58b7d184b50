/* thread_pool.c — see thread_pool.h.
 *
 * A round is one call of thread_pool_run. The caller writes `fn` and `job`, sets `working` to the number of members,
 * increments `round` and wakes all members. Each member runs the function and decrements `working`; the last one wakes
 * the caller. Members compare `round` with the last value that they have read, so a member that misses a wake-up still
 * runs the round. Both counters are futexes: an idle pool uses no CPU.
 *
 * Invariants  `fn`, `job` and `cpu` change only while `working` is 0; a member runs each round exactly once. */
#include "train/thread_pool.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/cpu_limit.h"
#include "base/futex.h"
#include "base/thread.h"

enum { SIZE_MAX_MEMBERS = 256 };

struct thread_pool {
    thread_pool_fn *fn; /* of this round; written before `round` changes */
    void *job;
    int cpu; /* on which the caller ran when the round began */
    bool ends;
    _Atomic uint32_t round;   /* futex of the members */
    _Atomic uint32_t working; /* members that have not ended this round; futex of the caller */
    size_t count;             /* members besides the caller */
    pthread_t members[];
};

/* Moves the thread to another CPU. A woken thread often starts on the CPU of its waker and stays there for a while,
 * even if another CPU is idle; a short job would end before. */
static void leave_cpu(int cpu) {
    cpu_set_t set, others;
    if (sched_getcpu() != cpu || sched_getaffinity(0, sizeof set, &set) != 0) return;
    others = set;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
    sched_setaffinity(0, sizeof set, &set);
}

static void *serve(void *argument) {
    thread_pool *pool = argument;
    for (uint32_t seen = 0;;) {
        uint32_t round;
        while ((round = atomic_load_explicit(&pool->round, memory_order_acquire)) == seen)
            futex_wait(&pool->round, seen, -1, FUTEX_WITHIN);
        seen = round;
        if (pool->ends) return NULL;
        leave_cpu(pool->cpu);
        pool->fn(pool->job);
        if (atomic_fetch_sub_explicit(&pool->working, 1, memory_order_acq_rel) == 1)
            futex_wake(&pool->working, FUTEX_WITHIN);
    }
}

/* futex_wake wakes one thread, so it is called once for each member. */
static void next_round(thread_pool *pool) {
    atomic_fetch_add_explicit(&pool->round, 1, memory_order_release);
    for (size_t i = 0; i < pool->count; i++) futex_wake(&pool->round, FUTEX_WITHIN);
}

mr_status thread_pool_create(size_t size, thread_pool **out) {
    if (size == 0) size = cpu_limit_count();
    if (size > SIZE_MAX_MEMBERS) size = SIZE_MAX_MEMBERS;
    thread_pool *pool;
    MR_TRY(alloc_try(sizeof *pool + (size - 1) * sizeof pool->members[0], &pool));
    while (pool->count < size - 1 && thread_start(&pool->members[pool->count], serve, pool) == 0) pool->count++;
    *out = pool;
    return MR_OK;
}

void thread_pool_destroy(thread_pool *pool) {
    if (pool == NULL) return;
    pool->ends = true;
    next_round(pool);
    for (size_t i = 0; i < pool->count; i++) pthread_join(pool->members[i], NULL);
    free(pool);
}

size_t thread_pool_size(const thread_pool *pool) { return pool == NULL ? 1 : pool->count + 1; }

void thread_pool_run(thread_pool *pool, thread_pool_fn *fn, void *job) {
    if (thread_pool_size(pool) == 1) {
        fn(job);
        return;
    }
    pool->fn = fn;
    pool->job = job;
    pool->cpu = sched_getcpu();
    atomic_store_explicit(&pool->working, (uint32_t)pool->count, memory_order_relaxed);
    next_round(pool);
    fn(job);
    uint32_t left;
    while ((left = atomic_load_explicit(&pool->working, memory_order_acquire)) != 0)
        futex_wait(&pool->working, left, -1, FUTEX_WITHIN);
}
