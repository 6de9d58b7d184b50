/* frame_test.c — encoded frames decode, byte by byte or at once; other bytes are refused. */
#include "net/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "net/transport.h"

static const frame_limits wide = {.head_max = MESSAGE_HEAD_MAX, .body_max = UINT64_MAX};
static const frame_limits within = {.head_max = MESSAGE_HEAD_MAX, .body_max = UINT64_MAX, .plain = true};

/* Writes the frame as on the stream, without its body. */
static size_t encode(uint8_t *out, const frame *frame) {
    frame_encode_header(out, frame);
    if (frame->head.size != 0) memcpy(out + FRAME_HEADER_SIZE, frame->head.data, frame->head.size);
    return FRAME_HEADER_SIZE + frame->head.size;
}

static void same_frame(const frame *a, const frame *b) {
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->body_size, b->body_size);
    assert_int_equal(a->body_checksum, b->body_checksum);
    assert_int_equal(a->head.size, b->head.size);
    if (a->head.size != 0) assert_memory_equal(a->head.data, b->head.data, a->head.size);
}

static frame random_frame(rng *rng, uint8_t *head, size_t head_max) {
    frame frame = {.kind = (frame_kind)rng_between(rng, FRAME_HELLO, FRAME_BYE)};
    frame.head = span_of(head, rng_below(rng, head_max + 1));
    rng_fill(rng, head, frame.head.size);
    if (frame.kind != FRAME_MESSAGE || rng_chance(rng, 0.5)) return frame;
    frame.body_size = 1 + rng_below(rng, UINT64_MAX);
    if (rng_chance(rng, 0.5)) {
        frame.flags = FRAME_BODY_CHECKED;
        frame.body_checksum = rng_next(rng);
    }
    return frame;
}

static void frames_come_back(void **state) {
    rng rng;
    rng_init(&rng, 1);
    uint8_t head[600], bytes[FRAME_HEADER_SIZE + 600], again[FRAME_HEADER_SIZE];
    for (int round = 0; round < 2000; round++) {
        frame in = random_frame(&rng, head, sizeof head), out;
        size_t size = encode(bytes, &in), need = 1;
        assert_int_equal(frame_decode(span_of(bytes, size), &wide, &out, &need), MR_OK);
        assert_int_equal(need, 0);
        assert_ptr_equal(out.head.data, bytes + FRAME_HEADER_SIZE);
        same_frame(&in, &out);
        frame_encode_header(again, &out);
        assert_memory_equal(again, bytes, sizeof again);
    }
}

static void the_decoder_asks_for_what_is_missing(void **state) {
    rng rng;
    rng_init(&rng, 2);
    uint8_t head[300], bytes[FRAME_HEADER_SIZE + 300 + 1];
    for (int round = 0; round < 50; round++) {
        frame in = random_frame(&rng, head, sizeof head), out;
        size_t size = encode(bytes, &in);
        for (size_t have = 0; have < size; have++) {
            size_t need = 0;
            uint8_t *part = malloc(have + 1); /* exact, so that the sanitizer detects reads past the end */
            memcpy(part, bytes, have);
            assert_int_equal(frame_decode(span_of(part, have), &wide, &out, &need), MR_OK);
            assert_int_equal(need, have < FRAME_HEADER_SIZE ? FRAME_HEADER_SIZE : size);
            free(part);
        }
        size_t need = 1;
        assert_int_equal(frame_decode(span_of(bytes, size + 1), &wide, &out, &need), MR_OK);
        assert_int_equal(need, 0);
        same_frame(&in, &out);
    }
}

static void every_flipped_bit_is_noticed(void **state) {
    uint8_t bytes[FRAME_HEADER_SIZE + 64], head[64];
    for (size_t i = 0; i < sizeof head; i++) head[i] = (uint8_t)i;
    const frame in = {.kind = FRAME_MESSAGE,
                      .flags = FRAME_BODY_CHECKED,
                      .head = span_of(head, sizeof head),
                      .body_size = 4096,
                      .body_checksum = 77};
    size_t size = encode(bytes, &in);
    for (size_t bit = 0; bit < size * 8; bit++) {
        frame out;
        size_t need = 0;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        mr_status status = frame_decode(span_of(bytes, size), &wide, &out, &need);
        /* A longer head is waited for, and its checksum fails when it has arrived. */
        assert_true(status == MR_CORRUPT || status == MR_TOO_LARGE || (status == MR_OK && need > size));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void check_plain(uint64_t body_size) {
    uint8_t bytes[FRAME_HEADER_SIZE + 5], again[FRAME_HEADER_SIZE];
    const frame in = {.kind = FRAME_MESSAGE, .flags = FRAME_PLAIN, .head = span_of("hello", 5), .body_size = body_size};
    const frame_limits narrow = {.head_max = 4, .body_max = UINT64_MAX, .plain = true};
    frame out;
    size_t size = encode(bytes, &in), need = 1;
    assert_int_equal(frame_decode(span_of(bytes, size), &wide, &out, &need), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "a MESSAGE frame with unknown flags 0x0002");
    assert_int_equal(frame_decode(span_of(bytes, size), &narrow, &out, &need), MR_TOO_LARGE);
    assert_int_equal(frame_decode(span_of(bytes, size - 1), &within, &out, &need), MR_OK);
    assert_int_equal(need, size);
    assert_int_equal(frame_decode(span_of(bytes, size), &within, &out, &need), MR_OK);
    assert_int_equal(need, 0);
    same_frame(&in, &out);
    frame_encode_header(again, &out);
    assert_memory_equal(again, bytes, sizeof again);
    frame_encode_plain(again, in.head.size);
    assert_int_equal(memcmp(again, bytes, sizeof again) == 0, body_size == 0);
    bytes[offsetof(frame_header, body_checksum)] = 1;
    assert_int_equal(frame_decode(span_of(bytes, size), &within, &out, &need), MR_CORRUPT);
    bytes[offsetof(frame_header, body_checksum)] = 0;
    bytes[offsetof(frame_header, checksum)] = 1; /* a frame has one encoding */
    assert_int_equal(frame_decode(span_of(bytes, size), &within, &out, &need), MR_CORRUPT);
}

/* FRAME_PLAIN frames are accepted where the limits allow them; errors other than damaged bytes are still detected. */
static void plain_frames_are_for_memory(void **state) {
    uint8_t bytes[FRAME_HEADER_SIZE + 5];
    frame out;
    size_t need;
    check_plain(7);
    check_plain(0);
    size_t size = encode(bytes, &(frame){.kind = FRAME_MESSAGE, .head = span_of("hello", 5)});
    bytes[size - 1] ^= 1; /* a checksum, if present, is checked there too */
    assert_int_equal(frame_decode(span_of(bytes, size), &within, &out, &need), MR_CORRUPT);
}

/* Changes one field of a valid header, corrects the checksum, and compares the decoder's error. */
typedef struct refusal {
    const char *text;
    mr_status status;
    frame_header change; /* fields that are not zero replace the valid ones */
} refusal;

static void wrong_fields_are_named(void **state) {
    const refusal list[] = {
        {"not a frame: it begins with the bytes 47 45 54 20", MR_CORRUPT, {.magic = 0x20544547}},
        {"the frame has format 9; this version reads format 1: use the same Miniray release on both sides",
         MR_CORRUPT,
         {.version = 9}},
        {"a frame of unknown kind 7", MR_CORRUPT, {.kind = 7}},
        {"a frame of unknown kind 66", MR_CORRUPT, {.kind = 66}},
        {"a MESSAGE frame with unknown flags 0x8000", MR_CORRUPT, {.flags = 0x8000}},
        {"a MESSAGE frame with a head of 1025 bytes: the limit is 1024", MR_TOO_LARGE, {.head_size = 1025}},
        {"a MESSAGE frame with a head of 4294967295 bytes: the limit is 1024", MR_TOO_LARGE, {.head_size = UINT32_MAX}},
        {"a PING frame with a body of 5 bytes: this kind has none", MR_CORRUPT, {.kind = FRAME_PING, .body_size = 5}},
        {"a MESSAGE frame with a body of 65537 bytes: the limit is 65536", MR_TOO_LARGE, {.body_size = 65537}},
        {"a MESSAGE frame with body checksum 0000000000000007, flags 0x0000 and a body of 9 bytes",
         MR_CORRUPT,
         {.body_size = 9, .body_checksum = 7}},
        {"a MESSAGE frame with body checksum 0000000000000000, flags 0x0001 and a body of 0 bytes",
         MR_CORRUPT,
         {.flags = FRAME_BODY_CHECKED}},
    };
    const frame_limits limits = {.head_max = 1024, .body_max = 65536};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        frame_header h = list[i].change;
        if (h.magic == 0) h.magic = FRAME_MAGIC;
        if (h.version == 0) h.version = FRAME_VERSION;
        if (h.kind == 0) h.kind = FRAME_MESSAGE;
        h.checksum = frame_checksum(&h, span_of(NULL, 0));
        frame out;
        size_t need;
        assert_int_equal(frame_decode(span_of(&h, sizeof h), &limits, &out, &need), list[i].status);
        assert_string_equal(mr_last_error(), list[i].text);
    }
}

static void no_limit_is_above_the_transports(void **state) {
    const frame_limits limits = {.head_max = UINT32_MAX};
    frame_header h = {
        .magic = FRAME_MAGIC, .version = FRAME_VERSION, .kind = FRAME_MESSAGE, .head_size = MESSAGE_HEAD_MAX + 1};
    frame out;
    size_t need;
    assert_int_equal(frame_decode(span_of(&h, sizeof h), &limits, &out, &need), MR_TOO_LARGE);
    h.head_size = MESSAGE_HEAD_MAX;
    assert_int_equal(frame_decode(span_of(&h, sizeof h), &limits, &out, &need), MR_OK);
    assert_int_equal(need, FRAME_HEADER_SIZE + MESSAGE_HEAD_MAX);
}

static void strangers_are_refused_at_their_first_bytes(void **state) {
    frame out;
    size_t need;
    assert_int_equal(frame_decode(span_of("G", 1), &wide, &out, &need), MR_CORRUPT);
    assert_string_equal(mr_last_error(), "not a frame: its byte 0 is 47");
    assert_int_equal(frame_decode(span_of("\x8dMRF\x02", 5), &wide, &out, &need), MR_CORRUPT);
    assert_string_equal(
        mr_last_error(),
        "the frame has format 2; this version reads format 1: use the same Miniray release on both sides");
    assert_int_equal(frame_decode(span_of(NULL, 0), &wide, &out, &need), MR_OK);
    assert_int_equal(need, FRAME_HEADER_SIZE);
}

static void a_damaged_head_is_named(void **state) {
    uint8_t bytes[FRAME_HEADER_SIZE + 5];
    const frame in = {.kind = FRAME_HELLO, .head = span_of("hello", 5)};
    encode(bytes, &in);
    bytes[sizeof bytes - 1] ^= 1;
    frame out;
    size_t need;
    assert_int_equal(frame_decode(span_of(bytes, sizeof bytes), &wide, &out, &need), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "a HELLO frame with checksum "));
    assert_non_null(strstr(mr_last_error(), ": its 5 bytes of head and its header have "));
}

static void bodies_are_summed_in_pieces(void **state) {
    rng rng;
    rng_init(&rng, 3);
    uint8_t body[5000];
    rng_fill(&rng, body, sizeof body);
    frame frame = {.kind = FRAME_MESSAGE, .flags = FRAME_BODY_CHECKED, .body_size = sizeof body};
    frame.body_checksum = frame_body_checksum(span_of(body, sizeof body));
    for (int round = 0; round < 100; round++) {
        frame_body_sum sum;
        frame_body_sum_init(&sum);
        for (size_t at = 0; at < sizeof body;) {
            size_t left = sizeof body - at, part = rng_below(&rng, left + 1);
            frame_body_sum_add(&sum, span_of(body + at, part));
            at += part;
        }
        assert_int_equal(frame_body_sum_get(&sum), frame.body_checksum);
        assert_int_equal(frame_body_sum_check(&sum, &frame), MR_OK);
    }
    frame_body_sum sum;
    frame_body_sum_init(&sum);
    frame_body_sum_add(&sum, span_of(body, sizeof body - 1));
    assert_int_equal(frame_body_sum_check(&sum, &frame), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "a body of 5000 bytes with checksum "));
    frame.flags = 0; /* no checksum was announced */
    assert_int_equal(frame_body_sum_check(&sum, &frame), MR_OK);
}

/* The checksum is part of the format: version 1 wrote these bytes, and they stay readable. */
static void the_format_does_not_drift(void **state) {
    static const uint8_t ping[FRAME_HEADER_SIZE + 2] = {0x8d, 'M', 'R', 'F',  1,    3,    0,    0,          2,
                                                        0,    0,   0,   0xa3, 0x55, 0xac, 0x7e, [32] = 'a', 'b'};
    uint8_t bytes[sizeof ping];
    const frame in = {.kind = FRAME_PING, .head = span_of("ab", 2)};
    encode(bytes, &in);
    assert_memory_equal(bytes, ping, sizeof ping);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_back),
        cmocka_unit_test(the_decoder_asks_for_what_is_missing),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(plain_frames_are_for_memory),
        cmocka_unit_test(wrong_fields_are_named),
        cmocka_unit_test(no_limit_is_above_the_transports),
        cmocka_unit_test(strangers_are_refused_at_their_first_bytes),
        cmocka_unit_test(a_damaged_head_is_named),
        cmocka_unit_test(bodies_are_summed_in_pieces),
        cmocka_unit_test(the_format_does_not_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
