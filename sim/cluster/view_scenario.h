/* view_scenario.h — see view_scenario.c. */
#pragma once
#include "sim/scenario.h"

extern const scenario view_scenario;
