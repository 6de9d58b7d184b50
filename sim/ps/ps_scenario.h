/* ps_scenario.h — see ps_scenario.c. */
#pragma once
#include "sim/scenario.h"
#include "sim/sim.h"

extern const scenario ps_scenario;
extern const scenario pieces_scenario; /* the same with pieces of a few bytes */

sim_describe_fn ps_describe; /* describes the slot messages of a packet */
