/* sim_actor.c — actors of the runtime scenario: drivers create and kill them. See sim_runtime.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/runtime/sim_runtime.h"

typedef struct birth {
    actor_birth birth;
    list place;
    runtime_actor *actor;
} birth;

static void birth_told(actor_birth *told, failure *refused) {
    birth *birth = container_of(told, struct birth, birth);
    birth->actor->known = refused == NULL;
    list_remove(&birth->place);
    free(birth);
}

static void make_actor(sim_runtime *runtime) {
    runtime_checker *checker = &runtime->world->checker;
    if (checker->actor_count == RUNTIME_ACTORS_MAX) return;
    size_t index = checker->actor_count++;
    runtime_actor *actor = &checker->actors[index];
    *actor = (runtime_actor){.owner = runtime->process, .restarts = (uint32_t)rng_below(sim_runtime_rng(runtime), 3)};
    if (runtime->world->outage_us[1] != 0 && actor->restarts > 0) actor->restarts = MR_NO_LIMIT;
    actor->created_us = sim_now_us(runtime->world->sim);
    actor->fails = rng_chance(sim_runtime_rng(runtime), 0.1);
    actor->detached = rng_chance(sim_runtime_rng(runtime), runtime->world->detached);
    actor->place = sim_runtime_draw_place(runtime);
    mr_actor_options options =
        MR_OPTIONS(mr_actor_options, .max_restarts = (int)actor->restarts, .detached = actor->detached);
    actor_plan plan = {.class_name = "sim_actor", .options = &options};
    if (actor->place != SIZE_MAX) {
        if (resources_set(&plan.need, "cpu", index % 2 == 0 ? 1 : 0.5) != MR_OK) MR_UNREACHABLE();
        plan.need.group = wire_group_key(checker->places[actor->place].id);
        sim_count(runtime->world->sim, "actors in groups", 1);
    }
    mr_arg args[] = {mr_int((int64_t)index)};
    birth *birth = xcalloc(1, sizeof *birth);
    birth->birth.told = birth_told;
    birth->actor = actor;
    list_push_back(&runtime->births, &birth->place);
    if (actors_create(&runtime->worker.actors, &plan, args, 1, &birth->birth, &actor->id) != MR_OK) { /* node gone */
        list_remove(&birth->place);
        free(birth);
    }
    sim_count(runtime->world->sim, "actors", 1);
}

static void kill_actor(sim_runtime *runtime, runtime_actor *actor) {
    uint8_t fields[16];
    writer writer = writer_of(fields, sizeof fields);
    wire_put_actor(&writer, actor->id);
    actor->killed = true;
    if (!actors_kill_unborn(&runtime->worker.actors, actor->id)) /* as mr_actor_kill does */
        core_worker_tell_node(&runtime->worker, NODE_ACTOR_KILL, span_of(fields, sizeof fields));
}

void sim_runtime_actor(sim_runtime *runtime) {
    runtime_checker *checker = &runtime->world->checker;
    size_t index = rng_below(sim_runtime_rng(runtime), RUNTIME_ACTORS_MAX);
    if (index >= checker->actor_count || rng_chance(sim_runtime_rng(runtime), 0.5))
        make_actor(runtime);
    else if (checker->actors[index].owner == runtime->process && rng_chance(sim_runtime_rng(runtime), 0.3))
        kill_actor(runtime, &checker->actors[index]);
}

void sim_runtime_kill_actors(sim_runtime *runtime) {
    runtime_checker *checker = &runtime->world->checker;
    for (size_t i = 0; i < checker->actor_count; i++)
        if (checker->actors[i].owner == runtime->process ||
            !runtime_checker_is_alive(checker, checker->actors[i].owner))
            kill_actor(runtime, &checker->actors[i]);
}

void sim_runtime_forget_births(sim_runtime *runtime) {
    for (list *at; (at = list_pop_front(&runtime->births)) != NULL;) free(container_of(at, birth, place));
}
