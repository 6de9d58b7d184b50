/* object_test.c — life of an object; each unread failure is logged exactly once. */
#include "runtime/refs/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    objects objects;
    value_pack *values;
    failure *failed;
    int saved_stderr;
    FILE *said;
} fixture;

static int setup(void **state) {
    fixture *fixture = calloc(1, sizeof *fixture);
    objects_init(&fixture->objects, 77);
    mr_arg arg = mr_str("a text that does not fit into the object itself");
    value_pack_item item = {.arg = &arg};
    assert_int_equal(value_pack_create(&item, 1, &fixture->values), MR_OK);
    fixture->failed = failure_create(MR_TASK_FAILED, "it broke", "task 'x'", NULL);
    fflush(stderr);
    fixture->saved_stderr = dup(2);
    fixture->said = tmpfile();
    assert_non_null(fixture->said);
    assert_int_equal(dup2(fileno(fixture->said), 2), 2);
    *state = fixture;
    return 0;
}

static void fulfil(fixture *fixture, object *object) { object_fulfil(&fixture->objects, object, fixture->values, 0); }

/* How often the failure was printed. */
static int printed(fixture *fixture) {
    char text[4096];
    fflush(stderr);
    ssize_t size = pread(fileno(fixture->said), text, sizeof text - 1, 0);
    assert_true(size >= 0);
    text[size] = '\0';
    int count = 0;
    for (const char *at = text; (at = strstr(at, "task 'x': it broke")) != NULL; at++) count++;
    return count;
}

static int teardown(void **state) {
    fixture *fixture = *state;
    dup2(fixture->saved_stderr, 2);
    close(fixture->saved_stderr);
    fclose(fixture->said);
    objects_fini(&fixture->objects);
    int left = (int)fixture->objects.count;
    bool shared = fixture->values->refs != 1 || fixture->failed->refs != 1;
    value_pack_unref(fixture->values);
    failure_unref(fixture->failed);
    free(fixture);
    return left != 0 || shared; /* an object, or a reference of one, was left behind */
}

typedef struct watcher {
    object_waiter waiter;
    int calls;
    object_state seen;
    objects *objects;
    object *drops; /* object that the callback drops */
    object_waiter *unwaits;
} watcher;

static void called(object_waiter *waiter, object *object) {
    watcher *watcher = container_of(waiter, struct watcher, waiter);
    watcher->calls++;
    watcher->seen = object->state;
    object->seen = true;
    if (watcher->unwaits != NULL) object_unwait(watcher->unwaits);
    if (watcher->drops != NULL) object_drop(watcher->objects, watcher->drops);
}

static void watch(object *object, watcher *watcher) {
    watcher->waiter.fn = called;
    list_init(&watcher->waiter.place);
    object_wait(watcher->objects, object, &watcher->waiter);
}

static void an_object_is_found_while_it_is_named(void **state) {
    fixture *fixture = *state;
    object *object = object_create(&fixture->objects, true), *other = object_create(&fixture->objects, true);
    mr_ref ref = object->ref, foreign = {{78, ref.word[1]}};
    assert_true(ref.word[0] == 77 && ref.word[1] != other->ref.word[1]);
    assert_ptr_equal(object_find(&fixture->objects, ref), object);
    assert_ptr_equal(object_find(&fixture->objects, other->ref), other);
    assert_null(object_find(&fixture->objects, foreign));
    object_unname(&fixture->objects, object);
    assert_null(object_find(&fixture->objects, ref));
    object_unname(&fixture->objects, object); /* no effect: only the maker holds the object */
    assert_int_equal(fixture->objects.count, 2);
    object_drop(&fixture->objects, object);
    assert_int_equal(fixture->objects.count, 1);
    object_drop(&fixture->objects, other); /* objects_fini releases the program's reference */
}

static void those_without_a_name_are_not_found(void **state) {
    fixture *fixture = *state;
    object *object = object_create(&fixture->objects, false);
    assert_null(object_find(&fixture->objects, object->ref));
    object_unname(&fixture->objects, object);
    fulfil(fixture, object);
    object_drop(&fixture->objects, object);
}

static void waiters_are_called_once(void **state) {
    fixture *fixture = *state;
    for (int fails = 0; fails < 2; fails++) {
        object *object = object_create(&fixture->objects, true);
        watcher watchers[4] = {0};
        for (size_t i = 0; i < 4; i++) watch(object, &watchers[i]);
        object_unwait(&watchers[1].waiter);
        watchers[2].unwaits = &watchers[3].waiter; /* a waiter is removed in the callback of another one */
        if (fails)
            object_fail(&fixture->objects, object, fixture->failed);
        else
            fulfil(fixture, object);
        object_state expected = fails ? OBJECT_FAILED : OBJECT_READY;
        assert_true(watchers[0].calls == 1 && watchers[0].seen == expected);
        assert_true(watchers[1].calls == 0 && watchers[2].calls == 1 && watchers[3].calls == 0);
        object_unwait(&watchers[0].waiter); /* no effect after the callback */
        assert_null(object->maker);
        object_drop(&fixture->objects, object);
        object_unname(&fixture->objects, object);
    }
    assert_int_equal(printed(fixture), 0);
}

static void a_waiter_may_drop_the_last_hold(void **state) {
    fixture *fixture = *state;
    object *object = object_create(&fixture->objects, false);
    watcher watcher = {.objects = &fixture->objects, .drops = object};
    watch(object, &watcher);
    fulfil(fixture, object);
    assert_int_equal(watcher.calls, 1);
    assert_int_equal(fixture->objects.count, 0);
}

static void a_value_outlives_its_name(void **state) {
    fixture *fixture = *state;
    object *object = object_create(&fixture->objects, true);
    object_hold(object); /* a view */
    fulfil(fixture, object);
    assert_int_equal(fixture->values->refs, 2);
    object_drop(&fixture->objects, object);
    object_unname(&fixture->objects, object);
    assert_true(object->owner == fixture->values && fixture->values->refs == 2);
    object_drop(&fixture->objects, object);
    assert_int_equal(fixture->values->refs, 1);
}

static void a_small_value_lies_in_the_object(void **state) {
    fixture *fixture = *state;
    const uint8_t five[] = {5};
    object *object = object_create(&fixture->objects, true);
    object_fulfil_small(&fixture->objects, object, span_of(five, 1));
    assert_null(object->owner);
    assert_true(object->value.bytes.data != five && object->value.bytes.size == 1 && object->value.bytes.data[0] == 5);
    object_drop(&fixture->objects, object);
}

/* Places are reused: a stale reference finds no object. */
static void an_old_reference_finds_nothing(void **state) {
    fixture *fixture = *state;
    mr_ref old[100];
    for (int i = 0; i < 100; i++) {
        object *object = object_create(&fixture->objects, true);
        for (int k = 0; k < i; k++) assert_null(object_find(&fixture->objects, old[k]));
        old[i] = object->ref;
        assert_ptr_equal(object_find(&fixture->objects, old[i]), object);
        fulfil(fixture, object);
        object_drop(&fixture->objects, object);
        object_unname(&fixture->objects, object);
    }
    assert_null(object_find(&fixture->objects, (mr_ref){{77, 0}}));
    assert_null(object_find(&fixture->objects, (mr_ref){{77, UINT64_MAX}}));
    assert_true(fixture->objects.slab.count <= SLAB_CHUNK);
}

/* ---- Failures of objects that are released before or after, have no reference, are read, or are cancelled. */

static void an_unread_failure_is_printed_when_it_is_released(void **state) {
    fixture *fixture = *state;
    object *object = object_create(&fixture->objects, true);
    object_fail(&fixture->objects, object, fixture->failed);
    assert_int_equal(printed(fixture), 0); /* the program may still read it */
    object_hold(object);
    object_unname(&fixture->objects, object);
    assert_int_equal(printed(fixture), 1);
    object_unname(&fixture->objects, object);
    object_drop(&fixture->objects, object);
    object_drop(&fixture->objects, object);
    assert_int_equal(printed(fixture), 1);
}

static void one_that_comes_after_the_release_is_printed_at_once(void **state) {
    fixture *fixture = *state;
    object *released = object_create(&fixture->objects, true), *nameless = object_create(&fixture->objects, false);
    object_unname(&fixture->objects, released);
    object_fail(&fixture->objects, released, fixture->failed);
    assert_int_equal(printed(fixture), 1);
    object_fail(&fixture->objects, nameless, fixture->failed);
    assert_int_equal(printed(fixture), 2);
    object_drop(&fixture->objects, released);
    object_drop(&fixture->objects, nameless);
    assert_int_equal(printed(fixture), 2);
}

static void one_that_was_seen_is_not_printed(void **state) {
    fixture *fixture = *state;
    object *looked = object_create(&fixture->objects, true), *waited = object_create(&fixture->objects, false);
    object_fail(&fixture->objects, looked, fixture->failed);
    looked->seen = true;
    object_unname(&fixture->objects, looked);
    watcher watcher = {0};
    watch(waited, &watcher);
    object_fail(&fixture->objects, waited, fixture->failed);
    object_drop(&fixture->objects, looked);
    object_drop(&fixture->objects, waited);
    assert_int_equal(printed(fixture), 0);
}

static void wanted(void *host, object *object) { ++*(int *)host; }
static void let_go(void *host, object *object) {}

/* A failure of a borrowed object is logged by its owner, which is informed once when the program reads the failure. */
static void one_of_another_process_is_told_of(void **state) {
    fixture *fixture = *state;
    static const objects_ops ops = {.wanted = wanted, .let_go = let_go};
    int told = 0;
    fixture->objects.ops = &ops;
    fixture->objects.host = &told;
    object *looked = object_meet(&fixture->objects, (mr_ref){{5, 1}});
    object *ignored = object_meet(&fixture->objects, (mr_ref){{5, 2}});
    looked->seen = ignored->seen = false;
    object_fail(&fixture->objects, looked, fixture->failed);
    object_fail(&fixture->objects, ignored, fixture->failed);
    object_see(&fixture->objects, looked);
    object_see(&fixture->objects, looked);
    assert_int_equal(told, 1);
    object_drop(&fixture->objects, looked);
    object_drop(&fixture->objects, ignored);
    assert_int_equal(told, 1);
    assert_int_equal(printed(fixture), 0);
}

/* A borrowed object is found in any order of lookups, also when its neighbours were freed. */
static void each_of_anothers_is_found_by_its_own_reference(void **state) {
    enum { COUNT = 200 };
    fixture *fixture = *state;
    static const objects_ops ops = {.wanted = wanted, .let_go = let_go};
    object *met[COUNT];
    fixture->objects.ops = &ops;
    for (uint64_t i = 0; i < COUNT; i++) met[i] = object_meet(&fixture->objects, (mr_ref){{5 + i % 2, i / 2}});
    for (size_t i = 0; i < COUNT; i++) assert_ptr_equal(object_known(&fixture->objects, met[i]->ref), met[i]);
    for (size_t i = COUNT; i-- > 0;) assert_ptr_equal(object_known(&fixture->objects, met[i]->ref), met[i]);
    for (size_t i = 0; i < COUNT; i += 3) object_drop(&fixture->objects, met[i]);
    for (uint64_t i = 0; i < COUNT; i++) {
        object *known = object_known(&fixture->objects, (mr_ref){{5 + i % 2, i / 2}});
        if (i % 3 == 0)
            assert_null(known);
        else
            assert_ptr_equal(known, met[i]);
        assert_null(object_known(&fixture->objects, (mr_ref){{7, i / 2}}));
    }
    for (size_t i = 0; i < COUNT; i++)
        if (i % 3 != 0) object_drop(&fixture->objects, met[i]);
}

static void a_cancelled_one_is_not_printed(void **state) {
    fixture *fixture = *state;
    failure *cancelled = failure_create(MR_CANCELLED, "it broke", "task 'x'", NULL);
    object *object = object_create(&fixture->objects, true);
    object_fail(&fixture->objects, object, cancelled);
    object_unname(&fixture->objects, object);
    object_drop(&fixture->objects, object);
    failure_unref(cancelled);
    assert_int_equal(printed(fixture), 0);
}

static void the_end_of_a_program_says_nothing(void **state) {
    fixture *fixture = *state;
    for (int i = 0; i < 100; i++) {
        object *object = object_create(&fixture->objects, true);
        if (i % 3 == 0) object_fail(&fixture->objects, object, fixture->failed);
        if (i % 3 == 1) fulfil(fixture, object);
        object_drop(&fixture->objects, object);
    }
    objects_fini(&fixture->objects);
    assert_int_equal(fixture->objects.count, 0);
    assert_int_equal(printed(fixture), 0);
    objects_init(&fixture->objects, 77);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_object_is_found_while_it_is_named),
        TEST(those_without_a_name_are_not_found),
        TEST(waiters_are_called_once),
        TEST(a_waiter_may_drop_the_last_hold),
        TEST(a_value_outlives_its_name),
        TEST(a_small_value_lies_in_the_object),
        TEST(an_old_reference_finds_nothing),
        TEST(an_unread_failure_is_printed_when_it_is_released),
        TEST(one_that_comes_after_the_release_is_printed_at_once),
        TEST(one_that_was_seen_is_not_printed),
        TEST(one_of_another_process_is_told_of),
        TEST(each_of_anothers_is_found_by_its_own_reference),
        TEST(a_cancelled_one_is_not_printed),
        TEST(the_end_of_a_program_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
