/* slot_message_test.c — packets decode to the messages that were written; malformed ones are rejected. */
#include "ps/slot_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/message_recorder.h"

static const slot_message_head who = {
    .generation = 3, .number = 9, .incarnation = 7, .who = SLOT_MESSAGE_RANK | 2, .address = "r2"};

static const slot_message parts[] = {
    {.kind = SLOT_MESSAGE_PUSH,
     .slot = 4,
     .rank = 2,
     .epoch = 8,
     .name = 6,
     .prev = 5,
     .entry = 3,
     .priority = 9,
     .terms = {(const uint8_t *)"tt", 2},
     .payload = {(const uint8_t *)"abc", 3}},
    {.kind = SLOT_MESSAGE_LEVEL, .status = SLOT_MESSAGE_LATER, .lsn = 11, .commit = 10},
    {.kind = SLOT_MESSAGE_GATE, .name = UINT64_MAX, .prev = UINT64_MAX},
};
enum { COUNT = sizeof parts / sizeof *parts };

static span write_batch(slot_packet *packet) {
    part_begin(packet, &who);
    for (size_t i = 0; i < COUNT; i++) slot_packet_add(packet, &parts[i]);
    return slot_packet_end(packet);
}

static void batches_come_back_as_they_went(void **state) {
    slot_packet packet = {0};
    for (int again = 0; again < 2; again++) {
        span bytes = write_batch(&packet);
        reader reader = reader_of(bytes.data, bytes.size);
        slot_message_head head;
        uint32_t count;
        slot_message message;
        assert_int_equal(slot_message_read_head(&reader, &head, &count), MR_OK);
        assert_true(count == COUNT && !head.maps);
        assert_true(head.generation == 3 && head.number == 9 && head.incarnation == 7 && head.who == who.who);
        assert_string_equal(head.address, "r2");
        struct reader peeks = reader_of(bytes.data, bytes.size);
        slot_message_head peeked;
        assert_int_equal(slot_message_peek(&peeks, &peeked, &count), MR_OK);
        assert_true(count == COUNT && peeked.number == 9 && peeked.generation == 3 && peeked.who == who.who);
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(slot_message_read(&reader, &message), MR_OK);
            assert_true(message.kind == parts[i].kind && message.status == parts[i].status &&
                        message.slot == parts[i].slot);
            assert_true(message.rank == parts[i].rank && message.epoch == parts[i].epoch &&
                        message.lsn == parts[i].lsn);
            assert_true(message.commit == parts[i].commit && message.name == parts[i].name &&
                        message.prev == parts[i].prev);
            assert_true(message.priority == parts[i].priority && message.entry == parts[i].entry &&
                        message.terms.size == parts[i].terms.size);
            if (message.terms.size != 0) assert_memory_equal(message.terms.data, "tt", 2);
            assert_int_equal(message.payload.size, parts[i].payload.size);
            if (message.payload.size != 0) assert_memory_equal(message.payload.data, "abc", 3);
        }
        assert_int_equal(reader_left(&reader), 0);
    }
    slot_packet_fini(&packet);
}

static void truncated_messages_are_refused(void **state) {
    slot_packet packet = {0};
    span bytes = write_batch(&packet);
    for (size_t cut = 0; cut < bytes.size; cut++) {
        uint8_t *copy = xmalloc(cut + 1);
        memcpy(copy, bytes.data, cut);
        reader reader = reader_of(copy, cut);
        slot_message_head head;
        uint32_t count, good = 0;
        slot_message message;
        if (slot_message_read_head(&reader, &head, &count) == MR_OK)
            while (good < count && slot_message_read(&reader, &message) == MR_OK) good++;
        assert_true(good < COUNT);
        free(copy);
    }
    slot_packet_fini(&packet);
}

static void large_payloads_are_aligned(void **state) {
    slot_packet packet = {0};
    uint8_t payload[SLOT_MESSAGE_POINTED] = {0};
    for (size_t terms = 0; terms < 9; terms++) {
        part_begin(&packet, &who);
        slot_packet_add(&packet, &(slot_message){.kind = SLOT_MESSAGE_PUSH, .payload = span_of("x", 1)});
        slot_packet_add(
            &packet, &(slot_message){.terms = span_of("12345678", terms), .payload = span_of(payload, sizeof payload)});
        span bytes = slot_packet_end(&packet);
        reader reader = reader_of(bytes.data, bytes.size);
        slot_message_head head;
        uint32_t count;
        slot_message message;
        assert_int_equal(slot_message_read_head(&reader, &head, &count), MR_OK);
        assert_int_equal(slot_message_read(&reader, &message), MR_OK);
        assert_int_equal(slot_message_read(&reader, &message), MR_OK);
        assert_int_equal((message.payload.data - bytes.data) % 8, 0);
        assert_int_equal(message.payload.size, sizeof payload);
        assert_int_equal(message.terms.size, terms);
    }
    slot_packet_fini(&packet);
}

/* A reader gets payload and tail in one piece, whether the packet references the tail or copies it. */
static void tails_follow_their_payload(void **state) {
    enum { TAIL = 2 * SLOT_MESSAGE_POINTED };
    shared_bytes *tail = shared_bytes_new(TAIL);
    memset(shared_bytes_room(tail), 7, TAIL);
    for (int points = 0; points < 2; points++) {
        slot_packet packet = {.points = points == 1};
        part_begin(&packet, &who);
        slot_packet_add(&packet, &(slot_message){.kind = SLOT_MESSAGE_PUSH,
                                                 .payload = span_of("abc", 3),
                                                 .tail = {shared_bytes_bytes(tail), tail}});
        slot_packet_add(&packet, &(slot_message){.kind = SLOT_MESSAGE_PUSH, .name = 2, .payload = span_of("d", 1)});
        assert_int_equal(tail->refs, 1 + points);
        shared_bytes *all = slot_packet_copy(&packet);
        span bytes = shared_bytes_bytes(all);
        assert_int_equal(bytes.size, slot_packet_size(&packet));
        reader reader = reader_of(bytes.data, bytes.size);
        slot_message_head head;
        uint32_t count;
        slot_message message;
        assert_int_equal(slot_message_read_head(&reader, &head, &count), MR_OK);
        assert_int_equal(slot_message_read(&reader, &message), MR_OK);
        assert_int_equal(message.payload.size, 3 + TAIL);
        assert_int_equal((message.payload.data - bytes.data) % 8, 0);
        assert_memory_equal(message.payload.data, "abc", 3);
        assert_memory_equal(message.payload.data + 3, shared_bytes_room(tail), TAIL);
        assert_int_equal(slot_message_read(&reader, &message), MR_OK);
        assert_true(message.name == 2 && message.payload.size == 1 && reader_left(&reader) == 0);
        shared_bytes_unref(all);
        slot_packet_fini(&packet);
        assert_int_equal(tail->refs, 1);
    }
    shared_bytes_unref(tail);
}

static void a_batch_says_that_it_has_a_map(void **state) {
    slot_packet packet = {0};
    slot_message_head head;
    uint32_t count;
    (void)write_batch(&packet);
    slot_packet_add(&packet, &(slot_message){.kind = SLOT_MESSAGE_MAP});
    span bytes = slot_packet_end(&packet);
    reader reader = reader_of(bytes.data, bytes.size);
    assert_int_equal(slot_message_read_head(&reader, &head, &count), MR_OK);
    assert_true(count == COUNT + 1 && head.maps);
    bytes = write_batch(&packet); /* the next packet has no MAP */
    reader = reader_of(bytes.data, bytes.size);
    assert_int_equal(slot_message_read_head(&reader, &head, &count), MR_OK);
    assert_true(count == COUNT && !head.maps);
    slot_packet_fini(&packet);
}

static void another_format_is_rejected_with_both_numbers(void **state) {
    slot_packet packet = {0};
    slot_message_head head;
    uint32_t count;
    span bytes = write_batch(&packet);
    uint8_t *other = xmalloc(bytes.size);
    memcpy(other, bytes.data, bytes.size);
    other[3] = '9';
    reader reader = reader_of(other, bytes.size);
    assert_int_equal(slot_message_read_head(&reader, &head, &count), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "has format 9; this version reads format 2: use the same Miniray release"));
    free(other);
    slot_packet_fini(&packet);
}

static void kinds_have_names(void **state) {
    assert_string_equal(slot_message_kind_name(SLOT_MESSAGE_PUSH), "PUSH");
    assert_string_equal(slot_message_kind_name(SLOT_MESSAGE_MAP), "MAP");
    assert_string_equal(slot_message_kind_name(200), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_come_back_as_they_went),
        cmocka_unit_test(truncated_messages_are_refused),
        cmocka_unit_test(large_payloads_are_aligned),
        cmocka_unit_test(tails_follow_their_payload),
        cmocka_unit_test(a_batch_says_that_it_has_a_map),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(another_format_is_rejected_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
