/* priority_queue.h — priority queue with aging: requests passed over too often come first, then priority, then age.
 *
 * Each waiting entry is in two heaps: by priority and age, and by the number of entries that had gone when it began to
 * wait. The second heap says how often an entry was passed over, so no waiting entry needs a counter: finding the next
 * entry and removing it are O(log n).
 *
 * Pure; entries are borrowed while they wait. */
#pragma once
#include "base/timer_heap.h"

typedef struct priority_entry {         /* of something that may wait; zero-initialized it does not */
    uint64_t since;                     /* its age, a number that grows: the caller's to set before it waits */
    timer_heap_item preferred, patient; /* in the two heaps */
} priority_entry;

typedef struct priority_queue {    /* zero-initialized it is empty */
    timer_heap preferred, patient; /* by priority and age; by the count of entries gone before */
    uint64_t gone;
} priority_queue;

void priority_queue_fini(priority_queue *queue);
static inline bool priority_queue_empty(const priority_queue *queue) { return queue->preferred.count == 0; }

/* no-op if it waits already */
void priority_queue_wait(priority_queue *queue, priority_entry *entry, uint8_t priority);
/* no-op if the entry does not wait */
void priority_queue_prefer(priority_queue *queue, priority_entry *entry, uint8_t priority);
/* no-op if it does not wait */
void priority_queue_leave(priority_queue *queue, priority_entry *entry);

/* NULL: the queue is empty. An entry that was passed over `patience` times goes first. */
priority_entry *priority_queue_next(const priority_queue *queue, uint64_t patience);
void priority_queue_go(priority_queue *queue, priority_entry *entry); /* it leaves, and all others are passed over */

void priority_queue_check(const priority_queue *queue); /* asserts that both heaps have the same ones */
