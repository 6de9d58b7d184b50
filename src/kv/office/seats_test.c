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
    seats_heard(seats, 2, 5);
    assert_int_equal(seats_give(seats, SEATS_MAX, 13, 6), 3);
    free(seats);
}

static void who_is_silent_is_followed(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    assert_int_equal(seats_give(seats, SEATS_MAX, 11, 0), 0);
    assert_int_equal(seats_give(seats, SEATS_MAX, 12, 0), 1);
    seats_heard(seats, 0, SEATS_SILENT_US - 1);
    assert_int_equal(seats_give(seats, SEATS_MAX, 13, SEATS_SILENT_US), 1);
    assert_int_equal(seats_give(seats, SEATS_MAX, 14, SEATS_SILENT_US), 2);
    free(seats);
}

static void there_are_so_many(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    seats_heard(seats, SEATS_MAX, 0);
    for (uint32_t i = 0; i < SEATS_MAX; i++) seats_heard(seats, i, 0);
    assert_int_equal(seats_give(seats, SEATS_MAX, 7, 0), SEATS_MAX);
    free(seats);
}

static void where_there_are_fewer_one_waits(void **state) {
    seats *seats = xcalloc(1, sizeof *seats);
    assert_int_equal(seats_give(seats, 2, 11, 0), 0);
    assert_int_equal(seats_give(seats, 2, 12, 0), 1);
    seats_heard(seats, 1, 5);
    assert_int_equal(seats_give(seats, 2, 13, SEATS_SILENT_US - 1), SEATS_MAX);
    assert_int_equal(seats_give(seats, 2, 13, SEATS_SILENT_US), 0);
    assert_int_equal(seats_give(seats, 2, 12, SEATS_SILENT_US), 1); /* it has one */
    free(seats);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_asker_has_its_number),
        cmocka_unit_test(who_is_silent_is_followed),
        cmocka_unit_test(there_are_so_many),
        cmocka_unit_test(where_there_are_fewer_one_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
