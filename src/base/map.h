/* map.h — 64-bit keys to pointers: open addressing, linear probing, no tombstones.
 *
 * map_put takes the memory it needs or ends the process (alloc.h). Where the number of items is up to a user or a peer,
 * map_reserve comes first: it may fail, and the puts it made room for then cannot. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

typedef struct map_entry {
    uint64_t key;
    void *value; /* NULL: empty */
} map_entry;

typedef struct map {    /* zero-initialized it is empty and ready */
    map_entry *entries; /* owned */
    size_t count, capacity;
} map;

void map_fini(map *map);                                    /* the values are the caller's */
MR_MUST mr_status map_reserve(map *map, size_t more);       /* room for `more` further keys; MR_NOMEM: as it was */
void *map_get(const map *map, uint64_t key);                /* NULL if absent */
void *map_put(map *map, uint64_t key, void *value);         /* value is not NULL; returns the value before, or NULL */
void *map_remove(map *map, uint64_t key);                   /* returns the value, or NULL */
size_t map_next(const map *map, size_t at, map_entry *out); /* walk: start with 0, ends with 0; no changes meanwhile */

typedef struct map_item { /* one step of a walk */
    uint64_t key;
    void *value;
    size_t next;
} map_item;

/* The same walk as a loop: map_for_each (item, &map) free(item.value); */
#define map_for_each(item, map) for (map_item item = {0}; map_step(map, &item);)
static inline bool map_step(const map *map, map_item *item) {
    map_entry entry = {0};
    *item = (map_item){.next = map_next(map, item->next, &entry)};
    item->key = entry.key;
    item->value = entry.value;
    return item->next != 0;
}
