/* runtime_scenario.c — see runtime_scenario.h.
 *
 * A few drivers that start and end on one machine (sim_runtime.h): graphs of tasks, nested ones, joins, batches, actors
 * and calls, cancellations (of bodies that check for it and of bodies that do not), results without a waiter. Some
 * seeds have detached actors, which others call after their job is over; large values, which lie in shared memory
 * (sim_store.h); placement groups; and streams (sim_stream.h). The network models shared memory: it loses and reorders
 * nothing, delays messages, and is full at times; in some seeds links between drivers and workers break.
 *
 *   trouble   workers die at any moment or fail to start; drivers die, and sometimes the node
 *   calm      no process dies any more, nothing is submitted: every work ends. In some seeds no worker starts for the
 *             first seconds: works may fail, but actors without a limit of restarts wait
 *   rest      results are dropped, actors killed: no lease and no object is left, no resource is in use
 *   empty     the drivers leave: no worker is left
 *
 * In the scenario `memory` the node also ends workers to free memory, which oom_policy.h chooses: a task that is then
 * retried has lost no retry.
 *
 * The checker (runtime_checker.h) checks every work. */
#include "sim/runtime/runtime_scenario.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/node/node_internal.h"
#include "sim/runtime/sim_runtime.h"
#include "sim/sim_network.h"

#define TROUBLE_US INT64_C(40000)
#define CALM_US    INT64_C(2000000)
#define REST_US    INT64_C(5000000) /* leases stay idle for a while, one after the other */
#define EMPTY_US   INT64_C(100000)
#define ACT_US     INT64_C(1500)
#define OUTAGE_US  INT64_C(4000000)
#define RETRY_US   INT64_C(5000000) /* the node's longest wait after failed starts */
#define DEATH_US   INT64_C(6000)
#define EVICTIONS  0.6 /* share of ends for memory among the deaths of workers, in the scenario `memory` */
#define KILL_US    INT64_C(3000)
#define LATE_US    INT64_C(10000)

#define LARGE_SEEDS  0.06 /* rare, because memory for large values dominates the run time */
#define OUTAGE_SEEDS 0.1
#define ARENA_BYTES  (ARENA_EXTENTS_OFFSET + (UINT64_C(24) << 20))

static sim_runtime *cluster_of(const sim_node *node) { return sim_node_state(node); }

/* ---- Trouble. */

static void act(void *context, uint64_t unused) {
    sim_runtime *runtime = context;
    sim_runtime_world *world = runtime->world;
    rng *rng = sim_rng(world->sim);
    if (world->quiet) return;
    uint64_t what = rng_below(rng, 100);
    if (!sim_runtime_is_ready(runtime))
        ;
    else if (what < 5)
        sim_runtime_join(runtime);
    else if (what < 10)
        sim_runtime_group(runtime);
    else if (what < 80 - world->cancels)
        sim_runtime_submit(runtime);
    else if (what < 80)
        sim_runtime_cancel(runtime);
    else if (what < 90)
        sim_runtime_drop(runtime, rng_below(rng, SIM_RUNTIME_KEPT));
    else if (rng_chance(rng, world->places))
        sim_runtime_place(runtime);
    else
        sim_runtime_actor(runtime);
    sim_node_after(runtime->node, rng_between(rng, 1, ACT_US), act, runtime, 0);
}

static void add_driver(sim_runtime_world *world) {
    if (world->driver_count == SIM_RUNTIME_DRIVERS) return;
    sim_node *node = sim_node_add(world->sim, NULL, &runtime_driver_program, world);
    world->drivers[world->driver_count++] = node;
    sim_node_start(node);
    sim_node_after(node, 1, act, sim_node_state(node), 0);
}

static void lose_worker(sim_runtime_world *world) {
    if (world->site_count == 0) return;
    size_t start = rng_below(sim_rng(world->sim), world->site_count);
    for (size_t i = 0; i < world->site_count; i++) {
        sim_runtime_site *site = &world->sites[(start + i) % world->site_count];
        if (site->ended || !sim_node_up(site->node)) continue;
        sim_count(world->sim, "workers lost", 1);
        sim_runtime_world_lose(world, site);
        return;
    }
}

static void lose_driver(sim_runtime_world *world) {
    sim_node *node = world->drivers[rng_below(sim_rng(world->sim), world->driver_count)];
    if (!sim_node_up(node) || world->driver_count == SIM_RUNTIME_DRIVERS) return;
    sim_count(world->sim, "drivers lost", 1);
    sim_node_crash(node, false);
    runtime_checker_died(&world->checker);
    add_driver(world);
}

/* Breaks all links between two processes other than the node. */
static void break_links(sim_runtime_world *world) {
    rng *rng = sim_rng(world->sim);
    sim_node *driver = world->drivers[rng_below(rng, world->driver_count)];
    const sim_runtime_site *one = &world->sites[rng_below(rng, world->site_count)],
                           *other = &world->sites[rng_below(rng, world->site_count)];
    sim_node *a = rng_chance(rng, 0.7) ? driver : one->node, *b = other->node;
    if (a == b || !sim_node_up(a) || !sim_node_up(b)) return;
    sim_count(world->sim, "links reset", 1);
    runtime_checker_reset(&world->checker, cluster_of(a)->process, cluster_of(b)->process);
    sim_network_break_links(sim_get_network(world->sim), a, b);
}

static void strike(void *context, uint64_t node_dies) {
    sim_runtime_world *world = context;
    rng *rng = sim_rng(world->sim);
    if (!world->faulty) return;
    if (!sim_fault_strikes(world->sim, world->strikes++)) {
        sim_after(world->sim, rng_between(rng, 1, DEATH_US), strike, world, node_dies);
        return;
    }
    if (node_dies && rng_chance(rng, 0.1) && !world->checker.node_dead) {
        world->checker.node_dead = true;
        sim_count(world->sim, "nodes lost", 1);
        sim_node_crash(world->node, false);
    } else if (rng_chance(rng, world->detached > 0 ? 0.3 : 0.1)) {
        lose_driver(world);
    } else if (world->site_count >= SIM_RUNTIME_SITES / 2) {
        ; /* some are kept for the calm phase */
    } else if (world->resets && world->site_count > 0 && rng_chance(rng, 0.4)) {
        break_links(world);
    } else if (world->memory && rng_chance(rng, EVICTIONS)) {
        sim_runtime_world_evict(world);
    } else {
        lose_worker(world);
    }
    sim_after(world->sim, rng_between(rng, 1, DEATH_US), strike, world, node_dies);
}

/* ---- The phases. */

static bool all_ended(void *context) {
    const sim_runtime_world *world = context;
    for (size_t i = 0; i < world->driver_count; i++)
        if (sim_node_up(world->drivers[i]) && !list_empty(&cluster_of(world->drivers[i])->takers)) return false;
    return runtime_checker_open_count(&world->checker) == 0;
}

static void drop_all(void *context, uint64_t unused) {
    sim_runtime *runtime = context;
    if (!runtime->worker.joined && runtime->worker.over == NULL) { /* just started: mr_init has not returned */
        sim_node_after(runtime->node, LATE_US, drop_all, runtime, 0);
        return;
    }
    sim_runtime_kill_actors(runtime);
    for (size_t i = 0; i < SIM_RUNTIME_KEPT; i++) sim_runtime_drop(runtime, i);
}

static void on_drivers(sim_runtime_world *world, sim_fn *fn) {
    for (size_t i = 0; i < world->driver_count; i++)
        if (sim_node_up(world->drivers[i])) sim_node_after(world->drivers[i], 1, fn, cluster_of(world->drivers[i]), 1);
}

static void remove_places(void *context, uint64_t again) {
    sim_runtime *runtime = context;
    sim_runtime_remove_places(runtime);
    if (again) sim_node_after(runtime->node, LATE_US, remove_places, runtime, 0); /* some requests were in flight */
}

static bool is_at_rest(void *context) {
    const sim_runtime_world *world = context;
    for (size_t i = 0; i < world->driver_count; i++) {
        const sim_runtime *runtime = cluster_of(world->drivers[i]);
        if (runtime != NULL && !sim_runtime_is_idle(runtime)) return false;
    }
    const node_core *core = sim_runtime_world_core(world);
    if (core == NULL) return true;
    scheduler_stats stats = scheduler_stats_now(core->scheduler);
    if (stats.leases != 0 || stats.waiting != 0 || !resources_equal(&stats.free, &stats.total)) return false;
    if (!list_empty(&core->actors.list) || core->groups.count != 0) return false;
    runtime_store_server *server = sim_runtime_world_store_server(world);
    return server == NULL || runtime_store_server_look(server).objects == 0;
}

static void check_rest(sim_runtime_world *world) {
    for (size_t i = 0; i < world->driver_count; i++) {
        const sim_runtime *runtime = cluster_of(world->drivers[i]);
        if (runtime != NULL && !sim_runtime_is_idle(runtime))
            sim_violation(world->sim, "a driver has nothing to do, but %u tasks and %zu objects are left, leases: %d",
                          runtime->worker.tasks.slab.taken, runtime->worker.objects.count,
                          (int)tasks_have_leases(&runtime->worker.tasks));
    }
    const node_core *core = sim_runtime_world_core(world);
    if (core == NULL) return;
    scheduler_stats stats = scheduler_stats_now(core->scheduler);
    if (stats.leases != 0 || stats.waiting != 0 || !resources_equal(&stats.free, &stats.total))
        sim_violation(world->sim, "nobody does anything, but %u leases and %u requests are left", stats.leases,
                      stats.waiting);
    if (!list_empty(&core->actors.list)) sim_violation(world->sim, "all actors were killed, but one lives");
    if (core->groups.count != 0) sim_violation(world->sim, "all placement groups were removed, but one is left");
    scheduler_check(core->scheduler);
    runtime_store_server *server = sim_runtime_world_store_server(world);
    if (server != NULL && runtime_store_server_look(server).objects != 0)
        sim_violation(world->sim, "nobody has anything, but %u objects are left in the store",
                      runtime_store_server_look(server).objects);
}

static void check_empty(sim_runtime_world *world) {
    if (sim_runtime_world_workers(world) != 0)
        sim_violation(world->sim, "all drivers are gone, but %zu workers are left", sim_runtime_world_workers(world));
    const node_core *core = sim_runtime_world_core(world);
    if (core != NULL && (core->by_link.count != 0 || core->programs.count != 0 || core->starting.count != 0))
        sim_violation(world->sim, "all are gone, but the node knows %zu links, %zu programs", core->by_link.count,
                      core->programs.count);
    runtime_store_server *server = sim_runtime_world_store_server(world);
    if (server == NULL) return;
    store_server_stats stats = runtime_store_server_look(server);
    if (stats.processes != 0 || stats.stretches != 0 || stats.objects != 0)
        sim_violation(world->sim, "all are gone, but the vault knows %u processes, %u stretches, %u objects",
                      stats.processes, stats.stretches, stats.objects);
}

static void play(sim_runtime_world *world) {
    bool ended;
    if (!sim_run(world->sim, TROUBLE_US)) return;
    world->faulty = false;
    world->quiet = true;
    on_drivers(world, remove_places);
    int64_t late_us = world->outage_us[1] == 0 ? 0 : world->outage_us[1] + RETRY_US; /* until workers start again */
    if (world->memory) late_us += RETRY_US;                                          /* evicted tasks pause */
    if (!sim_run_until(world->sim, TROUBLE_US + CALM_US + late_us, all_ended, world, &ended)) return;
    if (!ended) {
        const node_core *core = sim_runtime_world_core(world);
        if (core != NULL) {
            char left[128];
            scheduler_stats stats = scheduler_stats_now(core->scheduler);
            resources_text(&stats.free, left, sizeof left);
            sim_note(world->sim, world->node,
                     "%u clients, %u workers, %u idle, %u starting, %u leases, %u wait, free: %s", stats.clients,
                     stats.workers, stats.idle, stats.starting, stats.leases, stats.waiting, left);
        }
        runtime_checker_complain(&world->checker);
        sim_violation(world->sim, "all works have ended, but a stream has not");
        return;
    }
    sim_runtime_world_check_actors(world);
    if (!sim_run(world->sim, sim_now_us(world->sim) + LATE_US)) return; /* messages of dead drivers arrive, too */
    on_drivers(world, drop_all);
    if (!sim_run_until(world->sim, sim_now_us(world->sim) + REST_US + late_us, is_at_rest, world, &ended)) return;
    check_rest(world);
    for (size_t i = 0; i < world->driver_count; i++)
        if (sim_node_up(world->drivers[i])) sim_node_crash(world->drivers[i], false);
    if (!sim_run(world->sim, sim_now_us(world->sim) + EMPTY_US)) return;
    check_empty(world);
}

static void use_network(sim *sim, const sim_network_conditions *conditions) {
    sim_network_set(sim_get_network(sim), conditions);
    sim_note(sim, NULL, "delays up to %d us, slow %.2f, full %.2f", (int)conditions->delay_max_us, conditions->slow,
             conditions->busy);
}

static void set_network(sim *sim, rng *rng) {
    sim_network_conditions conditions = sim_network_calm;
    conditions.delay_min_us = 1;
    conditions.delay_max_us = rng_between(rng, 5, 300);
    if (rng_chance(rng, 0.3)) {
        conditions.slow = 0.05;
        conditions.slow_max_us = 3000;
    }
    if (rng_chance(rng, 0.3)) conditions.busy = rng_unit(rng) * 0.3;
    use_network(sim, &conditions);
}

/* Large values are passed by reference: the messages about them take long and overtake others, and many works are
 * cancelled. */
static void begin_large(sim_runtime_world *world, rng *rng) {
    sim_network_conditions conditions = sim_network_calm;
    conditions.delay_min_us = 1;
    conditions.delay_max_us = 300;
    conditions.slow = 0.3;
    conditions.slow_max_us = 3000;
    use_network(world->sim, &conditions);
    world->cancels = 20 + (uint32_t)rng_below(rng, 40);
    if (arena_create(ARENA_BYTES, &world->arena) != MR_OK) MR_UNREACHABLE();
}

/* Draws from a generator of its own, so that a seed without an outage keeps its course. */
static void plan_outage(sim_runtime_world *world, uint64_t seed) {
    rng rng;
    rng_init(&rng, ~seed);
    if (!rng_chance(&rng, OUTAGE_SEEDS)) return;
    world->outage_us[0] = rng_between(&rng, 1, TROUBLE_US);
    world->outage_us[1] = world->outage_us[0] + rng_between(&rng, OUTAGE_US / 2, OUTAGE_US);
    sim_note(world->sim, world->node, "no worker starts from %d us to %d us", (int)world->outage_us[0],
             (int)world->outage_us[1]);
}

static void run_with(const scenario_options *options, bool memory, scenario_result *result) {
    sim_runtime_world *world = xcalloc(1, sizeof *world);
    sim *sim = sim_create(options);
    rng *rng = sim_rng(sim);
    sim_runtime_world_init(world, sim);
    world->memory = memory;
    set_network(sim, rng);
    if (resources_set(&world->total, "cpu", (double)rng_between(rng, 1, 4)) != MR_OK) MR_UNREACHABLE();
    world->workers_wanted = (uint32_t)rng_between(rng, 1, 4);
    world->checker.nesting = rng_chance(rng, 0.6) ? (uint32_t)rng_below(rng, 400) : 0;
    world->checker.large = rng_chance(rng, LARGE_SEEDS);
    world->checker.streams = rng_chance(rng, 0.5);
    world->cancels = rng_chance(rng, 0.3) ? (uint32_t)rng_below(rng, 40) : 10;
    if (world->checker.large) begin_large(world, rng);
    world->start_failures = rng_chance(rng, 0.2) ? 0.2 : 0;
    world->resets = rng_chance(rng, 0.2);
    world->detached = rng_chance(rng, 0.4) ? 0.6 : 0;
    world->places = rng_chance(rng, 0.3) ? 0.5 : 0;
    world->kill_us = rng_chance(rng, 0.5) ? rng_between(rng, 100, KILL_US) : 1;
    world->body_us = rng_between(rng, 10, 2000);
    world->faulty = true;
    plan_outage(world, options->seed);
    sim_node_start(world->node);
    for (uint64_t i = 1 + rng_below(rng, 2); i > 0; i--) add_driver(world);
    if (rng_chance(rng, 0.85)) {
        bool node_dies = rng_chance(rng, 0.1);
        sim_after(sim, rng_between(rng, 1, DEATH_US), strike, world, node_dies);
    }
    play(world);
    sim_finish(sim, result);
    sim_runtime_world_fini(world);
    free(world);
}

static void run(const scenario_options *options, scenario_result *result) { run_with(options, false, result); }
static void run_memory(const scenario_options *options, scenario_result *result) { run_with(options, true, result); }

static const scenario_mutation mutations[] = {
    {"no-lending", "a worker that blocks keeps its resources", 300},
    {"no-tell", "do not report an actor's death to callers that wait for it", 300},
    {"no-restart-count", "restart an actor more often than max_restarts", 300},
    {"no-evict", "leave an actor waiting for room in a removed placement group", 1000},
    {"no-refuse", "do not report a group's removal to callers that wait for it", 300},
    {"no-patient-actors", "end actors without a limit of restarts when several starts of workers have failed", 300},
    {"no-doom", "give a worker of an ended driver to a detached actor before the worker is dead", 800},
    {"no-requeue", "do not retry a task that was lost with its worker", 300},
    {"no-retry-count", "retry a task without a limit", 800},
    {"no-order", "let a call overtake an earlier call that waits for its arguments", 300},
    {"no-release", "keep a lease without work", 300},
    {"no-hold", "calls of a batch start before the batch is submitted", 300},
    {"fail-and-retry", "a task that is retried fails as well", 300},
    {"no-keep", "a worker releases the objects in its reply at once", 3000},
    {"no-took", "a caller does not acknowledge the objects in a reply", 3000},
    {"no-crossing", "a worker keeps the objects in its reply after the call was cancelled", 3000},
    {"no-sweep", "holds of a dead process are kept", 3000},
    {"no-late-cancel", "tasks submitted by a cancelled body run", 3000},
    {"no-began", "retry a stream after its first item has arrived", 1000},
    {"no-ahead", "ask for more items of a stream than its window", 300},
    {"no-abandon", "do not tell the body of a stream that its reader is gone", 300},
    {"no-line", "give an item of a stream to the last request instead of the first", 300},
    {"no-end", "do not report the end of a stream to its reader", 300},
    {0},
};

const scenario runtime_scenario = {
    .name = "runtime",
    .doc = "tasks and actors while processes die: each ends once, with the right result, in order",
    .mutations = mutations,
    .run = run};

static const scenario_mutation memory_mutations[] = {
    {"still-idle", "a worker that is ended to free memory still gets tasks and actors", 300},
    {"no-later", "the end of a worker to free memory ends its tasks", 300},
    {0},
};

const scenario memory_scenario = {"memory", "as runtime, with workers that the node ends to free memory",
                                  memory_mutations, run_memory};
