/* replica_cut_test.c — checkpoints by hand: what is cut, and what a generation begins with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/seats.h"

/* The last part of this kind that went to the depot; all zero: none. */
static part sent_to_depot(const seats *world, part_kind kind) {
    for (size_t i = world->count; i-- > 0;)
        if (world->queue[i].to == 300 && world->queue[i].part.kind == kind) return world->queue[i].part;
    return (part){0};
}

static void a_cut_is_the_state_behind_the_mark(void **state) {
    seats *world = *state;
    seats_start(world, 2);
    seats_push(world, 0, 1, 5, 0);
    seats_settle(world, -1);
    seats_ask(world, 0, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = 4});
    seats_ask(world, 0, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = 4}); /* it is in the log */
    assert_int_equal(sent_to_depot(world, PART_CUT).name, 0);
    seats_settle(world, -1);
    assert_true(sent_to_depot(world, PART_CUT).lsn == 2 && sent_to_depot(world, PART_CUT).name == 4);
    seats_ask(world, 0, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = 3}); /* as good as that one */
    assert_true(world->queue[world->count - 1].to == 100 && world->queue[world->count - 1].part.lsn == 4);
    buffer before, after;
    buffer_init(&before, 100);
    buffer_init(&after, 100);
    replica_write_values(world->seat[0].replica, &before);
    seats_push(world, 0, 1, 6, 5); /* training goes on */
    seats_settle(world, -1);
    size_t sent = world->count;
    replica_tick(world->seat[0].replica, 0); /* until it is saved, it asks */
    assert_true(world->count == sent + 1 && sent_to_depot(world, PART_CUT).payload.size == 0);
    seats_ask(world, 0, (part){.kind = PART_SAVED, .status = PART_RESEND, .name = 3}); /* of another one */
    seats_ask(world, 0, (part){.kind = PART_SAVED, .status = PART_RESEND, .name = 4});
    assert_true(world->count == sent + 2 && sent_to_depot(world, PART_CUT).lsn == 2);
    bale *shard = bale_copy(sent_to_depot(world, PART_CUT).payload);
    seats_ask(world, 0, (part){.kind = PART_SAVED, .name = 4});
    replica_tick(world->seat[0].replica, 0);
    assert_int_equal(world->count, sent + 2);
    world->chart.birth = world->number + 1; /* another generation, on another server */
    world->chart.origin = 4;
    seats_chain(world, 0, (uint32_t[]){3}, 1);
    seats_enter(world, 3);
    assert_true(seats_look(world, 3).phase == REPLICA_LOADING && sent_to_depot(world, PART_FETCH).name == 4);
    seats_ask(world, 3, (part){.kind = PART_SHARD, .name = 4, .lsn = 2, .payload = span_of("noise", 5)});
    seats_ask(world, 3,
              (part){.kind = PART_SHARD, .name = 3, .lsn = 2, .payload = bale_bytes(shard)}); /* not that one */
    assert_int_equal(seats_look(world, 3).phase, REPLICA_LOADING);
    seats_ask(world, 3, (part){.kind = PART_SHARD, .name = 4, .lsn = 2, .payload = bale_bytes(shard)});
    assert_true(seats_look(world, 3).phase == REPLICA_SERVING && seats_look(world, 3).applied == 2);
    assert_true(replica_name(world->seat[3].replica, 1) == 5 && replica_name(world->seat[3].replica, 0) == 0);
    replica_write_values(world->seat[3].replica, &after);
    assert_true(before.size == after.size && memcmp(before.data, after.data, before.size) == 0);
    seats_push(world, 3, 1, 6, 5); /* what was done after the cut is done again */
    assert_int_equal(seats_look(world, 3).applied, 3);
    bale_unref(shard);
    buffer_fini(&before);
    buffer_fini(&after);
}

/* A generation begins from this shard, on another server, with so many ranks, and is cut at once. The shard is moved;
 * what was cut is the caller's to unref. */
static bale *restore(seats *world, uint32_t server, uint32_t ranks, uint64_t checkpoint, bale *shard) {
    world->chart.birth = world->number + 1;
    world->chart.origin = checkpoint;
    world->chart.rank_count = ranks;
    replica_destroy(world->seat[server].replica);
    world->seat[server].replica = replica_create(&world->seat[server].host, 0);
    seats_chain(world, 0, (uint32_t[]){server}, 1);
    seats_enter(world, server);
    seats_ask(world, server, (part){.kind = PART_SHARD, .name = checkpoint, .lsn = 2, .payload = bale_bytes(shard)});
    assert_int_equal(seats_look(world, server).phase, REPLICA_SERVING);
    bale_unref(shard);
    seats_ask(world, server, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = checkpoint + 1});
    seats_settle(world, -1);
    return bale_copy(sent_to_depot(world, PART_CUT).payload);
}

static void ranks_that_are_left_out_keep_their_names(void **state) {
    seats *world = *state;
    seats_start(world, 1);
    seats_push(world, 0, SEATS_RANKS - 1, name_tick(7), 0);
    seats_ask(world, 0, (part){.kind = PART_ORDER, .entry = TAPE_MARK, .name = 4});
    seats_settle(world, -1);
    bale *shard = restore(world, 1, 1, 4, bale_copy(sent_to_depot(world, PART_CUT).payload));
    seats_push(world, 1, 0, name_tick(1), 0);
    shard = restore(world, 2, SEATS_RANKS, 5, shard);
    assert_true(replica_name(world->seat[2].replica, SEATS_RANKS - 1) == name_tick(7));
    assert_int_equal(replica_name(world->seat[2].replica, 0), 0); /* it was pushed behind the cut */
    shard = restore(world, 3, SEATS_RANKS + 1, 6, shard);
    assert_int_equal(replica_name(world->seat[3].replica, SEATS_RANKS), 0); /* as the slowest */
    assert_true(replica_name(world->seat[3].replica, SEATS_RANKS - 1) == name_tick(7));
    bale_unref(shard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_SEATS(a_cut_is_the_state_behind_the_mark),
        ON_SEATS(ranks_that_are_left_out_keep_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
