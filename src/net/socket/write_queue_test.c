/* write_queue_test.c — committed bytes are written in order, however few the socket accepts at a time. */
#include "net/socket/write_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

static void nobody(void *argument, mr_status status) {}

/* Accepts up to `limit` bytes, as a socket. */
static size_t drain(write_queue *queue, uint8_t *out, size_t limit, size_t pieces_max) {
    struct iovec pieces[8];
    size_t count = write_queue_show(queue, pieces, pieces_max), taken = 0;
    for (size_t i = 0; i < count && taken < limit; i++) {
        assert_true(pieces[i].iov_len > 0);
        size_t part = pieces[i].iov_len < limit - taken ? pieces[i].iov_len : limit - taken;
        memcpy(out + taken, pieces[i].iov_base, part);
        taken += part;
    }
    write_queue_wrote(queue, taken);
    return taken;
}

static void put(write_queue *queue, const char *text) {
    uint8_t *place;
    assert_int_equal(write_queue_reserve(queue, strlen(text) + 10, &place), MR_OK);
    memcpy(place, text, strlen(text));
    write_queue_commit(queue, strlen(text));
}

static void commit_body(write_queue *queue, size_t size, span body, void *argument) {
    write_queue_commit(queue, size);
    write_queue_add_body(queue, body);
    write_queue_when_sent(queue, nobody, argument);
}

static void put_body(write_queue *queue, const char *text, const char *body, void *argument) {
    uint8_t *place;
    assert_int_equal(write_queue_reserve(queue, strlen(text), &place), MR_OK);
    memcpy(place, text, strlen(text));
    commit_body(queue, strlen(text), span_of(body, strlen(body)), argument);
}

static void small_frames_leave_in_one_piece(void **state) {
    write_queue queue = {0};
    put(&queue, "one ");
    put(&queue, "two ");
    put(&queue, "three");
    struct iovec pieces[8];
    assert_int_equal(write_queue_show(&queue, pieces, 8), 1);
    assert_int_equal(pieces[0].iov_len, 13);
    assert_memory_equal(pieces[0].iov_base, "one two three", 13);
    assert_int_equal(write_queue_pending(&queue), 13);
    write_queue_wrote(&queue, 13);
    assert_int_equal(write_queue_show(&queue, pieces, 8), 0);
    write_queue_fini(&queue);
}

static void bodies_are_borrowed_and_told_in_order(void **state) {
    write_queue queue = {0};
    static const char first[] = "FIRST", second[] = "SECOND";
    body_sent_fn *sent;
    void *argument;
    put(&queue, "a");
    put_body(&queue, "b", first, (void *)1);
    put_body(&queue, "c", second, (void *)2);
    put(&queue, "d");
    struct iovec pieces[8];
    assert_int_equal(write_queue_show(&queue, pieces, 8), 5);
    assert_ptr_equal(pieces[1].iov_base, first);
    assert_ptr_equal(pieces[3].iov_base, second);
    assert_int_equal(write_queue_show(&queue, pieces, 2), 2);

    write_queue_wrote(&queue, 2 + 2);
    assert_true(write_queue_is_inside_body(&queue));
    assert_false(write_queue_take(&queue, false, &sent, &argument));
    write_queue_wrote(&queue, 3);
    assert_false(write_queue_is_inside_body(&queue));
    assert_true(write_queue_take(&queue, false, &sent, &argument));
    assert_ptr_equal(argument, (void *)1);
    assert_ptr_equal(sent, nobody);
    assert_false(write_queue_take(&queue, false, &sent, &argument));
    assert_true(write_queue_take(&queue, true, &sent, &argument)); /* the stream failed */
    assert_ptr_equal(argument, (void *)2);
    assert_false(write_queue_take(&queue, true, &sent, &argument));
    write_queue_fini(&queue);
}

static void reserved_bytes_stay_in_place(void **state) {
    write_queue queue = {0};
    uint8_t *place, sink[64];
    put(&queue, "before ");
    assert_int_equal(write_queue_reserve(&queue, 5, &place), MR_OK);
    memcpy(place, "later", 5);
    assert_int_equal(drain(&queue, sink, 64, 8), 7);
    write_queue_trim(&queue);
    write_queue_commit(&queue, 5);
    assert_int_equal(drain(&queue, sink, 64, 8), 5);
    assert_memory_equal(sink, "later", 5);
    write_queue_trim(&queue);
    assert_null(queue.data);
    write_queue_fini(&queue);
}

static void a_reservation_that_is_given_up_sends_nothing(void **state) {
    write_queue queue = {0};
    uint8_t *place, sink[8];
    assert_int_equal(write_queue_reserve(&queue, 100, &place), MR_OK);
    memset(place, 'x', 100);
    put(&queue, "y");
    assert_int_equal(drain(&queue, sink, 8, 8), 1);
    assert_int_equal(sink[0], 'y');
    write_queue_fini(&queue);
}

static void an_interjection_stands_between_frames(void **state) {
    write_queue queue = {0};
    uint8_t *place, sink[64];
    assert_true(write_queue_interject(&queue, "first ", 6));
    assert_false(write_queue_interject(&queue, "x", 1));
    assert_int_equal(drain(&queue, sink, 2, 8), 2);
    assert_int_equal(write_queue_reserve(&queue, 5, &place), MR_OK); /* before the rest of the body is written */
    memcpy(place, "frame", 5);
    assert_int_equal(drain(&queue, sink + 2, 4, 8), 4);
    assert_true(write_queue_interject(&queue, " between ", 9)); /* reserved bytes are unchanged */
    commit_body(&queue, 5, span_of(" body", 5), NULL);
    assert_false(write_queue_interject(&queue, "x", 1));
    assert_false(write_queue_is_inside_body(&queue));
    assert_int_equal(drain(&queue, sink + 6, 14, 1), 9);
    assert_int_equal(drain(&queue, sink + 15, 50, 8), 10);
    assert_memory_equal(sink, "first  between frame body", 25);
    body_sent_fn *sent;
    void *argument;
    assert_true(write_queue_take(&queue, false, &sent, &argument));
    write_queue_fini(&queue);
}

static void without_memory_nothing_is_lost(void **state) {
    write_queue queue = {0};
    uint8_t *place, sink[8];
    alloc_fail_at(1);
    assert_int_equal(write_queue_reserve(&queue, 1, &place), MR_NOMEM);
    alloc_fail_at(2); /* allocation of the ring of bodies */
    assert_int_equal(write_queue_reserve(&queue, 1, &place), MR_NOMEM);
    alloc_fail_at(0);
    put(&queue, "z");
    alloc_fail_at(1);
    assert_int_equal(write_queue_reserve(&queue, 1 << 20, &place), MR_NOMEM);
    assert_int_equal(write_queue_reserve_bodies(&queue, 1), MR_OK);
    alloc_fail_at(1);
    assert_int_equal(write_queue_reserve_bodies(&queue, 100), MR_NOMEM);
    alloc_fail_at(0);
    assert_int_equal(drain(&queue, sink, 8, 8), 1);
    assert_int_equal(sink[0], 'z');
    write_queue_fini(&queue);
}

/* Two messages with the same memory, the first of which is partly written: only the selected bytes move. */
static void queued_bytes_can_move(void **state) {
    write_queue queue = {0};
    char memory[] = "abcdefgh", copy[] = "abcdefgh";
    uint8_t sink[32];
    int one, two;
    span all = span_of(memory, 8);
    put_body(&queue, "1", memory, &one);
    put(&queue, "2");
    assert_int_equal(write_queue_reserve_bodies(&queue, 2), MR_OK);
    write_queue_add_body(&queue, span_of(memory + 4, 4)); /* a message of two parts */
    write_queue_add_body(&queue, span_of(memory, 4));
    write_queue_when_sent(&queue, nobody, &two);
    assert_int_equal(drain(&queue, sink, 4, 8), 4);
    assert_false(write_queue_move(&queue, &queue, all, span_of(copy, 8))); /* no message has this argument */
    assert_true(write_queue_move(&queue, &one, all, span_of(copy, 8)));
    assert_false(write_queue_move(&queue, &one, all, span_of(copy, 8)));        /* its bytes have moved already */
    assert_true(write_queue_move(&queue, &two, span_of(memory, 4), (span){0})); /* query only: nothing changes */
    memcpy(memory, "ABCDEFGH", 8);
    assert_int_equal(drain(&queue, sink + 4, 32, 8), 14);
    assert_memory_equal(sink, "1abcdefgh2EFGHABCD", 18);
    assert_false(write_queue_move(&queue, &two, all, span_of(copy, 8)));
    body_sent_fn *sent;
    void *argument;
    while (write_queue_take(&queue, true, &sent, &argument)) continue;
    write_queue_fini(&queue);
}

/* Random frames and bodies compared with a plain array, written in random amounts. */
static void random_traffic_keeps_its_order(void **state) {
    enum { TOTAL = 1 << 20 };
    uint8_t *source = malloc(TOTAL), *sink = malloc(TOTAL);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rng rng;
        rng_init(&rng, seed);
        rng_fill(&rng, source, TOTAL);
        write_queue queue = {0};
        size_t in = 0, out = 0, bodies = 0, told = 0;
        body_sent_fn *sent;
        void *argument;
        while (out < TOTAL) {
            size_t head = (size_t)rng_below(&rng, 300), body = (size_t)rng_below(&rng, 3000);
            if (in + head + body <= TOTAL && rng_chance(&rng, 0.5)) {
                uint8_t *place;
                assert_int_equal(write_queue_reserve(&queue, head + (size_t)rng_below(&rng, 50), &place), MR_OK);
                memcpy(place, source + in, head);
                if (body > 0 && rng_chance(&rng, 0.3)) {
                    commit_body(&queue, head, span_of(source + in + head, body), (void *)bodies++);
                    in += head + body;
                } else if (body > 1 &&
                           rng_chance(&rng, 0.1)) { /* one body of two parts, the first without a callback */
                    assert_int_equal(write_queue_reserve_bodies(&queue, 2), MR_OK);
                    write_queue_commit(&queue, head);
                    write_queue_add_body(&queue, span_of(source + in + head, body / 2));
                    write_queue_add_body(&queue, span_of(source + in + head + body / 2, body - body / 2));
                    write_queue_when_sent(&queue, nobody, (void *)bodies++);
                    in += head + body;
                } else {
                    write_queue_commit(&queue, head);
                    in += head;
                }
            } else if (in + 3300 > TOTAL && in < TOTAL) {
                uint8_t *place;
                assert_int_equal(write_queue_reserve(&queue, TOTAL - in, &place), MR_OK);
                memcpy(place, source + in, TOTAL - in);
                write_queue_commit(&queue, TOTAL - in);
                in = TOTAL;
            } else {
                out += drain(&queue, sink + out, (size_t)rng_below(&rng, 5000), 1 + (size_t)rng_below(&rng, 8));
                while (write_queue_take(&queue, false, &sent, &argument)) assert_ptr_equal(argument, (void *)told++);
            }
            assert_int_equal(write_queue_pending(&queue), in - out);
        }
        assert_memory_equal(sink, source, TOTAL);
        assert_int_equal(told, bodies);
        write_queue_trim(&queue);
        assert_null(queue.data);
    }
    free(source);
    free(sink);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_frames_leave_in_one_piece),
        cmocka_unit_test(bodies_are_borrowed_and_told_in_order),
        cmocka_unit_test(reserved_bytes_stay_in_place),
        cmocka_unit_test(a_reservation_that_is_given_up_sends_nothing),
        cmocka_unit_test(an_interjection_stands_between_frames),
        cmocka_unit_test(without_memory_nothing_is_lost),
        cmocka_unit_test(queued_bytes_can_move),
        cmocka_unit_test(random_traffic_keeps_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
