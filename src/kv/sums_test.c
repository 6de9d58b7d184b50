/* sums_test.c — values that are sums: of any length, in the order given, and unmoved by what makes no sense. */
#include "kv/sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_values(const void *values, const float *expected, size_t count) {
    float out[8];
    assert_int_equal(sums_ops.size(values), count * sizeof(float));
    sums_ops.write(values, out);
    assert_memory_equal(out, expected, count * sizeof(float));
}

static void pushes_are_added_and_make_a_slot_longer(void **state) {
    void *values = sums_ops.create(NULL, 3, false);
    assert_values(values, (const float[]){0}, 1);
    sums_ops.apply(values, span_of((const float[]){1, 2, 3}, 12), 1);
    assert_values(values, (const float[]){1, 2, 3}, 3);
    sums_ops.apply(values, span_of((const float[]){10}, 4), 1);
    assert_values(values, (const float[]){11, 2, 3}, 3);
    sums_ops.apply(values, span_of("abc", 3), 1);
    sums_ops.apply(values, (span){0}, 1);
    assert_values(values, (const float[]){11, 2, 3}, 3);
    sums_ops.destroy(values);
}

static size_t sum(const span *payloads, size_t count, uint8_t *out) {
    void *sum = sums_ops.sum_begin(NULL, 3);
    for (size_t i = 0; i < count; i++) sums_ops.sum_add(sum, payloads[i]);
    size_t size = sums_ops.sum_size(sum);
    sums_ops.sum_write(sum, out);
    sums_ops.sum_end(sum);
    return size;
}

static void rounds_are_summed_in_the_order_given(void **state) {
    uint8_t bytes[1 + 8], out[1 + 8]; /* payloads and sums lie anywhere */
    memcpy(bytes + 1, (const float[]){1e8f, 1}, 8);
    const span a = span_of(bytes + 1, 8), b = span_of((const float[]){1}, 4), c = span_of((const float[]){-1e8f}, 4);
    const span there[] = {a, b, c, span_of("abc", 3)}, other[] = {a, c, b};
    float total[2];
    assert_int_equal(sum(there, 4, out + 1), 8);
    memcpy(total, out + 1, 8);
    assert_true(total[0] == 0 && total[1] == 1);
    assert_int_equal(sum(other, 3, out + 1), 8);
    memcpy(total, out + 1, 8);
    assert_true(total[0] == 1 && total[1] == 1);
    assert_int_equal(sum(NULL, 0, NULL), 0);
}

static void values_come_back_as_they_went(void **state) {
    void *values = sums_ops.create(NULL, 1, false);
    assert_true(sums_ops.read(values, span_of((const float[]){5, 6}, 8)));
    assert_false(sums_ops.read(values, span_of("abc", 3)));
    assert_false(sums_ops.read(values, (span){0}));
    assert_values(values, (const float[]){5, 6}, 2);
    sums_ops.destroy(values);
}

static void assert_shows(void *values, bool kept, const float *expected, size_t count) {
    bale *bale = sums_ops.show(values, (span){0}, kept);
    assert_int_equal(bale_bytes(bale).size, count * sizeof *expected);
    assert_memory_equal(bale_bytes(bale).data, expected, count * sizeof *expected);
    bale_unref(bale);
}

static void what_was_before_is_kept_and_goes_along(void **state) {
    void *values = sums_ops.create(NULL, 1, true), *other = sums_ops.create(NULL, 1, true);
    uint8_t bytes[64];
    sums_ops.apply(values, span_of((const float[]){5, 6}, 8), 1);
    sums_ops.apply(values, span_of((const float[]){1, 1, 1}, 12), 2);
    assert_shows(values, false, (const float[]){6, 7, 1}, 3);
    assert_shows(values, true, (const float[]){5, 6}, 2);
    assert_true(sums_ops.size(values) <= sizeof bytes);
    sums_ops.write(values, bytes);
    assert_true(sums_ops.read(other, span_of(bytes, sums_ops.size(values))));
    assert_false(sums_ops.read(other, span_of(bytes, 3)));
    assert_false(sums_ops.read(other, span_of(bytes, 12))); /* what was before, and nothing */
    assert_shows(other, false, (const float[]){6, 7, 1}, 3);
    assert_shows(other, true, (const float[]){5, 6}, 2);
    sums_ops.apply(other, (span){0}, 3); /* nothing is changed: that is what is kept now */
    assert_shows(other, true, (const float[]){6, 7, 1}, 3);
    sums_ops.destroy(values);
    sums_ops.destroy(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_are_added_and_make_a_slot_longer),
        cmocka_unit_test(rounds_are_summed_in_the_order_given),
        cmocka_unit_test(values_come_back_as_they_went),
        cmocka_unit_test(what_was_before_is_kept_and_goes_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
