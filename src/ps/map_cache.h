/* map_cache.h — cache of cluster maps that several batchers (batcher.h) of a process share.
 *
 * A cluster map is decided once: cluster maps with the same number and generation are equal. The batchers of one
 * process (a worker with its ranks; a simulation of thousands) share one cache, which keeps each cluster map in memory
 * once, for any number of batchers, and decodes it once.
 *
 *  page: a cluster map, with how many follow it ── a newer one: the page that has it, or one more page ──► page
 *
 * A page with one follower becomes the newer cluster map in place; a page with several followers is copied first.
 *
 * Threads     none: batchers that share a cache are driven by one thread.
 * Ownership   the cache is shared; pages belong to the cache. */
#pragma once
#include "ps/cluster_map.h"

typedef struct map_cache map_cache;
typedef struct map_cache_page map_cache_page;

map_cache *map_cache_create(void); /* a reference of the caller; release with map_cache_unref */
map_cache *map_cache_ref(map_cache *cache);
void map_cache_unref(map_cache *cache);

map_cache_page *map_cache_open(map_cache *cache); /* a follower's page with no map yet; release with map_cache_close */
void map_cache_close(map_cache *cache, map_cache_page *page);
/* borrowed until the next map_cache_follow or map_cache_close of the page */
const cluster_map *map_cache_map(const map_cache_page *page);

/* Moves *page to the newer cluster map in these bytes, as cluster_map_follow does. After an error *page is
 * unchanged. */
MR_MUST mr_status map_cache_follow(map_cache *cache, map_cache_page **page, span bytes);

size_t map_cache_count(const map_cache *cache); /* number of open pages */
