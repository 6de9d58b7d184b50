/* rpc_dedup.h — duplicate filter on the answering side of a link: runs no request twice.
 *
 * One record per place: the newest number seen there, its newest attempt, and whether it waits for its answer. The
 * caller takes a place again, with a larger number, only after the call before it ended; so a larger number shows that
 * every smaller one of that place is over, and anything that is not newer than the record is a repeat. The table grows
 * to the largest place that was used and never past RPC_CALL_WINDOW records. */
#pragma once
#include "net/rpc/rpc_header.h"

typedef struct rpc_dedup_place {
    uint64_t number; /* 0: never used */
    uint16_t attempt;
    bool open;
} rpc_dedup_place;
_Static_assert(sizeof(rpc_dedup_place) == 16, "one small record per place");

typedef struct rpc_dedup {   /* zero-initialized it is empty and ready */
    rpc_dedup_place *places; /* owned */
    uint32_t count;          /* 0 or a power of two up to RPC_CALL_WINDOW */
} rpc_dedup;

void rpc_dedup_fini(rpc_dedup *dedup);

/* Neither this attempt nor a later one of this call was seen, and the call is not over. */
static inline bool rpc_dedup_is_new(const rpc_dedup *dedup, uint64_t number, uint32_t attempt) {
    uint32_t at = rpc_call_place(number);
    if (at >= dedup->count) return true;
    const rpc_dedup_place *place = &dedup->places[at];
    return number > place->number || (number == place->number && attempt > place->attempt);
}

MR_MUST mr_status rpc_dedup_grow(rpc_dedup *dedup, uint64_t number); /* so that it has a record; MR_NOMEM */

/* Remembers an attempt; it is open now. */
MR_MUST static inline mr_status rpc_dedup_admit(rpc_dedup *dedup, uint64_t number, uint32_t attempt) {
    uint32_t at = rpc_call_place(number);
    if (at >= dedup->count) MR_TRY(rpc_dedup_grow(dedup, number));
    dedup->places[at] = (rpc_dedup_place){.number = number, .attempt = (uint16_t)attempt, .open = true};
    return MR_OK;
}

/* The same for the first attempt of a call whose place is known and not open, as most are. False: it is not one of
 * those, and nothing has happened. */
static inline bool rpc_dedup_admit_first(rpc_dedup *dedup, uint64_t number, uint32_t attempt) {
    uint32_t at = rpc_call_place(number);
    if (at >= dedup->count || dedup->places[at].open || number <= dedup->places[at].number) return false;
    dedup->places[at] = (rpc_dedup_place){.number = number, .attempt = (uint16_t)attempt, .open = true};
    return true;
}

/* The call was admitted and neither answered nor cancelled since its newest attempt. */
static inline bool rpc_dedup_is_open(const rpc_dedup *dedup, uint64_t number) {
    uint32_t at = rpc_call_place(number);
    return at < dedup->count && dedup->places[at].number == number && dedup->places[at].open;
}

/* It is answered; its number and attempt stay remembered. It must be open. */
static inline void rpc_dedup_answer(rpc_dedup *dedup, uint64_t number) {
    dedup->places[rpc_call_place(number)].open = false;
}

/* The caller gave up, `attempt` being its last one. Remembers it even when the request has not come yet: it is not run
 * then. True if the call was open. */
bool rpc_dedup_cancel(rpc_dedup *dedup, uint64_t number, uint32_t attempt);
