/* broker.h — shared-memory broker: owns a machine's arena, links processes by rings, detects deaths, reclaims memory.
 *
 * The broker records every allocated extent in its own memory, never in the arena: a process that is killed at any
 * moment leaks nothing and cannot corrupt the records. Clients connect over a unix socket (mode 0600, peer's uid
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
    const char *path; /* of the unix socket; must not exist, or be left by a dead broker of this user */
    uint64_t arena_bytes;
    uint64_t ring_bytes;         /* of a new ring; 0: RING_BYTES_DEFAULT */
    uint64_t ring_bytes_max;     /* maximum size of a ring; 0: RING_BYTES_MAX */
    uint32_t links_per_peer_max; /* 0: PROCESS_BLOCK_LINKS_MAX */
    /* Writes a text that is appended to the exit status of a process in its cause, or "", and returns the cause's
     * status. May be NULL: MR_PEER_DIED. */
    mr_status (*explain)(void *context, int pid, int wait_status, char *out, size_t size);
    void *context;
    bool alone; /* no other broker is ever opened in the directory of `path`, so its lock is not needed */
} broker_options;

typedef struct broker_stats {    /* resources in use; all zero but size and backed when all clients have left */
    uint64_t size, backed, used; /* bytes of the arena; used: by rings */
    uint64_t exported;           /* bytes allocated by broker_extent_alloc and broker_extent_take */
    uint32_t peers, links, rings, loans;
    bool no_descriptor; /* no descriptor was free for the last process that connected */
} broker_stats;

MR_MUST mr_status broker_open(event_loop *loop, const broker_options *options, broker **out);
void broker_close(broker *broker); /* clients get on_broker_gone; the socket file is removed */
broker_stats broker_stats_now(const broker *broker);

/* For the process that hosts the broker: backed extents of the arena for uses other than rings (the store), with any
 * content. An extent belongs to the caller until broker_extent_free, even when clients end; all must be freed before
 * broker_close. Only on the loop's thread. MR_INVALID: 0 bytes. MR_NOMEM: no free run is long enough, the machine has
 * no more memory, or the rest (a sixteenth of the arena, at most 32 MB) is reserved for rings of new links. MR_BUSY: a
 * long range that was never used is being backed (about 0.4 s per GB); retry. */
MR_MUST mr_status broker_extent_alloc(broker *broker, uint64_t size, extent *out);
/* Allocates exactly these bytes, which were allocated before. MR_NOMEM: they are not free, or far above the extents in
 * use; or as above. */
MR_MUST mr_status broker_extent_take(broker *broker, extent wanted);
void broker_extent_free(broker *broker, extent extent); /* exactly an allocated extent, once */
const arena *broker_arena(const broker *broker);        /* borrowed until broker_close */

/* Asserts the broker's invariants: each allocated extent is recorded once. For tests. */
void broker_check(const broker *broker);

/* Passes the wait status of a child (waitid), which the host may know better than a pidfd does. */
void broker_note_exit(broker *broker, int pid, int wait_status);
