/* poller.h — poller: the thread of a process that polls the rings for all threads, and its waiters.
 *
 * A ring has one reader. When several threads of a process wait, each for its own answer, one of them drives: it reads
 * the rings and finishes what it finds, for the others too. No thread hands a message to another on the way: the thread
 * that waits for the answer reads it, unless another thread is reading already.
 *
 * Two rights, one small module, the one lock of the hot path:
 *
 *   the lock    the right to touch the rings and the tables above them, for a moment: to send, to read what is there
 *   the poller  the right to wait for more to come: one thread has it, and does not hold the lock while it waits
 *
 *  outside ── poller_lock ──► locked ── poller_unlock ──► outside
 *
 *  a thread that waits (poller_wait), with the lock held:
 *     my answer is there ───────────────────────────────────────────► locked: done
 *   no thread drives ──► I drive (returns POLLER_DRIVE) ── poller_pass ──► outside; the next in line drives
 *   a thread drives ──► in line, asleep on my own word ──► POLLER_DONE (answer) or POLLER_DRIVE (my turn) or timeout
 *
 *  the driver waits for more: poller_leave ──► away, without the lock ── poller_return ──► locked. A thread that
 *   finishes it meanwhile wakes it.
 *
 * Invariants   at most one thread drives; if any thread waits in line, some thread drives or was woken to drive; a
 *              thread is in line at most once.
 * Order        the lock (biased_lock.h) acquires and releases. A waiter's word is changed with the
 *              lock held: release by the waker, acquire by the sleeper, which reads it without; with the lock, relaxed.
 * Fairness    the poller goes to the one that waits longest.
 * Threads      all functions from any thread; those marked "locked" only with the lock held. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/list.h"
#include "net/shm/biased_lock.h"

typedef struct poller { /* zero-initialize, then poller_init */
    biased_lock lock;
    bool driven; /* a thread holds the poller */
    list line;   /* of poller_waiter: threads that wait for an answer or for the poller */
    void *away;  /* where the driver waits without the lock; NULL: it does not */
    void (*rouse)(void *away);
} poller;

typedef enum poller_turn { POLLER_DONE, POLLER_DRIVE, POLLER_TIMEOUT } poller_turn;

/* Why a waiting thread was woken; awake: it needs no wake-up. */
typedef enum poller_word { POLLER_WAITING, POLLER_TOLD, POLLER_TO_DRIVE, POLLER_AWAKE } poller_word;

typedef struct poller_waiter { /* one waiting thread; lives on its stack */
    list link;
    _Atomic uint32_t word; /* poller_word */
    bool done;
} poller_waiter;

void poller_init(poller *poller);

/* That thread is the one that will be here most: as biased_lock_own. */
static inline void poller_own(poller *poller, uintptr_t owner) { biased_lock_own(&poller->lock, owner); }

static inline void poller_lock(poller *poller) { biased_lock_lock(&poller->lock); }
static inline void poller_unlock(poller *poller) { biased_lock_unlock(&poller->lock); }

static inline void poller_waiter_init(poller_waiter *waiter) {
    list_init(&waiter->link);
    atomic_init(&waiter->word, POLLER_AWAKE);
    waiter->done = false;
}

/* Locked on entry. POLLER_DONE: the answer is there; locked. POLLER_DRIVE: this thread drives from now on; locked.
 * POLLER_TIMEOUT after timeout_us (< 0: never), not driving; locked. */
__attribute__((noinline)) poller_turn poller_wait_in_line(poller *poller, poller_waiter *waiter, int64_t timeout_us);
static inline poller_turn poller_wait(poller *poller, poller_waiter *waiter, int64_t timeout_us) {
    if (waiter->done) return POLLER_DONE;
    if (poller->driven) return poller_wait_in_line(poller, waiter, timeout_us);
    poller->driven = true;
    return POLLER_DRIVE;
}

/* The driver goes to wait for more, and comes back. Locked on entry of the one and on return of the other. Between them
 * rouse may be called, by any thread, with the lock held: the driver shall come back soon. */
static inline void poller_leave(poller *poller, void (*rouse)(void *away), void *away) {
    poller->rouse = rouse;
    poller->away = away;
    poller_unlock(poller);
}
static inline void poller_return(poller *poller) {
    poller_lock(poller);
    poller->away = NULL;
}

/* Locked: the answer of that waiter is there. Wakes it if it sleeps, also when it is the driver that is away. Must not
 * be called after its poller_wait returned POLLER_TIMEOUT and it left. */
__attribute__((noinline)) void poller_wake(poller *poller, poller_waiter *waiter);
static inline void poller_finish(poller *poller, poller_waiter *waiter) {
    MR_ASSERT(!waiter->done);
    waiter->done = true;
    bool looks = atomic_load_explicit(&waiter->word, memory_order_relaxed) != POLLER_WAITING && poller->away == NULL;
    if (!looks) poller_wake(poller, waiter);
}

/* Locked: the driver, if it is away, comes back soon and looks around. */
static inline void poller_rouse(poller *poller) {
    if (poller->away != NULL) poller->rouse(poller->away);
}

/* Locked: the driver stops; the next in line, if any, is woken to drive. */
__attribute__((noinline)) void poller_pass_on(poller *poller);
static inline void poller_pass(poller *poller) {
    MR_ASSERT(poller->driven);
    if (list_empty(&poller->line))
        poller->driven = false;
    else
        poller_pass_on(poller);
}
