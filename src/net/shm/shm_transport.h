/* shm_transport.h — the shared-memory transport: a process's links to the other processes of its machine.
 *
 * Joins a broker (broker_client.h), carries messages through rings (ring.h), knows by its ready bits which ring has
 * something (doorbell.h) and waits as spin_wait.h says. Addresses are "shm:NAME" (the name that a process joined with)
 * and "shm:#HEX" (its process id).
 *
 * Rings that are in use are *hot*: they are looked at directly and cost their sender no ready bit. All others are
 * armed: their sender marks the ready bit and rings. A transport goes through its hot rings and its ready bits, so a
 * thousand idle links cost nothing.
 *
 * A ring begins small. A sender that finds it full asks the broker for one four times as large and goes on there; when
 * it has been quiet for a while it goes back to a small one the same way. A body is streamed through the ring in pieces
 * and copied straight to where the receiver wants it, one piece while the next is written.
 *
 * Threads  everything with the poller's lock held where there are several; only shm_transport_wait and
 *          shm_transport_sleep let go of it.
 *          One of them drives: polls and waits. */
#pragma once
#include "net/event_loop.h"
#include "net/shm/broker_client.h"
#include "net/shm/poller.h"
#include "net/transport.h"

typedef struct shm_transport shm_transport;

typedef struct shm_transport_options {
    const char *broker;      /* path of the broker's socket */
    const char *name;        /* that others find this process by; NULL: none */
    int64_t join_timeout_us; /* 0: SHM_TRANSPORT_JOIN_TIMEOUT_US */
    int64_t spin_us;         /* < 0: never spin; 0: SPIN_WAIT_SPIN_US */
    uint64_t ring_bytes_max; /* 0: RING_BYTES_MAX */
    int64_t ring_idle_us;    /* a grown ring shrinks after this long without a message; 0: SHM_TRANSPORT_RING_IDLE_US */
} shm_transport_options;

enum { SHM_TRANSPORT_JOIN_TIMEOUT_US = 5 * 1000 * 1000, SHM_TRANSPORT_RING_IDLE_US = 2 * 1000 * 1000 };

MR_MUST mr_status shm_transport_open(const shm_transport_options *options, const transport_events *events,
                                     void *context, shm_transport **out);
/* on_closed for every link, before it returns; peers see MR_CLOSED */
void shm_transport_close(shm_transport *transport);

transport shm_transport_transport(shm_transport *shm_transport);
uint64_t shm_transport_process(const shm_transport *transport);
const arena *shm_transport_arena(const shm_transport *transport);

/* Handles what has come: messages, room, links that come and go. Returns how many things it did; 0: nothing has come.
 */
size_t shm_transport_poll(shm_transport *transport);

/* Waits until shm_transport_poll may have something to do: spins, then sleeps; at most timeout_us (< 0: as long as it
 * takes). May return early. The lock (NULL where there is one thread) is held on entry and on return, and free
 * meanwhile; a waiter that is finished meanwhile, by another thread, ends the wait. */
void shm_transport_wait(shm_transport *transport, poller *lock, int64_t timeout_us);
/* The same for a thread that has just waited as long as spinning is worth it (shm_transport_wait without time): sleeps
 * at once. */
void shm_transport_sleep(shm_transport *transport, poller *lock, int64_t timeout_us);

/* Whether there are more processes than CPUs. */
bool shm_transport_is_crowded(const shm_transport *transport);

/* Lets a loop drive the transport: polls when something comes, and arms the doorbell for the loop before it sleeps. */
MR_MUST mr_status shm_transport_attach(shm_transport *transport, event_loop *loop);
void shm_transport_detach(shm_transport *transport);

typedef struct shm_transport_stats {
    uint32_t links, hot;
    uint32_t leaving; /* links whose old ring waits for its sender to let go of it */
    uint64_t spins_hit, spins_missed, sleeps_at_once, sleeps_futex, sleeps_loop, nudges, grown, shrunk;
} shm_transport_stats;
shm_transport_stats shm_transport_stats_now(const shm_transport *transport);
