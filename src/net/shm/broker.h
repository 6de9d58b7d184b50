/* broker.h — shared-memory broker: owns a machine's arena, joins processes by rings, notices deaths, reclaims memory.
 *
 * The broker records every extent that it hands out in its own memory, never in the arena: a process that is killed at
 * any moment leaks nothing and can corrupt no bookkeeping. Clients connect over a unix socket (mode 0600, peer's uid
 * checked with SO_PEERCRED); pidfds report their deaths at once, and every process that had a link to the dead one
 * receives the cause: a message on its socket and a ring of its doorbell.
 *
 * Runs in a loop (net/event_loop.h) of its host; one thread. */
#pragma once
#include "net/event_loop.h"
#include "net/shm/arena.h"
#include "net/transport.h"

typedef struct broker broker;

typedef struct broker_options {
    const char *path; /* of the unix socket; must not exist, or be a dead one of ours */
    uint64_t arena_bytes;
    uint64_t ring_bytes;         /* of a new ring; 0: RING_BYTES_DEFAULT */
    uint64_t ring_bytes_max;     /* its limit of growth; 0: RING_BYTES_MAX */
    uint32_t links_per_peer_max; /* 0: PROCESS_BLOCK_LINKS_MAX */
    /* Writes a text that follows the exit status of a process in its cause, or "". May be NULL. */
    void (*explain)(void *context, int pid, int wait_status, char *out, size_t size);
    void *context;
    bool alone; /* no other broker is ever made in the folder of `path`, which may have a lock */
} broker_options;

typedef struct broker_stats {    /* resources in use; all zero but size and backed when every client is gone */
    uint64_t size, backed, used; /* bytes of the arena; used: in rings */
    uint64_t exported;           /* bytes handed out by broker_extent_alloc and broker_extent_take */
    uint32_t peers, links, rings, loans;
    bool no_descriptor; /* free for the last process that came */
} broker_stats;

MR_MUST mr_status broker_open(event_loop *loop, const broker_options *options, broker **out);
void broker_close(broker *broker); /* clients see on_broker_gone; the socket file is removed */
broker_stats broker_stats_now(const broker *broker);

/* For the process that hosts the broker: extents of the arena for other uses than rings (the store), backed, with any
 * content. An extent belongs to the caller until broker_extent_free, also when clients end; all must be back before
 * broker_close. Only on the loop's thread. MR_INVALID for 0 bytes; MR_NOMEM: no free run is that long, the machine has
 * no more, or the rest (a sixteenth of the arena, 32 MB at most) is kept for the rings of new links. MR_BUSY: a long
 * range that was never used before is being backed (about 0.4 s a gigabyte), ask again. */
MR_MUST mr_status broker_extent_alloc(broker *broker, uint64_t size, extent *out);
/* Exactly these bytes, lent before. MR_NOMEM: they are not free, or far above the extents in use; or as above. */
MR_MUST mr_status broker_extent_take(broker *broker, extent wanted);
void broker_extent_free(broker *broker, extent extent); /* exactly the extent that was given, once */
const arena *broker_arena(const broker *broker);        /* borrowed until broker_close */

/* Asserts the broker's invariants: every extent that is handed out is recorded once. For tests. */
void broker_check(const broker *broker);

/* The broker's process may know better than a pidfd how a child ended (waitid): the node passes it here. */
void broker_note_exit(broker *broker, int pid, int wait_status);
