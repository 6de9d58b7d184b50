/* map.h — 64-bit keys to pointers: open addressing, linear probing, no tombstones. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct map_slot {
    uint64_t key;
    void *value; /* NULL: empty */
} map_slot;

typedef struct map { /* zero-initialized it is empty and ready */
    map_slot *slots; /* owned */
    size_t count, capacity;
} map;

void map_fini(map *map);
void *map_get(const map *map, uint64_t key);               /* NULL if absent */
void *map_put(map *map, uint64_t key, void *value);        /* value is not NULL; gives back what was there before */
void *map_remove(map *map, uint64_t key);                  /* gives back what was there, or NULL */
size_t map_next(const map *map, size_t at, map_slot *out); /* walk: start with 0, ends with 0; no changes meanwhile */
