/* kv_workload.h — a small training with a known result: three tables, one of each kind, with a few weights by key in
 * each.
 *
 * The pushes of a rank are a function of its number, the step and the weights that it pulled, so any error shows in the
 * bits at the end: they equal plain arithmetic in one process. Without rounds the order of pushes is unknown, and all
 * ranks push ones: each push must have been counted once.
 *
 * Tables of sgd get learning rates with their pushes, by rank and step; in a round the lowest rank that gives one
 * decides. Without rounds every push gives 1, which is not the table's.
 *
 * The workload is the same in every environment: processes of this machine with shared memory or tcp
 * (tests/support/ps_fixture.h), or simulated processes (kv_sim_worker.c). Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "miniray/ps.h"

enum { KV_WORKLOAD_WIDTH = 5, KV_WORKLOAD_KEYS = 8 };
typedef enum kv_workload_part {
    KV_WORKLOAD_ROWS,
    KV_WORKLOAD_VECTORS,
    KV_WORKLOAD_ARRAY,
    KV_WORKLOAD_PARTS
} kv_workload_part;
typedef float kv_workload_weights[KV_WORKLOAD_PARTS][KV_WORKLOAD_KEYS][KV_WORKLOAD_WIDTH];
enum { KV_WORKLOAD_ITEMS = KV_WORKLOAD_KEYS * KV_WORKLOAD_WIDTH }; /* items of one table */

typedef struct kv_workload {
    uint32_t workers;
    bool rounds[KV_WORKLOAD_PARTS]; /* per table: BSP or not */
} kv_workload;

void kv_workload_gradient(const kv_workload *workload, uint32_t rank, uint64_t step, const kv_workload_weights shown,
                          kv_workload_weights out);
/* learning rate that the rank gives with its push; 0: none */
float kv_workload_rate(const kv_workload *workload, kv_workload_part part, uint32_t rank, uint64_t step);
/* weights after `steps` steps of all ranks */
void kv_workload_reference(const kv_workload *workload, uint64_t steps, kv_workload_weights out);

typedef struct kv_workload_table {
    const char *name;
    mr_ps_array array; /* array of the dense table: options.arrays points to it */
    mr_ps_table_options options;
} kv_workload_table;
/* `out` must not move: options point to arrays in it */
void kv_workload_tables(kv_workload_table out[KV_WORKLOAD_PARTS]);
void kv_workload_keys(uint64_t keys[KV_WORKLOAD_KEYS], uint32_t lengths[KV_WORKLOAD_KEYS]);
