/* hold_scenario.h — processes share objects in one arena, and die at any moment: the store server, the stores, the hold
 * tables. */
#pragma once
#include "sim/scenario.h"

extern const scenario hold_scenario;
