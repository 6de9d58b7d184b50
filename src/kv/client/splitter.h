/* splitter.h — assignment of a request's keys to slots.
 *
 * A counting sort of the keys' places in the request by slot; within a slot they ascend. The cost of a request with one
 * key does not depend on the number of slots.
 *
 *     splitter_keys(splitter, &placement, keys, count);
 *     for (i = 0; i < splitter->touch_count; i++) {
 *         splitter_run run = splitter_at(splitter, i);             // run.slot, run.places[0 … run.count)
 *     }
 *
 * Invariants  all counts are 0 except those of the slots of the last request. The keys of a request ascend strictly, so
 *             the keys of each slot do.
 * Bounds      SPLITTER_KEYS_MAX keys at a time.
 * Pure. */
#pragma once
#include "ps/slot_placement.h"

enum { SPLITTER_KEYS_MAX = 1 << 20 };

typedef struct splitter { /* zero-initialized: ready for use */
    uint32_t *counts;     /* by slot; owned, like the other arrays */
    uint32_t *ends;       /* by slot: end of its places */
    uint32_t *touched;    /* slots with keys, in the order of their first keys */
    uint32_t *places;     /* places of the keys, slot by slot */
    uint32_t *slot_of;    /* slot of each key */
    uint32_t slots, touch_count;
    size_t room; /* keys */
} splitter;

typedef struct splitter_run { /* the keys of one slot */
    uint32_t slot, count;
    const uint32_t *places; /* in the request, ascending; borrowed until the next request */
} splitter_run;

void splitter_fini(splitter *splitter);

/* Checks the keys as splitter_keys does. MR_INVALID. */
MR_MUST mr_status splitter_check(const slot_placement_table *table, const uint64_t *keys, size_t count);
/* Sorts the keys by slot. MR_INVALID: a key is not above its predecessor, or outside the table; the error names it.
 * MR_NOMEM. */
MR_MUST mr_status splitter_keys(splitter *splitter, const slot_placement_table *table, const uint64_t *keys,
                                size_t count);

static inline splitter_run splitter_at(const splitter *splitter, uint32_t i) {
    uint32_t slot = splitter->touched[i], count = splitter->counts[slot];
    return (splitter_run){slot, count, splitter->places + splitter->ends[slot] - count};
}
