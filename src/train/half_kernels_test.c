/* half_kernels_test.c — the kernels of this machine give the same bits as the functions of half.h on each item. */
#include "train/half_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"

enum { ALL = 65536, WORKERS = 9, LENGTH = 2200 };

static const mr_dtype dtypes[] = {MR_F16, MR_BF16};

static float wide_of(mr_dtype dtype, uint16_t half) {
    return dtype == MR_F16 ? half_from_fp16(half) : half_from_bf16(half);
}

static uint16_t narrow_of(mr_dtype dtype, float wide) {
    return dtype == MR_F16 ? half_to_fp16(wide) : half_to_bf16(wide);
}

static void every_half_widens_and_narrows_to_the_same_bits(void **state) {
    static uint16_t halves[ALL], back[ALL];
    static float wide[ALL];
    for (size_t i = 0; i < ALL; i++) halves[i] = (uint16_t)i;
    for (size_t d = 0; d < 2; d++) {
        half_widen(dtypes[d], halves, wide, ALL);
        for (size_t i = 0; i < ALL; i++) {
            uint32_t quiet =
                isnan(wide[i]) ? 0x400000 : 0; /* the conversion instruction makes a NaN quiet, as arithmetic does */
            assert_int_equal(half_bits(wide[i]) | quiet, half_bits(wide_of(dtypes[d], halves[i])) | quiet);
        }
        half_narrow(dtypes[d], wide, back, ALL);
        for (size_t i = 0; i < ALL; i++) assert_int_equal(back[i], narrow_of(dtypes[d], wide[i]));
    }
}

static void floats_of_any_bits_narrow_as_they_do_alone(void **state) {
    static float wide[ALL];
    static uint16_t halves[ALL];
    rng rng;
    rng_init(&rng, 7);
    for (size_t i = 0; i < ALL; i++) wide[i] = half_value((uint32_t)rng_next(&rng));
    for (size_t i = 0; i < ALL / 2; i++)
        wide[i] = ldexpf(wide[i] != wide[i] ? 1 : wide[i] / 2,
                         -(int)(i % 32)); /* scaled down, partly into the subnormal range */
    for (size_t d = 0; d < 2; d++) {
        half_narrow(dtypes[d], wide, halves, ALL);
        for (size_t i = 0; i < ALL; i++) assert_int_equal(halves[i], narrow_of(dtypes[d], wide[i]));
    }
}

/* Compares one item with half.h. Of a NaN, sign and payload are not compared: they depend on the machine. */
static void assert_average(mr_dtype dtype, const uint16_t *const *rows, size_t workers, const uint16_t *got, size_t i) {
    float sum = wide_of(dtype, rows[0][i]);
    for (size_t w = 1; w < workers; w++) sum += wide_of(dtype, rows[w][i]);
    sum /= (float)workers;
    if (isnan(sum))
        assert_true(isnan(wide_of(dtype, got[i])));
    else
        assert_int_equal(got[i], narrow_of(dtype, sum));
}

static void an_average_has_the_bits_of_one_item_after_the_other(void **state) {
    static uint16_t memory[WORKERS][LENGTH + 1], out[LENGTH + 2];
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 1023, 1024, 1025, LENGTH};
    const uint16_t *rows[WORKERS];
    rng rng;
    rng_init(&rng, 11);
    for (size_t w = 0; w < WORKERS; w++) {
        rows[w] = memory[w] + w % 2; /* every second row is aligned to an item only */
        for (size_t i = 0; i <= LENGTH; i++) memory[w][i] = (uint16_t)rng_next(&rng);
    }
    for (size_t d = 0; d < 2; d++)
        for (size_t workers = 1; workers <= WORKERS; workers++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                out[counts[c] + 1] = 0xbeef;
                half_average(dtypes[d], rows, workers, out + 1, counts[c]);
                for (size_t i = 0; i < counts[c]; i++) assert_average(dtypes[d], rows, workers, out + 1, i);
                assert_int_equal(out[counts[c] + 1], 0xbeef); /* the items after the row are unchanged */
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_widens_and_narrows_to_the_same_bits),
        cmocka_unit_test(floats_of_any_bits_narrow_as_they_do_alone),
        cmocka_unit_test(an_average_has_the_bits_of_one_item_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
