/* sync_bench.c — model sync with workers written in C: mr_model_sync compared with the time that this machine's memory
 * takes for the bytes to move. sync_run.py measures torch modules and other collectives. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "miniray/model.h"

enum { WARM = 8, SAMPLES_MAX = 4096, PATIENCE_US = 30 * 1000 * 1000, QUICK_PART = 16, QUICK_MIN = 16 << 20 };

typedef struct scene {
    size_t workers, tensors, items; /* items of each tensor */
    mr_dtype dtype;
    bool shared; /* the models are in shared memory */
} scene;

static size_t model_bytes(const bench_run *run, const scene *scene) {
    size_t bytes = scene->tensors * scene->items * mr_dtype_size(scene->dtype);
    return run->quick && bytes > QUICK_MIN ? bytes / QUICK_PART : bytes;
}

/* ---- A worker. */

typedef struct synced {
    mr_shared_model *share; /* NULL: private memory */
    char *data;
    mr_tensor *tensors;
    size_t count;
} synced;

static void synced_free(void *self) {
    synced *synced = self;
    if (synced->share == NULL) free(synced->data);
    mr_shared_model_close(synced->share);
    free(synced->tensors);
    free(synced);
}

MR_CREATE(BenchSynced) { /* bytes, tensors, dtype, shared or not */
    int64_t number[4];
    for (size_t i = 0; i < 4; i++) MR_TRY(mr_arg_int(call, i, &number[i]));
    size_t bytes = (size_t)number[0], count = (size_t)number[1], each = bytes / count;
    synced *self = calloc(1, sizeof *self);
    MR_TRY(mr_set_self(call, self, synced_free));
    if (number[3] != 0) MR_TRY(mr_shared_model_open(mr_call_context(call), bytes, &self->share));
    self->data = number[3] != 0 ? mr_shared_model_data(self->share) : malloc(bytes);
    memset(self->data, 0, bytes);
    self->tensors = calloc(count, sizeof *self->tensors);
    self->count = count;
    mr_dtype dtype = (mr_dtype)number[2];
    for (size_t i = 0; i < count; i++)
        self->tensors[i] = (mr_tensor){.dtype = dtype,
                                       .dims = 1,
                                       .shape = {(int64_t)(each / mr_dtype_size(dtype))},
                                       .data = self->data + i * each,
                                       .bytes = each};
    return MR_OK;
}

MR_METHOD(BenchSynced, get_weights) {
    const synced *self = mr_self(call);
    if (self->share != NULL) return mr_shared_model_return(call, self->share, self->tensors, self->count);
    mr_arg *weights = calloc(self->count, sizeof *weights);
    for (size_t i = 0; i < self->count; i++) weights[i] = mr_tensor_arg(&self->tensors[i]);
    mr_status status = mr_return(call, mr_list(weights, self->count));
    free(weights);
    return status;
}

MR_METHOD(BenchSynced, set_weights) {
    const synced *self = mr_self(call);
    mr_value weights, item;
    mr_tensor tensor;
    bool taken = false;
    MR_TRY(mr_arg_value(call, 0, &weights));
    if (self->share != NULL) MR_TRY(mr_shared_model_apply(self->share, &weights, &taken));
    mr_iter iter = mr_value_iter(&weights);
    for (char *to = self->data; !taken && mr_iter_next(&iter, &item); to += tensor.bytes) {
        MR_TRY(mr_value_tensor(&item, &tensor));
        memcpy(to, tensor.data, tensor.bytes);
    }
    return MR_OK;
}

/* ---- Syncs: milliseconds of a warm sync, and of the first. */

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s: %s", mr_status_name(status), mr_last_error());
}

static double sync_once(mr_context *mr, mr_actor server, const mr_actor *workers, size_t count) {
    mr_ref ref;
    mr_value version;
    int64_t began = clock_ns();
    must(mr_model_sync(mr, server, workers, count, NULL, &ref));
    must(mr_get(mr, ref, PATIENCE_US, &version));
    double took = (double)(clock_ns() - began) / 1e6;
    mr_value_release(&version);
    mr_release(mr, ref);
    return took;
}

static void hire(mr_context *mr, const bench_run *run, const scene *scene, mr_actor *out) {
    for (size_t w = 0; w < scene->workers; w++)
        must(mr_actor_create(mr, "BenchSynced", NULL,
                             MR_ARGS(mr_int((int64_t)model_bytes(run, scene)), mr_int((int64_t)scene->tensors),
                                     mr_int((int64_t)scene->dtype), mr_int(scene->shared)),
                             &out[w]));
}

static void syncs(const bench_run *run, const void *argument, double *values) {
    const scene *scene = argument;
    size_t store = (3 * scene->workers + 6) * model_bytes(run, scene) + (64 << 20);
    mr_context *mr;
    mr_actor server, *workers = calloc(scene->workers, sizeof *workers);
    must(mr_init(&MR_OPTIONS(mr_options, .num_workers = (int)scene->workers, .store_bytes = store), &mr));
    must(mr_model_server_create(mr, NULL, NULL, &server));
    hire(mr, run, scene, workers);
    values[1] = sync_once(mr, server, workers, scene->workers);
    for (int i = 1; i < WARM; i++) sync_once(mr, server, workers, scene->workers);
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    int64_t end = clock_ns() + (int64_t)(run->seconds * 1e9);
    do bench_samples_add(&samples, sync_once(mr, server, workers, scene->workers));
    while (clock_ns() < end || samples.count < 3);
    values[0] = bench_samples_percentile(&samples, 50);
    mr_shutdown(mr);
}

/* Traffic as memcpy counts it: each worker's model is read, and the result and each worker's model are written; copies
 * also read and write each model twice more. */
static void memory(const bench_run *run, const void *argument, double *values) {
    const scene *scene = argument;
    double each = (double)model_bytes(run, scene), workers = (double)scene->workers;
    double moved = (scene->shared ? 2 * workers + 1 : 5 * workers + 1) / 2 * each;
    limit_copy copy = {.size = 100 << 20, .threads = 2};
    values[0] = moved / limit_memcpy(&copy, run->seconds) / 1e6;
}

void sync_bench(bench *b) {
    static const struct {
        const char *name, *cold;
        scene scene;
        double bar_ms; /* 0: no bar */
    } rows[] = {
        {"4 x 25.6 M fp32 in 161 tensors", "the first of these", {4, 161, 159008, MR_F32, false}, 0},
        {"4 x 25.6 M fp32 in 161 tensors, shared", "the first of those", {4, 161, 159008, MR_F32, true}, 0},
        {"4 x 90 k fp32 in 6 tensors", "the first of 90 k", {4, 6, 15000, MR_F32, false}, 0.8},
        {"4 x 1 M fp32 in 1000 tensors", "the first of 1000 tensors", {4, 1000, 1000, MR_F32, false}, 0},
        {"2 x 400 MB in one tensor", "the first of 400 MB", {2, 1, 100 * 1000 * 1000, MR_F32, false}, 0},
        {"4 x 25.6 M bf16 in 161 tensors", "the first of bf16", {4, 161, 159008, MR_BF16, false}, 0},
        {"2 x 25.6 M fp32 in 161 tensors", "the first of 2", {2, 161, 159008, MR_F32, false}, 0},
        {"8 x 25.6 M fp32 in 161 tensors", "the first of 8", {8, 161, 159008, MR_F32, false}, 0},
        {"16 x 25.6 M fp32 in 161 tensors", "the first of 16", {16, 161, 159008, MR_F32, false}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench_bar bar = {rows[i].bar_ms > 0 ? BENCH_VALUE_AT_MOST : BENCH_NO_BAR, rows[i].bar_ms};
        bench_row pair[] = {
            {.name = rows[i].name, .unit = "ms", .reference = "memcpy of as much, two threads", .bar = bar},
            {.name = rows[i].cold, .unit = "ms", .value = 1}};
        bench_measure(
            b,
            &(bench_pair){
                .ours = syncs, .argument = &rows[i].scene, .reference = memory, .reference_argument = &rows[i].scene},
            pair, 2);
    }
}
