/* hold_scenario.c — see hold_scenario.h.
 *
 * Two to four processes over one small arena: they create objects, pass references on, take, view, delete and drop
 * them, try old references again, and die between any two steps, also inside an operation of a store process
 * (hold_process.h). Meanwhile the store server collects, spills, restores and takes over holds of dead processes, in
 * steps too. In the end no process dies any more and all objects are dropped; then nothing may be left: no object, no
 * extent, no file, no byte. tests/store_kill_test.c kills real processes inside each operation. */
#include "sim/runtime/hold_scenario.h"

#include <inttypes.h>

#include "sim/runtime/hold_process.h"
#include "store/client_internal.h"
#include "store/server_internal.h"

#define TROUBLE_US INT64_C(1700)
#define DRAIN_US   INT64_C(20000)
#define ACT_US     INT64_C(40)

typedef struct world {
    sim *sim;
    hold_server server;
    hold_checker checker;
    hold_processes processes;
} world;

/* ---- Events of the store server. */

static void on_answered(void *context, uint64_t process, const store_client_request *request, mr_status status,
                        extent extent, int64_t retry_us) {
    hold_processes_answered(&((world *)context)->processes, process, request, status, extent, retry_us);
}

static void on_file_lost(void *context, uint64_t slot) { hold_checker_file_lost(&((world *)context)->checker, slot); }

static void on_changed(void *context) {
    world *world = context;
    hold_checker_check(&world->checker);
    hold_checker_check_bytes(&world->checker);
}

static const hold_server_events server_events = {on_answered, on_file_lost, on_changed};

/* ---- The run. */

static void act(void *context, uint64_t index) {
    world *world = context;
    hold_processes *all = &world->processes;
    hold_place *place = &all->places[index];
    rng *rng = sim_rng(world->sim);
    virtual_clock_advance(&world->server.clock, sim_now_us(world->sim));
    if (place->state == PLACE_ALIVE) {
        if (!all->draining && rng_chance(rng, all->deaths))
            hold_place_kill(place);
        else if (!all->draining && rng_chance(rng, all->deaths / 4))
            hold_place_leave(place);
        else
            hold_place_act(place);
    }
    sim_after(world->sim, rng_between(rng, 1, place->bare ? ACT_US / 3 : ACT_US), act, world, index);
}

static bool is_drained(void *context) {
    world *world = context;
    return hold_processes_are_done(&world->processes) && hold_server_is_quiet(&world->server);
}

/* All holds are gone and the processes still exist: their creators can use every byte again. */
static void check_dropped(world *world) {
    hold_processes *all = &world->processes;
    for (int round = 0; round < 2; round++) {
        hold_server_collect_now(&world->server);
        for (size_t i = 0; i < all->place_count; i++)
            if (all->places[i].store != NULL) store_client_poll(all->places[i].store);
    }
    store_server_stats stats = store_server_stats_now(world->server.server);
    if (stats.objects != 0 || stats.spilled_bytes != 0 || stats.moving != 0 || !list_empty(&world->server.files))
        sim_violation(world->sim, "nobody holds anything, but %u objects and %zu files are left", stats.objects,
                      hold_server_file_count(&world->server));
    for (size_t i = 0; i < all->place_count; i++) {
        if (all->places[i].store == NULL) continue;
        store_client_stats own = store_client_stats_now(all->places[i].store);
        if (own.objects != 0 || own.used != 0)
            sim_violation(world->sim,
                          "process %" PRIu64 " dropped everything, but %u objects of %" PRIu64 " bytes are left",
                          all->places[i].process, own.objects, own.used);
        store_client_memory_back(all->places[i].store, false);
    }
}

/* All processes are gone: only pages of object headers are left, all free. */
static void check_empty(world *world) {
    store_server_stats stats = store_server_stats_now(world->server.server);
    uint64_t used = extent_allocator_stats_now(world->server.allocator).used;
    if (stats.processes != 0 || stats.stretches != 0 || stats.objects != 0)
        sim_violation(world->sim, "everybody is gone, but %u processes, %u stretches and %u objects are left",
                      stats.processes, stats.stretches, stats.objects);
    if (used != (uint64_t)stats.pages * OBJECT_HEADER_PAGE_BYTES)
        sim_violation(world->sim, "%" PRIu64 " bytes are lent, and nobody is there", used);
}

static void play(world *world) {
    hold_processes *all = &world->processes;
    bool drained;
    if (!sim_run(world->sim, TROUBLE_US)) return;
    all->draining = true;
    if (!sim_run_until(world->sim, TROUBLE_US + DRAIN_US, is_drained, world, &drained)) return;
    if (!drained) {
        hold_processes_complain(all);
        sim_violation(world->sim, "everything is to be dropped, but there is no end");
        return;
    }
    check_dropped(world);
    int64_t now_us = sim_now_us(world->sim);
    if (!sim_run(world->sim, now_us + 1000)) return;
    for (size_t i = 0; i < all->place_count; i++)
        if (all->places[i].state == PLACE_ALIVE) hold_place_leave(&all->places[i]);
    if (!sim_run_until(world->sim, now_us + DRAIN_US, is_drained, world, &drained)) return;
    check_empty(world);
}

static void run(const scenario_options *options, scenario_result *result) {
    world world = {.sim = sim_create(options)};
    rng *rng = sim_rng(world.sim);
    uint64_t bytes = (uint64_t)rng_between(rng, 100, 420) * 4096;
    hold_server_init(&world.server, world.sim, bytes, &server_events, &world);
    world.server.disk_errors = rng_chance(rng, 0.3) ? rng_unit(rng) * 0.5 : 0;
    world.server.files_lost = rng_chance(rng, 0.2) ? 0.3 : 0;
    if (rng_chance(rng, 0.2)) world.server.saves_left = rng_below(rng, 5);
    hold_checker_init(&world.checker, world.sim, &world.server.arena);
    hold_processes_init(&world.processes, world.sim, &world.server, &world.checker, (size_t)rng_between(rng, 2, 4));
    world.processes.bare = rng_unit(rng) * 0.7;
    world.processes.deaths = rng_chance(rng, 0.8) ? rng_unit(rng) * 0.015 : 0;
    world.processes.small = rng_below(rng, 11);
    for (size_t i = 0; i < world.processes.place_count; i++) {
        hold_place_join(&world.processes.places[i]);
        act(&world, i);
    }
    play(&world);
    hold_processes_fini(&world.processes);
    hold_server_close(&world.server);
    sim_finish(world.sim, result);
}

static const scenario_mutation mutations[] = {
    {"no-second-mark", "free an object without reading the hold tables a second time", 100},
    {"no-objection", "hold an object marked for freeing without an objection", 800},
    {"no-put-back", "view an object that is being spilled without an objection", 800},
    {"drop-at-send", "drop an object when its reference is sent, not when it has arrived", 300},
    {"no-sequence-bump", "free an object without a new sequence for its slot", 100},
    {"no-pin-check", "spill an object that a process views", 100},
    {"no-sweep", "keep the hold table of a process that died", 100},
    {"no-half-end", "keep the half-written objects of a process that died", 100},
    {"no-file-end", "keep the spill file of an object without holders", 100},
    {0},
};

const scenario hold_scenario = {
    .name = "hold",
    .doc = "objects in shared memory: held objects stay, all others are freed, whichever process dies",
    .mutations = mutations,
    .run = run};
