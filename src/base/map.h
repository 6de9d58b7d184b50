/* map.h — 64-bit keys to pointers: open addressing, linear probing, no tombstones.
 *
 * map_put allocates or ends the process (alloc.h). Where a user or a peer determines the number of items, map_reserve
 * is called first: it may fail, and the puts that it made room for cannot. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct map_entry {
    uint64_t key;
    void *value; /* NULL: empty */
} map_entry;

typedef struct map {    /* zero-initialized: empty and ready */
    map_entry *entries; /* owned */
    size_t count, capacity;
} map;

void map_fini(map *map);                                    /* does not free the values */
MR_MUST mr_status map_reserve(map *map, size_t more);       /* room for `more` further keys; MR_NOMEM: no change */
void *map_get(const map *map, uint64_t key);                /* NULL if absent */
void *map_put(map *map, uint64_t key, void *value);         /* value is not NULL; returns the previous value, or NULL */
void *map_remove(map *map, uint64_t key);                   /* returns the value, or NULL */
size_t map_next(const map *map, size_t at, map_entry *out); /* start with 0; 0: the end; no changes meanwhile */

typedef struct map_item { /* one step of an iteration */
    uint64_t key;
    void *value;
    size_t next;
} map_item;

/* The same iteration as a loop: map_for_each (item, &map) free(item.value); */
#define map_for_each(item, map) for (map_item item = {0}; map_step(map, &item);)
static inline bool map_step(const map *map, map_item *item) {
    map_entry entry = {0};
    *item = (map_item){.next = map_next(map, item->next, &entry)};
    item->key = entry.key;
    item->value = entry.value;
    return item->next != 0;
}
