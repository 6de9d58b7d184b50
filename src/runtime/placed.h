/* placed.h — placement groups that this process created, with the node's answer whether they are placed: waiting for a
 * placed group needs no request.
 *
 *   asked ──► placed at once ──► removed: by us, or the node says so (CLIENT_GROUP_GONE)
 *     └── it has to wait its turn, or was refused: nothing is known of it, and the node is asked
 *
 * Pure over the client's calls. */
#pragma once
#include "base/map.h"
#include "runtime/wire.h"

typedef struct placed {
    struct client *client;
    map groups; /* of those above that are asked for or placed, by wire_group_key */
} placed;

void placed_init(placed *placed, struct client *client);
void placed_fini(placed *placed); /* after the end of all calls */

/* Asks for a group: `fields` are those of NODE_GROUP_CREATE. */
void placed_create(placed *placed, mr_placement_group group, span fields);
/* As far as is known: false says nothing. */
bool placed_has(const placed *placed, mr_placement_group group);
/* It is removed, by whomever. */
void placed_forget(placed *placed, uint64_t key);
