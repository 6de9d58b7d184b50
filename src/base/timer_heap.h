/* timer_heap.h — intrusive binary heap of timers.
 *
 * Equal deadlines leave the heap in insertion order, so a replay is exact. Adding a deadline that is later than all
 * others and removing the item added last are O(1).
 *
 * timer_heap_add allocates or ends the process (alloc.h). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct timer_heap_item { /* embedded in the timed object; zero-initialized: in no heap */
    int64_t at_us;
    uint64_t order;
    size_t place; /* index + 1; 0: not in a heap */
} timer_heap_item;

typedef struct timer_heap {  /* zero-initialized: empty and ready */
    timer_heap_item **items; /* owned array of borrowed items */
    size_t count, capacity;
    uint64_t next_order;
} timer_heap;

void timer_heap_fini(timer_heap *heap); /* does not access items still in the heap; they may be freed already */
void timer_heap_add(timer_heap *heap, timer_heap_item *item, int64_t at_us); /* moves an item already in the heap */
void timer_heap_remove(timer_heap *heap, timer_heap_item *item);             /* no effect if the item is in no heap */
timer_heap_item *timer_heap_first(const timer_heap *heap);                   /* NULL if empty */
/* Removes and returns the first item with at_us <= now_us, or NULL. */
timer_heap_item *timer_heap_pop_due(timer_heap *heap, int64_t now_us);
int64_t timer_heap_next_us(const timer_heap *heap); /* CLOCK_NEVER_US if empty */

static inline bool timer_heap_holds(const timer_heap_item *item) { return item->place != 0; }
