/* part_test.c — batches come back as they went; what is no batch is refused. */
#include "ps/part.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/said.h"

static const part_head who = {.generation = 3, .number = 9, .incarnation = 7, .who = PART_RANK | 2, .address = "r2"};

static const part parts[] = {
    {.kind = PART_PUSH,
     .slot = 4,
     .rank = 2,
     .epoch = 8,
     .name = 6,
     .prev = 5,
     .entry = 3,
     .priority = 9,
     .terms = {(const uint8_t *)"tt", 2},
     .payload = {(const uint8_t *)"abc", 3}},
    {.kind = PART_LEVEL, .status = PART_LATER, .lsn = 11, .commit = 10},
    {.kind = PART_GATE, .name = UINT64_MAX, .prev = UINT64_MAX},
};
enum { COUNT = sizeof parts / sizeof *parts };

static span write_batch(part_batch *batch) {
    part_begin(batch, &who);
    for (size_t i = 0; i < COUNT; i++) part_add(batch, &parts[i]);
    return part_end(batch);
}

static void batches_come_back_as_they_went(void **state) {
    part_batch batch = {0};
    for (int again = 0; again < 2; again++) {
        span bytes = write_batch(&batch);
        reader reader = reader_of(bytes.data, bytes.size);
        part_head head;
        uint32_t count;
        part part;
        assert_int_equal(part_read_head(&reader, &head, &count), MR_OK);
        assert_true(count == COUNT && !head.charts);
        assert_true(head.generation == 3 && head.number == 9 && head.incarnation == 7 && head.who == who.who);
        assert_string_equal(head.address, "r2");
        struct reader peeks = reader_of(bytes.data, bytes.size);
        part_head peeked;
        assert_int_equal(part_peek(&peeks, &peeked, &count), MR_OK);
        assert_true(count == COUNT && peeked.number == 9 && peeked.generation == 3 && peeked.who == who.who);
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(part_read(&reader, &part), MR_OK);
            assert_true(part.kind == parts[i].kind && part.status == parts[i].status && part.slot == parts[i].slot);
            assert_true(part.rank == parts[i].rank && part.epoch == parts[i].epoch && part.lsn == parts[i].lsn);
            assert_true(part.commit == parts[i].commit && part.name == parts[i].name && part.prev == parts[i].prev);
            assert_true(part.priority == parts[i].priority && part.entry == parts[i].entry &&
                        part.terms.size == parts[i].terms.size);
            if (part.terms.size != 0) assert_memory_equal(part.terms.data, "tt", 2);
            assert_int_equal(part.payload.size, parts[i].payload.size);
            if (part.payload.size != 0) assert_memory_equal(part.payload.data, "abc", 3);
        }
        assert_int_equal(reader_left(&reader), 0);
    }
    part_batch_fini(&batch);
}

static void what_is_cut_is_refused(void **state) {
    part_batch batch = {0};
    span bytes = write_batch(&batch);
    for (size_t cut = 0; cut < bytes.size; cut++) {
        uint8_t *copy = xmalloc(cut + 1);
        memcpy(copy, bytes.data, cut);
        reader reader = reader_of(copy, cut);
        part_head head;
        uint32_t count, good = 0;
        part part;
        if (part_read_head(&reader, &head, &count) == MR_OK)
            while (good < count && part_read(&reader, &part) == MR_OK) good++;
        assert_true(good < COUNT);
        free(copy);
    }
    part_batch_fini(&batch);
}

static void large_payloads_are_aligned(void **state) {
    part_batch batch = {0};
    uint8_t payload[PART_POINTED] = {0};
    for (size_t terms = 0; terms < 9; terms++) {
        part_begin(&batch, &who);
        part_add(&batch, &(part){.kind = PART_PUSH, .payload = span_of("x", 1)});
        part_add(&batch, &(part){.terms = span_of("12345678", terms), .payload = span_of(payload, sizeof payload)});
        span bytes = part_end(&batch);
        reader reader = reader_of(bytes.data, bytes.size);
        part_head head;
        uint32_t count;
        part part;
        assert_int_equal(part_read_head(&reader, &head, &count), MR_OK);
        assert_int_equal(part_read(&reader, &part), MR_OK);
        assert_int_equal(part_read(&reader, &part), MR_OK);
        assert_int_equal((part.payload.data - bytes.data) % 8, 0);
        assert_int_equal(part.payload.size, sizeof payload);
        assert_int_equal(part.terms.size, terms);
    }
    part_batch_fini(&batch);
}

/* A payload that goes on elsewhere is one to who reads it, whether the batch points at it or not. */
static void tails_follow_their_payload(void **state) {
    enum { TAIL = 2 * PART_POINTED };
    bale *tail = bale_new(TAIL);
    memset(bale_room(tail), 7, TAIL);
    for (int points = 0; points < 2; points++) {
        part_batch batch = {.points = points == 1};
        part_begin(&batch, &who);
        part_add(&batch, &(part){.kind = PART_PUSH, .payload = span_of("abc", 3), .tail = {bale_bytes(tail), tail}});
        part_add(&batch, &(part){.kind = PART_PUSH, .name = 2, .payload = span_of("d", 1)});
        assert_int_equal(tail->refs, 1 + points);
        bale *all = part_copy(&batch);
        span bytes = bale_bytes(all);
        assert_int_equal(bytes.size, part_size(&batch));
        reader reader = reader_of(bytes.data, bytes.size);
        part_head head;
        uint32_t count;
        part part;
        assert_int_equal(part_read_head(&reader, &head, &count), MR_OK);
        assert_int_equal(part_read(&reader, &part), MR_OK);
        assert_int_equal(part.payload.size, 3 + TAIL);
        assert_int_equal((part.payload.data - bytes.data) % 8, 0);
        assert_memory_equal(part.payload.data, "abc", 3);
        assert_memory_equal(part.payload.data + 3, bale_room(tail), TAIL);
        assert_int_equal(part_read(&reader, &part), MR_OK);
        assert_true(part.name == 2 && part.payload.size == 1 && reader_left(&reader) == 0);
        bale_unref(all);
        part_batch_fini(&batch);
        assert_int_equal(tail->refs, 1);
    }
    bale_unref(tail);
}

static void a_batch_says_that_it_has_a_chart(void **state) {
    part_batch batch = {0};
    part_head head;
    uint32_t count;
    (void)write_batch(&batch);
    part_add(&batch, &(part){.kind = PART_CHART});
    span bytes = part_end(&batch);
    reader reader = reader_of(bytes.data, bytes.size);
    assert_int_equal(part_read_head(&reader, &head, &count), MR_OK);
    assert_true(count == COUNT + 1 && head.charts);
    bytes = write_batch(&batch); /* the next one has none */
    reader = reader_of(bytes.data, bytes.size);
    assert_int_equal(part_read_head(&reader, &head, &count), MR_OK);
    assert_true(count == COUNT && !head.charts);
    part_batch_fini(&batch);
}

static void another_format_is_rejected_with_both_numbers(void **state) {
    part_batch batch = {0};
    part_head head;
    uint32_t count;
    span bytes = write_batch(&batch);
    uint8_t *other = xmalloc(bytes.size);
    memcpy(other, bytes.data, bytes.size);
    other[3] = '9';
    reader reader = reader_of(other, bytes.size);
    assert_int_equal(part_read_head(&reader, &head, &count), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "has format 9; this version reads format 1: use the same Miniray release"));
    free(other);
    part_batch_fini(&batch);
}

static void kinds_have_names(void **state) {
    assert_string_equal(part_kind_name(PART_PUSH), "PUSH");
    assert_string_equal(part_kind_name(PART_CHART), "CHART");
    assert_string_equal(part_kind_name(200), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_come_back_as_they_went),
        cmocka_unit_test(what_is_cut_is_refused),
        cmocka_unit_test(large_payloads_are_aligned),
        cmocka_unit_test(tails_follow_their_payload),
        cmocka_unit_test(a_batch_says_that_it_has_a_chart),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(another_format_is_rejected_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
