/* low_watermark_test.c — acknowledged steps are below the low watermark when every kept checkpoint contains them. */
#include "ps/low_watermark.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void hear(low_watermark *watermark, uint64_t acknowledged, uint64_t bound, uint64_t oldest, bool rounds) {
    low_watermark_hear(watermark, low_watermark_ask(watermark, acknowledged), bound, oldest,
                       rounds ? oldest : UINT64_MAX);
}

static void without_checkpoints_all_is_over_that_is_acknowledged(void **state) {
    low_watermark watermark = {0};
    hear(&watermark, 7, 0, 0, false);
    assert_int_equal(watermark.over, 7);
    hear(&watermark, 9, 0, 0, true);
    assert_int_equal(watermark.over, 9);
}

static void a_checkpoint_that_was_begun_may_be_without_it(void **state) {
    low_watermark watermark = {0};
    hear(&watermark, 7, 3, 2, false);
    assert_int_equal(watermark.over, 0);
    hear(&watermark, 12, 5, 3, false); /* the checkpoint that may lack step 7 is still kept */
    assert_int_equal(watermark.over, 0);
    hear(&watermark, 20, 6, 4, false); /* that checkpoint is gone; steps 12 and 20 wait */
    assert_int_equal(watermark.over, 7);
    hear(&watermark, 30, 9, 6, false);
    assert_int_equal(watermark.over, 7);
    hear(&watermark, 31, 9, 7, false);
    assert_int_equal(watermark.over, 20);
}

static void the_answer_to_another_question_is_left_alone(void **state) {
    low_watermark watermark = {0};
    uint64_t first = low_watermark_ask(&watermark, 7), second = low_watermark_ask(&watermark, 9);
    low_watermark_hear(&watermark, first, 0, 0, UINT64_MAX);
    assert_int_equal(watermark.over, 0);
    low_watermark_hear(&watermark, second, 0, 0, UINT64_MAX);
    assert_int_equal(watermark.over, 9);
    low_watermark_hear(&watermark, 0, 0, 0, UINT64_MAX);
}

/* Round 40 was cut, but the scheduler did not know that when it answered: it knew of checkpoint 3. */
static void in_rounds_nothing_is_over_that_the_oldest_checkpoint_has_not(void **state) {
    low_watermark watermark = {0};
    hear(&watermark, 50, 3, 1, true);
    hear(&watermark, 60, 40, 40, true);
    assert_int_equal(watermark.over, 40);
    hear(&watermark, 70, 50, 41, true);
    low_watermark_hear(&watermark, low_watermark_ask(&watermark, 80), 60, 51, 44); /* a second one of version 44 */
    assert_int_equal(watermark.over, 44);
}

static void another_generation_forgets_what_was_asked(void **state) {
    low_watermark watermark = {0};
    hear(&watermark, 50, 3, 1, false);
    uint64_t late = low_watermark_ask(&watermark, 51);
    low_watermark_restart(&watermark);
    low_watermark_hear(&watermark, late, 9, 9, UINT64_MAX);
    assert_int_equal(watermark.over, 0);
    assert_true(low_watermark_ask(&watermark, 4) > late);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_checkpoints_all_is_over_that_is_acknowledged),
        cmocka_unit_test(a_checkpoint_that_was_begun_may_be_without_it),
        cmocka_unit_test(the_answer_to_another_question_is_left_alone),
        cmocka_unit_test(in_rounds_nothing_is_over_that_the_oldest_checkpoint_has_not),
        cmocka_unit_test(another_generation_forgets_what_was_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
