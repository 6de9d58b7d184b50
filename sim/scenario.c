/* scenario.c — see scenario.h. The table of all scenarios; a new one is declared and listed here. */
#include "sim/scenario.h"

#include <string.h>

#include "sim/cluster/group_scenario.h"
#include "sim/cluster/rpc_scenario.h"
#include "sim/cluster/view_scenario.h"
#include "sim/kv/kv_scenario.h"
#include "sim/kv/overload_scenario.h"
#include "sim/ps/ps_scenario.h"
#include "sim/runtime/hold_scenario.h"
#include "sim/runtime/runtime_scenario.h"
#include "sim/runtime/scheduler_scenario.h"

static const scenario *const table[] = {
    &rpc_scenario,       &forgery_scenario, &group_scenario,  &hold_scenario,   &kv_scenario,
    &overload_scenario,  &ps_scenario,      &pieces_scenario, &memory_scenario, &runtime_scenario,
    &scheduler_scenario, &stop_scenario,    &view_scenario,   &reader_scenario, NULL,
};

const scenario *const *scenario_table(void) { return table; }

const scenario *scenario_find(const char *name) {
    for (const scenario *const *at = table; *at != NULL; at++)
        if (strcmp((*at)->name, name) == 0) return *at;
    return NULL;
}

const scenario_mutation *scenario_find_mutation(const scenario *scenario, const char *name) {
    if (scenario->mutations == NULL) return NULL;
    for (const scenario_mutation *at = scenario->mutations; at->name != NULL; at++)
        if (strcmp(at->name, name) == 0) return at;
    return NULL;
}
