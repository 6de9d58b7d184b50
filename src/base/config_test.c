/* config_test.c — valid and invalid option values, their results and their errors. */
#include "base/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/log.h"

/* ---- The table. */

static void the_table_is_sound(void **state) {
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const config_option *option = &config_options[i];
        config_value value;
        char text[CONFIG_TEXT_SIZE];
        assert_int_equal(config_parse(option, option->initial, &value), MR_OK);
        assert_string_equal(config_value_text(option, &value, text), option->initial); /* the shortest form */
        assert_true(option->least <= option->most);
        assert_int_equal(strncmp(option->variable, "MINIRAY_", 8), 0);
        for (const char *at = option->variable + 8, *name = option->name; *at != '\0' || *name != '\0'; at++, name++)
            assert_int_equal(*at, *name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
        assert_in_range(strlen(option->doc), 10, 100);
        assert_null(strchr(option->doc, '\n'));
        assert_int_equal(option->kind == CONFIG_CHOICE, option->choices[0] != '\0');
        for (size_t j = 0; j < i; j++) assert_string_not_equal(option->name, config_options[j].name);
    }
}

static void defaults_are_what_is_documented(void **state) {
    config config;
    assert_int_equal(config_load(NULL, NULL, &config), MR_OK);
    assert_int_equal(config.log_level, LOG_WARN);
    assert_false(config.log_json);
    assert_int_equal(config.arena_bytes, 0);
    assert_string_equal(config.spill_dir, "");
    assert_int_equal(config.spill_bytes_max, 0);
    assert_int_equal(config.ring_bytes, 16 << 10);
    assert_int_equal(config.ring_bytes_max, 4 << 20);
    assert_int_equal(config.spin_us, 20);
    for (size_t i = 0; i < CONFIG_COUNT; i++) assert_int_equal(config.source[i], CONFIG_FROM_DEFAULT);
}

/* ---- Values. */

#define OPTION(kind_, least_, most_, choices_) \
    (&(config_option){.name = "x", .kind = CONFIG_##kind_, .least = least_, .most = most_, .choices = choices_})

static const config_option *an_int, *some_bytes, *a_duration, *a_bool, *a_string, *a_choice;

static void assert_value(const config_option *option, const char *text, int64_t number, const char *back) {
    config_value value, again;
    char shown[CONFIG_TEXT_SIZE];
    assert_int_equal(config_parse(option, text, &value), MR_OK);
    assert_true(value.number == number);
    assert_string_equal(config_value_text(option, &value, shown), back);
    assert_int_equal(config_parse(option, shown, &again), MR_OK);
    assert_memory_equal(&value, &again, sizeof value);
}

static void assert_refused(const config_option *option, const char *const *texts) {
    for (; *texts != NULL; texts++) {
        config_value value, before;
        char allowed[CONFIG_TEXT_SIZE];
        memset(&value, 0x5a, sizeof value);
        before = value;
        error_clear();
        mr_status status = config_parse(option, *texts, &value);
        if (status != MR_INVALID) print_error("'%s' was taken\n", *texts);
        assert_int_equal(status, MR_INVALID);
        assert_memory_equal(&value, &before, sizeof value); /* set only on success */
        assert_non_null(strstr(mr_last_error(), "' is not allowed: expected "));
        assert_non_null(strstr(mr_last_error(), config_allowed_text(option, allowed)));
    }
}

#define REFUSED(option, ...) assert_refused(option, (const char *const[]){__VA_ARGS__, NULL})

static void ints_are_whole_and_in_range(void **state) {
    assert_value(an_int, "3", 3, "3");
    assert_value(an_int, "0007", 7, "7");
    assert_value(an_int, "1000", 1000, "1000");
    REFUSED(an_int, "", "2", "1001", "-5", "+5", " 5", "5 ", "5.0", "0x10", "5k", "five", "1e2", "٣",
            "9223372036854775808", "18446744073709551621", /* 2^64 + 5 */ "99999999999999999999999999999999");
}

static void bytes_have_suffixes(void **state) {
    assert_value(some_bytes, "0", 0, "0");
    assert_value(some_bytes, "1", 1, "1");
    assert_value(some_bytes, "1023", 1023, "1023");
    assert_value(some_bytes, "1024", 1024, "1k");
    assert_value(some_bytes, "1536", 1536, "1536");
    assert_value(some_bytes, "1024k", 1 << 20, "1M");
    assert_value(some_bytes, "3M", 3 << 20, "3M");
    assert_value(some_bytes, "16G", INT64_C(16) << 30, "16G");
    assert_value(some_bytes, "17179869184", INT64_C(16) << 30, "16G");
    REFUSED(some_bytes, "", "k", "1K", "1m", "1g", "1kB", "1 k", "1kk", "1T", "17G", "17179869185", "-1k", "1.5M",
            "9007199254740992k", "18014398509481985k", "8589934592G", "1s");
}

static void durations_have_units(void **state) {
    assert_value(a_duration, "0", 0, "0us");
    assert_value(a_duration, "0s", 0, "0us");
    assert_value(a_duration, "250", 250, "250us");
    assert_value(a_duration, "250us", 250, "250us");
    assert_value(a_duration, "1000us", 1000, "1ms");
    assert_value(a_duration, "1500ms", 1500000, "1500ms");
    assert_value(a_duration, "2000ms", 2000000, "2s");
    assert_value(a_duration, "10s", 10000000, "10s");
    REFUSED(a_duration, "", "s", "1S", "1m", "1min", "1 s", "11s", "10000001", "-1ms", "0.5s", "1k",
            "9223372036854775807s");
}

static void bools_have_four_spellings(void **state) {
    const char *const yes[] = {"true", "1", "yes", "on"}, *const no[] = {"false", "0", "no", "off"};
    for (int i = 0; i < 4; i++) {
        assert_value(a_bool, yes[i], 1, "true");
        assert_value(a_bool, no[i], 0, "false");
    }
    REFUSED(a_bool, "", "TRUE", "True", "t", "2", "01", " true", "true ", "truefalse");
}

static void strings_are_bounded_and_plain(void **state) {
    char longest[CONFIG_STRING_MAX + 2];
    memset(longest, 'x', sizeof longest);
    assert_value(a_string, "ab", 2, "ab");
    assert_value(a_string, "a b=c|d \"é\"", 12, "a b=c|d \"é\"");
    assert_value(a_string, "1234567890123456789012345678901234567890", 40, "1234567890123456789012345678901234567890");
    REFUSED(a_string, "", "a", "12345678901234567890123456789012345678901", "a\nb", "a\tb", "a\x1b[0m", "a\x7f");
    const config_option *long_one = OPTION(STRING, 0, CONFIG_STRING_MAX, "");
    longest[CONFIG_STRING_MAX + 1] = '\0';
    REFUSED(long_one, longest);
    REFUSED(OPTION(STRING, 0, 1000, ""), longest); /* the limit of the struct holds whatever the table allows */
    longest[CONFIG_STRING_MAX] = '\0';
    assert_value(long_one, longest, CONFIG_STRING_MAX, longest);
    assert_value(long_one, "", 0, "");
}

static void choices_are_exact(void **state) {
    assert_value(a_choice, "red", 0, "red");
    assert_value(a_choice, "green", 1, "green");
    assert_value(a_choice, "b", 2, "b");
    REFUSED(a_choice, "", "re", "reds", "green|b", "red|green", "|", "RED", "1", "b|", " b");
}

static void an_error_names_the_allowed_values(void **state) {
    char text[CONFIG_TEXT_SIZE];
    assert_string_equal(config_allowed_text(an_int, text), "a whole number from 3 to 1000");
    assert_string_equal(config_allowed_text(some_bytes, text), "bytes from 0 to 16G, such as 65536, 64k, 256M or 2G");
    assert_string_equal(config_allowed_text(a_duration, text), "a duration from 0us to 10s, such as 20us, 100ms or 2s");
    assert_non_null(strstr(config_allowed_text(a_bool, text), "true or false"));
    assert_string_equal(config_allowed_text(a_string, text), "text of 2 to 40 bytes without control characters");
    assert_string_equal(config_allowed_text(a_choice, text), "red, green or b");
    assert_string_equal(config_allowed_text(OPTION(CHOICE, 0, 0, "one"), text), "one");
}

static void errors_escape_the_typed_text(void **state) {
    config_value value;
    char text[1000];
    assert_int_equal(config_parse(an_int, "\x1b[31m\n\xff", &value), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "'\\u001b[31m\\n\xef\xbf\xbd' is not allowed"));
    memset(text, '7', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(config_parse(an_int, text, &value), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "7…' is not allowed: expected a whole number from 3 to 1000"));
}

/* ---- Loading. */

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_program_beats_the_environment_beats_the_default(void **state) {
    config config;
    assert_int_equal(config_load(LIST("spin_us=1ms", "spill_dir=none", "spin_us=2ms"),
                                 LIST("PATH=/bin", "MINIRAY_SPIN_US=3us", "MINIRAY_LOG_LEVEL=debug",
                                      "MINIRAY_LOG_JSON=on", "MINIRAY_LOG_LEVEL=error", "MINIRAY_ARENA_BYTES=1G"),
                                 &config),
                     MR_OK);
    assert_int_equal(config.spin_us, 2000); /* the later setting overrides */
    assert_string_equal(config.spill_dir, "none");
    assert_int_equal(config.log_level, LOG_DEBUG); /* the first of two variables, as for getenv */
    assert_true(config.log_json);
    assert_int_equal(config.arena_bytes, 1 << 30);
    assert_int_equal(config.source[CONFIG_AT_spin_us], CONFIG_FROM_PROGRAM);
    assert_int_equal(config.source[CONFIG_AT_spill_dir], CONFIG_FROM_PROGRAM);
    assert_int_equal(config.source[CONFIG_AT_log_level], CONFIG_FROM_ENVIRONMENT);
    assert_int_equal(config.source[CONFIG_AT_arena_bytes], CONFIG_FROM_ENVIRONMENT);
    assert_int_equal(config.source[CONFIG_AT_ring_bytes], CONFIG_FROM_DEFAULT);
}

static void every_option_can_be_set_both_ways(void **state) {
    for (size_t i = 0; i < CONFIG_COUNT; i++) {
        const config_option *option = &config_options[i];
        char text[CONFIG_TEXT_SIZE], setting[2 * CONFIG_TEXT_SIZE], variable[2 * CONFIG_TEXT_SIZE];
        config_value value = {.number = option->most};
        if (option->kind == CONFIG_BOOL || option->kind == CONFIG_CHOICE) value.number = 1;
        if (i == CONFIG_AT_ring_bytes) value.number = option->least;
        if (option->kind == CONFIG_STRING) value = (config_value){.number = 7, .text = "/folder"};
        config_value_text(option, &value, text);
        snprintf(setting, sizeof setting, "%s=%s", option->name, text);
        snprintf(variable, sizeof variable, "%s=%s", option->variable, text);
        config config;
        assert_int_equal(config_load(LIST(setting), NULL, &config), MR_OK);
        assert_true(config_get(&config, option).number == value.number);
        assert_int_equal(config.source[i], CONFIG_FROM_PROGRAM);
        assert_int_equal(config_load(NULL, LIST(variable), &config), MR_OK);
        assert_true(config_get(&config, option).number == value.number);
        assert_int_equal(config.source[i], CONFIG_FROM_ENVIRONMENT);
    }
}

static void assert_load_fails(const char *const *settings, const char *const *environment, const char *said) {
    config config, before;
    memset(&config, 0x5a, sizeof config);
    memcpy(&before, &config, sizeof config);
    assert_int_equal(config_load(settings, environment, &config), MR_INVALID);
    if (strcmp(mr_last_error(), said) != 0) print_error("said: %s\n", mr_last_error());
    assert_string_equal(mr_last_error(), said);
    assert_memory_equal(&config, &before, sizeof config);
}

static void errors_name_the_option_the_value_and_what_is_allowed(void **state) {
    assert_load_fails(NULL, LIST("MINIRAY_SPIN_US=fast"),
                      "MINIRAY_SPIN_US: 'fast' is not allowed: expected a duration from 0us to 1s, such as 20us, 100ms "
                      "or 2s");
    assert_load_fails(NULL, LIST("MINIRAY_LOG_LEVEL="),
                      "MINIRAY_LOG_LEVEL: '' is not allowed: expected error, warn, info or debug");
    assert_load_fails(
        LIST("log_json=maybe"), NULL,
        "option log_json: 'maybe' is not allowed: expected true or false (or 1 or 0, yes or no, on or off)");
    assert_load_fails(LIST("spinus=1"), NULL,
                      "unknown option 'spinus'; did you mean spin_us? `miniray config` lists all options");
    assert_load_fails(LIST("SPIN_US=1"), NULL,
                      "unknown option 'SPIN_US'; did you mean spin_us? `miniray config` lists all options");
    assert_load_fails(LIST("banana=1"), NULL, "unknown option 'banana'; `miniray config` lists all options");
    assert_load_fails(LIST("spill_folder=/tmp"), NULL, "spill_folder was renamed: use spill_dir");
    assert_load_fails(NULL, LIST("MINIRAY_SPILL_FOLDER=/tmp"),
                      "MINIRAY_SPILL_FOLDER was renamed: use MINIRAY_SPILL_DIR");
    assert_load_fails(LIST("spin_us"), NULL, "the option 'spin_us' has no value: expected name=value");
    assert_load_fails(LIST(""), NULL, "the option '' has no value: expected name=value");
    assert_load_fails(LIST("ring_bytes=8M"), NULL, "ring_bytes is 8388608, which exceeds ring_bytes_max (4194304)");
    /* A typing error in the environment is reported although the program's setting takes precedence. */
    assert_load_fails(LIST("log_level=info"), LIST("MINIRAY_LOG_LEVEL=loud"),
                      "MINIRAY_LOG_LEVEL: 'loud' is not allowed: expected error, warn, info or debug");
}

/* ---- Unknown variables. */

static const char *warnings_about(const char *const *environment) {
    static char text[8192];
    int fd = memfd_create("log", MFD_CLOEXEC);
    log_set_fd(fd);
    config_warn_unknown(environment);
    log_set_fd(STDERR_FILENO);
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    assert_true(size >= 0);
    text[size] = '\0';
    close(fd);
    return text;
}

static void unknown_variables_are_warned_about(void **state) {
    const char *text = warnings_about(LIST("MINIRAY_SPINUS=20", "MINIRAY_ARENA_SIZE=1G", "MINIRAY_LOGLEVEL"));
    assert_non_null(strstr(text, " WARN  base/config: environment variable MINIRAY_SPINUS is not an option of this "
                                 "version; did you mean MINIRAY_SPIN_US?"));
    assert_non_null(strstr(text, "environment variable MINIRAY_ARENA_SIZE is not an option"));
    assert_non_null(strstr(text, "did you mean MINIRAY_ARENA_BYTES?"));
    assert_non_null(strstr(text, "did you mean MINIRAY_LOG_LEVEL?"));
    assert_null(strstr(text, "=1G")); /* values may be secrets */
    assert_null(strstr(warnings_about(LIST("MINIRAY_BANANA=1")), "did you mean"));

    assert_string_equal(warnings_about(LIST("PATH=x", "MINIRA_X=1", "miniray_x=1", "XMINIRAY_Y=1",
                                            "MINIRAY_SPIN_US=bad", "MINIRAY_FAILPOINT=a=kill", "MINIRAY_TEST_BUILD=x",
                                            "MINIRAY_FULL_TRACEBACKS=1", "NOEQUALS")),
                        "");
    char longest[500];
    memset(longest, 'X', sizeof longest);
    memcpy(longest, "MINIRAY_", 8);
    longest[sizeof longest - 1] = '\0';
    assert_non_null(strstr(warnings_about(LIST(longest)), "XXX is not an option"));
}

static void apply_sets_the_log(void **state) {
    config config;
    assert_int_equal(config_load(LIST("log_level=error", "log_json=true"), NULL, &config), MR_OK);
    config_apply(&config);
    assert_int_equal(log_level_now, LOG_ERROR);
    int fd = memfd_create("log", MFD_CLOEXEC);
    log_set_fd(fd);
    log_error("x");
    log_set_fd(STDERR_FILENO);
    char first = 0;
    assert_int_equal(pread(fd, &first, 1, 0), 1);
    assert_int_equal(first, '{');
    close(fd);
    assert_int_equal(config_load(NULL, NULL, &config), MR_OK);
    config_apply(&config);
    assert_int_equal(log_level_now, LOG_WARN);
}

int main(void) {
    an_int = OPTION(INT, 3, 1000, "");
    some_bytes = OPTION(BYTES, 0, CONFIG_G(16), "");
    a_duration = OPTION(DURATION, 0, CONFIG_S(10), "");
    a_bool = OPTION(BOOL, 0, 0, "");
    a_string = OPTION(STRING, 2, 40, "");
    a_choice = OPTION(CHOICE, 0, 0, "red|green|b");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(defaults_are_what_is_documented),
        cmocka_unit_test(ints_are_whole_and_in_range),
        cmocka_unit_test(bytes_have_suffixes),
        cmocka_unit_test(durations_have_units),
        cmocka_unit_test(bools_have_four_spellings),
        cmocka_unit_test(strings_are_bounded_and_plain),
        cmocka_unit_test(choices_are_exact),
        cmocka_unit_test(an_error_names_the_allowed_values),
        cmocka_unit_test(errors_escape_the_typed_text),
        cmocka_unit_test(the_program_beats_the_environment_beats_the_default),
        cmocka_unit_test(every_option_can_be_set_both_ways),
        cmocka_unit_test(errors_name_the_option_the_value_and_what_is_allowed),
        cmocka_unit_test(unknown_variables_are_warned_about),
        cmocka_unit_test(apply_sets_the_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
