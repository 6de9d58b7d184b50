/* placement_test.c — placement groups: reserved resources are not given to others, tasks and actors run in a bundle,
 * and those in a removed group end with that cause. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/placement.h"
#include "tests/support/inspect_fixture.h"
#include "tests/support/sanitized.h"

enum { SOON_US = 300 * 1000 };

MR_CREATE(Echo) { return MR_OK; }
MR_METHOD(Echo, nothing) { return MR_OK; }
MR_METHOD(Echo, stay) {
    while (pause() != 0) {}
    return MR_OK;
}

/* Removes a placement group, with a reason. */
MR_TASK(demolish) {
    int64_t words[2];
    MR_TRY(mr_arg_int(call, 0, &words[0]));
    MR_TRY(mr_arg_int(call, 1, &words[1]));
    mr_placement_group_remove(mr_call_context(call), (mr_placement_group){{(uint64_t)words[0], (uint64_t)words[1]}});
    return mr_return(call, mr_int(1));
}

static mr_placement_group make(const char *const *bundles, size_t count, mr_placement_strategy strategy) {
    mr_placement_group group;
    mr_placement_group_options options =
        MR_OPTIONS(mr_placement_group_options, .bundles = bundles, .count = count, .strategy = strategy);
    assert_int_equal(mr_placement_group_create(seen.mr, &options, &group), MR_OK);
    return group;
}

static int64_t free_milli(const char *name) {
    mr_value answer = inspect_fixture_ask("resources", NULL, 0), row;
    assert_true(inspect_fixture_find_row(&answer, "resources", "name", name, &row));
    int64_t milli = inspect_fixture_number(&row, "free");
    mr_value_release(&answer);
    return milli;
}

static void await_free(const char *name, int64_t milli) {
    for (int i = 0; i < INSPECT_FIXTURE_TRIES && free_milli(name) != milli; i++) usleep(1000);
    assert_int_equal(free_milli(name), milli);
}

static mr_ref add_in(mr_placement_group group, int bundle, double cpus) {
    mr_ref ref;
    mr_task_options options = MR_OPTIONS(mr_task_options, .num_cpus = cpus, .placement_group = group, .bundle = bundle);
    assert_int_equal(mr_task_submit(seen.mr, "add", &options, MR_ARGS(mr_int(1), mr_int(2)), &ref), MR_OK);
    return ref;
}

static mr_ref hold_in(mr_placement_group group, int bundle) {
    mr_ref ref;
    mr_task_options options =
        MR_OPTIONS(mr_task_options, .placement_group = group, .bundle = bundle, .max_retries = -1);
    assert_int_equal(mr_task_submit(seen.mr, "hold", &options, MR_ARGS(mr_str(seen.gate)), &ref), MR_OK);
    return ref;
}

static void fails(mr_ref ref, mr_status status, const char *text) {
    mr_value value;
    assert_int_equal(mr_get(seen.mr, ref, INSPECT_FIXTURE_PATIENCE_US, &value), status);
    inspect_fixture_assert_has(mr_last_error(), text);
    mr_release(seen.mr, ref);
}

static void a_group_is_set_aside_and_given_back(void **state) {
    const char *const bundles[] = {"cpu=1", "cpu=1.5"};
    inspect_fixture_start(4);
    mr_placement_group group = make(bundles, 2, MR_PACK);
    assert_int_equal(mr_placement_group_wait(seen.mr, group, INSPECT_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(free_milli("cpu"), 1500);
    mr_value groups = inspect_fixture_ask("groups", NULL, 10), row;
    assert_true(inspect_fixture_find_row(&groups, "groups", "state", "placed", &row));
    assert_int_equal(inspect_fixture_text(&row, "id")[0], 'g');
    mr_value bundles_shown = inspect_fixture_field(&row, "bundles");
    assert_int_equal(mr_value_count(&bundles_shown), 2);
    mr_value_release(&groups);
    assert_int_equal(mr_placement_group_wait(seen.mr, group, INSPECT_FIXTURE_PATIENCE_US), MR_OK);
    mr_ref refs[] = {add_in(group, 1, 1), add_in(group, 2, 1.5), add_in(group, 0, 0.5)};
    for (int i = 0; i < 3; i++) inspect_fixture_finish(refs[i]);
    mr_placement_group_remove(seen.mr, group);
    await_free("cpu", 4000);
    assert_int_equal(mr_placement_group_wait(seen.mr, group, INSPECT_FIXTURE_PATIENCE_US), MR_NOT_FOUND);
    fails(add_in(group, 1, 1), MR_NOT_FOUND, "its placement group was removed");
    inspect_fixture_stop();
}

/* An idle worker of the group gets no task that is submitted after the removal. */
static void requests_after_the_removal_are_refused(void **state) {
    enum { TURNS = 20 };
    const char *const bundles[] = {"cpu=1"};
    inspect_fixture_start(2);
    for (int i = 0; i < TURNS; i++) {
        mr_placement_group group = make(bundles, 1, MR_PACK);
        inspect_fixture_finish(add_in(group, 1, 1));
        mr_placement_group_remove(seen.mr, group);
        fails(add_in(group, 1, 1), MR_NOT_FOUND, "its placement group was removed");
    }
    await_free("cpu", 2000);
    inspect_fixture_stop();
}

static size_t used_bytes(void) { return mallinfo2().uordblks; }

/* Each group and each amount is a separate scheduling class. The driver frees its record of a class with the last
 * task. */
static void needs_that_are_not_in_use_take_no_memory(void **state) {
    enum { WARM = 40, TURNS = 150, MOST = 150 * 1000 };
    const char *const bundles[] = {"cpu=1"};
    size_t before = 0;
    if (SANITIZED) skip(); /* the sanitizer's allocator does not report memory */
    inspect_fixture_start(2);
    for (int i = 0; i < WARM + TURNS; i++) {
        if (i == WARM) before = used_bytes();
        mr_placement_group group = make(bundles, 1, MR_PACK);
        inspect_fixture_finish(add_in(group, 1, 0.5));
        mr_placement_group_remove(seen.mr, group);
        inspect_fixture_finish(add_in((mr_placement_group){{0, 0}}, 0, 0.001 * (i + 1)));
    }
    assert_true(used_bytes() < before + MOST);
    inspect_fixture_stop();
}

/* The creator's record of a group is updated when the node changes it. */
static void the_creator_learns_that_another_removed_its_group(void **state) {
    const char *const bundles[] = {"cpu=1"};
    mr_ref ref;
    inspect_fixture_start(2);
    mr_placement_group group = make(bundles, 1, MR_PACK);
    assert_int_equal(mr_placement_group_wait(seen.mr, group, INSPECT_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_placement_group_wait(seen.mr, group, 0), MR_OK); /* the answer is cached: no request is sent */
    assert_int_equal(
        mr_call_task(seen.mr, "demolish", &ref, mr_int((int64_t)group.word[0]), mr_int((int64_t)group.word[1])), MR_OK);
    inspect_fixture_finish(ref);
    await_free("cpu", 2000);
    assert_int_equal(mr_placement_group_wait(seen.mr, group, INSPECT_FIXTURE_PATIENCE_US), MR_NOT_FOUND);
    inspect_fixture_stop();
}

/* The node's confirmation of the placement may arrive after the removal. */
static void a_group_that_is_removed_at_once_is_not_placed(void **state) {
    enum { TURNS = 100 };
    const char *const bundles[] = {"cpu=1"};
    inspect_fixture_start(1);
    for (int i = 0; i < TURNS; i++) {
        mr_placement_group group = make(bundles, 1, MR_PACK);
        mr_placement_group_remove(seen.mr, group);
        mr_placement_group other = make(bundles, 1, MR_PACK);
        assert_int_equal(mr_placement_group_wait(seen.mr, other, INSPECT_FIXTURE_PATIENCE_US), MR_OK);
        assert_int_equal(mr_placement_group_wait(seen.mr, group, INSPECT_FIXTURE_PATIENCE_US), MR_NOT_FOUND);
        mr_placement_group_remove(seen.mr, other);
    }
    inspect_fixture_stop();
}

static void a_group_waits_for_busy_resources(void **state) {
    const char *const whole[] = {"cpu=2"};
    inspect_fixture_start(2);
    mr_placement_group first = make(whole, 1, MR_STRICT_PACK), second = make(whole, 1, MR_SPREAD);
    assert_int_equal(mr_placement_group_wait(seen.mr, first, INSPECT_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_placement_group_wait(seen.mr, second, SOON_US), MR_TIMEOUT);
    mr_ref inside = add_in(second, 1, 1); /* this task waits for its placement group */
    mr_placement_group_remove(seen.mr, first);
    assert_int_equal(mr_placement_group_wait(seen.mr, second, INSPECT_FIXTURE_PATIENCE_US), MR_OK);
    inspect_fixture_finish(inside);
    mr_placement_group_remove(seen.mr, second);
    inspect_fixture_stop();
}

static void the_impossible_waits(void **state) {
    const char *const two[] = {"cpu=1", "cpu=1"}, *const much[] = {"cpu=3"};
    inspect_fixture_start(2);
    mr_placement_group apart = make(two, 2, MR_STRICT_SPREAD), large = make(much, 1, MR_PACK);
    assert_int_equal(mr_placement_group_wait(seen.mr, apart, SOON_US), MR_TIMEOUT);
    assert_int_equal(mr_placement_group_wait(seen.mr, large, SOON_US), MR_TIMEOUT);
    mr_placement_group one = make(two, 1, MR_STRICT_SPREAD);
    assert_int_equal(mr_placement_group_wait(seen.mr, one, INSPECT_FIXTURE_PATIENCE_US), MR_OK);
    mr_placement_group_remove(seen.mr, apart);
    assert_int_equal(mr_placement_group_wait(seen.mr, apart, INSPECT_FIXTURE_PATIENCE_US), MR_NOT_FOUND);
    inspect_fixture_stop();
}

static void wrong_groups_are_told(void **state) {
    const char *const good[] = {"cpu=1"}, *const bad[] = {"cpu=one"}, *const empty[] = {""};
    mr_placement_group group;
    inspect_fixture_start(2);
    assert_int_equal(
        mr_placement_group_create(seen.mr, &MR_OPTIONS(mr_placement_group_options, .bundles = good), &group),
        MR_INVALID);
    assert_int_equal(
        mr_placement_group_create(seen.mr, &MR_OPTIONS(mr_placement_group_options, .bundles = bad, .count = 1), &group),
        MR_INVALID);
    assert_int_equal(mr_placement_group_create(
                         seen.mr, &MR_OPTIONS(mr_placement_group_options, .bundles = empty, .count = 1), &group),
                     MR_INVALID);
    inspect_fixture_assert_has(mr_last_error(), "bundle 1 is empty");
    group = make(good, 1, MR_PACK);
    fails(add_in(group, 2, 1), MR_INVALID, "there is no bundle 2");
    fails(add_in(group, 1, 2), MR_INVALID, "has cpu=1");
    mr_actor actor;
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .placement_group = group, .num_gpus = 1);
    assert_int_equal(mr_actor_create(seen.mr, "Echo", &options, MR_ARGS(), &actor), MR_INVALID);
    assert_int_equal(mr_placement_group_wait(seen.mr, (mr_placement_group){{1, 99}}, INSPECT_FIXTURE_PATIENCE_US),
                     MR_NOT_FOUND);
    inspect_fixture_stop();
}

static void others_do_not_get_what_is_set_aside(void **state) {
    const char *const bundles[] = {"cpu=1"};
    mr_ref ref;
    char id[32];
    inspect_fixture_start(1);
    mr_placement_group group = make(bundles, 1, MR_PACK);
    assert_int_equal(mr_placement_group_wait(seen.mr, group, INSPECT_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_call_task(seen.mr, "add", &ref, mr_int(1), mr_int(2)), MR_OK);
    inspect_fixture_finish(add_in(group, 0, 1));
    inspect_fixture_await_row("tasks", "name", "add", "queued", id);
    mr_placement_group_remove(seen.mr, group);
    inspect_fixture_finish(ref);
    inspect_fixture_stop();
}

static void tasks_of_a_group_end_with_it(void **state) {
    const char *const bundles[] = {"cpu=1", "cpu=1"};
    mr_actor actor;
    mr_ref made, stays;
    char id[32];
    inspect_fixture_start(2);
    mr_placement_group group = make(bundles, 2, MR_PACK);
    mr_actor_options options =
        MR_OPTIONS(mr_actor_options, .placement_group = group, .bundle = 2, .num_cpus = 1, .max_restarts = 5);
    assert_int_equal(mr_actor_create(seen.mr, "Echo", &options, MR_ARGS(), &actor), MR_OK);
    assert_int_equal(mr_call_actor(seen.mr, actor, "nothing", &made), MR_OK);
    inspect_fixture_finish(made);
    assert_int_equal(mr_call_actor(seen.mr, actor, "stay", &stays), MR_OK);
    mr_ref running = hold_in(group, 1), waiting = add_in(group, 2, 1);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    inspect_fixture_await_row("tasks", "name", "stay", "sent", id);
    mr_placement_group_remove(seen.mr, group);
    fails(running, MR_WORKER_DIED, "its placement group was removed");
    fails(waiting, MR_NOT_FOUND, "its placement group was removed");
    fails(stays, MR_ACTOR_DIED, "its placement group was removed");
    await_free("cpu", 2000);
    inspect_fixture_stop();
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &seen.mr) != MR_OK;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_set_aside_and_given_back),
        cmocka_unit_test(requests_after_the_removal_are_refused),
        cmocka_unit_test(needs_that_are_not_in_use_take_no_memory),
        cmocka_unit_test(the_creator_learns_that_another_removed_its_group),
        cmocka_unit_test(a_group_that_is_removed_at_once_is_not_placed),
        cmocka_unit_test(a_group_waits_for_busy_resources),
        cmocka_unit_test(the_impossible_waits),
        cmocka_unit_test(wrong_groups_are_told),
        cmocka_unit_test(others_do_not_get_what_is_set_aside),
        cmocka_unit_test(tasks_of_a_group_end_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
