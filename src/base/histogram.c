/* histogram.c — see histogram.h. */
#include "base/histogram.h"

#include <math.h>

#include "base/assert.h"

static uint64_t read_bucket(const histogram *histogram, uint32_t index) {
    return atomic_load_explicit(&histogram->buckets[index], memory_order_relaxed);
}

static uint64_t lowest_of(uint32_t index) {
    if (index < 2 * HISTOGRAM_PARTS) return index;
    uint32_t halvings = index / HISTOGRAM_PARTS - 1;
    return (uint64_t)(HISTOGRAM_PARTS + index % HISTOGRAM_PARTS) << halvings;
}

static uint64_t middle_of(uint32_t index) {
    uint64_t width = index < 2 * HISTOGRAM_PARTS ? 1 : UINT64_C(1) << (index / HISTOGRAM_PARTS - 1);
    return lowest_of(index) + width / 2;
}

void histogram_merge(histogram *into, const histogram *from) {
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t count = read_bucket(from, i);
        if (count != 0) atomic_fetch_add_explicit(&into->buckets[i], count, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&into->sum, histogram_sum(from), memory_order_relaxed);
}

uint64_t histogram_count(const histogram *histogram) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) count += read_bucket(histogram, i);
    return count;
}

uint64_t histogram_sum(const histogram *histogram) {
    return atomic_load_explicit(&histogram->sum, memory_order_relaxed);
}

/* Values recorded between the two passes only end the second pass earlier. */
uint64_t histogram_quantile(const histogram *histogram, double share) {
    MR_ASSERT(share >= 0 && share <= 1);
    uint64_t count = histogram_count(histogram), seen = 0;
    if (count == 0) return 0;
    double rank = ceil(share * (double)count);
    uint32_t last = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t here = read_bucket(histogram, i);
        if (here == 0) continue;
        seen += here;
        last = i;
        if ((double)seen >= rank) break;
    }
    return middle_of(last);
}

void histogram_octaves(const histogram *histogram, uint64_t counts[HISTOGRAM_OCTAVES]) {
    for (int i = 0; i < HISTOGRAM_OCTAVES; i++) counts[i] = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t low = lowest_of(i);
        counts[low == 0 ? 0 : 64 - __builtin_clzll(low)] += read_bucket(histogram, i);
    }
}
