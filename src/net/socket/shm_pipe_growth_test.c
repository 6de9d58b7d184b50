/* shm_pipe_growth_test.c — a full ring continues in a larger one: in order, both ways, with no wake lost; after a
 * decline the small ring remains; impossible positions are detected. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "base/rng.h"
#include "tests/support/shm_pipe_pair.h"

/* Words of the first direction, that of the creator: head, turns, tail, answer. */
enum { HEAD = 64 / 8, TURN_BACK, TURN_TO_LARGE_RING, TAIL = 128 / 8, ANSWER };

static mr_status try_get(shm_pipe *pipe) {
    uint8_t byte;
    size_t moved;
    bool wake;
    struct iovec piece = {&byte, 1};
    return shm_pipe_read(pipe, &piece, 1, &moved, &wake);
}

/* `to` maps the large ring that `from` offers. */
static void grow(shm_pipe *from, shm_pipe *to) {
    int fd;
    bool wake;
    assert_true(shm_pipe_may_offer(from));
    assert_int_equal(shm_pipe_offer(from, &fd), MR_OK);
    assert_int_equal(shm_pipe_take(to, fd, &wake), MR_OK);
    assert_false(shm_pipe_may_offer(from));
}

static uint8_t *noise(size_t size, uint64_t seed) {
    uint8_t *bytes = xmalloc(size);
    rng rng;
    rng_init(&rng, seed);
    rng_fill(&rng, bytes, size);
    return bytes;
}

enum { MUCH = 2 * LARGE_RING_CAPACITY };

static void a_full_ring_continues_in_the_large_ring(void **state) {
    shm_pipe_pair pair;
    bool wake;
    uint8_t *source = noise(MUCH, 1), *sink = xcalloc(1, MUCH);
    shm_pipe_pair_start(&pair);
    assert_int_equal(pipe_put(pair.made, source, MUCH, &wake), SHM_PIPE_CAPACITY);
    assert_false(shm_pipe_grow(pair.made)); /* there is no large ring */
    grow(pair.made, pair.joined);
    assert_true(shm_pipe_large_rings(pair.made) == 1 && shm_pipe_large_rings(pair.joined) == 1);
    assert_true(shm_pipe_grow(pair.made) && !shm_pipe_grow(pair.made));
    assert_int_equal(pipe_put(pair.made, source + SHM_PIPE_CAPACITY, MUCH, &wake),
                     LARGE_RING_CAPACITY - SHM_PIPE_CAPACITY);
    assert_int_equal(pipe_put(pair.made, source, 1, &wake), 0);     /* unread bytes of both rings count */
    assert_int_equal(shm_pipe_receive(pair.joined, sink, MUCH), 0); /* there is a turn within the bytes */
    assert_int_equal(pipe_get(pair.joined, sink, 1000, &wake), 1000);
    assert_int_equal(pipe_put(pair.made, source + LARGE_RING_CAPACITY, MUCH, &wake), 1000);
    assert_int_equal(pipe_get(pair.joined, sink + 1000, MUCH, &wake), LARGE_RING_CAPACITY);
    assert_memory_equal(source, sink, LARGE_RING_CAPACITY + 1000);
    assert_false(shm_pipe_readable(pair.joined));
    assert_int_equal(pipe_put(pair.made, source, 10, &wake), 10); /* in the small ring again */
    assert_int_equal(shm_pipe_receive(pair.joined, sink, 10), 0); /* the reader notes the turn by shm_pipe_read */
    assert_int_equal(pipe_get(pair.joined, sink, 10, &wake), 10);
    assert_memory_equal(source, sink, 10);
    assert_int_equal(pipe_put(pair.made, source, 10, &wake), 10);
    assert_int_equal(shm_pipe_receive(pair.joined, sink, 10), 10);
    free(source);
    free(sink);
    shm_pipe_pair_stop(&pair);
}

/* After the reader has read everything, the writer turns back to the small ring, fills it and turns to the large ring
 * again, all before the next read. */
static void it_comes_back_and_goes_again_before_the_reader_looks(void **state) {
    enum { FIRST = SHM_PIPE_CAPACITY + 100, SECOND = SHM_PIPE_CAPACITY + 70000 };
    shm_pipe_pair pair;
    bool wake;
    uint8_t *source = noise(FIRST + SECOND, 2), *sink = xcalloc(1, FIRST + SECOND);
    shm_pipe_pair_start(&pair);
    grow(pair.made, pair.joined);
    for (int round = 0; round < 40; round++) { /* enough rounds for turns at every place of both rings */
        size_t in = pipe_put(pair.made, source, FIRST, &wake);
        assert_int_equal(in, SHM_PIPE_CAPACITY);
        assert_true(shm_pipe_grow(pair.made));
        in += pipe_put(pair.made, source + in, FIRST - in, &wake);
        assert_int_equal(in, FIRST);
        assert_int_equal(pipe_get(pair.joined, sink, FIRST, &wake), FIRST);
        uint64_t back = pair.words[TURN_BACK];
        in += pipe_put(pair.made, source + in, SECOND, &wake);
        assert_int_not_equal(pair.words[TURN_BACK], back);
        assert_int_equal(in, FIRST + SHM_PIPE_CAPACITY);
        assert_true(shm_pipe_grow(pair.made));
        in += pipe_put(pair.made, source + in, FIRST + SECOND - in, &wake);
        assert_int_equal(in, FIRST + SECOND);
        assert_int_equal(pipe_get(pair.joined, sink + FIRST, FIRST + SECOND, &wake), SECOND);
        assert_memory_equal(source, sink, FIRST + SECOND);
        memset(sink, 0, FIRST + SECOND);
    }
    free(source);
    free(sink);
    shm_pipe_pair_stop(&pair);
}

/* Comparison with a plain array; both directions act independently. */
typedef struct way {
    shm_pipe *from, *to;
    uint8_t *source, *sink;
    size_t in, out, turns;
} way;

static void step(way *way, rng *rng, size_t total) {
    bool wake;
    size_t most = rng_chance(rng, 0.7) ? 300 : 2000000;
    size_t size = (size_t)rng_below(rng, most) + 1;
    if (rng_chance(rng, 0.5)) {
        if (size > total - way->in) size = total - way->in;
        size_t moved = pipe_put(way->from, way->source + way->in, size, &wake);
        way->in += moved;
        if (moved < size && !wake && shm_pipe_grow(way->from)) way->turns++;
    } else {
        way->out += pipe_get(way->to, way->sink + way->out, size < total - way->out ? size : total - way->out, &wake);
    }
    assert_true(way->out <= way->in && way->in - way->out <= LARGE_RING_CAPACITY);
}

static void everything_comes_in_order_both_ways(void **state) {
    enum { TOTAL = 24 << 20 };
    shm_pipe_pair pair;
    rng rng;
    shm_pipe_pair_start(&pair);
    way ways[] = {{pair.made, pair.joined, noise(TOTAL, 3), xmalloc(TOTAL), 0, 0, 0},
                  {pair.joined, pair.made, noise(TOTAL, 4), xmalloc(TOTAL), 0, 0, 0}};
    rng_init(&rng, 5);
    while (ways[0].out < TOTAL || ways[1].out < TOTAL) {
        way *way = &ways[rng_below(&rng, 2)];
        if (way->in > TOTAL / 10 && shm_pipe_may_offer(way->from)) grow(way->from, way->to);
        if (way->out < TOTAL) step(way, &rng, TOTAL);
        if (rng_chance(&rng, 0.001)) shm_pipe_rest(way->from);
    }
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(ways[i].source, ways[i].sink, TOTAL);
        assert_true(ways[i].turns >= 3); /* otherwise the test shows nothing */
        free(ways[i].source);
        free(ways[i].sink);
    }
    shm_pipe_pair_stop(&pair);
}

/* ---- Wake-ups. */

static void an_answer_wakes_who_waits_for_room(void **state) {
    shm_pipe_pair pair;
    bool wake;
    int fd;
    uint8_t *bytes = xcalloc(1, LARGE_RING_CAPACITY);
    shm_pipe_pair_start(&pair);
    assert_int_equal(pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_int_equal(shm_pipe_offer(pair.made, &fd), MR_OK);
    assert_true(shm_pipe_starve(pair.made) && !shm_pipe_grow(pair.made));
    assert_int_equal(shm_pipe_take(pair.joined, fd, &wake), MR_OK);
    assert_true(wake && shm_pipe_grow(pair.made));
    assert_int_equal(pipe_put(pair.made, bytes, LARGE_RING_CAPACITY, &wake), LARGE_RING_CAPACITY - SHM_PIPE_CAPACITY);
    assert_true(shm_pipe_starve(pair.made));
    assert_int_equal(pipe_get(pair.joined, bytes, LARGE_RING_CAPACITY / 2 - 1, &wake), LARGE_RING_CAPACITY / 2 - 1);
    assert_false(wake);
    assert_int_equal(pipe_get(pair.joined, bytes, 1, &wake), 1);
    assert_true(wake); /* half of the large ring and of the small ring */
    assert_false(shm_pipe_starve(pair.made));
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

/* Two threads without timeouts, as in shm_pipe_test.c; the large ring arrives in the middle. */
typedef struct racer {
    shm_pipe *pipe;
    int doorbell, ear;
    _Atomic int *fd; /* descriptor that is passed */
    unsigned turns;
} racer;

enum { RACE_TOTAL = 32 << 20 };

static void listen_at(int ear) {
    char bytes[64];
    assert_true(read(ear, bytes, sizeof bytes) > 0);
}

static bool find_room(racer *racer) {
    if (shm_pipe_grow(racer->pipe)) return racer->turns++, true;
    int fd;
    if (shm_pipe_may_offer(racer->pipe)) {
        assert_int_equal(shm_pipe_offer(racer->pipe, &fd), MR_OK);
        *racer->fd = fd;
        assert_int_equal(write(racer->doorbell, "", 1), 1);
    }
    if (!shm_pipe_starve(racer->pipe)) return true;
    return shm_pipe_grow(racer->pipe) ? racer->turns++, true : false;
}

static void *write_all(void *argument) {
    racer *racer = argument;
    uint32_t *words = xmalloc(1 << 20), next = 0;
    size_t from = 0, to = 0;
    rng rng;
    rng_init(&rng, 5);
    for (size_t total = 0; total < RACE_TOTAL;) {
        bool wake;
        if (from == to) {
            from = 0;
            to = 4 * (1 + (size_t)rng_below(&rng, (1 << 20) / 4));
            if (to > RACE_TOTAL - total) to = RACE_TOTAL - total;
            for (size_t i = 0; i < to / 4; i++) words[i] = next++;
        }
        size_t moved = pipe_put(racer->pipe, (uint8_t *)words + from, to - from, &wake);
        from += moved;
        total += moved;
        if (wake) assert_int_equal(write(racer->doorbell, "", 1), 1);
        if (moved == 0 && !find_room(racer)) listen_at(racer->ear);
    }
    free(words);
    return NULL;
}

static void no_wake_is_lost_between_two_threads(void **state) {
    shm_pipe_pair pair;
    int to_reader[2], to_writer[2];
    pthread_t thread;
    rng rng;
    _Atomic int passed = -1;
    uint8_t *bytes = xmalloc(1 << 20);
    uint32_t next = 0, word = 0;
    shm_pipe_pair_start(&pair);
    assert_true(pipe(to_reader) == 0 && pipe(to_writer) == 0);
    racer writer = {pair.made, to_reader[1], to_writer[0], &passed, 0};
    assert_int_equal(pthread_create(&thread, NULL, write_all, &writer), 0);
    rng_init(&rng, 6);
    for (size_t total = 0; total < RACE_TOTAL;) {
        bool wake, taken = false;
        int fd = atomic_exchange(&passed, -1);
        if (fd >= 0) assert_int_equal(shm_pipe_take(pair.joined, fd, &taken), MR_OK);
        size_t moved = pipe_get(pair.joined, bytes, 1 + (size_t)rng_below(&rng, 1 << 20), &wake);
        if (wake || taken) assert_int_equal(write(to_writer[1], "", 1), 1);
        for (size_t i = 0; i < moved; i++, total++) {
            word |= (uint32_t)bytes[i] << total % 4 * 8;
            if (total % 4 != 3) continue;
            if (word != next++) fail_msg("byte %zu is another one", total);
            word = 0;
        }
        if (moved == 0 && shm_pipe_arm(pair.joined)) listen_at(to_reader[0]);
        if (moved == 0) shm_pipe_disarm(pair.joined);
    }
    pthread_join(thread, NULL);
    assert_true(writer.turns > 0);
    for (int i = 0; i < 2; i++) close(to_reader[i]), close(to_writer[i]);
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

/* ---- Without a large ring. */

static void expect_small(shm_pipe_pair *pair) {
    bool wake;
    uint8_t *bytes = xcalloc(1, 2 * SHM_PIPE_CAPACITY);
    while (pipe_put(pair->made, bytes, 2 * SHM_PIPE_CAPACITY, &wake) != 0) continue;
    assert_false(shm_pipe_grow(pair->made));
    assert_int_equal(pipe_get(pair->joined, bytes, 2 * SHM_PIPE_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_int_equal(pipe_put(pair->made, "x", 1, &wake), 1);
    assert_int_equal(pipe_get(pair->joined, bytes, 2, &wake), 1);
    assert_int_equal(bytes[0], 'x');
    free(bytes);
}

static void a_reader_that_declines_keeps_the_small_ring(void **state) {
    shm_pipe_pair pair;
    int fd;
    shm_pipe_pair_start(&pair);
    assert_int_equal(shm_pipe_offer(pair.made, &fd), MR_OK);
    expect_small(&pair); /* no answer */
    shm_pipe_decline(pair.joined);
    expect_small(&pair);
    assert_int_equal(shm_pipe_large_rings(pair.made) + shm_pipe_large_rings(pair.joined), 0); /* it was freed */
    assert_false(shm_pipe_may_offer(pair.made));
    shm_pipe_pair_stop(&pair);

    shm_pipe_pair_start(&pair);
    assert_int_equal(shm_pipe_offer(pair.made, &fd), MR_OK);
    shm_pipe_withdraw(pair.made);
    expect_small(&pair);
    assert_true(shm_pipe_large_rings(pair.made) == 0 && !shm_pipe_may_offer(pair.made));
    shm_pipe_pair_stop(&pair);
}

static void where_there_is_no_memory_the_small_ring_goes_on(void **state) {
    shm_pipe_pair pair;
    bool wake;
    int fd;
    uint8_t *bytes = xcalloc(1, LARGE_RING_CAPACITY);
    if (failpoint_count() == 0) skip();
    shm_pipe_pair_start(&pair);
    assert_int_equal(failpoint_arm("annex.back=error"), MR_OK);
    assert_int_not_equal(shm_pipe_offer(pair.made, &fd), MR_OK);
    expect_small(&pair);
    assert_false(shm_pipe_may_offer(pair.made));
    shm_pipe_pair_stop(&pair);

    shm_pipe_pair_start(&pair);
    assert_int_equal(shm_pipe_offer(pair.made, &fd), MR_OK);
    assert_int_equal(failpoint_arm("annex.map=error"), MR_OK);
    assert_int_not_equal(shm_pipe_take(pair.joined, fd, &wake), MR_OK);
    expect_small(&pair);
    assert_int_equal(shm_pipe_large_rings(pair.made), 0);
    shm_pipe_pair_stop(&pair);

    shm_pipe_pair_start(&pair); /* the ring's pages were freed, and backing them again fails */
    grow(pair.made, pair.joined);
    shm_pipe_rest(pair.made);
    assert_int_equal(failpoint_arm("annex.back=error"), MR_OK);
    expect_small(&pair);
    assert_int_equal(pipe_put(pair.made, bytes, LARGE_RING_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_true(shm_pipe_grow(pair.made)); /* memory is available again */
    free(bytes);
    shm_pipe_pair_stop(&pair);
    failpoint_disarm_all();
}

static void a_large_ring_is_released_only_after_it_is_read(void **state) {
    shm_pipe_pair pair;
    bool wake;
    uint8_t *source = noise(LARGE_RING_CAPACITY, 7), *sink = xcalloc(1, LARGE_RING_CAPACITY);
    shm_pipe_pair_start(&pair);
    shm_pipe_rest(pair.made); /* no large ring yet: no effect */
    grow(pair.made, pair.joined);
    assert_int_equal(pipe_put(pair.made, source, LARGE_RING_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_true(shm_pipe_grow(pair.made));
    assert_int_equal(pipe_put(pair.made, source + SHM_PIPE_CAPACITY, 5000, &wake), 5000);
    shm_pipe_rest(pair.made);
    assert_int_equal(pipe_get(pair.joined, sink, LARGE_RING_CAPACITY, &wake), SHM_PIPE_CAPACITY + 5000);
    assert_memory_equal(source, sink, SHM_PIPE_CAPACITY + 5000);
    shm_pipe_rest(pair.made);
    assert_int_equal(pair.words[TURN_BACK], SHM_PIPE_CAPACITY + 5000);
    assert_int_equal(pipe_put(pair.made, source, LARGE_RING_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_true(shm_pipe_grow(pair.made));
    assert_int_equal(pipe_put(pair.made, source + SHM_PIPE_CAPACITY, LARGE_RING_CAPACITY / 2, &wake),
                     LARGE_RING_CAPACITY / 2);
    assert_int_equal(pipe_get(pair.joined, sink, LARGE_RING_CAPACITY, &wake),
                     SHM_PIPE_CAPACITY + LARGE_RING_CAPACITY / 2);
    assert_memory_equal(source, sink, SHM_PIPE_CAPACITY + LARGE_RING_CAPACITY / 2);
    free(source);
    free(sink);
    shm_pipe_pair_stop(&pair);
}

/* ---- Invalid input. */

static void impossible_positions_are_detected(void **state) {
    shm_pipe_pair pair;
    bool wake;
    int fd, pipes[2];
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY);
    shm_pipe_pair_start(&pair);
    pair.words[TURN_TO_LARGE_RING] = 1; /* a turn to a ring that was never passed */
    pair.words[HEAD] = 1;
    assert_int_equal(try_get(pair.joined), MR_CORRUPT);
    shm_pipe_pair_stop(&pair);

    shm_pipe_pair_start(&pair);
    grow(pair.made, pair.joined);
    assert_int_equal(pipe_put(pair.made, bytes, 100, &wake), 100);
    pair.words[TURN_TO_LARGE_RING] = UINT64_C(1) << 40; /* far ahead */
    assert_int_equal(try_get(pair.joined), MR_CORRUPT);
    pair.words[TURN_TO_LARGE_RING] = 0;
    assert_int_equal(pipe_get(pair.joined, bytes, 100, &wake), 100);
    pair.words[TURN_TO_LARGE_RING] = 99; /* before the reader's position */
    assert_int_equal(try_get(pair.joined), MR_CORRUPT);
    pair.words[TURN_TO_LARGE_RING] = 100;
    pair.words[HEAD] = 100 + LARGE_RING_CAPACITY + 1; /* more than the ring's capacity */
    assert_int_equal(try_get(pair.joined), MR_CORRUPT);
    shm_pipe_pair_stop(&pair);

    shm_pipe_pair_start(&pair);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(shm_pipe_take(pair.joined, pipes[0], &wake), MR_CORRUPT);
    assert_int_equal(shm_pipe_large_rings(pair.joined), 0);
    assert_int_equal(shm_pipe_offer(pair.made, &fd), MR_OK);
    assert_int_equal(shm_pipe_take(pair.joined, fd, &wake), MR_OK);
    pair.words[ANSWER] = 0;
    assert_int_equal(shm_pipe_take(pair.joined, fd, &wake), MR_CORRUPT); /* only one large ring is allowed */
    pair.words[ANSWER] = 77;                                             /* an invalid answer does not count as taken */
    expect_small(&pair);
    pair.words[TAIL] = UINT64_C(1) << 60;
    size_t moved;
    struct iovec piece = {bytes, SHM_PIPE_CAPACITY}; /* more than the known room, so that the tail is read */
    assert_int_equal(shm_pipe_write(pair.made, &piece, 1, &moved, &wake), MR_CORRUPT);
    shm_pipe_pair_stop(&pair);

    shm_pipe_pair_start(&pair); /* nothing was written, but the tail claims a full ring */
    grow(pair.made, pair.joined);
    pair.words[TAIL] = -(uint64_t)SHM_PIPE_CAPACITY;
    assert_false(shm_pipe_grow(pair.made));
    assert_int_equal(pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_int_equal(shm_pipe_write(pair.made, &piece, 1, &moved, &wake), MR_CORRUPT);
    shm_pipe_pair_stop(&pair);
    close(pipes[0]);
    close(pipes[1]);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_ring_continues_in_the_large_ring),
        cmocka_unit_test(it_comes_back_and_goes_again_before_the_reader_looks),
        cmocka_unit_test(everything_comes_in_order_both_ways),
        cmocka_unit_test(an_answer_wakes_who_waits_for_room),
        cmocka_unit_test(no_wake_is_lost_between_two_threads),
        cmocka_unit_test(a_reader_that_declines_keeps_the_small_ring),
        cmocka_unit_test(where_there_is_no_memory_the_small_ring_goes_on),
        cmocka_unit_test(a_large_ring_is_released_only_after_it_is_read),
        cmocka_unit_test(impossible_positions_are_detected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
