/* map_cache.c — see map_cache.h. */
#include "ps/map_cache.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/list.h"

struct map_cache_page {
    cluster_map map;
    size_t followers;
    list of_cache;
};

struct map_cache {
    size_t refs, count;
    list pages; /* owned */
};

map_cache *map_cache_create(void) {
    map_cache *cache = XNEW(map_cache, .refs = 1);
    list_init(&cache->pages);
    return cache;
}

map_cache *map_cache_ref(map_cache *cache) {
    cache->refs++;
    return cache;
}

void map_cache_unref(map_cache *cache) {
    MR_ASSERT(cache->refs > 0);
    if (--cache->refs != 0) return;
    MR_ASSERT(cache->count == 0);
    free(cache);
}

map_cache_page *map_cache_open(map_cache *cache) {
    map_cache_page *page = XNEW(map_cache_page, .followers = 1);
    list_push_front(&cache->pages, &page->of_cache);
    cache->count++;
    return page;
}

void map_cache_close(map_cache *cache, map_cache_page *page) {
    MR_ASSERT(page->followers > 0 && cache->count > 0);
    if (--page->followers != 0) return;
    list_remove(&page->of_cache);
    cache->count--;
    cluster_map_fini(&page->map);
    free(page);
}

const cluster_map *map_cache_map(const map_cache_page *page) { return &page->map; }
size_t map_cache_count(const map_cache *cache) { return cache->count; }

/* The page with the cluster map of these bytes; NULL: no page has it, or it is not newer than `known`. */
static map_cache_page *find(const map_cache *cache, const cluster_map *known, span bytes) {
    uint64_t number, generation;
    if (!cluster_map_peek(bytes, &number, &generation) || number <= known->number) return NULL;
    list_for_each (at, &cache->pages) {
        map_cache_page *page = container_of(at, map_cache_page, of_cache);
        if (page->map.number == number && page->map.generation == generation) return page;
    }
    return NULL;
}

mr_status map_cache_follow(map_cache *cache, map_cache_page **page, span bytes) {
    MR_ASSERT((*page)->followers > 0);
    map_cache_page *from = *page, *next = find(cache, &from->map, bytes);
    if (next != NULL) {
        next->followers++;
    } else if (from->followers == 1) {
        return cluster_map_follow(&from->map, bytes);
    } else {
        next = map_cache_open(cache);
        cluster_map_copy(&next->map, &from->map);
        mr_status status = cluster_map_follow(&next->map, bytes);
        if (status != MR_OK) {
            map_cache_close(cache, next);
            return status;
        }
    }
    map_cache_close(cache, from);
    *page = next;
    return MR_OK;
}
