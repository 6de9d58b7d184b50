/* gpus_test.c — numbers for what the scheduler counts. */
#include "runtime/gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_text(gpu_share share, const char *text) {
    char is[GPUS_TEXT_MAX];
    gpu_share_text(share, is);
    assert_string_equal(is, text);
}

static void whole_ones_are_given_to_one(void **state) {
    gpus gpus;
    gpus_init(&gpus, 4000);
    gpu_share first = gpus_take(&gpus, 1000), two = gpus_take(&gpus, 2000);
    assert_text(first, "0");
    assert_text(two, "1,2");
    gpus_give(&gpus, first);
    assert_text(gpus_take(&gpus, 2000), "0,3");
    gpus_give(&gpus, two);
    assert_text(gpus_take(&gpus, 1000), "1");
}

static void fractions_share_one(void **state) {
    gpus gpus;
    gpus_init(&gpus, 2000);
    gpu_share half = gpus_take(&gpus, 500);
    assert_text(half, "0");
    assert_text(gpus_take(&gpus, 500), "0");
    assert_text(gpus_take(&gpus, 250), "1"); /* the first is full */
    gpus_give(&gpus, half);
    assert_text(gpus_take(&gpus, 250), "0"); /* the fuller of the two */
}

static void too_much_overlaps(void **state) {
    gpus gpus;
    gpus_init(&gpus, 2000);
    gpu_share all = gpus_take(&gpus, 2000), more = gpus_take(&gpus, 1000);
    assert_text(all, "0,1");
    assert_text(more, "0");
    assert_text(gpus_take(&gpus, 100), "1");
    gpus_give(&gpus, all);
    gpus_give(&gpus, more);
    assert_int_equal(gpus.used[0], 0);
    assert_text(gpus_take(&gpus, 9000), "0,1"); /* there are no more */
}

static void none_are_none(void **state) {
    gpus gpus;
    gpus_init(&gpus, 0);
    assert_text(gpus_take(&gpus, 1000), "");
    gpus_init(&gpus, 1500);
    assert_int_equal(gpus.count, 2);
    assert_text(gpus_take(&gpus, 0), "");
    gpus_init(&gpus, INT64_C(1000) * 1000);
    assert_int_equal(gpus.count, GPUS_MAX);
    gpu_share all = gpus_take(&gpus, INT64_C(1000) * 1000);
    char text[GPUS_TEXT_MAX];
    gpu_share_text(all, text);
    assert_int_equal(all.devices, UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_ones_are_given_to_one),
        cmocka_unit_test(fractions_share_one),
        cmocka_unit_test(too_much_overlaps),
        cmocka_unit_test(none_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
