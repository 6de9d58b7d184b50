/* vault.h — the machine's shared memory in the runtime scenario: a real arena, in which the stores of all
 * processes write, and a real vault inside the node, asked over the simulated network.
 *
 * A process that dies leaves everything in the arena as it is: its holds, its stretches, what it was writing. Nothing
 * is spilled here; that is the hold scenario's. */
#pragma once
#include "net/shm/arena.h"
#include "runtime/node/node_core.h"
#include "sim/sim.h"
#include "store/vault.h"

typedef struct runtime_vault runtime_vault;

/* Inside the node's process; everything is borrowed for its life. */
runtime_vault *runtime_vault_open(sim_node *node, node_core *core, const arena *arena);
void runtime_vault_close(runtime_vault *vault); /* NULL is a no-op */

vault_stats runtime_vault_look(runtime_vault *vault); /* after a collection */
