/* sim_store.h — shared memory in the runtime scenario: a real arena, in which the store clients of all processes write,
 * and a real store server inside the node, called over the simulated network. A process that dies leaves everything in
 * the arena as it is: its holds, its extents, a half-written object. Nothing is spilled here; the hold scenario tests
 * that. */
#pragma once
#include "net/shm/arena.h"
#include "runtime/node/node_manager.h"
#include "sim/sim.h"
#include "store/store_server.h"

typedef struct runtime_store_server runtime_store_server;

/* Inside the node's process; everything is borrowed for its life. */
runtime_store_server *runtime_store_server_open(sim_node *node, node_core *core, const arena *arena);
void runtime_store_server_close(runtime_store_server *server); /* NULL is a no-op */

store_server_stats runtime_store_server_look(runtime_store_server *server); /* after a collection */
