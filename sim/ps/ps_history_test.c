/* ps_history_test.c — allowed and forbidden answers to pushes and fresh pulls of a slot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/replica_log.h"
#include "sim/ps/ps_history.h"

static ps_event push_of(uint32_t rank, uint64_t step) {
    return (ps_event){.kind = REPLICA_LOG_PUSH, .rank = rank, .name = seq_of(step, 1)};
}

static void a_pull_shows_what_was_acknowledged_before_it(void **state) {
    ps_event events[] = {
        push_of(0, 1), {.kind = REPLICA_LOG_PUSH, .rank = 0, .name = seq_tick(1)}, {.kind = REPLICA_LOG_FRESH}};
    for (uint64_t lsn = 0; lsn <= 3; lsn++) {
        ps_history history = {0};
        ps_history_push(&history, 0, seq_of(1, 1), 10);
        ps_history_pushed(&history, 0, seq_of(1, 1), 20);
        size_t pull = ps_history_pull(&history, 30);
        ps_history_pulled(&history, pull, lsn, 40);
        assert_int_equal(ps_history_check(&history, events, 3, 0), lsn != 0);
        ps_history_fini(&history);
    }
}

/* The push is not acknowledged yet: one pull may show it and another not, but a later pull must show what an earlier
 * pull showed. */
static void a_later_pull_sees_what_an_earlier_pull_saw(void **state) {
    ps_event events[] = {push_of(0, 1)};
    for (int again = 0; again < 2; again++) {
        ps_history history = {0};
        ps_history_push(&history, 0, seq_of(1, 1), 10);
        size_t first = ps_history_pull(&history, 20);
        ps_history_pulled(&history, first, again == 0 ? 0 : 1, 30);
        size_t second = ps_history_pull(&history, 40);
        ps_history_pulled(&history, second, again == 0 ? 1 : 0, 50);
        assert_int_equal(ps_history_check(&history, events, 1, 0), again == 0);
        ps_history_fini(&history);
    }
}

static void pushes_that_follow_each_other_are_in_that_order(void **state) {
    ps_event right[] = {push_of(0, 1), push_of(1, 1)}, wrong[] = {push_of(1, 1), push_of(0, 1)};
    ps_history history = {0};
    ps_history_push(&history, 0, seq_of(1, 1), 10);
    ps_history_pushed(&history, 0, seq_of(1, 1), 20);
    ps_history_push(&history, 1, seq_of(1, 1), 30);
    ps_history_push(&history, 1, seq_of(1, 1), 35); /* repeated: its request was at 30 */
    ps_history_pushed(&history, 1, seq_of(1, 1), 40);
    assert_true(ps_history_check(&history, right, 2, 0));
    assert_false(ps_history_check(&history, wrong, 2, 0));
    ps_history_fini(&history);
}

/* A push without an answer may happen at any time, or never; an entry without a request is an error. */
static void a_push_without_an_answer_may_be_there_or_not(void **state) {
    ps_event events[] = {push_of(0, 1), push_of(1, 1)};
    ps_history history = {0};
    ps_history_push(&history, 0, seq_of(1, 1), 10);
    size_t pull = ps_history_pull(&history, 20);
    ps_history_pulled(&history, pull, 0, 30);
    assert_true(ps_history_check(&history, events, 0, 0));
    assert_true(ps_history_check(&history, events, 1, 0));
    assert_false(ps_history_check(&history, events, 2, 0));
    ps_history_fini(&history);
}

/* Entries of a checkpoint were requested in another generation. */
static void a_generation_begins_behind_its_origin(void **state) {
    ps_event events[] = {push_of(0, 1), push_of(0, 2)};
    ps_history history = {0};
    size_t pull = ps_history_pull(&history, 10);
    ps_history_pulled(&history, pull, 1, 20);
    ps_history_push(&history, 0, seq_of(2, 1), 30);
    assert_true(ps_history_check(&history, events, 2, 1));
    assert_false(ps_history_check(&history, events, 2, 0));
    ps_history_fini(&history);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pull_shows_what_was_acknowledged_before_it),
        cmocka_unit_test(a_later_pull_sees_what_an_earlier_pull_saw),
        cmocka_unit_test(pushes_that_follow_each_other_are_in_that_order),
        cmocka_unit_test(a_push_without_an_answer_may_be_there_or_not),
        cmocka_unit_test(a_generation_begins_behind_its_origin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
