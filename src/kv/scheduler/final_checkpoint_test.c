/* final_checkpoint_test.c — when a scheduler that is stopped waits for its last checkpoint no longer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kv/scheduler/final_checkpoint.h"

enum { PATIENCE = 1000000, TOKEN = 7 };

static final_checkpoint begun(void) {
    final_checkpoint final = {0};
    const final_checkpoint_facts facts = {.served = true};
    assert_false(final_checkpoint_tick(&final, &facts, 5)); /* none */
    final_checkpoint_begin(&final, TOKEN, PATIENCE, 100);
    assert_true(final.phase == FINAL_CHECKPOINT_WAITING && final.token == TOKEN && final.next_us == 100);
    return final;
}

static void it_ends_when_the_checkpoint_is_complete(void **state) {
    final_checkpoint final = begun();
    final_checkpoint_facts facts = {.served = true};
    assert_false(final_checkpoint_tick(&final, &facts, 200));
    assert_int_equal(final.next_us, 200 + FINAL_CHECKPOINT_TICK_US);
    facts.number = 12;
    assert_true(final_checkpoint_tick(&final, &facts, 300));
    assert_true(final.phase == FINAL_CHECKPOINT_COMPLETE && final.number == 12);
    assert_false(final_checkpoint_tick(&final, &facts, 400)); /* once */
}

/* A large model takes long: every saved slot prolongs the wait, up to a limit. */
static void it_waits_while_slots_are_saved(void **state) {
    final_checkpoint final = begun();
    int64_t now_us = 100;
    for (uint64_t i = 1; i < 20; i++) {
        const final_checkpoint_facts facts = {.making = 5, .saved = i, .served = true};
        now_us += PATIENCE - 1;
        assert_false(final_checkpoint_tick(&final, &facts, now_us));
    }
    const final_checkpoint_facts last = {.making = 5, .saved = 19, .served = true};
    assert_false(final_checkpoint_tick(&final, &last, now_us + PATIENCE - 1));
    assert_true(final_checkpoint_tick(&final, &last, now_us + PATIENCE));
    assert_int_equal(final.phase, FINAL_CHECKPOINT_LATE);
    final = begun();
    const final_checkpoint_facts more = {.making = 6, .served = true};
    assert_true(final_checkpoint_tick(&final, &more, 100 + FINAL_CHECKPOINT_MAX_US));
    assert_int_equal(final.phase, FINAL_CHECKPOINT_LATE);
}

static void it_does_not_wait_for_servers_that_are_gone(void **state) {
    final_checkpoint final = begun();
    final.patience_us = FINAL_CHECKPOINT_MAX_US;
    const final_checkpoint_facts served = {.served = true}, gone = {.served = false};
    assert_false(final_checkpoint_tick(&final, &gone, 200));
    assert_false(final_checkpoint_tick(&final, &served, 300)); /* it was only slow */
    assert_false(final_checkpoint_tick(&final, &gone, 299 + FINAL_CHECKPOINT_GONE_US));
    assert_true(final_checkpoint_tick(&final, &gone, 300 + FINAL_CHECKPOINT_GONE_US));
    assert_int_equal(final.phase, FINAL_CHECKPOINT_GONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_ends_when_the_checkpoint_is_complete),
        cmocka_unit_test(it_waits_while_slots_are_saved),
        cmocka_unit_test(it_does_not_wait_for_servers_that_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
