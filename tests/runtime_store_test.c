/* runtime_store_test.c — large values, seen from a driver: they are in the machine's store, are passed by reference,
 * are spilled when memory is short, and leave nothing behind. */
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
#include "tests/support/object_listing.h"
#include "tests/support/runtime_main.h"

enum { PATIENCE_US = 30 * 1000 * 1000, FLOATS = 1 << 20, MB = 1 << 20 };

/* ---- Tasks and actors. */

static float *filled(size_t count, float with) {
    float *data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++) data[i] = with;
    return data;
}

MR_TASK(sum) {
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    double total = 0;
    for (size_t i = 0; i < tensor.bytes / sizeof(float); i++) total += ((const float *)tensor.data)[i];
    return mr_return(call, mr_float(total));
}

MR_TASK(make) {
    int64_t count;
    double with;
    MR_TRY(mr_arg_int(call, 0, &count));
    MR_TRY(mr_arg_float(call, 1, &with));
    float *data = filled((size_t)count, (float)with);
    mr_status status = mr_return(call, mr_vector(data, (size_t)count));
    free(data);
    return status;
}

/* Writes into its argument, which changes only the worker's mapping, and returns it. */
MR_TASK(scribble) {
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    union {
        const void *in;
        float *out;
    } data = {tensor.data};
    data.out[0] = 42;
    return mr_return(call, mr_tensor_arg(&tensor));
}

MR_TASK(both) { /* a small value and two large ones */
    mr_tensor a, b;
    int64_t factor;
    MR_TRY(mr_arg_tensor(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &factor));
    MR_TRY(mr_arg_tensor(call, 2, &b));
    return mr_return(call, mr_float((double)factor * ((const float *)a.data)[FLOATS - 1] + ((const float *)b.data)[0]));
}

MR_TASK(make_and_die) {
    int64_t count;
    MR_TRY(mr_arg_int(call, 0, &count));
    float *data = filled((size_t)count, 1);
    MR_TRY(mr_return(call, mr_vector(data, (size_t)count)));
    kill(getpid(), SIGKILL);
    return MR_OK;
}

MR_CREATE(Keeper) {
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    float *own = malloc(sizeof *own);
    *own = ((const float *)tensor.data)[tensor.bytes / sizeof(float) - 1];
    return mr_set_self(call, own, free);
}
MR_METHOD(Keeper, last) { return mr_return(call, mr_float(*(float *)mr_self(call))); }
MR_METHOD(Keeper, echo) {
    mr_value value;
    MR_TRY(mr_arg_value(call, 0, &value));
    return mr_return(call, mr_value_arg(&value));
}

/* ---- Helpers. */

static mr_ref put(size_t floats, float with) {
    float *data = filled(floats, with);
    mr_ref ref;
    assert_int_equal(mr_put(mr, mr_vector(data, floats), &ref), MR_OK);
    free(data);
    return ref;
}

static void assert_tensor(mr_ref ref, size_t floats, float first, float last) {
    mr_value value;
    mr_tensor tensor;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    assert_int_equal(tensor.bytes, floats * sizeof(float));
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    assert_true(((const float *)tensor.data)[0] == first);
    assert_true(((const float *)tensor.data)[floats - 1] == last);
    mr_value_release(&value);
}

/* ---- Tests. */

static void put_and_get(void **state) {
    mr_ref ref = put(FLOATS, 3);
    assert_int_equal(object_listing_of(mr).objects, 1);
    assert_tensor(ref, FLOATS, 3, 3);
    assert_tensor(ref, FLOATS, 3, 3);
    mr_release(mr, ref);
    assert_true(object_listing_settles(mr, 0));
}

/* Compares a view that was written to with what other processes read. */
static void sealed_objects_can_be_read(void **state) {
    static float read[FLOATS];
    mr_ref ref = put(FLOATS, 3);
    mr_value value;
    mr_tensor tensor;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    union {
        const void *in;
        float *out;
    } data = {tensor.data};
    data.out[0] = data.out[FLOATS - 1] = 42;
    assert_int_equal(mr_read_sealed(mr, tensor.data, tensor.bytes, read), MR_OK);
    assert_true(read[0] == 3 && read[FLOATS - 1] == 3 && data.out[0] == 42);
    float small = 7; /* values outside the store are plain memory */
    assert_true(mr_is_private_copy(mr, tensor.data) && !mr_is_private_copy(mr, &small));
    assert_int_equal(mr_read_sealed(mr, &small, sizeof small, read), MR_OK);
    assert_int_equal(mr_read_sealed(mr, NULL, 0, read), MR_OK);
    assert_true(read[0] == 7 && read[1] == 3);
    mr_value_release(&value);
    mr_release(mr, ref);
    assert_true(object_listing_settles(mr, 0));
}

static void arguments_and_results(void **state) {
    float *data = filled(FLOATS, 0.5);
    mr_ref total, made, twice;
    assert_int_equal(mr_call_task(mr, "sum", &total, mr_vector(data, FLOATS)), MR_OK);
    free(data);
    assert_true(future_assert_float(mr, total) == FLOATS / 2);
    assert_int_equal(mr_call_task(mr, "make", &made, mr_int(FLOATS), mr_float(2)), MR_OK);
    assert_int_equal(mr_call_task(mr, "sum", &twice, mr_future(made)),
                     MR_OK); /* by reference: made by one worker, read by another */
    assert_true(future_assert_float(mr, twice) == 2.0 * FLOATS);
    assert_tensor(made, FLOATS, 2, 2);
    mr_release(mr, made);
    assert_true(object_listing_settles(mr, 0));
}

static void several_at_once(void **state) {
    mr_ref a = put(FLOATS, 2), answer;
    float *b = filled(FLOATS, 1);
    assert_int_equal(mr_call_task(mr, "both", &answer, mr_future(a), mr_int(10), mr_vector(b, FLOATS)), MR_OK);
    free(b);
    mr_release(mr, a); /* the call holds the reference */
    assert_true(future_assert_float(mr, answer) == 21);
    assert_true(object_listing_settles(mr, 0));
}

static void writing_into_a_view_changes_only_that_view(void **state) {
    mr_ref ref = put(FLOATS, 1), changed;
    assert_int_equal(mr_call_task(mr, "scribble", &changed, mr_future(ref)), MR_OK);
    assert_tensor(changed, FLOATS, 42, 1);
    assert_tensor(ref, FLOATS, 1, 1);
    mr_release(mr, ref);
    mr_release(mr, changed);
    assert_true(object_listing_settles(mr, 0));
}

static void a_value_outlives_its_runtime(void **state) {
    mr_context *before = mr;
    mr_value value;
    mr_tensor tensor;
    assert_int_equal(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 64 << 20), &mr), MR_OK);
    mr_ref ref = put(FLOATS, 7);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    mr_shutdown(mr);
    mr = before;
    float *data = (float *)(uintptr_t)tensor.data;
    for (size_t i = 0; i < FLOATS; i++) assert_true(data[i] == 7);
    data[0] = 8; /* still writable */
    assert_true(data[0] == 8);
    mr_value_release(&value);
}

static void actors_take_them_too(void **state) {
    float *data = filled(FLOATS, 7);
    mr_actor metadata;
    mr_ref last, echo;
    assert_int_equal(mr_new_actor(mr, "Keeper", &metadata, mr_vector(data, FLOATS)), MR_OK);
    assert_int_equal(mr_call_actor(mr, metadata, "last", &last), MR_OK);
    assert_true(future_assert_float(mr, last) == 7);
    assert_int_equal(mr_call_actor(mr, metadata, "echo", &echo, mr_vector(data, FLOATS)), MR_OK);
    assert_tensor(echo, FLOATS, 7, 7);
    mr_release(mr, echo);
    free(data);
    assert_int_equal(mr_actor_kill(mr, metadata), MR_OK);
    assert_true(object_listing_settles(mr, 0));
}

static void a_maker_that_dies_leaves_nothing(void **state) {
    mr_ref ref;
    mr_value value;
    mr_task_options options = MR_OPTIONS(mr_task_options, .max_retries = -1);
    assert_int_equal(mr_task_submit(mr, "make_and_die", &options, MR_ARGS(mr_int(FLOATS)), &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_WORKER_DIED);
    mr_release(mr, ref);
    assert_true(object_listing_settles(mr, 0));
}

/* A result outlives the worker that created it. */
static void a_result_outlives_its_maker(void **state) {
    mr_actor metadata;
    mr_ref echo;
    float *data = filled(FLOATS, 5);
    assert_int_equal(mr_new_actor(mr, "Keeper", &metadata, mr_vector(data, FLOATS)), MR_OK);
    assert_int_equal(mr_call_actor(mr, metadata, "echo", &echo, mr_vector(data, FLOATS)), MR_OK);
    free(data);
    unsigned char ready;
    size_t count;
    assert_int_equal(mr_wait(mr, &echo, 1, 1, PATIENCE_US, &ready, &count), MR_OK);
    assert_int_equal(mr_actor_kill(mr, metadata), MR_OK);
    assert_true(object_listing_settles(mr, 1));
    assert_tensor(echo, FLOATS, 5, 5);
    mr_release(mr, echo);
    assert_true(object_listing_settles(mr, 0));
}

/* More objects than fit into memory: objects without a view are spilled and restored. */
static void more_than_fits_goes_to_disk(void **state) {
    enum { COUNT = 40 }; /* 4 MB each, in a store of 64 MB */
    mr_ref refs[COUNT];
    for (int i = 0; i < COUNT; i++) refs[i] = put(FLOATS, (float)i);
    assert_true(object_listing_of(mr).spilled > 0);
    for (int i = 0; i < COUNT; i++) assert_tensor(refs[i], FLOATS, (float)i, (float)i);
    mr_ref total;
    assert_int_equal(mr_call_task(mr, "sum", &total, mr_future(refs[1])), MR_OK);
    assert_true(future_assert_float(mr, total) == FLOATS);
    assert_true(object_listing_of(mr).restored > 0);
    for (int i = 0; i < COUNT; i++) mr_release(mr, refs[i]);
    assert_true(object_listing_settles(mr, 0));
}

static void an_object_larger_than_the_store_is_refused(void **state) {
    size_t floats = 128 * (size_t)MB / sizeof(float);
    float *data = calloc(floats, sizeof *data);
    mr_ref ref;
    assert_int_equal(mr_put(mr, mr_vector(data, floats), &ref), MR_TOO_LARGE);
    assert_non_null(strstr(mr_last_error(), "shared memory"));
    free(data);
    assert_true(object_listing_settles(mr, 0));
}

enum { LOOKED_AT_MOST = 64 };

typedef struct looked_at { /* objects that cannot be spilled */
    mr_ref refs[LOOKED_AT_MOST];
    mr_value values[LOOKED_AT_MOST];
    int count;
} looked_at;

/* Puts and views objects until a put fails. */
static mr_status look_at_more(looked_at *all, const float *data) {
    while (all->count < LOOKED_AT_MOST) {
        MR_TRY(mr_put(mr, mr_vector(data, 2 * FLOATS), &all->refs[all->count]));
        assert_int_equal(mr_get(mr, all->refs[all->count], PATIENCE_US, &all->values[all->count]), MR_OK);
        all->count++;
    }
    return MR_OK;
}

static void look_at_less(looked_at *all) {
    all->count--;
    mr_value_release(&all->values[all->count]);
    mr_release(mr, all->refs[all->count]);
}

static bool has_enough(void *user) { return ++*(int *)user > 3; }

/* Waits for memory may be interrupted. The error of a timed-out wait names the holders of the memory. */
static void waiting_for_memory_is_given_up(void **state) {
    float *data = filled(2 * FLOATS, 1);
    looked_at all = {.count = 0};
    int asked = 0;
    mr_on_memory_wait(mr, has_enough, &asked);
    assert_int_equal(look_at_more(&all, data), MR_CANCELLED);
    assert_true(asked > 3);
    mr_on_memory_wait(mr, NULL, NULL);
    assert_int_equal(look_at_more(&all, data), MR_NOMEM);
    assert_non_null(strstr(mr_last_error(), "objects that are held (p"));
    while (all.count > 0) look_at_less(&all);
    assert_int_equal(mr_put(mr, mr_vector(data, 2 * FLOATS), &all.refs[0]), MR_OK);
    mr_release(mr, all.refs[0]);
    free(data);
    assert_true(object_listing_settles(mr, 0));
}

typedef struct late_death {
    looked_at all;
    mr_actor metadata;
    int asked;
} late_death;

/* Kills the actor, and lets memory become free later. */
static bool ends_the_actor(void *user) {
    late_death *death = user;
    if (death->asked++ == 0) assert_int_equal(mr_actor_kill(mr, death->metadata), MR_OK);
    if (death->asked > 10 && death->all.count > 0) look_at_less(&death->all);
    return false;
}

/* An actor is alive when the call is made, and dead when there is memory for the call's argument. */
static void the_actor_dies_while_its_argument_waits(void **state) {
    float *data = filled(2 * FLOATS, 1);
    late_death death = {.asked = 0};
    mr_ref last, echo;
    mr_value value;
    assert_int_equal(mr_new_actor(mr, "Keeper", &death.metadata, mr_vector(data, FLOATS)), MR_OK);
    assert_int_equal(mr_call_actor(mr, death.metadata, "last", &last), MR_OK);
    assert_true(future_assert_float(mr, last) == 1);
    assert_int_equal(look_at_more(&death.all, data), MR_NOMEM); /* no object is being spilled any more */
    mr_on_memory_wait(mr, ends_the_actor, &death);
    assert_int_equal(mr_call_actor(mr, death.metadata, "echo", &echo, mr_vector(data, 2 * FLOATS)), MR_OK);
    mr_on_memory_wait(mr, NULL, NULL);
    /* The dead actor's memory is freed, too, and may suffice before the driver releases its own. */
    assert_true(death.asked > 0);
    assert_int_equal(mr_get(mr, echo, PATIENCE_US, &value), MR_ACTOR_DIED);
    mr_release(mr, echo);
    mr_actor_release(mr, death.metadata);
    while (death.all.count > 0) look_at_less(&death.all);
    free(data);
    assert_true(object_listing_settles(mr, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put_and_get),
        cmocka_unit_test(sealed_objects_can_be_read),
        cmocka_unit_test(arguments_and_results),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(writing_into_a_view_changes_only_that_view),
        cmocka_unit_test(a_value_outlives_its_runtime),
        cmocka_unit_test(actors_take_them_too),
        cmocka_unit_test(a_maker_that_dies_leaves_nothing),
        cmocka_unit_test(a_result_outlives_its_maker),
        cmocka_unit_test(more_than_fits_goes_to_disk),
        cmocka_unit_test(an_object_larger_than_the_store_is_refused),
        cmocka_unit_test(waiting_for_memory_is_given_up),
        cmocka_unit_test(the_actor_dies_while_its_argument_waits),
    };
    return runtime_main(tests);
}
