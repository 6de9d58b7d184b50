/* detector_test.c — silence, its bound, and pauses of the watching process. */
#include "cluster/detector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { INTERVAL = 100, SUSPECT = 500 };

static const detector_options options = {.interval_us = INTERVAL, .suspect_us = SUSPECT};

static int setup(void **state) {
    detector *detector = detector_create(&options, 0);
    for (uint64_t id = 1; id <= 3; id++) detector_watch(detector, id, 0);
    *state = detector;
    return 0;
}

static int teardown(void **state) {
    detector_destroy(*state);
    return 0;
}

static void silence_is_suspected_within_the_bound(void **state) {
    detector *detector = *state;
    for (int64_t now = INTERVAL; now <= SUSPECT; now += INTERVAL) {
        assert_false(detector_suspects(detector, 1));
        detector_heard(detector, 2, now);
        detector_heard(detector, 3, now);
        assert_int_equal(detector_tick(detector, now), 0);
    }
    assert_true(detector_suspects(detector, 1));
    assert_false(detector_suspects(detector, 2));
    assert_int_equal(detector_suspect_count(detector), 1);
    detector_heard(detector, 1, SUSPECT + 1); /* the member was only slow */
    assert_false(detector_suspects(detector, 1));
    assert_int_equal(detector_suspect_count(detector), 0);
}

/* Ticks from `from` to `to` without a heartbeat of member 1. Returns when it is first suspected, or -1. */
static int64_t silence(detector *detector, int64_t from, int64_t to) {
    for (int64_t now = from + INTERVAL; now <= to; now += INTERVAL) {
        detector_heard(detector, 2, now);
        detector_tick(detector, now);
        if (detector_suspects(detector, 1)) return now - from;
    }
    return -1;
}

static void a_wrong_suspicion_extends_the_timeout(void **state) {
    detector *detector = *state;
    int64_t now = 0;
    detector_forgive(detector, 1, now); /* no-op: not suspected */
    detector_forgive(detector, 9, now);
    for (int64_t bound = SUSPECT; bound <= SUSPECT << 2 * DETECTOR_FORGIVEN_MAX; bound *= 4) {
        assert_int_equal(silence(detector, now, now + 2 * bound), bound);
        now += bound;
        detector_forgive(detector, 1, now);
        detector_heard(detector, 1, now);
    }
    /* the patience has its maximum */
    assert_int_equal(silence(detector, now, now + (SUSPECT << 6)), SUSPECT << 2 * DETECTOR_FORGIVEN_MAX);
    now += SUSPECT << 2 * DETECTOR_FORGIVEN_MAX;
    detector_heard(detector, 1, now);
    detector_hint(detector, 1, now); /* a hint still counts after two intervals */
    assert_int_equal(silence(detector, now, now + SUSPECT), 2 * INTERVAL);
    now += 2 * INTERVAL;
    detector_heard(detector, 1, now);
    int64_t calm = now + (DETECTOR_FORGIVEN_MAX + 1) * DETECTOR_CALM * SUSPECT;
    for (; now < calm; now += INTERVAL) {
        detector_heard(detector, 1, now + INTERVAL);
        detector_tick(detector, now + INTERVAL);
    }
    assert_int_equal(silence(detector, now, now + 2 * SUSPECT), SUSPECT);
}

static void an_unwatched_process_is_not_suspected(void **state) {
    detector *detector = *state;
    detector_heard(detector, 9, 0);
    detector_hint(detector, 9, 0);
    detector_forget(detector, 9);
    for (int64_t now = INTERVAL; now <= 2 * SUSPECT; now += INTERVAL) detector_tick(detector, now);
    assert_false(detector_suspects(detector, 9));
    assert_false(detector_watches(detector, 9));
    assert_int_equal(detector_suspect_count(detector), 3);
    detector_forget(detector, 1);
    assert_int_equal(detector_suspect_count(detector), 2);
    detector_watch(detector, 2, 2 * SUSPECT); /* the member begins anew */
    assert_false(detector_suspects(detector, 2));
    detector_forget_all(detector);
    assert_int_equal(detector_suspect_count(detector), 0);
}

static void ones_own_standing_still_is_nobodys_silence(void **state) {
    detector *detector = *state;
    int64_t now = 2 * INTERVAL;
    detector_tick(detector, INTERVAL);
    detector_tick(detector, now);
    now += 100 * INTERVAL;
    assert_int_equal(detector_tick(detector, now), 99 * INTERVAL);
    assert_int_equal(detector_suspect_count(detector), 0);
    /* The silence before the pause counts: 200 µs so far, 300 more are needed. */
    detector_heard(detector, 1, now + INTERVAL);
    detector_tick(detector, now + INTERVAL);
    assert_int_equal(detector_suspect_count(detector), 0);
    detector_tick(detector, now + 2 * INTERVAL);
    assert_int_equal(detector_suspect_count(detector), 2);
    assert_false(detector_suspects(detector, 1));
}

static void standing_still_often_does_not_hide_a_death_for_ever(void **state) {
    detector *detector = *state;
    int64_t now = 0;
    int ticks = 0;
    for (; detector_suspect_count(detector) == 0 && ticks < 100; ticks++) {
        now += 5 * INTERVAL; /* every tick is late */
        detector_tick(detector, now);
    }
    assert_in_range(ticks, SUSPECT / INTERVAL - 1, SUSPECT / INTERVAL + 1);
}

static void a_little_late_is_nothing(void **state) {
    detector *detector = *state;
    assert_int_equal(detector_tick(detector, INTERVAL + INTERVAL - 1), 0);
}

static void a_hint_makes_it_sooner(void **state) {
    detector *detector = *state;
    detector_heard(detector, 1, 50);
    detector_hint(detector, 1, 60);
    detector_hint(detector, 2, 60);
    assert_true(detector_doubts(detector, 1) && detector_doubts(detector, 2) && !detector_doubts(detector, 3));
    detector_tick(detector, 100);
    detector_heard(detector, 2, 150); /* only the link of member 2 broke */
    assert_true(detector_doubts(detector, 1) && !detector_doubts(detector, 2));
    detector_tick(detector, 200);
    assert_false(detector_suspects(detector, 1));
    detector_tick(detector, 300);
    assert_true(detector_suspects(detector, 1));
    assert_false(detector_suspects(detector, 2));
    assert_false(detector_suspects(detector, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(silence_is_suspected_within_the_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(a_wrong_suspicion_extends_the_timeout, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unwatched_process_is_not_suspected, setup, teardown),
        cmocka_unit_test_setup_teardown(ones_own_standing_still_is_nobodys_silence, setup, teardown),
        cmocka_unit_test_setup_teardown(standing_still_often_does_not_hide_a_death_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(a_little_late_is_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_hint_makes_it_sooner, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
