/* placement_cache.c — see placement_cache.h. */
#include "runtime/client/placement_cache.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/client/core_worker.h"

typedef struct group {
    wire_call call; /* NODE_GROUP_CREATE */
    placement_cache *cache;
    uint64_t key;
    bool is_placed;
    bool removed; /* removed before the call was answered */
} group;

void placement_cache_init(placement_cache *cache, core_worker *worker) {
    *cache = (struct placement_cache){.worker = worker};
}

void placement_cache_fini(placement_cache *cache) {
    map_for_each (slot, &cache->groups) wire_call_end(&((group *)slot.value)->call);
    map_fini(&cache->groups);
}

static void answered(wire_call *call, const rpc_call_result *result) {
    group *group = container_of(call, struct group, call);
    reader reader = reader_of(result->payload.data, result->payload.size);
    bool is_placed = result->status == MR_OK && reader_u8(&reader) != 0 && !reader.failed;
    group->is_placed = is_placed && !group->removed;
    if (group->is_placed) return;
    if (!group->removed) map_remove(&group->cache->groups, group->key);
    wire_call_end(call);
}

/* Requests a group whose answer is cached. Any status but MR_OK: not requested. */
static mr_status ask(placement_cache *cache, uint64_t key, span fields) {
    MR_TRY(map_reserve(&cache->groups, 1));
    group *made;
    MR_TRY(alloc_try(sizeof(group), &made));
    *made = (group){.call = {.done = answered, .free = wire_call_free}, .cache = cache, .key = key};
    wire_message message = {.fields = fields};
    mr_status status = core_worker_ask_node(cache->worker, NODE_GROUP_CREATE, &message, &made->call);
    if (status == MR_OK)
        map_put(&cache->groups, key, made);
    else
        free(made);
    return status;
}

void placement_cache_create(placement_cache *cache, mr_placement_group group, span fields) {
    if (ask(cache, wire_group_key(group), fields) != MR_OK)
        core_worker_tell_node(cache->worker, NODE_GROUP_CREATE, fields); /* not cached: waits ask the node */
}

bool placement_cache_has(const placement_cache *cache, mr_placement_group group) {
    const struct group *known = map_get(&cache->groups, wire_group_key(group));
    return known != NULL && known->is_placed;
}

void placement_cache_forget(placement_cache *cache, uint64_t key) {
    group *group = map_remove(&cache->groups, key);
    if (group == NULL) return;
    group->removed = true;
    if (group->is_placed) wire_call_end(&group->call); /* else the request is in flight, and `answered` ends it */
}
