/* latch.c — see latch.h. The code here is off the owner's fast path. */
#include "net/shm/latch.h"

#include "base/futex.h"

enum { FREE, HELD, WAITED_FOR, LOOKS = 64 };

/* ---- The plain lock: the three-state futex mutex. */

static bool try_take(latch *latch) {
    uint32_t free = FREE;
    return atomic_compare_exchange_strong_explicit(&latch->word, &free, HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void take(latch *latch) {
    for (int i = 0; i < LOOKS; i++) {
        if (try_take(latch)) return;
        cpu_relax();
    }
    while (atomic_exchange_explicit(&latch->word, WAITED_FOR, memory_order_acquire) != FREE)
        futex_wait(&latch->word, WAITED_FOR, -1, FUTEX_WITHIN);
}

static void give(latch *latch) {
    if (atomic_exchange_explicit(&latch->word, FREE, memory_order_release) == WAITED_FOR)
        futex_wake(&latch->word, FUTEX_WITHIN);
}

/* ---- The bias. */

void latch_own(latch *latch, uintptr_t owner) {
    if (!barrier_register()) return;
    take(latch);
    if (latch->owner == 0) {
        latch->owner = owner;
        latch->in_a_row = 0;
        atomic_store_explicit(&latch->bias, latch->owner, memory_order_release);
    }
    give(latch);
}

/* The owner, on its way in or out, has seen that somebody takes its bias away and may sleep until it is outside. */
void latch_wake(latch *latch) { futex_wake(&latch->inside, FUTEX_WITHIN); }

void latch_step_out(latch *latch) {
    atomic_store_explicit(&latch->inside, 0, memory_order_release);
    latch_wake(latch);
}

/* With the word: takes the bias away and waits until the owner is outside. */
static void suspend(latch *latch) {
    atomic_store_explicit(&latch->bias, 0, memory_order_relaxed);
    barrier_heavy();
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&latch->inside, memory_order_acquire) == 0) break;
        cpu_relax();
    }
    while (atomic_load_explicit(&latch->inside, memory_order_acquire) != 0)
        futex_wait(&latch->inside, 1, -1, FUTEX_WITHIN);
    latch->suspended = true;
}

void latch_lock_word(latch *latch) {
    take(latch);
    if (latch->owner == 0) return;
    bool biased = atomic_load_explicit(&latch->bias, memory_order_relaxed) != 0;
    if (latch->owner != cpu_thread()) {
        latch->in_a_row = 0;
        if (biased) suspend(latch);
    } else if (!biased && ++latch->in_a_row >= LATCH_IN_A_ROW) {
        latch->in_a_row = 0;
        atomic_store_explicit(&latch->bias, latch->owner, memory_order_release);
    }
}

/* An owner that hardly comes is not worth an interrupt each time that others do. */
void latch_unlock_word(latch *latch) {
    if (latch->suspended) {
        bool busy = latch->biased >= LATCH_BIASED_MIN;
        latch->suspended = false;
        latch->biased = 0;
        if (busy) atomic_store_explicit(&latch->bias, latch->owner, memory_order_release); /* it may come in now */
    }
    give(latch);
}
