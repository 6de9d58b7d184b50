/* hub_check.c — assertion of the invariants of hub_state.h. */
#include "base/assert.h"
#include "net/shm/hub_state.h"

typedef struct sums {
    uint64_t bytes;
    uint32_t rings, strangers, members, sides;
} sums;

static void check_side(const hub *hub, const hub_link *link, const hub_side *side, sums *sums) {
    MR_ASSERT(side->link == link && side->guest->hub == hub && side->guest->state != HUB_STRANGER);
    MR_ASSERT(arena_holds(&hub->arena, side->ring) && side->old_count <= HUB_OLD_RINGS_MAX);
    sums->bytes += side->ring.size;
    sums->rings += 1 + side->old_count;
    for (uint32_t i = 0; i < side->old_count; i++) sums->bytes += side->old[i].size;
}

static void check_links(const hub *hub, sums *sums) {
    map_for_each (slot, &hub->links) {
        const hub_link *link = slot.value;
        MR_ASSERT(link->number == slot.key && link->sides[0].guest != link->sides[1].guest);
        MR_ASSERT(!link->sides[0].done || !link->sides[1].done); /* else it would be gone */
        check_side(hub, link, &link->sides[0], sums);
        check_side(hub, link, &link->sides[1], sums);
    }
}

static void check_guest(const hub *hub, const hub_guest *guest, sums *sums) {
    uint32_t open = 0;
    list_for_each (at, &guest->links) {
        const hub_side *side = container_of(at, hub_side, place);
        MR_ASSERT(side->guest == guest && map_get(&hub->links, side->link->number) == side->link);
        if (!side->done) open++;
        sums->sides++;
    }
    MR_ASSERT(open == guest->open && open <= hub->links_max);
    sums->strangers += guest->state == HUB_STRANGER;
    sums->members += guest->state == HUB_MEMBER;
    MR_ASSERT((guest->state == HUB_MEMBER) == (map_get(&hub->processes, guest->process) == guest));
    if (guest->state == HUB_STRANGER) return;
    station_state shown = (station_state)atomic_load(&arena_station(&hub->arena, guest->station)->state);
    MR_ASSERT(hub->stations[guest->station] == guest);
    MR_ASSERT(shown == (guest->state == HUB_MEMBER ? STATION_ALIVE : STATION_DEAD));
}

void hub_check(const hub *hub) {
    sums sums = {0};
    uint32_t seated = 0, expected = 0;
    check_links(hub, &sums);
    list_for_each (at, &hub->guests) {
        const hub_guest *guest = container_of(at, hub_guest, place);
        check_guest(hub, guest, &sums);
        if (guest->state != HUB_STRANGER) expected++;
    }
    for (int i = 0; i < STATIONS_MAX; i++) seated += hub->stations[i] != NULL;
    MR_ASSERT(seated == expected);
    MR_ASSERT(sums.sides == 2 * hub->links.count && sums.rings == hub->rings);
    MR_ASSERT(sums.strangers == hub->strangers && sums.members == hub->members);
    MR_ASSERT(sums.members == hub->processes.count && sums.strangers <= HUB_STRANGERS_MAX);
    extents_stats extents = extents_stats_now(hub->extents);
    MR_ASSERT(extents.used == sums.bytes + hub->lent && extents.count == sums.rings + hub->loans);
    extents_check(hub->extents);
}
