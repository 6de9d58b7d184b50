/* biased_lock.c — see biased_lock.h. The code here is off the owner's fast path. */
#include "net/shm/biased_lock.h"

#include "base/futex.h"

enum { FREE, HELD, WAITED_FOR, LOOKS = 64 };

/* ---- The plain lock: the three-state futex mutex. */

static bool try_take(biased_lock *lock) {
    uint32_t free = FREE;
    return atomic_compare_exchange_strong_explicit(&lock->word, &free, HELD, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void take(biased_lock *lock) {
    for (int i = 0; i < LOOKS; i++) {
        if (try_take(lock)) return;
        cpu_relax();
    }
    while (atomic_exchange_explicit(&lock->word, WAITED_FOR, memory_order_acquire) != FREE)
        futex_wait(&lock->word, WAITED_FOR, -1, FUTEX_WITHIN);
}

static void give(biased_lock *lock) {
    if (atomic_exchange_explicit(&lock->word, FREE, memory_order_release) == WAITED_FOR)
        futex_wake(&lock->word, FUTEX_WITHIN);
}

/* ---- The bias. */

void biased_lock_own(biased_lock *lock, uintptr_t owner) {
    if (!membarrier_register()) return;
    take(lock);
    if (lock->owner == 0) {
        lock->owner = owner;
        lock->in_a_row = 0;
        atomic_store_explicit(&lock->bias, lock->owner, memory_order_release);
    }
    give(lock);
}

/* The owner, entering or leaving, has seen that another thread revokes its bias and may sleep until the owner is
 * outside. */
void biased_lock_wake(biased_lock *lock) { futex_wake(&lock->inside, FUTEX_WITHIN); }

void biased_lock_step_out(biased_lock *lock) {
    atomic_store_explicit(&lock->inside, 0, memory_order_release);
    biased_lock_wake(lock);
}

/* Called with the word held: revokes the bias and waits until the owner is outside. */
static void suspend(biased_lock *lock) {
    atomic_store_explicit(&lock->bias, 0, memory_order_relaxed);
    membarrier_heavy();
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&lock->inside, memory_order_acquire) == 0) break;
        cpu_relax();
    }
    while (atomic_load_explicit(&lock->inside, memory_order_acquire) != 0)
        futex_wait(&lock->inside, 1, -1, FUTEX_WITHIN);
    lock->suspended = true;
}

void biased_lock_lock_word(biased_lock *lock) {
    take(lock);
    if (lock->owner == 0) return;
    bool biased = atomic_load_explicit(&lock->bias, memory_order_relaxed) != 0;
    if (lock->owner != cpu_thread()) {
        lock->in_a_row = 0;
        if (biased) suspend(lock);
    } else if (!biased && ++lock->in_a_row >= BIASED_LOCK_IN_A_ROW) {
        lock->in_a_row = 0;
        atomic_store_explicit(&lock->bias, lock->owner, memory_order_release);
    }
}

/* Restores the bias only for a busy owner: each revocation costs an interrupt. */
void biased_lock_unlock_word(biased_lock *lock) {
    if (lock->suspended) {
        bool busy = lock->biased >= BIASED_LOCK_BIASED_MIN;
        lock->suspended = false;
        lock->biased = 0;
        if (busy) atomic_store_explicit(&lock->bias, lock->owner, memory_order_release); /* now the owner may enter */
    }
    give(lock);
}
