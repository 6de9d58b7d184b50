/* marshal_test.c — a marshal and its members, with a coordinator that answers when it is told to. */
#include "cluster/marshal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cluster/attendee.h"

enum { MEMBERS = 3 };
static const uint64_t sizes[] = {4, 4, 4};
static const roster_wish first = {.rank = 5, .step = 0, .count = 1, .batch = 2};

typedef struct world world;

typedef struct seat {
    world *world;
    attendee *attendee;
    char address[8];
    bool deaf; /* it is gone: nothing reaches it, and it says nothing */
} seat;

struct world {
    seat seats[MEMBERS];
    marshal *marshal;
    int64_t now_us;
    /* The coordinator: one value, and one request that is open. */
    uint64_t version, writes;
    buffer value, wanted;
    bool swaps;
    uint64_t expected;
    coordinator_done_fn *done;
    void *argument;
};

/* ---- The coordinator. */

static void ask(void *self, const char *key, uint64_t known, coordinator_done_fn *done, void *argument) {
    world *world = self;
    assert_null(world->done); /* one at a time */
    world->swaps = false;
    world->done = done;
    world->argument = argument;
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease, coordinator_done_fn *done,
                 void *argument) {
    world *world = self;
    assert_null(world->done);
    buffer_clear(&world->wanted);
    assert_int_equal(buffer_append(&world->wanted, value.data, value.size), MR_OK);
    world->swaps = true;
    world->expected = expected;
    world->done = done;
    world->argument = argument;
}

static const coordinator_ops ops = {.name = "test", .get = ask, .compare_and_swap = swap};

static void answer(world *world) {
    coordinator_done_fn *done = world->done;
    if (done == NULL) return;
    world->done = NULL;
    mr_status status = world->swaps && world->expected != world->version ? MR_STALE : MR_OK;
    if (world->swaps && status == MR_OK) {
        buffer_clear(&world->value);
        assert_int_equal(buffer_append(&world->value, world->wanted.data, world->wanted.size), MR_OK);
        world->version++;
        world->writes++;
    }
    done(world->argument, &(coordinator_answer){status, world->version, span_of(world->value.data, world->value.size)});
}

/* ---- The post. */

static void to_marshal(void *context, const char *address, const letter *letter) {
    world *world = ((seat *)context)->world;
    assert_true(marshal_take(world->marshal, letter, world->now_us));
}

static void to_member(void *context, const char *address, const letter *letter) {
    world *world = context;
    for (size_t i = 0; i < MEMBERS; i++)
        if (strcmp(world->seats[i].address, address) == 0 && !world->seats[i].deaf)
            assert_true(attendee_take(world->seats[i].attendee, letter));
}

static void on_roster(void *context, const roster *roster) {}

static void pass(world *world, int beats) {
    while (beats-- > 0) {
        world->now_us += ATTENDEE_BEAT_US;
        for (size_t i = 0; i < MEMBERS; i++)
            if (!world->seats[i].deaf) attendee_tick(world->seats[i].attendee, world->now_us);
        marshal_tick(world->marshal, world->now_us);
        answer(world);
        marshal_check(world->marshal);
        for (size_t i = 0; i < MEMBERS; i++) attendee_check(world->seats[i].attendee);
    }
}

static void start_marshal(world *world) {
    marshal_options options = {
        .coordinator = {&ops, world}, .sizes = sizes, .part_count = 3, .send = to_member, .context = world};
    world->marshal = marshal_create(&options, world->now_us);
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    buffer_init(&world->value, 1 << 16);
    buffer_init(&world->wanted, 1 << 16);
    start_marshal(world);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        seat *seat = &world->seats[i];
        *seat = (struct seat){.world = world, .address = {'m', (char)('0' + i)}};
        attendee_options options = {.id = i,
                                    .role = ROSTER_WORKER,
                                    .address = seat->address,
                                    .marshal = "marshal",
                                    .send = to_marshal,
                                    .on_roster = on_roster,
                                    .context = seat};
        seat->attendee = attendee_create(&options);
        attendee_begin(seat->attendee, 10 + i, 0);
    }
    pass(world, 4);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    for (size_t i = 0; i < MEMBERS; i++) attendee_destroy(world->seats[i].attendee);
    marshal_destroy(world->marshal);
    buffer_fini(&world->value);
    buffer_fini(&world->wanted);
    free(world);
    return 0;
}

static void all_are_in_one_roster(void **state) {
    world *world = *state;
    assert_int_equal(world->writes, 1); /* all of them */
    for (size_t i = 0; i < MEMBERS; i++) {
        const roster *roster = attendee_roster(world->seats[i].attendee);
        assert_true(roster->member_count == MEMBERS && roster->part_count == 3);
        assert_int_equal(roster->parts[roster_source(roster, (uint32_t)i, 10 + i)].holder, i);
    }
    pass(world, 5);
    assert_int_equal(world->writes, 1); /* and nothing more to say */
}

static void who_is_silent_is_taken_out_and_told(void **state) {
    world *world = *state;
    world->seats[2].deaf = true;
    pass(world, 3);
    assert_int_equal(attendee_roster(world->seats[0].attendee)->member_count, 3);
    pass(world, 9);
    assert_int_equal(attendee_roster(world->seats[0].attendee)->member_count, 2);
    assert_int_equal(marshal_roster(world->marshal)->member_count, 2);
    world->seats[2].deaf = false; /* it was only paused */
    const roster *known = attendee_roster(world->seats[2].attendee);
    assert_false(attendee_is_out(world->seats[2].attendee));
    attendee_begin(world->seats[2].attendee, 50, world->now_us);
    pass(world, 3);
    assert_true(roster_find(known, 2)->incarnation == 50);
}

/* One process plays many ranks, and three claim of the same part: all of it is one write. */
static void all_claims_are_in_one_roster(void **state) {
    world *world = *state;
    attendee *attendee = world->seats[1].attendee;
    uint64_t writes = world->writes;
    for (uint32_t i = 0; i < ATTENDEE_WISHES_MAX; i++)
        assert_true(attendee_wish(attendee, &(roster_wish){.rank = i, .count = 3, .batch = 2}));
    assert_false(attendee_wish(attendee, &(roster_wish){.rank = 99, .count = 3, .batch = 2}));
    pass(world, 3);
    assert_int_equal(world->writes, writes + 1);
    const roster *roster = attendee_roster(attendee);
    for (uint32_t i = 0; i < ATTENDEE_WISHES_MAX; i++) {
        assert_non_null(claims_find(&roster->claims, i, 2));
        assert_null(attendee_wish_of(attendee, i));
    }
    assert_int_equal(roster->epoch, ATTENDEE_WISHES_MAX * 3 / 6);
}

/* One process of the rank claims a step; another, that plays it now, says in the same roster that the step is over. The
 * step gets no piece: nobody would do it. */
static void a_late_claim_takes_nothing(void **state) {
    world *world = *state;
    attendee *old = world->seats[0].attendee, *now = world->seats[1].attendee;
    assert_true(attendee_wish(now, &first));
    pass(world, 3);
    assert_non_null(claims_find(&attendee_roster(now)->claims, 5, 0));
    assert_true(attendee_wish(old, &(roster_wish){.rank = 5, .step = 2, .count = 2, .batch = 2}));
    roster_wish next = {.rank = 5, .step = 4, .count = 1, .batch = 2, .past = {.over = 4, .since = 4}};
    assert_true(attendee_wish(now, &next));
    pass(world, 3);
    const roster *roster = marshal_roster(world->marshal);
    assert_int_equal(claims_over(&roster->claims, 5), 4);
    assert_true(roster->claims.count == 1 && roster->claims.list[0].step == 4 && roster->claims.back_count == 0);
    uint64_t moved = 0;
    for (size_t i = 0; i < roster->part_count; i++) moved += roster->parts[i].position;
    assert_int_equal(moved, 4); /* of steps 0 and 4 */
    assert_null(attendee_wish_of(old, 5));
}

static void a_wish_is_replaced_and_withdrawn(void **state) {
    world *world = *state;
    attendee *attendee = world->seats[0].attendee;
    assert_true(attendee_wish(attendee, &first));
    roster_wish other = first;
    other.step = 7;
    assert_true(attendee_wish(attendee, &other));
    assert_int_equal(attendee_wish_of(attendee, 5)->step, 7);
    attendee_withdraw(attendee, 5);
    attendee_withdraw(attendee, 5);
    assert_null(attendee_wish_of(attendee, 5));
    pass(world, 3);
    assert_int_equal(attendee_roster(attendee)->claims.count, 0);
    assert_true(attendee_wish(attendee, &first));
    pass(world, 3);
    assert_true(attendee_wish(attendee, &first)); /* it has that one: there is nothing to say */
    assert_null(attendee_wish_of(attendee, 5));
}

static void who_leaves_hands_back_what_it_has_not_begun(void **state) {
    world *world = *state;
    attendee *attendee = world->seats[0].attendee;
    assert_true(attendee_wish(attendee, &(roster_wish){.rank = 5, .count = 2, .batch = 2}));
    pass(world, 3);
    const claims *claims = &attendee_roster(attendee)->claims;
    roster_wish leaves = {.rank = 5, .step = 1, .leaves = true, .granted = claims_granted(claims, 5)};
    assert_true(attendee_wish(attendee, &leaves));
    assert_non_null(attendee_wish_of(attendee, 5));
    pass(world, 3);
    assert_null(attendee_wish_of(attendee, 5));
    assert_non_null(claims_find(claims, 5, 0));
    assert_false(claims_any(claims, 5, 1, UINT64_MAX));
    assert_int_equal(claims->back_count, 1);
    leaves.granted = 7; /* of another roster: there is nothing to wait for */
    assert_true(attendee_wish(attendee, &leaves));
    assert_null(attendee_wish_of(attendee, 5));
}

static void with_the_tables_the_data_begins_from_nothing(void **state) {
    world *world = *state;
    attendee *attendee = world->seats[0].attendee;
    assert_true(attendee_wish(attendee, &(roster_wish){.rank = 5, .count = 9, .batch = 2}));
    pass(world, 3);
    assert_int_equal(attendee_roster(attendee)->epoch, 1);
    roster_wish late = {.rank = 5, .step = 20, .count = 1, .batch = 2, .past = {.over = 9}};
    assert_true(attendee_wish(attendee, &late)); /* it has not heard of it */
    marshal_restart(world->marshal, 12);
    marshal_restart(world->marshal, 11);
    pass(world, 3);
    const roster *roster = attendee_roster(attendee);
    assert_true(roster->birth == 12 && roster->epoch == 0 && roster->claims.count == 0);
    assert_int_equal(claims_over(&roster->claims, 5), 0);
    assert_null(attendee_wish_of(attendee, 5));
    for (size_t i = 0; i < roster->part_count; i++) assert_int_equal(roster->parts[i].position, 0);
    late.birth = 12;
    late.past.over = 0;
    assert_true(attendee_wish(attendee, &late));
    pass(world, 3);
    assert_non_null(claims_find(&roster->claims, 5, 20));
}

static void a_marshal_that_starts_again_goes_on(void **state) {
    world *world = *state;
    assert_true(attendee_wish(world->seats[0].attendee, &first));
    pass(world, 2);
    marshal_destroy(world->marshal);
    world->done = NULL;
    start_marshal(world);
    roster_wish other = first;
    other.rank = 6;
    assert_true(attendee_wish(world->seats[1].attendee, &other));
    pass(world, 4);
    for (size_t i = 0; i < MEMBERS; i++) {
        const claims *claims = &attendee_roster(world->seats[i].attendee)->claims;
        assert_true(claims_find(claims, 5, 0) != NULL && claims_find(claims, 6, 0) != NULL);
    }
}

static void letters_of_others_are_left_alone(void **state) {
    world *world = *state;
    letter letter = {.kind = LETTER_GET};
    assert_false(marshal_take(world->marshal, &letter, world->now_us));
    assert_false(attendee_take(world->seats[0].attendee, &letter));
    letter.kind = LETTER_ATTEND; /* without a word */
    assert_true(marshal_take(world->marshal, &letter, world->now_us));
    assert_int_equal(marshal_roster(world->marshal)->member_count, MEMBERS);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_are_in_one_roster),
        TEST(who_is_silent_is_taken_out_and_told),
        TEST(all_claims_are_in_one_roster),
        TEST(a_late_claim_takes_nothing),
        TEST(a_wish_is_replaced_and_withdrawn),
        TEST(who_leaves_hands_back_what_it_has_not_begun),
        TEST(with_the_tables_the_data_begins_from_nothing),
        TEST(a_marshal_that_starts_again_goes_on),
        TEST(letters_of_others_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
