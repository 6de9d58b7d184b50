/* keeper_node.h — a machine with a keeper, for scenarios that need a coordinator: image on the simulated disk, letters
 * through the simulated network. Its program takes no argument. */
#pragma once
#include "cluster/keeper.h"
#include "sim/sim.h"

extern const sim_program keeper_node_program;

const keeper *keeper_node_keeper(const sim_node *node); /* NULL: it is down, or cannot read its disk yet */
