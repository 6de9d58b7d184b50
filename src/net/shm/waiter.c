/* waiter.c — see waiter.h. */
#include "net/shm/waiter.h"

#include "base/clock.h"
#include "net/shm/bell.h"

void waiter_init(waiter *waiter, int64_t spin_us) {
    double per_us = clock_ticks_per_us();
    *waiter = (struct waiter){
        .spin_ticks = (uint64_t)((double)spin_us * per_us),
        .nudge_gap_min = (uint64_t)(5000 * per_us),
        .nudge_gap_max = (uint64_t)(1000000 * per_us),
    };
    waiter->nudge_gap = waiter->nudge_gap_min;
}

void waiter_heed(waiter *waiter, const station *stations, const _Atomic uint32_t *seats) {
    waiter->stations = stations;
    waiter->seats = seats;
    waiter->cpus = cpu_count();
    waiter->rung_max = waiter->cpus > 2 ? waiter->cpus - 1 : 1;
    waiter->patient_ticks = (uint64_t)(WAITER_PATIENT_US * clock_ticks_per_us());
    waiter->fresh_ticks = (uint64_t)(WAITER_FRESH_US * clock_ticks_per_us());
}

bool waiter_is_crowded(const waiter *waiter) {
    return waiter->seats != NULL && atomic_load_explicit(waiter->seats, memory_order_relaxed) > waiter->cpus;
}

void waiter_woken(station *self) {
    waiter_publish(self);
    atomic_store_explicit(&self->woke, clock_ticks(), memory_order_relaxed);
}

/* It is awake, on this CPU, where we run: it was pushed aside. Unless it waits for something else, or has moved on:
 * after a while nobody knows, and our spinning is little beside what it does. */
static bool is_aside(const waiter *waiter, const station *other, uint32_t cpu, uint64_t now) {
    return atomic_load_explicit(&other->cpu, memory_order_relaxed) == cpu &&
           now - atomic_load_explicit(&other->woke, memory_order_relaxed) < waiter->fresh_ticks &&
           atomic_load_explicit(&other->sleep, memory_order_relaxed) == BELL_AWAKE;
}

/* Of many processes the first ones will do: who looks for long does not see what comes. */
static bool is_in_the_way(const waiter *waiter, const station *self, const station *peer, uint32_t cpu, uint64_t now) {
    enum { LOOK_AT_MOST = 64 };
    if (waiter->stations == NULL) return false;
    uint32_t seats = atomic_load_explicit(waiter->seats, memory_order_relaxed), rung = 0;
    if (seats > LOOK_AT_MOST) seats = LOOK_AT_MOST;
    for (uint32_t i = 0; i < seats; i++) {
        const station *other = &waiter->stations[i];
        if (other == self || other == peer) continue;
        rung += bell_is_rung(other);
        if (is_aside(waiter, other, cpu, now)) return true;
    }
    return rung >= waiter->rung_max;
}

/* Leaves this CPU, if the process may run on another one, and may come back to it later. */
static void nudge(waiter *waiter, uint32_t cpu) {
    cpu_set_t allowed, others;
    if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    others = allowed;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0) return;
    if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
    waiter->nudges++;
}

static void shared_cpu(waiter *waiter, uint32_t cpu, bool may_nudge) {
    waiter->sleeps_at_once++;
    if (!may_nudge || ++waiter->shared_waits < WAITER_NUDGE_AFTER) return;
    uint64_t now = clock_ticks(), since = now - waiter->nudge_last;
    if (waiter->nudge_last != 0 && since < waiter->nudge_gap) return;
    bool soon = waiter->nudge_last != 0 && since < waiter->nudge_gap * 4;
    waiter->nudge_gap = soon ? waiter->nudge_gap * 2 : waiter->nudge_gap_min;
    if (waiter->nudge_gap > waiter->nudge_gap_max) waiter->nudge_gap = waiter->nudge_gap_max;
    waiter->nudge_last = now;
    waiter->shared_waits = 0;
    nudge(waiter, cpu);
}

bool waiter_spin(waiter *waiter, station *self, const station *peer, bool may_nudge, waiter_ready_fn *ready,
                 void *context) {
    enum { LOOKS = 16 }; /* between two looks at the clock and at the CPUs */
    uint32_t cpu = waiter_publish(self);
    if (peer == NULL) return ready(context);
    uint64_t deadline = 0, patient_until = 0;
    for (;;) {
        if (cpu == atomic_load_explicit(&peer->cpu, memory_order_relaxed)) {
            if (ready(context)) return true;
            shared_cpu(waiter, cpu, may_nudge);
            return false;
        }
        waiter->shared_waits = 0;
        for (int i = 0; i < LOOKS; i++) {
            if (ready(context)) {
                waiter->spins_hit++;
                waiter->vain = 0;
                waiter->alone = deadline != 0 || i >= WAITER_ALONE_AFTER;
                return true;
            }
            cpu_relax(); /* each look takes the line away from who is about to write it */
            cpu_relax();
        }
        uint64_t now = clock_ticks();
        if (deadline == 0) {
            deadline = now + waiter->spin_ticks;
            patient_until = waiter->vain % WAITER_STAY_EVERY == 0 ? deadline : now + waiter->patient_ticks;
        }
        if (now >= deadline) break;
        if (now >= patient_until && is_in_the_way(waiter, self, peer, cpu, now)) {
            waiter->vain++;
            waiter->made_way++;
            waiter->alone = true;
            return ready(context);
        }
        cpu = waiter_publish(self);
    }
    waiter->spins_missed++;
    waiter->vain++;
    waiter->alone = true;
    return false;
}
