/* dtype_convert_test.c — conversions have the bits of half.h, for every pair of dtypes and at every length. */
#include "net/dtype_convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"

enum { COUNT = 1337 };

static const mr_dtype dtypes[] = {MR_F32, MR_F16, MR_BF16};

static float value_of(mr_dtype dtype, const void *values, size_t i) {
    if (dtype == MR_F32) return ((const float *)values)[i];
    uint16_t half = ((const uint16_t *)values)[i];
    return dtype == MR_F16 ? half_from_fp16(half) : half_from_bf16(half);
}

static float rounded(mr_dtype dtype, float value) {
    if (dtype == MR_F32) return value;
    return dtype == MR_F16 ? half_from_fp16(half_to_fp16(value)) : half_from_bf16(half_to_bf16(value));
}

/* Values of many magnitudes, infinities among them. */
static void fill(mr_dtype dtype, void *out) {
    for (size_t i = 0; i < COUNT; i++) {
        float value = i % 100 == 99 ? INFINITY : ldexpf(1 + (float)(i * 7919 % 1024) / 1024, (int)(i % 60) - 30);
        if (i % 3 == 0) value = -value;
        if (dtype == MR_F32)
            ((float *)out)[i] = value;
        else
            ((uint16_t *)out)[i] = dtype == MR_F16 ? half_to_fp16(value) : half_to_bf16(value);
    }
}

static void every_pair_rounds_to_the_nearest(void **state) {
    float from[COUNT], to[COUNT];
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            for (size_t count = 0; count <= COUNT; count = count * 2 + 1) {
                fill(dtypes[a], from);
                memset(to, 0xee, sizeof to);
                dtype_convert(dtypes[a], from, dtypes[b], count, to);
                for (size_t i = 0; i < count; i++)
                    assert_true(value_of(dtypes[b], to, i) == rounded(dtypes[b], value_of(dtypes[a], from, i)));
                size_t item = mr_dtype_size(dtypes[b]);
                if (count < COUNT) assert_int_equal(((const uint8_t *)to)[count * item], 0xee);
            }
}

static void a_precision_rounds_on_the_way(void **state) {
    float from[COUNT], to[COUNT];
    for (int a = 0; a < 3; a++)
        for (int p = 0; p < 3; p++)
            for (int b = 0; b < 3; b++) {
                fill(dtypes[a], from);
                dtype_convert_rounded(dtypes[a], from, dtypes[p], dtypes[b], COUNT, to);
                for (size_t i = 0; i < COUNT; i++) {
                    float value = rounded(dtypes[p], value_of(dtypes[a], from, i));
                    assert_true(value_of(dtypes[b], to, i) == rounded(dtypes[b], value));
                }
            }
}

static void counters_are_copied(void **state) {
    const int64_t from[] = {INT64_MAX, -1};
    int64_t to[2];
    dtype_convert(MR_I64, from, MR_I64, 2, to);
    assert_memory_equal(from, to, sizeof to);
    assert_true(dtype_convert_fits(MR_I64, MR_I64) && dtype_convert_fits(MR_BF16, MR_F16));
    assert_false(dtype_convert_fits(MR_I64, MR_F32));
    assert_false(dtype_convert_fits(MR_F32, MR_I64));
    assert_false(dtype_convert_fits(MR_F32, MR_F64));
    assert_false(dtype_convert_fits(MR_F32, (mr_dtype)99));
    assert_int_equal(dtype_convert_stored(MR_I64), MR_I64);
    assert_int_equal(dtype_convert_stored(MR_BF16), MR_F32);
}

/* A value is infinite exactly if it is after the conversion. */
static void the_first_infinite_value_is_found(void **state) {
    static const float edges[] = {65504,           65519.99f,        65520,       -65520,     3.3e38f,
                                  0x1.fep127f,     0x1.feffffp127f,  0x1.ffp127f, 2e38f,      0,
                                  0x1.fffffep127f, -0x1.fffffep127f, 0x1.0p-140f, -65519.99f, 1};
    for (int b = 0; b < 3; b++)
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
            for (size_t at = 0; at < COUNT; at += 211) {
                float values[COUNT] = {0};
                values[at] = edges[i];
                bool finite = isfinite(rounded(dtypes[b], edges[i])) != 0;
                assert_int_equal(dtype_convert_first_infinite(MR_F32, values, dtypes[b], COUNT), finite ? COUNT : at);
            }
    float values[COUNT] = {0};
    values[7] = NAN;
    values[9] = -INFINITY;
    assert_int_equal(dtype_convert_first_infinite(MR_F32, values, MR_F32, COUNT), 7);
    assert_int_equal(dtype_convert_first_infinite(MR_F32, values, MR_F32, 7), 7);
    assert_int_equal(dtype_convert_first_infinite(MR_F32, values + 8, MR_BF16, COUNT - 8), 1);
    const uint16_t halves[] = {half_to_bf16(1), half_to_bf16(70000), half_to_bf16(INFINITY)};
    assert_int_equal(dtype_convert_first_infinite(MR_BF16, halves, MR_F16, 3), 1); /* too large for fp16 */
    assert_int_equal(dtype_convert_first_infinite(MR_BF16, halves, MR_F32, 3), 2);
    assert_int_equal(dtype_convert_first_infinite(MR_I64, values, MR_I64, 3), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_rounds_to_the_nearest),
        cmocka_unit_test(a_precision_rounds_on_the_way),
        cmocka_unit_test(counters_are_copied),
        cmocka_unit_test(the_first_infinite_value_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
