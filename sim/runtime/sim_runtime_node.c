/* sim_runtime_node.c — the node of sim_runtime.h, and the launcher of simulated workers. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/node/node_internal.h"
#include "sim/runtime/sim_runtime.h"

enum { START_US = 2000, END_SEEN_US = 800 };

typedef struct sim_runtime_node_process {
    sim_runtime_world *world;
    node_core *core;
    runtime_store_server *server; /* NULL: no large values */
} sim_runtime_node_process;

/* ---- The launcher. */

static void child_ended(void *context, uint64_t pid) {
    sim_runtime_node_process *process = context;
    node_manager_child_ended(process->core, (int)pid, "was killed");
    sim_runtime_world_check_actors(process->world);
}

/* The actor in that process loses it by a fault, not by the node. */
static void note_loss(const sim_runtime_site *site) {
    sim_runtime_world *world = site->world;
    const node_core *core = sim_runtime_world_core(world);
    const node_actor *actor = core == NULL ? NULL : map_get(&core->actors.by_process, site->process);
    if (actor != NULL && !site->killed) runtime_checker_lost(&world->checker, actor->id);
}

/* The process of a site is gone, or never started: the node learns it later. */
static void site_ended(sim_runtime_site *site) {
    sim_runtime_world *world = site->world;
    site->ended = true;
    if (site->condemned) runtime_checker_condemned(&world->checker);
    if (site->evicted)
        runtime_checker_evicted(&world->checker);
    else
        runtime_checker_died(&world->checker);
    if (sim_node_up(world->node))
        sim_node_after(world->node, rng_between(sim_rng(world->sim), 1, END_SEEN_US), child_ended,
                       sim_node_state(world->node), (uint64_t)site->pid);
}

static void kill_now(void *context, uint64_t unused) {
    sim_runtime_site *site = context;
    if (site->ended) return;
    const sim_runtime *runtime = sim_node_state(site->node);
    site->world->checker.failed_starts += runtime == NULL || !runtime->worker.joined;
    note_loss(site);
    if (sim_node_up(site->node)) sim_node_crash(site->node, false);
    site_ended(site);
}

void sim_runtime_world_end(sim_runtime_world *world, sim_runtime_site *site) {
    site->killed = true;
    sim_after(world->sim, 1, kill_now, site, 0);
}

void sim_runtime_world_lose(sim_runtime_world *world, sim_runtime_site *site) {
    sim_after(world->sim, 1, kill_now, site, 0);
}

static void start_now(void *context, uint64_t unused) {
    sim_runtime_site *site = context;
    if (!site->ended) sim_node_start(site->node);
}

static mr_status program_add(void *self, uint32_t program, int pid, reader *launch_spec) { return MR_OK; }
static void program_end(void *self, uint32_t program) {}

static mr_status start_worker(void *self, uint32_t program, int *pid) {
    sim_runtime_node_process *process = self;
    sim_runtime_world *world = process->world;
    rng *rng = sim_rng(world->sim);
    bool fails = world->faulty && rng_chance(rng, world->start_failures);
    if (world->site_count == SIM_RUNTIME_SITES) sim_violation(world->sim, "the scene has no more seats for workers");
    int64_t now_us = sim_now_us(world->sim);
    bool outage = now_us >= world->outage_us[0] && now_us < world->outage_us[1];
    if (world->site_count == SIM_RUNTIME_SITES || outage || (fails && rng_chance(rng, 0.5))) {
        world->checker.failed_starts++;
        return error_set(MR_IO, "no process can be started");
    }
    sim_runtime_site *site = &world->sites[world->site_count++];
    site->pid = *pid = world->next_pid++;
    site->program = program;
    sim_count(world->sim, "workers", 1);
    int64_t delay_us = rng_between(rng, 100, START_US);
    sim_after(world->sim, delay_us, start_now, site, 0);
    if (fails) sim_after(world->sim, delay_us + rng_between(rng, -50, 300), kill_now, site, 0);
    return MR_OK;
}

static void kill_worker(void *self, int pid) {
    sim_runtime_world *world = ((sim_runtime_node_process *)self)->world;
    for (size_t i = 0; i < world->site_count; i++) {
        sim_runtime_site *site = &world->sites[i];
        if (site->pid != pid || site->killed || site->ended) continue;
        site->killed = true;
        sim_after(world->sim, rng_between(sim_rng(world->sim), 1, world->kill_us), kill_now, site, 0);
    }
}

/* An actor is created there; the process may be dead already, which the node does not know. */
static void label(void *self, int pid, const char *text) {
    const sim_runtime_world *world = ((sim_runtime_node_process *)self)->world;
    for (size_t i = 0; i < world->site_count; i++)
        if (world->sites[i].pid == pid && world->sites[i].ended) note_loss(&world->sites[i]);
}
static void drain(void *self) {} /* simulated processes print nothing */

static const launcher_ops launcher_table = {.program_add = program_add,
                                            .program_end = program_end,
                                            .start = start_worker,
                                            .label = label,
                                            .drain = drain,
                                            .kill = kill_worker};

/* ---- The memory monitor. */

static sim_runtime_site *site_of(sim_runtime_world *world, int pid) {
    for (size_t i = 0; i < world->site_count; i++)
        if (world->sites[i].pid == pid) return &world->sites[i];
    MR_UNREACHABLE();
}

static void evict(void *context, uint64_t unused) {
    sim_runtime_world *world = ((sim_runtime_node_process *)context)->world;
    node_core *core = ((sim_runtime_node_process *)context)->core;
    oom_worker *workers;
    oom_choice choice;
    size_t count;
    if (!node_manager_workers(core, &workers, &count)) return;
    for (size_t i = 0; i < count; i++) workers[i].bytes = rng_below(sim_rng(world->sim), 4 * OOM_POLICY_IDLE_BYTES);
    if (oom_policy_choose(workers, count, &choice)) {
        const oom_worker *worker = &workers[choice.index];
        sim_runtime_site *site = site_of(world, worker->pid);
        note_loss(site);
        site->evicted = choice.retry && !site->ended;
        site->condemned = worker->role == OOM_TASK && !choice.retry;
        if (!site->ended) sim_node_doom(site->node, choice.retry ? MR_EVICTED : MR_NOMEM);
        sim_count(world->sim, choice.retry ? "evictions" : "ends for memory", 1);
        node_manager_evict(core, worker->process, choice.retry, "memory is nearly used up");
    }
    free(workers);
}

void sim_runtime_world_evict(sim_runtime_world *world) {
    if (sim_node_up(world->node)) sim_node_after(world->node, 1, evict, sim_node_state(world->node), 0);
}

/* ---- The node. */

static void started(void *context, uint64_t unused) { node_manager_start(((sim_runtime_node_process *)context)->core); }

static void *sim_runtime_node_start(sim_node *node, const env *env, void *argument) {
    sim_runtime_node_process *process = xcalloc(1, sizeof *process);
    process->world = argument;
    node_manager_options options = {
        .total = process->world->total, .workers = process->world->workers_wanted, .lasting = true};
    process->core = node_manager_create(env, &options, (launcher){&launcher_table, process});
    if (process->world->checker.large)
        process->server = runtime_store_server_open(node, process->core, &process->world->arena);
    sim_node_serve(node, &rpc_events, node_manager_calls(process->core));
    sim_node_after(node, 1, started, process, 0);
    return process;
}

static void sim_runtime_node_stop(void *state) {
    sim_runtime_node_process *process = state;
    node_manager_stop(process->core);
    runtime_store_server_close(process->server);
    node_manager_destroy(process->core);
    free(process);
}

static int64_t sim_runtime_node_next_us(void *state) {
    return node_manager_next_us(((sim_runtime_node_process *)state)->core);
}
static void sim_runtime_node_tick(void *state, int64_t now_us) {
    node_manager_tick(((sim_runtime_node_process *)state)->core, now_us);
}

const sim_program runtime_node_program = {"node", sim_runtime_node_start, sim_runtime_node_stop,
                                          sim_runtime_node_next_us, sim_runtime_node_tick};

node_core *sim_runtime_world_core(const sim_runtime_world *world) {
    const sim_runtime_node_process *process = sim_node_state(world->node);
    return process == NULL ? NULL : process->core;
}

runtime_store_server *sim_runtime_world_store_server(const sim_runtime_world *world) {
    const sim_runtime_node_process *process = sim_node_state(world->node);
    return process == NULL ? NULL : process->server;
}

void sim_runtime_world_check_actors(sim_runtime_world *world) {
    const node_core *core = sim_runtime_world_core(world);
    if (core == NULL) return;
    list_for_each (at, &core->actors.list) {
        const node_actor *actor = container_of(at, node_actor, place);
        runtime_checker_check_actor(&world->checker, actor->id, false, actor->restarts, false);
        if (actor->need.group != 0 && map_get(&core->groups, actor->need.group) == NULL)
            sim_violation(world->sim, "an actor of a placement group that was removed is not dead");
    }
    list_for_each (at, &core->actors.dead) {
        const node_actor *actor = container_of(at, node_actor, place);
        const node_job *job = map_get(&core->programs, actor->program);
        bool gives_up = job == NULL || !job->has_started;
        runtime_checker_check_actor(&world->checker, actor->id, true, 0, gives_up);
    }
}

size_t sim_runtime_world_workers(const sim_runtime_world *world) {
    size_t count = 0;
    for (size_t i = 0; i < world->site_count; i++) count += !world->sites[i].ended;
    return count;
}

void sim_runtime_world_init(sim_runtime_world *world, sim *sim) {
    *world = (sim_runtime_world){.sim = sim, .next_pid = 1000};
    world->checker.sim = sim;
    world->node = sim_node_add(sim, "node", &runtime_node_program, world);
    for (size_t i = 0; i < SIM_RUNTIME_SITES; i++) {
        world->sites[i] = (sim_runtime_site){.world = world};
        world->sites[i].node = sim_node_add(sim, NULL, &runtime_worker_program, &world->sites[i]);
    }
}

void sim_runtime_world_fini(sim_runtime_world *world) {
    if (world->checker.large) arena_unmap(&world->arena);
}
