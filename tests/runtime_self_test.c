/* runtime_self_test.c — an actor that calls itself: in order, with every kind of argument and result, cancelled, and at
 * its end. */
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
#include "tests/support/object_listing.h"
#include "tests/support/runtime_main.h"

enum { PATIENCE_US = 60 * 1000 * 1000, FLOATS = 1 << 18, CALLS = 100 };

/* ---- Tasks and actors. */

MR_TASK(slow_int) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    usleep(50 * 1000);
    return mr_return(call, mr_int(number));
}

MR_CREATE(Mirror) { return mr_set_self(call, calloc(1, sizeof(int64_t)), free); }

/* Calls a method of itself with its arguments, and returns a list with the future. */
static mr_status call_self(mr_call *call, const char *method, const mr_arg *args, size_t count) {
    mr_ref ref;
    MR_TRY(mr_actor_submit(mr_call_context(call), mr_call_self(call), method, NULL, args, count, &ref));
    mr_arg item = mr_future(ref);
    mr_status status = mr_return(call, mr_list(&item, 1));
    mr_release(mr_call_context(call), ref);
    return status;
}

MR_METHOD(Mirror, pass) { /* passes its first argument to `back` */
    mr_value value;
    MR_TRY(mr_arg_value(call, 0, &value));
    mr_arg arg = mr_value_arg(&value);
    return call_self(call, "back", &arg, 1);
}
MR_METHOD(Mirror, back) {
    mr_value value;
    MR_TRY(mr_arg_value(call, 0, &value));
    return mr_return(call, mr_value_arg(&value));
}

/* Passes the numbers 0 to CALLS to itself, one per call; returns the future of the last call's result. */
MR_METHOD(Mirror, count) {
    mr_context *context = mr_call_context(call);
    for (int64_t i = 0; i < CALLS; i++) {
        mr_ref pending;
        mr_arg args[] = {mr_int(i)};
        if (i % 10 == 5) { /* a pending argument holds back the calls after it */
            MR_TRY(mr_call_task(context, "slow_int", &pending, args[0]));
            args[0] = mr_future(pending);
        }
        MR_TRY(mr_actor_submit(context, mr_call_self(call), "next", NULL, args, 1, NULL));
        if (i % 10 == 5) mr_release(context, pending);
    }
    return call_self(call, "counted", NULL, 0);
}
MR_METHOD(Mirror, next) {
    int64_t *count = mr_self(call), number;
    MR_TRY(mr_arg_int(call, 0, &number));
    return number == *count ? (++*count, MR_OK) : mr_fail(call, "%d comes too early", (int)number);
}
MR_METHOD(Mirror, counted) { return mr_return(call, mr_int(*(int64_t *)mr_self(call))); }

MR_METHOD(Mirror, ask_to_fail) { return call_self(call, "fail", NULL, 0); }
MR_METHOD(Mirror, fail) { return mr_fail(call, "by itself"); }
MR_METHOD(Mirror, ask_for_nothing) { return call_self(call, "no such method", NULL, 0); }

MR_METHOD(Mirror, ask_for_two) {
    mr_ref refs[2];
    mr_call_options options = MR_OPTIONS(mr_call_options, .num_returns = 2);
    MR_TRY(mr_actor_submit(mr_call_context(call), mr_call_self(call), "two", &options, NULL, 0, refs));
    mr_arg items[] = {mr_future(refs[0]), mr_future(refs[1])};
    mr_status status = mr_return(call, mr_list(items, 2));
    for (int i = 0; i < 2; i++) mr_release(mr_call_context(call), refs[i]);
    return status;
}
MR_METHOD(Mirror, two) {
    MR_TRY(mr_return_at(call, 0, mr_int(1)));
    return mr_return_at(call, 1, mr_int(2));
}

/* Cancels a call that waits behind this one, which then never runs. A stream from the actor to itself is refused. */
MR_METHOD(Mirror, think_better) {
    mr_context *context = mr_call_context(call);
    mr_ref ref, stream;
    mr_value value;
    MR_TRY(mr_actor_submit(context, mr_call_self(call), "next", NULL, MR_ARGS(mr_int(0)), &ref));
    MR_TRY(mr_wait(context, &ref, 1, 1, 0, &(unsigned char){0}, &(size_t){0}) == MR_TIMEOUT ? MR_OK : MR_INVALID);
    MR_TRY(mr_cancel(context, ref));
    mr_status cancelled = mr_get(context, ref, PATIENCE_US, &value);
    mr_release(context, ref);
    mr_call_options options = MR_OPTIONS(mr_call_options, .num_returns = MR_STREAM);
    MR_TRY(mr_actor_submit(context, mr_call_self(call), "next", &options, MR_ARGS(mr_int(0)), &stream));
    mr_status refused = mr_get(context, stream, PATIENCE_US, &value);
    mr_release(context, stream);
    return mr_return(call, mr_int(cancelled == MR_CANCELLED && refused == MR_INVALID ? *(int64_t *)mr_self(call) : -1));
}

/* With two threads: waits for a call to itself, and cancels a running one. */
MR_METHOD(Mirror, wait_for_itself) {
    mr_context *context = mr_call_context(call);
    mr_ref quick, endless;
    mr_value value;
    int64_t number;
    MR_TRY(mr_actor_submit(context, mr_call_self(call), "back", NULL, MR_ARGS(mr_int(40)), &quick));
    MR_TRY(mr_get(context, quick, PATIENCE_US, &value));
    MR_TRY(mr_value_int(&value, &number));
    mr_value_release(&value);
    mr_release(context, quick);
    MR_TRY(mr_actor_submit(context, mr_call_self(call), "endless", NULL, NULL, 0, &endless));
    int64_t *began = mr_self(call);
    while (__atomic_load_n(began, __ATOMIC_ACQUIRE) == 0) usleep(1000);
    MR_TRY(mr_cancel(context, endless));
    mr_status cancelled = mr_get(context, endless, PATIENCE_US, &value);
    mr_release(context, endless);
    while (__atomic_load_n(began, __ATOMIC_ACQUIRE) != 0) usleep(1000);
    return mr_return(call, mr_int(cancelled == MR_CANCELLED ? number + 2 : -1));
}
MR_METHOD(Mirror, endless) {
    int64_t *began = mr_self(call);
    __atomic_store_n(began, 1, __ATOMIC_RELEASE);
    while (!mr_call_cancelled(call)) usleep(1000);
    __atomic_store_n(began, 0, __ATOMIC_RELEASE);
    return MR_OK;
}

/* ---- Helpers. */

static mr_actor mirror(int threads) {
    mr_actor actor;
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .max_concurrency = threads);
    assert_int_equal(mr_actor_create(mr, "Mirror", &options, NULL, 0, &actor), MR_OK);
    return actor;
}

/* The future at this index of the list that the method returns; the caller releases it. */
static mr_ref inner(mr_ref list, size_t index) {
    mr_value value = future_assert_value(mr, list), item;
    mr_ref ref;
    assert_int_equal(mr_value_item(&value, index, &item), MR_OK);
    assert_int_equal(mr_value_ref(&item, &ref), MR_OK);
    assert_int_equal(mr_retain(mr, ref), MR_OK);
    mr_value_release(&value);
    return ref;
}

static mr_ref asked(mr_actor actor, const char *method, mr_arg *arg) {
    mr_ref ref;
    assert_int_equal(mr_actor_submit(mr, actor, method, NULL, arg, arg == NULL ? 0 : 1, &ref), MR_OK);
    return ref;
}

static void end(mr_actor actor) {
    mr_actor_release(mr, actor);
    assert_true(object_listing_settles(mr, 0));
}

/* ---- Tests. */

static void calls_come_in_order(void **state) {
    mr_actor actor = mirror(1);
    assert_int_equal(future_assert_int(mr, inner(asked(actor, "count", NULL), 0)), CALLS);
    end(actor);
}

static void values_of_every_kind(void **state) {
    mr_actor actor = mirror(1);
    mr_arg small = mr_int(7);
    assert_int_equal(future_assert_int(mr, inner(asked(actor, "pass", &small), 0)), 7);

    char *text = malloc(10000);
    memset(text, 'x', 10000);
    mr_arg middle = mr_bytes(text, 10000);
    mr_value value = future_assert_value(mr, inner(asked(actor, "pass", &middle), 0));
    mr_span bytes;
    assert_int_equal(mr_value_bytes(&value, &bytes), MR_OK);
    assert_true(bytes.size == 10000 && memcmp(bytes.data, text, 10000) == 0);
    mr_value_release(&value);
    free(text);

    float *data = calloc(FLOATS, sizeof *data);
    data[FLOATS - 1] = 3;
    mr_arg large = mr_vector(data, FLOATS);
    value = future_assert_value(mr, inner(asked(actor, "pass", &large), 0));
    mr_tensor tensor;
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    assert_true(tensor.bytes == FLOATS * sizeof(float) && ((const float *)tensor.data)[FLOATS - 1] == 3);
    mr_value_release(&value);
    free(data);

    mr_ref pending;
    assert_int_equal(mr_call_task(mr, "slow_int", &pending, mr_int(11)), MR_OK);
    mr_arg item = mr_future(pending), list = mr_list(&item, 1);
    mr_ref passed = asked(actor, "pass", &list);
    mr_release(mr, pending); /* only the actor has the reference, in a call to itself */
    assert_int_equal(future_assert_int(mr, inner(inner(passed, 0), 0)), 11);
    end(actor);
}

static void failures_and_several_values(void **state) {
    mr_actor actor = mirror(1);
    mr_value value;
    mr_ref failed = inner(asked(actor, "ask_to_fail", NULL), 0);
    assert_int_equal(mr_get(mr, failed, PATIENCE_US, &value), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "by itself"));
    mr_release(mr, failed);
    failed = inner(asked(actor, "ask_for_nothing", NULL), 0);
    assert_int_equal(mr_get(mr, failed, PATIENCE_US, &value), MR_NOT_FOUND);
    mr_release(mr, failed);
    assert_int_equal(future_assert_int(mr, inner(asked(actor, "ask_for_two", NULL), 1)), 2);
    end(actor);
}

static void cancelled(void **state) {
    mr_actor actor = mirror(1), two = mirror(2);
    assert_int_equal(future_assert_int(mr, asked(actor, "think_better", NULL)), 0);
    assert_int_equal(future_assert_int(mr, asked(actor, "counted", NULL)), 0);
    assert_int_equal(future_assert_int(mr, asked(two, "wait_for_itself", NULL)), 42);
    mr_actor_release(mr, two);
    end(actor);
}

/* The driver ends while such calls wait; mr_shutdown follows. */
static void at_its_end(void **state) {
    mr_actor actor = mirror(1);
    mr_ref list = asked(actor, "count", NULL);
    mr_release(mr, list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_come_in_order),
        cmocka_unit_test(values_of_every_kind),
        cmocka_unit_test(failures_and_several_values),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(at_its_end),
    };
    return runtime_main(tests);
}
