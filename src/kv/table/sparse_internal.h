/* sparse_internal.h — internals of a sparse table, shared by sparse*.c. See sparse_table.h. */
#pragma once
#include "kv/table/key_index.h"
#include "kv/table/key_order.h"
#include "kv/table/row_pool.h"
#include "kv/table/sparse_table.h"
#include "ps/stable_hash.h"

struct sparse {
    sparse_table_options options;
    size_t value_bytes; /* bytes of the stored values of a row */
    key_index index;
    row_pool pool;
    key_order *order; /* owned: keys that have a row, ascending; NULL: there was no range, or none is kept */
};

/* The key got or lost a row. */
static inline void sparse_note(sparse *table, uint64_t key) {
    if (table->order == NULL || key_order_note(table->order, key)) return;
    key_order_destroy(table->order);
    table->order = NULL;
}

/* In the key index, a row number above ROW_POOL_MAX denotes a key without a row, and counts its touches. */
#define SPARSE_CANDIDATE ROW_POOL_MAX

_Static_assert(SPARSE_CANDIDATE == KEY_INDEX_MARKS, "the finder keeps what stands for a row");

static inline bool sparse_is_row(uint32_t number) { return number != 0 && number < SPARSE_CANDIDATE; }

/* The entry with the next larger hash. False: none. */
static inline bool sparse_following(const sparse *table, uint64_t hash, key_index_entry *out) {
    return hash != UINT64_MAX && key_index_next(&table->index, hash + 1, out);
}

/* The hash differs from that which assigns keys to slots (slot_placement.h): all keys of this table may share bits of
 * that one. */
#define SPARSE_SALT UINT64_C(0x5bd1e9955bd1e995)
static inline uint64_t sparse_hash(uint64_t key) { return stable_hash(key ^ SPARSE_SALT); }
static inline uint64_t sparse_key(uint64_t hash) { return stable_unhash(hash) ^ SPARSE_SALT; }
