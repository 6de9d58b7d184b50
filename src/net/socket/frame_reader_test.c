/* frame_reader_test.c — frames are read as they were sent, in any division of the stream. */
#include "net/socket/frame_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "net/transport.h"
#include "tests/support/sanitized.h"

enum { BUFFER = 64 * 1024 };

static const frame_limits wide = {.head_max = MESSAGE_HEAD_MAX, .body_max = UINT64_MAX};

/* A peer's byte stream. */
typedef struct source {
    uint8_t *bytes;
    size_t size, at;
} source;

static void add(source *source, const void *bytes, size_t size) {
    source->bytes = xrealloc(source->bytes, source->size + size + 1);
    if (size > 0) memcpy(source->bytes + source->size, bytes, size);
    source->size += size;
}

static void add_frame(source *source, frame_kind kind, span head, span body, bool checked) {
    uint8_t header[FRAME_HEADER_SIZE];
    frame frame = {.kind = kind, .head = head, .body_size = body.size};
    if (checked) {
        frame.flags = FRAME_BODY_CHECKED;
        frame.body_checksum = frame_body_checksum(body);
    }
    frame_encode_header(header, &frame);
    add(source, header, sizeof header);
    add(source, head.data, head.size);
    add(source, body.data, body.size);
}

/* Reads at most `limit` bytes, as from a socket without more. */
static size_t feed(source *source, frame_reader *reader, size_t limit) {
    struct iovec pieces[2];
    size_t count = frame_reader_show(reader, pieces), got = 0;
    assert_true(count == 1 || count == 2);
    for (size_t i = 0; i < count; i++) {
        assert_true(pieces[i].iov_len > 0);
        size_t part = source->size - source->at < limit ? source->size - source->at : limit;
        if (part > pieces[i].iov_len) part = pieces[i].iov_len;
        memcpy(pieces[i].iov_base, source->bytes + source->at, part);
        source->at += part;
        got += part;
        limit -= part;
    }
    frame_reader_got(reader, got);
    return got;
}

static void start(frame_reader *reader, const frame_limits *limits, size_t capacity) {
    frame_reader_init(reader, limits);
    frame_reader_give(reader, xmalloc(capacity), capacity);
    frame_reader_event event;
    assert_int_equal(frame_reader_next(reader, &event), MR_OK);
    assert_int_equal(event, FRAME_READER_MORE);
}

static void many_frames_come_from_one_read(void **state) {
    source source = {0};
    frame_reader reader;
    for (uint8_t i = 0; i < 20; i++) add_frame(&source, FRAME_MESSAGE, span_of(&i, 1), (span){0}, false);
    start(&reader, &wide, BUFFER);
    feed(&source, &reader, SIZE_MAX);
    frame_reader_event event;
    for (uint8_t i = 0; i < 20; i++) {
        assert_int_equal(frame_reader_next(&reader, &event), MR_OK);
        assert_int_equal(event, FRAME_READER_FRAME);
        assert_int_equal(reader.frame.head.size, 1);
        assert_int_equal(reader.frame.head.data[0], i);
        assert_int_equal(frame_reader_frame_body(&reader).size, 0);
    }
    assert_int_equal(frame_reader_next(&reader, &event), MR_OK);
    assert_int_equal(event, FRAME_READER_MORE);
    size_t capacity;
    uint8_t *buffer = frame_reader_release(&reader, &capacity);
    assert_non_null(buffer);
    assert_int_equal(capacity, BUFFER);
    free(buffer);
    frame_reader_fini(&reader);
    free(source.bytes);
}

/* The given buffer contains any part of frames; missing bytes are read after it. */
static void a_buffer_may_come_with_bytes_in_it(void **state) {
    source source = {0};
    for (uint8_t i = 0; i < 3; i++) add_frame(&source, FRAME_MESSAGE, span_of(&i, 1), (span){0}, false);
    for (size_t filled = 0; filled <= source.size; filled++) {
        frame_reader reader;
        frame_reader_event event;
        uint8_t *buffer = xmalloc(BUFFER);
        uint8_t frames = 0;
        frame_reader_init(&reader, &wide);
        memcpy(buffer, source.bytes, filled);
        frame_reader_fill(&reader, buffer, BUFFER, filled);
        source.at = filled;
        while (frames < 3) {
            assert_int_equal(frame_reader_next(&reader, &event), MR_OK);
            if (event == FRAME_READER_MORE)
                feed(&source, &reader, 1);
            else
                assert_int_equal(reader.frame.head.data[0], frames++);
        }
        assert_int_equal(source.at, source.size);
        frame_reader_fini(&reader);
    }
    free(source.bytes);
}

/* A large body is read directly to its memory, except for the bytes that came with its head. */
static void a_large_body_is_hardly_copied(void **state) {
    enum { BODY = 1 << 20, COUNT = 5 };
    uint8_t *body = xcalloc(1, BODY), *place = xmalloc(BODY);
    source source = {0};
    frame_reader reader;
    frame_reader_event event;
    for (int i = 0; i < COUNT; i++) add_frame(&source, FRAME_MESSAGE, span_of("head", 4), span_of(body, BODY), false);
    start(&reader, &wide, BUFFER);
    int reads = 0, frames = 0;
    while (frames < COUNT) {
        assert_int_equal(frame_reader_next(&reader, &event), MR_OK);
        if (event == FRAME_READER_MORE) {
            feed(&source, &reader, SIZE_MAX);
            reads++;
        } else if (event == FRAME_READER_BODY) {
            frame_reader_body(&reader, place);
        } else {
            assert_memory_equal(reader.frame.head.data, "head", 4);
            frames++;
        }
    }
    assert_true(reads <= COUNT + 1);
    assert_true(reader.body_copied <= (uint64_t)COUNT * FRAME_READER_READ_MIN);
    frame_reader_fini(&reader);
    free(source.bytes);
    free(body);
    free(place);
}

static void reads_grow_with_small_frames(void **state) {
    source source = {0};
    frame_reader reader;
    frame_reader_event event;
    for (int i = 0; i < 10000; i++) add_frame(&source, FRAME_MESSAGE, span_of("0123456789", 10), (span){0}, false);
    start(&reader, &wide, BUFFER);
    int reads = 0, frames = 0;
    while (frames < 10000) {
        assert_int_equal(frame_reader_next(&reader, &event), MR_OK);
        if (event == FRAME_READER_FRAME) frames++;
        if (event == FRAME_READER_MORE) feed(&source, &reader, SIZE_MAX), reads++;
    }
    assert_true(reads <= 5 + 420000 / (BUFFER - FRAME_READER_SLACK - 42));
    frame_reader_fini(&reader);
    free(source.bytes);
}

/* All kinds of frames, divided at random, with and without memory for the body, compared with what was sent. */
static void random_pieces_give_the_same_frames(void **state) {
    enum { FRAMES = 60 };
    uint8_t *noise = xmalloc(MESSAGE_HEAD_MAX + 200000), *place = xmalloc(200000);
    for (uint64_t seed = 1; seed <= (SANITIZED ? 10 : 60); seed++) {
        rng rng;
        rng_init(&rng, seed);
        rng_fill(&rng, noise, MESSAGE_HEAD_MAX + 200000);
        struct sent {
            span head, body;
        } sent[FRAMES];
        source source = {0};
        for (int i = 0; i < FRAMES; i++) {
            static const uint64_t heads[] = {1, 50, 5000, BUFFER, MESSAGE_HEAD_MAX + 1};
            static const uint64_t bodies[] = {1, 100, 9000, 199999};
            span head = span_of(noise + rng_below(&rng, 1000), (size_t)rng_below(&rng, heads[rng_below(&rng, 5)]));
            span body = span_of(noise + rng_below(&rng, 1000), (size_t)rng_below(&rng, bodies[rng_below(&rng, 4)]));
            if (rng_chance(&rng, 0.1))
                head.size = BUFFER - FRAME_HEADER_SIZE - (size_t)rng_below(&rng, FRAME_READER_SLACK);
            sent[i] = (struct sent){head, body};
            add_frame(&source, FRAME_MESSAGE, head, body, body.size > 0 && rng_chance(&rng, 0.5));
        }
        frame_reader reader;
        frame_reader_event event;
        start(&reader, &wide, BUFFER);
        uint64_t limit = 1 + rng_below(&rng, rng_chance(&rng, 0.5) ? 3000 : 300000);
        for (int frames = 0; frames < FRAMES;) {
            assert_int_equal(frame_reader_next(&reader, &event), MR_OK);
            if (event == FRAME_READER_MORE) {
                if (rng_chance(&rng, 0.02)) frame_reader_discard(&reader);
                if (rng_chance(&rng, 0.5)) {
                    size_t capacity;
                    free(frame_reader_release(&reader, &capacity));
                    if (!frame_reader_has_buffer(&reader)) {
                        frame_reader_give(&reader, xmalloc(BUFFER), BUFFER);
                        assert_int_equal(frame_reader_next(&reader, &event), MR_OK);
                    }
                }
                feed(&source, &reader, 1 + (size_t)rng_below(&rng, limit));
                continue;
            }
            const struct sent *now = &sent[frames];
            assert_int_equal(reader.frame.head.size, now->head.size);
            assert_memory_equal(reader.frame.head.data, now->head.data, now->head.size);
            assert_true(reader.frame.body_size == now->body.size);
            if (event == FRAME_READER_BODY) {
                frame_reader_body(&reader, rng_chance(&rng, 0.1) ? NULL : place);
                continue;
            }
            span body = frame_reader_frame_body(&reader);
            assert_int_equal(body.size, now->body.size);
            if (body.data != NULL) assert_memory_equal(body.data, now->body.data, body.size);
            frames++;
        }
        assert_int_equal(source.at, source.size);
        frame_reader_fini(&reader);
        free(source.bytes);
    }
    free(noise);
    free(place);
}

static mr_status outcome(source *source, const frame_limits *limits, size_t capacity) {
    frame_reader reader;
    frame_reader_event event;
    uint8_t place[64];
    start(&reader, limits, capacity);
    mr_status status;
    while ((status = frame_reader_next(&reader, &event)) == MR_OK) {
        if (event == FRAME_READER_BODY) frame_reader_body(&reader, place);
        if (event == FRAME_READER_MORE && feed(source, &reader, SIZE_MAX) == 0) break;
    }
    frame_reader_fini(&reader);
    free(source->bytes);
    *source = (struct source){0};
    return status;
}

static void errors_are_distinguished(void **state) {
    source source = {0};
    add(&source, "GET / HTTP/1.1\r\n\r\n", 18);
    assert_int_equal(outcome(&source, &wide, BUFFER), MR_CORRUPT);

    add_frame(&source, FRAME_PING, (span){0}, (span){0}, false);
    assert_int_equal(outcome(&source, &wide, BUFFER), MR_OK);

    add_frame(&source, FRAME_PING, (span){0}, (span){0}, false);
    source.bytes[4]++; /* the version */
    assert_int_equal(outcome(&source, &wide, BUFFER), MR_DENIED);

    add_frame(&source, FRAME_PING, (span){0}, (span){0}, false);
    source.size = 5;
    source.bytes[4]++; /* refused as soon as the byte arrives */
    assert_int_equal(outcome(&source, &wide, BUFFER), MR_DENIED);

    add_frame(&source, FRAME_MESSAGE, span_of("1", 1), span_of("body", 4), true);
    source.bytes[source.size - 1]++;
    assert_int_equal(outcome(&source, &wide, BUFFER), MR_CORRUPT);

    add_frame(&source, FRAME_MESSAGE, span_of("1", 1), span_of("body", 4), false);
    frame_limits narrow = {.head_max = 10, .body_max = 3};
    assert_int_equal(outcome(&source, &narrow, 256), MR_TOO_LARGE);
}

static void without_memory_for_a_head_it_fails(void **state) {
    uint8_t *head = xcalloc(1, MESSAGE_HEAD_MAX);
    source source = {0};
    add_frame(&source, FRAME_MESSAGE, span_of(head, MESSAGE_HEAD_MAX), (span){0}, false);
    alloc_fail_at(1);
    assert_int_equal(outcome(&source, &wide, BUFFER), MR_NOMEM);
    alloc_fail_at(0);
    free(head);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_frames_come_from_one_read),     cmocka_unit_test(a_buffer_may_come_with_bytes_in_it),
        cmocka_unit_test(a_large_body_is_hardly_copied),      cmocka_unit_test(reads_grow_with_small_frames),
        cmocka_unit_test(random_pieces_give_the_same_frames), cmocka_unit_test(errors_are_distinguished),
        cmocka_unit_test(without_memory_for_a_head_it_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
