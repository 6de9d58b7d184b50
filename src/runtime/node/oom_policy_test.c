/* oom_policy_test.c — which worker is ended, and when usage is looked at. */
#include "runtime/node/oom_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MB (UINT64_C(1) << 20)
#define GB (UINT64_C(1) << 30)

#define CHOOSE(workers, out) oom_policy_choose(workers, sizeof(workers) / sizeof *(workers), out)

static oom_worker task(uint64_t owner, bool retriable, int64_t since_us) {
    return (oom_worker){
        .role = OOM_TASK, .owner = owner, .retriable = retriable, .since_us = since_us, .bytes = 100 * MB};
}

static oom_worker actor(bool restarts, int64_t since_us) {
    return (oom_worker){.role = OOM_ACTOR, .retriable = restarts, .since_us = since_us, .bytes = 500 * MB};
}

static void the_newest_task_of_the_largest_group_goes_and_is_retried(void **state) {
    oom_choice choice;
    const oom_worker workers[] = {task(7, true, 10), task(8, true, 90), task(7, true, 30), task(7, true, 20)};
    assert_true(CHOOSE(workers, &choice));
    assert_int_equal(choice.index, 2);
    assert_true(choice.retry);
    const oom_worker equal[] = {task(7, true, 10), task(8, true, 90), task(7, true, 30), task(8, true, 20)};
    assert_true(CHOOSE(equal, &choice));
    assert_int_equal(choice.index, 1); /* among equal groups the one with the newest task */
    assert_true(choice.retry);
}

static void the_only_task_of_its_owner_is_not_retried(void **state) {
    oom_choice choice;
    const oom_worker workers[] = {task(7, true, 10), task(8, true, 20), task(9, false, 30), actor(true, 40)};
    assert_true(CHOOSE(workers, &choice));
    assert_int_equal(choice.index, 1);
    assert_false(choice.retry);
}

static void tasks_without_retries_go_next_and_actors_last(void **state) {
    oom_choice choice;
    const oom_worker tasks[] = {actor(true, 90), task(7, false, 10), task(7, false, 20), actor(false, 95)};
    assert_true(CHOOSE(tasks, &choice));
    assert_int_equal(choice.index, 2);
    assert_false(choice.retry);
    const oom_worker actors[] = {actor(true, 10), actor(false, 90), actor(true, 20), actor(false, 95)};
    assert_true(CHOOSE(actors, &choice));
    assert_int_equal(choice.index, 2);
    assert_false(choice.retry);
    const oom_worker last[] = {actor(false, 95), actor(false, 90)};
    assert_true(CHOOSE(last, &choice));
    assert_int_equal(choice.index, 0);
}

static void an_idle_worker_goes_first_if_it_keeps_memory(void **state) {
    oom_choice choice;
    const oom_worker workers[] = {task(7, true, 10),
                                  {.role = OOM_IDLE, .bytes = OOM_POLICY_IDLE_BYTES},
                                  {.role = OOM_IDLE, .bytes = 3 * GB},
                                  {.role = OOM_IDLE, .bytes = 1 * GB}};
    assert_true(CHOOSE(workers, &choice));
    assert_int_equal(choice.index, 2);
    assert_false(choice.retry);
    const oom_worker small[] = {{.role = OOM_IDLE, .bytes = OOM_POLICY_IDLE_BYTES - 1}, task(7, false, 10)};
    assert_true(CHOOSE(small, &choice));
    assert_int_equal(choice.index, 1);
    assert_false(oom_policy_choose(small, 1, &choice));
    assert_false(oom_policy_choose(NULL, 0, &choice));
}

static void usage_is_over_above_the_threshold(void **state) {
    assert_false(oom_policy_is_over(95 * MB, 100 * MB, 95));
    assert_true(oom_policy_is_over(95 * MB + 1, 100 * MB, 95));
    assert_true(oom_policy_is_over(UINT64_C(1) << 60, UINT64_C(1) << 60, 95)); /* no overflow */
    assert_false(oom_policy_is_over(1, 0, 95));                                /* no limit is known */
}

static void the_interval_follows_what_is_left(void **state) {
    assert_int_equal(oom_policy_interval_us(94 * GB, 100 * GB, 95, 250000, true), 250000);
    assert_int_equal(oom_policy_interval_us(99 * GB, 100 * GB, 95, 250000, true), 250000);
    assert_int_equal(oom_policy_interval_us(91 * GB, 100 * GB, 95, 250000, true), 4 * GB / 8192);
    assert_int_equal(oom_policy_interval_us(10 * GB, 100 * GB, 95, 250000, true), OOM_POLICY_TASKS_US);
    assert_int_equal(oom_policy_interval_us(10 * GB, 100 * GB, 95, 250000, false), OOM_POLICY_ACTORS_US);
    assert_int_equal(oom_policy_interval_us(94 * GB, 100 * GB, 95, 250000, false), 250000);
    assert_int_equal(oom_policy_interval_us(1, 0, 95, 250000, true), 250000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_task_of_the_largest_group_goes_and_is_retried),
        cmocka_unit_test(the_only_task_of_its_owner_is_not_retried),
        cmocka_unit_test(tasks_without_retries_go_next_and_actors_last),
        cmocka_unit_test(an_idle_worker_goes_first_if_it_keeps_memory),
        cmocka_unit_test(usage_is_over_above_the_threshold),
        cmocka_unit_test(the_interval_follows_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
