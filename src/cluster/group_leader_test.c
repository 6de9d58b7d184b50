/* group_leader_test.c — a group leader and its members, with a metadata store whose answers the test releases. */
#include "cluster/group_leader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cluster/group_consumer.h"

enum { MEMBERS = 3 };
static const uint64_t sizes[] = {4, 4, 4};
static const consumer_group_wish first = {.rank = 5, .step = 0, .count = 1, .batch = 2};

typedef struct world world;

typedef struct site {
    world *world;
    group_consumer *consumer;
    char address[8];
    bool deaf; /* the process is dead: it neither receives nor sends */
} site;

struct world {
    site sites[MEMBERS];
    group_leader *leader;
    int64_t now_us;
    /* The metadata store: one value, and one pending request. */
    uint64_t version, writes;
    buffer value, wanted;
    bool swaps;
    uint64_t expected;
    metadata_store_done_fn *done;
    void *argument;
};

/* ---- The metadata store. */

static void ask(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    world *world = self;
    assert_null(world->done); /* one request at a time */
    world->swaps = false;
    world->done = done;
    world->argument = argument;
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                 metadata_store_done_fn *done, void *argument) {
    world *world = self;
    assert_null(world->done);
    buffer_clear(&world->wanted);
    assert_int_equal(buffer_append(&world->wanted, value.data, value.size), MR_OK);
    world->swaps = true;
    world->expected = expected;
    world->done = done;
    world->argument = argument;
}

static const metadata_store_ops ops = {.name = "test", .get = ask, .compare_and_swap = swap};

static void answer(world *world) {
    metadata_store_done_fn *done = world->done;
    if (done == NULL) return;
    world->done = NULL;
    mr_status status = world->swaps && world->expected != world->version ? MR_STALE : MR_OK;
    if (world->swaps && status == MR_OK) {
        buffer_clear(&world->value);
        assert_int_equal(buffer_append(&world->value, world->wanted.data, world->wanted.size), MR_OK);
        world->version++;
        world->writes++;
    }
    done(world->argument,
         &(metadata_store_answer){status, world->version, span_of(world->value.data, world->value.size)});
}

/* ---- Messages. */

static void to_leader(void *context, const char *address, const control_message *message) {
    world *world = ((site *)context)->world;
    assert_true(group_leader_take(world->leader, message, world->now_us));
}

static void to_member(void *context, const char *address, const control_message *message) {
    world *world = context;
    for (size_t i = 0; i < MEMBERS; i++)
        if (strcmp(world->sites[i].address, address) == 0 && !world->sites[i].deaf)
            assert_true(group_consumer_take(world->sites[i].consumer, message));
}

static void on_group(void *context, const consumer_group *group) {}

static void pass(world *world, int beats) {
    while (beats-- > 0) {
        world->now_us += GROUP_CONSUMER_BEAT_US;
        for (size_t i = 0; i < MEMBERS; i++)
            if (!world->sites[i].deaf) group_consumer_tick(world->sites[i].consumer, world->now_us);
        group_leader_tick(world->leader, world->now_us);
        answer(world);
        group_leader_check(world->leader);
        for (size_t i = 0; i < MEMBERS; i++) group_consumer_check(world->sites[i].consumer);
    }
}

static void start_leader(world *world) {
    group_leader_options options = {
        .store = {&ops, world}, .sizes = sizes, .part_count = 3, .send = to_member, .context = world};
    world->leader = group_leader_create(&options, world->now_us);
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    buffer_init(&world->value, 1 << 16);
    buffer_init(&world->wanted, 1 << 16);
    start_leader(world);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        site *site = &world->sites[i];
        *site = (struct site){.world = world, .address = {'m', (char)('0' + i)}};
        group_consumer_options options = {.id = i,
                                          .role = CONSUMER_GROUP_WORKER,
                                          .address = site->address,
                                          .leader = "marshal",
                                          .send = to_leader,
                                          .on_group = on_group,
                                          .context = site};
        site->consumer = group_consumer_create(&options);
        group_consumer_begin(site->consumer, 10 + i, 0);
    }
    pass(world, 4);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    for (size_t i = 0; i < MEMBERS; i++) group_consumer_destroy(world->sites[i].consumer);
    group_leader_destroy(world->leader);
    buffer_fini(&world->value);
    buffer_fini(&world->wanted);
    free(world);
    return 0;
}

static void all_are_in_one_group(void **state) {
    world *world = *state;
    assert_int_equal(world->writes, 1); /* all members in one decision */
    for (size_t i = 0; i < MEMBERS; i++) {
        const consumer_group *group = group_consumer_group(world->sites[i].consumer);
        assert_true(group->member_count == MEMBERS && group->part_count == 3);
        assert_int_equal(group->parts[consumer_group_source(group, (uint32_t)i, 10 + i)].holder, i);
    }
    pass(world, 5);
    assert_int_equal(world->writes, 1); /* no further changes */
}

static void a_silent_member_is_removed_and_notified(void **state) {
    world *world = *state;
    world->sites[2].deaf = true;
    pass(world, 3);
    assert_int_equal(group_consumer_group(world->sites[0].consumer)->member_count, 3);
    pass(world, 9);
    assert_int_equal(group_consumer_group(world->sites[0].consumer)->member_count, 2);
    assert_int_equal(group_leader_group(world->leader)->member_count, 2);
    world->sites[2].deaf = false; /* the process was only paused */
    const consumer_group *known = group_consumer_group(world->sites[2].consumer);
    assert_false(group_consumer_is_out(world->sites[2].consumer));
    group_consumer_begin(world->sites[2].consumer, 50, world->now_us);
    pass(world, 3);
    assert_true(consumer_group_find(known, 2)->incarnation == 50);
}

/* One process holds many ranks, and three claim from the same part: one decision has all claims. */
static void all_claims_are_in_one_group(void **state) {
    world *world = *state;
    group_consumer *consumer = world->sites[1].consumer;
    uint64_t writes = world->writes;
    for (uint32_t i = 0; i < GROUP_CONSUMER_WISHES_MAX; i++)
        assert_true(group_consumer_wish(consumer, &(consumer_group_wish){.rank = i, .count = 3, .batch = 2}));
    assert_false(group_consumer_wish(consumer, &(consumer_group_wish){.rank = 99, .count = 3, .batch = 2}));
    pass(world, 3);
    assert_int_equal(world->writes, writes + 1);
    const consumer_group *group = group_consumer_group(consumer);
    for (uint32_t i = 0; i < GROUP_CONSUMER_WISHES_MAX; i++) {
        assert_non_null(batch_claims_find(&group->claims, i, 2));
        assert_null(group_consumer_wish_of(consumer, i));
    }
    assert_int_equal(group->epoch, GROUP_CONSUMER_WISHES_MAX * 3 / 6);
}

/* One process of the rank claims a step; a newer one reports in the same decision that the step is over. The step
 * gets no batch, since no process would do it. */
static void a_late_claim_takes_nothing(void **state) {
    world *world = *state;
    group_consumer *old = world->sites[0].consumer, *now = world->sites[1].consumer;
    assert_true(group_consumer_wish(now, &first));
    pass(world, 3);
    assert_non_null(batch_claims_find(&group_consumer_group(now)->claims, 5, 0));
    assert_true(group_consumer_wish(old, &(consumer_group_wish){.rank = 5, .step = 2, .count = 2, .batch = 2}));
    consumer_group_wish next = {.rank = 5, .step = 4, .count = 1, .batch = 2, .past = {.over = 4, .since = 4}};
    assert_true(group_consumer_wish(now, &next));
    pass(world, 3);
    const consumer_group *group = group_leader_group(world->leader);
    assert_int_equal(batch_claims_over(&group->claims, 5), 4);
    assert_true(group->claims.count == 1 && group->claims.list[0].step == 4 && group->claims.back_count == 0);
    uint64_t moved = 0;
    for (size_t i = 0; i < group->part_count; i++) moved += group->parts[i].position;
    assert_int_equal(moved, 4); /* the batches of steps 0 and 4 */
    assert_null(group_consumer_wish_of(old, 5));
}

static void a_wish_is_replaced_and_withdrawn(void **state) {
    world *world = *state;
    group_consumer *consumer = world->sites[0].consumer;
    assert_true(group_consumer_wish(consumer, &first));
    consumer_group_wish other = first;
    other.step = 7;
    assert_true(group_consumer_wish(consumer, &other));
    assert_int_equal(group_consumer_wish_of(consumer, 5)->step, 7);
    group_consumer_withdraw(consumer, 5);
    group_consumer_withdraw(consumer, 5);
    assert_null(group_consumer_wish_of(consumer, 5));
    pass(world, 3);
    assert_int_equal(group_consumer_group(consumer)->claims.count, 0);
    assert_true(group_consumer_wish(consumer, &first));
    pass(world, 3);
    assert_true(group_consumer_wish(consumer, &first)); /* the consumer group already grants the wish */
    assert_null(group_consumer_wish_of(consumer, 5));
}

static void a_leaving_member_hands_back_batches_not_begun(void **state) {
    world *world = *state;
    group_consumer *consumer = world->sites[0].consumer;
    assert_true(group_consumer_wish(consumer, &(consumer_group_wish){.rank = 5, .count = 2, .batch = 2}));
    pass(world, 3);
    const batch_claims *claims = &group_consumer_group(consumer)->claims;
    consumer_group_wish leaves = {.rank = 5, .step = 1, .leaves = true, .granted = batch_claims_granted(claims, 5)};
    assert_true(group_consumer_wish(consumer, &leaves));
    assert_non_null(group_consumer_wish_of(consumer, 5));
    pass(world, 3);
    assert_null(group_consumer_wish_of(consumer, 5));
    assert_non_null(batch_claims_find(claims, 5, 0));
    assert_false(batch_claims_any(claims, 5, 1, UINT64_MAX));
    assert_int_equal(claims->back_count, 1);
    leaves.granted = 7; /* a count of another consumer group: the wish cannot apply */
    assert_true(group_consumer_wish(consumer, &leaves));
    assert_null(group_consumer_wish_of(consumer, 5));
}

static void with_the_tables_the_data_begins_from_nothing(void **state) {
    world *world = *state;
    group_consumer *consumer = world->sites[0].consumer;
    assert_true(group_consumer_wish(consumer, &(consumer_group_wish){.rank = 5, .count = 9, .batch = 2}));
    pass(world, 3);
    assert_int_equal(group_consumer_group(consumer)->epoch, 1);
    consumer_group_wish late = {.rank = 5, .step = 20, .count = 1, .batch = 2, .past = {.over = 9}};
    assert_true(group_consumer_wish(consumer, &late)); /* the process does not know of the restart */
    group_leader_restart(world->leader, 12);
    group_leader_restart(world->leader, 11);
    pass(world, 3);
    const consumer_group *group = group_consumer_group(consumer);
    assert_true(group->birth == 12 && group->epoch == 0 && group->claims.count == 0);
    assert_int_equal(batch_claims_over(&group->claims, 5), 0);
    assert_null(group_consumer_wish_of(consumer, 5));
    for (size_t i = 0; i < group->part_count; i++) assert_int_equal(group->parts[i].position, 0);
    late.birth = 12;
    late.past.over = 0;
    assert_true(group_consumer_wish(consumer, &late));
    pass(world, 3);
    assert_non_null(batch_claims_find(&group->claims, 5, 20));
}

static void a_leader_that_starts_again_goes_on(void **state) {
    world *world = *state;
    assert_true(group_consumer_wish(world->sites[0].consumer, &first));
    pass(world, 2);
    group_leader_destroy(world->leader);
    world->done = NULL;
    start_leader(world);
    consumer_group_wish other = first;
    other.rank = 6;
    assert_true(group_consumer_wish(world->sites[1].consumer, &other));
    pass(world, 4);
    for (size_t i = 0; i < MEMBERS; i++) {
        const batch_claims *claims = &group_consumer_group(world->sites[i].consumer)->claims;
        assert_true(batch_claims_find(claims, 5, 0) != NULL && batch_claims_find(claims, 6, 0) != NULL);
    }
}

static void messages_of_others_are_left_alone(void **state) {
    world *world = *state;
    control_message message = {.kind = CONTROL_MESSAGE_GET};
    assert_false(group_leader_take(world->leader, &message, world->now_us));
    assert_false(group_consumer_take(world->sites[0].consumer, &message));
    message.kind = MESSAGE_ATTEND; /* an empty message */
    assert_true(group_leader_take(world->leader, &message, world->now_us));
    assert_int_equal(group_leader_group(world->leader)->member_count, MEMBERS);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(all_are_in_one_group),
        TEST(a_silent_member_is_removed_and_notified),
        TEST(all_claims_are_in_one_group),
        TEST(a_late_claim_takes_nothing),
        TEST(a_wish_is_replaced_and_withdrawn),
        TEST(a_leaving_member_hands_back_batches_not_begun),
        TEST(with_the_tables_the_data_begins_from_nothing),
        TEST(a_leader_that_starts_again_goes_on),
        TEST(messages_of_others_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
