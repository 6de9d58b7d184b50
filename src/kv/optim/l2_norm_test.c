/* l2_norm_test.c — order of summation, clipping, trust ratio. */
#include "kv/optim/l2_norm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

/* Sum in the order that l2_norm.h defines, item by item. */
static double by_the_book(const float *values, size_t count) {
    double lanes[L2_NORM_LANES] = {0};
    for (size_t i = 0; i < count; i++) lanes[i % L2_NORM_LANES] += (double)values[i] * (double)values[i];
    double eights[8], fours[4];
    for (size_t k = 0; k < 8; k++) eights[k] = lanes[k] + lanes[k + 8];
    for (size_t k = 0; k < 4; k++) fours[k] = eights[k] + eights[k + 4];
    return (fours[0] + fours[2]) + (fours[1] + fours[3]);
}

static void squares_are_added_in_the_order_that_is_stated(void **state) {
    float values[1000];
    rng rng;
    rng_init(&rng, 1);
    for (size_t i = 0; i < 1000; i++) values[i] = (float)(rng_unit(&rng) * 1e3 * pow(10, (double)(i % 7)));
    for (size_t count = 0; count <= 1000; count += count < 40 ? 1 : 37)
        assert_true(l2_norm_squares(values, count) == by_the_book(values, count));
    assert_true(l2_norm_squares((float[]){3, 4}, 2) == 25);
}

static void gradients_are_clipped(void **state) {
    assert_true(l2_norm_clip(25, 10) == 1 && l2_norm_clip(25, 5) == 1 && l2_norm_clip(25, 2.5) == 0.5f &&
                l2_norm_clip(0, 1) == 1);
    assert_true(l2_norm_clip((double)NAN, 1) == 0 && l2_norm_clip((double)INFINITY, 1) == 0);
}

static void trust_is_the_ratio_or_one(void **state) {
    assert_true(l2_norm_trust(4, 16) == 0.5f && l2_norm_trust(0, 16) == 1 && l2_norm_trust(4, 0) == 1);
    assert_true(l2_norm_trust((double)NAN, 1) == 1 && l2_norm_trust(1, (double)INFINITY) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(squares_are_added_in_the_order_that_is_stated),
        cmocka_unit_test(gradients_are_clipped),
        cmocka_unit_test(trust_is_the_ratio_or_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
