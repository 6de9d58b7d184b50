/* runtime_scenario.h — a node, its drivers and their workers: tasks and actors while processes die. */
#pragma once
#include "sim/scenario.h"

extern const scenario runtime_scenario, memory_scenario;
