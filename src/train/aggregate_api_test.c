/* aggregate_api_test.c — arguments of mr_aggregate, and the errors about wrong ones. */
#include "miniray/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static mr_tensor vector(const float *data, size_t count) {
    return (mr_tensor){
        .dtype = MR_F32, .dims = 1, .shape = {(int64_t)count}, .data = data, .bytes = count * sizeof *data};
}

static const float first[] = {1, 10}, second[] = {2, 20}, third[] = {9, 0};

/* Asserts the result of the three vectors above. */
static void gives(const mr_sync_strategy *strategy, const float *before, float one, float two) {
    mr_tensor a = vector(first, 2), b = vector(second, 2), c = vector(third, 2), previous = vector(before, 2);
    const mr_tensor *models[] = {&a, &b, &c};
    float result[2];
    void *out[] = {result};
    assert_int_equal(mr_aggregate(strategy, models, 3, 1, before == NULL ? NULL : &previous, out), MR_OK);
    assert_true(result[0] == one && result[1] == two);
}

static void refuses(const mr_sync_strategy *strategy, const char *why) {
    mr_tensor a = vector(first, 2), b = vector(second, 2);
    const mr_tensor *models[] = {&a, &b};
    float result[2] = {7, 7};
    void *out[] = {result};
    assert_int_equal(mr_aggregate(strategy, models, 2, 1, NULL, out), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), why));
    assert_true(result[0] == 7 && result[1] == 7);
}

static void every_strategy_does_what_it_is_called(void **state) {
    const float before[] = {0, 100};
    gives(NULL, NULL, 4, 10);
    gives(&(mr_sync_strategy)MR_INIT(mr_sync_strategy), NULL, 4, 10);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "average"), before, 4, 10);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "median"), NULL, 2, 10);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "max"), NULL, 9, 20);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "trimmed_mean", .trim = 0.34), NULL, 2, 10);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "trimmed_mean"), NULL, 4, 10); /* a tenth of three workers is none */
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "weighted", .weights = (double[]){1, 1, 2}), NULL, 5.25f, 7.5f);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "weighted", .weights = (double[]){2, 0, -1}), NULL, -7, 20);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "momentum"), NULL, 4, 10);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = -1), before, 4, 10);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "trimmed_mean", .trim = -1), NULL, 4, 10);
    gives(&MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = 0.5), before, 2, 55);
}

static void unknown_strategies_are_refused(void **state) {
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "mediam"),
            "unknown strategy 'mediam'; expected one of average, weighted");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "mediam"), "; did you mean median?");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = 1), "momentum is 1");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = (double)NAN), "momentum is");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "trimmed_mean", .trim = 0.5), "trim is 0.5");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "weighted", .weights = (double[]){0, 0}), "add up to 0");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "weighted", .weights = (double[]){1, -1}), "add up to 0");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "weighted", .weights = (double[]){1, -3}), "add up to -2");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "weighted", .weights = (double[]){1e308, 1e308}),
            "positive and finite");
    refuses(&MR_OPTIONS(mr_sync_strategy, .name = "weighted", .weights = (double[]){1, (double)NAN}),
            "the weight of worker 1");
}

static void differs(mr_tensor other, const char *why) {
    mr_tensor a[] = {vector(first, 2), vector(first, 2)}, b[] = {vector(second, 2), other};
    const mr_tensor *models[] = {a, b};
    float result[4];
    void *out[] = {result, result + 2};
    assert_int_equal(mr_aggregate(NULL, models, 2, 2, NULL, out), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), why));
}

static void tensors_that_differ_are_named(void **state) {
    differs(vector(third, 1), "tensor 1 of worker 1 is float32[1], that of worker 0 is float32[2]");
    mr_tensor other = vector(third, 2);
    other.dtype = MR_I32;
    differs(other, "tensor 1 of worker 1 is int32[2], that of worker 0 is float32[2]");
    other = (mr_tensor){.dtype = MR_F32, .dims = 2, .shape = {1, 2}, .data = third, .bytes = 8};
    differs(other, "tensor 1 of worker 1 is float32[1, 2]");
}

static void tensors_that_are_none_are_named(void **state) {
    mr_tensor other = vector(third, 2);
    other.bytes = 7;
    differs(other, "tensor 1 of worker 1 is float32[2], but has 7 bytes");
    other = vector(NULL, 2);
    differs(other, "wrong size or address");
    other = vector((const float *)((const char *)third + 1), 1);
    differs(other, "wrong size or address");
    other = vector(third, 2);
    other.dims = 9;
    differs(other, "wrong size or address");
    other = (mr_tensor){.dtype = MR_F32, .dims = 3, .shape = {INT64_MAX, 4, 4}, .data = third};
    differs(other, "wrong size or address");
    other = vector(third, 2);
    other.shape[0] = -1;
    differs(other, "wrong size or address");
    other = vector(third, 2);
    other.dtype = (mr_dtype)99;
    differs(other, "unknown[2], but has 8 bytes");
}

static void empty_models_and_no_workers(void **state) {
    mr_tensor empty = vector(NULL, 0);
    const mr_tensor *models[] = {&empty, &empty};
    void *out[] = {NULL};
    assert_int_equal(mr_aggregate(NULL, models, 2, 1, NULL, out), MR_OK);
    assert_int_equal(mr_aggregate(NULL, models, 2, 0, NULL, NULL), MR_OK);
    assert_int_equal(mr_aggregate(NULL, models, 0, 1, NULL, out), MR_INVALID);
    assert_int_equal(mr_aggregate(NULL, NULL, 1, 1, NULL, out), MR_INVALID);
    assert_int_equal(mr_aggregate(NULL, models, 1, 1, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_aggregate(NULL, models, SIZE_MAX, 1, NULL, out), MR_INVALID);
}

static void one_worker_is_itself(void **state) {
    mr_tensor a = vector(third, 2);
    const mr_tensor *models[] = {&a};
    static const char *const names[] = {"average", "weighted", "momentum", "median", "trimmed_mean", "max"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        float result[2];
        void *out[] = {result};
        assert_int_equal(mr_aggregate(&MR_OPTIONS(mr_sync_strategy, .name = names[i]), models, 1, 1, NULL, out), MR_OK);
        assert_memory_equal(result, third, sizeof third);
        assert_non_null(strstr(mr_sync_strategy_names(), names[i]));
    }
}

/* Large enough for the thread pool; the result overwrites the first worker's model. */
static void a_large_model_in_place(void **state) {
    enum { ITEMS = 1 << 20 };
    float *a = xmalloc(ITEMS * sizeof *a), *b = xmalloc(ITEMS * sizeof *b);
    for (size_t i = 0; i < ITEMS; i++) {
        a[i] = (float)i;
        b[i] = (float)(i + 2);
    }
    mr_tensor one = vector(a, ITEMS), two = vector(b, ITEMS);
    const mr_tensor *models[] = {&one, &two};
    void *out[] = {a};
    assert_int_equal(mr_aggregate(NULL, models, 2, 1, NULL, out), MR_OK);
    for (size_t i = 0; i < ITEMS; i++) assert_true(a[i] == (float)(i + 1));
    free(a);
    free(b);
}

static void without_memory_nothing_is_written(void **state) {
    mr_tensor a = vector(first, 2), b = vector(second, 2);
    const mr_tensor *models[] = {&a, &b};
    float result[2] = {7, 7};
    void *out[] = {result};
    for (size_t nth = 1;; nth++) {
        alloc_fail_at(nth);
        mr_status status = mr_aggregate(NULL, models, 2, 1, NULL, out);
        alloc_fail_at(0);
        if (status == MR_OK) {
            assert_true(nth > 2);
            return;
        }
        assert_int_equal(status, MR_NOMEM);
        assert_true(result[0] == 7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_does_what_it_is_called),
        cmocka_unit_test(unknown_strategies_are_refused),
        cmocka_unit_test(tensors_that_differ_are_named),
        cmocka_unit_test(tensors_that_are_none_are_named),
        cmocka_unit_test(empty_models_and_no_workers),
        cmocka_unit_test(one_worker_is_itself),
        cmocka_unit_test(a_large_model_in_place),
        cmocka_unit_test(without_memory_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
