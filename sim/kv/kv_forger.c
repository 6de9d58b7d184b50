/* kv_forger.c — see kv_forger.h. */
#include "sim/kv/kv_forger.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kv/control/control_wire.h"
#include "ps/consistency.h"
#include "ps/slot_message.h"

#define ACT_US INT64_C(30000)
enum { NUMBER = 99, PARTS = 3 }; /* NUMBER: its number as a worker, of which there are fewer */

typedef struct forger {
    kv_deployment_site *site;
    van *van;
    cluster_map map; /* as the scheduler shows it */
    int64_t next_us;
    uint64_t asked;
} forger;

static rng *dice(const forger *forger) { return sim_rng(forger->site->deployment->sim); }

static void take(void *context, link_id link, span bytes, shared_bytes *shared) {
    forger *forger = context;
    control_message message;
    cluster_map map = {0};
    if (control_message_decode(bytes, &message) != MR_OK || message.kind != CONTROL_MAP_VIEW) return;
    if (message.value.size == 0 || cluster_map_follow(&map, message.value) != MR_OK) return;
    cluster_map_fini(&forger->map);
    forger->map = map;
}

static void send_packet(forger *forger, const char *to, uint32_t who, uint64_t incarnation,
                        const slot_message *messages, size_t count) {
    slot_packet packet = {0};
    uint8_t bytes[SLOT_MESSAGE_HEAD_MAX];
    slot_message_head head = {
        .generation = forger->map.generation, .number = forger->map.number, .incarnation = incarnation, .who = who};
    snprintf(head.address, sizeof head.address, "%s", sim_node_name(forger->site->node));
    slot_packet_begin_written(&packet, span_of(bytes, slot_message_write_head(&head, bytes)));
    for (size_t i = 0; i < count; i++) slot_packet_add(&packet, &messages[i]);
    van_send(forger->van, to, slot_packet_end(&packet));
    slot_packet_fini(&packet);
}

/* A node of the deployment. */
static const char *draw_target(const forger *forger) {
    const kv_deployment *deployment = forger->site->deployment;
    uint64_t at = rng_below(dice(forger), 1 + deployment->servers + deployment->workers);
    if (at == 0) return KV_DEPLOYMENT_SCHEDULER;
    at--;
    return sim_node_name(at < deployment->servers ? deployment->server_sites[at].node
                                                  : deployment->worker_sites[at - deployment->servers].node);
}

/* With another generation, all replicas of the true one would be dropped. */
static void forge_map(forger *forger) {
    cluster_map map = {0};
    size_t size;
    cluster_map_copy(&map, &forger->map);
    map.number += 1 + rng_below(dice(forger), 1000);
    map.birth = map.number;
    map.generation = rng_next(dice(forger));
    map.first_term = 0;
    for (uint32_t i = 0; i < map.rank_count; i++) map.ranks[i] = (cluster_map_rank){0};
    for (uint32_t i = 0; i < map.slot_count; i++) {
        cluster_map_slot *slot = &map.slots[i];
        slot->epoch = map.number;
        for (size_t k = 0; k < slot->count; k++) slot->chain[k].since = map.number;
    }
    for (uint32_t i = 0; i < map.server_count; i++) map.servers[i].since = map.number;
    uint8_t *bytes = cluster_map_write(&map, 0, &size);
    const slot_message message = {.kind = SLOT_MESSAGE_MAP, .payload = span_of(bytes, size)};
    bool open = rng_chance(dice(forger), 0.5); /* in its own name */
    uint32_t who = open ? SLOT_MESSAGE_WORKER | NUMBER : SLOT_MESSAGE_CONTROLLER;
    send_packet(forger, draw_target(forger), who, open ? 1 : 0, &message, 1);
    sim_count(forger->site->deployment->sim, "false maps", 1);
    free(bytes);
    cluster_map_fini(&map);
}

/* Acknowledges every push that a rank may have sent to a slot. */
static void forge_words(forger *forger) {
    const kv_deployment *deployment = forger->site->deployment;
    const cluster_map *map = &forger->map;
    uint32_t rank = (uint32_t)rng_below(dice(forger), deployment->workers);
    uint32_t slot = (uint32_t)rng_below(dice(forger), map->slot_count);
    if (map->slots[slot].count == 0) return;
    const cluster_map_member *head = &map->slots[slot].chain[0];
    slot_message *words = xcalloc(deployment->steps * PARTS, sizeof *words);
    size_t count = 0;
    for (uint64_t step = 1; step <= deployment->steps; step++)
        for (uint32_t part = 1; part <= PARTS; part++)
            words[count++] = (slot_message){.kind = SLOT_MESSAGE_PUSHED,
                                            .status = SLOT_MESSAGE_OK,
                                            .slot = slot,
                                            .rank = rank,
                                            .epoch = map->slots[slot].epoch,
                                            .name = part == PARTS ? seq_tick(step) : seq_of(step, part)};
    send_packet(forger, sim_node_name(deployment->worker_sites[rank].node), head->server, head->incarnation, words,
                count);
    sim_count(deployment->sim, "false words", 1);
    free(words);
}

static int64_t host_next_us(void *context) { return ((forger *)context)->next_us; }

static void host_tick(void *context, int64_t now_us) {
    forger *forger = context;
    forger->next_us = now_us + rng_between(dice(forger), ACT_US / 2, ACT_US);
    van_send_value(forger->van, KV_DEPLOYMENT_SCHEDULER, CONTROL_LOOK, (stamp){.id = ++forger->asked}, (span){0});
    if (forger->map.number == 0) return;
    if (rng_chance(dice(forger), 0.5))
        forge_map(forger);
    else
        forge_words(forger);
}

static const van_host host = {.take = take, .next_us = host_next_us, .tick = host_tick};

static void *start(sim_node *node, const env *env, void *argument) {
    forger *forger = xcalloc(1, sizeof *forger);
    van_options options = {.listen = sim_node_name(node), .scheduler = KV_DEPLOYMENT_SCHEDULER, .env = env};
    forger->site = argument;
    forger->site->node = node;
    if (van_open(&options, &host, forger, &forger->van) != MR_OK) {
        sim_violation(forger->site->deployment->sim, "the forger cannot begin");
        return forger;
    }
    sim_node_serve(node, &messenger_events, van_messenger(forger->van));
    return forger;
}

static void stop(void *state) {
    forger *forger = state;
    van_close(forger->van);
    cluster_map_fini(&forger->map);
    free(forger);
}

static int64_t next_us(void *state) { return van_due_us(((forger *)state)->van); }
static void tick(void *state, int64_t now_us) { van_turn(((forger *)state)->van); }

const sim_program kv_forger_program = {"forger", start, stop, next_us, tick};
