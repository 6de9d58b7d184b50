/* binary_search.h — binary search in a sorted array. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Index of the first item that is not below the key, in a sorted array of `count` items of `size` bytes; `count` if all
 * items are below. `compare` gives the sign of the key against an item, as for bsearch. */
static inline size_t binary_search_first(const void *key, const void *items, size_t count, size_t size,
                                         int (*compare)(const void *key, const void *item)) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(key, (const uint8_t *)items + middle * size) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The item with this key, or NULL. Not const, as for bsearch. */
static inline void *binary_search_find(const void *key, const void *items, size_t count, size_t size,
                                       int (*compare)(const void *key, const void *item)) {
    size_t at = binary_search_first(key, items, count, size, compare);
    if (at == count) return NULL;
    const uint8_t *item = (const uint8_t *)items + at * size;
    return compare(key, item) == 0 ? (void *)(uintptr_t)item : NULL;
}

/* `compare` functions for items that begin with their key. */
static inline int binary_search_u32(const void *key, const void *item) {
    uint32_t wanted = *(const uint32_t *)key, found = *(const uint32_t *)item;
    return (wanted > found) - (wanted < found);
}
static inline int binary_search_u64(const void *key, const void *item) {
    uint64_t wanted = *(const uint64_t *)key, found = *(const uint64_t *)item;
    return (wanted > found) - (wanted < found);
}
