/* runtime_limits_test.c — impossible requests return errors and end nothing: workers that do not start, no descriptors,
 * invalid values, released futures; threads that share a context, and results without a waiter. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/process/context.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_child.h"

enum { NOBODY = 65534 };

#define FAILING_START "MINIRAY_TEST_FAILING_START" /* workers with this variable exit before mr_init */

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(fail_with) {
    mr_span text;
    MR_TRY(mr_arg_str(call, 0, &text));
    return mr_fail(call, "%.*s", (int)text.size, (const char *)text.data);
}

static void append_byte(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", getenv("TMPDIR"), name);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    ssize_t wrote = write(fd, "x", 1);
    close(fd);
    if (wrote != 1) abort();
}

MR_TASK(mark) { /* creates a file, which the test finds without the runtime */
    append_byte("marks");
    return mr_return(call, mr_nil());
}

MR_TASK(nest_deep) { /* waits for the next one */
    int64_t depth, below = 0;
    mr_ref ref;
    mr_value value;
    MR_TRY(mr_arg_int(call, 0, &depth));
    if (depth > 1) {
        MR_TRY(mr_call_task(mr_call_context(call), "nest_deep", &ref, mr_int(depth - 1)));
        MR_TRY(mr_get(mr_call_context(call), ref, MR_FOREVER, &value));
        MR_TRY(mr_value_int(&value, &below));
        mr_value_release(&value);
        mr_release(mr_call_context(call), ref);
    }
    return mr_return(call, mr_int(below + 1));
}

/* ---- Impossible requests. */

static int start_failing_workers(void *argument) {
    runtime_fixture *fixture = argument;
    mr_ref ref;
    mr_value value;
    mr_actor actor;
    setenv(FAILING_START, "1", 1);
    TEST_CHILD_CHECK(runtime_fixture_open(fixture, &mr) == MR_OK);
    for (int i = 0; i < 3; i++) {
        TEST_CHILD_CHECK(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)) == MR_OK);
        TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_WORKER_DIED);
        TEST_CHILD_CHECK(strstr(mr_last_error(), "before it starts Miniray") != NULL);
        mr_release(mr, ref);
    }
    mr_status status = mr_new_actor(mr, "Sleeper", &actor);
    if (status == MR_OK) {
        TEST_CHILD_CHECK(mr_call_actor(mr, actor, "hello", &ref) == MR_OK);
        status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    }
    TEST_CHILD_CHECK(status == MR_WORKER_DIED || status == MR_ACTOR_DIED);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "before it starts Miniray") != NULL);
    mr_shutdown(mr);
    return 0;
}

static void workers_that_cannot_start_are_not_started_for_ever(void **state) {
    runtime_fixture *fixture = *state;
    char path[128];
    assert_int_equal(test_child_run(start_failing_workers, fixture, RUNTIME_FIXTURE_CHILD_MS), 0);
    snprintf(path, sizeof path, "%s/starts", fixture->folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t starts = lseek(fd, 0, SEEK_END);
    close(fd);
    unlink(path);
    assert_in_range(starts, 1, 10);
    runtime_fixture_gone(fixture, "mr_shutdown without workers");
}

static void limit_fds(rlim_t count) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* With a limit of address space, the default sizes fit into the limit; a requested size that does not fit returns an
 * error with the limit. */
static int begin_with_little_space(void *argument) {
    struct rlimit little = {.rlim_cur = 1u << 30, .rlim_max = RLIM_INFINITY};
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(setrlimit(RLIMIT_AS, &little) == 0);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 2), &mr) == MR_OK && runtime_works(mr));
    mr_shutdown(mr);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 2u << 30), &mr) != MR_OK);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "address space") != NULL);
    return 0;
}

static void little_address_space_is_enough_or_told(void **state) {
    if (SANITIZED) skip(); /* the shadow memory does not fit into any limit */
    assert_int_equal(test_child_run(begin_with_little_space, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "too little address space");
}

/* Tasks that wait for each other need more processes than there can be: they fail with the limit, and the runtime works
 * on. The limit does not hold for root. */
static int nest_deeper_than(const runtime_fixture *fixture, rlim_t processes) {
    struct rlimit few = {.rlim_cur = processes, .rlim_max = processes};
    char expected[128];
    mr_ref ref;
    mr_value value;
    runtime_fixture_enter(fixture);
    if (geteuid() == 0)
        TEST_CHILD_CHECK(chown(fixture->folder, NOBODY, NOBODY) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                         setresuid(NOBODY, NOBODY, NOBODY) == 0);
    TEST_CHILD_CHECK(setrlimit(RLIMIT_NPROC, &few) == 0);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64u << 20), &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_call_task(mr, "nest_deep", &ref, mr_int(100)) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) != MR_OK);
    snprintf(expected, sizeof expected, "the limit of processes and threads is reached: user %u (ulimit -u)",
             (unsigned)processes);
    if (strstr(mr_last_error(), expected) == NULL) fprintf(stderr, "%s\n", mr_last_error());
    TEST_CHILD_CHECK(strstr(mr_last_error(), expected) != NULL);
    mr_release(mr, ref);
    TEST_CHILD_CHECK(mr_call_task(mr, "nest_deep", &ref, mr_int(3)) == MR_OK && runtime_gives(mr, ref, 3));
    mr_shutdown(mr);
    return 0;
}

/* More levels than an error has room for. A worker has two threads: with one limit it is a process that the system does
 * not start, with the other a thread. */
static int nest_deeper_than_60(void *argument) { return nest_deeper_than(argument, 60); }
static int nest_deeper_than_61(void *argument) { return nest_deeper_than(argument, 61); }

static void a_lack_of_processes_is_a_clear_error(void **state) {
    const runtime_fixture *fixture = *state;
    char remove_logs[200];
    if (SANITIZED) skip(); /* a sanitizer may have threads of its own */
    assert_int_equal(test_child_run(nest_deeper_than_60, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_int_equal(test_child_run(nest_deeper_than_61, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    snprintf(remove_logs, sizeof remove_logs, "rm -rf '%s'/miniray-%d", fixture->folder, NOBODY);
    assert_int_equal(system(remove_logs), 0);
    runtime_fixture_gone(*state, "too few processes");
}

/* This process cannot start another thread, since the default stack size exceeds any memory. */
static int begin_without_a_thread(void *argument) {
    pthread_attr_t usual, vast;
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(pthread_getattr_default_np(&usual) == 0 && pthread_getattr_default_np(&vast) == 0);
    TEST_CHILD_CHECK(pthread_attr_setstacksize(&vast, (size_t)1 << 46) == 0 && pthread_setattr_default_np(&vast) == 0);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1), &mr) != MR_OK);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "cannot start the runtime's thread in process ") != NULL);
    TEST_CHILD_CHECK(pthread_setattr_default_np(&usual) == 0);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1), &mr) == MR_OK && runtime_works(mr));
    mr_shutdown(mr);
    return 0;
}

static void no_thread_is_a_clear_error(void **state) {
    assert_int_equal(test_child_run(begin_without_a_thread, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "no thread");
}

/* With few descriptors mr_init works, or returns the cause. The node and the workers inherit the limit. */
static int begin_with_few_fds(void *argument) {
    runtime_fixture *fixture = argument;
    mr_ref ref;
    mr_value value;
    runtime_fixture_enter(fixture);
    int first = open("/dev/null", O_RDONLY | O_CLOEXEC), worked = 0;
    close(first);
    for (int more = 0; more < 44; more += more < 16 ? 3 : 7) {
        limit_fds((rlim_t)(first + more));
        mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20), &mr);
        TEST_CHILD_CHECK(status == MR_OK || mr_last_error()[0] != '\0');
        if (status == MR_OK) {
            status = mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1));
            if (status == MR_OK) status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
            TEST_CHILD_CHECK(status != MR_TIMEOUT);
            TEST_CHILD_CHECK(status == MR_OK || mr_last_error()[0] != '\0');
            if (status == MR_OK) mr_value_release(&value);
            worked += status == MR_OK;
            mr_shutdown(mr);
        }
        limit_fds(256);
        TEST_CHILD_CHECK(runtime_fixture_processes(fixture) == 0);
        TEST_CHILD_CHECK(runtime_fixture_is_empty(fixture));
        TEST_CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        TEST_CHILD_CHECK(fd == first); /* no descriptor was left open */
        close(fd);
    }
    TEST_CHILD_CHECK(worked > 0);
    return 0;
}

static void too_few_descriptors_are_a_clear_error(void **state) {
    assert_int_equal(test_child_run(begin_with_few_fds, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "too few descriptors");
}

/* Descriptors run out later: operations without new ones continue, others return an error. */
static int run_out_of_fds(void *argument) {
    mr_ref ref;
    mr_value value;
    mr_actor actor;
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(runtime_works(mr));
    limit_fds(3);
    for (int i = 0; i < 4; i++) {
        mr_status status = mr_new_actor(mr, "Sleeper", &actor);
        if (status == MR_OK) status = mr_call_actor(mr, actor, "hello", &ref);
        if (status == MR_OK) status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
        TEST_CHILD_CHECK(status == MR_OK || (status != MR_TIMEOUT && mr_last_error()[0] != '\0'));
        if (status == MR_OK) mr_value_release(&value);
    }
    limit_fds(256);
    TEST_CHILD_CHECK(runtime_works(mr));
    mr_shutdown(mr);
    return 0;
}

/* When the node's descriptors run out, it starts no actors, but tasks continue. When some are free again, actors start
 * again. */
static int run_node_out_of_fds(void *argument) {
    mr_ref ref;
    mr_value value;
    mr_actor actor;
    struct rlimit few, before;
    char path[64];
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    mr_ref both[2]; /* both workers have to start */
    for (int i = 0; i < 2; i++) TEST_CHILD_CHECK(mr_call_task(mr, "pause_ms", &both[i], mr_int(300)) == MR_OK);
    for (int i = 0; i < 2; i++) TEST_CHILD_CHECK(runtime_gives(mr, both[i], 300));
    snprintf(path, sizeof path, "/proc/%d/fd", mr->node_pid);
    TEST_CHILD_CHECK(prlimit(mr->node_pid, RLIMIT_NOFILE, NULL, &before) == 0);
    few = before;
    few.rlim_cur = temp_dir_entries(path) + 2;
    TEST_CHILD_CHECK(prlimit(mr->node_pid, RLIMIT_NOFILE, &few, NULL) == 0);
    int refused = 0;
    for (int i = 0; i < 8; i++) {
        mr_status status = mr_new_actor(mr, "Sleeper", &actor);
        if (status == MR_OK) status = mr_call_actor(mr, actor, "hello", &ref);
        if (status == MR_OK) status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
        TEST_CHILD_CHECK(status == MR_OK || status == MR_WORKER_DIED || status == MR_ACTOR_DIED);
        TEST_CHILD_CHECK(status == MR_OK || mr_last_error()[0] != '\0');
        refused += status != MR_OK;
        if (status == MR_OK) mr_value_release(&value);
        if (refused > 0) break;
    }
    TEST_CHILD_CHECK(refused > 0);
    TEST_CHILD_CHECK(prlimit(mr->node_pid, RLIMIT_NOFILE, &before, NULL) == 0);
    TEST_CHILD_CHECK(runtime_works(mr));
    TEST_CHILD_CHECK(mr_new_actor(mr, "Sleeper", &actor) == MR_OK);
    TEST_CHILD_CHECK(mr_call_actor(mr, actor, "hello", &ref) == MR_OK && runtime_gives(mr, ref, 1));
    mr_shutdown(mr);
    return 0;
}

static void a_node_without_descriptors_recovers(void **state) {
    assert_int_equal(test_child_run(run_node_out_of_fds, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "the node's running out of descriptors");
}

static void descriptors_that_run_out_end_nothing(void **state) {
    assert_int_equal(test_child_run(run_out_of_fds, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "running out of descriptors");
}

static int ask_for_nonsense(void *argument) {
    runtime_fixture *fixture = argument;
    runtime_fixture_enter(fixture);
    mr_options nonsense[] = {{.num_workers = -1},     {.num_workers = INT32_MAX}, {.num_gpus = -1},
                             {.resources = "cheese"}, {.store_bytes = SIZE_MAX},  {.store_bytes = (size_t)1 << 62},
                             {.store_bytes = 1}};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        nonsense[i].size = sizeof nonsense[i];
        mr_status status = mr_init(&nonsense[i], &mr);
        fprintf(stderr, "    %s\n", status == MR_OK ? "accepted" : mr_last_error());
        TEST_CHILD_CHECK(status != MR_OK && mr_last_error()[0] != '\0');
        if (i < 4) TEST_CHILD_CHECK(status == MR_INVALID);
        TEST_CHILD_CHECK(runtime_fixture_processes(fixture) == 0 && runtime_fixture_is_empty(fixture));
    }
    return 0;
}

static void nonsense_is_refused(void **state) {
    assert_int_equal(test_child_run(ask_for_nonsense, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

static int use_released(void *argument) {
    mr_ref ref, sum;
    mr_value value;
    unsigned char ready;
    size_t count;
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)) == MR_OK);
    mr_release(mr, ref);
    mr_release(mr, ref); /* again: no effect */
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(mr_wait(mr, &ref, 1, 1, RUNTIME_FIXTURE_PATIENCE_US, &ready, &count) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(mr_cancel(mr, ref) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(mr_call_task(mr, "add", &sum, mr_future(ref), mr_int(1)) == MR_INVALID);
    TEST_CHILD_CHECK(mr_get(mr, (mr_ref){{0, 0}}, 0, &value) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(runtime_works(mr));
    mr_shutdown(mr);
    return 0;
}

static void a_released_future_is_not_found(void **state) {
    assert_int_equal(test_child_run(use_released, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

/* ---- Threads, and results without a waiter. */

static void *submit_and_get(void *argument) {
    static int failed;
    for (int64_t i = 0; i < 300; i++) {
        mr_ref ref, next, put;
        if (mr_put(mr, mr_int(i), &put) != MR_OK) return &failed;
        if (mr_call_task(mr, "add", &ref, mr_future(put), mr_int(1)) != MR_OK) return &failed;
        if (mr_call_task(mr, "add", &next, mr_future(ref), mr_int(1)) != MR_OK) return &failed;
        mr_release(mr, put);
        if (!runtime_gives(mr, ref, i + 1) || !runtime_gives(mr, next, i + 2)) return &failed;
    }
    return NULL;
}

static int use_from_threads(void *argument) {
    pthread_t threads[4];
    void *failed;
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    for (int i = 0; i < 4; i++) TEST_CHILD_CHECK(pthread_create(&threads[i], NULL, submit_and_get, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        TEST_CHILD_CHECK(failed == NULL);
    }
    mr_shutdown(mr);
    return 0;
}

static void threads_share_a_context(void **state) {
    assert_int_equal(test_child_run(use_from_threads, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

static size_t count_in_file(const char *path, const char *text) {
    static char bytes[1 << 16];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = read(fd, bytes, sizeof bytes - 1);
    close(fd);
    bytes[size > 0 ? size : 0] = '\0';
    size_t count = 0;
    for (const char *at = bytes; (at = strstr(at, text)) != NULL; at++) count++;
    return count;
}

static int drop_futures(void *argument) {
    runtime_fixture *fixture = argument;
    char path[128];
    mr_ref ref = {{0, 0}}, after = {{0, 0}};
    mr_value value;
    snprintf(path, sizeof path, "%s/stderr", fixture->folder);
    int kept = dup(2), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    TEST_CHILD_CHECK(runtime_fixture_open(fixture, &mr) == MR_OK);
    dup2(fd, 2);
    close(fd);
    /* Failures that are reported: no future requested (cheddar); future released unread (gouda). Not reported: failures
     * that were read (brie), or read through another future (feta). */
    bool fine = mr_call_task(mr, "fail_with", NULL, mr_str("cheddar")) == MR_OK &&
                mr_call_task(mr, "fail_with", &ref, mr_str("gouda")) == MR_OK;
    mr_release(mr, ref);
    fine = fine && mr_call_task(mr, "fail_with", &ref, mr_str("brie")) == MR_OK &&
           mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_TASK_FAILED;
    mr_release(mr, ref);
    fine = fine && mr_call_task(mr, "fail_with", &ref, mr_str("feta")) == MR_OK &&
           mr_call_task(mr, "add", &after, mr_future(ref), mr_int(1)) == MR_OK;
    mr_release(mr, ref);
    fine = fine && mr_get(mr, after, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_TASK_FAILED;
    mr_release(mr, after);
    int64_t start = runtime_fixture_now_ms();
    while ((count_in_file(path, "cheddar") == 0 || count_in_file(path, "gouda") == 0) &&
           runtime_fixture_now_ms() - start < RUNTIME_FIXTURE_GONE_MS)
        poll(NULL, 0, 2);
    fine = fine && runtime_works(mr) &&
           mr_call_task(mr, "pause_ms", NULL, mr_int(RUNTIME_FIXTURE_LONG_MS)) == MR_OK; /* ends without a report */
    mr_shutdown(mr);
    dup2(kept, 2);
    close(kept);
    TEST_CHILD_CHECK(fine);
    TEST_CHILD_CHECK(count_in_file(path, "cheddar") == 1);
    TEST_CHILD_CHECK(count_in_file(path, "gouda") == 1);
    TEST_CHILD_CHECK(count_in_file(path, "brie") == 0);
    TEST_CHILD_CHECK(count_in_file(path, "pause_ms") == 0);
    TEST_CHILD_CHECK(count_in_file(path, "feta") == 0);
    TEST_CHILD_CHECK(unlink(path) == 0);
    return 0;
}

static void an_unread_failure_is_printed_once(void **state) {
    assert_int_equal(test_child_run(drop_futures, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

/* The driver computes and never waits. Tasks that depend on results start nevertheless. */
static int not_wait(void *argument) {
    enum { LINKS = 50 };
    runtime_fixture *fixture = argument;
    char path[128];
    mr_ref ref, next;
    snprintf(path, sizeof path, "%s/marks", fixture->folder);
    TEST_CHILD_CHECK(runtime_fixture_open(fixture, &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_call_task(mr, "mark", &ref) == MR_OK);
    for (int i = 1; i < LINKS; i++) {
        TEST_CHILD_CHECK(mr_call_task(mr, "mark", &next, mr_future(ref)) == MR_OK);
        mr_release(mr, ref);
        ref = next;
    }
    mr_release(mr, ref);
    int64_t start = runtime_fixture_now_ms();
    while (count_in_file(path, "x") < LINKS && runtime_fixture_now_ms() - start < RUNTIME_FIXTURE_PATIENCE_US / 1000)
        poll(NULL, 0, 2);
    TEST_CHILD_CHECK(count_in_file(path, "x") == LINKS);
    mr_shutdown(mr);
    TEST_CHILD_CHECK(unlink(path) == 0);
    return 0;
}

static void work_goes_on_while_the_program_computes(void **state) {
    assert_int_equal(test_child_run(not_wait, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    const char *boot = getenv("MINIRAY_BOOT");
    if (boot != NULL && getenv(FAILING_START) != NULL) {
        append_byte("starts");
        return 3;
    }
    if (boot != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(workers_that_cannot_start_are_not_started_for_ever),
        IN_A_WORLD(little_address_space_is_enough_or_told),
        IN_A_WORLD(a_lack_of_processes_is_a_clear_error),
        IN_A_WORLD(no_thread_is_a_clear_error),
        IN_A_WORLD(too_few_descriptors_are_a_clear_error),
        IN_A_WORLD(descriptors_that_run_out_end_nothing),
        IN_A_WORLD(a_node_without_descriptors_recovers),
        IN_A_WORLD(nonsense_is_refused),
        IN_A_WORLD(a_released_future_is_not_found),
        IN_A_WORLD(threads_share_a_context),
        IN_A_WORLD(an_unread_failure_is_printed_once),
        IN_A_WORLD(work_goes_on_while_the_program_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
