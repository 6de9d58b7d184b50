/* shm_transport.h — the shared-memory transport: a process's links to the other processes of its machine.
 *
 * Joins a broker (broker_client.h), sends messages through rings (ring.h), finds rings with records by its ready bits
 * (doorbell.h) and waits as described in spin_wait.h. Addresses are "shm:NAME" (the name that a process joined with)
 * and "shm:#HEX" (its process id).
 *
 * Rings in use are *hot*: they are polled directly, and their sender marks no ready bit. All others are armed: their
 * sender marks the ready bit and rings the doorbell. A transport polls its hot rings and its ready bits, so a thousand
 * idle links cost nothing.
 *
 * A ring is small at first. A sender that finds it full requests one four times as large from the broker and continues
 * there; after an idle time it returns to a small ring the same way. A body is streamed through the ring in parts and
 * copied directly to the receiver's memory, one part while the next is written.
 *
 * Threads  With several threads, all functions require the poller's lock; only shm_transport_wait and
 *          shm_transport_sleep release it. One thread drives: polls and waits. */
#pragma once
#include "net/event_loop.h"
#include "net/shm/broker_client.h"
#include "net/shm/poller.h"
#include "net/transport.h"

typedef struct shm_transport shm_transport;

typedef struct shm_transport_options {
    const char *broker;      /* path of the broker's socket */
    const char *name;        /* name by which others find this process; NULL: none */
    int64_t join_timeout_us; /* 0: SHM_TRANSPORT_JOIN_TIMEOUT_US */
    int64_t spin_us;         /* < 0: never spin; 0: SPIN_WAIT_SPIN_US */
    uint64_t ring_bytes_max; /* 0: RING_BYTES_MAX */
    int64_t ring_idle_us;    /* a grown ring shrinks after this long without a message; 0: SHM_TRANSPORT_RING_IDLE_US */
} shm_transport_options;

enum { SHM_TRANSPORT_JOIN_TIMEOUT_US = 5 * 1000 * 1000, SHM_TRANSPORT_RING_IDLE_US = 2 * 1000 * 1000 };

MR_MUST mr_status shm_transport_open(const shm_transport_options *options, const transport_events *events,
                                     void *context, shm_transport **out);
/* Calls on_closed for every link before it returns; peers get MR_CLOSED. */
void shm_transport_close(shm_transport *transport);

transport shm_transport_transport(shm_transport *shm_transport);
uint64_t shm_transport_process(const shm_transport *transport);
const arena *shm_transport_arena(const shm_transport *transport);

/* Handles messages, room, and new and ended links. Returns the number of things done; 0: there was nothing to do. */
size_t shm_transport_poll(shm_transport *transport);

/* Waits until shm_transport_poll may have something to do: spins, then sleeps; at most timeout_us (< 0: no limit). May
 * return early. The lock (NULL with one thread) is held on entry and return, and released meanwhile; another thread
 * that finishes a waiter ends the wait. */
void shm_transport_wait(shm_transport *transport, poller *lock, int64_t timeout_us);
/* The same for a thread that has already spun as long as it is worthwhile (shm_transport_wait with timeout 0): sleeps
 * at once. */
void shm_transport_sleep(shm_transport *transport, poller *lock, int64_t timeout_us);

/* Polls a descriptor of the program (borrowed), too: while a thread sleeps, and every 20 ms while none does. When it is
 * readable, shm_transport_poll calls `interrupt`, and polls it no more until the next shm_transport_watch. A sleep that
 * has begun ignores the descriptor. fd -1: none. */
void shm_transport_watch(shm_transport *transport, int fd, void (*interrupt)(void *context), void *context);

/* Whether there are more processes than CPUs. */
bool shm_transport_is_crowded(const shm_transport *transport);

/* Lets an event loop drive the transport: polls on input, and arms the doorbell before the loop sleeps. */
MR_MUST mr_status shm_transport_attach(shm_transport *transport, event_loop *loop);
void shm_transport_detach(shm_transport *transport);

typedef struct shm_transport_stats {
    uint32_t links, hot;
    uint32_t leaving; /* links whose old ring waits for its sender to leave it */
    uint64_t spins_hit, spins_missed, sleeps_at_once, sleeps_futex, sleeps_loop, nudges, grown, shrunk;
} shm_transport_stats;
shm_transport_stats shm_transport_stats_now(const shm_transport *transport);
