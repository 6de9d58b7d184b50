/* rpc_pending.h — table of the pending RPCs of one link.
 *
 * A record belongs to its place for the life of the link and never moves (timers point into it). Free places are taken
 * last in, first out: a link that makes one call at a time uses only one place, and both sides' tables stay small.
 *
 *        take             the call ended                                      give
 *   free ────► waiting ──────────────────────────────────────────────────────► free
 *                └─ cancelled while the link was full ─► telling ─ it was sent ─┘
 *
 * `number` grows by RPC_CALL_WINDOW each time a place is taken, so rpc_pending_find detects numbers that were never
 * used. */
#pragma once
#include "base/list.h"
#include "base/timer_heap.h"
#include "net/rpc/rpc_header.h"

typedef enum rpc_call_state { RPC_CALL_FREE, RPC_CALL_WAITING, RPC_CALL_TELLING } rpc_call_state;

typedef struct rpc_call_record { /* two cache lines; a call without a deadline uses only the first */
    uint64_t number;
    rpc_call_done_fn *done;
    void *argument;
    rpc_call_body_fn *on_body;
    uint32_t next_free; /* place + 1; 0: end of the list */
    uint32_t method;
    uint16_t attempt, attempts_max;
    uint8_t state; /* rpc_call_state */
    bool timed;    /* has a deadline or retries: may be in `timers` or `unsent`, or keep its payload */
    int64_t deadline_us;
    struct rpc_call_link *link;

    int64_t attempt_timeout_us; /* <= 0: never */
    uint8_t *kept;              /* owned: the payload, for retries; NULL: no retries */
    size_t kept_size;
    timer_heap_item timer; /* in rpc.timers while there is something to wait for */
    list unsent;           /* in the link's list while the link is full and an attempt or a cancellation is unsent */
} rpc_call_record;
_Static_assert(sizeof(rpc_call_record) == 128 && offsetof(rpc_call_record, attempt_timeout_us) == 64, "two lines");

enum { RPC_PENDING_CHUNK = 16 };

typedef struct rpc_pending {  /* zero-initialized: empty and ready */
    rpc_call_record **chunks; /* owned array of owned chunks */
    uint32_t count;           /* number of places, a multiple of RPC_PENDING_CHUNK */
    uint32_t free;            /* place + 1 of the first free place; 0: none */
} rpc_pending;

void rpc_pending_fini(rpc_pending *pending); /* also frees kept payloads */

static inline rpc_call_record *rpc_pending_at(const rpc_pending *pending, uint32_t place) {
    return &pending->chunks[place / RPC_PENDING_CHUNK][place % RPC_PENDING_CHUNK];
}

/* Adds places; `link` is stored in each. MR_BUSY: there are RPC_CALL_WINDOW places. MR_NOMEM. */
MR_MUST mr_status rpc_pending_grow(rpc_pending *pending, struct rpc_call_link *link);

/* The first free place, which must exist, and the number that a call in it will have. */
static inline rpc_call_record *rpc_pending_first(const rpc_pending *pending) {
    return rpc_pending_at(pending, pending->free - 1);
}
static inline uint64_t rpc_pending_next(const rpc_call_record *first) { return first->number + RPC_CALL_WINDOW; }

/* Takes the place and sets its number and state; the caller sets the rest. */
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

/* The record of a number that was used, whether its call is open or ended; NULL: never used. */
static inline rpc_call_record *rpc_pending_find(const rpc_pending *pending, uint64_t number) {
    uint32_t place = rpc_call_place(number);
    if (place >= pending->count) return NULL;
    rpc_call_record *record = rpc_pending_at(pending, place);
    return number <= record->number ? record : NULL;
}
