/* elide_test.c — what is kept of texts of every length, in rooms of every size. */
#include "base/elide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_text_that_fits_is_whole(void **state) {
    char out[16];
    for (size_t length = 0; length < sizeof out; length++) {
        memset(out, '#', sizeof out);
        assert_int_equal(elide("abcdefghijklmno", length, out, length + 1), length);
        assert_memory_equal(out, "abcdefghijklmno", length);
        assert_int_equal(out[length], '\0');
    }
    assert_int_equal(elide("abc", 3, out, 0), 0);
}

static void the_begin_and_the_end_are_kept(void **state) {
    char text[1000], out[200];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
    for (size_t size = 1; size < sizeof out; size++) {
        memset(out, '#', sizeof out);
        assert_int_equal(elide(text, sizeof text, out, size), size - 1);
        assert_int_equal(out[size - 1], '\0');
        assert_int_equal(out[size], '#');
        const char *mark = strstr(out, " ... ");
        size_t begin = mark == NULL ? size - 1 : (size_t)(mark - out), end = mark == NULL ? 0 : strlen(mark + 5);
        assert_true((mark != NULL) == (size > 40));
        assert_true(mark == NULL || end >= (size - 1) / 2);
        assert_memory_equal(out, text, begin);
        assert_memory_equal(out + size - 1 - end, text + sizeof text - end, end);
    }
}

/* Two bytes a character: every cut is between two characters. */
static void characters_stay_whole(void **state) {
    char text[401] = "", out[120];
    for (size_t i = 0; i < sizeof text - 1; i += 2) memcpy(text + i, "\xc3\xa4", 2);
    for (size_t size = 1; size < sizeof out; size++) {
        size_t length = elide(text, strlen(text), out, size);
        assert_in_range(length + 3, size, size + 2); /* a byte is lost at each cut, at most */
        for (size_t at = 0; at < length;) {
            bool mark = strncmp(out + at, " ... ", 5) == 0;
            assert_true(mark || memcmp(out + at, "\xc3\xa4", 2) == 0);
            at += mark ? 5 : 2;
        }
    }
}

/* As an error that passes through ever more tasks. */
static void the_end_survives_any_number_of_cuts(void **state) {
    static const char cause[] =
        "task 'divide' in worker process 4711: division by zero in row 17 of the table 'prices'";
    char text[512], longer[1024];
    snprintf(text, sizeof text, "%s", cause);
    for (int level = 5000; level > 0; level--) {
        int length = snprintf(longer, sizeof longer, "task 'nest' in worker process %d: %s", level, text);
        elide(longer, (size_t)length, text, sizeof text);
    }
    assert_memory_equal(text, "task 'nest' in worker process 1: task 'nest' in worker process 2: ", 66);
    assert_string_equal(text + strlen(text) - strlen(cause), cause);
    const char *mark = strstr(text, " ... ");
    assert_non_null(mark);
    assert_null(strstr(mark + 1, " ... "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_fits_is_whole),
        cmocka_unit_test(the_begin_and_the_end_are_kept),
        cmocka_unit_test(characters_stay_whole),
        cmocka_unit_test(the_end_survives_any_number_of_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
