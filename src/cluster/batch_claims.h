/* batch_claims.h — data batches claimed by each step of each rank.
 *
 * A rank is a role that one process after the other may hold (ps/rank_assignment.h), and a step that is replayed must
 * be the same step: it is done with the same data. So a piece is claimed for (rank, step) before the step's first
 * push, and the next process of the rank finds the claim. A claim has a run of steps, each with a piece of `batch`
 * items, one behind the other, of one part; the last may be shorter. Claims that go on from one another are one.
 *
 *   step:      7        8        9        10
 *   piece:  [0,4)    [4,8)    [8,12)   [12,14)        one claim: rank, step 7, count 4, batch 4, from 0, to 14
 *
 * A step is claimed once. Claims are kept until no process can replay their steps: steps before `over` are forgotten,
 * and not claimed any more. A step that was over before it was done with its piece (its rank had left the rounds, or
 * its contribution came too late) hands the piece back, and the next claim gets the piece, whatever epoch it is of. A
 * message that a step is over reports what is known of the step; an unknown step counts as done: no item is used twice,
 * and one is left out only if the process that could have handed it back is gone.
 *
 * A rank that leaves hands back the pieces of steps that it has not begun: no process has used those, so the steps may
 * be claimed again, with other pieces. The claims granted to the rank are counted, and its messages carry the count: a
 * message that comes late, or twice, takes away nothing that was claimed since.
 *
 * Invariants (batch_claims_check)
 *   1  Ranks are sorted, each once, and there are at most BATCH_CLAIMS_RANKS_MAX.
 *   2  Claims are sorted by rank and step, have no step in common, and every step of each has a piece; at most
 *      BATCH_CLAIMS_MAX; each is of a rank that is there.
 *   3  No claim is over as a whole.
 *   4  Pieces that were handed back have items; there are at most BATCH_CLAIMS_BACK_MAX.
 *
 *   bytes  (v: varint, f: folded distance, base/varint.h)
 *   v      ranks, in order; each: v ranks left out before it, v over, v granted, v claims, in order
 *          of steps; each:
 *   f v      the step, from the end of the claim before it or from over; count
 *   v f v    part, epoch (from the consumer group's), from
 *   v v      batch, by how much the last piece is shorter
 *   v      pieces that were handed back; each: v part, f epoch (from the consumer group's), v from, v items
 *
 * Pure. */
#pragma once
#include "base/bytes.h"
#include "miniray/status.h"

enum {
    BATCH_CLAIMS_RANKS_MAX = 8192,
    BATCH_CLAIMS_MAX = 16384,
    BATCH_CLAIMS_BACK_MAX = 4096,
    BATCH_CLAIMS_STEPS_MAX = 1 << 20
};
#define BATCH_CLAIMS_BATCH_MAX (UINT64_C(1) << 32)

typedef struct batch_claims_piece { /* of the data: items from … to - 1 of a part, in an epoch */
    uint32_t part;
    uint64_t epoch, from, to;
} batch_claims_piece;

typedef struct batch_claim {
    uint32_t rank, count;
    uint64_t step, batch;
    batch_claims_piece piece; /* of all its steps */
} batch_claim;

typedef struct batch_claims_past { /* knowledge of a rank's process about steps that are not replayed */
    uint64_t over;                 /* they are before this one */
    uint64_t since;                /* it knows of those from here on, and of the last 64 of them: */
    uint64_t spent;                /* bit i: step over - 1 - i was done with its piece */
} batch_claims_past;

typedef struct batch_claims_rank {
    uint32_t rank;
    uint64_t over;
    uint64_t granted; /* how many claims were added; it only grows */
} batch_claims_rank;

typedef struct batch_claims { /* zero-initialized it is empty and ready */
    batch_claims_rank *ranks; /* owned, sorted; each rank that has ever claimed */
    batch_claim *list;        /* owned, sorted by rank and step */
    batch_claims_piece *back; /* owned: handed back, in that order */
    size_t rank_count, count, back_count;
} batch_claims;

void batch_claims_fini(batch_claims *claims);
void batch_claims_copy(batch_claims *to, const batch_claims *from); /* `to` is initialized; its content is replaced */

/* NULL: it is not claimed, or over */
const batch_claim *batch_claims_find(const batch_claims *claims, uint32_t rank, uint64_t step);
uint64_t batch_claims_over(const batch_claims *claims, uint32_t rank);
uint64_t batch_claims_granted(const batch_claims *claims, uint32_t rank);
/* steps from … to - 1 have one */
bool batch_claims_any(const batch_claims *claims, uint32_t rank, uint64_t from, uint64_t to);
/* that the claim has */
batch_claims_piece batch_claims_piece_of(const batch_claim *claim, uint64_t step);

/* How many steps from this one on, at most `most`, are neither claimed nor over. */
uint32_t batch_claims_free(const batch_claims *claims, uint32_t rank, uint64_t step, uint32_t most);
bool batch_claims_has_room(const batch_claims *claims, uint32_t rank); /* for one more claim of this rank */

/* MR_STALE: one of the steps is claimed, or over. MR_INVALID: no such claim can be. MR_TOO_LARGE. */
MR_MUST mr_status batch_claims_add(batch_claims *claims, const batch_claim *claim);

/* Steps are over; pieces that were not spent are handed back. False: there is no room for them, nothing has changed. */
bool batch_claims_forget(batch_claims *claims, uint32_t rank, const batch_claims_past *past);

/* No process has begun the steps from this one on: their pieces are handed back, if the rank was granted so many claims
 * and none since. True: something has changed. */
bool batch_claims_return(batch_claims *claims, uint32_t rank, uint64_t step, uint64_t granted);

/* So many items at most of the pieces handed back; false: there are none. */
bool batch_claims_take_back(batch_claims *claims, uint64_t items, batch_claims_piece *out);

void batch_claims_encode(const batch_claims *claims, uint64_t epoch, writer *writer);
/* out is empty; false: it is to be fini'ed */
bool batch_claims_decode(reader *reader, uint64_t epoch, batch_claims *out);

void batch_claims_check(const batch_claims *claims); /* asserts the invariants above (base/invariants.h) */
