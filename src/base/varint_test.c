/* varint_test.c — values read back; each has one encoding only. */
#include "base/varint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void numbers_come_back_as_they_went(void **state) {
    for (unsigned bit = 0; bit < 64; bit++)
        for (int less = 0; less < 2; less++) {
            uint64_t value = (UINT64_C(1) << bit) - (uint64_t)less;
            uint8_t bytes[VARINT_SIZE_MAX];
            writer writer = writer_of(bytes, sizeof bytes);
            writer_varint(&writer, value);
            assert_false(writer.failed);
            assert_int_equal(writer_size(&writer), varint_size(value));
            reader reader = reader_of(bytes, writer_size(&writer));
            assert_true(reader_varint(&reader) == value && !reader.failed && reader_left(&reader) == 0);
            reader = reader_of(bytes, writer_size(&writer) - 1); /* truncated */
            assert_true(reader_varint(&reader) == 0 && reader.failed);
        }
    assert_int_equal(varint_size(0), 1);
    assert_int_equal(varint_size(127), 1);
    assert_int_equal(varint_size(128), 2);
    assert_int_equal(varint_size(UINT64_MAX), VARINT_SIZE_MAX);
}

static void overlong_varints_are_refused(void **state) {
    static const struct {
        uint8_t bytes[11];
        size_t size;
    } bad[] = {
        {{0x80, 0x00}, 2},                                                        /* 0 in two bytes */
        {{0xff, 0x80, 0x00}, 3},                                                  /* 127 in three */
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, 10},       /* 65 bits */
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00}, 11}, /* 70 bits */
        {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, 11}, /* more than 70 bits */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        reader reader = reader_of(bad[i].bytes, bad[i].size);
        assert_true(reader_varint(&reader) == 0 && reader.failed);
    }
}

static void differences_of_either_sign_are_short(void **state) {
    static const uint64_t values[] = {0, 1, 5, 1000, UINT64_C(1) << 40, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            assert_true(varint_unfold(varint_fold(values[i], values[k]), values[k]) == values[i]);
    assert_int_equal(varint_fold(7, 7), 0);
    assert_int_equal(varint_fold(6, 7), 1);
    assert_int_equal(varint_fold(8, 7), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back_as_they_went),
        cmocka_unit_test(overlong_varints_are_refused),
        cmocka_unit_test(differences_of_either_sign_are_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
