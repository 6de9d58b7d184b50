/* claims.h — data batches claimed by each step of each rank.
 *
 * A rank is a role that one process after the other may play (ps/cast.h), and a step that is played again must be the
 * same step: it is done with the same data. So a piece is claimed for (rank, step) before the step's first push, and
 * the next process of the rank finds the claim. A claim has a run of steps, each with a piece of `batch` items, one
 * behind the other, of one part; the last may be shorter. Claims that go on from one another are one.
 *
 *   step:      7        8        9        10
 *   piece:  [0,4)    [4,8)    [8,12)   [12,14)        one claim: rank, step 7, count 4, batch 4, from 0, to 14
 *
 * A step is claimed once. Claims are kept until nobody can play their steps again: steps before `over` are forgotten,
 * and not claimed any more. A step that was over before it was done with its piece (its rank had left the rounds, or
 * its contribution came too late) hands the piece back, and the next who claim get that, whatever epoch it is of. A
 * message that a step is over reports what is known of the step; an unknown step counts as done: no item is used twice,
 * and one is left out only if the process that could have handed it back is gone.
 *
 * A rank that leaves hands back what it has claimed for steps that it has not begun: nobody has done anything with
 * those, so they may be claimed again, with other pieces. How often the rank was granted something is counted, and goes
 * with what it says: words that come late, or twice, take away nothing that was claimed since.
 *
 * Invariants (claims_check)
 *   1  Ranks are sorted, each once, and there are at most CLAIMS_RANKS_MAX.
 *   2  Claims are sorted by rank and step, have no step in common, and every step of each has a piece; at most
 *      CLAIMS_MAX; each is of a rank that is there.
 *   3  No claim is over as a whole.
 *   4  Pieces that were handed back have items; there are at most CLAIMS_BACK_MAX.
 *
 *   bytes  (v: varint, f: folded distance, base/varint.h)
 *   v      ranks, in order; each: v ranks left out before it, v over, v granted, v claims, in order
 *          of steps; each:
 *   f v      the step, from the end of the claim before it or from over; count
 *   v f v    part, epoch (from the roster's), from
 *   v v      batch, by how much the last piece is shorter
 *   v      pieces that were handed back; each: v part, f epoch (from the roster's), v from, v items
 *
 * Pure. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

enum { CLAIMS_RANKS_MAX = 8192, CLAIMS_MAX = 16384, CLAIMS_BACK_MAX = 4096, CLAIMS_STEPS_MAX = 1 << 20 };
#define CLAIMS_BATCH_MAX (UINT64_C(1) << 32)

typedef struct claims_piece { /* of the data: items from … to - 1 of a part, in an epoch */
    uint32_t part;
    uint64_t epoch, from, to;
} claims_piece;

typedef struct claim {
    uint32_t rank, count;
    uint64_t step, batch;
    claims_piece piece; /* of all its steps */
} claim;

typedef struct claims_past { /* what the player of a rank knows of steps that are not played again */
    uint64_t over;           /* they are before this one */
    uint64_t since;          /* it knows of those from here on, and of the last 64 of them: */
    uint64_t spent;          /* bit i: step over - 1 - i was done with its piece */
} claims_past;

typedef struct claims_rank {
    uint32_t rank;
    uint64_t over;
    uint64_t granted; /* how many claims were added; it only grows */
} claims_rank;

typedef struct claims { /* zero-initialized it is empty and ready */
    claims_rank *ranks; /* owned, sorted; each rank that has ever claimed */
    claim *list;        /* owned, sorted by rank and step */
    claims_piece *back; /* owned: handed back, in that order */
    size_t rank_count, count, back_count;
} claims;

void claims_fini(claims *claims);
void claims_copy(claims *to, const claims *from); /* `to` is initialized; its content is replaced */

const claim *claims_find(const claims *claims, uint32_t rank, uint64_t step); /* NULL: it is not claimed, or over */
uint64_t claims_over(const claims *claims, uint32_t rank);
uint64_t claims_granted(const claims *claims, uint32_t rank);
bool claims_any(const claims *claims, uint32_t rank, uint64_t from, uint64_t to); /* steps from … to - 1 have one */
claims_piece claims_piece_of(const claim *claim, uint64_t step);                  /* that the claim has */

/* How many steps from this one on, at most `most`, are neither claimed nor over. */
uint32_t claims_free(const claims *claims, uint32_t rank, uint64_t step, uint32_t most);
bool claims_has_room(const claims *claims, uint32_t rank); /* for one more claim of this rank */

/* MR_STALE: one of the steps is claimed, or over. MR_INVALID: no such claim can be. MR_TOO_LARGE. */
MR_MUST mr_status claims_add(claims *claims, const claim *claim);

/* Steps are over; pieces that were not spent are handed back. False: there is no room for them, nothing has changed. */
bool claims_forget(claims *claims, uint32_t rank, const claims_past *past);

/* Nobody has begun the steps from this one on: what they have is handed back, if the rank was granted so many claims
 * and none since. True: something has changed. */
bool claims_return(claims *claims, uint32_t rank, uint64_t step, uint64_t granted);

/* So many items at most of what was handed back; false: there is nothing. */
bool claims_take_back(claims *claims, uint64_t items, claims_piece *out);

void claims_encode(const claims *claims, uint64_t epoch, writer *writer);
bool claims_decode(reader *reader, uint64_t epoch, claims *out); /* *out is empty; false: it is to be fini'ed */

void claims_check(const claims *claims); /* asserts the invariants above (base/invariants.h) */
