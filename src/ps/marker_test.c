/* marker_test.c — a checkpoint is ordered until it is whole; a seal is asked for until it is answered. */
#include "ps/marker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ps/tape.h"
#include "tests/support/said.h"

typedef struct world {
    post *post;
    said said;
    chart chart;
    marker marker;
} world;

static void on_send(void *context, const char *address, span bytes) {
    said_take(&((world *)context)->said, address, bytes);
}
static void on_chart(void *context, const chart *chart) {}
static void on_part(void *context, const part_head *from, const part *part, bale *bale) {}

static void start(world *world, consistency_kind kind) {
    *world = (struct world){.chart = {.number = 2, .rank_count = 1, .slot_count = 2}};
    world->chart.consistency.kind = kind;
    world->chart.slots = xcalloc(2, sizeof(chart_slot));
    for (uint32_t i = 0; i < 2; i++) world->chart.slots[i] = (chart_slot){.epoch = 2, .count = 1, .chain = {{i, 1, 1}}};
    chart_put_server(&world->chart, 0, 1, "s0");
    chart_put_server(&world->chart, 1, 1, "s1");
    post_host host = {
        .send = on_send, .send_context = world, .on_chart = on_chart, .on_part = on_part, .context = world};
    world->post = post_create(&host, PART_DIRECTOR, "d");
}

static void stop(world *world) {
    marker_fini(&world->marker);
    chart_fini(&world->chart);
    post_destroy(world->post);
}

static void order(world *world, int64_t now_us) {
    world->said.count = 0;
    marker_order(&world->marker, &world->chart, world->post, (marker_crew){0}, now_us);
    post_flush(world->post);
}

static bool hear(world *world, part_kind kind, part_status status, uint64_t name, uint64_t lsn) {
    part part = {.kind = (uint8_t)kind, .status = (uint8_t)status, .entry = TAPE_MARK, .name = name, .lsn = lsn};
    return marker_take(&world->marker, &world->chart, &part);
}

/* The depot says so often that nothing is whole, and what it is saving. */
static void say(world *world, int times, uint64_t making, uint64_t saved) {
    part part = {.kind = PART_WHOLE, .lsn = making, .commit = saved};
    while (times-- > 0) assert_false(marker_take(&world->marker, &world->chart, &part));
}

/* What an earlier director has ordered is known once one of this director's is whole. */
static void how_far_slots_may_have_cut_is_known(void **state) {
    world world;
    uint64_t number;
    start(&world, CONSISTENCY_ASP);
    assert_false(marker_bound(&world.marker, &number)); /* the depot has said nothing */
    say(&world, 1, 0, 0);
    assert_true(marker_bound(&world.marker, &number) && number == 0);
    marker_want(&world.marker);
    assert_false(marker_bound(&world.marker, &number));
    order(&world, 0);
    assert_true(hear(&world, PART_WHOLE, PART_OK, 1, 0));
    assert_true(marker_bound(&world.marker, &number) && number == 1);
    marker_want(&world.marker);
    assert_true(marker_bound(&world.marker, &number) && number == 2);
    stop(&world);
    start(&world, CONSISTENCY_ASP);
    assert_false(hear(&world, PART_WHOLE, PART_OK, 6, 0));
    assert_false(marker_bound(&world.marker, &number)); /* 7 may lie with a head */
    stop(&world);
}

static void all_heads_are_told_until_it_is_whole(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    order(&world, 0);
    assert_int_equal(world.said.count, 0);
    marker_want(&world.marker);
    order(&world, 0); /* what there is already is not known */
    assert_int_equal(world.said.count, 0);
    assert_false(hear(&world, PART_WHOLE, PART_OK, 6, 0)); /* that is an old one */
    order(&world, 0);
    assert_int_equal(said_named(&world.said, "s0", PART_ORDER, PART_OK, 7), 1);
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 7), 1);
    assert_false(hear(&world, PART_ORDERED, PART_OK, 7, 9)); /* that one has been cut already */
    order(&world, 1);
    assert_int_equal(said_named(&world.said, "s0", PART_ORDER, PART_OK, 9), 1);
    assert_false(hear(&world, PART_WHOLE, PART_OK, 8, 0));
    assert_true(hear(&world, PART_WHOLE, PART_OK, 9, 0));
    assert_false(hear(&world, PART_WHOLE, PART_OK, 9, 0)); /* told once */
    order(&world, 2);
    assert_int_equal(world.said.count, 0);
    stop(&world);
}

static void a_cut_that_was_missed_is_followed_by_another(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP);
    assert_false(hear(&world, PART_WHOLE, PART_OK, 0, 0));
    marker_want(&world.marker);
    order(&world, 0);
    assert_int_equal(said_count(&world.said, "s0", PART_ORDER), 0); /* the ledger only */
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 1), 1);
    assert_false(hear(&world, PART_ORDERED, PART_LATER, 1, 4)); /* it will be cut: patience */
    order(&world, MARKER_PATIENCE_US);
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 4), 1);
    assert_false(hear(&world, PART_ORDERED, PART_OK, 4, 4));
    say(&world, MARKER_SIGNS, 0, 0);
    order(&world, 2 * MARKER_PATIENCE_US);
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 5), 1);
    marker_restart(&world.marker); /* back to where nothing was whole */
    order(&world, 2 * MARKER_PATIENCE_US);
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 1), 1);
    stop(&world);
}

/* A depot that saves, or says nothing, has missed nothing; nor has one that is asked for more. */
static void a_slow_depot_is_not_hurried(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP);
    say(&world, 1, 0, 0);
    marker_want(&world.marker);
    order(&world, 0);
    order(&world, 10 * MARKER_PATIENCE_US); /* it is silent: its disk is slow, or it is not there */
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 1), 1);
    say(&world, MARKER_SIGNS - 1, 1, 1);
    say(&world, 1, 1, 2); /* one more slot is saved */
    order(&world, 11 * MARKER_PATIENCE_US);
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 1), 1);
    say(&world, MARKER_SIGNS, 1, 2);
    marker_want(&world.marker); /* once more: that is the same one */
    order(&world, 12 * MARKER_PATIENCE_US);
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 2), 1);
    stop(&world);
}

static void slots_without_rounds_are_cut_behind_the_ledger(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    world.chart.mixed = true;
    world.chart.slot_count = 3;
    world.chart.slots = xrealloc(world.chart.slots, 3 * sizeof(chart_slot));
    world.chart.slots[2] = (chart_slot){.epoch = 2, .count = 1, .chain = {{2, 1, 1}}};
    chart_put_server(&world.chart, 2, 1, "s2");
    assert_false(hear(&world, PART_WHOLE, PART_OK, 0, 0));
    marker_want(&world.marker);
    order(&world, 0);
    assert_int_equal(said_named(&world.said, "s2", PART_ORDER, PART_OK, 1), 1);
    assert_int_equal(said_count(&world.said, "s1", PART_ORDER), 0);
    part ordered = {.kind = PART_ORDERED, .status = PART_LATER, .entry = TAPE_MARK, .slot = 2, .name = 1, .lsn = 5};
    assert_false(marker_take(&world.marker, &world.chart, &ordered)); /* it will be */
    order(&world, 1);
    assert_int_equal(said_named(&world.said, "s2", PART_ORDER, PART_OK, 5), 1);
    assert_int_equal(said_count(&world.said, "s1", PART_ORDER), 0);
    ordered.status = PART_OK;
    assert_false(marker_take(&world.marker, &world.chart, &ordered)); /* now it is */
    order(&world, 2);
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 5), 1);
    assert_int_equal(said_count(&world.said, "s0", PART_ORDER), 0); /* its round says it */
    say(&world, 1, 5, 0);
    order(&world, 3);
    say(&world, MARKER_SIGNS, 5, 0);
    order(&world, 2 * MARKER_PATIENCE_US); /* somebody has missed it: the ledger first, once more */
    assert_int_equal(said_named(&world.said, "s2", PART_ORDER, PART_OK, 6), 1);
    assert_int_equal(said_count(&world.said, "s1", PART_ORDER), 0);
    stop(&world);
}

static void a_seal_is_of_one_number(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    assert_false(marker_seal(&world.marker, world.post, "depot", 2));
    post_flush(world.post);
    assert_int_equal(said_named(&world.said, "depot", PART_SEAL, PART_OK, 2), 1);
    assert_false(hear(&world, PART_SEALED, PART_OK, 1, 8)); /* of another number */
    assert_false(marker_seal(&world.marker, world.post, "depot", 2));
    assert_false(hear(&world, PART_SEALED, PART_OK, 2, 8));
    assert_true(marker_seal(&world.marker, world.post, "depot", 2));
    assert_int_equal(world.marker.origin, 8);
    assert_false(marker_seal(&world.marker, world.post, "depot", 3)); /* a chart came between */
    stop(&world);
}

/* ---- Exact ones. */

enum { PAUSE = 400000 };

static void exact(world *world) {
    start(world, CONSISTENCY_ASP);
    world->marker.exact = true;
    world->marker.pause_us = PAUSE;
    world->chart.players = xcalloc(1, sizeof(chart_player));
    world->chart.players[0] = (chart_player){.worker = 3, .incarnation = 7, .since = 2};
    assert_false(hear(world, PART_WHOLE, PART_OK, 4, 0));
    marker_want(&world->marker);
}

static void order_with(world *world, bool alive, int64_t now_us) {
    const truce_worker worker = {3, 7, "w3", alive};
    world->said.count = 0;
    marker_order(&world->marker, &world->chart, world->post, (marker_crew){&worker, 1}, now_us);
    post_flush(world->post);
}

static void hear_paused(world *world, part_status status, uint64_t prev) {
    part part = {.kind = PART_PAUSED, .status = (uint8_t)status, .commit = 2, .lsn = 9, .prev = prev};
    part.name = world->marker.truce.number;
    assert_false(marker_take(&world->marker, &world->chart, &part));
}

static void hear_cut(world *world, uint32_t slot, uint64_t checkpoint) {
    part part = {.kind = PART_ORDERED, .entry = TAPE_MARK, .slot = slot, .lsn = checkpoint, .name = checkpoint};
    assert_false(marker_take(&world->marker, &world->chart, &part));
}

static void slots_are_cut_while_all_stand_still(void **state) {
    world world;
    exact(&world);
    order_with(&world, true, 0);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_OK, 5), 1);
    assert_int_equal(said_count(&world.said, "s0", PART_ORDER), 0);
    hear_paused(&world, PART_LATER, 0);
    order_with(&world, true, 1); /* it is in a step */
    assert_int_equal(said_count(&world.said, "s0", PART_ORDER), 0);
    hear_paused(&world, PART_OK, 0);
    order_with(&world, true, 2);
    assert_int_equal(said_named(&world.said, "s0", PART_ORDER, PART_OK, 5), 1);
    assert_int_equal(said_named(&world.said, "s1", PART_ORDER, PART_OK, 5), 1);
    hear_cut(&world, 1, 5);
    hear_cut(&world, 1, 5); /* said twice */
    order_with(&world, true, 3);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_OK, 5), 1); /* it rests */
    assert_int_equal(said_count(&world.said, "s1", PART_ORDER), 0);
    hear_cut(&world, 0, 5);
    order_with(&world, true, 4);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_GONE, 5), 1); /* before anything is saved */
    assert_true(hear(&world, PART_WHOLE, PART_OK, 5, 0));
    order_with(&world, true, 5);
    assert_int_equal(world.said.count, 0);
    stop(&world);
}

/* The next one is wanted at once. Ranks that stood still for 30 us train for as long. */
static void a_pause_ends_with_what_it_was_for(void **state) {
    world world;
    exact(&world);
    order_with(&world, true, 0);
    hear_paused(&world, PART_OK, 0);
    order_with(&world, true, 10);
    assert_int_equal(said_named(&world.said, "s0", PART_ORDER, PART_OK, 5), 1);
    assert_true(hear(&world, PART_WHOLE, PART_OK, 5, 0)); /* the heads were not heard */
    assert_true(marker_moves(&world.marker, &world.chart, (marker_crew){0}));
    marker_want(&world.marker);
    order_with(&world, true, 30);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_GONE, 5), 1);
    assert_int_equal(said_count(&world.said, "w3", PART_PAUSE), 1);
    assert_false(marker_moves(&world.marker, &world.chart, (marker_crew){0}));
    order_with(&world, true, 59);
    assert_int_equal(world.said.count, 0);
    order_with(&world, true, 60);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_OK, 6), 1);
    stop(&world);
}

static void a_pause_ends_whoever_is_in_a_step(void **state) {
    world world;
    exact(&world);
    order_with(&world, true, 0);
    hear_paused(&world, PART_LATER, 0);
    order_with(&world, true, PAUSE);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_GONE, 5), 1);
    order_with(&world, true, 2 * PAUSE - 1); /* everybody trains */
    assert_int_equal(world.said.count, 0);
    order_with(&world, true, 2 * PAUSE);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_OK, 6), 1);
    order_with(&world, true, 3 * PAUSE);
    order_with(&world, true, 5 * PAUSE - 1); /* longer than before */
    assert_int_equal(world.said.count, 0);
    order_with(&world, true, 5 * PAUSE);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_OK, 7), 1);
    stop(&world);
}

static void one_that_is_never_whole_is_followed_by_another(void **state) {
    world world;
    exact(&world);
    order_with(&world, false, 0); /* nobody is there who could be waited for */
    assert_int_equal(said_count(&world.said, "w3", PART_PAUSE), 0);
    assert_int_equal(said_named(&world.said, "s0", PART_ORDER, PART_OK, 5), 1);
    hear_cut(&world, 0, 5);
    hear_cut(&world, 1, 5);
    order_with(&world, false, 0);
    order_with(&world, false, 1);
    say(&world, MARKER_SIGNS, 0, 0); /* nobody saves anything */
    order_with(&world, false, 1 + MARKER_PATIENCE_US);
    assert_false(hear(&world, PART_WHOLE, PART_OK, 5, 0)); /* too late: the next one was begun */
    order_with(&world, false, 1 + MARKER_PATIENCE_US + PAUSE);
    assert_int_equal(said_named(&world.said, "s0", PART_ORDER, PART_OK, 6), 1);
    hear_cut(&world, 0, 9); /* of a director that is gone */
    order_with(&world, false, 2 + MARKER_PATIENCE_US + PAUSE);
    assert_int_equal(said_named(&world.said, "s0", PART_ORDER, PART_OK, 10), 1);
    marker_restart(&world.marker);
    order_with(&world, false, 3 + MARKER_PATIENCE_US + PAUSE);
    assert_int_equal(said_named(&world.said, "s0", PART_ORDER, PART_OK, 6), 1);
    stop(&world);
}

static void a_pause_is_above_all_that_workers_have_heard_of(void **state) {
    world world;
    exact(&world);
    order_with(&world, true, 0);
    hear_paused(&world, PART_GONE, 20);
    order_with(&world, true, 1);
    assert_int_equal(said_named(&world.said, "w3", PART_PAUSE, PART_OK, 21), 1);
    stop(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_far_slots_may_have_cut_is_known),
        cmocka_unit_test(all_heads_are_told_until_it_is_whole),
        cmocka_unit_test(a_cut_that_was_missed_is_followed_by_another),
        cmocka_unit_test(a_slow_depot_is_not_hurried),
        cmocka_unit_test(slots_without_rounds_are_cut_behind_the_ledger),
        cmocka_unit_test(a_seal_is_of_one_number),
        cmocka_unit_test(slots_are_cut_while_all_stand_still),
        cmocka_unit_test(a_pause_ends_with_what_it_was_for),
        cmocka_unit_test(a_pause_ends_whoever_is_in_a_step),
        cmocka_unit_test(one_that_is_never_whole_is_followed_by_another),
        cmocka_unit_test(a_pause_is_above_all_that_workers_have_heard_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
