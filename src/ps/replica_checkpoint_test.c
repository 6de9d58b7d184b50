/* replica_checkpoint_test.c — checkpoints driven by hand: the cut, and the start of a generation from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/replica_fixture.h"

/* The last message of this kind to the checkpoint store; all zero: none. */
static slot_message sent_to_checkpoints(const replica_fixture *world, slot_message_kind kind) {
    for (size_t i = world->count; i-- > 0;)
        if (world->queue[i].to == 300 && world->queue[i].message.kind == kind) return world->queue[i].message;
    return (slot_message){0};
}

/* In a mixed deployment a slot without rounds names the version of the rounds in its checkpoint, and is cut again for a
 * higher one. */
static void a_mark_of_another_version_cuts_again(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 2);
    replica_fixture_push(world, 0, 1, 5, 0);
    replica_fixture_settle(world, -1);
    for (uint64_t version = 2; version <= 3; version++) {
        const slot_message order = {
            .kind = SLOT_MESSAGE_ORDER, .entry = REPLICA_LOG_MARK, .name = 4, .lsn = 1 + version};
        for (int repeated = 0; repeated < 2; repeated++) {
            replica_fixture_ask(world, 0, order);
            replica_fixture_settle(world, -1);
        }
        slot_message cut = sent_to_checkpoints(world, SLOT_MESSAGE_CUT);
        assert_true(cut.name == 4 && cut.prev == 1 + version && cut.lsn == version);
    }
}

static void a_cut_is_the_state_behind_the_mark(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 2);
    replica_fixture_push(world, 0, 1, 5, 0);
    replica_fixture_settle(world, -1);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_ORDER, .entry = REPLICA_LOG_MARK, .name = 4});
    /* the mark is already in the log */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_ORDER, .entry = REPLICA_LOG_MARK, .name = 4});
    assert_int_equal(sent_to_checkpoints(world, SLOT_MESSAGE_CUT).name, 0);
    replica_fixture_settle(world, -1);
    assert_true(sent_to_checkpoints(world, SLOT_MESSAGE_CUT).lsn == 2 &&
                sent_to_checkpoints(world, SLOT_MESSAGE_CUT).name == 4);
    /* a later checkpoint than the wanted one was cut */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_ORDER, .entry = REPLICA_LOG_MARK, .name = 3});
    assert_true(world->queue[world->count - 1].to == 100 && world->queue[world->count - 1].message.lsn == 4);
    buffer before, after;
    buffer_init(&before, 100);
    buffer_init(&after, 100);
    replica_write_values(world->site[0].replica, &before);
    replica_fixture_push(world, 0, 1, 6, 5); /* training continues */
    replica_fixture_settle(world, -1);
    size_t sent = world->count;
    replica_tick(world->site[0].replica, 0); /* a tick asks whether the cut is saved */
    assert_true(world->count == sent + 1 && sent_to_checkpoints(world, SLOT_MESSAGE_CUT).payload.size == 0);
    /* for another checkpoint */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_SAVED, .status = SLOT_MESSAGE_RESEND, .name = 3});
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_SAVED, .status = SLOT_MESSAGE_RESEND, .name = 4});
    assert_true(world->count == sent + 2 && sent_to_checkpoints(world, SLOT_MESSAGE_CUT).lsn == 2);
    shared_bytes *shard = shared_bytes_copy(sent_to_checkpoints(world, SLOT_MESSAGE_CUT).payload);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_SAVED, .name = 4});
    replica_tick(world->site[0].replica, 0);
    assert_int_equal(world->count, sent + 2);
    world->map.birth = world->number + 1; /* another generation, on another server */
    world->map.origin = 4;
    replica_fixture_chain(world, 0, (uint32_t[]){3}, 1);
    replica_fixture_enter(world, 3);
    assert_true(replica_fixture_look(world, 3).phase == REPLICA_LOADING &&
                sent_to_checkpoints(world, SLOT_MESSAGE_FETCH).name == 4);
    replica_fixture_ask(
        world, 3, (slot_message){.kind = SLOT_MESSAGE_SHARD, .name = 4, .lsn = 2, .payload = span_of("noise", 5)});
    replica_fixture_ask(
        world, 3,
        /* the snapshot of another checkpoint */
        (slot_message){.kind = SLOT_MESSAGE_SHARD, .name = 3, .lsn = 2, .payload = shared_bytes_bytes(shard)});
    assert_int_equal(replica_fixture_look(world, 3).phase, REPLICA_LOADING);
    replica_fixture_ask(
        world, 3,
        (slot_message){.kind = SLOT_MESSAGE_SHARD, .name = 4, .lsn = 2, .payload = shared_bytes_bytes(shard)});
    assert_true(replica_fixture_look(world, 3).phase == REPLICA_SERVING && replica_fixture_look(world, 3).applied == 2);
    assert_true(replica_name(world->site[3].replica, 1) == 5 && replica_name(world->site[3].replica, 0) == 0);
    replica_write_values(world->site[3].replica, &after);
    assert_true(before.size == after.size && memcmp(before.data, after.data, before.size) == 0);
    replica_fixture_push(world, 3, 1, 6, 5); /* a push after the cut is repeated */
    assert_int_equal(replica_fixture_look(world, 3).applied, 3);
    shared_bytes_unref(shard);
    buffer_fini(&before);
    buffer_fini(&after);
}

static slot_message order_now(uint64_t number, uint64_t version) {
    return (slot_message){.kind = SLOT_MESSAGE_ORDER,
                          .entry = REPLICA_LOG_MARK,
                          .lsn = 1 + version,
                          .name = number,
                          .prev = SLOT_MESSAGE_MARK_NOW};
}

/* The last message to the controller. */
static slot_message answered(const replica_fixture *world) {
    for (size_t i = world->count; i-- > 0;)
        if (world->queue[i].to == 100) return world->queue[i].message;
    return (slot_message){0};
}

static void end_round(replica_fixture *world, uint64_t version) {
    for (uint32_t i = 0; i < REPLICA_FIXTURE_RANKS; i++) replica_fixture_push(world, 0, i, version, version - 1);
    replica_fixture_settle(world, -1);
    assert_int_equal(replica_fixture_look(world, 0).version, version);
}

static void the_open_version_of_a_round_is_cut_once(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start_rounds(world, 3, false);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_ask(world, 0, order_now(3, 1)); /* the round that makes version 1 is open */
    assert_true(answered(world).status == SLOT_MESSAGE_GONE && answered(world).lsn == 0);
    assert_int_equal(sent_to_checkpoints(world, SLOT_MESSAGE_CUT).name, 0);
    end_round(world, 1);
    replica_fixture_push(world, 0, 0, 2, 1); /* a part of the next round */
    replica_fixture_ask(world, 0, order_now(3, 1));
    slot_message cut = sent_to_checkpoints(world, SLOT_MESSAGE_CUT);
    assert_true(cut.name == 3 && cut.prev == 2 && cut.payload.size != 0);
    assert_int_equal(cut.lsn, replica_fixture_look(world, 0).applied);
    assert_true(answered(world).status == SLOT_MESSAGE_OK && answered(world).prev == SLOT_MESSAGE_MARK_NOW);
    size_t sent = world->count;
    replica_fixture_ask(world, 0, order_now(3, 1)); /* repeated while the store saves it */
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_SAVED, .name = 3});
    replica_fixture_ask(world, 0, order_now(3, 1)); /* and afterwards */
    assert_int_equal(world->count, sent + 2);       /* two answers, no cut */
    assert_true(answered(world).status == SLOT_MESSAGE_OK && answered(world).lsn == 1);
    replica_fixture_ask(world, 0, order_now(4, 1)); /* another checkpoint of this version */
    assert_int_equal(sent_to_checkpoints(world, SLOT_MESSAGE_CUT).name, 4);
}

/* The slot has ended one round more than others: it cuts the version before, which it has kept. */
static void the_version_before_is_cut_from_the_kept_state(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start_rounds(world, 3, false);
    end_round(world, 1);
    replica_fixture_ask(world, 0, order_now(3, 1));
    slot_message open = sent_to_checkpoints(world, SLOT_MESSAGE_CUT);
    double values[FLOAT_MACHINE_WIDTH], again[FLOAT_MACHINE_WIDTH];
    memcpy(values, open.payload.data + open.payload.size - 2 * sizeof values, sizeof values);
    uint64_t lsn = open.lsn;
    end_round(world, 2);
    replica_fixture_ask(world, 0, order_now(4, 1));
    slot_message cut = sent_to_checkpoints(world, SLOT_MESSAGE_CUT);
    assert_true(cut.name == 4 && cut.prev == 2 && cut.lsn == lsn);
    assert_true(answered(world).status == SLOT_MESSAGE_OK && answered(world).lsn == 2);
    memcpy(again, cut.payload.data + cut.payload.size - 2 * sizeof again, sizeof again);
    assert_memory_equal(values, again, sizeof values);
    assert_int_equal(cut.payload.data[8], 1); /* the version (replica_snapshot.c) */
    end_round(world, 3);
    replica_fixture_ask(world, 0, order_now(5, 1)); /* the rounds went on */
    assert_true(answered(world).status == SLOT_MESSAGE_GONE && answered(world).lsn == 3);
}

/* A generation begins on another server from this snapshot, with `ranks` ranks, and cuts checkpoint `checkpoint` + 1
 * at once. Drops the caller's reference to the snapshot; the caller owns the returned cut. */
static shared_bytes *restore(replica_fixture *world, uint32_t server, uint32_t ranks, uint64_t checkpoint,
                             shared_bytes *shard) {
    world->map.birth = world->number + 1;
    world->map.origin = checkpoint;
    world->map.rank_count = ranks;
    replica_destroy(world->site[server].replica);
    world->site[server].replica = replica_create(&world->site[server].host, 0);
    replica_fixture_chain(world, 0, (uint32_t[]){server}, 1);
    replica_fixture_enter(world, server);
    replica_fixture_ask(
        world, server,
        (slot_message){.kind = SLOT_MESSAGE_SHARD, .name = checkpoint, .lsn = 2, .payload = shared_bytes_bytes(shard)});
    assert_int_equal(replica_fixture_look(world, server).phase, REPLICA_SERVING);
    shared_bytes_unref(shard);
    replica_fixture_ask(world, server,
                        (slot_message){.kind = SLOT_MESSAGE_ORDER, .entry = REPLICA_LOG_MARK, .name = checkpoint + 1});
    replica_fixture_settle(world, -1);
    return shared_bytes_copy(sent_to_checkpoints(world, SLOT_MESSAGE_CUT).payload);
}

static void ranks_that_are_left_out_keep_their_names(void **state) {
    replica_fixture *world = *state;
    replica_fixture_start(world, 1);
    replica_fixture_push(world, 0, REPLICA_FIXTURE_RANKS - 1, seq_tick(7), 0);
    replica_fixture_ask(world, 0, (slot_message){.kind = SLOT_MESSAGE_ORDER, .entry = REPLICA_LOG_MARK, .name = 4});
    replica_fixture_settle(world, -1);
    shared_bytes *shard =
        restore(world, 1, 1, 4, shared_bytes_copy(sent_to_checkpoints(world, SLOT_MESSAGE_CUT).payload));
    replica_fixture_push(world, 1, 0, seq_tick(1), 0);
    shard = restore(world, 2, REPLICA_FIXTURE_RANKS, 5, shard);
    assert_true(replica_name(world->site[2].replica, REPLICA_FIXTURE_RANKS - 1) == seq_tick(7));
    assert_int_equal(replica_name(world->site[2].replica, 0), 0); /* rank 0 pushed only after the cut */
    shard = restore(world, 3, REPLICA_FIXTURE_RANKS + 1, 6, shard);
    /* a new rank begins like the slowest */
    assert_int_equal(replica_name(world->site[3].replica, REPLICA_FIXTURE_RANKS), 0);
    assert_true(replica_name(world->site[3].replica, REPLICA_FIXTURE_RANKS - 1) == seq_tick(7));
    shared_bytes_unref(shard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SITES(a_cut_is_the_state_behind_the_mark),       ON_SITES(a_mark_of_another_version_cuts_again),
        ON_SITES(the_open_version_of_a_round_is_cut_once),  ON_SITES(the_version_before_is_cut_from_the_kept_state),
        ON_SITES(ranks_that_are_left_out_keep_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
