/* rank_set.h — set of ranks.
 *
 * The encoding has a bit for each rank of the table, the lowest first, in whole bytes; bits after the last rank are 0,
 * so that equal sets have equal encodings. */
#pragma once
#include "base/bytes.h"

enum { RANK_SET_MAX = 1024, RANK_SET_WORDS = RANK_SET_MAX / 64 };

typedef struct rank_set { /* a zero-initialized set is empty */
    uint64_t words[RANK_SET_WORDS];
} rank_set;

static inline bool rank_set_has(const rank_set *set, uint32_t rank) {
    return (set->words[rank / 64] >> rank % 64 & 1) != 0;
}
static inline void rank_set_put(rank_set *set, uint32_t rank) { set->words[rank / 64] |= UINT64_C(1) << rank % 64; }
static inline void rank_set_take(rank_set *set, uint32_t rank) { set->words[rank / 64] &= ~(UINT64_C(1) << rank % 64); }

static inline rank_set rank_set_first(uint32_t count) { /* the ranks 0 … count - 1 */
    rank_set all = {0};
    for (uint32_t i = 0; i < count; i++) rank_set_put(&all, i);
    return all;
}

static inline uint32_t rank_set_count(const rank_set *set) {
    uint32_t count = 0;
    for (size_t i = 0; i < RANK_SET_WORDS; i++) count += (uint32_t)__builtin_popcountll(set->words[i]);
    return count;
}
static inline rank_set rank_set_without(const rank_set *all, const rank_set *some) {
    rank_set rest;
    for (size_t i = 0; i < RANK_SET_WORDS; i++) rest.words[i] = all->words[i] & ~some->words[i];
    return rest;
}
static inline rank_set rank_set_both(const rank_set *a, const rank_set *b) {
    rank_set both;
    for (size_t i = 0; i < RANK_SET_WORDS; i++) both.words[i] = a->words[i] & b->words[i];
    return both;
}
static inline bool rank_set_same(const rank_set *a, const rank_set *b) { return memcmp(a, b, sizeof *a) == 0; }

static inline size_t rank_set_size(uint32_t rank_count) { return (rank_count + 7) / 8; } /* encoded bytes */

static inline void rank_set_write(const rank_set *set, uint32_t rank_count, writer *writer) {
    writer_bytes(writer, set->words, rank_set_size(rank_count));
}
/* False: a rank of the set is not in the table, or the reader has failed. */
static inline bool rank_set_read(reader *reader, uint32_t rank_count, rank_set *out) {
    const uint8_t *at = reader_bytes(reader, rank_set_size(rank_count));
    *out = (rank_set){0};
    if (at == NULL) return false;
    memcpy(out->words, at, rank_set_size(rank_count));
    return rank_count % 8 == 0 || at[rank_set_size(rank_count) - 1] >> rank_count % 8 == 0;
}
