/* replica_round_test.c — rounds of BSP driven by hand: which ranks count, in which order, and the terms of the round
 * state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/replica_fixture.h"

/* Status of the last answer to the round state's head; 99: none. */
static int answered(const replica_fixture *world) {
    int status = 99;
    for (size_t i = 0; i < world->count; i++)
        if (world->queue[i].to == 201 && world->queue[i].message.kind == SLOT_MESSAGE_FROZEN)
            status = world->queue[i].message.status;
    return status;
}

static void a_round_closes_with_its_members(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start_rounds(world, 2, false); /* rank 1 is the only member */
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_look(world, 0).version, 0);
    replica_fixture_push(world, 0, 1, 1, 0);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_look(world, 1).version, 1);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_MISSED, 1), 1);
    assert_int_equal(replica_fixture_told(world, 1, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 1), 1);
    replica_fixture_push(world, 0, 0, 1, 0); /* a late repetition */
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_MISSED, 1), 2);
}

static void a_frozen_rank_does_not_count_before_the_round_state_says_so(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start_rounds(world, 3, false);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_say(world, SLOT_MESSAGE_FREEZE, 0, 0, 0);
    assert_true(answered(world) == SLOT_MESSAGE_OK && replica_fixture_look(world, 0).open == 0);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_push(world, 0, 1, 1, 0);
    replica_fixture_settle(world, -1);
    assert_true(replica_fixture_look(world, 0).version == 0 && replica_fixture_look(world, 0).open == 1);
    replica_fixture_chain(world, 0, (uint32_t[]){1, 0}, 2); /* the freeze is part of the new head's state */
    replica_fixture_enter_all(world);
    replica_fixture_settle(world, -1);
    replica_fixture_push(world, 1, 0, 1, 0);
    replica_fixture_push(world, 1, 1, 1, 0);
    replica_fixture_settle(world, -1);
    assert_true(replica_fixture_look(world, 1).version == 0 && replica_fixture_look(world, 1).open == 1);
    replica_fixture_chain(world, 0, (uint32_t[]){0, 1}, 2);
    replica_fixture_enter_all(world);
    replica_fixture_settle(world, -1);
    replica_fixture_push(world, 0, 1, 1, 0);
    replica_fixture_say(world, SLOT_MESSAGE_TERMS, 0, 0, 2); /* VOID: rank 1 alone */
    assert_true(replica_fixture_look(world, 0).version == 1 && replica_fixture_look(world, 1).version == 1);
    replica_fixture_say(world, SLOT_MESSAGE_FREEZE, 1, 0, 0);
    assert_int_equal(answered(world), SLOT_MESSAGE_GONE); /* the round is closed */
    replica_fixture_say(world, SLOT_MESSAGE_FREEZE, 1, 1, 0);
    replica_fixture_say(world, SLOT_MESSAGE_TERMS, 0, 1, 3); /* REDO: rank 0 counts */
    replica_fixture_push(world, 0, 0, 2, 1);
    replica_fixture_push(world, 0, 1, 2, 1);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_look(world, 1).version, 2);
}

static void a_round_that_waits_is_closed_by_the_round_state(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start_rounds(world, 3, true);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_push(world, 0, 1, 1, 0);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_TAKEN, 1), 1);
    assert_int_equal(replica_fixture_look(world, 0).version, 0);
    replica_fixture_say(world, SLOT_MESSAGE_TERMS, 0, 1, 1); /* a round that is not open here */
    assert_int_equal(replica_fixture_look(world, 0).version, 0);
    replica_fixture_say(world, SLOT_MESSAGE_TERMS, 0, 0, 1);
    assert_int_equal(replica_fixture_look(world, 0).version, 1);
    assert_true(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 1) == 1 &&
                replica_fixture_told(world, 1, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_MISSED, 1) == 1);
}

static void rounds_are_summed_in_rank_order_and_versions_kept(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start_rounds(world, 3, false);
    replica_fixture_push(world, 0, 1, 1, 0);
    replica_fixture_push(world, 0, 1, 1, 0); /* a repetition counts once */
    assert_int_equal(replica_fixture_look(world, 0).open, 1);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_settle(world, -1);
    assert_true(replica_fixture_look(world, 0).version == 1 && replica_fixture_look(world, 1).version == 1 &&
                replica_fixture_look(world, 0).open == 0);
    assert_true(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 1) == 1 &&
                replica_fixture_told(world, 1, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 1) == 1);
    buffer values;
    buffer_init(&values, 100);
    replica_write_values(world->site[1].replica, &values);
    double first;
    memcpy(&first, values.data, sizeof first);
    assert_true(first == 1 * 0.9 + (1.0 + 2.0));
    buffer_fini(&values);
    for (uint64_t version = 0; version <= 2; version++)
        replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .name = version});
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0), 1);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 1), 1);
    /* waits for the round */
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 2), 0);
    replica_fixture_ask(
        world, 0,
        /* answered from version 0 */
        (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = 1, .commit = 60, .payload = span_of("\2", 1)});
    const slot_message *kept = &world->queue[world->count - 1].message;
    double third;
    assert_true(kept->name == 0 && kept->payload.size == sizeof third);
    memcpy(&third, kept->payload.data, sizeof third);
    assert_true(third == 1);
    replica_fixture_push(world, 0, 0, 2, 1);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = 1, .name = 2});
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PUSH, .rank = 1, .name = 2});
    replica_fixture_settle(world, -1);
    assert_true(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 2) == 1 &&
                replica_fixture_told(world, 1, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 2) == 1);
}

static void a_contribution_that_is_repeated_with_other_bytes_is_told(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start_rounds(world, 3, false);
    replica_fixture_push(world, 0, 0, 1, 0); /* added to the sum at once */
    replica_fixture_push(world, 0, 0, 1, 0);
    assert_int_equal(replica_fixture_look(world, 0).dispute.count, 0);
    double other[FLOAT_MACHINE_WIDTH] = {9, 9, 9};
    shared_bytes *bytes = shared_bytes_copy(span_of(other, sizeof other));
    slot_message message = {
        .kind = SLOT_MESSAGE_PUSH, .epoch = world->number, .name = 1, .payload = shared_bytes_bytes(bytes)};
    replica_take(world->site[0].replica, REPLICA_FIXTURE_SERVERS, &message, bytes);
    replica_dispute dispute = replica_fixture_look(world, 0).dispute;
    assert_true(dispute.count == 1 && dispute.rank == 0 && dispute.round == 0);
    replica_fixture_push(world, 0, 1, 1, 0);
    replica_fixture_settle(world, -1);
    buffer values;
    buffer_init(&values, 100);
    replica_write_values(world->site[1].replica, &values);
    double first;
    memcpy(&first, values.data, sizeof first);
    assert_true(first == 1 * 0.9 + (1.0 + 2.0));                                    /* the first contribution counts */
    replica_take(world->site[0].replica, REPLICA_FIXTURE_SERVERS, &message, bytes); /* a round that is over */
    assert_int_equal(replica_fixture_look(world, 0).dispute.count, 1);
    buffer_fini(&values);
    shared_bytes_unref(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SITES(a_round_closes_with_its_members),
        ON_SITES(a_frozen_rank_does_not_count_before_the_round_state_says_so),
        ON_SITES(a_round_that_waits_is_closed_by_the_round_state),
        ON_SITES(rounds_are_summed_in_rank_order_and_versions_kept),
        ON_SITES(a_contribution_that_is_repeated_with_other_bytes_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
