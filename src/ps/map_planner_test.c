/* map_planner_test.c — legal changes of chains, and no others. */
#include "ps/map_planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

enum { SERVERS = 5, SLOTS = 40 };

typedef struct world {
    cluster_map_process servers[SERVERS];
    map_planner_gate gates[SLOTS];
    slot_placement_pin pins[1];
    map_planner_facts facts;
    uint64_t staying[SERVERS];
    hash_ring *ring;
    cluster_map map, next;
    map_planner_join joins[SLOTS];
    size_t join_count;
} world;

static void make_ring(world *world) {
    hash_ring_server members[SERVERS];
    size_t count = 0;
    for (size_t i = 0; i < SERVERS; i++)
        if (world->servers[i].alive && !world->servers[i].leaves) {
            world->staying[count] = world->servers[i].id;
            members[count++] = (hash_ring_server){world->servers[i].id, 1};
        }
    if (world->ring != NULL) hash_ring_destroy(world->ring);
    assert_int_equal(hash_ring_create(members, count, &world->ring), MR_OK);
    world->facts.ring = world->ring;
    world->facts.staying = world->staying;
    world->facts.staying_count = count;
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    for (uint32_t i = 0; i < SERVERS; i++)
        world->servers[i] = (cluster_map_process){i, 10 + i, "somewhere", true, false, false};
    world->facts = (map_planner_facts){.servers = world->servers, .server_count = SERVERS, .gates = world->gates};
    make_ring(world);
    world->map = (cluster_map){.copies = 3, .rank_count = 2, .slot_count = SLOTS};
    world->map.slots = xcalloc(SLOTS, sizeof(cluster_map_slot));
    map_planner_first(&world->facts, 1, 77, &world->map);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    hash_ring_destroy(world->ring);
    cluster_map_fini(&world->map);
    cluster_map_fini(&world->next);
    free(world);
    return 0;
}

static bool map_planner(world *world) {
    return map_planner_next(&world->map, &world->facts, &world->next, world->joins, &world->join_count);
}

static void decide(world *world) {
    assert_true(world->next.number == world->map.number + 1);
    cluster_map_copy(&world->map, &world->next);
}

static void kill_server(world *world, size_t index) {
    world->servers[index].alive = false;
    make_ring(world);
}

static void the_first_map_is_the_target(void **state) {
    world *world = *state;
    assert_true(world->map.birth == 1 && world->map.generation == 77 && world->map.server_count == SERVERS);
    for (size_t i = 0; i < SLOTS; i++) {
        assert_int_equal(world->map.slots[i].count, 3);
        for (size_t k = 0; k < 3; k++) assert_true(world->map.slots[i].chain[k].since == 1);
    }
    assert_false(map_planner(world)); /* no further changes */
    assert_int_equal(world->join_count, 0);
}

static void the_dead_are_taken_out_and_replaced_by_joins(void **state) {
    world *world = *state;
    kill_server(world, 2);
    assert_true(map_planner(world));
    for (size_t i = 0; i < SLOTS; i++) {
        const cluster_map_slot *before = &world->map.slots[i], *after = &world->next.slots[i];
        bool was = cluster_map_place(before, 2, 12) >= 0;
        assert_int_equal(after->count, was ? 2 : 3);
        assert_true(after->epoch == (was ? 2 : 1)); /* slots without the dead server keep their epoch */
        assert_int_equal(cluster_map_place(after, 2, 12), -1);
    }
    decide(world);
    assert_false(map_planner(world));
    assert_true(world->join_count > 0);
    for (size_t i = 0; i < world->join_count; i++) {
        const map_planner_join *join = &world->joins[i];
        const cluster_map_slot *slot = &world->map.slots[join->slot];
        assert_true(slot->chain[slot->count - 1].server == join->tail && join->epoch == slot->epoch);
        assert_int_equal(cluster_map_place(slot, join->server, join->incarnation), -1);
    }
}

static void a_ready_gate_makes_a_joiner_full(void **state) {
    world *world = *state;
    kill_server(world, 2);
    assert_true(map_planner(world));
    decide(world);
    assert_false(map_planner(world));
    map_planner_join join = world->joins[0];
    map_planner_gate *gate = &world->gates[join.slot];
    *gate = (map_planner_gate){.epoch = join.epoch, .server = join.server, .incarnation = join.incarnation};
    assert_false(map_planner(world)); /* a gate whose joiner is not ready */
    gate->ready = true;
    gate->epoch--;
    assert_false(map_planner(world)); /* a report of another epoch has no effect */
    gate->epoch++;
    assert_true(map_planner(world));
    const cluster_map_slot *slot = &world->next.slots[join.slot];
    int place = cluster_map_place(slot, join.server, join.incarnation);
    assert_true(slot->count == 3 && place >= 0 && slot->epoch == 3 && slot->chain[place].since == 3);
    for (int i = 0; i < 3; i++)
        if (i != place) assert_true(slot->chain[i].since == 1);
}

static void a_gate_whose_joiner_is_gone_ends(void **state) {
    world *world = *state;
    /* the joiner's process was replaced */
    world->gates[5] = (map_planner_gate){.epoch = 1, .server = 1, .incarnation = 9, .ready = true};
    assert_true(map_planner(world));
    assert_true(world->next.slots[5].epoch == 2);
    assert_memory_equal(world->next.slots[5].chain, world->map.slots[5].chain, 3 * sizeof(cluster_map_member));
}

static void the_last_copy_is_never_given_up(void **state) {
    world *world = *state;
    for (size_t i = 0; i < SERVERS; i++) world->servers[i].alive = false;
    make_ring(world);
    assert_false(map_planner(world));
    world->servers[3].alive = true;
    make_ring(world);
    assert_true(map_planner(world));
    for (size_t i = 0; i < SLOTS; i++) {
        bool has = cluster_map_place(&world->map.slots[i], 3, 13) >= 0;
        assert_int_equal(world->next.slots[i].count, has ? 1 : 3);
    }
}

static void nothing_is_built_on_who_may_be_dead(void **state) {
    world *world = *state;
    uint32_t slot = 0, other = 0;
    while (cluster_map_place(&world->map.slots[slot], other, 10 + other) >= 0) other++;
    world->pins[0] = (slot_placement_pin){slot, 1, {other}};
    world->facts.pins = world->pins;
    world->facts.pin_count = 1;
    world->gates[slot] = (map_planner_gate){.epoch = 1, .server = other, .incarnation = 10 + other, .ready = true};
    world->servers[other].doubted = true;
    assert_false(map_planner(world)); /* a doubted joiner does not enter, even if it is ready */
    world->servers[other].doubted = false;
    assert_true(map_planner(world));

    const cluster_map_slot *chain = &world->map.slots[slot];
    memset(world->gates, 0, sizeof world->gates);
    world->facts.pin_count = 0;
    for (size_t i = 0; i < 3; i++) { /* one member is dead, the other two are doubted */
        world->servers[chain->chain[i].server].alive = i != 0;
        world->servers[chain->chain[i].server].doubted = i != 0;
    }
    make_ring(world);
    assert_false(map_planner(world) && world->next.slots[slot].epoch != 1);
    world->servers[chain->chain[1].server].doubted = false; /* a message of one member arrived */
    assert_true(map_planner(world) && world->next.slots[slot].count == 2);
}

static void planned_moves_are_stored_and_done_by_a_join(void **state) {
    world *world = *state;
    uint32_t other = 0, last = world->map.slots[0].chain[2].server;
    while (cluster_map_place(&world->map.slots[0], other, 10 + other) >= 0) other++;
    map_planner_wish wish = {.slot = 0, .home = 1 + other};
    world->facts.wishes = &wish;
    world->facts.wish_count = 1;
    assert_true(map_planner(world));
    assert_true(world->next.slots[0].home == 1 + other && world->next.slots[0].epoch == 2);
    assert_memory_equal(world->next.slots[0].chain, world->map.slots[0].chain, 3 * sizeof(cluster_map_member));
    decide(world);
    assert_false(map_planner(world)); /* the wish is in the cluster map */
    world->facts.wish_count = 0;
    assert_false(map_planner(world));
    assert_true(world->join_count == 1 && world->joins[0].slot == 0 && world->joins[0].server == other);
    world->gates[0] = (map_planner_gate){.epoch = 2, .server = other, .incarnation = 10 + other, .ready = true};
    assert_true(map_planner(world));
    decide(world);
    assert_true(world->map.slots[0].count == 3 && world->map.slots[0].chain[0].server == other);
    assert_int_equal(cluster_map_place(&world->map.slots[0], last, 10 + last), -1); /* one member came, one left */
    world->pins[0] = (slot_placement_pin){0, 1, {last}};
    world->facts.pins = world->pins;
    world->facts.pin_count = 1;
    if (map_planner(world)) decide(world); /* a pin takes precedence */
    assert_false(map_planner(world));
    assert_true(world->join_count == 1 && world->joins[0].server == last);
}

static void copies_for_reading_leave_room_in_the_chain(void **state) {
    world *world = *state;
    assert_true(map_planner_copies(1, 0) == 1 && map_planner_copies(1, 1) == 2 &&
                map_planner_copies(2, 5) == CLUSTER_MAP_COPIES_MAX - 1);
    assert_true(map_planner_copies(CLUSTER_MAP_COPIES_MAX, 1) == CLUSTER_MAP_COPIES_MAX);
    world->map.copies = 2;
    for (uint32_t i = 0; i < SLOTS; i++) world->map.slots[i].count = 2;
    map_planner_wish wish = {.slot = 6, .more = 1};
    world->facts.wishes = &wish;
    world->facts.wish_count = 1;
    assert_true(map_planner(world));
    decide(world);
    assert_false(map_planner(world));
    assert_true(world->join_count == 1 && world->joins[0].slot == 6);
}

static void a_slot_is_lost_when_all_its_servers_came_back(void **state) {
    world *world = *state;
    const cluster_map_slot *slot = &world->map.slots[7];
    for (size_t i = 0; i < 3; i++) {
        assert_false(map_planner_is_lost(&world->map, &world->facts, 7));
        world->servers[slot->chain[i].server].alive = i == 1; /* silence alone does not prove a loss */
        world->servers[slot->chain[i].server].incarnation += 100;
    }
    assert_true(map_planner_is_lost(&world->map, &world->facts, 7));
}

static void a_pinned_slot_moves_by_a_join_and_then_leads(void **state) {
    world *world = *state;
    uint32_t slot = 0, other = 0;
    while (cluster_map_place(&world->map.slots[slot], other, 10 + other) >= 0) other++;
    world->pins[0] = (slot_placement_pin){slot, 1, {other}};
    world->facts.pins = world->pins;
    world->facts.pin_count = 1;
    assert_false(map_planner(world));
    assert_int_equal(world->join_count, 1);
    assert_true(world->joins[0].slot == slot && world->joins[0].server == other);
    world->gates[slot] = (map_planner_gate){.epoch = 1, .server = other, .incarnation = 10 + other, .ready = true};
    assert_true(map_planner(world));
    assert_true(world->next.slots[slot].count == 3 && world->next.slots[slot].chain[0].server == other);
    decide(world);
    assert_false(map_planner(world));
    assert_int_equal(world->join_count, 0);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static size_t slots_of(const world *world, uint32_t server) {
    size_t count = 0;
    for (size_t i = 0; i < SLOTS; i++) count += cluster_map_place(&world->map.slots[i], server, 10 + server) >= 0;
    return count;
}

static void a_leaving_server_keeps_its_slots_until_they_moved(void **state) {
    world *world = *state;
    size_t before = slots_of(world, 2);
    world->servers[2].leaves = true;
    make_ring(world);
    if (map_planner(world)) decide(world); /* the draining server becomes the tail of its chains */
    assert_int_equal(slots_of(world, 2), before);
    assert_false(map_planner(world));
    assert_int_equal(world->join_count, before);
    for (size_t i = 0; i < world->join_count; i++) {
        const map_planner_join *join = &world->joins[i];
        assert_int_equal(join->tail, 2);
        world->gates[join->slot] = (map_planner_gate){join->epoch, join->incarnation, join->server, true};
    }
    assert_true(map_planner(world));
    decide(world);
    assert_int_equal(slots_of(world, 2), 0);
    for (size_t i = 0; i < SLOTS; i++) assert_int_equal(world->map.slots[i].count, 3);
}

static void if_all_servers_leave_none_may(void **state) {
    world *world = *state;
    for (size_t i = 0; i < SERVERS; i++) world->servers[i].leaves = true;
    make_ring(world);
    assert_false(map_planner(world));
    assert_int_equal(world->join_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(the_first_map_is_the_target),
        IN_WORLD(the_dead_are_taken_out_and_replaced_by_joins),
        IN_WORLD(a_ready_gate_makes_a_joiner_full),
        IN_WORLD(a_gate_whose_joiner_is_gone_ends),
        IN_WORLD(the_last_copy_is_never_given_up),
        IN_WORLD(nothing_is_built_on_who_may_be_dead),
        IN_WORLD(planned_moves_are_stored_and_done_by_a_join),
        IN_WORLD(copies_for_reading_leave_room_in_the_chain),
        IN_WORLD(a_slot_is_lost_when_all_its_servers_came_back),
        IN_WORLD(a_pinned_slot_moves_by_a_join_and_then_leads),
        cmocka_unit_test_setup_teardown(a_leaving_server_keeps_its_slots_until_they_moved, setup, teardown),
        cmocka_unit_test_setup_teardown(if_all_servers_leave_none_may, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
