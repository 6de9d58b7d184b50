/* rank_assignment.c — see rank_assignment.h. */
#include "ps/rank_assignment.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"

#define NO_RANK UINT32_MAX

typedef struct worker_pool {
    const rank_assignment_worker *workers;
    size_t count;
    uint32_t *plays; /* by worker, owned: how many ranks */
} worker_pool;

/* The index of this worker, if it is here; else the count. */
static size_t find(const worker_pool *worker_pool, uint32_t id) {
    size_t at = binary_search_first(&id, worker_pool->workers, worker_pool->count, sizeof *worker_pool->workers,
                                    binary_search_u32);
    return at < worker_pool->count && worker_pool->workers[at].id == id && worker_pool->workers[at].alive
               ? at
               : worker_pool->count;
}

/* The worker of the rank, if its process is connected; else the count. */
static size_t holder_of(const worker_pool *worker_pool, const cluster_map *map, uint32_t rank) {
    const cluster_map_rank *holder = &map->ranks[rank];
    size_t at = holder->since == 0 ? worker_pool->count : find(worker_pool, holder->worker);
    return at < worker_pool->count && worker_pool->workers[at].incarnation == holder->incarnation ? at
                                                                                                  : worker_pool->count;
}

/* The workers with the fewest and the most ranks; the first of those. False: no worker is connected. */
static bool extremes(const worker_pool *worker_pool, size_t *least, size_t *most) {
    bool found = false;
    for (size_t i = 0; i < worker_pool->count; i++) {
        if (!worker_pool->workers[i].alive) continue;
        if (!found) *least = *most = i;
        if (worker_pool->plays[i] < worker_pool->plays[*least]) *least = i;
        if (worker_pool->plays[i] > worker_pool->plays[*most]) *most = i;
        found = true;
    }
    return found;
}

static void give(worker_pool *worker_pool, cluster_map *map, uint32_t rank, size_t to) {
    MR_ASSERT(rank < map->rank_count && to < worker_pool->count && worker_pool->workers[to].alive);
    cluster_map_put_rank(map, rank, worker_pool->workers[to].id, worker_pool->workers[to].incarnation);
    worker_pool->plays[to]++;
}

static bool fill(worker_pool *worker_pool, cluster_map *map) {
    bool changed = false;
    size_t least = 0, most = 0;
    for (uint32_t rank = 0; rank < map->rank_count; rank++) {
        if (holder_of(worker_pool, map, rank) < worker_pool->count) continue;
        size_t home = find(worker_pool, rank);
        if (home == worker_pool->count || worker_pool->plays[home] != 0) {
            if (!extremes(worker_pool, &least, &most)) return changed;
            home = least;
        }
        give(worker_pool, map, rank, home);
        changed = true;
    }
    return changed;
}

/* A rank of `from` for the worker `to`: the one of its number, else the last. */
static uint32_t rank_for(const worker_pool *worker_pool, const cluster_map *map, size_t from, size_t to) {
    uint32_t found = NO_RANK;
    for (uint32_t rank = 0; rank < map->rank_count; rank++) {
        if (holder_of(worker_pool, map, rank) != from) continue;
        found = rank;
        if (rank == worker_pool->workers[to].id) break;
    }
    return found;
}

static bool share(worker_pool *worker_pool, cluster_map *map) {
    bool changed = false;
    size_t least = 0, most = 0;
    while (extremes(worker_pool, &least, &most) && worker_pool->plays[most] > worker_pool->plays[least] + 1) {
        MR_ASSERT(worker_pool->plays[most] > 0);
        worker_pool->plays[most]--;
        give(worker_pool, map, rank_for(worker_pool, map, most, least), least);
        changed = true;
    }
    return changed;
}

bool rank_assignment_next(cluster_map *map, const rank_assignment_worker *workers, size_t count) {
    if (map->rank_count == 0) return false;
    if (map->ranks == NULL) map->ranks = xcalloc(map->rank_count, sizeof *map->ranks);
    worker_pool worker_pool = {workers, count, xcalloc(count + 1, sizeof(uint32_t))};
    for (uint32_t rank = 0; rank < map->rank_count; rank++) worker_pool.plays[holder_of(&worker_pool, map, rank)]++;
    bool filled = fill(&worker_pool, map), shared = share(&worker_pool, map);
    free(worker_pool.plays);
    return filled || shared;
}

bool rank_assignment_own(cluster_map *map, const rank_assignment_worker *workers, size_t count) {
    bool changed = false;
    if (map->rank_count == 0) return false;
    if (map->ranks == NULL) map->ranks = xcalloc(map->rank_count, sizeof *map->ranks);
    for (size_t i = 0; i < count && workers[i].id < map->rank_count; i++) {
        const cluster_map_rank *rank = &map->ranks[workers[i].id];
        bool plays = rank->since != 0 && rank->worker == workers[i].id;
        if (!workers[i].alive || (plays && rank->incarnation >= workers[i].incarnation)) continue;
        cluster_map_put_rank(map, workers[i].id, workers[i].id, workers[i].incarnation);
        changed = true;
    }
    return changed;
}
