/* marker.c — see marker.h. */
#include "ps/marker.h"

#include "ps/tape.h"

void marker_want(marker *marker) {
    if (marker->wanted != 0) return;
    marker->wanted = marker->newest + 1;
    marker->begun = false;
}

static void order_slot(const marker *marker, const chart *chart, post *post, uint32_t slot) {
    const chart_slot *chain = &chart->slots[slot];
    const chart_server *head = chain->count == 0 ? NULL : chart_find(chart, chain->chain[0].server);
    if (head == NULL) return;
    post_add(
        post, head->address,
        &(part){.kind = PART_ORDER, .entry = TAPE_MARK, .slot = slot, .epoch = chain->epoch, .name = marker->wanted});
}

void marker_order(marker *marker, const chart *chart, post *post, int64_t now_us) {
    uint32_t ledger = chart_ledger(chart);
    if (marker->wanted == 0 || !marker->heard) return;
    if (marker->begun && now_us >= marker->until_us && marker->signs >= MARKER_SIGNS) {
        marker->wanted++;
        marker->begun = false;
    }
    if (!marker->begun) marker->until_us = now_us + MARKER_PATIENCE_US;
    if (!marker->begun) marker->signs = 0;
    marker->begun = true;
    marker->ledger = ledger;
    bool cut = marker->cut == marker->wanted || marker->early;
    for (uint32_t i = 0; i < chart->slot_count; i++)
        if (ledger == NO_LEDGER || i == ledger || (cut && !chart_in_rounds(chart, i)))
            order_slot(marker, chart, post, i);
}

void marker_restart(marker *marker) {
    if (marker->wanted != 0) marker->wanted = marker->newest + 1;
    marker->begun = false;
    marker->cut = 0;
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

bool marker_take(marker *marker, const part *part) {
    if (part->kind == PART_ORDERED && part->entry == TAPE_MARK && marker->wanted != 0) take_ordered(marker, part);
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
    return true;
}

bool marker_seal(marker *marker, post *post, const char *depot, uint64_t number) {
    if (marker->number != number) marker->sealed = false;
    marker->number = number;
    if (!marker->sealed) post_add(post, depot, &(part){.kind = PART_SEAL, .name = number});
    return marker->sealed;
}
