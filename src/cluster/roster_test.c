/* roster_test.c — roles and groups, parts that are claimed once and go on where they were left. */
#include "cluster/roster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cluster/coordinator.h"
#include "cluster/letter.h"

static mr_status put(roster *roster, uint32_t id, uint64_t incarnation, uint8_t role) {
    roster_member member = {.id = id, .incarnation = incarnation, .role = role, .address = "somewhere"};
    return roster_put(roster, &member);
}

static int setup(void **state) { /* two servers, three workers, four parts of ten */
    static const uint64_t sizes[] = {10, 10, 10, 10};
    roster *roster = xcalloc(1, sizeof *roster);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(put(roster, i, 10 + i, i < 2 ? ROSTER_SERVER : ROSTER_WORKER), MR_OK);
    roster_cut(roster, sizes, 4);
    roster_deal(roster);
    *state = roster;
    return 0;
}

static int teardown(void **state) {
    roster_fini(*state);
    free(*state);
    return 0;
}

static size_t parts_of(const roster *roster, uint32_t id) {
    size_t count = 0;
    for (size_t i = 0; i < roster->part_count; i++) count += roster->parts[i].holder == id;
    return count;
}

static void members_have_roles_and_are_replaced_by_later_ones(void **state) {
    roster *roster = *state;
    assert_int_equal(roster_group(roster, ROSTER_WORKER), 3);
    assert_int_equal(roster_group(roster, ROSTER_SERVER | ROSTER_WORKER), 5);
    assert_int_equal(roster_group(roster, ROSTER_SCHEDULER), 0);
    assert_int_equal(put(roster, 3, 5, ROSTER_WORKER), MR_STALE);
    assert_int_equal(put(roster, 3, 50, ROSTER_WORKER), MR_OK);
    assert_true(roster_find(roster, 3)->incarnation == 50 && roster->member_count == 5);
    assert_null(roster_find(roster, 9));
}

/* Claims so many items for the next steps of a rank, as the worker of this id. */
static mr_status claim_items(roster *roster, uint32_t id, uint32_t rank, uint64_t step, uint64_t items) {
    roster_wish wish = {.rank = rank, .step = step, .count = 1, .batch = items};
    return roster_claim(roster, id, roster_find(roster, id)->incarnation, &wish);
}

static void parts_go_on_where_they_were_left(void **state) {
    roster *roster = *state;
    assert_true(parts_of(roster, 2) == 2 && parts_of(roster, 3) == 1 && parts_of(roster, 4) == 1);
    uint32_t part = (uint32_t)roster_source(roster, 2, 12);
    assert_int_equal(roster->parts[part].holder, 2);
    assert_int_equal(claim_items(roster, 2, 7, 0, 4), MR_OK);
    assert_int_equal(roster->parts[part].position, 4);
    roster_remove(roster, 2);
    assert_int_equal(roster->parts[part].holder, ROSTER_NOBODY);
    roster_deal(roster);
    uint32_t heir = roster->parts[part].holder;
    assert_true((heir == 3 || heir == 4) && roster->parts[part].position == 4);
    assert_true(parts_of(roster, 3) == 2 && parts_of(roster, 4) == 2);
}

static void who_comes_gets_a_share(void **state) {
    roster *roster = *state;
    assert_int_equal(put(roster, 5, 15, ROSTER_WORKER), MR_OK);
    roster_deal(roster);
    for (uint32_t i = 2; i < 6; i++) assert_int_equal(parts_of(roster, i), 1);
}

static void an_epoch_ends_when_all_is_claimed(void **state) {
    roster *roster = *state;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(roster->epoch, 0);
        assert_int_equal(claim_items(roster, 2, 7, i, 10), MR_OK);
    }
    assert_int_equal(roster->epoch, 1);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(roster->parts[i].position, 0);
}

static mr_status claim_steps(roster *roster, uint32_t id, uint32_t rank, uint64_t step, uint32_t count) {
    roster_wish wish = {.rank = rank, .step = step, .count = count, .batch = 4};
    if (count != 0) assert_int_equal(roster_grants(roster, &wish), claims_find(&roster->claims, rank, step) != NULL);
    return roster_claim(roster, id, roster_find(roster, id)->incarnation, &wish);
}

static void assert_piece(const roster *roster, uint32_t rank, uint64_t step, uint32_t part, uint64_t epoch,
                         uint64_t from, uint64_t to) {
    const claim *claim = claims_find(&roster->claims, rank, step);
    assert_non_null(claim);
    claims_piece piece = claims_piece_of(claim, step);
    assert_true(piece.part == part && piece.epoch == epoch && piece.from == from && piece.to == to);
}

static void a_part_moves_on_when_it_is_claimed(void **state) {
    roster *roster = *state;
    uint32_t part = (uint32_t)roster_source(roster, 2, 12);
    assert_int_equal(claim_steps(roster, 2, 7, 1, 1), MR_OK);
    assert_int_equal(roster->parts[part].position, 4);
    assert_int_equal(claim_steps(roster, 2, 7, 1, 1), MR_STALE); /* that step has a piece */
    assert_int_equal(claim_steps(roster, 2, 7, 2, 0), MR_INVALID);
    assert_int_equal(claim_steps(roster, 0, 7, 2, 1), MR_STALE); /* a server */
    roster_wish late = {.rank = 7, .step = 2, .count = 1, .batch = 4};
    assert_int_equal(roster_claim(roster, 2, 11, &late), MR_STALE); /* an earlier process */
    roster_remove(roster, 2);
    roster_deal(roster);
    uint32_t heir = roster->parts[part].holder;
    while (roster_source(roster, heir, roster_find(roster, heir)->incarnation) != part) /* its own, that come first */
        assert_int_equal(claim_steps(roster, heir, 9, 3 * roster->claims.count, 3), MR_OK);
    assert_int_equal(claim_steps(roster, heir, 7, 2, 2), MR_OK); /* who plays the rank now goes on */
    assert_piece(roster, 7, 1, part, 0, 0, 4);
    assert_piece(roster, 7, 2, part, 0, 4, 8);
    assert_piece(roster, 7, 3, part, 0, 8, 10);
}

/* One that has nothing left takes of others, as many as want to: an epoch ends, whoever is slow. */
static void who_has_none_left_helps(void **state) {
    roster *roster = *state;
    assert_int_equal(claim_items(roster, 4, 11, 0, 10), MR_OK); /* its only part */
    uint32_t part = (uint32_t)roster_source(roster, 4, 14);
    assert_true(part < 4 && roster->parts[part].holder != 4);
    assert_int_equal(claim_steps(roster, 4, 9, 1, 1), MR_OK);
    assert_int_equal(claim_steps(roster, 4, 10, 1, 1), MR_OK);
    assert_piece(roster, 9, 1, part, 0, 0, 4);
    assert_piece(roster, 10, 1, part, 0, 4, 8);
}

/* Of four parts of ten items, in steps of four, a rank wants more than an epoch has. */
static void claims_go_on_into_the_next_epoch(void **state) {
    roster *roster = *state;
    assert_int_equal(claim_steps(roster, 3, 9, 20, 1), MR_OK); /* a step in between is claimed */
    assert_int_equal(claim_steps(roster, 3, 9, 1, 100), MR_OK);
    assert_int_equal(roster->epoch, 1);
    const claim *last = claims_find(&roster->claims, 9, 19);
    assert_true(last != NULL && last->piece.epoch == 1);
    assert_null(claims_find(&roster->claims, 9, 21)); /* those behind it were not given */
    uint64_t items = 0;
    for (uint64_t step = 1; step <= 20; step++) {
        claims_piece piece = claims_piece_of(claims_find(&roster->claims, 9, step), step);
        if (piece.epoch == 0) items += piece.to - piece.from;
    }
    assert_int_equal(items, 40);
}

static void what_is_handed_back_goes_first(void **state) {
    roster *roster = *state;
    uint32_t part = (uint32_t)roster_source(roster, 3, 13);
    assert_int_equal(claim_steps(roster, 3, 9, 1, 2), MR_OK);
    roster_wish wish = {.rank = 9, .past = {.over = 3, .since = 1, .spent = 1}}; /* the second was done */
    assert_false(roster_grants(roster, &wish));
    assert_true(roster_pass(roster, &wish));
    assert_true(roster_grants(roster, &wish));
    assert_false(roster_pass(roster, &wish));
    assert_int_equal(claim_steps(roster, 4, 10, 1, 1), MR_OK); /* whoever comes */
    assert_piece(roster, 10, 1, part, 0, 0, 4);
    assert_int_equal(roster->claims.back_count, 0);
    wish = (roster_wish){.rank = 9, .step = 2, .count = 1, .batch = 4};
    assert_int_equal(roster_claim(roster, 3, 13, &wish), MR_STALE); /* that is over */
    assert_true(roster_grants(roster, &wish));
}

/* What the coordinator takes: a cluster of 3,000, each worker with a rank that has claimed. */
static void a_large_one_fits(void **state) {
    roster roster = {.number = coordinator_version(0x123456, 5000)};
    uint64_t sizes[ROSTER_PARTS_MAX];
    for (uint32_t i = 0; i < 3000; i++) {
        roster_member member = {.id = i, .incarnation = roster.number - i, .role = ROSTER_WORKER};
        if (i < 1000) member.role = ROSTER_SERVER;
        snprintf(member.address, sizeof member.address, "10.0.%u.%u:%u", i / 256, i % 256, 40000 + i);
        assert_int_equal(roster_put(&roster, &member), MR_OK);
    }
    for (size_t i = 0; i < ROSTER_PARTS_MAX; i++) sizes[i] = 1000000 + i;
    roster_cut(&roster, sizes, ROSTER_PARTS_MAX);
    roster_deal(&roster);
    for (uint32_t i = 0; i < 2000; i++) {
        roster_wish wish = {.rank = i, .step = 100000, .count = 64, .batch = 32, .past = {.over = 99990}};
        assert_int_equal(roster_claim(&roster, 1000 + i, roster.number - 1000 - i, &wish), MR_OK);
        (void)roster_pass(&roster, &wish);
    }
    print_message("3,000 members, 2,048 parts and 2,000 ranks: %zu bytes\n", roster_size(&roster));
    assert_in_range(roster_size(&roster), 1, LETTER_VALUE_MAX);
    roster_fini(&roster);
}

static void rosters_come_back_as_they_went(void **state) {
    roster *roster = *state, again = {0}, out = {0};
    roster->number = 7;
    assert_int_equal(claim_items(roster, 2, 7, 0, 3), MR_OK);
    assert_int_equal(claim_steps(roster, 3, 5, 1, 2), MR_OK);
    assert_true(roster_pass(roster, &(roster_wish){.rank = 5, .past = {.over = 2}}));
    size_t size = roster_size(roster);
    uint8_t *bytes = xmalloc(2 * size), *other = bytes + size;
    writer writer = writer_of(bytes, size);
    roster_encode(roster, &writer);
    assert_true(!writer.failed && writer_size(&writer) == size);
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(roster_decode(span_of(bytes, cut), &out), MR_CORRUPT);
    assert_int_equal(roster_decode(span_of(bytes, size), &again), MR_OK);
    writer = writer_of(other, size);
    roster_encode(&again, &writer);
    assert_memory_equal(bytes, other, size);
    assert_true(again.number == 7 && roster_find(&again, 2)->incarnation == 12 && out.members == NULL);
    assert_true(bytes[20] == ROSTER_SERVER &&
                bytes[21] == 0); /* of the first member: its role, and where barriers were */
    bytes[21] = 1;
    assert_int_equal(roster_decode(span_of(bytes, size), &out), MR_CORRUPT);
    roster_fini(&again);
    free(bytes);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(members_have_roles_and_are_replaced_by_later_ones),
        TEST(parts_go_on_where_they_were_left),
        TEST(who_comes_gets_a_share),
        TEST(an_epoch_ends_when_all_is_claimed),
        TEST(a_part_moves_on_when_it_is_claimed),
        TEST(who_has_none_left_helps),
        TEST(claims_go_on_into_the_next_epoch),
        TEST(what_is_handed_back_goes_first),
        cmocka_unit_test(a_large_one_fits),
        TEST(rosters_come_back_as_they_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
