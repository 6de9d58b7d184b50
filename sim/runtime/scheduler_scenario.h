/* scheduler_scenario.h — several programs share a machine's workers: the node's scheduler and its book of actors. */
#pragma once
#include "sim/scenario.h"

extern const scenario scheduler_scenario;
