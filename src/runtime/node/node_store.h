/* node_store.h — the objects of a machine inside its node: the store server (store/store_server.h), the folder that it
 * spills to, and when it looks around.
 *
 * Other processes ask it over calls (store/store_rpc_client.h). It knows each from its first request until its link
 * closes, and asks it to look at its store (CLIENT_STORE) when something was taken of it or is wanted back. A machine
 * that cannot spill is told so once, in the log, and does without.
 *
 * An annex of the node's core (node_manager.h), from which requests of STORE_SERVER_METHOD and NODE_STORE come to it.
 *
 * Threads  one: that of the loop. */
#pragma once
#include "net/event_loop.h"
#include "net/shm/broker.h"
#include "runtime/node/node_manager.h"
#include "store/store_server.h"

typedef struct node_store node_store;

typedef struct node_store_options {
    const char *spill_folder; /* borrowed for node_store_open; NULL or "": nothing is spilled */
    uint64_t spill_bytes_max; /* 0: as much as the disk takes */
} node_store_options;

/* All borrowed for its life. */
node_store *node_store_open(event_loop *loop, broker *broker, node_core *core, const node_store_options *options);
/* After the end of every link, and before core, broker and loop go. NULL is a no-op. */
void node_store_close(node_store *store);

store_server *node_store_server(node_store *store); /* borrowed: for those who want to see what is there */

/* The answer to NODE_STORE, after a collection. */
typedef struct node_store_stats {
    uint32_t processes, objects, moving, unused;
    uint64_t bytes, spilled_bytes, spilled, restored; /* as store_server_stats */
} node_store_stats;
_Static_assert(sizeof(node_store_stats) == 48, "no holes");
