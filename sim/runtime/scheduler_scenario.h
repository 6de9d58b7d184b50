/* scheduler_scenario.h — several jobs share a machine's workers: the node's scheduler and its actor table. */
#pragma once
#include "sim/scenario.h"

extern const scenario scheduler_scenario;
