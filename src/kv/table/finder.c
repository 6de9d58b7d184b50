/* finder.c — see finder.h. */
#include "kv/table/finder.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "kv/table/memory.h"

enum {
    CAPACITY_FIRST = 16,
    TAIL = 64,                                              /* places behind the last home */
    STEP = 8,                                               /* places that move with each entry that is added */
    DROP = 2 * MEMORY_HUGE_PAGE / (int)sizeof(finder_entry) /* so many that have moved are given back at once */
};
#define COUNT_MAX (UINT64_C(1) << 40) /* so that no size overflows */

static uint64_t limit(const finder_part *part) { return part->capacity / 10 * 7; }

static size_t part_size(const finder_part *part) { return (size_t)part->length * sizeof(finder_entry); }

static mr_status part_make(uint64_t capacity, uint64_t tail, finder_part *out) {
    finder_part part = {NULL, capacity, capacity + tail};
    void *entries;
    MR_TRY(memory_take(part_size(&part), &entries));
    part.entries = entries;
    *out = part;
    return MR_OK;
}

static void part_free(finder_part *part) {
    memory_give(part->entries, part_size(part));
    *part = (finder_part){0};
}

/* A longer tail; homes stay, and so do all places. */
static mr_status lengthen(finder_part *part) {
    finder_part longer;
    MR_TRY(part_make(part->capacity, part->length - part->capacity + TAIL, &longer));
    memcpy(longer.entries, part->entries, part_size(part));
    part_free(part);
    *part = longer;
    return MR_OK;
}

/* Where the hash is or would be. */
static uint64_t place_of(const finder_part *part, uint64_t hash) {
    uint64_t at = finder_home(part, hash);
    while (part->entries[at].row != 0 && part->entries[at].hash < hash) at++;
    return at;
}

static mr_status put(finder_part *part, finder_entry entry) {
    uint64_t at = place_of(part, entry.hash), end = at;
    while (part->entries[end].row != 0) end++;
    if (end + FINDER_WINDOW >= part->length) MR_TRY(lengthen(part)); /* the last places stay empty */
    memmove(part->entries + at + 1, part->entries + at, (size_t)(end - at) * sizeof entry);
    part->entries[at] = entry;
    return MR_OK;
}

/* What comes behind moves up, as far as it is out of its home. */
static void take(finder_part *part, uint64_t hash) {
    uint64_t at = place_of(part, hash), end = at + 1;
    MR_ASSERT(part->entries[at].row != 0 && part->entries[at].hash == hash);
    while (part->entries[end].row != 0 && finder_home(part, part->entries[end].hash) < end) end++;
    memmove(part->entries + at, part->entries + at + 1, (size_t)(end - at - 1) * sizeof(finder_entry));
    part->entries[end - 1] = (finder_entry){0};
}

mr_status finder_init(finder *finder) {
    *finder = (struct finder){0};
    return part_make(CAPACITY_FIRST, TAIL, &finder->now);
}

void finder_fini(finder *finder) {
    part_free(&finder->now);
    part_free(&finder->old);
    *finder = (struct finder){0};
}

static void end_growth(finder *finder) {
    part_free(&finder->old);
    finder->frontier = finder->dropped = 0;
}

static void drop_moved(finder *finder) {
    if (finder->frontier - finder->dropped < DROP) return;
    memory_drop(finder->old.entries + finder->dropped,
                (size_t)(finder->frontier - finder->dropped) * sizeof(finder_entry));
    finder->dropped = finder->frontier;
}

/* Moves the runs that begin within the next `places`. A new frontier is where nothing is out of its home: whatever has
 * its home before it has also its place before it. */
static mr_status step(finder *finder, uint64_t places) {
    finder_part *old = &finder->old;
    uint64_t at = finder->frontier, until = at + places;
    for (; at < old->length; at++) {
        finder_entry *entry = &old->entries[at];
        if (at >= until && (entry->row == 0 || finder_home(old, entry->hash) == at)) break;
        mr_status status = entry->row == 0 ? MR_OK : put(&finder->now, *entry);
        if (status == MR_OK) continue;
        while (at-- > finder->frontier) /* nothing has happened */
            if (old->entries[at].row != 0) take(&finder->now, old->entries[at].hash);
        return status;
    }
    finder->frontier = at;
    if (at >= old->length)
        end_growth(finder);
    else
        drop_moved(finder);
    return MR_OK;
}

mr_status finder_reserve(finder *finder, uint64_t more) {
    if (finder->count > COUNT_MAX || more > COUNT_MAX)
        return error_set(MR_NOMEM, "a table of %llu keys cannot take %llu more", (unsigned long long)finder->count,
                         (unsigned long long)more);
    uint64_t need = finder->count + more;
    if (need <= limit(&finder->now)) return MR_OK;
    if (finder->old.entries != NULL) MR_TRY(step(finder, finder->old.length)); /* so many at once: no use to wait */
    uint64_t capacity = finder->now.capacity + finder->now.capacity / 3;
    if (capacity / 10 * 7 < need) capacity = need + need / 2 + CAPACITY_FIRST;
    finder_part larger;
    MR_TRY(part_make(capacity, TAIL, &larger));
    finder->old = finder->now;
    finder->now = larger;
    finder->frontier = finder->dropped = 0;
    return MR_OK;
}

mr_status finder_add(finder *finder, finder_entry entry) {
    MR_ASSERT(entry.row != 0);
    MR_TRY(finder_reserve(finder, 1));
    if (finder->old.entries != NULL) MR_TRY(step(finder, STEP));
    bool is_old = finder_part_of(finder, entry.hash) == &finder->old;
    MR_TRY(put(is_old ? &finder->old : &finder->now, entry));
    finder->count++;
    return MR_OK;
}

void finder_settle(finder *finder, uint64_t places) {
    if (finder->old.entries != NULL) (void)!step(finder, places); /* without memory it stays as it is */
}

void finder_remove(finder *finder, uint64_t hash) {
    bool is_old = finder_part_of(finder, hash) == &finder->old;
    take(is_old ? &finder->old : &finder->now, hash);
    finder->count--;
}

/* From the place `at` on; behind the place `until` it ends at the first that is empty. */
static finder_entry *next_in(const finder_part *part, uint64_t at, uint64_t until, uint64_t from) {
    for (; at < part->length; at++) {
        finder_entry *entry = &part->entries[at];
        if (entry->row != 0 && entry->hash >= from) return entry;
        if (entry->row == 0 && at >= until) break;
    }
    return NULL;
}

/* The place in `now` behind which no home of what has moved can be. */
static uint64_t moved_until(const finder *finder) {
    uint64_t frontier = finder->frontier, capacity = finder->old.capacity;
    if (finder->old.entries == NULL || frontier >= capacity) return finder->now.length;
    uint64_t first =
        (uint64_t)((((unsigned __int128)frontier << 64) + capacity - 1) / capacity); /* hash of that home */
    return finder_home(&finder->now, first);
}

finder_entry *finder_next(const finder *finder, uint64_t from) {
    const finder_part *part = finder_part_of(finder, from);
    uint64_t home = finder_home(part, from);
    if (part == &finder->old) return next_in(part, home, part->length, from);
    finder_entry *entry = next_in(part, home, moved_until(finder), from);
    if (entry != NULL || finder->old.entries == NULL) return entry;
    return next_in(&finder->old, finder->frontier, finder->old.length, from);
}

size_t finder_bytes(const finder *finder) {
    return part_size(&finder->now) + part_size(&finder->old) - (size_t)finder->dropped * sizeof(finder_entry);
}
