/* waiter.c — see waiter.h. */
#include "net/shm/waiter.h"

#include "base/clock.h"

void waiter_init(waiter *waiter, int64_t spin_us) {
    double per_us = clock_ticks_per_us();
    *waiter = (struct waiter){
        .spin_ticks = (uint64_t)((double)spin_us * per_us),
        .nudge_gap_min = (uint64_t)(5000 * per_us),
        .nudge_gap_max = (uint64_t)(1000000 * per_us),
    };
    waiter->nudge_gap = waiter->nudge_gap_min;
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
    uint64_t deadline = 0;
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
                waiter->alone = deadline != 0 || i >= WAITER_ALONE_AFTER;
                return true;
            }
            cpu_relax(); /* each look takes the line away from who is about to write it */
            cpu_relax();
        }
        uint64_t now = clock_ticks();
        if (deadline == 0) deadline = now + waiter->spin_ticks;
        if (now >= deadline) break;
        cpu = waiter_publish(self);
    }
    waiter->spins_missed++;
    waiter->alone = true;
    return false;
}
