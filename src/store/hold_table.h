/* hold_table.h — hold table of a process: its own entries, written by no other process; the layout is in
 * process_page.h.
 *
 * The list of free entries is in the process's own memory. A fork of the process must not use the table. */
#pragma once
#include "net/shm/arena.h"
#include "store/process_page.h"

typedef struct hold_table {
    process_page *page; /* in shared memory */
    hold_entry **free;  /* owned stack of entries that are 0 */
    size_t free_count, capacity;
    void (*step)(void *context); /* as in store_client_ops; may be NULL */
    void *context;
} hold_table;

void hold_table_init(hold_table *holds, process_page *page); /* the store server has zeroed the page */
void hold_table_fini(hold_table *holds);
void hold_table_grow(hold_table *holds, hold_entry *chunk); /* adds CHUNK_ENTRIES entries, all zero */

/* Writes an entry for the slot at this offset; NULL: the table is full. A full fence follows: a later read of the slot
 * decides whether the hold is valid (object_header_confirm_hold). */
hold_entry *hold_table_add(hold_table *holds, uint64_t slot);
void hold_table_remove(hold_table *holds, hold_entry *entry);
void hold_table_pin(hold_entry *entry); /* with a full fence, for object_header_confirm_pin */
void hold_table_unpin(hold_table *holds, hold_entry *entry);
