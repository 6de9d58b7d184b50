/* many_processes_test.c — a thousand actors at once: each has a process of its own, answers, keeps its state, and is
 * gone at the end. Their processes are forked from one zygote (mr_options.fork), as for a program that is slow to
 * start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/runtime_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_child.h"

enum {
    ACTORS = SANITIZED ? 100 : 1000, /* processes with a sanitizer are much larger */
    FILES = 4 * ACTORS + 200,        /* descriptors of the node and the driver */
    PROCESSES = ACTORS + 100,
    AT_ONCE = 50,
};

static mr_context *mr;

MR_CREATE(Counter) { return mr_set_self(call, calloc(1, sizeof(int64_t)), free); }
MR_METHOD(Counter, add) {
    int64_t step;
    MR_TRY(mr_arg_int(call, 0, &step));
    return mr_return(call, mr_int(*(int64_t *)mr_self(call) += step));
}
MR_METHOD(Counter, pid) { return mr_return(call, mr_int(getpid())); }

static bool is_allowed(int resource, rlim_t wanted) {
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && (limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= wanted);
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Whether all actors have different processes. */
static bool live_apart(mr_actor *actors) {
    static int pids[ACTORS];
    static mr_ref refs[ACTORS];
    for (int i = 0; i < ACTORS; i++)
        if (mr_call_actor(mr, actors[i], "pid", &refs[i]) != MR_OK) return false;
    for (int i = 0; i < ACTORS; i++) {
        mr_value value;
        int64_t pid;
        if (mr_get(mr, refs[i], RUNTIME_FIXTURE_PATIENCE_US, &value) != MR_OK || mr_value_int(&value, &pid) != MR_OK) {
            fprintf(stderr, "actor %d: %s\n", i, mr_last_error());
            return false;
        }
        pids[i] = (int)pid;
        mr_value_release(&value);
        mr_release(mr, refs[i]);
    }
    qsort(pids, ACTORS, sizeof *pids, compare);
    for (int i = 1; i < ACTORS; i++)
        if (pids[i] == pids[i - 1]) return false;
    return true;
}

static int be_a_crowd(void *argument) {
    static const mr_fork hooks;
    static mr_actor actors[ACTORS];
    static mr_ref refs[ACTORS][2];
    int64_t start = runtime_fixture_now_ms();
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(
        mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 256 << 20, .fork = &hooks), &mr) == MR_OK);
    for (int i = 0; i < ACTORS; i++) {
        TEST_CHILD_CHECK(mr_new_actor(mr, "Counter", &actors[i]) == MR_OK);
        TEST_CHILD_CHECK(mr_call_actor(mr, actors[i], "add", &refs[i][0], mr_int(i)) == MR_OK);
        TEST_CHILD_CHECK(mr_call_actor(mr, actors[i], "add", &refs[i][1], mr_int(1)) == MR_OK);
        /* limits the calls in flight */
        if (i >= AT_ONCE) TEST_CHILD_CHECK(runtime_gives(mr, refs[i - AT_ONCE][0], i - AT_ONCE));
    }
    for (int i = ACTORS - AT_ONCE; i < ACTORS; i++) TEST_CHILD_CHECK(runtime_gives(mr, refs[i][0], i));
    for (int i = 0; i < ACTORS; i++) TEST_CHILD_CHECK(runtime_gives(mr, refs[i][1], i + 1));
    TEST_CHILD_CHECK(live_apart(actors));
    fprintf(stderr, "    %d actors made and called: %lld ms\n", ACTORS, (long long)(runtime_fixture_now_ms() - start));
    TEST_CHILD_CHECK(runtime_works(mr)); /* tasks run beside the actors */
    mr_shutdown(mr);
    return 0;
}

static void a_thousand_actors(void **state) {
    if (!is_allowed(RLIMIT_NOFILE, FILES) || !is_allowed(RLIMIT_NPROC, PROCESSES)) {
        print_message("    this machine's limits (ulimit -Hn, -Hu) are below %d files or %d processes\n", FILES,
                      PROCESSES);
        skip();
    }
    assert_int_equal(test_child_run(be_a_crowd, *state, RUNTIME_FIXTURE_LONG_MS), 0);
    runtime_fixture_gone(*state, "a crowd");
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(&MR_OPTIONS(mr_options, .fork = &(mr_fork){0}), &mr) != MR_OK;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thousand_actors, runtime_fixture_make, runtime_fixture_unmake)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
