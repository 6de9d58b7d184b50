/* events.c — see events.h. */
#include "sim/ps/events.h"

#include "sim/disk.h"
#include "sim/network.h"

enum { TRIPS_MAX = 100 };
#define TRIP_US      INT64_C(2000)
#define DRAWN_OUT_US INT64_C(500000)
#define ISOLATION_US INT64_C(1500000)
#define KILLED_US    INT64_C(500000)
#define LOOK_US      INT64_C(700000)
#define BACK_US      INT64_C(500000)

/* ---- Which crashes are no loss. */

bool ps_lives(const ps_world *world, const chart_member *member) {
    const server *server = ps_server_of(&world->servers[member->server]);
    return server != NULL && server_incarnation(server) == member->incarnation;
}

static bool survives(const ps_world *world, const chart *chart, const sim_node *node) {
    for (uint32_t i = 0; i < chart->slot_count; i++) {
        bool other = false;
        for (size_t k = 0; k < chart->slots[i].count; k++) {
            const chart_member *member = &chart->slots[i].chain[k];
            if (world->servers[member->server].node != node && ps_lives(world, member)) other = true;
        }
        if (!other) return false;
    }
    return true;
}

bool ps_may_crash(void *context, sim_node *node) {
    const ps_world *world = context;
    bool is_server = false;
    for (uint32_t i = 0; i < PS_SERVERS_MAX; i++) is_server = is_server || world->servers[i].node == node;
    if (!is_server || world->reckless) return true;
    if (world->newest.number == 0 || !survives(world, &world->newest, node)) return false;
    for (size_t i = 0; i < world->proposal_count; i++)
        if (world->proposals[i].number > world->newest.number && !survives(world, &world->proposals[i], node))
            return false;
    return true;
}

/* Somebody wants slots elsewhere: other heads, other servers. */
static void draw_pins(void *context, uint64_t unused) {
    ps_world *world = context;
    rng *rng = sim_rng(world->sim);
    world->pin_count = 0;
    for (uint32_t i = 0; i < world->slot_count; i++)
        if (rng_chance(rng, 0.5))
            world->pins[world->pin_count++] = (placement_pin){i, 1, {rng_below(rng, world->server_count)}};
    director *director = ps_director_of(&world->director);
    if (director != NULL) director_pin(director, world->pins, world->pin_count);
}

static void mend(void *context, uint64_t pair) {
    ps_world *world = context;
    network_cut(sim_network(world->sim), world->servers[pair >> 32].node, world->servers[pair & UINT32_MAX].node,
                false);
}

/* The ledger does not hear from a slot for a while, and heads change meanwhile: a rank is given up slowly. */
static void draw_out(ps_world *world) {
    const chart *chart = &world->newest;
    if (chart->number == 0 || chart->slots[0].count == 0 || chart->slots[world->slot_count - 1].count == 0) return;
    uint64_t ledger = chart->slots[world->slot_count - 1].chain[0].server, head = chart->slots[0].chain[0].server;
    if (ledger == head) return;
    network_cut(sim_network(world->sim), world->servers[ledger].node, world->servers[head].node, true);
    sim_after(world->sim, DRAWN_OUT_US, mend, world, ledger << 32 | head);
    sim_after(world->sim, DRAWN_OUT_US / 4, draw_pins, world, 0);
}

/* Somebody gives up a rank that may well live. */
static void drop_rank(void *context, uint64_t unused) {
    ps_world *world = context;
    director *director = ps_director_of(&world->director);
    uint32_t rank = (uint32_t)rng_below(sim_rng(world->sim), world->rank_count);
    uint64_t stint = ps_stint(world, rank);
    if (director == NULL || stint == 0) return;
    sim_note(world->sim, NULL, "rank %u is given up", rank);
    sim_count(world->sim, "drops", 1);
    world->ledger.drops++;
    if (rng_chance(sim_rng(world->sim), 0.7)) draw_out(world);
    director_drop(director, rank, stint);
}

/* A head and a worker that see only each other for a while: the head is replaced, and neither hears of it. */
static void set_apart(ps_world *world, const sim_node *head, const sim_node *worker, bool apart) {
    for (size_t i = 0; i < sim_node_count(world->sim); i++) {
        sim_node *node = sim_node_at(world->sim, i);
        if (node == head || node == worker) continue;
        for (int k = 0; k < 2; k++) {
            sim_node *one = sim_node_at(world->sim, sim_node_index(k == 0 ? head : worker));
            network_cut(sim_network(world->sim), one, node, apart);
            network_cut(sim_network(world->sim), node, one, apart);
        }
    }
}

static void join_again(void *context, uint64_t pair) {
    ps_world *world = context;
    set_apart(world, world->servers[pair >> 32].node, world->workers[pair & UINT32_MAX].node, false);
}

static void isolate(void *context, uint64_t unused) {
    ps_world *world = context;
    uint32_t worker = (uint32_t)rng_below(sim_rng(world->sim), world->worker_count);
    if (world->newest.number == 0 || world->newest.slots[0].count == 0) return;
    uint32_t head = world->newest.slots[0].chain[0].server;
    sim_count(world->sim, "isolations", 1);
    sim_note(world->sim, NULL, "s%u and w%u are alone", head, worker);
    set_apart(world, world->servers[head].node, world->workers[worker].node, true);
    sim_after(world->sim, ISOLATION_US, join_again, world, (uint64_t)head << 32 | worker);
}

/* A worker that hears nothing and goes on speaking to all but the director: others play its ranks meanwhile. */
static void set_deaf(ps_world *world, sim_node *worker, bool deaf) {
    network_cut(sim_network(world->sim), worker, world->director.node, deaf);
    for (size_t i = 0; i < sim_node_count(world->sim); i++)
        if (sim_node_at(world->sim, i) != worker)
            network_cut(sim_network(world->sim), sim_node_at(world->sim, i), worker, deaf);
}

static void hear_again(void *context, uint64_t worker) {
    ps_world *world = context;
    set_deaf(world, world->workers[worker].node, false);
}

static void deafen(void *context, uint64_t unused) {
    ps_world *world = context;
    uint32_t worker = (uint32_t)rng_below(sim_rng(world->sim), world->worker_count);
    sim_note(world->sim, NULL, "w%u hears nothing", worker);
    set_deaf(world, world->workers[worker].node, true);
    sim_after(world->sim, ISOLATION_US, hear_again, world, worker);
}

/* ---- Checkpoints, and the end of everything. */

static void start_again(void *context, uint64_t unused) {
    if (!sim_node_up(context)) sim_node_start(context);
}

/* A worker dies while it pushes, and all others stand still, or are about to: what it has pushed is in some slots. */
static void trip(void *context, uint64_t tries) {
    ps_world *world = context;
    rng *rng = sim_rng(world->sim);
    for (uint32_t i = 0; i < world->worker_count; i++) {
        sim_node *node = world->workers[i].node;
        if (!sim_node_up(node) || !ps_pushes(&world->workers[i]) || rng_chance(rng, 0.5)) continue;
        sim_note(world->sim, node, "dies while it pushes");
        sim_count(world->sim, "trips", 1);
        sim_node_crash(node, rng_chance(rng, 0.5));
        sim_after(world->sim, rng_between(rng, KILLED_US, 3 * KILLED_US), start_again, node, 0);
        return;
    }
    if (tries != 0) sim_after(world->sim, TRIP_US, trip, world, tries - 1);
}

static void want_checkpoint(void *context, uint64_t unused) {
    ps_world *world = context;
    director *director = ps_director_of(&world->director);
    if (director != NULL) director_checkpoint(director);
    if (world->pause_us != 0 && rng_chance(sim_rng(world->sim), 0.5))
        sim_after(world->sim, rng_between(sim_rng(world->sim), 0, world->pause_us / 2), trip, world, TRIPS_MAX);
}

static void kill_node(ps_world *world, sim_node *node) {
    if (!sim_node_up(node)) return;
    sim_node_crash(node, rng_chance(sim_rng(world->sim), 0.5));
    sim_after(world->sim, rng_between(sim_rng(world->sim), 1000, KILLED_US), start_again, node, 0);
}

/* Another machine takes the coordinator's place, with an empty disk; now and then others start with it. */
static void lose_coordinator(void *context, uint64_t unused) {
    ps_world *world = context;
    rng *rng = sim_rng(world->sim);
    sim_note(world->sim, world->keeper, "loses its disk");
    sim_count(world->sim, "coordinators lost", 1);
    kill_node(world, world->keeper);
    sim_disk_lose(sim_node_disk(world->keeper));
    if (rng_chance(rng, 0.5)) kill_node(world, world->director.node);
    if (rng_chance(rng, 0.7)) kill_node(world, world->workers[rng_below(rng, world->worker_count)].node);
    sim_node *server = world->servers[rng_below(rng, world->server_count)].node;
    if (rng_chance(rng, 0.7) && ps_may_crash(world, server)) kill_node(world, server);
}

static void rot(void *context, uint64_t unused) {
    ps_world *world = context;
    const char *file = sim_disk_rot(sim_node_disk(world->depot.node));
    if (file == NULL) return;
    world->ledger.rots = true;
    sim_note(world->sim, world->depot.node, "%s rots", file);
    sim_count(world->sim, "files that rot", 1);
}

/* Another number of servers and ranks comes back, the next time as many ranks as before. */
static void kill_all(void *context, uint64_t unused) {
    ps_world *world = context;
    uint32_t ranks = world->rank_seats;
    sim_note(world->sim, NULL, "everything is killed; %u servers and %u ranks come back", world->server_seats, ranks);
    sim_count(world->sim, "kills", 1);
    for (size_t i = 0; i < sim_node_count(world->sim); i++) {
        sim_node *node = sim_node_at(world->sim, i);
        bool keeps = node == world->keeper || node == world->depot.node;
        if (!keeps || rng_chance(sim_rng(world->sim), 0.3)) kill_node(world, node);
    }
    world->server_count = world->server_seats;
    world->rank_seats = world->rank_count;
    world->rank_count = ranks;
    if (world->rounds.first_count > world->rank_count || ps_bounds_rounds(world))
        world->rounds.first_count = world->rank_count;
    draw_pins(world, 0);
}

/* Somebody looks now and then: what no process has any more is begun anew, whatever the director hopes for. */
static void look_after(void *context, uint64_t before) {
    ps_world *world = context;
    director *director = ps_director_of(&world->director);
    const chart *chart = director == NULL ? NULL : director_chart(director);
    bool gone = false;
    for (uint32_t i = 0; chart != NULL && i < chart->slot_count; i++) {
        bool lives_on = false;
        for (size_t k = 0; k < chart->slots[i].count; k++)
            lives_on = lives_on || ps_lives(world, &chart->slots[i].chain[k]);
        gone = gone || !lives_on;
    }
    if (gone && before != 0) director_restore(director);
    sim_after(world->sim, LOOK_US, look_after, world, gone);
}

/* Somebody wants to go back, though nothing is lost: right behind a checkpoint, which may be whole or not. */
static void go_back(void *context, uint64_t unused) {
    const ps_world *world = context;
    director *director = ps_director_of(&world->director);
    if (director == NULL || director_chart(director)->number == 0) return;
    sim_note(world->sim, NULL, "somebody wants to go back");
    director_restore(director);
}

static void plan_going_back(ps_world *world) {
    rng *rng = sim_rng(world->sim);
    int64_t at_us = rng_between(rng, PS_FAULTS_US / 4, PS_FAULTS_US - BACK_US);
    sim_after(world->sim, at_us, want_checkpoint, world, 0);
    sim_after(world->sim, at_us + rng_between(rng, 0, BACK_US), go_back, world, 0);
}

static void plan_checkpoints(ps_world *world) {
    rng *rng = sim_rng(world->sim);
    for (uint32_t i = 0; i < world->mark_rounds; i++)
        sim_after(world->sim, rng_between(rng, 0, PS_FAULTS_US), want_checkpoint, world, 0);
    for (uint32_t i = 0; i < world->kill_rounds; i++)
        sim_after(world->sim, rng_between(rng, PS_FAULTS_US / 4, PS_FAULTS_US), kill_all, world, 0);
    for (uint32_t i = 0; i < world->back_rounds; i++) plan_going_back(world);
    for (uint32_t i = 0; i < world->lose_rounds; i++)
        sim_after(world->sim, rng_between(rng, 0, PS_FAULTS_US), lose_coordinator, world, 0);
    if (world->rots) sim_after(world->sim, rng_between(rng, PS_FAULTS_US / 4, PS_FAULTS_US), rot, world, 0);
    sim_after(world->sim, LOOK_US, look_after, world, 0);
}

/* ---- The plan. */

void ps_events_plan(ps_world *world) {
    for (uint32_t i = 0; i < world->pin_rounds; i++)
        sim_after(world->sim, rng_between(sim_rng(world->sim), 0, PS_FAULTS_US), draw_pins, world, 0);
    if (rng_chance(sim_rng(world->sim), world->fresh_chance == 0 ? 0.2 : 0.8))
        sim_after(world->sim, rng_between(sim_rng(world->sim), 0, PS_FAULTS_US - ISOLATION_US), isolate, world, 0);
    if (rng_chance(sim_rng(world->sim), 0.4))
        sim_after(world->sim, rng_between(sim_rng(world->sim), 0, PS_FAULTS_US - ISOLATION_US), deafen, world, 0);
    for (uint32_t i = 0; i < world->drop_rounds; i++)
        sim_after(world->sim, rng_between(sim_rng(world->sim), 0, PS_FAULTS_US), drop_rank, world, 0);
    if (world->keeps) plan_checkpoints(world);
    world->book.loses = world->lose_rounds != 0;
}
