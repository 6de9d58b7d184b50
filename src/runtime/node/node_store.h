/* node_store.h — object store of a machine inside its node: the store server (store/store_server.h), its spill
 * directory and its timer.
 *
 * Other processes use it by RPC (store/store_rpc_client.h). The store knows a process from its first request until its
 * link closes, and asks the process to check its store page (CLIENT_STORE) when an object was taken or memory is wanted
 * back. A machine that cannot spill gets one warning in the log, and runs without spilling.
 *
 * An extension of the node's core (node_manager.h), which passes requests of STORE_SERVER_METHOD and NODE_STORE to it.
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

/* `loop`, `broker` and `core` are borrowed for the store's life. */
node_store *node_store_open(event_loop *loop, broker *broker, node_core *core, const node_store_options *options);
/* Call after the end of every link, and before core, broker and loop are destroyed. NULL is a no-op. */
void node_store_close(node_store *store);

store_server *node_store_server(node_store *store); /* borrowed: for inspection */

/* Answer to NODE_STORE, made after a collection. */
typedef struct node_store_stats {
    uint32_t processes, objects, moving, unused;
    uint64_t bytes, spilled_bytes, spilled, restored; /* as in store_server_stats */
} node_store_stats;
_Static_assert(sizeof(node_store_stats) == 48, "no holes");
