/* drain_test.c — when a draining server may end, and the scheduler's list of draining servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kv/control/drain.h"
#include "kv/control/drain_list.h"

static const control_message go = {.stamp.view = DRAIN_GO}, stay = {.stamp.view = DRAIN_MOVES},
                             held = {.stamp.view = DRAIN_HELD};

static void it_goes_when_it_has_nothing(void **state) {
    cluster_map_member chain[1] = {{.server = 4, .incarnation = 9}};
    cluster_map_slot slots[2] = {{.count = 0}, {.count = 1}};
    slots[1].chain[0] = chain[0];
    cluster_map map = {.number = 3, .slots = slots, .slot_count = 2};
    drain drain = {0};
    assert_false(drain_tick(&drain, &map, 4, 9, 1000));
    assert_false(drain_is_over(&drain, INT64_MAX));
    drain_begin(&drain, 1000);
    assert_true(drain_tick(&drain, &map, 4, 9, 1000));
    drain_take(&drain, &stay, 2000);
    assert_false(drain_is_over(&drain, DRAIN_DEAF_US));
    slots[1].chain[0].incarnation = 10; /* another process with this number has the slot */
    int64_t now_us = 1000000;
    drain_take(&drain, &stay, now_us);
    assert_true(drain_tick(&drain, &map, 4, 9, now_us));
    assert_false(drain_is_over(&drain, now_us + DRAIN_GRACE_US - 1));
    assert_true(drain_is_over(&drain, now_us + DRAIN_GRACE_US));
    slots[1].chain[0].incarnation = 9; /* the slot came back: the server waits on */
    assert_true(drain_tick(&drain, &map, 4, 9, now_us + 1));
    assert_false(drain_is_over(&drain, now_us + DRAIN_GRACE_US));
}

static void it_does_not_wait_for_ever(void **state) {
    drain drain = {0};
    drain_begin(&drain, 0);
    assert_true(drain_is_over(&drain, DRAIN_DEAF_US)); /* no answer arrives */
    for (int64_t us = 0; us < DRAIN_US; us += DRAIN_DEAF_US / 2) {
        drain_take(&drain, &stay, us);
        assert_false(drain_is_over(&drain, us + 1));
    }
    drain_take(&drain, &stay, DRAIN_US);
    assert_true(drain_is_over(&drain, DRAIN_US));
    drain_take(&drain, &held, DRAIN_US); /* the scheduler saves the slots */
    assert_false(drain_is_over(&drain, DRAIN_US + DRAIN_DEAF_US - 1));
    assert_true(drain_is_over(&drain, DRAIN_US + DRAIN_DEAF_US));
    drain = (struct drain){0};
    drain_begin(&drain, 5000);
    drain_take(&drain, &go, 6000);
    assert_true(drain_is_over(&drain, 6000));
}

static void one_that_is_started_again_stays(void **state) {
    drain_list list = {0};
    assert_true(drain_list_add(&list, 7, 10));
    assert_true(drain_list_add(&list, 3, 11));
    assert_false(drain_list_add(&list, 7, 10));
    assert_true(list.count == 2 && list.numbers[0] == 3 && list.numbers[1] == 7);
    assert_true(drain_list_has(&list, 7, 10) && !drain_list_has(&list, 7, 11) && !drain_list_has(&list, 4, 10));
    assert_false(drain_list_heard(&list, 7, 10));
    assert_false(drain_list_heard(&list, 4, 12));
    assert_true(drain_list_heard(&list, 3, 12));
    assert_true(list.count == 1 && list.numbers[0] == 7 && drain_list_has(&list, 7, 10));
    assert_true(drain_list_add(&list, 7, 20));
    assert_true(drain_list_has(&list, 7, 20));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_when_it_has_nothing),
        cmocka_unit_test(it_does_not_wait_for_ever),
        cmocka_unit_test(one_that_is_started_again_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
