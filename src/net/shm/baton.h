/* baton.h — poller: the thread of a process that polls the rings for all threads, and its waiters.
 *
 * A ring has one reader. When several threads of a process wait, each for its own answer, one of them drives: it reads
 * the rings and finishes what it finds, for the others too. No thread hands a message to another on the way: who waits
 * for the answer reads it, unless somebody else is reading already.
 *
 * Two rights, one small module, the one lock of the hot path:
 *
 *   the lock    who may touch the rings and the tables above them, for a moment: to send, to read what is there
 *   the baton   who may wait for more to come: one thread, and it does not hold the lock while it waits
 *
 *   outside ── baton_lock ──► locked ── baton_unlock ──► outside
 *
 *   a thread that waits (baton_wait), with the lock held:
 *     my answer is there ───────────────────────────────────────────► locked: done
 *     nobody drives ──► I drive (returns BATON_DRIVE) ── baton_pass ──► outside; the next in line drives
 *     somebody drives ──► in line, asleep on my own word ──► BATON_DONE (answer) or BATON_DRIVE (my turn) or timeout
 *
 *   the driver waits for more: baton_leave ──► away, without the lock ── baton_return ──► locked. A thread that
 *   finishes it meanwhile wakes it.
 *
 * Invariants   at most one thread drives; if any thread waits in line, some thread drives or has been told to; a thread
 *              is in line at most once.
 * Order        the lock (latch.h) acquires and releases. A waiter's word is changed with the
 *              lock held: release by who tells, acquire by the sleeper who reads it without; with the lock, relaxed.
 * Fairness     the baton goes to the one that waits longest.
 * Threads      all functions from any thread; those marked "locked" only with the lock held. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/list.h"
#include "net/shm/latch.h"

typedef struct baton { /* zero-initialize, then baton_init */
    latch lock;
    bool driven; /* somebody holds the baton */
    list line;   /* of baton_waiter: those who wait for an answer or for the baton */
    void *away;  /* where the driver waits without the lock; NULL: it does not */
    void (*rouse)(void *away);
} baton;

typedef enum baton_turn { BATON_DONE, BATON_DRIVE, BATON_TIMEOUT } baton_turn;

/* What a waiting thread was told; awake: nobody needs to wake it. */
typedef enum baton_word { BATON_WAITING, BATON_TOLD, BATON_TO_DRIVE, BATON_AWAKE } baton_word;

typedef struct baton_waiter { /* one waiting thread; lives on its stack */
    list link;
    _Atomic uint32_t word; /* baton_word */
    bool done;
} baton_waiter;

void baton_init(baton *baton);

/* That thread is the one that will be here most: as latch_own. */
static inline void baton_own(baton *baton, uintptr_t owner) { latch_own(&baton->lock, owner); }

static inline void baton_lock(baton *baton) { latch_lock(&baton->lock); }
static inline void baton_unlock(baton *baton) { latch_unlock(&baton->lock); }

static inline void baton_waiter_init(baton_waiter *waiter) {
    list_init(&waiter->link);
    atomic_init(&waiter->word, BATON_AWAKE);
    waiter->done = false;
}

/* Locked on entry. BATON_DONE: the answer is there; locked. BATON_DRIVE: this thread drives from now on; locked.
 * BATON_TIMEOUT after timeout_us (< 0: never), not driving; locked. */
__attribute__((noinline)) baton_turn baton_wait_in_line(baton *baton, baton_waiter *waiter, int64_t timeout_us);
static inline baton_turn baton_wait(baton *baton, baton_waiter *waiter, int64_t timeout_us) {
    if (waiter->done) return BATON_DONE;
    if (baton->driven) return baton_wait_in_line(baton, waiter, timeout_us);
    baton->driven = true;
    return BATON_DRIVE;
}

/* The driver goes to wait for more, and comes back. Locked on entry of the one and on return of the other. Between them
 * rouse may be called, by anybody, with the lock held: the driver shall come back soon. */
static inline void baton_leave(baton *baton, void (*rouse)(void *away), void *away) {
    baton->rouse = rouse;
    baton->away = away;
    baton_unlock(baton);
}
static inline void baton_return(baton *baton) {
    baton_lock(baton);
    baton->away = NULL;
}

/* Locked: the answer of that waiter is there. Wakes it if it sleeps, also when it is the driver that is away. Must not
 * be called after its baton_wait returned BATON_TIMEOUT and it left. */
__attribute__((noinline)) void baton_wake(baton *baton, baton_waiter *waiter);
static inline void baton_finish(baton *baton, baton_waiter *waiter) {
    MR_ASSERT(!waiter->done);
    waiter->done = true;
    bool looks = atomic_load_explicit(&waiter->word, memory_order_relaxed) != BATON_WAITING && baton->away == NULL;
    if (!looks) baton_wake(baton, waiter);
}

/* Locked: the driver, if it is away, comes back soon and looks around. */
static inline void baton_rouse(baton *baton) {
    if (baton->away != NULL) baton->rouse(baton->away);
}

/* Locked: the driver stops; the next in line, if any, is told to drive. */
__attribute__((noinline)) void baton_pass_on(baton *baton);
static inline void baton_pass(baton *baton) {
    MR_ASSERT(baton->driven);
    if (list_empty(&baton->line))
        baton->driven = false;
    else
        baton_pass_on(baton);
}
