/* key_sort.h — sorting of keys in ascending order. */
#pragma once
#include <stdlib.h>

#include "base/binary_search.h"

static inline void key_sort_keys(uint64_t *keys, size_t count) {
    if (count > 1) qsort(keys, count, sizeof *keys, binary_search_u64);
}

/* Of `count` items of `size` bytes that begin with their key and are sorted by it, the index of the first that is not
 * below the key, searched from the index `from` on; all before `from` are below. Near ones are found in few steps, so
 * that a walk through one list along another costs no more than the shorter of them. */
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
