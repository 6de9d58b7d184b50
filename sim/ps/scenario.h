/* scenario.h — see scenario.c. */
#pragma once
#include "sim/scenario.h"

extern const scenario ps_scenario;
