/* float_machine_test.c — the state machine of tests: order shows in the bits, and malformed input changes nothing. */
#include "sim/ps/float_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static span bytes_of(const double *values) { return span_of(values, FLOAT_MACHINE_WIDTH * sizeof *values); }

static void pushes_decay_and_add(void **state) {
    void *values = float_machine_ops.create(NULL, 3, false);
    double out[FLOAT_MACHINE_WIDTH];
    float_machine_ops.write(values, out);
    assert_true(out[0] == 2 && out[1] == 1.75);
    float_machine_ops.apply(values, bytes_of((const double[]){1, 2, 3}), 1);
    float_machine_ops.write(values, out);
    assert_true(out[0] == 2 * 0.9 + 1 && out[1] == 1.75 * 0.9 + 2);
    float_machine_ops.apply(values, span_of("abc", 3), 2);
    void *other = float_machine_ops.create(NULL, 3, false);
    float_machine_ops.apply(other, span_of((const double[]){1, 2, 3, 4, 5, 6}, 2 * sizeof out), 1); /* two pushes */
    float_machine_ops.apply(values, bytes_of((const double[]){4, 5, 6}), 2);
    assert_memory_equal(other, values, sizeof out);
    float_machine_ops.destroy(other);
    float_machine_ops.write(values, out);
    float_machine_ops.apply(values, span_of("abc", 3), 3);
    double again[FLOAT_MACHINE_WIDTH];
    float_machine_ops.write(values, again);
    assert_memory_equal(again, out, sizeof out);
    float_machine_ops.destroy(values);
}

static void assert_shows(void *values, span request, bool kept, const double *expected, size_t count) {
    shared_bytes *bytes = float_machine_ops.show(values, request, kept);
    assert_int_equal(shared_bytes_bytes(bytes).size, count * sizeof *expected);
    if (count != 0) assert_memory_equal(shared_bytes_bytes(bytes).data, expected, count * sizeof *expected);
    shared_bytes_unref(bytes);
}

static void what_is_asked_for_is_shown(void **state) {
    float_machine *values = float_machine_ops.create(NULL, 0, true);
    memcpy(values->values, (const double[]){5, 6, 7}, sizeof values->values);
    float_machine_ops.apply(values, bytes_of((const double[]){0, 0, 1}), 1);
    assert_shows(values, (span){0}, true, (const double[]){5, 6, 7}, 3);
    memcpy(values->values, (const double[]){1, 2, 3}, sizeof values->values);
    assert_shows(values, (span){0}, false, (const double[]){1, 2, 3}, 3);
    assert_shows(values, span_of("\2\0", 2), false, (const double[]){3, 1}, 2);
    assert_shows(values, span_of("\1", 1), true, (const double[]){6}, 1);
    assert_shows(values, bytes_of((const double[]){0, 9, -1}), false, (const double[]){2, 3}, 2); /* query by a push */
    assert_shows(values, span_of("\0\3", 2), false, NULL, 0);                                     /* no place 3 */
    assert_shows(values, span_of("\0\0\0\0", 4), false, NULL, 0);
    float_machine_ops.destroy(values);
}

static void sum(const span *payloads, size_t count, double out[FLOAT_MACHINE_WIDTH]) {
    void *sum = float_machine_ops.sum_begin(NULL);
    for (size_t i = 0; i < count; i++) float_machine_ops.sum_add(sum, payloads[i]);
    assert_int_equal(float_machine_ops.sum_size(sum), FLOAT_MACHINE_WIDTH * sizeof *out);
    float_machine_ops.sum_write(sum, out);
    float_machine_ops.sum_end(sum);
}

static void sums_are_in_the_order_given(void **state) {
    const double a[FLOAT_MACHINE_WIDTH] = {1e16, 1, 0}, b[FLOAT_MACHINE_WIDTH] = {1, 2, 0},
                 c[FLOAT_MACHINE_WIDTH] = {-1e16, 3, 0};
    const span there[] = {bytes_of(a), bytes_of(b), bytes_of(c)}, other[] = {bytes_of(a), bytes_of(c), bytes_of(b)};
    double one[FLOAT_MACHINE_WIDTH], two[FLOAT_MACHINE_WIDTH];
    sum(there, 3, one);
    sum(other, 3, two);
    assert_true(one[0] == 0 && two[0] == 1 && one[1] == 6 && two[1] == 6);
    sum(NULL, 0, one);
    assert_true(one[0] == 0 && one[1] == 0);
}

static void values_come_back_as_they_went(void **state) {
    void *values = float_machine_ops.create(NULL, 1, false), *other = float_machine_ops.create(NULL, 2, false);
    double out[FLOAT_MACHINE_WIDTH], back[FLOAT_MACHINE_WIDTH];
    float_machine_ops.write(values, out);
    assert_true(float_machine_ops.read(other, bytes_of(out)));
    assert_false(float_machine_ops.read(other, span_of(out, 5)));
    float_machine_ops.write(other, back);
    assert_memory_equal(back, out, sizeof out);
    float_machine_ops.destroy(values);
    float_machine_ops.destroy(other);
}

static void what_is_kept_goes_along(void **state) {
    void *values = float_machine_ops.create(NULL, 1, true), *other = float_machine_ops.create(NULL, 1, true);
    double before[FLOAT_MACHINE_WIDTH], out[2 * FLOAT_MACHINE_WIDTH];
    memcpy(before, ((const float_machine *)values)->values, sizeof before);
    float_machine_ops.apply(values, bytes_of((const double[]){1, 2, 3}), 1);
    assert_int_equal(float_machine_ops.size(values), sizeof out);
    float_machine_ops.write(values, out);
    assert_false(float_machine_ops.read(other, bytes_of(out))); /* half of a state */
    assert_true(float_machine_ops.read(other, span_of(out, sizeof out)));
    assert_shows(other, (span){0}, true, before, FLOAT_MACHINE_WIDTH);
    assert_shows(other, (span){0}, false, out, FLOAT_MACHINE_WIDTH);
    float_machine_ops.apply(other, span_of("abc", 3), 2); /* malformed: applies nothing, keeps the present numbers */
    assert_shows(other, (span){0}, true, out, FLOAT_MACHINE_WIDTH);
    float_machine_ops.destroy(values);
    float_machine_ops.destroy(other);
}

static void norms_are_added_up_in_the_order_of_slots(void **state) {
    float_machine_context context = {.measures = true};
    void *values = float_machine_ops.create(&context, 1, true), *silent = float_machine_ops.create(NULL, 1, true);
    const double sum[FLOAT_MACHINE_WIDTH] = {1, -2, 4};
    uint64_t none = 1, two = 1;
    while (float_machine_needs(1, none) != 0) none++;
    while (float_machine_needs(1, two) != 2) two++;
    assert_null(float_machine_ops.measure(values, bytes_of(sum), (span){0}, none));
    assert_null(float_machine_ops.measure(silent, bytes_of(sum), (span){0}, two));
    assert_null(float_machine_ops.measure(values, span_of("abc", 3), (span){0}, two));
    shared_bytes *part = float_machine_ops.measure(values, bytes_of(sum), (span){0}, two);
    double part_is, all_is, norms[2] = {0};
    memcpy(&part_is, shared_bytes_bytes(part).data, sizeof part_is);
    assert_true(part_is == 21);
    shared_bytes *all =
        float_machine_ops.combine(&context, (const span[]){shared_bytes_bytes(part), {0}, shared_bytes_bytes(part)}, 3);
    memcpy(&all_is, shared_bytes_bytes(all).data, sizeof all_is);
    assert_true(all_is == 42);
    norms[0] = 1;
    shared_bytes *second = float_machine_ops.measure(values, bytes_of(sum), span_of(norms, sizeof *norms), two);
    assert_non_null(second);
    assert_null(float_machine_ops.measure(values, bytes_of(sum), span_of(norms, sizeof norms), two));
    float_machine_ops.apply_normed(values, bytes_of(sum), span_of(norms, sizeof norms),
                                   two); /* first halved, then unchanged */
    float_machine_ops.apply(silent, bytes_of((const double[]){0.5, -1, 2}), two);
    assert_memory_equal(((float_machine *)values)->values, ((float_machine *)silent)->values,
                        FLOAT_MACHINE_WIDTH * sizeof(double));
    shared_bytes_unref(part);
    shared_bytes_unref(all);
    shared_bytes_unref(second);
    float_machine_ops.destroy(values);
    float_machine_ops.destroy(silent);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_decay_and_add),          cmocka_unit_test(sums_are_in_the_order_given),
        cmocka_unit_test(values_come_back_as_they_went), cmocka_unit_test(what_is_asked_for_is_shown),
        cmocka_unit_test(what_is_kept_goes_along),       cmocka_unit_test(norms_are_added_up_in_the_order_of_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
