/* adaptive_poll.h — adaptive polling of sockets before sleeping.
 *
 * To be woken costs several microseconds, on both sides: where an answer comes sooner than that, looking for it again
 * and again is cheaper than sleeping. But a process that waits at a socket does not know where its peer runs, so it
 * learns from what happened:
 *
 *   wait ──► as many short ones lately as it takes? ── no ──► sleep, and note how long
 *                 │ yes
 *         └──► look, up to ADAPTIVE_POLL_US ──► something came, or sleep
 *
 * A wait was short if it ended within ADAPTIVE_POLL_US. It takes ADAPTIVE_POLL_TRUST of them at first, twice as many
 * after each look in vain, and fewer again as looks are worth it. So two that talk all the time and run on two CPUs
 * hardly ever sleep; a waiter that keeps its own peer from running finds nothing, and soon polls once in
 * ADAPTIVE_POLL_TRUST_MAX waits. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { ADAPTIVE_POLL_US = 100, ADAPTIVE_POLL_TRUST = 2, ADAPTIVE_POLL_TRUST_MAX = 64 };

typedef struct adaptive_poll { /* zero-initialized it does not poll yet */
    uint32_t trust;            /* short waits lately */
    uint32_t vain;             /* the number needed is ADAPTIVE_POLL_TRUST doubled so often */
    uint64_t hits, lost;       /* looks that were worth it, and that were not: for tests and metrics */
} adaptive_poll;

typedef bool adaptive_poll_ready_fn(void *context);

/* True: `ready` was. False: sleep, and report how long that was. */
bool adaptive_poll_look(adaptive_poll *poll, clock_source clock, adaptive_poll_ready_fn *ready, void *context);
void adaptive_poll_slept(adaptive_poll *poll, int64_t slept_us);
