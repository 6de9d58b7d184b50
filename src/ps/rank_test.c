/* rank_test.c — one rank against a cluster map and answers made by hand: its messages, their receivers and number. */
#include "ps/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ps/rank_internal.h"
#include "tests/support/message_recorder.h"

enum { SLOTS = 2 };

typedef struct world {
    rank *rank;
    message_recorder recorder;
    uint64_t number, generation;
    int ready, over, pushed, pulled, gone;
    uint64_t lsn;
} world;

static void on_send(void *context, const char *address, span bytes) {
    message_recorder_take(&((world *)context)->recorder, address, bytes);
}
static void on_ready(void *context) { ((world *)context)->ready++; }
static void on_over(void *context) { ((world *)context)->over++; }
static void on_pushed(void *context, uint32_t slot, uint64_t name, slot_message_status status) {
    ((world *)context)->pushed++;
}
static void on_pulled(void *context, uint32_t slot, uint64_t version, uint64_t lsn, span values) {
    ((world *)context)->pulled++;
    ((world *)context)->lsn = lsn;
}
static void on_gone(void *context, uint32_t slot, uint64_t version) { ((world *)context)->gone++; }

static mr_status push(world *world, uint32_t slot, uint64_t name, span payload, shared_bytes *bytes) {
    return rank_push_pieces(world->rank, slot, name, payload, bytes, (shared_bytes_piece){0});
}

static size_t unacknowledged(const world *world) {
    size_t count = 0;
    for (uint32_t i = 0; i < world->rank->slot_count; i++) count += world->rank->lanes[i].count;
    return count;
}

static void hear(world *world, const slot_message *message) {
    slot_message_head head = {
        .generation = world->generation, .number = world->number, .incarnation = 1, .who = 0, .address = "s0"};
    message_recorder_batch batch = message_recorder_say(&head, message);
    rank_take_bytes(world->rank, batch.bytes, NULL);
    rank_check(world->rank);
    message_recorder_free(&batch);
}

/* A cluster map with both slots on s0 and s1. Slot 0 has the epoch `epoch`; the other slot has the epoch `number`,
 * and `more` replicas for reading. */
static void hear_slots(world *world, uint64_t number, uint32_t first, uint64_t epoch, uint8_t more) {
    cluster_map map = {
        .number = number, .generation = world->generation, .birth = 1, .rank_count = 3, .slot_count = SLOTS};
    map.slots = xcalloc(SLOTS, sizeof *map.slots);
    for (uint32_t i = 0; i < SLOTS; i++)
        map.slots[i] = (cluster_map_slot){.epoch = i == 0 ? epoch : number,
                                          .more = i == 0 ? 0 : more,
                                          .count = 2,
                                          .chain = {{first, 1, 1}, {1 - first, 1, 1}}};
    cluster_map_put_server(&map, 0, 1, "s0");
    cluster_map_put_server(&map, 1, 1, "s1");
    world->number = number;
    slot_message_head head = {.generation = world->generation,
                              .number = number,
                              .incarnation = 1,
                              .who = SLOT_MESSAGE_CONTROLLER,
                              .address = "d"};
    message_recorder_batch batch = message_recorder_map(&head, &map);
    rank_take_bytes(world->rank, batch.bytes, NULL);
    message_recorder_free(&batch);
    cluster_map_fini(&map);
}

static void hear_epoch(world *world, uint64_t number, uint32_t first, uint64_t epoch) {
    hear_slots(world, number, first, epoch, 0);
}

static void hear_map(world *world, uint64_t number, uint32_t first) { hear_epoch(world, number, first, number); }

static void start_with(world *world, rank_spread spread, uint32_t pulls_max) {
    *world = (struct world){.generation = 5};
    rank_options options = {.rank = 2,
                            .address = "r2",
                            .controller = "d",
                            .spread = spread,
                            .pulls_max = pulls_max,
                            .send = on_send,
                            .on_ready = on_ready,
                            .on_over = on_over,
                            .on_pushed = on_pushed,
                            .on_pulled = on_pulled,
                            .on_gone = on_gone,
                            .context = world};
    world->rank = rank_create(&options);
    rank_begin(world->rank, 7, 0);
    hear_map(world, 1, 0);
    assert_int_equal(message_recorder_named(&world->recorder, "s0", SLOT_MESSAGE_HELLO, SLOT_MESSAGE_OK, 0), SLOTS);
    slot_message clock = {.kind = SLOT_MESSAGE_CLOCK, .rank = 2, .name = 3, .commit = 6};
    hear(world, &clock); /* an answer to an earlier term */
    clock.commit = 7;
    clock.status = SLOT_MESSAGE_LATER; /* LATER: the earlier term has pushes in flight */
    hear(world, &clock);
    clock.status = SLOT_MESSAGE_OK;
    clock.name = 4;
    for (clock.slot = 0; clock.slot < SLOTS; clock.slot++) hear(world, &clock);
    assert_true(world->ready == 1 && world->rank->ready && rank_clock(world->rank, 1) == 4);
    world->recorder.count = 0;
}

static void start(world *world, rank_spread spread) { start_with(world, spread, 0); }

static void unacknowledged_pushes_are_repeated(void **state) {
    world world;
    start(&world, RANK_HEADS);
    for (uint64_t i = 0; i < RANK_WINDOW; i++) assert_int_equal(push(&world, 0, 5 + i, (span){0}, NULL), MR_OK);
    assert_int_equal(push(&world, 0, 99, (span){0}, NULL), MR_BUSY);
    rank_flush(world.rank);
    assert_true(world.recorder.list[0].message.prev == 4 && world.recorder.list[1].message.prev == 5);
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = 6});
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = 6}); /* a repeated answer */
    /* an answer to another rank */
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 1, .name = 7});
    /* a server without the slot */
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .status = SLOT_MESSAGE_WRONG, .rank = 2, .name = 5});
    assert_true(world.pushed == 1 && unacknowledged(&world) == RANK_WINDOW - 1);
    hear_map(&world, 2, 1); /* another head: all unacknowledged pushes once, in order */
    assert_true(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 5) == 1 &&
                message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 6) == 0);
    rank_tick(world.rank, RANK_TICK_US);
    assert_true(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 5) == 2 &&
                message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 5) == 1);
    /* a question without a payload */
    assert_int_equal(world.recorder.list[world.recorder.count - 1].message.entry, SLOT_MESSAGE_PUSH_ASK);
    hear(&world,
         &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .status = SLOT_MESSAGE_RESEND, .rank = 2, .name = 7, .prev = 5});
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED,
                                 .status = SLOT_MESSAGE_RESEND,
                                 .rank = 2,
                                 .name = 8,
                                 .prev = 5}); /* a second RESEND */
    /* RESEND: all pushes after seq 5, once */
    assert_true(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 7) == 3 &&
                message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 5) == 2);
    assert_int_equal(rank_next_us(world.rank), 2 * RANK_TICK_US);
    rank_destroy(world.rank);
}

/* Two pushes are presumed lost and wait for credit; the head has both, and its answer to the first was lost. */
static void pushes_before_an_acknowledged_one_are_repeated(void **state) {
    world world;
    start(&world, RANK_HEADS);
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_CLOCK, .rank = 2, .commit = 7, .prev = 16}); /* a grant */
    for (uint64_t name = 5; name < 7; name++)
        assert_int_equal(push(&world, 0, name, span_of("01234567", 8), NULL), MR_OK);
    rank_prefer(world.rank, 1, 1);
    assert_int_equal(push(&world, 1, 5, span_of("01234567", 8), NULL), MR_OK); /* the next push in the queue */
    rank_flush(world.rank);
    slot_message pushed = {
        .kind = SLOT_MESSAGE_PUSHED, .status = SLOT_MESSAGE_RESEND, .rank = 2, .name = 5, .prev = 4, .commit = 1};
    hear(&world, &pushed); /* slot 1 is next, and there is room for one push */
    world.recorder.count = 0;
    pushed.status = SLOT_MESSAGE_OK;
    pushed.name = 6;
    hear(&world, &pushed);
    assert_int_equal(unacknowledged(&world), 2);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 5), 0);
    /* credit for another push */
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .slot = 1, .name = 5, .commit = 1});
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 5), 1);
    pushed.name = 5;
    hear(&world, &pushed);
    assert_int_equal(unacknowledged(&world), 0);
    rank_destroy(world.rank);
}

/* Number of pushes of this slot sent to s0 with this `entry`: 0 with payload, SLOT_MESSAGE_PUSH_ASK as a question. */
static size_t went(const world *world, uint32_t slot, uint8_t entry) {
    size_t count = 0;
    for (size_t i = 0; i < world->recorder.count; i++) {
        const slot_message *message = &world->recorder.list[i].message;
        count += message->kind == SLOT_MESSAGE_PUSH && message->slot == slot && message->entry == entry;
    }
    return count;
}

static void a_map_about_other_slots_calls_nothing_back(void **state) {
    world world;
    start(&world, RANK_HEADS);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        /* a grant */
        hear(&world, &(slot_message){.kind = SLOT_MESSAGE_CLOCK, .rank = 2, .slot = slot, .commit = 7, .prev = 8});
        assert_int_equal(push(&world, slot, 5, span_of("four", 4), NULL), MR_OK);
    }
    rank_flush(world.rank);
    assert_true(went(&world, 0, 0) == 1 && went(&world, 1, 0) == 1);
    hear_epoch(&world, 2, 0, 1);
    assert_true(went(&world, 0, 0) == 1 && went(&world, 1, 0) == 2);
    assert_int_equal(went(&world, 0, SLOT_MESSAGE_PUSH_ASK), 1); /* asked without a payload */
    assert_int_equal(push(&world, 0, 6, span_of("more", 4), NULL), MR_OK);
    rank_flush(world.rank);
    assert_int_equal(went(&world, 0, 0), 1); /* pushes in flight use up the credit */
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .slot = 0, .name = 5, .commit = 8});
    assert_int_equal(went(&world, 0, 0), 2);
    rank_destroy(world.rank);
}

static void a_server_without_memory_is_known(void **state) {
    world world;
    uint32_t slot = 9;
    start(&world, RANK_HEADS);
    assert_int_equal(push(&world, 1, 5, span_of("four", 4), NULL), MR_OK);
    slot_message answer = {.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .slot = 1, .name = 5, .status = SLOT_MESSAGE_LATER};
    hear(&world, &answer);
    assert_false(rank_refused(world.rank, &slot)); /* LATER for another reason */
    answer.lsn = SLOT_MESSAGE_FULL;
    hear(&world, &answer);
    assert_true(rank_refused(world.rank, &slot) && slot == 1);
    assert_int_equal(unacknowledged(&world), 1); /* the push is kept */
    answer.status = SLOT_MESSAGE_OK;
    answer.lsn = 0;
    hear(&world, &answer);
    assert_false(rank_refused(world.rank, &slot));
    rank_destroy(world.rank);
}

static void names_at_the_clock_are_said_again_and_the_next_follows_it(void **state) {
    world world;
    start(&world, RANK_HEADS); /* the rank's clock is 4 */
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(push(&world, 0, (const uint64_t[]){2, 4, 9}[i], (span){0}, NULL), MR_OK);
    rank_flush(world.rank);
    assert_int_equal(world.recorder.count, 3);
    assert_true(world.recorder.list[2].message.name == 9 && world.recorder.list[2].message.prev == 4);
    for (size_t i = 0; i < 2; i++)
        hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = (const uint64_t[]){2, 4}[i]});
    assert_true(world.pushed == 2 && rank_clock(world.rank, 0) == 4 && unacknowledged(&world) == 1);
    rank_destroy(world.rank);
}

static void answers_to_earlier_questions_are_not_taken(void **state) {
    world world;
    start(&world, RANK_HEADS);
    rank_pull(world.rank, 0, 1, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_pull(world.rank, 0, 1, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_flush(world.rank);
    slot_message answer = {
        .kind = SLOT_MESSAGE_PULLED, .rank = 2, .lsn = 9, .commit = world.recorder.list[0].message.commit};
    hear(&world, &answer);
    assert_int_equal(world.pulled, 0);
    answer.commit = world.recorder.list[1].message.commit;
    hear(&world, &answer);
    hear(&world, &answer);
    assert_true(world.pulled == 1 && world.lsn == 9);
    rank_destroy(world.rank);
}

static void a_payload_is_held_where_it_lies(void **state) {
    world world;
    start(&world, RANK_HEADS);
    shared_bytes *bytes = shared_bytes_copy(span_of("abc", 3));
    assert_int_equal(push(&world, 0, 5, shared_bytes_bytes(bytes), bytes), MR_OK);
    rank_flush(world.rank);
    assert_true(bytes->refs == 2 &&
                message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 5) == 1);
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = 5});
    assert_int_equal(bytes->refs, 1); /* the rank dropped its reference */
    shared_bytes_unref(bytes);
    rank_destroy(world.rank);
}

/* A tail is sent with its payload, also after rank_move, and its buffer is held as long. */
static void a_tail_is_sent_from_where_it_lies_now(void **state) {
    world world;
    start(&world, RANK_HEADS);
    shared_bytes *bytes = shared_bytes_copy(span_of("abc", 3)), *tail = shared_bytes_copy(span_of("defgh", 5));
    const shared_bytes_piece piece = {shared_bytes_bytes(tail), tail};
    assert_int_equal(rank_push_pieces(world.rank, 0, 5, shared_bytes_bytes(bytes), bytes, piece), MR_OK);
    rank_flush(world.rank);
    const slot_message first = world.recorder.list[world.recorder.count - 1].message;
    assert_true(first.kind == SLOT_MESSAGE_PUSH && first.payload.size == 8 && tail->refs == 2);
    rank_move(world.rank, bytes, span_of("x", 1)); /* a buffer that is no tail */
    rank_move(world.rank, tail, span_of("DEFG", 4));
    hear_map(&world, 2, 1); /* another head gets the push again */
    const slot_message again = world.recorder.list[world.recorder.count - 1].message;
    assert_true(again.kind == SLOT_MESSAGE_PUSH && again.name == 5 && again.payload.size == 7);
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = 5});
    assert_true(bytes->refs == 1 && tail->refs == 1);
    shared_bytes_unref(bytes);
    shared_bytes_unref(tail);
    rank_destroy(world.rank);
}

/* After a cluster map that does not change the slot, pushes in flight still count, including their tails. */
static void a_tail_counts_across_maps(void **state) {
    world world;
    start(&world, RANK_HEADS);
    shared_bytes *bytes = shared_bytes_copy(span_of("abc", 3)), *tail = shared_bytes_copy(span_of("defgh", 5));
    const shared_bytes_piece piece = {shared_bytes_bytes(tail), tail};
    /* a grant of 8 bytes */
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_CLOCK, .rank = 2, .commit = 7, .prev = 8});
    assert_int_equal(rank_push_pieces(world.rank, 0, 5, shared_bytes_bytes(bytes), bytes, piece), MR_OK);
    rank_flush(world.rank);
    hear_epoch(&world, 2, 0, 1); /* the same head and epoch */
    assert_int_equal(push(&world, 0, 6, shared_bytes_bytes(bytes), bytes), MR_OK);
    assert_int_equal(push(&world, 0, 7, shared_bytes_bytes(bytes), bytes), MR_OK);
    rank_flush(world.rank);
    /* no credit left */
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 6), 0);
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = 5, .commit = 8});
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 6), 1);
    /* credit of both pushes is free again */
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 7), 1);
    shared_bytes_unref(bytes);
    shared_bytes_unref(tail);
    rank_destroy(world.rank);
}

static void pulled_keys_are_held_until_the_answer(void **state) {
    world world;
    start(&world, RANK_HEADS);
    shared_bytes *bytes = shared_bytes_copy(span_of("abc", 3)), *other = shared_bytes_copy(span_of("abcde", 5));
    rank_pull(world.rank, 0, 1, shared_bytes_bytes(bytes), bytes, RANK_PULL_ACKNOWLEDGED);
    rank_flush(world.rank);
    rank_tick(world.rank, 0); /* repeated with its query */
    hear_map(&world, 2, 1);   /* sent again to another head */
    assert_true(world.recorder.count == 3 && bytes->refs == 2);
    for (size_t i = 0; i < 3; i++) assert_int_equal(world.recorder.list[i].message.payload.size, 3);
    rank_pull(world.rank, 0, 1, shared_bytes_bytes(other), other, RANK_PULL_FRESH); /* replaces the earlier pull */
    rank_flush(world.rank);
    assert_true(bytes->refs == 1 && other->refs == 2 && world.recorder.list[3].message.payload.size == 5);
    hear(&world,
         &(slot_message){.kind = SLOT_MESSAGE_PULLED, .rank = 2, .commit = world.recorder.list[3].message.commit});
    assert_true(world.pulled == 1 && other->refs == 1);
    assert_int_equal(push(&world, 0, 5, (span){0}, NULL), MR_OK);
    rank_pull(world.rank, 0, 1, shared_bytes_bytes(bytes), bytes, RANK_PULL_BEHIND);
    rank_flush(world.rank);
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = 5});
    rank_tick(world.rank, 0); /* no answer yet: asked again; the pull now requires the acknowledged push */
    const slot_message left = world.recorder.list[world.recorder.count - 1].message;
    assert_true(left.kind == SLOT_MESSAGE_PULL && left.prev == 5 && left.payload.size == 3 && bytes->refs == 2);
    world.generation = 6;
    hear_map(&world, 3, 1);
    assert_int_equal(bytes->refs, 1);
    shared_bytes_unref(bytes);
    shared_bytes_unref(other);
    rank_destroy(world.rank);
}

static uint32_t last_slot(const world *world) { return world->recorder.list[world->recorder.count - 1].message.slot; }

static void pushes_beyond_the_credit_wait(void **state) {
    world world;
    start(&world, RANK_HEADS);
    const span ten = {(const uint8_t *)"0123456789", 10};
    rank_prefer(world.rank, 1, 5);
    for (uint64_t name = 5; name < 8; name++) /* s0 has granted no credit yet: one push */
        for (uint32_t slot = 0; slot < SLOTS; slot++) assert_int_equal(push(&world, slot, name, ten, NULL), MR_OK);
    rank_flush(world.rank);
    assert_true(world.recorder.count == 1 && last_slot(&world) == 0);
    /* two pushes at a time */
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = 5, .commit = 25});
    assert_true(world.recorder.count == 3 && last_slot(&world) == 1 && world.recorder.list[1].message.slot == 1);
    assert_true(world.recorder.list[1].message.name == 5 && world.recorder.list[2].message.name == 6); /* in order */
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .slot = 1, .rank = 2, .name = 6, .commit = 25});
    assert_true(world.recorder.count == 4 && last_slot(&world) == 1);
    rank_tick(world.rank, 0); /* asks about pushes in flight, and sends no more */
    assert_int_equal(world.recorder.count, 6);
    hear(&world,
         &(slot_message){
             .kind = SLOT_MESSAGE_PUSHED, .status = SLOT_MESSAGE_TAKEN, .slot = 1, .rank = 2, .name = 5, .commit = 25});
    assert_true(world.recorder.count == 7 && last_slot(&world) == 0); /* a push that was TAKEN holds no credit */
    /* another cluster map with the same head: the grant holds */
    hear_map(&world, 2, 0);
    assert_int_equal(world.recorder.count, 9);
    rank_destroy(world.rank);
}

static void no_request_starves(void **state) {
    world world;
    start(&world, RANK_HEADS);
    const span ten = {(const uint8_t *)"0123456789", 10};
    rank_prefer(world.rank, 1, 5);
    assert_int_equal(push(&world, 1, 5, ten, NULL), MR_OK);
    assert_int_equal(push(&world, 0, 5, ten, NULL), MR_OK); /* waits, and slot 1 has priority */
    uint64_t name = 5, passed = 0;
    for (; passed < 100 && message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PUSH, SLOT_MESSAGE_OK, 0) == 0;
         passed++) {
        assert_int_equal(push(&world, 1, name + 1, ten, NULL), MR_OK);
        rank_flush(world.rank);
        if (last_slot(&world) == 0) break;
        world.recorder.count = 0;
        hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .slot = 1, .rank = 2, .name = name++, .commit = 10});
    }
    assert_true(passed > 1 && passed <= RANK_PATIENCE * SLOTS + 1);
    rank_destroy(world.rank);
}

static void only_so_many_pulls_are_under_way(void **state) {
    world world;
    start_with(&world, RANK_HEADS, 1);
    rank_pull(world.rank, 0, 1, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_pull(world.rank, 1, 1, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_flush(world.rank);
    rank_tick(world.rank, 0);
    /* the same replica again */
    assert_true(message_recorder_count(&world.recorder, "s0", SLOT_MESSAGE_PULL) == 2 && last_slot(&world) == 0);
    hear(&world,
         &(slot_message){
             .kind = SLOT_MESSAGE_PULLED, .rank = 2, .lsn = 9, .commit = world.recorder.list[0].message.commit});
    assert_true(world.pulled == 1 && last_slot(&world) == 1);
    rank_destroy(world.rank);
}

static void pulls_go_around_the_copies_fresh_ones_to_the_head(void **state) {
    world world;
    start(&world, RANK_ANY);
    rank_pull(world.rank, 1, 3, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_flush(world.rank);
    rank_tick(world.rank, 0);
    assert_true(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PULL, SLOT_MESSAGE_OK, 3) == 1 &&
                message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_PULL, SLOT_MESSAGE_OK, 3) == 1);
    rank_pull(world.rank, 1, 4, (span){0}, NULL, RANK_PULL_FRESH);
    rank_flush(world.rank);
    rank_tick(world.rank, 0);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_PULL, SLOT_MESSAGE_OK, 4), 2);
    rank_destroy(world.rank);
}

/* Number of pulls of slot 1 that s0 and s1 have received. */
static void assert_asked(const world *world, size_t first, size_t second) {
    assert_int_equal(message_recorder_count(&world->recorder, "s0", SLOT_MESSAGE_PULL), first);
    assert_int_equal(message_recorder_count(&world->recorder, "s1", SLOT_MESSAGE_PULL), second);
}

static void pulls_of_hot_slots_go_to_one_copy_while_it_answers(void **state) {
    world world;
    start(&world, RANK_HOT);
    rank_pull(world.rank, 1, 3, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_flush(world.rank);
    assert_asked(&world, 1, 0); /* the slot has no read replicas */
    hear(&world,
         &(slot_message){
             .kind = SLOT_MESSAGE_PULLED, .slot = 1, .rank = 2, .commit = world.recorder.list[0].message.commit});
    hear_slots(&world, 2, 0, 1, 1);
    for (size_t i = 1; i <= 3; i++) {
        rank_pull(world.rank, 1, 3 + i, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
        rank_flush(world.rank);
        assert_asked(&world, 1, i); /* rank 2 + slot 1 is odd: s1 */
        uint64_t commit = world.recorder.list[world.recorder.count - 1].message.commit;
        hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PULLED, .slot = 1, .rank = 2, .commit = commit});
    }
    assert_int_equal(world.pulled, 4);
    rank_pull(world.rank, 1, 8, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_flush(world.rank);
    assert_asked(&world, 1, 4);
    rank_tick(world.rank, 0); /* no answer: the other replica is asked */
    assert_asked(&world, 2, 4);
    rank_pull(world.rank, 1, 9, (span){0}, NULL, RANK_PULL_FRESH);
    rank_flush(world.rank);
    assert_asked(&world, 3, 4);
    rank_destroy(world.rank);
}

static void another_generation_ends_what_is_under_way(void **state) {
    world world;
    start(&world, RANK_HEADS);
    assert_int_equal(push(&world, 0, 5, (span){0}, NULL), MR_OK);
    rank_pull(world.rank, 1, 1, (span){0}, NULL, RANK_PULL_ACKNOWLEDGED);
    rank_flush(world.rank);
    world.generation = 6;
    hear_map(&world, 2, 1);
    assert_true(world.over == 1 && !world.rank->ready && unacknowledged(&world) == 0);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_HELLO, SLOT_MESSAGE_OK, 0), SLOTS);
    world.generation = 5;
    /* a late message of the old generation */
    hear(&world, &(slot_message){.kind = SLOT_MESSAGE_PUSHED, .rank = 2, .name = 5});
    world.generation = 6;
    hear(&world,
         &(slot_message){
             .kind = SLOT_MESSAGE_PULLED, .slot = 1, .rank = 2, .commit = world.recorder.list[1].message.commit});
    assert_true(world.pushed == 0 && world.pulled == 0);
    for (uint32_t i = 0; i < SLOTS; i++)
        hear(&world, &(slot_message){.kind = SLOT_MESSAGE_CLOCK, .commit = 7, .slot = i, .rank = 2, .name = 3});
    assert_true(world.ready == 2 && rank_clock(world.rank, 0) == 3);
    assert_int_equal(push(&world, 0, 5, (span){0}, NULL), MR_OK);
    rank_destroy(world.rank);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_generation_ends_what_is_under_way),
        cmocka_unit_test(unacknowledged_pushes_are_repeated),
        cmocka_unit_test(pushes_before_an_acknowledged_one_are_repeated),
        cmocka_unit_test(a_map_about_other_slots_calls_nothing_back),
        cmocka_unit_test(a_server_without_memory_is_known),
        cmocka_unit_test(names_at_the_clock_are_said_again_and_the_next_follows_it),
        cmocka_unit_test(answers_to_earlier_questions_are_not_taken),
        cmocka_unit_test(a_payload_is_held_where_it_lies),
        cmocka_unit_test(a_tail_is_sent_from_where_it_lies_now),
        cmocka_unit_test(a_tail_counts_across_maps),
        cmocka_unit_test(pulled_keys_are_held_until_the_answer),
        cmocka_unit_test(pushes_beyond_the_credit_wait),
        cmocka_unit_test(no_request_starves),
        cmocka_unit_test(only_so_many_pulls_are_under_way),
        cmocka_unit_test(pulls_go_around_the_copies_fresh_ones_to_the_head),
        cmocka_unit_test(pulls_of_hot_slots_go_to_one_copy_while_it_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
