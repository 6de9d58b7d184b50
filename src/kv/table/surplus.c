/* surplus.c — see surplus.h. */
#include "kv/table/surplus.h"

#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "kv/table/memory.h"

enum {
    CAPACITY_FIRST = 16,
    TAIL = 64,                                               /* places behind the last home */
    STEP = 8,                                                /* places that move with each entry that is added */
    DROP = 2 * MEMORY_HUGE_PAGE / (int)sizeof(surplus_entry) /* so many that have moved are given back at once */
};
#define COUNT_MAX (UINT64_C(1) << 40) /* so that no size overflows */

static uint64_t limit(const surplus_part *part) { return part->capacity / 10 * 7; }

static size_t part_size(const surplus_part *part) { return (size_t)part->length * sizeof(surplus_entry); }

static mr_status part_make(uint64_t capacity, uint64_t tail, surplus_part *out) {
    surplus_part part = {NULL, capacity, capacity + tail};
    void *entries;
    MR_TRY(memory_take(part_size(&part), &entries));
    part.entries = entries;
    *out = part;
    return MR_OK;
}

static void part_free(surplus_part *part) {
    memory_give(part->entries, part_size(part));
    *part = (surplus_part){0};
}

/* A longer tail; homes stay, and so do all places. */
static mr_status lengthen(surplus_part *part) {
    surplus_part longer;
    MR_TRY(part_make(part->capacity, part->length - part->capacity + TAIL, &longer));
    memcpy(longer.entries, part->entries, part_size(part));
    part_free(part);
    *part = longer;
    return MR_OK;
}

/* Where the hash is or would be. */
static uint64_t place_of(const surplus_part *part, uint64_t hash) {
    uint64_t at = surplus_home(part, hash);
    while (part->entries[at].row != 0 && part->entries[at].hash < hash) at++;
    return at;
}

static mr_status put(surplus_part *part, surplus_entry entry) {
    uint64_t at = place_of(part, entry.hash), end = at;
    while (part->entries[end].row != 0) end++;
    if (end + SURPLUS_WINDOW >= part->length) MR_TRY(lengthen(part)); /* the last places stay empty */
    memmove(part->entries + at + 1, part->entries + at, (size_t)(end - at) * sizeof entry);
    part->entries[at] = entry;
    return MR_OK;
}

/* What comes behind moves up, as far as it is out of its home. */
static void take(surplus_part *part, uint64_t hash) {
    uint64_t at = place_of(part, hash), end = at + 1;
    MR_ASSERT(part->entries[at].row != 0 && part->entries[at].hash == hash);
    while (part->entries[end].row != 0 && surplus_home(part, part->entries[end].hash) < end) end++;
    memmove(part->entries + at, part->entries + at + 1, (size_t)(end - at - 1) * sizeof(surplus_entry));
    part->entries[end - 1] = (surplus_entry){0};
}

void surplus_init(surplus *surplus) { *surplus = (struct surplus){0}; }

void surplus_fini(surplus *surplus) {
    part_free(&surplus->now);
    part_free(&surplus->old);
    *surplus = (struct surplus){0};
}

static void end_growth(surplus *surplus) {
    part_free(&surplus->old);
    surplus->frontier = surplus->dropped = 0;
}

static void drop_moved(surplus *surplus) {
    if (surplus->frontier - surplus->dropped < DROP) return;
    memory_drop(surplus->old.entries + surplus->dropped,
                (size_t)(surplus->frontier - surplus->dropped) * sizeof(surplus_entry));
    surplus->dropped = surplus->frontier;
}

/* Moves the runs that begin within the next `places`. A new frontier is where nothing is out of its home: whatever has
 * its home before it has also its place before it. */
static mr_status step(surplus *surplus, uint64_t places) {
    surplus_part *old = &surplus->old;
    uint64_t at = surplus->frontier, until = at + places;
    for (; at < old->length; at++) {
        surplus_entry *entry = &old->entries[at];
        if (at >= until && (entry->row == 0 || surplus_home(old, entry->hash) == at)) break;
        mr_status status = entry->row == 0 ? MR_OK : put(&surplus->now, *entry);
        if (status == MR_OK) continue;
        while (at-- > surplus->frontier) /* nothing has happened */
            if (old->entries[at].row != 0) take(&surplus->now, old->entries[at].hash);
        return status;
    }
    surplus->frontier = at;
    if (at >= old->length)
        end_growth(surplus);
    else
        drop_moved(surplus);
    return MR_OK;
}

mr_status surplus_reserve(surplus *surplus, uint64_t more) {
    if (surplus->count > COUNT_MAX || more > COUNT_MAX)
        return error_set(MR_NOMEM, "an overflow index of %llu keys cannot take %llu more",
                         (unsigned long long)surplus->count, (unsigned long long)more);
    uint64_t need = surplus->count + more;
    if (need <= limit(&surplus->now)) return MR_OK;
    if (surplus->old.entries != NULL) MR_TRY(step(surplus, surplus->old.length)); /* so many at once: no use to wait */
    uint64_t capacity = surplus->now.capacity + surplus->now.capacity / 3;
    if (capacity / 10 * 7 < need) capacity = need + need / 2 + CAPACITY_FIRST;
    surplus_part larger;
    MR_TRY(part_make(capacity, TAIL, &larger));
    surplus->old = surplus->now;
    surplus->now = larger;
    surplus->frontier = surplus->dropped = 0;
    return MR_OK;
}

mr_status surplus_add(surplus *surplus, surplus_entry entry) {
    MR_ASSERT(entry.row != 0);
    MR_TRY(surplus_reserve(surplus, 1));
    if (surplus->old.entries != NULL) MR_TRY(step(surplus, STEP));
    bool is_old = surplus_part_of(surplus, entry.hash) == &surplus->old;
    MR_TRY(put(is_old ? &surplus->old : &surplus->now, entry));
    surplus->count++;
    return MR_OK;
}

void surplus_remove(surplus *surplus, uint64_t hash) {
    bool is_old = surplus_part_of(surplus, hash) == &surplus->old;
    take(is_old ? &surplus->old : &surplus->now, hash);
    surplus->count--;
}

/* From the place `at` on; behind the place `until` it ends at the first that is empty. */
static surplus_entry *next_in(const surplus_part *part, uint64_t at, uint64_t until, uint64_t from) {
    for (; at < part->length; at++) {
        surplus_entry *entry = &part->entries[at];
        if (entry->row != 0 && entry->hash >= from) return entry;
        if (entry->row == 0 && at >= until) break;
    }
    return NULL;
}

/* The place in `now` behind which no home of what has moved can be. */
static uint64_t moved_until(const surplus *surplus) {
    uint64_t frontier = surplus->frontier, capacity = surplus->old.capacity;
    if (surplus->old.entries == NULL || frontier >= capacity) return surplus->now.length;
    uint64_t first =
        (uint64_t)((((unsigned __int128)frontier << 64) + capacity - 1) / capacity); /* hash of that home */
    return surplus_home(&surplus->now, first);
}

surplus_entry *surplus_next(const surplus *surplus, uint64_t from) {
    const surplus_part *part = surplus_part_of(surplus, from);
    uint64_t home = surplus_home(part, from);
    if (part == &surplus->old) return next_in(part, home, part->length, from);
    surplus_entry *entry = next_in(part, home, moved_until(surplus), from);
    if (entry != NULL || surplus->old.entries == NULL) return entry;
    return next_in(&surplus->old, surplus->frontier, surplus->old.length, from);
}

size_t surplus_bytes(const surplus *surplus) {
    return part_size(&surplus->now) + part_size(&surplus->old) - (size_t)surplus->dropped * sizeof(surplus_entry);
}
