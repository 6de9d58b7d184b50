/* batch_claims_test.c — batches of steps: claimed once, found again, dropped, handed back. */
#include "cluster/batch_claims.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"

static batch_claim batch_claim_of(uint32_t rank, uint64_t step, uint32_t count, uint64_t from, uint64_t size) {
    return (batch_claim){.rank = rank, .step = step, .count = count, .batch = 4, .piece = {1, 2, from, from + size}};
}

static mr_status add(batch_claims *claims, uint32_t rank, uint64_t step, uint32_t count, uint64_t from, uint64_t size) {
    batch_claim claim = batch_claim_of(rank, step, count, from, size);
    bool is_free = batch_claims_free(claims, rank, step, count) == count;
    mr_status status = batch_claims_add(claims, &claim);
    batch_claims_check(claims);
    if (status != MR_INVALID) assert_int_equal(is_free, status == MR_OK);
    return status;
}

static void assert_piece(const batch_claims *claims, uint32_t rank, uint64_t step, uint64_t from, uint64_t to) {
    const batch_claim *claim = batch_claims_find(claims, rank, step);
    assert_non_null(claim);
    batch_claims_piece piece = batch_claims_piece_of(claim, step);
    assert_true(piece.part == 1 && piece.epoch == 2 && piece.from == from && piece.to == to);
}

/* Ends the steps before `over`; all of them used their batches. */
static void forget(batch_claims *claims, uint32_t rank, uint64_t over) {
    assert_true(batch_claims_forget(claims, rank, &(batch_claims_past){.over = over, .since = over}));
}

static void steps_have_pieces_one_behind_the_other(void **state) {
    batch_claims claims = {0};
    assert_int_equal(add(&claims, 3, 7, 4, 0, 14), MR_OK);
    assert_piece(&claims, 3, 7, 0, 4);
    assert_piece(&claims, 3, 9, 8, 12);
    assert_piece(&claims, 3, 10, 12, 14);
    assert_null(batch_claims_find(&claims, 3, 6));
    assert_null(batch_claims_find(&claims, 3, 11));
    assert_null(batch_claims_find(&claims, 2, 7));
    assert_null(batch_claims_find(&claims, 4, 7));
    batch_claims_fini(&claims);
}

static void a_step_is_claimed_once(void **state) {
    batch_claims claims = {0};
    assert_int_equal(add(&claims, 3, 7, 2, 0, 8), MR_OK);
    assert_int_equal(add(&claims, 3, 8, 1, 40, 4), MR_STALE);
    assert_int_equal(add(&claims, 3, 5, 3, 40, 12), MR_STALE); /* its last step is claimed */
    assert_int_equal(add(&claims, 3, 5, 9, 40, 36), MR_STALE);
    assert_int_equal(add(&claims, 3, 5, 2, 40, 8), MR_OK); /* fills a gap */
    assert_int_equal(add(&claims, 4, 8, 1, 60, 4), MR_OK); /* another rank's step */
    assert_piece(&claims, 3, 6, 44, 48);
    assert_piece(&claims, 3, 7, 0, 4);
    batch_claims_fini(&claims);
}

static void adjacent_claims_are_merged(void **state) {
    batch_claims claims = {0};
    assert_int_equal(add(&claims, 3, 7, 2, 0, 8), MR_OK);
    assert_int_equal(add(&claims, 3, 9, 2, 8, 7), MR_OK);
    assert_int_equal(claims.count, 1);
    assert_piece(&claims, 3, 10, 12, 15);
    assert_int_equal(add(&claims, 3, 11, 1, 15, 4), MR_OK); /* cannot be merged: the batch before is shorter */
    assert_int_equal(claims.count, 2);
    assert_piece(&claims, 3, 11, 15, 19);
    batch_claims_fini(&claims);
}

static void invalid_claims_are_refused(void **state) {
    batch_claims claims = {0};
    assert_int_equal(add(&claims, 1, 0, 0, 0, 1), MR_INVALID);
    assert_int_equal(add(&claims, 1, 0, 2, 0, 9), MR_INVALID); /* more items than two batches hold */
    assert_int_equal(add(&claims, 1, 0, 2, 0, 4), MR_INVALID); /* the second batch would be empty */
    assert_int_equal(add(&claims, 1, UINT64_MAX, 1, 0, 4), MR_INVALID);
    batch_claim none = {.rank = 1, .count = 1};
    assert_int_equal(batch_claims_add(&claims, &none), MR_INVALID);
    assert_int_equal(claims.count, 0);
    batch_claims_fini(&claims);
}

static void finished_batches_are_not_claimed_again(void **state) {
    batch_claims claims = {0};
    assert_int_equal(add(&claims, 3, 7, 4, 0, 16), MR_OK);
    assert_int_equal(add(&claims, 5, 1, 1, 16, 4), MR_OK);
    forget(&claims, 3, 9);
    assert_null(batch_claims_find(&claims, 3, 8));
    assert_piece(&claims, 3, 9, 8, 12);
    forget(&claims, 3, 5); /* `over` never decreases */
    assert_int_equal(batch_claims_over(&claims, 3), 9);
    forget(&claims, 3, 11);
    assert_int_equal(claims.count, 1);
    assert_int_equal(add(&claims, 3, 10, 1, 60, 4), MR_STALE);
    assert_int_equal(add(&claims, 3, 11, 1, 60, 4), MR_OK);
    assert_piece(&claims, 5, 1, 16, 20);
    batch_claims_fini(&claims);
}

static void assert_back(batch_claims *claims, uint64_t items, uint64_t from, uint64_t to) {
    batch_claims_piece piece;
    assert_true(batch_claims_take_back(claims, items, &piece));
    assert_true(piece.part == 1 && piece.epoch == 2 && piece.from == from && piece.to == to);
}

/* Steps 7 to 11: step 7 is unknown, step 9 used its batch. */
static void unspent_batches_are_handed_back(void **state) {
    batch_claims claims = {0};
    batch_claims_piece piece;
    assert_int_equal(add(&claims, 3, 7, 5, 0, 18), MR_OK);
    assert_true(batch_claims_forget(&claims, 3, &(batch_claims_past){.over = 11, .since = 8, .spent = 2}));
    assert_int_equal(claims.back_count, 2);
    assert_piece(&claims, 3, 11, 16, 18); /* not over yet */
    assert_true(batch_claims_forget(&claims, 3, &(batch_claims_past){.over = 11, .since = 0}));
    assert_int_equal(claims.back_count, 2); /* handed back once */
    assert_true(batch_claims_forget(&claims, 3, &(batch_claims_past){.over = 12, .since = 0}));
    assert_back(&claims, 3, 4, 7); /* at most the wanted number of items */
    assert_back(&claims, 100, 7, 8);
    assert_back(&claims, 100, 12, 18); /* adjacent ranges are merged */
    assert_false(batch_claims_take_back(&claims, 100, &piece));
    batch_claims_fini(&claims);
}

static void old_claims_count_as_spent(void **state) {
    batch_claims claims = {0};
    assert_int_equal(add(&claims, 3, 0, 100, 0, 400), MR_OK);
    assert_true(batch_claims_forget(&claims, 3, &(batch_claims_past){.over = 100, .spent = 1}));
    assert_int_equal(claims.back_count, 1);
    assert_back(&claims, 1000, 36 * 4, 99 * 4);
    batch_claims_fini(&claims);
}

/* A rank that leaves at step 9 has done 7 and 8; its late or repeated message does not affect later claims. */
static void batches_not_begun_are_handed_back(void **state) {
    batch_claims claims = {0};
    assert_int_equal(add(&claims, 3, 7, 4, 0, 14), MR_OK);
    assert_int_equal(add(&claims, 3, 20, 2, 50, 8), MR_OK);
    assert_int_equal(add(&claims, 4, 9, 1, 90, 4), MR_OK);
    assert_int_equal(batch_claims_granted(&claims, 3), 2);
    assert_true(batch_claims_any(&claims, 3, 11, 21) && !batch_claims_any(&claims, 3, 11, 20) &&
                !batch_claims_any(&claims, 3, 22, 99));
    assert_false(batch_claims_return(&claims, 3, 9, 1)); /* the message was sent before the second claim */
    assert_false(batch_claims_return(&claims, 5, 0, 0));
    assert_true(batch_claims_return(&claims, 3, 9, 2));
    assert_false(batch_claims_return(&claims, 3, 9, 2));
    assert_piece(&claims, 3, 8, 4, 8);
    assert_piece(&claims, 4, 9, 90, 94);
    assert_false(batch_claims_any(&claims, 3, 9, UINT64_MAX));
    assert_back(&claims, 100, 8, 14);
    assert_back(&claims, 100, 50, 58);
    assert_int_equal(add(&claims, 3, 9, 1, 70, 4), MR_OK); /* the rank claims the step again */
    assert_false(batch_claims_return(&claims, 3, 9, 2));
    assert_piece(&claims, 3, 9, 70, 74);
    batch_claims_fini(&claims);
}

/* A claim without remaining steps is removed: an encoding with one is invalid. */
static void a_claim_of_which_nothing_is_left_goes(void **state) {
    batch_claims claims = {0}, again = {0};
    uint8_t bytes[64];
    assert_int_equal(add(&claims, 3, 7, 4, 0, 16), MR_OK);
    forget(&claims, 3, 9);
    assert_true(batch_claims_return(&claims, 3, 2, 1));
    assert_int_equal(claims.count, 0);
    assert_int_equal(claims.back_count, 1);
    writer writer = writer_of(bytes, sizeof bytes);
    batch_claims_encode(&claims, 2, &writer);
    reader reader = reader_of(bytes, writer_size(&writer));
    assert_true(batch_claims_decode(&reader, 2, &again));
    assert_int_equal(batch_claims_granted(&again, 3), 1);
    batch_claims_fini(&again);
    batch_claims_fini(&claims);
}

static void free_steps_are_counted(void **state) {
    batch_claims claims = {0};
    assert_int_equal(add(&claims, 3, 7, 2, 0, 8), MR_OK);
    assert_int_equal(batch_claims_free(&claims, 3, 4, 9), 3);
    assert_int_equal(batch_claims_free(&claims, 3, 4, 2), 2);
    assert_int_equal(batch_claims_free(&claims, 3, 8, 2), 0);
    assert_int_equal(batch_claims_free(&claims, 3, 9, 2), 2);
    assert_int_equal(batch_claims_free(&claims, 2, 7, 5), 5);
    forget(&claims, 3, 6);
    assert_int_equal(batch_claims_free(&claims, 3, 5, 1), 0);
    batch_claims_fini(&claims);
}

static void batch_claims_come_back_as_they_went(void **state) {
    batch_claims claims = {0}, again = {0};
    for (uint32_t rank = 0; rank < 30; rank += 3)
        for (uint64_t step = 5; step < 50; step += 9)
            assert_int_equal(add(&claims, rank, step, 3, 1000 * rank + step, 11), MR_OK);
    forget(&claims, 6, 7);
    forget(&claims, 9, 1000); /* the rank has no claims, only `over` */
    assert_true(batch_claims_forget(&claims, 12, &(batch_claims_past){.over = 15}));
    assert_int_equal(claims.back_count, 2); /* adjacent batches are merged to one range each */
    writer writer = writer_of(NULL, 0);
    batch_claims_encode(&claims, 3, &writer);
    size_t size = writer_needs(&writer);
    uint8_t *bytes = xmalloc(2 * size), *other = bytes + size;
    writer = writer_of(bytes, size);
    batch_claims_encode(&claims, 3, &writer);
    assert_true(!writer.failed && writer_size(&writer) == size);
    for (size_t cut = 0; cut < size; cut++) {
        reader reader = reader_of(bytes, cut);
        assert_false(batch_claims_decode(&reader, 3, &again));
        batch_claims_fini(&again);
    }
    reader reader = reader_of(bytes, size);
    assert_true(batch_claims_decode(&reader, 3, &again) && reader_left(&reader) == 0);
    writer = writer_of(other, size);
    batch_claims_encode(&again, 3, &writer);
    assert_memory_equal(bytes, other, size);
    assert_int_equal(batch_claims_over(&again, 9), 1000);
    batch_claims_fini(&again);
    batch_claims_copy(&again, &claims);
    assert_true(again.count == claims.count && again.list != claims.list);
    assert_true(again.back_count == claims.back_count && again.back != claims.back);
    batch_claims_fini(&again);
    batch_claims_fini(&claims);
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_have_pieces_one_behind_the_other),
        cmocka_unit_test(a_step_is_claimed_once),
        cmocka_unit_test(adjacent_claims_are_merged),
        cmocka_unit_test(invalid_claims_are_refused),
        cmocka_unit_test(finished_batches_are_not_claimed_again),
        cmocka_unit_test(unspent_batches_are_handed_back),
        cmocka_unit_test(old_claims_count_as_spent),
        cmocka_unit_test(batches_not_begun_are_handed_back),
        cmocka_unit_test(a_claim_of_which_nothing_is_left_goes),
        cmocka_unit_test(free_steps_are_counted),
        cmocka_unit_test(batch_claims_come_back_as_they_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
