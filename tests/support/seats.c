/* seats.c — see seats.h. */
#include "tests/support/seats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static void post(seats *world, uint32_t from, uint32_t to, const part *part) {
    assert_true(world->count < SEATS_QUEUE);
    envelope *envelope = &world->queue[world->count++];
    *envelope = (struct envelope){from, to, *part, bale_copy(part->payload)};
    envelope->part.payload = bale_bytes(envelope->bale);
    envelope->part.terms = (span){0};
}

static void to_server(void *context, uint32_t server, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, server, part);
}
static void to_rank(void *context, uint32_t rank, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, SEATS_SERVERS + rank, part);
}
static void to_director(void *context, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, 100, part);
}

static void to_head(void *context, uint32_t slot, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, 200 + slot, part);
}

static void to_depot(void *context, const part *part) {
    seat *seat = context;
    post(seat->world, seat->id, 300, part);
}

int seats_setup(void **state) {
    seats *world = xcalloc(1, sizeof *world);
    world->chart = (chart){.copies = 3, .rank_count = SEATS_RANKS, .slot_count = 2, .birth = 1};
    world->chart.slots = xcalloc(2, sizeof(chart_slot));
    for (uint32_t i = 0; i < SEATS_SERVERS; i++) {
        seat *seat = &world->seat[i];
        *seat = (struct seat){.world = world, .id = i};
        seat->host = (replica_host){.values = &float_machine_ops,
                                    .server = i,
                                    .incarnation = 10 + i,
                                    .to_server = to_server,
                                    .to_rank = to_rank,
                                    .to_director = to_director,
                                    .to_head = to_head,
                                    .to_depot = to_depot,
                                    .context = seat};
        seat->replica = replica_create(&seat->host, 0);
    }
    *state = world;
    return 0;
}

int seats_teardown(void **state) {
    seats *world = *state;
    for (uint32_t i = 0; i < SEATS_SERVERS; i++) replica_destroy(world->seat[i].replica);
    for (size_t i = 0; i < world->count; i++) bale_unref(world->queue[i].bale);
    chart_fini(&world->chart);
    free(world);
    return 0;
}

void seats_chain(seats *world, uint32_t index, const uint32_t *servers, uint8_t count) {
    chart_slot before = world->chart.slots[index], *slot = &world->chart.slots[index];
    uint64_t number = ++world->number;
    *slot = (chart_slot){.epoch = number, .count = count};
    world->chart.number = number;
    for (uint8_t i = 0; i < count; i++) {
        int place = chart_place(&before, servers[i], 10 + servers[i]);
        uint64_t since = place < 0 ? number : before.chain[place].since;
        slot->chain[i] = (chart_member){servers[i], 10 + servers[i], since};
    }
}

void seats_enter(seats *world, uint32_t server) { replica_enter(world->seat[server].replica, &world->chart); }

void seats_enter_all(seats *world) {
    for (uint32_t i = 0; i < SEATS_SERVERS; i++) seats_enter(world, i);
}

void seats_settle(seats *world, int deaf) {
    for (; world->first < world->count; world->first++) {
        envelope envelope = world->queue[world->first];
        if (envelope.to >= SEATS_SERVERS || (int)envelope.to == deaf) continue;
        replica_take(world->seat[envelope.to].replica, envelope.from, &envelope.part, envelope.bale);
    }
}

void seats_ask(seats *world, uint32_t server, part part) {
    double values[FLOAT_MACHINE_WIDTH] = {part.rank + 1, 2, 3};
    part.epoch = world->number;
    uint8_t terms[LEDGER_TERMS_MAX];
    if (part.kind == PART_PUSH) {
        part.payload = span_of(values, sizeof values);
        part.terms = span_of(terms, ledger_write_terms(&world->terms, SEATS_RANKS, terms));
    }
    bale *bale = bale_copy(part.payload);
    part.payload = bale_bytes(bale);
    replica_take(world->seat[server].replica, SEATS_SERVERS + part.rank, &part, bale);
    bale_unref(bale);
}

void seats_push(seats *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev) {
    seats_ask(world, server, (part){.kind = PART_PUSH, .rank = rank, .name = name, .prev = prev});
}

void seats_tick_of(seats *world, uint32_t server, uint32_t rank, uint64_t name, uint64_t prev) {
    part part = {.kind = PART_PUSH, .rank = rank, .epoch = world->number, .name = name, .prev = prev};
    replica_take(world->seat[server].replica, SEATS_SERVERS + rank, &part, NULL);
}

size_t seats_told(const seats *world, uint32_t rank, part_kind kind, part_status status, uint64_t name) {
    size_t count = 0;
    for (size_t i = 0; i < world->count; i++) {
        const envelope *envelope = &world->queue[i];
        count += envelope->to == SEATS_SERVERS + rank && envelope->part.kind == kind &&
                 envelope->part.status == status && envelope->part.name == name;
    }
    return count;
}

replica_look seats_look(const seats *world, uint32_t server) {
    replica_check(world->seat[server].replica);
    return replica_look_at(world->seat[server].replica);
}

void seats_start(seats *world, uint8_t count) {
    seats_chain(world, 0, (uint32_t[]){0, 1, 2}, count);
    seats_enter_all(world);
    seats_settle(world, -1);
    assert_int_equal(seats_look(world, 0).phase, REPLICA_SERVING);
}

void seats_start_rounds(seats *world, uint64_t members, bool waits) {
    world->chart.consistency.kind = CONSISTENCY_BSP;
    world->terms = (ledger_terms){.waits = waits, .members = {{members}}};
    seats_start(world, 2);
}

void seats_say(seats *world, part_kind kind, uint32_t rank, uint64_t round, uint64_t set) {
    ledger_terms terms = {.members = {{set}}};
    uint8_t bytes[LEDGER_TERMS_MAX];
    part part = {.kind = (uint8_t)kind, .rank = rank, .epoch = world->number, .name = round};
    if (kind == PART_TERMS) part.terms = span_of(bytes, ledger_write_terms(&terms, SEATS_RANKS, bytes));
    replica_take(world->seat[0].replica, 9, &part, NULL);
    seats_settle(world, -1);
}
