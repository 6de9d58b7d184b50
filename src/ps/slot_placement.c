/* slot_placement.c — see slot_placement.h. */
#include "ps/slot_placement.h"

#include <stdbool.h>

#include "base/assert.h"
#include "base/binary_search.h"
#include "base/error.h"
#include "ps/stable_hash.h"

mr_status slot_placement_check(const slot_placement_table *table) {
    if (table->slots == 0 || table->slots > SLOT_PLACEMENT_SLOTS_MAX)
        return error_set(MR_INVALID, "%u slots: a table has 1 to %d", table->slots, SLOT_PLACEMENT_SLOTS_MAX);
    if (table->order != SLOT_PLACEMENT_ORDERED) return MR_OK;
    if (table->last < table->first_key)
        return error_set(MR_INVALID, "last_key is below first_key (%u slots)", table->slots);
    uint64_t span = table->last - table->first_key;
    if (span < table->slots - 1) return error_set(MR_INVALID, "fewer keys than slots (%u)", table->slots);
    return MR_OK;
}

/* 128 bits: a table may have all 2^64 keys. */
static unsigned __int128 keys_of(const slot_placement_table *table) {
    return (unsigned __int128)(table->last - table->first_key) + 1;
}

uint32_t slot_placement_slot(const slot_placement_table *table, uint64_t key) {
    if (table->order == SLOT_PLACEMENT_HASHED) return table->first_slot + (uint32_t)(stable_hash(key) % table->slots);
    MR_ASSERT(key >= table->first_key && key <= table->last);
    return table->first_slot + (uint32_t)((unsigned __int128)(key - table->first_key) * table->slots / keys_of(table));
}

const slot_placement_pin *slot_placement_find(const slot_placement_pin *pins, size_t count, uint32_t slot) {
    return binary_search_find(&slot, pins, count, sizeof *pins, binary_search_u32);
}

static bool is_alive(const uint64_t *alive, size_t count, uint64_t id) {
    return binary_search_find(&id, alive, count, sizeof *alive, binary_search_u64) != NULL;
}

static void add(uint64_t *ids, size_t *count, uint64_t id) {
    MR_ASSERT(*count < SLOT_PLACEMENT_COPIES_MAX);
    for (size_t i = 0; i < *count; i++)
        if (ids[i] == id) return;
    ids[(*count)++] = id;
}

size_t slot_placement_target(const hash_ring *ring, const slot_placement_pin *pins, size_t pin_count,
                             const uint64_t *alive, size_t alive_count, uint32_t slot, size_t copies, uint64_t *ids) {
    MR_ASSERT(copies <= SLOT_PLACEMENT_COPIES_MAX);
    uint64_t owners[2 * SLOT_PLACEMENT_COPIES_MAX];
    size_t count = 0;
    const slot_placement_pin *pin = slot_placement_find(pins, pin_count, slot);
    for (size_t i = 0; pin != NULL && i < pin->count && count < copies; i++)
        if (is_alive(alive, alive_count, pin->servers[i])) add(ids, &count, pin->servers[i]);
    /* enough owners even if all pinned servers are among them */
    size_t found = hash_ring_owners(ring, slot, owners, copies + count);
    for (size_t i = 0; i < found && count < copies; i++) add(ids, &count, owners[i]);
    return count;
}
