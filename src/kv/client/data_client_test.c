/* data_client_test.c — data client with a group leader and a metadata store that answers at once: batches of steps, and
 * handed-back batches. */
#include "kv/client/data_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cluster/group_leader.h"
#include "kv/control/control_wire.h"

enum { RANK = 2, BATCH = 4 };
static const uint64_t sizes[] = {400, 100};

typedef struct world {
    data_client *client;
    group_leader *leader;
    rng rng;
    int64_t now_us;
    /* the rank's acknowledged steps; bound and oldest checkpoint, as the scheduler reports them */
    uint64_t acknowledged, bound, oldest;
    bool silent;          /* the data service does not answer */
    buffer late;          /* the last message to the group leader meanwhile */
    stamp late_stamp;     /* of that message */
    uint64_t empty_since; /* of the newest cluster map */
    uint64_t version;     /* of the metadata store's value */
    buffer value;
    metadata_store_done_fn *done;
    void *argument;
    metadata_store_answer answer;
} world;

static void get(void *self, const char *key, uint64_t known, metadata_store_done_fn *done, void *argument) {
    world *world = self;
    assert_null(world->done);
    world->done = done;
    world->argument = argument;
    world->answer = (metadata_store_answer){MR_OK, world->version, span_of(world->value.data, world->value.size)};
}

static void swap(void *self, const char *key, uint64_t expected, span value, uint64_t lease,
                 metadata_store_done_fn *done, void *argument) {
    world *world = self;
    get(self, key, 0, done, argument);
    world->answer = (metadata_store_answer){MR_OK, ++world->version, {0}};
    if (strcmp(key, CONSUMER_GROUP_KEY) != 0) return;
    buffer_clear(&world->value);
    assert_int_equal(buffer_append(&world->value, value.data, value.size), MR_OK);
}

static const metadata_store_ops ops = {.name = "test", .get = get, .compare_and_swap = swap};

static void serve(world *world) {
    for (metadata_store_done_fn *done; (done = world->done) != NULL;) {
        world->done = NULL;
        done(world->argument, &world->answer);
    }
}

static void from_feed(void *context, const char *address, const control_message *question) {
    world *world = context;
    if (world->silent && question->kind == MESSAGE_ATTEND) {
        buffer_clear(&world->late);
        assert_int_equal(buffer_append(&world->late, question->value.data, question->value.size), MR_OK);
        world->late_stamp = question->stamp;
    }
    if (world->silent) return;
    if (question->kind == CONTROL_MARK)
        (void)data_client_take(world->client,
                               &(control_message){.kind = CONTROL_MARKED,
                                                  .stamp = {world->bound, question->stamp.id, world->oldest},
                                                  .value = span_of(&world->oldest, sizeof world->oldest)});
    else
        assert_true(group_leader_take(world->leader, question, world->now_us));
}

static void to_feed(void *context, const char *address, const control_message *message) {
    world *world = context;
    if (strcmp(address, "f") == 0) assert_true(data_client_take(world->client, message));
}

static uint64_t acknowledged(void *context) { return ((world *)context)->acknowledged; }

static void pass(world *world, int beats) {
    while (beats-- > 0) {
        world->now_us += GROUP_CONSUMER_BEAT_US;
        serve(world);
        if (world->now_us >= data_client_next_us(world->client)) data_client_tick(world->client, world->now_us);
        serve(world);
        group_leader_tick(world->leader, world->now_us);
        serve(world);
    }
}

static void start_feed(world *world, uint64_t incarnation) {
    data_client_options options = {.rank = RANK,
                                   .address = "f",
                                   .scheduler = "s",
                                   .store = {&ops, world},
                                   .rng = &world->rng,
                                   .send = from_feed,
                                   .acknowledged = acknowledged,
                                   .context = world};
    assert_int_equal(dataset_spec_init(&options.spec, sizes, 2), MR_OK);
    world->client = data_client_create(&options);
    data_client_begin(world->client, incarnation, world->now_us);
}

static int setup(void **state) {
    world *world = xcalloc(1, sizeof *world);
    buffer_init(&world->value, 1 << 16);
    buffer_init(&world->late, 1 << 16);
    rng_init(&world->rng, 1);
    world->version = 100;
    group_leader_options options = {
        .store = {&ops, world}, .sizes = sizes, .part_count = 2, .send = to_feed, .context = world};
    world->leader = group_leader_create(&options, 0);
    start_feed(world, 50);
    *state = world;
    return 0;
}

static int teardown(void **state) {
    world *world = *state;
    data_client_destroy(world->client);
    group_leader_destroy(world->leader);
    buffer_fini(&world->value);
    buffer_fini(&world->late);
    free(world);
    return 0;
}

static void resume(world *world, uint64_t birth, uint64_t origin, uint64_t step) {
    if (origin == 0) world->empty_since = birth;
    cluster_map map = {.number = birth,
                       .birth = birth,
                       .origin = origin,
                       .empty_since = world->empty_since,
                       .consistency = {CONSISTENCY_BSP, 0}};
    group_leader_restart(world->leader, world->empty_since);
    data_client_resume(world->client, &map, step, step + 2);
}

static batch_claims_piece piece_of(world *world, uint64_t step) {
    batch_claims_piece piece = {0};
    for (int i = 0; i < 20; i++) {
        mr_status status = data_client_piece(world->client, step, BATCH, world->now_us, &piece);
        if (status == MR_OK) return piece;
        assert_int_equal(status, MR_BUSY);
        pass(world, 1);
    }
    fail_msg("there is no piece for step %d", (int)step);
    return piece;
}

static bool has(const batch_claims_piece *piece, uint32_t part, uint64_t from, uint64_t to) {
    return piece->part == part && piece->epoch == 0 && piece->from == from && piece->to == to;
}

static const batch_claims *claims_of(const world *world) { return &group_leader_group(world->leader)->claims; }

static void steps_find_their_pieces_ahead(void **state) {
    world *world = *state;
    batch_claims_piece piece;
    resume(world, 7, 0, 0);
    for (uint64_t step = 0; step < 40; step++) {
        piece = piece_of(world, step);
        assert_true(has(&piece, 0, step * BATCH, step * BATCH + BATCH));
        pass(world, 3); /* slower than answers arrive */
    }
    assert_int_equal(data_client_piece(world->client, 40, BATCH, world->now_us, &piece), MR_OK); /* without waiting */
    piece = piece_of(world, 12);
    assert_true(has(&piece, 0, 48, 52)); /* the same batch again */
}

/* Steps begin faster than claims are granted: the client claims more at once. */
static void a_waiting_client_asks_for_more(void **state) {
    world *world = *state;
    resume(world, 7, 0, 0);
    uint64_t waits = 0;
    for (uint64_t step = 0; step < 100; step++) {
        batch_claims_piece piece;
        waits += data_client_piece(world->client, step, 1, world->now_us, &piece) != MR_OK;
        (void)piece_of(world, step);
    }
    assert_true(waits <= 8);
}

static void another_process_does_them_with_the_same(void **state) {
    world *world = *state;
    resume(world, 7, 0, 0);
    batch_claims_piece before = piece_of(world, 1);
    data_client_destroy(world->client);
    start_feed(world, 60);
    resume(world, 7, 0, 1);
    batch_claims_piece after = piece_of(world, 1);
    assert_true(has(&after, before.part, before.from, before.to));
}

static void missed_batches_go_to_others_when_they_are_over(void **state) {
    world *world = *state;
    resume(world, 7, 0, 0);
    for (uint64_t step = 0; step < 3; step++) (void)piece_of(world, step);
    data_client_miss(world->client, 1, 2);
    world->acknowledged = 3;
    world->bound = 9; /* a checkpoint was begun that may not contain it */
    pass(world, 10);
    assert_int_equal(claims_of(world)->back_count, 0);
    world->oldest = 10;
    pass(world, 10);
    assert_int_equal(batch_claims_over(claims_of(world), RANK), 3);
    assert_int_equal(claims_of(world)->back_count, 1);
    assert_true(has(&claims_of(world)->back[0], 0, BATCH, 2 * BATCH));
    batch_claims_piece piece;
    assert_int_equal(data_client_piece(world->client, 1, BATCH, world->now_us, &piece), MR_STALE);
}

static void a_client_may_leave_and_return(void **state) {
    world *world = *state;
    resume(world, 7, 0, 0);
    (void)piece_of(world, 0);
    assert_true(batch_claims_any(claims_of(world), RANK, 1, UINT64_MAX));
    data_client_leave(world->client, 1, world->now_us);
    assert_int_equal(data_client_left(world->client), MR_BUSY);
    pass(world, 4);
    assert_int_equal(data_client_left(world->client), MR_OK);
    data_client_leave(world->client, 2, world->now_us); /* the batches were handed back */
    assert_int_equal(data_client_left(world->client), MR_OK);
    assert_false(batch_claims_any(claims_of(world), RANK, 1, UINT64_MAX));
    pass(world, 20);
    assert_int_equal(group_leader_group(world->leader)->member_count, 0); /* other members get its shards */
    batch_claims_piece piece = piece_of(world, 5);
    assert_true(has(&piece, 0, BATCH, 2 * BATCH));
    assert_true(group_leader_group(world->leader)->members[0].incarnation > 50);
}

/* An earlier process may have begun the step and its successor. */
static void an_immediate_leave_keeps_batches_perhaps_begun(void **state) {
    world *world = *state;
    resume(world, 7, 0, 0);
    (void)piece_of(world, 0);
    data_client_destroy(world->client);
    start_feed(world, 60);
    resume(world, 7, 0, 0);
    pass(world, 4);
    data_client_leave(world->client, 0, world->now_us);
    pass(world, 4);
    assert_int_equal(data_client_left(world->client), MR_OK);
    assert_non_null(batch_claims_find(claims_of(world), RANK, 1));
    assert_false(batch_claims_any(claims_of(world), RANK, 2, UINT64_MAX));
}

/* The client reported its leave before the restart; the report may be in flight, so no step begins before the leave is
 * decided. */
static void a_client_that_left_stays_out_after_a_restart_of_the_leader(void **state) {
    world *world = *state;
    batch_claims_piece piece;
    resume(world, 7, 0, 0);
    (void)piece_of(world, 0);
    world->silent = true;
    data_client_leave(world->client, 1, world->now_us);
    resume(world, 9, 3, 1);
    assert_int_equal(data_client_left(world->client), MR_BUSY);
    assert_int_equal(data_client_piece(world->client, 1, BATCH, world->now_us, &piece), MR_BUSY);
    world->silent = false;
    pass(world, 4);
    assert_int_equal(data_client_left(world->client), MR_OK);
    assert_false(batch_claims_any(claims_of(world), RANK, 1, UINT64_MAX));
    (void)piece_of(world, 1);
}

/* The process reports its leave and loses the rank. When it gets the rank again, it does not know whether another
 * process has begun the steps that it left. So it keeps them, and the report, which arrives only now, must not hand
 * them back. */
static void a_leave_of_an_earlier_term_takes_no_batch(void **state) {
    world *world = *state;
    resume(world, 7, 0, 0);
    (void)piece_of(world, 0);
    (void)piece_of(world, 1);
    world->silent = true;
    data_client_leave(world->client, 2, world->now_us);
    world->silent = false;
    data_client_end(world->client);
    data_client_begin(world->client, 50, world->now_us);
    resume(world, 9, 3, 2);
    batch_claims_piece piece = piece_of(world, 2);
    assert_true(has(&piece, 0, 2 * BATCH, 3 * BATCH));
    assert_int_not_equal(world->late.size, 0);
    (void)group_leader_take(world->leader,
                            &(control_message){.kind = MESSAGE_ATTEND,
                                               .stamp = world->late_stamp,
                                               .value = span_of(world->late.data, world->late.size)},
                            world->now_us);
    pass(world, 4);
    assert_int_equal(claims_of(world)->back_count, 0);
    piece = piece_of(world, 2);
    assert_true(has(&piece, 0, 2 * BATCH, 3 * BATCH));
}

static void a_silent_client_may_return(void **state) {
    world *world = *state;
    resume(world, 7, 0, 0);
    batch_claims_piece before = piece_of(world, 0);
    world->silent = true;
    pass(world, 20);
    assert_int_equal(group_leader_group(world->leader)->member_count, 0);
    world->silent = false;
    pass(world, 20);
    assert_int_equal(group_leader_group(world->leader)->member_count, 1);
    batch_claims_piece after = piece_of(world, 0);
    assert_true(has(&after, before.part, before.from, before.to));
}

static void a_generation_from_nothing_has_other_pieces(void **state) {
    world *world = *state;
    batch_claims_piece piece;
    resume(world, 7, 0, 0);
    for (uint64_t step = 0; step < 3; step++) (void)piece_of(world, step);
    resume(world, 9, 4, 1); /* continued from a checkpoint: the same batches */
    piece = piece_of(world, 1);
    assert_true(has(&piece, 0, BATCH, 2 * BATCH));
    resume(world, 12, 0, 0);
    /* the known low watermark */
    assert_int_equal(data_client_piece(world->client, 0, BATCH, world->now_us, &piece), MR_BUSY);
    for (uint64_t step = 0; step < 3; step++) {
        piece = piece_of(world, step);
        assert_true(has(&piece, 0, step * BATCH, step * BATCH + BATCH));
    }
}

/* The client misses the generation in which the tables are empty, and knows the group of the tables before. */
static void batches_of_lost_tables_are_not_used(void **state) {
    world *world = *state;
    batch_claims_piece piece;
    resume(world, 7, 0, 0);
    (void)piece_of(world, 0);
    world->silent = true;
    world->empty_since = 12;
    group_leader_restart(world->leader, 12);
    pass(world, 2);
    assert_int_equal(group_leader_group(world->leader)->birth, 12);
    resume(world, 14, 4, 0);
    assert_int_equal(data_client_piece(world->client, 0, BATCH, world->now_us, &piece), MR_BUSY);
    world->silent = false;
    (void)piece_of(world, 0);
    assert_true(group_leader_group(world->leader)->birth == 12 && claims_of(world)->count == 1);
}

/* A deployment of release 0.2.0 that has returned to a checkpoint does not know since when its tables are not empty. */
static void batches_of_unknown_tables_are_used(void **state) {
    world *world = *state;
    resume(world, 7, 0, 0);
    batch_claims_piece before = piece_of(world, 1);
    world->empty_since = 0;
    resume(world, 9, 4, 1);
    batch_claims_piece after = piece_of(world, 1);
    assert_true(has(&after, before.part, before.from, before.to));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(steps_find_their_pieces_ahead),
        TEST(a_waiting_client_asks_for_more),
        TEST(another_process_does_them_with_the_same),
        TEST(missed_batches_go_to_others_when_they_are_over),
        TEST(a_client_may_leave_and_return),
        TEST(an_immediate_leave_keeps_batches_perhaps_begun),
        TEST(a_client_that_left_stays_out_after_a_restart_of_the_leader),
        TEST(a_leave_of_an_earlier_term_takes_no_batch),
        TEST(a_silent_client_may_return),
        TEST(a_generation_from_nothing_has_other_pieces),
        TEST(batches_of_lost_tables_are_not_used),
        TEST(batches_of_unknown_tables_are_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
