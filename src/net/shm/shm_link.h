/* shm_link.h — one link of the shared-memory transport: its two rings, the body in transit each way, and its end. For
 * shm_transport.c only.
 *
 *  OPENING ── LINK from the broker ──► OPEN ── closed by us ──► CLOSING (a body still leaves) ──┐
 *      │                              │                                                       ├──► on_closed, freed
 *      └── refused ───────────────────┴── the other side went ──► GONE (what it sent is read) ┘
 *
 * Sending and receiving are here; shm_transport.c has the table of links and decides when to look at them. */
#pragma once
#include "base/failpoint.h"
#include "base/list.h"
#include "net/shm/broker_client.h"
#include "net/shm/lane.h"
#include "net/shm/ring.h"
#include "net/shm/spin_wait.h"

/* Type of a record in a ring. */
typedef enum shm_record {
    SHM_MESSAGE = LANE_MESSAGE, /* a head */
    SHM_BODY,                   /* a head, then 8 bytes: the size of the body that follows in pieces */
    SHM_PIECE,                  /* bytes of that body */
    SHM_MOVED,                  /* 16 bytes: offset and size of the ring in which it goes on */
} shm_record;

enum {
    SHM_BODY_TAIL = LANE_TAIL,
    SHM_MOVED_SIZE = 16,
    SHM_PIECES = 4,           /* of a body, or more: the reader copies one out while the next is copied in */
    SHM_PIECE_MIN = 4 * 1024, /* but none smaller than this, except the last */
    SHM_PIECE_MAX = 256 * 1024,
    SHM_LINE = 64,             /* bytes that move between caches together */
    SHM_AHEAD_MAX = 64 * 1024, /* of a body for which the next one's lines are asked for, */
    SHM_AHEAD_ROOM = 4,        /* and so many of which its ring should hold */
};

typedef enum shm_link_state { SHM_LINK_OPENING, SHM_LINK_OPEN, SHM_LINK_CLOSING, SHM_LINK_GONE } shm_link_state;

/* The place of the next body like the last one. Its lines are with the other side, which has read the bytes there
 * before; a write to a line waits for it. So a transport that has sent a body and waits fetches them meanwhile. */
typedef struct shm_ahead {
    const uint8_t *data; /* of the ring; it stays mapped */
    uint64_t capacity, offset;
    uint32_t lines; /* still to be asked for */
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
    bool impatient;                      /* the other side's runs that were not shown are read all the same */
    uint64_t ring_bytes, ring_bytes_max; /* the smallest ring seen, and what one may grow to */
    uint64_t grown, shrunk;
} shm_host;

typedef struct shm_link {
    /* Fields that a small message needs. */
    link_id id;
    uint32_t index; /* in the transport's table; our ready bit */
    shm_link_state state;
    bool deaf;      /* nothing is read from it any more: closed by us, or the other side sent nonsense */
    bool hot;       /* looked at directly, not armed */
    bool in_active; /* a body is arriving */
    lane lane;
    ring_consumer receive;

    uint32_t number; /* the broker's number of it */
    bool linked;     /* the broker has sent rings and peer */
    bool wants_room; /* a sender got MR_BUSY and waits for on_room */
    bool resizing, resize_refused;
    list queued; /* in the transport's list of links to look at, or alone */

    peer peer;
    process_block *peer_block;
    uint32_t peer_process_block_index;
    int peer_event_fd; /* owned; -1: none */

    extent send_extent, receive_extent;
    extent next_extent; /* the ring to move to, until the MOVED record is written; size 0: none */
    extent left_extent; /* the receiving ring before this one, while its sender may still touch it; size 0: none */

    span out_body;          /* borrowed: the rest of the body under way, not sent yet */
    size_t out_size;        /* of all of it */
    size_t out_piece;       /* how much of it leaves at a time, at most */
    body_sent_fn *out_sent; /* NULL: no body is under way */
    void *out_argument;

    uint8_t *in_body; /* NULL: it is thrown away */
    uint64_t in_size, in_got;
    buffer in_head; /* of its message */

    uint64_t drained; /* records read since the other side left */
    cause cause;      /* why, once CLOSING or GONE */
} shm_link;

void shm_link_init(shm_link *link, link_id id, uint32_t index);
void shm_link_fini(shm_link *link);
/* Takes rings and peer over from the broker's message. MR_CORRUPT: they make no sense. */
MR_MUST mr_status shm_link_join(shm_host *host, shm_link *link, const broker_client_link *told);
/* To CLOSING or GONE. `why` is kept unless it was closing already. */
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

/* There may be room now, or a new ring: goes on with the sends that wait for it. True: it did something. */
bool shm_link_room(shm_host *host, shm_link *link);
/* The broker's answer to a resize; size 0: refused. */
void shm_link_resized(shm_host *host, shm_link *link, extent extent);
/* Goes back to a small ring if nothing was sent since the last call. True: the ring is larger than it was at first. */
bool shm_link_shrink(shm_host *host, shm_link *link);

/* Reads and delivers at most `budget` records; shm_link_settle gives their room back at the latest. Ends the
 * link (state GONE, cause) where they make no sense. */
size_t shm_link_receive(shm_host *host, shm_link *link, size_t budget);

/* Something that was read has not been given back to the sender, or the ring before this one not to the broker. */
static inline bool shm_link_owes(const shm_link *link) {
    return link->receive.released != link->receive.tail || link->left_extent.size != 0;
}
void shm_link_settle(shm_host *host, shm_link *link);

/* The same for a link that the other side left. True: there may be more. */
bool shm_link_drain(shm_host *host, shm_link *link, size_t budget);

/* Ends the body under way out, if any. */
void shm_link_drop_body(shm_link *link, mr_status status);
