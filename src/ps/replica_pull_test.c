/* replica_pull_test.c — answers to pulls and their order, message by message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/replica_fixture.h"

static void a_pull_waits_for_what_its_rank_knows(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 2);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = 0, .prev = 5, .commit = 70});
    /* replaces the rank's waiting pull */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = 0, .prev = 5, .commit = 71});
    replica_fixture_ask(world, 0,
                        (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = 1, .lsn = 1, .commit = 80, .priority = 1});
    assert_int_equal(world->count, world->first); /* no answer yet */
    replica_fixture_push(world, 0, 0, 5, 0);
    replica_fixture_settle(world, -1);
    size_t last = world->count - 1;
    while (world->queue[last].message.kind != SLOT_MESSAGE_PULLED) last--;
    assert_true(world->queue[last].to == REPLICA_FIXTURE_SERVERS && world->queue[last].message.commit == 71);
    assert_true(world->queue[last - 1].to == REPLICA_FIXTURE_SERVERS + 1 &&
                world->queue[last - 1].message.commit == 80); /* the higher priority first */
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0) +
                         replica_fixture_told(world, 1, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0),
                     2);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = 0, .prev = 6});
    replica_fixture_chain(world, 0, (uint32_t[]){0}, 1); /* another epoch drops waiting pulls */
    replica_fixture_enter(world, 0);
    replica_fixture_push(world, 0, 0, 6, 5);
    assert_true(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_OK, 6) == 1 &&
                replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0) == 1);
}

/* Bytes of the answer to this request; SIZE_MAX: there is not exactly one answer. */
static size_t shown_bytes(const replica_fixture *world, uint32_t rank, uint64_t request) {
    size_t count = 0, size = 0;
    for (size_t i = 0; i < world->count; i++) {
        const slot_message *message = &world->queue[i].message;
        if (world->queue[i].to != REPLICA_FIXTURE_SERVERS + rank || message->kind != SLOT_MESSAGE_PULLED ||
            message->commit != request)
            continue;
        size = message->payload.size;
        count++;
    }
    return count == 1 ? size : SIZE_MAX;
}

static void a_pull_is_shown_what_it_asks_for(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 2);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .commit = 70, .payload = span_of("\2", 1)});
    assert_int_equal(shown_bytes(world, 0, 70), sizeof(double));
    replica_fixture_ask(
        world, 0,
        (slot_message){.kind = SLOT_MESSAGE_PULL, .commit = 71, .prev = 5, .payload = span_of("\0\1", 2)}); /* waits */
    replica_fixture_ask(
        world, 0,
        (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = 1, .lsn = 1, .commit = 80, .payload = span_of("\1", 1)});
    slot_message fresh = {.kind = SLOT_MESSAGE_PULL,
                          .entry = SLOT_MESSAGE_PULL_FRESH,
                          .rank = 1,
                          .commit = 81,
                          .payload = span_of("\0\2", 2)};
    replica_fixture_push(world, 0, 0, 5, 0);
    replica_fixture_settle(world, -1);
    assert_int_equal(shown_bytes(world, 0, 71), 2 * sizeof(double));
    assert_int_equal(shown_bytes(world, 1, 80), sizeof(double));
    replica_fixture_ask(world, 0, fresh); /* a fresh pull goes down the chain with its query */
    replica_fixture_settle(world, -1);
    assert_int_equal(shown_bytes(world, 1, 81), 2 * sizeof(double));
    /* a malformed query */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .commit = 72, .payload = span_of("\7", 1)});
    assert_int_equal(shown_bytes(world, 0, 72), 0);
}

static void the_keys_of_a_waiting_pull_are_held(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 1);
    shared_bytes *small = shared_bytes_copy(span_of("\1", 1)), *large = shared_bytes_new(SLOT_MESSAGE_POINTED);
    memset(shared_bytes_room(large), 0, SLOT_MESSAGE_POINTED);
    slot_message pull = {.kind = SLOT_MESSAGE_PULL,
                         .epoch = world->number,
                         .prev = 5,
                         .commit = 70,
                         .payload = shared_bytes_bytes(small)};
    replica_take(world->site[0].replica, REPLICA_FIXTURE_SERVERS, &pull, small);
    assert_int_equal(small->refs, 1); /* a small query is copied and does not hold the packet */
    pull.payload = shared_bytes_bytes(large);
    pull.commit = 71;
    replica_take(world->site[0].replica, REPLICA_FIXTURE_SERVERS, &pull, large);
    /* a repetition replaces the same pull */
    replica_take(world->site[0].replica, REPLICA_FIXTURE_SERVERS, &pull, large);
    assert_int_equal(large->refs, 2);
    replica_fixture_push(world, 0, 0, 5, 0);
    assert_true(shown_bytes(world, 0, 70) == SIZE_MAX && shown_bytes(world, 0, 71) == 0 && large->refs == 1);
    pull.prev = 6;
    replica_take(world->site[0].replica, REPLICA_FIXTURE_SERVERS, &pull, large);
    assert_int_equal(large->refs, 2);
    replica_fixture_chain(world, 0, (uint32_t[]){0}, 1); /* another epoch drops waiting pulls */
    replica_fixture_enter(world, 0);
    assert_int_equal(large->refs, 1);
    shared_bytes_unref(small);
    shared_bytes_unref(large);
}

static void any_copy_shows_what_it_has(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 3);
    replica_fixture_push(world, 0, 0, 6, 0);
    replica_fixture_settle(world, 0); /* the other members have applied the push, the head does not know */
    replica_fixture_ask(world, 2, (slot_message){.kind = SLOT_MESSAGE_PULL});
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0), 1);
    /* the rank has seen a newer state than the head's */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .lsn = 1});
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0), 1);
    replica_fixture_chain(world, 0, (uint32_t[]){2, 0}, 2);
    replica_fixture_enter(world, 0); /* its log has entries that may have been acknowledged */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL});
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_WRONG, 0), 1);
    replica_fixture_enter(world, 2);
    replica_fixture_settle(world, -1);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL});
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0), 2);
    replica_fixture_push(world, 0, 0, 7, 6); /* only the head takes pushes */
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PUSHED, SLOT_MESSAGE_WRONG, 7), 1);
}

static void a_fresh_pull_goes_down_the_chain(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 2);
    slot_message pull = {.kind = SLOT_MESSAGE_PULL, .entry = SLOT_MESSAGE_PULL_FRESH, .commit = 77};
    replica_fixture_ask(world, 1, pull); /* only the head answers fresh pulls */
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_WRONG, 0), 1);
    replica_fixture_ask(world, 0, pull);
    replica_fixture_ask(world, 0, pull); /* a repetition while the entry is in flight */
    assert_true(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0) == 0 &&
                replica_fixture_look(world, 0).logged == 1);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_told(world, 0, SLOT_MESSAGE_PULLED, SLOT_MESSAGE_OK, 0), 1);
    assert_true(replica_fixture_look(world, 0).applied == 1 && replica_fixture_look(world, 1).applied == 1);
}

/* A reader is told its position like a rank, pulls, and has no push taken. */
static void a_reader_pulls_and_pushes_nothing(void **state) {
    enum { READER = REPLICA_FIXTURE_RANKS };
    replica_fixture *world = *state;
    world->map.reader_count = 1;
    replica_fixture_start(world, 2);
    replica_fixture_push(world, 0, 0, 5, 0);
    replica_fixture_settle(world, -1);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_HELLO, .rank = READER, .commit = 3});
    assert_int_equal(replica_fixture_told(world, READER, SLOT_MESSAGE_CLOCK, SLOT_MESSAGE_OK, 0), 1);
    replica_fixture_ask(
        world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = READER, .commit = 70, .payload = span_of("\2", 1)});
    assert_int_equal(shown_bytes(world, READER, 70), sizeof(double));
    replica_fixture_ask(world, 0,
                        (slot_message){.kind = SLOT_MESSAGE_PULL,
                                       .entry = SLOT_MESSAGE_PULL_FRESH,
                                       .rank = READER,
                                       .commit = 71,
                                       .payload = span_of("\2", 1)});
    replica_fixture_settle(world, -1);
    assert_int_equal(shown_bytes(world, READER, 71), sizeof(double));
    size_t before = world->count;
    replica_fixture_push(world, 0, READER, 5, 0);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_PULL, .rank = READER + 1, .commit = 72});
    assert_int_equal(world->count, before); /* nobody has that number */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SITES(a_reader_pulls_and_pushes_nothing), ON_SITES(a_pull_waits_for_what_its_rank_knows),
        ON_SITES(a_pull_is_shown_what_it_asks_for),  ON_SITES(the_keys_of_a_waiting_pull_are_held),
        ON_SITES(any_copy_shows_what_it_has),        ON_SITES(a_fresh_pull_goes_down_the_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
