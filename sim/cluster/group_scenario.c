/* group_scenario.c — a keeper, a marshal, servers and workers: roles and parts of the data under fire.
 *
 * Each seed draws a cluster and its data. Workers claim the data epoch by epoch; everything goes wrong for a while; it
 * heals, and all epochs must be over within SETTLE_US. What is checked at each step has its own file, group_ledger.h.
 * At the end all that was asked of the coordinator must be linearizable (witness.h):
 * incarnations, for which everybody asks at once, and rosters. */
#include "sim/cluster/group_scenario.h"

#include <stdio.h>

#include "sim/cluster/group_party.h"
#include "sim/cluster/keeper_node.h"
#include "sim/faults.h"

#define FAULTS_US INT64_C(4000000)
#define SETTLE_US INT64_C(60000000)

static void add(group_world *world, group_seat *seat, const char *name, uint32_t id, uint8_t role) {
    *seat = (group_seat){.world = world, .id = id, .role = role};
    seat->node = sim_node_add(world->sim, name, &group_member_program, seat);
}

static void build(group_world *world) {
    rng *rng = sim_rng(world->sim);
    uint32_t workers = 1 + (uint32_t)rng_below(rng, 5), servers = (uint32_t)rng_below(rng, 3);
    world->seat_count = workers + servers;
    world->part_count = 1 + (uint32_t)rng_below(rng, GROUP_PARTS_MAX);
    world->epochs = 1 + rng_below(rng, GROUP_EPOCHS_MAX);
    for (uint32_t i = 0; i < world->part_count; i++) world->sizes[i] = 1 + rng_below(rng, GROUP_ITEMS_MAX);
    (void)sim_node_add(world->sim, "keeper", &keeper_node_program, NULL);
    world->marshal = (marshal_seat){world->sizes, world->part_count, &world->book, group_decided, world};
    (void)sim_node_add(world->sim, "marshal", &marshal_node_program, &world->marshal);
    for (uint32_t i = 0; i < world->seat_count; i++) {
        char name[SIM_NAME_MAX];
        snprintf(name, sizeof name, i < workers ? "w%u" : "s%u", i);
        add(world, &world->seats[i], name, i, i < workers ? ROSTER_WORKER : ROSTER_SERVER);
    }
    for (size_t i = 0; i < sim_node_count(world->sim); i++) sim_node_start(sim_node_at(world->sim, i));
    sim_note(world->sim, NULL, "%u workers, %u servers, %u parts, %d epochs", workers, servers, world->part_count,
             (int)world->epochs);
}

static bool all_done(void *context) {
    const group_world *world = context;
    for (uint32_t i = 0; i < world->seat_count; i++)
        if (!group_done(&world->seats[i])) return false;
    return true;
}

static void run(const scenario_options *options, scenario_result *result) {
    group_world world = {.sim = sim_create(options)};
    group_ledger_init(&world.ledger, world.sim);
    world.book.sim = world.sim;
    build(&world);
    fault_limits limits = {.allowed = FAULT_ALL, .until_us = FAULTS_US, .down_max = 1 + world.seat_count / 2};
    faults *faults = faults_create(world.sim, &limits);
    bool settled = false;
    if (sim_run(world.sim, FAULTS_US + FAULTS_HEAL_US) &&
        sim_run_until(world.sim, sim_now_us(world.sim) + SETTLE_US, all_done, &world, &settled) && !settled)
        sim_violation(world.sim, "epoch %d of %d, %d s after the faults", (int)world.ledger.roster.epoch,
                      (int)world.epochs, (int)(SETTLE_US / 1000000));
    if (settled) witness_check(&world.book);
    faults_destroy(faults);
    sim_finish(world.sim, result);
    witness_book_fini(&world.book);
    group_ledger_fini(&world.ledger);
}

static const scenario_mutation mutations[] = {
    {"from-start", "a part that changes hands begins anew", 50},
    {"no-handover", "parts stay with who is gone", 20},
    {"no-share", "a worker that comes gets what nobody has", 20},
    {"accept-two-decisions", "the coordinator takes any swap for the version it asks for", 50},
    {"no-sync", "the coordinator answers before a change is durable", 300},
    {0},
};

const scenario group_scenario = {"group", "roles, parts of the data: all of it once in an epoch", mutations, run};
