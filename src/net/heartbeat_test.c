/* heartbeat_test.c — silence in virtual time. */
#include "net/heartbeat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"

enum { INTERVAL_US = 100000, MISSES = 3 };

static heartbeat started(void) {
    heartbeat heartbeat;
    heartbeat_init(&heartbeat, INTERVAL_US, MISSES, 5000);
    return heartbeat;
}

/* Calls heartbeat_tick when it is due, plus a delay; returns the verdict. */
static heartbeat_verdict tick(heartbeat *heartbeat, int64_t *now_us, int64_t late_us) {
    *now_us = heartbeat_next_us(heartbeat) + late_us;
    return heartbeat_tick(heartbeat, *now_us);
}

static void a_silent_peer_is_pinged_then_dead(void **state) {
    heartbeat heartbeat = started();
    int64_t now_us = 0;
    for (int i = 0; i < MISSES; i++) assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_PING);
    assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_DEAD);
    assert_int_equal(now_us, 5000 + (MISSES + 1) * INTERVAL_US);
    assert_int_equal(heartbeat_silence_us(&heartbeat, now_us), (MISSES + 1) * INTERVAL_US);
}

static void nothing_happens_before_a_tick_is_due(void **state) {
    heartbeat heartbeat = started();
    for (int64_t now_us = 5000; now_us < 5000 + INTERVAL_US; now_us += 999)
        assert_int_equal(heartbeat_tick(&heartbeat, now_us), HEARTBEAT_NOTHING);
    assert_int_equal(heartbeat_next_us(&heartbeat), 5000 + INTERVAL_US);
}

static void a_busy_link_is_never_pinged(void **state) {
    heartbeat heartbeat = started();
    int64_t now_us;
    for (int i = 0; i < 100; i++) {
        heartbeat_heard(&heartbeat);
        assert_int_equal(tick(&heartbeat, &now_us, i % 7), HEARTBEAT_NOTHING);
    }
}

static void an_answer_starts_the_count_again(void **state) {
    heartbeat heartbeat = started();
    int64_t now_us;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < MISSES; i++) assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_PING);
        heartbeat_heard(&heartbeat);
        assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_NOTHING);
    }
}

/* With any count, the tick after a stop never reports a dead peer, and the sockets are read before the next tick. */
static void a_stopped_process_does_not_blame_its_peer(void **state) {
    for (int before = 0; before <= MISSES; before++) {
        heartbeat heartbeat = started();
        int64_t now_us;
        for (int i = 0; i < before; i++) assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_PING);
        assert_int_equal(tick(&heartbeat, &now_us, INT64_C(3600000000)), HEARTBEAT_PING);
        assert_true(heartbeat_next_us(&heartbeat) == now_us + INTERVAL_US);
        heartbeat_heard(&heartbeat);
        assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_NOTHING);
        for (int i = 0; i < MISSES; i++) assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_PING);
        assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_DEAD);
    }
}

static void a_peer_that_died_during_the_stop_is_noticed(void **state) {
    heartbeat heartbeat = started();
    int64_t now_us;
    assert_int_equal(tick(&heartbeat, &now_us, 10 * INTERVAL_US), HEARTBEAT_PING);
    for (int i = 0; i < MISSES; i++) assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_PING);
    assert_int_equal(tick(&heartbeat, &now_us, 0), HEARTBEAT_DEAD);
}

static void a_process_that_is_always_late_notices_deaths(void **state) {
    heartbeat heartbeat = started();
    int64_t now_us;
    int ticks = 1;
    while (tick(&heartbeat, &now_us, 2 * INTERVAL_US) != HEARTBEAT_DEAD) assert_true(++ticks < 100);
    assert_int_equal(ticks, 2 * (MISSES + 1)); /* every other tick counts */
}

static void one_that_is_off_does_nothing(void **state) {
    heartbeat heartbeat;
    heartbeat_init(&heartbeat, 0, 0, 0);
    assert_true(heartbeat_next_us(&heartbeat) == CLOCK_NEVER_US);
    assert_int_equal(heartbeat_tick(&heartbeat, INT64_MAX - 1), HEARTBEAT_NOTHING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_peer_is_pinged_then_dead),
        cmocka_unit_test(nothing_happens_before_a_tick_is_due),
        cmocka_unit_test(a_busy_link_is_never_pinged),
        cmocka_unit_test(an_answer_starts_the_count_again),
        cmocka_unit_test(a_stopped_process_does_not_blame_its_peer),
        cmocka_unit_test(a_peer_that_died_during_the_stop_is_noticed),
        cmocka_unit_test(a_process_that_is_always_late_notices_deaths),
        cmocka_unit_test(one_that_is_off_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
