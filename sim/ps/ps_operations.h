/* ps_operations.h — operations and disasters of the parameter scenario, besides faults of processes and network.
 *
 * Slots are pinned to other servers, ranks are dropped, checkpoints are requested and restored; a head and a worker
 * reach only each other, a worker receives nothing; all processes are killed, the metadata store loses its disk, a file
 * of the checkpoint store is damaged. */
#pragma once
#include "sim/ps/ps_cluster.h"

#define PS_FAULTS_US INT64_C(4000000) /* all operations are over by then */

void ps_operations_plan(ps_cluster *cluster); /* schedules the operations of the whole run, as drawn */

bool ps_lives(const ps_cluster *cluster, const cluster_map_member *member); /* this process of the server is up */
bool ps_may_crash(void *context, sim_node *node);                           /* its crash loses no last replica */
