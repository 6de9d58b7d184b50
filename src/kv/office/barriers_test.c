/* barriers_test.c — rounds open when all have come; who plays again passes again; a generation that begins anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kv/office/barriers.h"

enum { RANKS = 3, GENERATION = 77 };

static barriers begin(bool rounds) {
    barriers barriers;
    barriers_init(&barriers, RANKS, rounds);
    barriers_begin(&barriers, GENERATION);
    for (uint32_t i = 0; i < RANKS; i++) barriers_resume(&barriers, i, GENERATION, 0);
    return barriers;
}

static mr_status come(barriers *barriers, uint32_t rank, uint64_t place) {
    bool opens;
    return barriers_come(barriers, rank, "b", false, place, &opens);
}

static void a_round_opens_when_all_have_come(void **state) {
    barriers barriers = begin(false);
    uint32_t missing[RANKS];
    bool opens;
    assert_int_equal(come(&barriers, 1, barriers_place(4, true, 1)), MR_BUSY);
    assert_int_equal(come(&barriers, 1, barriers_place(4, true, 1)), MR_BUSY);
    assert_int_equal(barriers_missing(&barriers, "b", false, missing, RANKS), 2);
    assert_true(missing[0] == 0 && missing[1] == 2);
    assert_int_equal(barriers_missing(&barriers, "b", false, missing, 1), 2);
    assert_int_equal(barriers_missing(&barriers, "b", true, missing, 1), 0);   /* that is another one */
    assert_int_equal(come(&barriers, 0, barriers_place(9, true, 1)), MR_BUSY); /* ranks are at different steps */
    assert_int_equal(barriers_come(&barriers, 2, "b", false, barriers_place(2, false, 1), &opens), MR_OK);
    assert_true(opens);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(come(&barriers, i, barriers_place(4, true, 1)), MR_OK);
    assert_int_equal(come(&barriers, 1, barriers_place(4, true, 2)), MR_BUSY);
    assert_int_equal(come(&barriers, 0, barriers_place(9, true, 1)), MR_OK); /* played again */
    assert_int_equal(come(&barriers, 0, barriers_place(9, true, 2)), MR_BUSY);
    assert_int_equal(barriers_come(&barriers, 3, "b", false, 1, &opens), MR_INVALID);
    barriers_fini(&barriers);
}

static void in_rounds_who_goes_on_behind_it_has_passed(void **state) {
    barriers barriers = begin(true);
    assert_int_equal(come(&barriers, 0, barriers_place(5, false, 1)), MR_BUSY);
    barriers_resume(&barriers, 1, GENERATION, 4);
    assert_int_equal(come(&barriers, 2, barriers_place(5, false, 1)), MR_BUSY); /* it comes with the end of step 4 */
    barriers_resume(&barriers, 1, GENERATION, 5);
    assert_int_equal(come(&barriers, 2, barriers_place(5, false, 1)), MR_OK);
    assert_int_equal(come(&barriers, 0, barriers_place(5, true, 1)), MR_BUSY); /* within the step it has to come */
    assert_int_equal(come(&barriers, 2, barriers_place(5, true, 1)), MR_BUSY);
    assert_int_equal(come(&barriers, 1, barriers_place(5, true, 1)), MR_OK);
    barriers_fini(&barriers);
    barriers = begin(false); /* elsewhere nobody knows where it is */
    assert_int_equal(come(&barriers, 0, barriers_place(5, false, 1)), MR_BUSY);
    assert_int_equal(come(&barriers, 2, barriers_place(5, false, 1)), MR_BUSY);
    barriers_resume(&barriers, 1, GENERATION, 5);
    assert_int_equal(come(&barriers, 2, barriers_place(5, false, 1)), MR_BUSY);
    barriers_fini(&barriers);
}

static void another_generation_comes_again(void **state) {
    barriers barriers = begin(true);
    uint64_t early = barriers_place(3, true, 1), late = barriers_place(8, true, 1);
    bool opens;
    for (uint32_t i = 0; i < RANKS; i++) (void)come(&barriers, i, early);
    for (uint32_t i = 0; i < RANKS; i++) (void)come(&barriers, i, late);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_int_equal(barriers_come(&barriers, i, "b", true, 1, &opens), i + 1 < RANKS ? MR_BUSY : MR_OK);
    assert_int_equal(come(&barriers, 0, barriers_place(9, true, 1)), MR_BUSY);
    barriers_begin(&barriers, GENERATION + 1);
    assert_int_equal(come(&barriers, 0, late), MR_INVALID); /* it has not heard of it */
    barriers_resume(&barriers, 0, GENERATION, 0);
    assert_int_equal(come(&barriers, 0, late), MR_INVALID);
    for (uint32_t i = 0; i < RANKS; i++) barriers_resume(&barriers, i, GENERATION + 1, 6);
    assert_int_equal(come(&barriers, 0, early), MR_OK);
    assert_int_equal(come(&barriers, 0, late), MR_BUSY);
    barriers_resume(&barriers, 0, GENERATION + 1, 6); /* said again: nothing changes */
    assert_int_equal(come(&barriers, 1, late), MR_BUSY);
    assert_int_equal(come(&barriers, 2, late), MR_OK);
    assert_int_equal(barriers_come(&barriers, 2, "b", true, 1, &opens), MR_OK); /* before any step: passed for good */
    barriers_fini(&barriers);
}

static void what_has_opened_is_remembered(void **state) {
    barriers barriers = begin(true), other;
    for (uint32_t i = 0; i < RANKS; i++) (void)come(&barriers, i, barriers_place(3, true, 1));
    (void)come(&barriers, 0, barriers_place(4, true, 1));
    size_t size = barriers_size(&barriers);
    uint8_t *bytes = xmalloc(size);
    writer writer = writer_of(bytes, size);
    barriers_encode(&barriers, &writer);
    assert_true(!writer.failed && writer_size(&writer) == size);
    barriers_init(&other, RANKS, true);
    for (size_t cut = 0; cut < size; cut++) assert_int_equal(barriers_decode(span_of(bytes, cut), &other), MR_CORRUPT);
    assert_int_equal(barriers_decode(span_of(bytes, size), &other), MR_OK);
    barriers_begin(&other, GENERATION);
    for (uint32_t i = 0; i < RANKS; i++) assert_int_equal(come(&other, i, barriers_place(3, true, 1)), MR_OK);
    assert_int_equal(come(&other, 1, barriers_place(4, true, 1)), MR_BUSY);
    assert_int_equal(come(&other, 2, barriers_place(4, true, 1)), MR_BUSY); /* rank 0 has to come again */
    barriers_fini(&other);
    barriers_init(&other, RANKS + 1, true);
    assert_int_equal(barriers_decode(span_of(bytes, size), &other), MR_CORRUPT);
    barriers_fini(&other);
    barriers_fini(&barriers);
    free(bytes);
}

static void the_oldest_is_forgotten_first(void **state) {
    barriers barriers = begin(false);
    char name[16];
    bool opens;
    for (int k = 0; k < 3 * BARRIERS_MAX; k++) {
        snprintf(name, sizeof name, "b%d", k);
        for (uint32_t i = 0; i < RANKS; i++)
            assert_int_equal(barriers_come(&barriers, i, name, false, 1, &opens), i + 1 < RANKS ? MR_BUSY : MR_OK);
        assert_true(opens && barriers.count <= BARRIERS_MAX);
    }
    for (int k = 0; k < BARRIERS_MAX; k++) {
        snprintf(name, sizeof name, "wait%d", k);
        assert_int_equal(barriers_come(&barriers, 0, name, false, 1, &opens), MR_BUSY);
    }
    assert_int_equal(barriers_come(&barriers, 0, "one more", false, 1, &opens), MR_TOO_LARGE);
    barriers_fini(&barriers);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_opens_when_all_have_come),
        cmocka_unit_test(in_rounds_who_goes_on_behind_it_has_passed),
        cmocka_unit_test(another_generation_comes_again),
        cmocka_unit_test(what_has_opened_is_remembered),
        cmocka_unit_test(the_oldest_is_forgotten_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
