/* seats_test.c — numbers go to who asks, come back after silence, and stay with who is heard. */
#include "kv/office/seats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

static void each_asker_has_its_number(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    assert_int_equal(seats_give(seats, SEATS_MAX, 11, 0), 0);
    assert_int_equal(seats_give(seats, SEATS_MAX, 12, 0), 1);
    assert_int_equal(seats_give(seats, SEATS_MAX, 11, 5), 0);
    seats_heard(seats, 2, "s2", 5);
    assert_int_equal(seats_give(seats, SEATS_MAX, 13, 6), 3);
    free(seats);
}

/* It may come back, and then has what nobody else has. */
static void who_is_silent_and_not_gone_is_waited_for(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    assert_int_equal(seats_give(seats, SEATS_MAX, 11, 0), 0);
    assert_int_equal(seats_give(seats, SEATS_MAX, 12, 0), 1);
    seats_heard(seats, 0, "a", 1);
    seats_heard(seats, 1, "b", 1);
    assert_int_equal(seats_give(seats, SEATS_MAX, 13, SEATS_SILENT_US + 1), 2);
    seats_broken(seats, "b");
    assert_int_equal(seats_give(seats, SEATS_MAX, 14, SEATS_SILENT_US), 3);
    assert_int_equal(seats_give(seats, SEATS_MAX, 15, SEATS_SILENT_US + 1), 1);
    assert_int_equal(seats_give(seats, SEATS_MAX, 16, SEATS_LOST_US + 1), 0);
    free(seats);
}

static void a_number_is_not_taken_from_who_is_here(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    assert_true(seats_take(seats, 0, 11, 0) && seats_take(seats, 0, 11, 5)); /* it asks again */
    seats_heard(seats, 0, "a", 10);
    assert_false(seats_take(seats, 0, 12, 11));
    seats_broken(seats, "b");
    assert_false(seats_take(seats, 0, 12, SEATS_SILENT_US + 9));
    assert_true(seats_take(seats, 0, 12, SEATS_SILENT_US + 10)); /* it is silent */
    seats_heard(seats, 0, "c", SEATS_SILENT_US + 20);
    seats_broken(seats, "c");
    assert_true(seats_take(seats, 0, 13, SEATS_SILENT_US + 21)); /* it is gone */
    assert_false(seats_take(seats, SEATS_MAX, 13, 0));
    free(seats);
}

static void who_is_silent_is_followed(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    assert_int_equal(seats_give(seats, SEATS_MAX, 11, 0), 0);
    assert_int_equal(seats_give(seats, SEATS_MAX, 12, 0), 1); /* and does not come */
    seats_heard(seats, 0, "s0", SEATS_SILENT_US - 1);
    assert_int_equal(seats_give(seats, SEATS_MAX, 13, SEATS_SILENT_US), 1);
    assert_int_equal(seats_give(seats, SEATS_MAX, 14, SEATS_SILENT_US), 2);
    free(seats);
}

static void there_are_so_many(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    seats_heard(seats, SEATS_MAX, "sSEATS_MAX", 0);
    for (uint32_t i = 0; i < SEATS_MAX; i++) seats_heard(seats, i, "si", 0);
    assert_int_equal(seats_give(seats, SEATS_MAX, 7, 0), SEATS_MAX);
    free(seats);
}

static void where_there_are_fewer_one_waits(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    assert_int_equal(seats_give(seats, 2, 11, 0), 0);
    assert_int_equal(seats_give(seats, 2, 12, 0), 1);
    seats_heard(seats, 1, "s1", 5);
    assert_int_equal(seats_give(seats, 2, 13, SEATS_SILENT_US - 1), SEATS_MAX);
    assert_int_equal(seats_give(seats, 2, 13, SEATS_SILENT_US), 0);
    assert_int_equal(seats_give(seats, 2, 12, SEATS_SILENT_US), 1); /* it has one */
    free(seats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_asker_has_its_number),
        cmocka_unit_test(who_is_silent_is_followed),
        cmocka_unit_test(who_is_silent_and_not_gone_is_waited_for),
        cmocka_unit_test(a_number_is_not_taken_from_who_is_here),
        cmocka_unit_test(there_are_so_many),
        cmocka_unit_test(where_there_are_fewer_one_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
