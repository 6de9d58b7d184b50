/* assert_test.c — a failed assertion ends the process and prints its place. */
#include "base/assert.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/test_child.h"

static int quiet_fd; /* receives the children's stderr */

static int breaks_a_promise(void *argument) {
    dup2(quiet_fd, STDERR_FILENO);
    int two = 2;
    MR_ASSERT(two == 3);
    return 0;
}

static int reaches_the_unreachable(void *argument) {
    dup2(quiet_fd, STDERR_FILENO);
    MR_UNREACHABLE();
}

static int keeps_a_promise(void *argument) {
    int evaluated = 0;
    MR_ASSERT(++evaluated == 1);
    return evaluated == 1 ? 0 : 1;
}

static void check_death(test_child_fn *fn, const char *said) {
    quiet_fd = memfd_create("stderr", MFD_CLOEXEC);
    assert_int_equal(test_child_run(fn, NULL, 60000), -SIGABRT);
    char text[1024] = "";
    assert_true(pread(quiet_fd, text, sizeof text - 1, 0) > 0);
    close(quiet_fd);
    assert_non_null(strstr(text, said));
    assert_non_null(strstr(text, "assert_test.c:"));
    assert_non_null(strstr(text, "report"));
}

static void a_broken_promise_ends_the_process(void **state) {
    check_death(breaks_a_promise, "in breaks_a_promise: two == 3 does not hold");
}

static void the_unreachable_ends_the_process(void **state) {
    check_death(reaches_the_unreachable, "this line is never reached");
}

static void a_kept_promise_is_evaluated_once(void **state) {
    assert_int_equal(test_child_run(keeps_a_promise, NULL, 60000), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_promise_ends_the_process),
        cmocka_unit_test(the_unreachable_ends_the_process),
        cmocka_unit_test(a_kept_promise_is_evaluated_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
