/* rng.c — see rng.h.
 *
 * xoshiro256** (Blackman and Vigna), its state filled from the seed by SplitMix64. */
#include "base/rng.h"

#include <errno.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"

static uint64_t rotate_left(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t split_mix(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void rng_init(rng *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++) rng->state[i] = split_mix(&seed);
}

uint64_t rng_next(rng *rng) {
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* The high word of number × bound is a remainder that needs no division (Lemire). The few low words that would make
 * some remainders more likely, those below 2^64 mod bound, are drawn again. */
uint64_t rng_below(rng *rng, uint64_t bound) {
    MR_ASSERT(bound > 0);
    unsigned __int128 product = (unsigned __int128)rng_next(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t unfair = (0 - bound) % bound;
        while ((uint64_t)product < unfair) product = (unsigned __int128)rng_next(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

int64_t rng_between(rng *rng, int64_t low, int64_t high) {
    MR_ASSERT(low <= high);
    uint64_t width = (uint64_t)high - (uint64_t)low + 1;
    uint64_t offset = width == 0 ? rng_next(rng) : rng_below(rng, width);
    return (int64_t)((uint64_t)low + offset);
}

double rng_unit(rng *rng) { return (double)(rng_next(rng) >> 11) * 0x1p-53; }

bool rng_chance(rng *rng, double probability) { return rng_unit(rng) < probability; }

static void swap(uint8_t *a, uint8_t *b, size_t size) {
    for (size_t i = 0; i < size; i++) {
        uint8_t kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

void rng_shuffle(rng *rng, void *items, size_t count, size_t size) {
    uint8_t *bytes = items;
    for (size_t i = count; i > 1; i--) swap(bytes + (i - 1) * size, bytes + (size_t)rng_below(rng, i) * size, size);
}

void rng_fill(rng *rng, void *data, size_t size) {
    uint8_t *bytes = data;
    while (size > 0) {
        uint64_t word = rng_next(rng);
        size_t part = size < 8 ? size : 8;
        for (size_t i = 0; i < part; i++) bytes[i] = (uint8_t)(word >> (8 * i));
        bytes += part;
        size -= part;
    }
}

/* A machine without entropy (early boot, an old sandbox) still gets a seed that differs between processes. */
uint64_t rng_system_seed(void) {
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed) return seed;
    seed = (uint64_t)clock_ns() ^ ((uint64_t)getpid() << 32) ^ (uint64_t)(uintptr_t)&seed;
    return split_mix(&seed);
}

mr_status rng_system_fill(void *data, size_t size) {
    uint8_t *bytes = data;
    while (size > 0) {
        ssize_t got = TEMP_FAILURE_RETRY(getrandom(bytes, size, 0));
        if (got < 0) return error_errno("getrandom for %zu random bytes failed", size);
        bytes += got;
        size -= (size_t)got;
    }
    return MR_OK;
}
