/* placement_cache.h — placement groups that this process created, with the node's answer whether they are placed:
 * waiting for a placed group needs no request.
 *
 *   asked ──► placed at once ──► removed: by this process or, as CLIENT_GROUP_GONE reports, by another
 *     └── waiting or refused: not cached; a wait is a request to the node
 *
 * Pure over the core worker's RPCs. */
#pragma once
#include "base/map.h"
#include "runtime/refs/wire.h"

typedef struct placement_cache {
    struct core_worker *worker;
    map groups; /* asked or placed groups, by wire_group_key */
} placement_cache;

void placement_cache_init(placement_cache *cache, struct core_worker *worker);
void placement_cache_fini(placement_cache *cache); /* after the end of all calls */

/* Requests a group: `fields` are those of NODE_GROUP_CREATE. */
void placement_cache_create(placement_cache *cache, mr_placement_group group, span fields);
/* True: the group is placed. False: not known. */
bool placement_cache_has(const placement_cache *cache, mr_placement_group group);
/* The group was removed, by this or another process. */
void placement_cache_forget(placement_cache *cache, uint64_t key);
