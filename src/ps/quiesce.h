/* quiesce.h — controller's side of quiesce: all ranks stop between two steps.
 *
 * Outside BSP a checkpoint may be cut while no rank pushes, so that every slot is cut at the same step of each rank:
 *
 *   controller ── PAUSE n ──► workers (quiesce_client.h): each rank ends its current step, and all of the step is
 *                             acknowledged
 *              ◄── PAUSED ── in which term, after which step
 *   all ranks of live workers have stopped ── the slots are cut ── GONE of n ──► workers continue
 *
 * Under SSP a rank in step k may need other ranks to end steps before it can end its own: no rank stops before it has
 * ended k - 1 - s, k being the latest step of any rank (`floor`). Under ASP each rank stops after its current step.
 *
 * A table may have another bound than the deployment (cluster_map.h), which the controller does not know: if the pause
 * takes long, all ranks end the step before k (quiesce_press).
 *
 * Ranks whose process is gone are not waited for. The comparison of the cuts (checkpoint_store.h) shows whether those
 * ranks were between two steps, and whether the others were stopped all the time: correctness does not depend on the
 * messages here.
 *
 * Invariants (quiesce_check)
 *   1  Without a pause there is no table of ranks.
 *   2  No rank that has not left is in a later step than `latest`, and `floor` is not later either.
 *
 * Pure. */
#pragma once
#include "ps/batcher.h"

typedef struct quiesce_rank {
    uint64_t term; /* term that sent the report below; 0: no report */
    uint64_t step; /* the last ended step, or the current one if not `still`; QUIESCE_CLIENT_LEFT: the rank has left */
    bool still;
} quiesce_rank;

typedef struct quiesce {    /* zero-initialized: no pause */
    uint64_t number;        /* number of the pause; 0: none */
    uint64_t floor, latest; /* latest: highest step that a rank has ended or is in */
    uint32_t rank_count;
    quiesce_rank *ranks; /* owned */
} quiesce;

typedef struct quiesce_workers { /* known workers, sorted by id */
    const cluster_map_process *list;
    size_t count;
} quiesce_workers;

void quiesce_begin(quiesce *quiesce, uint64_t number, const cluster_map *map);
void quiesce_fini(quiesce *quiesce); /* afterwards there is no pause */

/* Repeats the pause to all live workers; with `over`, reports its end. */
void quiesce_tell(const quiesce *quiesce, batcher *batcher, quiesce_workers workers, bool over);

/* Takes a PAUSED report. *above: a number that the next pause must exceed; 0: any number is valid. */
void quiesce_take(quiesce *quiesce, const cluster_map *map, const slot_message *message, uint64_t *above);

/* Raises `floor`, for a rank that cannot end its step, perhaps because it needs steps that others have not ended. */
void quiesce_press(quiesce *quiesce);

/* Every rank that a live worker holds has stopped after a step not before `floor`. */
bool quiesce_is_still(const quiesce *quiesce, const cluster_map *map, quiesce_workers workers);

bool quiesce_has_ranks(const cluster_map *map, quiesce_workers workers); /* a live worker holds a rank */

void quiesce_check(const quiesce *quiesce); /* asserts the invariants above */
