/* finder.h — which row a key has: open addressing, in the order of the hashes.
 *
 * Entries lie in the order of their hashes, each at its home or, where others are in the way, as near behind it as
 * order allows. The home of a hash is the same part of the array as the hash is of 2^64, so homes are in that order,
 * too. Hence:
 *
 *   1  Where an entry lies is decided by what is in the finder, not by how it came there; and walking through the array
 *      is walking through the hashes, whatever its capacity. Copies of a table that were made in different ways
 *      enumerate alike.
 *   2  A lookup ends at the first entry that is not smaller: keys that are absent are found to be so as fast.
 *   3  Between an entry's home and its place nothing is empty. The last FINDER_WINDOW places are always empty: every
 *      walk ends, and may look at so many places at once.
 *   4  When it grows, entries move to the larger array from the lowest hash on, a few with each that is added, in whole
 *      runs: what has its home before the frontier is in `now`, the rest in `old`. Every key is in one of them, and its
 *      hash says in which; nothing ever stops for the whole.
 *
 *      old   │ moved, given back ...... │ a b . c d e .      capacity C, frontier ┐ where no entry is out of its home
 *      now   │ . x y . . z . . . . w .. │ empty             capacity 4/3 C
 *
 * Once it has grown, half to seven tenths of the places are in use: 23 to 31 bytes a key. (At four fifths lookups take
 * half as long again: runs get long.)
 *
 * Ownership   the finder owns its arrays. A pointer to an entry is good until the next add or remove.
 * Threads     none. No I/O, no clock. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct finder_entry {
    uint64_t hash;
    uint32_t row; /* 0: the place is empty */
    uint32_t seen;
} finder_entry;

enum { FINDER_WINDOW = 4 };

_Static_assert(sizeof(finder_entry) == 16, "four entries in a line of the caches");

typedef struct finder_part {
    finder_entry *entries; /* owned */
    uint64_t capacity;     /* homes */
    uint64_t length;       /* places: some more behind the last home */
} finder_part;

typedef struct finder {
    finder_part now, old; /* old: NULL if it does not grow */
    uint64_t frontier;    /* a home of `old` */
    uint64_t dropped;     /* places of `old` whose memory was given back */
    uint64_t count;
} finder;

MR_MUST mr_status finder_init(finder *finder); /* MR_NOMEM */
void finder_fini(finder *finder);

/* Room for `more` entries, so that no add allocates: but for the freak of a long run at the very end, which an add then
 * makes room for. MR_NOMEM: as it was. */
MR_MUST mr_status finder_reserve(finder *finder, uint64_t more);

/* Of a hash that is not there; row > 0. MR_NOMEM: as it was. */
MR_MUST mr_status finder_add(finder *finder, finder_entry entry);
void finder_remove(finder *finder, uint64_t hash); /* one that is there */

/* If it grows, moves the next `places`: so that growth ends also when nothing is added any more. What it changes is not
 * to be seen. */
void finder_settle(finder *finder, uint64_t places);

/* The first entry whose hash is at least this; NULL: there is none. */
finder_entry *finder_next(const finder *finder, uint64_t from);

size_t finder_bytes(const finder *finder);

/* ---- Inline: lookups are made of them. */

static inline uint64_t finder_home(const finder_part *part, uint64_t hash) {
    return (uint64_t)((unsigned __int128)hash * part->capacity >> 64);
}

static inline const finder_part *finder_part_of(const finder *finder, uint64_t hash) {
    if (__builtin_expect(finder->old.entries != NULL, 0) && finder_home(&finder->old, hash) >= finder->frontier)
        return &finder->old;
    return &finder->now;
}

/* The home of a hash, in whichever part it is: for finder_from, and to be fetched some time before. Good until the next
 * add or remove. */
static inline finder_entry *finder_begin(const finder *finder, uint64_t hash) {
    const finder_part *part = finder_part_of(finder, hash);
    return part->entries + finder_home(part, hash);
}

/* Most entries are within the first few places. How many of these are smaller is counted without a branch, since nobody
 * can foretell it; they are the first ones (behind an empty place all are larger), so the count says where to look. */
static inline finder_entry *finder_from(finder_entry *entry, uint64_t hash) {
    for (;; entry += FINDER_WINDOW) {
        size_t smaller = 0;
        for (size_t i = 0; i < FINDER_WINDOW; i++) smaller += (size_t)((entry[i].row != 0) & (entry[i].hash < hash));
        if (smaller < FINDER_WINDOW) {
            entry += smaller;
            return entry->row != 0 && entry->hash == hash ? entry : NULL;
        }
    }
}

static inline finder_entry *finder_find(const finder *finder, uint64_t hash) { /* NULL: it is not there */
    return finder_from(finder_begin(finder, hash), hash);
}
