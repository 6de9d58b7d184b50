/* text_file_test.c — content of files, and numbers in their lines. */
#include "base/text_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void as_much_of_a_file_is_read_as_fits(void **state) {
    char path[] = "/tmp/text_file_test-XXXXXX", text[32];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_false(text_file_read(path, text, sizeof text));
    assert_int_equal(write(fd, "one\ntwo\n", 8), 8);
    assert_true(text_file_read(path, text, sizeof text));
    assert_string_equal(text, "one\ntwo\n");
    assert_true(text_file_read(path, text, 5));
    assert_string_equal(text, "one\n");
    close(fd);
    unlink(path);
    assert_false(text_file_read(path, text, sizeof text));
}

static void numbers_stand_behind_their_keys(void **state) {
    static const char text[] = "total_pages 1\npages 23\nname x\nlast 18446744073709551615";
    uint64_t number = 0;
    assert_true(text_file_number(text, "pages ", &number));
    assert_int_equal(number, 23);
    assert_true(text_file_number(text, "last ", &number));
    assert_true(number == UINT64_MAX);
    assert_true(text_file_number("42\n", "", &number));
    assert_int_equal(number, 42);
    assert_false(text_file_number(text, "name ", &number));
    assert_false(text_file_number(text, "age ", &number));
    assert_false(text_file_number("max\n", "", &number));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_much_of_a_file_is_read_as_fits),
        cmocka_unit_test(numbers_stand_behind_their_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
