/* spin_wait.h — spin-then-sleep policy: how long to spin, and on which CPU.
 *
 * A wake-up costs microseconds, an answer through shared memory a tenth of one: a process that waits for another one on
 * another CPU spins, for longer than a wake-up costs. A process that shares its CPU with that one must not spin: the
 * other cannot run until it stops. So every process publishes the CPU it runs on (process_block.h), and a waiter
 * compares.
 *
 *   wait ──► peer on my CPU? ── yes ──► sleep at once (and, now and then, move to another CPU: the nudge)
 *                 │ no
 *                 └──► spin up to spin_us, comparing again on the way ──► something came, or sleep
 *                                    └── others need this CPU ──► sleep at once
 *
 * Others need it if as many were woken and do not run yet (doorbell.h, RUNG) as there are CPUs besides this one, or if
 * one that was woken a moment ago was preempted by us: four workers on two CPUs run the tasks of a program one after
 * the other, and each that has ended would spin in the way of the next. Not before a peer that runs would have
 * answered (SPIN_WAIT_PATIENT_US); nor if the last spin was worth it, nor, of those that were not, each third time: two
 * that talk all the time have to meet on two CPUs once, and then stay there for as long as they are let.
 *
 * The nudge: the kernel often starts two processes on one CPU and leaves them there although another is idle. After
 * SPIN_WAIT_NUDGE_AFTER waits on a shared CPU the process takes that CPU out of its mask for a moment, which moves it,
 * and restores the mask. Only one side of a pair may do it, else both move and meet again; it backs off where it does
 * not help. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "net/shm/process_block.h"

enum {
    SPIN_WAIT_SPIN_US = 20,
    SPIN_WAIT_NUDGE_AFTER = 32,
    SPIN_WAIT_ALONE_AFTER = 2 /* looks in vain */,
    SPIN_WAIT_FRESH_US = 1000,
    SPIN_WAIT_PATIENT_US = 4,
    SPIN_WAIT_STAY_EVERY = 3
};

typedef struct spin_wait {
    uint64_t spin_ticks;
    const process_block *blocks; /* of all processes; borrowed, NULL: makes way for none */
    const _Atomic uint32_t *processes;
    uint32_t cpus;
    uint32_t rung_max; /* so many more need a CPU than there are */
    uint64_t patient_ticks, fresh_ticks;
    uint32_t shared_waits;
    uint32_t vain; /* spins in a row after which nothing had come */
    bool alone;    /* the next message was waited for: it is no part of a stream. Cleared by the reader of the flag */
    uint64_t nudge_last, nudge_gap, nudge_gap_min, nudge_gap_max;       /* ticks */
    uint64_t spins_hit, spins_missed, sleeps_at_once, made_way, nudges; /* how it went, for metrics and tests */
} spin_wait;

bool spin_wait_is_crowded(const spin_wait *wait); /* more processes than CPUs: not all of them can spin */

typedef bool spin_wait_ready_fn(void *context);

void spin_wait_init(spin_wait *wait, int64_t spin_us);
/* From now on it makes way for these, the first *processes of them. */
void spin_wait_heed(spin_wait *wait, const process_block *blocks, const _Atomic uint32_t *processes);

/* Publishes the CPU that this thread runs on: a hint, which orders nothing. Called with every message sent: costs two
 * loads and a compare. */
static inline uint32_t spin_wait_publish(process_block *self) {
    uint32_t cpu = cpu_current();
    if (atomic_load_explicit(&self->cpu, memory_order_relaxed) != cpu)
        atomic_store_explicit(&self->cpu, cpu, memory_order_relaxed);
    return cpu;
}

void spin_wait_woken(process_block *self); /* after a sleep: the same, and when */

/* Spins as the policy says. True: `ready` was true. False: sleep. `peer` is the process waited for (NULL: none that
 * runs); may_nudge: this is the side of the pair that moves. */
bool spin_wait_spin(spin_wait *wait, process_block *self, const process_block *peer, bool may_nudge,
                    spin_wait_ready_fn *ready, void *context);
