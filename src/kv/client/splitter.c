/* splitter.c — see splitter.h. */
#include "kv/client/splitter.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "ps/stable_hash.h"

void splitter_fini(splitter *splitter) {
    free(splitter->counts);
    free(splitter->ends);
    free(splitter->touched);
    free(splitter->places);
    free(splitter->slot_of);
    *splitter = (struct splitter){0};
}

static mr_status make_room(splitter *splitter, uint32_t slots, size_t count) {
    if (slots > splitter->slots) {
        MR_TRY(alloc_try_resize(&splitter->ends, slots * sizeof *splitter->ends));
        MR_TRY(alloc_try_resize(&splitter->touched, slots * sizeof *splitter->touched));
        MR_TRY(alloc_try_resize(&splitter->counts, slots * sizeof *splitter->counts));
        for (uint32_t i = splitter->slots; i < slots; i++) splitter->counts[i] = 0;
        splitter->slots = slots;
    }
    if (count <= splitter->room) return MR_OK;
    MR_TRY(alloc_try_resize(&splitter->places, count * sizeof *splitter->places));
    MR_TRY(alloc_try_resize(&splitter->slot_of, count * sizeof *splitter->slot_of));
    splitter->room = count;
    return MR_OK;
}

mr_status splitter_check(const slot_placement_table *table, const uint64_t *keys, size_t count) {
    typedef unsigned long long ull;
    for (size_t i = 1; i < count; i++)
        if (keys[i] <= keys[i - 1])
            return error_set(MR_INVALID, "keys[%zu] is %llu, %s the key before it: keys must ascend", i, (ull)keys[i],
                             keys[i] == keys[i - 1] ? "equal to" : "below");
    if (table->order == SLOT_PLACEMENT_ORDERED && count != 0 &&
        (keys[0] < table->first_key || keys[count - 1] > table->last))
        return error_set(MR_INVALID, "key %llu is outside the table's range %llu to %llu",
                         (ull)(keys[0] < table->first_key ? keys[0] : keys[count - 1]), (ull)table->first_key,
                         (ull)table->last);
    return MR_OK;
}

/* Same result as slot_placement_slot; without a division if the number of slots is a power of two. */
static void find_slots(const slot_placement_table *table, const uint64_t *keys, size_t count, uint32_t *slots) {
    uint32_t mask = table->slots - 1;
    bool masks = table->order == SLOT_PLACEMENT_HASHED && (table->slots & mask) == 0;
    for (size_t i = 0; masks && i < count; i++) slots[i] = table->first_slot + ((uint32_t)stable_hash(keys[i]) & mask);
    for (size_t i = 0; !masks && i < count; i++) slots[i] = slot_placement_slot(table, keys[i]);
}

mr_status splitter_keys(splitter *splitter, const slot_placement_table *table, const uint64_t *keys, size_t count) {
    MR_ASSERT(count <= SPLITTER_KEYS_MAX);
    MR_TRY(splitter_check(table, keys, count));
    MR_TRY(make_room(splitter, table->first_slot + table->slots, count));
    for (uint32_t i = 0; i < splitter->touch_count; i++) splitter->counts[splitter->touched[i]] = 0;
    splitter->touch_count = 0;
    find_slots(table, keys, count, splitter->slot_of);
    for (size_t i = 0; i < count; i++) {
        uint32_t slot = splitter->slot_of[i];
        if (splitter->counts[slot]++ == 0) splitter->touched[splitter->touch_count++] = slot;
    }
    uint32_t end = 0;
    for (uint32_t i = 0; i < splitter->touch_count; i++) { /* start of each slot's places; becomes the end below */
        splitter->ends[splitter->touched[i]] = end;
        end += splitter->counts[splitter->touched[i]];
    }
    for (size_t i = 0; i < count; i++) splitter->places[splitter->ends[splitter->slot_of[i]]++] = (uint32_t)i;
    return MR_OK;
}
