/* rank_assignment.c — see rank_assignment.h. */
#include "ps/rank_assignment.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"

#define NO_RANK UINT32_MAX

typedef struct worker_pool {
    const cluster_map_process *workers;
    size_t count;
    uint32_t *plays; /* ranks by worker index, owned; [count]: ranks without a connected worker */
} worker_pool;

static bool is_here(const cluster_map_process *worker) { return worker->alive && !worker->doubted; }

/* The index of this worker if it is connected, otherwise `count`. */
static size_t find(const worker_pool *pool, uint32_t id) {
    const cluster_map_process *worker =
        binary_search_find(&id, pool->workers, pool->count, sizeof *pool->workers, binary_search_u32);
    return worker != NULL && is_here(worker) ? (size_t)(worker - pool->workers) : pool->count;
}

/* The index of the rank's worker if its process is connected, otherwise `count`. */
static size_t holder_of(const worker_pool *pool, const cluster_map *map, uint32_t rank) {
    const cluster_map_rank *holder = &map->ranks[rank];
    size_t at = holder->since == 0 ? pool->count : find(pool, holder->worker);
    return at < pool->count && pool->workers[at].incarnation == holder->incarnation ? at : pool->count;
}

/* The first workers with the fewest and with the most ranks. False: no worker is connected. */
static bool extremes(const worker_pool *pool, size_t *least, size_t *most) {
    bool found = false;
    for (size_t i = 0; i < pool->count; i++) {
        if (!is_here(&pool->workers[i])) continue;
        if (!found) *least = *most = i;
        if (pool->plays[i] < pool->plays[*least]) *least = i;
        if (pool->plays[i] > pool->plays[*most]) *most = i;
        found = true;
    }
    return found;
}

static void give(worker_pool *pool, cluster_map *map, uint32_t rank, size_t to) {
    MR_ASSERT(rank < map->rank_count && to < pool->count && is_here(&pool->workers[to]));
    cluster_map_put_rank(map, rank, pool->workers[to].id, pool->workers[to].incarnation);
    pool->plays[to]++;
}

static bool fill(worker_pool *pool, cluster_map *map) {
    bool changed = false;
    size_t least = 0, most = 0;
    for (uint32_t rank = 0; rank < map->rank_count; rank++) {
        if (holder_of(pool, map, rank) < pool->count) continue;
        size_t home = find(pool, rank);
        if (home == pool->count || pool->plays[home] != 0) {
            if (!extremes(pool, &least, &most)) return changed;
            home = least;
        }
        give(pool, map, rank, home);
        changed = true;
    }
    return changed;
}

/* The rank that moves from `from` to `to`: the one with the number of `to`, otherwise the last one. */
static uint32_t rank_for(const worker_pool *pool, const cluster_map *map, size_t from, size_t to) {
    uint32_t found = NO_RANK;
    for (uint32_t rank = 0; rank < map->rank_count; rank++) {
        if (holder_of(pool, map, rank) != from) continue;
        found = rank;
        if (rank == pool->workers[to].id) break;
    }
    return found;
}

static bool share(worker_pool *pool, cluster_map *map) {
    bool changed = false;
    size_t least = 0, most = 0;
    while (extremes(pool, &least, &most) && pool->plays[most] > pool->plays[least] + 1) {
        MR_ASSERT(pool->plays[most] > 0);
        pool->plays[most]--;
        give(pool, map, rank_for(pool, map, most, least), least);
        changed = true;
    }
    return changed;
}

/* Gives the places of their own numbers to these processes. */
static bool take_own(cluster_map *map, const cluster_map_process *workers, size_t count) {
    bool changed = false;
    for (size_t i = 0; i < count; i++) {
        uint32_t place = cluster_map_client(map, workers[i].id);
        if (place == CLUSTER_MAP_NO_CLIENT) continue;
        const cluster_map_rank *rank = &map->ranks[place];
        bool plays = rank->since != 0 && rank->worker == workers[i].id;
        if (!is_here(&workers[i]) || (plays && rank->incarnation >= workers[i].incarnation)) continue;
        cluster_map_put_rank(map, place, workers[i].id, workers[i].incarnation);
        changed = true;
    }
    return changed;
}

static bool has_places(cluster_map *map) {
    if (cluster_map_clients(map) == 0) return false;
    if (map->ranks == NULL) map->ranks = xcalloc(cluster_map_clients(map), sizeof *map->ranks);
    return true;
}

bool rank_assignment_next(cluster_map *map, const cluster_map_process *workers, size_t count) {
    size_t ranks = 0; /* the processes behind these are readers */
    while (ranks < count && workers[ranks].id < CLUSTER_MAP_READER) ranks++;
    if (!has_places(map)) return false;
    worker_pool pool = {workers, ranks, xcalloc(ranks + 1, sizeof(uint32_t))};
    for (uint32_t rank = 0; rank < map->rank_count; rank++) pool.plays[holder_of(&pool, map, rank)]++;
    bool filled = fill(&pool, map), shared = share(&pool, map);
    free(pool.plays);
    bool reads = take_own(map, workers + ranks, count - ranks);
    return filled || shared || reads;
}

bool rank_assignment_own(cluster_map *map, const cluster_map_process *workers, size_t count) {
    return has_places(map) && take_own(map, workers, count);
}
