/* replica_pull_test.c — answers of pulls and their time, message by message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/seats.h"

static void a_pull_waits_for_what_its_rank_knows(void **state) {
    seats *world = *state;
    seats_start(world, 2);
    seats_ask(world, 0, (part){.kind = PART_PULL, .rank = 0, .prev = 5, .commit = 70});
    seats_ask(world, 0, (part){.kind = PART_PULL, .rank = 0, .prev = 5, .commit = 71}); /* instead of that */
    seats_ask(world, 0, (part){.kind = PART_PULL, .rank = 1, .lsn = 1, .commit = 80, .priority = 1});
    assert_int_equal(world->count, world->first); /* nothing is said */
    seats_push(world, 0, 0, 5, 0);
    seats_settle(world, -1);
    size_t last = world->count - 1;
    while (world->queue[last].part.kind != PART_PULLED) last--;
    assert_true(world->queue[last].to == SEATS_SERVERS && world->queue[last].part.commit == 71);
    assert_true(world->queue[last - 1].to == SEATS_SERVERS + 1 &&
                world->queue[last - 1].part.commit == 80); /* goes first */
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_OK, 0) + seats_told(world, 1, PART_PULLED, PART_OK, 0), 2);
    seats_ask(world, 0, (part){.kind = PART_PULL, .rank = 0, .prev = 6});
    seats_chain(world, 0, (uint32_t[]){0}, 1); /* another epoch: whoever waits asks again */
    seats_enter(world, 0);
    seats_push(world, 0, 0, 6, 5);
    assert_true(seats_told(world, 0, PART_PUSHED, PART_OK, 6) == 1 &&
                seats_told(world, 0, PART_PULLED, PART_OK, 0) == 1);
}

/* How many bytes the rank was shown to this request; SIZE_MAX: it was not, or not once. */
static size_t shown_bytes(const seats *world, uint32_t rank, uint64_t request) {
    size_t count = 0, size = 0;
    for (size_t i = 0; i < world->count; i++) {
        const part *part = &world->queue[i].part;
        if (world->queue[i].to != SEATS_SERVERS + rank || part->kind != PART_PULLED || part->commit != request)
            continue;
        size = part->payload.size;
        count++;
    }
    return count == 1 ? size : SIZE_MAX;
}

static void a_pull_is_shown_what_it_asks_for(void **state) {
    seats *world = *state;
    seats_start(world, 2);
    seats_ask(world, 0, (part){.kind = PART_PULL, .commit = 70, .payload = span_of("\2", 1)});
    assert_int_equal(shown_bytes(world, 0, 70), sizeof(double));
    seats_ask(world, 0, (part){.kind = PART_PULL, .commit = 71, .prev = 5, .payload = span_of("\0\1", 2)}); /* waits */
    seats_ask(world, 0, (part){.kind = PART_PULL, .rank = 1, .lsn = 1, .commit = 80, .payload = span_of("\1", 1)});
    part fresh = {.kind = PART_PULL, .entry = PART_PULL_FRESH, .rank = 1, .commit = 81, .payload = span_of("\0\2", 2)};
    seats_push(world, 0, 0, 5, 0);
    seats_settle(world, -1);
    assert_int_equal(shown_bytes(world, 0, 71), 2 * sizeof(double));
    assert_int_equal(shown_bytes(world, 1, 80), sizeof(double));
    seats_ask(world, 0, fresh); /* down the chain, with what it asks for */
    seats_settle(world, -1);
    assert_int_equal(shown_bytes(world, 1, 81), 2 * sizeof(double));
    seats_ask(world, 0, (part){.kind = PART_PULL, .commit = 72, .payload = span_of("\7", 1)}); /* makes no sense */
    assert_int_equal(shown_bytes(world, 0, 72), 0);
}

static void what_a_waiting_pull_asks_for_is_held(void **state) {
    seats *world = *state;
    seats_start(world, 1);
    bale *small = bale_copy(span_of("\1", 1)), *large = bale_new(PART_POINTED);
    memset(bale_room(large), 0, PART_POINTED);
    part pull = {.kind = PART_PULL, .epoch = world->number, .prev = 5, .commit = 70, .payload = bale_bytes(small)};
    replica_take(world->seat[0].replica, SEATS_SERVERS, &pull, small);
    assert_int_equal(small->refs, 1); /* a few bytes do not hold a batch */
    pull.payload = bale_bytes(large);
    pull.commit = 71;
    replica_take(world->seat[0].replica, SEATS_SERVERS, &pull, large);
    replica_take(world->seat[0].replica, SEATS_SERVERS, &pull, large); /* again: instead of itself */
    assert_int_equal(large->refs, 2);
    seats_push(world, 0, 0, 5, 0);
    assert_true(shown_bytes(world, 0, 70) == SIZE_MAX && shown_bytes(world, 0, 71) == 0 && large->refs == 1);
    pull.prev = 6;
    replica_take(world->seat[0].replica, SEATS_SERVERS, &pull, large);
    assert_int_equal(large->refs, 2);
    seats_chain(world, 0, (uint32_t[]){0}, 1); /* another epoch forgets those who wait */
    seats_enter(world, 0);
    assert_int_equal(large->refs, 1);
    bale_unref(small);
    bale_unref(large);
}

static void any_copy_shows_what_it_has(void **state) {
    seats *world = *state;
    seats_start(world, 3);
    seats_push(world, 0, 0, 6, 0);
    seats_settle(world, 0); /* the others have it applied, the head does not know */
    seats_ask(world, 2, (part){.kind = PART_PULL});
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_OK, 0), 1);
    seats_ask(world, 0, (part){.kind = PART_PULL, .lsn = 1}); /* and it was shown */
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_OK, 0), 1);
    seats_chain(world, 0, (uint32_t[]){2, 0}, 2);
    seats_enter(world, 0); /* it has something logged that may have been acknowledged */
    seats_ask(world, 0, (part){.kind = PART_PULL});
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_WRONG, 0), 1);
    seats_enter(world, 2);
    seats_settle(world, -1);
    seats_ask(world, 0, (part){.kind = PART_PULL});
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_OK, 0), 2);
    seats_push(world, 0, 0, 7, 6); /* it takes no pushes */
    assert_int_equal(seats_told(world, 0, PART_PUSHED, PART_WRONG, 7), 1);
}

static void a_fresh_pull_goes_down_the_chain(void **state) {
    seats *world = *state;
    seats_start(world, 2);
    part pull = {.kind = PART_PULL, .entry = PART_PULL_FRESH, .commit = 77};
    seats_ask(world, 1, pull); /* of the head only */
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_WRONG, 0), 1);
    seats_ask(world, 0, pull);
    seats_ask(world, 0, pull); /* again: it is under way */
    assert_true(seats_told(world, 0, PART_PULLED, PART_OK, 0) == 0 && seats_look(world, 0).logged == 1);
    seats_settle(world, -1);
    assert_int_equal(seats_told(world, 0, PART_PULLED, PART_OK, 0), 1);
    assert_true(seats_look(world, 0).applied == 1 && seats_look(world, 1).applied == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SEATS(a_pull_waits_for_what_its_rank_knows), ON_SEATS(a_pull_is_shown_what_it_asks_for),
        ON_SEATS(what_a_waiting_pull_asks_for_is_held), ON_SEATS(any_copy_shows_what_it_has),
        ON_SEATS(a_fresh_pull_goes_down_the_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
