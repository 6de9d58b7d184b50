/* ps_data.c — see ps_data.h. */
#include "sim/ps_data.h"

static bool is_same(const claims_piece *a, const claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from == b->from && a->to == b->to;
}

static void check_apart(ps_data *data, uint32_t rank, uint64_t step, const claims_piece *piece) {
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        for (uint32_t k = 0; k < PS_STEPS_MAX; k++) {
            const claims_piece *other = &data->steps[i][k].piece;
            if (data->steps[i][k].given && other->part == piece->part && other->epoch == piece->epoch &&
                other->from < piece->to && piece->from < other->to)
                sim_violation(data->sim, "rank %u is given items of part %u for step %d that rank %u has for step %u",
                              rank, piece->part, (int)step, i, k);
        }
}

static void give(ps_data *data, uint32_t rank, uint64_t step, const claims_piece *piece) {
    if (rank >= PS_RANKS_MAX || step >= PS_STEPS_MAX) return;
    if (data->steps[rank][step].given) {
        if (!is_same(&data->steps[rank][step].piece, piece))
            sim_violation(data->sim, "rank %u is given another piece for step %d", rank, (int)step);
        return;
    }
    check_apart(data, rank, step, piece);
    data->steps[rank][step].given = true;
    data->steps[rank][step].piece = *piece;
    if (piece->epoch < PS_EPOCHS_MAX) data->items[piece->epoch] += piece->to - piece->from;
    sim_count(data->sim, "pieces", 1);
}

void ps_data_knows(ps_data *data, const roster *roster) {
    if (roster->number <= data->newest) return;
    data->newest = roster->number;
    for (size_t i = 0; i < roster->claims.count; i++) {
        const claim *claim = &roster->claims.list[i];
        for (uint64_t step = claim->step; step < claim->step + claim->count; step++) {
            claims_piece piece = claims_piece_of(claim, step);
            if (step >= claims_over(&roster->claims, claim->rank)) give(data, claim->rank, step, &piece);
        }
    }
    uint64_t all = 0;
    for (size_t i = 0; i < roster->part_count; i++) all += roster->parts[i].size;
    for (uint64_t i = 0; i < roster->epoch && i < PS_EPOCHS_MAX; i++)
        if (data->items[i] != all)
            sim_violation(data->sim, "epoch %d is over, and %d of %d items were given", (int)i, (int)data->items[i],
                          (int)all);
}

void ps_data_used(ps_data *data, uint32_t rank, uint64_t step, const claims_piece *piece) {
    if (rank >= PS_RANKS_MAX || step >= PS_STEPS_MAX) return;
    if (!data->steps[rank][step].given || !is_same(&data->steps[rank][step].piece, piece))
        sim_violation(data->sim, "rank %u does step %d with a piece that was not given to it", rank, (int)step);
}
