/* kv_session_test.c — legal and illegal transitions of a session, and its invariants. */
#include "kv/client/kv_session.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/test_child.h"

/* A session in its fifth step of the term, IDLE. */
static kv_session session_idle(bool joins) {
    kv_session session = {.joins = joins};
    kv_session_move(&session, KV_SESSION_WAITING);
    kv_session_move(&session, KV_SESSION_SYNCING);
    kv_session_synced(&session, 4, 6, 4);
    kv_session_check(&session);
    return session;
}

typedef struct change { /* a call that may fail an assertion */
    void (*run)(struct change *change);
    kv_session session;
    int to;
} change;

static void move(change *change) { kv_session_move(&change->session, (kv_session_state)change->to); }
static void order(change *change) { kv_session_set_order(&change->session, (kv_session_order)change->to); }
static void check(change *change) { kv_session_check(&change->session); }

static int run_change(void *argument) {
    change *change = argument;
    if (freopen("/dev/null", "w", stderr) == NULL) return 2; /* the assertion's message is expected */
    change->run(change);
    return 0;
}

static bool fails(change change) {
    int status = test_child_run(run_change, &change, 60000);
    assert_true(status == 0 || status == -SIGABRT);
    return status != 0;
}

static void a_session_takes_the_arrows_of_the_diagram_and_no_others(void **state) {
    enum { REG, WAIT, REPL, SYNC, IDLE, OPEN, ROUND };
    static const char *const arrows[KV_SESSION_STATES] = {
        [REG] = ".W.....",  [WAIT] = "...S...", [REPL] = "...S...",  [SYNC] = ".WRSI..",
        [IDLE] = ".WRS.OR", [OPEN] = ".WRSI..", [ROUND] = ".WRSI..",
    };
    for (int from = 0; from < KV_SESSION_STATES; from++)
        for (int to = 0; to < KV_SESSION_STATES; to++) {
            change change = {.run = move, .session.state = (kv_session_state)from, .to = to};
            assert_int_equal(fails(change), arrows[from][to] == '.');
        }
}

static void orders_take_the_arrows_of_the_diagram_and_no_others(void **state) {
    enum { NONE, LEAVING, LEFT, KEPT, JOINING, LOST };
    static const char *const arrows[KV_SESSION_ORDERS] = {
        [NONE] = ".l..j.", [LEAVING] = "..LKjx", [LEFT] = "nl....",
        [KEPT] = "nl..j.", [JOINING] = "nl....", [LOST] = "nl..j.",
    };
    for (int from = 0; from < KV_SESSION_ORDERS; from++)
        for (int to = 0; to < KV_SESSION_ORDERS; to++) {
            change change = {.run = order, .session.order = (kv_session_order)from, .to = to};
            assert_int_equal(fails(change), arrows[from][to] == '.');
        }
}

static void a_synced_session_begins_where_the_last_slot_is(void **state) {
    kv_session session = session_idle(true);
    assert_true(kv_session_is_ready(&session) && !kv_session_is_open(&session));
    assert_int_equal(session.step, 4);
    assert_int_equal(session.first, 4);
    assert_int_equal(session.begun_before, 8);
}

static void a_round_that_ends_is_followed_by_the_next_one(void **state) {
    kv_session session = session_idle(true);
    session.wanted = session.jumped = true;
    kv_session_ask(&session);
    assert_int_equal(session.query, KV_SESSION_QUERY_NEXT);
    kv_session_check(&session);
    kv_session_open_step(&session, KV_SESSION_ROUND);
    kv_session_check(&session);
    assert_true(kv_session_is_open(&session) && !session.wanted && session.query == KV_SESSION_QUERY_NONE);
    kv_session_end_step(&session);
    kv_session_check(&session);
    assert_int_equal(session.state, KV_SESSION_IDLE);
    assert_int_equal(session.step, 5);
    assert_int_equal(session.round, 5);
    assert_false(session.jumped);
}

static void a_step_outside_the_rounds_leaves_a_round_owed(void **state) {
    kv_session session = session_idle(false);
    session.wanted = session.jumped = true;
    kv_session_open_step(&session, KV_SESSION_OPEN);
    kv_session_end_step(&session);
    assert_int_equal(session.step, 5);
    assert_int_equal(session.round, 4);
    assert_true(session.jumped);
    kv_session_ask(&session);
    assert_int_equal(session.query, KV_SESSION_QUERY_OWED);
    kv_session_check(&session);
}

static void a_step_that_is_closed_is_not_counted(void **state) {
    kv_session session = session_idle(true);
    kv_session_close_step(&session); /* none is open */
    kv_session_open_step(&session, KV_SESSION_ROUND);
    kv_session_close_step(&session);
    kv_session_check(&session);
    assert_int_equal(session.state, KV_SESSION_IDLE);
    assert_int_equal(session.step, 4);
}

static void an_interrupt_ends_queries_and_orders_but_not_the_wish(void **state) {
    static const kv_session_state interrupts[] = {KV_SESSION_SYNCING, KV_SESSION_WAITING, KV_SESSION_REPLACED};
    for (size_t i = 0; i < sizeof interrupts / sizeof *interrupts; i++) {
        kv_session session = session_idle(true);
        session.wanted = true;
        kv_session_set_order(&session, KV_SESSION_ORDER_LEAVING);
        kv_session_ask(&session);
        kv_session_interrupt(&session, interrupts[i]);
        kv_session_check(&session);
        assert_int_equal(session.state, interrupts[i]);
        assert_int_equal(session.query, KV_SESSION_QUERY_NONE);
        assert_int_equal(session.order, KV_SESSION_ORDER_LOST);
        assert_true(session.wanted);
    }
    kv_session session = session_idle(true);
    kv_session_set_order(&session, KV_SESSION_ORDER_JOINING);
    kv_session_interrupt(&session, KV_SESSION_SYNCING);
    assert_int_equal(session.order, KV_SESSION_ORDER_NONE);
    kv_session_interrupt(&session, KV_SESSION_SYNCING); /* a second generation before the slots have answered */
}

/* Each entry breaks one invariant of a legal session. */
static void every_invariant_is_asserted(void **state) {
    kv_session broken[10], idle = session_idle(true), open = idle;
    kv_session_open_step(&open, KV_SESSION_ROUND);
    for (size_t i = 0; i < 10; i++) broken[i] = i % 2 == 0 ? idle : open;
    broken[1].wanted = true;                                                             /* 1 */
    broken[3].query = KV_SESSION_QUERY_OWED, broken[3].joins = true, broken[3].step++;   /* 2, 4 */
    broken[0].query = KV_SESSION_QUERY_OWED;                                             /* 3 */
    broken[2].query = KV_SESSION_QUERY_NEXT, broken[2].round++;                          /* 3 */
    broken[5].joins = false;                                                             /* 4 */
    broken[7].round++;                                                                   /* 4 */
    broken[4].order = KV_SESSION_ORDER_JOINING, broken[4].query = KV_SESSION_QUERY_NEXT; /* 5 */
    broken[9].order = KV_SESSION_ORDER_JOINING;                                          /* 5 */
    broken[6].state = KV_SESSION_SYNCING, broken[6].order = KV_SESSION_ORDER_LEFT;       /* 6 */
    broken[8].step = broken[8].first - 1;                                                /* 7 */
    assert_false(fails((change){check, idle, 0}) || fails((change){check, open, 0}));
    for (size_t i = 0; i < 10; i++) assert_true(fails((change){check, broken[i], 0}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_takes_the_arrows_of_the_diagram_and_no_others),
        cmocka_unit_test(orders_take_the_arrows_of_the_diagram_and_no_others),
        cmocka_unit_test(a_synced_session_begins_where_the_last_slot_is),
        cmocka_unit_test(a_round_that_ends_is_followed_by_the_next_one),
        cmocka_unit_test(a_step_outside_the_rounds_leaves_a_round_owed),
        cmocka_unit_test(a_step_that_is_closed_is_not_counted),
        cmocka_unit_test(an_interrupt_ends_queries_and_orders_but_not_the_wish),
        cmocka_unit_test(every_invariant_is_asserted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
