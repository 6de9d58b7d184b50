/* runtime_filled_test.c — values that are written in place: mr_put_filled, mr_return_filled, mr_return_same. The test
 * is the driver: its workers are this same binary, started again. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/runtime.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"

enum { PATIENCE_US = 20 * 1000 * 1000, SMALL = 3, LARGE = 100 * 1000 };

typedef struct pen { /* arguments of fill */
    size_t items[2]; /* items of the tensors without data */
    mr_status status;
    size_t calls;
    bool dies;
} pen;

static mr_status fill(void *user, void *const *places, size_t count) {
    pen *pen = user;
    size_t wanted = (pen->items[0] > 0) + (pen->items[1] > 0);
    pen->calls++;
    if (count != wanted) return MR_CORRUPT;
    for (size_t i = 0, at = 0; i < 2; i++) {
        if (pen->items[i] == 0) continue;
        float *place = places[at++];
        if ((uintptr_t)place % 64 != 0) return MR_CORRUPT;
        for (size_t j = 0; j < pen->items[i]; j++) place[j] = (float)(j + i);
        if (pen->dies) kill(getpid(), SIGKILL);
    }
    return pen->status;
}

/* [tensor without data, a text, tensor with data, tensor without data] */
typedef struct draft {
    mr_arg items[4];
    int64_t shape[2];
    float whole[2];
} draft;

static mr_arg make_draft(draft *draft, const pen *pen) {
    draft->whole[0] = 8;
    draft->whole[1] = 9;
    for (int i = 0; i < 2; i++) draft->shape[i] = (int64_t)pen->items[i];
    draft->items[0] = mr_tensor_of(MR_F32, NULL, 1, &draft->shape[0]);
    draft->items[1] = mr_str("between");
    draft->items[2] = mr_vector(draft->whole, 2);
    draft->items[3] = mr_tensor_of(MR_F32, NULL, 1, &draft->shape[1]);
    return mr_list(draft->items, 4);
}

static void is_filled(mr_ref ref, const pen *pen) {
    mr_value value, item;
    mr_tensor tensor;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(mr_value_item(&value, i * 3, &item), MR_OK);
        assert_int_equal(mr_value_tensor(&item, &tensor), MR_OK);
        assert_int_equal(tensor.bytes, pen->items[i] * sizeof(float));
        for (size_t j = 0; j < pen->items[i]; j++) assert_true(((const float *)tensor.data)[j] == (float)(j + i));
    }
    assert_int_equal(mr_value_item(&value, 2, &item), MR_OK);
    assert_int_equal(mr_value_tensor(&item, &tensor), MR_OK);
    assert_true(((const float *)tensor.data)[1] == 9);
    mr_value_release(&value);
}

MR_TASK(give) { /* arguments: items, items, status, dies */
    int64_t number[4];
    draft draft;
    for (size_t i = 0; i < 4; i++) MR_TRY(mr_arg_int(call, i, &number[i]));
    pen pen = {{(size_t)number[0], (size_t)number[1]}, (mr_status)number[2], 0, number[3] != 0};
    MR_TRY(mr_return_filled(call, 0, make_draft(&draft, &pen), fill, &pen));
    return mr_return_count(call) == 1 ? MR_OK : mr_return_same(call, 1, 0);
}

static const size_t sizes[][2] = {{SMALL, SMALL}, {LARGE, SMALL}, {SMALL, LARGE}, {LARGE, LARGE}, {0, LARGE}, {0, 0}};

static void a_put_is_written_in_place(void **state) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pen pen = {{sizes[i][0], sizes[i][1]}, MR_OK, 0, false};
        draft draft;
        mr_ref ref;
        assert_int_equal(mr_put_filled(mr, make_draft(&draft, &pen), fill, &pen, &ref), MR_OK);
        assert_int_equal(pen.calls, 1);
        is_filled(ref, &pen);
        mr_release(mr, ref);
    }
}

static void a_result_is_written_in_place_also_twice(void **state) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const pen pen = {{sizes[i][0], sizes[i][1]}, MR_OK, 0, false};
        for (int returns = 1; returns <= 2; returns++) {
            mr_ref refs[2];
            mr_task_options options = MR_OPTIONS(mr_task_options, .num_returns = returns);
            assert_int_equal(
                mr_task_submit(
                    mr, "give", &options,
                    MR_ARGS(mr_int((int64_t)pen.items[0]), mr_int((int64_t)pen.items[1]), mr_int(0), mr_int(0)), refs),
                MR_OK);
            for (int r = 0; r < returns; r++) {
                is_filled(refs[r], &pen);
                mr_release(mr, refs[r]);
            }
        }
    }
}

static void a_failure_to_fill_is_that_of_the_call(void **state) {
    for (size_t i = 0; i < 2; i++) {
        pen pen = {{sizes[i][0], SMALL}, MR_STALE, 0, false};
        draft draft;
        mr_ref ref;
        assert_int_equal(mr_put_filled(mr, make_draft(&draft, &pen), fill, &pen, &ref), MR_STALE);
        assert_int_equal(
            mr_call_task(mr, "give", &ref, mr_int((int64_t)pen.items[0]), mr_int(SMALL), mr_int(MR_STALE), mr_int(0)),
            MR_OK);
        assert_int_equal(future_assert_failure(mr, ref), MR_STALE);
    }
}

/* Writes more values in total than the store has room for; half-written values must be freed. */
static void a_death_while_filling_leaves_nothing(void **state) {
    enum { HUGE = 4 << 20, TIMES = 12 };
    mr_ref ref;
    for (int i = 0; i < TIMES; i++) {
        mr_task_options options = MR_OPTIONS(mr_task_options, .max_retries = -1);
        assert_int_equal(
            mr_task_submit(mr, "give", &options, MR_ARGS(mr_int(HUGE), mr_int(0), mr_int(0), mr_int(1)), &ref), MR_OK);
        assert_int_equal(future_assert_failure(mr, ref), MR_WORKER_DIED);
    }
    assert_int_equal(mr_call_task(mr, "give", &ref, mr_int(HUGE), mr_int(0), mr_int(0), mr_int(0)), MR_OK);
    is_filled(ref, &(pen){{HUGE, 0}, MR_OK, 0, false});
    mr_release(mr, ref);
}

static void misuse_is_refused(void **state) {
    int64_t shape[] = {4};
    mr_ref ref;
    mr_arg hollow = mr_tensor_of(MR_F32, NULL, 1, shape);
    assert_int_equal(mr_put(mr, hollow, &ref), MR_INVALID); /* no function fills it */
    assert_int_equal(mr_put_filled(mr, hollow, NULL, NULL, &ref), MR_INVALID);
    pen pen = {{0, 0}, MR_OK, 0, false};
    assert_int_equal(mr_put_filled(NULL, hollow, fill, &pen, &ref), MR_INVALID);
    assert_int_equal(pen.calls, 0);
    assert_int_equal(mr_put_filled(mr, mr_int(3), fill, &pen, &ref), MR_OK); /* a value with no tensor to fill */
    assert_int_equal(future_assert_int(mr, ref), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_is_written_in_place),
        cmocka_unit_test(a_result_is_written_in_place_also_twice),
        cmocka_unit_test(a_failure_to_fill_is_that_of_the_call),
        cmocka_unit_test(a_death_while_filling_leaves_nothing),
        cmocka_unit_test(misuse_is_refused),
    };
    return runtime_main_with(tests, .num_workers = 1, .store_bytes = 128 << 20);
}
