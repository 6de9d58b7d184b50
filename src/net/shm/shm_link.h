/* shm_link.h — one link of the shared-memory transport: its two rings, the bodies in transit each way, and its end. For
 * shm_transport.c only.
 *
 *  OPENING ── LINK from the broker ──► OPEN ── closed here ──► CLOSING (a body is being sent) ──┐
 *      │                              │                                                       ├──► on_closed, freed
 *      └── refused ───────────────────┴── the other side left ──► GONE (unread records are read) ┘
 *
 * Sending and receiving are here; shm_transport.c has the table of links and decides when to poll them. */
#pragma once
#include "base/failpoint.h"
#include "base/list.h"
#include "net/shm/broker_client.h"
#include "net/shm/lane.h"
#include "net/shm/ring.h"
#include "net/shm/spin_wait.h"

/* Types of records in a ring. */
typedef enum shm_record {
    SHM_MESSAGE = LANE_MESSAGE, /* a head */
    SHM_BODY,                   /* a head, then 8 bytes: the size of the body that follows in SHM_PIECE records */
    SHM_PIECE,                  /* bytes of that body */
    SHM_MOVED,                  /* 16 bytes: offset and size of the ring that replaces this one */
} shm_record;

enum {
    SHM_BODY_TAIL = LANE_TAIL,
    SHM_MOVED_SIZE = 16,
    SHM_PIECES = 4,           /* minimum parts of a body: the reader copies one while the next is written */
    SHM_PIECE_MIN = 4 * 1024, /* but no part is smaller, except the last */
    SHM_PIECE_MAX = 256 * 1024,
    SHM_LINE = 64,             /* size of a cache line */
    SHM_AHEAD_MAX = 64 * 1024, /* largest body for which the lines of the next one are prefetched */
    SHM_AHEAD_ROOM = 4,        /* if the ring has room for this many of them */
};

typedef enum shm_link_state { SHM_LINK_OPENING, SHM_LINK_OPEN, SHM_LINK_CLOSING, SHM_LINK_GONE } shm_link_state;

/* Ring memory that a next body of the same size would occupy. Its cache lines are in the reader's cache, and a write to
 * them stalls; a transport that has sent a body prefetches them while it waits. */
typedef struct shm_ahead {
    const uint8_t *data; /* data of the ring; stays mapped */
    uint64_t capacity, offset;
    uint32_t lines; /* lines left to prefetch */
} shm_ahead;

typedef struct shm_host { /* the part of the transport that a link uses */
    const arena *arena;
    broker_client *client;
    process_block *self;
    const transport_events *events;
    void *context;
    spin_wait wait;
    lane_runs runs;
    shm_ahead ahead;
    bool impatient;                      /* held runs of peers are read although they are not published */
    uint64_t ring_bytes, ring_bytes_max; /* initial size of a ring, and maximum */
    uint64_t grown, shrunk;
} shm_host;

typedef struct shm_link {
    /* Fields that a small message needs. */
    link_id id;
    uint32_t index; /* in the transport's table; also the ready bit of this side */
    shm_link_state state;
    bool deaf;      /* not read any more: closed here, or the other side sent corrupt records */
    bool hot;       /* polled directly, not armed */
    bool in_active; /* a body is arriving */
    lane lane;
    ring_consumer receive;

    uint32_t number; /* the broker's number of the link */
    bool linked;     /* the broker has sent rings and peer */
    bool wants_room; /* a sender got MR_BUSY and waits for on_room */
    bool resizing, resize_refused;
    list queued; /* in the transport's list of links with work, or alone */

    peer peer;
    process_block *peer_block;
    uint32_t peer_process_block_index;
    int peer_event_fd; /* owned; -1: none */

    extent send_extent, receive_extent;
    extent next_extent; /* the next sending ring, until the MOVED record is written; size 0: none */
    extent left_extent; /* the previous receiving ring, while its sender may still access it; size 0: none */

    span out_body;          /* borrowed: the unsent rest of the current body */
    size_t out_size;        /* size of the whole body */
    size_t out_piece;       /* maximum size of its records */
    body_sent_fn *out_sent; /* NULL: no body is being sent */
    void *out_argument;

    uint8_t *in_body; /* NULL: the body is discarded */
    uint64_t in_size, in_got;
    buffer in_head; /* head of the message whose body is arriving */

    uint64_t drained; /* records read since the other side left */
    cause cause;      /* valid in CLOSING and GONE */
} shm_link;

void shm_link_init(shm_link *link, link_id id, uint32_t index);
void shm_link_fini(shm_link *link);
/* Stores rings and peer of the broker's message. MR_CORRUPT: invalid rings. */
MR_MUST mr_status shm_link_join(shm_host *host, shm_link *link, const broker_client_link *told);
/* Changes to CLOSING or GONE. Stores `why` unless the link was closing already. */
void shm_link_end(shm_link *link, shm_link_state state, const cause *why);

mr_status shm_link_reserve_slow(shm_host *host, shm_link *link, size_t size, uint8_t **out);

MR_MUST static inline mr_status shm_link_reserve(shm_host *host, shm_link *link, size_t size, uint8_t **out) {
    uint8_t *at = lane_reserve(&link->lane, size);
    if (__builtin_expect(at == NULL, 0)) return shm_link_reserve_slow(host, link, size, out);
    *out = at;
    return MR_OK;
}

void shm_link_commit_body(shm_host *host, shm_link *link, size_t size, span body, body_sent_fn *sent, void *argument);
void shm_link_discard(shm_link *link);

/* There may be room or a new ring: continues waiting sends. True: something was done. */
bool shm_link_room(shm_host *host, shm_link *link);
/* Handles the broker's answer to a resize; size 0: refused. */
void shm_link_resized(shm_host *host, shm_link *link, extent extent);
/* Requests a small ring if nothing was sent since the last call. True: the ring is larger than the initial one. */
bool shm_link_shrink(shm_host *host, shm_link *link);

/* Reads and delivers at most `budget` records; shm_link_settle returns their room at the latest. If a record is
 * corrupt, ends the link (state GONE, cause). */
size_t shm_link_receive(shm_host *host, shm_link *link, size_t budget);

/* Whether room of read records was not returned to the sender yet, or the previous ring not to the broker. */
static inline bool shm_link_owes(const shm_link *link) {
    return link->receive.released != link->receive.tail || link->left_extent.size != 0;
}
void shm_link_settle(shm_host *host, shm_link *link);

/* As shm_link_receive, for a link that the other side left. True: there may be more. */
bool shm_link_drain(shm_host *host, shm_link *link, size_t budget);

/* Ends the body that is being sent, if any. */
void shm_link_drop_body(shm_link *link, mr_status status);
