/* replica_round_state_test.c — the round state driven by hand: orders, and a rank that is dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/replica_fixture.h"

enum { ROUND_STATE = 1 }; /* slot of the round state */

/* Begins another generation with a round state on server 0. */
static replica *enter_round_state(replica_fixture *world, uint64_t origin) {
    world->map.slots[ROUND_STATE] = (cluster_map_slot){0};
    world->map.consistency.kind = CONSISTENCY_BSP;
    world->map.birth = world->number + 1;
    world->map.origin = origin;
    replica_fixture_chain(world, ROUND_STATE, (uint32_t[]){0}, 1);
    replica *round_state = replica_create(&world->site[0].host, ROUND_STATE);
    replica_enter(round_state, &world->map);
    return round_state;
}

static void order(replica_fixture *world, replica *round_state, replica_log_kind kind, uint64_t number) {
    slot_message message = {
        .kind = SLOT_MESSAGE_ORDER, .slot = ROUND_STATE, .rank = 1, .epoch = world->number, .name = number};
    message.entry = (uint8_t)kind;
    replica_take(round_state, REPLICA_FIXTURE_SERVERS + 1, &message, NULL);
}

/* Terms of a metadata store that lost its disk may be below earlier ones. */
static void orders_are_counted_anew_in_another_generation(void **state) {
    replica_fixture *world = *state;
    replica *before = enter_round_state(world, 0);
    order(world, before, REPLICA_LOG_LEAVE, 70);
    order(world, before, REPLICA_LOG_JOIN, 69); /* a late order */
    assert_true(replica_fixture_told(world, 1, SLOT_MESSAGE_ORDERED, SLOT_MESSAGE_OK, 70) == 1 &&
                replica_fixture_told(world, 1, SLOT_MESSAGE_ORDERED, SLOT_MESSAGE_GONE, 69) == 1);
    shared_bytes *shard = replica_write_shard(before, false);
    replica *after = enter_round_state(world, 4);
    slot_message load = {
        .kind = SLOT_MESSAGE_SHARD, .slot = ROUND_STATE, .name = 4, .lsn = 1, .payload = shared_bytes_bytes(shard)};
    replica_take(after, 9, &load, shard);
    assert_int_equal(replica_look_at(after).phase, REPLICA_SERVING);
    assert_false(rank_set_has(&replica_round_state(after)->next, 1));
    order(world, after, REPLICA_LOG_JOIN, 5);
    assert_int_equal(replica_fixture_told(world, 1, SLOT_MESSAGE_ORDERED, SLOT_MESSAGE_OK, 5), 1);
    assert_true(rank_set_has(&replica_round_state(after)->next, 1));
    shared_bytes_unref(shard);
    replica_destroy(before);
    replica_destroy(after);
}

/* ---- A rank that is dropped. */

/* Delivers the messages between the two replicas, from the first undelivered one on. */
static void deliver(replica_fixture *world, replica *const round_states[2]) {
    for (; world->first < world->count; world->first++) {
        envelope envelope = world->queue[world->first];
        if (envelope.to < 2) replica_take(round_states[envelope.to], envelope.from, &envelope.message, envelope.bytes);
    }
}

static size_t freezes(const replica_fixture *world) {
    size_t count = 0;
    for (size_t i = 0; i < world->count; i++)
        count += world->queue[i].to == 200 && world->queue[i].message.kind == SLOT_MESSAGE_FREEZE;
    return count;
}

static void say_frozen(replica_fixture *world, replica *round_state) {
    slot_message message = {.kind = SLOT_MESSAGE_FROZEN, .slot = ROUND_STATE, .rank = 1, .epoch = world->number};
    replica_take(round_state, 9, &message, NULL);
}

/* Server 0 decides, and leaves the chain before another replica has the decision. When it is the head again, its
 * inquiry must not count: the round state does not have the decision. */
static void a_lost_decision_is_made_again(void **state) {
    replica_fixture *world = *state;
    replica *round_states[] = {enter_round_state(world, 0), replica_create(&world->site[1].host, ROUND_STATE)};
    replica_enter(round_states[1], &world->map); /* the replica knows the epoch and is in no chain */
    slot_message join = {.kind = SLOT_MESSAGE_JOIN, .slot = ROUND_STATE, .epoch = world->number, .name = 1, .prev = 11};
    replica_take(round_states[0], 100, &join, NULL);
    deliver(world, round_states);
    replica_fixture_chain(world, ROUND_STATE, (uint32_t[]){0, 1}, 2);
    for (int i = 0; i < 2; i++) replica_enter(round_states[i], &world->map);
    deliver(world, round_states);
    order(world, round_states[0], REPLICA_LOG_DROP, 5);
    deliver(world, round_states);
    replica_tick(round_states[0], 0);
    assert_true(round_state_undecided(replica_round_state(round_states[1])) == 1 && freezes(world) != 0);
    say_frozen(world, round_states[0]);
    assert_int_equal(replica_look_at(round_states[0]).logged, replica_look_at(round_states[1]).logged + 1);
    world->first = world->count; /* drops the undelivered messages */

    replica_fixture_chain(world, ROUND_STATE, (uint32_t[]){1}, 1);
    for (int i = 0; i < 2; i++) replica_enter(round_states[i], &world->map);
    join =
        (slot_message){.kind = SLOT_MESSAGE_JOIN, .slot = ROUND_STATE, .epoch = world->number, .name = 0, .prev = 10};
    replica_take(round_states[1], 100, &join, NULL);
    deliver(world, round_states);
    replica_fixture_chain(world, ROUND_STATE, (uint32_t[]){0}, 1);
    for (int i = 0; i < 2; i++) replica_enter(round_states[i], &world->map);
    assert_int_equal(replica_look_at(round_states[0]).phase, REPLICA_SERVING);
    assert_int_equal(round_state_undecided(replica_round_state(round_states[0])), 1);
    size_t asked = freezes(world);
    replica_tick(round_states[0], 0);
    assert_int_equal(freezes(world), asked + 1);
    say_frozen(world, round_states[0]);
    assert_true(rank_set_has(&replica_round_state(round_states[0])->voided, 1));
    for (int i = 0; i < 2; i++) replica_destroy(round_states[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SITES(orders_are_counted_anew_in_another_generation),
        ON_SITES(a_lost_decision_is_made_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
