/* actor.c — actors of the runtime scenario: drivers make them and kill them. See party.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "sim/runtime/party.h"

typedef struct birth {
    actor_birth birth;
    list place;
    runtime_actor *actor;
} birth;

static void birth_told(actor_birth *told, const failure *refused) {
    birth *birth = container_of(told, struct birth, birth);
    birth->actor->known = refused == NULL;
    list_remove(&birth->place);
    free(birth);
}

static void make_actor(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    if (ledger->actor_count == RUNTIME_ACTORS_MAX) return;
    size_t index = ledger->actor_count++;
    runtime_actor *actor = &ledger->actors[index];
    *actor = (runtime_actor){.owner = party->process, .restarts = (uint32_t)rng_below(party_rng(party), 3)};
    actor->created_us = sim_now_us(party->world->sim);
    actor->fails = rng_chance(party_rng(party), 0.1);
    actor->detached = rng_chance(party_rng(party), party->world->detached);
    actor->place = party_draw_place(party);
    mr_actor_options options =
        MR_OPTIONS(mr_actor_options, .max_restarts = (int)actor->restarts, .detached = actor->detached);
    actor_plan plan = {.class_name = "sim_actor", .options = &options};
    if (actor->place != SIZE_MAX) {
        if (resources_set(&plan.need, "cpu", index % 2 == 0 ? 1 : 0.5) != MR_OK) MR_UNREACHABLE();
        plan.need.group = wire_group_key(ledger->places[actor->place].id);
        sim_count(party->world->sim, "actors in groups", 1);
    }
    mr_arg args[] = {mr_int((int64_t)index)};
    birth *birth = xcalloc(1, sizeof *birth);
    birth->birth.told = birth_told;
    birth->actor = actor;
    list_push_back(&party->births, &birth->place);
    if (actors_create(&party->client.actors, &plan, args, 1, &birth->birth, &actor->id) != MR_OK) { /* it is over */
        list_remove(&birth->place);
        free(birth);
    }
    sim_count(party->world->sim, "actors", 1);
}

static void kill_actor(party *party, runtime_actor *actor) {
    uint8_t fields[16];
    writer writer = writer_of(fields, sizeof fields);
    wire_put_actor(&writer, actor->id);
    actor->killed = true;
    if (!actors_kill_unborn(&party->client.actors, actor->id)) /* as mr_actor_kill does */
        client_tell_node(&party->client, NODE_ACTOR_KILL, span_of(fields, sizeof fields));
}

void party_actor(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    size_t index = rng_below(party_rng(party), RUNTIME_ACTORS_MAX);
    if (index >= ledger->actor_count || rng_chance(party_rng(party), 0.5))
        make_actor(party);
    else if (ledger->actors[index].owner == party->process && rng_chance(party_rng(party), 0.3))
        kill_actor(party, &ledger->actors[index]);
}

void party_kill_actors(party *party) {
    runtime_ledger *ledger = &party->world->ledger;
    for (size_t i = 0; i < ledger->actor_count; i++)
        if (ledger->actors[i].owner == party->process || !runtime_ledger_is_alive(ledger, ledger->actors[i].owner))
            kill_actor(party, &ledger->actors[i]);
}

void party_forget_births(party *party) {
    for (list *at; (at = list_pop_front(&party->births)) != NULL;) free(container_of(at, birth, place));
}
