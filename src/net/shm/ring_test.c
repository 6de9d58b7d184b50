/* ring_test.c — records arrive complete and in order, at every size and position; a full ring and a sleeping reader are
 * notified; a corrupt ring is reported. Producer and consumer also run as two threads, for ThreadSanitizer. */
#include "net/shm/ring.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cpu.h"
#include "base/futex.h"
#include "base/rng.h"

typedef struct pair {
    void *memory;
    ring_producer producer;
    ring_consumer consumer;
} pair;

static void pair_init(pair *pair, uint64_t bytes) {
    pair->memory = aligned_alloc(64, bytes);
    assert_non_null(pair->memory);
    memset(pair->memory, 0, bytes);
    ring_producer_init(&pair->producer, pair->memory, bytes, 7);
    ring_consumer_init(&pair->consumer, pair->memory, bytes, 9);
}

static uint8_t byte_of(uint64_t number, size_t i) { return (uint8_t)(number * 31 + i * 7 + 3); }

static void fill(uint8_t *at, uint64_t number, size_t size) {
    for (size_t i = 0; i < size; i++) at[i] = byte_of(number, i);
}

static int differs(const uint8_t *at, uint64_t number, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (at[i] != byte_of(number, i)) return 1;
    return 0;
}

static void an_empty_ring_is_empty(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    ring_record record;
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_EMPTY);
    assert_false(ring_readable(&pair.consumer));
    assert_false(ring_release(&pair.consumer));
    free(pair.memory);
}

/* Also after records were read, which the producer detects when it needs room. */
static void free_room_is_exact(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    uint64_t capacity = pair.producer.capacity, used = ring_padded(100);
    assert_true(ring_is_free(&pair.producer, capacity));
    assert_false(ring_is_free(&pair.producer, capacity + 8));
    assert_non_null(ring_reserve(&pair.producer, 100));
    assert_true(ring_is_free(&pair.producer, capacity)); /* nothing was published */
    ring_publish(&pair.producer, 100, 1);
    assert_true(ring_is_free(&pair.producer, capacity - used));
    assert_false(ring_is_free(&pair.producer, capacity - used + 8));
    ring_record record;
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
    ring_advance(&pair.consumer, record.size);
    assert_false(ring_is_free(&pair.producer, capacity));
    ring_release(&pair.consumer);
    assert_true(ring_is_free(&pair.producer, capacity));
    assert_false(ring_is_free(&pair.producer, capacity + 8));
    free(pair.memory);
}

/* The next record, whether the first of a run or any other. */
static bool there(ring_consumer *consumer, ring_record *record) {
    ring_peek_result result = ring_peek(consumer, record);
    return result == RING_RECORD || result == RING_FIRST;
}

/* Random sizes and fill levels cover every position of the wrap. */
static void records_come_out_as_they_went_in(void **state) {
    rng rng;
    rng_init(&rng, 11);
    for (int round = 0; round < 30; round++) {
        pair pair;
        pair_init(&pair, RING_BYTES_MIN + 64 * rng_below(&rng, 8));
        uint64_t written = 0, read = 0, sizes[1024];
        size_t max = (size_t)ring_record_max(pair.producer.capacity);
        while (read < 2000) {
            while (written < 2000 && rng_chance(&rng, 0.9)) {
                size_t size = rng_chance(&rng, 0.1) ? max : rng_below(&rng, 200);
                uint8_t *at = ring_reserve(&pair.producer, size + 3); /* reserved more than is used */
                if (at == NULL) break;
                fill(at, written, size);
                sizes[written % 1024] = size;
                bool held = round % 3 != 0 && rng_chance(&rng, 0.8);
                uint16_t type = (uint16_t)(1 + written % 50);
                assert_false(held ? ring_hold(&pair.producer, (uint32_t)size, type)
                                  : ring_publish(&pair.producer, (uint32_t)size, type));
                written++;
            }
            ring_record record;
            while (rng_chance(&rng, 0.9) && there(&pair.consumer, &record)) {
                assert_int_equal(record.size, sizes[read % 1024]);
                assert_int_equal(record.type, 1 + read % 50);
                assert_false(differs(record.data, read, record.size));
                ring_advance(&pair.consumer, record.size);
                read++;
            }
            assert_false(ring_release(&pair.consumer));
            if (read == written) assert_int_equal(ring_peek(&pair.consumer, &record), RING_EMPTY); /* no old bytes */
        }
        free(pair.memory);
    }
}

static void the_largest_record_fits_wherever_the_head_stands(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    size_t max = (size_t)ring_record_max(pair.producer.capacity);
    for (size_t step = 0; step < 600; step++) {
        ring_record record;
        assert_non_null(ring_reserve(&pair.producer, 0)); /* moves the head by eight */
        ring_publish(&pair.producer, 0, 1);
        assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
        ring_advance(&pair.consumer, record.size);
        ring_release(&pair.consumer);
        assert_non_null(ring_reserve(&pair.producer, max));
    }
    free(pair.memory);
}

static void a_full_ring_refuses_and_tells_when_there_is_room(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    while (ring_reserve(&pair.producer, 100) != NULL) ring_publish(&pair.producer, 100, 1);
    assert_true(ring_starve(&pair.producer));
    ring_record record;
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
    ring_advance(&pair.consumer, record.size);
    assert_true(ring_release(&pair.consumer));  /* notified once */
    assert_false(ring_release(&pair.consumer)); /* nothing new was read */
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
    ring_advance(&pair.consumer, record.size);
    assert_false(ring_release(&pair.consumer));
    assert_non_null(ring_reserve(&pair.producer, 100));
    free(pair.memory);
}

static void room_that_comes_while_asking_is_noticed(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    while (ring_reserve(&pair.producer, 100) != NULL) ring_publish(&pair.producer, 100, 1);
    ring_record record;
    for (int i = 0; i < 2; i++) { /* one record may not make enough room at the end of the data */
        assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
        ring_advance(&pair.consumer, record.size);
    }
    ring_release(&pair.consumer);
    assert_false(ring_starve(&pair.producer)); /* tail_seen is outdated: reserve again */
    assert_non_null(ring_reserve(&pair.producer, 100));
    free(pair.memory);
}

static void a_reader_that_does_not_look_is_told_once(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    assert_true(ring_arm(&pair.consumer));
    ring_reserve(&pair.producer, 8);
    assert_true(ring_publish(&pair.producer, 8, 1));
    ring_reserve(&pair.producer, 8);
    assert_false(ring_publish(&pair.producer, 8, 1));
    assert_false(ring_arm(&pair.consumer)); /* a record is there: not armed */
    ring_reserve(&pair.producer, 8);
    assert_false(ring_publish(&pair.producer, 8, 1));
    free(pair.memory);
}

static void expect_corrupt(void (*harm)(pair *pair)) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    for (int i = 0; i < 3; i++) {
        ring_reserve(&pair.producer, 40);
        ring_publish(&pair.producer, 40, 1);
    }
    harm(&pair);
    ring_record record;
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_CORRUPT);
    free(pair.memory);
}

static void write_word(pair *pair, uint32_t size, uint16_t type) {
    ring_store_word(pair->consumer.shared->data, ring_word(size, type), __ATOMIC_RELAXED);
}

static void harm_size(pair *pair) { write_word(pair, 0xfffffff0u, 1); }
static void harm_size_a_bit(pair *pair) { write_word(pair, (uint32_t)pair->consumer.capacity, 1); }
static void harm_high_bits(pair *pair) { pair->consumer.shared->data[7] = 1; }
static void harm_type(pair *pair) { write_word(pair, 40, 0); }
static void write_held(pair *pair, uint32_t size, uint16_t type) {
    ring_store_word(pair->consumer.shared->data, ring_word(size, type) | RING_HELD, __ATOMIC_RELAXED);
}
static void harm_held_type(pair *pair) { write_held(pair, 40, 0); }
static void harm_held_skip(pair *pair) { write_held(pair, (uint32_t)pair->consumer.capacity - 8, RING_TYPE_SKIP); }
static void harm_held_size(pair *pair) { write_held(pair, (uint32_t)pair->consumer.capacity, 1); }
static void harm_skip(pair *pair) { write_word(pair, 40, RING_TYPE_SKIP); }
static void harm_skip_to_skip(pair *pair) { write_word(pair, (uint32_t)pair->consumer.capacity - 8, RING_TYPE_SKIP); }

static void nonsense_is_reported(void **state) {
    expect_corrupt(harm_size);
    expect_corrupt(harm_size_a_bit);
    expect_corrupt(harm_high_bits);
    expect_corrupt(harm_type);
    expect_corrupt(harm_held_type);
    expect_corrupt(harm_held_skip);
    expect_corrupt(harm_held_size);
    expect_corrupt(harm_skip);
    expect_corrupt(harm_skip_to_skip);
}

static void a_record_is_not_there_before_it_is_published(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    ring_record record;
    for (int lap = 0; lap < 3 * RING_BYTES_MIN / 48; lap++) {
        uint8_t *at = ring_reserve(&pair.producer, 40);
        assert_non_null(at);
        memset(at, 0xff, 40);
        assert_int_equal(ring_peek(&pair.consumer, &record), RING_EMPTY);
        ring_publish(&pair.producer, 40, 1);
        assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
        ring_advance(&pair.consumer, record.size);
        ring_release(&pair.consumer);
    }
    free(pair.memory);
}

/* Random bytes in the shared header and data: never a record outside the ring, never an endless loop. */
static void random_rings_do_no_harm(void **state) {
    rng rng;
    rng_init(&rng, 5);
    for (int round = 0; round < 20000; round++) {
        pair pair;
        pair_init(&pair, RING_BYTES_MIN);
        for (int i = 0; i < 5; i++) {
            ring_reserve(&pair.producer, 24);
            ring_publish(&pair.producer, 24, 1);
        }
        for (int i = 0; i < 4; i++) {
            size_t at = rng_chance(&rng, 0.5) ? RING_HEADER + rng_below(&rng, 200) : rng_below(&rng, 8);
            ((uint8_t *)pair.memory)[at] ^= (uint8_t)(1u << rng_below(&rng, 8));
        }
        ring_record record;
        for (int i = 0; i < 600 && there(&pair.consumer, &record); i++) {
            assert_true(record.data >= pair.consumer.shared->data);
            assert_true(record.data + record.size <= (uint8_t *)pair.memory + RING_BYTES_MIN);
            ring_advance(&pair.consumer, record.size);
        }
        free(pair.memory);
    }
}

/* ---- Runs. */

static bool hold_one(pair *pair) {
    uint8_t *at = ring_reserve(&pair->producer, 24);
    assert_non_null(at);
    fill(at, 1, 24);
    return ring_hold(&pair->producer, 24, 1);
}

/* Reads this many records of any kind. */
static void read_all(pair *pair, int count) {
    ring_record record;
    for (int i = 0; i < count; i++) {
        assert_true(there(&pair->consumer, &record));
        assert_false(differs(record.data, 1, record.size));
        ring_advance(&pair->consumer, record.size);
    }
    assert_int_equal(ring_peek(&pair->consumer, &record), RING_EMPTY);
    ring_release(&pair->consumer);
}

static void a_run_is_marked_until_it_is_shown(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    ring_record record;
    for (int i = 0; i < 3; i++) {
        assert_false(hold_one(&pair));
        assert_int_equal(ring_peek(&pair.consumer, &record), RING_FIRST);
    }
    assert_false(ring_show(&pair.producer));
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
    read_all(&pair, 3);
    assert_false(hold_one(&pair)); /* the next run */
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_FIRST);
    ring_reserve(&pair.producer, 24);
    assert_false(ring_publish(&pair.producer, 24, 1)); /* also ends the run */
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
    free(pair.memory);
}

/* A run that was read early still ends at RING_RUN records, with or without ring_show, and wakes no consumer. */
static void a_run_may_be_read_before_it_is_shown(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    for (int round = 0; round < 1000; round++) {
        int count = 1 + round % 7;
        for (int i = 0; i < count; i++) assert_false(hold_one(&pair));
        read_all(&pair, count);
        if (round % 3 == 0) ring_show(&pair.producer);
    }
    free(pair.memory);
}

static void a_run_is_not_longer_than_it_may_be(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_DEFAULT);
    ring_record record;
    for (int i = 0; i < RING_RUN - 1; i++) assert_false(hold_one(&pair));
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_FIRST);
    assert_false(hold_one(&pair));
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
    read_all(&pair, RING_RUN);
    free(pair.memory);
}

/* Publishing a run that was read early must not write into records that have reused its place. */
static void a_run_that_was_read_leaves_its_place_to_others(void **state) {
    for (uint64_t before = 0; before < 2000; before += 200) {
        pair pair;
        pair_init(&pair, RING_BYTES_MIN);
        uint32_t most = (uint32_t)ring_record_max(pair.producer.capacity);
        for (uint64_t done = 0; done < before; done += 32) {
            assert_false(hold_one(&pair));
            ring_show(&pair.producer);
            read_all(&pair, 1);
        }
        assert_false(hold_one(&pair));
        read_all(&pair, 1);
        for (int i = 0; i < 3; i++) { /* one of them overlaps it */
            uint8_t *at = ring_reserve(&pair.producer, most);
            assert_non_null(at);
            fill(at, 1, most);
            if (i == 2)
                ring_publish(&pair.producer, most, 1);
            else
                ring_hold(&pair.producer, most, 1);
            read_all(&pair, 1);
        }
        free(pair.memory);
    }
}

static void a_reader_that_does_not_look_is_told_of_a_run(void **state) {
    pair pair;
    pair_init(&pair, RING_BYTES_MIN);
    assert_true(ring_arm(&pair.consumer));
    assert_true(hold_one(&pair)); /* the reader sleeps: nothing is held */
    ring_record record;
    assert_int_equal(ring_peek(&pair.consumer, &record), RING_RECORD);
    read_all(&pair, 1);
    assert_false(hold_one(&pair));
    assert_false(ring_arm(&pair.consumer)); /* a record is there, held or not */
    ring_advance(&pair.consumer, 24);
    assert_true(ring_arm(&pair.consumer));
    assert_true(ring_show(&pair.producer));
    free(pair.memory);
}

/* ---- Two threads. A failed check increments a count that the main thread asserts. */

enum { THREAD_RECORDS = 60000 };

typedef struct two {
    pair pair;
    _Atomic uint32_t told; /* stands for a doorbell: the consumer must check */
    _Atomic uint32_t told_room;
    unsigned wrong;
} two;

static void tell(_Atomic uint32_t *word) {
    atomic_store(word, 1);
    futex_wake(word, FUTEX_WITHIN);
}

static void await(_Atomic uint32_t *word) {
    while (atomic_exchange(word, 0) == 0) futex_wait(word, 0, -1, FUTEX_WITHIN);
}

static void *write_many(void *argument) {
    two *two = argument;
    rng rng;
    rng_init(&rng, 3);
    for (uint64_t number = 0; number < THREAD_RECORDS; number++) {
        size_t size = rng_below(&rng, 300);
        uint8_t *at;
        while ((at = ring_reserve(&two->pair.producer, size)) == NULL) {
            if (!ring_starve(&two->pair.producer)) continue;
            if (ring_show(&two->pair.producer)) tell(&two->told);
            await(&two->told_room);
        }
        fill(at, number, size);
        bool due = number % 8 < 6 ? ring_hold(&two->pair.producer, (uint32_t)size, 1)
                                  : ring_publish(&two->pair.producer, (uint32_t)size, 1);
        if (due) tell(&two->told);
    }
    if (ring_show(&two->pair.producer)) tell(&two->told);
    return NULL;
}

static void *read_many(void *argument) {
    two *two = argument;
    rng rng;
    rng_init(&rng, 3);
    for (uint64_t number = 0; number < THREAD_RECORDS;) {
        ring_record record;
        if (there(&two->pair.consumer, &record)) {
            if (record.size != rng_below(&rng, 300) || differs(record.data, number, record.size)) two->wrong++;
            ring_advance(&two->pair.consumer, record.size);
            number++;
            if (number % 4 == 0 && ring_release(&two->pair.consumer)) tell(&two->told_room);
            continue;
        }
        if (ring_release(&two->pair.consumer)) tell(&two->told_room);
        if (!ring_arm(&two->pair.consumer)) continue;
        await(&two->told);
    }
    return NULL;
}

static void two_threads_lose_nothing(void **state) {
    static const uint64_t sizes[] = {RING_BYTES_MIN, RING_BYTES_DEFAULT, 1 << 20};
    for (size_t i = 0; i < 3; i++) {
        two two = {.wrong = 0};
        pair_init(&two.pair, sizes[i]);
        pthread_t writer, reader;
        assert_int_equal(pthread_create(&writer, NULL, write_many, &two), 0);
        assert_int_equal(pthread_create(&reader, NULL, read_many, &two), 0);
        pthread_join(writer, NULL);
        pthread_join(reader, NULL);
        assert_int_equal(two.wrong, 0);
        free(two.pair.memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_ring_is_empty),
        cmocka_unit_test(free_room_is_exact),
        cmocka_unit_test(records_come_out_as_they_went_in),
        cmocka_unit_test(the_largest_record_fits_wherever_the_head_stands),
        cmocka_unit_test(a_full_ring_refuses_and_tells_when_there_is_room),
        cmocka_unit_test(room_that_comes_while_asking_is_noticed),
        cmocka_unit_test(a_reader_that_does_not_look_is_told_once),
        cmocka_unit_test(a_record_is_not_there_before_it_is_published),
        cmocka_unit_test(nonsense_is_reported),
        cmocka_unit_test(random_rings_do_no_harm),
        cmocka_unit_test(a_run_is_marked_until_it_is_shown),
        cmocka_unit_test(a_run_may_be_read_before_it_is_shown),
        cmocka_unit_test(a_run_is_not_longer_than_it_may_be),
        cmocka_unit_test(a_run_that_was_read_leaves_its_place_to_others),
        cmocka_unit_test(a_reader_that_does_not_look_is_told_of_a_run),
        cmocka_unit_test(two_threads_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
