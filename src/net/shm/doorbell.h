/* doorbell.h — doorbell: wakes another process and marks the rings with records.
 *
 * A process has one doorbell for all its rings: its process block's `sleep` word. While the process is awake the word
 * is 0 and a sender only marks its ready bit. Before the process sleeps it stores how it will sleep, checks once more,
 * then sleeps; a sender marks first and reads the word afterwards, so at least one of the two sees the other's store.
 *
 *      doorbell_arm(FUTEX) ── doorbell_sleep ──► asleep on the word ──┐
 *   AWAKE (0) ─┤                                              ├─ doorbell_ring ──► RUNG ── doorbell_disarm ──► AWAKE
 *          doorbell_arm(LOOP) ── epoll/poll ───► asleep in a loop ────┘
 *                └─ doorbell_disarm: a record came before it slept ───► AWAKE
 *
 * A process that is RUNG has been woken and does not run yet. If that lasts, the process has no CPU, and spinning
 * processes yield to it (spin_wait.h).
 *
 * Order   Both sides use fences: mark, fence, read `sleep`; write `sleep`, fence, check. A read after a fence needs no
 *     further order, and doorbell_disarm only saves senders a wake. The bits are taken by exchanges that acquire the
 *     stores made before they were set; doorbell_marked is a hint whether an exchange is worthwhile. */
#pragma once
#include <stdbool.h>

#include "base/cpu.h"
#include "net/shm/process_block.h"

typedef enum doorbell_state { DOORBELL_AWAKE, DOORBELL_FUTEX, DOORBELL_LOOP, DOORBELL_RUNG } doorbell_state;

static inline bool doorbell_is_asleep(uint32_t sleep) { return sleep == DOORBELL_FUTEX || sleep == DOORBELL_LOOP; }
static inline bool doorbell_is_rung(const process_block *block) {
    return atomic_load_explicit(&block->sleep, memory_order_relaxed) == DOORBELL_RUNG;
}

/* ---- The sender's side. */

/* Sets the process block's ready bit. */
void doorbell_mark(process_block *block, uint32_t index);

void doorbell_wake(process_block *block, int event_fd);

/* Wakes the process of this block if it sleeps; event_fd is the process's own, for one that sleeps in an event loop.
 * When the process wakes it sees all earlier stores. */
static inline void doorbell_ring(process_block *block, int event_fd) {
    cpu_fence();
    if (__builtin_expect(doorbell_is_asleep(atomic_load_explicit(&block->sleep, memory_order_relaxed)), 0))
        doorbell_wake(block, event_fd);
}

/* ---- The owner's side. */

/* Stores how this process is about to sleep. The caller must then check all its inputs once more. */
static inline void doorbell_arm(process_block *block, doorbell_state how) {
    atomic_store_explicit(&block->sleep, (uint32_t)how, memory_order_seq_cst);
    cpu_fence();
}
static inline void doorbell_disarm(process_block *block) {
    atomic_store_explicit(&block->sleep, DOORBELL_AWAKE, memory_order_relaxed);
}

/* After doorbell_arm(DOORBELL_FUTEX): sleeps until a sender rings, timeout_us has passed (< 0: never), or a signal
 * arrives. */
void doorbell_sleep(process_block *block, int64_t timeout_us);

static inline bool doorbell_marked(const process_block *block) {
    return atomic_load_explicit(&block->summary, memory_order_relaxed) != 0;
}

/* Takes every ready bit and calls back with each index. */
typedef void doorbell_take_fn(void *context, uint32_t index);
void doorbell_take(process_block *block, doorbell_take_fn *fn, void *context);
