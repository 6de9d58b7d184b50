/* skipped_steps_test.c — reports of the steps that a rank has missed. */
#include "kv/client/skipped_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static bool is_spent(const batch_claims_past *past, uint64_t step) {
    return (past->spent >> (past->over - 1 - step) & 1) != 0;
}

static void steps_that_were_done_are_reported_at_once(void **state) {
    skipped_steps skipped = {0};
    batch_claims_past past = skipped_steps_past(&skipped, 3, 1000);
    assert_int_equal(past.over, 1000);
    assert_true(past.spent == UINT64_MAX);
    assert_false(skipped_steps_any(&skipped, 0, UINT64_MAX));
}

static void missed_steps_are_said_in_portions(void **state) {
    skipped_steps skipped = {0};
    skipped_steps_add(&skipped, 10, 12);
    skipped_steps_add(&skipped, 12, 13); /* continues the run */
    skipped_steps_add(&skipped, 11, 13); /* already recorded */
    skipped_steps_add(&skipped, 100, 101);
    assert_int_equal(skipped.count, 2);
    assert_true(skipped_steps_any(&skipped, 0, 11) && !skipped_steps_any(&skipped, 0, 10) &&
                !skipped_steps_any(&skipped, 13, 100));
    batch_claims_past past = skipped_steps_past(&skipped, 0, 500);
    assert_int_equal(past.over, 74);
    for (uint64_t step = 10; step < 74; step++) assert_int_equal(is_spent(&past, step), step > 12);
    past = skipped_steps_past(&skipped, 74, 500);
    assert_int_equal(past.over, 164);
    for (uint64_t step = 100; step < 164; step++) assert_int_equal(is_spent(&past, step), step != 100);
    past = skipped_steps_past(&skipped, 164, 500);
    assert_int_equal(past.over, 500);
    past = skipped_steps_past(&skipped, 0, 11);
    assert_int_equal(past.over, 11);
    assert_true(!is_spent(&past, 10) && is_spent(&past, 9));
}

static void of_steps_before_it_began_nothing_is_known(void **state) {
    skipped_steps skipped = {.since = 20};
    skipped_steps_add(&skipped, 18, 22);
    batch_claims_past past = skipped_steps_past(&skipped, 0, 30);
    assert_int_equal(past.since, 20);
    assert_true(is_spent(&past, 19) && !is_spent(&past, 20) && !is_spent(&past, 21) && is_spent(&past, 22));
    past = skipped_steps_past(&skipped, 0, 5);
    assert_int_equal(past.since, 5);
}

static void repeated_steps_are_not_missed(void **state) {
    skipped_steps skipped = {0};
    skipped_steps_add(&skipped, 4, 9);
    skipped_steps_add(&skipped, 20, 30);
    skipped_steps_rewind(&skipped, 6);
    assert_true(skipped_steps_any(&skipped, 5, 6));
    assert_false(skipped_steps_any(&skipped, 6, UINT64_MAX));
}

/* A backup worker may miss every other round. */
static void the_oldest_of_too_many_are_forgotten(void **state) {
    skipped_steps skipped = {0};
    for (uint64_t i = 0; i < SKIPPED_STEPS_MAX + 10; i++) skipped_steps_add(&skipped, 2 * i, 2 * i + 1);
    assert_int_equal(skipped.count, SKIPPED_STEPS_MAX);
    assert_false(skipped_steps_any(&skipped, 0, 20));
    assert_true(skipped_steps_any(&skipped, 0, 21));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_were_done_are_reported_at_once),
        cmocka_unit_test(missed_steps_are_said_in_portions),
        cmocka_unit_test(of_steps_before_it_began_nothing_is_known),
        cmocka_unit_test(repeated_steps_are_not_missed),
        cmocka_unit_test(the_oldest_of_too_many_are_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
