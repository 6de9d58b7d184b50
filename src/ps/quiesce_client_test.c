/* quiesce_client_test.c — a worker rests while the controller repeats the pause, and never for ever. */
#include "ps/quiesce_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void it_rests_until_it_is_told_to_go_on(void **state) {
    quiesce_client quiesce = {0};
    assert_false(quiesce_client_holds(&quiesce, 3));
    assert_true(quiesce_client_take(&quiesce, 5, 0, 0));
    assert_true(quiesce_client_holds(&quiesce, 0));
    assert_true(quiesce_client_take(&quiesce, 5, 4, 1)); /* other ranks need more steps of it */
    assert_false(quiesce_client_holds(&quiesce, 3));
    assert_true(quiesce_client_holds(&quiesce, 4));
    assert_true(quiesce_client_take(&quiesce, 5, 2, 2)); /* a delayed message with a lower floor */
    assert_false(quiesce_client_holds(&quiesce, 3));
    quiesce_client_end(&quiesce, 4); /* the end of another pause */
    assert_true(quiesce_client_holds(&quiesce, 4));
    quiesce_client_end(&quiesce, 5);
    assert_false(quiesce_client_holds(&quiesce, 4));
    assert_false(quiesce_client_take(&quiesce, 5, 0, 3)); /* a pause that is over does not begin again */
    assert_false(quiesce_client_holds(&quiesce, 4));
    assert_true(quiesce_client_take(&quiesce, 6, 0, 4));
    assert_false(quiesce_client_take(&quiesce, 5, 0, 4));
    assert_true(quiesce_client_holds(&quiesce, 0)); /* a new pause begins without a floor */
}

static void a_rank_without_reminders_continues(void **state) {
    quiesce_client quiesce = {0};
    assert_true(quiesce_client_take(&quiesce, 1, 0, 0));
    quiesce_client_tick(&quiesce, QUIESCE_CLIENT_LEASE_US - 1);
    assert_true(quiesce_client_take(&quiesce, 1, 0, QUIESCE_CLIENT_LEASE_US - 1));
    quiesce_client_tick(&quiesce, 2 * QUIESCE_CLIENT_LEASE_US - 2);
    assert_true(quiesce_client_holds(&quiesce, 0));
    quiesce_client_tick(&quiesce, 2 * QUIESCE_CLIENT_LEASE_US - 1);
    assert_false(quiesce_client_holds(&quiesce, 0));
    assert_false(quiesce_client_take(&quiesce, 1, 0, 2 * QUIESCE_CLIENT_LEASE_US));
}

static void a_pause_ends_after_its_limit(void **state) {
    quiesce_client quiesce = {0};
    int64_t now_us = 0;
    for (; now_us < QUIESCE_CLIENT_MOST_US; now_us += QUIESCE_CLIENT_LEASE_US / 2) {
        assert_true(quiesce_client_take(&quiesce, 1, 0, now_us));
        quiesce_client_tick(&quiesce, now_us);
        assert_true(quiesce_client_holds(&quiesce, 0));
    }
    quiesce_client_tick(&quiesce, now_us);
    assert_false(quiesce_client_holds(&quiesce, 0));
    quiesce_client_forget(&quiesce);
    assert_true(quiesce_client_take(&quiesce, 1, 0, 0)); /* pauses of another generation count from the beginning */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_rests_until_it_is_told_to_go_on),
        cmocka_unit_test(a_rank_without_reminders_continues),
        cmocka_unit_test(a_pause_ends_after_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
