/* sparsify.h — selection of the values that a sparsifying codec sends. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "ps/stable_hash.h"

/* Finds the places of the k ≤ count largest values by magnitude, of equal ones the first, and writes them ascending as
 * k little-endian uint32_t without alignment. The values are finite; zeros of either sign are equal. Three counting
 * passes, without sorting or allocation. */
void sparsify_largest(const float *values, size_t count, size_t k, void *places);

static inline uint64_t sparsify_seed(uint64_t seed, uint64_t step) { return stable_hash2(seed, step); }

/* The random place in stretch i of k: `count` is divided into k stretches whose lengths differ by at most one. Places
 * ascend strictly. */
static inline size_t sparsify_one(uint64_t seed, size_t count, size_t k, size_t i) {
    size_t from = (size_t)((unsigned __int128)count * i / k), to = (size_t)((unsigned __int128)count * (i + 1) / k);
    return from + (size_t)((unsigned __int128)stable_hash2(seed, i) * (to - from) >> 64);
}
