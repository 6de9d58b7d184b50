/* kv_workload.c — see kv_workload.h. */
#include "sim/kv/kv_workload.h"

#include <string.h>

#define TABLE_RATE 0.75f /* of the tables of sgd */

void kv_workload_gradient(const kv_workload *workload, uint32_t rank, uint64_t step, const kv_workload_weights shown,
                          kv_workload_weights out) {
    for (size_t part = 0; part < KV_WORKLOAD_PARTS; part++)
        for (size_t key = 0; key < KV_WORKLOAD_KEYS; key++)
            for (size_t i = 0; i < KV_WORKLOAD_WIDTH; i++) {
                float target = (float)((part + key * 7 + i * 3 + 1) % 11) / 3.0f;
                float noise = (float)((step * 31 + rank * 17 + i * 5 + key) % 23) / 97.0f;
                float wanted = (target + noise - shown[part][key][i]) * 0.05f / (float)(rank + 1);
                float more = workload->rounds[part] ? wanted : 1;
                out[part][key][i] = part == KV_WORKLOAD_VECTORS ? more : -more; /* sgd subtracts */
            }
}

float kv_workload_rate(const kv_workload *workload, kv_workload_part part, uint32_t rank, uint64_t step) {
    static const float rates[] = {0, 0.5f, 1.5f, 1, 0.25f};
    if (part == KV_WORKLOAD_VECTORS) return 0;
    return workload->rounds[part] ? rates[(step * 3 + rank * 7 + part) % 5] : 1;
}

/* Ends a step of a table with rounds, or adds the pushes of all ranks to another one. */
static void update(const kv_workload *workload, kv_workload_part part, uint64_t step, float *weights,
                   const float *sum) {
    float rate = 0;
    for (uint32_t rank = 0; rank < workload->workers && rate == 0; rank++)
        rate = kv_workload_rate(workload, part, rank, step);
    if (rate == 0) rate = TABLE_RATE;
    for (size_t i = 0; i < KV_WORKLOAD_ITEMS; i++)
        weights[i] = part == KV_WORKLOAD_VECTORS ? weights[i] + sum[i] : weights[i] - rate * sum[i];
}

void kv_workload_reference(const kv_workload *workload, uint64_t steps, kv_workload_weights out) {
    memset(out, 0, sizeof(kv_workload_weights));
    for (uint64_t step = 0; step < steps; step++) {
        kv_workload_weights sum = {0}, pushed;
        for (uint32_t rank = 0; rank < workload->workers; rank++) {
            kv_workload_gradient(workload, rank, step, out, pushed);
            for (size_t i = 0; i < KV_WORKLOAD_PARTS * KV_WORKLOAD_ITEMS; i++)
                (&sum[0][0][0])[i] += (&pushed[0][0][0])[i];
        }
        for (int part = 0; part < KV_WORKLOAD_PARTS; part++)
            update(workload, (kv_workload_part)part, step, &out[part][0][0], &sum[part][0][0]);
    }
}

/* Blocks are shorter than rows, so that many slots have some. */
void kv_workload_tables(kv_workload_table out[KV_WORKLOAD_PARTS]) {
    out[KV_WORKLOAD_ROWS] =
        (kv_workload_table){.name = "rows",
                            .options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_SPARSE, .dim = KV_WORKLOAD_WIDTH,
                                                  .optimizer = "sgd", .rate = TABLE_RATE)};
    out[KV_WORKLOAD_VECTORS] =
        (kv_workload_table){.name = "vectors", .options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS)};
    out[KV_WORKLOAD_ARRAY] =
        (kv_workload_table){.name = "array",
                            .array = {.name = "weights", .dims = 2, .shape = {KV_WORKLOAD_KEYS, KV_WORKLOAD_WIDTH}},
                            .options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .array_count = 1,
                                                  .block = 3, .optimizer = "sgd", .rate = TABLE_RATE)};
    out[KV_WORKLOAD_ARRAY].options.arrays = &out[KV_WORKLOAD_ARRAY].array;
}

void kv_workload_keys(uint64_t keys[KV_WORKLOAD_KEYS], uint32_t lengths[KV_WORKLOAD_KEYS]) {
    for (uint32_t i = 0; i < KV_WORKLOAD_KEYS; i++) {
        keys[i] = (uint64_t)i * i + 3;
        lengths[i] = KV_WORKLOAD_WIDTH;
    }
}
