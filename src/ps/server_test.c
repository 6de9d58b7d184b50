/* server_test.c — one server alone: what reaches its copies, and whose word counts. */
#include "ps/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cluster/coordinator.h"
#include "ps/ledger.h"
#include "tests/support/said.h"
#include "tests/support/seats.h" /* the float machine */

typedef struct world {
    server *server;
    said said;
    uint64_t number, generation;
    bool full;
    uint64_t replaced; /* by this incarnation */
    int deposed;
} world;

static void on_send(void *context, const char *address, span bytes) {
    said_take(&((world *)context)->said, address, bytes);
}

static bool is_full(void *context) { return ((world *)context)->full; }
static void on_replaced(void *context, uint64_t incarnation) { ((world *)context)->replaced = incarnation; }

static void on_deposed(void *context) { ((world *)context)->deposed++; }

static void hear(world *world, uint32_t who, uint64_t incarnation, const char *address, const part *part) {
    part_head head = {.generation = world->generation, .number = world->number, .incarnation = incarnation, .who = who};
    strcpy(head.address, address);
    said_batch batch = said_say(&head, part);
    server_take_bale(world->server, batch.bytes, NULL);
    server_check(world->server);
    said_free(&batch);
}

/* Two ranks play in each, and their stints are its number. */
static void hear_chart_as(world *world, chart *chart) {
    for (uint32_t i = 0; i < 2; i++) chart_put_player(chart, i, i, 100 + i);
    part_head head = {.generation = world->generation, .number = chart->number, .who = PART_DIRECTOR, .address = "d"};
    said_batch batch = said_chart(&head, chart);
    server_take_bale(world->server, batch.bytes, NULL);
    said_free(&batch);
    chart_fini(chart);
}

/* Slots on this server; of BSP, the last is the ledger. */
static void hear_chart_of(world *world, uint64_t epoch, consistency_kind kind, uint32_t slots) {
    uint64_t number = ++world->number;
    chart chart = {
        .number = number, .generation = world->generation, .birth = epoch, .rank_count = 2, .slot_count = slots};
    chart.consistency.kind = kind;
    chart.slots = xcalloc(slots, sizeof *chart.slots);
    for (uint32_t i = 0; i < slots; i++)
        chart.slots[i] = (chart_slot){.epoch = epoch, .count = 1, .chain = {{3, 30, epoch}}};
    chart_put_server(&chart, 3, 30, "s3");
    hear_chart_as(world, &chart);
}

/* One slot on two servers since this chart, this one first or second. */
static void hear_pair_of(world *world, uint64_t birth, bool first) {
    uint64_t number = ++world->number;
    chart chart = {.number = number, .generation = world->generation, .birth = birth, .rank_count = 2, .slot_count = 1};
    chart.slots = xcalloc(1, sizeof *chart.slots);
    chart.slots[0] = (chart_slot){.epoch = number, .count = 2};
    chart.slots[0].chain[first ? 0 : 1] = (chart_member){3, 30, birth};
    chart.slots[0].chain[first ? 1 : 0] = (chart_member){4, 40, birth};
    chart_put_server(&chart, 3, 30, "s3");
    chart_put_server(&chart, 4, 40, "s4");
    hear_chart_as(world, &chart);
}

/* One slot on this server, and another server with nothing. */
static void hear_guest(world *world, uint64_t epoch, uint64_t incarnation) {
    uint64_t number = ++world->number;
    chart chart = {.number = number, .generation = world->generation, .birth = epoch, .rank_count = 2, .slot_count = 1};
    chart.slots = xcalloc(1, sizeof *chart.slots);
    chart.slots[0] = (chart_slot){.epoch = epoch, .count = 1, .chain = {{3, 30, epoch}}};
    chart_put_server(&chart, 3, 30, "s3");
    chart_put_server(&chart, 4, incarnation, "s4");
    hear_chart_as(world, &chart);
}

static void hear_pair(world *world, bool first) { hear_pair_of(world, world->number + 1, first); }

static void hear_chart(world *world, consistency_kind kind, uint32_t slots) {
    hear_chart_of(world, world->number + 1, kind, slots);
}

static void start(world *world, consistency_kind kind, uint32_t slots) {
    *world = (struct world){.generation = 5};
    server_options options = {.id = 3,
                              .address = "s3",
                              .director = "d",
                              .values = &float_machine_ops,
                              .rank_bytes = 10,
                              .link_bytes = 10,
                              .is_full = is_full,
                              .send = on_send,
                              .on_replaced = on_replaced,
                              .on_deposed = on_deposed,
                              .context = world};
    world->server = server_create(&options);
    server_take_bale(world->server, span_of("x", 1), NULL); /* nobody yet */
    assert_int_equal(server_next_us(world->server), CLOCK_NEVER_US);
    server_begin(world->server, 30, 100);
    assert_null(server_replica(world->server, 0));
    hear_chart(world, kind, slots);
    assert_int_equal(replica_look_at(server_replica(world->server, 0)).phase, REPLICA_SERVING);
}

static void it_beats_and_ticks(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    assert_int_equal(server_next_us(world.server), 100);
    server_tick(world.server, 100);
    assert_int_equal(world.said.batches, 1); /* a sign of life, no parts */
    assert_int_equal(server_next_us(world.server), 100 + SERVER_TICK_US);
    server_tick(world.server, 100 + SERVER_TICK_US);
    assert_int_equal(world.said.batches, 1);
    server_destroy(world.server);
}

/* It began when the coordinator had lost its disk, and an earlier one is known. */
static void who_is_not_heard_enrols_again(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    const part later = {.kind = PART_REPLACED, .name = coordinator_version(1, 5)};
    hear(&world, PART_DIRECTOR, 1, "d", &later);
    assert_true(world.replaced == 0 && world.deposed == 1); /* it is in the chart: it was heard */
    server_begin(world.server, 29, 100);
    hear(&world, 4, 40, "s4", &later);
    hear(&world, PART_DIRECTOR, 1, "d", &(part){.kind = PART_REPLACED, .name = 28}); /* that was before it */
    assert_true(world.replaced == 0 && world.deposed == 1);
    hear(&world, PART_DIRECTOR, 1, "d", &(part){.kind = PART_REPLACED, .name = 31}); /* another took its place */
    assert_true(world.replaced == 0 && world.deposed == 2);
    hear(&world, PART_DIRECTOR, 1, "d", &later);
    assert_true(world.replaced == later.name && world.deposed == 2);
    server_destroy(world.server);
}

static void it_says_what_its_slots_have_carried(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 2);
    part ask = {.kind = PART_PULL, .rank = 1, .epoch = 1};
    part push = {.kind = PART_PUSH, .rank = 1, .epoch = 1, .name = 6};
    for (int i = 0; i < 3; i++) hear(&world, PART_RANK | 1, 1, "r", &ask);
    hear(&world, PART_RANK | 1, 1, "r", &push);
    for (int i = 0; i < 2 * SERVER_LOAD_BEATS; i++) server_tick(world.server, 100 + i * SERVER_BEAT_US);
    assert_int_equal(said_count(&world.said, "d", PART_LOAD), 1); /* and nothing of slots without any */
    const part *said = &world.said.list[world.said.count - 1].part;
    assert_true(said->kind == PART_LOAD && said->slot == 0 && said->lsn == 4 && said->epoch == 1);
    assert_int_equal(said->name, 3); /* pulls */
    server_destroy(world.server);
}

static void a_rank_is_who_the_chart_says(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    part push = {.kind = PART_PUSH, .rank = 1, .epoch = 1, .name = 6};
    hear(&world, PART_RANK | 1, 1, "old", &push);
    assert_int_equal(said_named(&world.said, "old", PART_PUSHED, PART_OK, 6), 1);
    push.name = 7;
    push.prev = 6;
    hear(&world, PART_RANK | 1, 2, "new", &push);   /* of a chart that this server does not know yet */
    hear(&world, PART_RANK | 1, 0, "none", &push);  /* nobody's */
    hear(&world, PART_RANK | 0, 1, "other", &push); /* another rank in its name */
    assert_int_equal(replica_name(server_replica(world.server, 0), 1), 6);
    hear_chart_of(&world, 1, CONSISTENCY_ASP, 1);
    hear(&world, PART_RANK | 1, 1, "old", &push); /* its stint is over */
    assert_int_equal(replica_name(server_replica(world.server, 0), 1), 6);
    hear(&world, PART_RANK | 1, 2, "new", &push);
    assert_int_equal(said_named(&world.said, "new", PART_PUSHED, PART_OK, 7), 1);
    uint8_t *large = xcalloc(1, SERVER_PUSH_MAX + 1);
    push.name = 8;
    push.prev = 7;
    push.payload = span_of(large, SERVER_PUSH_MAX + 1);
    hear(&world, PART_RANK | 1, 2, "new", &push); /* more than a slot may have */
    assert_int_equal(replica_name(server_replica(world.server, 0), 1), 7);
    part pull = {.kind = PART_PULL, .rank = 1, .epoch = 1, .commit = 5, .payload = push.payload};
    hear(&world, PART_RANK | 1, 2, "new", &pull); /* nor may it ask for so much */
    assert_int_equal(said_count(&world.said, "new", PART_PULLED), 0);
    push.payload.size--;
    hear(&world, PART_RANK | 1, 2, "new", &push);
    assert_int_equal(replica_name(server_replica(world.server, 0), 1), 8);
    pull.payload.size--;
    hear(&world, PART_RANK | 1, 2, "new", &pull);
    assert_int_equal(said_count(&world.said, "new", PART_PULLED), 1);
    free(large);
    push.payload = (span){0};
    push.slot = 5; /* there is none */
    hear(&world, PART_RANK | 1, 2, "new", &push);
    server_destroy(world.server);
}

static void who_has_no_memory_says_so(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    const float one = 1;
    part push = {.kind = PART_PUSH, .rank = 1, .epoch = 1, .name = 6, .payload = span_of(&one, sizeof one)};
    world.full = true;
    hear(&world, PART_RANK | 1, 1, "r", &push);
    assert_int_equal(said_named(&world.said, "r", PART_PUSHED, PART_LATER, 6), 1);
    assert_int_equal(world.said.list[world.said.count - 1].part.lsn, PART_FULL);
    assert_int_equal(replica_name(server_replica(world.server, 0), 1), 0);
    push.payload = (span){0}; /* what needs none is taken */
    push.name = 5;
    hear(&world, PART_RANK | 1, 1, "r", &push);
    assert_int_equal(said_named(&world.said, "r", PART_PUSHED, PART_OK, 5), 1);
    world.full = false;
    push.name = 6;
    push.prev = 5;
    push.payload = span_of(&one, sizeof one);
    hear(&world, PART_RANK | 1, 1, "r", &push);
    assert_int_equal(said_named(&world.said, "r", PART_PUSHED, PART_OK, 6), 1);
    server_destroy(world.server);
}

static void ranks_share_what_there_is(void **state) {
    world world = {.generation = 5};
    server_options options = {.id = 3,
                              .address = "s3",
                              .director = "d",
                              .values = &float_machine_ops,
                              .rank_bytes = 10,
                              .ranks_bytes = 3000,
                              .send = on_send,
                              .context = &world};
    world.server = server_create(&options);
    server_begin(world.server, 30, 100);
    hear_chart(&world, CONSISTENCY_ASP, 1);
    assert_in_range(server_credit(world.server)->rank_bytes, 1000, 1500); /* of two */
    server_destroy(world.server);
}

static void orders_reach_the_ledger_from_those_who_may(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP, 2);
    part order = {.kind = PART_ORDER, .entry = TAPE_LEAVE, .slot = 1, .rank = 1, .epoch = 1, .name = 70};
    hear(&world, PART_RANK | 0, 1, "r0", &order); /* of another rank */
    order.entry = TAPE_DROP;
    hear(&world, PART_RANK | 1, 1, "r1", &order); /* no rank's business */
    assert_int_equal(world.said.count, 0);
    hear(&world, PART_DIRECTOR, 1, "d", &order);
    assert_int_equal(said_named(&world.said, "d", PART_ORDERED, PART_OK, 70), 1);
    const ledger *ledger = replica_ledger(server_replica(world.server, 1));
    assert_true(ledger->next.words[0] == 1 && crowd_has(&ledger->voided, 1)); /* slot 0 was asked, on this server */
    server_destroy(world.server);
}

static void another_generation_begins_with_nothing(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 2);
    part push = {.kind = PART_PUSH, .rank = 1, .epoch = 1, .name = 6};
    hear(&world, PART_RANK | 1, 1, "r", &push);
    assert_int_equal(replica_name(server_replica(world.server, 0), 1), 6);
    world.generation = 6;
    hear_chart(&world, CONSISTENCY_BSP, 3);
    assert_int_equal(replica_name(server_replica(world.server, 0), 1), 0);
    assert_int_equal(replica_look_at(server_replica(world.server, 2)).phase, REPLICA_SERVING);
    world.generation = 5;
    push = (part){.kind = PART_HELLO, .rank = 1, .epoch = 2};
    world.said.count = 0;
    hear(&world, PART_RANK | 1, 2, "r", &push); /* somebody who has not heard of it */
    assert_int_equal(said_named(&world.said, "r", PART_CLOCK, PART_OK, 0), 0);
    world.generation = 6;
    hear(&world, PART_RANK | 1, 2, "r", &push);
    assert_int_equal(said_named(&world.said, "r", PART_CLOCK, PART_OK, 0), 1);
    server_destroy(world.server);
}

static const span six = {(const uint8_t *)"abcdef", 6};

static void a_head_refuses_what_is_beyond_credit(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    world.generation = 6;
    hear_pair(&world, true);
    hear(&world, 4, 40, "s4", &(part){.kind = PART_ENTERED, .epoch = 2});
    world.said.count = 0;
    part push = {.kind = PART_PUSH, .rank = 1, .epoch = 2, .name = 6, .payload = six};
    hear(&world, PART_RANK | 1, 2, "r", &push);
    part more = {.kind = PART_PUSH, .rank = 1, .epoch = 2, .name = 7, .prev = 6, .payload = six};
    hear(&world, PART_RANK | 1, 2, "r", &more);
    assert_int_equal(said_named(&world.said, "r", PART_PUSHED, PART_LATER, 7), 1);
    assert_int_equal(world.said.list[world.said.count - 1].part.commit, 10); /* its share */
    assert_true(server_credit(world.server)->held[1] == 6 && server_credit(world.server)->linked == 0);
    more.payload = (span){0};
    hear(&world, PART_RANK | 1, 2, "r", &more); /* a tick needs no room */
    hear(&world, PART_RANK | 1, 2, "r",
         &(part){.kind = PART_PUSH, .entry = PART_PUSH_ASK, .rank = 1, .epoch = 2, .name = 9});
    assert_int_equal(said_named(&world.said, "r", PART_PUSHED, PART_RESEND, 9), 1); /* and was not taken for a push */
    hear(&world, 4, 40, "s4", &(part){.kind = PART_LEVEL, .epoch = 2, .lsn = 2, .commit = 2});
    assert_int_equal(said_named(&world.said, "r", PART_PUSHED, PART_OK, 6), 1);
    assert_int_equal(server_credit(world.server)->held[1], 0);
    server_destroy(world.server);
}

static void a_member_takes_what_it_has_room_for(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    world.generation = 6;
    hear_chart(&world, CONSISTENCY_ASP, 1); /* of the new generation it was alone at first */
    world.generation = 7;
    hear_pair(&world, false);
    part entry = {.kind = PART_ENTRY, .entry = TAPE_PUSH, .rank = 1, .epoch = 3, .name = 6, .lsn = 1, .payload = six};
    world.said.count = 0;
    hear(&world, 4, 40, "s4", &entry);
    entry.lsn = 2;
    hear(&world, 4, 40, "s4", &entry); /* it is the tail: what it has is applied, and there is room again */
    const part *said = &world.said.list[world.said.count - 1].part;
    assert_true(said->kind == PART_LEVEL && said->status == PART_OK && said->lsn == 2 && said->prev == 10);
    assert_int_equal(server_credit(world.server)->linked, 0);
    server_destroy(world.server);
}

/* Another process has pushed it, at another head: who played the rank before is not told of it. */
static void a_stint_that_is_over_is_told_nothing(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    world.generation = 6;
    hear_pair(&world, false);
    hear(&world, PART_RANK | 1, 2, "old", &(part){.kind = PART_PULL, .rank = 1, .epoch = 2, .commit = 5});
    assert_int_equal(said_count(&world.said, "old", PART_PULLED), 1);
    world.said.count = 0;
    hear_pair_of(&world, 2, true); /* it leads, and the rank is another's */
    part log = {.kind = PART_LOG, .entry = TAPE_PUSH, .rank = 1, .epoch = 3, .name = 6, .lsn = 1};
    hear(&world, 4, 40, "s4", &log);
    hear(&world, 4, 40, "s4", &(part){.kind = PART_ENTERED, .epoch = 3, .lsn = 1, .commit = 1});
    assert_int_equal(replica_name(server_replica(world.server, 0), 1), 6);
    assert_int_equal(said_count(&world.said, "old", PART_PUSHED), 0);
    part push = {.kind = PART_PUSH, .rank = 1, .epoch = 3, .name = 6};
    hear(&world, PART_RANK | 1, 3, "new", &push);
    assert_int_equal(said_named(&world.said, "new", PART_PUSHED, PART_OK, 6), 1);
    server_destroy(world.server);
}

/* The last words of the process before a joiner are not taken for the joiner's. */
static void a_joiner_is_who_the_chart_says(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP, 1);
    hear_guest(&world, 1, 40);
    hear(&world, PART_RANK | 1, 2, "r", &(part){.kind = PART_PUSH, .rank = 1, .epoch = 1, .name = 6});
    part join = {.kind = PART_JOIN, .epoch = 1, .name = 4, .prev = 41};
    world.said.count = 0;
    hear(&world, PART_DIRECTOR, 1, "d", &join); /* of a chart that this server does not know yet */
    hear(&world, 4, 40, "s4", &(part){.kind = PART_LEVEL, .epoch = 1, .lsn = 1, .commit = 1});
    server_tick(world.server, 100 + SERVER_TICK_US);
    assert_int_equal(said_count(&world.said, "s4", PART_STATE), 0);
    assert_int_equal(said_count(&world.said, "d", PART_GATE), 0);
    hear_guest(&world, 1, 41);
    hear(&world, PART_DIRECTOR, 1, "d", &join);
    assert_int_equal(said_count(&world.said, "s4", PART_STATE), 1);
    hear(&world, 4, 40, "s4", &(part){.kind = PART_LEVEL, .epoch = 1, .lsn = 1, .commit = 1}); /* late */
    server_tick(world.server, 100 + 2 * SERVER_TICK_US);
    assert_int_equal(said_count(&world.said, "d", PART_GATE), 0);
    hear(&world, 4, 41, "s4", &(part){.kind = PART_LEVEL, .epoch = 1, .lsn = 1, .commit = 1});
    server_tick(world.server, 100 + 3 * SERVER_TICK_US);
    assert_int_equal(said_named(&world.said, "d", PART_GATE, PART_OK, 4), 1);
    server_destroy(world.server);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_generation_begins_with_nothing),
        cmocka_unit_test(it_beats_and_ticks),
        cmocka_unit_test(who_is_not_heard_enrols_again),
        cmocka_unit_test(it_says_what_its_slots_have_carried),
        cmocka_unit_test(a_rank_is_who_the_chart_says),
        cmocka_unit_test(a_joiner_is_who_the_chart_says),
        cmocka_unit_test(a_stint_that_is_over_is_told_nothing),
        cmocka_unit_test(who_has_no_memory_says_so),
        cmocka_unit_test(ranks_share_what_there_is),
        cmocka_unit_test(orders_reach_the_ledger_from_those_who_may),
        cmocka_unit_test(a_head_refuses_what_is_beyond_credit),
        cmocka_unit_test(a_member_takes_what_it_has_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
