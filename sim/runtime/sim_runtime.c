/* sim_runtime.c — see sim_runtime.h: starting and ending its processes. The node is in sim_runtime_node.c. */
#include "sim/runtime/sim_runtime.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/worker/worker.h"
#include "sim/runtime/sim_stream.h"

enum { TICK_US = 50 * 1000 };

static uint64_t process_of(const sim_node *node) {
    return ((uint64_t)sim_node_index(node) + 1) << 32 | sim_node_process(node);
}

bool sim_runtime_is_idle(const sim_runtime *runtime) {
    return runtime->worker.tasks.slab.taken == 0 && !tasks_have_leases(&runtime->worker.tasks) &&
           runtime->worker.objects.count == 0 && list_empty(&runtime->watches) && list_empty(&runtime->place_waits) &&
           list_empty(&runtime->takers) && runtime->worker.readers.by_serial.count == 0;
}

static void address(void *context, uint64_t process, char *out, size_t size) {
    const sim_runtime *runtime = context;
    snprintf(out, size, "%s", sim_node_name(sim_node_at(runtime->world->sim, (size_t)(process >> 32) - 1)));
}

static void stirred(void *context) {}

static void called(void *context) {
    sim_runtime *runtime = context;
    if (!runtime->stopping) sim_node_after(runtime->node, 1, sim_runtime_work_later, runtime, 0);
}

static void end(void *context) {
    sim_runtime *runtime = context;
    if (!runtime->stopping) sim_runtime_world_end(runtime->world, runtime->site);
}

static sim_runtime *sim_runtime_start(sim_node *node, const env *env, sim_runtime_world *world,
                                      sim_runtime_site *site) {
    sim_runtime *runtime = xcalloc(1, sizeof *runtime);
    *runtime = (struct sim_runtime){.world = world, .node = node, .site = site, .process = process_of(node)};
    runtime->tick_at_us = CLOCK_NEVER_US;
    if (site != NULL) site->process = runtime->process;
    list_init(&runtime->watches);
    list_init(&runtime->takers);
    list_init(&runtime->births);
    list_init(&runtime->place_waits);
    list_init(&runtime->group);
    writer writer = writer_of(runtime->about, sizeof runtime->about);
    writer_span32(&writer, (span){0}); /* no namespace of its own; no data for a launcher */
    runtime->host = (core_worker_host){.context = runtime,
                                       .node = sim_node_name(world->node),
                                       .address = address,
                                       .stirred = stirred,
                                       .called = called,
                                       .end = end};
    if (site == NULL) runtime->host.about = span_of(runtime->about, writer_size(&writer));
    int pid = site != NULL ? site->pid : (int)(100000 + sim_node_index(node));
    core_worker_init(&runtime->worker, env, &runtime->host, site != NULL ? WIRE_WORKER : WIRE_DRIVER, pid);
    if (site != NULL) worker_attach(&runtime->worker);
    sim_node_serve(node, &rpc_events, runtime->worker.rpc);
    mr_status status =
        core_worker_start(&runtime->worker, runtime->process, world->checker.large ? &world->arena : NULL);
    MR_ASSERT(status == MR_OK);
    return runtime;
}

static void *driver_start(sim_node *node, const env *env, void *argument) {
    return sim_runtime_start(node, env, argument, NULL);
}

static void *worker_start(sim_node *node, const env *env, void *argument) {
    return sim_runtime_start(node, env, ((sim_runtime_site *)argument)->world, argument);
}

/* A process that dies writes nothing any more: its data in shared memory stays as it is. */
static void leave_memory(store_provider *provider) {
    if (provider->store != NULL) store_client_abandon(provider->store);
    provider->store = provider->store_server.store = NULL;
    store_provider_close(provider, false);
}

static void stop(void *state) {
    sim_runtime *runtime = state;
    runtime->stopping = true;
    sim_stream_drop_all(runtime);
    leave_memory(&runtime->worker.provider);
    invocations_drop(&runtime->group);
    core_worker_end(&runtime->worker, failure_create(MR_CLOSED, "the process ends", "", NULL));
    core_worker_leave(&runtime->worker, false);
    for (size_t i = 0; i < SIM_RUNTIME_KEPT; i++) sim_runtime_drop(runtime, i);
    core_worker_fini(&runtime->worker);
    for (list *at; (at = list_pop_front(&runtime->watches)) != NULL;) free(container_of(at, watch, place));
    sim_runtime_forget_births(runtime);
    free(runtime);
}

static int64_t next_us(void *state) {
    sim_runtime *runtime = state;
    int64_t next_us = rpc_next_us(runtime->worker.rpc);
    if (!tasks_have_leases(&runtime->worker.tasks)) return next_us;
    if (runtime->tick_at_us == CLOCK_NEVER_US) runtime->tick_at_us = sim_node_now_us(runtime->node) + TICK_US;
    return runtime->tick_at_us < next_us ? runtime->tick_at_us : next_us;
}

static void tick(void *state, int64_t now_us) {
    sim_runtime *runtime = state;
    runtime->tick_at_us = CLOCK_NEVER_US;
    (void)core_worker_tick(&runtime->worker, now_us);
}

const sim_program runtime_driver_program = {"driver", driver_start, stop, next_us, tick};
const sim_program runtime_worker_program = {"worker", worker_start, stop, next_us, tick};
