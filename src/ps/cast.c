/* cast.c — see cast.h. */
#include "ps/cast.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/search.h"

#define NO_RANK UINT32_MAX

typedef struct troupe {
    const cast_worker *workers;
    size_t count;
    uint32_t *plays; /* by worker, owned: how many ranks */
} troupe;

/* The index of this worker, if it is here; else the count. */
static size_t find(const troupe *troupe, uint32_t id) {
    size_t at = search_first(&id, troupe->workers, troupe->count, sizeof *troupe->workers, search_u32);
    return at < troupe->count && troupe->workers[at].id == id && troupe->workers[at].alive ? at : troupe->count;
}

/* Who plays the rank, if that very process is here; else the count. */
static size_t player_of(const troupe *troupe, const chart *chart, uint32_t rank) {
    const chart_player *player = &chart->players[rank];
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

static void give(troupe *troupe, chart *chart, uint32_t rank, size_t to) {
    MR_ASSERT(rank < chart->rank_count && to < troupe->count && troupe->workers[to].alive);
    chart_put_player(chart, rank, troupe->workers[to].id, troupe->workers[to].incarnation);
    troupe->plays[to]++;
}

static bool fill(troupe *troupe, chart *chart) {
    bool changed = false;
    size_t least = 0, most = 0;
    for (uint32_t rank = 0; rank < chart->rank_count; rank++) {
        if (player_of(troupe, chart, rank) < troupe->count) continue;
        size_t home = find(troupe, rank);
        if (home == troupe->count || troupe->plays[home] != 0) {
            if (!extremes(troupe, &least, &most)) return changed;
            home = least;
        }
        give(troupe, chart, rank, home);
        changed = true;
    }
    return changed;
}

/* A rank of `from` for the worker `to`: the one of its number, else the last. */
static uint32_t rank_for(const troupe *troupe, const chart *chart, size_t from, size_t to) {
    uint32_t found = NO_RANK;
    for (uint32_t rank = 0; rank < chart->rank_count; rank++) {
        if (player_of(troupe, chart, rank) != from) continue;
        found = rank;
        if (rank == troupe->workers[to].id) break;
    }
    return found;
}

static bool share(troupe *troupe, chart *chart) {
    bool changed = false;
    size_t least = 0, most = 0;
    while (extremes(troupe, &least, &most) && troupe->plays[most] > troupe->plays[least] + 1) {
        MR_ASSERT(troupe->plays[most] > 0);
        troupe->plays[most]--;
        give(troupe, chart, rank_for(troupe, chart, most, least), least);
        changed = true;
    }
    return changed;
}

bool cast_next(chart *chart, const cast_worker *workers, size_t count) {
    if (chart->rank_count == 0) return false;
    if (chart->players == NULL) chart->players = xcalloc(chart->rank_count, sizeof *chart->players);
    troupe troupe = {workers, count, xcalloc(count + 1, sizeof(uint32_t))};
    for (uint32_t rank = 0; rank < chart->rank_count; rank++) troupe.plays[player_of(&troupe, chart, rank)]++;
    bool filled = fill(&troupe, chart), shared = share(&troupe, chart);
    free(troupe.plays);
    return filled || shared;
}

bool cast_own(chart *chart, const cast_worker *workers, size_t count) {
    bool changed = false;
    if (chart->rank_count == 0) return false;
    if (chart->players == NULL) chart->players = xcalloc(chart->rank_count, sizeof *chart->players);
    for (size_t i = 0; i < count && workers[i].id < chart->rank_count; i++) {
        const chart_player *player = &chart->players[workers[i].id];
        bool plays = player->since != 0 && player->worker == workers[i].id;
        if (!workers[i].alive || (plays && player->incarnation >= workers[i].incarnation)) continue;
        chart_put_player(chart, workers[i].id, workers[i].id, workers[i].incarnation);
        changed = true;
    }
    return changed;
}
