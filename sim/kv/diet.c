/* diet.c — see diet.h. */
#include "sim/kv/diet.h"

#include <inttypes.h>
#include <string.h>

static bool is_same(const claims_piece *a, const claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from == b->from && a->to == b->to;
}

void diet_used(diet *diet, const chart *chart, uint32_t rank, uint64_t step, const claims_piece *piece) {
    if (chart->origin == 0 && chart->birth > diet->birth) {
        diet->birth = chart->birth;
        memset(diet->had, 0, sizeof diet->had);
    }
    if (chart->birth < diet->birth || step >= DIET_STEPS) return; /* whatever it does is for nothing */
    claims_piece *known = &diet->pieces[rank][step];
    if (piece->part >= diet->parts || piece->from >= piece->to || piece->to > diet->sizes[piece->part])
        sim_violation(diet->sim, "rank %u has for step %d a piece that there is not", rank, (int)step);
    if (diet->had[rank][step] != 0 && !is_same(known, piece))
        sim_violation(diet->sim,
                      "rank %u plays step %d with %u:%" PRIu64 ":%" PRIu64 "-%" PRIu64 ", and had %u:%" PRIu64
                      ":%" PRIu64 "-%" PRIu64,
                      rank, (int)step, piece->part, piece->epoch, piece->from, piece->to, known->part, known->epoch,
                      known->from, known->to);
    if (diet->had[rank][step] != 0) sim_count(diet->sim, "pieces again", 1);
    if (piece->epoch > 0) sim_count(diet->sim, "pieces of later epochs", 1);
    diet->had[rank][step] = chart->generation;
    *known = *piece;
}

void diet_left(diet *diet, const chart *chart, uint32_t rank, uint64_t step) {
    for (; step < DIET_STEPS; step++)
        if (diet->had[rank][step] != chart->generation) diet->had[rank][step] = 0;
}

static void compare(const diet *diet, size_t one, size_t other) {
    const claims_piece *a = &diet->pieces[one / DIET_STEPS][one % DIET_STEPS],
                       *b = &diet->pieces[other / DIET_STEPS][other % DIET_STEPS];
    if (a->part == b->part && a->epoch == b->epoch && a->from < b->to && b->from < a->to)
        sim_violation(diet->sim, "items of part %u are in step %d of rank %d and in step %d of rank %d, in epoch %d",
                      a->part, (int)(one % DIET_STEPS), (int)(one / DIET_STEPS), (int)(other % DIET_STEPS),
                      (int)(other / DIET_STEPS), (int)a->epoch);
}

void diet_check(const diet *diet) {
    const uint64_t *had = &diet->had[0][0];
    for (size_t i = 0; i < (size_t)DIET_RANKS * DIET_STEPS; i++)
        for (size_t k = 0; k < i; k++)
            if (had[i] != 0 && had[k] != 0) compare(diet, i, k);
}
