/* key_index.c — see key_index.h. */
#include "kv/table/key_index.h"

#include "base/assert.h"
#include "base/error.h"
#include "kv/table/huge_pages.h"

enum {
    CAPACITY_FIRST = 4,
    STEP = 2, /* buckets moved with each added entry */
    /* number of moved buckets whose memory is returned at once */
    DROP = 2 * HUGE_PAGES_HUGE_PAGE / (int)sizeof(key_index_bucket)
};
#define COUNT_MAX (UINT64_C(1) << 40) /* prevents overflow of sizes */

static uint64_t limit(uint64_t capacity) { return capacity * KEY_INDEX_PLACES / 10 * 6; } /* maximum of entries */

/* ---- Parts. */

static size_t seen_size(const key_index_part *part) { return (size_t)part->capacity * sizeof *part->seen; }
static size_t bucket_size(const key_index_part *part) { return (size_t)part->capacity * sizeof *part->buckets; }

static size_t part_bytes(const key_index_part *part) {
    return bucket_size(part) + (part->seen == NULL ? 0 : seen_size(part));
}

static void part_free(key_index_part *part) {
    huge_pages_give(part->buckets, bucket_size(part));
    huge_pages_give(part->seen, seen_size(part));
    *part = (key_index_part){0};
}

static mr_status part_make(uint64_t capacity, bool ages, key_index_part *out) {
    key_index_part part = {.capacity = capacity, .shift = 63 - (uint32_t)__builtin_clzll(capacity)};
    MR_TRY(huge_pages_take(bucket_size(&part), &part.buckets));
    mr_status status = ages ? huge_pages_take(seen_size(&part), &part.seen) : MR_OK;
    if (status != MR_OK) {
        part_free(&part);
        return status;
    }
    *out = part;
    return MR_OK;
}

/* ---- Buckets. */

static uint64_t low_bits(uint32_t count) { return (UINT64_C(1) << count) - 1; }

static void write_row(key_index_bucket *bucket, uint64_t at, uint32_t shift, uint32_t row) {
    bucket->words[at] = (bucket->words[at] & -(UINT64_C(1) << shift)) | (row & low_bits(shift));
    bucket->bytes[at] = (uint8_t)(row >> shift);
    MR_ASSERT(key_index_row_at(bucket, at, shift) == row);
}

/* Smallest hash whose product with the capacity is at least home · 2^64 + rest. */
static uint64_t hash_from(const key_index_part *part, uint64_t home, uint64_t rest) {
    unsigned __int128 product = (unsigned __int128)home << 64 | rest;
    return (uint64_t)((product + part->capacity - 1) / part->capacity);
}

static key_index_entry entry_at(const key_index_part *part, uint64_t home, uint32_t at) {
    const key_index_bucket *bucket = &part->buckets[home];
    uint64_t hash = hash_from(part, home, bucket->words[at] & key_index_kept(part));
    return (key_index_entry){hash, key_index_row_at(bucket, at, part->shift),
                             part->seen == NULL ? 0 : part->seen[home][at]};
}

static bool has_room(const key_index_part *part, uint64_t hash) {
    return part->buckets[key_index_home(part, hash)].count < KEY_INDEX_PLACES;
}

/* Puts the entry into its home bucket, which has room. */
static void place(key_index_part *part, key_index_entry entry) {
    unsigned __int128 product = key_index_product(part, entry.hash);
    uint64_t home = (uint64_t)(product >> 64);
    key_index_bucket *bucket = &part->buckets[home];
    uint32_t at = bucket->count++;
    bucket->words[at] = (uint64_t)product;
    write_row(bucket, at, part->shift, entry.row);
    if (part->seen != NULL) part->seen[home][at] = entry.seen;
}

static mr_status put(key_index *index, key_index_part *part, key_index_entry entry) {
    if (!has_room(part, entry.hash)) return overflow_index_add(&index->index, entry);
    place(part, entry);
    return MR_OK;
}

typedef struct place_of { /* location of a hash */
    key_index_part *part;
    uint64_t home;
    uint64_t found; /* as of key_index_match */
} place_of;

static place_of place_in(key_index_part *part, uint64_t hash) {
    unsigned __int128 product = key_index_product(part, hash);
    uint64_t home = (uint64_t)(product >> 64);
    return (place_of){
        part, home,
        key_index_match(&part->buckets[home], (uint64_t)product & key_index_kept(part), key_index_kept(part))};
}

static key_index_part *part_of(key_index *index, uint64_t hash) {
    return key_index_part_of(index, hash) == &index->old ? &index->old : &index->now;
}

/* Moves an entry from the overflow index into a full bucket that has room now: the one with the smallest hash. (If the
 * frontier lies in a bucket of `now`, entries of `old` come after those of `now`.) */
static void refill(key_index *index, key_index_part *part, uint64_t home) {
    const overflow_index_entry *first = overflow_index_next(&index->index, hash_from(part, home, 0));
    if (first == NULL || key_index_home(part, first->hash) != home || part_of(index, first->hash) != part) return;
    key_index_entry entry = *first;
    overflow_index_remove(&index->index, entry.hash);
    place(part, entry);
}

static void take(key_index *index, key_index_part *part, uint64_t hash) {
    place_of of = place_in(part, hash);
    if (of.found == 0) {
        overflow_index_remove(&index->index, hash);
        return;
    }
    key_index_bucket *bucket = &part->buckets[of.home];
    uint64_t at = of.found - KEY_INDEX_FOUND, last = --bucket->count;
    bucket->words[at] = bucket->words[last];
    bucket->bytes[at] = bucket->bytes[last];
    if (part->seen != NULL) part->seen[of.home][at] = part->seen[of.home][last];
    if (last + 1 == KEY_INDEX_PLACES) refill(index, part, of.home);
}

/* ---- Growth. */

mr_status key_index_init(key_index *index, bool ages) {
    *index = (struct key_index){.ages = ages};
    return part_make(CAPACITY_FIRST, ages, &index->now);
}

void key_index_fini(key_index *index) {
    part_free(&index->now);
    part_free(&index->old);
    overflow_index_fini(&index->index);
    *index = (struct key_index){0};
}

static void drop_moved(key_index *index) {
    key_index_part *old = &index->old;
    uint64_t from = index->dropped, count = index->frontier - from;
    if (count < DROP) return;
    huge_pages_drop(old->buckets + from, (size_t)count * sizeof *old->buckets);
    if (old->seen != NULL) huge_pages_drop(old->seen + from, (size_t)count * sizeof *old->seen);
    index->dropped = index->frontier;
}

/* Moves entries of the overflow index into `now`, as far as there is room, for the bucket of `old` that has just
 * moved. */
static void unspill(key_index *index, uint64_t home) {
    for (uint64_t from = hash_from(&index->old, home, 0);;) {
        const overflow_index_entry *next = overflow_index_next(&index->index, from);
        if (next == NULL || key_index_home(&index->old, next->hash) != home) return;
        key_index_entry entry = *next;
        if (has_room(&index->now, entry.hash)) {
            overflow_index_remove(&index->index, entry.hash);
            place(&index->now, entry);
        }
        if (entry.hash == UINT64_MAX) return;
        from = entry.hash + 1;
    }
}

/* Moves the bucket at the frontier. MR_NOMEM: nothing has changed. */
static mr_status move(key_index *index) {
    const key_index_part *old = &index->old;
    uint64_t home = index->frontier;
    uint32_t count = old->buckets[home].count;
    for (uint32_t i = 0; i < count; i++) {
        mr_status status = put(index, &index->now, entry_at(old, home, i));
        if (status == MR_OK) continue;
        while (i-- > 0) take(index, &index->now, entry_at(old, home, i).hash);
        return status;
    }
    index->frontier++;
    if (count == KEY_INDEX_PLACES) unspill(index, home);
    return MR_OK;
}

static mr_status step(key_index *index, uint64_t buckets) {
    for (; buckets > 0 && index->frontier < index->old.capacity; buckets--) MR_TRY(move(index));
    if (index->frontier < index->old.capacity) {
        drop_moved(index);
    } else {
        part_free(&index->old);
        index->frontier = index->dropped = 0;
    }
    return MR_OK;
}

mr_status key_index_reserve(key_index *index, uint64_t more) {
    if (index->count > COUNT_MAX || more > COUNT_MAX)
        return error_set(MR_NOMEM, "a key index of %llu keys cannot take %llu more", (unsigned long long)index->count,
                         (unsigned long long)more);
    uint64_t need = index->count + more;
    if (need <= limit(index->now.capacity)) return MR_OK;
    /* so many entries are to be added that the rest is moved at once */
    if (index->old.buckets != NULL) MR_TRY(step(index, index->old.capacity));
    uint64_t capacity = index->now.capacity + index->now.capacity / 3;
    if (limit(capacity) < need) capacity = need / 4 + CAPACITY_FIRST;
    key_index_part larger;
    MR_TRY(part_make(capacity, index->ages, &larger));
    index->old = index->now;
    index->now = larger;
    index->frontier = index->dropped = 0;
    return MR_OK;
}

void key_index_settle(key_index *index, uint64_t buckets) {
    if (index->old.buckets != NULL) (void)!step(index, buckets); /* without memory nothing changes */
}

/* ---- Entries. */

#define PLACE(i) (KEY_INDEX_FOUND + (i))
const uint64_t key_index_places[KEY_INDEX_PLACES + 1][KEY_INDEX_PLACES + 1] = {
    {0},
    {PLACE(0)},
    {PLACE(0), PLACE(1)},
    {PLACE(0), PLACE(1), PLACE(2)},
    {PLACE(0), PLACE(1), PLACE(2), PLACE(3)},
    {PLACE(0), PLACE(1), PLACE(2), PLACE(3), PLACE(4)},
    {PLACE(0), PLACE(1), PLACE(2), PLACE(3), PLACE(4), PLACE(5)},
    {PLACE(0), PLACE(1), PLACE(2), PLACE(3), PLACE(4), PLACE(5), PLACE(6)},
};

uint32_t key_index_look_further(const key_index *index, uint64_t hash) {
    const overflow_index_entry *entry = overflow_index_find(&index->index, hash);
    return entry == NULL ? 0 : entry->row;
}

/* Looks up one key place by place, since the lookup waits for the bucket anyway. */
uint32_t key_index_find(const key_index *index, uint64_t hash) {
    const key_index_part *part = key_index_part_of(index, hash);
    key_index_wanted wanted = key_index_begin(part, hash);
    uint64_t kept = key_index_kept(part);
    for (uint32_t i = 0; i < wanted.bucket->count; i++)
        if ((wanted.bucket->words[i] & kept) == wanted.rest) return key_index_row_at(wanted.bucket, i, part->shift);
    return key_index_look_further(index, hash);
}

mr_status key_index_add(key_index *index, key_index_entry entry) {
    MR_ASSERT(entry.row != 0);
    MR_TRY(key_index_reserve(index, 1));
    if (index->old.buckets != NULL) MR_TRY(step(index, STEP));
    if (!index->ages) entry.seen = 0;
    MR_TRY(put(index, part_of(index, entry.hash), entry));
    index->count++;
    return MR_OK;
}

void key_index_remove(key_index *index, uint64_t hash) {
    take(index, part_of(index, hash), hash);
    index->count--;
}

static overflow_index_entry *spilled(const key_index *index, uint64_t hash) {
    overflow_index_entry *entry = overflow_index_find(&index->index, hash);
    MR_ASSERT(entry != NULL);
    return entry;
}

void key_index_set(key_index *index, uint64_t hash, uint32_t row) {
    MR_ASSERT(row != 0);
    place_of of = place_in(part_of(index, hash), hash);
    if (of.found != 0)
        write_row(&of.part->buckets[of.home], of.found - KEY_INDEX_FOUND, of.part->shift, row);
    else
        spilled(index, hash)->row = row;
}

void key_index_saw(key_index *index, uint64_t hash, uint32_t seen) {
    if (!index->ages) return;
    place_of of = place_in(part_of(index, hash), hash);
    if (of.found != 0)
        of.part->seen[of.home][of.found - KEY_INDEX_FOUND] = seen;
    else
        spilled(index, hash)->seen = seen;
}

/* ---- Enumeration. */

/* Entry of the bucket with the smallest rest that is at least `rest`. */
static bool least_in(const key_index_part *part, uint64_t home, uint64_t rest, key_index_entry *out) {
    const key_index_bucket *bucket = &part->buckets[home];
    uint32_t best = KEY_INDEX_PLACES;
    for (uint32_t i = 0; i < bucket->count; i++)
        if (bucket->words[i] >> part->shift >= rest >> part->shift &&
            (best == KEY_INDEX_PLACES || bucket->words[i] < bucket->words[best]))
            best = i;
    if (best == KEY_INDEX_PLACES) return false;
    *out = entry_at(part, home, best);
    return true;
}

/* First entry in the buckets home … end - 1, with at least `rest` in the first one. */
static bool next_in(const key_index_part *part, uint64_t home, uint64_t rest, uint64_t end, key_index_entry *out) {
    for (; home < end; home++, rest = 0)
        if (least_in(part, home, rest, out)) return true;
    return false;
}

/* End of the used buckets of `now`. */
static uint64_t moved_until(const key_index *index) {
    if (index->old.buckets == NULL || index->frontier >= index->old.capacity) return index->now.capacity;
    return key_index_home(&index->now, hash_from(&index->old, index->frontier, 0)) + 1;
}

static bool next_placed(const key_index *index, uint64_t from, key_index_entry *out) {
    const key_index_part *part = key_index_part_of(index, from);
    unsigned __int128 product = key_index_product(part, from);
    uint64_t home = (uint64_t)(product >> 64), rest = (uint64_t)product;
    if (part == &index->old) return next_in(part, home, rest, part->capacity, out);
    if (next_in(part, home, rest, moved_until(index), out)) return true;
    return index->old.buckets != NULL && next_in(&index->old, index->frontier, 0, index->old.capacity, out);
}

bool key_index_next(const key_index *index, uint64_t from, key_index_entry *out) {
    const overflow_index_entry *spilled = overflow_index_next(&index->index, from);
    key_index_entry placed;
    bool is_placed = next_placed(index, from, &placed);
    if (!is_placed && spilled == NULL) return false;
    *out = !is_placed || (spilled != NULL && spilled->hash < placed.hash) ? *spilled : placed;
    return true;
}

size_t key_index_bytes(const key_index *index) {
    size_t bytes = part_bytes(&index->now) + part_bytes(&index->old) + overflow_index_bytes(&index->index);
    size_t dropped = sizeof(key_index_bucket) + (index->ages ? sizeof *index->old.seen : 0);
    return bytes - (size_t)index->dropped * dropped;
}
