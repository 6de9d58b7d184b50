/* extent_allocator.c — see extent_allocator.h.
 *
 * A run is a range of the arena, free or in use. Free runs form a treap: ordered by offset, heap-ordered by a
 * pseudo-random priority. Each node stores the longest run in its subtree, so the lowest run of at least n bytes is
 * found by one descent from the root. Runs in use are in a map by offset.
 *
 * Invariants  (extent_allocator_check) every byte is in exactly one run; no two free runs touch; `longest` is correct;
 *             `used` and the counts are the sums over the runs.
 * Ownership   the allocator owns all runs.
 * Threads     none. No clock, no I/O. */
#include "net/shm/extent_allocator.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/map.h"
#include "base/rng.h"

enum { HOT_COUNT = 8 };

typedef struct run {
    uint64_t offset, size;
    uint64_t longest, priority; /* only of free runs, like the next line */
    struct run *left, *right;   /* owned */
} run;

struct extent_allocator {
    uint64_t from, end, used;
    run *free_runs; /* owned: the root of the treap */
    map used_runs;  /* offset → run, owned */
    size_t free_count;
    extent hot[HOT_COUNT]; /* freed last; may be in use again */
    size_t hot_next;
    rng rng; /* for priorities, with a fixed seed: equal operations give equal offsets */
};

static uint64_t end_of(const run *run) { return run->offset + run->size; }
static uint64_t longest_of(const run *run) { return run == NULL ? 0 : run->longest; }

/* ---- The treap. */

static run *refresh(run *node) {
    uint64_t left = longest_of(node->left), right = longest_of(node->right);
    uint64_t below = left > right ? left : right;
    node->longest = node->size > below ? node->size : below;
    return node;
}

static void split(run *node, uint64_t offset, run **low, run **high) {
    if (node == NULL) {
        *low = *high = NULL;
    } else if (node->offset < offset) {
        split(node->right, offset, &node->right, high);
        *low = refresh(node);
    } else {
        split(node->left, offset, low, &node->left);
        *high = refresh(node);
    }
}

static run *join(run *low, run *high) {
    if (low == NULL) return high;
    if (high == NULL) return low;
    if (low->priority > high->priority) {
        low->right = join(low->right, high);
        return refresh(low);
    }
    high->left = join(low, high->left);
    return refresh(high);
}

static void insert(extent_allocator *allocator, run *item) {
    item->left = item->right = NULL;
    item->priority = rng_next(&allocator->rng);
    run *low, *high;
    split(allocator->free_runs, item->offset, &low, &high);
    allocator->free_runs = join(join(low, refresh(item)), high);
    allocator->free_count++;
}

static void take_out(extent_allocator *allocator, run *item) {
    run *low, *rest, *middle, *high;
    split(allocator->free_runs, item->offset, &low, &rest);
    split(rest, item->offset + 1, &middle, &high);
    MR_ASSERT(middle == item && item->left == NULL && item->right == NULL);
    allocator->free_runs = join(low, high);
    allocator->free_count--;
}

/* The lowest free run of at least `size` bytes. */
static run *first_fit(const extent_allocator *allocator, uint64_t size) {
    run *node = allocator->free_runs;
    if (longest_of(node) < size) return NULL;
    for (;;) {
        if (longest_of(node->left) >= size)
            node = node->left;
        else if (node->size >= size)
            return node;
        else
            node = node->right;
    }
}

/* The last free run that begins at or before `offset`. */
static run *at_or_before(const extent_allocator *allocator, uint64_t offset) {
    run *found = NULL;
    for (run *node = allocator->free_runs; node != NULL;) {
        if (node->offset <= offset)
            found = node, node = node->right;
        else
            node = node->left;
    }
    return found;
}

/* ---- Extents. */

static run *run_create(uint64_t offset, uint64_t size) { return XNEW(run, .offset = offset, .size = size); }

extent_allocator *extent_allocator_create(uint64_t from, uint64_t end) {
    MR_ASSERT(from < end && from % EXTENT_UNIT == 0 && end % EXTENT_UNIT == 0);
    extent_allocator *made = XNEW(extent_allocator, .from = from, .end = end);
    rng_init(&made->rng, from ^ end);
    insert(made, run_create(from, end - from));
    return made;
}

static void free_all(run *node) {
    if (node == NULL) return;
    free_all(node->left);
    free_all(node->right);
    free(node);
}

void extent_allocator_destroy(extent_allocator *allocator) {
    map_for_each (slot, &allocator->used_runs) free(slot.value);
    map_fini(&allocator->used_runs);
    free_all(allocator->free_runs);
    free(allocator);
}

static uint64_t top(const extent_allocator *allocator) {
    const run *last = at_or_before(allocator, allocator->end);
    return last != NULL && end_of(last) == allocator->end ? last->offset : allocator->end;
}

/* A free run that contains the most recently freed extent of exactly this size. An extent that would raise the top is
 * not used, so that memory above the top can be returned to the machine. */
static run *hot_fit(extent_allocator *allocator, uint64_t size, uint64_t *offset) {
    uint64_t limit = top(allocator);
    for (size_t age = 1; age <= HOT_COUNT; age++) {
        extent *hot = &allocator->hot[(allocator->hot_next + HOT_COUNT - age) % HOT_COUNT];
        if (hot->size != size || hot->offset + size > limit) continue;
        run *holder = at_or_before(allocator, hot->offset);
        if (holder == NULL || end_of(holder) < hot->offset + size) continue;
        *offset = hot->offset;
        hot->size = 0;
        return holder;
    }
    return NULL;
}

/* Allocates [offset, offset + size) from a free run; the rest on both sides stays free. */
static void cut(extent_allocator *allocator, run *holder, uint64_t offset, uint64_t size) {
    uint64_t before = offset - holder->offset, after = end_of(holder) - offset - size;
    take_out(allocator, holder);
    if (before > 0) insert(allocator, run_create(holder->offset, before));
    if (after > 0) insert(allocator, run_create(offset + size, after));
    holder->offset = offset;
    holder->size = size;
    map_put(&allocator->used_runs, offset, holder);
    allocator->used += size;
}

mr_status extent_allocator_alloc(extent_allocator *allocator, uint64_t size, extent *out) {
    if (size == 0) return error_set(MR_INVALID, "an extent of 0 bytes: the minimum is 1");
    uint64_t total = allocator->end - allocator->from;
    if (size <= total) size = (size + EXTENT_UNIT - 1) / EXTENT_UNIT * EXTENT_UNIT;
    uint64_t offset = 0;
    run *holder = hot_fit(allocator, size, &offset);
    if (holder == NULL) {
        holder = first_fit(allocator, size);
        if (holder == NULL)
            return error_set(MR_NOMEM,
                             "the arena has no free extent of %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64
                             " are in use, the longest free extent has %" PRIu64,
                             size, allocator->used, total, longest_of(allocator->free_runs));
        offset = holder->offset;
    }
    cut(allocator, holder, offset, size);
    *out = (extent){.offset = offset, .size = size};
    return MR_OK;
}

mr_status extent_allocator_take(extent_allocator *allocator, extent wanted) {
    MR_ASSERT(wanted.size > 0 && wanted.size % EXTENT_UNIT == 0 && wanted.offset % EXTENT_UNIT == 0);
    run *holder = at_or_before(allocator, wanted.offset);
    if (holder == NULL || end_of(holder) < wanted.offset + wanted.size)
        return error_set(MR_NOMEM, "the extent of %" PRIu64 " bytes at offset %" PRIu64 " of the arena is in use",
                         wanted.size, wanted.offset);
    uint64_t limit = top(allocator);
    if (wanted.offset > limit && (wanted.offset - limit) / wanted.size >= EXTENT_RAISE_MAX)
        return error_set(MR_NOMEM,
                         "the extent of %" PRIu64 " bytes at offset %" PRIu64 " is too far above the used part",
                         wanted.size, wanted.offset);
    cut(allocator, holder, wanted.offset, wanted.size);
    return MR_OK;
}

void extent_allocator_free(extent_allocator *allocator, extent extent) {
    run *item = map_remove(&allocator->used_runs, extent.offset);
    MR_ASSERT(item != NULL && item->size == extent.size);
    allocator->used -= item->size;
    allocator->hot[allocator->hot_next] = extent;
    allocator->hot_next = (allocator->hot_next + 1) % HOT_COUNT;
    run *before = at_or_before(allocator, item->offset), *after = at_or_before(allocator, end_of(item));
    if (after != NULL && after->offset == end_of(item)) {
        take_out(allocator, after);
        item->size += after->size;
        free(after);
    }
    if (before != NULL && end_of(before) == item->offset) {
        take_out(allocator, before);
        item->offset = before->offset;
        item->size += before->size;
        free(before);
    }
    insert(allocator, item);
}

extent_allocator_stats extent_allocator_stats_now(const extent_allocator *allocator) {
    return (extent_allocator_stats){.size = allocator->end - allocator->from,
                                    .used = allocator->used,
                                    .largest = longest_of(allocator->free_runs),
                                    .top = top(allocator),
                                    .count = allocator->used_runs.count,
                                    .runs = allocator->free_count};
}

/* ---- Invariants. */

typedef struct totals {
    uint64_t bytes, last_end;
    size_t runs;
} totals;

static void check_tree(const run *node, totals *totals) {
    if (node == NULL) return;
    MR_ASSERT(node->left == NULL || node->left->priority <= node->priority);
    MR_ASSERT(node->right == NULL || node->right->priority <= node->priority);
    check_tree(node->left, totals);
    MR_ASSERT(node->size > 0 && node->offset % EXTENT_UNIT == 0 && node->size % EXTENT_UNIT == 0);
    MR_ASSERT(totals->runs == 0 || node->offset > totals->last_end); /* adjacent runs were joined */
    totals->bytes += node->size;
    totals->last_end = end_of(node);
    totals->runs++;
    check_tree(node->right, totals);
    uint64_t left = longest_of(node->left), right = longest_of(node->right), longest = node->size;
    longest = left > longest ? left : longest;
    MR_ASSERT(node->longest == (right > longest ? right : longest));
}

static int by_offset(const void *a, const void *b) {
    const run *one = *(run *const *)a, *two = *(run *const *)b;
    return one->offset < two->offset ? -1 : one->offset > two->offset;
}

static void check_used(const extent_allocator *allocator) {
    run **sorted = xcalloc(allocator->used_runs.count, sizeof *sorted);
    size_t count = 0;
    map_for_each (slot, &allocator->used_runs) {
        sorted[count] = slot.value;
        MR_ASSERT(slot.key == sorted[count]->offset);
        count++;
    }
    qsort(sorted, count, sizeof *sorted, by_offset);
    uint64_t bytes = 0, last_end = allocator->from;
    for (size_t i = 0; i < count; i++) {
        const run *item = sorted[i], *neighbour = at_or_before(allocator, end_of(item) - 1);
        MR_ASSERT(item->offset >= last_end && end_of(item) <= allocator->end);
        MR_ASSERT(neighbour == NULL || end_of(neighbour) <= item->offset);
        last_end = end_of(item);
        bytes += item->size;
    }
    MR_ASSERT(bytes == allocator->used);
    free(sorted);
}

void extent_allocator_check(const extent_allocator *allocator) {
    totals totals = {0};
    check_tree(allocator->free_runs, &totals);
    MR_ASSERT(totals.runs == allocator->free_count &&
              totals.bytes + allocator->used == allocator->end - allocator->from);
    check_used(allocator);
}
