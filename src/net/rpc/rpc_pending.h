/* rpc_pending.h — table of the pending RPCs of one link.
 *
 * Records stay with their place for the life of the link and never move (timers point into them). Free places are taken
 * last in, first out: a link that makes one call at a time uses one place for ever, and both sides' tables stay small.
 *
 *        take             the call ended                                      give
 *   free ────► waiting ──────────────────────────────────────────────────────► free
 *                └─ cancelled while the link was full ─► telling ─ it was sent ─┘
 *
 * `number` grows by RPC_CALL_WINDOW each time a place is taken; by it rpc_pending_find knows calls that were never
 * made. */
#pragma once
#include "base/list.h"
#include "base/timer_heap.h"
#include "net/rpc/rpc_header.h"

typedef enum rpc_call_state { RPC_CALL_FREE, RPC_CALL_WAITING, RPC_CALL_TELLING } rpc_call_state;

typedef struct rpc_call_record { /* two lines, of which a call without a deadline touches the first */
    uint64_t number;
    rpc_call_done_fn *done;
    void *argument;
    rpc_call_body_fn *on_body;
    uint32_t next_free; /* place + 1; 0: the last */
    uint32_t method;
    uint16_t attempt, attempts_max;
    uint8_t state; /* rpc_call_state */
    bool timed;    /* it has a deadline or asks again: it may be in `timers`, have something kept or unsent */
    int64_t deadline_us;
    struct rpc_call_link *link;

    int64_t attempt_timeout_us; /* <= 0: never */
    uint8_t *kept;              /* owned: the payload, for asking again; NULL: asks once */
    size_t kept_size;
    timer_heap_item timer; /* in calls.timers while there is something to wait for */
    list unsent; /* in the link's list while the link is full and an attempt or a cancellation has to be sent */
} rpc_call_record;
_Static_assert(sizeof(rpc_call_record) == 128 && offsetof(rpc_call_record, attempt_timeout_us) == 64, "two lines");

enum { RPC_PENDING_CHUNK = 16 };

typedef struct rpc_pending {  /* zero-initialized it is empty and ready */
    rpc_call_record **chunks; /* owned array of owned chunks */
    uint32_t count;           /* places that exist, a multiple of RPC_PENDING_CHUNK */
    uint32_t free;            /* place + 1 of the first free one; 0: none */
} rpc_pending;

void rpc_pending_fini(rpc_pending *pending); /* frees kept payloads, too */

static inline rpc_call_record *rpc_pending_at(const rpc_pending *pending, uint32_t place) {
    return &pending->chunks[place / RPC_PENDING_CHUNK][place % RPC_PENDING_CHUNK];
}

/* More places; `link` is written into each. MR_BUSY: there are RPC_CALL_WINDOW of them. MR_NOMEM. */
MR_MUST mr_status rpc_pending_grow(rpc_pending *pending, struct rpc_call_link *link);

/* The first free place, which must exist, and the number that it will have. */
static inline rpc_call_record *rpc_pending_first(const rpc_pending *pending) {
    return rpc_pending_at(pending, pending->free - 1);
}
static inline uint64_t rpc_pending_next(const rpc_call_record *first) { return first->number + RPC_CALL_WINDOW; }

/* Takes it. Sets number and state; the rest is the caller's. */
static inline void rpc_pending_take_first(rpc_pending *pending, rpc_call_record *first) {
    pending->free = first->next_free;
    first->number = rpc_pending_next(first);
    first->state = RPC_CALL_WAITING;
}

static inline void rpc_pending_give(rpc_pending *pending, rpc_call_record *record) {
    record->state = RPC_CALL_FREE;
    record->next_free = pending->free;
    pending->free = rpc_call_place(record->number) + 1;
}

/* The place of a number that was given out, whatever became of the call since; NULL: no such number was given. */
static inline rpc_call_record *rpc_pending_find(const rpc_pending *pending, uint64_t number) {
    uint32_t place = rpc_call_place(number);
    if (place >= pending->count) return NULL;
    rpc_call_record *record = rpc_pending_at(pending, place);
    return number <= record->number ? record : NULL;
}
