/* silence.c — see silence.h. */
#include "ps/silence.h"

#include "base/binary_search.h"
#include "base/mutation.h"

static bool is_sure(const silence_server *servers, size_t count, const cluster_map_member *member) {
    const silence_server *server =
        binary_search_find(&member->server, servers, count, sizeof *servers, binary_search_u32);
    return server != NULL && server->incarnation == member->incarnation && server->sure;
}

/* Whether two sure replicas of each slot are left without the server. */
static bool can_be_missed(const cluster_map *map, const silence_server *servers, size_t count,
                          const silence_server *silent) {
    for (uint32_t i = 0; i < map->slot_count; i++) {
        const cluster_map_slot *slot = &map->slots[i];
        size_t others = 0;
        if (cluster_map_place(slot, silent->id, silent->incarnation) < 0) continue;
        for (size_t k = 0; k < slot->count; k++) others += is_sure(servers, count, &slot->chain[k]);
        if (others < 2) return false;
    }
    return true;
}

size_t silence_choose(const cluster_map *map, silence_server *servers, size_t count, int64_t hold_us, int64_t now_us) {
    size_t chosen = count;
    for (size_t i = 0; i < count; i++) {
        silence_server *server = &servers[i];
        if (!server->silent) server->silent_us = 0;
        if (server->given_up || !server->silent) continue;
        if (server->silent_us == 0) server->silent_us = now_us;
        bool waits = now_us - server->silent_us < hold_us && !can_be_missed(map, servers, count, server);
        if (chosen == count && (!waits || MUTATED("no-hold"))) chosen = i;
    }
    return chosen;
}
