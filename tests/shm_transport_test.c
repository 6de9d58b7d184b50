/* shm_transport_test.c — the shared-memory transport, with a real broker: links, order, growing rings, and every way to
 * end. shm_body_test.c: bodies. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "net/shm/lane.h"
#include "tests/support/shm_pair.h"
#include "tests/support/test_child.h"

static void two_processes_find_each_other_by_name_and_by_number(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    assert_string_equal(pair->a.peer.name, "bob");
    assert_string_equal(pair->b.peer.name, "alice");
    assert_int_equal(pair->a.peer.pid, getpid());
    assert_int_equal(pair->a.peer.process, shm_transport_process(pair->b.shm_transport));
    char address[64];
    snprintf(address, sizeof address, "shm:#%llx", (unsigned long long)shm_transport_process(pair->a.shm_transport));
    assert_int_equal(pair->b.transport.ops->open(pair->b.transport.self, address, &pair->b.link), MR_OK);
    assert_true(shm_pair_until(pair, &pair->b.opened, 2));
    assert_true(shm_pair_until(pair, &pair->a.opened, 2));
    assert_int_equal(shm_end_send(&pair->b, 0, 8), MR_OK);
    assert_true(shm_pair_until(pair, &pair->a.messages, 1));
    assert_int_equal(pair->a.wrong, 0);
}

/* A process that polls until nothing arrives and then sleeps must not sleep when a link has just opened. */
static void hearing_of_a_link_is_something(void **state) {
    shm_pair *pair = *state;
    assert_int_equal(pair->a.transport.ops->open(pair->a.transport.self, "shm:bob", &pair->a.link), MR_OK);
    int64_t deadline = clock_now_us(clock_real()) + SHM_PATIENCE_US;
    while (pair->a.opened == 0 && clock_now_us(clock_real()) < deadline) {
        size_t did = shm_transport_poll(pair->a.shm_transport);
        if (pair->a.opened != 0)
            assert_true(did > 0);
        else if (did == 0)
            shm_transport_wait(pair->a.shm_transport, NULL, 1000);
    }
    assert_int_equal(pair->a.opened, 1);
}

static void bad_addresses_are_refused(void **state) {
    shm_pair *pair = *state;
    transport transport = pair->a.transport;
    link_id link;
    assert_int_equal(transport.ops->open(transport.self, "tcp:1.2.3.4:5", &link), MR_INVALID);
    assert_int_equal(transport.ops->open(transport.self, "shm:", &link), MR_INVALID);
    assert_int_equal(transport.ops->open(transport.self, "shm:#", &link), MR_INVALID);
    assert_int_equal(transport.ops->open(transport.self, "shm:#12zz", &link), MR_INVALID);
    assert_int_equal(transport.ops->open(transport.self, "shm:nobody", &link), MR_OK);
    uint8_t *at;
    assert_int_equal(transport.ops->reserve(transport.self, link, 8, &at), MR_CLOSED); /* the link is still opening */
    assert_true(shm_pair_until(pair, &pair->a.closed, 1));
    assert_int_equal(pair->a.cause.status, MR_NOT_FOUND);
    assert_true(strlen(pair->a.cause.text) > 0);
    assert_int_equal(transport.ops->reserve(transport.self, link, 8, &at), MR_CLOSED);
}

static void messages_keep_their_order_both_ways(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    pair->b.echo = true;
    for (unsigned i = 0; i < 5000; i++) {
        shm_pair_send(pair, &pair->a, i, 8 + i % 300);
        if (i % 7 == 0) assert_true(shm_pair_until(pair, &pair->a.messages, i + 1));
    }
    assert_true(shm_pair_until(pair, &pair->a.messages, 5000));
    assert_int_equal(pair->a.wrong + pair->b.wrong, 0);
}

/* ---- Runs. */

static void hold_numbers(shm_end *end, uint64_t from, uint64_t to) {
    lane *lane = end->transport.ops->lane(end->transport.self, end->link);
    for (uint64_t number = from; number < to; number++) {
        uint8_t *at = lane_reserve(lane, sizeof number);
        if (at == NULL) fail_msg("number %llu has no room", (unsigned long long)number);
        if (at != NULL) memcpy(at, &number, sizeof number);
        lane_hold(lane, sizeof number);
    }
}

static void poll_often(const shm_end *end) {
    for (int i = 0; i < 1000; i++) (void)shm_transport_poll(end->shm_transport);
}

static void a_run_is_left_alone_until_its_sender_waits(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    shm_transport_wait(pair->a.shm_transport, NULL, 0);
    hold_numbers(&pair->a, 0, LANE_ROW + 6);
    poll_often(&pair->b);
    assert_int_equal(pair->b.messages, LANE_ROW); /* the first messages of a run leave at once */
    shm_transport_wait(pair->a.shm_transport, NULL, 0);
    poll_often(&pair->b);
    assert_int_equal(pair->b.messages, LANE_ROW + 6);
    hold_numbers(&pair->a, LANE_ROW + 6, LANE_ROW + 7);
    poll_often(&pair->b);
    assert_int_equal(pair->b.messages, LANE_ROW + 7); /* after a pause, a new run */
    assert_int_equal(pair->b.wrong, 0);
}

static void another_message_ends_a_run(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    hold_numbers(&pair->a, 0, LANE_ROW + 3);
    assert_int_equal(shm_end_send(&pair->a, LANE_ROW + 3, 40), MR_OK);
    poll_often(&pair->b);
    assert_int_equal(pair->b.messages, LANE_ROW + 4);
    assert_int_equal(pair->b.wrong, 0);
}

/* The sender of the unfinished run does other work, and does not poll again. */
static void an_unfinished_run_is_read_all_the_same(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    hold_numbers(&pair->a, 0, LANE_ROW + 6);
    int64_t deadline = clock_now_us(clock_real()) + SHM_PATIENCE_US;
    while (pair->b.messages < LANE_ROW + 6 && clock_now_us(clock_real()) < deadline)
        if (shm_transport_poll(pair->b.shm_transport) == 0) shm_transport_wait(pair->b.shm_transport, NULL, 1000);
    assert_int_equal(pair->b.messages, LANE_ROW + 6);
    assert_int_equal(pair->b.wrong, 0);
}

static void closing_delivers_a_run(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    hold_numbers(&pair->a, 0, LANE_ROW + 6);
    pair->a.transport.ops->close(pair->a.transport.self, pair->a.link);
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_int_equal(pair->b.messages, LANE_ROW + 6);
    assert_int_equal(pair->b.wrong, 0);
}

static void a_full_ring_grows_and_later_shrinks(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    unsigned busy = 0;
    for (unsigned i = 0; i < 20000; i++) {
        mr_status status = shm_end_send(&pair->a, i, 200);
        if (status == MR_BUSY) {
            busy++;
            shm_pair_send(pair, &pair->a, i, 200);
        }
    }
    assert_true(busy > 0);
    assert_true(shm_pair_until(pair, &pair->b.messages, 20000));
    assert_int_equal(pair->b.wrong, 0);
    int64_t deadline = clock_now_us(clock_real()) + SHM_PATIENCE_US;
    /* the broker may take a while */
    while (shm_transport_stats_now(pair->a.shm_transport).grown == 0 && clock_now_us(clock_real()) < deadline) {
        shm_transport_poll(pair->b.shm_transport);
        if (shm_transport_poll(pair->a.shm_transport) == 0) shm_transport_wait(pair->a.shm_transport, NULL, 1000);
    }
    assert_true(shm_transport_stats_now(pair->a.shm_transport).grown > 0);
    while (shm_transport_stats_now(pair->a.shm_transport).shrunk == 0 && clock_now_us(clock_real()) < deadline) {
        shm_transport_poll(pair->b.shm_transport);
        if (shm_transport_poll(pair->a.shm_transport) == 0) shm_transport_wait(pair->a.shm_transport, NULL, 1000);
    }
    assert_true(shm_transport_stats_now(pair->a.shm_transport).shrunk > 0);
    for (unsigned i = 20000; i < 21000; i++) shm_pair_send(pair, &pair->a, i, 100);
    assert_true(shm_pair_until(pair, &pair->b.messages, 21000));
    assert_int_equal(pair->b.wrong, 0);
}

static void heads_up_to_the_limit_pass(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    static const size_t sizes[] = {8, 5000, 20000, 65536, MESSAGE_HEAD_MAX};
    for (unsigned i = 0; i < 5; i++) shm_pair_send(pair, &pair->a, i, sizes[i]);
    assert_true(shm_pair_until(pair, &pair->b.messages, 5));
    assert_int_equal(pair->b.wrong, 0);
    assert_int_equal(shm_end_send(&pair->a, 5, MESSAGE_HEAD_MAX + 1), MR_TOO_LARGE);
}

static void closing_delivers_what_was_sent_before(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    link_id old = pair->a.link;
    for (unsigned i = 0; i < 20; i++) assert_int_equal(shm_end_send(&pair->a, i, 100), MR_OK);
    pair->a.transport.ops->close(pair->a.transport.self, old);
    pair->a.transport.ops->close(pair->a.transport.self, old); /* a second close: no effect */
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_true(shm_pair_until(pair, &pair->a.closed, 1));
    assert_int_equal(pair->b.messages, 20);
    assert_int_equal(pair->b.wrong, 0);
    assert_int_equal(pair->a.cause.status, MR_CLOSED);
    assert_int_equal(pair->b.cause.status, MR_CLOSED);
    shm_pair_join(pair); /* `opened` is 1 already; the new link is detected below */
    assert_true(shm_pair_until(pair, &pair->b.opened, 2));
    assert_int_not_equal(pair->a.link.v, old.v);
    uint8_t *at;
    assert_int_equal(pair->a.transport.ops->reserve(pair->a.transport.self, old, 8, &at), MR_CLOSED);
    assert_int_equal(pair->a.closed, 1);
}

/* The messages of a dead process are read to their end. A ring without an end is read up to the maximum. */
static void a_ring_without_an_end_is_not_read_for_ever(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    uint8_t *at;
    assert_int_equal(pair->a.transport.ops->reserve(pair->a.transport.self, pair->a.link, 8, &at), MR_OK);
    uint8_t *ring = at - RING_RECORD_HEADER; /* the first record is at the ring's beginning */
    for (size_t i = 0; i < RING_BYTES_DEFAULT - RING_HEADER; i += RING_RECORD_HEADER)
        ring_store_word(ring + i, ring_word(0, 1), __ATOMIC_RELAXED);
    pair->a.transport.ops->close(pair->a.transport.self, pair->a.link);
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_int_equal(pair->b.cause.status, MR_CORRUPT);
    assert_int_equal(pair->b.cause.pid, getpid());
}

static void a_link_may_be_closed_inside_its_own_event(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    pair->b.close_on_message = true;
    for (unsigned i = 0; i < 10; i++) assert_int_equal(shm_end_send(&pair->a, i, 8), MR_OK);
    assert_true(shm_pair_until(pair, &pair->a.closed, 1));
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_int_equal(pair->b.messages, 1);
}

static void many_links_at_once(void **state) {
    shm_pair *pair = *state;
    enum { MANY = 300 };
    link_id links[MANY];
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(pair->a.transport.ops->open(pair->a.transport.self, "shm:bob", &links[i]), MR_OK);
    assert_true(shm_pair_until(pair, &pair->a.opened, MANY));
    assert_true(shm_pair_until(pair, &pair->b.opened, MANY));
    for (uint64_t i = 0; i < MANY; i++) {
        pair->a.link = links[(i * 7) % MANY];
        assert_int_equal(shm_end_send(&pair->a, i, 16), MR_OK);
        assert_true(shm_pair_until(pair, &pair->b.messages, (unsigned)i + 1));
    }
    assert_int_equal(pair->b.wrong, 0);
    for (unsigned i = 0; i < MANY; i++) pair->a.transport.ops->close(pair->a.transport.self, links[i]);
    assert_true(shm_pair_until(pair, &pair->a.closed, MANY));
    assert_true(shm_pair_until(pair, &pair->b.closed, MANY));
}

/* ---- Other processes. */

typedef struct peer_child {
    const broker_process *process;
} peer_child;

/* Joins as carol, sends five messages to bob, then kills itself. */
static int dies_after_sending(void *argument) {
    peer_child *child = argument;
    shm_end end;
    TEST_CHILD_CHECK(shm_end_open(&end, child->process, "carol") == MR_OK);
    TEST_CHILD_CHECK(end.transport.ops->open(end.transport.self, "shm:bob", &end.link) == MR_OK);
    int64_t deadline = clock_now_us(clock_real()) + SHM_PATIENCE_US;
    while (end.opened == 0 && clock_now_us(clock_real()) < deadline)
        if (shm_transport_poll(end.shm_transport) == 0) shm_transport_wait(end.shm_transport, NULL, 10000);
    TEST_CHILD_CHECK(end.opened == 1);
    for (uint64_t i = 0; i < 5; i++) TEST_CHILD_CHECK(shm_end_send(&end, i, 64) == MR_OK);
    kill(getpid(), SIGKILL);
    return 1;
}

static void a_killed_process_is_reported_with_its_cause_after_what_it_sent(void **state) {
    shm_pair *pair = *state;
    peer_child child = {.process = &pair->process};
    pid_t pid = test_child_start(dies_after_sending, &child);
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_int_equal(test_child_wait(pid, 1000), -SIGKILL);
    assert_int_equal(pair->b.messages, 5);
    assert_int_equal(pair->b.wrong, 0);
    assert_int_equal(pair->b.cause.status, MR_PEER_DIED);
    assert_int_equal(pair->b.cause.pid, pid);
    assert_true(strlen(pair->b.cause.text) > 0);
}

/* Joins as eve and sends to bob until the ring has grown; there eve is stopped: the move is published, and eve has not
 * left the old ring. When eve continues, it sends the remaining messages. */
static int stops_while_moving(void *argument) {
    peer_child *child = argument;
    shm_end end;
    TEST_CHILD_CHECK(shm_end_open(&end, child->process, "eve") == MR_OK);
    TEST_CHILD_CHECK(end.transport.ops->open(end.transport.self, "shm:bob", &end.link) == MR_OK);
    while (end.opened == 0)
        if (shm_transport_poll(end.shm_transport) == 0) shm_transport_wait(end.shm_transport, NULL, 10000);
    TEST_CHILD_CHECK(failpoint_arm("port.moved=stop") == MR_OK);
    for (uint64_t i = 0; i < 2000;) {
        if (shm_end_send(&end, i, 200) == MR_OK)
            i++;
        else if (shm_transport_poll(end.shm_transport) == 0)
            shm_transport_wait(end.shm_transport, NULL, 1000);
    }
    TEST_CHILD_CHECK(shm_transport_stats_now(end.shm_transport).grown > 0);
    shm_transport_close(end.shm_transport);
    return 0;
}

/* Regression test. A sender was preempted at that point; the broker reused the old ring's memory for another ring; the
 * sender then cleared flags of the other ring, which it took for its own, and a message was never noticed. */
static void a_ring_is_not_given_back_before_its_sender_has_left_it(void **state) {
    if (failpoint_count() == 0) skip();
    shm_pair *pair = *state;
    peer_child child = {.process = &pair->process};
    pid_t pid = test_child_start(stops_while_moving, &child);
    assert_true(shm_pair_until(pair, &pair->b.opened, 1));
    assert_true(test_child_stops(pid)); /* eve has filled its ring, which no process reads, and has a larger ring */
    int64_t deadline = clock_now_us(clock_real()) + SHM_PATIENCE_US;
    while (shm_transport_stats_now(pair->b.shm_transport).leaving == 0 && clock_now_us(clock_real()) < deadline)
        if (shm_transport_poll(pair->b.shm_transport) == 0) shm_transport_wait(pair->b.shm_transport, NULL, 10000);
    assert_int_equal(shm_transport_stats_now(pair->b.shm_transport).leaving, 1);
    for (int i = 0; i < 20; i++) { /* only a further message of eve ends this state */
        shm_transport_poll(pair->b.shm_transport);
        shm_transport_wait(pair->b.shm_transport, NULL, 1000);
    }
    assert_int_equal(shm_transport_stats_now(pair->b.shm_transport).leaving, 1);
    kill(pid, SIGCONT);
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_int_equal(pair->b.messages, 2000);
    assert_int_equal(pair->b.wrong, 0);
    assert_int_equal(test_child_wait(pid, 5000), 0);
}

static void the_broker_s_death_ends_every_link(void **state) {
    shm_pair *pair = *state;
    shm_pair_join(pair);
    kill(pair->process.pid, SIGKILL);
    assert_true(shm_pair_until(pair, &pair->a.closed, 1));
    assert_true(shm_pair_until(pair, &pair->b.closed, 1));
    assert_int_equal(pair->a.cause.status, MR_PEER_DIED);
    link_id link;
    assert_int_equal(pair->a.transport.ops->open(pair->a.transport.self, "shm:bob", &link), MR_CLOSED);
}

static int tear_down_killed(void **state) {
    shm_pair *pair = *state;
    shm_transport_close(pair->a.shm_transport);
    shm_transport_close(pair->b.shm_transport);
    int code = broker_process_stop(&pair->process);
    free(pair);
    return code == -SIGKILL ? 0 : 1;
}

/* Echoes messages in an event loop until its first link is closed. */
static int echoes_in_a_loop(void *argument) {
    peer_child *child = argument;
    shm_end end;
    event_loop *loop;
    TEST_CHILD_CHECK(event_loop_create(&loop) == MR_OK);
    TEST_CHILD_CHECK(shm_end_open(&end, child->process, "dora") == MR_OK);
    end.echo = true;
    TEST_CHILD_CHECK(shm_transport_attach(end.shm_transport, loop) == MR_OK);
    while (end.closed == 0) event_loop_run_once(loop, 1000 * 1000);
    TEST_CHILD_CHECK(end.wrong == 0 && end.messages == 2000);
    shm_transport_close(end.shm_transport);
    event_loop_destroy(loop);
    return 0;
}

static void a_process_that_sleeps_in_its_loop_answers(void **state) {
    shm_pair *pair = *state;
    peer_child child = {.process = &pair->process};
    pid_t pid = test_child_start(echoes_in_a_loop, &child);
    for (int tries = 0; pair->a.opened == 0 && tries < 1000; tries++) { /* until the child has joined */
        assert_int_equal(pair->a.transport.ops->open(pair->a.transport.self, "shm:dora", &pair->a.link), MR_OK);
        unsigned closed = pair->a.closed;
        while (pair->a.opened == 0 && pair->a.closed == closed)
            if (shm_transport_poll(pair->a.shm_transport) == 0) shm_transport_wait(pair->a.shm_transport, NULL, 10000);
        if (pair->a.opened == 0) usleep(1000);
    }
    assert_int_equal(pair->a.opened, 1);
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_equal(shm_end_send(&pair->a, i, 32), MR_OK);
        int64_t deadline = clock_now_us(clock_real()) + SHM_PATIENCE_US;
        while (pair->a.messages <= i && clock_now_us(clock_real()) < deadline)
            if (shm_transport_poll(pair->a.shm_transport) == 0) shm_transport_wait(pair->a.shm_transport, NULL, 10000);
        assert_int_equal(pair->a.messages, i + 1);
    }
    pair->a.transport.ops->close(pair->a.transport.self, pair->a.link);
    assert_int_equal(pair->a.wrong, 0);
    while (shm_transport_poll(pair->a.shm_transport) != 0) {}
    assert_int_equal(test_child_wait(pid, 5000), 0);
}

static void no_broker_is_a_clear_error(void **state) {
    shm_transport *transport;
    shm_transport_options options = {.broker = "/no-such-hub", .join_timeout_us = 100 * 1000};
    assert_int_not_equal(shm_transport_open(&options, &(transport_events){0}, NULL, &transport), MR_OK);
    assert_non_null(strstr(mr_last_error(), "no-such-hub"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_broker_is_a_clear_error),
        cmocka_unit_test_setup_teardown(two_processes_find_each_other_by_name_and_by_number, shm_pair_set_up,
                                        shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(hearing_of_a_link_is_something, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(bad_addresses_are_refused, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(messages_keep_their_order_both_ways, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(a_run_is_left_alone_until_its_sender_waits, shm_pair_set_up,
                                        shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(another_message_ends_a_run, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(an_unfinished_run_is_read_all_the_same, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(closing_delivers_a_run, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(a_full_ring_grows_and_later_shrinks, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(heads_up_to_the_limit_pass, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(closing_delivers_what_was_sent_before, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(a_ring_without_an_end_is_not_read_for_ever, shm_pair_set_up,
                                        shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(a_link_may_be_closed_inside_its_own_event, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(many_links_at_once, shm_pair_set_up, shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(a_killed_process_is_reported_with_its_cause_after_what_it_sent, shm_pair_set_up,
                                        shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(a_ring_is_not_given_back_before_its_sender_has_left_it, shm_pair_set_up,
                                        shm_pair_tear_down),
        cmocka_unit_test_setup_teardown(the_broker_s_death_ends_every_link, shm_pair_set_up, tear_down_killed),
        cmocka_unit_test_setup_teardown(a_process_that_sleeps_in_its_loop_answers, shm_pair_set_up, shm_pair_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
