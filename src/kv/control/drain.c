/* drain.c — see drain.h. */
#include "kv/control/drain.h"

void drain_begin(drain *drain, int64_t now_us) {
    if (drain->leaving) return;
    *drain = (struct drain){.leaving = true, .since_us = now_us, .heard_us = now_us, .next_us = now_us};
}

static bool is_in_a_chain(const cluster_map *map, uint32_t server, uint64_t incarnation) {
    for (uint32_t i = 0; i < map->slot_count; i++)
        if (cluster_map_place(&map->slots[i], server, incarnation) >= 0) return true;
    return false;
}

bool drain_tick(drain *drain, const cluster_map *map, uint32_t server, uint64_t incarnation, int64_t now_us) {
    if (!drain->leaving) return false;
    if (is_in_a_chain(map, server, incarnation))
        drain->empty_us = 0;
    else if (drain->empty_us == 0)
        drain->empty_us = now_us;
    drain->next_us = now_us + DRAIN_AGAIN_US;
    return true;
}

void drain_take(drain *drain, const control_message *message, int64_t now_us) {
    if (!drain->leaving) return;
    drain->heard_us = now_us;
    drain->told_to_go = message->stamp.view == DRAIN_GO;
    if (message->stamp.view == DRAIN_HELD) drain->since_us = now_us;
}

bool drain_is_over(const drain *drain, int64_t now_us) {
    if (!drain->leaving) return false;
    bool empty = drain->empty_us != 0 && now_us - drain->empty_us >= DRAIN_GRACE_US;
    bool deaf = now_us - drain->heard_us >= DRAIN_DEAF_US;
    return empty || drain->told_to_go || deaf || now_us - drain->since_us >= DRAIN_US;
}
