/* slot_server.h — server state machine: its replicas of slots, and the dispatch of messages to them.
 *
 * Parts find their replica by slot; cluster maps are entered by all replicas at once, before the parts of the batch
 * that brought them. A cluster map of another generation takes all copies away. It beats to the controller, and ticks
 * its replicas.
 *
 * Whose word counts is in the cluster map: of a rank, that of the term which the newest cluster map here gives it.
 * Whoever begins a term knows the cluster map that gave it; so whatever it asks brings that cluster map, and from the
 * answer on the term before is heard by this server no more. A head that comes later has come by a later cluster map.
 * So a rank has one player at a time, at every slot, whatever processes believe. It is that term, too, and no other,
 * that is answered.
 *
 * Invariants (slot_server_check)
 *   1  The tables are as large as the newest cluster map says; all of them are of that map's generation.
 *   2  Every copy has entered the epoch that the map has for its slot; a slot in whose chain this process is has a
 *      copy.
 *   3  The credit of a rank is what the logs and open rounds of all copies hold of it, and the credit of links is what
 *      their logs hold (credit.h).
 *   4  A term that was heard has an address.
 *
 * Pure: bytes in, bytes out, ticks. */
#pragma once
#include "ps/batcher.h"
#include "ps/replica.h"

#define SLOT_SERVER_BEAT_US INT64_C(100000)
#define SLOT_SERVER_TICK_US INT64_C(60000)
/* with each so many of them it says what its slots have carried (load_tracker.h) */
enum { SLOT_SERVER_LOAD_BEATS = 5 };

enum { SLOT_SERVER_PUSH_MAX = 16 << 20 }; /* what a rank may push at once */

typedef struct slot_server_options {
    uint32_t id;
    const char *address, *controller; /* copied */
    const char *checkpoints;          /* copied; NULL: there are no checkpoints */
    const state_machine_ops *values;  /* borrowed */
    void *values_context;             /* borrowed: for whatever makes the values of a slot */
    uint64_t rank_bytes, link_bytes;  /* what it holds for each rank, and for all links (credit.h); 0: no bound */
    uint64_t ranks_bytes;             /* instead of rank_bytes: for all ranks together, each has its share; 0: none */
    bool (*is_full)(void *context);   /* there is no memory for more pushes: ranks are told so; may be NULL */
    void (*send)(void *context, const char *address, span bytes);
    /* see batcher.h */
    void (*send_pieces)(void *context, const char *address, const shared_bytes_piece *pieces, size_t count);
    /* may be NULL */
    void (*on_applied)(void *context, const replica *replica, const replica_log_entry *entry);
    void (*on_loaded)(void *context, const replica *replica); /* from a checkpoint; may be NULL */
    void (*on_replaced)(void *context, uint64_t incarnation); /* as of a player (rank_agent.h); may be NULL */
    void (*on_deposed)(void *context); /* another process has taken its place: it is heard no more. May be NULL */
    void *context;
    map_cache *cache; /* shared; NULL: one of its own */
} slot_server_options;

typedef struct slot_server slot_server;

/* It does nothing before it has its incarnation, which the metadata store gives. */
slot_server *slot_server_create(const slot_server_options *options);
void slot_server_destroy(slot_server *server);
void slot_server_begin(slot_server *server, uint64_t incarnation, int64_t now_us);

/* where it lies, see batcher.h; NULL: it is copied */
void slot_server_take_bytes(slot_server *server, span bytes, shared_bytes *shared);
int64_t slot_server_next_us(const slot_server *server);
void slot_server_tick(slot_server *server, int64_t now_us);

typedef struct slot_server_work { /* what ranks have asked of it since it began, and bytes of payloads with that */
    uint64_t pushes, pulls, bytes_in, bytes_out;
} slot_server_work;
const slot_server_work *slot_server_work_done(const slot_server *server);
/* contributions that were repeated with other bytes (replica.h) */
uint64_t slot_server_disputes(const slot_server *server);

uint64_t slot_server_incarnation(const slot_server *server); /* 0: none yet */
const cluster_map *slot_server_map(const slot_server *server);
const credit *slot_server_credit(const slot_server *server);
const replica *slot_server_replica(const slot_server *server, uint32_t slot); /* NULL: it never had to do with it */
void slot_server_check(const slot_server *server); /* asserts the invariants above (base/invariants.h) */
