/* dmlc_env_test.c — ps-lite's environment, and errors of malformed variables. */
#include "kv/dmlc_env.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_scheduler_is_where_they_say(void **state) {
    char address[DMLC_ADDRESS_MAX];
    unsetenv("DMLC_PS_ROOT_URI");
    assert_int_equal(dmlc_scheduler(address), MR_INVALID);
    assert_string_equal(mr_last_error(),
                        "no address of the scheduler is given, and DMLC_PS_ROOT_URI is not set: pass one, such as "
                        "tcp:127.0.0.1:9000, or set the variable");
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    unsetenv("DMLC_PS_ROOT_PORT");
    assert_int_equal(dmlc_scheduler(address), MR_INVALID);
    assert_string_equal(
        mr_last_error(),
        "DMLC_PS_ROOT_URI is '127.0.0.1', but DMLC_PS_ROOT_PORT is not set: set it to the scheduler's port");
    setenv("DMLC_PS_ROOT_PORT", "8000", 1);
    assert_int_equal(dmlc_scheduler(address), MR_OK);
    assert_string_equal(address, "tcp:127.0.0.1:8000");
    setenv("DMLC_PS_ROOT_URI", "::1", 1);
    assert_int_equal(dmlc_scheduler(address), MR_OK);
    assert_string_equal(address, "tcp:[::1]:8000");
    setenv("DMLC_PS_ROOT_URI", "localhost", 1);
    assert_int_equal(dmlc_scheduler(address), MR_OK);
    assert_string_equal(address, "tcp:127.0.0.1:8000");
    char long_name[80] = {0}; /* too long to be resolved */
    memset(long_name, 'a', sizeof long_name - 1);
    for (int i = 0; i < 2; i++) {
        setenv("DMLC_PS_ROOT_URI", i == 0 ? long_name : "", 1);
        assert_int_equal(dmlc_scheduler(address), MR_INVALID);
        assert_non_null(strstr(mr_last_error(), "which is not a host"));
    }
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    setenv("DMLC_PS_ROOT_PORT", "70000", 1);
    assert_int_equal(dmlc_scheduler(address), MR_INVALID);
}

static void an_explicit_scheduler_needs_no_variable(void **state) {
    char room[DMLC_ADDRESS_MAX];
    const char *named = "unix:here", *none = NULL;
    unsetenv("DMLC_PS_ROOT_URI");
    assert_int_equal(dmlc_default(&named, room), MR_OK);
    assert_string_equal(named, "unix:here");
    assert_int_equal(dmlc_default(&none, room), MR_INVALID);
    assert_null(none);
    setenv("DMLC_PS_ROOT_URI", "127.0.0.1", 1);
    setenv("DMLC_PS_ROOT_PORT", "8000", 1);
    assert_int_equal(dmlc_default(&none, room), MR_OK);
    assert_ptr_equal(none, room);
    assert_string_equal(none, "tcp:127.0.0.1:8000");
}

static void numbers_are_above_nothing(void **state) {
    static const char *const bad[] = {"", "0", "-1", "3x", " 3", "99999999999"};
    uint32_t number;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("DMLC_NUM_WORKER", bad[i], 1);
        assert_int_equal(dmlc_number("DMLC_NUM_WORKER", &number), MR_INVALID);
    }
    setenv("DMLC_NUM_WORKER", "12", 1);
    assert_int_equal(dmlc_number("DMLC_NUM_WORKER", &number), MR_OK);
    assert_int_equal(number, 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scheduler_is_where_they_say),
        cmocka_unit_test(an_explicit_scheduler_needs_no_variable),
        cmocka_unit_test(numbers_are_above_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
