/* poller.h — poller: the thread of a process that polls the rings for all threads, and its waiters.
 *
 * A ring has one reader. When several threads of a process wait, each for its own answer, one of them drives: it reads
 * the rings and handles all messages, also those for the others. Messages are not passed between threads: the thread
 * that waits for an answer reads it, unless another thread is reading already.
 *
 * The module has two rights:
 *
 *   the lock    the right to access the rings and the tables above them: to send, and to read available records
 *   the poller  the right to wait for more records: one thread has it, and does not hold the lock while it waits
 *
 *  outside ── poller_lock ──► locked ── poller_unlock ──► outside
 *
 *  a thread that waits (poller_wait), with the lock held:
 *     the answer has arrived ───────────────────────────────────────► locked: done
 *   no thread drives ──► drives (returns POLLER_DRIVE) ── poller_pass ──► outside; the next in line drives
 *   a thread drives ──► in line, asleep on its own word ──► POLLER_DONE (answer) or POLLER_DRIVE (its turn) or timeout
 *
 *  the driver waits for more: poller_leave ──► away, without the lock ── poller_return ──► locked. A thread that
 *   finishes the driver's own call meanwhile wakes it.
 *
 * Invariants   at most one thread drives; if any thread waits in line, some thread drives or was woken to drive; a
 *              thread is in line at most once.
 * Order        the lock (biased_lock.h) acquires and releases. A waiter's word is changed with the
 *              lock held: release by the waker, acquire by the sleeper without the lock; relaxed reads with the lock.
 * Fairness    the thread that has waited longest gets the poller.
 * Threads      all functions from any thread; those marked "locked" only with the lock held. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/list.h"
#include "net/shm/biased_lock.h"

typedef struct poller { /* zero-initialized, then poller_init */
    biased_lock lock;
    bool driven; /* a thread has the poller */
    list line;   /* of poller_waiter: threads waiting for an answer or for the poller */
    void *away;  /* argument of rouse while the driver waits without the lock; NULL: it does not */
    void (*rouse)(void *away);
} poller;

typedef enum poller_turn { POLLER_DONE, POLLER_DRIVE, POLLER_TIMEOUT } poller_turn;

/* Why a waiting thread was woken; POLLER_AWAKE: it needs no wake-up. */
typedef enum poller_word { POLLER_WAITING, POLLER_TOLD, POLLER_TO_DRIVE, POLLER_AWAKE } poller_word;

typedef struct poller_waiter { /* one waiting thread; on its stack */
    list link;
    _Atomic uint32_t word; /* poller_word */
    bool done;
} poller_waiter;

void poller_init(poller *poller);

/* Makes the most frequent thread the owner of the lock, as biased_lock_own. */
static inline void poller_own(poller *poller, uintptr_t owner) { biased_lock_own(&poller->lock, owner); }

static inline void poller_lock(poller *poller) { biased_lock_lock(&poller->lock); }
static inline void poller_unlock(poller *poller) { biased_lock_unlock(&poller->lock); }

static inline void poller_waiter_init(poller_waiter *waiter) {
    list_init(&waiter->link);
    atomic_init(&waiter->word, POLLER_AWAKE);
    waiter->done = false;
}

/* Locked on entry and return. POLLER_DONE: the answer has arrived. POLLER_DRIVE: this thread drives from now on.
 * POLLER_TIMEOUT: after timeout_us (< 0: never), not driving. */
__attribute__((noinline)) poller_turn poller_wait_in_line(poller *poller, poller_waiter *waiter, int64_t timeout_us);
static inline poller_turn poller_wait(poller *poller, poller_waiter *waiter, int64_t timeout_us) {
    if (waiter->done) return POLLER_DONE;
    if (poller->driven) return poller_wait_in_line(poller, waiter, timeout_us);
    poller->driven = true;
    return POLLER_DRIVE;
}

/* The driver begins and ends a wait without the lock: locked on entry of the former and on return of the latter. In
 * between any thread with the lock may call `rouse`, which makes the driver return soon. */
static inline void poller_leave(poller *poller, void (*rouse)(void *away), void *away) {
    poller->rouse = rouse;
    poller->away = away;
    poller_unlock(poller);
}
static inline void poller_return(poller *poller) {
    poller_lock(poller);
    poller->away = NULL;
}

/* Locked: the answer of this waiter has arrived. Wakes the waiter if it sleeps, also if it is the driver and away. Must
 * not be called after the waiter's poller_wait returned POLLER_TIMEOUT and the waiter left. */
__attribute__((noinline)) void poller_wake(poller *poller, poller_waiter *waiter);
static inline void poller_finish(poller *poller, poller_waiter *waiter) {
    MR_ASSERT(!waiter->done);
    waiter->done = true;
    bool looks = atomic_load_explicit(&waiter->word, memory_order_relaxed) != POLLER_WAITING && poller->away == NULL;
    if (!looks) poller_wake(poller, waiter);
}

/* Locked: makes a driver that is away return soon and check its inputs. */
static inline void poller_rouse(poller *poller) {
    if (poller->away != NULL) poller->rouse(poller->away);
}

/* Locked: ends the wait of a thread without an answer: it returns POLLER_TIMEOUT or, while it drives, soon. */
void poller_interrupt(poller *poller, poller_waiter *waiter);

/* Locked: the driver stops; the next thread in line, if any, is woken to drive. */
__attribute__((noinline)) void poller_pass_on(poller *poller);
static inline void poller_pass(poller *poller) {
    MR_ASSERT(poller->driven);
    if (list_empty(&poller->line))
        poller->driven = false;
    else
        poller_pass_on(poller);
}
