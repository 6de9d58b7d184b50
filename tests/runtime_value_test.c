/* runtime_value_test.c — values that a driver puts, passes and gets: of every size; failures and their causes. The test
 * is the driver: its workers are this same binary, started again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/runtime.h"
#include "tests/support/future_assert.h"

enum { PATIENCE_US = 20 * 1000 * 1000 };

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(add) {
    int64_t a, b;
    MR_TRY(mr_arg_int(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &b));
    return mr_return(call, mr_int(a + b));
}

MR_TASK(fail_with) {
    mr_span text;
    MR_TRY(mr_arg_str(call, 0, &text));
    return mr_fail(call, "%.*s", (int)text.size, (const char *)text.data);
}

MR_TASK(fail_in_detail) { return mr_fail_with(call, (mr_span){"\0detail", 7}, "it went wrong"); }

MR_CREATE(Keeper) { return mr_set_self(call, calloc(2, sizeof(mr_value)), free); }

MR_METHOD(Keeper, keep) {
    mr_value *kept = mr_self(call);
    mr_tensor here, there;
    for (size_t i = 0; i < 2; i++) MR_TRY(mr_arg_keep(call, i, &kept[i]));
    MR_TRY(mr_arg_tensor(call, 0, &here));
    MR_TRY(mr_value_tensor(&kept[0], &there));
    return mr_return(call, mr_int(here.data == there.data));
}

MR_METHOD(Keeper, total) {
    mr_value *kept = mr_self(call);
    int64_t total = 0;
    for (size_t i = 0; i < 2; i++) {
        mr_tensor tensor;
        MR_TRY(mr_value_tensor(&kept[i], &tensor));
        for (size_t k = 0; k < tensor.bytes / sizeof(float); k++) total += (int64_t)((const float *)tensor.data)[k];
        mr_value_release(&kept[i]);
    }
    return mr_return(call, mr_int(total));
}

MR_TASK(pause_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    usleep((useconds_t)ms * 1000);
    return mr_return(call, mr_int(ms));
}

MR_TASK(sum) {
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    double total = 0;
    for (size_t i = 0; i < tensor.bytes / sizeof(float); i++) total += ((const float *)tensor.data)[i];
    return mr_return(call, mr_float(total));
}

MR_TASK(ones) {
    int64_t count;
    MR_TRY(mr_arg_int(call, 0, &count));
    float *data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = 1;
    mr_status status = mr_return(call, mr_vector(data, (size_t)count));
    free(data);
    return status;
}

MR_TASK(describe) { /* an error: the length of its chain of causes, and the error itself */
    mr_value value;
    mr_error error;
    size_t count = 0;
    MR_TRY(mr_arg_value(call, 0, &value));
    while (mr_value_error(&value, count, &error) == MR_OK) count++;
    mr_arg items[] = {mr_int((int64_t)count), mr_value_arg(&value)};
    return mr_return(call, mr_list(items, 2));
}

MR_CREATE(Counter) {
    int64_t start = 0;
    if (mr_arg_count(call) > 0) MR_TRY(mr_arg_int(call, 0, &start));
    if (start < 0) return mr_fail(call, "a counter does not start at %lld", (long long)start);
    int64_t *self = malloc(sizeof *self);
    *self = start;
    return mr_set_self(call, self, free);
}

MR_METHOD(Counter, next) { return mr_return(call, mr_int(++*(int64_t *)mr_self(call))); }

/* ---- The tests. */

static void put_and_get(void **state) {
    mr_ref ref, sum;
    assert_int_equal(mr_put(mr, mr_int(40), &ref), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &sum, mr_future(ref), mr_int(2)), MR_OK);
    assert_int_equal(future_assert_int(mr, sum), 42);
    assert_int_equal(future_assert_int(mr, ref), 40);
    mr_value value;
    assert_int_equal(mr_get(mr, ref, 0, &value), MR_NOT_FOUND); /* released above */
}

static void large_values_go_both_ways(void **state) {
    enum { COUNT = 1 << 20 };
    float *data = malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++) data[i] = 0.5f;
    mr_ref ref;
    mr_value value;
    double total;
    assert_int_equal(mr_call_task(mr, "sum", &ref, mr_vector(data, COUNT)), MR_OK);
    free(data); /* the value was copied */
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_float(&value, &total), MR_OK);
    assert_true(total == COUNT / 2);
    mr_value_release(&value);
    mr_release(mr, ref);

    mr_tensor tensor;
    assert_int_equal(mr_call_task(mr, "ones", &ref, mr_int(COUNT)), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    assert_int_equal(tensor.bytes, COUNT * sizeof(float));
    assert_true(((const float *)tensor.data)[COUNT - 1] == 1);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    mr_value_release(&value);
    mr_release(mr, ref);
}

static void a_failure_tells_its_story(void **state) {
    mr_ref ref, after;
    assert_int_equal(mr_call_task(mr, "fail_with", &ref, mr_str("no cheese")), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &after, mr_future(ref), mr_int(1)), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "no cheese"));
    assert_non_null(strstr(mr_last_error(), "fail_with"));
    assert_int_equal(future_assert_failure(mr, after), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "task 'add'"));
    assert_non_null(strstr(mr_last_error(), "no cheese"));
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_str("x"), mr_int(1)), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "argument 0 of add"));
}

static void a_detail_comes_by_way_of_others(void **state) {
    mr_ref failed, after, fine;
    mr_value value;
    char detail[16];
    size_t size;
    assert_int_equal(mr_call_task(mr, "fail_in_detail", &failed), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &after, mr_future(failed), mr_int(1)), MR_OK);
    assert_int_equal(mr_get(mr, after, PATIENCE_US, &value), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "it went wrong"));
    assert_int_equal(mr_failure_detail(mr, after, detail, sizeof detail, &size), MR_OK);
    assert_int_equal(size, 7);
    assert_memory_equal(detail, "\0detail", 7);
    detail[0] = '#';
    assert_int_equal(mr_failure_detail(mr, failed, detail, 0, &size), MR_OK);
    assert_true(size == 7 && detail[0] == '#');
    assert_int_equal(mr_put(mr, mr_int(1), &fine), MR_OK);
    assert_int_equal(mr_failure_detail(mr, fine, detail, sizeof detail, &size), MR_OK);
    assert_int_equal(size, 0);
    mr_release(mr, fine);
    mr_release(mr, failed);
    mr_release(mr, after);
    assert_int_equal(mr_failure_detail(mr, after, detail, sizeof detail, &size), MR_NOT_FOUND);
}

static void arguments_may_be_kept(void **state) {
    mr_actor metadata;
    mr_ref ref;
    float *data = malloc(100000 * sizeof *data);
    for (int i = 0; i < 100000; i++) data[i] = 1;
    assert_int_equal(mr_new_actor(mr, "Keeper", &metadata), MR_OK);
    assert_int_equal(mr_call_actor(mr, metadata, "keep", &ref, mr_vector(data, 100000), mr_vector(data, 3)), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 1);
    for (int i = 0; i < 20; i++) { /* further allocations reuse freed memory */
        data[0] = (float)i;
        assert_int_equal(mr_call_task(mr, "sum", &ref, mr_vector(data, 100000)), MR_OK);
        mr_value value;
        assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
        mr_value_release(&value);
        mr_release(mr, ref);
    }
    assert_int_equal(mr_call_actor(mr, metadata, "total", &ref), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 100003);
    assert_int_equal(mr_actor_kill(mr, metadata), MR_OK);
    free(data);
}

static void errors_are_values(void **state) {
    mr_ref bad, next, ref;
    mr_value value;
    mr_error error;
    mr_task_options wants = MR_OPTIONS(mr_task_options, .errors_as_values = 1);
    assert_int_equal(mr_call_task(mr, "fail_with", &bad, mr_str("no luck")), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &next, mr_future(bad), mr_int(1)), MR_OK);
    assert_int_equal(mr_task_submit(mr, "describe", &wants, MR_ARGS(mr_future(next), mr_int(1)), &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK); /* the body's result, which contains the error */
    mr_value item;
    int64_t causes = -1;
    assert_int_equal(mr_value_count(&value), 2);
    assert_int_equal(mr_value_item(&value, 0, &item), MR_OK);
    assert_int_equal(mr_value_int(&item, &causes), MR_OK);
    assert_true(causes >= 2);
    assert_int_equal(mr_value_item(&value, 1, &item), MR_OK);
    assert_int_equal(mr_value_kind(&item), MR_KIND_ERROR);
    assert_int_equal(mr_value_error(&item, 0, &error), MR_OK);
    assert_int_equal(error.code, MR_TASK_FAILED);
    assert_non_null(memmem(error.origin.data, error.origin.size, "task 'add'", 10));
    assert_int_equal(mr_value_error(&item, (size_t)causes - 1, &error), MR_OK);
    assert_non_null(memmem(error.message.data, error.message.size, "no luck", 7));
    assert_non_null(memmem(error.origin.data, error.origin.size, "worker process", 14));
    assert_int_equal(mr_value_error(&item, (size_t)causes, &error), MR_NOT_FOUND);
    mr_value_release(&value);
    mr_release(mr, ref);
    assert_int_equal(mr_failure(mr, bad, &value), MR_OK);
    assert_int_equal(mr_value_error(&value, 0, &error), MR_OK);
    assert_int_equal(error.message.size, 7);
    mr_value_release(&value);
    mr_release(mr, bad);
    mr_release(mr, next);
    assert_int_equal(mr_failure(mr, bad, &value), MR_NOT_FOUND);
    assert_int_equal(mr_put(mr, mr_int(1), &ref), MR_OK);
    assert_int_equal(mr_failure(mr, ref, &value), MR_INVALID);
    mr_release(mr, ref);
}

static void errors_name_missing_references(void **state) {
    mr_actor nobody = {{12345, 67890}}, unborn;
    mr_ref ref, slow, released;
    mr_value value;
    unsigned char ready[2];
    size_t count;
    assert_int_equal(mr_call_actor(mr, nobody, "next", &ref), MR_OK);
    mr_status status = future_assert_failure(mr, ref);
    assert_true(status == MR_NOT_FOUND || status == MR_ACTOR_DIED);
    assert_int_not_equal(mr_actor_kill(mr, nobody), MR_OK);
    assert_int_equal(mr_put(mr, mr_int(1), &released), MR_OK);
    mr_release(mr, released);
    mr_release(mr, released); /* again: no effect */
    assert_int_equal(mr_get(mr, released, 0, &value), MR_NOT_FOUND);
    assert_int_equal(mr_cancel(mr, released), MR_NOT_FOUND);
    assert_int_equal(mr_wait(mr, &released, 1, 1, 0, ready, &count), MR_NOT_FOUND);
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_future(released), mr_int(1)), MR_INVALID);
    assert_int_equal(mr_join(mr, &released, 1, &ref), MR_INVALID);
    assert_int_equal(mr_call_task(mr, "pause_ms", &slow, mr_int(50)), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Counter", &unborn, mr_future(slow)), MR_OK);
    assert_int_equal(mr_call_actor(mr, unborn, "next", &ref), MR_OK);
    assert_int_equal(mr_actor_kill(mr, unborn), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
    assert_non_null(strstr(mr_last_error(), "before it was created"));
    assert_int_equal(future_assert_int(mr, slow), 50);
}

static int set_up(void **state) {
    mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20), &mr);
    if (status != MR_OK) print_message("mr_init: %s\n", mr_last_error());
    return status != MR_OK;
}

static int tear_down(void **state) {
    mr_shutdown(mr);
    return 0;
}

int main(int argc, char **argv) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_and_get),
        cmocka_unit_test(large_values_go_both_ways),
        cmocka_unit_test(a_failure_tells_its_story),
        cmocka_unit_test(a_detail_comes_by_way_of_others),
        cmocka_unit_test(arguments_may_be_kept),
        cmocka_unit_test(errors_are_values),
        cmocka_unit_test(errors_name_missing_references),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
