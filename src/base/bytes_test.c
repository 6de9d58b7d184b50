/* bytes_test.c — limits of buffers, bounds of readers and writers. */
#include "base/bytes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static void a_buffer_grows_to_its_limit_and_no_further(void **state) {
    buffer buffer;
    buffer_init(&buffer, 1000);
    for (int i = 0; i < 1000; i++) {
        uint8_t byte = (uint8_t)i;
        assert_int_equal(buffer_append(&buffer, &byte, 1), MR_OK);
        assert_true(buffer.capacity <= 1000);
    }
    assert_int_equal(buffer_append(&buffer, "x", 1), MR_TOO_LARGE);
    assert_int_equal(buffer_append(&buffer, "x", 0), MR_OK);
    assert_int_equal(buffer_reserve(&buffer, SIZE_MAX), MR_TOO_LARGE);
    assert_int_equal(buffer.size, 1000);
    for (int i = 0; i < 1000; i++) assert_int_equal(buffer.data[i], (uint8_t)i);
    buffer_fini(&buffer);
    assert_int_equal(buffer.limit, 1000);
    assert_int_equal(buffer_append(&buffer, "again", 5), MR_OK);
    buffer_fini(&buffer);
}

static void a_zeroed_buffer_with_a_limit_is_ready(void **state) {
    buffer none = {0}, some = {.limit = 3};
    assert_int_equal(buffer_append(&none, "", 0), MR_OK);
    assert_int_equal(buffer_append(&none, "a", 1), MR_TOO_LARGE);
    assert_int_equal(buffer_append(&some, "abc", 3), MR_OK);
    assert_int_equal(buffer_append(&some, "d", 1), MR_TOO_LARGE);
    assert_memory_equal(some.data, "abc", 3);
    buffer_fini(&none);
    buffer_fini(&some);
}

static void reserve_makes_room_that_stays(void **state) {
    buffer buffer;
    buffer_init(&buffer, 1 << 20);
    assert_int_equal(buffer_reserve(&buffer, 5000), MR_OK);
    uint8_t *data = buffer.data;
    assert_int_equal(buffer.size, 0);
    for (int i = 0; i < 5000; i++) assert_int_equal(buffer_append(&buffer, "z", 1), MR_OK);
    assert_ptr_equal(buffer.data, data);
    buffer_fini(&buffer);
}

static void consume_drops_from_the_front(void **state) {
    buffer buffer;
    buffer_init(&buffer, 100);
    buffer_consume(&buffer, 0);
    assert_int_equal(buffer_append(&buffer, "0123456789", 10), MR_OK);
    buffer_consume(&buffer, 0);
    buffer_consume(&buffer, 3);
    assert_int_equal(buffer.size, 7);
    assert_memory_equal(buffer.data, "3456789", 7);
    buffer_consume(&buffer, 7);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(buffer_append(&buffer, "ab", 2), MR_OK);
    assert_memory_equal(buffer.data, "ab", 2);
    size_t capacity = buffer.capacity;
    buffer_clear(&buffer);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(buffer.capacity, capacity);
    buffer_fini(&buffer);
}

static void print_appends_text(void **state) {
    buffer buffer = {.limit = 700};
    assert_int_equal(buffer_print(&buffer, "%s=%d", "a", 5), MR_OK);
    assert_int_equal(buffer_print(&buffer, "%s", ""), MR_OK);
    assert_int_equal(buffer_print(&buffer, ";%0500d", 7), MR_OK); /* longer than the first capacity */
    assert_int_equal(buffer.size, 504);
    assert_memory_equal(buffer.data, "a=5;000", 7);
    assert_int_equal(buffer.data[503], '7');
    struct buffer before = buffer;
    assert_int_equal(buffer_print(&buffer, "%0196d", 7), MR_TOO_LARGE); /* no room for the terminating NUL */
    assert_memory_equal(&buffer, &before, sizeof buffer);
    assert_int_equal(buffer_print(&buffer, "%0195d", 7), MR_OK);
    buffer_fini(&buffer);
    alloc_fail_at(1);
    assert_int_equal(buffer_print(&buffer, "x"), MR_NOMEM);
    assert_int_equal(buffer.size, 0);
}

/* Each allocation fails once; the buffer is unchanged, and the next try succeeds. */
static void a_buffer_survives_failing_allocations(void **state) {
    rng rng;
    rng_init(&rng, 5);
    for (size_t nth = 1; nth <= 8; nth++) {
        buffer buffer;
        buffer_init(&buffer, 1 << 16);
        uint8_t expected[1 << 16];
        size_t size = 0, failures = 0;
        alloc_fail_at(nth);
        while (size < 40000) {
            uint8_t chunk[512];
            size_t part = 1 + (size_t)rng_below(&rng, sizeof chunk);
            rng_fill(&rng, chunk, part);
            struct buffer before = buffer;
            mr_status status = buffer_append(&buffer, chunk, part);
            if (status == MR_NOMEM) {
                failures++;
                assert_memory_equal(&before, &buffer, sizeof buffer);
                status = buffer_append(&buffer, chunk, part);
            }
            assert_int_equal(status, MR_OK);
            memcpy(expected + size, chunk, part);
            size += part;
        }
        alloc_fail_at(0);
        assert_int_equal(failures, 1);
        assert_int_equal(buffer.size, size);
        assert_memory_equal(buffer.data, expected, size);
        buffer_fini(&buffer);
    }
}

static void numbers_are_little_endian(void **state) {
    const uint8_t bytes[] = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c,
                             0x0d, 0x0e, 0x0f, 0,    0,    0,    0,    0,    0,    0xf0, 0x3f};
    reader reader = reader_of(bytes, sizeof bytes);
    assert_int_equal(reader_u8(&reader), 0x01);
    assert_int_equal(reader_u16(&reader), 0x0302);
    assert_int_equal(reader_u32(&reader), 0x07060504);
    assert_int_equal(reader_u64(&reader), UINT64_C(0x0f0e0d0c0b0a0908));
    assert_true(reader_f64(&reader) == 1.0);
    assert_int_equal(reader_left(&reader), 0);
    assert_false(reader.failed);

    uint8_t out[sizeof bytes];
    writer writer = writer_of(out, sizeof out);
    writer_u8(&writer, 0x01);
    writer_u16(&writer, 0x0302);
    writer_u32(&writer, 0x07060504);
    writer_u64(&writer, UINT64_C(0x0f0e0d0c0b0a0908));
    writer_f64(&writer, 1.0);
    assert_false(writer.failed);
    assert_int_equal(writer_size(&writer), sizeof bytes);
    assert_memory_equal(out, bytes, sizeof bytes);
}

static void doubles_keep_their_bits(void **state) {
    const double values[] = {0.0, -0.0, 1e-310, INFINITY, -INFINITY, NAN, 3.14};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t bytes[8];
        writer writer = writer_of(bytes, sizeof bytes);
        writer_f64(&writer, values[i]);
        reader reader = reader_of(bytes, sizeof bytes);
        double back = reader_f64(&reader);
        assert_memory_equal(&back, &values[i], sizeof back);
    }
}

static void a_reader_at_its_end_fails_for_good(void **state) {
    const uint8_t bytes[] = {1, 2, 3};
    reader reader = reader_of(bytes, sizeof bytes);
    assert_int_equal(reader_u16(&reader), 0x0201);
    assert_int_equal(reader_u16(&reader), 0);
    assert_true(reader.failed);
    assert_int_equal(reader_left(&reader), 0); /* a loop over the remaining bytes ends */
    assert_int_equal(reader_u8(&reader), 0);
    assert_null(reader_bytes(&reader, 0));
    assert_null(reader_span32(&reader).data);
    assert_true(reader.failed);

    reader = reader_of(bytes, sizeof bytes);
    assert_null(reader_bytes(&reader, SIZE_MAX));
    assert_true(reader.failed);
}

static void nothing_can_be_read(void **state) {
    reader reader = reader_of(NULL, 0);
    assert_int_equal(reader_left(&reader), 0);
    assert_non_null(reader_bytes(&reader, 0));
    assert_false(reader.failed);
    assert_int_equal(reader_u8(&reader), 0);
    assert_true(reader.failed);
}

static void a_writer_at_its_end_fails_for_good(void **state) {
    uint8_t bytes[4] = {9, 9, 9, 9};
    writer writer = writer_of(bytes, 3);
    writer_u16(&writer, 0x0201);
    writer_u32(&writer, 7);
    assert_true(writer.failed);
    writer_u8(&writer, 7); /* would fit, but follows a write that failed */
    assert_int_equal(writer_size(&writer), 2);
    assert_memory_equal(bytes, ((uint8_t[]){1, 2, 9, 9}), 4);

    writer = writer_of(NULL, 0);
    writer_bytes(&writer, NULL, 0);
    assert_false(writer.failed);
    writer_u8(&writer, 1);
    assert_true(writer.failed);
}

static void spans_carry_their_length(void **state) {
    uint8_t bytes[64];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_span32(&writer, span_of("hello", 5));
    writer_span32(&writer, span_of(NULL, 0));
    assert_int_equal(writer_size(&writer), 13);

    for (size_t size = 0; size < 13; size++) { /* truncation at every length fails */
        reader cut = reader_of(bytes, size);
        reader_span32(&cut);
        reader_span32(&cut);
        assert_true(cut.failed);
    }
    reader reader = reader_of(bytes, 13);
    span hello = reader_span32(&reader), empty = reader_span32(&reader);
    assert_false(reader.failed);
    assert_int_equal(hello.size, 5);
    assert_memory_equal(hello.data, "hello", 5);
    assert_int_equal(empty.size, 0);

    memset(bytes, 0xff, 4); /* a length larger than the input */
    reader = reader_of(bytes, 13);
    assert_null(reader_span32(&reader).data);
    assert_true(reader.failed);

    writer = writer_of(bytes, sizeof bytes);
    writer_span32(&writer, span_of(bytes, (size_t)UINT32_MAX + 1));
    assert_true(writer.failed);
    assert_int_equal(writer_size(&writer), 0);
}

static void texts_carry_their_length(void **state) {
    uint8_t bytes[16];
    char text[8], longest[300];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_text8(&writer, "hello");
    writer_text8(&writer, "");
    assert_true(!writer.failed && writer_size(&writer) == 7);
    reader reader = reader_of(bytes, 7);
    assert_true(reader_text8(&reader, text, 6)); /* just enough */
    assert_string_equal(text, "hello");
    assert_true(reader_text8(&reader, text, 1));
    assert_string_equal(text, "");
    reader = reader_of(bytes, 7);
    assert_false(reader_text8(&reader, text, 5));
    assert_true(reader.failed);
    reader = reader_of(bytes, 4); /* truncated */
    assert_false(reader_text8(&reader, text, sizeof text));
    bytes[2] = 0; /* a NUL inside the text */
    reader = reader_of(bytes, 7);
    assert_false(reader_text8(&reader, text, sizeof text));
    memset(longest, 'x', sizeof longest);
    longest[256] = '\0';
    writer_text8(&writer, longest);
    assert_true(writer.failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_grows_to_its_limit_and_no_further),
        cmocka_unit_test(a_zeroed_buffer_with_a_limit_is_ready),
        cmocka_unit_test(reserve_makes_room_that_stays),
        cmocka_unit_test(consume_drops_from_the_front),
        cmocka_unit_test(print_appends_text),
        cmocka_unit_test(a_buffer_survives_failing_allocations),
        cmocka_unit_test(numbers_are_little_endian),
        cmocka_unit_test(doubles_keep_their_bits),
        cmocka_unit_test(a_reader_at_its_end_fails_for_good),
        cmocka_unit_test(nothing_can_be_read),
        cmocka_unit_test(a_writer_at_its_end_fails_for_good),
        cmocka_unit_test(spans_carry_their_length),
        cmocka_unit_test(texts_carry_their_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
