/* epoch_result_test.c — averages of the results of several workers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "tests/support/exact_value.h"
#include "train/epoch_result.h"

enum { WORKERS_MAX = 4 };

#define MAP(...) mr_map((mr_arg[]){__VA_ARGS__}, sizeof((mr_arg[]){__VA_ARGS__}) / sizeof(mr_arg) / 2)

/* Asserts that the average as JSON is `expected`; NULL: that it fails. */
static void check(const char *expected, const mr_arg *args, size_t count) {
    exact_value value[WORKERS_MAX];
    value_doc docs[WORKERS_MAX];
    mr_value values[WORKERS_MAX];
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pack(&args[i], SIZE_MAX, &value[i]), MR_OK);
        assert_int_equal(exact_value_open(&value[i], &docs[i], &values[i]), MR_OK);
    }
    report report;
    report_init(&report);
    mr_arg average;
    mr_status status = epoch_result_average(&report, values, count, &average);
    if (expected == NULL) {
        assert_int_equal(status, MR_INVALID);
    } else {
        char *json;
        assert_int_equal(status, MR_OK);
        assert_int_equal(mr_inspect_json(average, &json), MR_OK);
        assert_string_equal(json, expected);
        free(json);
    }
    report_fini(&report);
    for (size_t i = 0; i < count; i++) {
        value_close(&docs[i]);
        exact_value_fini(&value[i]);
    }
}

#define CHECK(expected, ...) check(expected, (mr_arg[]){__VA_ARGS__}, sizeof((mr_arg[]){__VA_ARGS__}) / sizeof(mr_arg))

static void numbers_are_averaged(void **state) {
    CHECK("{\"loss\":2,\"samples\":100.5}", MAP(mr_str("loss"), mr_float(1), mr_str("samples"), mr_int(100)),
          MAP(mr_str("loss"), mr_float(3), mr_str("samples"), mr_int(101)));
    CHECK("{\"loss\":1.5}", MAP(mr_str("loss"), mr_float(1.5)));
    CHECK("{\"by\":{\"\":2}}", MAP(mr_str("by"), MAP(mr_str(""), mr_int(1))),
          MAP(mr_str("by"), MAP(mr_str(""), mr_int(3))));
}

static void anything_else_is_the_first_workers(void **state) {
    mr_arg list[] = {mr_int(1), mr_int(2)};
    float pair[] = {1, 2};
    CHECK("{\"name\":\"a\",\"done\":true,\"list\":[1,2]}",
          MAP(mr_str("name"), mr_str("a"), mr_str("done"), mr_bool(true), mr_str("list"), mr_list(list, 2)),
          MAP(mr_str("name"), mr_str("b"), mr_str("done"), mr_bool(false), mr_str("list"), mr_list(list, 1)));
    CHECK("{\"x\":\"text\"}", MAP(mr_str("x"), mr_str("text")), MAP(mr_str("x"), mr_int(1)));
    CHECK("{\"x\":1}", MAP(mr_str("x"), mr_int(1)), MAP(mr_str("x"), mr_str("text")));
    CHECK("{\"x\":\"tensor\"}", MAP(mr_str("x"), mr_vector(pair, 2)), MAP(mr_str("x"), mr_vector(pair, 2)));
}

static void a_field_that_is_missing_is_left_out(void **state) {
    CHECK("{\"a\":1,\"b\":3,\"c\":7}", MAP(mr_str("a"), mr_int(1)), MAP(mr_str("b"), mr_int(2)),
          MAP(mr_str("b"), mr_int(4), mr_str("c"), mr_int(7)));
    CHECK("{\"a\":2}", mr_nil(), MAP(mr_str("a"), mr_int(1)), MAP(mr_str("a"), mr_int(3)));
    CHECK("{}", mr_nil(), mr_nil());
}

static void maps_are_averaged_inside(void **state) {
    CHECK("{\"by\":{\"cat\":2,\"dog\":5}}", MAP(mr_str("by"), MAP(mr_str("cat"), mr_int(1))),
          MAP(mr_str("by"), MAP(mr_str("cat"), mr_int(3), mr_str("dog"), mr_int(5))), MAP(mr_str("by"), mr_int(3)));
}

static void a_tensor_of_one_item_is_a_number(void **state) {
    const double d = 1;
    const float f = 2;
    const uint16_t fp16 = 0x4200, bf16 = 0x4080; /* 3 and 4 */
    const int64_t one = 1;
    const uint8_t yes = 1;
    CHECK("{\"x\":2.5}", MAP(mr_str("x"), mr_tensor_of(MR_F64, &d, 0, NULL)),
          MAP(mr_str("x"), mr_tensor_of(MR_F32, &f, 1, &one)), MAP(mr_str("x"), mr_tensor_of(MR_F16, &fp16, 0, NULL)),
          MAP(mr_str("x"), mr_tensor_of(MR_BF16, &bf16, 0, NULL)));
    CHECK("{\"x\":\"tensor\"}", MAP(mr_str("x"), mr_tensor_of(MR_BOOL, &yes, 0, NULL)));
}

static void nan_is_not_hidden(void **state) {
    CHECK("{\"loss\":null}", MAP(mr_str("loss"), mr_float(1)), MAP(mr_str("loss"), mr_float(NAN)));
}

static void a_result_that_is_no_map_is_refused(void **state) {
    CHECK(NULL, MAP(mr_str("a"), mr_int(1)), mr_float(0.5));
    assert_non_null(strstr(mr_last_error(), "worker 1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_averaged),
        cmocka_unit_test(anything_else_is_the_first_workers),
        cmocka_unit_test(a_field_that_is_missing_is_left_out),
        cmocka_unit_test(maps_are_averaged_inside),
        cmocka_unit_test(a_tensor_of_one_item_is_a_number),
        cmocka_unit_test(nan_is_not_hidden),
        cmocka_unit_test(a_result_that_is_no_map_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
