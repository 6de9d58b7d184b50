/* truce.c — see truce.h. */
#include "ps/truce.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/search.h"

void truce_fini(truce *truce) {
    free(truce->ranks);
    *truce = (struct truce){0};
}

void truce_begin(truce *truce, uint64_t number, const chart *chart) {
    MR_ASSERT(number != 0);
    truce_fini(truce);
    truce->number = number;
    truce->rank_count = chart->rank_count;
    truce->ranks = xcalloc(chart->rank_count + 1, sizeof *truce->ranks);
}

void truce_tell(const truce *truce, post *post, const truce_worker *workers, size_t count, bool over) {
    part part = {.kind = PART_PAUSE, .status = over ? PART_GONE : PART_OK, .name = truce->number, .lsn = truce->floor};
    for (size_t i = 0; i < count && truce->number != 0; i++)
        if (workers[i].alive && workers[i].address[0] != '\0') post_add(post, workers[i].address, &part);
}

/* Steps that everybody has to have ended before the last one can. */
static uint64_t floor_of(const chart *chart, uint64_t step) {
    uint64_t ahead = (uint64_t)chart->consistency.bound + 1;
    return chart->consistency.kind == CONSISTENCY_SSP && step > ahead ? step - ahead : 0;
}

void truce_take(truce *truce, const chart *chart, const part *part, uint64_t *above) {
    *above = 0;
    if (truce->number == 0 || part->name != truce->number || part->rank >= truce->rank_count) return;
    if (part->status == PART_GONE) {
        *above = part->prev;
        return;
    }
    truce_rank *rank = &truce->ranks[part->rank];
    if (part->commit < rank->stint) return;
    *rank = (truce_rank){part->commit, part->lsn, part->status == PART_OK};
    if (part->lsn > truce->latest) truce->latest = part->lsn;
    uint64_t floor = floor_of(chart, part->lsn);
    if (floor > truce->floor) truce->floor = floor;
}

void truce_press(truce *truce) {
    if (truce->latest > truce->floor + 1) truce->floor = truce->latest - 1;
}

static bool is_here(const chart_player *player, const truce_worker *workers, size_t count) {
    if (player->since == 0) return false;
    size_t at = search_first(&player->worker, workers, count, sizeof *workers, search_u32);
    return at < count && workers[at].id == player->worker && workers[at].alive &&
           workers[at].incarnation == player->incarnation;
}

bool truce_is_still(const truce *truce, const chart *chart, const truce_worker *workers, size_t count) {
    if (truce->number == 0 || chart->rank_count != truce->rank_count) return false;
    for (uint32_t i = 0; i < chart->rank_count; i++) {
        const truce_rank *rank = &truce->ranks[i];
        if (!is_here(&chart->players[i], workers, count)) continue;
        if (rank->stint != chart->players[i].since || !rank->still || rank->step < truce->floor) return false;
    }
    return true;
}

void truce_check(const truce *truce) {
    MR_ASSERT(truce->number != 0 || (truce->ranks == NULL && truce->rank_count == 0));                 /* 1 */
    MR_ASSERT(truce->floor <= truce->latest);                                                          /* 2 */
    for (uint32_t i = 0; i < truce->rank_count; i++) MR_ASSERT(truce->ranks[i].step <= truce->latest); /* 2 */
}
