/* json_test.c — the output is valid JSON for every input. */
#include "base/json.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

static void assert_buffer(buffer *buffer, const char *expected) {
    assert_int_equal(buffer_append(buffer, "", 1), MR_OK);
    assert_string_equal((const char *)buffer->data, expected);
    buffer_clear(buffer);
}

static void structures_nest(void **state) {
    buffer buffer = {.limit = 4096};
    json json = json_of(&buffer);
    json_object_begin(&json);
    json_key(&json, "empty");
    json_object_begin(&json);
    json_object_end(&json);
    json_key(&json, "list");
    json_array_begin(&json);
    json_int(&json, INT64_MIN);
    json_uint(&json, UINT64_MAX);
    json_array_begin(&json);
    json_array_end(&json);
    json_object_begin(&json);
    json_key(&json, "a");
    json_null(&json);
    json_key(&json, "b");
    json_bool(&json, true);
    json_object_end(&json);
    json_bool(&json, false);
    json_array_end(&json);
    json_key(&json, "t");
    json_string(&json, "x");
    json_object_end(&json);
    assert_int_equal(json_done(&json), MR_OK);
    assert_buffer(&buffer, "{\"empty\":{},\"list\":[-9223372036854775808,18446744073709551615,[],"
                           "{\"a\":null,\"b\":true},false],\"t\":\"x\"}");
    buffer_fini(&buffer);
}

static void siblings_begin_afresh(void **state) {
    buffer buffer = {.limit = 4096};
    json json = json_of(&buffer);
    json_array_begin(&json);
    for (int i = 1; i <= 2; i++) {
        json_array_begin(&json);
        json_int(&json, i);
        json_array_end(&json);
        json_object_begin(&json);
        json_key(&json, "k");
        json_int(&json, i);
        json_object_end(&json);
    }
    json_array_end(&json);
    assert_int_equal(json_done(&json), MR_OK);
    assert_buffer(&buffer, "[[1],{\"k\":1},[2],{\"k\":2}]");
    buffer_fini(&buffer);
}

static void a_document_is_put_behind_what_is_there(void **state) {
    buffer buffer = {.limit = 64};
    assert_int_equal(buffer_append(&buffer, "x=", 2), MR_OK);
    json json = json_of(&buffer);
    json_int(&json, 5);
    assert_int_equal(json_done(&json), MR_OK);
    assert_buffer(&buffer, "x=5");
    buffer_fini(&buffer);
}

static void depth_reaches_its_limit(void **state) {
    buffer buffer = {.limit = 4096};
    json json = json_of(&buffer);
    for (int i = 0; i < JSON_DEPTH_MAX; i++) json_array_begin(&json);
    for (int i = 0; i < JSON_DEPTH_MAX; i++) json_array_end(&json);
    assert_int_equal(json_done(&json), MR_OK);
    assert_int_equal(buffer.size, 2 * JSON_DEPTH_MAX);
    buffer_fini(&buffer);
}

static void check_text(const void *bytes, size_t size, const char *expected) {
    buffer buffer = {.limit = 4096};
    json json = json_of(&buffer);
    json_text(&json, span_of(bytes, size));
    assert_int_equal(json_done(&json), MR_OK);
    assert_buffer(&buffer, expected);
    buffer_fini(&buffer);
}

#define CHECK_TEXT(literal, expected) check_text(literal, sizeof(literal) - 1, "\"" expected "\"")
#define BAD                           "\xef\xbf\xbd"

static void text_is_escaped(void **state) {
    CHECK_TEXT("", "");
    CHECK_TEXT("plain / 'text'", "plain / 'text'");
    CHECK_TEXT("a\"b\\c", "a\\\"b\\\\c");
    CHECK_TEXT("\n\t\r\b\f", "\\n\\t\\r\\b\\f");
    CHECK_TEXT("\0\x01\x1f\x7f", "\\u0000\\u0001\\u001f\\u007f");
    CHECK_TEXT("\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0"); /* above ASCII; U+00A0 is no control */
    CHECK_TEXT("é€😀", "é€😀");
}

static void invalid_utf8_is_replaced(void **state) {
    CHECK_TEXT("\x80", BAD);
    CHECK_TEXT("a\xff"
               "b",
               "a" BAD "b");
    CHECK_TEXT("\xc3", BAD);                            /* truncated */
    CHECK_TEXT("\xe2\x82", BAD BAD);                    /* truncated */
    CHECK_TEXT("\xf0\x9f\x98", BAD BAD BAD);            /* truncated */
    CHECK_TEXT("\xc3(", BAD "(");                       /* the valid byte after it is kept */
    CHECK_TEXT("\xc0\x80", BAD BAD);                    /* overlong */
    CHECK_TEXT("\xc1\xbf", BAD BAD);                    /* overlong */
    CHECK_TEXT("\xe0\x9f\xbf", BAD BAD BAD);            /* overlong */
    CHECK_TEXT("\xe0\xa0\x80", "\xe0\xa0\x80");         /* the first that is not overlong */
    CHECK_TEXT("\xf0\x8f\xbf\xbf", BAD BAD BAD BAD);    /* overlong */
    CHECK_TEXT("\xf0\x90\x80\x80", "\xf0\x90\x80\x80"); /* the first that is not overlong */
    CHECK_TEXT("\xed\xa0\x80", BAD BAD BAD);            /* a surrogate */
    CHECK_TEXT("\xed\x9f\xbf", "\xed\x9f\xbf");         /* the last before the surrogates */
    CHECK_TEXT("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"); /* U+10FFFF */
    CHECK_TEXT("\xf4\x90\x80\x80", BAD BAD BAD BAD);    /* above U+10FFFF */
    CHECK_TEXT("\xf5\x80\x80\x80", BAD BAD BAD BAD);    /* above U+10FFFF */
    CHECK_TEXT("\xe2\x28\xa1", BAD "(" BAD);            /* wrong second byte */
    CHECK_TEXT("\xf0\x90\x28\xbc", BAD BAD "(" BAD);    /* wrong third byte */
    CHECK_TEXT("\xf0\x90\x8c\x28", BAD BAD BAD "(");    /* wrong fourth byte */
}

/* The bytes that would complete the character lie behind the text and are not part of it. */
static void a_character_that_the_text_cuts_is_replaced(void **state) {
    check_text("é", 1, "\"" BAD "\"");
    check_text("€", 2, "\"" BAD BAD "\"");
    check_text("😀", 3, "\"" BAD BAD BAD "\"");
}

/* The writer splits its output at any byte; characters must not be split there. */
static void long_text_stays_whole(void **state) {
    for (size_t shift = 0; shift < 8; shift++) {
        buffer buffer = {.limit = 1 << 16}, expected = {.limit = 1 << 16};
        char text[4000] = "", *at = text + sprintf(text, "%.*s", (int)shift, "12345678");
        while (at < text + sizeof text - 16) at = stpcpy(at, "😀\n€");
        json json = json_of(&buffer);
        json_string(&json, text);
        assert_int_equal(json_done(&json), MR_OK);
        assert_int_equal(buffer_append(&expected, "\"", 1), MR_OK);
        for (const char *c = text; *c != '\0'; c++)
            assert_int_equal(buffer_append(&expected, *c == '\n' ? "\\n" : c, *c == '\n' ? 2 : 1), MR_OK);
        assert_int_equal(buffer_append(&expected, "\"", 1), MR_OK);
        assert_int_equal(buffer.size, expected.size);
        assert_memory_equal(buffer.data, expected.data, expected.size);
        buffer_fini(&buffer);
        buffer_fini(&expected);
    }
}

static void escape_takes_what_fits(void **state) {
    uint8_t out[16];
    size_t taken;
    assert_int_equal(json_escape(span_of("ab\n€", 6), true, out, 4, &taken), 4);
    assert_int_equal(taken, 3);
    assert_memory_equal(out, "ab\\n", 4);
    assert_int_equal(json_escape(span_of("ab\n€", 6), true, out, 3, &taken), 2);
    assert_int_equal(taken, 2);
    assert_int_equal(json_escape(span_of("€", 3), true, out, 2, &taken), 0);
    assert_int_equal(taken, 0);
    assert_int_equal(json_escape(span_of("\xff", 1), true, out, 2, &taken), 0);
    assert_int_equal(json_escape(span_of(NULL, 0), true, out, 0, &taken), 0);
    assert_int_equal(json_escape(span_of("\"\\\x1b", 3), false, out, sizeof out, &taken), 8);
    assert_memory_equal(out, "\"\\\\u001b", 8);
}

static void check_double(double value, const char *expected) {
    char text[JSON_DOUBLE_MAX];
    assert_int_equal(json_double_text(value, text), strlen(expected));
    assert_string_equal(text, expected);
}

static void doubles_are_short_and_exact(void **state) {
    check_double(0, "0");
    check_double(-0.0, "-0");
    check_double(1, "1");
    check_double(0.1, "0.1");
    check_double(-2.5e-9, "-2.5e-09");
    check_double(1e100, "1e+100");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(DBL_MAX, "1.7976931348623157e+308");
    check_double(INFINITY, "null");
    check_double(-INFINITY, "null");
    check_double(NAN, "null");
    rng rng;
    rng_init(&rng, 3);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng_next(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        char text[JSON_DOUBLE_MAX];
        json_double_text(value, text);
        if (isfinite(value))
            assert_true(strtod(text, NULL) == value);
        else
            assert_string_equal(text, "null");
    }
}

/* Creates a C library locale with this decimal point (at most two bytes) in a directory. */
static void write_locale(const char *path, const char *point) {
    uint8_t file[50] = {0x14, 0x11, 0x03, 0x20, 6, 0, 0, 0,    0x20, 0, 0,   0,    0x22, 0,   0,  0,   0x22,
                        0,    0,    0,    0x24, 0, 0, 0, 0x28, 0,    0, 0,   0x2c, 0,    0,   0,  '.', 0,
                        0,    0,    ',',  0,    0, 0, 0, 0,    0,    0, 'U', 'T',  'F',  '-', '8'};
    memcpy(file + 0x20, point, strlen(point));
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(file, sizeof file, 1, stream), 1);
    assert_int_equal(fclose(stream), 0);
}

static int checks_locale(void *argument) {
    const char *const *folder_and_point = argument;
    setenv("LOCPATH", folder_and_point[0], 1);
    if (setlocale(LC_NUMERIC, "xx") == NULL) return 77;
    char text[JSON_DOUBLE_MAX];
    snprintf(text, sizeof text, "%g", 1.5);
    if (strstr(text, folder_and_point[1]) == NULL) return 77;
    json_double_text(1234.5, text);
    TEST_CHILD_CHECK(strcmp(text, "1234.5") == 0);
    json_double_text(-2.5e-9, text);
    TEST_CHILD_CHECK(strcmp(text, "-2.5e-09") == 0);
    return 0;
}

static void the_locale_changes_nothing(void **state) {
    const char *const points[] = {",", "\xd9\xab"};
    char folder[TEMP_DIR_FOLDER_MAX], inner[TEMP_DIR_FOLDER_MAX + 4], path[TEMP_DIR_FOLDER_MAX + 16];
    int codes[2];
    assert_true(temp_dir_folder(folder));
    snprintf(inner, sizeof inner, "%s/xx", folder);
    snprintf(path, sizeof path, "%s/LC_NUMERIC", inner);
    assert_int_equal(mkdir(inner, 0700), 0);
    for (int i = 0; i < 2; i++) {
        write_locale(path, points[i]);
        codes[i] = test_child_run(checks_locale, (const char *[]){folder, points[i]}, 60000);
    }
    unlink(path), rmdir(inner), rmdir(folder);
    if (codes[0] == 77 || codes[1] == 77) skip(); /* a C library with another file format */
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
}

static void write_sample(json *json) {
    json_object_begin(json);
    json_key(json, "key");
    json_array_begin(json);
    for (int i = 0; i < 100; i++) json_string(json, "some text");
    json_array_end(json);
    json_object_end(json);
}

static void a_full_buffer_is_told_once(void **state) {
    buffer whole = {.limit = 4096};
    json json = json_of(&whole);
    write_sample(&json);
    assert_int_equal(json_done(&json), MR_OK);
    for (size_t limit = 0; limit < whole.size; limit += 7) {
        buffer buffer = {.limit = limit};
        json = json_of(&buffer);
        write_sample(&json);
        assert_int_equal(json_done(&json), MR_TOO_LARGE);
        assert_true(buffer.size <= limit);
        assert_memory_equal(buffer.size == 0 ? whole.data : buffer.data, whole.data, buffer.size);
        buffer_fini(&buffer);
    }
    for (size_t nth = 1; nth <= 3; nth++) {
        buffer buffer = {.limit = 4096};
        alloc_fail_at(nth);
        json = json_of(&buffer);
        write_sample(&json);
        alloc_fail_at(0);
        assert_int_equal(json_done(&json), MR_NOMEM);
        buffer_fini(&buffer);
    }
    buffer_fini(&whole);
}

/* ---- Misuse ends the process. */

static void key_in_array(json *json) { json_array_begin(json), json_key(json, "k"); }
static void value_without_key(json *json) { json_object_begin(json), json_int(json, 1); }
static void key_after_key(json *json) { json_object_begin(json), json_key(json, "k"), json_key(json, "k"); }
static void end_after_key(json *json) { json_object_begin(json), json_key(json, "k"), json_object_end(json); }
static void wrong_end(json *json) { json_object_begin(json), json_array_end(json); }
static void end_of_nothing(json *json) { json_array_end(json); }
static void second_document(json *json) { json_int(json, 1), json_int(json, 2); }
static void too_deep(json *json) {
    for (int i = 0; i <= JSON_DEPTH_MAX; i++) json_array_begin(json);
}
static void not_ended(json *json) { json_array_begin(json), (void)!json_done(json); }
static void nothing_written(json *json) { (void)!json_done(json); }

static int quiet_fd;
typedef void misuse_fn(json *json);

static int misuses(void *argument) {
    dup2(quiet_fd, STDERR_FILENO);
    buffer buffer = {.limit = 4096};
    json json = json_of(&buffer);
    (*(misuse_fn **)argument)(&json);
    buffer_fini(&buffer);
    return 0;
}

static void misuse_is_a_bug(void **state) {
    misuse_fn *all[] = {key_in_array,   value_without_key, key_after_key, end_after_key, wrong_end,
                        end_of_nothing, second_document,   too_deep,      not_ended,     nothing_written};
    quiet_fd = memfd_create("stderr", MFD_CLOEXEC);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_int_equal(test_child_run(misuses, &all[i], 60000), -SIGABRT);
    close(quiet_fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structures_nest),
        cmocka_unit_test(siblings_begin_afresh),
        cmocka_unit_test(a_document_is_put_behind_what_is_there),
        cmocka_unit_test(depth_reaches_its_limit),
        cmocka_unit_test(text_is_escaped),
        cmocka_unit_test(invalid_utf8_is_replaced),
        cmocka_unit_test(a_character_that_the_text_cuts_is_replaced),
        cmocka_unit_test(long_text_stays_whole),
        cmocka_unit_test(escape_takes_what_fits),
        cmocka_unit_test(doubles_are_short_and_exact),
        cmocka_unit_test(the_locale_changes_nothing),
        cmocka_unit_test(a_full_buffer_is_told_once),
        cmocka_unit_test(misuse_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
