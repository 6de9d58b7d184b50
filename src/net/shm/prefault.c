/* prefault.c — see prefault.h.
 *
 * Invariant  safe <= want, and safe <= backed whenever the mutex is free. Only the owner uses `safe`; it rises only
 * under the mutex, when no step is running, and it falls before `want` does. The helper lowers `backed` only down to
 * the `want` that it read under the mutex, so a page below `safe` is never punched.
 *
 *   helper:  asleep ── semaphore ──► step, step, … ──► nothing to do, failed, or the owner waits ──► asleep */
#include "net/shm/prefault.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

struct prefault {
    arena *arena; /* borrowed */
    pthread_t helper;

    /* State shared by the two threads. */
    pthread_mutex_t step; /* one step at a time */
    sem_t work;
    _Atomic uint64_t want;   /* written by the owner */
    _Atomic uint64_t backed; /* written under `step` */
    _Atomic bool owner_waits, stopping;
    _Atomic bool stuck; /* the helper failed: the next request backs the pages itself and returns the error */

    /* State of the owner alone. */
    uint64_t safe;
    uint64_t peak;         /* the highest top since idle_since_us */
    int64_t idle_since_us; /* time since which the backed tail is too long; CLOCK_NEVER_US: it is not */
};

/* ---- The helper. */

/* One step towards `want`. Returns false if there is nothing to do or the step failed. */
static bool step_up(prefault *prefault, uint64_t backed, uint64_t want) {
    uint64_t next = want - backed > PREFAULT_STEP ? backed + PREFAULT_STEP : want;
    if (arena_back(prefault->arena, backed, next) != MR_OK) {
        atomic_store(&prefault->stuck, true);
        return false;
    }
    atomic_store(&prefault->backed, next);
    return true;
}

static bool step_down(prefault *prefault, uint64_t backed, uint64_t want) {
    uint64_t next = backed - want > PREFAULT_STEP ? backed - PREFAULT_STEP : want;
    atomic_store(&prefault->backed, next);
    if (arena_punch(prefault->arena, next, backed) == MR_OK) return true;
    log_warn("%s", mr_last_error()); /* the pages stay, unused, until they are needed again or the arena ends */
    return false;
}

static bool step(prefault *prefault) {
    pthread_mutex_lock(&prefault->step);
    uint64_t backed = atomic_load(&prefault->backed), want = atomic_load(&prefault->want);
    bool more =
        (backed < want && step_up(prefault, backed, want)) || (backed > want && step_down(prefault, backed, want));
    pthread_mutex_unlock(&prefault->step);
    return more;
}

static void *help(void *argument) {
    prefault *prefault = argument;
    for (;;) {
        while (sem_wait(&prefault->work) != 0) MR_ASSERT(errno == EINTR);
        do {
            if (atomic_load(&prefault->stopping)) return NULL;
            /* A mutex is not fair: the helper stops, and the owner wakes it again afterwards. */
            if (atomic_load(&prefault->owner_waits)) break;
        } while (step(prefault));
    }
}

/* ---- The owner. */

/* The watermark for `end` in use. */
static uint64_t ahead_of(const prefault *prefault, uint64_t end) {
    uint64_t ahead = end / 4;
    if (ahead < PREFAULT_AHEAD_MIN) ahead = PREFAULT_AHEAD_MIN;
    if (ahead > PREFAULT_AHEAD_MAX) ahead = PREFAULT_AHEAD_MAX;
    uint64_t size = prefault->arena->size;
    return size - end > ahead ? end + ahead : size;
}

static void raise_want(prefault *prefault, uint64_t end) {
    uint64_t want = ahead_of(prefault, end);
    if (want <= atomic_load_explicit(&prefault->want, memory_order_relaxed)) return;
    atomic_store(&prefault->want, want);
    sem_post(&prefault->work);
}

static void lock_step(prefault *prefault) {
    atomic_store(&prefault->owner_waits, true);
    pthread_mutex_lock(&prefault->step);
    atomic_store(&prefault->owner_waits, false);
}

static void unlock_step(prefault *prefault) {
    pthread_mutex_unlock(&prefault->step);
    sem_post(&prefault->work);
}

mr_status prefault_start(arena *arena, uint64_t from, prefault **out) {
    prefault *made =
        XNEW(prefault, .arena = arena, .want = from, .backed = from, .safe = from, .idle_since_us = CLOCK_NEVER_US);
    pthread_mutex_init(&made->step, NULL);
    sem_init(&made->work, 0, 0);
    int failed = thread_start(&made->helper, help, made);
    if (failed != 0) {
        sem_destroy(&made->work);
        pthread_mutex_destroy(&made->step);
        free(made);
        errno = failed;
        return error_errno("cannot start the thread that prefaults the arena (fd %d)", arena->fd);
    }
    raise_want(made, from);
    *out = made;
    return MR_OK;
}

void prefault_stop(prefault *prefault) {
    atomic_store(&prefault->stopping, true);
    sem_post(&prefault->work);
    pthread_join(prefault->helper, NULL);
    sem_destroy(&prefault->work);
    pthread_mutex_destroy(&prefault->step);
    free(prefault);
}

/* Updates `safe` from the helper's progress; called under the mutex. */
static void refresh_safe(prefault *prefault) {
    uint64_t want = atomic_load(&prefault->want), backed = atomic_load(&prefault->backed);
    prefault->safe = want < backed ? want : backed;
}

mr_status prefault_need(prefault *prefault, uint64_t end) {
    MR_ASSERT(end <= prefault->arena->size);
    if (end <= prefault->safe) {
        raise_want(prefault, end);
        return MR_OK;
    }
    mr_status status = MR_OK;
    lock_step(prefault);
    uint64_t backed = atomic_load(&prefault->backed);
    if (backed < end) {
        status = arena_back(prefault->arena, backed, end);
        if (status == MR_OK) atomic_store(&prefault->backed, end);
    }
    if (status == MR_OK) raise_want(prefault, end);
    refresh_safe(prefault);
    unlock_step(prefault);
    MR_ASSERT(status != MR_OK || prefault->safe >= end);
    return status;
}

mr_status prefault_reach(prefault *prefault, uint64_t end) {
    MR_ASSERT(end <= prefault->arena->size);
    uint64_t backed = atomic_load(&prefault->backed);
    if (end <= prefault->safe || end <= backed + PREFAULT_STEP || atomic_exchange(&prefault->stuck, false))
        return prefault_need(prefault, end);
    raise_want(prefault, end);
    return error_set(MR_BUSY, "%llu bytes of shared memory are being prefaulted", (unsigned long long)(end - backed));
}

static void lower_want(prefault *prefault, uint64_t want) {
    if (prefault->safe > want) prefault->safe = want;
    atomic_store(&prefault->want, want);
    sem_post(&prefault->work);
}

int64_t prefault_trim(prefault *prefault, uint64_t top, int64_t now_us) {
    uint64_t keep = ahead_of(prefault, top);
    uint64_t want = atomic_load_explicit(&prefault->want, memory_order_relaxed);
    if (want <= keep || want - keep <= PREFAULT_SPARE) {
        prefault->idle_since_us = CLOCK_NEVER_US;
        return CLOCK_NEVER_US;
    }
    if (prefault->idle_since_us == CLOCK_NEVER_US) {
        prefault->idle_since_us = now_us;
        prefault->peak = top;
    }
    if (top > prefault->peak) prefault->peak = top;
    if (now_us - prefault->idle_since_us < PREFAULT_PATIENCE_US) return prefault->idle_since_us + PREFAULT_PATIENCE_US;
    lower_want(prefault, ahead_of(prefault, prefault->peak));
    prefault->idle_since_us = CLOCK_NEVER_US;
    return CLOCK_NEVER_US;
}

uint64_t prefault_backed(const prefault *prefault) { return atomic_load(&prefault->backed); }

void prefault_settle(prefault *prefault) {
    while (step(prefault)) continue;
}
