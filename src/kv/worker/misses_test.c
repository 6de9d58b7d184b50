/* misses_test.c — reports of the steps that a rank has missed. */
#include "kv/worker/misses.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool is_spent(const claims_past *past, uint64_t step) {
    return (past->spent >> (past->over - 1 - step) & 1) != 0;
}

static void what_was_not_missed_is_said_at_once(void **state) {
    misses misses = {0};
    claims_past past = misses_past(&misses, 3, 1000);
    assert_int_equal(past.over, 1000);
    assert_true(past.spent == UINT64_MAX);
    assert_false(misses_any(&misses, 0, UINT64_MAX));
}

static void missed_steps_are_said_in_portions(void **state) {
    misses misses = {0};
    misses_add(&misses, 10, 12);
    misses_add(&misses, 12, 13); /* goes on */
    misses_add(&misses, 11, 13); /* is known */
    misses_add(&misses, 100, 101);
    assert_int_equal(misses.count, 2);
    assert_true(misses_any(&misses, 0, 11) && !misses_any(&misses, 0, 10) && !misses_any(&misses, 13, 100));
    claims_past past = misses_past(&misses, 0, 500);
    assert_int_equal(past.over, 74);
    for (uint64_t step = 10; step < 74; step++) assert_int_equal(is_spent(&past, step), step > 12);
    past = misses_past(&misses, 74, 500);
    assert_int_equal(past.over, 164);
    for (uint64_t step = 100; step < 164; step++) assert_int_equal(is_spent(&past, step), step != 100);
    past = misses_past(&misses, 164, 500);
    assert_int_equal(past.over, 500);
    past = misses_past(&misses, 0, 11);
    assert_int_equal(past.over, 11);
    assert_true(!is_spent(&past, 10) && is_spent(&past, 9));
}

static void of_steps_before_it_began_nothing_is_known(void **state) {
    misses misses = {0};
    misses_begin(&misses, 20);
    misses_add(&misses, 18, 22);
    claims_past past = misses_past(&misses, 0, 30);
    assert_int_equal(past.since, 20);
    assert_true(is_spent(&past, 19) && !is_spent(&past, 20) && !is_spent(&past, 21) && is_spent(&past, 22));
    past = misses_past(&misses, 0, 5);
    assert_int_equal(past.since, 5);
}

static void what_is_played_again_was_not_missed(void **state) {
    misses misses = {0};
    misses_add(&misses, 4, 9);
    misses_add(&misses, 20, 30);
    misses_rewind(&misses, 6);
    assert_true(misses_any(&misses, 5, 6));
    assert_false(misses_any(&misses, 6, UINT64_MAX));
}

/* A backup worker may miss every other round for ever. */
static void the_oldest_of_too_many_are_forgotten(void **state) {
    misses misses = {0};
    for (uint64_t i = 0; i < MISSES_MAX + 10; i++) misses_add(&misses, 2 * i, 2 * i + 1);
    assert_int_equal(misses.count, MISSES_MAX);
    assert_false(misses_any(&misses, 0, 20));
    assert_true(misses_any(&misses, 0, 21));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_missed_is_said_at_once),
        cmocka_unit_test(missed_steps_are_said_in_portions),
        cmocka_unit_test(of_steps_before_it_began_nothing_is_known),
        cmocka_unit_test(what_is_played_again_was_not_missed),
        cmocka_unit_test(the_oldest_of_too_many_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
