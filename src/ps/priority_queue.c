/* priority_queue.c — see priority_queue.h. */
#include "ps/priority_queue.h"

#include "base/assert.h"
#include "base/list.h"

enum { AGE_BITS = 55 };

void priority_queue_fini(priority_queue *queue) {
    timer_heap_fini(&queue->preferred);
    timer_heap_fini(&queue->patient);
}

static int64_t key_of(const priority_entry *entry, uint8_t priority) {
    MR_ASSERT(entry->since < UINT64_C(1) << AGE_BITS);
    return (int64_t)((uint64_t)(UINT8_MAX - priority) << AGE_BITS | entry->since);
}

void priority_queue_wait(priority_queue *queue, priority_entry *entry, uint8_t priority) {
    if (timer_heap_holds(&entry->preferred)) return;
    timer_heap_add(&queue->preferred, &entry->preferred, key_of(entry, priority));
    timer_heap_add(&queue->patient, &entry->patient, (int64_t)queue->gone);
}

void priority_queue_prefer(priority_queue *queue, priority_entry *entry, uint8_t priority) {
    if (timer_heap_holds(&entry->preferred))
        timer_heap_add(&queue->preferred, &entry->preferred, key_of(entry, priority));
}

void priority_queue_leave(priority_queue *queue, priority_entry *entry) {
    MR_ASSERT(timer_heap_holds(&entry->preferred) == timer_heap_holds(&entry->patient));
    if (!timer_heap_holds(&entry->preferred)) return;
    timer_heap_remove(&queue->preferred, &entry->preferred);
    timer_heap_remove(&queue->patient, &entry->patient);
}

priority_entry *priority_queue_next(const priority_queue *queue, uint64_t patience) {
    timer_heap_item *patient = timer_heap_first(&queue->patient), *preferred = timer_heap_first(&queue->preferred);
    if (preferred == NULL) return NULL;
    if (queue->gone - (uint64_t)patient->at_us >= patience) return container_of(patient, priority_entry, patient);
    return container_of(preferred, priority_entry, preferred);
}

void priority_queue_go(priority_queue *queue, priority_entry *entry) {
    priority_queue_leave(queue, entry);
    queue->gone++;
}

void priority_queue_check(const priority_queue *queue) {
    MR_ASSERT(queue->preferred.count == queue->patient.count);
    for (size_t i = 0; i < queue->patient.count; i++) {
        const priority_entry *entry = container_of(queue->patient.items[i], struct priority_entry, patient);
        MR_ASSERT(timer_heap_holds(&entry->preferred) && (uint64_t)entry->patient.at_us <= queue->gone);
    }
}
