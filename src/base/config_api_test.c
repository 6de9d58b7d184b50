/* config_api_test.c — the public list of options. */
#include "miniray/admin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/config.h"

static int clear_environment(void **state) { return clearenv(); }

typedef struct seen {
    size_t count;
    const char *wanted; /* name of the option to look for */
    char value[64], source[16], initial[64];
} seen;

static void see(void *argument, const mr_config_option *option) {
    seen *seen = argument;
    assert_string_equal(option->name, config_options[seen->count].name);
    assert_string_equal(option->variable, config_options[seen->count].variable);
    assert_string_equal(option->doc, config_options[seen->count].doc);
    assert_true(strlen(option->allowed) > 3);
    seen->count++;
    if (strcmp(option->name, seen->wanted) != 0) return;
    strcpy(seen->value, option->value);
    strcpy(seen->source, option->source);
    strcpy(seen->initial, option->initial);
}

static void each_option_comes_once_and_tells_its_source(void **state) {
    const char *const settings[] = {"spin_us=5000", NULL};
    setenv("MINIRAY_ARENA_BYTES", "1024M", 1);
    seen seen = {.wanted = "spin_us"};
    assert_int_equal(mr_config_each(settings, see, &seen), MR_OK);
    assert_int_equal(seen.count, CONFIG_COUNT);
    assert_string_equal(seen.value, "5ms");
    assert_string_equal(seen.source, "program");
    assert_string_equal(seen.initial, "20us");
    seen = (struct seen){.wanted = "arena_bytes"};
    assert_int_equal(mr_config_each(NULL, see, &seen), MR_OK);
    assert_string_equal(seen.value, "1G");
    assert_string_equal(seen.source, "environment");
    seen = (struct seen){.wanted = "log_level"};
    assert_int_equal(mr_config_each(NULL, see, &seen), MR_OK);
    assert_string_equal(seen.value, "warn");
    assert_string_equal(seen.source, "default");
}

static void nothing_is_called_on_an_error(void **state) {
    setenv("MINIRAY_SPIN_US", "x", 1);
    seen seen = {.wanted = ""};
    char *text = NULL;
    assert_int_equal(mr_config_each(NULL, see, &seen), MR_INVALID);
    assert_int_equal(seen.count, 0);
    assert_int_equal(mr_config_json(NULL, &text), MR_INVALID);
    assert_null(text);
    assert_non_null(strstr(mr_last_error(), "MINIRAY_SPIN_US: 'x'"));
}

static void json_has_numbers_as_numbers(void **state) {
    const char *const settings[] = {"spin_us=5ms", "log_json=yes", "log_level=info", NULL};
    char *text = NULL;
    assert_int_equal(mr_config_json(settings, &text), MR_OK);
    assert_int_equal(text[0], '{');
    assert_int_equal(text[strlen(text) - 1], '}');
    assert_non_null(strstr(text, "\"spin_us\":{\"variable\":\"MINIRAY_SPIN_US\",\"value\":5000,\"source\":\"program\","
                                 "\"default\":20,\"allowed\":\"a duration from 0us to 1s, such as"));
    assert_non_null(strstr(text, "\"value\":true,\"source\":\"program\",\"default\":false"));
    assert_non_null(strstr(text, "\"value\":\"info\",\"source\":\"program\",\"default\":\"warn\""));
    assert_non_null(strstr(text, "\"value\":16384,\"source\":\"default\",\"default\":16384"));
    free(text);
}

static void failing_allocations_give_a_status(void **state) {
    char *text = NULL;
    mr_status status = MR_NOMEM;
    size_t nth;
    for (nth = 1; status == MR_NOMEM; nth++) {
        alloc_fail_at(nth);
        status = mr_config_json(NULL, &text);
        alloc_fail_at(0);
        if (status == MR_NOMEM) assert_null(text);
    }
    assert_int_equal(status, MR_OK);
    assert_true(nth > 3);
    free(text);
}

#define TEST(name) cmocka_unit_test_setup(name, clear_environment)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(each_option_comes_once_and_tells_its_source),
        TEST(nothing_is_called_on_an_error),
        TEST(json_has_numbers_as_numbers),
        TEST(failing_allocations_give_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
