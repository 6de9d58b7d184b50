/* replica_fixture.c — see replica_fixture.h. */
#include "tests/support/replica_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static void post(replica_fixture *world, uint32_t from, uint32_t to, const slot_message *message) {
    assert_true(world->count < REPLICA_FIXTURE_QUEUE);
    envelope *envelope = &world->queue[world->count++];
    *envelope = (struct envelope){from, to, *message, shared_bytes_copy(message->payload)};
    envelope->message.payload = shared_bytes_bytes(envelope->bytes);
    envelope->message.terms = (span){0};
}

static void to_server(void *context, uint32_t server, const slot_message *message) {
    site *site = context;
    post(site->world, site->id, server, message);
}
static void to_rank(void *context, uint32_t rank, const slot_message *message) {
    site *site = context;
    post(site->world, site->id, REPLICA_FIXTURE_SERVERS + rank, message);
}
static void to_controller(void *context, const slot_message *message) {
    site *site = context;
    post(site->world, site->id, 100, message);
}

static void to_head(void *context, uint32_t slot, const slot_message *message) {
    site *site = context;
    post(site->world, site->id, 200 + slot, message);
}

static void to_checkpoints(void *context, const slot_message *message) {
    site *site = context;
    post(site->world, site->id, 300, message);
}

int replica_fixture_setup(void **state) {
    replica_fixture *world = xcalloc(1, sizeof *world);
    world->map = (cluster_map){.copies = 3, .rank_count = REPLICA_FIXTURE_RANKS, .slot_count = 2, .birth = 1};
    world->map.slots = xcalloc(2, sizeof(cluster_map_slot));
    for (uint32_t i = 0; i < REPLICA_FIXTURE_SERVERS; i++) {
        site *site = &world->site[i];
        *site = (struct site){.world = world, .id = i};
        site->host = (replica_host){.values = &float_machine_ops,
                                    .server = i,
                                    .incarnation = 10 + i,
                                    .to_server = to_server,
                                    .to_rank = to_rank,
                                    .to_controller = to_controller,
                                    .to_head = to_head,
                                    .to_checkpoints = to_checkpoints,
                                    .context = site};
        site->replica = replica_create(&site->host, 0);
    }
    *state = world;
    return 0;
}

int replica_fixture_teardown(void **state) {
    replica_fixture *world = *state;
    for (uint32_t i = 0; i < REPLICA_FIXTURE_SERVERS; i++) replica_destroy(world->site[i].replica);
    for (size_t i = 0; i < world->count; i++) shared_bytes_unref(world->queue[i].bytes);
    cluster_map_fini(&world->map);
    free(world);
    return 0;
}

void replica_fixture_chain(replica_fixture *world, uint32_t index, const uint32_t *servers, uint8_t count) {
    cluster_map_slot before = world->map.slots[index], *slot = &world->map.slots[index];
    uint64_t number = ++world->number;
    *slot = (cluster_map_slot){.epoch = number, .count = count};
    world->map.number = number;
    for (uint8_t i = 0; i < count; i++) {
        int place = cluster_map_place(&before, servers[i], 10 + servers[i]);
        uint64_t since = place < 0 ? number : before.chain[place].since;
        slot->chain[i] = (cluster_map_member){servers[i], 10 + servers[i], since};
    }
}

void replica_fixture_enter(replica_fixture *world, uint32_t server) {
    replica_enter(world->site[server].replica, &world->map);
}

void replica_fixture_enter_all(replica_fixture *world) {
    for (uint32_t i = 0; i < REPLICA_FIXTURE_SERVERS; i++) replica_fixture_enter(world, i);
}

void replica_fixture_settle(replica_fixture *world, int deaf) {
    for (; world->first < world->count; world->first++) {
        envelope envelope = world->queue[world->first];
        if (envelope.to >= REPLICA_FIXTURE_SERVERS || (int)envelope.to == deaf) continue;
        replica_take(world->site[envelope.to].replica, envelope.from, &envelope.message, envelope.bytes);
    }
}

void replica_fixture_ask(replica_fixture *world, uint32_t server, slot_message message) {
    double values[FLOAT_MACHINE_WIDTH] = {message.rank + 1, 2, 3};
    message.epoch = world->number;
    uint8_t terms[ROUND_STATE_TERMS_MAX];
    if (message.kind == SLOT_MESSAGE_PUSH) {
        message.payload = span_of(values, sizeof values);
        message.terms = span_of(terms, round_state_write_terms(&world->terms, REPLICA_FIXTURE_RANKS, terms));
    }
    shared_bytes *bytes = shared_bytes_copy(message.payload);
    message.payload = shared_bytes_bytes(bytes);
    replica_take(world->site[server].replica, REPLICA_FIXTURE_SERVERS + message.rank, &message, bytes);
    shared_bytes_unref(bytes);
}

void replica_fixture_push(replica_fixture *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev) {
    replica_fixture_ask(world, server,
                        (slot_message){.kind = SLOT_MESSAGE_PUSH, .rank = rank, .name = name, .prev = prev});
}

void replica_fixture_tick_of(replica_fixture *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev) {
    slot_message message = {
        .kind = SLOT_MESSAGE_PUSH, .rank = rank, .epoch = world->number, .name = name, .prev = prev};
    replica_take(world->site[server].replica, REPLICA_FIXTURE_SERVERS + rank, &message, NULL);
}

size_t replica_fixture_told(const replica_fixture *world, uint32_t rank, slot_message_kind kind,
                            slot_message_status status, uint64_t name) {
    size_t count = 0;
    for (size_t i = 0; i < world->count; i++) {
        const envelope *envelope = &world->queue[i];
        count += envelope->to == REPLICA_FIXTURE_SERVERS + rank && envelope->message.kind == kind &&
                 envelope->message.status == status && envelope->message.name == name;
    }
    return count;
}

replica_look replica_fixture_look(const replica_fixture *world, uint32_t server) {
    replica_check(world->site[server].replica);
    return replica_look_at(world->site[server].replica);
}

void replica_fixture_start(replica_fixture *world, uint8_t count) {
    replica_fixture_chain(world, 0, (uint32_t[]){0, 1, 2}, count);
    replica_fixture_enter_all(world);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_look(world, 0).phase, REPLICA_SERVING);
}

void replica_fixture_start_rounds(replica_fixture *world, uint64_t members, bool waits) {
    world->map.consistency.kind = CONSISTENCY_BSP;
    world->terms = (round_state_terms){.waits = waits, .members = {{members}}};
    replica_fixture_start(world, 2);
}

void replica_fixture_say(replica_fixture *world, slot_message_kind kind, uint32_t rank, uint64_t round, uint64_t set) {
    round_state_terms terms = {.members = {{set}}};
    uint8_t bytes[ROUND_STATE_TERMS_MAX];
    slot_message message = {.kind = (uint8_t)kind, .rank = rank, .epoch = world->number, .name = round};
    if (kind == SLOT_MESSAGE_TERMS)
        message.terms = span_of(bytes, round_state_write_terms(&terms, REPLICA_FIXTURE_RANKS, bytes));
    replica_take(world->site[0].replica, 9, &message, NULL);
    replica_fixture_settle(world, -1);
}
