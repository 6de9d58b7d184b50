/* ps_scenario.h — see ps_scenario.c. */
#pragma once
#include "sim/scenario.h"

extern const scenario ps_scenario;
