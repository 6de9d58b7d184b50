/* histogram.h — log-linear histogram with bounded memory and a bounded error.
 *
 * Log-linear buckets: values below 64 have one each, and every further power of two is cut into HISTOGRAM_PARTS equal
 * ones, up to 2^64. So a bucket is never wider than 1/32 of its values, and what stands for it, its middle, is within
 * 1/64 (1.6 %) of each of them: that is the error of every quantile. Units are the caller's: µs, ns, bytes.
 *
 * Recording is two relaxed atomic additions, from any thread. Reading meanwhile gives a moment between the records. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

enum {
    HISTOGRAM_PARTS_LOG2 = 5,
    HISTOGRAM_PARTS = 1 << HISTOGRAM_PARTS_LOG2,
    HISTOGRAM_BUCKETS = (64 - HISTOGRAM_PARTS_LOG2 + 1) * HISTOGRAM_PARTS, /* 15 KB */
    HISTOGRAM_ERROR_INVERSE = 2 * HISTOGRAM_PARTS, /* a quantile is off by at most 1 / this of its value */
    HISTOGRAM_OCTAVES = 65,
};

typedef struct histogram { /* zero-initialized it is empty and ready */
    _Atomic uint64_t sum;  /* modulo 2^64 */
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS];
} histogram;

/* Below 2 × PARTS the index is the value; above, the leading bits: how often it was halved, then which part. */
static inline uint32_t histogram_bucket(uint64_t value) {
    if (value < HISTOGRAM_PARTS) return (uint32_t)value;
    uint32_t halvings = 63 - (uint32_t)__builtin_clzll(value) - HISTOGRAM_PARTS_LOG2;
    return halvings * HISTOGRAM_PARTS + (uint32_t)(value >> halvings);
}

static inline void histogram_record(histogram *histogram, uint64_t value) {
    atomic_fetch_add_explicit(&histogram->buckets[histogram_bucket(value)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, value, memory_order_relaxed);
}

/* Adds all of `from`, which stays as it is: the result is what one histogram of all records would be. */
void histogram_merge(histogram *into, const histogram *from);

uint64_t histogram_count(const histogram *histogram);
uint64_t histogram_sum(const histogram *histogram);

/* The smallest record such that at least this share of all records is not above it: 0 gives the minimum, 0.5 the
 * median, 1 the maximum. 0 if nothing was recorded. */
uint64_t histogram_quantile(const histogram *histogram, double share);

/* Numbers of records with 0, 1, 2 … 64 bits; those of i bits are at most 2^i - 1. */
void histogram_octaves(const histogram *histogram, uint64_t counts[HISTOGRAM_OCTAVES]);
