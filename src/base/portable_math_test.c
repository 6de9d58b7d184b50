/* portable_math_test.c — comparison with the C library's functions, and exact bits that every machine must give. */
#include "base/portable_math.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"

static void close_to(double ours, double theirs) {
    double error = fabs(ours - theirs), scale = fabs(theirs) > 1e-300 ? fabs(theirs) : 1;
    if (error / scale > 1e-15) fail_msg("%.17g instead of %.17g", ours, theirs);
}

static void the_logarithm_is_right(void **state) {
    rng rng;
    rng_init(&rng, 1);
    for (int i = 0; i < 20000; i++) {
        double x = ldexp(1 + rng_unit(&rng), (int)rng_between(&rng, -1022, 1023));
        close_to(math_log(x), log(x));
    }
    for (int i = 1; i < 1000; i++) /* near 1, where the result is small */
        if (fabs(math_log(1 + i * 1e-6) - log(1 + i * 1e-6)) > 1e-18 + 4e-16 * i * 1e-6)
            fail_msg("1 + %d millionths", i);
    assert_true(math_log(1) == 0);
}

static void the_exponential_is_right(void **state) {
    rng rng;
    rng_init(&rng, 2);
    for (int i = 0; i < 20000; i++) {
        double x = rng_unit(&rng) * 1400 - 700;
        close_to(math_exp(x), exp(x));
        close_to(math_exp(x / 700), exp(x / 700));
    }
    assert_true(math_exp(0) == 1);
}

static void the_cosine_is_right(void **state) {
    for (int i = 0; i <= 10000; i++) {
        double x = i / 10000.0;
        if (fabs(math_cos_pi(x) - cos(3.14159265358979323846 * x)) > 4e-16) fail_msg("at %g", x);
    }
    assert_true(math_cos_pi(0) == 1 && math_cos_pi(0.5) == 0 && math_cos_pi(1) == -1);
}

static void powers_are_products(void **state) {
    assert_true(math_power(0.5, 0) == 1 && math_power(0, 0) == 1 && math_power(3, 5) == 243);
    for (unsigned n = 1; n < 5000; n += 7)
        if (fabs(math_power(0.999, n) / pow(0.999, n) - 1) > n * 0x1p-52) fail_msg("0.999^%u", n);
}

/* Values whose bits another compiler or machine would change first. */
static void the_bits_are_these(void **state) {
    assert_true(math_log(10) == 0x1.26bb1bbb55516p+1);
    assert_true(math_exp(1) == 0x1.5bf0a8b14576ap+1);
    assert_true(math_cos_pi(0.3) == 0x1.2cf2304755a5ep-1);
    assert_true(math_power(0.9, 1000) == 0x1.fee7413dac412p-153);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_logarithm_is_right), cmocka_unit_test(the_exponential_is_right),
        cmocka_unit_test(the_cosine_is_right),    cmocka_unit_test(powers_are_products),
        cmocka_unit_test(the_bits_are_these),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
