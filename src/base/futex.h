/* futex.h — futex wait and wake: sleeping until a word in memory changes.
 *
 * Both sides take two steps, and callers must keep their order:
 *
 *   waiter   reads the word ──► futex_wait(word, value read): sleeps only if the word still has that value
 *   waker    changes the word ──► futex_wake(word)
 *
 * The kernel compares and sleeps atomically, so no change is missed. futex_wait may return early, for a signal or for
 * no reason: callers check the word again.
 *
 * Reach     FUTEX_WITHIN finds the word by its address, which is cheaper, but only within one process.
 * Threads   any. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

typedef enum futex_reach { FUTEX_WITHIN, FUTEX_ACROSS } futex_reach; /* within one process; across processes */

/* Sleeps while *word equals `seen`, until futex_wake or until timeout_us has passed (< 0: never). */
void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_us, futex_reach reach);

/* Wakes one thread that sleeps on the word, if there is one. */
void futex_wake(_Atomic uint32_t *word, futex_reach reach);
