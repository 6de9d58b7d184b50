/* port.h — the shared-memory transport: a process's links to the other processes of its machine.
 *
 * Joins a hub (guest.h), carries messages through rings (ring.h), knows by its ready bits which ring has something
 * (bell.h) and waits as waiter.h says. Addresses are "shm:NAME" (the name that a process joined with) and "shm:#HEX"
 * (its process id).
 *
 * Rings that are in use are *hot*: they are looked at directly and cost their sender no ready bit. All others are
 * armed: their sender marks the ready bit and rings. A port goes through its hot rings and its ready bits, so a
 * thousand idle links cost nothing.
 *
 * A ring begins small. A sender that finds it full asks the hub for one four times as large and goes on there; when it
 * has been quiet for a while it goes back to a small one the same way. A body is streamed through the ring in pieces
 * and copied straight to where the receiver wants it, one piece while the next is written.
 *
 * Threads   everything with the baton's lock held where there are several; only port_wait and port_sleep let go of it.
 *           One of them drives: polls and waits. */
#pragma once
#include "net/loop.h"
#include "net/shm/baton.h"
#include "net/shm/guest.h"
#include "net/transport.h"

typedef struct port port;

typedef struct port_options {
    const char *hub;         /* path of the hub's socket */
    const char *name;        /* that others find this process by; NULL: none */
    int64_t join_timeout_us; /* 0: PORT_JOIN_TIMEOUT_US */
    int64_t spin_us;         /* < 0: never spin; 0: WAITER_SPIN_US */
    uint64_t ring_bytes_max; /* 0: RING_BYTES_MAX */
    int64_t ring_idle_us;    /* a grown ring shrinks after this long without a message; 0: PORT_RING_IDLE_US */
} port_options;

enum { PORT_JOIN_TIMEOUT_US = 5 * 1000 * 1000, PORT_RING_IDLE_US = 2 * 1000 * 1000 };

MR_MUST mr_status port_open(const port_options *options, const transport_events *events, void *context, port **out);
void port_close(port *port); /* on_closed for every link, before it returns; peers see MR_CLOSED */

transport port_transport(port *port);
uint64_t port_process(const port *port);
const arena *port_arena(const port *port);

/* Handles what is there: messages, room, links that come and go. Returns how many things it did; 0: nothing was there.
 */
size_t port_poll(port *port);

/* Waits until port_poll may have something to do: spins, then sleeps; at most timeout_us (< 0: as long as it takes).
 * May return early. The lock (NULL where there is one thread) is held on entry and on return, and free meanwhile; a
 * waiter that is finished meanwhile, by another thread, ends the wait. */
void port_wait(port *port, baton *lock, int64_t timeout_us);
/* The same for who has just waited as long as it is worth spinning (port_wait without time): sleeps at once. */
void port_sleep(port *port, baton *lock, int64_t timeout_us);

/* Whether there are more processes than CPUs. */
bool port_is_crowded(const port *port);

/* Lets a loop drive the port: polls when something comes, says before it sleeps that it sleeps there. */
MR_MUST mr_status port_attach(port *port, loop *loop);
void port_detach(port *port);

typedef struct port_stats {
    uint32_t links, hot;
    uint32_t leaving; /* links whose old ring waits for its sender to let go of it */
    uint64_t spins_hit, spins_missed, sleeps_at_once, sleeps_futex, sleeps_loop, nudges, grown, shrunk;
} port_stats;
port_stats port_stats_now(const port *port);
