/* tape_test.c — entries are kept in order until they are applied and nobody needs them; bales go with them. */
#include "ps/tape.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(tape *tape, uint64_t name, bale *bale) {
    tape_add(tape, &(tape_entry){.rank = 1, .name = name, .payload = bale_bytes(bale), .bale = bale});
}

static void entries_come_out_as_they_went_in(void **state) {
    tape tape = {0};
    bale *bale = bale_copy(span_of("abc", 3));
    for (uint64_t i = 1; i <= 20; i++) add(&tape, 100 + i, bale);
    assert_int_equal(tape_last(&tape), 20);
    for (uint64_t i = 1; i <= 20; i++) assert_int_equal(tape_at(&tape, i)->name, 100 + i);
    assert_int_equal(bale->refs, 21);
    for (int i = 0; i < 12; i++) tape_apply(&tape);
    tape_trim(&tape, 5); /* the rest is kept for somebody */
    assert_int_equal(tape_at(&tape, 6)->name, 106);
    tape_trim(&tape, 99); /* what is not applied stays */
    assert_int_equal(tape_at(&tape, 13)->name, 113);
    assert_int_equal(bale->refs, 9);
    for (uint64_t i = 21; i <= 40; i++) add(&tape, 100 + i, bale); /* around the end of the ring */
    assert_true(tape_holds(&tape, TAPE_PUSH, 1, 113) && !tape_holds(&tape, TAPE_PUSH, 1, 112)); /* it is applied */
    assert_true(!tape_holds(&tape, TAPE_PUSH, 0, 113) && !tape_holds(&tape, TAPE_FREEZE, 1, 113));
    for (uint64_t i = 13; i <= 40; i++) assert_int_equal(tape_at(&tape, i)->name, 100 + i);
    tape_fini(&tape);
    assert_int_equal(bale->refs, 1);
    bale_unref(bale);
}

static void a_tape_may_begin_anywhere(void **state) {
    tape tape = {0};
    bale *bale = bale_copy(span_of("x", 1));
    add(&tape, 1, bale);
    tape_reset(&tape, 41);
    assert_int_equal(tape_last(&tape), 41);
    add(&tape, 2, bale);
    assert_int_equal(tape_at(&tape, 42)->name, 2);
    tape_apply(&tape);
    assert_int_equal(tape.applied, 42);
    tape_fini(&tape);
    bale_unref(bale);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_out_as_they_went_in),
        cmocka_unit_test(a_tape_may_begin_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
