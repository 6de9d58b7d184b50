/* events.h — operations and disasters of the parameter scenario, besides faults of processes and network.
 *
 * Slots are wanted elsewhere, ranks given up, checkpoints wanted and gone back to; a head and a worker are alone with
 * each other, a worker hears nothing; everything is killed, the coordinator's disk is lost, a file of the depot rots.
 */
#pragma once
#include "sim/ps/party.h"

#define PS_FAULTS_US INT64_C(4000000) /* all of it is over by then */

void ps_events_plan(ps_world *world); /* for the whole run, as it was drawn */

bool ps_lives(const ps_world *world, const chart_member *member); /* this very process of the server is up */
bool ps_may_crash(void *context, sim_node *node);                 /* no last copy of a slot goes with it */
