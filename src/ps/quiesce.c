/* quiesce.c — see quiesce.h. */
#include "ps/quiesce.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "ps/quiesce_client.h"

void quiesce_fini(quiesce *quiesce) {
    free(quiesce->ranks);
    *quiesce = (struct quiesce){0};
}

void quiesce_begin(quiesce *quiesce, uint64_t number, const cluster_map *map) {
    MR_ASSERT(number != 0);
    quiesce_fini(quiesce);
    quiesce->number = number;
    quiesce->rank_count = map->rank_count;
    quiesce->ranks = xcalloc(map->rank_count + 1, sizeof *quiesce->ranks);
}

void quiesce_tell(const quiesce *quiesce, batcher *batcher, quiesce_workers workers, bool over) {
    slot_message message = {.kind = SLOT_MESSAGE_PAUSE,
                            .status = over ? SLOT_MESSAGE_GONE : SLOT_MESSAGE_OK,
                            .name = quiesce->number,
                            .lsn = quiesce->floor};
    for (size_t i = 0; i < workers.count && quiesce->number != 0; i++)
        if (workers.list[i].alive && workers.list[i].address[0] != '\0')
            batcher_add(batcher, workers.list[i].address, &message);
}

/* The step that all ranks must have ended so that a rank in `step` can end it. */
static uint64_t floor_of(const cluster_map *map, uint64_t step) {
    uint64_t ahead = (uint64_t)map->consistency.bound + 1;
    return map->consistency.kind == CONSISTENCY_SSP && step > ahead ? step - ahead : 0;
}

void quiesce_take(quiesce *quiesce, const cluster_map *map, const slot_message *message, uint64_t *above) {
    *above = 0;
    if (quiesce->number == 0 || message->name != quiesce->number || message->rank >= quiesce->rank_count) return;
    if (message->status == SLOT_MESSAGE_GONE) {
        *above = message->prev;
        return;
    }
    quiesce_rank *rank = &quiesce->ranks[message->rank];
    if (message->commit < rank->term) return;
    *rank = (quiesce_rank){message->commit, message->lsn, message->status == SLOT_MESSAGE_OK};
    if (message->lsn == QUIESCE_CLIENT_LEFT) return;
    if (message->lsn > quiesce->latest) quiesce->latest = message->lsn;
    uint64_t floor = floor_of(map, message->lsn);
    if (floor > quiesce->floor) quiesce->floor = floor;
}

void quiesce_press(quiesce *quiesce) {
    if (quiesce->latest > quiesce->floor + 1) quiesce->floor = quiesce->latest - 1;
}

static bool is_here(const cluster_map_rank *rank, quiesce_workers workers) {
    const cluster_map_process *worker =
        binary_search_find(&rank->worker, workers.list, workers.count, sizeof *workers.list, binary_search_u32);
    return rank->since != 0 && worker != NULL && worker->alive && worker->incarnation == rank->incarnation;
}

bool quiesce_is_still(const quiesce *quiesce, const cluster_map *map, quiesce_workers workers) {
    if (quiesce->number == 0 || map->rank_count != quiesce->rank_count) return false;
    for (uint32_t i = 0; i < map->rank_count; i++) {
        const quiesce_rank *rank = &quiesce->ranks[i];
        if (!is_here(&map->ranks[i], workers)) continue;
        if (rank->term != map->ranks[i].since || !rank->still || rank->step < quiesce->floor) return false;
    }
    return true;
}

bool quiesce_has_ranks(const cluster_map *map, quiesce_workers workers) {
    for (uint32_t i = 0; map->ranks != NULL && i < map->rank_count; i++)
        if (is_here(&map->ranks[i], workers)) return true;
    return false;
}

void quiesce_check(const quiesce *quiesce) {
    MR_ASSERT(quiesce->number != 0 || (quiesce->ranks == NULL && quiesce->rank_count == 0)); /* 1 */
    MR_ASSERT(quiesce->floor <= quiesce->latest);                                            /* 2 */
    /* 2 */
    for (uint32_t i = 0; i < quiesce->rank_count; i++)
        MR_ASSERT(quiesce->ranks[i].step <= quiesce->latest || quiesce->ranks[i].step == QUIESCE_CLIENT_LEFT);
}
