/* timer_heap.c — see timer_heap.h. */
#include "base/timer_heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"

static bool before(const timer_heap_item *a, const timer_heap_item *b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void put(timer_heap *heap, size_t index, timer_heap_item *item) {
    heap->items[index] = item;
    item->place = index + 1;
}

static void sift_up(timer_heap *heap, size_t index, timer_heap_item *item) {
    while (index > 0) {
        size_t parent = (index - 1) / 2;
        if (!before(item, heap->items[parent])) break;
        put(heap, index, heap->items[parent]);
        index = parent;
    }
    put(heap, index, item);
}

static void sift_down(timer_heap *heap, size_t index, timer_heap_item *item) {
    for (;;) {
        size_t child = 2 * index + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && before(heap->items[child + 1], heap->items[child])) child++;
        if (!before(heap->items[child], item)) break;
        put(heap, index, heap->items[child]);
        index = child;
    }
    put(heap, index, item);
}

void timer_heap_fini(timer_heap *heap) {
    free(heap->items);
    *heap = (struct timer_heap){0};
}

void timer_heap_add(timer_heap *heap, timer_heap_item *item, int64_t at_us) {
    timer_heap_remove(heap, item);
    xgrow(&heap->items, &heap->capacity, heap->count + 1, sizeof *heap->items);
    item->at_us = at_us;
    item->order = heap->next_order++;
    sift_up(heap, heap->count++, item);
}

void timer_heap_remove(timer_heap *heap, timer_heap_item *item) {
    if (!timer_heap_holds(item)) return;
    size_t index = item->place - 1;
    MR_ASSERT(index < heap->count && heap->items[index] == item);
    item->place = 0;
    timer_heap_item *last = heap->items[--heap->count];
    if (last == item) return;
    if (index > 0 && before(last, heap->items[(index - 1) / 2]))
        sift_up(heap, index, last);
    else
        sift_down(heap, index, last);
}

timer_heap_item *timer_heap_first(const timer_heap *heap) { return heap->count == 0 ? NULL : heap->items[0]; }

timer_heap_item *timer_heap_pop_due(timer_heap *heap, int64_t now_us) {
    timer_heap_item *first = timer_heap_first(heap);
    if (first == NULL || first->at_us > now_us) return NULL;
    timer_heap_remove(heap, first);
    return first;
}

int64_t timer_heap_next_us(const timer_heap *heap) { return heap->count == 0 ? CLOCK_NEVER_US : heap->items[0]->at_us; }
