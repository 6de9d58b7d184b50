/* checkpointer_test.c — orders repeat until the checkpoint is complete; a seal repeats until it is answered. */
#include "ps/checkpointer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ps/replica_log.h"
#include "tests/support/message_recorder.h"

typedef struct world {
    batcher *batcher;
    message_recorder recorder;
    cluster_map map;
    checkpointer checkpointer;
} world;

static void on_send(void *context, const char *address, span bytes) {
    message_recorder_take(&((world *)context)->recorder, address, bytes);
}
static void on_map(void *context, const cluster_map *map) {}
static void on_part(void *context, const slot_message_head *from, const slot_message *message, shared_bytes *bytes) {}

static void start(world *world, consistency_kind kind) {
    *world = (struct world){.map = {.number = 2, .rank_count = 1, .slot_count = 2}};
    world->map.consistency.kind = kind;
    world->map.ranks = xcalloc(1, sizeof(cluster_map_rank));
    world->map.ranks[0] = (cluster_map_rank){.worker = 3, .incarnation = 7, .since = 2};
    world->map.slots = xcalloc(2, sizeof(cluster_map_slot));
    for (uint32_t i = 0; i < 2; i++)
        world->map.slots[i] = (cluster_map_slot){.epoch = 2, .count = 1, .chain = {{i, 1, 1}}};
    cluster_map_put_server(&world->map, 0, 1, "s0");
    cluster_map_put_server(&world->map, 1, 1, "s1");
    batcher_host host = {
        .send = on_send, .send_context = world, .on_map = on_map, .on_part = on_part, .context = world};
    world->batcher = batcher_create(&host, SLOT_MESSAGE_CONTROLLER, "d");
}

static void stop(world *world) {
    checkpointer_fini(&world->checkpointer);
    cluster_map_fini(&world->map);
    batcher_destroy(world->batcher);
}

static void order_with(world *world, bool alive, int64_t now_us) {
    const cluster_map_process worker = {.id = 3, .incarnation = 7, .address = "w3", .alive = alive};
    world->recorder.count = 0;
    checkpointer_order(&world->checkpointer, &world->map, world->batcher, (quiesce_workers){&worker, 1}, now_us);
    batcher_flush(world->batcher);
}

static void order(world *world, int64_t now_us) { order_with(world, true, now_us); }

static bool hear(world *world, slot_message_kind kind, slot_message_status status, uint64_t name, uint64_t lsn) {
    slot_message message = {
        .kind = (uint8_t)kind, .status = (uint8_t)status, .entry = REPLICA_LOG_MARK, .name = name, .lsn = lsn};
    return checkpointer_take(&world->checkpointer, &world->map, &message);
}

/* The checkpoint store reports `times` times: no complete checkpoint, and the one that it is saving. */
static void say(world *world, int times, uint64_t making, uint64_t saved) {
    slot_message message = {.kind = SLOT_MESSAGE_WHOLE, .lsn = making, .commit = saved};
    while (times-- > 0) assert_false(checkpointer_take(&world->checkpointer, &world->map, &message));
}

/* The cuts that an earlier controller ordered are known once a checkpoint of this controller is complete. */
static void how_far_slots_may_have_cut_is_known(void **state) {
    world world;
    uint64_t number;
    start(&world, CONSISTENCY_ASP);
    assert_false(checkpointer_bound(&world.checkpointer, &number)); /* the checkpoint store has not reported yet */
    say(&world, 1, 0, 0);
    assert_true(checkpointer_bound(&world.checkpointer, &number) && number == 0);
    checkpointer_want(&world.checkpointer);
    assert_false(checkpointer_bound(&world.checkpointer, &number));
    order(&world, 0);
    assert_true(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 1, 0));
    assert_true(checkpointer_bound(&world.checkpointer, &number) && number == 1);
    checkpointer_want(&world.checkpointer);
    assert_true(checkpointer_bound(&world.checkpointer, &number) && number == 2);
    stop(&world);
    start(&world, CONSISTENCY_ASP);
    assert_false(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 6, 0));
    assert_false(checkpointer_bound(&world.checkpointer, &number)); /* a head may still hold the cut of 7 */
    stop(&world);
}

static void all_heads_are_told_until_it_is_whole(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    order(&world, 0);
    assert_int_equal(world.recorder.count, 0);
    checkpointer_want(&world.checkpointer);
    order(&world, 0); /* the newest checkpoint is unknown */
    assert_int_equal(world.recorder.count, 0);
    assert_false(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 6, 0)); /* an older checkpoint */
    order(&world, 0);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 7), 1);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 7), 1);
    /* the head has already cut checkpoint 7, and reports 9 */
    assert_false(hear(&world, SLOT_MESSAGE_ORDERED, SLOT_MESSAGE_OK, 7, 9));
    order(&world, 1);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 9), 1);
    assert_false(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 8, 0));
    assert_true(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 9, 0));
    assert_false(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 9, 0)); /* reported once */
    order(&world, 2);
    assert_int_equal(world.recorder.count, 0);
    stop(&world);
}

/* Cuts of many large slots arrive at the same time: none is whole, and none is given up, while their pieces come. */
static void pieces_of_large_cuts_are_awaited(void **state) {
    world world;
    uint64_t arrived = 0;
    start(&world, CONSISTENCY_ASP);
    say(&world, 1, 0, 0);
    checkpointer_want(&world.checkpointer);
    for (int64_t now_us = 0; now_us < 100 * CHECKPOINTER_PATIENCE_US; now_us += CHECKPOINTER_PATIENCE_US / 10) {
        slot_message message = {.kind = SLOT_MESSAGE_WHOLE, .epoch = arrived += 1000};
        assert_false(checkpointer_take(&world.checkpointer, &world.map, &message));
        order(&world, now_us);
        assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 1), 1);
    }
    for (int i = 0; i < 2 * CHECKPOINTER_SIGNS; i++) { /* no further piece comes */
        slot_message message = {.kind = SLOT_MESSAGE_WHOLE, .epoch = arrived};
        assert_false(checkpointer_take(&world.checkpointer, &world.map, &message));
    }
    order(&world, 102 * CHECKPOINTER_PATIENCE_US);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 2), 1);
    stop(&world);
}

static void a_cut_that_was_missed_is_followed_by_another(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP);
    assert_false(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 0, 0));
    checkpointer_want(&world.checkpointer);
    order(&world, 0);
    /* only the round state is asked */
    assert_int_equal(message_recorder_count(&world.recorder, "s0", SLOT_MESSAGE_ORDER), 0);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 1), 1);
    /* LATER: the version will be cut, so the patience begins again */
    assert_false(hear(&world, SLOT_MESSAGE_ORDERED, SLOT_MESSAGE_LATER, 1, 4));
    order(&world, CHECKPOINTER_PATIENCE_US);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 4), 1);
    assert_false(hear(&world, SLOT_MESSAGE_ORDERED, SLOT_MESSAGE_OK, 4, 4));
    say(&world, CHECKPOINTER_SIGNS, 0, 0);
    order(&world, 2 * CHECKPOINTER_PATIENCE_US);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 5), 1);
    checkpointer_restart(&world.checkpointer); /* back to the newest complete checkpoint: none */
    order(&world, 2 * CHECKPOINTER_PATIENCE_US);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 1), 1);
    stop(&world);
}

/* Patience does not end while the store saves or is silent; another request for a checkpoint changes nothing. */
static void a_slow_checkpoints_is_not_hurried(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    say(&world, 1, 0, 0);
    checkpointer_want(&world.checkpointer);
    order(&world, 0);
    order(&world, 10 * CHECKPOINTER_PATIENCE_US); /* the store is silent: its disk is slow, or it is absent */
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 1), 1);
    say(&world, CHECKPOINTER_SIGNS - 1, 1, 1);
    say(&world, 1, 1, 2); /* progress: one more slot is saved */
    order(&world, 11 * CHECKPOINTER_PATIENCE_US);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 1), 1);
    say(&world, CHECKPOINTER_SIGNS, 1, 2);
    checkpointer_want(&world.checkpointer); /* a second request for the same checkpoint */
    order(&world, 12 * CHECKPOINTER_PATIENCE_US);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 2), 1);
    stop(&world);
}

/* The answer of a slot's head, at this version, to an order with this number to cut a version. */
static bool hear_now(world *world, uint32_t slot, slot_message_status status, uint64_t number, uint64_t version) {
    slot_message message = {.kind = SLOT_MESSAGE_ORDERED,
                            .status = (uint8_t)status,
                            .entry = REPLICA_LOG_MARK,
                            .slot = slot,
                            .lsn = version,
                            .name = number,
                            .prev = SLOT_MESSAGE_MARK_NOW};
    return checkpointer_take(&world->checkpointer, &world->map, &message);
}

/* Orders to cut this version (-1: questions for the version) for the checkpoint `number`. */
static uint64_t orders_now(const world *world, const char *to, uint64_t number, int version) {
    uint64_t count = 0;
    for (size_t i = 0; i < world->recorder.count; i++) {
        const slot_message *message = &world->recorder.list[i].message;
        count += strcmp(world->recorder.list[i].to, to) == 0 && message->kind == SLOT_MESSAGE_ORDER &&
                 message->prev == SLOT_MESSAGE_MARK_NOW && message->name == number &&
                 message->lsn == (uint64_t)(1 + version);
    }
    return count;
}

static bool hear_whole(world *world, uint64_t number, uint64_t version) {
    slot_message message = {.kind = SLOT_MESSAGE_WHOLE, .name = number, .prev = 1 + version};
    return checkpointer_take(&world->checkpointer, &world->map, &message);
}

static void the_open_version_is_cut_when_no_rank_ends_a_round(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP);
    say(&world, 1, 0, 0);
    checkpointer_want(&world.checkpointer);
    order(&world, 0);
    assert_int_equal(orders_now(&world, "s1", 1, -1), 0); /* ranks may end a round soon */
    order(&world, CHECKPOINTER_STILL_US);
    assert_int_equal(orders_now(&world, "s1", 1, -1), 1);
    assert_int_equal(message_recorder_count(&world.recorder, "s0", SLOT_MESSAGE_ORDER), 0);
    assert_false(hear_now(&world, 1, SLOT_MESSAGE_GONE, 1, 7));
    order(&world, CHECKPOINTER_STILL_US + 1);
    assert_int_equal(orders_now(&world, "s0", 7, 7), 1);
    assert_int_equal(orders_now(&world, "s1", 7, 7), 1);
    assert_false(hear_now(&world, 1, SLOT_MESSAGE_GONE, 1, 7)); /* the first answer again */
    assert_false(hear_now(&world, 0, SLOT_MESSAGE_OK, 7, 8));   /* this slot has ended one round more, and kept 7 */
    assert_false(hear_now(&world, 1, SLOT_MESSAGE_OK, 7, 7));
    order(&world, CHECKPOINTER_STILL_US + 2);
    assert_int_equal(message_recorder_count(&world.recorder, "s0", SLOT_MESSAGE_ORDER), 0);
    assert_true(hear_whole(&world, 7, 7));
    checkpointer_want(&world.checkpointer);
    order_with(&world, false, 0); /* no worker holds a rank: at once */
    assert_int_equal(orders_now(&world, "s1", 8, -1), 1);
    assert_true(hear_now(&world, 1, SLOT_MESSAGE_GONE, 8, 7)); /* checkpoint 7 has all */
    order_with(&world, false, 1);
    assert_int_equal(world.recorder.count, 0);
    stop(&world);
}

/* A rank that ended inside its step leaves slots at two versions: the lower one is cut. */
static void slots_are_cut_at_the_version_that_all_have_reached(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP);
    say(&world, 1, 0, 0);
    checkpointer_want(&world.checkpointer);
    order_with(&world, false, 0);
    assert_false(hear_now(&world, 1, SLOT_MESSAGE_GONE, 1, 5));
    order_with(&world, false, 1);
    assert_int_equal(orders_now(&world, "s1", 5, 5), 1);
    assert_false(hear_now(&world, 1, SLOT_MESSAGE_OK, 5, 5));
    assert_false(hear_now(&world, 0, SLOT_MESSAGE_GONE, 5, 4)); /* this slot has not ended the round */
    order_with(&world, false, 2);
    assert_int_equal(orders_now(&world, "s0", 6, 4), 1); /* another number: no cut of version 5 is mixed in */
    assert_int_equal(orders_now(&world, "s1", 6, 4), 1);
    assert_false(hear_now(&world, 1, SLOT_MESSAGE_OK, 6, 5));
    assert_false(hear_now(&world, 0, SLOT_MESSAGE_GONE, 6, 6)); /* the rounds go on, and left version 4 */
    order(&world, 3);
    assert_int_equal(orders_now(&world, "s0", 6, 4), 0);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 6), 1);
    stop(&world);
}

/* Version 0 has a checkpoint, too; its number is above the newest one. */
static void tables_are_saved_before_the_first_round(void **state) {
    world world;
    start(&world, CONSISTENCY_BSP);
    say(&world, 1, 0, 0);
    checkpointer_want(&world.checkpointer);
    order_with(&world, false, 0);
    assert_false(hear_now(&world, 1, SLOT_MESSAGE_GONE, 1, 0));
    order_with(&world, false, 1);
    assert_int_equal(orders_now(&world, "s0", 1, 0), 1);
    assert_false(hear_now(&world, 0, SLOT_MESSAGE_OK, 1, 0));
    assert_false(hear_now(&world, 1, SLOT_MESSAGE_OK, 1, 0));
    assert_true(hear_whole(&world, 1, 0));
    stop(&world);
}

static void slots_without_rounds_are_cut_behind_the_round_state(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    world.map.mixed = true;
    world.map.slot_count = 3;
    world.map.slots = xrealloc(world.map.slots, 3 * sizeof(cluster_map_slot));
    world.map.slots[2] = (cluster_map_slot){.epoch = 2, .count = 1, .chain = {{2, 1, 1}}};
    cluster_map_put_server(&world.map, 2, 1, "s2");
    assert_false(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 0, 0));
    checkpointer_want(&world.checkpointer);
    order(&world, 0);
    assert_int_equal(message_recorder_named(&world.recorder, "s2", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 1), 1);
    assert_int_equal(message_recorder_count(&world.recorder, "s1", SLOT_MESSAGE_ORDER), 0);
    slot_message ordered = {.kind = SLOT_MESSAGE_ORDERED,
                            .status = SLOT_MESSAGE_LATER,
                            .entry = REPLICA_LOG_MARK,
                            .slot = 2,
                            .name = 1,
                            .lsn = 5};
    /* the round state will cut this version */
    assert_false(checkpointer_take(&world.checkpointer, &world.map, &ordered));
    order(&world, 1);
    assert_int_equal(message_recorder_named(&world.recorder, "s2", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 5), 1);
    assert_int_equal(message_recorder_count(&world.recorder, "s1", SLOT_MESSAGE_ORDER), 0);
    ordered.status = SLOT_MESSAGE_OK;
    /* the round state has cut this version */
    assert_false(checkpointer_take(&world.checkpointer, &world.map, &ordered));
    order(&world, 2);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 5), 1);
    for (size_t i = 0; i < world.recorder.count; i++)
        if (strcmp(world.recorder.list[i].to, "s1") == 0)
            assert_int_equal(world.recorder.list[i].message.lsn, 6); /* of version 5 */
    /* slot 0 has rounds: the round state makes it cut */
    assert_int_equal(message_recorder_count(&world.recorder, "s0", SLOT_MESSAGE_ORDER), 0);
    say(&world, 1, 5, 0);
    order(&world, 3);
    say(&world, CHECKPOINTER_SIGNS, 5, 0);
    order(&world, 2 * CHECKPOINTER_PATIENCE_US); /* a head missed its cut: the round state is asked first again */
    assert_int_equal(message_recorder_named(&world.recorder, "s2", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 6), 1);
    assert_int_equal(message_recorder_count(&world.recorder, "s1", SLOT_MESSAGE_ORDER), 0);
    stop(&world);
}

static void a_seal_is_of_one_number(void **state) {
    world world;
    start(&world, CONSISTENCY_ASP);
    assert_false(checkpointer_seal(&world.checkpointer, world.batcher, "depot", 2));
    batcher_flush(world.batcher);
    assert_int_equal(message_recorder_named(&world.recorder, "depot", SLOT_MESSAGE_SEAL, SLOT_MESSAGE_OK, 2), 1);
    assert_false(hear(&world, SLOT_MESSAGE_SEALED, SLOT_MESSAGE_OK, 1, 8)); /* the seal of another number */
    assert_false(checkpointer_seal(&world.checkpointer, world.batcher, "depot", 2));
    assert_false(hear(&world, SLOT_MESSAGE_SEALED, SLOT_MESSAGE_OK, 2, 8));
    assert_true(checkpointer_seal(&world.checkpointer, world.batcher, "depot", 2));
    assert_int_equal(world.checkpointer.origin, 8);
    /* the number of the cluster map changed */
    assert_false(checkpointer_seal(&world.checkpointer, world.batcher, "depot", 3));
    stop(&world);
}

/* ---- Exact checkpoints. */

enum { PAUSE = 400000 };

static void exact(world *world) {
    start(world, CONSISTENCY_ASP);
    world->checkpointer.exact = true;
    world->checkpointer.pause_us = PAUSE;
    assert_false(hear(world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 4, 0));
    checkpointer_want(&world->checkpointer);
}

static void hear_paused(world *world, slot_message_status status, uint64_t prev) {
    slot_message message = {
        .kind = SLOT_MESSAGE_PAUSED, .status = (uint8_t)status, .commit = 2, .lsn = 9, .prev = prev};
    message.name = world->checkpointer.quiesce.number;
    assert_false(checkpointer_take(&world->checkpointer, &world->map, &message));
}

static void hear_cut(world *world, uint32_t slot, uint64_t checkpoint) {
    slot_message message = {
        .kind = SLOT_MESSAGE_ORDERED, .entry = REPLICA_LOG_MARK, .slot = slot, .lsn = checkpoint, .name = checkpoint};
    assert_false(checkpointer_take(&world->checkpointer, &world->map, &message));
}

static void slots_are_cut_while_all_stand_still(void **state) {
    world world;
    exact(&world);
    order_with(&world, true, 0);
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_OK, 5), 1);
    assert_int_equal(message_recorder_count(&world.recorder, "s0", SLOT_MESSAGE_ORDER), 0);
    hear_paused(&world, SLOT_MESSAGE_LATER, 0);
    order_with(&world, true, 1); /* the worker is in a step */
    assert_int_equal(message_recorder_count(&world.recorder, "s0", SLOT_MESSAGE_ORDER), 0);
    hear_paused(&world, SLOT_MESSAGE_OK, 0);
    order_with(&world, true, 2);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 5), 1);
    assert_int_equal(message_recorder_named(&world.recorder, "s1", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 5), 1);
    hear_cut(&world, 1, 5);
    hear_cut(&world, 1, 5); /* a repeated report */
    order_with(&world, true, 3);
    /* the worker is paused */
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_OK, 5), 1);
    assert_int_equal(message_recorder_count(&world.recorder, "s1", SLOT_MESSAGE_ORDER), 0);
    hear_cut(&world, 0, 5);
    order_with(&world, true, 4);
    /* the pause ends before the snapshots are saved */
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_GONE, 5), 1);
    assert_true(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 5, 0));
    order_with(&world, true, 5);
    assert_int_equal(world.recorder.count, 0);
    stop(&world);
}

/* The next checkpoint is wanted at once. Ranks that were paused for 30 us train for as long. */
static void a_pause_ends_with_what_it_was_for(void **state) {
    world world;
    exact(&world);
    order_with(&world, true, 0);
    hear_paused(&world, SLOT_MESSAGE_OK, 0);
    order_with(&world, true, 10);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 5), 1);
    assert_true(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 5, 0)); /* the heads' reports are missing */
    assert_true(checkpointer_moves(&world.checkpointer, &world.map, (quiesce_workers){0}));
    checkpointer_want(&world.checkpointer);
    order_with(&world, true, 30);
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_GONE, 5), 1);
    assert_int_equal(message_recorder_count(&world.recorder, "w3", SLOT_MESSAGE_PAUSE), 1);
    assert_false(checkpointer_moves(&world.checkpointer, &world.map, (quiesce_workers){0}));
    order_with(&world, true, 59);
    assert_int_equal(world.recorder.count, 0);
    order_with(&world, true, 60);
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_OK, 6), 1);
    stop(&world);
}

static void a_pause_ends_although_a_rank_is_in_a_step(void **state) {
    world world;
    exact(&world);
    order_with(&world, true, 0);
    hear_paused(&world, SLOT_MESSAGE_LATER, 0);
    order_with(&world, true, PAUSE);
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_GONE, 5), 1);
    order_with(&world, true, 2 * PAUSE - 1); /* the ranks train */
    assert_int_equal(world.recorder.count, 0);
    order_with(&world, true, 2 * PAUSE);
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_OK, 6), 1);
    order_with(&world, true, 3 * PAUSE);
    order_with(&world, true, 5 * PAUSE - 1); /* the time between attempts doubles */
    assert_int_equal(world.recorder.count, 0);
    order_with(&world, true, 5 * PAUSE);
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_OK, 7), 1);
    stop(&world);
}

static void one_that_is_never_whole_is_followed_by_another(void **state) {
    world world;
    exact(&world);
    order_with(&world, false, 0); /* no worker to wait for */
    assert_int_equal(message_recorder_count(&world.recorder, "w3", SLOT_MESSAGE_PAUSE), 0);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 5), 1);
    hear_cut(&world, 0, 5);
    hear_cut(&world, 1, 5);
    order_with(&world, false, 0);
    order_with(&world, false, 1);
    say(&world, CHECKPOINTER_SIGNS, 0, 0); /* the store reports no progress */
    order_with(&world, false, 1 + CHECKPOINTER_PATIENCE_US);
    assert_false(hear(&world, SLOT_MESSAGE_WHOLE, SLOT_MESSAGE_OK, 5, 0)); /* too late: the next attempt has begun */
    order_with(&world, false, 1 + CHECKPOINTER_PATIENCE_US + PAUSE);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 6), 1);
    hear_cut(&world, 0, 9); /* a cut of an earlier controller */
    order_with(&world, false, 2 + CHECKPOINTER_PATIENCE_US + PAUSE);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 10), 1);
    checkpointer_restart(&world.checkpointer);
    order_with(&world, false, 3 + CHECKPOINTER_PATIENCE_US + PAUSE);
    assert_int_equal(message_recorder_named(&world.recorder, "s0", SLOT_MESSAGE_ORDER, SLOT_MESSAGE_OK, 6), 1);
    stop(&world);
}

static void a_pause_is_above_all_that_workers_have_heard_of(void **state) {
    world world;
    exact(&world);
    order_with(&world, true, 0);
    hear_paused(&world, SLOT_MESSAGE_GONE, 20);
    order_with(&world, true, 1);
    assert_int_equal(message_recorder_named(&world.recorder, "w3", SLOT_MESSAGE_PAUSE, SLOT_MESSAGE_OK, 21), 1);
    stop(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_far_slots_may_have_cut_is_known),
        cmocka_unit_test(all_heads_are_told_until_it_is_whole),
        cmocka_unit_test(pieces_of_large_cuts_are_awaited),
        cmocka_unit_test(a_cut_that_was_missed_is_followed_by_another),
        cmocka_unit_test(a_slow_checkpoints_is_not_hurried),
        cmocka_unit_test(the_open_version_is_cut_when_no_rank_ends_a_round),
        cmocka_unit_test(slots_are_cut_at_the_version_that_all_have_reached),
        cmocka_unit_test(tables_are_saved_before_the_first_round),
        cmocka_unit_test(slots_without_rounds_are_cut_behind_the_round_state),
        cmocka_unit_test(a_seal_is_of_one_number),
        cmocka_unit_test(slots_are_cut_while_all_stand_still),
        cmocka_unit_test(a_pause_ends_with_what_it_was_for),
        cmocka_unit_test(a_pause_ends_although_a_rank_is_in_a_step),
        cmocka_unit_test(one_that_is_never_whole_is_followed_by_another),
        cmocka_unit_test(a_pause_is_above_all_that_workers_have_heard_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
