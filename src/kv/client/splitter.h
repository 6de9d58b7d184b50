/* splitter.h — assignment of a request's keys to slots.
 *
 * A counting sort: the places of the keys in the request, slot by slot, in their order. A request for one key costs one
 * key, however many slots there are.
 *
 *     splitter_keys(splitter, &placement, keys, count);
 *     for (i = 0; i < splitter->touch_count; i++) {
 *         splitter_run run = splitter_at(splitter, i);             // run.slot, run.places[0 … run.count)
 *     }
 *
 * Invariants  all counts are 0 but those of the slots that the last request touched. Keys are ascending and different,
 *             so those of a slot are.
 * Bounds      SPLITTER_KEYS_MAX keys at a time.
 * Pure. */
#pragma once
#include "ps/slot_placement.h"

enum { SPLITTER_KEYS_MAX = 1 << 20 };

typedef struct splitter { /* zero-initialized: ready */
    uint32_t *counts;     /* by slot; owned, as are the others */
    uint32_t *ends;       /* by slot: behind its places */
    uint32_t *touched;    /* slots that have keys, in the order of their first ones */
    uint32_t *places;     /* of keys, slot by slot */
    uint32_t *slot_of;    /* by key */
    uint32_t slots, touch_count;
    size_t room; /* keys */
} splitter;

typedef struct splitter_run { /* the keys of one slot */
    uint32_t slot, count;
    const uint32_t *places; /* in the request, ascending; borrowed until the next request */
} splitter_run;

void splitter_fini(splitter *splitter);

/* Checks the keys as splitter_keys does: MR_INVALID. */
MR_MUST mr_status splitter_check(const slot_placement_table *table, const uint64_t *keys, size_t count);
/* MR_INVALID: a key is not above the one before it, or outside the table; the error names it. MR_NOMEM. */
MR_MUST mr_status splitter_keys(splitter *splitter, const slot_placement_table *table, const uint64_t *keys,
                                size_t count);

static inline splitter_run splitter_at(const splitter *splitter, uint32_t i) {
    uint32_t slot = splitter->touched[i], count = splitter->counts[slot];
    return (splitter_run){slot, count, splitter->places + splitter->ends[slot] - count};
}
