/* timer_heap.h — intrusive binary heap of timers.
 *
 * Equal deadlines come out in the order they went in, so a replay is exact. Adding a deadline that is later than all
 * others, and removing the last one added, is O(1).
 *
 * timer_heap_add takes the memory it needs or ends the process (alloc.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct timer_heap_item { /* lives inside what it times; zero-initialized it is in no heap */
    int64_t at_us;
    uint64_t order;
    size_t place; /* index + 1; 0: not in a heap */
} timer_heap_item;

typedef struct timer_heap {  /* zero-initialized it is empty and ready */
    timer_heap_item **items; /* owned array of borrowed items */
    size_t count, capacity;
    uint64_t next_order;
} timer_heap;

void timer_heap_fini(timer_heap *heap); /* does not touch items that are still in: they may be gone already */
void timer_heap_add(timer_heap *heap, timer_heap_item *item, int64_t at_us); /* moves it if it is in the heap already */
void timer_heap_remove(timer_heap *heap, timer_heap_item *item);             /* no-op if it is in no heap */
timer_heap_item *timer_heap_first(const timer_heap *heap);                   /* NULL if empty */
/* the first one with at_us <= now_us, removed; or NULL */
timer_heap_item *timer_heap_pop_due(timer_heap *heap, int64_t now_us);
int64_t timer_heap_next_us(const timer_heap *heap); /* CLOCK_NEVER_US if empty */

static inline bool timer_heap_holds(const timer_heap_item *item) { return item->place != 0; }
