/* ps_operations.c — see ps_operations.h. */
#include "sim/ps/ps_operations.h"

#include "sim/sim_disk.h"
#include "sim/sim_network.h"

enum { TRIPS_MAX = 100 };
#define TRIP_US      INT64_C(2000)
#define DRAWN_OUT_US INT64_C(500000)
#define ISOLATION_US INT64_C(1500000)
#define KILLED_US    INT64_C(500000)
#define LOOK_US      INT64_C(700000)
#define BACK_US      INT64_C(500000)

/* ---- Crashes that lose nothing. */

bool ps_lives(const ps_cluster *cluster, const cluster_map_member *member) {
    const slot_server *server = ps_server_of(&cluster->servers[member->server]);
    return server != NULL && slot_server_incarnation(server) == member->incarnation;
}

static bool survives(const ps_cluster *cluster, const cluster_map *map, const sim_node *node) {
    for (uint32_t i = 0; i < map->slot_count; i++) {
        bool other = false;
        for (size_t k = 0; k < map->slots[i].count; k++) {
            const cluster_map_member *member = &map->slots[i].chain[k];
            if (cluster->servers[member->server].node != node && ps_lives(cluster, member)) other = true;
        }
        if (!other) return false;
    }
    return true;
}

bool ps_may_crash(void *context, sim_node *node) {
    const ps_cluster *cluster = context;
    bool is_server = false;
    for (uint32_t i = 0; i < PS_SERVERS_MAX; i++) is_server = is_server || cluster->servers[i].node == node;
    if (!is_server || cluster->reckless) return true;
    if (cluster->newest.number == 0 || !survives(cluster, &cluster->newest, node)) return false;
    for (size_t i = 0; i < cluster->proposal_count; i++)
        if (cluster->proposals[i].number > cluster->newest.number && !survives(cluster, &cluster->proposals[i], node))
            return false;
    return true;
}

/* Pins slots to other servers: heads and replicas move. */
static void draw_pins(void *context, uint64_t unused) {
    ps_cluster *cluster = context;
    rng *rng = sim_rng(cluster->sim);
    cluster->pin_count = 0;
    for (uint32_t i = 0; i < cluster->slot_count; i++)
        if (rng_chance(rng, 0.5))
            cluster->pins[cluster->pin_count++] = (slot_placement_pin){i, 1, {rng_below(rng, cluster->server_count)}};
    controller *controller = ps_controller_of(&cluster->controller);
    if (controller != NULL) controller_pin(controller, cluster->pins, cluster->pin_count);
}

static void mend(void *context, uint64_t pair) {
    ps_cluster *cluster = context;
    sim_network_cut(sim_get_network(cluster->sim), cluster->servers[pair >> 32].node,
                    cluster->servers[pair & UINT32_MAX].node, false);
}

/* The round state receives nothing from a slot for a while, and heads change meanwhile: so dropping a rank takes
 * long. */
static void draw_out(ps_cluster *cluster) {
    const cluster_map *map = &cluster->newest;
    if (map->number == 0 || map->slots[0].count == 0 || map->slots[cluster->slot_count - 1].count == 0) return;
    uint64_t round_state = map->slots[cluster->slot_count - 1].chain[0].server, head = map->slots[0].chain[0].server;
    if (round_state == head) return;
    sim_network_cut(sim_get_network(cluster->sim), cluster->servers[round_state].node, cluster->servers[head].node,
                    true);
    sim_after(cluster->sim, DRAWN_OUT_US, mend, cluster, round_state << 32 | head);
    sim_after(cluster->sim, DRAWN_OUT_US / 4, draw_pins, cluster, 0);
}

/* Drops a rank that may be alive. */
static void drop_rank(void *context, uint64_t unused) {
    ps_cluster *cluster = context;
    controller *controller = ps_controller_of(&cluster->controller);
    uint32_t rank = (uint32_t)rng_below(sim_rng(cluster->sim), cluster->rank_count);
    uint64_t term = ps_term(cluster, rank);
    if (controller == NULL || term == 0) return;
    sim_note(cluster->sim, NULL, "rank %u is given up", rank);
    sim_count(cluster->sim, "drops", 1);
    cluster->ps_checker.drops++;
    if (rng_chance(sim_rng(cluster->sim), 0.7)) draw_out(cluster);
    controller_drop(controller, rank, term);
}

/* A head and a worker reach only each other for a while: the head is replaced, and neither learns it. */
static void set_apart(ps_cluster *cluster, const sim_node *head, const sim_node *worker, bool apart) {
    for (size_t i = 0; i < sim_node_count(cluster->sim); i++) {
        sim_node *node = sim_node_at(cluster->sim, i);
        if (node == head || node == worker) continue;
        for (int k = 0; k < 2; k++) {
            sim_node *one = sim_node_at(cluster->sim, sim_node_index(k == 0 ? head : worker));
            sim_network_cut(sim_get_network(cluster->sim), one, node, apart);
            sim_network_cut(sim_get_network(cluster->sim), node, one, apart);
        }
    }
}

static void join_again(void *context, uint64_t pair) {
    ps_cluster *cluster = context;
    set_apart(cluster, cluster->servers[pair >> 32].node, cluster->workers[pair & UINT32_MAX].node, false);
}

static void isolate(void *context, uint64_t unused) {
    ps_cluster *cluster = context;
    uint32_t worker = (uint32_t)rng_below(sim_rng(cluster->sim), cluster->worker_count);
    if (cluster->newest.number == 0 || cluster->newest.slots[0].count == 0) return;
    uint32_t head = cluster->newest.slots[0].chain[0].server;
    sim_count(cluster->sim, "isolations", 1);
    sim_note(cluster->sim, NULL, "s%u and w%u are alone", head, worker);
    set_apart(cluster, cluster->servers[head].node, cluster->workers[worker].node, true);
    sim_after(cluster->sim, ISOLATION_US, join_again, cluster, (uint64_t)head << 32 | worker);
}

/* A worker receives nothing, and sends to all nodes but the controller: other workers get its ranks meanwhile. */
static void set_deaf(ps_cluster *cluster, sim_node *worker, bool deaf) {
    sim_network_cut(sim_get_network(cluster->sim), worker, cluster->controller.node, deaf);
    for (size_t i = 0; i < sim_node_count(cluster->sim); i++)
        if (sim_node_at(cluster->sim, i) != worker)
            sim_network_cut(sim_get_network(cluster->sim), sim_node_at(cluster->sim, i), worker, deaf);
}

static void hear_again(void *context, uint64_t worker) {
    ps_cluster *cluster = context;
    set_deaf(cluster, cluster->workers[worker].node, false);
}

static void deafen(void *context, uint64_t unused) {
    ps_cluster *cluster = context;
    uint32_t worker = (uint32_t)rng_below(sim_rng(cluster->sim), cluster->worker_count);
    sim_note(cluster->sim, NULL, "w%u hears nothing", worker);
    set_deaf(cluster, cluster->workers[worker].node, true);
    sim_after(cluster->sim, ISOLATION_US, hear_again, cluster, worker);
}

/* ---- Checkpoints, and kills of all processes. */

static void start_again(void *context, uint64_t unused) {
    if (!sim_node_up(context)) sim_node_start(context);
}

/* Kills a worker that is pushing while all others are paused, or about to be: its pushes are in some slots only. */
static void trip(void *context, uint64_t tries) {
    ps_cluster *cluster = context;
    rng *rng = sim_rng(cluster->sim);
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        sim_node *node = cluster->workers[i].node;
        if (!sim_node_up(node) || !ps_pushes(&cluster->workers[i]) || rng_chance(rng, 0.5)) continue;
        sim_note(cluster->sim, node, "dies while it pushes");
        sim_count(cluster->sim, "trips", 1);
        sim_node_crash(node, rng_chance(rng, 0.5));
        sim_after(cluster->sim, rng_between(rng, KILLED_US, 3 * KILLED_US), start_again, node, 0);
        return;
    }
    if (tries != 0) sim_after(cluster->sim, TRIP_US, trip, cluster, tries - 1);
}

static void want_checkpoint(void *context, uint64_t unused) {
    ps_cluster *cluster = context;
    controller *controller = ps_controller_of(&cluster->controller);
    if (controller != NULL) controller_checkpoint(controller);
    if (cluster->pause_us != 0 && rng_chance(sim_rng(cluster->sim), 0.5))
        sim_after(cluster->sim, rng_between(sim_rng(cluster->sim), 0, cluster->pause_us / 2), trip, cluster, TRIPS_MAX);
}

static void kill_node(ps_cluster *cluster, sim_node *node) {
    if (!sim_node_up(node)) return;
    sim_node_crash(node, rng_chance(sim_rng(cluster->sim), 0.5));
    sim_after(cluster->sim, rng_between(sim_rng(cluster->sim), 1000, KILLED_US), start_again, node, 0);
}

/* Replaces the machine of the metadata store by one with an empty disk; some other processes restart, too. */
static void lose_metadata(void *context, uint64_t unused) {
    ps_cluster *cluster = context;
    rng *rng = sim_rng(cluster->sim);
    sim_note(cluster->sim, cluster->metadata, "loses its disk");
    sim_count(cluster->sim, "coordinators lost", 1);
    kill_node(cluster, cluster->metadata);
    sim_disk_lose(sim_node_disk(cluster->metadata));
    if (rng_chance(rng, 0.5)) kill_node(cluster, cluster->controller.node);
    if (rng_chance(rng, 0.7)) kill_node(cluster, cluster->workers[rng_below(rng, cluster->worker_count)].node);
    sim_node *server = cluster->servers[rng_below(rng, cluster->server_count)].node;
    if (rng_chance(rng, 0.7) && ps_may_crash(cluster, server)) kill_node(cluster, server);
}

static void rot(void *context, uint64_t unused) {
    ps_cluster *cluster = context;
    const char *file = sim_disk_rot(sim_node_disk(cluster->checkpoints.node));
    if (file == NULL) return;
    cluster->ps_checker.rots = true;
    sim_note(cluster->sim, cluster->checkpoints.node, "%s rots", file);
    sim_count(cluster->sim, "files that rot", 1);
}

/* Kills all processes. Another number of servers and ranks starts; after the next kill as many ranks as before. */
static void kill_all(void *context, uint64_t unused) {
    ps_cluster *cluster = context;
    uint32_t ranks = cluster->rank_sites;
    sim_note(cluster->sim, NULL, "everything is killed; %u servers and %u ranks come back", cluster->server_sites,
             ranks);
    sim_count(cluster->sim, "kills", 1);
    for (size_t i = 0; i < sim_node_count(cluster->sim); i++) {
        sim_node *node = sim_node_at(cluster->sim, i);
        bool keeps = node == cluster->metadata || node == cluster->checkpoints.node;
        if (!keeps || rng_chance(sim_rng(cluster->sim), 0.3)) kill_node(cluster, node);
    }
    cluster->server_count = cluster->server_sites;
    cluster->rank_sites = cluster->rank_count;
    cluster->rank_count = ranks;
    if (cluster->rounds.first_count > cluster->rank_count || ps_bounds_rounds(cluster))
        cluster->rounds.first_count = cluster->rank_count;
    draw_pins(cluster, 0);
}

/* A periodic check, like an operator's: requests a restore if a slot has no living replica in two checks in a row. */
static void look_after(void *context, uint64_t before) {
    ps_cluster *cluster = context;
    controller *controller = ps_controller_of(&cluster->controller);
    const cluster_map *map = controller == NULL ? NULL : controller_map(controller);
    bool gone = false;
    for (uint32_t i = 0; map != NULL && i < map->slot_count; i++) {
        bool lives_on = false;
        for (size_t k = 0; k < map->slots[i].count; k++)
            lives_on = lives_on || ps_lives(cluster, &map->slots[i].chain[k]);
        gone = gone || !lives_on;
    }
    if (gone && before != 0) controller_restore(controller);
    sim_after(cluster->sim, LOOK_US, look_after, cluster, gone);
}

/* Requests a restore although nothing is lost, right after a checkpoint request; the checkpoint may be complete or
 * not. */
static void go_back(void *context, uint64_t unused) {
    const ps_cluster *cluster = context;
    controller *controller = ps_controller_of(&cluster->controller);
    if (controller == NULL || controller_map(controller)->number == 0) return;
    sim_note(cluster->sim, NULL, "somebody wants to go back");
    controller_restore(controller);
}

static void plan_going_back(ps_cluster *cluster) {
    rng *rng = sim_rng(cluster->sim);
    int64_t at_us = rng_between(rng, PS_FAULTS_US / 4, PS_FAULTS_US - BACK_US);
    sim_after(cluster->sim, at_us, want_checkpoint, cluster, 0);
    sim_after(cluster->sim, at_us + rng_between(rng, 0, BACK_US), go_back, cluster, 0);
}

static void plan_checkpoints(ps_cluster *cluster) {
    rng *rng = sim_rng(cluster->sim);
    for (uint32_t i = 0; i < cluster->mark_rounds; i++)
        sim_after(cluster->sim, rng_between(rng, 0, PS_FAULTS_US), want_checkpoint, cluster, 0);
    for (uint32_t i = 0; i < cluster->kill_rounds; i++)
        sim_after(cluster->sim, rng_between(rng, PS_FAULTS_US / 4, PS_FAULTS_US), kill_all, cluster, 0);
    for (uint32_t i = 0; i < cluster->back_rounds; i++) plan_going_back(cluster);
    for (uint32_t i = 0; i < cluster->lose_rounds; i++)
        sim_after(cluster->sim, rng_between(rng, 0, PS_FAULTS_US), lose_metadata, cluster, 0);
    if (cluster->rots) sim_after(cluster->sim, rng_between(rng, PS_FAULTS_US / 4, PS_FAULTS_US), rot, cluster, 0);
    sim_after(cluster->sim, LOOK_US, look_after, cluster, 0);
}

/* ---- The plan. */

void ps_operations_plan(ps_cluster *cluster) {
    for (uint32_t i = 0; i < cluster->pin_rounds; i++)
        sim_after(cluster->sim, rng_between(sim_rng(cluster->sim), 0, PS_FAULTS_US), draw_pins, cluster, 0);
    if (rng_chance(sim_rng(cluster->sim), cluster->fresh_chance == 0 ? 0.2 : 0.8))
        sim_after(cluster->sim, rng_between(sim_rng(cluster->sim), 0, PS_FAULTS_US - ISOLATION_US), isolate, cluster,
                  0);
    if (rng_chance(sim_rng(cluster->sim), 0.4))
        sim_after(cluster->sim, rng_between(sim_rng(cluster->sim), 0, PS_FAULTS_US - ISOLATION_US), deafen, cluster, 0);
    for (uint32_t i = 0; i < cluster->drop_rounds; i++)
        sim_after(cluster->sim, rng_between(sim_rng(cluster->sim), 0, PS_FAULTS_US), drop_rank, cluster, 0);
    if (cluster->keeps) plan_checkpoints(cluster);
    cluster->book.loses = cluster->lose_rounds != 0;
}
