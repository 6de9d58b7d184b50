/* adaptive_poll.h — adaptive polling of sockets before sleeping.
 *
 * A wake-up costs several microseconds on both sides: if an answer arrives sooner, polling is cheaper than sleeping. A
 * process that waits at a socket does not know where its peer runs, so it decides by the lengths of recent waits:
 *
 *   wait ──► enough recent short waits? ── no ──► sleep, record the length
 *                 │ yes
 *         └──► poll, up to ADAPTIVE_POLL_US ──► ready, or sleep
 *
 * A wait is short if it ends within ADAPTIVE_POLL_US. ADAPTIVE_POLL_TRUST short waits are required at first, twice as
 * many after each unsuccessful poll, and fewer again after successful ones. Two processes that communicate constantly
 * on two CPUs almost never sleep; a waiter that keeps its peer from running soon polls only once in
 * ADAPTIVE_POLL_TRUST_MAX waits. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum { ADAPTIVE_POLL_US = 100, ADAPTIVE_POLL_TRUST = 2, ADAPTIVE_POLL_TRUST_MAX = 64 };

typedef struct adaptive_poll { /* zero-initialized: polling is off at first */
    uint32_t trust;            /* recent short waits */
    uint32_t vain;             /* doublings of ADAPTIVE_POLL_TRUST, the number of short waits required */
    uint64_t hits, lost;       /* successful and unsuccessful polls, for tests and metrics */
} adaptive_poll;

typedef bool adaptive_poll_ready_fn(void *context);

/* True: `ready` returned true. False: the caller sleeps and reports the duration with adaptive_poll_slept. */
bool adaptive_poll_look(adaptive_poll *poll, clock_source clock, adaptive_poll_ready_fn *ready, void *context);
void adaptive_poll_slept(adaptive_poll *poll, int64_t slept_us);
