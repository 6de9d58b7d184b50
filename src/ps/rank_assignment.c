/* rank_assignment.c — see rank_assignment.h. */
#include "ps/rank_assignment.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"

#define NO_RANK UINT32_MAX

typedef struct troupe {
    const rank_assignment_worker *workers;
    size_t count;
    uint32_t *plays; /* by worker, owned: how many ranks */
} troupe;

/* The index of this worker, if it is here; else the count. */
static size_t find(const troupe *troupe, uint32_t id) {
    size_t at = binary_search_first(&id, troupe->workers, troupe->count, sizeof *troupe->workers, binary_search_u32);
    return at < troupe->count && troupe->workers[at].id == id && troupe->workers[at].alive ? at : troupe->count;
}

/* Who plays the rank, if that very process is here; else the count. */
static size_t player_of(const troupe *troupe, const cluster_map *map, uint32_t rank) {
    const cluster_map_rank *player = &map->ranks[rank];
    size_t at = player->since == 0 ? troupe->count : find(troupe, player->worker);
    return at < troupe->count && troupe->workers[at].incarnation == player->incarnation ? at : troupe->count;
}

/* The workers that play the fewest and the most; the first of those. False: nobody is here. */
static bool extremes(const troupe *troupe, size_t *least, size_t *most) {
    bool found = false;
    for (size_t i = 0; i < troupe->count; i++) {
        if (!troupe->workers[i].alive) continue;
        if (!found) *least = *most = i;
        if (troupe->plays[i] < troupe->plays[*least]) *least = i;
        if (troupe->plays[i] > troupe->plays[*most]) *most = i;
        found = true;
    }
    return found;
}

static void give(troupe *troupe, cluster_map *map, uint32_t rank, size_t to) {
    MR_ASSERT(rank < map->rank_count && to < troupe->count && troupe->workers[to].alive);
    cluster_map_put_player(map, rank, troupe->workers[to].id, troupe->workers[to].incarnation);
    troupe->plays[to]++;
}

static bool fill(troupe *troupe, cluster_map *map) {
    bool changed = false;
    size_t least = 0, most = 0;
    for (uint32_t rank = 0; rank < map->rank_count; rank++) {
        if (player_of(troupe, map, rank) < troupe->count) continue;
        size_t home = find(troupe, rank);
        if (home == troupe->count || troupe->plays[home] != 0) {
            if (!extremes(troupe, &least, &most)) return changed;
            home = least;
        }
        give(troupe, map, rank, home);
        changed = true;
    }
    return changed;
}

/* A rank of `from` for the worker `to`: the one of its number, else the last. */
static uint32_t rank_for(const troupe *troupe, const cluster_map *map, size_t from, size_t to) {
    uint32_t found = NO_RANK;
    for (uint32_t rank = 0; rank < map->rank_count; rank++) {
        if (player_of(troupe, map, rank) != from) continue;
        found = rank;
        if (rank == troupe->workers[to].id) break;
    }
    return found;
}

static bool share(troupe *troupe, cluster_map *map) {
    bool changed = false;
    size_t least = 0, most = 0;
    while (extremes(troupe, &least, &most) && troupe->plays[most] > troupe->plays[least] + 1) {
        MR_ASSERT(troupe->plays[most] > 0);
        troupe->plays[most]--;
        give(troupe, map, rank_for(troupe, map, most, least), least);
        changed = true;
    }
    return changed;
}

bool rank_assignment_next(cluster_map *map, const rank_assignment_worker *workers, size_t count) {
    if (map->rank_count == 0) return false;
    if (map->ranks == NULL) map->ranks = xcalloc(map->rank_count, sizeof *map->ranks);
    troupe troupe = {workers, count, xcalloc(count + 1, sizeof(uint32_t))};
    for (uint32_t rank = 0; rank < map->rank_count; rank++) troupe.plays[player_of(&troupe, map, rank)]++;
    bool filled = fill(&troupe, map), shared = share(&troupe, map);
    free(troupe.plays);
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
        cluster_map_put_player(map, workers[i].id, workers[i].id, workers[i].incarnation);
        changed = true;
    }
    return changed;
}
