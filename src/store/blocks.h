/* blocks.h — allocator of objects inside the extents of a process: a pure allocator of offsets.
 *
 * Everything it knows lies in the process's own memory; not a byte of the arena is read or written, so nothing that
 * another process does, or the death of this one, can corrupt it. (What of a dead process's memory is still in use the
 * vault knows from the slots.)
 *
 * Good fit in constant time: free runs are kept in lists by size, 16 lists for each power of two; a request takes a run
 * from the first list whose runs are all long enough, cuts it and gives the rest back. Runs that touch are one run.
 *
 * Fragmentation  Inside a block less than a unit is lost. A request of n bytes fails only if no free run of
 *                n + n/16 + 1 unit bytes exists. With random sizes over a range of 1 : 64 the first refusal comes with
 *                more than 70 % of a stretch in use, which blocks_test.c holds it to.
 * Memory         about 80 bytes for each block and each free run. */
#pragma once
#include <stdbool.h>

#include "base/list.h"
#include "net/shm/station.h"

enum { BLOCKS_LISTS = 48 * 16 };

typedef struct stretch { /* a leased piece of the arena */
    extent extent;
    list place;    /* in blocks->stretches */
    uint64_t used; /* bytes in blocks */
    bool closed;   /* nothing new is put here */
    list cuts;     /* its blocks and free runs in address order */
} stretch;

typedef struct block { /* or a free run */
    extent extent;
    stretch *stretch; /* borrowed */
    bool free;
    list place; /* in stretch->cuts */
    list fit;   /* in a list of blocks->lists, if free */
} block;

typedef struct blocks {
    uint64_t unit; /* a power of two; offsets and sizes are multiples of it */
    list stretches;
    uint64_t used; /* bytes in blocks */
    uint64_t some[48 / 4];
    list lists[BLOCKS_LISTS];
} blocks;

void blocks_init(blocks *blocks, uint64_t unit);
void blocks_fini(blocks *blocks); /* forgets everything */

/* A stretch is owned by `blocks` until it is removed, which only an empty one can be. Its offset and size are multiples
 * of the unit. */
stretch *blocks_add(blocks *blocks, extent extent);
extent blocks_remove(blocks *blocks, stretch *stretch);
void blocks_close(blocks *blocks, stretch *stretch); /* no new blocks here */

block *blocks_alloc(blocks *blocks, uint64_t size); /* size > 0; NULL: no run is long enough */
stretch *blocks_free(blocks *blocks, block *block); /* its stretch, which may be empty now */
static inline bool stretch_is_empty(const stretch *stretch) { return stretch->used == 0; }

void blocks_check(const blocks *blocks); /* asserts every invariant; for tests */
