/* ps_operations.h — operations and disasters of the parameter scenario, besides faults of processes and network.
 *
 * Slots are wanted elsewhere, ranks given up, checkpoints wanted and gone back to; a head and a worker are alone with
 * each other, a worker hears nothing; everything is killed, the metadata store's disk is lost, a file of the checkpoint
 * store rots.
 */
#pragma once
#include "sim/ps/ps_cluster.h"

#define PS_FAULTS_US INT64_C(4000000) /* all of it is over by then */

void ps_operations_plan(ps_cluster *cluster); /* for the whole run, as it was drawn */

bool ps_lives(const ps_cluster *cluster, const cluster_map_member *member); /* this very process of the server is up */
bool ps_may_crash(void *context, sim_node *node);                           /* no last copy of a slot goes with it */
