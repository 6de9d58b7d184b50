/* map_cache.h — cache of cluster maps that several batchers (batcher.h) of a process share.
 *
 * A cluster map is decided once: whoever knows a cluster map of some number and generation knows the same one. A
 * process in which many follow cluster maps (a worker with its ranks; a simulation of thousands) gives them one atlas,
 * and has each cluster map in memory once, however many know it, and reads it once.
 *
 *  page: a cluster map, with how many follow it ── a newer one: the page that has it, or one more page ──► page
 *
 * A page that one alone follows becomes the newer cluster map where it is; one that others follow is copied first.
 *
 * Threads     none: posts that share an atlas are driven by one thread.
 * Ownership   the atlas is shared; pages belong to it. */
#pragma once
#include "ps/cluster_map.h"

typedef struct map_cache map_cache;
typedef struct map_cache_page map_cache_page;

map_cache *map_cache_create(void); /* the caller's; unref */
map_cache *map_cache_ref(map_cache *cache);
void map_cache_unref(map_cache *cache);

map_cache_page *map_cache_open(map_cache *cache); /* "none yet", for one more who follows; close */
void map_cache_close(map_cache *cache, map_cache_page *page);
const cluster_map *map_cache_map(const map_cache_page *page); /* borrowed until the page is followed from or closed */

/* The newer cluster map that these bytes tell, as cluster_map_follow does; *page is then another one, perhaps. Not
 * MR_OK: *page is as it was. */
MR_MUST mr_status map_cache_follow(map_cache *cache, map_cache_page **page, span bytes);

size_t map_cache_count(const map_cache *cache); /* pages that are open */
