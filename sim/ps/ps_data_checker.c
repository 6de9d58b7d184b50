/* ps_data_checker.c — see ps_data_checker.h. */
#include "sim/ps/ps_data_checker.h"

static bool is_same(const batch_claims_piece *a, const batch_claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from == b->from && a->to == b->to;
}

static bool meet(const batch_claims_piece *a, const batch_claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from < b->to && b->from < a->to;
}

/* The step's round is known to be closed without this rank. */
static bool is_unspent(const ps_data_checker *checker, uint32_t rank, uint64_t step) {
    const ps_checker *round_state = checker->checker;
    if (round_state->round_slots == 0 || step >= round_state->round_count) return false;
    return round_state->rounds[step].over && !rank_set_has(&round_state->rounds[step].set, rank);
}

/* Items of this batch were given to another step or handed back: the step must be over without having used them. */
static void take_back(ps_data_checker *checker, const consumer_group *group, uint32_t rank, uint64_t step) {
    ps_given *given = &checker->steps[rank][step];
    if (step >= batch_claims_over(&group->claims, rank))
        sim_violation(checker->sim, "items of rank %u for step %d are given away, and it is not over", rank, (int)step);
    else if (!is_unspent(checker, rank, step))
        sim_violation(checker->sim, "items of rank %u for step %d are given away, and were used", rank, (int)step);
    given->back = true;
    if (given->piece.epoch < PS_EPOCHS_MAX) checker->items[given->piece.epoch] -= given->piece.to - given->piece.from;
    sim_count(checker->sim, "pieces handed back", 1);
}

static void take_from_others(ps_data_checker *checker, const consumer_group *group, const batch_claims_piece *piece) {
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++)
        for (uint32_t k = 0; k < PS_STEPS_MAX; k++)
            if (checker->steps[i][k].given && !checker->steps[i][k].back && meet(&checker->steps[i][k].piece, piece))
                take_back(checker, group, i, k);
}

static void give(ps_data_checker *checker, const consumer_group *group, uint32_t rank, uint64_t step,
                 const batch_claims_piece *piece) {
    if (rank >= PS_RANKS_MAX || step >= PS_STEPS_MAX) return;
    if (checker->steps[rank][step].given) {
        if (!is_same(&checker->steps[rank][step].piece, piece))
            sim_violation(checker->sim, "rank %u is given another piece for step %d", rank, (int)step);
        return;
    }
    take_from_others(checker, group, piece);
    checker->steps[rank][step] = (ps_given){.given = true, .piece = *piece};
    if (piece->epoch < PS_EPOCHS_MAX) checker->items[piece->epoch] += piece->to - piece->from;
    sim_count(checker->sim, "pieces", 1);
}

void ps_data_checker_says(ps_data_checker *checker, uint32_t rank, const batch_claims_past *past) {
    if (rank >= PS_RANKS_MAX || past->over >= PS_STEPS_MAX) return;
    ps_said *said = &checker->said[rank][past->over];
    said->differs = said->said && (said->differs || past->since != said->past.since || past->spent != said->past.spent);
    said->said = true;
    said->past = *past;
}

/* The steps from `before` to `over` are over: the batches of steps that all reports call unused must be handed back. */
static void check_over(ps_data_checker *checker, uint32_t rank, uint64_t before, uint64_t over) {
    if (over >= PS_STEPS_MAX || !checker->said[rank][over].said || checker->said[rank][over].differs) return;
    const batch_claims_past *past = &checker->said[rank][over].past;
    for (uint64_t step = before + 1; step < over; step++)
        if (checker->said[rank][step].said) return; /* unknown which report was received */
    for (uint64_t step = before > past->since ? before : past->since; step < over; step++)
        if (checker->steps[rank][step].given && !checker->steps[rank][step].back &&
            (past->spent >> (over - 1 - step) & 1) == 0)
            sim_violation(checker->sim, "rank %u has not done step %d, and its piece is not handed back", rank,
                          (int)step);
}

static void check_epochs(ps_data_checker *checker, const consumer_group *group) {
    uint64_t all = 0, back[PS_EPOCHS_MAX] = {0};
    for (size_t i = 0; i < group->part_count; i++) all += group->parts[i].size;
    for (size_t i = 0; i < group->claims.back_count; i++) {
        const batch_claims_piece *piece = &group->claims.back[i];
        if (piece->epoch < PS_EPOCHS_MAX) back[piece->epoch] += piece->to - piece->from;
    }
    for (uint64_t i = 0; i < group->epoch && i < PS_EPOCHS_MAX; i++)
        if (checker->items[i] + back[i] != all)
            sim_violation(checker->sim, "epoch %d is over, and %d of %d items were given", (int)i,
                          (int)checker->items[i], (int)all);
}

void ps_data_checker_knows(ps_data_checker *checker, const consumer_group *group) {
    const batch_claims *claims = &group->claims;
    if (group->number <= checker->newest) return;
    checker->newest = group->number;
    for (size_t i = 0; i < claims->back_count; i++) take_from_others(checker, group, &claims->back[i]);
    for (size_t i = 0; i < claims->count; i++) {
        const batch_claim *claim = &claims->list[i];
        for (uint64_t step = claim->step; step < claim->step + claim->count; step++) {
            batch_claims_piece piece = batch_claims_piece_of(claim, step);
            if (step >= batch_claims_over(claims, claim->rank)) give(checker, group, claim->rank, step, &piece);
        }
    }
    for (uint32_t i = 0; i < PS_RANKS_MAX; i++) {
        uint64_t over = batch_claims_over(claims, i);
        if (over > checker->over[i]) check_over(checker, i, checker->over[i], over);
        checker->over[i] = over;
    }
    check_epochs(checker, group);
}

void ps_data_checker_used(ps_data_checker *checker, uint32_t rank, uint64_t step, const batch_claims_piece *piece) {
    if (rank >= PS_RANKS_MAX || step >= PS_STEPS_MAX) return;
    if (!checker->steps[rank][step].given || !is_same(&checker->steps[rank][step].piece, piece))
        sim_violation(checker->sim, "rank %u does step %d with a piece that was not given to it", rank, (int)step);
}
