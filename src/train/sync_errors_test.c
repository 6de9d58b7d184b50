/* sync_errors_test.c — the failure of a sync is raised once, unless its future was read or is still held. */
#include "train/sync_errors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"

/* ---- An actor whose calls stand for syncs: they fail or succeed, in order. */

MR_CREATE(Synced) { return MR_OK; }
MR_METHOD(Synced, fail) { return mr_fail(call, "the sync is lost"); }
MR_METHOD(Synced, succeed) { return mr_return(call, mr_int(1)); }

static mr_actor synced;
static const mr_actor one = {{1, 1}}, two = {{2, 1}}; /* sync_errors only compares servers */

static mr_ref begin(const char *method) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, synced, method, &ref), MR_OK);
    return ref;
}

static void let_it_end(void) { assert_int_equal(future_assert_int(mr, begin("succeed")), 1); }

/* A sync whose future is released at once. */
static mr_ref enter(mr_actor server, const char *method, const mr_ref *owed) {
    mr_ref ref = begin(method);
    sync_errors_enter(mr, server, ref, owed);
    mr_release(mr, ref);
    return ref;
}

static bool owes(mr_actor server) {
    mr_ref ref;
    bool is = sync_errors_owes(mr, server, &ref);
    if (is) mr_release(mr, ref);
    return is;
}

static int set_up(void **state) { return mr_new_actor(mr, "Synced", &synced, mr_nil()) == MR_OK ? 0 : -1; }

static int tear_down(void **state) {
    mr_actor_release(mr, synced);
    return 0;
}

/* ---- */

static void nothing_is_owed_at_first_nor_of_what_went_well(void **state) {
    assert_false(owes(one));
    enter(one, "succeed", NULL);
    let_it_end();
    assert_false(owes(one));
}

static void a_dropped_failure_is_raised_once_by_its_server(void **state) {
    enter(one, "fail", NULL);
    let_it_end();
    assert_false(owes(two));
    mr_ref ref;
    assert_true(sync_errors_owes(mr, one, &ref));
    assert_int_equal(future_assert_failure(mr, ref), MR_TASK_FAILED);
    assert_non_null(mr_last_error());
    assert_false(owes(one));
}

static void a_pending_sync_is_an_argument(void **state) {
    mr_ref ref = begin("fail"), owed;
    sync_errors_enter(mr, one, ref, NULL);
    mr_release(mr, ref);
    bool was = sync_errors_owes(mr, one, &owed); /* it is owed, whether it is pending or has failed */
    assert_true(was);
    assert_int_equal(future_assert_failure(mr, owed), MR_TASK_FAILED);
    assert_false(owes(one));
}

static void a_failure_that_is_held_or_was_read_is_not_owed(void **state) {
    mr_ref held = begin("fail");
    sync_errors_enter(mr, one, held, NULL);
    let_it_end();
    assert_false(owes(one));
    assert_int_equal(future_assert_failure(mr, held), MR_TASK_FAILED); /* reads and releases the future */
    assert_false(owes(one));
}

static void the_last_sync_counts(void **state) {
    enter(one, "fail", NULL);
    enter(one, "succeed", NULL);
    let_it_end();
    assert_false(owes(one));
}

/* A sync that failed because its argument, the owed future, failed is not raised. */
static void a_failure_is_not_told_again_by_the_one_that_it_caused(void **state) {
    mr_ref cause = begin("fail");
    enter(one, "fail", &cause);
    let_it_end();
    assert_false(owes(one));
    assert_int_equal(future_assert_failure(mr, cause), MR_TASK_FAILED);
    mr_ref fine = begin("succeed");
    enter(one, "fail", &fine);
    let_it_end();
    assert_true(owes(one));
    mr_release(mr, fine);
}

static void an_error_reported_by_another_future_is_not_owed(void **state) {
    mr_ref ref = begin("fail");
    sync_errors_hush(mr, &ref, 1);
    sync_errors_enter(mr, one, ref, NULL);
    mr_release(mr, ref);
    let_it_end();
    assert_false(owes(one));
    sync_errors_hush(mr, &ref, 1); /* a released future is ignored */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_owed_at_first_nor_of_what_went_well),
        TEST(a_dropped_failure_is_raised_once_by_its_server),
        TEST(a_pending_sync_is_an_argument),
        TEST(a_failure_that_is_held_or_was_read_is_not_owed),
        TEST(the_last_sync_counts),
        TEST(a_failure_is_not_told_again_by_the_one_that_it_caused),
        TEST(an_error_reported_by_another_future_is_not_owed),
    };
    return runtime_main(tests);
}
