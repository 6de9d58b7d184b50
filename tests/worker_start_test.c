/* worker_start_test.c — workers that end before they can join: whoever waits is told how, and what they said. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/child.h"
#include "tests/support/runtime_world.h"

static mr_context *mr;

/* As the loader says it, before main. */
#define NO_LIBRARY "error while loading shared libraries: libmodel.so.1: cannot open shared object file"

static int fail_to_start(void *argument, const char *how, const char *status, const char *words) {
    mr_ref ref;
    mr_value value;
    setenv("TEST_WORKER", how, 1);
    CHILD_CHECK(runtime_world_open(argument, &mr) == MR_OK);
    CHILD_CHECK(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(2)) == MR_OK);
    CHILD_CHECK(mr_get(mr, ref, RUNTIME_WORLD_PATIENCE_US, &value) == MR_WORKER_DIED);
    fprintf(stderr, "    %s\n", mr_last_error());
    CHILD_CHECK(strstr(mr_last_error(), status) != NULL && strstr(mr_last_error(), words) != NULL);
    mr_shutdown(mr);
    return 0;
}

static int exit_at_once(void *argument) {
    return fail_to_start(argument, "exits", "exited with status 3", "it printed last: \"the model is not there\"");
}

static int lack_a_library(void *argument) {
    return fail_to_start(argument, "lacks", "exited with status 127", "it printed last: \"" NO_LIBRARY "\"");
}

static int be_killed(void *argument) {
    return fail_to_start(argument, "dies", "was killed by signal 11 (SIGSEGV)", "");
}

static void one_that_exits_is_quoted(void **state) {
    assert_int_equal(child_run(exit_at_once, *state, RUNTIME_WORLD_CHILD_MS), 0);
    runtime_world_gone(*state, "workers that do not start");
}

static void a_missing_library_is_named(void **state) {
    assert_int_equal(child_run(lack_a_library, *state, RUNTIME_WORLD_CHILD_MS), 0);
    runtime_world_gone(*state, "workers that do not start");
}

static void a_signal_is_named(void **state) {
    assert_int_equal(child_run(be_killed, *state, RUNTIME_WORLD_CHILD_MS), 0);
    runtime_world_gone(*state, "workers that do not start");
}

static int misbehave(const char *how) {
    if (strcmp(how, "dies") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    fprintf(stderr, "%s\n", strcmp(how, "lacks") == 0 ? NO_LIBRARY : "the model is not there");
    return strcmp(how, "lacks") == 0 ? 127 : 3;
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_world_make, runtime_world_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return misbehave(getenv("TEST_WORKER"));
    const struct CMUnitTest tests[] = {IN_A_WORLD(one_that_exits_is_quoted), IN_A_WORLD(a_missing_library_is_named),
                                       IN_A_WORLD(a_signal_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
