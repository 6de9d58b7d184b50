/* hold_table.c — see hold_table.h. */
#include "store/hold_table.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/cpu.h"
#include "base/failpoint.h"

static void push(hold_table *holds, hold_entry *entry) { holds->free[holds->free_count++] = entry; }

static void make_room(hold_table *holds, size_t more) {
    holds->capacity += more;
    holds->free = xrealloc(holds->free, holds->capacity * sizeof holds->free[0]);
}

/* Low entries are used first, so that the store server's scan touches few cache lines. */
void hold_table_init(hold_table *holds, process_page *page) {
    *holds = (struct hold_table){.page = page};
    make_room(holds, PROCESS_PAGE_ENTRIES);
    for (size_t i = PROCESS_PAGE_ENTRIES; i-- > 0;) push(holds, &page->entries[i]);
}

void hold_table_fini(hold_table *holds) { free(holds->free); }

void hold_table_grow(hold_table *holds, hold_entry *chunk) {
    make_room(holds, CHUNK_ENTRIES);
    for (size_t i = CHUNK_ENTRIES; i-- > 0;) push(holds, &chunk[i]);
}

hold_entry *hold_table_add(hold_table *holds, uint64_t slot) {
    MR_ASSERT(slot != 0 && (slot & HOLD_PINNED) == 0);
    if (holds->free_count == 0) return NULL;
    hold_entry *entry = holds->free[--holds->free_count];
    atomic_store_explicit(entry, slot, memory_order_release);
    FAILPOINT("store.hold");
    cpu_fence();
    return entry;
}

/* The counter has one writer, so no atomic read-modify-write is needed. */
static void count_release(hold_table *holds) {
    if (holds->step != NULL) holds->step(holds->context);
    uint64_t count = atomic_load_explicit(&holds->page->released, memory_order_relaxed);
    atomic_store_explicit(&holds->page->released, count + 1, memory_order_release);
}

void hold_table_remove(hold_table *holds, hold_entry *entry) {
    MR_ASSERT(entry != NULL && holds->free_count < holds->capacity);
    atomic_store_explicit(entry, 0, memory_order_release);
    FAILPOINT("store.unhold");
    count_release(holds);
    push(holds, entry);
}

void hold_table_pin(hold_entry *entry) {
    uint64_t slot = atomic_load_explicit(entry, memory_order_relaxed);
    atomic_store_explicit(entry, slot | HOLD_PINNED, memory_order_release);
    FAILPOINT("store.pin");
    cpu_fence();
}

void hold_table_unpin(hold_table *holds, hold_entry *entry) {
    uint64_t slot = hold_slot(atomic_load_explicit(entry, memory_order_relaxed));
    atomic_store_explicit(entry, slot, memory_order_release);
    FAILPOINT("store.unpin");
    count_release(holds);
}
