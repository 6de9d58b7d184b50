/* progress_test.c — the line fits into the width and contains the most important parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "miniray/train.h"

static const mr_progress midway = {
    .epoch = 12,
    .epochs = 50,
    .done = 0,
    .workers = 4,
    .name = "loss",
    .value = 0.12345,
    .samples_s = 8231,
    .elapsed_s = 12,
    .report = {.epochs = 12,
               .syncs = 12,
               .failures = 1,
               .train_s = 9.7,
               .sync_s = 0.3,
               .slowest = 2,
               .slowest_s = 1.3,
               .fastest_s = 1},
};

static size_t columns(const char *line) { /* the line is UTF-8 without colours */
    size_t count = 0;
    for (; *line != '\0'; line++) count += (*line & 0xc0) != 0x80;
    return count;
}

static void everything_is_there_if_there_is_room(void **state) {
    char line[MR_PROGRESS_MAX];
    size_t size = mr_progress_line(&midway, 160, false, line);
    assert_int_equal(size, strlen(line));
    assert_string_equal(line, "epoch 13/50 ━━━━━━──────────────────  loss 0.1235  1 died  8.2 k samples/s  0:38 left  "
                              "sync 3 %  slowest 2 (1.3x)");
}

static void it_fits_whatever_the_width(void **state) {
    char line[MR_PROGRESS_MAX];
    for (size_t width = 0; width < 200; width++) {
        mr_progress_line(&midway, width, false, line);
        assert_true(columns(line) <= width);
        if (width >= 11) assert_int_equal(strncmp(line, "epoch 13/50", 11), 0);
    }
}

static void the_least_important_goes_first(void **state) {
    char line[MR_PROGRESS_MAX];
    mr_progress_line(&midway, 40, false, line);
    assert_non_null(strstr(line, "loss 0.1235  1 died"));
    assert_null(strstr(line, "slowest"));
}

static void colour_takes_no_columns(void **state) {
    char plain[MR_PROGRESS_MAX], coloured[MR_PROGRESS_MAX];
    mr_progress_line(&midway, 100, false, plain);
    mr_progress_line(&midway, 100, true, coloured);
    assert_null(strchr(plain, '\x1b'));
    assert_non_null(strstr(coloured, "\x1b[0m"));
    assert_int_equal(columns(coloured), columns(plain) + strlen("\x1b[32m\x1b[2m\x1b[0m"));
}

static void beginning_and_end(void **state) {
    char line[MR_PROGRESS_MAX];
    mr_progress first = {.epochs = 5, .workers = 2};
    mr_progress_line(&first, 80, false, line);
    assert_string_equal(line, "epoch 1/5 ────────────────────────");
    mr_progress last = midway;
    last.epoch = 50;
    last.elapsed_s = 3723;
    mr_progress_line(&last, 160, false, line);
    assert_non_null(strstr(line, "epoch 50/50"));
    assert_non_null(strstr(line, "1:02:03 in all"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_there_if_there_is_room),
        cmocka_unit_test(it_fits_whatever_the_width),
        cmocka_unit_test(the_least_important_goes_first),
        cmocka_unit_test(colour_takes_no_columns),
        cmocka_unit_test(beginning_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
