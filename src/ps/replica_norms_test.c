/* replica_norms_test.c — rounds that close with the norms of all slots, part by part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/seats.h"

/* What slot 0 has reported to the ledger last. */
static part reported(const seats *world) {
    part last = {.name = UINT64_MAX};
    for (size_t i = 0; i < world->count; i++)
        if (world->queue[i].to == 201 && world->queue[i].part.kind == PART_MEASURED) last = world->queue[i].part;
    return last;
}

static void say_norms(seats *world, uint32_t server, uint64_t round, const double *norms, uint32_t phases) {
    uint8_t bytes[LEDGER_TERMS_MAX];
    bale *bale = bale_copy(span_of(norms, phases * sizeof *norms));
    part part = {.kind = PART_NORMS,
                 .rank = phases,
                 .epoch = world->number,
                 .name = round,
                 .terms = span_of(bytes, ledger_write_terms(&world->terms, SEATS_RANKS, bytes)),
                 .payload = bale_bytes(bale)};
    replica_take(world->seat[server].replica, 9, &part, bale);
    bale_unref(bale);
    seats_settle(world, -1);
}

/* What was sent, to make room. */
static void forget(seats *world) {
    for (size_t i = 0; i < world->count; i++) bale_unref(world->queue[i].bale);
    world->first = world->count = 0;
}

static void both_push(seats *world, uint32_t server, uint64_t name) {
    seats_push(world, server, 0, name, 0);
    seats_push(world, server, 1, name, 0);
    seats_settle(world, -1);
}

static void a_round_that_needs_norms_closes_with_those_of_the_ledger(void **state) {
    seats *world = *state;
    float_machine_context context = {.measures = true};
    const double norms[VALUES_PHASES_MAX] = {2, 3};
    for (uint32_t i = 0; i < SEATS_SERVERS; i++) world->seat[i].host.values_context = &context;
    seats_start_rounds(world, 3, false);
    bool plain = false, once = false, twice = false;
    for (uint64_t round = 0; round < 24 && !(plain && once && twice); round++) {
        uint32_t needs = float_machine_needs(0, round + 1);
        forget(world);
        both_push(world, 0, round + 1);
        for (uint32_t phase = 0; phase < needs; phase++) {
            assert_true(seats_look(world, 0).version == round && reported(world).name == round);
            assert_true(reported(world).rank == phase && reported(world).payload.size == sizeof(double));
            say_norms(world, 0, round + 1, norms, phase + 1); /* of another round */
            if (round != 0) say_norms(world, 0, round - 1, norms, phase + 1);
            assert_int_equal(seats_look(world, 0).version, round);
            size_t sent = world->count;
            replica_tick(world->seat[0].replica, 0); /* says it again */
            assert_true(world->count > sent);
            say_norms(world, 0, round, norms, phase + 1);
        }
        assert_true(seats_look(world, 0).version == round + 1 && seats_look(world, 1).version == round + 1);
        plain = plain || needs == 0;
        once = once || needs == 1;
        twice = twice || needs == 2;
    }
    assert_true(plain && once && twice);
}

static void a_new_head_measures_anew_and_one_that_is_done_has_nothing(void **state) {
    seats *world = *state;
    float_machine_context context = {.measures = true};
    for (uint32_t i = 0; i < SEATS_SERVERS; i++) world->seat[i].host.values_context = &context;
    seats_start_rounds(world, 3, false);
    uint64_t round = 0;
    while (float_machine_needs(0, round + 1) == 0) {
        both_push(world, 0, ++round);
        seats_say(world, PART_MEASURE, 0, round - 1, 0); /* that is over */
        assert_true(reported(world).name == round - 1 && reported(world).payload.size == 0);
    }
    both_push(world, 0, round + 1);
    double part = 0, again = 0;
    memcpy(&part, reported(world).payload.data, sizeof part);
    seats_chain(world, 0, (uint32_t[]){1, 0}, 2);
    seats_enter_all(world);
    seats_settle(world, -1);
    size_t before = world->count;
    both_push(world, 1, round + 1); /* they send again what it has not heard */
    assert_true(world->count > before && seats_look(world, 1).version == round);
    memcpy(&again, reported(world).payload.data, sizeof again);
    assert_memory_equal(&part, &again, sizeof part);
    const double norms[VALUES_PHASES_MAX] = {1, 1};
    say_norms(world, 1, round, norms, VALUES_PHASES_MAX); /* all that there are, at once */
    assert_int_equal(seats_look(world, 1).version, round + 1);
}

/* The ledger asks while the entry of the round is on its way down the chain, and again only at its next tick. */
static void one_that_is_about_to_close_answers_at_once(void **state) {
    seats *world = *state;
    float_machine_context context = {.measures = true};
    const double norms[VALUES_PHASES_MAX] = {2, 3};
    for (uint32_t i = 0; i < SEATS_SERVERS; i++) world->seat[i].host.values_context = &context;
    seats_start_rounds(world, 3, false);
    uint64_t round = 0;
    for (; float_machine_needs(0, round + 1) != 0; round++) {
        both_push(world, 0, round + 1);
        say_norms(world, 0, round, norms, float_machine_needs(0, round + 1));
    }
    forget(world);
    seats_push(world, 0, 0, round + 1, 0);
    seats_push(world, 0, 1, round + 1, 0); /* and nobody has heard of the entry */
    bool spoke = round != 0;               /* who had a part the last time says that it has none by itself */
    assert_true(seats_look(world, 0).version == round && (reported(world).name == round) == spoke);
    size_t sent = world->count;
    replica_take(world->seat[0].replica, 9,
                 &(part){.kind = PART_MEASURE, .rank = 0, .epoch = world->number, .name = round}, NULL);
    assert_true(world->count == sent + 1 && reported(world).name == round && reported(world).payload.size == 0);
    assert_int_equal(seats_look(world, 0).version, round);
    seats_settle(world, -1);
    assert_int_equal(seats_look(world, 0).version, round + 1);
    if (float_machine_needs(0, round + 2) != 0) return;
    sent = world->count;
    both_push(world, 0, round + 2); /* it has said so once; now it is asked, if anybody wants to know */
    for (size_t i = sent; i < world->count; i++) assert_int_not_equal(world->queue[i].part.kind, PART_MEASURED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SEATS(a_round_that_needs_norms_closes_with_those_of_the_ledger),
        ON_SEATS(one_that_is_about_to_close_answers_at_once),
        ON_SEATS(a_new_head_measures_anew_and_one_that_is_done_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
