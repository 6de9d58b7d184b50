/* overflow_index.h — overflow index for keys whose bucket is full (key_index.h): open addressing, ordered by hash.
 *
 * Entries are in the order of their hashes, each at its home or, if that place is taken, as near behind it as the order
 * allows. The home of a hash is the place number hash · capacity / 2^64, so homes are in the same order. Hence:
 *
 *   1  The place of an entry depends on the content of the index, not on its history; and the order of the array is the
 *      order of the hashes, for any capacity.
 *   2  A lookup ends at the first entry that is not smaller: absent keys are found as fast as present ones.
 *   3  Between an entry's home and its place no place is empty. The last OVERFLOW_INDEX_WINDOW places are always empty:
 *      every search ends, and may read that many places at once.
 *   4  When the index grows, entries move to the larger array from the lowest hash on, a few with each added entry, in
 *      whole runs: entries whose home is before the frontier are in `now`, the others in `old`. Every key is in one of
 *      them, which its hash determines; no operation waits for the whole move.
 *
 *      old   │ moved, given back ...... │ a b . c d e .      capacity C, frontier ┐ where no entry is out of its home
 *      now   │ . x y . . z . . . . w .. │ empty             capacity 4/3 C
 *
 * Usually the overflow index has a hundredth of a table's keys, or none, and then no memory. But if the hashes of many
 * keys share their upper bits, as an adversary can arrange within one slot, it has nearly all keys; so it has all
 * operations of the key index.
 *
 * Ownership   the overflow index owns its arrays. A pointer to an entry is valid until the next add or remove.
 * Threads     none. No I/O, no clock. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct overflow_index_entry {
    uint64_t hash;
    uint32_t row; /* 0: the place is empty */
    uint32_t seen;
} overflow_index_entry;

enum { OVERFLOW_INDEX_WINDOW = 4 };

_Static_assert(sizeof(overflow_index_entry) == 16, "four entries in a line of the caches");

typedef struct overflow_index_part {
    overflow_index_entry *entries; /* owned */
    uint64_t capacity;             /* homes */
    uint64_t length;               /* places: some more than homes */
} overflow_index_part;

typedef struct overflow_index {   /* zero-initialized: empty, without memory */
    overflow_index_part now, old; /* old: NULL if the index is not growing */
    uint64_t frontier;            /* first home of `old` that has not moved */
    uint64_t dropped;             /* places of `old` whose memory was returned */
    uint64_t count;
} overflow_index;

void overflow_index_fini(overflow_index *index);

/* Reserves room for `more` entries, so that no add allocates, except for a very rare long run at the end of the array.
 * MR_NOMEM: nothing has changed. */
MR_MUST mr_status overflow_index_reserve(overflow_index *index, uint64_t more);

/* Adds an absent hash; row > 0. MR_NOMEM: nothing has changed. */
MR_MUST mr_status overflow_index_add(overflow_index *index, overflow_index_entry entry);
void overflow_index_remove(overflow_index *index, uint64_t hash); /* the hash is present */

/* The entry with the smallest hash that is at least `from`; NULL: none. */
overflow_index_entry *overflow_index_next(const overflow_index *index, uint64_t from);

size_t overflow_index_bytes(const overflow_index *index);

/* ---- Inline parts of a lookup. */

static inline uint64_t overflow_index_home(const overflow_index_part *part, uint64_t hash) {
    return (uint64_t)((unsigned __int128)hash * part->capacity >> 64);
}

static inline const overflow_index_part *overflow_index_part_of(const overflow_index *index, uint64_t hash) {
    if (__builtin_expect(index->old.entries != NULL, 0) && overflow_index_home(&index->old, hash) >= index->frontier)
        return &index->old;
    return &index->now;
}

/* Home of a hash, for overflow_index_from; the index is not empty. Valid until the next add or remove. */
static inline overflow_index_entry *overflow_index_begin(const overflow_index *index, uint64_t hash) {
    const overflow_index_part *part = overflow_index_part_of(index, hash);
    return part->entries + overflow_index_home(part, hash);
}

/* Searches from the home on. Most entries are within the first few places. The smaller entries are counted without a
 * branch, since their number is unpredictable; they come first (behind an empty place all are larger), so the count is
 * the place. */
static inline overflow_index_entry *overflow_index_from(overflow_index_entry *entry, uint64_t hash) {
    for (;; entry += OVERFLOW_INDEX_WINDOW) {
        size_t smaller = 0;
        for (size_t i = 0; i < OVERFLOW_INDEX_WINDOW; i++)
            smaller += (size_t)((entry[i].row != 0) & (entry[i].hash < hash));
        if (smaller < OVERFLOW_INDEX_WINDOW) {
            entry += smaller;
            return entry->row != 0 && entry->hash == hash ? entry : NULL;
        }
    }
}

/* NULL: not found. */
static inline overflow_index_entry *overflow_index_find(const overflow_index *index, uint64_t hash) {
    return index->count == 0 ? NULL : overflow_index_from(overflow_index_begin(index, hash), hash);
}
