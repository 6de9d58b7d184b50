/* kv_forger.h — a process with the deployment's token that sends what only other processes may send.
 *
 *   false map    a cluster map of another generation, to any process, in its own name or in that of the controller
 *   false word   acknowledgements of pushes, to a worker, in the name of the server that is the head of the slot
 *
 * The forger asks the scheduler for the cluster map, as every process may. */
#pragma once
#include "sim/kv/kv_deployment.h"

extern const sim_program kv_forger_program; /* its argument is the kv_deployment_site of the forger */
