/* watermark.c — see watermark.h.
 *
 * Invariant  safe <= want, and safe <= backed whenever the mutex is free. `safe` is the owner's own; it rises only
 * under the mutex, when no step is running, and it falls before `want` does. The helper lowers `backed` only down to
 * the `want` it read under the mutex. So a page below `safe` is never punched.
 *
 *   helper:  asleep ── semaphore ──► step, step, … ──► nothing to do, failed, or the owner waits ──► asleep */
#include "net/shm/watermark.h"

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

struct watermark {
    arena *arena; /* borrowed */
    pthread_t helper;

    /* Where the two meet. */
    pthread_mutex_t step; /* one step at a time */
    sem_t work;
    _Atomic uint64_t want;   /* written by the owner */
    _Atomic uint64_t backed; /* written under `step` */
    _Atomic bool owner_waits, stopping;
    _Atomic bool stuck; /* the helper could not go on: whoever asks next tries himself and hears why */

    /* The owner's own. */
    uint64_t safe;
    uint64_t peak;         /* the highest top since `idle_since_us` */
    int64_t idle_since_us; /* since when the tail has been too long; CLOCK_NEVER_US: it is not */
};

/* ---- The helper. */

/* One step towards `want`. False when there is nothing to do, or it cannot be done now. */
static bool step_up(watermark *watermark, uint64_t backed, uint64_t want) {
    uint64_t next = want - backed > WATERMARK_STEP ? backed + WATERMARK_STEP : want;
    if (arena_back(watermark->arena, backed, next) != MR_OK) {
        atomic_store(&watermark->stuck, true);
        return false;
    }
    atomic_store(&watermark->backed, next);
    return true;
}

static bool step_down(watermark *watermark, uint64_t backed, uint64_t want) {
    uint64_t next = backed - want > WATERMARK_STEP ? backed - WATERMARK_STEP : want;
    atomic_store(&watermark->backed, next);
    if (arena_punch(watermark->arena, next, backed) == MR_OK) return true;
    log_warn("%s", mr_last_error()); /* the pages stay, unused, until they are backed again or the arena goes */
    return false;
}

static bool step(watermark *watermark) {
    pthread_mutex_lock(&watermark->step);
    uint64_t backed = atomic_load(&watermark->backed), want = atomic_load(&watermark->want);
    bool more = backed < want   ? step_up(watermark, backed, want)
                : backed > want ? step_down(watermark, backed, want)
                                : false;
    pthread_mutex_unlock(&watermark->step);
    return more;
}

static void *help(void *argument) {
    watermark *watermark = argument;
    for (;;) {
        while (sem_wait(&watermark->work) != 0) MR_ASSERT(errno == EINTR);
        do {
            if (atomic_load(&watermark->stopping)) return NULL;
            /* A mutex is not fair: step back, the owner calls again when it is done. */
            if (atomic_load(&watermark->owner_waits)) break;
        } while (step(watermark));
    }
}

/* ---- The owner. */

/* Where the watermark should be when `end` is in use. */
static uint64_t ahead_of(const watermark *watermark, uint64_t end) {
    uint64_t ahead = end / 4;
    if (ahead < WATERMARK_AHEAD_MIN) ahead = WATERMARK_AHEAD_MIN;
    if (ahead > WATERMARK_AHEAD_MAX) ahead = WATERMARK_AHEAD_MAX;
    uint64_t size = watermark->arena->size;
    return size - end > ahead ? end + ahead : size;
}

static void raise_want(watermark *watermark, uint64_t end) {
    uint64_t want = ahead_of(watermark, end);
    if (want <= atomic_load_explicit(&watermark->want, memory_order_relaxed)) return;
    atomic_store(&watermark->want, want);
    sem_post(&watermark->work);
}

static void lock_step(watermark *watermark) {
    atomic_store(&watermark->owner_waits, true);
    pthread_mutex_lock(&watermark->step);
    atomic_store(&watermark->owner_waits, false);
}

static void unlock_step(watermark *watermark) {
    pthread_mutex_unlock(&watermark->step);
    sem_post(&watermark->work);
}

mr_status watermark_start(arena *arena, uint64_t from, watermark **out) {
    watermark *made = xcalloc(1, sizeof *made);
    made->arena = arena;
    made->safe = from;
    made->idle_since_us = CLOCK_NEVER_US;
    atomic_init(&made->want, from);
    atomic_init(&made->backed, from);
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

void watermark_stop(watermark *watermark) {
    atomic_store(&watermark->stopping, true);
    sem_post(&watermark->work);
    pthread_join(watermark->helper, NULL);
    sem_destroy(&watermark->work);
    pthread_mutex_destroy(&watermark->step);
    free(watermark);
}

/* Learns what the helper has done; under the mutex. */
static void refresh_safe(watermark *watermark) {
    uint64_t want = atomic_load(&watermark->want), backed = atomic_load(&watermark->backed);
    watermark->safe = want < backed ? want : backed;
}

mr_status watermark_need(watermark *watermark, uint64_t end) {
    MR_ASSERT(end <= watermark->arena->size);
    if (end <= watermark->safe) {
        raise_want(watermark, end);
        return MR_OK;
    }
    mr_status status = MR_OK;
    lock_step(watermark);
    uint64_t backed = atomic_load(&watermark->backed);
    if (backed < end) {
        status = arena_back(watermark->arena, backed, end);
        if (status == MR_OK) atomic_store(&watermark->backed, end);
    }
    if (status == MR_OK) raise_want(watermark, end);
    refresh_safe(watermark);
    unlock_step(watermark);
    MR_ASSERT(status != MR_OK || watermark->safe >= end);
    return status;
}

mr_status watermark_reach(watermark *watermark, uint64_t end) {
    MR_ASSERT(end <= watermark->arena->size);
    uint64_t backed = atomic_load(&watermark->backed);
    if (end <= watermark->safe || end <= backed + WATERMARK_STEP || atomic_exchange(&watermark->stuck, false))
        return watermark_need(watermark, end);
    raise_want(watermark, end);
    return error_set(MR_BUSY, "%llu bytes of shared memory are being prefaulted", (unsigned long long)(end - backed));
}

static void lower_want(watermark *watermark, uint64_t want) {
    if (watermark->safe > want) watermark->safe = want;
    atomic_store(&watermark->want, want);
    sem_post(&watermark->work);
}

int64_t watermark_trim(watermark *watermark, uint64_t top, int64_t now_us) {
    uint64_t keep = ahead_of(watermark, top);
    uint64_t want = atomic_load_explicit(&watermark->want, memory_order_relaxed);
    if (want <= keep || want - keep <= WATERMARK_SPARE) {
        watermark->idle_since_us = CLOCK_NEVER_US;
        return CLOCK_NEVER_US;
    }
    if (watermark->idle_since_us == CLOCK_NEVER_US) {
        watermark->idle_since_us = now_us;
        watermark->peak = top;
    }
    if (top > watermark->peak) watermark->peak = top;
    if (now_us - watermark->idle_since_us < WATERMARK_PATIENCE_US)
        return watermark->idle_since_us + WATERMARK_PATIENCE_US;
    lower_want(watermark, ahead_of(watermark, watermark->peak));
    watermark->idle_since_us = CLOCK_NEVER_US;
    return CLOCK_NEVER_US;
}

uint64_t watermark_backed(const watermark *watermark) { return atomic_load(&watermark->backed); }

void watermark_settle(watermark *watermark) {
    while (step(watermark)) continue;
}
