/* kv_data_checker.c — see kv_data_checker.h. */
#include "sim/kv/kv_data_checker.h"

#include <inttypes.h>
#include <string.h>

static bool is_same(const batch_claims_piece *a, const batch_claims_piece *b) {
    return a->part == b->part && a->epoch == b->epoch && a->from == b->from && a->to == b->to;
}

void kv_data_checker_seen(kv_data_checker *checker, const cluster_map *map) {
    if (map->origin != 0 || map->birth <= checker->birth) return;
    checker->birth = map->birth;
    memset(checker->had, 0, sizeof checker->had);
}

void kv_data_checker_used(kv_data_checker *checker, const cluster_map *map, uint32_t rank, uint64_t step,
                          const batch_claims_piece *piece) {
    kv_data_checker_seen(checker, map);
    if (map->birth < checker->birth || step >= KV_DATA_CHECKER_STEPS) return; /* the map is of a lost history */
    batch_claims_piece *known = &checker->pieces[rank][step];
    if (piece->part >= checker->parts || piece->from >= piece->to || piece->to > checker->sizes[piece->part])
        sim_violation(checker->sim, "rank %u has for step %d a piece that there is not", rank, (int)step);
    if (checker->had[rank][step] != 0 && !is_same(known, piece))
        sim_violation(checker->sim,
                      "rank %u plays step %d with %u:%" PRIu64 ":%" PRIu64 "-%" PRIu64 ", and had %u:%" PRIu64
                      ":%" PRIu64 "-%" PRIu64,
                      rank, (int)step, piece->part, piece->epoch, piece->from, piece->to, known->part, known->epoch,
                      known->from, known->to);
    if (checker->had[rank][step] != 0) sim_count(checker->sim, "pieces again", 1);
    if (piece->epoch > 0) sim_count(checker->sim, "pieces of later epochs", 1);
    checker->had[rank][step] = map->generation;
    *known = *piece;
}

void kv_data_checker_left(kv_data_checker *checker, const cluster_map *map, uint32_t rank, uint64_t step,
                          uint64_t begun) {
    for (; step < KV_DATA_CHECKER_STEPS; step++)
        if (step >= begun || checker->had[rank][step] != map->generation) checker->had[rank][step] = 0;
}

static void compare(const kv_data_checker *checker, size_t one, size_t other) {
    const batch_claims_piece *a = &checker->pieces[one / KV_DATA_CHECKER_STEPS][one % KV_DATA_CHECKER_STEPS],
                             *b = &checker->pieces[other / KV_DATA_CHECKER_STEPS][other % KV_DATA_CHECKER_STEPS];
    if (a->part == b->part && a->epoch == b->epoch && a->from < b->to && b->from < a->to)
        sim_violation(checker->sim, "items of part %u are in step %d of rank %d and in step %d of rank %d, in epoch %d",
                      a->part, (int)(one % KV_DATA_CHECKER_STEPS), (int)(one / KV_DATA_CHECKER_STEPS),
                      (int)(other % KV_DATA_CHECKER_STEPS), (int)(other / KV_DATA_CHECKER_STEPS), (int)a->epoch);
}

void kv_data_checker_check(const kv_data_checker *checker) {
    const uint64_t *had = &checker->had[0][0];
    for (size_t i = 0; i < (size_t)KV_DATA_CHECKER_RANKS * KV_DATA_CHECKER_STEPS; i++)
        for (size_t k = 0; k < i; k++)
            if (had[i] != 0 && had[k] != 0) compare(checker, i, k);
}
