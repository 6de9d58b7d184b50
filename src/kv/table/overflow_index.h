/* overflow_index.h — overflow index for keys whose bucket is full (key_index.h): open addressing, ordered by hash.
 *
 * Entries lie in the order of their hashes, each at its home or, where others are in the way, as near behind it as
 * order allows. The home of a hash is the same part of the array as the hash is of 2^64, so homes are in that order,
 * too. Hence:
 *
 *   1  The place of an entry depends on the content of the index, not on its history; and a walk through the array is a
 *      walk through the hashes, for any capacity.
 *   2  A lookup ends at the first entry that is not smaller: absent keys are found as fast as present ones.
 *   3  Between an entry's home and its place nothing is empty. The last OVERFLOW_INDEX_WINDOW places are always empty:
 *      every walk ends, and may read so many places at once.
 *   4  When the index grows, entries move to the larger array from the lowest hash on, a few with each added entry, in
 *      whole runs: entries whose home is before the frontier are in `now`, the others in `old`. Every key is in one of
 *      them, and its hash says in which; no operation waits for the whole.
 *
 *      old   │ moved, given back ...... │ a b . c d e .      capacity C, frontier ┐ where no entry is out of its home
 *      now   │ . x y . . z . . . . w .. │ empty             capacity 4/3 C
 *
 * Usually the overflow index has a hundredth of a table's keys, or nothing, and then no memory. But where the hashes of
 * many keys share their upper bits, as an adversary can arrange within one slot, it is the whole index: so it has all
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
    uint64_t length;               /* places: some more behind the last home */
} overflow_index_part;

typedef struct overflow_index {   /* zeroed: empty, without memory */
    overflow_index_part now, old; /* old: NULL if it does not grow */
    uint64_t frontier;            /* a home of `old` */
    uint64_t dropped;             /* places of `old` whose memory was given back */
    uint64_t count;
} overflow_index;

void overflow_index_fini(overflow_index *index);

/* Room for `more` entries, so that no add allocates: except for a very rare long run at the very end, for which an add
 * makes room. MR_NOMEM: nothing has changed. */
MR_MUST mr_status overflow_index_reserve(overflow_index *index, uint64_t more);

/* Of an absent hash; row > 0. MR_NOMEM: nothing has changed. */
MR_MUST mr_status overflow_index_add(overflow_index *index, overflow_index_entry entry);
void overflow_index_remove(overflow_index *index, uint64_t hash); /* a present one */

/* The first entry whose hash is at least this; NULL: none. */
overflow_index_entry *overflow_index_next(const overflow_index *index, uint64_t from);

size_t overflow_index_bytes(const overflow_index *index);

/* ---- Inline: lookups are made of them. */

static inline uint64_t overflow_index_home(const overflow_index_part *part, uint64_t hash) {
    return (uint64_t)((unsigned __int128)hash * part->capacity >> 64);
}

static inline const overflow_index_part *overflow_index_part_of(const overflow_index *index, uint64_t hash) {
    if (__builtin_expect(index->old.entries != NULL, 0) && overflow_index_home(&index->old, hash) >= index->frontier)
        return &index->old;
    return &index->now;
}

/* The home of a hash, in its part: for overflow_index_from, if the index is not empty. Valid until the next add or
 * remove. */
static inline overflow_index_entry *overflow_index_begin(const overflow_index *index, uint64_t hash) {
    const overflow_index_part *part = overflow_index_part_of(index, hash);
    return part->entries + overflow_index_home(part, hash);
}

/* Most entries are within the first few places. The number of smaller ones is counted without a branch, since it is
 * unpredictable; they are the first ones (behind an empty place all are larger), so the count is the place. */
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

/* NULL: not found */
static inline overflow_index_entry *overflow_index_find(const overflow_index *index, uint64_t hash) {
    return index->count == 0 ? NULL : overflow_index_from(overflow_index_begin(index, hash), hash);
}
