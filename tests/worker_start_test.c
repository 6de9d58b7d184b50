/* worker_start_test.c — workers that end before they can join: waiting drivers get the cause, and the workers'
 * output. */
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/text_file.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

static mr_context *mr;

/* Number in a file of a process; -1: none. */
static int64_t number_in(int pid, const char *name) {
    char path[64], text[32];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return text_file_read(path, text, sizeof text) ? strtoll(text, NULL, 10) : -1;
}

MR_TASK(oom_score) { return mr_return(call, mr_int(number_in((int)getpid(), "oom_score_adj"))); }

/* Message of the dynamic loader, printed before main. */
#define NO_LIBRARY "error while loading shared libraries: libmodel.so.1: cannot open shared object file"

#define COULD_NOT_JOIN "miniray: worker could not join its node: "

static int fail_to_start(void *argument, const char *how, const char *status, const char *words) {
    mr_ref ref;
    mr_value value;
    setenv("TEST_WORKER", how, 1);
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(2)) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_WORKER_DIED);
    fprintf(stderr, "    %s\n", mr_last_error());
    TEST_CHILD_CHECK(strstr(mr_last_error(), status) != NULL && strstr(mr_last_error(), words) != NULL);
    mr_shutdown(mr);
    return 0;
}

/* When memory is exhausted, the kernel is to end a worker, and not the node or the driver. */
static int compare_oom_scores(void *argument) {
    int node;
    mr_ref ref;
    int64_t own = number_in((int)getpid(), "oom_score_adj");
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_call_task(mr, "oom_score", &ref) == MR_OK && runtime_gives(mr, ref, 1000));
    TEST_CHILD_CHECK(runtime_fixture_find(argument, "MINIRAY_BOOT=node", &node, 1) == 1);
    TEST_CHILD_CHECK(number_in(node, "oom_score_adj") == own && number_in((int)getpid(), "oom_score_adj") == own);
    mr_shutdown(mr);
    return 0;
}

static void workers_are_the_first_for_the_oom_killer(void **state) {
    assert_int_equal(test_child_run(compare_oom_scores, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int exit_at_once(void *argument) {
    return fail_to_start(argument, "exits", "exited with status 3", "its last output: \"the model is not there\"");
}

static int lack_a_library(void *argument) {
    return fail_to_start(argument, "lacks", "exited with status 127", "its last output: \"" NO_LIBRARY "\"");
}

static int be_killed(void *argument) {
    return fail_to_start(argument, "dies", "was killed by signal 11 (SIGSEGV)", "");
}

/* The worker reaches mr_init, but has no descriptor left to join with: the error and `miniray logs` report that. */
static int have_no_descriptor(void *argument) {
    return fail_to_start(argument, "starves", "exited with status 1", COULD_NOT_JOIN);
}

static bool log_has(const runtime_fixture *fixture, const char *words) {
    char pattern[TEMP_DIR_FOLDER_MAX + 32], text[4096];
    glob_t found;
    bool has = false;
    snprintf(pattern, sizeof pattern, "%s/miniray-*/*/*.log", fixture->folder);
    if (glob(pattern, 0, NULL, &found) != 0) return false;
    for (size_t i = 0; i < found.gl_pathc && !has; i++) {
        FILE *file = fopen(found.gl_pathv[i], "re");
        if (file == NULL) continue;
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        has = strstr(text, words) != NULL;
        fclose(file);
    }
    globfree(&found);
    return has;
}

static void one_that_cannot_join_says_so(void **state) {
    assert_int_equal(test_child_run(have_no_descriptor, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_true(log_has(*state, COULD_NOT_JOIN));
    runtime_fixture_gone(*state, "workers that do not start");
}

static void one_that_exits_is_quoted(void **state) {
    assert_int_equal(test_child_run(exit_at_once, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "workers that do not start");
}

static void a_missing_library_is_named(void **state) {
    assert_int_equal(test_child_run(lack_a_library, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "workers that do not start");
}

static void a_signal_is_named(void **state) {
    assert_int_equal(test_child_run(be_killed, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "workers that do not start");
}

/* The node that would be notified has ended: such a worker prints nothing, and leaves no log. */
static int be_late(void *argument) {
    int output = *(const int *)argument;
    setenv("MINIRAY_BOOT", "worker", 1);
    setenv("MINIRAY_BOOT_HUB", "/nowhere/hub", 1);
    dup2(output, STDERR_FILENO);
    return mr_init(NULL, &mr) == MR_OK ? 2 : 3; /* does not return */
}

static void a_worker_whose_node_is_gone_prints_nothing(void **state) {
    int output = memfd_create("output", MFD_CLOEXEC);
    assert_int_equal(test_child_run(be_late, &output, RUNTIME_FIXTURE_CHILD_MS), 1);
    assert_int_equal(lseek(output, 0, SEEK_END), 0);
    close(output);
}

/* ---- An executable that cannot be started (again). */

static int have_no_node(void *argument) {
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .node = "/nowhere/node"), &mr) != MR_OK);
    fprintf(stderr, "    %s\n", mr_last_error());
    TEST_CHILD_CHECK(strstr(mr_last_error(), "cannot start the node's executable '/nowhere/node'") != NULL);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .node = "/etc/passwd"), &mr) != MR_OK);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "/etc/passwd") != NULL);
    return 0;
}

static void a_node_that_is_not_there_is_named(void **state) {
    assert_int_equal(test_child_run(have_no_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_init");
}

/* Runs in the copy: one worker exists, and no other can start. */
static int lose_executable(const char *path) {
    mr_ref refs[2];
    mr_actor sleepers[2];
    mr_value value;
    int failed = 0;
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 16 << 20), &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_call_task(mr, "add", &refs[0], mr_int(1), mr_int(2)) == MR_OK && runtime_gives(mr, refs[0], 3));
    TEST_CHILD_CHECK(chmod(path, 0600) == 0);
    for (int i = 0; i < 2; i++) {
        mr_status status = mr_new_actor(mr, "Sleeper", &sleepers[i]);
        if (status == MR_OK) status = mr_call_actor(mr, sleepers[i], "hello", &refs[i]);
        if (status == MR_OK) status = mr_get(mr, refs[i], RUNTIME_FIXTURE_PATIENCE_US, &value);
        if (status == MR_OK) continue;
        fprintf(stderr, "    %s\n", mr_last_error());
        failed += strstr(mr_last_error(), "cannot start a worker with the executable of") != NULL &&
                  strstr(mr_last_error(), "Permission denied") != NULL;
    }
    TEST_CHILD_CHECK(failed > 0); /* one task may have run in the existing worker */
    mr_shutdown(mr);
    return 0;
}

static bool copy_self(const char *path) {
    char bytes[1 << 16];
    FILE *from = fopen("/proc/self/exe", "r"), *to = fopen(path, "w");
    bool good = from != NULL && to != NULL;
    for (size_t got; good && (got = fread(bytes, 1, sizeof bytes, from)) > 0;) good = fwrite(bytes, 1, got, to) == got;
    good = from != NULL && fclose(from) == 0 && good;
    return to != NULL && fclose(to) == 0 && good && chmod(path, 0700) == 0;
}

static int be_a_copy(void *argument) {
    char path[TEMP_DIR_FOLDER_MAX + 16];
    const runtime_fixture *fixture = argument;
    runtime_fixture_enter(fixture);
    snprintf(path, sizeof path, "%s/copy", fixture->folder);
    TEST_CHILD_CHECK(copy_self(path));
    setenv("TEST_COPY", path, 1);
    execl(path, path, (char *)NULL);
    return 1;
}

static void an_executable_that_is_none_any_more_is_named(void **state) {
    const runtime_fixture *fixture = *state;
    char path[TEMP_DIR_FOLDER_MAX + 16];
    snprintf(path, sizeof path, "%s/copy", fixture->folder);
    assert_int_equal(test_child_run(be_a_copy, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_int_equal(unlink(path), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int misbehave(const char *how) {
    if (strcmp(how, "starves") == 0) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 4, .rlim_max = 4});
        return mr_init(NULL, &mr) != MR_OK;
    }
    if (strcmp(how, "dies") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    fprintf(stderr, "%s\n", strcmp(how, "lacks") == 0 ? NO_LIBRARY : "the model is not there");
    return strcmp(how, "lacks") == 0 ? 127 : 3;
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    const char *how = getenv("TEST_WORKER"), *copy = getenv("TEST_COPY");
    if (getenv("MINIRAY_BOOT") != NULL) return how != NULL ? misbehave(how) : mr_init(NULL, &mr) != MR_OK;
    if (copy != NULL) return lose_executable(copy);
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(workers_are_the_first_for_the_oom_killer),
        IN_A_WORLD(one_that_exits_is_quoted),
        IN_A_WORLD(one_that_cannot_join_says_so),
        IN_A_WORLD(a_worker_whose_node_is_gone_prints_nothing),
        IN_A_WORLD(a_missing_library_is_named),
        IN_A_WORLD(a_signal_is_named),
        IN_A_WORLD(a_node_that_is_not_there_is_named),
        IN_A_WORLD(an_executable_that_is_none_any_more_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
