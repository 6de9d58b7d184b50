/* order.h — sorting of keys in ascending order. */
#pragma once
#include <stdlib.h>

#include "base/search.h"

static inline int order_compare(const void *a, const void *b) {
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static inline void order_keys(uint64_t *keys, size_t count) {
    if (count > 1) qsort(keys, count, sizeof *keys, order_compare);
}

/* The index of the first that is not below the key, from the index `from` on, before which all are: near ones are found
 * in few steps, so that a walk through one list along another costs no more than the shorter of them. */
static inline size_t order_reach(const uint64_t *keys, size_t count, size_t from, uint64_t key) {
    size_t step = 1, low = from, high = from;
    while (high < count && keys[high] < key) {
        low = high + 1;
        high = step < count - high ? high + step : count;
        step *= 2;
    }
    return low + search_first(&key, keys + low, high - low, sizeof *keys, order_compare);
}
