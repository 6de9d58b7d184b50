/* consistency_test.c — admission of pulls, by the vector clock alone. */
#include "ps/consistency.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void names_grow_and_end_steps(void **state) {
    assert_true(seq_of(1, 1) < seq_of(1, 2) && seq_of(1, 2) < seq_tick(1) && seq_tick(1) < seq_of(2, 0));
    assert_int_equal(seq_ended(0), 0);
    assert_int_equal(seq_ended(seq_of(1, 1)), 0);
    assert_int_equal(seq_ended(seq_tick(1)), 1);
    assert_int_equal(seq_ended(seq_of(2, 3)), 1);
    assert_int_equal(seq_step(seq_of(7, 3)), 7);
}

static consistency_verdict judge(consistency_kind kind, uint32_t bound, consistency_pull pull) {
    const uint64_t names[] = {seq_tick(5), seq_of(4, 1), seq_tick(9)}; /* the ranks have ended steps 5, 3, 9 */
    consistency_state state = {.names = names, .rank_count = 3, .lsn = 20, .version = 6};
    bool rounds = kind == CONSISTENCY_BSP;
    if (!rounds) pull.step = consistency_needs((consistency){kind, bound}, pull.step);
    consistency_verdict verdict = consistency_judge(rounds, &state, &pull);
    assert_true(!state.counted || state.slowest == 3);
    /* the second call uses the computed `slowest` */
    assert_int_equal(consistency_judge(rounds, &state, &pull), verdict);
    return verdict;
}

static void texts(void **state) {
    static const char *const good[] = {"asp", "bsp", "ssp:0", "ssp:7", "ssp:1048576"};
    static const char *const bad[] = {
        "", "ASP", "bsp ", "ssp", "ssp:", "ssp:-1", "ssp:1x", "ssp: 1", "ssp:1048577", "ssp:99999999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        consistency consistency;
        char text[CONSISTENCY_TEXT];
        assert_true(consistency_parse(good[i], &consistency));
        consistency_write(consistency, text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        consistency consistency;
        assert_false(consistency_parse(bad[i], &consistency));
    }
}

static void a_reader_waits_for_no_rank(void **state) {
    const consistency_pull pull = {.rank = 3, .lsn = 20};
    assert_int_equal(judge(CONSISTENCY_ASP, 0, pull), CONSISTENCY_NOW);
    assert_int_equal(judge(CONSISTENCY_SSP, 0, pull), CONSISTENCY_NOW);
    assert_int_equal(judge(CONSISTENCY_ASP, 0, (consistency_pull){.rank = 3, .lsn = 21}), CONSISTENCY_WAIT);
    assert_int_equal(judge(CONSISTENCY_BSP, 0, (consistency_pull){.rank = 3, .step = CONSISTENCY_NEWEST}),
                     CONSISTENCY_NOW);
    assert_int_equal(judge(CONSISTENCY_BSP, 0, (consistency_pull){.rank = 3, .step = 5}), CONSISTENCY_KEPT);
    assert_int_equal(judge(CONSISTENCY_BSP, 0, (consistency_pull){.rank = 3, .step = 4}), CONSISTENCY_NEVER);
}

/* Pulls of the same state, each with its own bound. */
static void a_pull_says_what_it_needs(void **state) {
    assert_int_equal(consistency_needs((consistency){CONSISTENCY_ASP, 0}, 9), 0);
    assert_int_equal(consistency_needs((consistency){CONSISTENCY_SSP, 4}, 9), 5);
    assert_int_equal(consistency_needs((consistency){CONSISTENCY_SSP, 9}, 9), 0);
    assert_int_equal(consistency_needs((consistency){CONSISTENCY_SSP, 10}, 9), 0);
}

static void asynchronous_pulls_ask_for_what_is_known(void **state) {
    assert_int_equal(judge(CONSISTENCY_ASP, 0, (consistency_pull){.rank = 0, .step = 99}), CONSISTENCY_NOW);
    consistency_pull own = {.rank = 0, .name = seq_tick(5), .lsn = 20}, more = own, later = own;
    more.name = seq_of(6, 1);
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

/* Pulls do not wait for a rank that has left; its next push of any step counts it again. */
static void a_rank_that_has_left_is_not_waited_for(void **state) {
    uint64_t names[] = {seq_tick(9), seq_left(2), seq_tick(8)};
    consistency_state bound = {.names = names, .rank_count = 3};
    const consistency_pull pull = {.rank = 0, .step = 8};
    assert_true(seq_left(2) > seq_tick(2) && seq_left(2) < seq_of(3, 1) && seq_ended(seq_left(2)) == 2);
    assert_true(seq_is_left(seq_left(0)) && !seq_is_left(0) && !seq_is_left(seq_tick(2)) && !seq_is_left(seq_of(3, 1)));
    assert_int_equal(consistency_judge(false, &bound, &pull), CONSISTENCY_NOW);
    names[1] = seq_of(7, 1); /* the rank has returned behind step 6 */
    bound.counted = false;
    assert_int_equal(consistency_judge(false, &bound, &pull), CONSISTENCY_WAIT);
    const uint64_t all[] = {seq_left(3), seq_left(4)};
    assert_true(consistency_slowest(all, 2) == UINT64_MAX && consistency_slowest(names, 3) == 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_grow_and_end_steps),
        cmocka_unit_test(asynchronous_pulls_ask_for_what_is_known),
        cmocka_unit_test(bounded_pulls_wait_for_the_slowest),
        cmocka_unit_test(rounds_name_their_version),
        cmocka_unit_test(texts),
        cmocka_unit_test(a_reader_waits_for_no_rank),
        cmocka_unit_test(a_pull_says_what_it_needs),
        cmocka_unit_test(a_rank_that_has_left_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
