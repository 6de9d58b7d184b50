/* deployment_end.c — see deployment_end.h. */
#include "kv/client/deployment_end.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mutation.h"

void deployment_end_take(deployment_end *end, const messenger *messenger, const char *scheduler,
                         const control_message *stopped) {
    span how = stopped->value;
    end->scheduler = scheduler;
    end->process = messenger_process_at(messenger, scheduler);
    end->view = stopped->stamp.view;
    end->probe_us = 0;
    snprintf(end->how, sizeof end->how, "%.*s", (int)how.size, (const char *)how.data);
}

int64_t deployment_end_next_us(const deployment_end *end) {
    return end->scheduler == NULL ? CLOCK_NEVER_US : end->probe_us;
}

/* Whether another scheduler was reached after the announcement. */
static bool is_void(const deployment_end *end, const messenger *messenger) {
    return messenger_process_at(messenger, end->scheduler) != end->process;
}

void deployment_end_tick(deployment_end *end, messenger *messenger, const cluster_map *map, int64_t now_us) {
    if (end->scheduler == NULL || now_us < end->probe_us) return;
    if (is_void(end, messenger)) {
        *end = (deployment_end){0};
        return;
    }
    end->probe_us = now_us + MESSENGER_RETRY_US;
    messenger_reach(messenger, end->scheduler);
    for (uint32_t i = 0; i < map->server_count; i++) messenger_reach(messenger, map->servers[i].address);
}

static bool all_are_gone(const deployment_end *end, const messenger *messenger, const cluster_map *map) {
    if (!messenger_is_gone(messenger, end->scheduler)) return false;
    if (map == NULL) return true;
    if (map->number == 0 || map->number < end->view) return false;
    for (uint32_t i = 0; i < map->server_count; i++)
        if (!messenger_is_gone(messenger, map->servers[i].address) && !MUTATED("stop-is-enough")) return false;
    return true;
}

mr_status deployment_end_check(const deployment_end *end, const messenger *messenger, const cluster_map *map) {
    if (end->scheduler == NULL || is_void(end, messenger) || !all_are_gone(end, messenger, map)) return MR_OK;
    return error_set(MR_PEER_DIED, "the parameter server at %s has ended: %s; start it again, or another one",
                     end->scheduler, end->how);
}
