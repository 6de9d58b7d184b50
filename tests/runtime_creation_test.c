/* runtime_creation_test.c — creation arguments of actors, seen from a driver: large values by reference, futures and
 * handles inside values; a restarted actor gets all of them again, even if their owners are dead; and nothing is
 * left. */
#include <errno.h>
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
#include "tests/support/object_listing.h"
#include "tests/support/runtime_main.h"

enum { PATIENCE_US = 60 * 1000 * 1000, FLOATS = 1 << 18 };

/* ---- Tasks and actors. */

MR_TASK(slow_int) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    usleep(50 * 1000);
    return mr_return(call, mr_int(number));
}

static mr_status get_number(mr_context *context, mr_ref ref, double *out) {
    mr_value value;
    int64_t whole;
    mr_tensor tensor;
    MR_TRY(mr_get(context, ref, PATIENCE_US, &value));
    mr_status status = MR_OK;
    if (mr_value_kind(&value) == MR_KIND_TENSOR) {
        status = mr_value_tensor(&value, &tensor);
        if (status == MR_OK) *out = ((const float *)tensor.data)[tensor.bytes / sizeof(float) - 1];
    } else {
        status = mr_value_int(&value, &whole);
        if (status == MR_OK) *out = (double)whole;
    }
    mr_value_release(&value);
    return status;
}

static mr_status ask_number(mr_context *context, mr_actor actor, double *out) {
    mr_ref answer;
    mr_value value;
    MR_TRY(mr_call_actor(context, actor, "total", &answer));
    mr_status status = mr_get(context, answer, PATIENCE_US, &value);
    if (status == MR_OK) {
        status = mr_value_float(&value, out);
        mr_value_release(&value);
    }
    mr_release(context, answer);
    return status;
}

/* The sum of a value: last item of a tensor, a number, or the sum over a list. */
static mr_status add_up(mr_context *context, const mr_value *value, double *sum) {
    mr_ref ref;
    mr_actor actor;
    mr_tensor tensor;
    double number = 0;
    switch (mr_value_kind(value)) {
    case MR_KIND_INT: {
        int64_t whole;
        MR_TRY(mr_value_int(value, &whole));
        number = (double)whole;
        break;
    }
    case MR_KIND_TENSOR:
        MR_TRY(mr_value_tensor(value, &tensor));
        number = ((const float *)tensor.data)[tensor.bytes / sizeof(float) - 1];
        break;
    case MR_KIND_REF:
        MR_TRY(mr_value_ref(value, &ref));
        MR_TRY(get_number(context, ref, &number));
        break;
    case MR_KIND_ACTOR:
        MR_TRY(mr_value_actor(value, &actor));
        MR_TRY(ask_number(context, actor, &number));
        break;
    default: {
        mr_iter iter = mr_value_iter(value);
        for (mr_value item; mr_iter_next(&iter, &item);) MR_TRY(add_up(context, &item, sum));
    }
    }
    *sum += number;
    return MR_OK;
}

/* An actor that keeps the sum of its creation arguments. */
MR_CREATE(Sum) {
    double *self = calloc(1, sizeof *self);
    MR_TRY(mr_set_self(call, self, free));
    for (size_t i = 0; i < mr_arg_count(call); i++) {
        mr_value value;
        MR_TRY(mr_arg_value(call, i, &value));
        MR_TRY(add_up(mr_call_context(call), &value, self));
    }
    return MR_OK;
}
MR_METHOD(Sum, total) { return mr_return(call, mr_float(*(double *)mr_self(call))); }

static mr_status put_floats(mr_context *context, float with, mr_ref *out) {
    float *data = malloc(FLOATS * sizeof *data);
    for (int i = 0; i < FLOATS; i++) data[i] = with;
    mr_status status = mr_put(context, mr_vector(data, FLOATS), out);
    free(data);
    return status;
}

/* Creates an actor from a large value and from a reference to another one. The task's process owns both, and ends
 * before the actor. */
MR_TASK(found) {
    mr_context *context = mr_call_context(call);
    mr_ref large, inside;
    mr_actor actor;
    MR_TRY(put_floats(context, 40, &large));
    MR_TRY(put_floats(context, 2, &inside));
    mr_arg list = mr_future(inside), args[] = {mr_future(large), mr_list(&list, 1)};
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "founded", .detached = 1, .max_restarts = 5);
    MR_TRY(mr_actor_create(context, "Sum", &options, args, 2, &actor));
    mr_release(context, large);
    mr_release(context, inside);
    return mr_return(call, mr_int(getpid()));
}

/* ---- Helpers. */

static double total(mr_actor actor) {
    double number = -1;
    mr_status status = ask_number(mr, actor, &number);
    if (status != MR_OK) print_message("%s\n", mr_last_error());
    assert_int_equal(status, MR_OK);
    return number;
}

static int64_t whole(mr_ref ref) {
    double number = -1;
    assert_int_equal(get_number(mr, ref, &number), MR_OK);
    mr_release(mr, ref);
    return (int64_t)number;
}

static mr_actor created(int restarts, mr_arg *args, size_t count) {
    mr_actor actor;
    mr_status status = mr_actor_create(
        mr, "Sum", &MR_OPTIONS(mr_actor_options, .max_restarts = restarts, .max_call_retries = 3), args, count, &actor);
    if (status != MR_OK) print_message("%s\n", mr_last_error());
    assert_int_equal(status, MR_OK);
    return actor;
}

static uint32_t starts(mr_actor actor) {
    mr_actor_info facts;
    assert_int_equal(mr_actor_info_get(mr, actor, &facts), MR_OK);
    return facts.starts;
}

/* Ends the actor's process, and waits for its next process. */
static void start_again(mr_actor actor) {
    uint32_t before = starts(actor);
    assert_int_equal(mr_actor_restart(mr, actor), MR_OK);
    for (int i = 0; i < 6000 && starts(actor) == before; i++) usleep(10 * 1000);
    assert_int_equal(starts(actor), before + 1);
}

/* Kills a worker, and waits until its parent, the node, has reaped it. After that the node starts no actor there. */
static void kill_worker(int pid) {
    assert_int_equal(kill(pid, SIGKILL), 0);
    for (int i = 0; i < 6000 && kill(pid, 0) == 0; i++) usleep(10 * 1000);
    assert_true(kill(pid, 0) == -1 && errno == ESRCH);
}

static void end(mr_actor actor) {
    assert_int_equal(mr_actor_kill(mr, actor), MR_OK);
    mr_actor_release(mr, actor);
    assert_true(object_listing_settles(mr, 0));
}

/* ---- Tests. */

/* One large value is an argument of two actors and has a reference of the driver. */
static void large_values_go_by_name(void **state) {
    mr_ref ref;
    assert_int_equal(put_floats(mr, 7, &ref), MR_OK);
    mr_arg args[] = {mr_future(ref), mr_int(1)};
    mr_actor once = created(0, args, 2), again = created(3, args, 2);
    assert_true(total(once) == 8 && total(again) == 8);
    assert_int_equal(object_listing_of(mr).objects, 1);
    mr_release(mr, ref);
    start_again(again); /* only the node refers to the value */
    assert_true(total(again) == 8);
    assert_int_equal(object_listing_of(mr).objects, 1);
    end(again);
    assert_true(total(once) == 8);
    mr_actor_release(mr, once);
}

/* A large argument is written once, directly into the store. An actor without restarts does not need its arguments
 * after its creation. */
static void a_large_argument_is_gone_when_it_is_not_needed(void **state) {
    float *data = calloc(FLOATS, sizeof *data);
    mr_arg arg = mr_vector(data, FLOATS);
    mr_actor actor = created(0, &arg, 1);
    free(data);
    assert_true(total(actor) == 0);
    assert_true(object_listing_settles(mr, 0));
    mr_actor_release(mr, actor);
}

static void futures_inside_of_values(void **state) {
    mr_ref pending, small, large;
    assert_int_equal(mr_call_task(mr, "slow_int", &pending, mr_int(1)), MR_OK);
    assert_int_equal(mr_put(mr, mr_int(20), &small), MR_OK);
    assert_int_equal(put_floats(mr, 300, &large), MR_OK);
    mr_arg items[] = {mr_future(pending), mr_future(small), mr_future(large)}, list = mr_list(items, 3);
    mr_actor actor = created(2, &list, 1);
    mr_release(mr, pending);
    mr_release(mr, small);
    mr_release(mr, large); /* the node keeps all arguments */
    assert_true(total(actor) == 321);
    start_again(actor);
    assert_true(total(actor) == 321);
    start_again(actor);
    assert_true(total(actor) == 321);
    end(actor);
}

/* An argument is a future of a value that refers to other values. */
static void lists_that_were_put(void **state) {
    mr_ref number, list;
    assert_int_equal(mr_put(mr, mr_int(5), &number), MR_OK);
    mr_arg item = mr_future(number);
    assert_int_equal(mr_put(mr, mr_list(&item, 1), &list), MR_OK);
    mr_arg args[] = {mr_future(list), mr_int(2)};
    mr_actor actor = created(1, args, 2);
    mr_release(mr, number);
    mr_release(mr, list);
    assert_true(total(actor) == 7);
    start_again(actor);
    assert_true(total(actor) == 7);
    end(actor);
}

/* Handles in a value in the store: no process on the way reads the value. */
static void handles_inside_of_large_values(void **state) {
    float *data = calloc(FLOATS, sizeof *data);
    mr_arg one = mr_int(30), inner_args[] = {one};
    mr_actor inner = created(0, inner_args, 1);
    mr_arg items[] = {mr_handle(inner), mr_vector(data, FLOATS), mr_int(4)}, list = mr_list(items, 3);
    mr_actor outer = created(2, &list, 1);
    free(data);
    mr_actor_release(mr, inner); /* the outer actor has the handle */
    assert_true(total(outer) == 34);
    start_again(outer);
    assert_true(total(outer) == 34);
    end(outer);
}

/* The process that created all arguments of the actor is dead. */
static void the_creator_does_not_live_as_long(void **state) {
    mr_ref ref;
    mr_actor actor;
    assert_int_equal(mr_call_task(mr, "found", &ref), MR_OK);
    int creator = (int)whole(ref);
    assert_int_equal(mr_actor_find(mr, "founded", NULL, &actor), MR_OK);
    assert_true(total(actor) == 42);
    kill_worker(creator);
    start_again(actor);
    assert_true(total(actor) == 42);
    end(actor);
}

/* The node refuses the creation, and keeps nothing for the actor. */
static void a_refused_creation_keeps_nothing(void **state) {
    mr_ref ref;
    assert_int_equal(put_floats(mr, 7, &ref), MR_OK);
    mr_arg item = mr_future(ref), args[] = {mr_list(&item, 1)};
    mr_actor first, second;
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "only one", .max_restarts = 1);
    assert_int_equal(mr_actor_create(mr, "Sum", &options, args, 1, &first), MR_OK);
    assert_int_equal(mr_actor_create(mr, "Sum", &options, args, 1, &second), MR_EXISTS);
    mr_release(mr, ref);
    assert_true(total(first) == 7);
    end(first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_values_go_by_name),
        cmocka_unit_test(a_large_argument_is_gone_when_it_is_not_needed),
        cmocka_unit_test(futures_inside_of_values),
        cmocka_unit_test(lists_that_were_put),
        cmocka_unit_test(handles_inside_of_large_values),
        cmocka_unit_test(the_creator_does_not_live_as_long),
        cmocka_unit_test(a_refused_creation_keeps_nothing),
    };
    return runtime_main(tests);
}
