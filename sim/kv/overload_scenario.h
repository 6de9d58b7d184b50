/* overload_scenario.h — see overload_scenario.c. */
#pragma once
#include "sim/scenario.h"

extern const scenario overload_scenario;
