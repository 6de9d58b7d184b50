/* spin_wait.c — see spin_wait.h. */
#include "net/shm/spin_wait.h"

#include "base/clock.h"
#include "net/shm/doorbell.h"

void spin_wait_init(spin_wait *wait, int64_t spin_us) {
    double per_us = clock_ticks_per_us();
    *wait = (struct spin_wait){
        .spin_ticks = (uint64_t)((double)spin_us * per_us),
        .nudge_gap_min = (uint64_t)(5000 * per_us),
        .nudge_gap_max = (uint64_t)(1000000 * per_us),
    };
    wait->nudge_gap = wait->nudge_gap_min;
}

void spin_wait_heed(spin_wait *wait, const process_block *blocks, const _Atomic uint32_t *processes) {
    wait->blocks = blocks;
    wait->processes = processes;
    wait->cpus = cpu_count();
    wait->rung_max = wait->cpus > 2 ? wait->cpus - 1 : 1;
    wait->patient_ticks = (uint64_t)(SPIN_WAIT_PATIENT_US * clock_ticks_per_us());
    wait->fresh_ticks = (uint64_t)(SPIN_WAIT_FRESH_US * clock_ticks_per_us());
}

bool spin_wait_is_crowded(const spin_wait *wait) {
    return wait->processes != NULL && atomic_load_explicit(wait->processes, memory_order_relaxed) > wait->cpus;
}

void spin_wait_woken(process_block *self) {
    spin_wait_publish(self);
    atomic_store_explicit(&self->woke, clock_ticks(), memory_order_relaxed);
}

/* Whether the other process is awake on this CPU, where this process runs, and was therefore preempted. It may also
 * wait for something else or have moved on; some time after its wake-up that is unknown, and spinning costs little
 * compared to its work. */
static bool is_aside(const spin_wait *wait, const process_block *other, uint32_t cpu, uint64_t now) {
    return atomic_load_explicit(&other->cpu, memory_order_relaxed) == cpu &&
           now - atomic_load_explicit(&other->woke, memory_order_relaxed) < wait->fresh_ticks &&
           atomic_load_explicit(&other->sleep, memory_order_relaxed) == DOORBELL_AWAKE;
}

/* Checks the first of many processes only, because a long scan delays polling. */
static bool is_in_the_way(const spin_wait *wait, const process_block *self, const process_block *peer, uint32_t cpu,
                          uint64_t now) {
    enum { LOOK_AT_MOST = 64 };
    if (wait->blocks == NULL) return false;
    uint32_t processes = atomic_load_explicit(wait->processes, memory_order_relaxed), rung = 0;
    if (processes > LOOK_AT_MOST) processes = LOOK_AT_MOST;
    for (uint32_t i = 0; i < processes; i++) {
        const process_block *other = &wait->blocks[i];
        if (other == self || other == peer) continue;
        rung += doorbell_is_rung(other);
        if (is_aside(wait, other, cpu, now)) return true;
    }
    return rung >= wait->rung_max;
}

/* Leaves this CPU if the process may run on another one; it may return later. */
static void nudge(spin_wait *wait, uint32_t cpu) {
    cpu_set_t allowed, others;
    if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    others = allowed;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0) return;
    if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
    spin_wait_count(&wait->nudges);
}

static void shared_cpu(spin_wait *wait, uint32_t cpu, bool may_nudge) {
    spin_wait_count(&wait->sleeps_at_once);
    if (!may_nudge || ++wait->shared_waits < SPIN_WAIT_NUDGE_AFTER) return;
    uint64_t now = clock_ticks(), since = now - wait->nudge_last;
    if (wait->nudge_last != 0 && since < wait->nudge_gap) return;
    bool soon = wait->nudge_last != 0 && since < wait->nudge_gap * 4;
    wait->nudge_gap = soon ? wait->nudge_gap * 2 : wait->nudge_gap_min;
    if (wait->nudge_gap > wait->nudge_gap_max) wait->nudge_gap = wait->nudge_gap_max;
    wait->nudge_last = now;
    wait->shared_waits = 0;
    nudge(wait, cpu);
}

bool spin_wait_spin(spin_wait *wait, process_block *self, const process_block *peer, bool may_nudge,
                    spin_wait_ready_fn *ready, void *context) {
    enum { LOOKS = 16 }; /* polls between two checks of the clock and the CPUs */
    uint32_t cpu = spin_wait_publish(self);
    if (peer == NULL) return ready(context);
    uint64_t deadline = 0, patient_until = 0;
    for (;;) {
        if (cpu == atomic_load_explicit(&peer->cpu, memory_order_relaxed)) {
            if (ready(context)) return true;
            shared_cpu(wait, cpu, may_nudge);
            return false;
        }
        wait->shared_waits = 0;
        for (int i = 0; i < LOOKS; i++) {
            if (ready(context)) {
                spin_wait_count(&wait->spins_hit);
                wait->vain = 0;
                wait->alone = deadline != 0 || i >= SPIN_WAIT_ALONE_AFTER;
                return true;
            }
            cpu_relax(); /* each poll takes the line away from its next writer */
            cpu_relax();
        }
        uint64_t now = clock_ticks();
        if (deadline == 0) {
            deadline = now + wait->spin_ticks;
            patient_until = wait->vain % SPIN_WAIT_STAY_EVERY == 0 ? deadline : now + wait->patient_ticks;
        }
        if (now >= deadline) break;
        if (now >= patient_until && is_in_the_way(wait, self, peer, cpu, now)) {
            wait->vain++;
            spin_wait_count(&wait->made_way);
            wait->alone = true;
            return ready(context);
        }
        cpu = spin_wait_publish(self);
    }
    spin_wait_count(&wait->spins_missed);
    wait->vain++;
    wait->alone = true;
    return false;
}
