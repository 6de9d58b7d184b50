/* bell_test.c — every mark is found, and nobody sleeps through a ring: on the futex, in a loop, with many senders. */
#include "net/shm/bell.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

static station *new_station(void) {
    station *fresh = aligned_alloc(64, sizeof *fresh);
    assert_non_null(fresh);
    memset(fresh, 0, sizeof *fresh);
    return fresh;
}

typedef struct seen {
    unsigned counts[STATION_LINKS_MAX];
} seen;

static void note(void *context, uint32_t index) { ((seen *)context)->counts[index]++; }

static void marks_are_taken_once_each(void **state) {
    station *station = new_station();
    seen *seen = calloc(1, sizeof *seen);
    static const uint32_t marks[] = {0, 1, 63, 64, 65, 2048, STATION_LINKS_MAX - 1, 64};
    assert_false(bell_marked(station));
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) bell_mark(station, marks[i]);
    assert_true(bell_marked(station));
    bell_take(station, note, seen);
    assert_false(bell_marked(station));
    for (uint32_t i = 0; i < STATION_LINKS_MAX; i++) {
        bool wanted = i <= 1 || i == 63 || i == 64 || i == 65 || i == 2048 || i == STATION_LINKS_MAX - 1;
        assert_int_equal(seen->counts[i], wanted);
    }
    bell_take(station, note, seen);
    assert_int_equal(seen->counts[64], 1);
    free(seen);
    free(station);
}

static void an_index_from_outside_stays_inside(void **state) {
    station *station = new_station();
    seen *seen = calloc(1, sizeof *seen);
    bell_mark(station, UINT32_MAX); /* what a broken peer may have written into a ring */
    bell_take(station, note, seen);
    assert_int_equal(seen->counts[STATION_LINKS_MAX - 1], 1);
    free(seen);
    free(station);
}

static void ringing_somebody_awake_does_nothing(void **state) {
    station *station = new_station();
    int fd = eventfd(0, EFD_NONBLOCK);
    bell_ring(station, fd);
    uint64_t value;
    assert_int_equal(read(fd, &value, sizeof value), -1);
    bell_arm(station, BELL_LOOP);
    assert_false(bell_is_rung(station));
    bell_ring(station, fd);
    assert_true(bell_is_rung(station)); /* until it runs */
    bell_ring(station, fd);             /* woken already: not written again */
    assert_int_equal(read(fd, &value, sizeof value), sizeof value);
    assert_int_equal(value, 1);
    bell_disarm(station);
    assert_false(bell_is_rung(station));
    close(fd);
    free(station);
}

static void sleep_ends_by_itself_after_its_time(void **state) {
    station *station = new_station();
    bell_arm(station, BELL_FUTEX);
    bell_sleep(station, 1000);
    bell_disarm(station);
    bell_sleep(station, -1); /* nobody is armed: returns at once */
    free(station);
}

/* ---- Senders in threads mark and ring; the owner sleeps whenever nothing is marked. */

enum { SENDERS = 3, RINGS = 3000 };

typedef struct house {
    station *station;
    int event_fd;
    _Atomic uint32_t sent[SENDERS];
} house;

typedef struct sender {
    house *house;
    uint32_t index;
} sender;

static void *ring_often(void *argument) {
    sender *sender = argument;
    for (int i = 0; i < RINGS; i++) {
        atomic_fetch_add_explicit(&sender->house->sent[sender->index], 1, memory_order_relaxed);
        bell_mark(sender->house->station, sender->index * 70);
        bell_ring(sender->house->station, sender->house->event_fd);
        if (i % 16 == 0) sched_yield();
    }
    return NULL;
}

static void take_all(house *house, seen *seen, uint32_t *got) {
    memset(seen, 0, sizeof *seen);
    bell_take(house->station, note, seen);
    for (uint32_t i = 0; i < SENDERS; i++)
        if (seen->counts[i * 70] != 0) got[i] = atomic_load(&house->sent[i]);
}

static void nobody_sleeps_through(bell_state how) {
    house house = {.station = new_station(), .event_fd = eventfd(0, EFD_NONBLOCK)};
    seen *seen = calloc(1, sizeof *seen);
    sender senders[SENDERS];
    pthread_t threads[SENDERS];
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i] = (sender){&house, i};
        assert_int_equal(pthread_create(&threads[i], NULL, ring_often, &senders[i]), 0);
    }
    uint32_t got[SENDERS] = {0};
    unsigned missed = 0;
    while (got[0] < RINGS || got[1] < RINGS || got[2] < RINGS) {
        take_all(&house, seen, got);
        bell_arm(house.station, how);
        if (bell_marked(house.station) || (got[0] == RINGS && got[1] == RINGS && got[2] == RINGS)) {
            bell_disarm(house.station);
            continue;
        }
        if (how == BELL_FUTEX) {
            int64_t start_ns = clock_ns();
            bell_sleep(house.station, 10 * 1000 * 1000);
            missed += clock_ns() - start_ns >= INT64_C(10000000000); /* it may end early for no reason */
        } else {
            struct pollfd fd = {.fd = house.event_fd, .events = POLLIN};
            missed += poll(&fd, 1, 10 * 1000) == 0;
            uint64_t value;
            if (read(house.event_fd, &value, sizeof value) < 0) missed++;
        }
        bell_disarm(house.station);
    }
    for (int i = 0; i < SENDERS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(missed, 0);
    close(house.event_fd);
    free(seen);
    free(house.station);
}

static void nobody_sleeps_through_on_the_futex(void **state) { nobody_sleeps_through(BELL_FUTEX); }
static void nobody_sleeps_through_in_a_loop(void **state) { nobody_sleeps_through(BELL_LOOP); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_taken_once_each),           cmocka_unit_test(an_index_from_outside_stays_inside),
        cmocka_unit_test(ringing_somebody_awake_does_nothing), cmocka_unit_test(sleep_ends_by_itself_after_its_time),
        cmocka_unit_test(nobody_sleeps_through_on_the_futex),  cmocka_unit_test(nobody_sleeps_through_in_a_loop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
