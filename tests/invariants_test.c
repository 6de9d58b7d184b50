/* invariants_test.c — the functions that assert the invariants of modules (base/invariants.h) accept valid states and
 * end the process for each broken invariant. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/consumer_group.h"
#include "cluster/membership_view.h"
#include "net/shm/ring.h"
#include "ps/checkpointer.h"
#include "store/block_allocator.h"
#include "tests/support/replica_fixture.h"
#include "tests/support/test_child.h"

/* Defines a child process that breaks one invariant of a module and checks all of them. */
#define BREAKS(name, type, check, statement)                          \
    static int name(void *argument) {                                 \
        type *it = argument;                                          \
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO); \
        statement;                                                    \
        check(it);                                                    \
        return 0;                                                     \
    }

typedef struct broken {
    const char *what;
    test_child_fn *child;
} broken;

static void assert_seen(void *module, const broken *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int end = test_child_run(list[i].child, module, 60000);
        if (end != -SIGABRT) fail_msg("%s: not seen (%d)", list[i].what, end);
    }
}
#define ASSERT_SEEN(module, list) assert_seen(module, list, sizeof list / sizeof *list)

/* ---- The log of a slot. */

BREAKS(tape_ahead, replica_log, replica_log_check, it->applied = replica_log_last(it) + 1)
BREAKS(tape_behind, replica_log, replica_log_check, it->base = it->applied + 1)
BREAKS(tape_full, replica_log, replica_log_check, it->count = it->capacity + 1)
BREAKS(tape_sums, replica_log, replica_log_check, it->entries[1].total++)
BREAKS(tape_holds_nothing, replica_log, replica_log_check, it->entries[1].bytes = it->entries[0].bytes)

static void of_a_log(void **state) {
    static const broken list[] = {{"applied behind the last entry", tape_ahead},
                                  {"base behind applied", tape_behind},
                                  {"more entries than room", tape_full},
                                  {"a sum of bytes", tape_sums},
                                  {"a bale without a payload", tape_holds_nothing}};
    shared_bytes *bytes = shared_bytes_copy(span_of("abc", 3));
    replica_log log = {0};
    replica_log_add(&log,
                    &(replica_log_entry){
                        .kind = REPLICA_LOG_PUSH, .name = 1, .payload = shared_bytes_bytes(bytes), .bytes = bytes});
    replica_log_add(&log, &(replica_log_entry){.kind = REPLICA_LOG_MARK, .name = 2});
    replica_log_check(&log);
    ASSERT_SEEN(&log, list);
    replica_log_fini(&log);
    shared_bytes_unref(bytes);
}

/* ---- A replica of a slot. */

BREAKS(replica_level, replica, replica_check, it->level = replica_log_last(&it->log) + 1)
BREAKS(replica_head_level, replica, replica_check, it->level = 0; it->log.applied = 0)
BREAKS(replica_place, replica, replica_check, it->phase = REPLICA_MEMBER)
BREAKS(replica_epoch, replica, replica_check, it->epoch++)
BREAKS(replica_base, replica, replica_check, it->phase = REPLICA_INHERITING)
BREAKS(replica_ready, replica, replica_check, it->join.ready = true)
BREAKS(replica_filled, replica, replica_check, it->join.filled = true)
BREAKS(replica_names, replica, replica_check, it->logged[0]++)
BREAKS(replica_closing, replica, replica_check, it->closing = true)
BREAKS(replica_gifts, replica, replica_check, it->contribution_count++)
BREAKS(replica_decided, replica, replica_check, it->round.decided = true)
BREAKS(replica_measured, replica, replica_check, it->norms.measured = true)
BREAKS(replica_frozen, replica, replica_check, it->inquiry.count++)
BREAKS(replica_waits, replica, replica_check, it->waiter_count = it->waiter_room + 1)
BREAKS(replica_cut_away, replica, replica_check, it->cut.checkpoint = 1)
BREAKS(replica_no_copy, replica, replica_check, it->values = NULL)

static void of_a_copy(void **state) {
    static const broken list[] = {{"1: level above the log", replica_level},
                                  {"1: tables without a copy", replica_no_copy},
                                  {"2: a head whose level is not its log", replica_head_level},
                                  {"3: the phase of another place", replica_place},
                                  {"3: a chain of another epoch", replica_epoch},
                                  {"4: nothing to inherit", replica_base},
                                  {"5: ready, not gated", replica_ready},
                                  {"5: filled, not wanted", replica_filled},
                                  {"6: a name that is not in the log", replica_names},
                                  {"7: closing, no round in the log", replica_closing},
                                  {"7: a contribution too many", replica_gifts},
                                  {"7: decided, not known", replica_decided},
                                  {"7: measured without a sum", replica_measured},
                                  {"7: one that has not frozen", replica_frozen},
                                  {"8: more pulls than room", replica_waits},
                                  {"9: a cut without bytes", replica_cut_away}};
    replica_fixture *world = *state;
    replica_fixture_start(world, 1);
    replica_fixture_push(world, 0, 0, 1, 0);
    replica_fixture_push(world, 0, 0, 2, 1);
    replica *replica = world->site[0].replica;
    assert_int_equal(replica_fixture_look(world, 0).applied, 2);
    replica_check(replica);
    ASSERT_SEEN(replica, list);
}

/* ---- A cluster map. */

BREAKS(chart_epoch, cluster_map, cluster_map_check, it->slots[0].epoch = it->number + 1)
BREAKS(chart_twice, cluster_map, cluster_map_check, it->slots[1].chain[1].server = it->slots[1].chain[0].server)
BREAKS(chart_order, cluster_map, cluster_map_check, it->servers[1].id = it->servers[0].id)
BREAKS(chart_since, cluster_map, cluster_map_check, it->servers[1].since = it->number + 1)
BREAKS(chart_stint, cluster_map, cluster_map_check, it->ranks[0].since = it->number + 1)
BREAKS(chart_mixed, cluster_map, cluster_map_check, it->mixed = true)
BREAKS(chart_copies, cluster_map, cluster_map_check, it->copies = CLUSTER_MAP_COPIES_MAX + 1)

static void of_a_cluster_map(void **state) {
    static const broken list[] = {{"1: slots of a mixed deployment", chart_mixed},
                                  {"1: copies", chart_copies},
                                  {"2: an epoch to come", chart_epoch},
                                  {"2: a server twice", chart_twice},
                                  {"3: servers out of order", chart_order},
                                  {"3: a server to come", chart_since},
                                  {"3: a player to come", chart_stint}};
    cluster_map map = {.number = 7, .copies = 2, .rank_count = 1, .slot_count = 2};
    map.slots = calloc(2, sizeof *map.slots);
    map.slots[0] = (cluster_map_slot){.epoch = 7, .count = 1, .chain = {{1, 11, 7}}};
    map.slots[1] = (cluster_map_slot){.epoch = 5, .count = 2, .chain = {{1, 11, 5}, {2, 12, 5}}};
    cluster_map_put_server(&map, 1, 11, "a");
    cluster_map_put_server(&map, 2, 12, "b");
    cluster_map_put_rank(&map, 0, 3, 13);
    cluster_map_check(&map);
    ASSERT_SEEN(&map, list);
    cluster_map_fini(&map);
}

/* ---- The state of rounds. */

BREAKS(ledger_strangers, round_state_pages, round_state_check, rank_set_put(&it->now.members, 3))
BREAKS(ledger_dropping, round_state_pages, round_state_check, rank_set_put(&it->now.dropping, 2);
       rank_set_take(&it->now.members, 2))
BREAKS(ledger_void, round_state_pages, round_state_check, rank_set_put(&it->now.voided, 1))
BREAKS(ledger_both, round_state_pages, round_state_check, rank_set_put(&it->now.voided, 0);
       rank_set_put(&it->now.redo, 0))
BREAKS(ledger_before, round_state_pages, round_state_check, it->before.rank_count = 2)
BREAKS(ledger_phased, round_state_pages, round_state_check, it->norms.phases = 1)

static void of_rounds(void **state) {
    static const broken list[] = {
        {"1: a rank of another table", ledger_strangers}, {"2: given up, not a member", ledger_dropping},
        {"2: void, not given up", ledger_void},           {"2: void and to be played", ledger_both},
        {"3: a page of other ranks", ledger_before},      {"3: norms without bytes", ledger_phased}};
    round_state_pages pages = {0};
    round_state_begin(&pages.now, 3, 3, 0, false);
    round_state_apply(&pages.now, &(replica_log_entry){.kind = REPLICA_LOG_DROP, .rank = 0});
    round_state_check(&pages);
    ASSERT_SEEN(&pages, list);
}

/* ---- Checkpoints. */

BREAKS(marker_unwanted, checkpointer, checkpointer_check, it->phase = CHECKPOINTER_SAVING; it->wanted = 0)
BREAKS(marker_stands, checkpointer, checkpointer_check, it->phase = CHECKPOINTER_CUTTING)
BREAKS(marker_counts, checkpointer, checkpointer_check, it->cut_count++)
BREAKS(marker_unheard, checkpointer, checkpointer_check, it->heard = false)
BREAKS(truce_floor, checkpointer, checkpointer_check, it->quiesce.floor = 1)
BREAKS(truce_table, checkpointer, checkpointer_check, it->quiesce.rank_count = 1)

static void of_checkpoints(void **state) {
    static const broken list[] = {
        {"1: nobody wants it", marker_unwanted},     {"2: nobody stands still", marker_stands},
        {"2: a floor above all steps", truce_floor}, {"2: ranks without a pause", truce_table},
        {"3: a cut too many", marker_counts},        {"4: made, not heard of", marker_unheard}};
    checkpointer checkpointer = {.heard = true, .made = true, .wanted = 3};
    checkpointer_check(&checkpointer);
    ASSERT_SEEN(&checkpointer, list);
    checkpointer_fini(&checkpointer);
}

/* ---- Members, and shards of the data. */

BREAKS(view_order, membership_view, membership_view_check, it->members[1].id = it->members[0].id)
BREAKS(view_nobody, membership_view, membership_view_check, it->members[1].incarnation = 0)
BREAKS(view_nowhere, membership_view, membership_view_check, it->members[0].address[0] = '\0')

static void of_a_view(void **state) {
    static const broken list[] = {
        {"1: out of order", view_order}, {"2: no incarnation", view_nobody}, {"2: no address", view_nowhere}};
    membership_view view = {.number = 1};
    assert_int_equal(membership_view_put(&view, 4, 1, "a"), MR_OK);
    assert_int_equal(membership_view_put(&view, 9, 2, "b"), MR_OK);
    membership_view_check(&view);
    ASSERT_SEEN(&view, list);
    membership_view_fini(&view);
}

BREAKS(roster_order, consumer_group, consumer_group_check, it->members[1].id = it->members[0].id)
BREAKS(roster_role, consumer_group, consumer_group_check,
       it->members[0].role = CONSUMER_GROUP_SERVER | CONSUMER_GROUP_WORKER)
BREAKS(roster_ahead, consumer_group, consumer_group_check, it->parts[0].position = it->parts[0].size + 1)
BREAKS(roster_holder, consumer_group, consumer_group_check, it->parts[0].holder = CONSUMER_GROUP_NOBODY)
BREAKS(claims_order, consumer_group, consumer_group_check, it->claims.list[1].step = it->claims.list[0].step)
BREAKS(claims_stranger, consumer_group, consumer_group_check, it->claims.ranks[0].rank = 9)
BREAKS(claims_past_it, consumer_group, consumer_group_check, it->claims.ranks[0].over = 100)
BREAKS(claims_of_nothing, consumer_group, consumer_group_check, it->claims.list[0].count = 0)

static void of_a_group(void **state) {
    static const broken list[] = {
        {"1: out of order", roster_order},          {"1: two roles", roster_role},
        {"2: claimed too far", roster_ahead},       {"2: held by nobody", roster_holder},
        {"3, 1: an unknown rank", claims_stranger}, {"3, 2: steps in common", claims_order},
        {"3, 2: no steps", claims_of_nothing},      {"3, 3: over as a whole", claims_past_it}};
    consumer_group group = {.number = 1};
    consumer_group_cut(&group, (const uint64_t[]){100}, 1);
    assert_int_equal(
        consumer_group_put(&group, &(consumer_group_member){.id = 3, .incarnation = 1, .role = CONSUMER_GROUP_WORKER}),
        MR_OK);
    assert_int_equal(
        consumer_group_put(&group, &(consumer_group_member){.id = 5, .incarnation = 1, .role = CONSUMER_GROUP_SERVER}),
        MR_OK);
    consumer_group_deal(&group);
    for (uint64_t step = 1; step < 8; step += 4)
        assert_int_equal(
            consumer_group_claim(&group, 3, 1, &(consumer_group_wish){.rank = 2, .step = step, .count = 2, .batch = 4}),
            MR_OK);
    consumer_group_check(&group);
    ASSERT_SEEN(&group, list);
    consumer_group_fini(&group);
}

/* ---- Shared memory. */

BREAKS(ring_odd, ring_consumer, ring_consumer_check, it->tail = 4; it->offset = 4)
BREAKS(ring_elsewhere, ring_consumer, ring_consumer_check, it->offset = 8)
BREAKS(ring_unread, ring_consumer, ring_consumer_check, it->released = 8)

static void of_a_ring(void **state) {
    static const broken list[] = {
        {"1: not a multiple", ring_odd}, {"1: another place", ring_elsewhere}, {"2: released unread", ring_unread}};
    _Alignas(64) static uint8_t memory[RING_BYTES_MIN];
    ring_consumer ring;
    ring_consumer_init(&ring, memory, sizeof memory, 1);
    ring_consumer_check(&ring);
    ASSERT_SEEN(&ring, list);
}

BREAKS(blocks_used, block_allocator, block_allocator_check, it->used++)
BREAKS(blocks_lists, block_allocator, block_allocator_check, it->some[0] ^= 1)

static void of_blocks(void **state) {
    static const broken list[] = {{"bytes in use", blocks_used}, {"a list that is empty", blocks_lists}};
    block_allocator allocator;
    block_allocator_init(&allocator, 64);
    stretch *stretch = block_allocator_add(&allocator, (extent){0, 4096});
    block *block = block_allocator_alloc(&allocator, 100);
    block_allocator_check(&allocator);
    ASSERT_SEEN(&allocator, list);
    assert_ptr_equal(block_allocator_free(&allocator, block), stretch);
    block_allocator_fini(&allocator);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_log),         ON_SITES(of_a_copy),
        cmocka_unit_test(of_a_cluster_map), cmocka_unit_test(of_rounds),
        cmocka_unit_test(of_checkpoints),   cmocka_unit_test(of_a_view),
        cmocka_unit_test(of_a_group),       cmocka_unit_test(of_a_ring),
        cmocka_unit_test(of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
