/* rng_test.c — fixed, unbiased numbers. Seeds are fixed, so no test fails by chance. */
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Results of the published algorithms, computed independently: a seed gives the same numbers on every machine and in
 * every version. */
static void a_seed_means_these_numbers(void **state) {
    const uint64_t of_0[] = {UINT64_C(0x99ec5f36cb75f2b4), UINT64_C(0xbf6e1f784956452a), UINT64_C(0x1a5f849d4933e6e0)};
    const uint64_t of_42[] = {UINT64_C(0x15780b2e0c2ec716), UINT64_C(0x6104d9866d113a7e), UINT64_C(0xae17533239e499a1)};
    rng zero, answer;
    rng_init(&zero, 0);
    rng_init(&answer, 42);
    for (int i = 0; i < 3; i++) {
        assert_true(rng_next(&zero) == of_0[i]);
        assert_true(rng_next(&answer) == of_42[i]);
    }
    for (int i = 3; i < 999; i++) rng_next(&zero), rng_next(&answer);
    assert_true(rng_next(&zero) == UINT64_C(0x7aac8c483a2edd2f));
    assert_true(rng_next(&answer) == UINT64_C(0x8de5848c61ab8968));
}

/* Pearson's chi-squared test of `counts` for a uniform distribution; the bound is more than five standard deviations
 * above the mean. */
static void assert_fair(const size_t *counts, size_t kinds, size_t draws) {
    double expected = (double)draws / (double)kinds, sum = 0;
    for (size_t i = 0; i < kinds; i++) sum += ((double)counts[i] - expected) * ((double)counts[i] - expected);
    double freedom = (double)kinds - 1;
    assert_true(sum / expected < freedom + 5 * sqrt(2 * freedom) + 5);
}

static void below_is_fair_and_below(void **state) {
    rng rng;
    rng_init(&rng, 7);
    for (size_t kinds = 1; kinds <= 64; kinds++) {
        size_t counts[64] = {0};
        for (int i = 0; i < 4000; i++) {
            uint64_t value = rng_below(&rng, kinds);
            assert_true(value < kinds);
            counts[value]++;
        }
        assert_fair(counts, kinds, 4000);
    }
    for (uint64_t bound = 1; bound != 0; bound <<= 1) assert_true(rng_below(&rng, bound) < bound);
    assert_true(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

/* With this bound a generator without rejection gives remainder 0 half of the time. */
static void below_is_fair_for_huge_bounds(void **state) {
    rng rng;
    rng_init(&rng, 8);
    size_t counts[3] = {0};
    for (int i = 0; i < 30000; i++) counts[rng_below(&rng, UINT64_C(3) << 62) % 3]++;
    assert_fair(counts, 3, 30000);
}

static void between_reaches_both_ends(void **state) {
    rng rng;
    rng_init(&rng, 9);
    size_t counts[7] = {0};
    for (int i = 0; i < 7000; i++) {
        int64_t value = rng_between(&rng, -3, 3);
        assert_true(value >= -3 && value <= 3);
        counts[value + 3]++;
    }
    assert_fair(counts, 7, 7000);
    assert_int_equal(rng_between(&rng, 5, 5), 5);
    int negative = 0;
    for (int i = 0; i < 1000; i++) negative += rng_between(&rng, INT64_MIN, INT64_MAX) < 0;
    assert_in_range(negative, 400, 600);
}

static void units_and_chances(void **state) {
    rng rng;
    rng_init(&rng, 10);
    size_t counts[10] = {0};
    int hits = 0;
    for (int i = 0; i < 10000; i++) {
        double unit = rng_unit(&rng);
        assert_true(unit >= 0 && unit < 1);
        counts[(int)(unit * 10)]++;
        hits += rng_chance(&rng, 0.25);
        assert_false(rng_chance(&rng, 0));
        assert_true(rng_chance(&rng, 1));
    }
    assert_fair(counts, 10, 10000);
    assert_in_range(hits, 2250, 2750);
}

static void shuffles_are_fair_and_lose_nothing(void **state) {
    rng rng;
    rng_init(&rng, 11);
    size_t counts[24] = {0};
    for (int round = 0; round < 24000; round++) {
        char items[4][3] = {"a0", "b1", "c2", "d3"}; /* three bytes each: not a power of two */
        rng_shuffle(&rng, items, 4, sizeof *items);
        int seen = 0, rank = 0;
        for (int i = 0; i < 4; i++) {
            int item = items[i][0] - 'a', smaller = 0;
            assert_int_equal(items[i][1], '0' + item);
            for (int j = i + 1; j < 4; j++) smaller += items[j][0] < items[i][0];
            rank = rank * (4 - i) + smaller;
            seen |= 1 << item;
        }
        assert_int_equal(seen, 15);
        counts[rank]++;
    }
    assert_fair(counts, 24, 24000);
    rng_shuffle(&rng, NULL, 0, 8);
}

static void fill_fills_exactly(void **state) {
    for (size_t size = 0; size < 40; size++) {
        uint8_t a[48], b[48];
        rng one, two;
        memset(a, 0xee, sizeof a);
        rng_init(&one, 12);
        rng_init(&two, 12);
        rng_fill(&one, a, size);
        rng_fill(&two, b, size);
        assert_memory_equal(a, b, size);
        for (size_t i = size; i < sizeof a; i++) assert_int_equal(a[i], 0xee);
        if (size >= 8) assert_true(memchr(a, 0xee, size) == NULL || memcmp(a, a + size / 2, size / 2) != 0);
    }
}

static void system_seeds_differ(void **state) {
    uint64_t seeds[16];
    for (size_t i = 0; i < 16; i++) {
        seeds[i] = rng_system_seed();
        for (size_t j = 0; j < i; j++) assert_true(seeds[i] != seeds[j]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_means_these_numbers),
        cmocka_unit_test(below_is_fair_and_below),
        cmocka_unit_test(below_is_fair_for_huge_bounds),
        cmocka_unit_test(between_reaches_both_ends),
        cmocka_unit_test(units_and_chances),
        cmocka_unit_test(shuffles_are_fair_and_lose_nothing),
        cmocka_unit_test(fill_fills_exactly),
        cmocka_unit_test(system_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
