/* slot_server.h — server state machine: its replicas of slots, and the dispatch of messages to them.
 *
 * Slot messages find their replica by slot; cluster maps are entered by all replicas at once, before the messages of
 * the packet that brought them. A cluster map of another generation drops all replicas. The server sends heartbeats to
 * the controller, and ticks its replicas.
 *
 * Messages of a rank are accepted only in the term that the newest cluster map here gives the rank. A process that
 * begins a term knows the cluster map that gave it; so its first request brings that cluster map, and after the answer
 * this server refuses the term before. A server that becomes head later has a later cluster map. So a rank has one
 * process at a time, at every slot, whatever processes believe. Answers go to that term only, too.
 *
 * Invariants (slot_server_check)
 *   1  The tables are as large as the newest cluster map requires; all of them are of that map's generation.
 *   2  Every replica has entered the epoch that the map has for its slot; a slot in whose chain this process is has a
 *      replica.
 *   3  The credit of a rank is the bytes in the logs and open rounds of all replicas, and the credit of links is the
 *      bytes in their logs (credit.h).
 *   4  A term that was accepted has an address.
 *
 * Pure: bytes in, bytes out, ticks. */
#pragma once
#include "ps/batcher.h"
#include "ps/replica.h"

#define SLOT_SERVER_BEAT_US INT64_C(100000)
#define SLOT_SERVER_TICK_US INT64_C(60000)
/* heartbeats between two load reports (load_tracker.h) */
enum { SLOT_SERVER_LOAD_BEATS = 5 };

/* Largest push and largest query of a rank: a large push travels in pieces (transfer.h). */
enum { SLOT_SERVER_PUSH_MAX = 1 << 30, SLOT_SERVER_QUERY_MAX = 16 << 20 };

typedef struct slot_server_options {
    uint32_t id;
    const char *address, *controller; /* address: copied; controller: borrowed for the server's life */
    const char *checkpoints;          /* address of the checkpoint store, borrowed for the server's life; NULL: none */
    const state_machine_ops *values;  /* borrowed */
    void *values_context;             /* borrowed: context of `values` */
    uint64_t rank_bytes, link_bytes; /* limits of held bytes for each rank, and for all links (credit.h); 0: no limit */
    uint64_t ranks_bytes;           /* limit for all ranks together, divided equally, in place of rank_bytes; 0: none */
    bool (*is_full)(void *context); /* true: no memory for more pushes, which are refused; may be NULL */
    void (*send)(void *context, const char *address, span bytes);
    /* see batcher.h */
    void (*send_pieces)(void *context, const char *address, const shared_bytes_piece *pieces, size_t count);
    /* may be NULL */
    void (*on_applied)(void *context, const replica *replica, const replica_log_entry *entry);
    void (*on_loaded)(void *context, const replica *replica); /* a replica was loaded from a checkpoint; may be NULL */
    void (*on_replaced)(void *context, uint64_t incarnation); /* as in rank_agent.h; may be NULL */
    /* another process took this one's place; its messages are ignored; may be NULL */
    void (*on_deposed)(void *context);
    void *context;
    map_cache *cache; /* shared; NULL: a private one */
    size_t piece;     /* bytes of a piece of a large message (transfer.h); 0: the default */
} slot_server_options;

typedef struct slot_server slot_server;

/* The server does nothing before slot_server_begin gives it an incarnation from the metadata store. */
slot_server *slot_server_create(const slot_server_options *options);
void slot_server_destroy(slot_server *server);
void slot_server_begin(slot_server *server, uint64_t incarnation, int64_t now_us);

/* `shared`: the buffer of the bytes, see batcher.h; NULL: they are copied */
void slot_server_take_bytes(slot_server *server, span bytes, shared_bytes *shared);
int64_t slot_server_next_us(const slot_server *server);
void slot_server_tick(slot_server *server, int64_t now_us);

typedef struct slot_server_work { /* requests of ranks since creation, and bytes of their payloads */
    uint64_t pushes, pulls, bytes_in, bytes_out;
} slot_server_work;
const slot_server_work *slot_server_work_done(const slot_server *server);
/* number of contributions that were repeated with other bytes (replica.h) */
uint64_t slot_server_disputes(const slot_server *server);

uint64_t slot_server_incarnation(const slot_server *server); /* 0: none yet */
const cluster_map *slot_server_map(const slot_server *server);
const credit *slot_server_credit(const slot_server *server);
const replica *slot_server_replica(const slot_server *server, uint32_t slot); /* NULL: this server never needed one */
void slot_server_check(const slot_server *server); /* asserts the invariants above (base/invariants.h) */
