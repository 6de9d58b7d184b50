/* map.c — see map.h.
 *
 * Linear probing in a power of two, at most three quarters full. Removal moves later items of the same run back, so
 * there are no tombstones and a lookup ends at the first empty slot. */
#include "base/map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { MAP_FIRST = 16 };
#define MAP_COUNT_MAX (SIZE_MAX / sizeof(map_entry) / 4) /* no size computation overflows */

static size_t home(const map *map, uint64_t key) {
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash ^ (hash >> 32)) & (map->capacity - 1);
}

/* Index of the slot with the key, or of the empty slot where the key would be stored. */
static size_t find(const map *map, uint64_t key) {
    size_t at = home(map, key);
    while (map->entries[at].value != NULL && map->entries[at].key != key) at = (at + 1) & (map->capacity - 1);
    return at;
}

static bool has_room(const map *map, size_t more) { return map->count + more <= map->capacity / 4 * 3; }

/* Moves every item into a larger, empty table. */
static void rehash(map *map, map_entry *entries, size_t capacity) {
    map_entry *old = map->entries;
    size_t old_capacity = map->capacity;
    map->entries = entries;
    map->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].value != NULL) map->entries[find(map, old[i].key)] = old[i];
    free(old);
}

static void grow(map *map) {
    size_t capacity = map->capacity == 0 ? MAP_FIRST : map->capacity * 2;
    rehash(map, xcalloc(capacity, sizeof(map_entry)), capacity);
}

mr_status map_reserve(map *map, size_t more) {
    if (more > MAP_COUNT_MAX || map->count > MAP_COUNT_MAX - more)
        return error_set(MR_NOMEM, "a map of %zu items cannot take %zu more", map->count, more);
    if (has_room(map, more)) return MR_OK;
    size_t capacity = map->capacity == 0 ? MAP_FIRST : map->capacity;
    while (map->count + more > capacity / 4 * 3) capacity *= 2;
    void *slots;
    MR_TRY(alloc_try(capacity * sizeof(map_entry), &slots));
    rehash(map, slots, capacity);
    return MR_OK;
}

void map_fini(map *map) {
    free(map->entries);
    memset(map, 0, sizeof *map);
}

void *map_get(const map *map, uint64_t key) { return map->capacity == 0 ? NULL : map->entries[find(map, key)].value; }

void *map_put(map *map, uint64_t key, void *value) {
    MR_ASSERT(value != NULL);
    if (!has_room(map, 1) && map_get(map, key) == NULL) grow(map);
    map_entry *entry = &map->entries[find(map, key)];
    void *before = entry->value;
    if (before == NULL) map->count++;
    *entry = (map_entry){key, value};
    return before;
}

void *map_remove(map *map, uint64_t key) {
    if (map->capacity == 0) return NULL;
    size_t mask = map->capacity - 1, hole = find(map, key);
    void *value = map->entries[hole].value;
    if (value == NULL) return NULL;
    map->count--;
    for (size_t at = (hole + 1) & mask; map->entries[at].value != NULL; at = (at + 1) & mask) {
        size_t wanted = home(map, map->entries[at].key);
        if (((at - wanted) & mask) >= ((at - hole) & mask)) {
            map->entries[hole] = map->entries[at];
            hole = at;
        }
    }
    map->entries[hole].value = NULL;
    return value;
}

size_t map_next(const map *map, size_t at, map_entry *out) {
    for (; at < map->capacity; at++) {
        if (map->entries[at].value == NULL) continue;
        *out = map->entries[at];
        return at + 1;
    }
    return 0;
}
