/* kv_data_checker.h — checks which data the ranks of a workload use in their steps (kv/client/data_client.h).
 *
 * Checked  a step has one batch: every process that repeats the step uses it, until the tables restart from nothing,
 *          and the data with them; or until the rank gives up batches of steps whose pushes no slot has: because the
 *          tables went back to a checkpoint, or because an earlier process of the rank began the step and none of its
 *          pushes arrived;
 *          no item is given to two steps of an epoch. */
#pragma once
#include "cluster/batch_claims.h"
#include "ps/cluster_map.h"
#include "sim/sim.h"

enum { KV_DATA_CHECKER_RANKS = 4, KV_DATA_CHECKER_STEPS = 32, KV_DATA_CHECKER_PARTS = 4 };

typedef struct kv_data_checker { /* ready when it is zero-initialized except for its sim and sizes */
    sim *sim;
    uint64_t sizes[KV_DATA_CHECKER_PARTS];
    uint32_t parts;                                             /* 0: no data */
    uint64_t birth;                                             /* birth of the tables in their current history */
    uint64_t had[KV_DATA_CHECKER_RANKS][KV_DATA_CHECKER_STEPS]; /* generation of the last use; 0: unused */
    batch_claims_piece pieces[KV_DATA_CHECKER_RANKS][KV_DATA_CHECKER_STEPS];
} kv_data_checker;

/* A server has this map. If the tables begin from nothing in it, so do the data, whether or not a rank uses any before
 * the next generation. */
void kv_data_checker_seen(kv_data_checker *checker, const cluster_map *map);
void kv_data_checker_used(kv_data_checker *checker, const cluster_map *map, uint32_t rank, uint64_t step,
                          const batch_claims_piece *piece);
/* the rank gives up its batches from `step` on; slots have none of its pushes to the steps from `begun` on */
void kv_data_checker_left(kv_data_checker *checker, const cluster_map *map, uint32_t rank, uint64_t step,
                          uint64_t begun);
/* at the end, for all steps */
void kv_data_checker_check(const kv_data_checker *checker);
