/* surplus.h — overflow index for keys whose bucket is full (finder.h): open addressing, ordered by hash.
 *
 * Entries lie in the order of their hashes, each at its home or, where others are in the way, as near behind it as
 * order allows. The home of a hash is the same part of the array as the hash is of 2^64, so homes are in that order,
 * too. Hence:
 *
 *   1  Where an entry lies is decided by what is in the surplus, not by how it came there; and walking through the
 *      array is walking through the hashes, whatever its capacity.
 *   2  A lookup ends at the first entry that is not smaller: keys that are absent are found to be so as fast.
 *   3  Between an entry's home and its place nothing is empty. The last SURPLUS_WINDOW places are always empty: every
 *      walk ends, and may look at so many places at once.
 *   4  When it grows, entries move to the larger array from the lowest hash on, a few with each that is added, in whole
 *      runs: what has its home before the frontier is in `now`, the rest in `old`. Every key is in one of them, and its
 *      hash says in which; nothing ever stops for the whole.
 *
 *      old   │ moved, given back ...... │ a b . c d e .      capacity C, frontier ┐ where no entry is out of its home
 *      now   │ . x y . . z . . . . w .. │ empty             capacity 4/3 C
 *
 * Usually it has a hundredth of a table's keys, or nothing, and then no memory. But where keys crowd, which those of
 * one slot may do if somebody means them to, it is the whole index: so it can do all that the index does.
 *
 * Ownership   the surplus owns its arrays. A pointer to an entry is good until the next add or remove.
 * Threads     none. No I/O, no clock. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct surplus_entry {
    uint64_t hash;
    uint32_t row; /* 0: the place is empty */
    uint32_t seen;
} surplus_entry;

enum { SURPLUS_WINDOW = 4 };

_Static_assert(sizeof(surplus_entry) == 16, "four entries in a line of the caches");

typedef struct surplus_part {
    surplus_entry *entries; /* owned */
    uint64_t capacity;      /* homes */
    uint64_t length;        /* places: some more behind the last home */
} surplus_part;

typedef struct surplus {
    surplus_part now, old; /* old: NULL if it does not grow */
    uint64_t frontier;     /* a home of `old` */
    uint64_t dropped;      /* places of `old` whose memory was given back */
    uint64_t count;
} surplus;

void surplus_init(surplus *surplus); /* without memory */
void surplus_fini(surplus *surplus);

/* Room for `more` entries, so that no add allocates: but for the freak of a long run at the very end, which an add then
 * makes room for. MR_NOMEM: as it was. */
MR_MUST mr_status surplus_reserve(surplus *surplus, uint64_t more);

/* Of a hash that is not there; row > 0. MR_NOMEM: as it was. */
MR_MUST mr_status surplus_add(surplus *surplus, surplus_entry entry);
void surplus_remove(surplus *surplus, uint64_t hash); /* one that is there */

/* The first entry whose hash is at least this; NULL: there is none. */
surplus_entry *surplus_next(const surplus *surplus, uint64_t from);

size_t surplus_bytes(const surplus *surplus);

/* ---- Inline: lookups are made of them. */

static inline uint64_t surplus_home(const surplus_part *part, uint64_t hash) {
    return (uint64_t)((unsigned __int128)hash * part->capacity >> 64);
}

static inline const surplus_part *surplus_part_of(const surplus *surplus, uint64_t hash) {
    if (__builtin_expect(surplus->old.entries != NULL, 0) && surplus_home(&surplus->old, hash) >= surplus->frontier)
        return &surplus->old;
    return &surplus->now;
}

/* The home of a hash, in whichever part it is: for surplus_from, if there is anything. Good until the next add or
 * remove. */
static inline surplus_entry *surplus_begin(const surplus *surplus, uint64_t hash) {
    const surplus_part *part = surplus_part_of(surplus, hash);
    return part->entries + surplus_home(part, hash);
}

/* Most entries are within the first few places. How many of these are smaller is counted without a branch, since nobody
 * can foretell it; they are the first ones (behind an empty place all are larger), so the count says where to look. */
static inline surplus_entry *surplus_from(surplus_entry *entry, uint64_t hash) {
    for (;; entry += SURPLUS_WINDOW) {
        size_t smaller = 0;
        for (size_t i = 0; i < SURPLUS_WINDOW; i++) smaller += (size_t)((entry[i].row != 0) & (entry[i].hash < hash));
        if (smaller < SURPLUS_WINDOW) {
            entry += smaller;
            return entry->row != 0 && entry->hash == hash ? entry : NULL;
        }
    }
}

static inline surplus_entry *surplus_find(const surplus *surplus, uint64_t hash) { /* NULL: it is not there */
    return surplus->count == 0 ? NULL : surplus_from(surplus_begin(surplus, hash), hash);
}
