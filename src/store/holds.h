/* holds.h — hold table of a process: its own entries, written by no other process; the layout is in desk.h.
 *
 * Which entries are free is known in the process's own memory. A fork of the process must not use it. */
#pragma once
#include "net/shm/arena.h"
#include "store/desk.h"

typedef struct holds {
    desk *desk;        /* in shared memory */
    hold_entry **free; /* owned stack of entries that are 0 */
    size_t free_count, capacity;
    void (*step)(void *context); /* as store_ops has it; NULL: nothing */
    void *context;
} holds;

void holds_init(holds *holds, desk *desk); /* the vault has zeroed it */
void holds_fini(holds *holds);
void holds_grow(holds *holds, hold_entry *chunk); /* CHUNK_ENTRIES further ones, all zero */

/* Writes an entry for the slot at this offset; NULL: the table is full. A full fence follows: what is read of the slot
 * afterwards decides whether the hold is valid (slot_confirm_hold). */
hold_entry *holds_add(holds *holds, uint64_t slot);
void holds_remove(holds *holds, hold_entry *entry);
void holds_pin(hold_entry *entry); /* with a full fence, for slot_confirm_pin */
void holds_unpin(holds *holds, hold_entry *entry);
