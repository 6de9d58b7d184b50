/* marker.c — see marker.h. */
#include "ps/marker.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/mutation.h"
#include "ps/tape.h"

void marker_fini(marker *marker) {
    truce_fini(&marker->truce);
    free(marker->has_cut);
    marker->has_cut = NULL;
}

void marker_check(const marker *marker) {
    uint32_t cut = 0;
    bool still = marker->phase == MARKER_PAUSING || marker->phase == MARKER_CUTTING;
    MR_ASSERT(marker->phase == MARKER_RESTING || marker->wanted != 0);                  /* 1 */
    MR_ASSERT(marker->phase == MARKER_RESTING || still == (marker->truce.number != 0)); /* 2 */
    truce_check(&marker->truce);                                                        /* 2 */
    for (uint32_t i = 0; marker->has_cut != NULL && i < marker->slot_count; i++) cut += marker->has_cut[i];
    MR_ASSERT(cut == marker->cut_count && cut <= marker->slot_count);                   /* 3 */
    MR_ASSERT((marker->heard || !marker->made) && marker->failures <= MARKER_REST_MAX); /* 4 */
}

void marker_want(marker *marker) {
    if (marker->wanted != 0) return;
    marker->wanted = marker->newest + 1;
    marker->begun = false;
}

static void order_slot(const marker *marker, const chart *chart, post *post, uint32_t slot) {
    MR_ASSERT(slot < chart->slot_count && marker->wanted != 0);
    const chart_slot *chain = &chart->slots[slot];
    const chart_server *head = chain->count == 0 ? NULL : chart_find(chart, chain->chain[0].server);
    if (head == NULL) return;
    post_add(
        post, head->address,
        &(part){.kind = PART_ORDER, .entry = TAPE_MARK, .slot = slot, .epoch = chain->epoch, .name = marker->wanted});
}

/* ---- Exact ones. */

/* If there is one. */
static void end_pause(marker *marker, post *post, marker_crew crew, int64_t now_us) {
    if (marker->truce.number == 0) return;
    truce_tell(&marker->truce, post, crew.workers, crew.count, true);
    truce_fini(&marker->truce);
    marker->free_us = now_us + (now_us - marker->since_us);
}

/* Everybody trains for a while, then it is tried with the next one. */
static void give_up(marker *marker, post *post, marker_crew crew, int64_t now_us) {
    end_pause(marker, post, crew, now_us);
    marker->phase = MARKER_RESTING;
    marker->until_us = now_us + (marker->pause_us << marker->failures);
    if (marker->failures < MARKER_REST_MAX) marker->failures++;
    marker->wanted++;
}

static void begin_pause(marker *marker, const chart *chart, int64_t now_us) {
    MR_ASSERT(marker->phase == MARKER_RESTING && marker->exact && marker->wanted != 0);
    marker->pauses = marker->pauses + 1 > marker->wanted ? marker->pauses + 1 : marker->wanted;
    truce_begin(&marker->truce, marker->pauses, chart);
    free(marker->has_cut);
    marker->has_cut = xcalloc(chart->slot_count + 1, sizeof *marker->has_cut);
    marker->slot_count = chart->slot_count;
    marker->cut_count = 0;
    marker->phase = MARKER_PAUSING;
    marker->since_us = now_us;
    marker->until_us = now_us + marker->pause_us;
    marker->press_us = now_us + (marker->pause_us / 2 < MARKER_PRESS_US ? marker->pause_us / 2 : MARKER_PRESS_US);
}

static void order_cuts(marker *marker, const chart *chart, post *post, marker_crew crew, int64_t now_us) {
    MR_ASSERT(marker->phase == MARKER_CUTTING && marker->slot_count <= chart->slot_count);
    for (uint32_t i = 0; i < marker->slot_count; i++)
        if (!marker->has_cut[i]) order_slot(marker, chart, post, i);
    if (marker->cut_count < marker->slot_count) return;
    end_pause(marker, post, crew, now_us);
    marker->phase = MARKER_SAVING;
    marker->begun = false;
}

/* Ranks train meanwhile. */
static void await_saved(marker *marker, post *post, marker_crew crew, int64_t now_us) {
    if (marker->begun && now_us >= marker->until_us && marker->signs >= MARKER_SIGNS) {
        give_up(marker, post, crew, now_us);
        return;
    }
    if (!marker->begun) marker->until_us = now_us + MARKER_PATIENCE_US;
    if (!marker->begun) marker->signs = 0;
    marker->begun = true;
}

static void order_exact(marker *marker, const chart *chart, post *post, marker_crew crew, int64_t now_us) {
    bool due = now_us >= marker->until_us;
    if (marker->phase == MARKER_SAVING) {
        await_saved(marker, post, crew, now_us);
        return;
    }
    if (marker->phase != MARKER_RESTING && due) {
        give_up(marker, post, crew, now_us);
        return;
    }
    if (marker->phase == MARKER_RESTING && due && now_us >= marker->free_us) begin_pause(marker, chart, now_us);
    if (marker->phase == MARKER_RESTING) return;
    if (marker->phase == MARKER_PAUSING && truce_is_still(&marker->truce, chart, crew.workers, crew.count))
        marker->phase = MARKER_CUTTING;
    if (marker->phase == MARKER_PAUSING && now_us >= marker->press_us) truce_press(&marker->truce);
    truce_tell(&marker->truce, post, crew.workers, crew.count, false);
    if (marker->phase == MARKER_CUTTING) order_cuts(marker, chart, post, crew, now_us);
}

/* A cut with a higher number than is wanted is one of an earlier attempt: this one begins again, above it. */
static void take_exact(marker *marker, const part *part) {
    if (marker->phase != MARKER_CUTTING || part->slot >= marker->slot_count || part->lsn < marker->wanted) return;
    if (part->lsn > marker->wanted) {
        marker->wanted = part->lsn + 1;
        marker->cut_count = 0;
        for (uint32_t i = 0; i < marker->slot_count; i++) marker->has_cut[i] = false;
        return;
    }
    marker->cut_count += !marker->has_cut[part->slot];
    marker->has_cut[part->slot] = true;
}

/* Somebody has heard of a later pause, of a director that is gone. */
static void take_paused(marker *marker, const chart *chart, const part *part) {
    uint64_t above;
    truce_take(&marker->truce, chart, part, &above);
    if (above < marker->pauses || marker->phase != MARKER_PAUSING) return;
    marker->pauses = above + 1;
    truce_begin(&marker->truce, marker->pauses, chart);
}

/* What was wanted is whole, and workers still stand still for it: the depot was heard before all heads. */
static bool is_over(const marker *marker) { return marker->phase == MARKER_RESTING && marker->truce.number != 0; }

bool marker_moves(const marker *marker, const chart *chart, marker_crew crew) {
    if (is_over(marker)) return true;
    if (marker->phase == MARKER_CUTTING) return marker->cut_count == marker->slot_count;
    return marker->phase == MARKER_PAUSING && truce_is_still(&marker->truce, chart, crew.workers, crew.count);
}

/* ---- All of them. */

void marker_order(marker *marker, const chart *chart, post *post, marker_crew crew, int64_t now_us) {
    uint32_t ledger = chart_ledger(chart);
    if (marker->phase == MARKER_RESTING) end_pause(marker, post, crew, now_us);
    if (marker->wanted == 0 || !marker->heard) return;
    if (marker->exact && ledger == NO_LEDGER) {
        if (chart->slot_count != 0) order_exact(marker, chart, post, crew, now_us);
        return;
    }
    if (marker->begun && now_us >= marker->until_us && marker->signs >= MARKER_SIGNS) {
        marker->wanted++;
        marker->begun = false;
    }
    if (!marker->begun) marker->until_us = now_us + MARKER_PATIENCE_US;
    if (!marker->begun) marker->signs = 0;
    marker->begun = true;
    marker->ledger = ledger;
    bool cut = marker->cut == marker->wanted || MUTATED("mark-early");
    for (uint32_t i = 0; i < chart->slot_count; i++)
        if (ledger == NO_LEDGER || i == ledger || (cut && !chart_in_rounds(chart, i)))
            order_slot(marker, chart, post, i);
}

/* Whoever rests hears of the other generation, and goes on. */
void marker_restart(marker *marker) {
    if (marker->wanted != 0) marker->wanted = marker->newest + 1;
    marker->begun = false;
    marker->cut = 0;
    marker->phase = MARKER_RESTING;
    marker->until_us = marker->free_us = 0;
    truce_fini(&marker->truce);
}

static void take_ordered(marker *marker, const part *part) {
    if (part->lsn > marker->wanted) marker->wanted = part->lsn;
    if (part->status == PART_LATER) marker->begun = false;
    if (part->status == PART_OK && part->slot == marker->ledger) marker->cut = part->lsn;
}

/* Whoever saves what is wanted is not hurried. */
static void take_sign(marker *marker, const part *part) {
    bool moves = part->lsn != marker->making || part->commit != marker->saved;
    if (moves && marker->wanted != 0 && part->lsn >= marker->wanted) marker->begun = false;
    marker->making = part->lsn;
    marker->saved = part->commit;
    marker->signs++;
}

bool marker_take(marker *marker, const chart *chart, const part *part) {
    bool exact = marker->exact && chart_ledger(chart) == NO_LEDGER;
    if (part->kind == PART_ORDERED && part->entry == TAPE_MARK && marker->wanted != 0)
        (exact ? take_exact : take_ordered)(marker, part);
    if (part->kind == PART_PAUSED) take_paused(marker, chart, part);
    if (part->kind == PART_SEALED && part->commit > marker->known) marker->known = part->commit;
    if (part->kind == PART_SEALED && part->name == marker->number && marker->known <= marker->number) {
        marker->sealed = true;
        marker->origin = part->lsn;
    }
    if (part->kind != PART_WHOLE || part->status != PART_OK) return false;
    if (!marker->heard && marker->wanted != 0) marker->wanted = part->name + 1;
    marker->heard = true;
    take_sign(marker, part);
    if (part->name > marker->newest) marker->newest = part->name;
    if (marker->wanted == 0 || marker->newest < marker->wanted) return false;
    marker->wanted = 0;
    marker->made = true;
    marker->failures = 0;
    marker->phase = MARKER_RESTING;
    marker->until_us = 0;
    return true;
}

static uint64_t higher(uint64_t a, uint64_t b) { return a > b ? a : b; }

bool marker_bound(const marker *marker, uint64_t *number) {
    *number = higher(higher(marker->newest, marker->wanted), marker->cut);
    return marker->heard && (marker->made || *number == 0);
}

bool marker_seal(marker *marker, post *post, const char *depot, uint64_t number) {
    if (marker->number != number) marker->sealed = false;
    marker->number = number;
    if (!marker->sealed) post_add(post, depot, &(part){.kind = PART_SEAL, .name = number});
    return marker->sealed;
}
