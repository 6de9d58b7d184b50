/* call_places.h — table of the pending RPCs of one link.
 *
 * Records stay with their place for the life of the link and never move (timers point into them). Free places are taken
 * last in, first out: a link that makes one call at a time uses one place for ever, and both sides' tables stay small.
 *
 *        take             the call ended                                      give
 *   free ────► waiting ──────────────────────────────────────────────────────► free
 *                └─ cancelled while the link was full ─► telling ─ it was sent ─┘
 *
 * `number` grows by CALL_WINDOW each time a place is taken; by it call_places_find knows what was never asked. */
#pragma once
#include "base/heap.h"
#include "base/list.h"
#include "net/call_head.h"

typedef enum call_state { CALL_FREE, CALL_WAITING, CALL_TELLING } call_state;

typedef struct call_record { /* two lines, of which a call without a deadline touches the first */
    uint64_t number;
    call_done_fn *done;
    void *argument;
    call_body_fn *on_body;
    uint32_t next_free; /* place + 1; 0: the last */
    uint32_t method;
    uint16_t attempt, attempts_max;
    uint8_t state; /* call_state */
    bool timed;    /* it has a deadline or asks again: it may be in `timers`, have something kept or unsent */
    int64_t deadline_us;
    struct call_link *link;

    int64_t attempt_timeout_us; /* <= 0: never */
    uint8_t *kept;              /* owned: the payload, for asking again; NULL: asks once */
    size_t kept_size;
    heap_item timer; /* in calls.timers while there is something to wait for */
    list unsent;     /* in the link's list while the link is full and an attempt or a cancellation has to be sent */
} call_record;
_Static_assert(sizeof(call_record) == 128 && offsetof(call_record, attempt_timeout_us) == 64, "two lines");

enum { CALL_PLACES_CHUNK = 16 };

typedef struct call_places { /* zero-initialized it is empty and ready */
    call_record **chunks;    /* owned array of owned chunks */
    uint32_t count;          /* places that exist, a multiple of CALL_PLACES_CHUNK */
    uint32_t free;           /* place + 1 of the first free one; 0: none */
} call_places;

void call_places_fini(call_places *places); /* frees what is kept, too */

static inline call_record *call_places_at(const call_places *places, uint32_t place) {
    return &places->chunks[place / CALL_PLACES_CHUNK][place % CALL_PLACES_CHUNK];
}

/* More places; `link` is written into each. MR_BUSY: there are CALL_WINDOW of them. MR_NOMEM. */
MR_MUST mr_status call_places_grow(call_places *places, struct call_link *link);

/* The first free place, which must exist, and the number that it will have. */
static inline call_record *call_places_first(const call_places *places) {
    return call_places_at(places, places->free - 1);
}
static inline uint64_t call_places_next(const call_record *first) { return first->number + CALL_WINDOW; }

/* Takes it. Sets number and state; the rest is the caller's. */
static inline void call_places_take_first(call_places *places, call_record *first) {
    places->free = first->next_free;
    first->number = call_places_next(first);
    first->state = CALL_WAITING;
}

static inline void call_places_give(call_places *places, call_record *record) {
    record->state = CALL_FREE;
    record->next_free = places->free;
    places->free = call_place(record->number) + 1;
}

/* The place of a number that was given out, whatever became of the call since; NULL: no such number was given. */
static inline call_record *call_places_find(const call_places *places, uint64_t number) {
    uint32_t place = call_place(number);
    if (place >= places->count) return NULL;
    call_record *record = call_places_at(places, place);
    return number <= record->number ? record : NULL;
}
