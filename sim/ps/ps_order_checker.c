/* ps_order_checker.c — see ps_order_checker.h. */
#include "sim/ps/ps_order_checker.h"

void ps_order_checker_reset(ps_order_checker *checker) { *checker = (ps_order_checker){.flushes = checker->flushes}; }

void ps_order_checker_push(ps_order_checker *checker, uint32_t slot, uint64_t name) {
    if (checker->slots[slot].asked == checker->slots[slot].went) checker->slots[slot].since = checker->flushes;
    checker->slots[slot].asked = name;
}

void ps_order_checker_pushed(ps_order_checker *checker, uint32_t slot, uint64_t name) {
    if (name > checker->slots[slot].went) checker->slots[slot].went = name;
}

void ps_order_checker_prefer(ps_order_checker *checker, uint32_t slot, uint8_t priority) {
    if (priority == checker->slots[slot].priority) return;
    checker->slots[slot].priority = priority;
    checker->slots[slot].since = checker->flushes;
}

void ps_order_checker_flushed(ps_order_checker *checker) { checker->flushes++; }

static bool is_sure(const ps_order_checker *checker, uint32_t slot) {
    return checker->slots[slot].since < checker->flushes;
}

static bool same_head(const cluster_map *map, uint32_t a, uint32_t b) {
    const cluster_map_slot *one = &map->slots[a], *other = &map->slots[b];
    return one->count != 0 && other->count != 0 && one->chain[0].server == other->chain[0].server &&
           one->chain[0].incarnation == other->chain[0].incarnation;
}

/* The round state comes last, whatever its priority. */
static void check(const ps_order_checker *checker, sim *sim, const cluster_map *map, uint32_t slot) {
    uint64_t patience = (uint64_t)RANK_PATIENCE * map->slot_count;
    if (!is_sure(checker, slot) || checker->slots[slot].passed >= patience) return;
    for (uint32_t i = 0; i < map->slot_count; i++) {
        bool waits = i != cluster_map_round_state(map) && checker->slots[i].went < checker->slots[i].asked;
        if (!waits || !is_sure(checker, i) || !same_head(map, slot, i)) continue;
        sim_count(sim, "turns", 1);
        if (checker->slots[i].priority > checker->slots[slot].priority)
            sim_violation(sim, "a push to slot %u, of priority %d, goes before one to slot %u, of priority %d", slot,
                          checker->slots[slot].priority, i, checker->slots[i].priority);
    }
}

void ps_order_checker_sent(ps_order_checker *checker, sim *sim, const cluster_map *map, span batch) {
    reader reader = reader_of(batch.data, batch.size);
    slot_message_head head;
    slot_message message;
    uint32_t count;
    if (map->number != checker->map)
        for (uint32_t i = 0; i < PS_SLOTS_MAX; i++) checker->slots[i].since = checker->flushes;
    checker->map = map->number;
    if (slot_message_read_head(&reader, &head, &count) != MR_OK) return;
    for (uint32_t i = 0; i < count && slot_message_read(&reader, &message) == MR_OK; i++) {
        if (message.kind != SLOT_MESSAGE_PUSH || (message.entry & SLOT_MESSAGE_PUSH_ASK) != 0) continue;
        check(checker, sim, map, message.slot);
        for (uint32_t k = 0; k < map->slot_count; k++) checker->slots[k].passed++;
        checker->slots[message.slot].passed = 0;
        if (message.name > checker->slots[message.slot].went) checker->slots[message.slot].went = message.name;
    }
}
