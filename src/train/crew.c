#include "train/crew.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/futex.h"
#include "base/thread.h"

enum { SIZE_MAX_MEMBERS = 256 };

struct crew {
    crew_fn *fn; /* of this round; written before `round` changes */
    void *job;
    int cpu; /* on which the caller ran when it began */
    bool ends;
    _Atomic uint32_t round;   /* members sleep on it */
    _Atomic uint32_t working; /* members that have not ended this round; the caller sleeps on it */
    size_t count;             /* members besides the caller */
    pthread_t members[];
};

/* Who is woken often starts on the CPU of who woke it, and is left there for a while although another one is idle: a
 * short job would be over by then. */
static void leave_cpu(int cpu) {
    cpu_set_t set, others;
    if (sched_getcpu() != cpu || sched_getaffinity(0, sizeof set, &set) != 0) return;
    others = set;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
    sched_setaffinity(0, sizeof set, &set);
}

static void *serve(void *argument) {
    crew *crew = argument;
    for (uint32_t seen = 0;;) {
        uint32_t round;
        while ((round = atomic_load_explicit(&crew->round, memory_order_acquire)) == seen)
            futex_wait(&crew->round, seen, -1, FUTEX_WITHIN);
        seen = round;
        if (crew->ends) return NULL;
        leave_cpu(crew->cpu);
        crew->fn(crew->job);
        if (atomic_fetch_sub_explicit(&crew->working, 1, memory_order_acq_rel) == 1)
            futex_wake(&crew->working, FUTEX_WITHIN);
    }
}

/* futex_wake wakes one at a time: as many calls as there are members. */
static void next_round(crew *crew) {
    atomic_fetch_add_explicit(&crew->round, 1, memory_order_release);
    for (size_t i = 0; i < crew->count; i++) futex_wake(&crew->round, FUTEX_WITHIN);
}

mr_status crew_create(size_t size, crew **out) {
    if (size == 0) size = cpu_count();
    if (size > SIZE_MAX_MEMBERS) size = SIZE_MAX_MEMBERS;
    crew *crew;
    MR_TRY(alloc_try(sizeof *crew + (size - 1) * sizeof crew->members[0], (void **)&crew));
    while (crew->count < size - 1 && thread_start(&crew->members[crew->count], serve, crew) == 0) crew->count++;
    *out = crew;
    return MR_OK;
}

void crew_destroy(crew *crew) {
    if (crew == NULL) return;
    crew->ends = true;
    next_round(crew);
    for (size_t i = 0; i < crew->count; i++) pthread_join(crew->members[i], NULL);
    free(crew);
}

size_t crew_size(const crew *crew) { return crew == NULL ? 1 : crew->count + 1; }

void crew_run(crew *crew, crew_fn *fn, void *job) {
    if (crew_size(crew) == 1) {
        fn(job);
        return;
    }
    crew->fn = fn;
    crew->job = job;
    crew->cpu = sched_getcpu();
    atomic_store_explicit(&crew->working, (uint32_t)crew->count, memory_order_relaxed);
    next_round(crew);
    fn(job);
    uint32_t left;
    while ((left = atomic_load_explicit(&crew->working, memory_order_acquire)) != 0)
        futex_wait(&crew->working, left, -1, FUTEX_WITHIN);
}
