/* finder.h — key index: rows by key, in cache-line buckets ordered by hash.
 *
 * The cost of a lookup is the cache lines it waits for, so it reads one. The home of a hash is the bucket that is the
 * same part of all as the hash is of 2^64. Keys whose home bucket is full are in the overflow index (surplus.h): one or
 * two of a hundred. A place has nine bytes, and they say exactly which key it has: what the home tells of the hash is
 * left out.
 *
 *     hash · capacity  =  │ home              │ rest                              │    128 bits
 *     word of a place                         │ of the rest, 64 − s  │ of the row │    2^s ≤ capacity
 *     byte of a place                                             the row's next eight bits
 *
 * Hashes of one bucket differ in their rests by the capacity or more, hence in the bits that are kept. Rows have
 * numbers below 2^(8 + s) − 256, which is some thirty times what there are places for; the last 256 numbers of 32 bits
 * (FINDER_MARKS and above) mean something else to the table and are kept, too.
 *
 *   1  The first `count` places of a bucket are in use, in no order. Walking goes from one bucket to the next and takes
 *      out the smallest: through the hashes, whatever the capacity and however it came to be. Copies of a table that
 *      were made in different ways enumerate alike.
 *   2  A hash is in the surplus only if its home is full. So what is not in a bucket with room is nowhere.
 *   3  When it grows, buckets move to the larger array from the lowest on, a few with each key that is added: what has
 *      its home before the frontier is in `now`, the rest in `old`. Every key is in one of them, and its hash says in
 *      which; nothing ever stops for the whole. The surplus belongs to both.
 *
 *      old   │ moved, given back ...... │ ab  c   def      capacity C, frontier ┐
 *      now   │ a  b  .  x  .  c  .  y   │ empty            capacity 4/3 C
 *
 * Once it has grown, 0.45 to 0.6 of the places are in use: 15 to 21 bytes a key, and where it notes when keys were seen
 * 22 to 30.
 *
 * Ownership   the finder owns its arrays. Threads: none. No I/O, no clock. */
#pragma once
#include <string.h>

#include "kv/table/surplus.h"

enum { FINDER_PLACES = 7, FINDER_FOUND = 8 };
#define FINDER_MARKS UINT32_C(0xffffff00)

typedef surplus_entry finder_entry; /* row > 0 */

typedef struct finder_bucket {
    uint64_t words[FINDER_PLACES];
    uint8_t bytes[FINDER_PLACES];
    uint8_t count;
} finder_bucket;

_Static_assert(sizeof(finder_bucket) == 64, "a bucket is a line of the caches");

typedef struct finder_part {
    finder_bucket *buckets;          /* owned */
    uint32_t (*seen)[FINDER_PLACES]; /* owned; NULL: it is not noted */
    uint64_t capacity;               /* buckets */
    uint32_t shift;                  /* s */
} finder_part;

typedef struct finder {
    finder_part now, old; /* old: NULL if it does not grow */
    uint64_t frontier;    /* a bucket of `old` */
    uint64_t dropped;     /* buckets of `old` whose memory was given back */
    uint64_t count;
    bool ages;
    surplus surplus;
} finder;

MR_MUST mr_status finder_init(finder *finder, bool ages); /* whether `seen` is kept: else it is 0. MR_NOMEM */
void finder_fini(finder *finder);

/* Room for `more` entries, so that no add allocates but for the surplus. MR_NOMEM: as it was. */
MR_MUST mr_status finder_reserve(finder *finder, uint64_t more);

/* Of a hash that is not there; its row is one of as many as there were ever entries at once, or a mark. MR_NOMEM: as it
 * was. */
MR_MUST mr_status finder_add(finder *finder, finder_entry entry);
/* Of one that is there: */
void finder_remove(finder *finder, uint64_t hash);
void finder_set(finder *finder, uint64_t hash, uint32_t row);
void finder_saw(finder *finder, uint64_t hash, uint32_t seen); /* if that is kept */

/* If it grows, moves the next `buckets`: so that growth ends also when nothing is added any more. What it changes is
 * not to be seen. */
void finder_settle(finder *finder, uint64_t buckets);

/* The first entry whose hash is at least this. False: there is none. */
bool finder_next(const finder *finder, uint64_t from, finder_entry *out);

size_t finder_bytes(const finder *finder);

/* ---- Inline: lookups are made of them. */

static inline unsigned __int128 finder_product(const finder_part *part, uint64_t hash) {
    return (unsigned __int128)hash * part->capacity;
}
static inline uint64_t finder_home(const finder_part *part, uint64_t hash) {
    return (uint64_t)(finder_product(part, hash) >> 64);
}

static inline uint64_t finder_kept(const finder_part *part) { return -(UINT64_C(1) << part->shift); } /* of a rest */

static inline const finder_part *finder_part_of(const finder *finder, uint64_t hash) {
    if (__builtin_expect(finder->old.buckets != NULL, 0) && finder_home(&finder->old, hash) >= finder->frontier)
        return &finder->old;
    return &finder->now;
}

typedef struct finder_wanted {   /* a hash that will be looked for */
    const finder_bucket *bucket; /* its home: to be fetched some time before */
    uint64_t rest;               /* of its product: the bits that are kept */
} finder_wanted;

/* In the part that it is in. Good until the next add or remove. */
static inline finder_wanted finder_begin(const finder_part *part, uint64_t hash) {
    unsigned __int128 product = finder_product(part, hash);
    return (finder_wanted){part->buckets + (uint64_t)(product >> 64), (uint64_t)product & finder_kept(part)};
}

typedef uint64_t finder_four __attribute__((vector_size(32)));

extern const uint64_t finder_places[FINDER_PLACES + 1][FINDER_PLACES + 1];

/* FINDER_FOUND and the place; 0: it is not in the bucket. All places are looked at, without a branch, since nobody can
 * foretell which it is: each says its number or nothing, as the table of those that are in use has it. */
static inline uint64_t finder_match(const finder_bucket *bucket, uint64_t rest, uint64_t kept) {
    finder_four one, two, uses_one, uses_two;
    memcpy(&one, bucket, sizeof one);
    memcpy(&two, (const uint8_t *)bucket + sizeof one, sizeof two);
    memcpy(&uses_one, finder_places[bucket->count], sizeof one);
    memcpy(&uses_two, finder_places[bucket->count] + 4, sizeof two);
    one = (finder_four)((one & kept) == rest) & uses_one;
    two = (finder_four)((two & kept) == rest) & uses_two;
    one |= two;
    return (one[0] | one[2]) | (one[1] | one[3]);
}

/* A number that is too large for its place is one of the marks. */
static inline uint32_t finder_row_at(const finder_bucket *bucket, uint64_t at, uint32_t shift) {
    uint64_t room = UINT64_C(256) << shift, low = bucket->words[at] & ((UINT64_C(1) << shift) - 1);
    uint64_t number = (uint64_t)bucket->bytes[at] << shift | low;
    return (uint32_t)(number < room - 256 ? number : number | -room);
}

/* The row, if it is in the surplus; 0: it is not there. */
uint32_t finder_look_further(const finder *finder, uint64_t hash);

/* Whether what was wanted has its place in its bucket, and the row then; if not, 0, and finder_look_further knows. */
static inline bool finder_look(const finder_part *part, const finder_wanted *wanted, uint32_t *row) {
    uint64_t found = finder_match(wanted->bucket, wanted->rest, finder_kept(part));
    uint32_t number = finder_row_at(wanted->bucket, found % FINDER_FOUND, part->shift);
    *row = found == 0 ? 0 : number;
    return found != 0;
}

uint32_t finder_find(const finder *finder, uint64_t hash); /* the row; 0: it is not there */
