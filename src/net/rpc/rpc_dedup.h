/* rpc_dedup.h — duplicate filter on the answering side of a link: no request runs twice.
 *
 * Each place has a record: the newest number seen there, its newest attempt, and whether it waits for an answer. The
 * caller reuses a place, with a larger number, only after the previous call ended; a larger number therefore means that
 * all smaller ones of the place have ended, and anything not newer than the record is a repeat. The table grows to the
 * largest place used and has at most RPC_CALL_WINDOW records. */
#pragma once
#include "net/rpc/rpc_header.h"

typedef struct rpc_dedup_place {
    uint64_t number; /* 0: never used */
    uint16_t attempt;
    bool open;
} rpc_dedup_place;
_Static_assert(sizeof(rpc_dedup_place) == 16, "one small record per place");

typedef struct rpc_dedup {   /* zero-initialized: empty and ready */
    rpc_dedup_place *places; /* owned */
    uint32_t count;          /* 0 or a power of two up to RPC_CALL_WINDOW */
} rpc_dedup;

void rpc_dedup_fini(rpc_dedup *dedup);

/* Whether neither this attempt nor a later one of the call was seen, and the call has not ended. */
static inline bool rpc_dedup_is_new(const rpc_dedup *dedup, uint64_t number, uint32_t attempt) {
    uint32_t at = rpc_call_place(number);
    if (at >= dedup->count) return true;
    const rpc_dedup_place *place = &dedup->places[at];
    return number > place->number || (number == place->number && attempt > place->attempt);
}

MR_MUST mr_status rpc_dedup_grow(rpc_dedup *dedup, uint64_t number); /* makes a record for the number; MR_NOMEM */

/* Records an attempt as open. */
MR_MUST static inline mr_status rpc_dedup_admit(rpc_dedup *dedup, uint64_t number, uint32_t attempt) {
    uint32_t at = rpc_call_place(number);
    if (at >= dedup->count) MR_TRY(rpc_dedup_grow(dedup, number));
    dedup->places[at] = (rpc_dedup_place){.number = number, .attempt = (uint16_t)attempt, .open = true};
    return MR_OK;
}

/* As rpc_dedup_admit, for a new call whose place has a record that is not open, the usual case. False: another case,
 * and nothing was changed. */
static inline bool rpc_dedup_admit_first(rpc_dedup *dedup, uint64_t number, uint32_t attempt) {
    uint32_t at = rpc_call_place(number);
    if (at >= dedup->count || dedup->places[at].open || number <= dedup->places[at].number) return false;
    dedup->places[at] = (rpc_dedup_place){.number = number, .attempt = (uint16_t)attempt, .open = true};
    return true;
}

/* Whether the call was admitted and neither answered nor cancelled since its newest attempt. */
static inline bool rpc_dedup_is_open(const rpc_dedup *dedup, uint64_t number) {
    uint32_t at = rpc_call_place(number);
    return at < dedup->count && dedup->places[at].number == number && dedup->places[at].open;
}

/* Marks an open call as answered; its number and attempt stay recorded. */
static inline void rpc_dedup_answer(rpc_dedup *dedup, uint64_t number) {
    dedup->places[rpc_call_place(number)].open = false;
}

/* Records that the caller cancelled the call, with `attempt` as its last attempt, even if the request has not arrived
 * yet, so that the request is not run. True if the call was open. */
bool rpc_dedup_cancel(rpc_dedup *dedup, uint64_t number, uint32_t attempt);
