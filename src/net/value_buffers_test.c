/* value_buffers_test.c — tables of buffers: their layout, and which ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/exact_value.h"

static const uint8_t data[300] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/* Three buffers: of 100, 0 (a custom object's) and 130 bytes. */
static exact_value three_buffers(void) {
    static const mr_span empty = {data, 0};
    static const mr_custom custom = {.format = 1, .buffers = &empty, .buffer_count = 1};
    const mr_arg items[] = {mr_bytes(data, 100), mr_custom_arg(&custom), mr_bytes(data, 130)};
    const mr_arg list = mr_list(items, 3);
    exact_value value;
    assert_int_equal(pack(&list, 50, &value), MR_OK);
    assert_int_equal(value.buffer_count, 3);
    return value;
}

static value_payload_entry *entry(exact_value *value, size_t index) {
    return (value_payload_entry *)(void *)(value->payload + sizeof(value_payload_header)) + index;
}

static mr_status open_it(const exact_value *value) {
    value_doc doc;
    mr_value root;
    mr_status status = exact_value_open(value, &doc, &root);
    if (status == MR_OK) value_close(&doc);
    return status;
}

static void buffers_are_laid_out_one_after_the_other(void **state) {
    exact_value value = three_buffers();
    const uint64_t offsets[] = {0, 128, 128}, sizes[] = {100, 0, 130};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(entry(&value, i)->offset, offsets[i]);
        assert_int_equal(entry(&value, i)->size, sizes[i]);
    }
    assert_int_equal(value.body_size, 258);
    assert_memory_equal(value.body, data, 100);
    const uint8_t zeros[28] = {0};
    assert_memory_equal(value.body + 100, zeros, 28);
    assert_memory_equal(value.body + 128, data, 130);
    assert_int_equal(open_it(&value), MR_OK);
    exact_value_fini(&value);
    assert_int_equal(value_body_size(NULL, 0), 0);
}

/* Buffers that are in shared memory already: only the table changes. */
static void buffers_may_lie_in_another_region(void **state) {
    static _Alignas(VALUE_BUFFER_ALIGN) uint8_t shared[1024];
    exact_value value = three_buffers();
    const uint64_t offsets[] = {512, 1024, 64};
    for (size_t i = 0; i < 3; i++) {
        value.buffers[i].offset = offsets[i];
        memcpy(shared + offsets[i], value.buffers[i].data, value.buffers[i].size);
    }
    value_write_table(value.payload, value.buffers, 3);
    value_doc doc;
    mr_value root, item;
    mr_span bytes;
    assert_int_equal(value_open(&doc, exact_value_payload(&value), span_of(shared, sizeof shared), &root), MR_OK);
    assert_int_equal(mr_value_item(&root, 2, &item), MR_OK);
    assert_int_equal(mr_value_bytes(&item, &bytes), MR_OK);
    assert_ptr_equal(bytes.data, shared + 64);
    assert_memory_equal(bytes.data, data, 130);
    value_close(&doc);
    exact_value_fini(&value);
}

static void buffers_outside_the_region_are_refused(void **state) {
    const value_payload_entry wrong[] = {
        {1, 100},               /* not aligned */
        {256, 100},             /* ends after the region */
        {320, 100},             /* begins after the region */
        {0, 259},               /* one byte too long */
        {UINT64_MAX - 63, 100}, /* the sum overflows */
        {64, UINT64_MAX - 63},  /* the sum overflows */
        {UINT64_C(1) << 63, UINT64_C(1) << 63},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        exact_value value = three_buffers();
        *entry(&value, 0) = wrong[i];
        assert_int_equal(open_it(&value), MR_CORRUPT);
        assert_non_null(strstr(mr_last_error(), "buffer 0: "));
        exact_value_fini(&value);
    }
}

static void a_payload_has_the_size_that_it_says(void **state) {
    exact_value value = three_buffers();
    value_doc doc;
    mr_value root;
    for (size_t size = 0; size < value.payload_size; size++)
        assert_int_equal(value_open(&doc, span_of(value.payload, size), exact_value_body(&value), &root), MR_CORRUPT);
    assert_int_equal(value_open(&doc, span_of(value.payload, 7), exact_value_body(&value), &root), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "malformed value of 7 bytes: its header has 8");
    value_payload_header header = {.value_size = UINT32_MAX, .buffer_count = UINT32_MAX};
    memcpy(value.payload, &header, sizeof header);
    assert_int_equal(open_it(&value), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "with 4294967295 buffers and 4294967295 bytes of items it has "));
    exact_value_fini(&value);
}

/* One unreferenced buffer, and one that is referenced twice. */
static void every_buffer_is_named_once(void **state) {
    exact_value exact_value = three_buffers();
    span value = exact_value_value(&exact_value);
    uint8_t *index = exact_value.payload + (exact_value.payload_size - value.size) + 3; /* "93 d6 04 00000000" */
    assert_int_equal(index[-1], VALUE_EXT_BYTES_OUT);
    *index = 2;
    assert_int_equal(open_it(&exact_value), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "list item 0: a buffer index out of order, at byte 1 of 25");
    exact_value_fini(&exact_value);
    struct {
        value_payload_header header;
        value_payload_entry unused;
        uint8_t nil;
    } alone = {{1, 1}, {0, 0}, 0xc0};
    value_doc doc;
    mr_value root;
    assert_int_equal(value_open(&doc, span_of(&alone, 8 + 16 + 1), span_of(NULL, 0), &root), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "a buffer that no item refers to, at byte 1 of 1");
}

static void a_key_is_no_buffer(void **state) {
    struct {
        value_payload_header header;
        value_payload_entry empty;
        uint8_t map[8];
    } payload = {{8, 1}, {0, 0}, {0x81, 0xd6, VALUE_EXT_BYTES_OUT, 0, 0, 0, 0, 0xc0}};
    value_doc doc;
    mr_value root;
    assert_int_equal(value_open(&doc, span_of(&payload, sizeof payload), span_of(NULL, 0), &root), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "key number 0 of a map: a map key that is not nil, bool, int, float, str, "
                                         "bytes or a tuple of these, at byte 1 of 8");
    payload.map[0] = 0x92; /* in a list an out-of-line item is allowed */
    assert_int_equal(value_open(&doc, span_of(&payload, sizeof payload), span_of(NULL, 0), &root), MR_OK);
    value_close(&doc);
}

static void memory_must_be_aligned(void **state) {
    static _Alignas(VALUE_BUFFER_ALIGN) uint8_t memory[512];
    exact_value value = three_buffers();
    value_doc doc;
    mr_value root;
    memcpy(memory + 4, value.payload, value.payload_size);
    assert_int_equal(value_open(&doc, span_of(memory + 4, value.payload_size), exact_value_body(&value), &root),
                     MR_INVALID);
    assert_int_equal(value_open(&doc, exact_value_payload(&value), span_of(memory + 8, 258), &root), MR_INVALID);
    assert_string_equal(mr_last_error(),
                        "misaligned value: its table begins at a multiple of 8 in memory, its buffers of 64");
    exact_value_fini(&value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_laid_out_one_after_the_other),
        cmocka_unit_test(buffers_may_lie_in_another_region),
        cmocka_unit_test(buffers_outside_the_region_are_refused),
        cmocka_unit_test(a_payload_has_the_size_that_it_says),
        cmocka_unit_test(every_buffer_is_named_once),
        cmocka_unit_test(a_key_is_no_buffer),
        cmocka_unit_test(memory_must_be_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
