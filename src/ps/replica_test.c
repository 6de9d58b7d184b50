/* replica_test.c — a chain driven by hand: logging, commits, acknowledgements and joins, message by message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/replica_fixture.h"

static void a_push_is_acknowledged_when_all_have_it(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 3);
    replica_fixture_push(world, 0, 0, 5, 0);
    replica_fixture_settle(world, 2); /* messages to the tail are lost */
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 5), 0);
    assert_true(replica_fixture_look(world, 0).logged == 1 && replica_fixture_look(world, 1).logged == 1 &&
                replica_fixture_look(world, 0).applied == 0);
    replica_fixture_push(world, 0, 0, 5, 0); /* a repetition: in the log, not acknowledged */
    replica_fixture_settle(world, 2);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 5), 0);
    replica_tick(world->site[1].replica, 0); /* asks for the level again */
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 5), 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(replica_fixture_look(world, i).applied == 1 && replica_fixture_look(world, i).logged == 1);
    replica_fixture_push(world, 0, 0, 5, 0); /* a repetition: applied, acknowledged, once in the state */
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 5), 2);
    assert_int_equal(replica_fixture_look(world, 0).applied, 1);
}

static void names_follow_each_other(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 1);
    replica_fixture_push(world, 0, 0, 7, 6);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_RESEND, 7), 1);
    replica_fixture_push(world, 0, 0, 6, 0);
    replica_fixture_push(world, 0, 0, 7, 6);
    replica_fixture_push(world, 0, 1, 6, 0); /* ranks are independent */
    assert_int_equal(replica_fixture_look(world, 0).applied, 3);
    assert_true(replica_name(world->site[0].replica, 0) == 7 && replica_name(world->site[0].replica, 1) == 6);
    replica_fixture_push(world, 1, 0, 8, 7); /* a server outside this chain */
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_WRONG, 8), 1);
}

static void pushes_in_other_batches_are_applied_once(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 1);
    replica_fixture_push(world, 0, 0, 2, 0); /* items 1 and 2 in one payload */
    replica_fixture_push(world, 0, 0, 5, 2); /* items 3 to 5 */
    assert_int_equal(replica_fixture_look(world, 0).applied, 2);
    /* another process repeats them as 1, then 2 to 4, then 5; all are applied already */
    replica_fixture_push(world, 0, 0, 1, 5);
    replica_fixture_push(world, 0, 0, 4, 5);
    replica_fixture_push(world, 0, 0, 5, 5);
    assert_true(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 1) == 1 &&
                replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 4) == 1);
    assert_int_equal(replica_fixture_look(world, 0).applied, 2);
    replica_fixture_push(world, 0, 0, 9, 5); /* the first push after the clock */
    assert_int_equal(replica_fixture_look(world, 0).applied, 3);
    assert_int_equal(replica_name(world->site[0].replica, 0), 9);
}

static void a_term_begins_when_the_one_before_has_nothing_under_way(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 2);
    replica_fixture_push(world, 0, 0, 5, 0);
    /* another process holds the rank */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_HELLO, .commit = 9});
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_CLOCK, SLOT_MESSAGE_LATER, 0), 1);
    replica_fixture_settle(world, -1);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_HELLO, .commit = 9});
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_CLOCK, SLOT_MESSAGE_OK, 5), 1);
    assert_int_equal(world->queue[world->count - 1].message.commit, 9); /* the answer has the term of the HELLO */
}

static void a_new_head_takes_the_longest_log(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 3);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_settle(world, 2); /* servers 0 and 1 have the entry, 2 does not */
    replica_fixture_chain(world, 0, (uint32_t[]){2, 1}, 2);
    replica_fixture_enter(world, 2);
    assert_int_equal(replica_fixture_look(world, 2).phase, REPLICA_ENTERING);
    replica_fixture_settle(world, -1); /* server 1 has not entered: the messages of 2 are of a newer epoch */
    assert_int_equal(replica_fixture_look(world, 2).phase, REPLICA_ENTERING);
    replica_fixture_push(world, 2, 0, 2, 1);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_WRONG, 2), 1);
    replica_fixture_enter(world, 1);
    replica_tick(world->site[2].replica, 0);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_look(world, 2).phase, REPLICA_SERVING);
    assert_true(replica_fixture_look(world, 2).applied == 1 && replica_fixture_look(world, 1).applied == 1);
    replica_fixture_push(world, 0, 0, 2, 1); /* the deposed head logs, and commits nothing */
    replica_fixture_enter(world, 0);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 2), 0);
    assert_int_equal(replica_fixture_look(world, 0).phase, REPLICA_OUT);
}

static void a_joiner_is_filled_gated_and_full(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 2);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_push(world, 0, 0, 2, 1);
    replica_fixture_settle(world, -1);
    slot_message join = {.kind = SLOT_MESSAGE_JOIN, .epoch = world->number, .name = 3, .prev = 13};
    replica_take(world->site[0].replica, 100, &join, NULL); /* not the tail */
    assert_false(replica_fixture_look(world, 0).joins);
    replica_take(world->site[1].replica, 100, &join, NULL);
    replica_fixture_settle(world, -1);
    assert_true(replica_fixture_look(world, 1).gated && replica_fixture_look(world, 1).ready &&
                replica_fixture_look(world, 3).phase == REPLICA_JOINING);
    replica_fixture_push(world, 0, 0, 3, 2);
    replica_fixture_settle(world, 3); /* gated: an entry that the joiner lacks is not committed */
    assert_true(replica_fixture_look(world, 1).level == 3 && replica_fixture_look(world, 1).applied == 2);
    replica_tick(world->site[1].replica, 0);
    replica_fixture_settle(world, -1);
    assert_true(replica_fixture_look(world, 1).applied == 3 && replica_fixture_look(world, 3).logged == 3);
    replica_fixture_chain(world, 0, (uint32_t[]){3, 0}, 2); /* the joiner becomes the head; the former tail leaves */
    replica_fixture_enter_all(world);
    replica_fixture_settle(world, -1);
    replica_tick(world->site[3].replica, 0);
    replica_fixture_settle(world, -1);
    assert_true(replica_fixture_look(world, 3).phase == REPLICA_SERVING && replica_fixture_look(world, 3).applied == 3);
    assert_int_equal(replica_fixture_look(world, 1).phase, REPLICA_OUT);
    assert_int_equal(replica_name(world->site[3].replica, 0), 3);
}

/* Delivers messages to this server only, from `*next` on. */
static void deliver_to(replica_fixture *world, uint32_t server, size_t *next) {
    for (; *next < world->count; ++*next) {
        envelope envelope = world->queue[*next];
        if (envelope.to == server)
            replica_take(world->site[server].replica, envelope.from, &envelope.message, envelope.bytes);
    }
}

/* A joiner that is behind by more than REPLICA_GATE_SLACK entries at each report is gated in the end. */
static void a_joiner_that_is_always_behind_is_waited_for_in_the_end(void **state) {
    enum { TURNS = 5, MORE = REPLICA_GATE_SLACK + 2 };
    replica_fixture *world = *state;
    replica_fixture_start(world, 1);
    slot_message join = {.kind = SLOT_MESSAGE_JOIN, .epoch = world->number, .name = 3, .prev = 13};
    replica_take(world->site[0].replica, 100, &join, NULL);
    size_t to_tail = world->count, to_joiner = 0;
    uint64_t name = 0;
    for (int turn = 0; turn < TURNS && !replica_fixture_look(world, 0).gated; turn++) {
        deliver_to(world, 3, &to_joiner);
        for (int i = 0; i < MORE; i++, name++) replica_fixture_push(world, 0, 0, name + 1, name);
        assert_int_equal(replica_fixture_look(world, 0).applied, name);
        deliver_to(world, 0, &to_tail);
        replica_tick(world->site[0].replica, 0);
    }
    assert_true(replica_fixture_look(world, 0).gated);
    deliver_to(world, 3, &to_joiner);
    deliver_to(world, 0, &to_tail);
    assert_true(replica_fixture_look(world, 0).ready);
}

static size_t states_sent(const replica_fixture *world) {
    size_t count = 0;
    for (size_t i = 0; i < world->count; i++) count += world->queue[i].message.kind == SLOT_MESSAGE_STATE;
    return count;
}

/* A state is large and may be in flight for long: it is sent again only after the joiner reports that it has none. */
static void a_state_is_sent_again_when_it_was_lost(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 1);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_settle(world, -1);
    slot_message join = {.kind = SLOT_MESSAGE_JOIN, .epoch = world->number, .name = 3, .prev = 13};
    replica_take(world->site[0].replica, 100, &join, NULL);
    for (int i = 0; i < 5; i++) replica_tick(world->site[0].replica, 0);
    assert_int_equal(states_sent(world), 1);
    replica_fixture_settle(world, 3); /* all messages to the joiner are lost */
    assert_int_equal(replica_fixture_look(world, 3).phase, REPLICA_OUT);
    replica_tick(world->site[0].replica, 0);
    replica_fixture_settle(world, -1); /* the joiner reports GONE */
    assert_int_equal(states_sent(world), 1);
    replica_tick(world->site[0].replica, 0);
    assert_int_equal(states_sent(world), 2);
    replica_fixture_settle(world, -1);
    assert_true(replica_fixture_look(world, 0).gated && replica_fixture_look(world, 3).phase == REPLICA_JOINING);
    /* a delayed report */
    slot_message late = {.kind = SLOT_MESSAGE_LEVEL, .status = SLOT_MESSAGE_GONE, .epoch = world->number};
    replica_take(world->site[0].replica, 3, &late, NULL);
    replica_tick(world->site[0].replica, 0);
    replica_fixture_settle(world, -1);
    assert_true(states_sent(world) == 2 && replica_fixture_look(world, 0).gated);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SITES(a_push_is_acknowledged_when_all_have_it),
        ON_SITES(names_follow_each_other),
        ON_SITES(pushes_in_other_batches_are_applied_once),
        ON_SITES(a_term_begins_when_the_one_before_has_nothing_under_way),
        ON_SITES(a_new_head_takes_the_longest_log),
        ON_SITES(a_joiner_is_filled_gated_and_full),
        ON_SITES(a_joiner_that_is_always_behind_is_waited_for_in_the_end),
        ON_SITES(a_state_is_sent_again_when_it_was_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
