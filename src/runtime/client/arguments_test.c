/* arguments_test.c — futures as arguments: settled in any order, failed, ready from the begin, or released while
 * pending. */
#include "runtime/client/arguments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/value.h"

typedef struct pending_call { /* owner of arguments, such as a task */
    arguments arguments;
    int settled;
    bool ends_inside; /* releases the arguments in `settled`, as a task that cannot start does */
} pending_call;

static void settled(arguments *arguments) {
    pending_call *call = container_of(arguments, pending_call, arguments);
    call->settled++;
    assert_true(arguments_are_settled(arguments));
    if (call->ends_inside) arguments_fini(arguments);
}

static value_pack *pack_of(mr_arg arg) {
    value_pack_item item = {.arg = &arg};
    value_pack *made = NULL;
    assert_int_equal(value_pack_create(&item, 1, &made), MR_OK);
    return made;
}

static void fulfil(objects *objects, object *object, int64_t number) {
    value_pack *values = pack_of(mr_int(number));
    object_fulfil(objects, object, values, 0);
    value_pack_unref(values);
}

static void fail_object_with(objects *objects, object *object, mr_status code, const char *message) {
    failure *failed = failure_create(code, message, "task 'first'", NULL);
    object_fail(objects, object, failed);
    failure_unref(failed);
}

static void fail_object(objects *objects, object *object, const char *message) {
    fail_object_with(objects, object, MR_WORKER_DIED, message);
}

static value_pack_view view_of(const arguments *arguments) {
    value_pack_view view;
    assert_int_equal(value_pack_open(arguments_bytes(arguments), &view), MR_OK);
    return view;
}

static int64_t int_at(const arguments *arguments, uint32_t index) {
    value_doc doc;
    mr_value root;
    int64_t number = INT64_MIN;
    value_pack_view view = view_of(arguments);
    value_pack_entry entry = value_pack_view_entry(&view, index);
    assert_int_equal(value_pack_entry_open(&entry, &doc, &root), MR_OK);
    assert_int_equal(mr_value_int(&root, &number), MR_OK);
    value_close(&doc);
    return number;
}

/* Asserts that only makers and the program's references hold the objects, and releases those. */
static void nothing_is_left(objects *objects, object **made, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_true(list_empty(&made[i]->waiters));
        made[i]->seen = true;
        object_drop(objects, made[i]);
    }
    objects_fini(objects);
    assert_int_equal(objects->count, 0);
}

static void plain_arguments_are_settled_at_once(void **state) {
    objects objects;
    objects_init(&objects, 1);
    pending_call call = {0};
    mr_arg args[] = {mr_int(3), mr_int(4)};
    assert_int_equal(arguments_init(&call.arguments, &objects, args, 2, ARGUMENTS_FAIL, NULL, settled), MR_OK);
    assert_true(arguments_are_settled(&call.arguments) && call.settled == 0);
    assert_true(int_at(&call.arguments, 0) == 3 && int_at(&call.arguments, 1) == 4);
    arguments_fini(&call.arguments);
    assert_int_equal(arguments_init(&call.arguments, &objects, NULL, 0, ARGUMENTS_FAIL, NULL, settled), MR_OK);
    assert_int_equal(view_of(&call.arguments).count, 0);
    arguments_fini(&call.arguments);
    nothing_is_left(&objects, NULL, 0);
}

static void large_plain_ones_may_stay_with_the_caller(void **state) {
    objects objects;
    objects_init(&objects, 1);
    object *made = object_create(&objects, true);
    static const uint8_t large[1000];
    mr_arg bytes = mr_bytes(large, sizeof large), few = mr_int(1), future = mr_future(made->ref),
           list = mr_list(&future, 1);
    const struct {
        mr_arg second;
        bool stays;
    } cases[] = {{mr_int(2), true}, {future, false}, {list, false}};
    for (size_t i = 0; i < 3; i++) {
        pending_call call = {0};
        mr_arg args[] = {bytes, cases[i].second};
        size_t straight = 0;
        assert_int_equal(arguments_init(&call.arguments, &objects, args, 2, ARGUMENTS_FAIL, &straight, settled), MR_OK);
        assert_true((straight > sizeof large) == cases[i].stays);
        if (cases[i].stays) assert_int_equal(view_of(&call.arguments).count, 0);
        arguments_fini(&call.arguments);
    }
    pending_call call = {0};
    size_t straight = 0;
    assert_int_equal(arguments_init(&call.arguments, &objects, &few, 1, ARGUMENTS_FAIL, &straight, settled), MR_OK);
    assert_true(straight == 0 && int_at(&call.arguments, 0) == 1); /* one small argument is stored in the record */
    arguments_fini(&call.arguments);
    nothing_is_left(&objects, &made, 1);
}

enum { FUTURES = 4 };
static const int orders[24][FUTURES] = {
    {0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1}, {1, 0, 2, 3}, {1, 0, 3, 2},
    {1, 2, 0, 3}, {1, 2, 3, 0}, {1, 3, 0, 2}, {1, 3, 2, 0}, {2, 0, 1, 3}, {2, 0, 3, 1}, {2, 1, 0, 3}, {2, 1, 3, 0},
    {2, 3, 0, 1}, {2, 3, 1, 0}, {3, 0, 1, 2}, {3, 0, 2, 1}, {3, 1, 0, 2}, {3, 1, 2, 0}, {3, 2, 0, 1}, {3, 2, 1, 0}};

/* Two plain arguments and five futures, two of them of the same object. `early` objects settle before arguments_init;
 * `release`: the program releases its references after it. `failing` is the object that fails; -1: none. */
static void one_history(const int *order, int early, int failing, bool release, bool ends_inside) {
    objects objects;
    objects_init(&objects, 1);
    object *made[FUTURES];
    for (int i = 0; i < FUTURES; i++) made[i] = object_create(&objects, true);
    mr_arg args[] = {mr_int(-1),
                     mr_future(made[0]->ref),
                     mr_future(made[1]->ref),
                     mr_int(-2),
                     mr_future(made[2]->ref),
                     mr_future(made[3]->ref),
                     mr_future(made[0]->ref)};
    pending_call call = {.ends_inside = ends_inside};
    bool over = false; /* whether the outcome is known */
    for (int i = 0; i <= FUTURES; i++) {
        if (i == early) {
            assert_int_equal(arguments_init(&call.arguments, &objects, args, 7, ARGUMENTS_FAIL, NULL, settled), MR_OK);
            assert_int_equal(arguments_are_settled(&call.arguments), over || early == FUTURES);
            for (int k = 0; release && k < FUTURES; k++) object_unname(&objects, made[k]);
        }
        if (i == FUTURES) break;
        if (order[i] == failing)
            fail_object(&objects, made[order[i]], "no luck");
        else
            fulfil(&objects, made[order[i]], 100 + order[i]);
        over = over || order[i] == failing || i == FUTURES - 1;
        int expected = i >= early && over ? 1 : 0;
        bool was_settled_before = false;
        for (int k = 0; k < early; k++) was_settled_before |= order[k] == failing;
        if (was_settled_before) expected = 0;
        assert_int_equal(call.settled, expected);
    }
    if (!(ends_inside && call.settled == 1)) {
        assert_true(arguments_are_settled(&call.arguments));
        if (failing >= 0) {
            const failure *failed = call.arguments.failed;
            assert_non_null(failed);
            assert_int_equal(failed->code, MR_WORKER_DIED);
            assert_string_equal(failed->cause->message, "no luck");
            assert_null(call.arguments.values);
        } else {
            static const int64_t numbers[] = {-1, 100, 101, -2, 102, 103, 100};
            assert_int_equal(view_of(&call.arguments).count, 7);
            for (uint32_t i = 0; i < 7; i++) assert_true(int_at(&call.arguments, i) == numbers[i]);
        }
        arguments_fini(&call.arguments);
    }
    nothing_is_left(&objects, made, FUTURES);
}

static void they_may_come_in_any_order(void **state) {
    for (size_t order = 0; order < 24; order++)
        for (int early = 0; early <= FUTURES; early++)
            for (int failing = -1; failing < FUTURES; failing++)
                for (int flags = 0; flags < 4; flags++)
                    one_history(orders[order], early, failing, flags & 1, flags & 2);
}

/* The first failure is the cause; a second one is not reported. */
static void the_first_failure_counts(void **state) {
    objects objects;
    objects_init(&objects, 1);
    object *made[2] = {object_create(&objects, true), object_create(&objects, true)};
    mr_arg args[] = {mr_future(made[0]->ref), mr_future(made[1]->ref)};
    pending_call call = {0};
    assert_int_equal(arguments_init(&call.arguments, &objects, args, 2, ARGUMENTS_FAIL, NULL, settled), MR_OK);
    fail_object(&objects, made[1], "first");
    fail_object(&objects, made[0], "second");
    assert_int_equal(call.settled, 1);
    assert_string_equal(call.arguments.failed->cause->message, "first");
    assert_true(made[0]->seen && made[1]->seen);
    arguments_fini(&call.arguments);
    nothing_is_left(&objects, made, 2);
}

/* A failed future is an error value, whether it fails before or after arguments_init. */
static void failures_may_be_values(void **state) {
    for (int early = 0; early < 2; early++) {
        objects objects;
        objects_init(&objects, 1);
        object *made[2] = {object_create(&objects, true), object_create(&objects, true)};
        mr_arg args[] = {mr_future(made[0]->ref), mr_future(made[1]->ref)};
        pending_call call = {0};
        if (early) fail_object(&objects, made[1], "no luck");
        assert_int_equal(arguments_init(&call.arguments, &objects, args, 2, ARGUMENTS_TAKE, NULL, settled), MR_OK);
        if (!early) fail_object(&objects, made[1], "no luck");
        assert_false(arguments_are_settled(&call.arguments));
        fulfil(&objects, made[0], 7);
        assert_int_equal(call.settled, 1);
        assert_null(call.arguments.failed);
        assert_true(int_at(&call.arguments, 0) == 7);
        value_pack_view view = view_of(&call.arguments);
        value_pack_entry entry = value_pack_view_entry(&view, 1);
        value_doc doc;
        mr_value root;
        mr_error error;
        assert_int_equal(value_pack_entry_open(&entry, &doc, &root), MR_OK);
        assert_int_equal(mr_value_error(&root, 0, &error), MR_OK);
        assert_int_equal(error.code, MR_WORKER_DIED);
        assert_memory_equal(error.message.data, "no luck", 7);
        assert_int_equal(mr_value_error(&root, 1, &error), MR_NOT_FOUND);
        value_close(&doc);
        arguments_fini(&call.arguments);
        nothing_is_left(&objects, made, 2);
    }
}

static void deaths_alone_may_be_values(void **state) {
    const mr_status codes[] = {MR_WORKER_DIED, MR_ACTOR_DIED, MR_TASK_FAILED, MR_CANCELLED};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        objects objects;
        objects_init(&objects, 1);
        object *made = object_create(&objects, true);
        mr_arg arg = mr_future(made->ref);
        pending_call call = {0};
        assert_int_equal(arguments_init(&call.arguments, &objects, &arg, 1, ARGUMENTS_TAKE_DEATHS, NULL, settled),
                         MR_OK);
        fail_object_with(&objects, made, codes[i], "no luck");
        assert_int_equal(call.settled, 1);
        assert_true((call.arguments.failed == NULL) == (i < 2));
        if (i >= 2) assert_int_equal(call.arguments.failed->code, codes[i]);
        arguments_fini(&call.arguments);
        nothing_is_left(&objects, &made, 1);
    }
}

static void given_up_they_hold_nothing(void **state) {
    objects objects;
    objects_init(&objects, 1);
    object *made[2] = {object_create(&objects, true), object_create(&objects, true)};
    mr_arg args[] = {mr_future(made[0]->ref), mr_future(made[1]->ref)};
    pending_call call = {0};
    assert_int_equal(arguments_init(&call.arguments, &objects, args, 2, ARGUMENTS_FAIL, NULL, settled), MR_OK);
    fulfil(&objects, made[0], 1);
    arguments_fini(&call.arguments); /* the call is cancelled */
    fulfil(&objects, made[1], 2);
    assert_int_equal(call.settled, 0);
    nothing_is_left(&objects, made, 2);
}

static void wrong_arguments_are_refused(void **state) {
    objects objects;
    objects_init(&objects, 1);
    object *made[1] = {object_create(&objects, true)};
    mr_ref unknown = {{1, 999}}, foreign = {{2, made[0]->ref.word[1]}};
    mr_arg inner[] = {mr_str("key"), mr_future(unknown)}, deeper = mr_tuple(inner, 2);
    const mr_arg bad[] = {mr_future(unknown), mr_future(foreign),  mr_list(inner, 2), mr_tuple(inner, 2),
                          mr_map(inner, 1),   mr_list(&deeper, 1), mr_text("\xff", 1)};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pending_call call = {0};
        mr_arg args[] = {mr_future(made[0]->ref), mr_int(1), bad[i]};
        assert_int_equal(arguments_init(&call.arguments, &objects, args, 3, ARGUMENTS_FAIL, NULL, settled), MR_INVALID);
        assert_non_null(strstr(mr_last_error(), "argument 2"));
        assert_int_equal(made[0]->holds, 2);
        assert_true(list_empty(&made[0]->waiters));
    }
    nothing_is_left(&objects, made, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_arguments_are_settled_at_once),
        cmocka_unit_test(large_plain_ones_may_stay_with_the_caller),
        cmocka_unit_test(they_may_come_in_any_order),
        cmocka_unit_test(the_first_failure_counts),
        cmocka_unit_test(failures_may_be_values),
        cmocka_unit_test(deaths_alone_may_be_values),
        cmocka_unit_test(given_up_they_hold_nothing),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
