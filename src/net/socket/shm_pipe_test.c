/* shm_pipe_test.c — bytes in both directions, in order; sleepers are woken; invalid memory and positions are
 * detected. */
#include "net/socket/shm_pipe.h"

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
#include "base/rng.h"
#include "tests/support/shm_pipe_pair.h"

static void bytes_go_both_ways(void **state) {
    shm_pipe_pair pair;
    char text[32] = {0};
    bool wake;
    shm_pipe_pair_start(&pair);
    assert_int_equal(pipe_get(pair.joined, text, sizeof text, &wake), 0);
    assert_int_equal(pipe_put(pair.made, "question", 8, &wake), 8);
    assert_true(shm_pipe_readable(pair.joined) && !shm_pipe_readable(pair.made) && !wake);
    assert_int_equal(pipe_get(pair.joined, text, sizeof text, &wake), 8);
    assert_string_equal(text, "question");
    assert_false(shm_pipe_readable(pair.joined));
    assert_int_equal(pipe_put(pair.joined, "answer!", 7, &wake), 7);
    assert_int_equal(pipe_get(pair.made, text, 3, &wake), 3);
    assert_int_equal(pipe_get(pair.made, text + 3, 20, &wake), 4);
    assert_memory_equal(text, "answer!", 7);
    shm_pipe_pair_stop(&pair);
}

static void a_sleeping_reader_is_woken_once(void **state) {
    shm_pipe_pair pair;
    char text[8];
    bool wake;
    shm_pipe_pair_start(&pair);
    assert_true(shm_pipe_arm(pair.joined));
    assert_int_equal(pipe_put(pair.made, "a", 1, &wake), 1);
    assert_true(wake);
    assert_int_equal(pipe_put(pair.made, "b", 1, &wake), 1);
    assert_false(wake);
    assert_false(shm_pipe_arm(pair.joined)); /* there are bytes: the reader must not sleep */
    shm_pipe_disarm(pair.joined);
    assert_int_equal(pipe_put(pair.made, "c", 1, &wake), 1);
    assert_false(wake);
    assert_int_equal(pipe_get(pair.joined, text, 8, &wake), 3);
    shm_pipe_pair_stop(&pair);
}

/* Only once, when half of the ring is free, because a wake-up costs more than a small read. */
static void a_blocked_writer_is_woken_at_half_a_ring(void **state) {
    shm_pipe_pair pair;
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY + 1);
    bool wake;
    shm_pipe_pair_start(&pair);
    assert_int_equal(pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY + 1, &wake), SHM_PIPE_CAPACITY);
    assert_int_equal(pipe_put(pair.made, bytes, 1, &wake), 0);
    assert_true(!shm_pipe_has_room(pair.made) && shm_pipe_starve(pair.made));
    assert_int_equal(pipe_get(pair.joined, bytes, SHM_PIPE_ENOUGH - 1, &wake), SHM_PIPE_ENOUGH - 1);
    assert_true(!wake && shm_pipe_has_room(pair.made));
    assert_int_equal(pipe_get(pair.joined, bytes, 1, &wake), 1);
    assert_true(wake);
    assert_false(shm_pipe_starve(pair.made)); /* there is enough room */
    assert_int_equal(pipe_get(pair.joined, bytes, 1, &wake), 1);
    assert_false(wake);
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

static bool send_small(shm_pipe *pipe, const uint8_t *bytes, size_t size) {
    bool wake;
    return shm_pipe_send(pipe, span_of(bytes, size / 3), span_of(bytes + size / 3, size - size / 3), &wake);
}

/* Except for a message across the end of the ring, which shm_pipe_write must write. */
static void a_small_message_is_sent_as_a_whole_or_not_at_all(void **state) {
    shm_pipe_pair pair;
    enum { SMALL = 1000 };
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY), got[SMALL];
    uint64_t at = 0;
    bool wake;
    shm_pipe_pair_start(&pair);
    for (int round = 0; round < 3 * SHM_PIPE_CAPACITY / SMALL; round++, at += SMALL) {
        for (size_t i = 0; i < SMALL; i++) bytes[i] = (uint8_t)(at + i * 7 + i / 251);
        bool fits = at % SHM_PIPE_CAPACITY + SMALL <= SHM_PIPE_CAPACITY;
        assert_true(send_small(pair.made, bytes, SMALL) == fits);
        if (!fits) assert_int_equal(pipe_put(pair.made, bytes, SMALL, &wake), SMALL);
        assert_true(shm_pipe_look(pair.joined) && shm_pipe_readable(pair.joined));
        assert_int_equal(pipe_get(pair.joined, got, SMALL, &wake), SMALL);
        assert_memory_equal(got, bytes, SMALL);
        assert_false(shm_pipe_look(pair.joined) || shm_pipe_readable(pair.joined));
    }
    /* From here on at the beginning of the ring. */
    size_t to_end = SHM_PIPE_CAPACITY - (size_t)(at % SHM_PIPE_CAPACITY);
    assert_int_equal(pipe_put(pair.made, bytes, to_end, &wake), to_end);
    assert_int_equal(pipe_get(pair.joined, bytes, to_end, &wake), to_end);
    assert_int_equal(pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_false(send_small(pair.made, bytes, SMALL));
    assert_int_equal(pipe_get(pair.joined, bytes, SMALL - 1, &wake), SMALL - 1);
    assert_false(send_small(pair.made, bytes, SMALL));
    assert_int_equal(pipe_get(pair.joined, bytes, 1, &wake), 1);
    assert_true(send_small(pair.made, bytes, SMALL)); /* the tail is read again */
    assert_false(send_small(pair.made, bytes, 1));
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

/* Except for bytes across the end of the ring, and when a check is due whether the writer waits for room: shm_pipe_read
 * must read those. */
static void all_that_has_come_is_received_or_nothing(void **state) {
    shm_pipe_pair pair;
    enum { SMALL = 1000, ASK = SHM_PIPE_ENOUGH / 2 };
    uint8_t bytes[SMALL], got[3 * SMALL];
    uint64_t at = 0, asked = 0;
    bool wake;
    shm_pipe_pair_start(&pair);
    assert_int_equal(shm_pipe_receive(pair.joined, got, sizeof got), 0);
    for (int round = 0; round < 3 * SHM_PIPE_CAPACITY / SMALL; round++, at += SMALL) {
        for (size_t i = 0; i < SMALL; i++) bytes[i] = (uint8_t)(at + i * 7 + i / 251);
        bool across = at % SHM_PIPE_CAPACITY + SMALL > SHM_PIPE_CAPACITY, asks = at + SMALL - asked >= ASK;
        assert_int_equal(pipe_put(pair.made, bytes, SMALL, &wake), SMALL);
        assert_int_equal(shm_pipe_receive(pair.joined, got, SMALL - 1), 0);
        if (asks) asked = at + SMALL;
        if (across || asks)
            assert_int_equal(shm_pipe_receive(pair.joined, got, sizeof got), 0);
        else
            assert_int_equal(shm_pipe_receive(pair.joined, got, sizeof got), SMALL);
        if (across || asks) assert_int_equal(pipe_get(pair.joined, got, sizeof got, &wake), SMALL);
        assert_memory_equal(got, bytes, SMALL);
        assert_false(shm_pipe_readable(pair.joined));
    }
    shm_pipe_pair_stop(&pair);
}

/* Reads in one step where possible, as a reader of small messages does. */
static size_t take_some(shm_pipe *pipe, rng *rng, void *to, size_t size, bool *wake) {
    size_t moved = rng_chance(rng, 0.5) ? shm_pipe_receive(pipe, to, size) : 0;
    *wake = false;
    return moved != 0 ? moved : pipe_get(pipe, to, size, wake);
}

static void a_small_message_wakes_who_sleeps(void **state) {
    shm_pipe_pair pair;
    const uint8_t bytes[2] = {1, 2};
    bool wake = false;
    shm_pipe_pair_start(&pair);
    assert_true(shm_pipe_arm(pair.joined));
    assert_true(shm_pipe_send(pair.made, span_of(bytes, 1), span_of(bytes + 1, 1), &wake) && wake);
    assert_true(shm_pipe_send(pair.made, span_of(bytes, 1), span_of(bytes + 1, 1), &wake) && !wake);
    shm_pipe_pair_stop(&pair);
}

/* A reader that stops before half of the ring was read still has bytes to read: a waiting writer is woken when the
 * reader continues, and may use the free room meanwhile. */
static void a_reader_that_stops_and_goes_on_wakes_the_writer(void **state) {
    shm_pipe_pair pair;
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY);
    bool wake;
    shm_pipe_pair_start(&pair);
    assert_int_equal(pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_true(shm_pipe_starve(pair.made));
    assert_int_equal(pipe_get(pair.joined, bytes, 1000, &wake), 1000);
    assert_true(!wake && shm_pipe_starve(pair.made)); /* too little room to wake the writer */
    assert_false(shm_pipe_arm(pair.joined));          /* and the reader must not sleep */
    shm_pipe_disarm(pair.joined);
    assert_int_equal(pipe_put(pair.made, bytes, 2000, &wake), 1000);
    assert_true(shm_pipe_starve(pair.made));
    assert_int_equal(pipe_get(pair.joined, bytes, SHM_PIPE_ENOUGH, &wake), SHM_PIPE_ENOUGH);
    assert_true(wake);
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

/* With any read sizes, and however old the known head: a reader that empties the ring has reported the wake-up. */
static void a_reader_that_drains_the_ring_wakes_the_writer(void **state) {
    enum { ROUNDS = 200 };
    shm_pipe_pair pair;
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY);
    rng rng;
    bool wake;
    shm_pipe_pair_start(&pair);
    rng_init(&rng, 11);
    for (int round = 0; round < ROUNDS; round++) {
        size_t moved, most = rng_chance(&rng, 0.5) ? 5000 : SHM_PIPE_CAPACITY, wakes = 0;
        while (pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake) != 0) continue;
        assert_true(shm_pipe_starve(pair.made));
        do {
            moved = take_some(pair.joined, &rng, bytes, 1 + (size_t)rng_below(&rng, most), &wake);
            wakes += wake;
        } while (moved != 0);
        assert_int_equal(wakes, 1);
        assert_true(shm_pipe_arm(pair.joined));
        shm_pipe_disarm(pair.joined);
    }
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

/* Small messages that never fill the ring wrap around; then a writer of more bytes than there is room for is woken. */
static void a_writer_that_fills_the_ring_is_woken(void **state) {
    enum { ROUNDS = 50 };
    shm_pipe_pair pair;
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY);
    rng rng;
    bool wake;
    shm_pipe_pair_start(&pair);
    rng_init(&rng, 12);
    for (int round = 0; round < ROUNDS; round++) {
        size_t small = 1 + (size_t)rng_below(&rng, 3 * SHM_PIPE_CAPACITY), left = 0, wakes = 0, moved;
        for (size_t i = 0; i < small; i += 300) {
            assert_int_equal(pipe_put(pair.made, bytes, 300, &wake), 300);
            assert_int_equal(take_some(pair.joined, &rng, bytes, 4096, &wake), 300);
            assert_false(wake);
        }
        /* A reader with an old head: bytes that arrive afterwards are more than half of the ring, but not all of it. */
        left = pipe_put(pair.made, bytes, 1 + (size_t)rng_below(&rng, SHM_PIPE_STRIDE - 1), &wake);
        assert_int_equal(pipe_get(pair.joined, bytes, 1, &wake), 1);
        while ((moved = pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake)) != 0) left += moved;
        assert_true(shm_pipe_starve(pair.made));
        while ((moved = pipe_get(pair.joined, bytes, 1 + (size_t)rng_below(&rng, 100000), &wake)) != 0) {
            left -= moved;
            wakes += wake;
        }
        assert_true(left == 1 && wakes == 1);
    }
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

/* The wake-up is reported at once, before the whole transfer, so that the other side works meanwhile. */
static void a_large_move_stops_to_wake(void **state) {
    shm_pipe_pair pair;
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY);
    bool wake;
    shm_pipe_pair_start(&pair);
    assert_true(shm_pipe_arm(pair.joined));
    assert_int_equal(pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_STRIDE);
    assert_true(wake);
    assert_int_equal(pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_CAPACITY - SHM_PIPE_STRIDE);
    assert_true(!wake && shm_pipe_starve(pair.made));
    assert_int_equal(pipe_get(pair.joined, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_ENOUGH);
    assert_true(wake);
    assert_int_equal(pipe_get(pair.joined, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_CAPACITY - SHM_PIPE_ENOUGH);
    assert_false(wake);
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

/* Two threads without timeouts: a lost wake-up makes the test hang. */
typedef struct side {
    shm_pipe *pipe;
    int doorbell, ear; /* pipes: to wake the other side, and to wait for its wake-up */
} side;

enum { RACE_TOTAL = 64 << 20 };

static void listen_at(int ear) {
    char byte[64];
    assert_true(read(ear, byte, sizeof byte) > 0);
}

static void *write_all(void *argument) {
    const side *side = argument;
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY);
    rng rng;
    rng_init(&rng, 5);
    for (size_t total = 0; total < RACE_TOTAL;) {
        size_t size = 1 + (size_t)rng_below(&rng, SHM_PIPE_CAPACITY), moved;
        bool wake;
        if (size > RACE_TOTAL - total) size = RACE_TOTAL - total;
        total += moved = pipe_put(side->pipe, bytes, size, &wake);
        if (wake) assert_int_equal(write(side->doorbell, "", 1), 1);
        if (moved == 0 && shm_pipe_starve(side->pipe)) listen_at(side->ear);
    }
    free(bytes);
    return NULL;
}

static void no_wake_is_lost_between_two_threads(void **state) {
    shm_pipe_pair pair;
    int to_reader[2], to_writer[2];
    pthread_t thread;
    rng rng;
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY);
    shm_pipe_pair_start(&pair);
    assert_true(pipe(to_reader) == 0 && pipe(to_writer) == 0);
    side writer = {pair.made, to_reader[1], to_writer[0]};
    assert_int_equal(pthread_create(&thread, NULL, write_all, &writer), 0);
    rng_init(&rng, 6);
    for (size_t total = 0; total < RACE_TOTAL;) {
        bool wake;
        size_t moved = pipe_get(pair.joined, bytes, 1 + (size_t)rng_below(&rng, SHM_PIPE_CAPACITY), &wake);
        total += moved;
        if (wake) assert_int_equal(write(to_writer[1], "", 1), 1);
        if (moved == 0 && shm_pipe_arm(pair.joined)) listen_at(to_reader[0]);
        if (moved == 0) shm_pipe_disarm(pair.joined);
    }
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) close(to_reader[i]), close(to_writer[i]);
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

/* Parts of every size compared with a plain array, with the writer far ahead and close behind. */
static void everything_comes_in_order(void **state) {
    enum { TOTAL = 8 << 20 };
    shm_pipe_pair pair;
    bool wake;
    rng rng;
    uint8_t *source = xmalloc(TOTAL), *sink = xmalloc(TOTAL);
    size_t in = 0, out = 0;
    shm_pipe_pair_start(&pair);
    rng_init(&rng, 7);
    rng_fill(&rng, source, TOTAL);
    while (out < TOTAL) {
        size_t most = rng_chance(&rng, 0.5) ? 300 : 300000, moved;
        if (rng_chance(&rng, 0.5)) {
            size_t first = (size_t)rng_below(&rng, most), second = (size_t)rng_below(&rng, most);
            if (first > TOTAL - in) first = TOTAL - in;
            if (second > TOTAL - in - first) second = TOTAL - in - first;
            struct iovec pieces[] = {{source + in, first}, {source + in + first, second}};
            assert_int_equal(shm_pipe_write(pair.made, pieces, 2, &moved, &wake), MR_OK);
            in += moved;
        } else {
            size_t first = (size_t)rng_below(&rng, most) % (TOTAL - out + 1);
            struct iovec pieces[] = {{sink + out, first}, {sink + out + first, TOTAL - out - first}};
            assert_int_equal(shm_pipe_read(pair.joined, pieces, 2, &moved, &wake), MR_OK);
            out += moved;
        }
        assert_true(out <= in && in - out <= SHM_PIPE_CAPACITY);
    }
    assert_memory_equal(source, sink, TOTAL);
    free(source);
    free(sink);
    shm_pipe_pair_stop(&pair);
}

static void rubbish_is_recognised(void **state) {
    shm_pipe_pair pair;
    char text[8];
    bool wake;
    size_t moved;
    struct iovec piece = {text, sizeof text};
    shm_pipe_pair_start(&pair);
    pair.words[64 / 8] = UINT64_C(1) << 60; /* overwrites the head of the creator's direction */
    assert_int_equal(shm_pipe_read(pair.joined, &piece, 1, &moved, &wake), MR_CORRUPT);
    pair.words[128 / 8] = UINT64_C(1) << 60; /* and its tail, which is read when the known room is used up */
    uint8_t *bytes = xcalloc(1, SHM_PIPE_CAPACITY);
    assert_int_equal(pipe_put(pair.made, bytes, SHM_PIPE_CAPACITY, &wake), SHM_PIPE_CAPACITY);
    assert_int_equal(shm_pipe_write(pair.made, &piece, 1, &moved, &wake), MR_CORRUPT);
    free(bytes);
    shm_pipe_pair_stop(&pair);
}

static void a_descriptor_that_is_no_pipe_is_refused(void **state) {
    shm_pipe *shm_pipe = NULL;
    int fds[2], fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(shm_pipe_join(fds[0], false, &shm_pipe), MR_CORRUPT);
    assert_int_equal(ftruncate(fd, 4096 + 2 * SHM_PIPE_CAPACITY), 0);
    assert_int_equal(shm_pipe_join(fd, false, &shm_pipe), MR_CORRUPT); /* the file could shrink */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    assert_int_equal(shm_pipe_join(fd, false, &shm_pipe), MR_CORRUPT); /* the magic is missing */
    close(fd);
    fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    assert_int_equal(shm_pipe_join(fd, false, &shm_pipe), MR_CORRUPT); /* too small */
    close(fd);
    close(fds[0]);
    close(fds[1]);
    assert_null(shm_pipe);
    shm_pipe_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_both_ways),
        cmocka_unit_test(a_sleeping_reader_is_woken_once),
        cmocka_unit_test(a_blocked_writer_is_woken_at_half_a_ring),
        cmocka_unit_test(a_small_message_is_sent_as_a_whole_or_not_at_all),
        cmocka_unit_test(all_that_has_come_is_received_or_nothing),
        cmocka_unit_test(a_small_message_wakes_who_sleeps),
        cmocka_unit_test(a_reader_that_stops_and_goes_on_wakes_the_writer),
        cmocka_unit_test(a_reader_that_drains_the_ring_wakes_the_writer),
        cmocka_unit_test(a_writer_that_fills_the_ring_is_woken),
        cmocka_unit_test(a_large_move_stops_to_wake),
        cmocka_unit_test(no_wake_is_lost_between_two_threads),
        cmocka_unit_test(everything_comes_in_order),
        cmocka_unit_test(rubbish_is_recognised),
        cmocka_unit_test(a_descriptor_that_is_no_pipe_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
