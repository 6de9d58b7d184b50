/* placed.c — see placed.h. */
#include "runtime/placed.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/client.h"

typedef struct group {
    wire_call call; /* NODE_GROUP_CREATE */
    placed *placed;
    uint64_t key;
    bool is_placed;
    bool removed; /* before the call was answered */
} group;

void placed_init(placed *placed, client *client) { *placed = (struct placed){.client = client}; }

void placed_fini(placed *placed) {
    map_for_each (slot, &placed->groups) wire_call_end(&((group *)slot.value)->call);
    map_fini(&placed->groups);
}

static void answered(wire_call *call, const call_result *result) {
    group *group = container_of(call, struct group, call);
    reader reader = reader_of(result->payload.data, result->payload.size);
    bool is_placed = result->status == MR_OK && reader_u8(&reader) != 0 && !reader.failed;
    group->is_placed = is_placed && !group->removed;
    if (group->is_placed) return;
    if (!group->removed) map_remove(&group->placed->groups, group->key);
    wire_call_end(call);
}

/* MR_BUSY, MR_NOMEM, …: it was not. */
static mr_status ask(placed *placed, uint64_t key, span fields) {
    MR_TRY(map_reserve(&placed->groups, 1));
    group *made;
    MR_TRY(alloc_try(sizeof(group), &made));
    *made = (group){.call = {.done = answered, .free = wire_call_free}, .placed = placed, .key = key};
    wire_message message = {.fields = fields};
    mr_status status = client_ask_node(placed->client, NODE_GROUP_CREATE, &message, &made->call);
    if (status == MR_OK)
        map_put(&placed->groups, key, made);
    else
        free(made);
    return status;
}

void placed_create(placed *placed, mr_placement_group group, span fields) {
    if (ask(placed, wire_group_key(group), fields) != MR_OK)
        client_tell_node(placed->client, NODE_GROUP_CREATE, fields); /* now or later; the node will be asked */
}

bool placed_has(const placed *placed, mr_placement_group group) {
    const struct group *known = map_get(&placed->groups, wire_group_key(group));
    return known != NULL && known->is_placed;
}

void placed_forget(placed *placed, uint64_t key) {
    group *group = map_remove(&placed->groups, key);
    if (group == NULL) return;
    group->removed = true;
    if (group->is_placed) wire_call_end(&group->call); /* else it is under way */
}
