/* savers_test.c — a requested checkpoint is one that was begun after the request. */
#include "kv/office/savers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

static savers *after_the_first(uint64_t number) {
    savers *savers = xcalloc(1, sizeof *savers);
    savers_whole(savers, number);
    return savers;
}

static void the_next_one_is_for_who_asks(void **state) {
    savers *savers = after_the_first(4);
    assert_int_equal(savers_ask(savers, 11, false, 0), 0);
    assert_int_equal(savers_ask(savers, 11, true, 1), 0); /* the one that it asked for is being made */
    savers_whole(savers, 5);
    assert_int_equal(savers_ask(savers, 11, false, 2), 5);
    savers_whole(savers, 6);
    assert_int_equal(savers_ask(savers, 11, false, 3), 5); /* again: its answer was lost */
    free(savers);
}

static void one_that_is_under_way_is_too_early(void **state) {
    savers *savers = after_the_first(4);
    assert_int_equal(savers_ask(savers, 11, true, 0), 0);
    savers_whole(savers, 5);
    assert_int_equal(savers_ask(savers, 12, false, 1), 0);
    assert_int_equal(savers_ask(savers, 11, false, 1), 0);
    savers_whole(savers, 7);
    assert_int_equal(savers_ask(savers, 11, false, 2), 7);
    assert_int_equal(savers_ask(savers, 12, false, 2), 7);
    free(savers);
}

static void the_first_of_a_scheduler_is_nobodys(void **state) {
    savers *savers = xcalloc(1, sizeof *savers);
    assert_int_equal(savers_ask(savers, 11, false, 0), 0);
    savers_whole(savers, 9);
    assert_int_equal(savers_ask(savers, 11, false, 1), 0);
    savers_whole(savers, 10);
    assert_int_equal(savers_ask(savers, 11, false, 2), 10);
    free(savers);
}

static void who_is_silent_makes_room(void **state) {
    savers *savers = after_the_first(1);
    for (uint64_t i = 0; i < SAVERS_MAX; i++) assert_int_equal(savers_ask(savers, 1 + i, false, 0), 0);
    assert_int_equal(savers_ask(savers, 7, false, SAVERS_SILENT_US - 1), 0);
    assert_int_equal(savers_ask(savers, 1000, false, SAVERS_SILENT_US - 1), 0); /* no room, */
    savers_whole(savers, 2);
    assert_int_equal(savers_ask(savers, 1000, false, SAVERS_SILENT_US), 0); /* but now, */
    assert_int_equal(savers->count, 2);
    assert_int_equal(savers_ask(savers, 7, false, SAVERS_SILENT_US), 2);
    savers_whole(savers, 3);
    assert_int_equal(savers_ask(savers, 1000, false, SAVERS_SILENT_US), 3);
    free(savers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_one_is_for_who_asks),
        cmocka_unit_test(one_that_is_under_way_is_too_early),
        cmocka_unit_test(the_first_of_a_scheduler_is_nobodys),
        cmocka_unit_test(who_is_silent_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
