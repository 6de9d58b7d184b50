/* process_limit_test.c — limits on the number of processes. */
#include "runtime/common/process_limit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

static void the_text_names_the_limits(void **state) {
    char text[2 * PROCESS_LIMIT_TEXT_MAX], expected[64];
    struct rlimit before, less;
    assert_int_equal(getrlimit(RLIMIT_NPROC, &before), 0);
    less = before;
    less.rlim_cur = before.rlim_max < 4321 ? before.rlim_max : 4321;
    assert_int_equal(setrlimit(RLIMIT_NPROC, &less), 0);
    process_limit_text(EAGAIN, text, sizeof text);
    assert_int_equal(setrlimit(RLIMIT_NPROC, &before), 0);
    snprintf(expected, sizeof expected, "user %llu (ulimit -u)", (unsigned long long)less.rlim_cur);
    assert_non_null(strstr(text, expected));
    assert_non_null(strstr(text, "kernel.threads-max"));
    assert_null(strchr(text, '\n'));
    char small[20];
    process_limit_text(EAGAIN, small, sizeof small);
    assert_int_equal(strlen(small), sizeof small - 1);
}

/* Raising ulimit -u would not help. */
static void without_memory_the_text_names_the_memory(void **state) {
    char text[2 * PROCESS_LIMIT_TEXT_MAX];
    process_limit_text(ENOMEM, text, sizeof text);
    assert_non_null(strstr(text, "MB are available"));
    assert_null(strstr(text, "ulimit"));
    assert_null(strstr(text, "pids.max"));
    assert_null(strchr(text, '\n'));
}

static void other_errors_are_no_limit(void **state) {
    assert_true(process_limit_is(EAGAIN));
    assert_true(process_limit_is(ENOMEM));
    assert_false(process_limit_is(EPERM));
    assert_false(process_limit_is(ENOENT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_names_the_limits),
        cmocka_unit_test(without_memory_the_text_names_the_memory),
        cmocka_unit_test(other_errors_are_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
