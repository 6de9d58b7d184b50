/* ps_save_phases.c — see ps_save_phases.h. */
#include "sim/ps/ps_save_phases.h"

enum { SAVE_STREAM = 19, EARLY_STREAM = 22, INSIDE_STREAM = 23, MORE_STEPS = 20 };

#define SAVE_US    INT64_C(10000000)
#define BEGIN_US   INT64_C(5000000)
#define TRAIN_US   INT64_C(1500000)
#define RESTORE_US INT64_C(20000000)

static bool is_saved(void *context) {
    const controller *controller = ps_controller_of(&((ps_cluster *)context)->controller);
    return controller != NULL && !controller_marks(controller);
}

static bool can_save(const ps_cluster *cluster) {
    const checkpoint_store *store = ps_checkpoints_of(&cluster->checkpoints);
    return store != NULL && ps_controller_of(&cluster->controller) != NULL && checkpoint_store_check(store) == MR_OK;
}

/* True: the checkpoint is complete. */
static bool save(ps_cluster *cluster, const char *when) {
    bool saved = false;
    controller_checkpoint(ps_controller_of(&cluster->controller));
    if (!sim_run_until(cluster->sim, sim_now_us(cluster->sim) + SAVE_US, is_saved, cluster, &saved)) return false;
    sim_count(cluster->sim, when, saved);
    if (!saved)
        sim_violation(cluster->sim, "no checkpoint is complete %d s after the request: %s", (int)(SAVE_US / 1000000),
                      when);
    return saved;
}

static void crash_workers(ps_cluster *cluster) {
    for (uint32_t i = 0; i < cluster->worker_count; i++)
        if (sim_node_up(cluster->workers[i].node)) sim_node_crash(cluster->workers[i].node, false);
}

static void start_workers(ps_cluster *cluster) {
    for (uint32_t i = 0; i < cluster->worker_count; i++)
        if (!sim_node_up(cluster->workers[i].node)) sim_node_start(cluster->workers[i].node);
}

/* ---- The begin. */

/* All slots have a head that serves. */
static bool is_served(void *context) {
    const ps_cluster *cluster = context;
    const cluster_map *map = &cluster->newest;
    for (uint32_t i = 0; i < map->slot_count; i++) {
        if (map->slots[i].count == 0) return false;
        const slot_server *server = ps_server_of(&cluster->servers[map->slots[i].chain[0].server]);
        const replica *replica = server == NULL ? NULL : slot_server_replica(server, i);
        if (replica == NULL) return false;
        replica_look look = replica_look_at(replica);
        if (look.phase != REPLICA_SERVING || look.birth != map->birth) return false;
    }
    return map->number != 0;
}

bool ps_save_phases_first(ps_cluster *cluster) {
    rng own = sim_fork_rng(cluster->sim, EARLY_STREAM);
    bool served = false;
    if (!cluster->keeps || cluster->fed || !rng_chance(&own, 0.3)) return true;
    crash_workers(cluster);
    if (!sim_run_until(cluster->sim, BEGIN_US, is_served, cluster, &served)) return false;
    bool good = !served || !can_save(cluster) || save(cluster, "saved before the first step");
    start_workers(cluster);
    return good;
}

/* ---- The end. */

static bool is_restored(void *context) {
    const ps_cluster *cluster = context;
    return cluster->newest.generation != cluster->left_generation && is_served(context);
}

/* All replicas are lost: the tables continue from the checkpoint that was just made. */
static void lose_servers(ps_cluster *cluster) {
    bool restored = false;
    cluster->left_generation = cluster->newest.generation;
    cluster->reckless = true;
    for (uint32_t i = 0; i < PS_SERVERS_MAX; i++) {
        sim_node *node = cluster->servers[i].node;
        if (node == NULL || !sim_node_up(node)) continue;
        sim_node_crash(node, false);
        sim_node_start(node);
    }
    if (!sim_run_until(cluster->sim, sim_now_us(cluster->sim) + RESTORE_US, is_restored, cluster, &restored)) return;
    sim_count(cluster->sim, "restored from inside a step", restored);
    if (!restored && can_save(cluster))
        sim_violation(cluster->sim, "no generation has begun %d s after all servers died", (int)(RESTORE_US / 1000000));
}

/* Some slots have ended a round that others have not. */
static bool is_uneven(void *context) {
    const ps_checker *checker = &((ps_cluster *)context)->ps_checker;
    uint64_t version = checker->histories[checker->value_slots].version;
    for (uint32_t i = 0; i < checker->round_slots; i++)
        if (checker->histories[i].version != version) return true;
    return false;
}

static void save_inside_a_step(ps_cluster *cluster) {
    rng own = sim_fork_rng(cluster->sim, INSIDE_STREAM);
    bool uneven;
    if (!ps_has_rounds(cluster) || cluster->fed || cluster->ps_checker.rots) return;
    cluster->steps += MORE_STEPS;
    crash_workers(cluster);
    start_workers(cluster);
    if (!sim_run(cluster->sim, sim_now_us(cluster->sim) + rng_between(&own, TRAIN_US / 3, TRAIN_US))) return;
    if (!sim_run_until(cluster->sim, sim_now_us(cluster->sim) + TRAIN_US, is_uneven, cluster, &uneven)) return;
    crash_workers(cluster);
    if (can_save(cluster) && save(cluster, "saved inside a step")) lose_servers(cluster);
}

void ps_save_phases_last(ps_cluster *cluster) {
    rng own = sim_fork_rng(cluster->sim, SAVE_STREAM);
    bool alone = rng_chance(&own, 0.5);
    if (!cluster->keeps || !can_save(cluster)) return;
    if (alone) crash_workers(cluster);
    if (!save(cluster, "saved at the end")) return;
    if (cluster->mixed && can_save(cluster) && !save(cluster, "saved again")) return;
    if (can_save(cluster)) save_inside_a_step(cluster);
}
