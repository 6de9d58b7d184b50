/* scheduler_scenario.c — see scheduler_scenario.h.
 *
 * One to three jobs (Ray's sense) with a driver or two each, on a machine with a few CPUs, perhaps GPUs and a custom
 * resource. Each driver has work of two or three shapes, from a hundredth of a CPU to the whole machine; some drivers
 * never run out of work. Work nests. Actors with and without names are created, called, killed and looked up. Placement
 * groups are created, used and removed, and end with their creators, unless they are detached.
 *
 *   trouble   processes end at any moment, workers fail to start, actors fail to be created
 *   load      there are no more failures, and all drivers still have work, in some seeds for long: no client may wait
 *             too long
 *   drain     no new work, no actors: every request is granted and done
 *   empty     the drivers leave: no lease is left, no resource is in use
 *
 * Two checkers (scheduler_checker.h, actor_checker.h) check every event and every decision. */
#include "sim/runtime/scheduler_scenario.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "sim/runtime/scheduler_machine.h"

#define TROUBLE_US INT64_C(15000)
#define LOAD_US    INT64_C(65000)
#define DRAIN_US   INT64_C(200000)
#define WAIT_US    INT64_C(60000) /* maximal wait of a client without failures */
#define GAP_US     INT64_C(700)

enum { DRIVERS_MAX = 5, GREEDY_WORK = 1000000 };

typedef enum phase { PHASE_TROUBLE, PHASE_LOAD, PHASE_DRAIN } phase;

typedef struct world {
    sim *sim;
    machine machine;
    phase phase;
    double deaths;       /* share of ticks in which a process ends */
    double actors;       /* share of ticks with an action on actors */
    double groups;       /* share of ticks with an action on placement groups */
    resources shapes[6]; /* resource needs of work */
    size_t shape_count;
    char unrest[96]; /* a process that still has work at the end */
} world;

/* ---- Random choices. */

static void set(resources *resources, const char *name, double amount) {
    mr_status status = resources_set(resources, name, amount);
    MR_ASSERT(status == MR_OK);
}

static resources draw_total(rng *rng) {
    resources total = {0};
    set(&total, "cpu", (double)rng_between(rng, 1, 4));
    if (rng_chance(rng, 0.5)) set(&total, "gpu", (double)rng_between(rng, 1, 2));
    if (rng_chance(rng, 0.3)) set(&total, "license", 1);
    return total;
}

/* A part of the machine: a fraction, one, everything, or (rarely) more than that. */
static resources draw_shape(rng *rng, const resources *total) {
    resources need = {0};
    for (uint32_t i = 0; i < total->count; i++) {
        const resource *kind = &total->items[i];
        bool is_cpu = kind->name[0] == 'c';
        if (!is_cpu && rng_chance(rng, 0.6)) continue;
        static const double parts[] = {1, 1, 1, 0.5, 0.25, 0.01, 0.333};
        double amount = parts[rng_below(rng, sizeof parts / sizeof *parts)];
        if (rng_chance(rng, 0.15)) amount = (double)kind->milli / 1000;
        if (rng_chance(rng, 0.03)) amount = (double)kind->milli / 1000 + 1;
        set(&need, kind->name, amount);
    }
    if (rng_chance(rng, 0.05)) need = (resources){0};
    return need;
}

static machine_process *add_driver(world *world, uint32_t program) {
    rng *rng = sim_rng(world->sim);
    machine_process *driver = machine_driver(&world->machine, program);
    driver->shape_count = (size_t)rng_between(rng, 1, MACHINE_SHAPES_MAX);
    size_t first = rng_below(rng, world->shape_count);
    for (size_t i = 0; i < driver->shape_count; i++)
        driver->shapes[i].need = world->shapes[(first + i) % world->shape_count];
    bool greedy = rng_chance(rng, 0.4);
    if (greedy && !scheduler_impossible(world->machine.scheduler.scheduler, &driver->shapes[0].need))
        machine_add_work(&world->machine, driver, 0, GREEDY_WORK);
    return driver;
}

/* ---- The workload. */

static machine_process *draw_process(world *world, bool driver) {
    machine *machine = &world->machine;
    size_t start = rng_below(sim_rng(world->sim), machine->process_count);
    for (size_t i = 0; i < machine->process_count; i++) {
        machine_process *process = &machine->processes[(start + i) % machine->process_count];
        if (process->alive && process->is_worker == !driver) return process;
    }
    return NULL;
}

/* The resources of one bundle of the placement group, if that group exists. */
static bool draw_bundle(world *world, const machine_group *group, resources *out) {
    const checker_group *known = scheduler_checker_group(&world->machine.scheduler, group->id);
    if (known == NULL) return false;
    uint32_t bundle = (uint32_t)rng_below(sim_rng(world->sim), known->count);
    *out = known->bundles[bundle];
    out->bundle = rng_chance(sim_rng(world->sim), 0.5) ? bundle + 1 : 0;
    return true;
}

static resources draw_actor(world *world) {
    rng *rng = sim_rng(world->sim);
    resources need = world->shapes[rng_below(rng, world->shape_count)];
    if (world->groups == 0 || rng_chance(rng, 0.5)) return need;
    const machine_group *group = &world->machine.groups[rng_below(rng, MACHINE_GROUPS_MAX)];
    if (draw_bundle(world, group, &need)) need.group = group->id;
    return need;
}

static void act_on_actors(world *world) {
    rng *rng = sim_rng(world->sim);
    actor_checker *actors = &world->machine.actors;
    static const char *const names[] = {"", "", "ada", "bob"};
    size_t index = actors->count == 0 ? 0 : rng_below(rng, actors->count);
    uint64_t what = actors->count == 0 ? 0 : rng_below(rng, 10);
    if (what < 3) {
        uint32_t program = (uint32_t)rng_between(rng, 1, world->machine.program_count);
        resources need = draw_actor(world);
        uint32_t restarts = (uint32_t)rng_below(rng, 3);
        bool made = actor_checker_create(actors, program, names[rng_below(rng, 4)], restarts, &need);
        if (made && need.group != 0) sim_count(world->sim, "actors in groups", 1);
        sim_count(world->sim, made ? "actors" : "actors refused", 1);
    } else if (what < 5) {
        actor_checker_kill(actors, index);
    } else if (what < 7) {
        actor_checker_where(actors, index);
    } else {
        machine_call_actor(&world->machine, index);
    }
}

static void act_on_groups(world *world) {
    rng *rng = sim_rng(world->sim);
    machine *machine = &world->machine;
    machine_process *driver = draw_process(world, true);
    machine_group *group = &machine->groups[rng_below(rng, MACHINE_GROUPS_MAX)];
    uint64_t what = rng_below(rng, 10);
    if (driver == NULL) return;
    if (what < 3) {
        resources bundles[CHECKER_BUNDLES_MAX];
        uint32_t count = (uint32_t)rng_between(rng, 1, CHECKER_BUNDLES_MAX);
        for (uint32_t i = 0; i < count; i++) {
            do bundles[i] = draw_shape(rng, &machine->total);
            while (bundles[i].count == 0);
        }
        bool detached = rng_chance(rng, 0.3), apart = rng_chance(rng, 0.1);
        machine_group_add(machine, driver, bundles, count, apart, detached);
        sim_count(world->sim, "groups", 1);
    } else if (what < 5) {
        machine_group_remove(machine, group);
    } else {
        resources need;
        if (!draw_bundle(world, group, &need)) return;
        size_t shape = rng_below(rng, driver->shape_count);
        machine_use_group(machine, driver, shape, group, &need);
        machine_add_work(machine, driver, shape, (uint32_t)rng_between(rng, 1, 3));
    }
}

static void act_on_work(world *world) {
    rng *rng = sim_rng(world->sim);
    machine_process *driver = draw_process(world, true);
    if (driver == NULL) return;
    if (rng_chance(rng, 0.1) && driver->shapes[0].backlog < GREEDY_WORK / 2) {
        machine_drop_work(&world->machine, driver);
        return;
    }
    uint32_t count = (uint32_t)rng_between(rng, 1, 3);
    machine_add_work(&world->machine, driver, rng_below(rng, driver->shape_count), count);
}

static size_t driver_count(const machine *machine) {
    size_t count = 0;
    for (size_t i = 0; i < machine->process_count; i++)
        count += machine->processes[i].alive && !machine->processes[i].is_worker;
    return count;
}

static void lose_somebody(world *world) {
    rng *rng = sim_rng(world->sim);
    bool driver = rng_chance(rng, 0.2);
    const actor_checker *actors = &world->machine.actors;
    const actor_entry *actor = actors->count == 0 ? NULL : &actors->entries[rng_below(rng, actors->count)];
    bool of_actor = !driver && actor != NULL && actor->process != 0 && rng_chance(rng, 0.5);
    machine_process *process =
        of_actor ? machine_process_of(&world->machine, actor->process) : draw_process(world, driver);
    if (process == NULL) return;
    machine_end(&world->machine, process);
    if (driver && driver_count(&world->machine) < DRIVERS_MAX) add_driver(world, process->program);
}

static void tick(void *context, uint64_t unused) {
    world *world = context;
    rng *rng = sim_rng(world->sim);
    if (world->phase == PHASE_DRAIN) return;
    bool room = machine_alive_count(&world->machine) < MACHINE_ALIVE_MAX;
    if (world->phase == PHASE_TROUBLE && rng_chance(rng, world->deaths)) lose_somebody(world);
    if (rng_chance(rng, world->actors) && room) act_on_actors(world);
    if (rng_chance(rng, world->groups)) act_on_groups(world);
    if (rng_chance(rng, 0.5)) act_on_work(world);
    machine_decide(&world->machine);
    if (world->phase == PHASE_LOAD) scheduler_checker_check_waiting(&world->machine.scheduler, TROUBLE_US, WAIT_US);
    sim_after(world->sim, rng_between(rng, 1, 2 * GAP_US), tick, world, 0);
}

/* ---- The phases. */

static void begin_drain(world *world) {
    machine *machine = &world->machine;
    world->phase = PHASE_DRAIN;
    machine->nesting = 0;
    for (size_t i = 0; i < machine->actors.count; i++) actor_checker_kill(&machine->actors, i);
    for (size_t i = 0; i < MACHINE_GROUPS_MAX; i++) machine_group_remove(machine, &machine->groups[i]);
    for (size_t i = 0; i < machine->process_count; i++) {
        machine_process *process = &machine->processes[i];
        if (!process->alive || process->is_worker) continue;
        bool impossible = false;
        for (size_t k = 0; k < process->shape_count; k++) {
            if (process->shapes[k].backlog > 2) process->shapes[k].backlog = 2;
            impossible |= scheduler_impossible(machine->scheduler.scheduler, &process->shapes[k].need);
        }
        if (impossible) machine_drop_work(machine, process);
    }
    machine_decide(machine);
}

static bool at_rest(void *context) {
    world *world = context;
    return machine_is_at_rest(&world->machine, world->unrest, sizeof world->unrest);
}

static void check_empty(world *world) {
    machine *machine = &world->machine;
    actor_checker_check_told(&machine->actors);
    for (size_t i = 0; i < machine->process_count; i++)
        if (!machine->processes[i].is_worker) machine_end(machine, &machine->processes[i]);
    if (!sim_run(world->sim, sim_now_us(world->sim) + 10000)) return;
    scheduler_stats stats = scheduler_stats_now(machine->scheduler.scheduler);
    if (stats.leases != 0 || stats.waiting != 0 || !resources_equal(&stats.free, &stats.total))
        sim_violation(world->sim, "all clients are gone, but %u leases and %u requests are left", stats.leases,
                      stats.waiting);
    if (stats.idle != stats.workers)
        sim_violation(world->sim, "all clients are gone, but of %u workers %u are idle", stats.workers, stats.idle);
}

static bool play(world *world) {
    machine *machine = &world->machine;
    world->phase = PHASE_TROUBLE;
    machine->faulty = true;
    tick(world, 0);
    if (!sim_run(world->sim, TROUBLE_US)) return false;
    world->phase = PHASE_LOAD;
    machine->faulty = false;
    int64_t calm_us = TROUBLE_US + (rng_chance(sim_rng(world->sim), 0.3) ? LOAD_US : LOAD_US / 15);
    if (!sim_run(world->sim, calm_us)) return false;
    begin_drain(world);
    bool settled;
    if (!sim_run_until(world->sim, calm_us + DRAIN_US, at_rest, world, &settled)) return false;
    if (!settled) {
        scheduler_checker_check_waiting(&machine->scheduler, calm_us, 0);
        sim_violation(world->sim, "nothing fails, nothing is added, and still there is no rest: %s", world->unrest);
    }
    return settled;
}

static void run(const scenario_options *options, scenario_result *result) {
    world world = {.sim = sim_create(options)};
    rng *rng = sim_rng(world.sim);
    resources total = draw_total(rng);
    uint32_t programs = (uint32_t)rng_between(rng, 1, 3);
    machine_init(&world.machine, world.sim, &total, (uint32_t)rng_below(rng, 4), programs);
    world.machine.nesting = rng_chance(rng, 0.6) ? rng_unit(rng) * 0.5 : 0;
    world.machine.spawn_failures = rng_chance(rng, 0.3) ? rng_unit(rng) * 0.8 : 0;
    world.machine.creation_failures = rng_chance(rng, 0.3) ? 0.3 : 0;
    world.machine.job_us = rng_between(rng, 100, 1000);
    world.deaths = rng_chance(rng, 0.8) ? rng_unit(rng) * 0.6 : 0;
    world.actors = rng_chance(rng, 0.6) ? rng_unit(rng) * 0.6 : 0;
    world.groups = rng_chance(rng, 0.5) ? rng_unit(rng) * 0.6 : 0;
    world.shape_count = (size_t)rng_between(rng, 2, 6);
    for (size_t i = 0; i < world.shape_count; i++) world.shapes[i] = draw_shape(rng, &total);
    for (uint32_t i = 0; i < programs; i++) add_driver(&world, i + 1);
    for (uint64_t more = rng_below(rng, 3); more > 0; more--)
        add_driver(&world, (uint32_t)rng_between(rng, 1, programs));
    if (play(&world)) check_empty(&world);
    machine_fini(&world.machine);
    sim_finish(world.sim, result);
}

static const scenario_mutation mutations[] = {
    {"no-lending", "a worker that blocks keeps its resources", 100},
    {"no-patience", "a request that was passed over too often keeps waiting", 100},
    {"no-shares", "first come, first served, without fair shares", 100},
    {"no-reclaim", "never reclaim a lease", 100},
    {"no-idle-check", "give a worker that is still blocked for a dead driver to the next driver", 200},
    {"part-place", "place a group if its first bundle fits", 100},
    {"no-refuse", "do not report a group's removal to callers that wait for it", 100},
    {"no-group-end", "let tasks in a removed placement group continue", 100},
    {"no-restart-count", "restart an actor more often than max_restarts", 100},
    {"no-start-check", "accept the reply to an old creation as that of the new one", 500},
    {"no-kill", "let the process of a killed actor continue", 100},
    {"no-tell", "do not report an actor's death to callers that wait for it", 100},
    {"no-name-end", "let a dead actor keep its name", 100},
    {"no-evict", "let an actor wait on for room in a group that is removed", 300},
    {0},
};

const scenario scheduler_scenario = {
    .name = "scheduler",
    .doc = "drivers share workers: fairly, without lost or leaked leases; actor lifetimes",
    .mutations = mutations,
    .run = run};
