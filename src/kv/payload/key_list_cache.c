/* key_list_cache.c — see key_list_cache.h. */
#include "kv/payload/key_list_cache.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"

void key_list_cache_init(key_list_cache *cache, size_t bytes_max) {
    *cache = (struct key_list_cache){.bytes_max = bytes_max};
    list_init(&cache->ages);
}

void key_list_cache_fini(key_list_cache *cache) {
    list_for_each (link, &cache->ages) {
        key_list_cache_item *item = container_of(link, key_list_cache_item, link);
        free(item->note);
        free(item);
    }
    map_fini(&cache->by_name);
}

key_list_cache_name key_list_cache_name_of(const uint64_t *keys, size_t count) {
    XXH128_hash_t hash = XXH3_128bits(keys, count * sizeof *keys);
    return (key_list_cache_name){hash.low64, hash.high64};
}

static size_t size_of(uint32_t count) {
    return sizeof(key_list_cache_item) + sizeof(map_entry) * 2 + count * sizeof(uint64_t);
}

static void drop(key_list_cache *cache, key_list_cache_item *item) {
    (void)map_remove(&cache->by_name, item->name.low);
    list_remove(&item->link);
    cache->bytes -= size_of(item->count) + item->note_size;
    free(item->note);
    free(item);
}

key_list_cache_item *key_list_cache_find(key_list_cache *cache, key_list_cache_name name, uint32_t count) {
    key_list_cache_item *item = map_get(&cache->by_name, name.low);
    if (item == NULL || item->name.high != name.high || item->count != count) return NULL;
    list_remove(&item->link);
    list_push_back(&cache->ages, &item->link);
    return item;
}

/* Drops the least recently used lists beyond the limit, except held lists and `item`; their bytes count, too. */
static void make_room(key_list_cache *cache, key_list_cache_item *item) {
    item->holders++;
    list_for_each (link, &cache->ages) {
        key_list_cache_item *old = container_of(link, key_list_cache_item, link);
        if (cache->bytes <= cache->bytes_max) break;
        if (old->holders == 0) drop(cache, old);
    }
    item->holders--;
}

void *key_list_cache_note(key_list_cache *cache, key_list_cache_item *item, size_t size) {
    if (item->note != NULL || size_of(item->count) + size > cache->bytes_max) return item->note;
    if (alloc_try(size, &item->note) != MR_OK) return NULL;
    item->note_size = size;
    cache->bytes += size;
    make_room(cache, item);
    return item->note;
}

key_list_cache_item *key_list_cache_keep(key_list_cache *cache, key_list_cache_name name, const uint64_t *keys,
                                         uint32_t count) {
    key_list_cache_item *there = key_list_cache_find(cache, name, count);
    if (there != NULL) return there;
    if (size_of(count) > cache->bytes_max) return NULL;
    there = map_get(&cache->by_name, name.low);
    if (there != NULL && there->holders != 0) return NULL;
    if (there != NULL) drop(cache, there);
    key_list_cache_item *item;
    if (map_reserve(&cache->by_name, 1) != MR_OK) return NULL;
    if (alloc_try(sizeof *item + count * sizeof *keys, &item) != MR_OK) return NULL;
    item->name = name;
    item->count = count;
    memcpy(item->keys, keys, count * sizeof *keys);
    list_push_back(&cache->ages, &item->link);
    (void)map_put(&cache->by_name, name.low, item);
    cache->bytes += size_of(count);
    make_room(cache, item);
    return item;
}
