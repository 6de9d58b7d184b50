/* quiesce.h — controller's side of quiesce: all ranks stop between two steps.
 *
 * Outside BSP a checkpoint may be cut while nobody pushes, so that every slot is cut at the same step of each rank:
 *
 *  controller ── PAUSE n ──► workers (quiesce_client.h): each rank ends the step that it is in, and all of it is
 *  acknowledged
 *            ◄── PAUSED ── in which term, after which step
 *   all who are here stand still ── the slots are cut ── GONE of n ──► workers go on
 *
 * Under SSP whoever is in step k may need others to end steps before it can end its own: nobody stands still before it
 * has ended k - 1 - s, k being the latest step that anybody is in (`floor`). Under ASP each stops where it is.
 *
 * A table may have another bound than the deployment (cluster_map.h), which nobody here knows: if it takes long, all
 * end the step before k (quiesce_press).
 *
 * Ranks whose process is gone are not waited for. Whether they were between two steps is seen when the cuts are
 * compared (checkpoint_store.h), and so is whether the others stood still all the time: nothing is built on what is
 * said here.
 *
 * Invariants (quiesce_check)
 *   1  Without a pause there is no table of ranks.
 *   2  No rank is in a later step than `latest`, and `floor` is not later either.
 *
 * Pure. */
#pragma once
#include "ps/batcher.h"

typedef struct quiesce_rank {
    uint64_t term; /* that has said the following; 0: nobody has */
    uint64_t step; /* that it has ended, or is in */
    bool still;
} quiesce_rank;

typedef struct quiesce {    /* zero-initialized there is none */
    uint64_t number;        /* 0: there is none */
    uint64_t floor, latest; /* latest: the step that anybody has ended, or is in */
    uint32_t rank_count;
    quiesce_rank *ranks; /* owned */
} quiesce;

typedef struct quiesce_worker { /* sorted by id */
    uint32_t id;
    uint64_t incarnation;
    const char *address; /* "": not known */
    bool alive;
} quiesce_worker;

void quiesce_begin(quiesce *quiesce, uint64_t number, const cluster_map *map);
void quiesce_fini(quiesce *quiesce); /* there is none any more */

/* Says it, again, to all who are here; with `over`, that it is. */
void quiesce_tell(const quiesce *quiesce, batcher *batcher, const quiesce_worker *workers, size_t count, bool over);

/* A PAUSED. *above: a number that the next pause has to be above; 0: any is good. */
void quiesce_take(quiesce *quiesce, const cluster_map *map, const slot_message *message, uint64_t *above);

/* Somebody cannot end its step, perhaps for want of what others have not ended. */
void quiesce_press(quiesce *quiesce);

/* Every rank that is played by somebody who is here has ended its step. */
bool quiesce_is_still(const quiesce *quiesce, const cluster_map *map, const quiesce_worker *workers, size_t count);

void quiesce_check(const quiesce *quiesce); /* asserts the invariants above */
