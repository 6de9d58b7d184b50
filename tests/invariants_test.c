/* invariants_test.c — the functions that assert the invariants of modules (base/invariants.h) pass what is sound and end
 * the process for each invariant that is broken. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/roster.h"
#include "cluster/view.h"
#include "net/shm/ring.h"
#include "ps/marker.h"
#include "store/blocks.h"
#include "tests/support/child.h"
#include "tests/support/seats.h"

/* A child that breaks one invariant of a module and asks for all of them. */
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
    child_fn *child;
} broken;

static void assert_seen(void *module, const broken *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int end = child_run(list[i].child, module, 60000);
        if (end != -SIGABRT) fail_msg("%s: not seen (%d)", list[i].what, end);
    }
}
#define ASSERT_SEEN(module, list) assert_seen(module, list, sizeof list / sizeof *list)

/* ---- The log of a slot. */

BREAKS(tape_ahead, tape, tape_check, it->applied = tape_last(it) + 1)
BREAKS(tape_behind, tape, tape_check, it->base = it->applied + 1)
BREAKS(tape_full, tape, tape_check, it->count = it->capacity + 1)
BREAKS(tape_sums, tape, tape_check, it->entries[1].total++)
BREAKS(tape_holds_nothing, tape, tape_check, it->entries[1].bale = it->entries[0].bale)

static void of_a_log(void **state) {
    static const broken list[] = {{"applied behind the last entry", tape_ahead},
                                  {"base behind applied", tape_behind},
                                  {"more entries than room", tape_full},
                                  {"a sum of bytes", tape_sums},
                                  {"a bale without a payload", tape_holds_nothing}};
    bale *bale = bale_copy(span_of("abc", 3));
    tape tape = {0};
    tape_add(&tape, &(tape_entry){.kind = TAPE_PUSH, .name = 1, .payload = bale_bytes(bale), .bale = bale});
    tape_add(&tape, &(tape_entry){.kind = TAPE_MARK, .name = 2});
    tape_check(&tape);
    ASSERT_SEEN(&tape, list);
    tape_fini(&tape);
    bale_unref(bale);
}

/* ---- A copy of a slot. */

BREAKS(replica_level, replica, replica_check, it->level = tape_last(&it->tape) + 1)
BREAKS(replica_head_level, replica, replica_check, it->level = 0; it->tape.applied = 0)
BREAKS(replica_place, replica, replica_check, it->phase = REPLICA_MEMBER)
BREAKS(replica_epoch, replica, replica_check, it->epoch++)
BREAKS(replica_base, replica, replica_check, it->phase = REPLICA_INHERITING)
BREAKS(replica_ready, replica, replica_check, it->join.ready = true)
BREAKS(replica_filled, replica, replica_check, it->join.filled = true)
BREAKS(replica_names, replica, replica_check, it->logged[0]++)
BREAKS(replica_closing, replica, replica_check, it->closing = true)
BREAKS(replica_gifts, replica, replica_check, it->gift_count++)
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
    seats *world = *state;
    seats_start(world, 1);
    seats_push(world, 0, 0, 1, 0);
    seats_push(world, 0, 0, 2, 1);
    replica *replica = world->seat[0].replica;
    assert_int_equal(seats_look(world, 0).applied, 2);
    replica_check(replica);
    ASSERT_SEEN(replica, list);
}

/* ---- A cluster map. */

BREAKS(chart_epoch, chart, chart_check, it->slots[0].epoch = it->number + 1)
BREAKS(chart_twice, chart, chart_check, it->slots[1].chain[1].server = it->slots[1].chain[0].server)
BREAKS(chart_order, chart, chart_check, it->servers[1].id = it->servers[0].id)
BREAKS(chart_since, chart, chart_check, it->servers[1].since = it->number + 1)
BREAKS(chart_stint, chart, chart_check, it->players[0].since = it->number + 1)
BREAKS(chart_mixed, chart, chart_check, it->mixed = true)
BREAKS(chart_copies, chart, chart_check, it->copies = CHART_COPIES_MAX + 1)

static void of_a_cluster_map(void **state) {
    static const broken list[] = {{"1: slots of a mixed deployment", chart_mixed},
                                  {"1: copies", chart_copies},
                                  {"2: an epoch to come", chart_epoch},
                                  {"2: a server twice", chart_twice},
                                  {"3: servers out of order", chart_order},
                                  {"3: a server to come", chart_since},
                                  {"3: a player to come", chart_stint}};
    chart chart = {.number = 7, .copies = 2, .rank_count = 1, .slot_count = 2};
    chart.slots = calloc(2, sizeof *chart.slots);
    chart.slots[0] = (chart_slot){.epoch = 7, .count = 1, .chain = {{1, 11, 7}}};
    chart.slots[1] = (chart_slot){.epoch = 5, .count = 2, .chain = {{1, 11, 5}, {2, 12, 5}}};
    chart_put_server(&chart, 1, 11, "a");
    chart_put_server(&chart, 2, 12, "b");
    chart_put_player(&chart, 0, 3, 13);
    chart_check(&chart);
    ASSERT_SEEN(&chart, list);
    chart_fini(&chart);
}

/* ---- The state of rounds. */

BREAKS(ledger_strangers, ledger_pages, ledger_check, crowd_put(&it->now.members, 3))
BREAKS(ledger_dropping, ledger_pages, ledger_check, crowd_put(&it->now.dropping, 2); crowd_take(&it->now.members, 2))
BREAKS(ledger_void, ledger_pages, ledger_check, crowd_put(&it->now.voided, 1))
BREAKS(ledger_both, ledger_pages, ledger_check, crowd_put(&it->now.voided, 0); crowd_put(&it->now.redo, 0))
BREAKS(ledger_before, ledger_pages, ledger_check, it->before.rank_count = 2)
BREAKS(ledger_phased, ledger_pages, ledger_check, it->norms.phases = 1)

static void of_rounds(void **state) {
    static const broken list[] = {
        {"1: a rank of another table", ledger_strangers}, {"2: given up, not a member", ledger_dropping},
        {"2: void, not given up", ledger_void},           {"2: void and to be played", ledger_both},
        {"3: a page of other ranks", ledger_before},      {"3: norms without bytes", ledger_phased}};
    ledger_pages pages = {0};
    ledger_begin(&pages.now, 3, 3, 0, false);
    ledger_apply(&pages.now, &(tape_entry){.kind = TAPE_DROP, .rank = 0});
    ledger_check(&pages);
    ASSERT_SEEN(&pages, list);
}

/* ---- Checkpoints. */

BREAKS(marker_unwanted, marker, marker_check, it->phase = MARKER_SAVING; it->wanted = 0)
BREAKS(marker_stands, marker, marker_check, it->phase = MARKER_CUTTING)
BREAKS(marker_counts, marker, marker_check, it->cut_count++)
BREAKS(marker_unheard, marker, marker_check, it->heard = false)
BREAKS(truce_floor, marker, marker_check, it->truce.floor = 1)
BREAKS(truce_table, marker, marker_check, it->truce.rank_count = 1)

static void of_checkpoints(void **state) {
    static const broken list[] = {
        {"1: nobody wants it", marker_unwanted},     {"2: nobody stands still", marker_stands},
        {"2: a floor above all steps", truce_floor}, {"2: ranks without a pause", truce_table},
        {"3: a cut too many", marker_counts},        {"4: made, not heard of", marker_unheard}};
    marker marker = {.heard = true, .made = true, .wanted = 3};
    marker_check(&marker);
    ASSERT_SEEN(&marker, list);
    marker_fini(&marker);
}

/* ---- Members, and who has which data. */

BREAKS(view_order, view, view_check, it->members[1].id = it->members[0].id)
BREAKS(view_nobody, view, view_check, it->members[1].incarnation = 0)
BREAKS(view_nowhere, view, view_check, it->members[0].address[0] = '\0')

static void of_a_view(void **state) {
    static const broken list[] = {
        {"1: out of order", view_order}, {"2: no incarnation", view_nobody}, {"2: no address", view_nowhere}};
    view view = {.number = 1};
    assert_int_equal(view_put(&view, 4, 1, "a"), MR_OK);
    assert_int_equal(view_put(&view, 9, 2, "b"), MR_OK);
    view_check(&view);
    ASSERT_SEEN(&view, list);
    view_fini(&view);
}

BREAKS(roster_order, roster, roster_check, it->members[1].id = it->members[0].id)
BREAKS(roster_role, roster, roster_check, it->members[0].role = ROSTER_SERVER | ROSTER_WORKER)
BREAKS(roster_ahead, roster, roster_check, it->parts[0].position = it->parts[0].size + 1)
BREAKS(roster_holder, roster, roster_check, it->parts[0].holder = ROSTER_NOBODY)
BREAKS(claims_order, roster, roster_check, it->claims.list[1].step = it->claims.list[0].step)
BREAKS(claims_stranger, roster, roster_check, it->claims.ranks[0].rank = 9)
BREAKS(claims_past_it, roster, roster_check, it->claims.ranks[0].over = 100)
BREAKS(claims_of_nothing, roster, roster_check, it->claims.list[0].count = 0)

static void of_a_roster(void **state) {
    static const broken list[] = {
        {"1: out of order", roster_order},          {"1: two roles", roster_role},
        {"2: claimed too far", roster_ahead},       {"2: held by nobody", roster_holder},
        {"3, 1: an unknown rank", claims_stranger}, {"3, 2: steps in common", claims_order},
        {"3, 2: no steps", claims_of_nothing},      {"3, 3: over as a whole", claims_past_it}};
    roster roster = {.number = 1};
    roster_cut(&roster, (const uint64_t[]){100}, 1);
    assert_int_equal(roster_put(&roster, &(roster_member){.id = 3, .incarnation = 1, .role = ROSTER_WORKER}), MR_OK);
    assert_int_equal(roster_put(&roster, &(roster_member){.id = 5, .incarnation = 1, .role = ROSTER_SERVER}), MR_OK);
    roster_deal(&roster);
    for (uint64_t step = 1; step < 8; step += 4)
        assert_int_equal(roster_claim(&roster, 3, 1, &(roster_wish){.rank = 2, .step = step, .count = 2, .batch = 4}),
                         MR_OK);
    roster_check(&roster);
    ASSERT_SEEN(&roster, list);
    roster_fini(&roster);
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

BREAKS(blocks_used, blocks, blocks_check, it->used++)
BREAKS(blocks_lists, blocks, blocks_check, it->some[0] ^= 1)

static void of_blocks(void **state) {
    static const broken list[] = {{"bytes in use", blocks_used}, {"a list that is empty", blocks_lists}};
    blocks blocks;
    blocks_init(&blocks, 64);
    stretch *stretch = blocks_add(&blocks, (extent){0, 4096});
    block *block = blocks_alloc(&blocks, 100);
    blocks_check(&blocks);
    ASSERT_SEEN(&blocks, list);
    assert_ptr_equal(blocks_free(&blocks, block), stretch);
    blocks_fini(&blocks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_log),         ON_SEATS(of_a_copy),
        cmocka_unit_test(of_a_cluster_map), cmocka_unit_test(of_rounds),
        cmocka_unit_test(of_checkpoints),   cmocka_unit_test(of_a_view),
        cmocka_unit_test(of_a_roster),      cmocka_unit_test(of_a_ring),
        cmocka_unit_test(of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
