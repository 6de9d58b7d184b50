/* bell.h — doorbell: wakes another process, and marks the rings that have something to read.
 *
 * A process has one doorbell for all its rings: its station's `sleep` word. While it is awake the word is 0 and a
 * sender does nothing but mark its ready bit. Before it sleeps it says how it will sleep, then looks once more, then
 * sleeps; a sender marks first and looks at the word after, so one of the two always sees the other.
 *
 *              bell_arm(FUTEX) ── bell_sleep ──► asleep on the word ──┐
 *   AWAKE (0) ─┤                                                      ├─ bell_ring ──► RUNG ── bell_disarm ──► AWAKE
 *              bell_arm(LOOP) ── epoll/poll ───► asleep in a loop ────┘
 *                    └─ bell_disarm: something came before it slept ──► AWAKE
 *
 * Who is RUNG has been woken and does not run yet. If that lasts it has no CPU, and who spins makes way (waiter.h).
 *
 * Order   The two sides meet in fences: mark, fence, read `sleep`; write `sleep`, fence, look. A read after a fence
 *         needs no order of its own, and bell_disarm only spares senders a wake. The bits are taken by exchanges
 *         that acquire what was stored before they were set; bell_marked merely says whether that is worth it. */
#pragma once
#include <stdbool.h>

#include "base/cpu.h"
#include "net/shm/station.h"

typedef enum bell_state { BELL_AWAKE, BELL_FUTEX, BELL_LOOP, BELL_RUNG } bell_state;

static inline bool bell_is_asleep(uint32_t sleep) { return sleep == BELL_FUTEX || sleep == BELL_LOOP; }
static inline bool bell_is_rung(const station *station) {
    return atomic_load_explicit(&station->sleep, memory_order_relaxed) == BELL_RUNG;
}

/* ---- The sender's side. */

/* Sets the station's ready bit. */
void bell_mark(station *station, uint32_t index);

void bell_wake(station *station, int event_fd);

/* Wakes the station's process if it sleeps; event_fd is its, for one that sleeps in a loop. What was stored before, the
 * process sees when it wakes. */
static inline void bell_ring(station *station, int event_fd) {
    cpu_fence();
    if (__builtin_expect(bell_is_asleep(atomic_load_explicit(&station->sleep, memory_order_relaxed)), 0))
        bell_wake(station, event_fd);
}

/* ---- The owner's side. */

/* Says how this process is about to sleep. The caller then looks at everything once more. */
static inline void bell_arm(station *station, bell_state how) {
    atomic_store_explicit(&station->sleep, (uint32_t)how, memory_order_seq_cst);
    cpu_fence();
}
static inline void bell_disarm(station *station) {
    atomic_store_explicit(&station->sleep, BELL_AWAKE, memory_order_relaxed);
}

/* After bell_arm(BELL_FUTEX): sleeps until somebody rings, or timeout_us has passed (< 0: never), or a signal comes. */
void bell_sleep(station *station, int64_t timeout_us);

static inline bool bell_marked(const station *station) {
    return atomic_load_explicit(&station->summary, memory_order_relaxed) != 0;
}

/* Takes every ready bit; calls back with each index. */
typedef void bell_take_fn(void *context, uint32_t index);
void bell_take(station *station, bell_take_fn *fn, void *context);
