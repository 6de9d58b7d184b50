/* runtime_code_test.c — code attached to a task's name reaches every body, and a body's cached result of it stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "miniray/runtime.h"
#include "tests/support/runtime_main.h"

enum { PATIENCE_US = 30 * 1000 * 1000 };

/* Returns the sum of the task's code, which is computed once. */
MR_TASK(sum) {
    void **kept;
    mr_span code = mr_call_code(call, &kept);
    if (code.size == 0) return mr_return(call, mr_int(-1));
    if (*kept == NULL) {
        int64_t *made = calloc(2, sizeof *made);
        for (size_t i = 0; i < code.size; i++) made[0] += ((const uint8_t *)code.data)[i];
        *kept = made;
    }
    int64_t *made = *kept;
    made[1]++;
    mr_arg both[] = {mr_int(made[0]), mr_int(made[1])};
    return mr_return(call, mr_list(both, 2));
}

static void submit(const uint8_t *code, size_t size, mr_ref *out) {
    const mr_task_options options = MR_OPTIONS(mr_task_options, .code = {code, size});
    assert_int_equal(mr_task_submit(mr, "sum", &options, NULL, 0, out), MR_OK);
}

static int64_t first_of(mr_ref ref, int64_t *uses) {
    mr_value value, item;
    int64_t number;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_item(&value, 0, &item), MR_OK);
    assert_int_equal(mr_value_int(&item, &number), MR_OK);
    assert_int_equal(mr_value_item(&value, 1, &item), MR_OK);
    assert_int_equal(mr_value_int(&item, uses), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
    return number;
}

static void each_name_has_its_own(void **state) {
    enum { ROUNDS = 200, CODES = 3 };
    static uint8_t codes[CODES][MR_CODE_MAX];
    static mr_ref refs[ROUNDS][CODES];
    int64_t uses, most = 0;
    for (int i = 0; i < CODES; i++)
        for (int at = 0; at <= i; at++) codes[i][at * 100] = 1;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < CODES; i++) submit(codes[i], (size_t)(i == 0 ? 1 : MR_CODE_MAX), &refs[round][i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CODES; i++) {
            assert_int_equal(first_of(refs[round][i], &uses), i + 1);
            if (uses > most) most = uses;
        }
    }
    assert_true(most >= ROUNDS / 4); /* two workers ran the tasks */
}

static void without_code_there_is_none(void **state) {
    mr_ref ref;
    mr_value value;
    int64_t number;
    assert_int_equal(mr_call_task(mr, "sum", &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &number), MR_OK);
    assert_int_equal(number, -1);
    mr_value_release(&value);
    mr_release(mr, ref);
}

static void too_much_is_refused(void **state) {
    static const uint8_t code[MR_CODE_MAX + 1];
    mr_ref ref;
    const mr_task_options options = MR_OPTIONS(mr_task_options, .code = {code, sizeof code});
    assert_int_equal(mr_task_submit(mr, "sum", &options, NULL, 0, &ref), MR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_has_its_own),
        cmocka_unit_test(without_code_there_is_none),
        cmocka_unit_test(too_much_is_refused),
    };
    return runtime_main(tests);
}
