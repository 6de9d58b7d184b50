/* key_sort.h — searches in sorted keys, and sorting of keys. */
#pragma once
#include <stdlib.h>

#include "base/binary_search.h"

static inline void key_sort_keys(uint64_t *keys, size_t count) {
    if (count > 1) qsort(keys, count, sizeof *keys, binary_search_u64);
}

/* Index of the first of `count` items that is not below the key. Each item has `size` bytes and begins with its key;
 * items ascend. The search begins at index `from`; all items before it are below the key. Near items are found in few
 * steps, so that walking one list along another costs at most the length of the shorter one. */
static inline size_t key_sort_reach(const void *items, size_t count, size_t size, size_t from, uint64_t key) {
    size_t step = 1, low = from, high = from;
    while (high < count && binary_search_u64(&key, (const uint8_t *)items + high * size) > 0) {
        low = high + 1;
        high = step < count - high ? high + step : count;
        step *= 2;
    }
    if (low == high) return low;
    return low + binary_search_first(&key, (const uint8_t *)items + low * size, high - low, size, binary_search_u64);
}
