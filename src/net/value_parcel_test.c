/* value_parcel_test.c — tables of buffers: how they are laid out, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/packed.h"

static const uint8_t data[300] = {1, 2, 3, 4, 5, 6, 7, 8, 9};

/* Three buffers: 100 bytes, none (a custom object's), 130 bytes. */
static packed three_buffers(void) {
    static const mr_span empty = {data, 0};
    static const mr_custom custom = {.format = 1, .buffers = &empty, .buffer_count = 1};
    const mr_arg items[] = {mr_bytes(data, 100), mr_custom_arg(&custom), mr_bytes(data, 130)};
    const mr_arg list = mr_list(items, 3);
    packed packed;
    assert_int_equal(pack(&list, 50, &packed), MR_OK);
    assert_int_equal(packed.buffer_count, 3);
    return packed;
}

static value_parcel_entry *entry(packed *packed, size_t index) {
    return (value_parcel_entry *)(void *)(packed->parcel + sizeof(value_parcel_header)) + index;
}

static mr_status open_it(const packed *packed) {
    value_doc doc;
    mr_value root;
    mr_status status = packed_open(packed, &doc, &root);
    if (status == MR_OK) value_close(&doc);
    return status;
}

static void buffers_are_laid_out_one_after_the_other(void **state) {
    packed packed = three_buffers();
    const uint64_t offsets[] = {0, 128, 128}, sizes[] = {100, 0, 130};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(entry(&packed, i)->offset, offsets[i]);
        assert_int_equal(entry(&packed, i)->size, sizes[i]);
    }
    assert_int_equal(packed.body_size, 258);
    assert_memory_equal(packed.body, data, 100);
    const uint8_t zeros[28] = {0};
    assert_memory_equal(packed.body + 100, zeros, 28);
    assert_memory_equal(packed.body + 128, data, 130);
    assert_int_equal(open_it(&packed), MR_OK);
    packed_fini(&packed);
    assert_int_equal(value_body_size(NULL, 0), 0);
}

/* Buffers that lie elsewhere already, in shared memory: only the table changes. */
static void buffers_may_lie_in_another_region(void **state) {
    static _Alignas(VALUE_BUFFER_ALIGN) uint8_t shared[1024];
    packed packed = three_buffers();
    const uint64_t offsets[] = {512, 1024, 64};
    for (size_t i = 0; i < 3; i++) {
        packed.buffers[i].offset = offsets[i];
        memcpy(shared + offsets[i], packed.buffers[i].data, packed.buffers[i].size);
    }
    value_write_table(packed.parcel, packed.buffers, 3);
    value_doc doc;
    mr_value root, item;
    mr_span bytes;
    assert_int_equal(value_open(&doc, packed_parcel(&packed), span_of(shared, sizeof shared), &root), MR_OK);
    assert_int_equal(mr_value_item(&root, 2, &item), MR_OK);
    assert_int_equal(mr_value_bytes(&item, &bytes), MR_OK);
    assert_ptr_equal(bytes.data, shared + 64);
    assert_memory_equal(bytes.data, data, 130);
    value_close(&doc);
    packed_fini(&packed);
}

static void buffers_outside_the_region_are_refused(void **state) {
    const value_parcel_entry wrong[] = {
        {1, 100},               /* not aligned */
        {256, 100},             /* ends behind the region */
        {320, 100},             /* begins behind it */
        {0, 259},               /* one byte too long */
        {UINT64_MAX - 63, 100}, /* the sum goes around */
        {64, UINT64_MAX - 63},  /* the sum goes around */
        {UINT64_C(1) << 63, UINT64_C(1) << 63},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        packed packed = three_buffers();
        *entry(&packed, 0) = wrong[i];
        assert_int_equal(open_it(&packed), MR_CORRUPT);
        assert_non_null(strstr(mr_last_error(), "buffer 0: "));
        packed_fini(&packed);
    }
}

static void a_parcel_has_the_size_that_it_says(void **state) {
    packed packed = three_buffers();
    value_doc doc;
    mr_value root;
    for (size_t size = 0; size < packed.parcel_size; size++)
        assert_int_equal(value_open(&doc, span_of(packed.parcel, size), packed_body(&packed), &root), MR_CORRUPT);
    assert_int_equal(value_open(&doc, span_of(packed.parcel, 7), packed_body(&packed), &root), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "malformed value of 7 bytes: its header has 8");
    value_parcel_header header = {.value_size = UINT32_MAX, .buffer_count = UINT32_MAX};
    memcpy(packed.parcel, &header, sizeof header);
    assert_int_equal(open_it(&packed), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "with 4294967295 buffers and 4294967295 bytes of items it has "));
    packed_fini(&packed);
}

/* One buffer more than is named, and one that is named twice. */
static void every_buffer_is_named_once(void **state) {
    packed packed = three_buffers();
    span value = packed_value(&packed);
    uint8_t *index = packed.parcel + (packed.parcel_size - value.size) + 3; /* "93 d6 04 00000000" */
    assert_int_equal(index[-1], VALUE_EXT_BYTES_OUT);
    *index = 2;
    assert_int_equal(open_it(&packed), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "list item 0: a buffer index out of order, at byte 1 of 25");
    packed_fini(&packed);
    struct {
        value_parcel_header header;
        value_parcel_entry unused;
        uint8_t nil;
    } alone = {{1, 1}, {0, 0}, 0xc0};
    value_doc doc;
    mr_value root;
    assert_int_equal(value_open(&doc, span_of(&alone, 8 + 16 + 1), span_of(NULL, 0), &root), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "a buffer that no item refers to, at byte 1 of 1");
}

static void a_key_is_no_buffer(void **state) {
    struct {
        value_parcel_header header;
        value_parcel_entry empty;
        uint8_t map[8];
    } parcel = {{8, 1}, {0, 0}, {0x81, 0xd6, VALUE_EXT_BYTES_OUT, 0, 0, 0, 0, 0xc0}};
    value_doc doc;
    mr_value root;
    assert_int_equal(value_open(&doc, span_of(&parcel, sizeof parcel), span_of(NULL, 0), &root), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "key number 0 of a map: a map key that is not nil, bool, int, float, str, "
                                         "bytes or a tuple of these, at byte 1 of 8");
    parcel.map[0] = 0x92; /* in a list it may be one */
    assert_int_equal(value_open(&doc, span_of(&parcel, sizeof parcel), span_of(NULL, 0), &root), MR_OK);
    value_close(&doc);
}

static void memory_must_be_aligned(void **state) {
    static _Alignas(VALUE_BUFFER_ALIGN) uint8_t memory[512];
    packed packed = three_buffers();
    value_doc doc;
    mr_value root;
    memcpy(memory + 4, packed.parcel, packed.parcel_size);
    assert_int_equal(value_open(&doc, span_of(memory + 4, packed.parcel_size), packed_body(&packed), &root),
                     MR_INVALID);
    assert_int_equal(value_open(&doc, packed_parcel(&packed), span_of(memory + 8, 258), &root), MR_INVALID);
    assert_string_equal(mr_last_error(),
                        "misaligned value: its table begins at a multiple of 8 in memory, its buffers of 64");
    packed_fini(&packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_laid_out_one_after_the_other),
        cmocka_unit_test(buffers_may_lie_in_another_region),
        cmocka_unit_test(buffers_outside_the_region_are_refused),
        cmocka_unit_test(a_parcel_has_the_size_that_it_says),
        cmocka_unit_test(every_buffer_is_named_once),
        cmocka_unit_test(a_key_is_no_buffer),
        cmocka_unit_test(memory_must_be_aligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
