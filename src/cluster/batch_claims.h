/* batch_claims.h — data batches claimed by each step of each rank.
 *
 * A rank is a role that one process after the other may hold (ps/rank_assignment.h), and a step that is replayed must
 * be the same step: it uses the same data. So a batch is claimed for (rank, step) before the step's first push, and the
 * next process of the rank finds the claim. A claim covers a run of steps, each with a batch of `batch` items, one
 * after the other in one part of the data; the last batch may be shorter. Adjacent claims are merged.
 *
 *   step:      7        8        9        10
 *   batch:  [0,4)    [4,8)    [8,12)   [12,14)        one claim: rank, step 7, count 4, batch 4, from 0, to 14
 *
 * A step is claimed once. Claims are kept until no process can replay their steps: steps before `over` are dropped, and
 * cannot be claimed again. A step that was over before its batch was used (its rank had left the rounds, or its
 * contribution came too late) hands the batch back, and the next claim gets the items, whatever their epoch. A message
 * that a step is over reports what is known of the step; an unknown step counts as done: no item is used twice, and one
 * is left out only if the process that could have handed it back is gone.
 *
 * A rank that leaves hands back the batches of steps of which no slot has a push: it has not begun them, and pushes of
 * an earlier process of the rank are not taken any more. The steps may be claimed again, with other batches. The claims
 * granted to the rank are counted, and its messages carry the count: a late or repeated message takes away nothing that
 * was claimed since.
 *
 * Invariants (batch_claims_check)
 *   1  Ranks are sorted, each once, and there are at most BATCH_CLAIMS_RANKS_MAX.
 *   2  Claims are sorted by rank and step, have no step in common, and every step of each has a batch; at most
 *      BATCH_CLAIMS_MAX; each is of a rank that is there.
 *   3  No claim is over as a whole.
 *   4  Ranges that were handed back have items; there are at most BATCH_CLAIMS_BACK_MAX.
 *
 *   bytes  (v: varint, f: folded distance, base/varint.h)
 *   v      ranks, in order; each: v ranks left out before it, v over, v granted, v claims, in order
 *          of steps; each:
 *   f v      the step, from the end of the claim before it or from over; count
 *   v f v    part, epoch (from the consumer group's), from
 *   v v      batch, by how much the last batch is shorter
 *   v      ranges that were handed back; each: v part, f epoch (from the consumer group's), v from, v items
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

typedef struct batch_claims_piece { /* range of the data: items from … to - 1 of a part, in an epoch */
    uint32_t part;
    uint64_t epoch, from, to;
} batch_claims_piece;

typedef struct batch_claim {
    uint32_t rank, count;
    uint64_t step, batch;
    batch_claims_piece piece; /* batches of all steps of the claim */
} batch_claim;

typedef struct batch_claims_past { /* report of a rank's process about steps that are never replayed */
    uint64_t over;                 /* the reported steps are before this one */
    uint64_t since;                /* the process knows the steps from here on, and at most the last 64: */
    uint64_t spent;                /* bit i: step over - 1 - i used its batch */
} batch_claims_past;

typedef struct batch_claims_rank {
    uint32_t rank;
    uint64_t over;
    uint64_t granted; /* number of claims ever added; only grows */
} batch_claims_rank;

typedef struct batch_claims { /* empty and ready when zero-initialized */
    batch_claims_rank *ranks; /* owned, sorted; every rank that has ever claimed */
    batch_claim *list;        /* owned, sorted by rank and step */
    batch_claims_piece *back; /* owned: ranges handed back, oldest first */
    size_t rank_count, count, back_count;
} batch_claims;

void batch_claims_fini(batch_claims *claims);
void batch_claims_copy(batch_claims *to, const batch_claims *from); /* `to` is initialized; its content is replaced */

/* NULL: the step is not claimed, or over */
const batch_claim *batch_claims_find(const batch_claims *claims, uint32_t rank, uint64_t step);
uint64_t batch_claims_over(const batch_claims *claims, uint32_t rank);
uint64_t batch_claims_granted(const batch_claims *claims, uint32_t rank);
/* whether any step from … to - 1 is claimed */
bool batch_claims_any(const batch_claims *claims, uint32_t rank, uint64_t from, uint64_t to);
/* the batch of `step`, which the claim covers */
batch_claims_piece batch_claims_piece_of(const batch_claim *claim, uint64_t step);

/* Number of steps from `step` on, at most `most`, that are neither claimed nor over. */
uint32_t batch_claims_free(const batch_claims *claims, uint32_t rank, uint64_t step, uint32_t most);
bool batch_claims_has_room(const batch_claims *claims, uint32_t rank); /* whether another claim of this rank fits */

/* MR_STALE: one of the steps is claimed, or over. MR_INVALID: malformed claim. MR_TOO_LARGE: too many claims or
 * ranks. */
MR_MUST mr_status batch_claims_add(batch_claims *claims, const batch_claim *claim);

/* Ends the steps before past->over; unused batches are handed back. False: no room for them, and nothing changed. */
bool batch_claims_forget(batch_claims *claims, uint32_t rank, const batch_claims_past *past);

/* Hands back the batches of the steps from `step` on, of which no slot has a push, if `granted` is the rank's current
 * count of claims. True: something changed. */
bool batch_claims_return(batch_claims *claims, uint32_t rank, uint64_t step, uint64_t granted);

/* Takes at most `items` items of the ranges handed back. False: there are none. */
bool batch_claims_take_back(batch_claims *claims, uint64_t items, batch_claims_piece *out);

void batch_claims_encode(const batch_claims *claims, uint64_t epoch, writer *writer);
/* `out` is empty; after false the caller calls batch_claims_fini */
bool batch_claims_decode(reader *reader, uint64_t epoch, batch_claims *out);

void batch_claims_check(const batch_claims *claims); /* asserts the invariants above (base/invariants.h) */
