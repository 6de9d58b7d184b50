/* quiesce_test.c — which ranks have to stop, and after which step. */
#include "ps/quiesce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { RANKS = 3 };

typedef struct world {
    cluster_map_rank ranks[RANKS];
    cluster_map map;
    cluster_map_process workers[2];
    quiesce quiesce;
} world;

/* Two workers hold ranks 0 and 1; rank 2 was never held. */
static void start(world *world, consistency_kind kind, uint32_t bound) {
    *world = (struct world){
        .ranks = {{.worker = 4, .incarnation = 1, .since = 10}, {.worker = 6, .incarnation = 2, .since = 11}},
        .map = {.rank_count = RANKS, .consistency = {kind, bound}},
        .workers = {{4, 1, "w4", true, false, false}, {6, 2, "w6", true, false, false}}};
    world->map.ranks = world->ranks;
    quiesce_begin(&world->quiesce, 8, &world->map);
}

static bool is_still(const world *world) {
    return quiesce_is_still(&world->quiesce, &world->map, (quiesce_workers){world->workers, 2});
}

static void hear(world *world, uint32_t rank, uint64_t term, uint64_t step, bool still) {
    uint64_t above;
    slot_message message = {.kind = SLOT_MESSAGE_PAUSED, .rank = rank, .commit = term, .lsn = step, .name = 8};
    message.status = still ? SLOT_MESSAGE_OK : SLOT_MESSAGE_LATER;
    quiesce_take(&world->quiesce, &world->map, &message, &above);
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
    assert_int_equal(world.quiesce.floor, 0); /* without SSP ranks stop after any step */
    world.ranks[1].since = 12;                /* another term of the rank */
    assert_false(is_still(&world));
    world.workers[1].alive = false; /* a dead worker is not waited for */
    assert_true(is_still(&world));
    world.workers[1] = (cluster_map_process){6, 3, "w6", true, false, false}; /* a replaced process is not waited for */
    assert_true(is_still(&world));
    world.map.rank_count = 2;
    assert_false(is_still(&world));
    quiesce_fini(&world.quiesce);
}

static void with_bounded_staleness_no_rank_stops_too_early(void **state) {
    world world;
    start(&world, CONSISTENCY_SSP, 2);
    hear(&world, 0, 10, 9, false); /* under SSP with bound 2 the rank needs step 6 of the others */
    hear(&world, 1, 11, 5, true);
    assert_int_equal(world.quiesce.floor, 6);
    hear(&world, 0, 10, 9, true);
    assert_false(is_still(&world));
    hear(&world, 1, 11, 6, true);
    assert_true(is_still(&world));
    quiesce_press(&world.quiesce); /* a table may have a smaller bound */
    assert_int_equal(world.quiesce.floor, 8);
    assert_false(is_still(&world));
    quiesce_fini(&world.quiesce);
}

static void earlier_reports_do_not_count(void **state) {
    world world;
    uint64_t above;
    start(&world, CONSISTENCY_ASP, 0);
    hear(&world, 0, 10, 1, true);
    hear(&world, 0, 9, 1, false); /* an old term */
    hear(&world, 1, 11, 1, true);
    assert_true(is_still(&world));
    quiesce_take(&world.quiesce, &world.map,
                 &(slot_message){.kind = SLOT_MESSAGE_PAUSED, .status = SLOT_MESSAGE_LATER, .commit = 10, .name = 7},
                 &above);
    quiesce_take(&world.quiesce, &world.map,
                 &(slot_message){.kind = SLOT_MESSAGE_PAUSED, .rank = RANKS, .commit = 10, .name = 8}, &above);
    assert_true(is_still(&world));
    quiesce_take(&world.quiesce, &world.map,
                 &(slot_message){.kind = SLOT_MESSAGE_PAUSED, .status = SLOT_MESSAGE_GONE, .name = 8, .prev = 30},
                 &above);
    assert_int_equal(above, 30);
    quiesce_fini(&world.quiesce);
    assert_false(is_still(&world));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_who_are_here_are_waited_for),
        cmocka_unit_test(with_bounded_staleness_no_rank_stops_too_early),
        cmocka_unit_test(earlier_reports_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
