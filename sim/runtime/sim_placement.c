/* sim_placement.c — placement groups of the runtime scenario: drivers create them, wait for them, submit tasks and
 * actors into them, and remove them. See sim_runtime.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "miniray/placement.h"
#include "sim/runtime/sim_runtime.h"

typedef struct place_wait { /* a wait for the node's confirmation that it is placed */
    wire_call call;
    list place;
    sim_runtime *runtime;
    size_t index;
} place_wait;

static void make(sim_runtime *runtime) {
    runtime_checker *checker = &runtime->world->checker;
    if (checker->place_count == RUNTIME_PLACES_MAX) return;
    runtime_place *place = &checker->places[checker->place_count++];
    *place = (runtime_place){.id = {{1000 + checker->place_count, checker->place_count}}, .owner = runtime->process};
    place->detached = rng_chance(sim_runtime_rng(runtime), 0.3);
    uint32_t count = 1 + (uint32_t)rng_below(sim_runtime_rng(runtime), 2);
    uint8_t fields[1024];
    writer writer = writer_of(fields, sizeof fields);
    resources bundle = {0};
    if (resources_set(&bundle, "cpu", 1) != MR_OK) MR_UNREACHABLE();
    writer_u64(&writer, place->id.word[0]);
    writer_u64(&writer, place->id.word[1]);
    writer_u8(&writer, MR_PACK);
    writer_u8(&writer, place->detached);
    writer_span32(&writer, (span){0}); /* no name */
    writer_u32(&writer, count);
    for (uint32_t i = 0; i < count; i++) resources_encode(&bundle, &writer);
    placement_cache_create(&runtime->worker.cache, place->id, span_of(fields, writer_size(&writer)));
    sim_count(runtime->world->sim, "placement groups", 1);
}

static span write_id(uint8_t fields[16], const runtime_place *place) {
    writer writer = writer_of(fields, 16);
    writer_u64(&writer, place->id.word[0]);
    writer_u64(&writer, place->id.word[1]);
    return span_of(fields, 16);
}

static void remove_one(sim_runtime *runtime, runtime_place *place) {
    uint8_t fields[16];
    place->removed = true;
    core_worker_tell_node(&runtime->worker, NODE_GROUP_REMOVE, write_id(fields, place));
    placement_cache_forget(&runtime->worker.cache, wire_group_key(place->id));
}

static void waited(wire_call *call, const rpc_call_result *result) {
    place_wait *wait = container_of(call, place_wait, call);
    runtime_checker *checker = &wait->runtime->world->checker;
    const runtime_place *place = &checker->places[wait->index];
    list_remove(&wait->place);
    bool its_own = place->owner == wait->runtime->process; /* a group of another process may not exist yet */
    if (its_own && !wait->runtime->stopping && result->status == MR_NOT_FOUND && !place->removed)
        sim_violation(checker->sim, "who waits for placement group %zu is told that it is gone", wait->index);
    sim_count(checker->sim, result->status == MR_OK ? "placed" : "not placed", 1);
    wire_call_end(call);
}

static void wait_free(wire_call *call) { free(container_of(call, place_wait, call)); }

static void wait_for(sim_runtime *runtime, size_t index) {
    uint8_t fields[16];
    const runtime_place *place = &runtime->world->checker.places[index];
    bool known = placement_cache_has(&runtime->worker.cache, place->id);
    if (known && (place->removed || place->owner != runtime->process))
        sim_violation(runtime->world->sim, "placement group %zu is known to be placed, and is gone", index);
    if (known) sim_count(runtime->world->sim, "placed, without a question", 1);
    wire_message message = {.fields = write_id(fields, place)};
    place_wait *wait = xcalloc(1, sizeof *wait);
    *wait = (place_wait){.call = {.done = waited, .free = wait_free}, .runtime = runtime, .index = index};
    list_push_back(&runtime->place_waits, &wait->place);
    if (core_worker_ask_node(&runtime->worker, NODE_GROUP_WAIT, &message, &wait->call) == MR_OK) return;
    list_remove(&wait->place); /* no room, or the group is gone */
    free(wait);
}

size_t sim_runtime_draw_place(sim_runtime *runtime) {
    const runtime_checker *checker = &runtime->world->checker;
    if (checker->place_count == 0 || !rng_chance(sim_runtime_rng(runtime), runtime->world->places)) return SIZE_MAX;
    size_t index = rng_below(sim_runtime_rng(runtime), checker->place_count);
    return checker->places[index].owner == runtime->process ? index : SIZE_MAX;
}

static bool is_its(const sim_runtime *runtime, const runtime_place *place) {
    const runtime_checker *checker = &runtime->world->checker;
    return place->owner == runtime->process || !runtime_checker_is_alive(checker, place->owner);
}

void sim_runtime_place(sim_runtime *runtime) {
    runtime_checker *checker = &runtime->world->checker;
    size_t index = rng_below(sim_runtime_rng(runtime), RUNTIME_PLACES_MAX);
    uint64_t what = rng_below(sim_runtime_rng(runtime), 4);
    if (index >= checker->place_count)
        make(runtime);
    else if (what < 2)
        wait_for(runtime, index);
    else if (what == 2 && is_its(runtime, &checker->places[index]))
        remove_one(runtime, &checker->places[index]);
}

void sim_runtime_remove_places(sim_runtime *runtime) {
    runtime_checker *checker = &runtime->world->checker;
    for (size_t i = 0; i < checker->place_count; i++)
        if (is_its(runtime, &checker->places[i])) remove_one(runtime, &checker->places[i]);
}
