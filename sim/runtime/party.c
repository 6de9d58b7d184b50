/* party.c — see party.h: the life of its processes. The node is in node.c. */
#include "sim/runtime/party.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "runtime/worker/worker.h"
#include "sim/runtime/stream.h"

enum { TICK_US = 50 * 1000 };

static uint64_t process_of(const sim_node *node) {
    return ((uint64_t)sim_node_index(node) + 1) << 32 | sim_node_process(node);
}

bool party_is_idle(const party *party) {
    return party->client.tasks.open == 0 && !tasks_have_leases(&party->client.tasks) &&
           party->client.objects.count == 0 && list_empty(&party->watches) && list_empty(&party->place_waits) &&
           list_empty(&party->takers) && party->client.flows.by_serial.count == 0;
}

static void address(void *context, uint64_t process, char *out, size_t size) {
    const party *party = context;
    snprintf(out, size, "%s", sim_node_name(sim_node_at(party->world->sim, (size_t)(process >> 32) - 1)));
}

static void stirred(void *context) {}

static void called(void *context) {
    party *party = context;
    if (!party->stopping) sim_node_after(party->node, 1, party_work_later, party, 0);
}

static void end(void *context) {
    party *party = context;
    if (!party->stopping) runtime_world_end(party->world, party->seat);
}

static party *party_start(sim_node *node, const env *env, runtime_world *world, seat *seat) {
    party *party = xcalloc(1, sizeof *party);
    *party = (struct party){.world = world, .node = node, .seat = seat, .process = process_of(node)};
    party->tick_at_us = CLOCK_NEVER_US;
    if (seat != NULL) seat->process = party->process;
    list_init(&party->watches);
    list_init(&party->takers);
    list_init(&party->births);
    list_init(&party->place_waits);
    list_init(&party->group);
    writer writer = writer_of(party->about, sizeof party->about);
    writer_span32(&writer, (span){0}); /* no name space of its own; nothing that a launcher needs */
    party->host = (client_host){.context = party,
                                .node = sim_node_name(world->node),
                                .address = address,
                                .stirred = stirred,
                                .called = called,
                                .end = end};
    if (seat == NULL) party->host.about = span_of(party->about, writer_size(&writer));
    int pid = seat != NULL ? seat->pid : (int)(100000 + sim_node_index(node));
    client_init(&party->client, env, &party->host, seat != NULL ? WIRE_WORKER : WIRE_DRIVER, pid);
    if (seat != NULL) worker_attach(&party->client);
    sim_node_serve(node, &calls_events, party->client.calls);
    mr_status status = client_start(&party->client, party->process, world->ledger.large ? &world->arena : NULL);
    MR_ASSERT(status == MR_OK);
    return party;
}

static void *driver_start(sim_node *node, const env *env, void *argument) {
    return party_start(node, env, argument, NULL);
}

static void *worker_start(sim_node *node, const env *env, void *argument) {
    return party_start(node, env, ((seat *)argument)->world, argument);
}

/* A process that dies touches nothing any more: what it has in shared memory stays as it is. */
static void leave_memory(shelf *shelf) {
    if (shelf->store != NULL) store_abandon(shelf->store);
    shelf->store = shelf->vault.store = NULL;
    shelf_close(shelf, false);
}

static void stop(void *state) {
    party *party = state;
    party->stopping = true;
    stream_drop_all(party);
    leave_memory(&party->client.shelf);
    requests_drop(&party->group);
    client_end(&party->client, failure_create(MR_CLOSED, "the process ends", "", NULL));
    client_leave(&party->client, false);
    for (size_t i = 0; i < PARTY_KEPT; i++) party_drop(party, i);
    client_fini(&party->client);
    for (list *at; (at = list_pop_front(&party->watches)) != NULL;) free(container_of(at, watch, place));
    party_forget_births(party);
    free(party);
}

static int64_t next_us(void *state) {
    party *party = state;
    int64_t next_us = calls_next_us(party->client.calls);
    if (!tasks_have_leases(&party->client.tasks)) return next_us;
    if (party->tick_at_us == CLOCK_NEVER_US) party->tick_at_us = sim_node_now_us(party->node) + TICK_US;
    return party->tick_at_us < next_us ? party->tick_at_us : next_us;
}

static void tick(void *state, int64_t now_us) {
    party *party = state;
    party->tick_at_us = CLOCK_NEVER_US;
    (void)client_tick(&party->client, now_us);
}

const sim_program runtime_driver_program = {"driver", driver_start, stop, next_us, tick};
const sim_program runtime_worker_program = {"worker", worker_start, stop, next_us, tick};
