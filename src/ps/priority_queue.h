/* priority_queue.h — priority queue with aging: requests passed over too often come first, then priority, then age.
 *
 * Each waiting entry is in two heaps: by priority and age, and by the number of entries that had left when it began to
 * wait. The second heap gives the number of times that an entry was passed over, so no waiting entry needs a counter:
 * finding the next entry and removing it are O(log n).
 *
 * Pure; entries are borrowed while they wait. */
#pragma once
#include "base/timer_heap.h"

typedef struct priority_entry { /* part of a struct that may wait; a zero-initialized entry does not wait */
    uint64_t since;             /* age of the entry, a growing number; the caller sets it before the entry waits */
    timer_heap_item preferred, patient; /* positions in the two heaps */
} priority_entry;

typedef struct priority_queue {    /* a zero-initialized queue is empty */
    timer_heap preferred, patient; /* heaps: by priority and age; by the value of `gone` when the wait began */
    uint64_t gone;
} priority_queue;

void priority_queue_fini(priority_queue *queue);
static inline bool priority_queue_empty(const priority_queue *queue) { return queue->preferred.count == 0; }

/* no-op if the entry waits already */
void priority_queue_wait(priority_queue *queue, priority_entry *entry, uint8_t priority);
/* changes the entry's priority; no-op if the entry does not wait */
void priority_queue_prefer(priority_queue *queue, priority_entry *entry, uint8_t priority);
/* no-op if the entry does not wait */
void priority_queue_leave(priority_queue *queue, priority_entry *entry);

/* NULL: the queue is empty. An entry that was passed over `patience` times goes first. */
priority_entry *priority_queue_next(const priority_queue *queue, uint64_t patience);
/* removes the entry; all others were passed over once more */
void priority_queue_go(priority_queue *queue, priority_entry *entry);

void priority_queue_check(const priority_queue *queue); /* asserts that both heaps have the same entries */
