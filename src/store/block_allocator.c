/* block_allocator.c — see block_allocator.h.
 *
 * A size of u units below 16 is in list u. Above, each power of two has 16 lists, chosen by the four bits below the
 * highest bit of u. `some` has a bit for each list that is not empty.
 *
 * Invariants (block_allocator_check)  the cuts of a stretch cover the stretch in address order without gaps; two
 *                                     neighbours are never both free; a free run is in the list of its size if its
 *                                     stretch is open, and in no list if the stretch is closed; `used` is the sum of
 *                                     the sizes of the blocks. */
#include "store/block_allocator.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { SPLITS = 16, SPLIT_BITS = 4 };

static unsigned list_of(uint64_t units) { /* the list for runs of this size; each list is a size class */
    if (units < SPLITS) return (unsigned)units;
    unsigned power = 63u - (unsigned)__builtin_clzll(units);
    unsigned index = (power - SPLIT_BITS + 1) * SPLITS + (unsigned)(units >> (power - SPLIT_BITS) & (SPLITS - 1));
    return index < BLOCK_ALLOCATOR_LISTS ? index : BLOCK_ALLOCATOR_LISTS - 1;
}

/* The first list in which every run has at least `units` units. */
static unsigned first_list(uint64_t units) {
    if (units < SPLITS) return (unsigned)units;
    unsigned power = 63u - (unsigned)__builtin_clzll(units);
    return list_of(units + ((UINT64_C(1) << (power - SPLIT_BITS)) - 1));
}

static void link_run(block_allocator *allocator, block *run) {
    if (run->stretch->closed) return;
    unsigned index = list_of(run->extent.size / allocator->unit);
    list_push_front(&allocator->lists[index], &run->fit);
    allocator->some[index / 64] |= UINT64_C(1) << (index % 64);
}

static void unlink_run(block_allocator *allocator, block *run) {
    if (list_empty(&run->fit)) return;
    unsigned index = list_of(run->extent.size / allocator->unit);
    list_remove(&run->fit);
    if (list_empty(&allocator->lists[index])) allocator->some[index / 64] &= ~(UINT64_C(1) << (index % 64));
}

static block *cut_make(stretch *stretch, list *before, extent extent) {
    MR_ASSERT(extent.size > 0);
    block *cut = XNEW(block, .extent = extent, .stretch = stretch, .free = true);
    list_init(&cut->fit);
    list_insert_before(before, &cut->place);
    return cut;
}

void block_allocator_init(block_allocator *allocator, uint64_t unit) {
    MR_ASSERT(unit > 0 && (unit & (unit - 1)) == 0);
    *allocator = (struct block_allocator){.unit = unit};
    list_init(&allocator->stretches);
    for (unsigned i = 0; i < BLOCK_ALLOCATOR_LISTS; i++) list_init(&allocator->lists[i]);
}

static void stretch_destroy(stretch *stretch) {
    for (list *item; (item = list_pop_front(&stretch->cuts)) != NULL;) free(container_of(item, block, place));
    list_remove(&stretch->place);
    free(stretch);
}

void block_allocator_fini(block_allocator *allocator) {
    while (!list_empty(&allocator->stretches)) stretch_destroy(container_of(allocator->stretches.next, stretch, place));
}

stretch *block_allocator_add(block_allocator *allocator, extent extent) {
    MR_ASSERT(extent.size > 0 && extent.offset % allocator->unit == 0 && extent.size % allocator->unit == 0);
    stretch *made = XNEW(stretch, .extent = extent);
    list_init(&made->cuts);
    list_push_back(&allocator->stretches, &made->place);
    link_run(allocator, cut_make(made, &made->cuts, extent));
    return made;
}

static void unlink_all(block_allocator *allocator, stretch *stretch) {
    list_for_each (at, &stretch->cuts) unlink_run(allocator, container_of(at, block, place));
}

extent block_allocator_remove(block_allocator *allocator, stretch *stretch) {
    MR_ASSERT(stretch_is_empty(stretch));
    extent extent = stretch->extent;
    unlink_all(allocator, stretch);
    stretch_destroy(stretch);
    return extent;
}

void block_allocator_close(block_allocator *allocator, stretch *stretch) {
    MR_ASSERT(!stretch_is_empty(stretch));
    unlink_all(allocator, stretch);
    stretch->closed = true;
}

static block *find_run(block_allocator *allocator, unsigned from) {
    unsigned word = from / 64;
    uint64_t bits = allocator->some[word] & ~UINT64_C(0) << (from % 64);
    while (bits == 0) {
        if (++word == sizeof allocator->some / sizeof allocator->some[0]) return NULL;
        bits = allocator->some[word];
    }
    return container_of(allocator->lists[word * 64 + (unsigned)__builtin_ctzll(bits)].next, block, fit);
}

block *block_allocator_alloc(block_allocator *allocator, uint64_t size) {
    MR_ASSERT(size > 0);
    if (size > (UINT64_C(1) << 47)) return NULL;
    size = (size + allocator->unit - 1) & ~(allocator->unit - 1);
    block *run = find_run(allocator, first_list(size / allocator->unit));
    if (run == NULL || run->extent.size < size) return NULL;
    unlink_run(allocator, run);
    if (run->extent.size > size) {
        extent rest = {run->extent.offset + size, run->extent.size - size};
        run->extent.size = size;
        link_run(allocator, cut_make(run->stretch, run->place.next, rest));
    }
    MR_ASSERT(run->free && !run->stretch->closed && run->extent.size == size);
    run->free = false;
    run->stretch->used += size;
    allocator->used += size;
    return run;
}

/* Joins `right` to `left` if both are free; `right` is freed. */
static void join(block_allocator *allocator, block *left, block *right) {
    MR_ASSERT(left->free && right->free && left->extent.offset + left->extent.size == right->extent.offset);
    unlink_run(allocator, left);
    unlink_run(allocator, right);
    left->extent.size += right->extent.size;
    list_remove(&right->place);
    free(right);
}

stretch *block_allocator_free(block_allocator *allocator, block *block) {
    stretch *stretch = block->stretch;
    MR_ASSERT(!block->free && stretch->used >= block->extent.size);
    block->free = true;
    stretch->used -= block->extent.size;
    allocator->used -= block->extent.size;
    struct block *left = container_of(block->place.prev, struct block, place);
    struct block *right = container_of(block->place.next, struct block, place);
    if (&right->place != &stretch->cuts && right->free) join(allocator, block, right);
    if (&left->place != &stretch->cuts && left->free) {
        join(allocator, left, block);
        block = left;
    }
    link_run(allocator, block);
    return stretch;
}

static void check_stretch(const block_allocator *allocator, const stretch *stretch) {
    uint64_t at = stretch->extent.offset, used = 0;
    bool was_free = false;
    list_for_each (item, &stretch->cuts) {
        const block *cut = container_of(item, block, place);
        MR_ASSERT(cut->stretch == stretch && cut->extent.offset == at && cut->extent.size > 0);
        MR_ASSERT(cut->extent.size % allocator->unit == 0 && !(was_free && cut->free));
        MR_ASSERT(list_empty(&cut->fit) == (!cut->free || stretch->closed));
        at += cut->extent.size;
        used += cut->free ? 0 : cut->extent.size;
        was_free = cut->free;
    }
    MR_ASSERT(at == stretch->extent.offset + stretch->extent.size && used == stretch->used);
}

void block_allocator_check(const block_allocator *allocator) {
    uint64_t used = 0;
    list_for_each (at, &allocator->stretches) {
        check_stretch(allocator, container_of(at, stretch, place));
        used += container_of(at, stretch, place)->used;
    }
    MR_ASSERT(used == allocator->used);
    for (unsigned i = 0; i < BLOCK_ALLOCATOR_LISTS; i++) {
        MR_ASSERT(list_empty(&allocator->lists[i]) == !(allocator->some[i / 64] >> (i % 64) & 1));
        list_for_each (at, &allocator->lists[i])
            MR_ASSERT(list_of(container_of(at, block, fit)->extent.size / allocator->unit) == i);
    }
}
