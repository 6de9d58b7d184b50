/* diet.h — which data the ranks of a lesson did their steps with (kv/worker/feed.h).
 *
 * Checked  a step has one piece: whoever plays it, and however often, does it with that, until the tables begin from
 *          nothing, and the data with them; or until they go back to a checkpoint and its rank leaves what it has not
 *          begun since;
 *          no item is given to two steps of an epoch. */
#pragma once
#include "cluster/claims.h"
#include "ps/chart.h"
#include "sim/sim.h"

enum { DIET_RANKS = 4, DIET_STEPS = 32, DIET_PARTS = 4 };

typedef struct diet { /* zero-initialized with its sim and its sizes it is ready */
    sim *sim;
    uint64_t sizes[DIET_PARTS];
    uint32_t parts;                       /* 0: there is no data */
    uint64_t birth;                       /* of the tables, from nothing */
    uint64_t had[DIET_RANKS][DIET_STEPS]; /* the generation in which it was last; 0: it was not */
    claims_piece pieces[DIET_RANKS][DIET_STEPS];
} diet;

void diet_used(diet *diet, const chart *chart, uint32_t rank, uint64_t step, const claims_piece *piece);
void diet_left(diet *diet, const chart *chart, uint32_t rank, uint64_t step); /* from this one on */
void diet_check(const diet *diet);                                            /* at the end, for all steps */
