/* map_planner.c — see map_planner.h. */
#include "ps/map_planner.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/binary_search.h"
#include "base/mutation.h"

static const cluster_map_process *find(const map_planner_facts *facts, uint32_t id) {
    return binary_search_find(&id, facts->servers, facts->server_count, sizeof *facts->servers, binary_search_u32);
}

static uint64_t incarnation_of(const map_planner_facts *facts, uint32_t id) { /* the server must be in the facts */
    const cluster_map_process *server = find(facts, id);
    MR_ASSERT(server != NULL);
    return server->incarnation;
}

static bool lives(const cluster_map_process *server, uint64_t incarnation) {
    return server != NULL && server->alive && server->incarnation == incarnation;
}

static bool is_alive(const map_planner_facts *facts, uint32_t id, uint64_t incarnation) {
    return lives(find(facts, id), incarnation);
}

static bool is_sure(const map_planner_facts *facts, uint32_t id, uint64_t incarnation) {
    const cluster_map_process *server = find(facts, id);
    return lives(server, incarnation) && !server->doubted;
}

static size_t target_of(const map_planner_facts *facts, uint8_t copies, uint32_t index, const cluster_map_slot *slot,
                        uint64_t *ids) {
    slot_placement_pin home = {.slot = index, .count = 1, .servers = {slot->home - 1}};
    bool moved = slot->home != 0 && slot_placement_find(facts->pins, facts->pin_count, index) == NULL;
    return slot_placement_target(facts->ring, moved ? &home : facts->pins, moved ? 1 : facts->pin_count, facts->staying,
                                 facts->staying_count, index, map_planner_copies(copies, slot->more), ids);
}

/* ---- The first cluster map. */

void map_planner_first(const map_planner_facts *facts, uint64_t number, uint64_t generation, cluster_map *out) {
    MR_ASSERT(number != 0 && out->slot_count <= CLUSTER_MAP_SLOTS_MAX && out->slots != NULL);
    out->number = out->birth = number;
    out->generation = generation;
    for (size_t i = 0; i < facts->server_count; i++)
        cluster_map_put_server(out, facts->servers[i].id, facts->servers[i].incarnation, facts->servers[i].address);
    for (uint32_t i = 0; i < out->slot_count; i++) {
        uint64_t ids[SLOT_PLACEMENT_COPIES_MAX];
        cluster_map_slot *slot = &out->slots[i];
        *slot = (cluster_map_slot){.epoch = number};
        slot->count = (uint8_t)target_of(facts, out->copies, i, slot, ids);
        for (size_t k = 0; k < slot->count; k++)
            slot->chain[k] = (cluster_map_member){(uint32_t)ids[k], incarnation_of(facts, (uint32_t)ids[k]), number};
    }
}

/* ---- The next cluster map. */

static void take_out(cluster_map_slot *slot, size_t at) {
    MR_ASSERT(at < slot->count);
    memmove(&slot->chain[at], &slot->chain[at + 1], (slot->count - at - 1) * sizeof *slot->chain);
    slot->count--;
}

/* Whether a member other than the one at `besides` is surely alive. */
static bool has_sure(const cluster_map_slot *slot, const map_planner_facts *facts, size_t besides) {
    for (size_t i = 0; i < slot->count; i++)
        if (i != besides && is_sure(facts, slot->chain[i].server, slot->chain[i].incarnation)) return true;
    return false;
}

static bool take_out_dead(cluster_map_slot *slot, const map_planner_facts *facts) {
    size_t before = slot->count;
    for (size_t i = slot->count; i-- > 0;)
        if (!is_alive(facts, slot->chain[i].server, slot->chain[i].incarnation)) take_out(slot, i);
    return slot->count != before;
}

static size_t index_of(const uint64_t *ids, size_t count, uint32_t id) {
    size_t at = 0;
    while (at < count && ids[at] != id) at++;
    return at;
}

/* Ends the gate: adds a ready joiner to the chain, or opens a new epoch if the joiner is gone. */
static bool open_gate(cluster_map_slot *slot, const map_planner_facts *facts, const map_planner_gate *gate,
                      uint64_t number) {
    if (gate->epoch == 0 || gate->epoch != slot->epoch) return false;
    if (!is_alive(facts, gate->server, gate->incarnation)) return true;
    if (!gate->ready || slot->count == CLUSTER_MAP_COPIES_MAX || !is_sure(facts, gate->server, gate->incarnation))
        return false;
    slot->chain[slot->count++] = (cluster_map_member){gate->server, gate->incarnation, number};
    return true;
}

static bool take_out_extra(cluster_map_slot *slot, const map_planner_facts *facts, const uint64_t *target,
                           size_t count) {
    bool changed = false;
    for (size_t i = slot->count; i-- > 0 && slot->count > count;)
        if (index_of(target, count, slot->chain[i].server) == count && has_sure(slot, facts, i)) {
            take_out(slot, i);
            changed = true;
        }
    return changed;
}

/* Orders the chain: first the servers of the target, in the target's order; then the others, in their former order. */
static bool put_in_order(cluster_map_slot *slot, const uint64_t *target, size_t count) {
    bool changed = false;
    for (size_t i = 1; i < slot->count; i++)
        for (size_t k = i; k > 0; k--) {
            size_t here = index_of(target, count, slot->chain[k].server);
            if (here >= index_of(target, count, slot->chain[k - 1].server)) break;
            cluster_map_member member = slot->chain[k];
            slot->chain[k] = slot->chain[k - 1];
            slot->chain[k - 1] = member;
            changed = true;
        }
    return changed;
}

static bool has(const cluster_map_slot *slot, uint64_t server) {
    for (size_t i = 0; i < slot->count; i++)
        if (slot->chain[i].server == server) return true;
    return false;
}

/* Mutation: puts every server of the target into the chain, against the rules of map_planner.h. */
static bool obey_ring(cluster_map_slot *slot, const map_planner_facts *facts, const uint64_t *target, size_t count,
                      uint64_t number) {
    bool changed = false;
    for (size_t i = 0; i < count && slot->count < CLUSTER_MAP_COPIES_MAX; i++) {
        if (has(slot, target[i])) continue;
        uint32_t id = (uint32_t)target[i];
        slot->chain[slot->count++] = (cluster_map_member){id, incarnation_of(facts, id), number};
        changed = true;
    }
    return changed;
}

/* A suspicion never removes the last live replica: if no member is surely alive, the chain does not change. */
static bool plan_slot(const map_planner_facts *facts, cluster_map *map, uint32_t index) {
    cluster_map_slot *slot = &map->slots[index];
    if (!has_sure(slot, facts, SIZE_MAX) && !MUTATED("no-keep")) return false;
    uint64_t target[SLOT_PLACEMENT_COPIES_MAX];
    size_t count = target_of(facts, map->copies, index, slot, target);
    if (count == 0) return false; /* all servers drain: there is no target */
    bool changed = take_out_dead(slot, facts);
    changed = open_gate(slot, facts, &facts->gates[index], map->number) || changed;
    if (MUTATED("no-keep")) changed = obey_ring(slot, facts, target, count, map->number) || changed;
    changed = take_out_extra(slot, facts, target, count) || changed;
    changed = put_in_order(slot, target, count) || changed;
    MR_ASSERT(slot->count > 0 || MUTATED("no-keep")); /* the last live member stays */
    if (changed) slot->epoch = map->number;
    return changed;
}

static void order_join(const map_planner_facts *facts, const cluster_map *map, uint32_t index, map_planner_join *joins,
                       size_t *count) {
    const cluster_map_slot *slot = &map->slots[index];
    uint64_t target[SLOT_PLACEMENT_COPIES_MAX];
    size_t wanted = target_of(facts, map->copies, index, slot, target);
    if (slot->count == 0 || slot->count == CLUSTER_MAP_COPIES_MAX || facts->gates[index].epoch == slot->epoch) return;
    for (size_t i = 0; i < wanted; i++) {
        if (has(slot, target[i])) continue;
        joins[(*count)++] = (map_planner_join){.slot = index,
                                               .tail = slot->chain[slot->count - 1].server,
                                               .server = (uint32_t)target[i],
                                               .epoch = slot->epoch,
                                               .incarnation = incarnation_of(facts, (uint32_t)target[i])};
        return;
    }
}

static bool put_servers(const map_planner_facts *facts, cluster_map *out) {
    bool changed = false;
    for (size_t i = 0; i < facts->server_count; i++) {
        const cluster_map_process *server = &facts->servers[i];
        const cluster_map_server *there = cluster_map_find(out, server->id);
        if (there != NULL && there->incarnation >= server->incarnation) continue;
        cluster_map_put_server(out, server->id, server->incarnation, server->address);
        changed = true;
    }
    return changed;
}

static bool grant(const map_planner_facts *facts, cluster_map *out) {
    bool changed = false;
    for (size_t i = 0; i < facts->wish_count; i++) {
        const map_planner_wish *wish = &facts->wishes[i];
        MR_ASSERT(wish->slot < out->slot_count);
        cluster_map_slot *slot = &out->slots[wish->slot];
        if (slot->home == wish->home && slot->more == wish->more) continue;
        slot->home = wish->home;
        slot->more = wish->more;
        slot->epoch = out->number;
        changed = true;
    }
    return changed;
}

bool map_planner_is_lost(const cluster_map *map, const map_planner_facts *facts, uint32_t slot) {
    MR_ASSERT(slot < map->slot_count);
    const cluster_map_slot *chain = &map->slots[slot];
    for (size_t i = 0; i < chain->count; i++) {
        const cluster_map_process *server = find(facts, chain->chain[i].server);
        if (server == NULL || server->incarnation <= chain->chain[i].incarnation) return false;
    }
    return true;
}

bool map_planner_next(const cluster_map *map, const map_planner_facts *facts, struct cluster_map *out,
                      map_planner_join *joins, size_t *join_count) {
    MR_ASSERT(facts->gates != NULL && map->number != 0);
    cluster_map_copy(out, map);
    out->number = map->number + 1;
    *join_count = 0;
    bool changed = put_servers(facts, out);
    changed = grant(facts, out) || changed;
    for (uint32_t i = 0; i < out->slot_count; i++) changed = plan_slot(facts, out, i) || changed;
    for (uint32_t i = 0; !changed && i < map->slot_count; i++) order_join(facts, map, i, joins, join_count);
    return changed;
}
