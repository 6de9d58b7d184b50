/* load_tracker.c — see load_tracker.h. */
#include "ps/load_tracker.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

void load_tracker_fini(load_tracker *tracker) {
    free(tracker->slots);
    *tracker = (struct load_tracker){.terms = tracker->terms};
}

/* Another generation may have another number of slots. */
static void count_slots(load_tracker *tracker, uint32_t slot_count) {
    if (tracker->slot_count == slot_count && tracker->slots != NULL) return;
    load_tracker_fini(tracker);
    tracker->slot_count = slot_count;
    tracker->slots = xcalloc(slot_count + 1, sizeof *tracker->slots);
}

void load_tracker_take(load_tracker *tracker, const cluster_map *map, const slot_message *message) {
    if (message->slot >= map->slot_count || message->epoch != map->slots[message->slot].epoch) return;
    count_slots(tracker, map->slot_count);
    tracker->slots[message->slot].count += message->lsn;
    tracker->slots[message->slot].pulls += message->name;
}

void load_tracker_tick(load_tracker *tracker, int64_t now_us) {
    if (now_us < tracker->next_interval_us) return;
    tracker->next_interval_us = now_us + tracker->terms.decide_us / LOAD_TRACKER_INTERVALS;
    for (uint32_t i = 0; i < tracker->slot_count; i++) {
        load_tracker_slot *slot = &tracker->slots[i];
        slot->rate = balancer_smooth(slot->rate, (double)slot->count);
        slot->pull_rate = balancer_smooth(slot->pull_rate, (double)slot->pulls);
        slot->count = slot->pulls = 0;
    }
}

/* ---- The balancer's input: servers that are alive and stay, and the slots whose heads they are. */

typedef struct scene {
    balancer_server *servers; /* owned, as is `slots` */
    size_t server_count;
    balancer_slot *slots;
    size_t slot_count;
    double all; /* total load of `slots` */
} scene;

static size_t index_of(const scene *scene, uint32_t id) {
    size_t at = 0;
    while (at < scene->server_count && scene->servers[at].id != id) at++;
    return at;
}

static void scene_init(scene *scene, const load_tracker *tracker, const cluster_map *map,
                       const map_planner_facts *facts, int64_t now_us) {
    MR_ASSERT(tracker->slot_count == map->slot_count && tracker->slots != NULL);
    *scene = (struct scene){.servers = xcalloc(facts->server_count + 1, sizeof *scene->servers),
                            .slots = xcalloc(map->slot_count + 1, sizeof *scene->slots)};
    for (size_t i = 0; i < facts->server_count; i++) {
        const cluster_map_process *server = &facts->servers[i];
        if (server->alive && !server->leaves && !server->doubted)
            scene->servers[scene->server_count++] = (balancer_server){server->id, 1};
    }
    for (uint32_t i = 0; i < map->slot_count; i++) {
        const cluster_map_slot *slot = &map->slots[i];
        size_t head = slot->count == 0 ? scene->server_count : index_of(scene, slot->chain[0].server);
        if (head == scene->server_count) continue;
        bool movable =
            now_us >= tracker->slots[i].rest_us && slot_placement_find(facts->pins, facts->pin_count, i) == NULL;
        scene->slots[scene->slot_count++] = (balancer_slot){i, (uint32_t)head, tracker->slots[i].rate, movable};
        scene->all += tracker->slots[i].rate;
    }
}

static void scene_fini(scene *scene) {
    free(scene->servers);
    free(scene->slots);
}

static bool is_read(const load_tracker *tracker, uint32_t slot, double part) {
    return tracker->slots[slot].pull_rate >= part * tracker->slots[slot].rate;
}

/* The load of a slot with read replicas is lower at its head, which answers only some of the pulls but takes all
 * pushes; so the bounds are lower than those for adding replicas. */
static bool has_cooled(const load_tracker *tracker, const scene *scene, const balancer_slot *slot) {
    return slot->load * 4 * (double)scene->server_count < scene->all ||
           !is_read(tracker, slot->slot, tracker->terms.reads / 2);
}

/* Hot slots get read replicas; slots whose load fell to a quarter of a server's share lose them. */
static size_t wish_copies(const load_tracker *tracker, const scene *scene, const cluster_map *map,
                          map_planner_wish *wishes) {
    uint32_t hot[LOAD_TRACKER_WISHES_MAX / 2];
    size_t count = 0, most = LOAD_TRACKER_WISHES_MAX / 2;
    size_t found = balancer_hot(scene->slots, scene->slot_count, scene->servers, scene->server_count, hot, most);
    for (size_t i = 0; i < found; i++)
        if (map->slots[hot[i]].more == 0 && is_read(tracker, hot[i], tracker->terms.reads))
            wishes[count++] = (map_planner_wish){hot[i], map->slots[hot[i]].home, LOAD_TRACKER_MORE};
    for (size_t i = 0; i < scene->slot_count && count < most; i++) {
        const balancer_slot *slot = &scene->slots[i];
        const cluster_map_slot *there = &map->slots[slot->slot];
        if (there->more != 0 && has_cooled(tracker, scene, slot))
            wishes[count++] = (map_planner_wish){slot->slot, there->home, 0};
    }
    return count;
}

static size_t wish_moves(load_tracker *tracker, scene *scene, const cluster_map *map, int64_t now_us,
                         map_planner_wish *wishes) {
    balancer_move moves[LOAD_TRACKER_WISHES_MAX / 2];
    size_t count = balancer_decide(scene->slots, scene->slot_count, scene->servers, scene->server_count, moves,
                                   LOAD_TRACKER_WISHES_MAX / 2);
    for (size_t i = 0; i < count; i++) {
        uint32_t home = 1 + (uint32_t)scene->servers[moves[i].to].id;
        wishes[i] = (map_planner_wish){moves[i].slot, home, map->slots[moves[i].slot].more};
        tracker->slots[moves[i].slot].rest_us = now_us + LOAD_TRACKER_RESTS * tracker->terms.decide_us;
    }
    return count;
}

size_t load_tracker_wishes(load_tracker *tracker, const cluster_map *map, const map_planner_facts *facts,
                           int64_t now_us, map_planner_wish *wishes) {
    count_slots(tracker, map->slot_count);
    if (tracker->next_decide_us == 0)
        tracker->next_decide_us = now_us + 2 * tracker->terms.decide_us; /* no interval has been measured yet */
    if (now_us < tracker->next_decide_us) return 0;
    tracker->next_decide_us = now_us + tracker->terms.decide_us;
    scene scene;
    scene_init(&scene, tracker, map, facts, now_us);
    bool enough = scene.all >= tracker->terms.least * (double)scene.server_count;
    size_t count = enough ? wish_copies(tracker, &scene, map, wishes) : 0;
    if (enough && count == 0) count = wish_moves(tracker, &scene, map, now_us, wishes);
    scene_fini(&scene);
    MR_ASSERT(count <= LOAD_TRACKER_WISHES_MAX);
    return count;
}
