/* kv_data_checker.h — which data the ranks of a workload did their steps with (kv/client/data_client.h).
 *
 * Checked  a step has one batch: every process that repeats the step uses it, until the tables begin from nothing, and
 *          the data with them; or until they go back to a checkpoint and the rank leaves batches that it has not begun
 *          since;
 *          no item is given to two steps of an epoch. */
#pragma once
#include "cluster/batch_claims.h"
#include "ps/cluster_map.h"
#include "sim/sim.h"

enum { KV_DATA_CHECKER_RANKS = 4, KV_DATA_CHECKER_STEPS = 32, KV_DATA_CHECKER_PARTS = 4 };

typedef struct kv_data_checker { /* zero-initialized with its sim and its sizes it is ready */
    sim *sim;
    uint64_t sizes[KV_DATA_CHECKER_PARTS];
    uint32_t parts;                                             /* 0: there is no data */
    uint64_t birth;                                             /* of the tables, from nothing */
    uint64_t had[KV_DATA_CHECKER_RANKS][KV_DATA_CHECKER_STEPS]; /* the generation in which it was last; 0: it was not */
    batch_claims_piece pieces[KV_DATA_CHECKER_RANKS][KV_DATA_CHECKER_STEPS];
} kv_data_checker;

void kv_data_checker_used(kv_data_checker *checker, const cluster_map *map, uint32_t rank, uint64_t step,
                          const batch_claims_piece *piece);
/* from this one on */
void kv_data_checker_left(kv_data_checker *checker, const cluster_map *map, uint32_t rank, uint64_t step);
/* at the end, for all steps */
void kv_data_checker_check(const kv_data_checker *checker);
