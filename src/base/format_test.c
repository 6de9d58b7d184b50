/* format_test.c — format numbers are read from magics and texts, and an error names both numbers and the action. */
#include "base/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static uint64_t magic_of(const char *text) {
    uint64_t magic = 0;
    memcpy(&magic, text, strlen(text));
    return magic;
}

static void magics_end_with_their_number(void **state) {
    const uint64_t four = magic_of("DEP3"), eight = magic_of("MMDIARY1");
    assert_int_equal(format_of(four, four, 4), 3);
    assert_int_equal(format_of(magic_of("DEP9"), four, 4), 9);
    assert_int_equal(format_of(magic_of("DEP:"), four, 4), 10);
    assert_int_equal(format_of(magic_of("DEQ3"), four, 4), 0);
    assert_int_equal(format_of(magic_of("DEP!"), four, 4), 0);
    assert_int_equal(format_of(0, four, 4), 0);
    assert_int_equal(format_of(eight, eight, 8), 1);
    assert_int_equal(format_of(magic_of("MMDIARY2"), eight, 8), 2);
    assert_int_equal(format_of(magic_of("MMDIARZ1"), eight, 8), 0);
}

static void texts_end_with_their_number(void **state) {
    assert_int_equal(format_of_text("miniray slot 1", "miniray slot "), 1);
    assert_int_equal(format_of_text("miniray slot 12", "miniray slot "), 12);
    static const char *const none[] = {
        "",       "miniray slot",           "miniray slot ", "miniray slot x", "miniray slot 1x", "miniray slot -1",
        "slot 1", "miniray slot 4294967296"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(format_of_text(none[i], "miniray slot "), 0);
    assert_int_equal(format_of_text(NULL, "miniray slot "), 0);
}

static void another_number_is_rejected_with_both(void **state) {
    assert_int_equal(format_reject("the file 'x'", 9, 3, FORMAT_USE_WRITER), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "the file 'x' has format 9; this version reads format 3: use the Miniray "
                                         "release that wrote it");
}

static void a_seal_is_the_sum_of_all_before_it(void **state) {
    uint8_t file[13] = "hello";
    assert_false(format_is_sealed(span_of(file, sizeof file)));
    uint64_t sum = format_sum(span_of(file, 5));
    memcpy(file + 5, &sum, sizeof sum);
    assert_true(format_is_sealed(span_of(file, sizeof file)));
    file[0] ^= 1;
    assert_false(format_is_sealed(span_of(file, sizeof file)));
    assert_false(format_is_sealed(span_of(file, 7)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(magics_end_with_their_number),
        cmocka_unit_test(texts_end_with_their_number),
        cmocka_unit_test(another_number_is_rejected_with_both),
        cmocka_unit_test(a_seal_is_the_sum_of_all_before_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
