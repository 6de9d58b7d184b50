/* value_check_test.c — bytes that are no value are refused, and the text names the fault and its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/support/exact_value.h"

static int nibble(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

/* Converts hex text such as "c4 03 616263" to bytes. */
static size_t from_hex(const char *hex, uint8_t *out) {
    size_t size = 0;
    for (; *hex != '\0'; hex++)
        if (*hex != ' ') out[size++] = (uint8_t)(nibble(hex[0]) << 4 | nibble(hex[1])), hex++;
    return size;
}

static mr_status open_hex(const char *hex, const char **text) {
    uint8_t bytes[600];
    size_t size = from_hex(hex, bytes);
    exact_value value = pack_raw(bytes, size);
    value_doc doc;
    mr_value root;
    error_clear();
    mr_status status = exact_value_open(&value, &doc, &root);
    if (status == MR_OK) {
        (void)value_digest(&root); /* all items can be read */
        value_close(&doc);
    }
    exact_value_fini(&value);
    *text = mr_last_error();
    return status;
}

static void refused(const char *hex, const char *expected) {
    const char *text;
    assert_int_equal(open_hex(hex, &text), MR_CORRUPT);
    assert_string_equal(text, expected);
}

static void accepted(const char *hex) {
    const char *text;
    assert_int_equal(open_hex(hex, &text), MR_OK);
}

static void items_that_end_early(void **state) {
    refused("", "the value ends where an item should begin, at byte 0 of 0");
    refused("92 01", "a container with more items than bytes, at byte 0 of 2");
    refused("92 cc 01", "list item 1: the value ends where an item should begin, at byte 3 of 3");
    static const char *const cut[] = {"a1",        "c4",          "c5 00",     "c6 000000", "c401",      "c7",
                                      "c8 00",     "c9 000000",   "c7 01",     "c7 01 02",  "ca 000000", "cb 00",
                                      "cc",        "cd 00",       "ce 000000", "cf 00",     "d0",        "d1 00",
                                      "d2 00",     "d3 00000000", "d4 02",     "d8 05 00",  "d9",        "da 00",
                                      "db 000000", "d901",        "dc 00",     "dd 000000", "de 00",     "df 000000"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char text[100];
        snprintf(text, sizeof text, "the value ends in the middle of an item, at byte 0 of %zu",
                 from_hex(cut[i], (uint8_t[16]){0}));
        refused(cut[i], text);
    }
}

static void claims_of_many_items(void **state) {
    refused("dd ffffffff", "a container with more items than bytes, at byte 0 of 5");
    refused("df ffffffff 01 02", "a container with more items than bytes, at byte 0 of 7");
    refused("82 01 02 03", "a container with more items than bytes, at byte 0 of 4");
    refused("c7 03 01 dc 0001", "a container with more items than bytes, at byte 0 of 6");
}

static void bytes_and_codes_that_mean_nothing(void **state) {
    refused("c1", "byte 0xc1, which begins no item, at byte 0 of 1");
    refused("d6 ff 00000000", "an extension of an unknown code, at byte 0 of 6");
    refused("d4 00 00", "an extension of an unknown code, at byte 0 of 3");
    refused("cf 8000000000000000", "an int above 2^63 - 1, at byte 0 of 9");
    refused("01 02", "more bytes follow the value's end, at byte 1 of 2");
    refused("90 90", "more bytes follow the value's end, at byte 1 of 2");
}

static void strs(void **state) {
    refused("a1 ff", "a str that is not UTF-8, at byte 0 of 2");
    refused("a2 c3 28", "a str that is not UTF-8, at byte 0 of 3");
    accepted("a2 c3 bc");
}

static void tuples(void **state) {
    accepted("d4 01 90");
    accepted("c7 01 01 90");
    accepted("c8 0003 01 dc 0000");
    refused("c7 00 01", "a tuple whose payload is not an array, at byte 0 of 3");
    refused("d4 01 01", "a tuple whose payload is not an array, at byte 0 of 3");
    refused("d4 01 dc", "the value ends in the middle of an item, at byte 0 of 3");
    refused("d5 01 90 00", "a tuple with bytes after its last item, at byte 0 of 4");
    refused("d6 01 91 01 02 03", "tuple item 0: a tuple with bytes after its last item, at byte 4 of 6");
    refused("92 d5 01 91 cc 01", "list item 0: tuple item 0: the value ends in the middle of an item, at byte 4 of 6");
}

static void maps(void **state) {
    accepted("81 c4 01 61 c0");
    accepted("81 cb 3ff0000000000000 c0");
    accepted("81 d4 01 90 c0");
    accepted("82 01 02 01 03"); /* the same key twice */
    refused("81 90 c0", "key number 0 of a map: a map key that is not nil, bool, int, float, str, bytes or a tuple of "
                        "these, at byte 1 of 3");
    refused("82 01 02 80 c0", "key number 1 of a map: a map key that is not nil, bool, int, float, str, bytes or a "
                              "tuple of these, at byte 3 of 5");
    refused("81 d5 01 91 90 c0", "key number 0 of a map: tuple item 0: a map key that is not nil, bool, int, float, "
                                 "str, bytes or a tuple of these, at byte 4 of 6");
    refused("81 d8 05 0000000000000000 0000000000000000 c0",
            "key number 0 of a map: a map key that is not nil, bool, int, float, str, bytes or a tuple of these, at "
            "byte 1 of 20");
}

static void places_are_named(void **state) {
    refused("93 01 02 82 a1 78 c1 02 c0", "list item 2: map key 'x': byte 0xc1, which begins no item, at byte 6 of 9");
    refused("81 d1 0102 c1", "map key 258: byte 0xc1, which begins no item, at byte 4 of 5");
    refused("81 c3 c1", "map value of a bool: byte 0xc1, which begins no item, at byte 2 of 3");
    refused("91 91 91 91 91 91 91 91 c1",
            "…: list item 0: list item 0: list item 0: list item 0: list item 0: list item 0: byte 0xc1, which begins "
            "no item, at byte 8 of 9");
}

static void tensors(void **state) {
    accepted("c7 0c 02 05000000 00 01 000000000000"); /* offset 7: one zero, the item, six zeros */
    refused("c7 03 02 050000", "a tensor whose payload does not have its shape's size, at byte 0 of 6");
    refused("c7 0a 02 05000000 000000000000", "a tensor whose payload does not have its shape's size, at byte 0 of 13");
    refused("c7 0b 02 05000000 00 000000000000",
            "a tensor whose payload does not have its shape's size, at byte 0 of 14");
    refused("c7 0d 02 05000000 00 01 000000000000 00",
            "a tensor whose payload does not have its shape's size, at byte 0 of 16");
    refused("c7 0c 02 0d000000 00 01 000000000000", "a tensor of an unknown dtype, at byte 0 of 15");
    refused("c7 0c 02 05030000 00 01 000000000000", "a tensor of an unknown kind, at byte 0 of 15");
    refused("c7 0c 02 05000900 00 01 000000000000", "a tensor of more than 8 dimensions, at byte 0 of 15");
    refused("c7 0c 02 05000001 00 01 000000000000", "a tensor whose reserved byte is not zero, at byte 0 of 15");
    refused("c7 0c 02 05000000 07 01 000000000000", "a tensor whose padding is not zero, at byte 0 of 15");
    refused("c7 0c 02 05000000 00 01 000000000007", "a tensor whose padding is not zero, at byte 0 of 15");
    refused("c7 14 02 05000100 ffffffffffffffff 00 01 000000000000",
            "a tensor with a negative dimension, at byte 0 of 23");
    refused("c7 1b 02 05000200 0000000000000001 0000000000000001 00000000000000",
            "a tensor of more than 2^63 bytes, at byte 0 of 30");
    refused("d8 03 05000100 0100000000000000 00000000", "a buffer index past the last buffer, at byte 0 of 18");
}

/* References in a list are skipped together; a fault is still reported at its place. */
static void lists_of_refs(void **state) {
#define REF "d8 05 0000000000000000 0000000000000000 "
    accepted("91 " REF);
    accepted("93 " REF REF REF);
    accepted("95 " REF REF "01 " REF REF);
    accepted("92 92 " REF REF "92 " REF REF);
    refused("93 " REF REF, "list item 2: the value ends where an item should begin, at byte 37 of 37");
    refused("93 " REF REF "d8 05 0000", "list item 2: the value ends in the middle of an item, at byte 37 of 41");
    refused("93 " REF "d7 05 0000000000000000 " REF,
            "list item 1: a ref or an actor that is not 16 bytes, at byte 19 of 47");
    refused("92 " REF REF REF, "more bytes follow the value's end, at byte 37 of 55");
#undef REF
}

static void other_extensions(void **state) {
    refused("d7 05 0000000000000000", "a ref or an actor that is not 16 bytes, at byte 0 of 10");
    refused("d6 04 00000000", "a buffer index past the last buffer, at byte 0 of 6");
    refused("d5 04 0000", "bytes whose payload is not a buffer's index, at byte 0 of 4");
    accepted("c7 09 07 01 00000000 00000000");
    refused("c7 08 07 01 00000000 000000", "a custom object of the wrong size, at byte 0 of 11");
    refused("c7 0a 08 01 00000000 00000000 00", "a custom object of the wrong size, at byte 0 of 13");
    refused("c7 09 07 00 00000000 00000000", "a custom object without a format, at byte 0 of 12");
    refused("c7 09 07 01 00000000 01000000", "a buffer index past the last buffer, at byte 0 of 12");
    refused("c7 09 07 01 01000000 00000000", "a buffer index past the last buffer, at byte 0 of 12");
    refused("c7 09 08 01 00000000 00000000", "a buffer index past the last buffer, at byte 0 of 12");
    refused("c7 09 08 01 00000000 ffffffff", "a buffer index past the last buffer, at byte 0 of 12");
}

/* A number of any width reads as the same number. */
static void any_width_is_read(void **state) {
    static const struct {
        const char *hex;
        int64_t number;
    } ints[] = {{"05", 5},
                {"cc 05", 5},
                {"cd 0005", 5},
                {"ce 00000005", 5},
                {"cf 0000000000000005", 5},
                {"d0 05", 5},
                {"d1 0005", 5},
                {"d2 00000005", 5},
                {"d3 0000000000000005", 5},
                {"d0 80", -128},
                {"d1 8000", INT16_MIN},
                {"d2 80000000", INT32_MIN},
                {"d3 8000000000000000", INT64_MIN},
                {"cf 7fffffffffffffff", INT64_MAX}};
    uint8_t bytes[16];
    value_doc doc;
    mr_value root;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        exact_value value = pack_raw(bytes, from_hex(ints[i].hex, bytes));
        int64_t number = 0;
        assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK);
        assert_int_equal(mr_value_int(&root, &number), MR_OK);
        assert_true(number == ints[i].number);
        value_close(&doc);
        exact_value_fini(&value);
    }
    exact_value value = pack_raw(bytes, from_hex("ca 3fc00000", bytes));
    double number = 0;
    assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK);
    assert_int_equal(mr_value_float(&root, &number), MR_OK);
    assert_true(number == 1.5);
    value_close(&doc);
    exact_value_fini(&value);
    accepted("db 00000001 61");
    accepted("c6 00000001 61");
    accepted("dd 00000001 c0");
    accepted("df 00000001 c0 c0");
}

static void nesting_has_a_limit(void **state) {
    char hex[2 * VALUE_DEPTH_MAX + 10] = "";
    const char *text;
    for (int i = 0; i < VALUE_DEPTH_MAX; i++) strcat(hex, "91");
    const size_t length = strlen(hex);
    accepted(strcat(hex, "c0"));
    hex[length] = '\0';
    assert_int_equal(open_hex(strcat(hex, "90"), &text), MR_TOO_LARGE); /* an empty list is a level too */
    hex[length] = '\0';
    assert_int_equal(open_hex(strcat(hex, "91c0"), &text), MR_TOO_LARGE);
    assert_non_null(strstr(text, "list item 0: nested more than 64 levels deep, at byte 64 of 66"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_that_end_early),
        cmocka_unit_test(claims_of_many_items),
        cmocka_unit_test(bytes_and_codes_that_mean_nothing),
        cmocka_unit_test(strs),
        cmocka_unit_test(tuples),
        cmocka_unit_test(maps),
        cmocka_unit_test(places_are_named),
        cmocka_unit_test(tensors),
        cmocka_unit_test(lists_of_refs),
        cmocka_unit_test(other_extensions),
        cmocka_unit_test(any_width_is_read),
        cmocka_unit_test(nesting_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
