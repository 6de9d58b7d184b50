/* replica_round_test.c — rounds of BSP by hand: who counts, in which order, and what the ledger says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/seats.h"

/* What the head of the ledger was answered last: 99 if nothing. */
static int answered(const seats *world) {
    int status = 99;
    for (size_t i = 0; i < world->count; i++)
        if (world->queue[i].to == 201 && world->queue[i].part.kind == PART_FROZEN) status = world->queue[i].part.status;
    return status;
}

static void a_round_closes_with_its_members(void **state) {
    seats *world = *state;
    seats_start_rounds(world, 2, false); /* rank 1 alone */
    seats_push(world, 0, 0, 1, 0);
    seats_settle(world, -1);
    assert_int_equal(seats_look(world, 0).version, 0);
    seats_push(world, 0, 1, 1, 0);
    seats_settle(world, -1);
    assert_int_equal(seats_look(world, 1).version, 1);
    assert_int_equal(seats_told(world, 0, PART_PUSHED, PART_MISSED, 1), 1);
    assert_int_equal(seats_told(world, 1, PART_PUSHED, PART_OK, 1), 1);
    seats_push(world, 0, 0, 1, 0); /* again, late */
    assert_int_equal(seats_told(world, 0, PART_PUSHED, PART_MISSED, 1), 2);
}

static void a_frozen_rank_does_not_count_before_the_ledger_says_so(void **state) {
    seats *world = *state;
    seats_start_rounds(world, 3, false);
    seats_push(world, 0, 0, 1, 0);
    seats_say(world, PART_FREEZE, 0, 0, 0);
    assert_true(answered(world) == PART_OK && seats_look(world, 0).open == 0);
    seats_push(world, 0, 0, 1, 0);
    seats_push(world, 0, 1, 1, 0);
    seats_settle(world, -1);
    assert_true(seats_look(world, 0).version == 0 && seats_look(world, 0).open == 1);
    seats_chain(world, 0, (uint32_t[]){1, 0}, 2); /* another head, which knows it, too */
    seats_enter_all(world);
    seats_settle(world, -1);
    seats_push(world, 1, 0, 1, 0);
    seats_push(world, 1, 1, 1, 0);
    seats_settle(world, -1);
    assert_true(seats_look(world, 1).version == 0 && seats_look(world, 1).open == 1);
    seats_chain(world, 0, (uint32_t[]){0, 1}, 2);
    seats_enter_all(world);
    seats_settle(world, -1);
    seats_push(world, 0, 1, 1, 0);
    seats_say(world, PART_TERMS, 0, 0, 2); /* void */
    assert_true(seats_look(world, 0).version == 1 && seats_look(world, 1).version == 1);
    seats_say(world, PART_FREEZE, 1, 0, 0);
    assert_int_equal(answered(world), PART_GONE); /* that round is closed */
    seats_say(world, PART_FREEZE, 1, 1, 0);
    seats_say(world, PART_TERMS, 0, 1, 3); /* to be repeated: it counts after all */
    seats_push(world, 0, 0, 2, 1);
    seats_push(world, 0, 1, 2, 1);
    seats_settle(world, -1);
    assert_int_equal(seats_look(world, 1).version, 2);
}

static void a_round_that_waits_is_closed_by_the_ledger(void **state) {
    seats *world = *state;
    seats_start_rounds(world, 3, true);
    seats_push(world, 0, 0, 1, 0);
    seats_push(world, 0, 1, 1, 0);
    seats_settle(world, -1);
    assert_int_equal(seats_told(world, 0, PART_PUSHED, PART_TAKEN, 1), 1);
    assert_int_equal(seats_look(world, 0).version, 0);
    seats_say(world, PART_TERMS, 0, 1, 1); /* of a round that is not open here */
    assert_int_equal(seats_look(world, 0).version, 0);
    seats_say(world, PART_TERMS, 0, 0, 1);
    assert_int_equal(seats_look(world, 0).version, 1);
    assert_true(seats_told(world, 0, PART_PUSHED, PART_OK, 1) == 1 &&
                seats_told(world, 1, PART_PUSHED, PART_MISSED, 1) == 1);
}

static void rounds_are_summed_in_rank_order_and_versions_kept(void **state) {
    seats *world = *state;
    seats_start_rounds(world, 3, false);
    seats_push(world, 0, 1, 1, 0);
    seats_push(world, 0, 1, 1, 0); /* twice: once in the sum */
    assert_int_equal(seats_look(world, 0).open, 1);
    seats_push(world, 0, 0, 1, 0);
    seats_settle(world, -1);
    assert_true(seats_look(world, 0).version == 1 && seats_look(world, 1).version == 1 &&
                seats_look(world, 0).open == 0);
    assert_true(seats_told(world, 0, PART_PUSHED, PART_OK, 1) == 1 &&
                seats_told(world, 1, PART_PUSHED, PART_OK, 1) == 1);
    buffer values;
    buffer_init(&values, 100);
    replica_write_values(world->seat[1].replica, &values);
    double first;
    memcpy(&first, values.data, sizeof first);
    assert_true(first == 1 * 0.9 + (1.0 + 2.0));
    buffer_fini(&values);
    for (uint64_t version = 0; version <= 2; version++) seats_ask(world, 0, (part){.kind = PART_PULL, .name = version});
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_OK, 0), 1);
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_OK, 1), 1);
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_OK, 2), 0); /* waits for the round */
    seats_ask(world, 0,
              (part){.kind = PART_PULL, .rank = 1, .commit = 60, .payload = span_of("\2", 1)}); /* of version 0 */
    const part *kept = &world->queue[world->count - 1].part;
    double third;
    assert_true(kept->name == 0 && kept->payload.size == sizeof third);
    memcpy(&third, kept->payload.data, sizeof third);
    assert_true(third == 1);
    seats_push(world, 0, 0, 2, 1);
    seats_ask(world, 0, (part){.kind = PART_PULL, .rank = 1, .name = 2});
    seats_ask(world, 0, (part){.kind = PART_PUSH, .rank = 1, .name = 2});
    seats_settle(world, -1);
    assert_true(seats_told(world, 0, PART_PULLED, PART_OK, 2) == 1 &&
                seats_told(world, 1, PART_PULLED, PART_OK, 2) == 1);
}

static void a_contribution_that_is_repeated_with_other_bytes_is_told(void **state) {
    seats *world = *state;
    seats_start_rounds(world, 3, false);
    seats_push(world, 0, 0, 1, 0); /* is in the sum at once */
    seats_push(world, 0, 0, 1, 0);
    assert_int_equal(seats_look(world, 0).dispute.count, 0);
    double other[FLOAT_MACHINE_WIDTH] = {9, 9, 9};
    bale *bale = bale_copy(span_of(other, sizeof other));
    part part = {.kind = PART_PUSH, .epoch = world->number, .name = 1, .payload = bale_bytes(bale)};
    replica_take(world->seat[0].replica, SEATS_SERVERS, &part, bale);
    replica_dispute dispute = seats_look(world, 0).dispute;
    assert_true(dispute.count == 1 && dispute.rank == 0 && dispute.round == 0);
    seats_push(world, 0, 1, 1, 0);
    seats_settle(world, -1);
    buffer values;
    buffer_init(&values, 100);
    replica_write_values(world->seat[1].replica, &values);
    double first;
    memcpy(&first, values.data, sizeof first);
    assert_true(first == 1 * 0.9 + (1.0 + 2.0));                      /* the first one counts */
    replica_take(world->seat[0].replica, SEATS_SERVERS, &part, bale); /* of a round that is over */
    assert_int_equal(seats_look(world, 0).dispute.count, 1);
    buffer_fini(&values);
    bale_unref(bale);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SEATS(a_round_closes_with_its_members),
        ON_SEATS(a_frozen_rank_does_not_count_before_the_ledger_says_so),
        ON_SEATS(a_round_that_waits_is_closed_by_the_ledger),
        ON_SEATS(rounds_are_summed_in_rank_order_and_versions_kept),
        ON_SEATS(a_contribution_that_is_repeated_with_other_bytes_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
