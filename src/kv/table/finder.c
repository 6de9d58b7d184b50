/* finder.c — see finder.h. */
#include "kv/table/finder.h"

#include "base/assert.h"
#include "base/error.h"
#include "kv/table/memory.h"

enum {
    CAPACITY_FIRST = 4,
    STEP = 2,                                                /* buckets that move with each entry that is added */
    DROP = 2 * MEMORY_HUGE_PAGE / (int)sizeof(finder_bucket) /* so many that have moved are given back at once */
};
#define COUNT_MAX (UINT64_C(1) << 40) /* so that no size overflows */

static uint64_t limit(uint64_t capacity) { return capacity * FINDER_PLACES / 10 * 6; } /* entries */

/* ---- Parts. */

static size_t seen_size(const finder_part *part) { return (size_t)part->capacity * sizeof *part->seen; }
static size_t bucket_size(const finder_part *part) { return (size_t)part->capacity * sizeof *part->buckets; }

static size_t part_bytes(const finder_part *part) {
    return bucket_size(part) + (part->seen == NULL ? 0 : seen_size(part));
}

static void part_free(finder_part *part) {
    memory_give(part->buckets, bucket_size(part));
    memory_give(part->seen, seen_size(part));
    *part = (finder_part){0};
}

static mr_status part_make(uint64_t capacity, bool ages, finder_part *out) {
    finder_part part = {.capacity = capacity, .shift = 63 - (uint32_t)__builtin_clzll(capacity)};
    void *memory;
    MR_TRY(memory_take(bucket_size(&part), &memory));
    part.buckets = memory;
    mr_status status = ages ? memory_take(seen_size(&part), &memory) : MR_OK;
    if (status != MR_OK) {
        part_free(&part);
        return status;
    }
    if (ages) part.seen = memory;
    *out = part;
    return MR_OK;
}

/* ---- Places. */

static uint64_t low_bits(uint32_t count) { return (UINT64_C(1) << count) - 1; }

static void write_row(finder_bucket *bucket, uint64_t at, uint32_t shift, uint32_t row) {
    bucket->words[at] = (bucket->words[at] & -(UINT64_C(1) << shift)) | (row & low_bits(shift));
    bucket->bytes[at] = (uint8_t)(row >> shift);
    MR_ASSERT(finder_row_at(bucket, at, shift) == row);
}

/* The smallest hash whose product with the capacity is at least this. */
static uint64_t hash_from(const finder_part *part, uint64_t home, uint64_t rest) {
    unsigned __int128 product = (unsigned __int128)home << 64 | rest;
    return (uint64_t)((product + part->capacity - 1) / part->capacity);
}

static finder_entry entry_at(const finder_part *part, uint64_t home, uint32_t at) {
    const finder_bucket *bucket = &part->buckets[home];
    uint64_t hash = hash_from(part, home, bucket->words[at] & finder_kept(part));
    return (finder_entry){hash, finder_row_at(bucket, at, part->shift), part->seen == NULL ? 0 : part->seen[home][at]};
}

static bool has_room(const finder_part *part, uint64_t hash) {
    return part->buckets[finder_home(part, hash)].count < FINDER_PLACES;
}

/* Where there is room. */
static void place(finder_part *part, finder_entry entry) {
    unsigned __int128 product = finder_product(part, entry.hash);
    uint64_t home = (uint64_t)(product >> 64);
    finder_bucket *bucket = &part->buckets[home];
    uint32_t at = bucket->count++;
    bucket->words[at] = (uint64_t)product;
    write_row(bucket, at, part->shift, entry.row);
    if (part->seen != NULL) part->seen[home][at] = entry.seen;
}

static mr_status put(finder *finder, finder_part *part, finder_entry entry) {
    if (!has_room(part, entry.hash)) return surplus_add(&finder->surplus, entry);
    place(part, entry);
    return MR_OK;
}

typedef struct place_of { /* where a hash is */
    finder_part *part;
    uint64_t home;
    uint64_t found; /* as finder_match says it */
} place_of;

static place_of place_in(finder_part *part, uint64_t hash) {
    unsigned __int128 product = finder_product(part, hash);
    uint64_t home = (uint64_t)(product >> 64);
    return (place_of){part, home,
                      finder_match(&part->buckets[home], (uint64_t)product & finder_kept(part), finder_kept(part))};
}

static finder_part *part_of(finder *finder, uint64_t hash) {
    return finder_part_of(finder, hash) == &finder->old ? &finder->old : &finder->now;
}

/* A bucket that was full is no longer: the smallest of its hashes that was spilled comes back. (Of a bucket of `now` in
 * which the frontier lies, those of `old` are behind.) */
static void refill(finder *finder, finder_part *part, uint64_t home) {
    const surplus_entry *first = surplus_next(&finder->surplus, hash_from(part, home, 0));
    if (first == NULL || finder_home(part, first->hash) != home || part_of(finder, first->hash) != part) return;
    finder_entry entry = *first;
    surplus_remove(&finder->surplus, entry.hash);
    place(part, entry);
}

static void take(finder *finder, finder_part *part, uint64_t hash) {
    place_of of = place_in(part, hash);
    if (of.found == 0) {
        surplus_remove(&finder->surplus, hash);
        return;
    }
    finder_bucket *bucket = &part->buckets[of.home];
    uint64_t at = of.found - FINDER_FOUND, last = --bucket->count;
    bucket->words[at] = bucket->words[last];
    bucket->bytes[at] = bucket->bytes[last];
    if (part->seen != NULL) part->seen[of.home][at] = part->seen[of.home][last];
    if (last + 1 == FINDER_PLACES) refill(finder, part, of.home);
}

/* ---- Growing. */

mr_status finder_init(finder *finder, bool ages) {
    *finder = (struct finder){.ages = ages};
    surplus_init(&finder->surplus);
    return part_make(CAPACITY_FIRST, ages, &finder->now);
}

void finder_fini(finder *finder) {
    part_free(&finder->now);
    part_free(&finder->old);
    surplus_fini(&finder->surplus);
    *finder = (struct finder){0};
}

static void drop_moved(finder *finder) {
    finder_part *old = &finder->old;
    uint64_t from = finder->dropped, count = finder->frontier - from;
    if (count < DROP) return;
    memory_drop(old->buckets + from, (size_t)count * sizeof *old->buckets);
    if (old->seen != NULL) memory_drop(old->seen + from, (size_t)count * sizeof *old->seen);
    finder->dropped = finder->frontier;
}

/* Of the bucket of `old` that has just moved, what was spilled and has room now. */
static void unspill(finder *finder, uint64_t home) {
    for (uint64_t from = hash_from(&finder->old, home, 0);;) {
        const surplus_entry *next = surplus_next(&finder->surplus, from);
        if (next == NULL || finder_home(&finder->old, next->hash) != home) return;
        finder_entry entry = *next;
        if (has_room(&finder->now, entry.hash)) {
            surplus_remove(&finder->surplus, entry.hash);
            place(&finder->now, entry);
        }
        if (entry.hash == UINT64_MAX) return;
        from = entry.hash + 1;
    }
}

/* The bucket at the frontier. MR_NOMEM: nothing has happened. */
static mr_status move(finder *finder) {
    const finder_part *old = &finder->old;
    uint64_t home = finder->frontier;
    uint32_t count = old->buckets[home].count;
    for (uint32_t i = 0; i < count; i++) {
        mr_status status = put(finder, &finder->now, entry_at(old, home, i));
        if (status == MR_OK) continue;
        while (i-- > 0) take(finder, &finder->now, entry_at(old, home, i).hash);
        return status;
    }
    finder->frontier++;
    if (count == FINDER_PLACES) unspill(finder, home);
    return MR_OK;
}

static mr_status step(finder *finder, uint64_t buckets) {
    for (; buckets > 0 && finder->frontier < finder->old.capacity; buckets--) MR_TRY(move(finder));
    if (finder->frontier < finder->old.capacity) {
        drop_moved(finder);
    } else {
        part_free(&finder->old);
        finder->frontier = finder->dropped = 0;
    }
    return MR_OK;
}

mr_status finder_reserve(finder *finder, uint64_t more) {
    if (finder->count > COUNT_MAX || more > COUNT_MAX)
        return error_set(MR_NOMEM, "a key index of %llu keys cannot take %llu more", (unsigned long long)finder->count,
                         (unsigned long long)more);
    uint64_t need = finder->count + more;
    if (need <= limit(finder->now.capacity)) return MR_OK;
    if (finder->old.buckets != NULL) MR_TRY(step(finder, finder->old.capacity)); /* so many at once: no use to wait */
    uint64_t capacity = finder->now.capacity + finder->now.capacity / 3;
    if (limit(capacity) < need) capacity = need / 4 + CAPACITY_FIRST;
    finder_part larger;
    MR_TRY(part_make(capacity, finder->ages, &larger));
    finder->old = finder->now;
    finder->now = larger;
    finder->frontier = finder->dropped = 0;
    return MR_OK;
}

void finder_settle(finder *finder, uint64_t buckets) {
    if (finder->old.buckets != NULL) (void)!step(finder, buckets); /* without memory it stays as it is */
}

/* ---- Entries. */

#define PLACE(i) (FINDER_FOUND + (i))
const uint64_t finder_places[FINDER_PLACES + 1][FINDER_PLACES + 1] = {
    {0},
    {PLACE(0)},
    {PLACE(0), PLACE(1)},
    {PLACE(0), PLACE(1), PLACE(2)},
    {PLACE(0), PLACE(1), PLACE(2), PLACE(3)},
    {PLACE(0), PLACE(1), PLACE(2), PLACE(3), PLACE(4)},
    {PLACE(0), PLACE(1), PLACE(2), PLACE(3), PLACE(4), PLACE(5)},
    {PLACE(0), PLACE(1), PLACE(2), PLACE(3), PLACE(4), PLACE(5), PLACE(6)},
};

uint32_t finder_look_further(const finder *finder, uint64_t hash) {
    const surplus_entry *entry = surplus_find(&finder->surplus, hash);
    return entry == NULL ? 0 : entry->row;
}

/* One alone, for which its bucket is waited for anyway: place by place. */
uint32_t finder_find(const finder *finder, uint64_t hash) {
    const finder_part *part = finder_part_of(finder, hash);
    finder_wanted wanted = finder_begin(part, hash);
    uint64_t kept = finder_kept(part);
    for (uint32_t i = 0; i < wanted.bucket->count; i++)
        if ((wanted.bucket->words[i] & kept) == wanted.rest) return finder_row_at(wanted.bucket, i, part->shift);
    return finder_look_further(finder, hash);
}

mr_status finder_add(finder *finder, finder_entry entry) {
    MR_ASSERT(entry.row != 0);
    MR_TRY(finder_reserve(finder, 1));
    if (finder->old.buckets != NULL) MR_TRY(step(finder, STEP));
    if (!finder->ages) entry.seen = 0;
    MR_TRY(put(finder, part_of(finder, entry.hash), entry));
    finder->count++;
    return MR_OK;
}

void finder_remove(finder *finder, uint64_t hash) {
    take(finder, part_of(finder, hash), hash);
    finder->count--;
}

static surplus_entry *spilled(const finder *finder, uint64_t hash) {
    surplus_entry *entry = surplus_find(&finder->surplus, hash);
    MR_ASSERT(entry != NULL);
    return entry;
}

void finder_set(finder *finder, uint64_t hash, uint32_t row) {
    MR_ASSERT(row != 0);
    place_of of = place_in(part_of(finder, hash), hash);
    if (of.found != 0)
        write_row(&of.part->buckets[of.home], of.found - FINDER_FOUND, of.part->shift, row);
    else
        spilled(finder, hash)->row = row;
}

void finder_saw(finder *finder, uint64_t hash, uint32_t seen) {
    if (!finder->ages) return;
    place_of of = place_in(part_of(finder, hash), hash);
    if (of.found != 0)
        of.part->seen[of.home][of.found - FINDER_FOUND] = seen;
    else
        spilled(finder, hash)->seen = seen;
}

/* ---- Walking. */

/* The smallest hash of the bucket whose rest is at least this. */
static bool least_in(const finder_part *part, uint64_t home, uint64_t rest, finder_entry *out) {
    const finder_bucket *bucket = &part->buckets[home];
    uint32_t best = FINDER_PLACES;
    for (uint32_t i = 0; i < bucket->count; i++)
        if (bucket->words[i] >> part->shift >= rest >> part->shift &&
            (best == FINDER_PLACES || bucket->words[i] < bucket->words[best]))
            best = i;
    if (best == FINDER_PLACES) return false;
    *out = entry_at(part, home, best);
    return true;
}

/* From the bucket `home` on, before the bucket `end`. */
static bool next_in(const finder_part *part, uint64_t home, uint64_t rest, uint64_t end, finder_entry *out) {
    for (; home < end; home++, rest = 0)
        if (least_in(part, home, rest, out)) return true;
    return false;
}

/* The bucket of `now` behind which nothing is. */
static uint64_t moved_until(const finder *finder) {
    if (finder->old.buckets == NULL || finder->frontier >= finder->old.capacity) return finder->now.capacity;
    return finder_home(&finder->now, hash_from(&finder->old, finder->frontier, 0)) + 1;
}

static bool next_placed(const finder *finder, uint64_t from, finder_entry *out) {
    const finder_part *part = finder_part_of(finder, from);
    unsigned __int128 product = finder_product(part, from);
    uint64_t home = (uint64_t)(product >> 64), rest = (uint64_t)product;
    if (part == &finder->old) return next_in(part, home, rest, part->capacity, out);
    if (next_in(part, home, rest, moved_until(finder), out)) return true;
    return finder->old.buckets != NULL && next_in(&finder->old, finder->frontier, 0, finder->old.capacity, out);
}

bool finder_next(const finder *finder, uint64_t from, finder_entry *out) {
    const surplus_entry *spilled = surplus_next(&finder->surplus, from);
    finder_entry placed;
    bool is_placed = next_placed(finder, from, &placed);
    if (!is_placed && spilled == NULL) return false;
    *out = !is_placed || (spilled != NULL && spilled->hash < placed.hash) ? *spilled : placed;
    return true;
}

size_t finder_bytes(const finder *finder) {
    size_t bytes = part_bytes(&finder->now) + part_bytes(&finder->old) + surplus_bytes(&finder->surplus);
    size_t dropped = sizeof(finder_bucket) + (finder->ages ? sizeof *finder->old.seen : 0);
    return bytes - (size_t)finder->dropped * dropped;
}
