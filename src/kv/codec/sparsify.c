/* sparsify.c — see sparsify.h. The bits of magnitudes, read as integers, have the order of the magnitudes. Three passes
 * read 11, 10 and 10 bits from the highest down; each finds the bits of the kth largest magnitude. */
#include "kv/codec/sparsify.h"

#include <string.h>

#include "base/assert.h"
#include "base/half.h"

enum { NUMBERS = 2048 };

static uint32_t magnitude(float value) { return half_bits(value) & 0x7fffffff; }

/* Among the values whose bits from `above` on are `prefix`: the next bits, down to `low`, of the *k-th largest. *k
 * becomes its rank among the values that share these bits. */
static uint32_t narrow(const float *values, size_t count, uint32_t prefix, unsigned above, unsigned low, size_t *k) {
    size_t counts[NUMBERS] = {0};
    uint32_t mask = (UINT32_C(1) << (above - low)) - 1, number = mask;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = magnitude(values[i]);
        if ((uint64_t)bits >> above == prefix) counts[bits >> low & mask]++;
    }
    for (; number > 0 && counts[number] < *k; number--) *k -= counts[number];
    return prefix << (above - low) | number;
}

void sparsify_largest(const float *values, size_t count, size_t k, void *places) {
    MR_ASSERT(k <= count && count <= UINT32_MAX);
    if (k == 0) return;
    size_t of_limit = k;
    uint32_t limit = narrow(values, count, 0, 31, 20, &of_limit);
    limit = narrow(values, count, limit, 20, 10, &of_limit);
    limit = narrow(values, count, limit, 10, 0, &of_limit);
    uint8_t *at = places;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = magnitude(values[i]);
        if (bits < limit || (bits == limit && of_limit == 0)) continue;
        if (bits == limit) of_limit--;
        memcpy(at, &i, sizeof i);
        at += sizeof i;
    }
}
