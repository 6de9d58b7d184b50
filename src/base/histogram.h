/* histogram.h — log-linear histogram with bounded memory and a bounded error.
 *
 * Each value below 64 has its own bucket, and every further power of two is divided into HISTOGRAM_PARTS equal buckets,
 * up to 2^64. A bucket is never wider than 1/32 of its values, so its middle, which represents the bucket, is within
 * 1/64 (1.6 %) of each of them: that is the error of every quantile. The caller chooses the unit: µs, ns, bytes.
 *
 * Recording is two relaxed atomic additions, from any thread. A reader may run concurrently with recorders. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

enum {
    HISTOGRAM_PARTS_LOG2 = 5,
    HISTOGRAM_PARTS = 1 << HISTOGRAM_PARTS_LOG2,
    HISTOGRAM_BUCKETS = (64 - HISTOGRAM_PARTS_LOG2 + 1) * HISTOGRAM_PARTS, /* 15 KB */
    HISTOGRAM_ERROR_INVERSE = 2 * HISTOGRAM_PARTS, /* maximum relative error of a quantile, inverted */
    HISTOGRAM_OCTAVES = 65,
};

typedef struct histogram { /* zero-initialized: empty and ready */
    _Atomic uint64_t sum;  /* modulo 2^64 */
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
} histogram;

/* Below 2 × PARTS the index is the value. Above, the index consists of the number of halvings and the leading bits. */
static inline uint32_t histogram_bucket(uint64_t value) {
    if (value < HISTOGRAM_PARTS) return (uint32_t)value;
    uint32_t halvings = 63 - (uint32_t)__builtin_clzll(value) - HISTOGRAM_PARTS_LOG2;
    return halvings * HISTOGRAM_PARTS + (uint32_t)(value >> halvings);
}

static inline void histogram_record(histogram *histogram, uint64_t value) {
    atomic_fetch_add_explicit(&histogram->buckets[histogram_bucket(value)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value, memory_order_relaxed);
}

/* Adds all of `from`, which is unchanged: the result equals one histogram of all recorded values. */
void histogram_merge(histogram *into, const histogram *from);

uint64_t histogram_count(const histogram *histogram);
uint64_t histogram_sum(const histogram *histogram);

/* The smallest recorded value such that at least this share of all values is not above it: 0 gives the minimum, 0.5 the
 * median, 1 the maximum. 0 if nothing was recorded. */
uint64_t histogram_quantile(const histogram *histogram, double share);

/* Numbers of values with 0, 1, 2 … 64 bits; values of i bits are at most 2^i - 1. */
void histogram_octaves(const histogram *histogram, uint64_t counts[HISTOGRAM_OCTAVES]);
