/* heap.h — intrusive binary heap of timers.
 *
 * Equal deadlines come out in the order they went in, so a replay is exact. Adding a deadline that is later than all
 * others, and removing the last one added, is O(1).
 *
 * heap_add takes the memory it needs or ends the process (alloc.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct heap_item { /* lives inside what it times; zero-initialized it is in no heap */
    int64_t at_us;
    uint64_t order;
    size_t place; /* index + 1; 0: not in a heap */
} heap_item;

typedef struct heap {  /* zero-initialized it is empty and ready */
    heap_item **items; /* owned array of borrowed items */
    size_t count, capacity;
    uint64_t next_order;
} heap;

void heap_fini(heap *heap); /* does not touch items that are still in: they may be gone already */
void heap_add(heap *heap, heap_item *item, int64_t at_us); /* moves it if it is in the heap already */
void heap_remove(heap *heap, heap_item *item);             /* no-op if it is in no heap */
heap_item *heap_first(const heap *heap);                   /* NULL if empty */
heap_item *heap_pop_due(heap *heap, int64_t now_us);       /* the first one with at_us <= now_us, removed; or NULL */
int64_t heap_next_us(const heap *heap);                    /* CLOCK_NEVER_US if empty */

static inline bool heap_holds(const heap_item *item) { return item->place != 0; }
