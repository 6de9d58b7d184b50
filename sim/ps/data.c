/* data.c — see data.h. */
#include "sim/ps/data.h"

static bool is_same(const claims_piece *a, const claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from == b->from && a->to == b->to;
}

static bool meet(const claims_piece *a, const claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from < b->to && b->from < a->to;
}

/* Its round is closed without this rank, for all that anybody knows. */
static bool is_unspent(const ps_data *data, uint32_t rank, uint64_t step) {
    const ps_ledger *ledger = data->ledger;
    if (ledger->round_slots == 0 || step >= ledger->round_count) return false;
    return ledger->rounds[step].over && !crowd_has(&ledger->rounds[step].set, rank);
}

/* Items of this piece are somebody else's now, or nobody's: the step was over, and had not used it. */
static void take_back(ps_data *data, const roster *roster, uint32_t rank, uint64_t step) {
    ps_given *given = &data->steps[rank][step];
    if (step >= claims_over(&roster->claims, rank))
        sim_violation(data->sim, "items of rank %u for step %d are given away, and it is not over", rank, (int)step);
    else if (!is_unspent(data, rank, step))
        sim_violation(data->sim, "items of rank %u for step %d are given away, and were used", rank, (int)step);
    given->back = true;
    if (given->piece.epoch < PS_EPOCHS_MAX) data->items[given->piece.epoch] -= given->piece.to - given->piece.from;
    sim_count(data->sim, "pieces handed back", 1);
}

static void take_from_others(ps_data *data, const roster *roster, const claims_piece *piece) {
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        for (uint32_t k = 0; k < PS_STEPS_MAX; k++)
            if (data->steps[i][k].given && !data->steps[i][k].back && meet(&data->steps[i][k].piece, piece))
                take_back(data, roster, i, k);
}

static void give(ps_data *data, const roster *roster, uint32_t rank, uint64_t step, const claims_piece *piece) {
    if (rank >= PS_RANKS_MAX || step >= PS_STEPS_MAX) return;
    if (data->steps[rank][step].given) {
        if (!is_same(&data->steps[rank][step].piece, piece))
            sim_violation(data->sim, "rank %u is given another piece for step %d", rank, (int)step);
        return;
    }
    take_from_others(data, roster, piece);
    data->steps[rank][step] = (ps_given){.given = true, .piece = *piece};
    if (piece->epoch < PS_EPOCHS_MAX) data->items[piece->epoch] += piece->to - piece->from;
    sim_count(data->sim, "pieces", 1);
}

void ps_data_says(ps_data *data, uint32_t rank, const claims_past *past) {
    if (rank >= PS_RANKS_MAX || past->over >= PS_STEPS_MAX) return;
    ps_said *said = &data->said[rank][past->over];
    said->differs = said->said && (said->differs || past->since != said->past.since || past->spent != said->past.spent);
    said->said = true;
    said->past = *past;
}

/* The steps between two numbers are over: those that were not spent, as all say who say so, are handed back. */
static void check_over(ps_data *data, uint32_t rank, uint64_t before, uint64_t over) {
    if (over >= PS_STEPS_MAX || !data->said[rank][over].said || data->said[rank][over].differs) return;
    const claims_past *past = &data->said[rank][over].past;
    for (uint64_t step = before + 1; step < over; step++)
        if (data->said[rank][step].said) return; /* which of them was heard? */
    for (uint64_t step = before > past->since ? before : past->since; step < over; step++)
        if (data->steps[rank][step].given && !data->steps[rank][step].back &&
            (past->spent >> (over - 1 - step) & 1) == 0)
            sim_violation(data->sim, "rank %u has not done step %d, and its piece is not handed back", rank, (int)step);
}

static void check_epochs(ps_data *data, const roster *roster) {
    uint64_t all = 0, back[PS_EPOCHS_MAX] = {0};
    for (size_t i = 0; i < roster->part_count; i++) all += roster->parts[i].size;
    for (size_t i = 0; i < roster->claims.back_count; i++) {
        const claims_piece *piece = &roster->claims.back[i];
        if (piece->epoch < PS_EPOCHS_MAX) back[piece->epoch] += piece->to - piece->from;
    }
    for (uint64_t i = 0; i < roster->epoch && i < PS_EPOCHS_MAX; i++)
        if (data->items[i] + back[i] != all)
            sim_violation(data->sim, "epoch %d is over, and %d of %d items were given", (int)i, (int)data->items[i],
                          (int)all);
}

void ps_data_knows(ps_data *data, const roster *roster) {
    const claims *claims = &roster->claims;
    if (roster->number <= data->newest) return;
    data->newest = roster->number;
    for (size_t i = 0; i < claims->back_count; i++) take_from_others(data, roster, &claims->back[i]);
    for (size_t i = 0; i < claims->count; i++) {
        const claim *claim = &claims->list[i];
        for (uint64_t step = claim->step; step < claim->step + claim->count; step++) {
            claims_piece piece = claims_piece_of(claim, step);
            if (step >= claims_over(claims, claim->rank)) give(data, roster, claim->rank, step, &piece);
        }
    }
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++) {
        uint64_t over = claims_over(claims, i);
        if (over > data->over[i]) check_over(data, i, data->over[i], over);
        data->over[i] = over;
    }
    check_epochs(data, roster);
}

void ps_data_used(ps_data *data, uint32_t rank, uint64_t step, const claims_piece *piece) {
    if (rank >= PS_RANKS_MAX || step >= PS_STEPS_MAX) return;
    if (!data->steps[rank][step].given || !is_same(&data->steps[rank][step].piece, piece))
        sim_violation(data->sim, "rank %u does step %d with a piece that was not given to it", rank, (int)step);
}
