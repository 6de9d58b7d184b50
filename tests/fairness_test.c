/* fairness_test.c — four drivers on one node at once: each gets its share, also beside one that floods the node. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

enum { PROGRAMS = 4, TASK_MS = 2, FLOOD = 2000, WINDOW_MS = 1500, FEW = 4 };

static mr_context *mr;

typedef struct contest { /* counts of one driver */
    runtime_fixture *fixture;
    const char *node;
    int start[2], counts[2];
    int in_flight;
} contest;

/* Keeps `count` tasks in flight until the time is over, and counts those that completed by then. */
static int compete(void *argument) {
    const contest *contest = argument;
    static mr_ref refs[FLOOD];
    char go;
    runtime_fixture_enter(contest->fixture);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = contest->node), &mr) == MR_OK);
    TEST_CHILD_CHECK(runtime_works(mr)); /* the driver's first worker has started */
    TEST_CHILD_CHECK(runtime_fixture_ready(contest->fixture));
    TEST_CHILD_CHECK(read(contest->start[0], &go, 1) == 1);
    int count = 0, at = 0;
    for (int i = 0; i < contest->in_flight; i++)
        TEST_CHILD_CHECK(mr_call_task(mr, "pause_ms", &refs[i], mr_int(TASK_MS)) == MR_OK);
    for (int64_t end = runtime_fixture_now_ms() + WINDOW_MS; runtime_fixture_now_ms() < end; count++) {
        TEST_CHILD_CHECK(runtime_gives(mr, refs[at], TASK_MS));
        TEST_CHILD_CHECK(mr_call_task(mr, "pause_ms", &refs[at], mr_int(TASK_MS)) == MR_OK);
        at = (at + 1) % contest->in_flight;
    }
    TEST_CHILD_CHECK(write(contest->counts[1], &count, sizeof count) == sizeof count);
    mr_shutdown(mr);
    return 0;
}

static int start_node(void *argument) {
    const contest *contest = argument;
    mr_node_options options =
        MR_OPTIONS(mr_node_options, .num_cpus = PROGRAMS, .address = contest->node, .store_bytes = 64 << 20);
    mr_node_info node;
    runtime_fixture_enter(contest->fixture);
    TEST_CHILD_CHECK(mr_node_start(&options, &node) == MR_OK);
    return 0;
}

/* Runs all drivers at once. Each of the first `floods` drivers has FLOOD tasks in flight, the others FEW. */
static void run_contest(runtime_fixture *fixture, int floods, int counts[PROGRAMS]) {
    contest contests[PROGRAMS];
    pid_t pids[PROGRAMS];
    int start[2];
    char path[TEMP_DIR_FOLDER_MAX + 16];
    snprintf(path, sizeof path, "%s/node", fixture->folder);
    contests[0] = (contest){.fixture = fixture, .node = path};
    assert_int_equal(test_child_run(start_node, &contests[0], RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_int_equal(pipe2(start, O_CLOEXEC), 0);
    for (int i = 0; i < PROGRAMS; i++) {
        contests[i] = (contest){.fixture = fixture, .node = path, .in_flight = i < floods ? FLOOD : FEW};
        memcpy(contests[i].start, start, sizeof start);
        assert_int_equal(pipe2(contests[i].counts, O_CLOEXEC), 0);
        pids[i] = test_child_start(compete, &contests[i]);
    }
    for (int i = 0; i < PROGRAMS; i++) runtime_fixture_await(fixture);
    assert_int_equal(write(start[1], "aaaa", PROGRAMS), PROGRAMS);
    for (int i = 0; i < PROGRAMS; i++) {
        assert_int_equal(test_child_wait(pids[i], RUNTIME_FIXTURE_CHILD_MS), 0);
        assert_int_equal(read(contests[i].counts[0], &counts[i], sizeof *counts), sizeof *counts);
        close(contests[i].counts[0]);
        close(contests[i].counts[1]);
    }
    close(start[0]);
    close(start[1]);
    assert_int_equal(mr_node_stop(path, NULL), MR_OK);
    print_message("    %d, %d, %d and %d tasks\n", counts[0], counts[1], counts[2], counts[3]);
}

static void least_and_most(const int counts[PROGRAMS], int *least, int *most) {
    *least = *most = counts[0];
    for (int i = 1; i < PROGRAMS; i++) {
        if (counts[i] < *least) *least = counts[i];
        if (counts[i] > *most) *most = counts[i];
    }
}

static void four_that_want_the_same_get_the_same(void **state) {
    int counts[PROGRAMS], least, most;
    run_contest(*state, 0, counts);
    least_and_most(counts, &least, &most);
    assert_true(least > 0 && least * 5 >= most);
    runtime_fixture_gone(*state, "four programs");
}

/* There are as many CPUs as drivers. A driver with few tasks has one CPU, whatever the flood of another driver. */
static void one_that_floods_takes_nothing_from_others(void **state) {
    int counts[PROGRAMS], least, most;
    run_contest(*state, 1, counts);
    least_and_most(counts, &least, &most);
    assert_true(least > 0 && least * 5 >= most);
    runtime_fixture_gone(*state, "a flood");
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {IN_A_WORLD(four_that_want_the_same_get_the_same),
                                       IN_A_WORLD(one_that_floods_takes_nothing_from_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
