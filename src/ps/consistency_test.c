/* consistency_test.c — which pull may be answered, by the clock alone. */
#include "ps/consistency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void names_grow_and_end_steps(void **state) {
    assert_true(name_of(1, 1) < name_of(1, 2) && name_of(1, 2) < name_tick(1) && name_tick(1) < name_of(2, 0));
    assert_int_equal(name_ended(0), 0);
    assert_int_equal(name_ended(name_of(1, 1)), 0);
    assert_int_equal(name_ended(name_tick(1)), 1);
    assert_int_equal(name_ended(name_of(2, 3)), 1);
    assert_int_equal(name_step(name_of(7, 3)), 7);
}

static consistency_verdict judge(consistency_kind kind, uint32_t bound, consistency_pull pull) {
    const uint64_t names[] = {name_tick(5), name_of(4, 1), name_tick(9)}; /* ended 5, 3, 9 */
    consistency_state state = {
        .names = names, .rank_count = 3, .lsn = 20, .version = 6, .slowest = consistency_slowest(names, 3)};
    return consistency_judge((consistency){kind, bound}, &state, &pull);
}

static void asynchronous_pulls_ask_for_what_is_known(void **state) {
    assert_int_equal(judge(CONSISTENCY_ASP, 0, (consistency_pull){.rank = 0, .step = 99}), CONSISTENCY_NOW);
    consistency_pull own = {.rank = 0, .name = name_tick(5), .lsn = 20}, more = own, later = own;
    more.name = name_of(6, 1);
    later.lsn = 21;
    assert_int_equal(judge(CONSISTENCY_ASP, 0, own), CONSISTENCY_NOW);
    assert_int_equal(judge(CONSISTENCY_ASP, 0, more), CONSISTENCY_WAIT);
    assert_int_equal(judge(CONSISTENCY_ASP, 0, later), CONSISTENCY_WAIT);
}

static void bounded_pulls_wait_for_the_slowest(void **state) {
    assert_int_equal(judge(CONSISTENCY_SSP, 2, (consistency_pull){.rank = 2, .step = 5}), CONSISTENCY_NOW);
    assert_int_equal(judge(CONSISTENCY_SSP, 2, (consistency_pull){.rank = 2, .step = 6}), CONSISTENCY_WAIT);
    assert_int_equal(judge(CONSISTENCY_SSP, 0, (consistency_pull){.rank = 2, .step = 3}), CONSISTENCY_NOW);
    assert_int_equal(judge(CONSISTENCY_SSP, 9, (consistency_pull){.rank = 2, .step = 0}), CONSISTENCY_NOW);
    assert_int_equal(judge(CONSISTENCY_SSP, 9, (consistency_pull){.rank = 2, .lsn = 21}), CONSISTENCY_WAIT);
}

static void rounds_name_their_version(void **state) {
    assert_int_equal(judge(CONSISTENCY_BSP, 0, (consistency_pull){.step = 6}), CONSISTENCY_NOW);
    assert_int_equal(judge(CONSISTENCY_BSP, 0, (consistency_pull){.step = 5}), CONSISTENCY_KEPT);
    assert_int_equal(judge(CONSISTENCY_BSP, 0, (consistency_pull){.step = 7}), CONSISTENCY_WAIT);
    assert_int_equal(judge(CONSISTENCY_BSP, 0, (consistency_pull){.step = 4}), CONSISTENCY_NEVER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_grow_and_end_steps),
        cmocka_unit_test(asynchronous_pulls_ask_for_what_is_known),
        cmocka_unit_test(bounded_pulls_wait_for_the_slowest),
        cmocka_unit_test(rounds_name_their_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
