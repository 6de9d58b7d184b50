/* feedback_undo_test.c — residuals come back as they were, whatever was pushed since. */
#include "kv/client/feedback_undo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ITEMS = 10 };

static const uint64_t keys[] = {3, 8};
static const uint32_t lengths[] = {1, 2};

static void write(feedback_file *file, feedback_undo *undo, const error_feedback_keys *of, const float *rests) {
    float before[4];
    error_feedback *feedback = feedback_file_of(file, 1);
    error_feedback_read(feedback, of, before);
    assert_int_equal(feedback_undo_keys(undo, 1, of, before), MR_OK);
    error_feedback_write(feedback, of, rests);
}

static void residuals_of_keys_come_back(void **state) {
    const error_feedback_keys rows = {.keys = keys, .count = 2, .dim = 2},
                              vectors = {.keys = keys, .lengths = lengths, .count = 2};
    static const float first[] = {1, 2, 3, 4}, second[] = {5, 6, 7};
    float found[4];
    feedback_undo undo = {0};
    feedback_file *file = feedback_file_create(0);
    write(file, &undo, &rows, first);
    feedback_undo_clear(&undo); /* the end of a step */
    write(file, &undo, &vectors, second);
    write(file, &undo, &rows, (const float[]){9, 9, 9, 9});
    feedback_undo_revert(&undo, file);
    error_feedback_read(feedback_file_of(file, 1), &rows, found);
    assert_memory_equal(found, first, sizeof first);
    assert_null(undo.newest);
    feedback_undo_revert(&undo, file); /* an empty log changes nothing */
    error_feedback_read(feedback_file_of(file, 1), &rows, found);
    assert_memory_equal(found, first, sizeof first);
    write(file, &undo, &vectors, second);
    feedback_file_drop(file, 1); /* the table is gone when the step ends */
    feedback_undo_revert(&undo, file);
    assert_null(feedback_file_find(file, 1));
    feedback_file_destroy(file);
}

static void residuals_of_arrays_come_back(void **state) {
    feedback_undo undo = {0};
    feedback_file *file = feedback_file_create(0);
    float *rests;
    for (int turn = 0; turn < 2; turn++)
        for (uint64_t first = 0; first < 4; first += 2) { /* the stretches overlap */
            error_feedback *feedback = feedback_file_of(file, 7);
            assert_int_equal(error_feedback_stretch(feedback, 2, ITEMS, first, 5, &rests), MR_OK);
            if (turn == 1) assert_int_equal(feedback_undo_stretch(&undo, 7, 2, ITEMS, first, 5, rests), MR_OK);
            for (int i = 0; i < 5; i++) rests[i] += (float)(i + turn * 10 + 1);
        }
    feedback_undo_revert(&undo, file);
    assert_int_equal(error_feedback_stretch(feedback_file_of(file, 7), 2, ITEMS, 0, ITEMS, &rests), MR_OK);
    assert_memory_equal(rests, ((const float[]){1, 2, 4, 6, 8, 4, 5, 0, 0, 0}), ITEMS * sizeof *rests);
    feedback_file_destroy(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residuals_of_keys_come_back),
        cmocka_unit_test(residuals_of_arrays_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
