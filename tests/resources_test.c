/* resources_test.c — tasks and actors get the resources that they request, whole or fractional, and no two get the
 * same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/concurrent_bodies.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"
#include "tests/support/temp_dir.h"

enum { WORKERS = 4, TIMES = 12 };

MR_TASK(meets) { return concurrent_others(call); }
MR_TASK(meets_nobody) { return concurrent_nobody(call); }
MR_CREATE(Guest) { return MR_OK; }
MR_METHOD(Guest, meets) { return concurrent_others(call); }

static void all_run_at_once(const mr_task_options *options, int count) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_ref refs[16];
    int64_t who[16];
    assert_true(temp_dir_folder(folder));
    for (int i = 0; i < count; i++)
        assert_int_equal(mr_task_submit(mr, "meets", options, MR_ARGS(mr_str(folder), mr_int(count)), &refs[i]), MR_OK);
    for (int i = 0; i < count; i++) who[i] = future_assert_int(mr, refs[i]);
    concurrent_clear(folder, who, (size_t)count);
    assert_int_equal(rmdir(folder), 0);
}

static void one_runs_at_a_time(const mr_task_options *options) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_ref refs[TIMES];
    assert_true(temp_dir_folder(folder));
    for (int i = 0; i < TIMES; i++)
        assert_int_equal(mr_task_submit(mr, "meets_nobody", options, MR_ARGS(mr_str(folder)), &refs[i]), MR_OK);
    for (int i = 0; i < TIMES; i++) assert_int_equal(future_assert_failure(mr, refs[i]), MR_OK);
    assert_int_equal(rmdir(folder), 0);
}

static void as_many_run_as_there_are_cpus(void **state) { all_run_at_once(NULL, WORKERS); }

static void a_task_with_all_cpus_runs_alone(void **state) {
    one_runs_at_a_time(&MR_OPTIONS(mr_task_options, .num_cpus = WORKERS));
}

static void parts_of_a_cpu_are_shared(void **state) {
    all_run_at_once(&MR_OPTIONS(mr_task_options, .num_cpus = 0.5), 2 * WORKERS);
}

static void a_task_without_cpus_does_not_wait_for_one(void **state) {
    all_run_at_once(&MR_OPTIONS(mr_task_options, .num_cpus = -1), 2 * WORKERS);
}

static void a_single_resource_is_used_by_one_task_at_a_time(void **state) {
    one_runs_at_a_time(&MR_OPTIONS(mr_task_options, .resources = "seat=1"));
    one_runs_at_a_time(&MR_OPTIONS(mr_task_options, .resources = "seat=0.6"));
    all_run_at_once(&MR_OPTIONS(mr_task_options, .resources = "seat=0.5"), 2);
    one_runs_at_a_time(&MR_OPTIONS(mr_task_options, .resources = "table=2,seat=0.1"));
}

/* An actor has its resources as long as it lives; an actor that requests no CPU occupies none. */
static void an_actor_keeps_what_it_has(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_actor peers[2 * WORKERS];
    mr_ref refs[2 * WORKERS], waits;
    int64_t who[2 * WORKERS];
    mr_value value;
    assert_true(temp_dir_folder(folder));
    for (int i = 0; i < 2 * WORKERS; i++) {
        mr_actor_options options = MR_OPTIONS(mr_actor_options, .resources = i == 0 ? "seat=1" : NULL);
        assert_int_equal(mr_actor_create(mr, "Guest", &options, NULL, 0, &peers[i]), MR_OK);
        assert_int_equal(mr_call_actor(mr, peers[i], "meets", &refs[i], mr_str(folder), mr_int(2 * WORKERS)), MR_OK);
    }
    for (int i = 0; i < 2 * WORKERS; i++) who[i] = future_assert_int(mr, refs[i]);
    concurrent_clear(folder, who, 2 * WORKERS);
    mr_task_options site = MR_OPTIONS(mr_task_options, .resources = "seat=1");
    assert_int_equal(mr_task_submit(mr, "meets_nobody", &site, MR_ARGS(mr_str(folder)), &waits), MR_OK);
    assert_int_equal(mr_get(mr, waits, 20 * 1000, &value), MR_TIMEOUT);
    assert_int_equal(mr_actor_kill(mr, peers[0]), MR_OK);
    assert_int_equal(future_assert_failure(mr, waits), MR_OK);
    for (int i = 0; i < 2 * WORKERS; i++) mr_actor_release(mr, peers[i]);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_run_as_there_are_cpus),
        cmocka_unit_test(a_task_with_all_cpus_runs_alone),
        cmocka_unit_test(parts_of_a_cpu_are_shared),
        cmocka_unit_test(a_task_without_cpus_does_not_wait_for_one),
        cmocka_unit_test(a_single_resource_is_used_by_one_task_at_a_time),
        cmocka_unit_test(an_actor_keeps_what_it_has),
    };
    return runtime_main_with(tests, .num_workers = WORKERS, .store_bytes = 64u << 20, .resources = "seat=1,table=3");
}
