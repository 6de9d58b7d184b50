/* hash.h — FNV-1a hash of bytes, 64 bits, for texts that are looked up within a process. An attacker can construct
 * collisions, so a lookup also compares the texts. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t hash_byte(uint64_t hash, uint8_t byte) { return (hash ^ byte) * UINT64_C(0x100000001b3); }

static inline uint64_t hash_on(uint64_t hash, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) hash = hash_byte(hash, at[i]);
    return hash;
}
