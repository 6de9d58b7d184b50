/* aggregate_test.c — every kind, type and number of workers has the same bits as plain arithmetic on each item. */
#include "train/aggregate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/rng.h"

enum { WORKERS_MAX = 40, SEED = 7 };

static const double shares[WORKERS_MAX] = {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.03125};

/* ---- The reference: one item, by the definitions in reduction.h. */

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* Rounds to fp32, as after every operation; `wide`: no rounding, for fp64. */
static double rounded(double value, bool wide) { return wide ? value : (double)(float)value; }

static double mean_of(const double *values, size_t count, bool wide) {
    double sum = values[0];
    for (size_t i = 1; i < count; i++) sum = rounded(sum + values[i], wide);
    return rounded(sum / (double)count, wide);
}

static double fold_item(const reduction *reduction, const double *values, double previous, bool wide) {
    size_t workers = reduction->workers;
    double sorted[WORKERS_MAX], result = 0;
    memcpy(sorted, values, workers * sizeof *values);
    qsort(sorted, workers, sizeof *sorted, by_value);
    switch (reduction->kind) {
    case REDUCTION_AVERAGE: result = mean_of(values, workers, wide); break;
    case REDUCTION_WEIGHTED:
        result = rounded(shares[0] * values[0], wide);
        for (size_t w = 1; w < workers; w++) result = rounded(result + rounded(shares[w] * values[w], wide), wide);
        break;
    case REDUCTION_MEDIAN:
        result = workers % 2 == 1 ? sorted[workers / 2] : mean_of(sorted + workers / 2 - 1, 2, wide);
        break;
    case REDUCTION_TRIMMED: result = mean_of(sorted + reduction->trim, workers - 2 * reduction->trim, wide); break;
    case REDUCTION_MAX: result = sorted[workers - 1]; break;
    }
    if (!reduction->moves) return result;
    double keep = rounded(reduction->keep, wide), take = rounded(1 - reduction->keep, wide);
    return rounded(rounded(keep * previous, wide) + rounded(take * result, wide), wide);
}

/* ---- One tensor of each worker, in one type. */

static double item_at(mr_dtype dtype, const void *data, size_t i) {
    switch (dtype) {
    case MR_F64: return ((const double *)data)[i];
    case MR_F32: return ((const float *)data)[i];
    case MR_F16: return half_from_fp16(((const uint16_t *)data)[i]);
    default: return half_from_bf16(((const uint16_t *)data)[i]);
    }
}

static void set_item(mr_dtype dtype, void *data, size_t i, double value) {
    switch (dtype) {
    case MR_F64: ((double *)data)[i] = value; break;
    case MR_F32: ((float *)data)[i] = (float)value; break;
    case MR_F16: ((uint16_t *)data)[i] = half_to_fp16((float)value); break;
    default: ((uint16_t *)data)[i] = half_to_bf16((float)value); break;
    }
}

typedef struct scene {
    aggregate_tensor tensor;
    void *rows[WORKERS_MAX], *previous, *output;
    size_t bytes;
} scene;

static void scene_open(scene *scene, rng *rng, mr_dtype dtype, size_t workers, size_t count) {
    *scene = (struct scene){.bytes = count * mr_dtype_size(dtype)};
    for (size_t w = 0; w <= workers; w++) {
        void *row = xcalloc(1, scene->bytes + 1);
        for (size_t i = 0; i < count; i++) set_item(dtype, row, i, ((double)rng_below(rng, 2000001) - 1e6) / 1e3);
        *(w < workers ? &scene->rows[w] : &scene->previous) = row;
    }
    scene->output = xcalloc(1, scene->bytes + 1);
    scene->tensor = (aggregate_tensor){.dtype = dtype,
                                       .count = count,
                                       .rows = (const void *const *)scene->rows,
                                       .previous = scene->previous,
                                       .outputs = &scene->output,
                                       .output_count = 1};
}

static void scene_close(scene *scene) {
    for (size_t w = 0; w < WORKERS_MAX; w++) free(scene->rows[w]);
    free(scene->previous);
    free(scene->output);
}

/* The expected result in the tensor's type; the caller frees it. */
static void *expected_of(const scene *scene, const reduction *reduction) {
    mr_dtype dtype = scene->tensor.dtype;
    void *expected = xcalloc(1, scene->bytes + 1);
    for (size_t i = 0; i < scene->tensor.count; i++) {
        double values[WORKERS_MAX];
        for (size_t w = 0; w < reduction->workers; w++) values[w] = item_at(dtype, scene->rows[w], i);
        double result = fold_item(reduction, values, item_at(dtype, scene->previous, i), dtype == MR_F64);
        set_item(dtype, expected, i, result);
    }
    return expected;
}

static void folds_right(rng *rng, const reduction *reduction, mr_dtype dtype, size_t count, thread_pool *pool) {
    scene scene;
    scene_open(&scene, rng, dtype, reduction->workers, count);
    void *expected = expected_of(&scene, reduction);
    assert_int_equal(aggregate(reduction, &scene.tensor, 1, pool), MR_OK);
    assert_memory_equal(scene.output, expected, scene.bytes);
    free(expected);
    scene_close(&scene);
}

static const mr_dtype floats[] = {MR_F64, MR_F32, MR_F16, MR_BF16};

static void every_kind_and_type_is_right_to_the_bit(void **state) {
    static const size_t workers[] = {1, 2, 3, 4, 5, 8, 16, 33};
    rng rng;
    rng_init(&rng, SEED);
    for (size_t k = REDUCTION_AVERAGE; k <= REDUCTION_MAX; k++)
        for (size_t t = 0; t < 4; t++)
            for (size_t w = 0; w < sizeof workers / sizeof *workers; w++)
                for (int moves = 0; moves < 2; moves++) {
                    reduction reduction = {.kind = (reduction_kind)k,
                                           .workers = workers[w],
                                           .shares = shares,
                                           .trim = (workers[w] - 1) / 3,
                                           .moves = moves != 0,
                                           .keep = 0.9};
                    folds_right(&rng, &reduction, floats[t], 1 + rng_below(&rng, 3000), NULL);
                }
}

/* Sizes around the limits of stretches and pieces, with and without a thread pool. */
static void every_size_is_right_with_any_pool(void **state) {
    static const size_t counts[] = {0, 1, 63, 64, 1023, 1024, 1025, 65535, 65536, 65537, 300000};
    rng rng;
    rng_init(&rng, SEED);
    reduction average = {.kind = REDUCTION_AVERAGE, .workers = 3}, median = {.kind = REDUCTION_MEDIAN, .workers = 4};
    for (size_t size = 1; size <= 3; size++) {
        thread_pool *pool;
        assert_int_equal(thread_pool_create(size, &pool), MR_OK);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            folds_right(&rng, &average, MR_F32, counts[i], pool);
            folds_right(&rng, &median, MR_BF16, counts[i], pool);
        }
        thread_pool_destroy(pool);
    }
}

/* The outputs are the inputs: the result overwrites the tensors of all workers. */
static void in_place_is_the_same(void **state) {
    rng rng;
    rng_init(&rng, SEED);
    thread_pool *pool;
    assert_int_equal(thread_pool_create(2, &pool), MR_OK);
    for (size_t t = 0; t < 4; t++) {
        reduction reduction = {.kind = REDUCTION_TRIMMED, .workers = 5, .trim = 1, .moves = true, .keep = 0.5};
        scene scene;
        scene_open(&scene, &rng, floats[t], 5, 200000);
        void *expected = expected_of(&scene, &reduction);
        void *outputs[] = {scene.rows[0], scene.rows[1], scene.rows[2], scene.rows[3], scene.rows[4], scene.previous};
        scene.tensor.outputs = outputs;
        scene.tensor.output_count = 6;
        assert_int_equal(aggregate(&reduction, &scene.tensor, 1, pool), MR_OK);
        for (size_t o = 0; o < 6; o++) assert_memory_equal(outputs[o], expected, scene.bytes);
        free(expected);
        scene_close(&scene);
    }
    thread_pool_destroy(pool);
}

static void a_nan_of_anybody_is_seen_in_every_kind(void **state) {
    for (size_t k = REDUCTION_AVERAGE; k <= REDUCTION_MAX; k++)
        for (size_t who = 0; who < 5; who++) {
            reduction reduction = {.kind = (reduction_kind)k, .workers = 5, .shares = shares, .trim = 2};
            scene scene;
            rng rng;
            rng_init(&rng, SEED);
            scene_open(&scene, &rng, MR_F32, 5, 100);
            ((float *)scene.rows[who])[42] = NAN;
            assert_int_equal(aggregate(&reduction, &scene.tensor, 1, NULL), MR_OK);
            for (size_t i = 0; i < 100; i++) assert_int_equal(isnan(((float *)scene.output)[i]) != 0, i == 42);
            scene_close(&scene);
        }
}

static void infinities_and_zeros_keep_their_signs(void **state) {
    float a[] = {INFINITY, -INFINITY, -0.0f, 1}, b[] = {1, 1, -0.0f, -INFINITY}, out[4];
    const void *rows[] = {a, b};
    void *outputs[] = {out};
    aggregate_tensor tensor = {.dtype = MR_F32, .count = 4, .rows = rows, .outputs = outputs, .output_count = 1};
    reduction average = {.kind = REDUCTION_AVERAGE, .workers = 2}, median = {.kind = REDUCTION_MEDIAN, .workers = 2};
    const reduction *reductions[] = {&average, &median};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(aggregate(reductions[i], &tensor, 1, NULL), MR_OK);
        assert_true(out[0] == INFINITY && out[1] == -INFINITY && out[3] == -INFINITY);
        assert_true(out[2] == 0 && signbit(out[2]) != 0);
    }
}

static void counters_are_the_first_workers(void **state) {
    int64_t first[] = {5, -6, INT64_MAX}, second[] = {7, 8, 9};
    bool mask[] = {true, false}, other[] = {false, false};
    int64_t counters[3];
    bool masks[2];
    const void *counter_rows[] = {first, second}, *mask_rows[] = {mask, other};
    void *counter_outputs[] = {counters, second}, *mask_outputs[] = {masks};
    aggregate_tensor tensors[] = {
        {.dtype = MR_I64, .count = 3, .rows = counter_rows, .outputs = counter_outputs, .output_count = 2},
        {.dtype = MR_BOOL, .count = 2, .rows = mask_rows, .outputs = mask_outputs, .output_count = 1}};
    reduction reduction = {.kind = REDUCTION_AVERAGE, .workers = 2};
    assert_int_equal(aggregate(&reduction, tensors, 2, NULL), MR_OK);
    assert_memory_equal(counters, first, sizeof first);
    assert_memory_equal(second, first, sizeof first);
    assert_memory_equal(masks, mask, sizeof mask);
}

/* Many tensors, some of them empty: each piece belongs to the right tensor. */
static void many_small_tensors_find_their_places(void **state) {
    enum { TENSORS = 1000 };
    static float data[2][TENSORS][7], out[TENSORS][7];
    static const void *rows[TENSORS][2];
    static void *outputs[TENSORS];
    static aggregate_tensor tensors[TENSORS];
    for (size_t i = 0; i < TENSORS; i++) {
        for (size_t k = 0; k < 7; k++) {
            data[0][i][k] = (float)(i * 8 + k);
            data[1][i][k] = (float)(i * 8 + k + 2);
        }
        rows[i][0] = data[0][i];
        rows[i][1] = data[1][i];
        outputs[i] = out[i];
        tensors[i] = (aggregate_tensor){MR_F32, i % 8, rows[i], NULL, &outputs[i], 1};
    }
    thread_pool *pool;
    assert_int_equal(thread_pool_create(2, &pool), MR_OK);
    reduction reduction = {.kind = REDUCTION_AVERAGE, .workers = 2};
    assert_int_equal(aggregate(&reduction, tensors, TENSORS, pool), MR_OK);
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t k = 0; k < 7; k++) assert_true(out[i][k] == (k < i % 8 ? (float)(i * 8 + k + 1) : 0));
    thread_pool_destroy(pool);
}

static void no_memory_is_told_and_changes_nothing(void **state) {
    float a[] = {1}, b[] = {3}, out[] = {9};
    const void *rows[] = {a, b};
    void *outputs[] = {out};
    aggregate_tensor tensor = {.dtype = MR_F32, .count = 1, .rows = rows, .outputs = outputs, .output_count = 1};
    reduction reduction = {.kind = REDUCTION_AVERAGE, .workers = 2};
    alloc_fail_at(1);
    assert_int_equal(aggregate(&reduction, &tensor, 1, NULL), MR_NOMEM);
    assert_true(out[0] == 9);
    assert_int_equal(aggregate(&reduction, &tensor, 1, NULL), MR_OK);
    assert_true(out[0] == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_and_type_is_right_to_the_bit),
        cmocka_unit_test(every_size_is_right_with_any_pool),
        cmocka_unit_test(in_place_is_the_same),
        cmocka_unit_test(a_nan_of_anybody_is_seen_in_every_kind),
        cmocka_unit_test(infinities_and_zeros_keep_their_signs),
        cmocka_unit_test(counters_are_the_first_workers),
        cmocka_unit_test(many_small_tensors_find_their_places),
        cmocka_unit_test(no_memory_is_told_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
