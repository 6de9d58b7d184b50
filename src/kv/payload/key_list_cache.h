/* key_list_cache.h — cache of key lists by their hash, so that a list sent before need not be sent again (payload.h,
 * KNOWN).
 *
 * The name of a list is a 128-bit hash of its keys: two different lists with equal hashes do not occur in practice. A
 * request identifies a list by hash and length; a receiver that lacks the list answers so, and the sender repeats the
 * request with the keys. So correctness does not depend on the cache. Beyond `bytes_max` the least recently used lists
 * are dropped.
 *
 * Beside its keys a list may have a note: data of the cache's owner for the next request with the list.
 *
 * Ownership  the cache owns its lists and their notes. A list that is held (key_list_cache_hold) does not move.
 *            Threads: none. */
#pragma once
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"

enum { KEY_LIST_CACHE_LEAST = 16 }; /* shorter lists are sent with their keys */

typedef struct key_list_cache_name {
    uint64_t low, high;
} key_list_cache_name;

typedef struct key_list_cache_item {
    list link;
    key_list_cache_name name;
    uint32_t count, holders;
    uint64_t known; /* for the cache's owner: nonzero if the slot has cached the list */
    void *note;     /* owned, initially zeroed; NULL: none */
    size_t note_size;
    uint64_t keys[];
} key_list_cache_item;

typedef struct key_list_cache { /* initialized by key_list_cache_init */
    map by_name;                /* keyed by the lower half of the hash */
    list ages;
    size_t bytes, bytes_max;
} key_list_cache;

void key_list_cache_init(key_list_cache *cache, size_t bytes_max);
void key_list_cache_fini(key_list_cache *cache);

key_list_cache_name key_list_cache_name_of(const uint64_t *keys, size_t count);

/* NULL: not found. */
key_list_cache_item *key_list_cache_find(key_list_cache *cache, key_list_cache_name name, uint32_t count);
/* Adds a copy of the list. NULL: the list is too long, there is no memory, or another list with the same lower half is
 * held. */
key_list_cache_item *key_list_cache_keep(key_list_cache *cache, key_list_cache_name name, const uint64_t *keys,
                                         uint32_t count);

/* The note of a list, created if missing. NULL: too large, or no memory. */
void *key_list_cache_note(key_list_cache *cache, key_list_cache_item *item, size_t size);

static inline void key_list_cache_hold(key_list_cache_item *item) { item->holders++; }
static inline void key_list_cache_release(key_list_cache_item *item) { item->holders--; }
