/* futex.h — futex wait and wake: sleeping until a word in memory changes.
 *
 * The pattern is always the same two steps on each side, and the callers' part is the order:
 *
 *   waiter   reads the word ──► futex_wait(word, value read): sleeps only if the word still has that value
 *   waker    changes the word ──► futex_wake(word)
 *
 * The kernel compares and falls asleep in one step, so a change in between is never slept through. futex_wait may
 * return early, for a signal or for no reason: callers look at the word again and decide.
 *
 * Reach     a word of one process is found by its address, which is cheaper; one that several processes map is not.
 * Threads   any. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

typedef enum futex_reach { FUTEX_WITHIN, FUTEX_ACROSS } futex_reach; /* this process; all that map the word */

/* Sleeps while *word is `seen`, until futex_wake or until timeout_us has passed (< 0: never). */
void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_us, futex_reach reach);

/* Wakes one that sleeps on the word, if any does. */
void futex_wake(_Atomic uint32_t *word, futex_reach reach);
