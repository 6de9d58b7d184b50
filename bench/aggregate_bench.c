/* aggregate_bench.c — benchmark of model aggregation, compared with memcpy of the same memory. A copy of n bytes reads
 * n and writes n; aggregating W models of n bytes reads W·n and writes n. Rows are in GB/s as memcpy counts them, (W +
 * 1)·n / 2 per aggregation, so a ratio of 1.0 to memcpy means the same traffic in the same time. */
#include <string.h>

#include "base/clock.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "train/aggregate.h"

enum { LINE = 64 }; /* items: tensors begin on cache lines */

typedef struct scene {
    reduction_kind kind;
    mr_dtype dtype;
    size_t workers, bytes; /* size of one worker's model */
    size_t tensors;        /* number of tensors in the model */
    size_t threads;
    bool in_place;
} scene;

static double once(const reduction *reduction, const aggregate_tensor *tensors, size_t count, thread_pool *pool) {
    int64_t start = clock_ns();
    if (aggregate(reduction, tensors, count, pool) != MR_OK) bench_fail("aggregate: %s", mr_last_error());
    return (double)(clock_ns() - start);
}

static void folds(const bench_run *run, const void *argument, double *values) {
    const scene *scene = argument;
    size_t items = scene->bytes / mr_dtype_size(scene->dtype) / scene->tensors / LINE * LINE, /* as in the store */
        size = items * mr_dtype_size(scene->dtype);
    aggregate_tensor *tensors = bench_memory(scene->tensors * sizeof *tensors);
    void **places = bench_memory(scene->tensors * (scene->workers + 1) * sizeof *places);
    for (size_t w = 0; w <= scene->workers; w++) {
        char *model = bench_memory(scene->bytes);
        for (size_t i = 0; i < scene->bytes / 2; i++) ((uint16_t *)model)[i] = (uint16_t)(0x3f00 + (i + w) % 97);
        for (size_t t = 0; t < scene->tensors; t++) places[t * (scene->workers + 1) + w] = model + t * size;
    }
    for (size_t t = 0; t < scene->tensors; t++) {
        void **of_this = places + t * (scene->workers + 1);
        tensors[t] = (aggregate_tensor){.dtype = scene->dtype,
                                        .count = items,
                                        .rows = (const void *const *)of_this,
                                        .outputs = scene->in_place ? of_this : of_this + scene->workers,
                                        .output_count = scene->in_place ? scene->workers : 1};
    }
    thread_pool *pool;
    if (thread_pool_create(scene->threads, &pool) != MR_OK) bench_fail("thread pool: %s", mr_last_error());
    reduction reduction = {.kind = scene->kind, .workers = scene->workers};
    once(&reduction, tensors, scene->tensors, pool); /* warm-up */
    double spent = 0, count = 0;
    while (spent < run->seconds * 1e9 || count < 3) {
        spent += once(&reduction, tensors, scene->tensors, pool);
        count++;
    }
    double written = scene->in_place ? (double)scene->workers : 1;
    values[0] = count * ((double)scene->workers + written) / 2 * (double)size * (double)scene->tensors / spent;
    thread_pool_destroy(pool);
}

void aggregate_bench(bench *b) {
    static const limit_copy alone = {100 << 20, 1}, both = {100 << 20, 2};
    static const struct {
        const char *name;
        scene scene;
        double bar; /* ratio to memcpy; 0: no bar */
    } rows[] = {
        {"average of 4 x 100 MB fp32, one thread", {REDUCTION_AVERAGE, MR_F32, 4, 100 << 20, 161, 1, false}, 0.7},
        {"average of 4 x 100 MB fp32", {REDUCTION_AVERAGE, MR_F32, 4, 100 << 20, 161, 2, false}, 0.7},
        {"average of 4 x 100 MB fp32, in place", {REDUCTION_AVERAGE, MR_F32, 4, 100 << 20, 161, 2, true}, 0.7},
        {"average of 2 x 100 MB fp32", {REDUCTION_AVERAGE, MR_F32, 2, 100 << 20, 161, 2, false}, 0.7},
        {"average of 16 x 100 MB fp32", {REDUCTION_AVERAGE, MR_F32, 16, 100 << 20, 161, 2, false}, 0.7},
        {"average of 4 x 100 MB fp32, 1000 tensors", {REDUCTION_AVERAGE, MR_F32, 4, 100 << 20, 1000, 2, false}, 0.7},
        {"average of 4 x 100 MB fp64", {REDUCTION_AVERAGE, MR_F64, 4, 100 << 20, 161, 2, false}, 0.7},
        {"average of 4 x 100 MB bf16", {REDUCTION_AVERAGE, MR_BF16, 4, 100 << 20, 161, 2, false}, 0.7},
        {"average of 4 x 100 MB fp16", {REDUCTION_AVERAGE, MR_F16, 4, 100 << 20, 161, 2, false}, 0.7},
        {"median of 4 x 100 MB fp32", {REDUCTION_MEDIAN, MR_F32, 4, 100 << 20, 161, 2, false}, 0},
        {"max of 4 x 100 MB fp32", {REDUCTION_MAX, MR_F32, 4, 100 << 20, 161, 2, false}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool one = rows[i].scene.threads == 1;
        bench_measure(b,
                      &(bench_pair){.ours = folds,
                                    .argument = &rows[i].scene,
                                    .reference = limit_memcpy_fn,
                                    .reference_argument = one ? &alone : &both},
                      &(bench_row){.name = rows[i].name,
                                   .unit = "GB/s",
                                   .reference = one ? "memcpy 100 MB" : "memcpy 100 MB, two threads",
                                   .bar = {rows[i].bar > 0 ? BENCH_RATIO_AT_LEAST : BENCH_NO_BAR, rows[i].bar}},
                      1);
    }
}
