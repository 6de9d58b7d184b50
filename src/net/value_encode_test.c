/* value_encode_test.c — the bytes of each kind, and arguments that are no values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/exact_value.h"

enum { HEX_MAX = 1000 };

/* Compares the value's bytes with hex text; its spaces separate fields for the reader and are ignored. */
static void encodes_to(mr_arg arg, size_t out_of_line_min, const char *expected) {
    exact_value exact_value;
    assert_int_equal(pack(&arg, out_of_line_min, &exact_value), MR_OK);
    span value = exact_value_value(&exact_value);
    char hex[HEX_MAX] = "", wanted[HEX_MAX] = "";
    assert_true(value.size * 2 < sizeof hex);
    for (size_t i = 0; i < value.size; i++) snprintf(hex + 2 * i, 3, "%02x", value.data[i]);
    for (size_t length = 0; *expected != '\0'; expected++)
        if (*expected != ' ') wanted[length++] = *expected;
    assert_string_equal(hex, wanted);
    exact_value_fini(&exact_value);
}

static void scalars(void **state) {
    encodes_to(mr_nil(), SIZE_MAX, "c0");
    encodes_to(mr_bool(false), SIZE_MAX, "c2");
    encodes_to(mr_bool(true), SIZE_MAX, "c3");
    encodes_to(mr_int(0), SIZE_MAX, "00");
    encodes_to(mr_int(127), SIZE_MAX, "7f");
    encodes_to(mr_int(128), SIZE_MAX, "cc 80");
    encodes_to(mr_int(256), SIZE_MAX, "cd 0100");
    encodes_to(mr_int(65536), SIZE_MAX, "ce 00010000");
    encodes_to(mr_int(INT64_C(1) << 32), SIZE_MAX, "cf 0000000100000000");
    encodes_to(mr_int(INT64_MAX), SIZE_MAX, "cf 7fffffffffffffff");
    encodes_to(mr_int(-1), SIZE_MAX, "ff");
    encodes_to(mr_int(-32), SIZE_MAX, "e0");
    encodes_to(mr_int(-33), SIZE_MAX, "d0 df");
    encodes_to(mr_int(-129), SIZE_MAX, "d1 ff7f");
    encodes_to(mr_int(-32769), SIZE_MAX, "d2 ffff7fff");
    encodes_to(mr_int(INT64_MIN), SIZE_MAX, "d3 8000000000000000");
    encodes_to(mr_float(1.0), SIZE_MAX, "cb 3ff0000000000000");
    encodes_to(mr_float(-0.0), SIZE_MAX, "cb 8000000000000000");
    encodes_to(mr_str(""), SIZE_MAX, "a0");
    encodes_to(mr_str("abc"), SIZE_MAX, "a3 616263");
    encodes_to(mr_bytes("abc", 3), SIZE_MAX, "c4 03 616263");
}

static void containers(void **state) {
    const mr_arg items[] = {mr_int(1), mr_str("a"), mr_nil(), mr_bool(true)};
    encodes_to(mr_list(NULL, 0), SIZE_MAX, "90");
    encodes_to(mr_list(items, 3), SIZE_MAX, "93 01 a161 c0");
    encodes_to(mr_map(NULL, 0), SIZE_MAX, "80");
    encodes_to(mr_map(items, 2), SIZE_MAX, "82 01 a161 c0 c3");
    encodes_to(mr_tuple(NULL, 0), SIZE_MAX, "c9 00000001 01 90");
    encodes_to(mr_tuple(items, 2), SIZE_MAX, "c9 00000004 01 92 01 a161");
}

static void extensions(void **state) {
    const float numbers[2] = {1, 2};
    const mr_span buffers[] = {{"abcdefgh", 8}, {"ij", 2}};
    const mr_custom custom = {.format = MR_PICKLE, .data = {"\x80\x05N.", 4}, .buffers = buffers, .buffer_count = 2};
    const mr_arg two[] = {mr_bytes("0123456789", 10), mr_custom_arg(&custom)};
    encodes_to(mr_future((mr_ref){{1, 2}}), SIZE_MAX, "d8 05 0100000000000000 0200000000000000");
    encodes_to(mr_handle((mr_actor){{3, 4}}), SIZE_MAX, "d8 06 0300000000000000 0400000000000000");
    /* Header 3, fixed part 4 and shape 8 bytes: one zero before the data makes 16, six follow the data. */
    encodes_to(mr_vector(numbers, 2), SIZE_MAX, "c7 1b 02 0b000100 0200000000000000 00 0000803f 00000040 000000000000");
    encodes_to(mr_vector(numbers, 2), 8, "d8 03 0b000100 0200000000000000 00000000");
    encodes_to(mr_vector(numbers, 0), 0, "c7 13 02 0b000100 0000000000000000 00000000000000");
    encodes_to(two[0], 10, "d6 04 00000000");
    encodes_to(two[0], 11, "c4 0a 30313233343536373839");
    encodes_to(two[1], 5, "c7 0d 07 01 00000000 02000000 80054e2e");
    encodes_to(two[1], 4, "c7 09 08 01 00000000 02000000");
    encodes_to(mr_list(two, 2), 4, "92 d6 04 00000000 c7 09 08 01 01000000 02000000");
}

/* Around each limit between length headers the value reads back, with the expected size. */
static void lengths(void **state) {
    static const struct {
        size_t size, str, bin, list, map;
    } headers[] = {{0, 1, 2, 1, 1},   {15, 1, 2, 1, 1},  {16, 1, 2, 3, 3},    {31, 1, 2, 3, 3},    {32, 2, 2, 3, 3},
                   {255, 2, 2, 3, 3}, {256, 3, 3, 3, 3}, {65535, 3, 3, 3, 3}, {65536, 5, 5, 5, 5}, {70000, 5, 5, 5, 5}};
    static char text[70000];
    static mr_arg items[140000]; /* nil */
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const size_t size = headers[i].size;
        const mr_arg args[] = {mr_text(text, size), mr_bytes(text, size), mr_list(items, size), mr_map(items, size)};
        const size_t sizes[] = {headers[i].str + size, headers[i].bin + size, headers[i].list + size,
                                headers[i].map + 2 * size};
        for (size_t k = 0; k < 4; k++) {
            exact_value value;
            value_doc doc;
            mr_value root;
            assert_int_equal(pack(&args[k], SIZE_MAX, &value), MR_OK);
            assert_int_equal(exact_value_value(&value).size, sizes[k]);
            assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK);
            assert_int_equal(mr_value_count(&root), k < 2 ? 0 : size);
            value_close(&doc);
            exact_value_fini(&value);
        }
    }
}

static void refused(mr_arg arg, mr_status status, const char *text) {
    value_plan plan;
    assert_int_equal(value_measure(&arg, 4096, &plan), status);
    assert_string_equal(mr_last_error(), text);
}

static void invalid_arguments_are_refused(void **state) {
    const mr_custom nameless = {.format = 0},
                    nowhere = {.format = 1, .buffer_count = 1, .buffers = &(mr_span){NULL, 3}};
    const mr_arg wrong = {.kind = (mr_kind)77};
    const mr_tensor pink = {.dtype = MR_F32, .tensor_kind = (mr_tensor_kind)9};
    const mr_arg list_key[] = {mr_list(NULL, 0), mr_nil()};
    const mr_arg in_tuple[] = {mr_vector(NULL, 0)}, tuple_key[] = {mr_tuple(in_tuple, 1), mr_nil()};
    refused(mr_text("\xff", 1), MR_INVALID, "a str that is not UTF-8");
    refused(mr_text(NULL, 3), MR_INVALID, "a str of 3 bytes whose pointer is NULL");
    refused(mr_bytes(NULL, 3), MR_INVALID, "bytes of 3 bytes whose pointer is NULL");
    refused(mr_list(NULL, 3), MR_INVALID, "a list of 3 items whose pointer is NULL");
    refused(mr_vector(NULL, 3), MR_INVALID, "a tensor of 12 bytes whose pointer is NULL");
    refused(mr_vector(NULL, SIZE_MAX), MR_INVALID, "a tensor with a negative dimension");
    refused(mr_tensor_of((mr_dtype)13, "", 0, NULL), MR_INVALID, "a tensor of an unknown dtype");
    refused(mr_tensor_of((mr_dtype)300, "", 0, NULL), MR_INVALID, "a tensor of an unknown dtype");
    refused(mr_tensor_of(MR_U8, "", 9, (int64_t[9]){1}), MR_INVALID, "a tensor of more than 8 dimensions");
    refused(mr_tensor_of(MR_U8, "", -1, (int64_t[9]){1}), MR_INVALID, "a tensor of more than 8 dimensions");
    refused(mr_tensor_of(MR_U8, "", 2, NULL), MR_INVALID, "2 dimensions whose shape is NULL");
    refused(mr_tensor_of(MR_U8, "", 1, (int64_t[]){-1}), MR_INVALID, "a tensor with a negative dimension");
    refused(mr_tensor_of(MR_F64, "", 2, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40}), MR_INVALID,
            "a tensor of more than 2^63 bytes");
    refused(mr_tensor_of(MR_F64, "", 3, (int64_t[]){0, INT64_MAX, INT64_MAX}), MR_INVALID,
            "a tensor of more than 2^63 bytes");
    refused(mr_tensor_of(MR_F16, "", 1, (int64_t[]){INT64_C(1) << 62}), MR_INVALID, "a tensor of more than 2^63 bytes");
    refused(mr_tensor_arg(&pink), MR_INVALID, "a tensor of unknown kind 9");
    refused(mr_custom_arg(&nameless), MR_INVALID, "a custom object of format 0: formats are 1 to 255");
    refused(mr_custom_arg(&nowhere), MR_INVALID, "a buffer of 3 bytes whose pointer is NULL");
    refused(wrong, MR_INVALID, "an argument of unknown kind 77");
    refused(mr_map(list_key, 1), MR_INVALID, "key number 0 of a map: a list cannot be a map key");
    refused(mr_map(tuple_key, 1), MR_INVALID, "key number 0 of a map: tuple item 0: a tensor cannot be a map key");
    value_plan plan;
    mr_arg huge = mr_bytes("", (size_t)UINT32_MAX + 1);
    assert_int_equal(value_measure(&huge, SIZE_MAX, &plan), MR_TOO_LARGE);
}

static void a_failure_names_its_place(void **state) {
    const mr_arg pairs[] = {mr_int(1), mr_nil(), mr_str("x"), mr_text("\xff", 1)};
    const mr_arg items[] = {mr_nil(), mr_map(pairs, 2)};
    const mr_arg by_number[] = {mr_nil(), mr_text("\xff", 1)};
    refused(mr_list(items, 2), MR_INVALID, "list item 1: map key 'x': a str that is not UTF-8");
    refused(mr_map(by_number, 1), MR_INVALID, "value number 0 of a map: a str that is not UTF-8");
}

static void nesting_has_a_limit(void **state) {
    mr_arg levels[VALUE_DEPTH_MAX + 2];
    levels[0] = mr_int(1);
    for (size_t i = 1; i < sizeof levels / sizeof *levels; i++)
        levels[i] = i % 2 ? mr_list(&levels[i - 1], 1) : mr_tuple(&levels[i - 1], 1);
    exact_value value;
    value_doc doc;
    mr_value root;
    assert_int_equal(pack(&levels[VALUE_DEPTH_MAX], SIZE_MAX, &value), MR_OK);
    assert_int_equal(exact_value_open(&value, &doc, &root), MR_OK);
    const mr_arg passed = mr_value_arg(&root), deeper = mr_list(&passed, 1);
    value_plan plan;
    assert_int_equal(value_measure(&passed, SIZE_MAX, &plan), MR_OK);
    assert_int_equal(value_measure(&deeper, SIZE_MAX, &plan), MR_TOO_LARGE);
    assert_int_equal(value_measure(&levels[VALUE_DEPTH_MAX + 1], SIZE_MAX, &plan), MR_TOO_LARGE);
    assert_non_null(strstr(mr_last_error(), "nested more than 64 levels deep"));
    mr_arg circle = mr_list(&circle, 1);
    assert_int_equal(value_measure(&circle, SIZE_MAX, &plan), MR_TOO_LARGE);
    value_close(&doc);
    exact_value_fini(&value);
}

/* A large key stays in the value and never becomes a buffer. */
static void keys_stay_in_the_value(void **state) {
    static const char long_text[100];
    const mr_arg key_items[] = {mr_bytes(long_text, 100)};
    const mr_arg pairs[] = {mr_bytes(long_text, 100), mr_bytes(long_text, 100), mr_tuple(key_items, 1), mr_nil()};
    mr_arg map = mr_map(pairs, 2);
    exact_value value;
    assert_int_equal(pack(&map, 10, &value), MR_OK);
    assert_int_equal(value.buffer_count, 1);
    exact_value_fini(&value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars),
        cmocka_unit_test(containers),
        cmocka_unit_test(extensions),
        cmocka_unit_test(lengths),
        cmocka_unit_test(invalid_arguments_are_refused),
        cmocka_unit_test(a_failure_names_its_place),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(keys_stay_in_the_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
