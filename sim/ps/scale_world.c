/* scale_world.c — see scale_world.h. */
#include "sim/ps/scale_world.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "ps/balance.h"
#include "sim/cluster/keeper_node.h"

#define STEP_US INT64_C(20000) /* how often it is asked whether a change has settled */

struct scale_world {
    scale_size size;
    scenario_options options;
    sim *sim;
    scale_counts counts;
    uint64_t incarnations;
    atlas *atlas;                          /* shared with all: thousands of charts of their own would be gigabytes */
    scale_seat director, *servers, *ranks; /* owned */
    uint32_t server_count, server_room;    /* that were ever here */
    bool *gone;                            /* by server, owned: it has left, or is dead */
    uint32_t leaving[SCALE_CHANGES_MAX], leaving_count;
};

static void add(scale_world *world, scale_seat *seat, const char *name, uint32_t id, const sim_program *program) {
    char text[SIM_NAME_MAX];
    snprintf(text, sizeof text, program == &scale_director_program ? "%s" : "%s%u", name, id);
    *seat = (scale_seat){.id = id,
                         .counts = &world->counts,
                         .incarnations = &world->incarnations,
                         .atlas = world->atlas,
                         .size = &world->size};
    seat->node = sim_node_add(world->sim, text, program, seat);
}

static void add_server(scale_world *world) {
    MR_ASSERT(world->server_count < world->server_room);
    uint32_t id = world->server_count++;
    add(world, &world->servers[id], "s", id, &scale_server_program);
}

scale_world *scale_create(const scale_size *size, uint64_t seed) {
    scale_world *world = xcalloc(1, sizeof *world);
    world->size = *size;
    world->options = scenario_options_of(seed, NULL);
    world->sim = sim_create(&world->options);
    world->atlas = atlas_create();
    world->server_room = size->servers + SCALE_CHANGES_MAX;
    world->servers = xcalloc(world->server_room, sizeof *world->servers);
    world->gone = xcalloc(world->server_room, sizeof *world->gone);
    world->ranks = xcalloc(size->ranks + 1, sizeof *world->ranks);
    (void)sim_node_add(world->sim, "keeper", &keeper_node_program, NULL);
    add(world, &world->director, "director", 0, &scale_director_program);
    for (uint32_t i = 0; i < size->servers; i++) add_server(world);
    for (uint32_t i = 0; i < size->ranks; i++) add(world, &world->ranks[i], "w", i, &scale_worker_program);
    for (size_t i = 0; i < sim_node_count(world->sim); i++) sim_node_start(sim_node_at(world->sim, i));
    return world;
}

void scale_destroy(scale_world *world) {
    scenario_result result;
    sim_finish(world->sim, &result);
    atlas_unref(world->atlas);
    free(world->servers);
    free(world->gone);
    free(world->ranks);
    free(world);
}

/* ---- Has it settled? */

static const chart *newest(const scale_world *world) { return director_chart(scale_director_of(&world->director)); }

static bool all_know(const scale_world *world, uint64_t number) {
    for (uint32_t i = 0; i < world->server_count; i++) {
        const server *server = scale_server_of(&world->servers[i]);
        if (server != NULL && server_chart(server)->number != number) return false;
    }
    for (uint32_t i = 0; i < world->size.ranks; i++) {
        const rank *rank = scale_rank_of(&world->ranks[i]);
        if (rank == NULL || rank_chart(rank)->number != number) return false;
    }
    return true;
}

static bool is_target(const chart_slot *slot, const uint64_t *owners, size_t count) {
    bool same = slot->count == count;
    for (size_t i = 0; same && i < count; i++) same = slot->chain[i].server == owners[i];
    return same;
}

static bool in_place(const scale_world *world) {
    const chart *chart = newest(world);
    ring_server *members = xcalloc(world->server_count, sizeof *members);
    size_t count = 0;
    for (uint32_t i = 0; i < world->server_count; i++)
        if (!world->gone[i]) members[count++] = (ring_server){i, 1};
    ring *ring;
    mr_status status = ring_create(members, count, &ring);
    MR_ASSERT(status == MR_OK);
    bool placed = chart->slot_count == world->size.slots;
    for (uint32_t i = 0; placed && i < chart->slot_count; i++) {
        uint64_t owners[CHART_COPIES_MAX];
        placed = is_target(&chart->slots[i], owners, ring_owners(ring, i, owners, world->size.copies));
    }
    ring_destroy(ring);
    free(members);
    return placed;
}

/* A chart is compared with the ring once: it takes a while to make one. */
static bool settle(scale_world *world, int64_t *settled_us) {
    int64_t from_us = sim_now_us(world->sim);
    uint64_t compared = 0;
    while (sim_now_us(world->sim) < from_us + SCALE_SETTLE_US) {
        if (!sim_run(world->sim, sim_now_us(world->sim) + STEP_US)) return false;
        const chart *chart = newest(world);
        if (chart->number == compared || !all_know(world, chart->number)) continue;
        compared = chart->number;
        if (!in_place(world)) continue;
        *settled_us = sim_now_us(world->sim) - from_us;
        return true;
    }
    return false;
}

bool scale_begin(scale_world *world) {
    int64_t settled_us;
    if (!settle(world, &settled_us)) return false;
    for (bool ready = false; !ready;) {
        if (!sim_run(world->sim, sim_now_us(world->sim) + STEP_US)) return false;
        ready = true;
        for (uint32_t i = 0; i < world->size.ranks; i++) ready = ready && world->ranks[i].ready;
    }
    return true;
}

/* ---- What it costs. */

static uint64_t copies_of(const scale_world *world, const chart *chart) { /* that lie with those who are gone */
    uint64_t copies = 0;
    for (uint32_t i = 0; i < chart->slot_count; i++)
        for (uint8_t k = 0; k < chart->slots[i].count; k++) copies += world->gone[chart->slots[i].chain[k].server];
    return copies;
}

static bool holds(const chart_slot *slot, uint32_t server) {
    for (uint8_t i = 0; i < slot->count; i++)
        if (slot->chain[i].server == server) return true;
    return false;
}

static bool has_gone(const scale_world *world, const chart_slot *slot) {
    for (uint8_t i = 0; i < slot->count; i++)
        if (world->gone[slot->chain[i].server]) return true;
    return false;
}

static void compare(const scale_world *world, const chart *before, uint32_t newcomers, scale_cost *cost) {
    const chart *after = newest(world);
    for (uint32_t i = 0; i < after->slot_count; i++)
        for (uint8_t k = 0; k < after->slots[i].count; k++) {
            uint32_t server = after->slots[i].chain[k].server;
            if (holds(&before->slots[i], server)) continue;
            cost->moved++;
            bool came = server >= world->server_count - newcomers;
            if (!came && !has_gone(world, &before->slots[i])) cost->needless++;
        }
}

/* The change has been made; `before` is what was so far. */
static bool watch(scale_world *world, const scale_counts *counts, chart *before, uint32_t newcomers, double ideal,
                  scale_cost *cost) {
    *cost = (scale_cost){.ideal = ideal};
    bool settled = settle(world, &cost->settled_us);
    if (settled) compare(world, before, newcomers, cost);
    cost->charts = world->counts.charts - counts->charts;
    cost->messages = world->counts.messages - counts->messages;
    cost->bytes = world->counts.bytes - counts->bytes;
    chart_fini(before);
    return settled;
}

bool scale_rest(scale_world *world, scale_cost *cost) {
    scale_counts counts = world->counts;
    bool fine = sim_run(world->sim, sim_now_us(world->sim) + 1000000);
    *cost = (scale_cost){.settled_us = 1000000,
                         .charts = world->counts.charts - counts.charts,
                         .messages = world->counts.messages - counts.messages,
                         .bytes = world->counts.bytes - counts.bytes};
    return fine;
}

/* ---- Changes. */

static uint32_t here(const scale_world *world) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->server_count; i++) count += !world->gone[i];
    return count;
}

bool scale_join(scale_world *world, uint32_t count, scale_cost *cost) {
    scale_counts counts = world->counts;
    chart before = {0};
    chart_copy(&before, newest(world));
    for (uint32_t i = 0; i < count; i++) {
        add_server(world);
        sim_node_start(world->servers[world->server_count - 1].node);
    }
    double ideal = (double)world->size.slots * world->size.copies * count / here(world);
    return watch(world, &counts, &before, count, ideal, cost);
}

static bool has_copy(const chart *chart, uint32_t server) {
    for (uint32_t i = 0; i < chart->slot_count; i++)
        if (holds(&chart->slots[i], server)) return true;
    return false;
}

/* One that would be missed. */
static uint32_t any_server(const scale_world *world) {
    uint32_t at;
    do at = (uint32_t)rng_below(sim_rng(world->sim), world->server_count);
    while (world->gone[at] || !has_copy(newest(world), at));
    return at;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

bool scale_leave(scale_world *world, uint32_t count, scale_cost *cost) {
    scale_counts counts = world->counts;
    chart before = {0};
    chart_copy(&before, newest(world));
    for (uint32_t i = 0; i < count; i++) {
        MR_ASSERT(world->leaving_count < SCALE_CHANGES_MAX);
        uint32_t server = any_server(world);
        world->gone[server] = true;
        world->leaving[world->leaving_count++] = server;
    }
    qsort(world->leaving, world->leaving_count, sizeof *world->leaving, by_number);
    director_retire(scale_director_of(&world->director), world->leaving, world->leaving_count);
    bool settled = watch(world, &counts, &before, 0, (double)copies_of(world, &before), cost);
    for (uint32_t i = 0; i < world->leaving_count; i++)
        if (sim_node_up(world->servers[world->leaving[i]].node))
            sim_node_crash(world->servers[world->leaving[i]].node, false);
    return settled;
}

/* One of those who stay must have each slot. */
static bool survives(const scale_world *world, const chart *chart) {
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        uint8_t left = 0;
        for (uint8_t k = 0; k < chart->slots[i].count; k++) left += !world->gone[chart->slots[i].chain[k].server];
        if (left == 0) return false;
    }
    return true;
}

bool scale_die(scale_world *world, uint32_t count, scale_cost *cost) {
    scale_counts counts = world->counts;
    chart before = {0};
    chart_copy(&before, newest(world));
    for (uint32_t killed = 0; killed < count;) {
        uint32_t server = any_server(world);
        world->gone[server] = true;
        if (survives(world, &before)) {
            sim_node_crash(world->servers[server].node, true);
            killed++;
        } else {
            world->gone[server] = false;
        }
    }
    return watch(world, &counts, &before, 0, (double)copies_of(world, &before), cost);
}

/* ---- Load. */

/* Each rank asks as often as any other; the head of a slot carries it. */
static double *true_loads(const scale_world *world) {
    double *loads = xcalloc(world->size.slots, sizeof *loads);
    for (uint32_t i = 0; i < world->size.ranks; i++)
        for (size_t k = 0; k < SCALE_TOUCHES; k++) loads[world->ranks[i].touches[k]]++;
    return loads;
}

static double fullest(const scale_world *world, const double *loads) {
    double *carried = xcalloc(world->server_count, sizeof *carried), all = 0, most = 0;
    for (uint32_t i = 0; i < world->size.slots; i++) {
        double *here = &carried[newest(world)->slots[i].chain[0].server];
        *here += loads[i];
        all += loads[i];
        if (*here > most) most = *here;
    }
    free(carried);
    return most * world->server_count / all;
}

static double needed_moves(const scale_world *world, const double *loads) {
    balance_slot *slots = xcalloc(world->size.slots, sizeof *slots);
    balance_server *servers = xcalloc(world->server_count, sizeof *servers);
    balance_move *moves = xcalloc(world->size.slots, sizeof *moves);
    for (uint32_t i = 0; i < world->server_count; i++) servers[i] = (balance_server){i, 1};
    for (uint32_t i = 0; i < world->size.slots; i++)
        slots[i] = (balance_slot){i, newest(world)->slots[i].chain[0].server, loads[i], true};
    size_t count = balance_decide(slots, world->size.slots, servers, world->server_count, moves, world->size.slots);
    free(slots);
    free(servers);
    free(moves);
    return (double)count;
}

bool scale_let_balance(scale_world *world, int64_t for_us, scale_balance *out) {
    scale_counts counts = world->counts;
    chart before = {0};
    chart_copy(&before, newest(world));
    double *loads = true_loads(world);
    *out = (scale_balance){.before = fullest(world, loads), .cost.ideal = needed_moves(world, loads)};
    bool fine = sim_run(world->sim, sim_now_us(world->sim) + for_us);
    out->after = fullest(world, loads);
    compare(world, &before, 0, &out->cost);
    out->cost.charts = world->counts.charts - counts.charts;
    chart_fini(&before);
    free(loads);
    return fine;
}

/* ---- The end. */

static bool has_all(const scale_world *world, const scale_seat *seat, size_t touch) {
    const chart_slot *slot = &newest(world)->slots[seat->touches[touch]];
    for (uint8_t i = 0; i < slot->count; i++) {
        const server *server = scale_server_of(&world->servers[slot->chain[i].server]);
        const replica *replica = server == NULL ? NULL : server_replica(server, seat->touches[touch]);
        if (replica == NULL || replica_name(replica, seat->id) < seat->acknowledged[touch]) return false;
    }
    return slot->count != 0;
}

bool scale_check(scale_world *world, int64_t *waited_us) {
    bool all = true;
    *waited_us = 0;
    for (uint32_t i = 0; i < world->size.ranks; i++) {
        const scale_seat *seat = &world->ranks[i];
        for (size_t k = 0; k < SCALE_TOUCHES; k++) all = all && seat->acknowledged[k] != 0 && has_all(world, seat, k);
        if (seat->waited_us > *waited_us) *waited_us = seat->waited_us;
    }
    return all;
}
