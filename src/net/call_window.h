/* call_window.h — duplicate filter on the answering side of a link: runs no request twice.
 *
 * One record per place: the newest number seen there, its newest attempt, and whether it waits for its answer. The
 * caller takes a place again, with a larger number, only after the call before it ended; so a larger number says that
 * every smaller one of that place is over, and anything that is not newer than the record is a repeat. The table grows
 * to the largest place that was used and never past CALL_WINDOW records. */
#pragma once
#include "net/call_head.h"

typedef struct call_window_place {
    uint64_t number; /* 0: never used */
    uint16_t attempt;
    bool open;
} call_window_place;
_Static_assert(sizeof(call_window_place) == 16, "one small record per place");

typedef struct call_window {   /* zero-initialized it is empty and ready */
    call_window_place *places; /* owned */
    uint32_t count;            /* 0 or a power of two up to CALL_WINDOW */
} call_window;

void call_window_fini(call_window *window);

/* Neither this attempt nor a later one of this call was seen, and the call is not over. */
static inline bool call_window_is_new(const call_window *window, uint64_t number, uint32_t attempt) {
    uint32_t at = call_place(number);
    if (at >= window->count) return true;
    const call_window_place *place = &window->places[at];
    return number > place->number || (number == place->number && attempt > place->attempt);
}

MR_MUST mr_status call_window_grow(call_window *window, uint64_t number); /* so that it has a record; MR_NOMEM */

/* Remembers an attempt; it is open now. */
MR_MUST static inline mr_status call_window_admit(call_window *window, uint64_t number, uint32_t attempt) {
    uint32_t at = call_place(number);
    if (at >= window->count) MR_TRY(call_window_grow(window, number));
    window->places[at] = (call_window_place){.number = number, .attempt = (uint16_t)attempt, .open = true};
    return MR_OK;
}

/* The same for the first attempt of a call whose place is known and not open, as most are. False: it is not one of
 * those, and nothing has happened. */
static inline bool call_window_admit_first(call_window *window, uint64_t number, uint32_t attempt) {
    uint32_t at = call_place(number);
    if (at >= window->count || window->places[at].open || number <= window->places[at].number) return false;
    window->places[at] = (call_window_place){.number = number, .attempt = (uint16_t)attempt, .open = true};
    return true;
}

/* The call was admitted and neither answered nor cancelled since its newest attempt. */
static inline bool call_window_is_open(const call_window *window, uint64_t number) {
    uint32_t at = call_place(number);
    return at < window->count && window->places[at].number == number && window->places[at].open;
}

/* It is answered; its number and attempt stay remembered. It must be open. */
static inline void call_window_answer(call_window *window, uint64_t number) {
    window->places[call_place(number)].open = false;
}

/* The caller gave up, `attempt` being its last one. Remembers it even when the request has not come yet: it is not run
 * then. True if the call was open. */
bool call_window_cancel(call_window *window, uint64_t number, uint32_t attempt);
