/* safetensors_test.c — written files read back; malformed files are refused. */
#include "base/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LIMIT = 1 << 20 };

static void tensors_and_texts_come_back(void **state) {
    const float rows[] = {1, 2, 3, 4, 5, 6};
    const uint64_t keys[] = {7, UINT64_MAX};
    const uint8_t bytes[] = {1, 2, 3};
    safetensors list = {0}, read;
    buffer file;
    buffer_init(&file, LIMIT);
    safetensors_add(&list, "b/bytes", SAFETENSORS_U8, (uint64_t[]){3}, 1, bytes);
    safetensors_add(&list, "rows \"of\" \xc3\xa4\n", SAFETENSORS_F32, (uint64_t[]){2, 3}, 2, rows);
    safetensors_add(&list, "keys", SAFETENSORS_U64, (uint64_t[]){2}, 1, keys);
    safetensors_add(&list, "none", SAFETENSORS_BF16, (uint64_t[]){4, 0}, 2, NULL);
    safetensors_add(&list, "one", SAFETENSORS_I64, NULL, 0, keys);
    safetensors_say(&list, "format", "a text with \"quotes\" and \\");
    safetensors_say(&list, "empty", "");
    assert_int_equal(safetensors_write(&list, &file), MR_OK);
    assert_int_equal(safetensors_read(span_of(file.data, file.size), &read), MR_OK);
    assert_int_equal(read.count, 5);
    for (size_t i = 0; i < list.count; i++) {
        const safetensor *from = &list.tensors[i], *back = safetensors_find(&read, from->name);
        assert_non_null(back);
        assert_true(back->dtype == from->dtype && back->dims == from->dims && back->data.size == from->data.size);
        if (from->dims != 0) assert_memory_equal(back->shape, from->shape, from->dims * sizeof *from->shape);
        if (from->data.size != 0) assert_memory_equal(back->data.data, from->data.data, from->data.size);
        size_t item = safetensors_item(from->dtype); /* each tensor is aligned to its items */
        assert_int_equal((size_t)(back->data.data - file.data) % item, 0);
    }
    assert_null(safetensors_find(&read, "key"));
    assert_string_equal(safetensors_text_of(&read, "format"), "a text with \"quotes\" and \\");
    assert_string_equal(safetensors_text_of(&read, "empty"), "");
    assert_null(safetensors_text_of(&read, "other"));
    for (size_t size = 0; size < file.size; size++) { /* truncation at every length fails */
        safetensors cut;
        assert_int_equal(safetensors_read(span_of(file.data, size), &cut), MR_CORRUPT);
    }
    safetensors_fini(&read);
    safetensors_fini(&list);
    buffer_fini(&file);
}

static void a_file_without_tensors_is_one(void **state) {
    safetensors list = {0}, read;
    buffer file;
    buffer_init(&file, LIMIT);
    assert_int_equal(safetensors_write(&list, &file), MR_OK);
    assert_int_equal(safetensors_read(span_of(file.data, file.size), &read), MR_OK);
    assert_int_equal(read.count, 0);
    assert_null(safetensors_find(&read, "x"));
    safetensors_fini(&read);
    buffer_fini(&file);
    safetensors_fini(&list);
}

static mr_status read_text(const char *header, size_t data) {
    static uint8_t file[4096];
    uint64_t size = strlen(header);
    safetensors list;
    memset(file, 0, sizeof file);
    memcpy(file, &size, sizeof size);
    memcpy(file + sizeof size, header, size);
    mr_status status = safetensors_read(span_of(file, sizeof size + size + data), &list);
    if (status == MR_OK) safetensors_fini(&list);
    return status;
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static void other_writers_are_read(void **state) {
    assert_int_equal(read_text("{" A "}", 8), MR_OK);
    assert_int_equal(
        read_text(" { \"a\" : { \"data_offsets\" : [ 0 , 8 ] , \"shape\":[1,2] ,\"dtype\":\"F32\"} }   ", 8), MR_OK);
    assert_int_equal(read_text("{\"__metadata__\":{}," A "}", 8), MR_OK);
    assert_int_equal(
        read_text("{\"\\u00e4\\ud83d\\ude00\\/\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1), MR_OK);
    assert_int_equal(read_text("{}", 0), MR_OK);
}

static void malformed_files_are_refused(void **state) {
    static const struct {
        const char *header;
        size_t data;
    } wrong[] = {
        {"", 0},
        {"[]", 0},
        {"{" A "} x", 8},
        {"{" A "}", 7},
        {"{" A "}", 9},
        {"{" A "," A "}", 8},
        {"{" A ",}", 8},
        {"{" A, 8},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[02],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"more\":1}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
         6},
        {"{\"__metadata__\":{\"a\":1}}", 0},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0},
        {"{\"\\ud83d\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1},
        {"{\"\\u0000\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1},
        {"{\"\xff\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1},
        {"{\"\xc0\x80\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1},
        {"{\"\x01\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (read_text(wrong[i].header, wrong[i].data) != MR_CORRUPT) fail_msg("%s was read", wrong[i].header);
    uint64_t huge = UINT64_MAX;
    safetensors list;
    assert_int_equal(safetensors_read(span_of(&huge, sizeof huge), &list), MR_CORRUPT);
}

static void a_buffer_that_is_full_is_told(void **state) {
    safetensors list = {0};
    buffer file;
    buffer_init(&file, 40);
    safetensors_add(&list, "a", SAFETENSORS_U8, (uint64_t[]){3}, 1, "abc");
    assert_int_equal(safetensors_write(&list, &file), MR_TOO_LARGE);
    buffer_fini(&file);
    safetensors_fini(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_and_texts_come_back),   cmocka_unit_test(a_file_without_tensors_is_one),
        cmocka_unit_test(other_writers_are_read),        cmocka_unit_test(malformed_files_are_refused),
        cmocka_unit_test(a_buffer_that_is_full_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
