/* server.h — server state machine: its replicas of slots, and the dispatch of messages to them.
 *
 * Parts find their replica by slot; charts are entered by all replicas at once, before the parts of the batch that
 * brought them. A chart of another generation takes all copies away. It beats to the director, and ticks its replicas.
 *
 * Whose word counts is in the chart: of a rank, that of the stint which the newest chart here gives it. Whoever begins
 * a stint knows the chart that gave it; so whatever it asks brings that chart, and from the answer on the stint before
 * is heard by this server no more. A head that comes later has come by a later chart. So a rank has one player at a
 * time, at every slot, whatever processes believe. It is that stint, too, and no other, that is answered.
 *
 * Invariants (server_check)
 *   1  The tables are as large as the newest cluster map says; all of them are of that map's generation.
 *   2  Every copy has entered the epoch that the map has for its slot; a slot in whose chain this process is has a copy.
 *   3  The credit of a rank is what the logs and open rounds of all copies hold of it, and the credit of links is what
 *      their logs hold (credit.h).
 *   4  A term that was heard has an address.
 *
 * Pure: bytes in, bytes out, ticks. */
#pragma once
#include "ps/post.h"
#include "ps/replica.h"

#define SERVER_BEAT_US INT64_C(100000)
#define SERVER_TICK_US INT64_C(60000)
enum { SERVER_LOAD_BEATS = 5 }; /* with each so many of them it says what its slots have carried (load.h) */

enum { SERVER_PUSH_MAX = 16 << 20 }; /* what a rank may push at once */

typedef struct server_options {
    uint32_t id;
    const char *address, *director;  /* copied */
    const char *depot;               /* copied; NULL: there are no checkpoints */
    const values_ops *values;        /* borrowed */
    void *values_context;            /* borrowed: for whatever makes the values of a slot */
    uint64_t rank_bytes, link_bytes; /* what it holds for each rank, and for all links (credit.h); 0: no bound */
    uint64_t ranks_bytes;            /* instead of rank_bytes: for all ranks together, each has its share; 0: none */
    bool (*is_full)(void *context);  /* there is no memory for more pushes: ranks are told so; may be NULL */
    void (*send)(void *context, const char *address, span bytes);
    void (*send_pieces)(void *context, const char *address, const bale_piece *pieces, size_t count); /* see post.h */
    void (*on_applied)(void *context, const replica *replica, const tape_entry *entry);              /* may be NULL */
    void (*on_loaded)(void *context, const replica *replica); /* from a checkpoint; may be NULL */
    void (*on_replaced)(void *context, uint64_t incarnation); /* as of a player (player.h); may be NULL */
    void (*on_deposed)(void *context); /* another process has taken its place: it is heard no more. May be NULL */
    void *context;
    atlas *atlas; /* shared; NULL: one of its own */
} server_options;

typedef struct server server;

/* It does nothing before it has its incarnation, which the coordinator gives. */
server *server_create(const server_options *options);
void server_destroy(server *server);
void server_begin(server *server, uint64_t incarnation, int64_t now_us);

void server_take_bale(server *server, span bytes, bale *bale); /* where it lies, see post.h; NULL: it is copied */
int64_t server_next_us(const server *server);
void server_tick(server *server, int64_t now_us);

typedef struct server_work { /* what ranks have asked of it since it began, and bytes of payloads with that */
    uint64_t pushes, pulls, bytes_in, bytes_out;
} server_work;
const server_work *server_work_done(const server *server);
uint64_t server_disputes(const server *server); /* contributions that were repeated with other bytes (replica.h) */

uint64_t server_incarnation(const server *server); /* 0: none yet */
const chart *server_chart(const server *server);
const credit *server_credit(const server *server);
const replica *server_replica(const server *server, uint32_t slot); /* NULL: it never had to do with it */
void server_check(const server *server); /* asserts the invariants above (base/invariants.h) */
