/* gpus_test.c — assignment of device numbers, and CUDA_VISIBLE_DEVICES. */
#include "runtime/common/gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_text(const gpus *gpus, gpu_share share, const char *text) {
    char is[GPUS_TEXT_MAX];
    gpus_text(gpus, share, is);
    assert_string_equal(is, text);
}

static void whole_ones_are_given_to_one(void **state) {
    gpus gpus;
    gpus_init(&gpus, 4000, NULL);
    gpu_share first = gpus_take(&gpus, 1000), two = gpus_take(&gpus, 2000);
    assert_text(&gpus, first, "0");
    assert_text(&gpus, two, "1,2");
    gpus_give(&gpus, first);
    assert_text(&gpus, gpus_take(&gpus, 2000), "0,3");
    gpus_give(&gpus, two);
    assert_text(&gpus, gpus_take(&gpus, 1000), "1");
}

static void fractions_share_one(void **state) {
    gpus gpus;
    gpus_init(&gpus, 2000, NULL);
    gpu_share half = gpus_take(&gpus, 500);
    assert_text(&gpus, half, "0");
    assert_text(&gpus, gpus_take(&gpus, 500), "0");
    assert_text(&gpus, gpus_take(&gpus, 250), "1"); /* device 0 is full */
    gpus_give(&gpus, half);
    assert_text(&gpus, gpus_take(&gpus, 250), "0"); /* the fuller device */
}

static void too_much_overlaps(void **state) {
    gpus gpus;
    gpus_init(&gpus, 2000, NULL);
    gpu_share all = gpus_take(&gpus, 2000), more = gpus_take(&gpus, 1000);
    assert_text(&gpus, all, "0,1");
    assert_text(&gpus, more, "0");
    assert_text(&gpus, gpus_take(&gpus, 100), "1");
    gpus_give(&gpus, all);
    gpus_give(&gpus, more);
    assert_int_equal(gpus.used[0], 0);
    assert_text(&gpus, gpus_take(&gpus, 9000), "0,1"); /* there are two devices only */
}

static void none_are_none(void **state) {
    gpus gpus;
    gpus_init(&gpus, 0, NULL);
    assert_text(&gpus, gpus_take(&gpus, 1000), "");
    gpus_init(&gpus, 1500, NULL);
    assert_int_equal(gpus.count, 2);
    assert_text(&gpus, gpus_take(&gpus, 0), "");
    gpus_init(&gpus, INT64_C(1000) * 1000, NULL);
    assert_int_equal(gpus.count, GPUS_MAX);
    gpu_share all = gpus_take(&gpus, INT64_C(1000) * 1000);
    assert_int_equal(all.devices, UINT64_MAX);
}

/* CUDA_VISIBLE_DEVICES is read as CUDA reads it. */
static void those_that_are_shown(void **state) {
    gpus gpus;
    gpus_init(&gpus, 3000, "7,3 , GPU-12");
    assert_text(&gpus, gpus_take(&gpus, 3000), "7,3,GPU-12");
    gpus_init(&gpus, 5000, "4,1"); /* only the listed devices */
    assert_text(&gpus, gpus_take(&gpus, 5000), "4,1");
    gpus_init(&gpus, 1000, "4,1");
    assert_int_equal(gpus.count, 1);
    assert_int_equal(gpus_shown(NULL), GPUS_MAX);
    assert_int_equal(gpus_shown(""), 0);
    assert_int_equal(gpus_shown("NoDevFiles"), 0);
    assert_int_equal(gpus_shown("2,-1,3"), 1);
    assert_int_equal(gpus_shown("2,,3"), 1);
    assert_int_equal(gpus_shown("0123456789012345678901234567890123456789012345678"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_ones_are_given_to_one), cmocka_unit_test(fractions_share_one),
        cmocka_unit_test(too_much_overlaps),           cmocka_unit_test(none_are_none),
        cmocka_unit_test(those_that_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
