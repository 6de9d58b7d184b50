/* block_allocator.h — allocator of objects inside the extents of a process: a pure allocator of offsets.
 *
 * The allocator's state is in the process's own memory. The allocator neither reads nor writes the arena, so neither
 * another process nor the death of this one can corrupt the state. (The store server finds in the slots which memory of
 * a dead process is still in use.)
 *
 * Good fit in constant time: free runs are kept in lists by size, 16 lists for each power of two. A request takes a run
 * from the first list whose runs are all long enough, splits the run and returns the rest to a list. Adjacent free runs
 * are merged.
 *
 * Fragmentation  A block wastes less than one unit. A request of n bytes fails only if no free run has n + n/16 bytes
 *                and one unit. With random sizes over a range of 1 : 64 the first request fails with more than 70 % of
 *                a stretch in use (checked by block_allocator_test.c).
 * Memory         about 80 bytes for each block and each free run. */
#pragma once
#include <stdbool.h>

#include "base/list.h"
#include "net/shm/process_block.h"

enum { BLOCK_ALLOCATOR_LISTS = 48 * 16 };

typedef struct stretch { /* an extent of the arena that is lent to this process */
    extent extent;
    list place;    /* in allocator->stretches */
    uint64_t used; /* bytes in blocks */
    bool closed;   /* no new blocks are allocated here */
    list cuts;     /* its blocks and free runs in address order */
} stretch;

typedef struct block { /* a block, or a free run */
    extent extent;
    stretch *stretch; /* borrowed */
    bool free;
    list place; /* in stretch->cuts */
    list fit;   /* of a free run: in a list of allocator->lists */
} block;

typedef struct block_allocator {
    uint64_t unit; /* a power of two that divides all offsets and sizes */
    list stretches;
    uint64_t used; /* bytes in blocks */
    uint64_t some[48 / 4];
    list lists[BLOCK_ALLOCATOR_LISTS];
} block_allocator;

void block_allocator_init(block_allocator *allocator, uint64_t unit);
void block_allocator_fini(block_allocator *allocator); /* frees the allocator's own memory */

/* The allocator owns a stretch until block_allocator_remove, which requires an empty stretch. Offset and size of the
 * extent are multiples of the unit. */
stretch *block_allocator_add(block_allocator *allocator, extent extent);
extent block_allocator_remove(block_allocator *allocator, stretch *stretch);
void block_allocator_close(block_allocator *allocator, stretch *stretch); /* no new blocks here */

block *block_allocator_alloc(block_allocator *allocator, uint64_t size); /* size > 0; NULL: no run is long enough */
stretch *block_allocator_free(block_allocator *allocator,
                              block *block); /* returns the block's stretch, which may be empty now */
static inline bool stretch_is_empty(const stretch *stretch) { return stretch->used == 0; }

void block_allocator_check(const block_allocator *allocator); /* asserts every invariant; for tests */
