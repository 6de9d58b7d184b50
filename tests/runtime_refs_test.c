/* runtime_refs_test.c — references inside values, seen from a driver: in lists, results and put objects; through
 * several processes, longer than their lives, in large numbers; and nothing is left. */
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
#include "runtime/process/context.h"
#include "tests/support/future_assert.h"
#include "tests/support/object_listing.h"
#include "tests/support/runtime_main.h"

enum { PATIENCE_US = 30 * 1000 * 1000, FLOATS = 1 << 18 };

/* ---- Tasks and actors. */

static mr_status get_int(mr_context *context, mr_ref ref, int64_t *out) {
    mr_value value;
    MR_TRY(mr_get(context, ref, PATIENCE_US, &value));
    mr_status status = mr_value_int(&value, out);
    mr_value_release(&value);
    return status;
}

/* The sum of a list of futures. */
MR_TASK(sum_of_refs) {
    mr_value list;
    int64_t total = 0, number;
    MR_TRY(mr_arg_value(call, 0, &list));
    mr_iter iter = mr_value_iter(&list);
    for (mr_value item; mr_iter_next(&iter, &item);) {
        mr_ref ref;
        MR_TRY(mr_value_ref(&item, &ref));
        MR_TRY(get_int(mr_call_context(call), ref, &number));
        total += number;
    }
    return mr_return(call, mr_int(total));
}

MR_TASK(slow_int) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    usleep(50 * 1000);
    return mr_return(call, mr_int(number));
}

MR_TASK(last_of_first) { /* the last item of a tensor, whose future is the first item of a list */
    mr_value list, item, value;
    mr_ref ref;
    mr_tensor tensor;
    MR_TRY(mr_arg_value(call, 0, &list));
    MR_TRY(mr_value_item(&list, 0, &item));
    MR_TRY(mr_value_ref(&item, &ref));
    MR_TRY(mr_get(mr_call_context(call), ref, PATIENCE_US, &value));
    MR_TRY(mr_value_tensor(&value, &tensor));
    float last = ((const float *)tensor.data)[tensor.bytes / sizeof(float) - 1];
    mr_value_release(&value);
    return mr_return(call, mr_float(last));
}

/* Starts tasks and returns their futures, which the worker owns. */
MR_TASK(spawn) {
    int64_t count;
    MR_TRY(mr_arg_int(call, 0, &count));
    mr_ref *refs = calloc((size_t)count, sizeof *refs);
    mr_arg *args = calloc((size_t)count, sizeof *args);
    for (int64_t i = 0; i < count; i++) {
        MR_TRY(mr_call_task(mr_call_context(call), "slow_int", &refs[i], mr_int(i)));
        args[i] = mr_future(refs[i]);
    }
    mr_status status = mr_return(call, mr_list(args, (size_t)count));
    for (int64_t i = 0; i < count; i++) mr_release(mr_call_context(call), refs[i]);
    free(refs);
    free(args);
    return status;
}

MR_TASK(echo) {
    mr_value value;
    MR_TRY(mr_arg_value(call, 0, &value));
    return mr_return(call, mr_value_arg(&value));
}

/* Keeps a reference beyond the call that received it. */
typedef struct holder {
    mr_ref ref;
    bool has;
} holder;
MR_CREATE(Holder) { return mr_set_self(call, calloc(1, sizeof(holder)), free); }
MR_METHOD(Holder, keep) {
    mr_value list, item;
    holder *self = mr_self(call);
    MR_TRY(mr_arg_value(call, 0, &list));
    MR_TRY(mr_value_item(&list, 0, &item));
    MR_TRY(mr_value_ref(&item, &self->ref));
    self->has = true;
    return mr_retain(mr_call_context(call), self->ref);
}
MR_METHOD(Holder, show) {
    holder *self = mr_self(call);
    int64_t number;
    MR_TRY(get_int(mr_call_context(call), self->ref, &number));
    return mr_return(call, mr_int(number));
}
MR_METHOD(Holder, give) {
    holder *self = mr_self(call);
    mr_arg item = mr_future(self->ref);
    return mr_return(call, mr_list(&item, 1));
}
MR_METHOD(Holder, make) { /* a list with a reference to `size` bytes that the actor owns */
    int64_t size;
    mr_ref made;
    MR_TRY(mr_arg_int(call, 0, &size));
    void *bytes = malloc((size_t)size);
    memset(bytes, 7, (size_t)size);
    mr_status status = mr_put(mr_call_context(call), mr_bytes(bytes, (size_t)size), &made);
    free(bytes);
    MR_TRY(status);
    mr_arg item = mr_future(made);
    status = mr_return(call, mr_list(&item, 1));
    mr_release(mr_call_context(call), made);
    return status;
}
MR_METHOD(Holder, drop) {
    holder *self = mr_self(call);
    mr_release(mr_call_context(call), self->ref);
    return MR_OK;
}
MR_METHOD(Holder, forgets) { /* whether a reference that was not retained is released */
    holder *self = mr_self(call);
    mr_value value;
    return mr_return(call, mr_bool(mr_get(mr_call_context(call), self->ref, 0, &value) == MR_NOT_FOUND));
}
MR_METHOD(Holder, look) { /* reads the value without keeping it */
    mr_value list, item;
    holder *self = mr_self(call);
    MR_TRY(mr_arg_value(call, 0, &list));
    MR_TRY(mr_value_item(&list, 0, &item));
    return mr_value_ref(&item, &self->ref);
}

/* Follows a chain: each element is a list of a number and the future of the next element; the last has only the
 * number. */
MR_TASK(walk) {
    mr_context *context = mr_call_context(call);
    mr_value value, item;
    int64_t total = 0, number;
    mr_ref at;
    MR_TRY(mr_arg_value(call, 0, &value));
    MR_TRY(mr_value_item(&value, 0, &item));
    MR_TRY(mr_value_ref(&item, &at));
    MR_TRY(mr_retain(context, at));
    for (bool more = true; more;) {
        MR_TRY(mr_get(context, at, PATIENCE_US, &value));
        MR_TRY(mr_value_item(&value, 0, &item));
        MR_TRY(mr_value_int(&item, &number));
        total += number;
        mr_ref next = {{0}};
        more = mr_value_count(&value) > 1;
        if (more) {
            MR_TRY(mr_value_item(&value, 1, &item));
            MR_TRY(mr_value_ref(&item, &next));
            MR_TRY(mr_retain(context, next));
        }
        mr_value_release(&value);
        mr_release(context, at);
        at = next;
    }
    return mr_return(call, mr_int(total));
}

/* ---- Helpers. */

static mr_ref put_int(int64_t number) {
    mr_ref ref;
    assert_int_equal(mr_put(mr, mr_int(number), &ref), MR_OK);
    return ref;
}

static void done(mr_ref ref) {
    mr_value value;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
}

/* Nothing is left of any test: no record in this process, no object in the store. */
static void assert_nothing_left(void) { assert_true(object_listing_empties(mr)); }

/* ---- Tests. */

static void futures_in_a_list(void **state) {
    mr_ref refs[10], total;
    mr_arg args[10];
    for (int i = 0; i < 10; i++) {
        if (i % 2 == 0)
            refs[i] = put_int(i);
        else
            assert_int_equal(mr_call_task(mr, "slow_int", &refs[i], mr_int(i)), MR_OK); /* a pending future */
        args[i] = mr_future(refs[i]);
    }
    assert_int_equal(mr_call_task(mr, "sum_of_refs", &total, mr_list(args, 10)), MR_OK);
    for (int i = 0; i < 10; i++) mr_release(mr, refs[i]); /* the call holds the references */
    assert_int_equal(future_assert_int(mr, total), 45);
    assert_nothing_left();
}

static void a_list_that_was_put(void **state) {
    mr_ref a = put_int(20), b = put_int(22), list, total, echoed;
    mr_arg args[] = {mr_future(a), mr_future(b)};
    assert_int_equal(mr_put(mr, mr_list(args, 2), &list), MR_OK);
    mr_release(mr, a);
    mr_release(mr, b);
    assert_int_equal(mr_call_task(mr, "sum_of_refs", &total, mr_future(list)), MR_OK);
    assert_int_equal(future_assert_int(mr, total), 42);
    assert_int_equal(mr_call_task(mr, "echo", &echoed, mr_future(list)), MR_OK);
    assert_int_equal(mr_call_task(mr, "sum_of_refs", &total, mr_future(echoed)), MR_OK);
    mr_release(mr, list);
    assert_int_equal(future_assert_int(mr, total), 42);

    mr_value value, item;
    mr_ref inner;
    int64_t number;
    assert_int_equal(mr_get(mr, echoed, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_item(&value, 1, &item), MR_OK);
    assert_int_equal(mr_value_ref(&item, &inner), MR_OK);
    assert_int_equal(inner.word[1], b.word[1]); /* a reference stays the same in any number of processes */
    assert_int_equal(get_int(mr, inner, &number), MR_OK);
    assert_int_equal(number, 22);
    assert_int_equal(mr_retain(mr, inner), MR_OK);
    mr_value_release(&value);
    mr_release(mr, echoed);
    assert_int_equal(get_int(mr, inner, &number), MR_OK); /* retained */
    mr_release(mr, inner);
    assert_int_equal(mr_get(mr, inner, 0, &value), MR_NOT_FOUND);
    assert_int_equal(mr_retain(mr, inner), MR_NOT_FOUND);
    assert_nothing_left();
}

static void a_result_holds_futures_of_its_worker(void **state) {
    mr_ref list, total;
    assert_int_equal(mr_call_task(mr, "spawn", &list, mr_int(8)), MR_OK);
    assert_int_equal(mr_call_task(mr, "sum_of_refs", &total, mr_future(list)), MR_OK); /* a third process */
    assert_int_equal(future_assert_int(mr, total), 28);
    mr_value value, item;
    mr_ref inner;
    int64_t number;
    assert_int_equal(mr_get(mr, list, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_item(&value, 7, &item), MR_OK);
    assert_int_equal(mr_value_ref(&item, &inner), MR_OK);
    assert_int_equal(get_int(mr, inner, &number), MR_OK);
    assert_int_equal(number, 7);
    mr_value_release(&value);
    mr_release(mr, list);
    assert_nothing_left();
}

static void large_values_by_reference(void **state) {
    float *data = malloc(FLOATS * sizeof *data);
    for (int i = 0; i < FLOATS; i++) data[i] = 9;
    mr_ref tensor, last;
    mr_value value;
    double number;
    assert_int_equal(mr_put(mr, mr_vector(data, FLOATS), &tensor), MR_OK);
    free(data);
    mr_arg item = mr_future(tensor);
    assert_int_equal(mr_call_task(mr, "last_of_first", &last, mr_list(&item, 1)), MR_OK);
    mr_release(mr, tensor);
    assert_int_equal(mr_get(mr, last, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_float(&value, &number), MR_OK);
    assert_true(number == 9);
    mr_value_release(&value);
    mr_release(mr, last);
    assert_nothing_left();
}

static mr_actor new_holder(void) {
    mr_actor holder;
    assert_int_equal(mr_new_actor(mr, "Holder", &holder), MR_OK);
    return holder;
}

static void ask(mr_actor holder, const char *method, mr_ref inner) {
    mr_ref ref;
    mr_arg item = mr_future(inner);
    assert_int_equal(mr_call_actor(mr, holder, method, &ref, mr_list(&item, 1)), MR_OK);
    done(ref);
}

static void an_actor_keeps_a_reference(void **state) {
    mr_actor holder = new_holder(), other = new_holder();
    mr_ref pending, shown, given, kept;
    assert_int_equal(mr_call_task(mr, "slow_int", &pending, mr_int(5)), MR_OK);
    ask(holder, "keep", pending); /* pending: borrowed before the call was answered */
    mr_release(mr, pending);
    assert_int_equal(mr_call_actor(mr, holder, "give", &given), MR_OK);
    /* Passes the reference on to another actor. */
    assert_int_equal(mr_call_actor(mr, other, "keep", &kept, mr_future(given)), MR_OK);
    done(kept);
    mr_release(mr, given);
    assert_int_equal(mr_call_actor(mr, holder, "drop", &shown), MR_OK);
    done(shown);
    assert_int_equal(mr_call_actor(mr, other, "show", &shown), MR_OK);
    assert_int_equal(future_assert_int(mr, shown), 5);
    assert_int_equal(mr_call_actor(mr, other, "drop", &shown), MR_OK);
    done(shown);
    assert_nothing_left();
    assert_int_equal(mr_actor_kill(mr, holder), MR_OK);
    assert_int_equal(mr_actor_kill(mr, other), MR_OK);
}

static void an_object_without_references_is_deleted(void **state) {
    mr_actor holder = new_holder();
    mr_ref ref = put_int(1), answer;
    mr_value value;
    bool forgot;
    ask(holder, "look", ref);
    assert_int_equal(mr_call_actor(mr, holder, "forgets", &answer), MR_OK);
    assert_int_equal(mr_get(mr, answer, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_bool(&value, &forgot), MR_OK);
    assert_true(forgot);
    mr_value_release(&value);
    mr_release(mr, answer);
    mr_release(mr, ref);
    assert_int_equal(mr_actor_kill(mr, holder), MR_OK);
    assert_nothing_left();
}

/* A value that existed when its reference was sent outlives its owner, whatever its size. */
static void a_value_sent_with_its_reference_survives_its_owner(void **state) {
    static const int64_t sizes[] = {10, 1000, 2000, 20 * 1000, 60 * 1000, 100 * 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mr_actor holder = new_holder();
        mr_ref list, inner, gone;
        mr_value value, item;
        mr_span bytes;
        assert_int_equal(mr_call_actor(mr, holder, "make", &list, mr_int(sizes[i])), MR_OK);
        assert_int_equal(mr_get(mr, list, PATIENCE_US, &value), MR_OK);
        assert_int_equal(mr_value_item(&value, 0, &item), MR_OK);
        assert_int_equal(mr_value_ref(&item, &inner), MR_OK);
        assert_int_equal(mr_retain(mr, inner), MR_OK);
        mr_value_release(&value);
        mr_release(mr, list);
        assert_int_equal(mr_actor_kill(mr, holder), MR_OK);
        assert_int_equal(mr_call_actor(mr, holder, "forgets", &gone), MR_OK);
        assert_int_equal(mr_get(mr, gone, PATIENCE_US, &value), MR_ACTOR_DIED);
        mr_release(mr, gone);
        mr_status status = mr_get(mr, inner, PATIENCE_US, &value);
        if (status != MR_OK) fail_msg("%d bytes: %s", (int)sizes[i], mr_last_error());
        assert_int_equal(mr_value_bytes(&value, &bytes), MR_OK);
        assert_int_equal(bytes.size, sizes[i]);
        assert_int_equal(((const uint8_t *)bytes.data)[sizes[i] - 1], 7);
        mr_value_release(&value);
        mr_release(mr, inner);
    }
    assert_nothing_left();
}

/* The owner of futures dies: they fail with the cause. The death of a borrower drops its references. */
static void deaths(void **state) {
    mr_actor holder = new_holder();
    mr_ref pending;
    assert_int_equal(mr_call_task(mr, "slow_int", &pending, mr_int(5)), MR_OK);
    ask(holder, "keep", pending);
    mr_release(mr, pending);
    assert_int_equal(mr_actor_kill(mr, holder), MR_OK);
    assert_nothing_left();
}

static void ten_thousand(void **state) {
    enum { COUNT = 10000 };
    mr_ref *refs = calloc(COUNT, sizeof *refs), list, total;
    mr_arg *args = calloc(COUNT, sizeof *args);
    for (int i = 0; i < COUNT; i++) {
        refs[i] = put_int(1);
        args[i] = mr_future(refs[i]);
    }
    assert_int_equal(mr_put(mr, mr_list(args, COUNT), &list), MR_OK);
    for (int i = 0; i < COUNT; i++) mr_release(mr, refs[i]);
    free(refs);
    free(args);
    assert_int_equal(mr_call_task(mr, "sum_of_refs", &total, mr_future(list)), MR_OK);
    assert_int_equal(future_assert_int(mr, total), COUNT);
    mr_release(mr, list);
    assert_nothing_left();
}

/* Each value holds a reference to the previous one; the release is a loop, not a recursion. */
static void a_long_chain(void **state) {
    enum { COUNT = 100000, WALKED = 2000 };
    mr_ref at = {{0}}, walked = {{0}};
    for (int i = 0; i < COUNT; i++) {
        mr_ref next;
        mr_arg items[] = {mr_int(1), mr_future(at)};
        assert_int_equal(mr_put(mr, mr_list(items, i == 0 ? 1 : 2), &next), MR_OK);
        if (i > 0 && i != WALKED) mr_release(mr, at);
        at = next;
        if (i + 1 == WALKED) walked = at;
    }
    assert_int_equal(object_listing_here(mr), COUNT);
    mr_arg item = mr_future(walked);
    mr_ref total;
    assert_int_equal(mr_call_task(mr, "walk", &total, mr_list(&item, 1)), MR_OK);
    assert_int_equal(future_assert_int(mr, total), WALKED);
    mr_release(mr, walked);
    mr_release(mr, at);
    assert_nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(futures_in_a_list),
        cmocka_unit_test(a_list_that_was_put),
        cmocka_unit_test(a_result_holds_futures_of_its_worker),
        cmocka_unit_test(large_values_by_reference),
        cmocka_unit_test(an_actor_keeps_a_reference),
        cmocka_unit_test(an_object_without_references_is_deleted),
        cmocka_unit_test(a_value_sent_with_its_reference_survives_its_owner),
        cmocka_unit_test(deaths),
        cmocka_unit_test(ten_thousand),
        cmocka_unit_test(a_long_chain),
    };
    return runtime_main_with(tests, .num_workers = 3, .store_bytes = 64u << 20);
}
