/* half_test.c — all 65,536 halves, compared with plain arithmetic without bit operations. */
#include "base/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"

/* The value of the sixteen bits, by the definition. */
static double fp16_means(uint16_t half) {
    int exponent = (half >> 10) & 31, mantissa = half & 1023;
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25));
}

static void every_fp16_widens_to_what_it_means_and_comes_back(void **state) {
    for (uint32_t half = 0; half < 65536; half++) {
        double means = fp16_means((uint16_t)half);
        float wide = half_from_fp16((uint16_t)half);
        if (isnan(means)) {
            assert_true(isnan(wide));
            assert_true(isnan(half_from_fp16(half_to_fp16(wide))));
            continue;
        }
        assert_true((double)wide == means);
        assert_int_equal(half_to_fp16(wide), half); /* the sign of zero included */
    }
}

static void every_bf16_comes_back(void **state) {
    for (uint32_t half = 0; half < 65536; half++) {
        float wide = half_from_bf16((uint16_t)half);
        assert_int_equal(half_bits(wide), half << 16);
        if (isnan(wide))
            assert_true(isnan(half_from_bf16(half_to_bf16(wide))));
        else
            assert_int_equal(half_to_bf16(wide), half);
    }
}

/* Between two neighbours narrowing gives the nearer one; in the middle the even one. */
static void rounds_between(uint16_t low, double low_means, double high_means, uint16_t (*narrow)(float)) {
    double middle = (low_means + high_means) / 2;
    assert_true((double)(float)middle == middle); /* the test's own arithmetic is exact */
    assert_int_equal(narrow((float)middle), low % 2 == 0 ? low : low + 1);
    assert_int_equal(narrow(nextafterf((float)middle, -INFINITY)), low);
    assert_int_equal(narrow(nextafterf((float)middle, INFINITY)), low + 1);
}

static void narrowing_rounds_to_the_nearest_and_ties_to_even(void **state) {
    for (uint16_t half = 0; half < 0x7bff; half++)
        rounds_between(half, fp16_means(half), fp16_means((uint16_t)(half + 1)), half_to_fp16);
    for (uint16_t half = 0; half < 0x7f7f; half += 7)
        rounds_between(half, half_from_bf16(half), half_from_bf16((uint16_t)(half + 1)), half_to_bf16);
}

static void overflow_becomes_infinity(void **state) {
    assert_int_equal(half_to_fp16(65504), 0x7bff);
    assert_int_equal(half_to_fp16(65519), 0x7bff);
    assert_int_equal(half_to_fp16(65520), 0x7c00);
    assert_int_equal(half_to_fp16(-1e30f), 0xfc00);
    assert_int_equal(half_to_fp16(INFINITY), 0x7c00);
    assert_int_equal(half_to_bf16(3.4028235e38f), 0x7f80);
    assert_int_equal(half_to_bf16(-INFINITY), 0xff80);
}

static void a_nan_stays_one_whatever_its_bits(void **state) {
    rng rng;
    rng_init(&rng, 1);
    for (int i = 0; i < 10000; i++) {
        uint32_t bits = 0x7f800001 + (uint32_t)rng_below(&rng, 0x7ffffe);
        if (i % 2 == 0) bits |= 0x80000000;
        assert_true(isnan(half_from_fp16(half_to_fp16(half_value(bits)))));
        assert_true(isnan(half_from_bf16(half_to_bf16(half_value(bits)))));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fp16_widens_to_what_it_means_and_comes_back),
        cmocka_unit_test(every_bf16_comes_back),
        cmocka_unit_test(narrowing_rounds_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(overflow_becomes_infinity),
        cmocka_unit_test(a_nan_stays_one_whatever_its_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
