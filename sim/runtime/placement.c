/* placement.c — placement groups of the runtime scenario: drivers make them, wait for them, put tasks into them
 * and actors, and remove them. See party.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "miniray/placement.h"
#include "sim/runtime/party.h"

typedef struct place_wait { /* for the node's word that it is placed */
    wire_call call;
    list place;
    party *party;
    size_t index;
} place_wait;

static void make(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    if (ledger->place_count == RUNTIME_PLACES_MAX) return;
    runtime_place *place = &ledger->places[ledger->place_count++];
    *place = (runtime_place){.id = {{1000 + ledger->place_count, ledger->place_count}}, .owner = party->process};
    place->detached = rng_chance(party_rng(party), 0.3);
    uint32_t count = 1 + (uint32_t)rng_below(party_rng(party), 2);
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
    placed_create(&party->client.placed, place->id, span_of(fields, writer_size(&writer)));
    sim_count(party->world->sim, "placement groups", 1);
}

static span write_id(uint8_t fields[16], const runtime_place *place) {
    writer writer = writer_of(fields, 16);
    writer_u64(&writer, place->id.word[0]);
    writer_u64(&writer, place->id.word[1]);
    return span_of(fields, 16);
}

static void remove_one(party *party, runtime_place *place) {
    uint8_t fields[16];
    place->removed = true;
    client_tell_node(&party->client, NODE_GROUP_REMOVE, write_id(fields, place));
    placed_forget(&party->client.placed, wire_group_key(place->id));
}

static void waited(wire_call *call, const call_result *result) {
    place_wait *wait = container_of(call, place_wait, call);
    runtime_ledger *ledger = &wait->party->world->ledger;
    const runtime_place *place = &ledger->places[wait->index];
    list_remove(&wait->place);
    bool its_own = place->owner == wait->party->process; /* another's may not be there yet */
    if (its_own && !wait->party->stopping && result->status == MR_NOT_FOUND && !place->removed)
        sim_violation(ledger->sim, "who waits for placement group %zu is told that it is gone", wait->index);
    sim_count(ledger->sim, result->status == MR_OK ? "placed" : "not placed", 1);
    wire_call_end(call);
}

static void wait_free(wire_call *call) { free(container_of(call, place_wait, call)); }

static void wait_for(party *party, size_t index) {
    uint8_t fields[16];
    const runtime_place *place = &party->world->ledger.places[index];
    bool known = placed_has(&party->client.placed, place->id);
    if (known && (place->removed || place->owner != party->process))
        sim_violation(party->world->sim, "placement group %zu is known to be placed, and is gone", index);
    if (known) sim_count(party->world->sim, "placed, without a question", 1);
    wire_message message = {.fields = write_id(fields, place)};
    place_wait *wait = xcalloc(1, sizeof *wait);
    *wait = (place_wait){.call = {.done = waited, .free = wait_free}, .party = party, .index = index};
    list_push_back(&party->place_waits, &wait->place);
    if (client_ask_node(&party->client, NODE_GROUP_WAIT, &message, &wait->call) == MR_OK) return;
    list_remove(&wait->place); /* no room, or it is over */
    free(wait);
}

size_t party_draw_place(party *party) {
    const runtime_ledger *ledger = &party->world->ledger;
    if (ledger->place_count == 0 || !rng_chance(party_rng(party), party->world->places)) return SIZE_MAX;
    size_t index = rng_below(party_rng(party), ledger->place_count);
    return ledger->places[index].owner == party->process ? index : SIZE_MAX;
}

static bool is_its(const party *party, const runtime_place *place) {
    const runtime_ledger *ledger = &party->world->ledger;
    return place->owner == party->process || !runtime_ledger_is_alive(ledger, place->owner);
}

void party_place(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    size_t index = rng_below(party_rng(party), RUNTIME_PLACES_MAX);
    uint64_t what = rng_below(party_rng(party), 4);
    if (index >= ledger->place_count)
        make(party);
    else if (what < 2)
        wait_for(party, index);
    else if (what == 2 && is_its(party, &ledger->places[index]))
        remove_one(party, &ledger->places[index]);
}

void party_remove_places(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    for (size_t i = 0; i < ledger->place_count; i++)
        if (is_its(party, &ledger->places[i])) remove_one(party, &ledger->places[i]);
}
