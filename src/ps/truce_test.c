/* truce_test.c — the ranks that have to stop, and the step after which they do. */
#include "ps/truce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { RANKS = 3 };

typedef struct world {
    chart_player players[RANKS];
    chart chart;
    truce_worker workers[2];
    truce truce;
} world;

/* Two workers; nobody has ever played rank 2. */
static void start(world *world, consistency_kind kind, uint32_t bound) {
    *world = (struct world){
        .players = {{.worker = 4, .incarnation = 1, .since = 10}, {.worker = 6, .incarnation = 2, .since = 11}},
        .chart = {.rank_count = RANKS, .consistency = {kind, bound}},
        .workers = {{4, 1, "w4", true}, {6, 2, "w6", true}}};
    world->chart.players = world->players;
    truce_begin(&world->truce, 8, &world->chart);
}

static bool is_still(const world *world) { return truce_is_still(&world->truce, &world->chart, world->workers, 2); }

static void hear(world *world, uint32_t rank, uint64_t stint, uint64_t step, bool still) {
    uint64_t above;
    part part = {.kind = PART_PAUSED, .rank = rank, .commit = stint, .lsn = step, .name = 8};
    part.status = still ? PART_OK : PART_LATER;
    truce_take(&world->truce, &world->chart, &part, &above);
    assert_int_equal(above, 0);
}

static void all_who_are_here_are_waited_for(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 0);
    assert_false(is_still(&world));
    hear(&world, 0, 10, 500, true);
    hear(&world, 1, 11, 3, false);
    assert_false(is_still(&world));
    hear(&world, 1, 11, 3, true);
    assert_true(is_still(&world));
    assert_int_equal(world.truce.floor, 0); /* each where it is */
    world.players[1].since = 12;            /* it is played by somebody else, or anew */
    assert_false(is_still(&world));
    world.workers[1].alive = false; /* who is gone is not waited for */
    assert_true(is_still(&world));
    world.workers[1] = (truce_worker){6, 3, "w6", true}; /* nor one that was replaced */
    assert_true(is_still(&world));
    world.chart.rank_count = 2;
    assert_false(is_still(&world));
    truce_fini(&world.truce);
}

static void under_a_bound_nobody_stops_before_others_can(void **state) {
    world world;
    start(&world, CONSISTENCY_SSP, 2);
    hear(&world, 0, 10, 9, false); /* it needs others to have ended step 6 */
    hear(&world, 1, 11, 5, true);
    assert_int_equal(world.truce.floor, 6);
    hear(&world, 0, 10, 9, true);
    assert_false(is_still(&world));
    hear(&world, 1, 11, 6, true);
    assert_true(is_still(&world));
    truce_press(&world.truce); /* a table may have a smaller bound */
    assert_int_equal(world.truce.floor, 8);
    assert_false(is_still(&world));
    truce_fini(&world.truce);
}

static void what_was_said_before_does_not_count(void **state) {
    world world;
    uint64_t above;
    start(&world, CONSISTENCY_ASP, 0);
    hear(&world, 0, 10, 1, true);
    hear(&world, 0, 9, 1, false); /* a stint that is over */
    hear(&world, 1, 11, 1, true);
    assert_true(is_still(&world));
    truce_take(&world.truce, &world.chart, &(part){.kind = PART_PAUSED, .status = PART_LATER, .commit = 10, .name = 7},
               &above);
    truce_take(&world.truce, &world.chart, &(part){.kind = PART_PAUSED, .rank = RANKS, .commit = 10, .name = 8},
               &above);
    assert_true(is_still(&world));
    truce_take(&world.truce, &world.chart, &(part){.kind = PART_PAUSED, .status = PART_GONE, .name = 8, .prev = 30},
               &above);
    assert_int_equal(above, 30);
    truce_fini(&world.truce);
    assert_false(is_still(&world));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_who_are_here_are_waited_for),
        cmocka_unit_test(under_a_bound_nobody_stops_before_others_can),
        cmocka_unit_test(what_was_said_before_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
