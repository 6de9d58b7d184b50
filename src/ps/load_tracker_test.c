/* load_tracker_test.c — measured load, and the wishes that follow from it. */
#include "ps/load_tracker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { SERVERS = 4, SLOTS = 12 };
#define DECIDE_US INT64_C(1000000)

typedef struct world {
    load_tracker tracker;
    cluster_map map;
    cluster_map_process servers[SERVERS];
    map_planner_facts facts;
    map_planner_wish wishes[LOAD_TRACKER_WISHES_MAX];
    int64_t now_us;
} world;

/* Server 0 is the head of all slots, server 1 their tail. */
static void start(world *world) {
    *world = (struct world){.tracker.terms.decide_us = DECIDE_US, .now_us = 1};
    world->map = (cluster_map){.number = 5, .copies = 2, .slot_count = SLOTS};
    world->map.slots = xcalloc(SLOTS, sizeof *world->map.slots);
    for (size_t i = 0; i < SLOTS; i++)
        world->map.slots[i] = (cluster_map_slot){.epoch = 3, .count = 2, .chain = {{0, 10, 1}, {1, 11, 1}}};
    for (uint32_t i = 0; i < SERVERS; i++) world->servers[i] = (cluster_map_process){.id = i, .alive = true};
    world->facts = (map_planner_facts){.servers = world->servers, .server_count = SERVERS};
}

static void stop(world *world) {
    load_tracker_fini(&world->tracker);
    cluster_map_fini(&world->map);
}

/* Reports loads[i] requests for slot i in each interval, `pulls` percent of them pulls, until wishes come or ten
 * decision intervals are over. */
static size_t measure_pulls(world *world, const uint64_t loads[SLOTS], uint64_t pulls) {
    size_t count = 0;
    for (int i = 0; i < 10 * LOAD_TRACKER_INTERVALS && count == 0; i++) {
        for (uint32_t k = 0; k < SLOTS; k++)
            load_tracker_take(&world->tracker, &world->map,
                              &(slot_message){.kind = SLOT_MESSAGE_LOAD,
                                              .slot = k,
                                              .epoch = world->map.slots[k].epoch,
                                              .lsn = loads[k],
                                              .name = loads[k] * pulls / 100});
        world->now_us += DECIDE_US / LOAD_TRACKER_INTERVALS;
        load_tracker_tick(&world->tracker, world->now_us);
        count = load_tracker_wishes(&world->tracker, &world->map, &world->facts, world->now_us, world->wishes);
    }
    return count;
}

static size_t measure(world *world, const uint64_t loads[SLOTS]) { return measure_pulls(world, loads, 0); }

static const uint64_t even[SLOTS] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5};

static void the_fullest_gives_to_the_emptiest(void **state) {
    world world;
    start(&world);
    slot_placement_pin pin = {.slot = 4, .count = 1, .servers = {0}};
    world.facts.pins = &pin;
    world.facts.pin_count = 1;
    world.servers[3].alive = false;
    size_t count = measure(&world, even);
    assert_int_equal(count, 8); /* four slots for each of two servers */
    for (size_t i = 0; i < count; i++) {
        assert_true(world.wishes[i].slot != 4 && world.wishes[i].more == 0);
        assert_true(world.wishes[i].home == 1 + 1 || world.wishes[i].home == 1 + 2);
        world.map.slots[world.wishes[i].slot].chain[0].server = world.wishes[i].home - 1;
        world.map.slots[world.wishes[i].slot].home = world.wishes[i].home;
    }
    assert_int_equal(measure(&world, even), 0); /* a balanced map causes no wishes */
    stop(&world);
}

static void a_slot_that_has_moved_rests(void **state) {
    static const uint64_t one[SLOTS] = {9, 9};
    world world;
    start(&world);
    for (uint32_t i = 2; i < SLOTS; i++) world.map.slots[i].chain[0].server = 1;
    assert_int_equal(measure(&world, one), 2); /* both slots are hot: no server can carry one alone */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world.wishes[i].more, LOAD_TRACKER_MORE);
        world.map.slots[world.wishes[i].slot].more = LOAD_TRACKER_MORE;
    }
    assert_int_equal(measure(&world, one), 1); /* then one of the two moves, */
    assert_true(world.wishes[0].home != 0 && world.wishes[0].more == LOAD_TRACKER_MORE);
    int64_t moved_us = world.now_us;
    /* and the other, because the cluster map has not recorded the first move yet */
    assert_int_equal(measure(&world, one), 1);
    assert_true(world.tracker.slots[0].rest_us >= moved_us + LOAD_TRACKER_RESTS * DECIDE_US ||
                world.tracker.slots[1].rest_us >= moved_us + LOAD_TRACKER_RESTS * DECIDE_US);
    stop(&world);
}

static void a_slot_that_has_cooled_loses_its_copies(void **state) {
    static const uint64_t others[SLOTS] = {0, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, 5};
    world world;
    start(&world);
    for (uint32_t i = 0; i < SLOTS; i++) world.map.slots[i].chain[0].server = i % SERVERS;
    world.map.slots[0].more = LOAD_TRACKER_MORE;
    world.map.slots[0].home = 3;
    assert_int_equal(measure(&world, others), 1);
    assert_true(world.wishes[0].slot == 0 && world.wishes[0].more == 0 && world.wishes[0].home == 3);
    stop(&world);
}

static void a_slot_with_pushes_gets_no_read_replica(void **state) {
    static const uint64_t hot[SLOTS] = {900, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50};
    world world;
    start(&world);
    world.tracker.terms.reads = 0.75;
    for (uint32_t i = 0; i < SLOTS; i++) world.map.slots[i].chain[0].server = i % SERVERS;
    (void)measure_pulls(&world, hot, 70); /* neighbours of the hot slot may move */
    for (size_t i = 0; i < LOAD_TRACKER_WISHES_MAX; i++) assert_int_equal(world.wishes[i].more, 0);
    assert_int_equal(measure_pulls(&world, hot, 95), 1);
    assert_true(world.wishes[0].slot == 0 && world.wishes[0].more == LOAD_TRACKER_MORE);
    world.map.slots[0].more = LOAD_TRACKER_MORE;
    for (int i = 0; i < 2; i++) {
        size_t count = measure_pulls(&world, hot, 50); /* the head's remaining load while other replicas answer pulls */
        for (size_t k = 0; k < count; k++) assert_true(world.wishes[k].slot != 0 || world.wishes[k].more != 0);
    }
    assert_int_equal(measure_pulls(&world, hot, 20), 1);
    assert_true(world.wishes[0].slot == 0 && world.wishes[0].more == 0);
    stop(&world);
}

static void of_a_few_requests_nothing_follows(void **state) {
    world world;
    start(&world);
    world.tracker.terms.least = 16; /* per server; 60 requests for four servers are fewer */
    assert_int_equal(measure(&world, even), 0);
    world.tracker.terms.least = 14;
    assert_int_not_equal(measure(&world, even), 0);
    stop(&world);
}

static void rates_of_another_chain_epoch_do_not_count(void **state) {
    world world;
    start(&world);
    load_tracker_take(&world.tracker, &world.map,
                      &(slot_message){.kind = SLOT_MESSAGE_LOAD, .slot = 2, .epoch = 2, .lsn = 100});
    load_tracker_take(&world.tracker, &world.map,
                      &(slot_message){.kind = SLOT_MESSAGE_LOAD, .slot = SLOTS, .epoch = 3, .lsn = 100});
    load_tracker_take(&world.tracker, &world.map,
                      &(slot_message){.kind = SLOT_MESSAGE_LOAD, .slot = 3, .epoch = 3, .lsn = 100});
    load_tracker_tick(&world.tracker, 1);
    assert_true(world.tracker.slots[2].rate == 0 && world.tracker.slots[3].rate == 100 * BALANCER_SMOOTHING);
    stop(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fullest_gives_to_the_emptiest),
        cmocka_unit_test(a_slot_that_has_moved_rests),
        cmocka_unit_test(a_slot_that_has_cooled_loses_its_copies),
        cmocka_unit_test(a_slot_with_pushes_gets_no_read_replica),
        cmocka_unit_test(of_a_few_requests_nothing_follows),
        cmocka_unit_test(rates_of_another_chain_epoch_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
