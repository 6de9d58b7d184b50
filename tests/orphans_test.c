/* orphans_test.c — processes started by a task end with its worker, with the driver, and with a node that is killed. */
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

static mr_context *mr;

/* Starts a process that never ends, and returns its pid. With a nonzero argument: returns the worker's pid. */
MR_TASK(start_sleep) {
    char name[] = "sleep", time[] = "1000000";
    char *arguments[] = {name, time, NULL};
    pid_t pid;
    int64_t own;
    MR_TRY(mr_arg_int(call, 0, &own));
    if (own != 0) return mr_return(call, mr_int(getpid()));
    return posix_spawnp(&pid, name, NULL, NULL, arguments, environ) != 0 ? MR_IO : mr_return(call, mr_int(pid));
}

static bool ask(int64_t own, int *out) {
    mr_ref ref;
    mr_value value;
    int64_t number = 0;
    if (mr_call_task(mr, "start_sleep", &ref, mr_int(own)) != MR_OK ||
        mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) != MR_OK || mr_value_int(&value, &number) != MR_OK)
        return false;
    mr_value_release(&value);
    mr_release(mr, ref);
    *out = (int)number;
    return true;
}

static bool runs(const runtime_fixture *fixture, int pid) { /* an ended process, reaped or not, has no environment */
    int pids[64];
    size_t count = runtime_fixture_find(fixture, "", pids, 64);
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid) return true;
    return false;
}

static bool comes(const runtime_fixture *fixture, int pid) { /* the process has no environment during exec */
    for (int i = 0; i < RUNTIME_FIXTURE_GONE_MS && !runs(fixture, pid); i++) usleep(1000);
    return runs(fixture, pid);
}

static bool ends(const runtime_fixture *fixture, int pid) {
    for (int i = 0; i < RUNTIME_FIXTURE_GONE_MS && runs(fixture, pid); i++) usleep(1000);
    return !runs(fixture, pid);
}

static int kill_the_worker(void *argument) {
    int sleeper, worker;
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 16 << 20), &mr) == MR_OK);
    TEST_CHILD_CHECK(ask(0, &sleeper) && ask(1, &worker) && comes(argument, sleeper));
    TEST_CHILD_CHECK(kill(worker, SIGKILL) == 0);
    TEST_CHILD_CHECK(ends(argument, sleeper));
    TEST_CHILD_CHECK(ask(0, &sleeper) && comes(argument, sleeper)); /* a second process, which ends with the driver */
    mr_shutdown(mr);
    return 0;
}

static int kill_the_node(void *argument) {
    int sleeper, pids[4];
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(ask(0, &sleeper) && comes(argument, sleeper));
    TEST_CHILD_CHECK(runtime_fixture_find(argument, "MINIRAY_BOOT=node", pids, 4) == 1 && kill(pids[0], SIGKILL) == 0);
    TEST_CHILD_CHECK(ends(argument, sleeper)); /* while the driver is idle */
    mr_shutdown(mr);
    return 0;
}

static int be_killed(void *argument) {
    int sleeper;
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(ask(0, &sleeper));
    return raise(SIGKILL);
}

static int be_killed_with_the_node(void *argument) {
    int sleeper, node;
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(ask(0, &sleeper) && comes(argument, sleeper));
    TEST_CHILD_CHECK(runtime_fixture_find(argument, "MINIRAY_BOOT=node", &node, 1) == 1 && kill(node, SIGKILL) == 0);
    return raise(SIGKILL);
}

static int kill_the_lasting_node(void *argument) {
    int sleeper;
    mr_node_info node;
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(mr_node_start(&MR_OPTIONS(mr_node_options, .num_cpus = 1, .store_bytes = 16 << 20), &node) ==
                     MR_OK);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "auto"), &mr) == MR_OK);
    TEST_CHILD_CHECK(ask(0, &sleeper) && comes(argument, sleeper));
    TEST_CHILD_CHECK(kill(node.pid, SIGKILL) == 0);
    /* the processes end while the driver is alive */
    TEST_CHILD_CHECK(runtime_fixture_gone_after_ms(argument, runtime_fixture_now_ms()) >= 0);
    mr_shutdown(mr);
    return 0;
}

static void they_end_with_the_worker(void **state) {
    assert_int_equal(test_child_run(kill_the_worker, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static void they_end_with_a_node_that_is_killed(void **state) {
    assert_int_equal(test_child_run(kill_the_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static void they_end_with_a_program_that_is_killed(void **state) {
    assert_int_not_equal(test_child_run(be_killed, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "kill -9 of the program");
}

static void they_end_with_a_program_and_a_node_that_are_killed(void **state) {
    assert_int_equal(test_child_run(be_killed_with_the_node, *state, RUNTIME_FIXTURE_CHILD_MS), -SIGKILL);
    runtime_fixture_gone(*state, "kill -9 of both");
}

static void they_end_with_a_lasting_node_that_is_killed(void **state) {
    assert_int_equal(test_child_run(kill_the_lasting_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "kill -9 of a lasting node");
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(they_end_with_the_worker),
        IN_A_WORLD(they_end_with_a_node_that_is_killed),
        IN_A_WORLD(they_end_with_a_program_that_is_killed),
        IN_A_WORLD(they_end_with_a_program_and_a_node_that_are_killed),
        IN_A_WORLD(they_end_with_a_lasting_node_that_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
