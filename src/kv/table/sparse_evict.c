/* sparse_evict.c — eviction of keys by age. See sparse_table.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "kv/table/sparse_internal.h"

size_t sparse_table_erase(sparse *table, const uint64_t *keys, size_t count) {
    size_t erased = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = sparse_hash(keys[i]);
        uint32_t number = key_index_find(&table->index, hash);
        if (number == 0) continue;
        if (sparse_is_row(number)) {
            row_pool_give(&table->pool, number);
            sparse_note(table, keys[i]);
        }
        key_index_remove(&table->index, hash);
        erased++;
    }
    return erased;
}

size_t sparse_table_aged(const sparse *table, uint32_t now, uint32_t age, uint64_t last, sparse_table_cursor *cursor,
                         uint64_t *keys, size_t room) {
    size_t count = 0;
    key_index_entry entry;
    bool more = !cursor->done && key_index_next(&table->index, cursor->from, &entry);
    for (; more && entry.hash <= last && count < room; more = sparse_following(table, entry.hash, &entry))
        if (now - entry.seen > age) keys[count++] = sparse_key(entry.hash);
    more = more && entry.hash <= last;
    *cursor = (sparse_table_cursor){more ? entry.hash : 0, !more};
    return count;
}

/* ---- The oldest keys. A first walk counts ages by their upper halves, a second one the ages with the upper half of
 * the limit by their lower halves: that gives the limit without sorting. */

enum { HALF = 1 << 16 };

static void count_ages(const sparse *table, uint32_t now, bool lower, uint32_t upper, uint64_t *counts) {
    for (size_t i = 0; i < HALF; i++) counts[i] = 0;
    key_index_entry e;
    for (bool more = key_index_next(&table->index, 0, &e); more; more = sparse_following(table, e.hash, &e)) {
        uint32_t age = now - e.seen;
        if (!lower)
            counts[age >> 16]++;
        else if (age >> 16 == upper)
            counts[age & (HALF - 1)]++;
    }
}

/* The half of the *count-th age, from the highest down. *count becomes the number of ages wanted with that half. */
static uint32_t half_of_last(const uint64_t *counts, uint64_t *count) {
    uint32_t half = HALF - 1;
    for (; half > 0 && counts[half] < *count; half--) *count -= counts[half];
    return half;
}

mr_status sparse_table_oldest(const sparse *table, uint32_t now, size_t count, uint64_t *keys, size_t *out) {
    uint64_t of_limit = count < table->index.count ? count : table->index.count, *counts;
    MR_TRY(alloc_try(HALF * sizeof *counts, &counts));
    count_ages(table, now, false, 0, counts);
    uint32_t upper = half_of_last(counts, &of_limit);
    count_ages(table, now, true, upper, counts);
    uint32_t limit = upper << 16 | half_of_last(counts, &of_limit);
    free(counts);
    size_t found = 0;
    key_index_entry e;
    bool more = key_index_next(&table->index, 0, &e);
    for (; found < count && more; more = sparse_following(table, e.hash, &e)) {
        uint32_t age = now - e.seen;
        if (age < limit || (age == limit && of_limit == 0)) continue;
        if (age == limit) of_limit--;
        keys[found++] = sparse_key(e.hash);
    }
    *out = found;
    return MR_OK;
}
