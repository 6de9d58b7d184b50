/* extent_allocator.h — allocator of extents (ranges) of the arena, on offsets only.
 *
 * All state is in the owner's memory; the arena is neither read nor written. Extents are multiples of EXTENT_UNIT.
 * First fit in address order: the lowest free run that is long enough is cut at its low end, so that extents in use
 * stay together below the watermark, where pages exist. One exception: an extent of exactly the requested size that was
 * freed recently is reused, while it is still in the caches, unless it would raise the top. extent_allocator_take
 * allocates a given offset if it is free and not far above the top.
 *
 * Fragmentation  Within an extent less than EXTENT_UNIT is lost. Adjacent free runs are always joined, so a request
 *                fails only if no run of that length exists. First fit with M bytes in use and sizes between s and n s
 *                needs in the worst case about M log2(n) bytes (Robson 1977); with sizes drawn at random from 4 KB to
 *                1 MB the first refusal comes with more than 60 % in use, which extent_allocator_test.c checks.
 * Cost           O(log runs) for each operation; about 100 bytes for each extent and each free run. */
#pragma once
#include <stddef.h>

#include "miniray/status.h"
#include "net/shm/process_block.h"

enum { EXTENT_UNIT = 4096, EXTENT_RAISE_MAX = 8 };

typedef struct extent_allocator extent_allocator;

typedef struct extent_allocator_stats {
    uint64_t size, used; /* bytes */
    uint64_t largest;    /* the longest free run */
    uint64_t top;        /* end of the highest extent in use; the beginning if there is none */
    size_t count, runs;  /* extents in use, free runs */
} extent_allocator_stats;

extent_allocator *extent_allocator_create(uint64_t from, uint64_t end); /* multiples of EXTENT_UNIT, from < end */
void extent_allocator_destroy(extent_allocator *allocator);

/* `size` is rounded up to EXTENT_UNIT. MR_INVALID for 0, MR_NOMEM if no free run is long enough. */
MR_MUST mr_status extent_allocator_alloc(extent_allocator *allocator, uint64_t size, extent *out);
/* Allocates exactly these bytes, which extent_allocator_alloc returned before. MR_NOMEM: not all are free, or they
 * would raise the top by more than EXTENT_RAISE_MAX times their size: extents in use stay together. */
MR_MUST mr_status extent_allocator_take(extent_allocator *allocator, extent wanted);
/* Frees an extent returned by extent_allocator_alloc or extent_allocator_take. */
void extent_allocator_free(extent_allocator *allocator, extent extent);

extent_allocator_stats extent_allocator_stats_now(const extent_allocator *allocator);
void extent_allocator_check(const extent_allocator *allocator); /* asserts every invariant; for tests */
