/* plan_test.c — legal changes of chains, and no others. */
#include "ps/plan.h"

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
    plan_server servers[SERVERS];
    plan_gate gates[SLOTS];
    placement_pin pins[1];
    plan_facts facts;
    ring *ring;
    chart chart, next;
    plan_join joins[SLOTS];
    size_t join_count;
} world;

static void make_ring(world *world) {
    ring_server members[SERVERS];
    size_t count = 0;
    for (size_t i = 0; i < SERVERS; i++)
        if (world->servers[i].alive && !world->servers[i].leaves)
            members[count++] = (ring_server){world->servers[i].id, 1};
    if (world->ring != NULL) ring_destroy(world->ring);
    assert_int_equal(ring_create(members, count, &world->ring), MR_OK);
    world->facts.ring = world->ring;
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    for (uint32_t i = 0; i < SERVERS; i++)
        world->servers[i] = (plan_server){i, 10 + i, "somewhere", true, false, false};
    world->facts = (plan_facts){.servers = world->servers, .server_count = SERVERS, .gates = world->gates};
    make_ring(world);
    world->chart = (chart){.copies = 3, .rank_count = 2, .slot_count = SLOTS};
    world->chart.slots = xcalloc(SLOTS, sizeof(chart_slot));
    plan_first(&world->facts, 1, 77, &world->chart);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    ring_destroy(world->ring);
    chart_fini(&world->chart);
    chart_fini(&world->next);
    free(world);
    return 0;
}

static bool plan(world *world) {
    return plan_next(&world->chart, &world->facts, &world->next, world->joins, &world->join_count);
}

static void decide(world *world) {
    assert_true(world->next.number == world->chart.number + 1);
    chart_copy(&world->chart, &world->next);
}

static void kill_server(world *world, size_t index) {
    world->servers[index].alive = false;
    make_ring(world);
}

static void the_first_chart_is_the_target(void **state) {
    world *world = *state;
    assert_true(world->chart.birth == 1 && world->chart.generation == 77 && world->chart.server_count == SERVERS);
    for (size_t i = 0; i < SLOTS; i++) {
        assert_int_equal(world->chart.slots[i].count, 3);
        for (size_t k = 0; k < 3; k++) assert_true(world->chart.slots[i].chain[k].since == 1);
    }
    assert_false(plan(world)); /* and rests */
    assert_int_equal(world->join_count, 0);
}

static void the_dead_are_taken_out_and_replaced_by_joins(void **state) {
    world *world = *state;
    kill_server(world, 2);
    assert_true(plan(world));
    for (size_t i = 0; i < SLOTS; i++) {
        const chart_slot *before = &world->chart.slots[i], *after = &world->next.slots[i];
        bool was = chart_place(before, 2, 12) >= 0;
        assert_int_equal(after->count, was ? 2 : 3);
        assert_true(after->epoch == (was ? 2 : 1)); /* nobody else is disturbed */
        assert_int_equal(chart_place(after, 2, 12), -1);
    }
    decide(world);
    assert_false(plan(world));
    assert_true(world->join_count > 0);
    for (size_t i = 0; i < world->join_count; i++) {
        const plan_join *join = &world->joins[i];
        const chart_slot *slot = &world->chart.slots[join->slot];
        assert_true(slot->chain[slot->count - 1].server == join->tail && join->epoch == slot->epoch);
        assert_int_equal(chart_place(slot, join->server, join->incarnation), -1);
    }
}

static void a_ready_gate_makes_a_joiner_full(void **state) {
    world *world = *state;
    kill_server(world, 2);
    assert_true(plan(world));
    decide(world);
    assert_false(plan(world));
    plan_join join = world->joins[0];
    plan_gate *gate = &world->gates[join.slot];
    *gate = (plan_gate){.epoch = join.epoch, .server = join.server, .incarnation = join.incarnation};
    assert_false(plan(world)); /* gated, not ready */
    gate->ready = true;
    gate->epoch--;
    assert_false(plan(world)); /* of another epoch: void */
    gate->epoch++;
    assert_true(plan(world));
    const chart_slot *slot = &world->next.slots[join.slot];
    int place = chart_place(slot, join.server, join.incarnation);
    assert_true(slot->count == 3 && place >= 0 && slot->epoch == 3 && slot->chain[place].since == 3);
    for (int i = 0; i < 3; i++)
        if (i != place) assert_true(slot->chain[i].since == 1);
}

static void a_gate_whose_joiner_is_gone_ends(void **state) {
    world *world = *state;
    world->gates[5] = (plan_gate){.epoch = 1, .server = 1, .incarnation = 9, .ready = true}; /* an earlier process */
    assert_true(plan(world));
    assert_true(world->next.slots[5].epoch == 2);
    assert_memory_equal(world->next.slots[5].chain, world->chart.slots[5].chain, 3 * sizeof(chart_member));
}

static void the_last_copy_is_never_given_up(void **state) {
    world *world = *state;
    for (size_t i = 0; i < SERVERS; i++) world->servers[i].alive = false;
    make_ring(world);
    assert_false(plan(world));
    world->servers[3].alive = true;
    make_ring(world);
    assert_true(plan(world));
    for (size_t i = 0; i < SLOTS; i++) {
        bool has = chart_place(&world->chart.slots[i], 3, 13) >= 0;
        assert_int_equal(world->next.slots[i].count, has ? 1 : 3);
    }
}

static void nothing_is_built_on_who_may_be_dead(void **state) {
    world *world = *state;
    uint32_t slot = 0, other = 0;
    while (chart_place(&world->chart.slots[slot], other, 10 + other) >= 0) other++;
    world->pins[0] = (placement_pin){slot, 1, {other}};
    world->facts.pins = world->pins;
    world->facts.pin_count = 1;
    world->gates[slot] = (plan_gate){.epoch = 1, .server = other, .incarnation = 10 + other, .ready = true};
    world->servers[other].doubted = true;
    assert_false(plan(world)); /* not even if it is ready */
    world->servers[other].doubted = false;
    assert_true(plan(world));

    const chart_slot *chain = &world->chart.slots[slot];
    memset(world->gates, 0, sizeof world->gates);
    world->facts.pin_count = 0;
    for (size_t i = 0; i < 3; i++) { /* one is silent, the links to the others have broken */
        world->servers[chain->chain[i].server].alive = i != 0;
        world->servers[chain->chain[i].server].doubted = i != 0;
    }
    make_ring(world);
    assert_false(plan(world) && world->next.slots[slot].epoch != 1);
    world->servers[chain->chain[1].server].doubted = false; /* one is heard again */
    assert_true(plan(world) && world->next.slots[slot].count == 2);
}

static void what_the_balancer_wishes_is_written_down_and_moves_by_a_join(void **state) {
    world *world = *state;
    uint32_t other = 0, last = world->chart.slots[0].chain[2].server;
    while (chart_place(&world->chart.slots[0], other, 10 + other) >= 0) other++;
    plan_wish wish = {.slot = 0, .home = 1 + other};
    world->facts.wishes = &wish;
    world->facts.wish_count = 1;
    assert_true(plan(world));
    assert_true(world->next.slots[0].home == 1 + other && world->next.slots[0].epoch == 2);
    assert_memory_equal(world->next.slots[0].chain, world->chart.slots[0].chain, 3 * sizeof(chart_member));
    decide(world);
    assert_false(plan(world)); /* it is granted */
    world->facts.wish_count = 0;
    assert_false(plan(world));
    assert_true(world->join_count == 1 && world->joins[0].slot == 0 && world->joins[0].server == other);
    world->gates[0] = (plan_gate){.epoch = 2, .server = other, .incarnation = 10 + other, .ready = true};
    assert_true(plan(world));
    decide(world);
    assert_true(world->chart.slots[0].count == 3 && world->chart.slots[0].chain[0].server == other);
    assert_int_equal(chart_place(&world->chart.slots[0], last, 10 + last), -1); /* one came, one went */
    world->pins[0] = (placement_pin){0, 1, {last}};
    world->facts.pins = world->pins;
    world->facts.pin_count = 1;
    if (plan(world)) decide(world); /* a pin comes first */
    assert_false(plan(world));
    assert_true(world->join_count == 1 && world->joins[0].server == last);
}

static void copies_for_reading_leave_room_in_the_chain(void **state) {
    world *world = *state;
    assert_true(plan_copies(1, 0) == 1 && plan_copies(1, 1) == 2 && plan_copies(2, 5) == CHART_COPIES_MAX - 1);
    assert_true(plan_copies(CHART_COPIES_MAX, 1) == CHART_COPIES_MAX);
    world->chart.copies = 2;
    for (uint32_t i = 0; i < SLOTS; i++) world->chart.slots[i].count = 2;
    plan_wish wish = {.slot = 6, .more = 1};
    world->facts.wishes = &wish;
    world->facts.wish_count = 1;
    assert_true(plan(world));
    decide(world);
    assert_false(plan(world));
    assert_true(world->join_count == 1 && world->joins[0].slot == 6);
}

static void a_slot_is_lost_when_all_its_servers_came_back(void **state) {
    world *world = *state;
    const chart_slot *slot = &world->chart.slots[7];
    for (size_t i = 0; i < 3; i++) {
        assert_false(plan_is_lost(&world->chart, &world->facts, 7));
        world->servers[slot->chain[i].server].alive = i == 1; /* silence alone is no proof */
        world->servers[slot->chain[i].server].incarnation += 100;
    }
    assert_true(plan_is_lost(&world->chart, &world->facts, 7));
}

static void a_pinned_slot_moves_by_a_join_and_then_leads(void **state) {
    world *world = *state;
    uint32_t slot = 0, other = 0;
    while (chart_place(&world->chart.slots[slot], other, 10 + other) >= 0) other++;
    world->pins[0] = (placement_pin){slot, 1, {other}};
    world->facts.pins = world->pins;
    world->facts.pin_count = 1;
    assert_false(plan(world));
    assert_int_equal(world->join_count, 1);
    assert_true(world->joins[0].slot == slot && world->joins[0].server == other);
    world->gates[slot] = (plan_gate){.epoch = 1, .server = other, .incarnation = 10 + other, .ready = true};
    assert_true(plan(world));
    assert_true(world->next.slots[slot].count == 3 && world->next.slots[slot].chain[0].server == other);
    decide(world);
    assert_false(plan(world));
    assert_int_equal(world->join_count, 0);
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static size_t slots_of(const world *world, uint32_t server) {
    size_t count = 0;
    for (size_t i = 0; i < SLOTS; i++) count += chart_place(&world->chart.slots[i], server, 10 + server) >= 0;
    return count;
}

static void who_leaves_keeps_its_slots_until_others_have_them(void **state) {
    world *world = *state;
    size_t before = slots_of(world, 2);
    world->servers[2].leaves = true;
    make_ring(world);
    if (plan(world)) decide(world); /* it becomes the tail of its chains */
    assert_int_equal(slots_of(world, 2), before);
    assert_false(plan(world));
    assert_int_equal(world->join_count, before);
    for (size_t i = 0; i < world->join_count; i++) {
        const plan_join *join = &world->joins[i];
        assert_int_equal(join->tail, 2);
        world->gates[join->slot] = (plan_gate){join->epoch, join->incarnation, join->server, true};
    }
    assert_true(plan(world));
    decide(world);
    assert_int_equal(slots_of(world, 2), 0);
    for (size_t i = 0; i < SLOTS; i++) assert_int_equal(world->chart.slots[i].count, 3);
}

static void where_all_leave_nobody_goes(void **state) {
    world *world = *state;
    for (size_t i = 0; i < SERVERS; i++) world->servers[i].leaves = true;
    make_ring(world);
    assert_false(plan(world));
    assert_int_equal(world->join_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_WORLD(the_first_chart_is_the_target),
        IN_WORLD(the_dead_are_taken_out_and_replaced_by_joins),
        IN_WORLD(a_ready_gate_makes_a_joiner_full),
        IN_WORLD(a_gate_whose_joiner_is_gone_ends),
        IN_WORLD(the_last_copy_is_never_given_up),
        IN_WORLD(nothing_is_built_on_who_may_be_dead),
        IN_WORLD(what_the_balancer_wishes_is_written_down_and_moves_by_a_join),
        IN_WORLD(copies_for_reading_leave_room_in_the_chain),
        IN_WORLD(a_slot_is_lost_when_all_its_servers_came_back),
        IN_WORLD(a_pinned_slot_moves_by_a_join_and_then_leads),
        cmocka_unit_test_setup_teardown(who_leaves_keeps_its_slots_until_others_have_them, setup, teardown),
        cmocka_unit_test_setup_teardown(where_all_leave_nobody_goes, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
