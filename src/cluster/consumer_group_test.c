/* consumer_group_test.c — roles and groups; parts that are claimed once and continue at their positions. */
#include "cluster/consumer_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cluster/control_message.h"
#include "cluster/metadata_store.h"

static mr_status put(consumer_group *group, uint32_t id, uint64_t incarnation, uint8_t role) {
    consumer_group_member member = {.id = id, .incarnation = incarnation, .role = role, .address = "somewhere"};
    return consumer_group_put(group, &member);
}

static int setup(void **state) { /* two servers, three workers, four parts of ten items */
    static const uint64_t sizes[] = {10, 10, 10, 10};
    consumer_group *group = xcalloc(1, sizeof *group);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(put(group, i, 10 + i, i < 2 ? CONSUMER_GROUP_SERVER : CONSUMER_GROUP_WORKER), MR_OK);
    consumer_group_cut(group, sizes, 4);
    consumer_group_deal(group);
    *state = group;
    return 0;
}

static int teardown(void **state) {
    consumer_group_fini(*state);
    free(*state);
    return 0;
}

static size_t parts_of(const consumer_group *group, uint32_t id) {
    size_t count = 0;
    for (size_t i = 0; i < group->part_count; i++) count += group->parts[i].holder == id;
    return count;
}

static void members_have_roles_and_are_replaced_by_later_ones(void **state) {
    consumer_group *group = *state;
    assert_int_equal(consumer_group_group(group, CONSUMER_GROUP_WORKER), 3);
    assert_int_equal(consumer_group_group(group, CONSUMER_GROUP_SERVER | CONSUMER_GROUP_WORKER), 5);
    assert_int_equal(consumer_group_group(group, CONSUMER_GROUP_SCHEDULER), 0);
    assert_int_equal(put(group, 3, 5, CONSUMER_GROUP_WORKER), MR_STALE);
    assert_int_equal(put(group, 3, 50, CONSUMER_GROUP_WORKER), MR_OK);
    assert_true(consumer_group_find(group, 3)->incarnation == 50 && group->member_count == 5);
    assert_null(consumer_group_find(group, 9));
}

/* Claims a batch of `items` items for one step of a rank, as the worker with this id. */
static mr_status claim_items(consumer_group *group, uint32_t id, uint32_t rank, uint64_t step, uint64_t items) {
    consumer_group_wish wish = {.rank = rank, .step = step, .count = 1, .batch = items};
    return consumer_group_claim(group, id, consumer_group_find(group, id)->incarnation, &wish);
}

static void parts_go_on_where_they_were_left(void **state) {
    consumer_group *group = *state;
    assert_true(parts_of(group, 2) == 2 && parts_of(group, 3) == 1 && parts_of(group, 4) == 1);
    uint32_t part = (uint32_t)consumer_group_source(group, 2, 12);
    assert_int_equal(group->parts[part].holder, 2);
    assert_int_equal(claim_items(group, 2, 7, 0, 4), MR_OK);
    assert_int_equal(group->parts[part].position, 4);
    consumer_group_remove(group, 2);
    assert_int_equal(group->parts[part].holder, CONSUMER_GROUP_NOBODY);
    consumer_group_deal(group);
    uint32_t heir = group->parts[part].holder;
    assert_true((heir == 3 || heir == 4) && group->parts[part].position == 4);
    assert_true(parts_of(group, 3) == 2 && parts_of(group, 4) == 2);
}

static void a_new_member_gets_a_share(void **state) {
    consumer_group *group = *state;
    assert_int_equal(put(group, 5, 15, CONSUMER_GROUP_WORKER), MR_OK);
    consumer_group_deal(group);
    for (uint32_t i = 2; i < 6; i++) assert_int_equal(parts_of(group, i), 1);
}

static void an_epoch_ends_when_all_is_claimed(void **state) {
    consumer_group *group = *state;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(group->epoch, 0);
        assert_int_equal(claim_items(group, 2, 7, i, 10), MR_OK);
    }
    assert_int_equal(group->epoch, 1);
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(group->parts[i].position, 0);
}

static mr_status claim_steps(consumer_group *group, uint32_t id, uint32_t rank, uint64_t step, uint32_t count) {
    consumer_group_wish wish = {.rank = rank, .step = step, .count = count, .batch = 4};
    if (count != 0)
        assert_int_equal(consumer_group_grants(group, &wish), batch_claims_find(&group->claims, rank, step) != NULL);
    return consumer_group_claim(group, id, consumer_group_find(group, id)->incarnation, &wish);
}

static void assert_piece(const consumer_group *group, uint32_t rank, uint64_t step, uint32_t part, uint64_t epoch,
                         uint64_t from, uint64_t to) {
    const batch_claim *claim = batch_claims_find(&group->claims, rank, step);
    assert_non_null(claim);
    batch_claims_piece piece = batch_claims_piece_of(claim, step);
    assert_true(piece.part == part && piece.epoch == epoch && piece.from == from && piece.to == to);
}

static void a_part_moves_on_when_it_is_claimed(void **state) {
    consumer_group *group = *state;
    uint32_t part = (uint32_t)consumer_group_source(group, 2, 12);
    assert_int_equal(claim_steps(group, 2, 7, 1, 1), MR_OK);
    assert_int_equal(group->parts[part].position, 4);
    assert_int_equal(claim_steps(group, 2, 7, 1, 1), MR_STALE); /* the step is claimed */
    assert_int_equal(claim_steps(group, 2, 7, 2, 0), MR_INVALID);
    assert_int_equal(claim_steps(group, 0, 7, 2, 1), MR_STALE); /* a server */
    consumer_group_wish late = {.rank = 7, .step = 2, .count = 1, .batch = 4};
    assert_int_equal(consumer_group_claim(group, 2, 11, &late), MR_STALE); /* an earlier process */
    consumer_group_remove(group, 2);
    consumer_group_deal(group);
    uint32_t heir = group->parts[part].holder;
    /* the heir's own parts come first */
    while (consumer_group_source(group, heir, consumer_group_find(group, heir)->incarnation) != part)
        assert_int_equal(claim_steps(group, heir, 9, 3 * group->claims.count, 3), MR_OK);
    assert_int_equal(claim_steps(group, heir, 7, 2, 2), MR_OK); /* another process of the rank continues */
    assert_piece(group, 7, 1, part, 0, 0, 4);
    assert_piece(group, 7, 2, part, 0, 4, 8);
    assert_piece(group, 7, 3, part, 0, 8, 10);
}

/* A member without unfinished parts claims from other members' parts, so an epoch ends even if one is slow. */
static void a_member_without_batches_helps_others(void **state) {
    consumer_group *group = *state;
    assert_int_equal(claim_items(group, 4, 11, 0, 10), MR_OK); /* its only part */
    uint32_t part = (uint32_t)consumer_group_source(group, 4, 14);
    assert_true(part < 4 && group->parts[part].holder != 4);
    assert_int_equal(claim_steps(group, 4, 9, 1, 1), MR_OK);
    assert_int_equal(claim_steps(group, 4, 10, 1, 1), MR_OK);
    assert_piece(group, 9, 1, part, 0, 0, 4);
    assert_piece(group, 10, 1, part, 0, 4, 8);
}

/* Claims more steps of four items than an epoch of four parts with ten items has. */
static void claims_go_on_into_the_next_epoch(void **state) {
    consumer_group *group = *state;
    assert_int_equal(claim_steps(group, 3, 9, 20, 1), MR_OK); /* a later step is claimed already */
    assert_int_equal(claim_steps(group, 3, 9, 1, 100), MR_OK);
    assert_int_equal(group->epoch, 1);
    const batch_claim *last = batch_claims_find(&group->claims, 9, 19);
    assert_true(last != NULL && last->piece.epoch == 1);
    assert_null(batch_claims_find(&group->claims, 9, 21)); /* steps after the claimed one got no batches */
    uint64_t items = 0;
    for (uint64_t step = 1; step <= 20; step++) {
        batch_claims_piece piece = batch_claims_piece_of(batch_claims_find(&group->claims, 9, step), step);
        if (piece.epoch == 0) items += piece.to - piece.from;
    }
    assert_int_equal(items, 40);
}

static void returned_batches_are_assigned_first(void **state) {
    consumer_group *group = *state;
    uint32_t part = (uint32_t)consumer_group_source(group, 3, 13);
    assert_int_equal(claim_steps(group, 3, 9, 1, 2), MR_OK);
    consumer_group_wish wish = {.rank = 9, .past = {.over = 3, .since = 1, .spent = 1}}; /* step 2 used its batch */
    assert_false(consumer_group_grants(group, &wish));
    assert_true(consumer_group_pass(group, &wish));
    assert_true(consumer_group_grants(group, &wish));
    assert_false(consumer_group_pass(group, &wish));
    assert_int_equal(claim_steps(group, 4, 10, 1, 1), MR_OK); /* any rank gets the batch that was handed back */
    assert_piece(group, 10, 1, part, 0, 0, 4);
    assert_int_equal(group->claims.back_count, 0);
    wish = (consumer_group_wish){.rank = 9, .step = 2, .count = 1, .batch = 4};
    assert_int_equal(consumer_group_claim(group, 3, 13, &wish), MR_STALE); /* the step is over */
    assert_true(consumer_group_grants(group, &wish));
}

/* The state of 3,000 members, each worker with a rank that has claims, fits one metadata value. */
static void a_large_one_fits(void **state) {
    consumer_group group = {.number = metadata_store_version(0x123456, 5000)};
    uint64_t sizes[CONSUMER_GROUP_PARTS_MAX];
    for (uint32_t i = 0; i < 3000; i++) {
        consumer_group_member member = {.id = i, .incarnation = group.number - i, .role = CONSUMER_GROUP_WORKER};
        if (i < 1000) member.role = CONSUMER_GROUP_SERVER;
        snprintf(member.address, sizeof member.address, "10.0.%u.%u:%u", i / 256, i % 256, 40000 + i);
        assert_int_equal(consumer_group_put(&group, &member), MR_OK);
    }
    for (size_t i = 0; i < CONSUMER_GROUP_PARTS_MAX; i++) sizes[i] = 1000000 + i;
    consumer_group_cut(&group, sizes, CONSUMER_GROUP_PARTS_MAX);
    consumer_group_deal(&group);
    for (uint32_t i = 0; i < 2000; i++) {
        consumer_group_wish wish = {.rank = i, .step = 100000, .count = 64, .batch = 32, .past = {.over = 99990}};
        assert_int_equal(consumer_group_claim(&group, 1000 + i, group.number - 1000 - i, &wish), MR_OK);
        (void)consumer_group_pass(&group, &wish);
    }
    print_message("3,000 members, 2,048 parts and 2,000 ranks: %zu bytes\n", consumer_group_size(&group));
    assert_in_range(consumer_group_size(&group), 1, CONTROL_MESSAGE_VALUE_MAX);
    consumer_group_fini(&group);
}

static void consumer_groups_come_back_as_they_went(void **state) {
    consumer_group *group = *state, again = {0}, out = {0};
    group->number = 7;
    assert_int_equal(claim_items(group, 2, 7, 0, 3), MR_OK);
    assert_int_equal(claim_steps(group, 3, 5, 1, 2), MR_OK);
    assert_true(consumer_group_pass(group, &(consumer_group_wish){.rank = 5, .past = {.over = 2}}));
    size_t size = consumer_group_size(group);
    uint8_t *bytes = xmalloc(2 * size), *other = bytes + size;
    writer writer = writer_of(bytes, size);
    consumer_group_encode(group, &writer);
    assert_true(!writer.failed && writer_size(&writer) == size);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(consumer_group_decode(span_of(bytes, cut), &out), MR_CORRUPT);
    assert_int_equal(consumer_group_decode(span_of(bytes, size), &again), MR_OK);
    writer = writer_of(other, size);
    consumer_group_encode(&again, &writer);
    assert_memory_equal(bytes, other, size);
    assert_true(again.number == 7 && consumer_group_find(&again, 2)->incarnation == 12 && out.members == NULL);
    assert_true(bytes[20] == CONSUMER_GROUP_SERVER &&
                bytes[21] == 0); /* the first member's role, and the zero after it */
    bytes[21] = 1;
    assert_int_equal(consumer_group_decode(span_of(bytes, size), &out), MR_CORRUPT);
    consumer_group_fini(&again);
    free(bytes);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(members_have_roles_and_are_replaced_by_later_ones),
        TEST(parts_go_on_where_they_were_left),
        TEST(a_new_member_gets_a_share),
        TEST(an_epoch_ends_when_all_is_claimed),
        TEST(a_part_moves_on_when_it_is_claimed),
        TEST(a_member_without_batches_helps_others),
        TEST(claims_go_on_into_the_next_epoch),
        TEST(returned_batches_are_assigned_first),
        cmocka_unit_test(a_large_one_fits),
        TEST(consumer_groups_come_back_as_they_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
