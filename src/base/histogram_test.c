/* histogram_test.c — every value has a bucket, and the stated error holds. */
#include "base/histogram.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

/* A number of random magnitude: a random number of low bits. */
static uint64_t any_magnitude(rng *rng) { return rng_next(rng) >> rng_below(rng, 64); }

static void buckets_follow_the_values(void **state) {
    assert_int_equal(histogram_bucket(0), 0);
    for (uint64_t value = 0; value < 64; value++) assert_int_equal(histogram_bucket(value), value);
    assert_int_equal(histogram_bucket(65), 64);
    assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
    for (int bit = 6; bit < 64; bit++) { /* a power of two begins a new bucket */
        uint64_t power = UINT64_C(1) << bit;
        assert_int_equal(histogram_bucket(power), histogram_bucket(power - 1) + 1);
        assert_int_equal(histogram_bucket(power), (unsigned)(bit - 4) * 32);
    }
    rng rng;
    rng_init(&rng, 1);
    for (int i = 0; i < 100000; i++) {
        uint64_t a = any_magnitude(&rng), b = any_magnitude(&rng);
        if (a > b) assert_true(histogram_bucket(a) >= histogram_bucket(b));
        assert_true(histogram_bucket(a) < HISTOGRAM_BUCKETS);
    }
}

static void assert_near(uint64_t got, uint64_t exact) {
    uint64_t off = got > exact ? got - exact : exact - got;
    assert_true(off <= exact / HISTOGRAM_ERROR_INVERSE);
}

static void one_value_is_found_again_within_the_error(void **state) {
    histogram *histogram = xcalloc(1, sizeof *histogram);
    rng rng;
    rng_init(&rng, 2);
    for (int i = 0; i < 1000; i++) {
        uint64_t value = i == 0 ? UINT64_MAX : any_magnitude(&rng);
        memset(histogram, 0, sizeof *histogram);
        histogram_record(histogram, value);
        for (double share = 0; share <= 1; share += 0.5) assert_near(histogram_quantile(histogram, share), value);
        assert_true(histogram_sum(histogram) == value);
    }
    free(histogram);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

enum { COUNT = 5000 };

static void fill(rng *rng, int shape, uint64_t *values) {
    for (int i = 0; i < COUNT; i++) {
        if (shape == 0) values[i] = any_magnitude(rng);
        if (shape == 1) values[i] = rng_below(rng, 1000000);                                 /* uniform */
        if (shape == 2) values[i] = (uint64_t)(-1000 * log(1 - rng_unit(rng)));              /* exponential */
        if (shape == 3) values[i] = rng_chance(rng, 0.99) ? 100 : 1000000 + (uint64_t)i * 7; /* bimodal */
        if (shape == 4) values[i] = rng_below(rng, 40);                                      /* exact buckets */
    }
}

static void quantiles_are_within_the_error(void **state) {
    const double shares[] = {0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1};
    static uint64_t values[COUNT];
    rng rng;
    rng_init(&rng, 3);
    for (int shape = 0; shape < 5; shape++) {
        histogram *histogram = xcalloc(1, sizeof *histogram);
        uint64_t sum = 0;
        fill(&rng, shape, values);
        for (int i = 0; i < COUNT; i++) {
            histogram_record(histogram, values[i]);
            sum += values[i];
        }
        qsort(values, COUNT, sizeof *values, compare);
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
            double rank = ceil(shares[i] * COUNT);
            uint64_t exact = values[rank < 1 ? 0 : (size_t)rank - 1];
            assert_near(histogram_quantile(histogram, shares[i]), exact);
        }
        assert_int_equal(histogram_count(histogram), COUNT);
        assert_true(histogram_sum(histogram) == sum);
        free(histogram);
    }
}

static void an_empty_one_gives_zeros(void **state) {
    histogram *histogram = xcalloc(1, sizeof *histogram);
    assert_int_equal(histogram_count(histogram), 0);
    assert_int_equal(histogram_sum(histogram), 0);
    for (double share = 0; share <= 1; share += 0.25) assert_int_equal(histogram_quantile(histogram, share), 0);
    free(histogram);
}

static void merged_is_as_recorded_together(void **state) {
    histogram *parts[3], *merged = xcalloc(1, sizeof *merged), *together = xcalloc(1, sizeof *together);
    rng rng;
    rng_init(&rng, 4);
    for (int i = 0; i < 3; i++) parts[i] = xcalloc(1, sizeof **parts);
    for (int i = 0; i < 3000; i++) {
        uint64_t value = any_magnitude(&rng);
        histogram_record(parts[i % 3], value);
        histogram_record(together, value);
    }
    histogram_record(merged, 5); /* merging adds and does not replace */
    histogram_record(together, 5);
    for (int i = 0; i < 3; i++) {
        uint64_t before = histogram_count(parts[i]);
        histogram_merge(merged, parts[i]);
        assert_int_equal(histogram_count(parts[i]), before);
    }
    assert_memory_equal(merged, together, sizeof *merged);
    for (int i = 0; i < 3; i++) free(parts[i]);
    free(merged), free(together);
}

static void octaves_count_by_bits(void **state) {
    histogram *histogram = xcalloc(1, sizeof *histogram);
    uint64_t expected[HISTOGRAM_OCTAVES] = {0}, counts[HISTOGRAM_OCTAVES];
    rng rng;
    rng_init(&rng, 5);
    for (int i = 0; i < 5000; i++) {
        uint64_t value = i == 0 ? 0 : i == 1 ? UINT64_MAX : any_magnitude(&rng);
        int bits = 0;
        while (bits < 64 && value >> bits != 0) bits++;
        expected[bits]++;
        histogram_record(histogram, value);
    }
    histogram_octaves(histogram, counts);
    assert_memory_equal(counts, expected, sizeof counts);
    free(histogram);
}

enum { THREADS = 4, RECORDS = 20000 };

static void *records_often(void *histogram) {
    for (uint64_t i = 0; i < RECORDS; i++) histogram_record(histogram, i);
    return NULL;
}

static void no_record_of_any_thread_is_lost(void **state) {
    histogram *histogram = xcalloc(1, sizeof *histogram);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, records_often, histogram), 0);
    for (int i = 0; i < 20; i++) assert_true(histogram_quantile(histogram, 1) < 2 * RECORDS);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(histogram_count(histogram), THREADS * RECORDS);
    assert_int_equal(histogram_sum(histogram), (uint64_t)THREADS * RECORDS * (RECORDS - 1) / 2);
    free(histogram);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_follow_the_values),       cmocka_unit_test(one_value_is_found_again_within_the_error),
        cmocka_unit_test(quantiles_are_within_the_error),  cmocka_unit_test(an_empty_one_gives_zeros),
        cmocka_unit_test(merged_is_as_recorded_together),  cmocka_unit_test(octaves_count_by_bits),
        cmocka_unit_test(no_record_of_any_thread_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
