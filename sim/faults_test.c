/* faults_test.c — every seed has its own mixture of faults, limits hold, and at the end every fault is healed. */
#include "sim/faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 6, UNTIL_US = 3000000 };

static void *start(sim_node *node, const env *env, void *argument) { return argument; }
static void stop(void *state) {}
static const sim_program program = {.name = "none", .start = start, .stop = stop};

typedef struct world {
    scenario_options options;
    sim *sim;
    faults *faults;
    size_t down_most, cuts_most;
} world;

static bool not_the_first(void *context, sim_node *node) { return sim_node_index(node) != 0; }
static bool not_the_last(void *context, sim_node *node) { return sim_node_index(node) != NODES - 1; }

static void world_open(world *world, uint64_t seed, const fault_limits *limits, uint64_t faults_max) {
    memset(world, 0, sizeof *world);
    world->options = scenario_options_of(seed, NULL);
    world->options.faults_max = faults_max;
    world->sim = sim_create(&world->options);
    for (size_t i = 0; i < NODES; i++) sim_node_start(sim_node_add(world->sim, NULL, &program, world));
    world->faults = faults_create(world->sim, limits);
}

static scenario_result world_close(world *world) {
    scenario_result result;
    faults_destroy(world->faults);
    sim_finish(world->sim, &result);
    return result;
}

static size_t down_count(const world *world) {
    size_t down = 0;
    for (size_t i = 0; i < NODES; i++) down += !sim_node_up(sim_node_at(world->sim, i));
    return down;
}

static size_t cut_count(const world *world) {
    size_t cuts = 0;
    for (size_t i = 0; i < NODES; i++)
        for (size_t j = 0; j < NODES; j++)
            cuts +=
                sim_network_is_cut(sim_get_network(world->sim), sim_node_at(world->sim, i), sim_node_at(world->sim, j));
    return cuts;
}

/* Called after every event; never ends the run. */
static bool watch(void *context) {
    world *world = context;
    size_t down = down_count(world), cuts = cut_count(world);
    if (down > world->down_most) world->down_most = down;
    if (cuts > world->cuts_most) world->cuts_most = cuts;
    assert_true(sim_node_up(sim_node_at(world->sim, 0)));
    assert_false(faults_dead(world->faults, sim_node_at(world->sim, NODES - 1)));
    return false;
}

static const fault_limits limits = {.allowed = FAULT_ALL,
                                    .from_us = 1000,
                                    .until_us = UNTIL_US,
                                    .down_max = 2,
                                    .dead_max = 1,
                                    .may_crash = not_the_first,
                                    .may_die = not_the_last};

static void limits_hold_and_all_heals(void **state) {
    size_t dead = 0, two_down = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        world world;
        bool held;
        world_open(&world, seed, &limits, UINT64_MAX);
        assert_true(sim_run_until(world.sim, UNTIL_US + FAULTS_HEAL_US, watch, &world, &held));
        assert_true(world.down_most <= 2);
        two_down += world.down_most == 2;
        cut += world.cuts_most > 0;
        assert_int_equal(cut_count(&world), 0);
        size_t dead_here = 0;
        for (size_t i = 0; i < NODES; i++) {
            sim_node *node = sim_node_at(world.sim, i);
            bool is_dead = faults_dead(world.faults, node);
            dead_here += is_dead;
            assert_true(sim_node_up(node) != is_dead);
            assert_int_equal(sim_node_free_at_us(node), sim_now_us(world.sim)); /* no node is paused any more */
        }
        assert_true(dead_here <= 1);
        dead += dead_here;
        assert_memory_equal(sim_network_now(sim_get_network(world.sim)), &sim_network_calm, sizeof sim_network_calm);
        world_close(&world);
    }
    assert_true(dead > 10 && two_down > 10 && cut > 50);
}

static void every_kind_is_on_in_about_half_of_the_seeds(void **state) {
    int on[FAULT_COUNT] = {0};
    for (uint64_t seed = 1; seed <= 400; seed++) {
        world world;
        world_open(&world, seed, &limits, UINT64_MAX);
        for (int kind = 0; kind < FAULT_COUNT; kind++) on[kind] += (faults_kinds(world.faults) >> kind) & 1;
        world_close(&world);
    }
    for (int kind = 0; kind < FAULT_COUNT; kind++) assert_in_range(on[kind], 140, 260);
}

static void only_what_is_allowed_happens(void **state) {
    fault_limits only_loss = limits;
    only_loss.allowed = FAULT_BIT(FAULT_LOSS) | FAULT_BIT(FAULT_DUPLICATE);
    for (uint64_t seed = 1; seed <= 50; seed++) {
        world world;
        bool held;
        world_open(&world, seed, &only_loss, UINT64_MAX);
        assert_true(sim_run_until(world.sim, 1500000, watch, &world, &held));
        assert_int_equal(faults_kinds(world.faults) & ~only_loss.allowed, 0);
        const sim_network_conditions *now = sim_network_now(sim_get_network(world.sim));
        assert_true(now->reorder == 0 && now->slow == 0 && now->busy == 0 && now->reset == 0);
        assert_true((now->loss > 0) == ((faults_kinds(world.faults) & FAULT_BIT(FAULT_LOSS)) != 0));
        assert_int_equal(world.down_most + world.cuts_most, 0);
        world_close(&world);
    }
}

static uint64_t crashes_of(uint64_t seed, uint64_t faults_max) {
    world world;
    world_open(&world, seed, &limits, faults_max);
    assert_true(sim_run(world.sim, UNTIL_US + FAULTS_HEAL_US));
    scenario_result result = world_close(&world);
    for (size_t i = 0; i < result.counter_count; i++)
        if (strcmp(result.counters[i].name, "crashes") == 0) return result.counters[i].value;
    return 0;
}

static void a_plan_can_be_cut_short(void **state) {
    uint64_t all = 0, few = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        assert_int_equal(crashes_of(seed, 0), 0);
        uint64_t part = crashes_of(seed, 10);
        assert_true(part <= 10);
        few += part;
        all += crashes_of(seed, UINT64_MAX);
    }
    assert_true(few > 10 && all > few);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_hold_and_all_heals),
        cmocka_unit_test(every_kind_is_on_in_about_half_of_the_seeds),
        cmocka_unit_test(only_what_is_allowed_happens),
        cmocka_unit_test(a_plan_can_be_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
