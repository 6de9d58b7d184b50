/* farewell_test.c — a server that is to go, and the scheduler's list of those: when it may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kv/office/farewell.h"
#include "kv/office/leavers.h"

static const letter go = {.stamp.view = 1}, stay = {.stamp.view = 0};

static void it_goes_when_it_has_nothing(void **state) {
    chart_member chain[1] = {{.server = 4, .incarnation = 9}};
    chart_slot slots[2] = {{.count = 0}, {.count = 1}};
    slots[1].chain[0] = chain[0];
    chart chart = {.number = 3, .slots = slots, .slot_count = 2};
    farewell farewell = {0};
    assert_false(farewell_tick(&farewell, &chart, 4, 9, 1000));
    assert_false(farewell_is_over(&farewell, INT64_MAX));
    farewell_begin(&farewell, 1000);
    assert_true(farewell_tick(&farewell, &chart, 4, 9, 1000));
    farewell_take(&farewell, &stay, 2000);
    assert_false(farewell_is_over(&farewell, FAREWELL_DEAF_US));
    slots[1].chain[0].incarnation = 10; /* another process of its number has that slot now */
    int64_t now_us = 1000000;
    farewell_take(&farewell, &stay, now_us);
    assert_true(farewell_tick(&farewell, &chart, 4, 9, now_us));
    assert_false(farewell_is_over(&farewell, now_us + FAREWELL_GRACE_US - 1));
    assert_true(farewell_is_over(&farewell, now_us + FAREWELL_GRACE_US));
    slots[1].chain[0].incarnation = 9; /* it was given back: it waits on */
    assert_true(farewell_tick(&farewell, &chart, 4, 9, now_us + 1));
    assert_false(farewell_is_over(&farewell, now_us + FAREWELL_GRACE_US));
}

static void it_does_not_wait_for_ever(void **state) {
    farewell farewell = {0};
    farewell_begin(&farewell, 0);
    assert_true(farewell_is_over(&farewell, FAREWELL_DEAF_US)); /* nobody answers */
    for (int64_t us = 0; us < FAREWELL_US; us += FAREWELL_DEAF_US / 2) {
        farewell_take(&farewell, &stay, us);
        assert_false(farewell_is_over(&farewell, us + 1));
    }
    farewell_take(&farewell, &stay, FAREWELL_US);
    assert_true(farewell_is_over(&farewell, FAREWELL_US));
    farewell = (struct farewell){0};
    farewell_begin(&farewell, 5000);
    farewell_take(&farewell, &go, 6000);
    assert_true(farewell_is_over(&farewell, 6000));
}

static void one_that_is_started_again_stays(void **state) {
    leavers leavers = {0};
    assert_true(leavers_add(&leavers, 7, 10));
    assert_true(leavers_add(&leavers, 3, 11));
    assert_false(leavers_add(&leavers, 7, 10));
    assert_true(leavers.count == 2 && leavers.numbers[0] == 3 && leavers.numbers[1] == 7);
    assert_true(leavers_has(&leavers, 7, 10) && !leavers_has(&leavers, 7, 11) && !leavers_has(&leavers, 4, 10));
    assert_false(leavers_heard(&leavers, 7, 10));
    assert_false(leavers_heard(&leavers, 4, 12));
    assert_true(leavers_heard(&leavers, 3, 12));
    assert_true(leavers.count == 1 && leavers.numbers[0] == 7 && leavers_has(&leavers, 7, 10));
    assert_true(leavers_add(&leavers, 7, 20));
    assert_true(leavers_has(&leavers, 7, 20));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_when_it_has_nothing),
        cmocka_unit_test(it_does_not_wait_for_ever),
        cmocka_unit_test(one_that_is_started_again_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
