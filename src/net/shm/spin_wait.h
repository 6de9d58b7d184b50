/* spin_wait.h — spin-then-sleep policy: how long to spin, and on which CPU.
 *
 * A wake-up costs microseconds, an answer through shared memory a tenth of one: a process that waits for a peer on
 * another CPU spins, for longer than a wake-up costs. A process that shares its CPU with the peer must not spin,
 * because the peer cannot run meanwhile. Every process publishes the CPU it runs on (process_block.h), and a waiter
 * compares.
 *
 *   wait ──► peer on this CPU? ─ yes ──► sleep at once (and, now and then, move to another CPU: the nudge)
 *                 │ no
 *                 └──► spin up to spin_us, comparing again now and then ──► ready, or sleep
 *                                    └── others need this CPU ──► sleep at once
 *
 * Others need this CPU if as many processes were woken and do not run yet (doorbell.h, RUNG) as there are other CPUs,
 * or if this process preempted one that was woken recently: when four workers on two CPUs run the tasks of a program in
 * turn, each worker that has finished would spin on the CPU that the next one needs. Exceptions: a spin lasts at least
 * SPIN_WAIT_PATIENT_US, the time in which a running peer answers; the process does not yield if its last spin
 * succeeded, nor in every third of a series of unsuccessful spins, so that two processes that communicate constantly
 * get onto two CPUs once and then stay there.
 *
 * The nudge: the kernel often starts two processes on one CPU and leaves them there although another is idle. After
 * SPIN_WAIT_NUDGE_AFTER waits on a shared CPU the process removes that CPU from its mask, which moves the process, and
 * restores the mask. Only one side of a pair may do so, otherwise both move and share a CPU again; if nudging does not
 * help, it becomes rarer. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "net/shm/process_block.h"

enum {
    SPIN_WAIT_SPIN_US = 20,
    SPIN_WAIT_NUDGE_AFTER = 32,
    SPIN_WAIT_ALONE_AFTER = 2 /* unsuccessful polls */,
    SPIN_WAIT_FRESH_US = 1000,
    SPIN_WAIT_PATIENT_US = 4,
    SPIN_WAIT_STAY_EVERY = 3
};

typedef struct spin_wait {
    uint64_t spin_ticks;
    const process_block *blocks; /* of all processes; borrowed, NULL: the process yields to none */
    const _Atomic uint32_t *processes;
    uint32_t cpus;
    uint32_t rung_max; /* maximum number of woken, not yet running processes */
    uint64_t patient_ticks, fresh_ticks;
    uint32_t shared_waits;
    uint32_t vain; /* consecutive unsuccessful spins */
    bool alone;    /* the next message was waited for: not part of a stream. Cleared by its reader */
    uint64_t nudge_last, nudge_gap, nudge_gap_min, nudge_gap_max; /* ticks */
    /* for metrics and tests, which read them while the waiting thread counts */
    _Atomic uint64_t spins_hit, spins_missed, sleeps_at_once, made_way, nudges;
} spin_wait;

/* Adds 1 to a counter that no other thread changes at the same time. */
static inline void spin_wait_count(_Atomic uint64_t *counter) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

bool spin_wait_is_crowded(const spin_wait *wait); /* more processes than CPUs: not all can spin */

typedef bool spin_wait_ready_fn(void *context);

void spin_wait_init(spin_wait *wait, int64_t spin_us);
/* From now on the process yields to these, the first *processes of them. */
void spin_wait_heed(spin_wait *wait, const process_block *blocks, const _Atomic uint32_t *processes);

/* Publishes the CPU that this thread runs on: a hint without ordering. Called with every message sent: costs two loads
 * and a compare. */
static inline uint32_t spin_wait_publish(process_block *self) {
    uint32_t cpu = cpu_current();
    if (atomic_load_explicit(&self->cpu, memory_order_relaxed) != cpu)
        atomic_store_explicit(&self->cpu, cpu, memory_order_relaxed);
    return cpu;
}

void spin_wait_woken(process_block *self); /* after a sleep: also stores the time */

/* Spins according to the policy. True: `ready` returned true. False: the caller sleeps. `peer` is the process waited
 * for (NULL: none that runs); may_nudge: this side of the pair may move. */
bool spin_wait_spin(spin_wait *wait, process_block *self, const process_block *peer, bool may_nudge,
                    spin_wait_ready_fn *ready, void *context);
