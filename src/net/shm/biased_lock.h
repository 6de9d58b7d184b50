/* biased_lock.h — biased lock: free of locked instructions for the thread that uses it most.
 *
 * A process of the runtime has one thread that makes calls and one that rarely needs the lock. Even an uncontended
 * plain lock costs two locked instructions each time, and a call takes the lock several times. The lock therefore has
 * one permanent owner. While no other thread locks, the owner enters by a plain store; another thread first revokes
 * that right, which costs an interrupt of the owner's CPU (base/membarrier.h).
 *
 *  biased ── another thread locks: bias = 0, membarrier_heavy, waits until the owner is outside ──► suspended
 *     ▲  ▲                                                                                          │
 *     │  └─────────── unlock, and the owner entered often enough since the last time ───────────────┤
 *     └── the owner locked many times in a row ── plain (every thread takes the word) ◄── it was not ──┘
 *
 *   word     the plain lock: 0 free, 1 held, 2 held and a thread sleeps on it. Other threads always take it, the owner
 *            only if bias is 0
 *   bias     the owner, or 0: the owner must take the word. Written by the thread that holds the lock
 *   inside   1: the owner holds the lock by its bias, or is about to check the bias. If the owner is interrupted before
 *            that check, inside is briefly 1 while another thread holds the lock. Written by the owner only
 *
 * Invariants   the thread that holds the lock either is the owner with inside == 1, or holds the word and found
 *              inside == 0 after it revoked the bias.
 * Order        the owner stores inside, then loads bias; another stores bias, then membarrier_heavy, then loads inside:
 *              so at least one sees the other's store, on entry and, for the wake-up, on exit. Writes under the lock
 *              become visible by release and acquire: inside 0 → the other; bias → the owner; word → any thread.
 * Without      membarrier there is no owner, and the lock is the plain one.
 * Threads      any; not recursive. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/membarrier.h"

typedef struct biased_lock { /* zero-initialized: free, and without an owner */
    _Atomic uint32_t word;
    _Atomic uint32_t inside;
    _Atomic uintptr_t bias;
    uintptr_t owner;   /* 0: none */
    uint32_t biased;   /* entries of the owner by its bias since another thread locked */
    uint32_t in_a_row; /* times the owner took the word since another thread did */
    bool suspended;    /* the thread that holds the lock has revoked the bias */
} biased_lock;

enum { BIASED_LOCK_BIASED_MIN = 64, BIASED_LOCK_IN_A_ROW = 256 };

/* Makes a thread (cpu_thread) the permanent owner, if there is none. Registers for the barrier, which may take long:
 * must not be called with the lock held. */
void biased_lock_own(biased_lock *lock, uintptr_t owner);

/* Slow paths, not inlined, so that the owner's path stays a few instructions. */
__attribute__((noinline)) void biased_lock_lock_word(biased_lock *lock);
__attribute__((noinline)) void biased_lock_unlock_word(biased_lock *lock);
__attribute__((noinline, cold)) void biased_lock_step_out(biased_lock *lock);
__attribute__((noinline, cold)) void biased_lock_wake(biased_lock *lock);

static inline void biased_lock_lock(biased_lock *lock) {
    uintptr_t self = cpu_thread();
    if (__builtin_expect(atomic_load_explicit(&lock->bias, memory_order_relaxed) == self, 1)) {
        atomic_store_explicit(&lock->inside, 1, memory_order_relaxed);
        MEMBARRIER_LIGHT();
        if (__builtin_expect(atomic_load_explicit(&lock->bias, memory_order_acquire) == self, 1)) {
            lock->biased++;
            return;
        }
        biased_lock_step_out(lock);
    }
    biased_lock_lock_word(lock);
}

static inline void biased_lock_unlock(biased_lock *lock) {
    bool owns = lock->owner == cpu_thread();
    if (__builtin_expect(!owns, 0) ||
        __builtin_expect(atomic_load_explicit(&lock->inside, memory_order_relaxed) == 0, 0)) { /* not by its bias */
        biased_lock_unlock_word(lock);
        return;
    }
    atomic_store_explicit(&lock->inside, 0, memory_order_release);
    MEMBARRIER_LIGHT();
    if (__builtin_expect(atomic_load_explicit(&lock->bias, memory_order_relaxed) == 0, 0)) biased_lock_wake(lock);
}
