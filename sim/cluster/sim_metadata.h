/* sim_metadata.h — a machine with a metadata store, for scenarios that need one: its file is on the simulated disk, its
 * control messages go through the simulated network. Its program takes no argument. */
#pragma once
#include "cluster/metadata_db.h"
#include "sim/sim.h"

extern const sim_program sim_metadata_program;

const metadata_db *sim_metadata_metadata(const sim_node *node); /* NULL: node down, or its disk unread */
