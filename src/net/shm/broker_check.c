/* broker_check.c — assertion of the invariants of broker_internal.h. */
#include "base/assert.h"
#include "net/shm/broker_internal.h"

typedef struct sums {
    uint64_t bytes;
    uint32_t rings, strangers, members, sides;
} sums;

static void check_side(const broker *broker, const broker_link *link, const broker_side *side, sums *sums) {
    MR_ASSERT(side->link == link && side->peer->broker == broker && side->peer->state != BROKER_STRANGER);
    MR_ASSERT(arena_holds(&broker->arena, side->ring) && side->old_count <= BROKER_OLD_RINGS_MAX);
    sums->bytes += side->ring.size;
    sums->rings += 1 + side->old_count;
    for (uint32_t i = 0; i < side->old_count; i++) sums->bytes += side->old[i].size;
}

static void check_links(const broker *broker, sums *sums) {
    map_for_each (slot, &broker->links) {
        const broker_link *link = slot.value;
        MR_ASSERT(link->number == slot.key && link->sides[0].peer != link->sides[1].peer);
        MR_ASSERT(!link->sides[0].done || !link->sides[1].done); /* otherwise the link would be freed */
        check_side(broker, link, &link->sides[0], sums);
        check_side(broker, link, &link->sides[1], sums);
    }
}

static void check_peer(const broker *broker, const broker_peer *peer, sums *sums) {
    uint32_t open = 0;
    list_for_each (at, &peer->links) {
        const broker_side *side = container_of(at, broker_side, place);
        MR_ASSERT(side->peer == peer && map_get(&broker->links, side->link->number) == side->link);
        if (!side->done) open++;
        sums->sides++;
    }
    MR_ASSERT(open == peer->open && open <= broker->links_max);
    sums->strangers += peer->state == BROKER_STRANGER;
    sums->members += peer->state == BROKER_MEMBER;
    MR_ASSERT((peer->state == BROKER_MEMBER) == (map_get(&broker->processes, peer->process) == peer));
    if (peer->state == BROKER_STRANGER) return;
    process_block_state shown =
        (process_block_state)atomic_load(&arena_process_block(&broker->arena, peer->process_block)->state);
    MR_ASSERT(broker->process_blocks[peer->process_block] == peer);
    MR_ASSERT(shown == (peer->state == BROKER_MEMBER ? PROCESS_BLOCK_ALIVE : PROCESS_BLOCK_DEAD));
}

void broker_check(const broker *broker) {
    sums sums = {0};
    uint32_t seated = 0, expected = 0;
    check_links(broker, &sums);
    list_for_each (at, &broker->peers) {
        const broker_peer *peer = container_of(at, broker_peer, place);
        check_peer(broker, peer, &sums);
        if (peer->state != BROKER_STRANGER) expected++;
    }
    for (int i = 0; i < PROCESS_BLOCKS_MAX; i++) seated += broker->process_blocks[i] != NULL;
    MR_ASSERT(seated == expected);
    MR_ASSERT(sums.sides == 2 * broker->links.count && sums.rings == broker->rings);
    MR_ASSERT(sums.strangers == broker->strangers && sums.members == broker->members);
    MR_ASSERT(sums.members == broker->processes.count && sums.strangers <= BROKER_STRANGERS_MAX);
    extent_allocator_stats extents = extent_allocator_stats_now(broker->allocator);
    MR_ASSERT(extents.used == sums.bytes + broker->exported && extents.count == sums.rings + broker->loans);
    extent_allocator_check(broker->allocator);
}
