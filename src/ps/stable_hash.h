/* stable_hash.h — stable integer hashes: equal on every machine and in every version, because their results are stored.
 *
 * stable_hash is a bijection of 64 bits (the finalizer of splitmix64), so distinct keys never collide; stable_unhash is
 * its inverse. Not for secrets. */
#pragma once
#include <stdint.h>

static inline uint64_t stable_hash(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t stable_unhash(uint64_t x) {
    x = (x ^ x >> 31 ^ x >> 62) * UINT64_C(0x319642b2d24d8ec3); /* the factors are the modular inverses modulo 2^64 */
    x = (x ^ x >> 27 ^ x >> 54) * UINT64_C(0x96de1b173f119089);
    x ^= x >> 30 ^ x >> 60;
    return x - UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t stable_hash2(uint64_t a, uint64_t b) { return stable_hash(stable_hash(a) ^ b); }
