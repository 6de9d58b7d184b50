/* slot_server_test.c — one server alone: which messages reach its replicas, and which senders are accepted. */
#include "ps/slot_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cluster/metadata_store.h"
#include "ps/round_state.h"
#include "tests/support/message_recorder.h"
#include "tests/support/replica_fixture.h" /* float_machine */

typedef struct world {
    slot_server *server;
    message_recorder recorder;
    uint64_t number, generation;
    bool full;
    uint64_t replaced; /* the incarnation in on_replaced */
    int deposed;
} world;

static void on_send(void *context, const char *address, span bytes) {
    message_recorder_take(&((world *)context)->recorder, address, bytes);
}

static bool is_full(void *context) { return ((world *)context)->full; }
static void on_replaced(void *context, uint64_t incarnation) { ((world *)context)->replaced = incarnation; }

static void on_deposed(void *context) { ((world *)context)->deposed++; }

static void hear(world *world, uint32_t who, uint64_t incarnation, const char *address, const slot_message *message) {
    slot_message_head head = {
        .generation = world->generation, .number = world->number, .incarnation = incarnation, .who = who};
    strcpy(head.address, address);
    message_recorder_batch batch = message_recorder_say(&head, message);
    slot_server_take_bytes(world->server, batch.bytes, NULL);
    slot_server_check(world->server);
    message_recorder_free(&batch);
}

/* Takes a cluster map in which two ranks have terms equal to its number. */
static void hear_map_as(world *world, cluster_map *map) {
    for (uint32_t i = 0; i < 2; i++) cluster_map_put_rank(map, i, i, 100 + i);
    slot_message_head head = {
        .generation = world->generation, .number = map->number, .who = SLOT_MESSAGE_CONTROLLER, .address = "d"};
    message_recorder_batch batch = message_recorder_map(&head, map);
    slot_server_take_bytes(world->server, batch.bytes, NULL);
    message_recorder_free(&batch);
    cluster_map_fini(map);
}

/* Takes a cluster map with slots on this server; in BSP the last is the round state. */
static void hear_map_of(world *world, uint64_t epoch, consistency_kind kind, uint32_t slots) {
    uint64_t number = ++world->number;
    cluster_map map = {
        .number = number, .generation = world->generation, .birth = epoch, .rank_count = 2, .slot_count = slots};
    map.consistency.kind = kind;
    map.slots = xcalloc(slots, sizeof *map.slots);
    for (uint32_t i = 0; i < slots; i++)
        map.slots[i] = (cluster_map_slot){.epoch = epoch, .count = 1, .chain = {{3, 30, epoch}}};
    cluster_map_put_server(&map, 3, 30, "s3");
    hear_map_as(world, &map);
}

/* Takes a cluster map with one slot on two servers since that map, this one first or second. */
static void hear_pair_of(world *world, uint64_t birth, bool first) {
    uint64_t number = ++world->number;
    cluster_map map = {
        .number = number, .generation = world->generation, .birth = birth, .rank_count = 2, .slot_count = 1};
    map.slots = xcalloc(1, sizeof *map.slots);
    map.slots[0] = (cluster_map_slot){.epoch = number, .count = 2};
    map.slots[0].chain[first ? 0 : 1] = (cluster_map_member){3, 30, birth};
    map.slots[0].chain[first ? 1 : 0] = (cluster_map_member){4, 40, birth};
    cluster_map_put_server(&map, 3, 30, "s3");
    cluster_map_put_server(&map, 4, 40, "s4");
    hear_map_as(world, &map);
}

/* Takes a cluster map with one slot on this server, and another server without slots. */
static void hear_peer(world *world, uint64_t epoch, uint64_t incarnation) {
    uint64_t number = ++world->number;
    cluster_map map = {
        .number = number, .generation = world->generation, .birth = epoch, .rank_count = 2, .slot_count = 1};
    map.slots = xcalloc(1, sizeof *map.slots);
    map.slots[0] = (cluster_map_slot){.epoch = epoch, .count = 1, .chain = {{3, 30, epoch}}};
    cluster_map_put_server(&map, 3, 30, "s3");
    cluster_map_put_server(&map, 4, incarnation, "s4");
    hear_map_as(world, &map);
}

static void hear_pair(world *world, bool first) { hear_pair_of(world, world->number + 1, first); }

static void hear_map(world *world, consistency_kind kind, uint32_t slots) {
    hear_map_of(world, world->number + 1, kind, slots);
}

static void start(world *world, consistency_kind kind, uint32_t slots) {
    *world = (struct world){.generation = 5};
    slot_server_options options = {.id = 3,
                                   .address = "s3",
                                   .controller = "d",
                                   .values = &float_machine_ops,
                                   .rank_bytes = 10,
                                   .link_bytes = 10,
                                   .is_full = is_full,
                                   .send = on_send,
                                   .on_replaced = on_replaced,
                                   .on_deposed = on_deposed,
                                   .context = world};
    world->server = slot_server_create(&options);
    slot_server_take_bytes(world->server, span_of("x", 1), NULL); /* the server has no incarnation yet */
    assert_int_equal(slot_server_next_us(world->server), CLOCK_NEVER_US);
    slot_server_begin(world->server, 30, 100);
    assert_null(slot_server_replica(world->server, 0));
    hear_map(world, kind, slots);
    assert_int_equal(replica_look_at(slot_server_replica(world->server, 0)).phase, REPLICA_SERVING);
}

static void it_beats_and_ticks(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    assert_int_equal(slot_server_next_us(world.server), 100);
    slot_server_tick(world.server, 100);
    assert_int_equal(world.recorder.batches, 1); /* a heartbeat without messages */
    assert_int_equal(slot_server_next_us(world.server), 100 + SLOT_SERVER_TICK_US);
    slot_server_tick(world.server, 100 + SLOT_SERVER_TICK_US);
    assert_int_equal(world.recorder.batches, 1);
    slot_server_destroy(world.server);
}

/* The process enrolled when the metadata store had lost its disk; the controller knows a higher incarnation. */
static void an_unheard_server_acquires_another_incarnation(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    const slot_message later = {.kind = SLOT_MESSAGE_REPLACED, .name = metadata_store_version(1, 5)};
    hear(&world, SLOT_MESSAGE_CONTROLLER, 1, "d", &later);
    assert_true(world.replaced == 0 && world.deposed == 1); /* the server is in the cluster map, so it was accepted */
    slot_server_begin(world.server, 29, 100);
    hear(&world, 4, 40, "s4", &later);
    /* an earlier incarnation */
    hear(&world, SLOT_MESSAGE_CONTROLLER, 1, "d", &(slot_message){.kind = SLOT_MESSAGE_REPLACED, .name = 28});
    assert_true(world.replaced == 0 && world.deposed == 1);
    /* a process of the same generation took its place */
    hear(&world, SLOT_MESSAGE_CONTROLLER, 1, "d", &(slot_message){.kind = SLOT_MESSAGE_REPLACED, .name = 31});
    assert_true(world.replaced == 0 && world.deposed == 2);
    hear(&world, SLOT_MESSAGE_CONTROLLER, 1, "d", &later);
    assert_true(world.replaced == later.name && world.deposed == 2);
    slot_server_destroy(world.server);
}

static void it_says_what_its_slots_have_carried(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 2);
    slot_message ask = {.kind = SLOT_MESSAGE_PULL, .rank = 1, .epoch = 1};
    slot_message push = {.kind = SLOT_MESSAGE_PUSH, .rank = 1, .epoch = 1, .name = 6};
    for (int i = 0; i < 3; i++) hear(&world, SLOT_MESSAGE_RANK | 1, 1, "r", &ask);
    hear(&world, SLOT_MESSAGE_RANK | 1, 1, "r", &push);
    for (int i = 0; i < 2 * SLOT_SERVER_LOAD_BEATS; i++) slot_server_tick(world.server, 100 + i * SLOT_SERVER_BEAT_US);
    /* one report: slots without requests are not reported */
    assert_int_equal(message_recorder_count(&world.recorder, "d", SLOT_MESSAGE_LOAD), 1);
    const slot_message *said = &world.recorder.list[world.recorder.count - 1].message;
    assert_true(said->kind == SLOT_MESSAGE_LOAD && said->slot == 0 && said->lsn == 4 && said->epoch == 1);
    assert_int_equal(said->name, 3); /* pulls */
    slot_server_destroy(world.server);
}

static void a_rank_is_who_the_map_says(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    slot_message push = {.kind = SLOT_MESSAGE_PUSH, .rank = 1, .epoch = 1, .name = 6};
    hear(&world, SLOT_MESSAGE_RANK | 1, 1, "old", &push);
    assert_int_equal(message_recorder_named(&world.recorder, "old", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 6), 1);
    push.name = 7;
    push.prev = 6;
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "new", &push);  /* a term that this server's cluster map does not have yet */
    hear(&world, SLOT_MESSAGE_RANK | 1, 0, "none", &push); /* no term */
    hear(&world, SLOT_MESSAGE_RANK | 0, 1, "other", &push); /* another rank sends in its name */
    assert_int_equal(replica_name(slot_server_replica(world.server, 0), 1), 6);
    hear_map_of(&world, 1, CONSISTENCY_ASP, 1);
    hear(&world, SLOT_MESSAGE_RANK | 1, 1, "old", &push); /* the term is over */
    assert_int_equal(replica_name(slot_server_replica(world.server, 0), 1), 6);
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "new", &push);
    assert_int_equal(message_recorder_named(&world.recorder, "new", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 7), 1);
    uint8_t *large = xcalloc(1, SLOT_SERVER_QUERY_MAX + 1);
    push.name = 8;
    push.prev = 7;
    push.payload = span_of(large, SLOT_SERVER_QUERY_MAX + 1);
    slot_message pull = {.kind = SLOT_MESSAGE_PULL, .rank = 1, .epoch = 1, .commit = 5, .payload = push.payload};
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "new", &pull); /* the query is too large, and the push is not */
    assert_int_equal(message_recorder_count(&world.recorder, "new", SLOT_MESSAGE_PULLED), 0);
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "new", &push);
    assert_int_equal(replica_name(slot_server_replica(world.server, 0), 1), 8);
    pull.payload.size--;
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "new", &pull);
    assert_int_equal(message_recorder_count(&world.recorder, "new", SLOT_MESSAGE_PULLED), 1);
    free(large);
    push.payload = (span){0};
    push.slot = 5; /* no such slot */
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "new", &push);
    slot_server_destroy(world.server);
}

static void a_server_without_memory_reports_it(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    const float one = 1;
    slot_message push = {
        .kind = SLOT_MESSAGE_PUSH, .rank = 1, .epoch = 1, .name = 6, .payload = span_of(&one, sizeof one)};
    world.full = true;
    hear(&world, SLOT_MESSAGE_RANK | 1, 1, "r", &push);
    assert_int_equal(message_recorder_named(&world.recorder, "r", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_LATER, 6), 1);
    assert_int_equal(world.recorder.list[world.recorder.count - 1].message.lsn, SLOT_MESSAGE_FULL);
    assert_int_equal(replica_name(slot_server_replica(world.server, 0), 1), 0);
    push.payload = (span){0}; /* a push without a payload is taken */
    push.name = 5;
    hear(&world, SLOT_MESSAGE_RANK | 1, 1, "r", &push);
    assert_int_equal(message_recorder_named(&world.recorder, "r", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 5), 1);
    world.full = false;
    push.name = 6;
    push.prev = 5;
    push.payload = span_of(&one, sizeof one);
    hear(&world, SLOT_MESSAGE_RANK | 1, 1, "r", &push);
    assert_int_equal(message_recorder_named(&world.recorder, "r", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 6), 1);
    slot_server_destroy(world.server);
}

static void ranks_share_what_there_is(void **state) {
    world world = {.generation = 5};
    slot_server_options options = {.id = 3,
                                   .address = "s3",
                                   .controller = "d",
                                   .values = &float_machine_ops,
                                   .rank_bytes = 10,
                                   .ranks_bytes = 3000,
                                   .send = on_send,
                                   .context = &world};
    world.server = slot_server_create(&options);
    slot_server_begin(world.server, 30, 100);
    hear_map(&world, CONSISTENCY_ASP, 1);
    assert_in_range(slot_server_credit(world.server)->rank_bytes, 1000, 1500); /* half, for two ranks */
    slot_server_destroy(world.server);
}

static void orders_reach_the_round_state_from_those_who_may(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP, 2);
    slot_message order = {
        .kind = SLOT_MESSAGE_ORDER, .entry = REPLICA_LOG_LEAVE, .slot = 1, .rank = 1, .epoch = 1, .name = 70};
    hear(&world, SLOT_MESSAGE_RANK | 0, 1, "r0", &order); /* sent by another rank */
    order.entry = REPLICA_LOG_DROP;
    hear(&world, SLOT_MESSAGE_RANK | 1, 1, "r1", &order); /* ranks may not send DROP */
    assert_int_equal(world.recorder.count, 0);
    hear(&world, SLOT_MESSAGE_CONTROLLER, 1, "d", &order);
    assert_int_equal(message_recorder_named(&world.recorder, "d", SLOT_MESSAGE_ORDERED, SLOT_MESSAGE_OK, 70), 1);
    const round_state *round_state = replica_round_state(slot_server_replica(world.server, 1));
    /* slot 0 on this server has frozen the rank */
    assert_true(round_state->next.words[0] == 1 && rank_set_has(&round_state->voided, 1));
    slot_server_destroy(world.server);
}

static void another_generation_begins_with_nothing(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 2);
    slot_message push = {.kind = SLOT_MESSAGE_PUSH, .rank = 1, .epoch = 1, .name = 6};
    hear(&world, SLOT_MESSAGE_RANK | 1, 1, "r", &push);
    assert_int_equal(replica_name(slot_server_replica(world.server, 0), 1), 6);
    world.generation = 6;
    hear_map(&world, CONSISTENCY_BSP, 3);
    assert_int_equal(replica_name(slot_server_replica(world.server, 0), 1), 0);
    assert_int_equal(replica_look_at(slot_server_replica(world.server, 2)).phase, REPLICA_SERVING);
    world.generation = 5;
    push = (slot_message){.kind = SLOT_MESSAGE_HELLO, .rank = 1, .epoch = 2};
    world.recorder.count = 0;
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "r", &push); /* a sender that does not know the new generation */
    assert_int_equal(message_recorder_named(&world.recorder, "r", SLOT_MESSAGE_CLOCK, SLOT_MESSAGE_OK, 0), 0);
    world.generation = 6;
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "r", &push);
    assert_int_equal(message_recorder_named(&world.recorder, "r", SLOT_MESSAGE_CLOCK, SLOT_MESSAGE_OK, 0), 1);
    slot_server_destroy(world.server);
}

static const span six = {(const uint8_t *)"abcdef", 6};

static void a_head_refuses_what_is_beyond_credit(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    world.generation = 6;
    hear_pair(&world, true);
    hear(&world, 4, 40, "s4", &(slot_message){.kind = SLOT_MESSAGE_ENTERED, .epoch = 2});
    world.recorder.count = 0;
    slot_message push = {.kind = SLOT_MESSAGE_PUSH, .rank = 1, .epoch = 2, .name = 6, .payload = six};
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "r", &push);
    slot_message more = {.kind = SLOT_MESSAGE_PUSH, .rank = 1, .epoch = 2, .name = 7, .prev = 6, .payload = six};
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "r", &more);
    assert_int_equal(message_recorder_named(&world.recorder, "r", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_LATER, 7), 1);
    assert_int_equal(world.recorder.list[world.recorder.count - 1].message.commit, 10); /* the rank's share */
    assert_true(slot_server_credit(world.server)->held[1] == 6 && slot_server_credit(world.server)->linked == 0);
    more.payload = (span){0};
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "r", &more); /* an end-of-step needs no credit */
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "r",
         &(slot_message){.kind = SLOT_MESSAGE_PUSH, .entry = SLOT_MESSAGE_PUSH_ASK, .rank = 1, .epoch = 2, .name = 9});
    /* the refused push was not logged */
    assert_int_equal(message_recorder_named(&world.recorder, "r", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_RESEND, 9), 1);
    hear(&world, 4, 40, "s4", &(slot_message){.kind = SLOT_MESSAGE_LEVEL, .epoch = 2, .lsn = 2, .commit = 2});
    assert_int_equal(message_recorder_named(&world.recorder, "r", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 6), 1);
    assert_int_equal(slot_server_credit(world.server)->held[1], 0);
    slot_server_destroy(world.server);
}

static void a_member_takes_what_it_has_room_for(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    world.generation = 6;
    hear_map(&world, CONSISTENCY_ASP, 1); /* the first epoch of the generation has one server */
    world.generation = 7;
    hear_pair(&world, false);
    slot_message entry = {.kind = SLOT_MESSAGE_ENTRY,
                          .entry = REPLICA_LOG_PUSH,
                          .rank = 1,
                          .epoch = 3,
                          .name = 6,
                          .lsn = 1,
                          .payload = six};
    world.recorder.count = 0;
    hear(&world, SLOT_MESSAGE_RANK | 1, 3, "r", &entry); /* entries come from servers */
    hear(&world, SLOT_MESSAGE_CONTROLLER, 1, "d", &entry);
    assert_int_equal(message_recorder_count(&world.recorder, "s4", SLOT_MESSAGE_LEVEL), 0);
    hear(&world, 4, 40, "s4", &entry);
    assert_true(message_recorder_count(&world.recorder, "s4", SLOT_MESSAGE_LEVEL) > 0);
    entry.lsn = 2;
    /* this server is the tail: its entries are applied, and their credit is free again */
    hear(&world, 4, 40, "s4", &entry);
    const slot_message *said = &world.recorder.list[world.recorder.count - 1].message;
    assert_true(said->kind == SLOT_MESSAGE_LEVEL && said->status == SLOT_MESSAGE_OK && said->lsn == 2 &&
                said->prev == 10);
    assert_int_equal(slot_server_credit(world.server)->linked, 0);
    slot_server_destroy(world.server);
}

/* A newer process of the rank has pushed to another head: the process before it gets no answer. */
static void a_term_that_is_over_is_told_nothing(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    world.generation = 6;
    hear_pair(&world, false);
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "old",
         &(slot_message){.kind = SLOT_MESSAGE_PULL, .rank = 1, .epoch = 2, .commit = 5});
    assert_int_equal(message_recorder_count(&world.recorder, "old", SLOT_MESSAGE_PULLED), 1);
    world.recorder.count = 0;
    hear_pair_of(&world, 2, true); /* the server becomes head, and the rank has another term */
    slot_message log = {
        .kind = SLOT_MESSAGE_LOG, .entry = REPLICA_LOG_PUSH, .rank = 1, .epoch = 3, .name = 6, .lsn = 1};
    hear(&world, 4, 40, "s4", &log);
    hear(&world, 4, 40, "s4", &(slot_message){.kind = SLOT_MESSAGE_ENTERED, .epoch = 3, .lsn = 1, .commit = 1});
    assert_int_equal(replica_name(slot_server_replica(world.server, 0), 1), 6);
    assert_int_equal(message_recorder_count(&world.recorder, "old", SLOT_MESSAGE_PUSHED), 0);
    slot_message push = {.kind = SLOT_MESSAGE_PUSH, .rank = 1, .epoch = 3, .name = 6};
    hear(&world, SLOT_MESSAGE_RANK | 1, 3, "new", &push);
    assert_int_equal(message_recorder_named(&world.recorder, "new", SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 6), 1);
    slot_server_destroy(world.server);
}

/* Late messages of the joiner's previous process do not count as the joiner's. */
static void a_joiner_is_who_the_map_says(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    hear_peer(&world, 1, 40);
    hear(&world, SLOT_MESSAGE_RANK | 1, 2, "r",
         &(slot_message){.kind = SLOT_MESSAGE_PUSH, .rank = 1, .epoch = 1, .name = 6});
    slot_message join = {.kind = SLOT_MESSAGE_JOIN, .epoch = 1, .name = 4, .prev = 41};
    world.recorder.count = 0;
    /* a joiner that this server's cluster map does not have yet */
    hear(&world, SLOT_MESSAGE_CONTROLLER, 1, "d", &join);
    hear(&world, 4, 40, "s4", &(slot_message){.kind = SLOT_MESSAGE_LEVEL, .epoch = 1, .lsn = 1, .commit = 1});
    slot_server_tick(world.server, 100 + SLOT_SERVER_TICK_US);
    assert_int_equal(message_recorder_count(&world.recorder, "s4", SLOT_MESSAGE_STATE), 0);
    assert_int_equal(message_recorder_count(&world.recorder, "d", SLOT_MESSAGE_GATE), 0);
    hear_peer(&world, 1, 41);
    hear(&world, 4, 41, "s4", &join); /* only the controller orders joins */
    hear(&world, SLOT_MESSAGE_RANK | 1, 3, "r", &join);
    assert_int_equal(message_recorder_count(&world.recorder, "s4", SLOT_MESSAGE_STATE), 0);
    hear(&world, SLOT_MESSAGE_CONTROLLER, 1, "d", &join);
    assert_int_equal(message_recorder_count(&world.recorder, "s4", SLOT_MESSAGE_STATE), 1);
    /* a late message */
    hear(&world, 4, 40, "s4", &(slot_message){.kind = SLOT_MESSAGE_LEVEL, .epoch = 1, .lsn = 1, .commit = 1});
    slot_server_tick(world.server, 100 + 2 * SLOT_SERVER_TICK_US);
    assert_int_equal(message_recorder_count(&world.recorder, "d", SLOT_MESSAGE_GATE), 0);
    hear(&world, 4, 41, "s4", &(slot_message){.kind = SLOT_MESSAGE_LEVEL, .epoch = 1, .lsn = 1, .commit = 1});
    slot_server_tick(world.server, 100 + 3 * SLOT_SERVER_TICK_US);
    assert_int_equal(message_recorder_named(&world.recorder, "d", SLOT_MESSAGE_GATE, SLOT_MESSAGE_OK, 4), 1);
    slot_server_destroy(world.server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_generation_begins_with_nothing),
        cmocka_unit_test(it_beats_and_ticks),
        cmocka_unit_test(an_unheard_server_acquires_another_incarnation),
        cmocka_unit_test(it_says_what_its_slots_have_carried),
        cmocka_unit_test(a_rank_is_who_the_map_says),
        cmocka_unit_test(a_joiner_is_who_the_map_says),
        cmocka_unit_test(a_term_that_is_over_is_told_nothing),
        cmocka_unit_test(a_server_without_memory_reports_it),
        cmocka_unit_test(ranks_share_what_there_is),
        cmocka_unit_test(orders_reach_the_round_state_from_those_who_may),
        cmocka_unit_test(a_head_refuses_what_is_beyond_credit),
        cmocka_unit_test(a_member_takes_what_it_has_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
