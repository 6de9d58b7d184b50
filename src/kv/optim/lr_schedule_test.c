/* lr_schedule_test.c — rates of all schedules by step. */
#include "kv/optim/lr_schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void close_to(float rate, double expected) {
    if (fabs((double)rate - expected) > 1e-7 * fabs(expected) + 1e-12)
        fail_msg("%.9g, not %.9g", (double)rate, expected);
}

static void rates_follow_their_formulas(void **state) {
    const lr_schedule constant = {LR_SCHEDULE_CONSTANT, .rate = 0.1};
    const lr_schedule steps = {LR_SCHEDULE_STEP, .rate = 0.1, .warmup = 5, .every = 10, .factor = 0.5};
    const lr_schedule cosine = {LR_SCHEDULE_COSINE, .rate = 0.1, .warmup = 10, .steps = 110, .end = 0.01};
    const lr_schedule line = {LR_SCHEDULE_POLYNOMIAL, .rate = 0.1, .steps = 100, .end = 0.02, .power = 1};
    const lr_schedule curve = {LR_SCHEDULE_POLYNOMIAL, .rate = 0.1, .steps = 100, .power = 2.5};
    for (uint64_t t = 0; t < 200; t++) {
        double p = t < 100 ? (double)t / 100 : 1, q = t < 10 ? 0 : t < 110 ? (double)(t - 10) / 100 : 1;
        close_to(lr_schedule_rate(&constant, t), 0.1);
        close_to(lr_schedule_rate(&steps, t),
                 t < 5 ? 0.1 * (double)(t + 1) / 5 : 0.1 * pow(0.5, (double)((t - 5) / 10)));
        close_to(lr_schedule_rate(&cosine, t),
                 t < 10 ? 0.1 * (double)(t + 1) / 10 : 0.01 + 0.09 * (1 + cos(3.14159265358979 * q)) / 2);
        close_to(lr_schedule_rate(&line, t), 0.02 + 0.08 * (1 - p));
        close_to(lr_schedule_rate(&curve, t), 0.1 * pow(1 - p, 2.5));
    }
    assert_true(lr_schedule_rate(&curve, UINT64_MAX) == 0 && lr_schedule_rate(&cosine, 110) == 0.01f);
}

static void the_bits_are_these(void **state) {
    const lr_schedule cosine = {LR_SCHEDULE_COSINE, .rate = 0.1, .steps = 7, .end = 0.01};
    const lr_schedule curve = {LR_SCHEDULE_POLYNOMIAL, .rate = 0.1, .steps = 7, .power = 2.5};
    assert_true(lr_schedule_rate(&cosine, 2) == 0x1.54339ep-4f && lr_schedule_rate(&curve, 2) == 0x1.613d7p-5f);
}

static void invalid_schedules_are_refused(void **state) {
    const lr_schedule wrong[] = {
        {LR_SCHEDULE_CONSTANT, .rate = 0},
        {LR_SCHEDULE_CONSTANT, .rate = NAN},
        {LR_SCHEDULE_CONSTANT, .rate = 1e300},
        {LR_SCHEDULE_STEP, .rate = 1, .every = 0, .factor = 0.5},
        {LR_SCHEDULE_STEP, .rate = 1, .every = 1, .factor = 2},
        {LR_SCHEDULE_COSINE, .rate = 1, .steps = 10, .warmup = 10},
        {LR_SCHEDULE_COSINE, .rate = 1, .steps = 10, .end = 2},
        {LR_SCHEDULE_POLYNOMIAL, .rate = 1, .steps = 10, .power = 0},
        {(lr_schedule_kind)9, .rate = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(lr_schedule_check(&wrong[i]), MR_INVALID);
    assert_int_equal(lr_schedule_check(&(lr_schedule){LR_SCHEDULE_COSINE, .rate = 1, .steps = 10, .end = 1}), MR_OK);
    assert_int_equal(lr_schedule_check(&(lr_schedule){LR_SCHEDULE_STEP, .rate = 1, .every = 1, .factor = 1}), MR_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_follow_their_formulas),
        cmocka_unit_test(the_bits_are_these),
        cmocka_unit_test(invalid_schedules_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
