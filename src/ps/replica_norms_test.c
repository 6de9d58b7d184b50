/* replica_norms_test.c — rounds that close with the norms of all slots, message by message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/replica_fixture.h"

/* The last report of slot 0 to the round state. */
static slot_message reported(const replica_fixture *world) {
    slot_message last = {.name = UINT64_MAX};
    for (size_t i = 0; i < world->count; i++)
        if (world->queue[i].to == 201 && world->queue[i].message.kind == SLOT_MESSAGE_MEASURED)
            last = world->queue[i].message;
    return last;
}

static void say_norms(replica_fixture *world, uint32_t server, uint64_t round, const double *norms, uint32_t phases) {
    uint8_t bytes[ROUND_STATE_TERMS_MAX];
    shared_bytes *shared = shared_bytes_copy(span_of(norms, phases * sizeof *norms));
    slot_message message = {.kind = SLOT_MESSAGE_NORMS,
                            .rank = phases,
                            .epoch = world->number,
                            .name = round,
                            .terms =
                                span_of(bytes, round_state_write_terms(&world->terms, REPLICA_FIXTURE_RANKS, bytes)),
                            .payload = shared_bytes_bytes(shared)};
    replica_take(world->site[server].replica, 9, &message, shared);
    shared_bytes_unref(shared);
    replica_fixture_settle(world, -1);
}

/* Drops the recorded messages, to make room. */
static void forget(replica_fixture *world) {
    for (size_t i = 0; i < world->count; i++) shared_bytes_unref(world->queue[i].bytes);
    world->first = world->count = 0;
}

static void both_push(replica_fixture *world, uint32_t server, uint64_t name) {
    replica_fixture_push(world, server, 0, name, 0);
    replica_fixture_push(world, server, 1, name, 0);
    replica_fixture_settle(world, -1);
}

static void a_round_that_needs_norms_closes_with_those_of_the_round_state(void **state) {
    replica_fixture *world = *state;
    float_machine_context context = {.measures = true};
    const double norms[STATE_MACHINE_PHASES_MAX] = {2, 3};
    for (uint32_t i = 0; i < REPLICA_FIXTURE_SERVERS; i++) world->site[i].host.values_context = &context;
    replica_fixture_start_rounds(world, 3, false);
    bool plain = false, once = false, twice = false;
    for (uint64_t round = 0; round < 24 && !(plain && once && twice); round++) {
        uint32_t needs = float_machine_needs(0, round + 1);
        forget(world);
        both_push(world, 0, round + 1);
        for (uint32_t phase = 0; phase < needs; phase++) {
            assert_true(replica_fixture_look(world, 0).version == round && reported(world).name == round);
            assert_true(reported(world).rank == phase && reported(world).payload.size == sizeof(double));
            say_norms(world, 0, round + 1, norms, phase + 1); /* norms of another round */
            if (round != 0) say_norms(world, 0, round - 1, norms, phase + 1);
            assert_int_equal(replica_fixture_look(world, 0).version, round);
            size_t sent = world->count;
            replica_tick(world->site[0].replica, 0); /* repeats the report */
            assert_true(world->count > sent);
            say_norms(world, 0, round, norms, phase + 1);
        }
        assert_true(replica_fixture_look(world, 0).version == round + 1 &&
                    replica_fixture_look(world, 1).version == round + 1);
        plain = plain || needs == 0;
        once = once || needs == 1;
        twice = twice || needs == 2;
    }
    assert_true(plain && once && twice);
}

static void a_new_head_measures_anew_and_one_that_is_done_has_nothing(void **state) {
    replica_fixture *world = *state;
    float_machine_context context = {.measures = true};
    for (uint32_t i = 0; i < REPLICA_FIXTURE_SERVERS; i++) world->site[i].host.values_context = &context;
    replica_fixture_start_rounds(world, 3, false);
    uint64_t round = 0;
    while (float_machine_needs(0, round + 1) == 0) {
        both_push(world, 0, ++round);
        replica_fixture_say(world, SLOT_MESSAGE_MEASURE, 0, round - 1, 0); /* the round is over */
        assert_true(reported(world).name == round - 1 && reported(world).payload.size == 0);
    }
    both_push(world, 0, round + 1);
    double part = 0, again = 0;
    memcpy(&part, reported(world).payload.data, sizeof part);
    replica_fixture_chain(world, 0, (uint32_t[]){1, 0}, 2);
    replica_fixture_enter_all(world);
    replica_fixture_settle(world, -1);
    size_t before = world->count;
    both_push(world, 1, round + 1); /* ranks repeat their contributions at the new head */
    assert_true(world->count > before && replica_fixture_look(world, 1).version == round);
    memcpy(&again, reported(world).payload.data, sizeof again);
    assert_memory_equal(&part, &again, sizeof part);
    const double norms[STATE_MACHINE_PHASES_MAX] = {1, 1};
    say_norms(world, 1, round, norms, STATE_MACHINE_PHASES_MAX); /* all phases at once */
    assert_int_equal(replica_fixture_look(world, 1).version, round + 1);
}

/* MEASURE arrives while the entry of the round is in flight on the chain; the next one would come only with a tick. */
static void one_that_is_about_to_close_answers_at_once(void **state) {
    replica_fixture *world = *state;
    float_machine_context context = {.measures = true};
    const double norms[STATE_MACHINE_PHASES_MAX] = {2, 3};
    for (uint32_t i = 0; i < REPLICA_FIXTURE_SERVERS; i++) world->site[i].host.values_context = &context;
    replica_fixture_start_rounds(world, 3, false);
    uint64_t round = 0;
    for (; float_machine_needs(0, round + 1) != 0; round++) {
        both_push(world, 0, round + 1);
        say_norms(world, 0, round, norms, float_machine_needs(0, round + 1));
    }
    forget(world);
    replica_fixture_push(world, 0, 0, round + 1, 0);
    replica_fixture_push(world, 0, 1, round + 1, 0); /* the entry is not delivered */
    bool spoke = round != 0; /* a slot with a part in the round before reports its lack without being asked */
    assert_true(replica_fixture_look(world, 0).version == round && (reported(world).name == round) == spoke);
    size_t sent = world->count;
    replica_take(world->site[0].replica, 9,
                 &(slot_message){.kind = SLOT_MESSAGE_MEASURE, .rank = 0, .epoch = world->number, .name = round}, NULL);
    assert_true(world->count == sent + 1 && reported(world).name == round && reported(world).payload.size == 0);
    assert_int_equal(replica_fixture_look(world, 0).version, round);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_look(world, 0).version, round + 1);
    if (float_machine_needs(0, round + 2) != 0) return;
    sent = world->count;
    both_push(world, 0, round + 2); /* the lack was reported once; from now on the slot must be asked */
    for (size_t i = sent; i < world->count; i++)
        assert_int_not_equal(world->queue[i].message.kind, SLOT_MESSAGE_MEASURED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SITES(a_round_that_needs_norms_closes_with_those_of_the_round_state),
        ON_SITES(one_that_is_about_to_close_answers_at_once),
        ON_SITES(a_new_head_measures_anew_and_one_that_is_done_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
