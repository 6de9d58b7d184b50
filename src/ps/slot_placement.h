/* slot_placement.h — mapping of keys to slots, and of slots to preferred servers.
 *
 * There are two kinds of tables. In a hashed table the hash of a key gives its slot, so load is spread evenly. In an
 * ordered table the space of keys is cut into equal ranges: a range of keys is a run of slots, and load is spread by
 * moving slots (balancer.h). The number of slots is fixed when the table is made.
 *
 * The target of a slot is its owners on the ring, unless the slot is pinned: then the pinned servers come first, in
 * their order, followed by owners on the ring. The target is the controller's goal; the cluster map is the current
 * state.
 *
 * Pure. */
#pragma once
#include "ps/hash_ring.h"

enum { SLOT_PLACEMENT_COPIES_MAX = 8, SLOT_PLACEMENT_SLOTS_MAX = 1 << 20 };

typedef enum slot_placement_order { SLOT_PLACEMENT_HASHED, SLOT_PLACEMENT_ORDERED } slot_placement_order;

typedef struct slot_placement_table {
    slot_placement_order order;
    uint32_t slots;           /* 1 … SLOT_PLACEMENT_SLOTS_MAX */
    uint64_t first_key, last; /* range of an ordered table, both ends included; a hashed table takes all keys */
    uint32_t first_slot;      /* number of its first slot */
} slot_placement_table;

MR_MUST mr_status slot_placement_check(const slot_placement_table *table); /* MR_INVALID */

/* Slot of a key, which must be in the table's range. */
uint32_t slot_placement_slot(const slot_placement_table *table, uint64_t key);

typedef struct slot_placement_pin { /* lists of pins are sorted by slot, each slot once */
    uint32_t slot, count;
    uint64_t servers[SLOT_PLACEMENT_COPIES_MAX];
} slot_placement_pin;

/* NULL: not pinned */
const slot_placement_pin *slot_placement_find(const slot_placement_pin *pins, size_t count, uint32_t slot);

/* Writes the preferred servers of a slot, at most `copies`; returns their number. Pinned servers that are not in
 * `alive` (sorted) are skipped. */
size_t slot_placement_target(const hash_ring *ring, const slot_placement_pin *pins, size_t pin_count,
                             const uint64_t *alive, size_t alive_count, uint32_t slot, size_t copies, uint64_t *ids);
