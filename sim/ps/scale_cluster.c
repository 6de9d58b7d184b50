/* scale_cluster.c — see scale_cluster.h. */
#include "sim/ps/scale_cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/balancer.h"
#include "sim/cluster/sim_metadata.h"

#define STEP_US INT64_C(20000) /* interval of the checks whether a change has settled */

struct scale_cluster {
    scale_size size;
    scenario_options options;
    sim *sim;
    scale_counts counts;
    uint64_t incarnations;
    /* shared by all processes: a cluster map for each of thousands would take gigabytes */
    map_cache *cache;
    scale_process controller, *servers, *ranks; /* owned */
    uint32_t server_count, server_room;         /* servers that ever existed */
    bool *gone;                                 /* per server, owned: it has left, or is dead */
    uint32_t leaving[SCALE_CHANGES_MAX], leaving_count;
};

static void add(scale_cluster *cluster, scale_process *process, const char *name, uint32_t id,
                const sim_program *program) {
    char text[SIM_NAME_MAX];
    snprintf(text, sizeof text, program == &scale_controller_program ? "%s" : "%s%u", name, id);
    *process = (scale_process){.id = id,
                               .counts = &cluster->counts,
                               .incarnations = &cluster->incarnations,
                               .cache = cluster->cache,
                               .size = &cluster->size};
    process->node = sim_node_add(cluster->sim, text, program, process);
}

static void add_server(scale_cluster *cluster) {
    MR_ASSERT(cluster->server_count < cluster->server_room);
    uint32_t id = cluster->server_count++;
    add(cluster, &cluster->servers[id], "s", id, &scale_server_program);
}

scale_cluster *scale_create(const scale_size *size, uint64_t seed) {
    scale_cluster *cluster = xcalloc(1, sizeof *cluster);
    cluster->size = *size;
    cluster->options = scenario_options_of(seed, NULL);
    cluster->sim = sim_create(&cluster->options);
    cluster->cache = map_cache_create();
    cluster->server_room = size->servers + SCALE_CHANGES_MAX;
    cluster->servers = xcalloc(cluster->server_room, sizeof *cluster->servers);
    cluster->gone = xcalloc(cluster->server_room, sizeof *cluster->gone);
    cluster->ranks = xcalloc(size->ranks + 1, sizeof *cluster->ranks);
    (void)sim_node_add(cluster->sim, "keeper", &sim_metadata_program, NULL);
    add(cluster, &cluster->controller, "director", 0, &scale_controller_program);
    for (uint32_t i = 0; i < size->servers; i++) add_server(cluster);
    for (uint32_t i = 0; i < size->ranks; i++) add(cluster, &cluster->ranks[i], "w", i, &scale_worker_program);
    for (size_t i = 0; i < sim_node_count(cluster->sim); i++) sim_node_start(sim_node_at(cluster->sim, i));
    return cluster;
}

void scale_destroy(scale_cluster *cluster) {
    scenario_result result;
    sim_finish(cluster->sim, &result);
    map_cache_unref(cluster->cache);
    free(cluster->servers);
    free(cluster->gone);
    free(cluster->ranks);
    free(cluster);
}

/* ---- Settling. */

static const cluster_map *newest(const scale_cluster *cluster) {
    return controller_map(scale_controller_of(&cluster->controller));
}

static bool all_know(const scale_cluster *cluster, uint64_t number) {
    for (uint32_t i = 0; i < cluster->server_count; i++) {
        const slot_server *server = scale_server_of(&cluster->servers[i]);
        if (server != NULL && slot_server_map(server)->number != number) return false;
    }
    for (uint32_t i = 0; i < cluster->size.ranks; i++) {
        const rank *rank = scale_rank_of(&cluster->ranks[i]);
        if (rank == NULL || rank_map(rank)->number != number) return false;
    }
    return true;
}

static bool is_target(const cluster_map_slot *slot, const uint64_t *owners, size_t count) {
    bool same = slot->count == count;
    for (size_t i = 0; same && i < count; i++) same = slot->chain[i].server == owners[i];
    return same;
}

static bool in_place(const scale_cluster *cluster) {
    const cluster_map *map = newest(cluster);
    hash_ring_server *members = xcalloc(cluster->server_count, sizeof *members);
    size_t count = 0;
    for (uint32_t i = 0; i < cluster->server_count; i++)
        if (!cluster->gone[i]) members[count++] = (hash_ring_server){i, 1};
    hash_ring *ring;
    mr_status status = hash_ring_create(members, count, &ring);
    MR_ASSERT(status == MR_OK);
    bool placed = map->slot_count == cluster->size.slots;
    for (uint32_t i = 0; placed && i < map->slot_count; i++) {
        uint64_t owners[CLUSTER_MAP_COPIES_MAX];
        placed = is_target(&map->slots[i], owners, hash_ring_owners(ring, i, owners, cluster->size.copies));
    }
    hash_ring_destroy(ring);
    free(members);
    return placed;
}

/* Compares each cluster map with the hash ring only once, because computing the ring is slow. */
static bool settle(scale_cluster *cluster, int64_t *settled_us) {
    int64_t from_us = sim_now_us(cluster->sim);
    uint64_t compared = 0;
    while (sim_now_us(cluster->sim) < from_us + SCALE_SETTLE_US) {
        if (!sim_run(cluster->sim, sim_now_us(cluster->sim) + STEP_US)) return false;
        const cluster_map *map = newest(cluster);
        if (map->number == compared || !all_know(cluster, map->number)) continue;
        compared = map->number;
        if (!in_place(cluster)) continue;
        *settled_us = sim_now_us(cluster->sim) - from_us;
        return true;
    }
    return false;
}

bool scale_begin(scale_cluster *cluster) {
    int64_t settled_us;
    if (!settle(cluster, &settled_us)) return false;
    for (bool ready = false; !ready;) {
        if (!sim_run(cluster->sim, sim_now_us(cluster->sim) + STEP_US)) return false;
        ready = true;
        for (uint32_t i = 0; i < cluster->size.ranks; i++) ready = ready && cluster->ranks[i].ready;
    }
    return true;
}

/* ---- Cost of a change. */

static uint64_t copies_of(const scale_cluster *cluster, const cluster_map *map) { /* replicas on servers now gone */
    uint64_t copies = 0;
    for (uint32_t i = 0; i < map->slot_count; i++)
        for (uint8_t k = 0; k < map->slots[i].count; k++) copies += cluster->gone[map->slots[i].chain[k].server];
    return copies;
}

static bool holds(const cluster_map_slot *slot, uint32_t server) {
    for (uint8_t i = 0; i < slot->count; i++)
        if (slot->chain[i].server == server) return true;
    return false;
}

static bool has_gone(const scale_cluster *cluster, const cluster_map_slot *slot) {
    for (uint8_t i = 0; i < slot->count; i++)
        if (cluster->gone[slot->chain[i].server]) return true;
    return false;
}

static void compare(const scale_cluster *cluster, const cluster_map *before, uint32_t newcomers, scale_cost *cost) {
    const cluster_map *after = newest(cluster);
    for (uint32_t i = 0; i < after->slot_count; i++)
        for (uint8_t k = 0; k < after->slots[i].count; k++) {
            uint32_t server = after->slots[i].chain[k].server;
            if (holds(&before->slots[i], server)) continue;
            cost->moved++;
            bool came = server >= cluster->server_count - newcomers;
            if (!came && !has_gone(cluster, &before->slots[i])) cost->needless++;
        }
}

/* Measures a change that has just been made; `before` is the map before it. */
static bool watch(scale_cluster *cluster, const scale_counts *counts, cluster_map *before, uint32_t newcomers,
                  double ideal, scale_cost *cost) {
    *cost = (scale_cost){.ideal = ideal};
    bool settled = settle(cluster, &cost->settled_us);
    if (settled) compare(cluster, before, newcomers, cost);
    cost->maps = cluster->counts.maps - counts->maps;
    cost->messages = cluster->counts.messages - counts->messages;
    cost->bytes = cluster->counts.bytes - counts->bytes;
    cluster_map_fini(before);
    return settled;
}

bool scale_rest(scale_cluster *cluster, scale_cost *cost) {
    scale_counts counts = cluster->counts;
    bool fine = sim_run(cluster->sim, sim_now_us(cluster->sim) + 1000000);
    *cost = (scale_cost){.settled_us = 1000000,
                         .maps = cluster->counts.maps - counts.maps,
                         .messages = cluster->counts.messages - counts.messages,
                         .bytes = cluster->counts.bytes - counts.bytes};
    return fine;
}

/* ---- Changes. */

static uint32_t here(const scale_cluster *cluster) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < cluster->server_count; i++) count += !cluster->gone[i];
    return count;
}

bool scale_join(scale_cluster *cluster, uint32_t count, scale_cost *cost) {
    scale_counts counts = cluster->counts;
    cluster_map before = {0};
    cluster_map_copy(&before, newest(cluster));
    for (uint32_t i = 0; i < count; i++) {
        add_server(cluster);
        sim_node_start(cluster->servers[cluster->server_count - 1].node);
    }
    double ideal = (double)cluster->size.slots * cluster->size.copies * count / here(cluster);
    return watch(cluster, &counts, &before, count, ideal, cost);
}

static bool has_copy(const cluster_map *map, uint32_t server) {
    for (uint32_t i = 0; i < map->slot_count; i++)
        if (holds(&map->slots[i], server)) return true;
    return false;
}

/* A server that has replicas. */
static uint32_t any_server(const scale_cluster *cluster) {
    uint32_t at;
    do at = (uint32_t)rng_below(sim_rng(cluster->sim), cluster->server_count);
    while (cluster->gone[at] || !has_copy(newest(cluster), at));
    return at;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

bool scale_leave(scale_cluster *cluster, uint32_t count, scale_cost *cost) {
    scale_counts counts = cluster->counts;
    cluster_map before = {0};
    cluster_map_copy(&before, newest(cluster));
    for (uint32_t i = 0; i < count; i++) {
        MR_ASSERT(cluster->leaving_count < SCALE_CHANGES_MAX);
        uint32_t server = any_server(cluster);
        cluster->gone[server] = true;
        cluster->leaving[cluster->leaving_count++] = server;
    }
    qsort(cluster->leaving, cluster->leaving_count, sizeof *cluster->leaving, by_number);
    controller_retire(scale_controller_of(&cluster->controller), cluster->leaving, cluster->leaving_count);
    bool settled = watch(cluster, &counts, &before, 0, (double)copies_of(cluster, &before), cost);
    for (uint32_t i = 0; i < cluster->leaving_count; i++)
        if (sim_node_up(cluster->servers[cluster->leaving[i]].node))
            sim_node_crash(cluster->servers[cluster->leaving[i]].node, false);
    return settled;
}

/* Whether every slot has a replica on a server that stays. */
static bool survives(const scale_cluster *cluster, const cluster_map *map) {
    for (uint32_t i = 0; i < map->slot_count; i++) {
        uint8_t left = 0;
        for (uint8_t k = 0; k < map->slots[i].count; k++) left += !cluster->gone[map->slots[i].chain[k].server];
        if (left == 0) return false;
    }
    return true;
}

bool scale_die(scale_cluster *cluster, uint32_t count, bool silent, scale_cost *cost) {
    scale_counts counts = cluster->counts;
    cluster_map before = {0};
    cluster_map_copy(&before, newest(cluster));
    for (uint32_t killed = 0; killed < count;) {
        uint32_t server = any_server(cluster);
        cluster->gone[server] = true;
        if (survives(cluster, &before)) {
            sim_node_crash(cluster->servers[server].node, silent);
            killed++;
        } else {
            cluster->gone[server] = false;
        }
    }
    return watch(cluster, &counts, &before, 0, (double)copies_of(cluster, &before), cost);
}

/* ---- Load. */

/* All ranks make requests at the same rate; the head of a slot carries them. */
static double *true_loads(const scale_cluster *cluster) {
    double *loads = xcalloc(cluster->size.slots, sizeof *loads);
    for (uint32_t i = 0; i < cluster->size.ranks; i++)
        for (size_t k = 0; k < SCALE_TOUCHES; k++) loads[cluster->ranks[i].touches[k]]++;
    return loads;
}

static double fullest(const scale_cluster *cluster, const double *loads) {
    double *carried = xcalloc(cluster->server_count, sizeof *carried), all = 0, most = 0;
    for (uint32_t i = 0; i < cluster->size.slots; i++) {
        double *here = &carried[newest(cluster)->slots[i].chain[0].server];
        *here += loads[i];
        all += loads[i];
        if (*here > most) most = *here;
    }
    free(carried);
    return most * cluster->server_count / all;
}

static double needed_moves(const scale_cluster *cluster, const double *loads) {
    balancer_slot *slots = xcalloc(cluster->size.slots, sizeof *slots);
    balancer_server *servers = xcalloc(cluster->server_count, sizeof *servers);
    balancer_move *moves = xcalloc(cluster->size.slots, sizeof *moves);
    for (uint32_t i = 0; i < cluster->server_count; i++) servers[i] = (balancer_server){i, 1};
    for (uint32_t i = 0; i < cluster->size.slots; i++)
        slots[i] = (balancer_slot){i, newest(cluster)->slots[i].chain[0].server, loads[i], true};
    size_t count =
        balancer_decide(slots, cluster->size.slots, servers, cluster->server_count, moves, cluster->size.slots);
    free(slots);
    free(servers);
    free(moves);
    return (double)count;
}

bool scale_let_balance(scale_cluster *cluster, int64_t for_us, scale_balance *out) {
    scale_counts counts = cluster->counts;
    cluster_map before = {0};
    cluster_map_copy(&before, newest(cluster));
    double *loads = true_loads(cluster);
    *out = (scale_balance){.before = fullest(cluster, loads), .cost.ideal = needed_moves(cluster, loads)};
    bool fine = sim_run(cluster->sim, sim_now_us(cluster->sim) + for_us);
    out->after = fullest(cluster, loads);
    compare(cluster, &before, 0, &out->cost);
    out->cost.maps = cluster->counts.maps - counts.maps;
    cluster_map_fini(&before);
    free(loads);
    return fine;
}

/* ---- The end. */

static bool has_all(const scale_cluster *cluster, const scale_process *process, size_t touch) {
    const cluster_map_slot *slot = &newest(cluster)->slots[process->touches[touch]];
    for (uint8_t i = 0; i < slot->count; i++) {
        const slot_server *server = scale_server_of(&cluster->servers[slot->chain[i].server]);
        const replica *replica = server == NULL ? NULL : slot_server_replica(server, process->touches[touch]);
        if (replica == NULL || replica_name(replica, process->id) < process->acknowledged[touch]) return false;
    }
    return slot->count != 0;
}

bool scale_check(scale_cluster *cluster, int64_t *waited_us) {
    bool all = true;
    *waited_us = 0;
    for (uint32_t i = 0; i < cluster->size.ranks; i++) {
        const scale_process *process = &cluster->ranks[i];
        for (size_t k = 0; k < SCALE_TOUCHES; k++)
            all = all && process->acknowledged[k] != 0 && has_all(cluster, process, k);
        if (process->waited_us > *waited_us) *waited_us = process->waited_us;
    }
    return all;
}
