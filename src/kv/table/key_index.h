/* key_index.h — key index: rows by key, in cache-line buckets ordered by hash.
 *
 * The cost of a lookup is the number of cache lines it waits for: one here. The home of a hash is the bucket number
 * hash · capacity / 2^64. Keys whose home bucket is full are in the overflow index (overflow_index.h): one or two of a
 * hundred. A place has nine bytes and identifies the key exactly: the bits of the hash that follow from the home are
 * left out.
 *
 *     hash · capacity  =  │ home              │ rest                              │    128 bits
 *     word of a place                         │ of the rest, 64 − s  │ of the row │    2^s ≤ capacity
 *     byte of a place                                             the row's next eight bits
 *
 * Hashes of one bucket differ in their rests by the capacity or more, hence in the stored bits. Rows have numbers below
 * 2^(8 + s) − 256, which is some thirty times the number of places. The table uses the last 256 numbers of 32 bits
 * (KEY_INDEX_MARKS and above) for other purposes; they can be stored, too.
 *
 *   1  The first `count` places of a bucket are in use, in no order. Enumeration visits the buckets in order, and the
 *      entries of a bucket by hash: so it is in the order of the hashes, for any capacity and history. Replicas of a
 *      table enumerate in the same order, however they were made.
 *   2  A hash is in the overflow index only if its home is full. So a key that is not in a bucket with room is absent.
 *   3  When the index grows, buckets move to the larger array from the lowest on, a few with each added key: keys whose
 *      home is before the frontier are in `now`, the others in `old`. Every key is in one of them, which its hash
 *      determines; no operation waits for the whole move. The overflow index belongs to both.
 *
 *      old   │ moved, given back ...... │ ab  c   def      capacity C, frontier ┐
 *      now   │ a  b  .  x  .  c  .  y   │ empty            capacity 4/3 C
 *
 * After growth 0.45 to 0.6 of the places are in use: 15 to 21 bytes a key, and with ages 22 to 30.
 *
 * Ownership  the key index owns its arrays. Threads: none. No I/O, no clock. */
#pragma once
#include <string.h>

#include "kv/table/overflow_index.h"

enum { KEY_INDEX_PLACES = 7, KEY_INDEX_FOUND = 8 };
#define KEY_INDEX_MARKS UINT32_C(0xffffff00)

typedef overflow_index_entry key_index_entry; /* row > 0 */

typedef struct key_index_bucket {
    uint64_t words[KEY_INDEX_PLACES];
    uint8_t bytes[KEY_INDEX_PLACES];
    uint8_t count;
} key_index_bucket;

_Static_assert(sizeof(key_index_bucket) == 64, "a bucket is a line of the caches");

typedef struct key_index_part {
    key_index_bucket *buckets;          /* owned */
    uint32_t (*seen)[KEY_INDEX_PLACES]; /* owned; NULL: not recorded */
    uint64_t capacity;                  /* buckets */
    uint32_t shift;                     /* s */
} key_index_part;

typedef struct key_index {
    key_index_part now, old; /* old: NULL if the index is not growing */
    uint64_t frontier;       /* first bucket of `old` that has not moved */
    uint64_t dropped;        /* buckets of `old` whose memory was returned */
    uint64_t count;
    bool ages;
    overflow_index index;
} key_index;

MR_MUST mr_status key_index_init(key_index *index, bool ages); /* `ages`: `seen` is recorded; else it is 0. MR_NOMEM */
void key_index_fini(key_index *index);

/* Reserves room for `more` entries, so that no add allocates except in the overflow index. MR_NOMEM: nothing has
 * changed. */
MR_MUST mr_status key_index_reserve(key_index *index, uint64_t more);

/* Adds an absent hash; its row is below the highest number of entries so far, or a count of touches. MR_NOMEM: nothing
 * has changed. */
MR_MUST mr_status key_index_add(key_index *index, key_index_entry entry);
/* The hash is present. */
void key_index_remove(key_index *index, uint64_t hash);
void key_index_set(key_index *index, uint64_t hash, uint32_t row);
void key_index_saw(key_index *index, uint64_t hash, uint32_t seen); /* the hash is present, and ages are recorded */

/* Moves the next `buckets` if the index is growing, so that growth ends even without further adds. The content does not
 * change. */
void key_index_settle(key_index *index, uint64_t buckets);

/* The entry with the smallest hash that is at least `from`. False: none. */
bool key_index_next(const key_index *index, uint64_t from, key_index_entry *out);

size_t key_index_bytes(const key_index *index);

/* ---- Inline parts of a lookup. */

static inline unsigned __int128 key_index_product(const key_index_part *part, uint64_t hash) {
    return (unsigned __int128)hash * part->capacity;
}
static inline uint64_t key_index_home(const key_index_part *part, uint64_t hash) {
    return (uint64_t)(key_index_product(part, hash) >> 64);
}

/* Mask of the stored bits of a rest. */
static inline uint64_t key_index_kept(const key_index_part *part) { return -(UINT64_C(1) << part->shift); }

static inline const key_index_part *key_index_part_of(const key_index *index, uint64_t hash) {
    if (__builtin_expect(index->old.buckets != NULL, 0) && key_index_home(&index->old, hash) >= index->frontier)
        return &index->old;
    return &index->now;
}

typedef struct key_index_wanted {   /* a hash to be looked up */
    const key_index_bucket *bucket; /* home bucket: prefetched some time before it is read */
    uint64_t rest;                  /* rest of the product, of which the upper bits are compared */
} key_index_wanted;

/* A lookup in the hash's part; valid until the next add or remove. */
static inline key_index_wanted key_index_begin(const key_index_part *part, uint64_t hash) {
    unsigned __int128 product = key_index_product(part, hash);
    return (key_index_wanted){part->buckets + (uint64_t)(product >> 64), (uint64_t)product & key_index_kept(part)};
}

typedef uint64_t key_index_four __attribute__((vector_size(32)));

extern const uint64_t key_index_places[KEY_INDEX_PLACES + 1][KEY_INDEX_PLACES + 1];

/* KEY_INDEX_FOUND and the place; 0: not in the bucket. All places are compared without a branch, since the place is
 * unpredictable: each comparison gives the place's number or nothing, masked by the places in use. */
static inline uint64_t key_index_match(const key_index_bucket *bucket, uint64_t rest, uint64_t kept) {
    key_index_four one, two, uses_one, uses_two;
    memcpy(&one, bucket, sizeof one);
    memcpy(&two, (const uint8_t *)bucket + sizeof one, sizeof two);
    memcpy(&uses_one, key_index_places[bucket->count], sizeof one);
    memcpy(&uses_two, key_index_places[bucket->count] + 4, sizeof two);
    one = (key_index_four)((one & kept) == rest) & uses_one;
    two = (key_index_four)((two & kept) == rest) & uses_two;
    one |= two;
    return (one[0] | one[2]) | (one[1] | one[3]);
}

/* Row of a place. A number that is too large for a row is a count of touches. */
static inline uint32_t key_index_row_at(const key_index_bucket *bucket, uint64_t at, uint32_t shift) {
    uint64_t room = UINT64_C(256) << shift, low = bucket->words[at] & ((UINT64_C(1) << shift) - 1);
    uint64_t number = (uint64_t)bucket->bytes[at] << shift | low;
    return (uint32_t)(number < room - 256 ? number : number | -room);
}

/* Row of a hash in the overflow index; 0: not found. */
uint32_t key_index_look_further(const key_index *index, uint64_t hash);

/* Whether the hash is in its bucket, and its row. If not, the row is 0, and key_index_look_further continues. */
static inline bool key_index_look(const key_index_part *part, const key_index_wanted *wanted, uint32_t *row) {
    uint64_t found = key_index_match(wanted->bucket, wanted->rest, key_index_kept(part));
    uint32_t number = key_index_row_at(wanted->bucket, found % KEY_INDEX_FOUND, part->shift);
    *row = found == 0 ? 0 : number;
    return found != 0;
}

uint32_t key_index_find(const key_index *index, uint64_t hash); /* the row; 0: not found */
