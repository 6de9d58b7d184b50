/* scenario.h — see scenario.c. */
#pragma once
#include "sim/kv/school.h"
#include "sim/scenario.h"

extern const scenario kv_scenario;
