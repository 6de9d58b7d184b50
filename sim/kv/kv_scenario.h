/* kv_scenario.h — see kv_scenario.c. */
#pragma once
#include "sim/kv/kv_deployment.h"
#include "sim/scenario.h"

extern const scenario kv_scenario, forgery_scenario, reader_scenario, stop_scenario;
