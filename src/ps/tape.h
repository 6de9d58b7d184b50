/* tape.h — replicated log of one slot: entries stay until they are committed and no replica needs them.
 *
 *   … base ] kept … applied ] … last ]          lsn counts from 1; base <= applied <= last
 *
 * An entry points at its payload and holds the bale that it lies in. What is committed is applied; an entry that was
 * applied may be kept for a joiner, and is dropped from the front when nobody needs it. Nothing is ever taken back from
 * the end, unless the whole tape is.
 *
 * What is not applied is held on somebody's credit: taken when it is logged, returned when it is applied or dropped,
 * here and nowhere else.
 *
 * Invariants (tape_check)
 *   1  base <= applied <= last, and last counts the entries behind base; there are at most TAPE_MAX of them.
 *   2  total of an entry is that of the one before it and the bytes of its own payload.
 *   3  An entry without a payload holds no bale.
 *
 * Bounds      TAPE_MAX entries; what is not acknowledged is bounded by windows (rank.h) and credit (credit.h). */
#pragma once
#include <stdbool.h>

#include "base/bale.h"
#include "ps/credit.h"

enum { TAPE_MAX = 1 << 16 };

typedef enum tape_kind {
    TAPE_PUSH,
    TAPE_ROUND,  /* the sum of a round, and who is in it: `name` is the version that it makes */
    TAPE_FREEZE, /* contributions of `rank` to the round `name` do not count */
    TAPE_JOIN,
    TAPE_LEAVE,
    TAPE_DROP, /* orders to a ledger, see ledger.h; `name` is the order's number */
    TAPE_VOID,
    TAPE_REDO,  /* and its decisions; `name` is the round */
    TAPE_MARK,  /* a checkpoint */
    TAPE_FRESH, /* changes nothing, but whoever has it committed is current: the request `name` of `rank`, what it asks
                   for being the payload, is answered then */
    TAPE_NORMS, /* of a ledger: the phase `rank` of the norms of the round `name`, see norms.h */
    TAPE_KIND_COUNT
} tape_kind;

typedef struct tape_entry {
    uint8_t kind; /* a tape_kind */
    uint32_t rank;
    uint64_t name;
    span payload;
    bale *bale;      /* shared; of one without payload it is not held */
    uint8_t account; /* a credit_account: on whose credit it is held */
    uint64_t total;  /* set by the tape: bytes of all payloads up to this one */
} tape_entry;

typedef struct tape { /* zero-initialized it is empty, with nothing applied */
    credit *credit;   /* borrowed; NULL: nobody counts */
    uint64_t base, applied;
    uint64_t base_total;          /* bytes of all payloads up to `base`, from wherever it began to count */
    size_t head, count, capacity; /* a ring */
    tape_entry *entries;          /* owned */
} tape;

void tape_fini(tape *tape);                         /* empty, with nothing applied and no credit */
void tape_reset(tape *tape, uint64_t applied);      /* empty; the next is applied + 1 */
void tape_add(tape *tape, const tape_entry *entry); /* takes a ref of its bale */
void tape_apply(tape *tape);                        /* the next one has been applied */
void tape_trim(tape *tape, uint64_t lsn);           /* nobody needs what is applied up to there */

static inline uint64_t tape_last(const tape *tape) { return tape->base + tape->count; }
const tape_entry *tape_at(const tape *tape, uint64_t lsn); /* borrowed; base < lsn <= last */

/* Bytes of the payloads behind `from`, up to `to`; what is no longer here counts for nothing. */
uint64_t tape_bytes(const tape *tape, uint64_t from, uint64_t to);

/* It is logged, and not yet applied. */
bool tape_holds(const tape *tape, tape_kind kind, uint32_t rank, uint64_t name);

void tape_check(const tape *tape); /* asserts the invariants above */
