/* replica_ledger_test.c — the ledger by hand: orders, and a rank that is given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/seats.h"

enum { LEDGER = 1 }; /* its slot */

/* Another generation begins with a ledger on server 0. */
static replica *enter_ledger(seats *world, uint64_t origin) {
    world->chart.slots[LEDGER] = (chart_slot){0};
    world->chart.consistency.kind = CONSISTENCY_BSP;
    world->chart.birth = world->number + 1;
    world->chart.origin = origin;
    seats_chain(world, LEDGER, (uint32_t[]){0}, 1);
    replica *ledger = replica_create(&world->seat[0].host, LEDGER);
    replica_enter(ledger, &world->chart);
    return ledger;
}

static void order(seats *world, replica *ledger, tape_kind kind, uint64_t number) {
    part part = {.kind = PART_ORDER, .slot = LEDGER, .rank = 1, .epoch = world->number, .name = number};
    part.entry = (uint8_t)kind;
    replica_take(ledger, SEATS_SERVERS + 1, &part, NULL);
}

/* Stints that a coordinator gives which has lost its disk may be below those of before. */
static void orders_are_counted_anew_in_another_generation(void **state) {
    seats *world = *state;
    replica *before = enter_ledger(world, 0);
    order(world, before, TAPE_LEAVE, 70);
    order(world, before, TAPE_JOIN, 69); /* late */
    assert_true(seats_told(world, 1, PART_ORDERED, PART_OK, 70) == 1 &&
                seats_told(world, 1, PART_ORDERED, PART_GONE, 69) == 1);
    bale *shard = replica_write_shard(before);
    replica *after = enter_ledger(world, 4);
    part load = {.kind = PART_SHARD, .slot = LEDGER, .name = 4, .lsn = 1, .payload = bale_bytes(shard)};
    replica_take(after, 9, &load, shard);
    assert_int_equal(replica_look_at(after).phase, REPLICA_SERVING);
    assert_false(crowd_has(&replica_ledger(after)->next, 1));
    order(world, after, TAPE_JOIN, 5);
    assert_int_equal(seats_told(world, 1, PART_ORDERED, PART_OK, 5), 1);
    assert_true(crowd_has(&replica_ledger(after)->next, 1));
    bale_unref(shard);
    replica_destroy(before);
    replica_destroy(after);
}

/* ---- A rank that is given up. */

/* What the two copies say to each other, from the first that was not delivered. */
static void deliver(seats *world, replica *const ledgers[2]) {
    for (; world->first < world->count; world->first++) {
        envelope envelope = world->queue[world->first];
        if (envelope.to < 2) replica_take(ledgers[envelope.to], envelope.from, &envelope.part, envelope.bale);
    }
}

static size_t freezes(const seats *world) {
    size_t count = 0;
    for (size_t i = 0; i < world->count; i++)
        count += world->queue[i].to == 200 && world->queue[i].part.kind == PART_FREEZE;
    return count;
}

static void say_frozen(seats *world, replica *ledger) {
    part part = {.kind = PART_FROZEN, .slot = LEDGER, .rank = 1, .epoch = world->number};
    replica_take(ledger, 9, &part, NULL);
}

/* Server 0 decides, and is left out before anybody else has that. When it leads once more it knows what it knew then,
 * and the ledger does not. */
static void what_was_decided_and_lost_is_decided_again(void **state) {
    seats *world = *state;
    replica *ledgers[] = {enter_ledger(world, 0), replica_create(&world->seat[1].host, LEDGER)};
    replica_enter(ledgers[1], &world->chart); /* it knows of it, and is in no chain */
    part join = {.kind = PART_JOIN, .slot = LEDGER, .epoch = world->number, .name = 1, .prev = 11};
    replica_take(ledgers[0], 100, &join, NULL);
    deliver(world, ledgers);
    seats_chain(world, LEDGER, (uint32_t[]){0, 1}, 2);
    for (int i = 0; i < 2; i++) replica_enter(ledgers[i], &world->chart);
    deliver(world, ledgers);
    order(world, ledgers[0], TAPE_DROP, 5);
    deliver(world, ledgers);
    replica_tick(ledgers[0], 0);
    assert_true(ledger_undecided(replica_ledger(ledgers[1])) == 1 && freezes(world) != 0);
    say_frozen(world, ledgers[0]);
    assert_int_equal(replica_look_at(ledgers[0]).logged, replica_look_at(ledgers[1]).logged + 1);
    world->first = world->count; /* what it sends is lost */

    seats_chain(world, LEDGER, (uint32_t[]){1}, 1);
    for (int i = 0; i < 2; i++) replica_enter(ledgers[i], &world->chart);
    join = (part){.kind = PART_JOIN, .slot = LEDGER, .epoch = world->number, .name = 0, .prev = 10};
    replica_take(ledgers[1], 100, &join, NULL);
    deliver(world, ledgers);
    seats_chain(world, LEDGER, (uint32_t[]){0}, 1);
    for (int i = 0; i < 2; i++) replica_enter(ledgers[i], &world->chart);
    assert_int_equal(replica_look_at(ledgers[0]).phase, REPLICA_SERVING);
    assert_int_equal(ledger_undecided(replica_ledger(ledgers[0])), 1);
    size_t asked = freezes(world);
    replica_tick(ledgers[0], 0);
    assert_int_equal(freezes(world), asked + 1);
    say_frozen(world, ledgers[0]);
    assert_true(crowd_has(&replica_ledger(ledgers[0])->voided, 1));
    for (int i = 0; i < 2; i++) replica_destroy(ledgers[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SEATS(orders_are_counted_anew_in_another_generation),
        ON_SEATS(what_was_decided_and_lost_is_decided_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
