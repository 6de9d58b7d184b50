/* value_utf8_test.c — every code point and every kind of broken sequence. */
#include "net/value_utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t encode(uint32_t point, uint8_t out[4]) {
    if (point < 0x80) return out[0] = (uint8_t)point, 1;
    if (point < 0x800) return out[0] = (uint8_t)(0xc0 | point >> 6), out[1] = (uint8_t)(0x80 | (point & 0x3f)), 2;
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xe0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (point & 0x3f));
    return 4;
}

static void every_code_point(void **state) {
    uint8_t bytes[4];
    for (uint32_t point = 0; point < 0x200000; point++) {
        bool allowed = point < 0x110000 && (point < 0xd800 || point > 0xdfff);
        size_t size = encode(point, bytes);
        if (value_utf8_valid(span_of(bytes, size)) != allowed) fail_msg("U+%X", point);
    }
}

static bool valid(const char *text) {
    size_t size = strlen(text);
    char *copy = malloc(size + 1); /* an exact copy, one byte longer */
    memcpy(copy, text, size);
    bool answer = value_utf8_valid(span_of(copy, size));
    free(copy);
    return answer;
}

static void broken_sequences(void **state) {
    static const char *const broken[] = {
        "\x80",                 /* begins with a continuation byte */
        "\xc0\xaf",             /* overlong */
        "\xc1\xbf",             /* overlong */
        "\xe0\x80\xaf",         /* overlong */
        "\xf0\x80\x80\xaf",     /* overlong */
        "\xed\xa0\x80",         /* a surrogate */
        "\xf4\x90\x80\x80",     /* above U+10FFFF */
        "\xf5\x80\x80\x80",     /* above U+10FFFF */
        "\xff",                 /* not a UTF-8 byte */
        "12345678\xc3",         /* truncated */
        "1234567\xe2\x82",      /* truncated */
        "\xf0\x9f\x98",         /* truncated */
        "\xc3(",                /* no continuation byte */
        "\xe2\x82(",            /* no continuation byte */
        "12345678abcdefg\x80h", /* after ASCII */
    };
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        if (valid(broken[i])) fail_msg("text %zu passes", i);
    assert_true(valid(""));
    assert_true(valid("plain"));
    assert_true(valid("12345678 gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac \xf0\x9f\x98\x80 12345678"));
    assert_true(value_utf8_valid(span_of("a\0b", 3)));
    assert_true(value_utf8_valid(span_of(NULL, 0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_code_point), cmocka_unit_test(broken_sequences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
