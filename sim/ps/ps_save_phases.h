/* ps_save_phases.h — saving while no rank trains, at the begin and at the end of a run of the parameter scenario.
 *
 *   begin  in some seeds no worker runs until a checkpoint is complete: the tables have their initial values
 *   end    a checkpoint that is requested is complete within SAVE_US, although no rank begins a step; in half of the
 *          seeds no worker lives any more. In a mixed deployment a second one is complete, too.
 *          With rounds the ranks then train a little longer, and all workers die at once, most of them inside a step: a
 *          checkpoint that is requested is complete within SAVE_US. All servers die; the tables continue from it, with
 *          one version in all slots (ps_checker.h). */
#pragma once
#include "sim/ps/ps_cluster.h"

/* False: the run has failed. */
bool ps_save_phases_first(ps_cluster *cluster);
void ps_save_phases_last(ps_cluster *cluster);
