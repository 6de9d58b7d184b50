/* lists.h — cache of key lists by their hash, so that a list sent before need not be sent again (parcel.h, KNOWN).
 *
 * The name of a list is a hash of its keys, 128 bits: two lists that differ do not have the same in this world. A
 * request names a list by hash and length; a receiver that does not have it says so, and is sent the keys. So nothing
 * depends on what is kept: beyond `bytes_max` those go that were asked for longest ago.
 *
 * Beside its keys a list may have a note: what whoever keeps it wants to know when it is asked for again.
 *
 * Ownership   it owns its lists, with their notes. One that is held (lists_hold) stays where it is. Threads: none. */
#pragma once
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"

enum { LISTS_LEAST = 16 }; /* keys: shorter ones are sent */

typedef struct lists_name {
    uint64_t low, high;
} lists_name;

typedef struct lists_item {
    list link;
    lists_name name;
    uint32_t count, holders;
    uint64_t known; /* for whoever keeps it: who knows of it */
    void *note;     /* owned, zeroed at first; NULL: none */
    size_t note_size;
    uint64_t keys[];
} lists_item;

typedef struct lists { /* lists_init */
    map by_name;       /* by the lower half */
    list ages;
    size_t bytes, bytes_max;
} lists;

void lists_init(lists *lists, size_t bytes_max);
void lists_fini(lists *lists);

lists_name lists_name_of(const uint64_t *keys, size_t count);

lists_item *lists_find(lists *lists, lists_name name, uint32_t count); /* NULL: it is not there */
/* Copies it. NULL: it is too long, or there is no memory, or another one of half of its name is held. */
lists_item *lists_keep(lists *lists, lists_name name, const uint64_t *keys, uint32_t count);

/* Its note, which is made if there is none. NULL: it is too much, or there is no memory. */
void *lists_note(lists *lists, lists_item *item, size_t size);

static inline void lists_hold(lists_item *item) { item->holders++; }
static inline void lists_release(lists_item *item) { item->holders--; }
