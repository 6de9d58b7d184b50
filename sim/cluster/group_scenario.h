/* group_scenario.h — see group_scenario.c. */
#pragma once
#include "sim/scenario.h"

extern const scenario group_scenario;
