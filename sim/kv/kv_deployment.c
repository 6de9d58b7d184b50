/* kv_deployment.c — see kv_deployment.h: scheduler and servers. */
#include "sim/kv/kv_deployment.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/server/kv_server.h"

#define AGAIN_US INT64_C(50000)

/* A process that fails to start, because its disk fails, is started again. */
typedef struct process {
    const env *env;
    kv_deployment_site *site;
    kv_scheduler *scheduler; /* exactly one of these two is used */
    kv_server *server;
    int64_t again_us;
} process;

static process *create(const env *env, void *argument) {
    process *process = xcalloc(1, sizeof *process);
    process->env = env;
    process->site = argument;
    return process;
}

static van *van_of(const process *process) {
    if (process->server != NULL) return kv_server_van(process->server);
    return process->scheduler == NULL ? NULL : kv_scheduler_van(process->scheduler);
}

static void open_scheduler(process *process) {
    kv_scheduler_options options = process->site->deployment->scheduler;
    options.env = process->env;
    process->again_us = clock_now_us(process->env->clock) + AGAIN_US;
    if (kv_scheduler_open(&options, &process->scheduler) != MR_OK)
        process->scheduler = NULL;
    else
        sim_node_serve(process->site->node, &messenger_events, van_messenger(van_of(process)));
}

static void *start_scheduler(sim_node *node, const env *env, void *argument) {
    process *process = create(env, argument);
    process->site->node = node;
    open_scheduler(process);
    return process;
}

static void *start_server(sim_node *node, const env *env, void *argument) {
    const uint64_t memory = UINT64_C(1) << 34;
    process *process = create(env, argument);
    process->site->since_us = sim_now_us(process->site->deployment->sim);
    kv_process_options options = {.scheduler = KV_DEPLOYMENT_SCHEDULER,
                                  .listen = sim_node_name(node),
                                  .number = process->site->number,
                                  .env = env};
    if (kv_server_open(&options, memory, &process->server) != MR_OK) {
        sim_violation(process->site->deployment->sim, "server %u cannot begin", process->site->number);
        process->server = NULL;
        return process;
    }
    sim_node_serve(node, &messenger_events, van_messenger(van_of(process)));
    return process;
}

static void stop(void *state) {
    process *process = state;
    kv_scheduler_close(process->scheduler);
    kv_server_close(process->server);
    free(process);
}

static int64_t next_us(void *state) {
    process *process = state;
    van *van = van_of(process);
    return van == NULL ? process->again_us : van_due_us(van);
}

static void tick(void *state, int64_t now_us) {
    process *process = state;
    van *van = van_of(process);
    if (van != NULL)
        van_turn(van);
    else if (process->site->deployment->scheduler_site.node == process->site->node)
        open_scheduler(process);
    const slot_server *server = process->server == NULL ? NULL : kv_server_slots(process->server);
    if (server != NULL) kv_data_checker_seen(&process->site->deployment->checker, slot_server_map(server));
}

const sim_program kv_deployment_scheduler_program = {"scheduler", start_scheduler, stop, next_us, tick};
const sim_program kv_deployment_server_program = {"server", start_server, stop, next_us, tick};

static void start_node(void *context, uint64_t argument) {
    if (!sim_node_up(context)) sim_node_start(context);
}

static void crash_here(void *context, uint64_t down_us) {
    sim_node_crash(context, false);
    if (down_us != 0) sim_after(sim_node_sim(context), (int64_t)down_us, start_node, context, 0);
}

/* A stop takes time, since it writes to the disk, and a crash loses what is sent in the same instant. */
static void stop_here(void *context, uint64_t down_us) {
    process *process = sim_node_state(context);
    if (process->scheduler != NULL) kv_scheduler_stop(process->scheduler, "was stopped");
    sim_node_after(context, 1, crash_here, context, down_us);
}

void kv_deployment_stop_scheduler(kv_deployment *deployment, int64_t down_us) {
    sim_node *node = deployment->scheduler_site.node;
    if (sim_node_up(node)) sim_node_after(node, 0, stop_here, node, (uint64_t)down_us);
}

const kv_deployment_site *kv_deployment_serving(const kv_deployment *deployment, const cluster_map *map, int64_t us) {
    for (uint32_t i = 0; i < deployment->servers; i++) {
        const kv_deployment_site *site = &deployment->server_sites[i];
        bool is_up = sim_node_up(site->node) && sim_now_us(deployment->sim) - site->since_us >= us;
        if (is_up && cluster_map_find(map, site->number) != NULL) return site;
    }
    return NULL;
}

/* The first step from which on this server has applied no push of the rank. */
static uint64_t begun_at(const slot_server *server, const cluster_map *map, uint32_t rank) {
    uint64_t begun = 0;
    for (uint32_t slot = 0; slot < slot_server_map(server)->slot_count; slot++) {
        const replica *replica = slot_server_replica(server, slot);
        if (replica == NULL || replica_values(replica) == NULL) continue;
        replica_look look = replica_look_at(replica);
        if (look.birth != map->birth) continue;
        uint64_t name = replica_name(replica, rank), here = seq_is_left(name) ? seq_ended(name) : seq_step(name);
        if (cluster_map_in_rounds(map, slot)) here = look.version;
        if (here > begun) begun = here;
    }
    return begun;
}

uint64_t kv_deployment_begun(const kv_deployment *deployment, const cluster_map *map, uint32_t rank) {
    uint64_t begun = 0;
    for (uint32_t i = 0; i < deployment->servers; i++) {
        const sim_node *node = deployment->server_sites[i].node;
        const process *process = sim_node_up(node) ? sim_node_state(node) : NULL;
        if (process == NULL || process->server == NULL) continue;
        const slot_server *server = kv_server_slots(process->server);
        uint64_t here = server == NULL ? 0 : begun_at(server, map, rank);
        if (here > begun) begun = here;
    }
    return begun;
}

static void add(kv_deployment *deployment, kv_deployment_site *site, const char *name, uint32_t number,
                const sim_program *program) {
    *site = (kv_deployment_site){.deployment = deployment, .number = number};
    site->node = sim_node_add(deployment->sim, name, program, site);
}

void kv_deployment_build(kv_deployment *deployment) {
    char name[SIM_NAME_MAX];
    deployment->checker.sim = deployment->sim;
    deployment->scheduler.listen = KV_DEPLOYMENT_SCHEDULER;
    deployment->scheduler.folder = "";
    deployment->scheduler.rank_count = deployment->workload.workers = deployment->workers;
    add(deployment, &deployment->scheduler_site, KV_DEPLOYMENT_SCHEDULER, 0, &kv_deployment_scheduler_program);
    for (uint32_t i = 0; i < deployment->servers; i++) {
        snprintf(name, sizeof name, "tcp:10.0.1.%u:1", i % KV_DEPLOYMENT_SERVERS_MAX);
        add(deployment, &deployment->server_sites[i], name, i, &kv_deployment_server_program);
    }
    for (uint32_t i = 0; i < deployment->workers; i++) {
        snprintf(name, sizeof name, "tcp:10.0.2.%u:1", i % KV_DEPLOYMENT_WORKERS_MAX);
        add(deployment, &deployment->worker_sites[i], name, i, &kv_deployment_worker_program);
    }
    if (deployment->further != NULL)
        add(deployment, &deployment->further_site, "tcp:10.0.3.1:1", 0, deployment->further);
    for (size_t i = 0; i < sim_node_count(deployment->sim); i++) sim_node_start(sim_node_at(deployment->sim, i));
}

bool kv_deployment_is_done(const kv_deployment *deployment) {
    for (uint32_t i = 0; i < deployment->workers; i++)
        if (!deployment->done[i]) return false;
    return true;
}

uint32_t kv_deployment_why(const kv_deployment *deployment, char *text, size_t size) {
    uint32_t rank = 0;
    while (rank < deployment->workers && deployment->done[rank]) rank++;
    if (rank < deployment->workers) kv_deployment_worker_why(&deployment->worker_sites[rank], text, size);
    return rank;
}
