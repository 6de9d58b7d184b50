/* hold_scenario.h — processes share objects in one arena, and die at any moment: tests the store server, the store
 * clients and the hold tables. */
#pragma once
#include "sim/scenario.h"

extern const scenario hold_scenario;
