/* overflow_index.c — see overflow_index.h. */
#include "kv/table/overflow_index.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "kv/table/huge_pages.h"

enum {
    CAPACITY_FIRST = 16,
    TAIL = 64, /* places behind the last home */
    STEP = 8,  /* places moved with each added entry */
    /* number of moved places whose memory is returned at once */
    DROP = 2 * HUGE_PAGES_HUGE_PAGE / (int)sizeof(overflow_index_entry)
};
#define COUNT_MAX (UINT64_C(1) << 40) /* prevents overflow of sizes */

static uint64_t limit(const overflow_index_part *part) { return part->capacity / 10 * 7; }

static size_t part_size(const overflow_index_part *part) { return (size_t)part->length * sizeof(overflow_index_entry); }

static mr_status part_make(uint64_t capacity, uint64_t tail, overflow_index_part *out) {
    overflow_index_part part = {NULL, capacity, capacity + tail};
    MR_TRY(huge_pages_take(part_size(&part), &part.entries));
    *out = part;
    return MR_OK;
}

static void part_free(overflow_index_part *part) {
    huge_pages_give(part->entries, part_size(part));
    *part = (overflow_index_part){0};
}

/* Lengthens the tail; homes and places are unchanged. */
static mr_status lengthen(overflow_index_part *part) {
    overflow_index_part longer;
    MR_TRY(part_make(part->capacity, part->length - part->capacity + TAIL, &longer));
    memcpy(longer.entries, part->entries, part_size(part));
    part_free(part);
    *part = longer;
    return MR_OK;
}

/* Place of the hash, or the place where it would be inserted. */
static uint64_t place_of(const overflow_index_part *part, uint64_t hash) {
    uint64_t at = overflow_index_home(part, hash);
    while (part->entries[at].row != 0 && part->entries[at].hash < hash) at++;
    return at;
}

static mr_status put(overflow_index_part *part, overflow_index_entry entry) {
    uint64_t at = place_of(part, entry.hash), end = at;
    while (part->entries[end].row != 0) end++;
    if (end + OVERFLOW_INDEX_WINDOW >= part->length) MR_TRY(lengthen(part)); /* the last places stay empty */
    memmove(part->entries + at + 1, part->entries + at, (size_t)(end - at) * sizeof entry);
    part->entries[at] = entry;
    return MR_OK;
}

/* Removes an entry; later entries move up unless they are at their homes. */
static void take(overflow_index_part *part, uint64_t hash) {
    uint64_t at = place_of(part, hash), end = at + 1;
    MR_ASSERT(part->entries[at].row != 0 && part->entries[at].hash == hash);
    while (part->entries[end].row != 0 && overflow_index_home(part, part->entries[end].hash) < end) end++;
    memmove(part->entries + at, part->entries + at + 1, (size_t)(end - at - 1) * sizeof(overflow_index_entry));
    part->entries[end - 1] = (overflow_index_entry){0};
}

void overflow_index_fini(overflow_index *index) {
    part_free(&index->now);
    part_free(&index->old);
    *index = (struct overflow_index){0};
}

static void drop_moved(overflow_index *index) {
    if (index->frontier - index->dropped < DROP) return;
    huge_pages_drop(index->old.entries + index->dropped,
                    (size_t)(index->frontier - index->dropped) * sizeof(overflow_index_entry));
    index->dropped = index->frontier;
}

/* Moves the runs that begin within the next `places`. At a new frontier no entry is behind its home: an entry whose
 * home is before the frontier has its place before it, too. */
static mr_status step(overflow_index *index, uint64_t places) {
    overflow_index_part *old = &index->old;
    uint64_t at = index->frontier, until = at + places;
    for (; at < old->length; at++) {
        overflow_index_entry *entry = &old->entries[at];
        if (at >= until && (entry->row == 0 || overflow_index_home(old, entry->hash) == at)) break;
        mr_status status = entry->row == 0 ? MR_OK : put(&index->now, *entry);
        if (status == MR_OK) continue;
        while (at-- > index->frontier) /* undoes the step */
            if (old->entries[at].row != 0) take(&index->now, old->entries[at].hash);
        return status;
    }
    index->frontier = at;
    if (at < old->length) {
        drop_moved(index);
    } else {
        part_free(old);
        index->frontier = index->dropped = 0;
    }
    return MR_OK;
}

mr_status overflow_index_reserve(overflow_index *index, uint64_t more) {
    if (index->count > COUNT_MAX || more > COUNT_MAX)
        return error_set(MR_NOMEM, "an overflow index of %llu keys cannot take %llu more",
                         (unsigned long long)index->count, (unsigned long long)more);
    uint64_t need = index->count + more;
    if (need <= limit(&index->now)) return MR_OK;
    /* so many entries are to be added that the rest is moved at once */
    if (index->old.entries != NULL) MR_TRY(step(index, index->old.length));
    uint64_t capacity = index->now.capacity + index->now.capacity / 3;
    if (capacity / 10 * 7 < need) capacity = need + need / 2 + CAPACITY_FIRST;
    overflow_index_part larger;
    MR_TRY(part_make(capacity, TAIL, &larger));
    index->old = index->now;
    index->now = larger;
    index->frontier = index->dropped = 0;
    return MR_OK;
}

mr_status overflow_index_add(overflow_index *index, overflow_index_entry entry) {
    MR_ASSERT(entry.row != 0);
    MR_TRY(overflow_index_reserve(index, 1));
    if (index->old.entries != NULL) MR_TRY(step(index, STEP));
    bool is_old = overflow_index_part_of(index, entry.hash) == &index->old;
    MR_TRY(put(is_old ? &index->old : &index->now, entry));
    index->count++;
    return MR_OK;
}

void overflow_index_remove(overflow_index *index, uint64_t hash) {
    bool is_old = overflow_index_part_of(index, hash) == &index->old;
    take(is_old ? &index->old : &index->now, hash);
    index->count--;
}

/* First entry from place `at` on with a hash of at least `from`; behind place `until` the search ends at the first
 * empty place. */
static overflow_index_entry *next_in(const overflow_index_part *part, uint64_t at, uint64_t until, uint64_t from) {
    for (; at < part->length; at++) {
        overflow_index_entry *entry = &part->entries[at];
        if (entry->row != 0 && entry->hash >= from) return entry;
        if (entry->row == 0 && at >= until) break;
    }
    return NULL;
}

/* The place in `now` behind which no moved entry has its home. */
static uint64_t moved_until(const overflow_index *index) {
    uint64_t frontier = index->frontier, capacity = index->old.capacity;
    if (index->old.entries == NULL || frontier >= capacity) return index->now.length;
    uint64_t first =
        /* smallest hash of the frontier's home */
        (uint64_t)((((unsigned __int128)frontier << 64) + capacity - 1) / capacity);
    return overflow_index_home(&index->now, first);
}

overflow_index_entry *overflow_index_next(const overflow_index *index, uint64_t from) {
    const overflow_index_part *part = overflow_index_part_of(index, from);
    uint64_t home = overflow_index_home(part, from);
    if (part == &index->old) return next_in(part, home, part->length, from);
    overflow_index_entry *entry = next_in(part, home, moved_until(index), from);
    if (entry != NULL || index->old.entries == NULL) return entry;
    return next_in(&index->old, index->frontier, index->old.length, from);
}

size_t overflow_index_bytes(const overflow_index *index) {
    return part_size(&index->now) + part_size(&index->old) - (size_t)index->dropped * sizeof(overflow_index_entry);
}
