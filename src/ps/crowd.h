/* crowd.h — set of ranks.
 *
 * On the wire it is a bit for each rank of the table, the lowest first, in whole bytes; bits behind the last rank are
 * 0, so that equal sets are equal bytes. */
#pragma once
#include "base/bytes.h"

enum { CROWD_MAX = 1024, CROWD_WORDS = CROWD_MAX / 64 };

typedef struct crowd { /* zero-initialized it is empty */
    uint64_t words[CROWD_WORDS];
} crowd;

static inline bool crowd_has(const crowd *crowd, uint32_t rank) {
    return (crowd->words[rank / 64] >> rank % 64 & 1) != 0;
}
static inline void crowd_put(crowd *crowd, uint32_t rank) { crowd->words[rank / 64] |= UINT64_C(1) << rank % 64; }
static inline void crowd_take(crowd *crowd, uint32_t rank) { crowd->words[rank / 64] &= ~(UINT64_C(1) << rank % 64); }

static inline crowd crowd_first(uint32_t count) { /* the ranks 0 … count - 1 */
    crowd all = {0};
    for (uint32_t i = 0; i < count; i++) crowd_put(&all, i);
    return all;
}

static inline uint32_t crowd_count(const crowd *crowd) {
    uint32_t count = 0;
    for (size_t i = 0; i < CROWD_WORDS; i++) count += (uint32_t)__builtin_popcountll(crowd->words[i]);
    return count;
}
static inline crowd crowd_without(const crowd *all, const crowd *some) {
    crowd rest;
    for (size_t i = 0; i < CROWD_WORDS; i++) rest.words[i] = all->words[i] & ~some->words[i];
    return rest;
}
static inline crowd crowd_both(const crowd *a, const crowd *b) {
    crowd both;
    for (size_t i = 0; i < CROWD_WORDS; i++) both.words[i] = a->words[i] & b->words[i];
    return both;
}
static inline bool crowd_same(const crowd *a, const crowd *b) { return memcmp(a, b, sizeof *a) == 0; }

static inline size_t crowd_size(uint32_t rank_count) { return (rank_count + 7) / 8; } /* on the wire */

static inline void crowd_write(const crowd *crowd, uint32_t rank_count, writer *writer) {
    writer_bytes(writer, crowd->words, crowd_size(rank_count));
}
/* False: there is a rank in it that the table does not have, or the reader has failed. */
static inline bool crowd_read(reader *reader, uint32_t rank_count, crowd *out) {
    const uint8_t *at = reader_bytes(reader, crowd_size(rank_count));
    *out = (crowd){0};
    if (at == NULL) return false;
    memcpy(out->words, at, crowd_size(rank_count));
    return rank_count % 8 == 0 || at[crowd_size(rank_count) - 1] >> rank_count % 8 == 0;
}
