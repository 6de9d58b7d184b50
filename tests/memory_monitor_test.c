/* memory_monitor_test.c — the node ends workers when memory is nearly used up: which ones, the errors, and the retries.
 *
 * The limit is the option memory_limit, which counts the workers of the node, or that of a memory cgroup, where this
 * process may make one. Each driver is a child of the test. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/tsan.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_child.h"

enum {
    LIMIT_MB = SANITIZED ? 800 : 400, /* of all workers, also of what a sanitizer needs; a hog takes more than half */
    STEP_MB = LIMIT_MB / 40,
    STEP_US = 40 * 1000, /* so that memory grows by about 60 MB between two checks */
    HELD_MS = 20 * 1000,
    GROUP_MB = 256,
};

static mr_context *mr;
static runtime_fixture *fixture;

/* ---- Tasks and actors. */

static void note(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "s", 1) != 1) abort();
    close(fd);
}

static int64_t notes(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 ? about.st_size : 0;
}

/* Takes memory step by step. Returns it; NULL: there is none. */
static char *take(int64_t megabytes) {
    char *memory = malloc((size_t)megabytes << 20);
    for (int64_t i = 0; memory != NULL && i < megabytes; i += STEP_MB) {
        size_t left = (size_t)(megabytes - i < STEP_MB ? megabytes - i : STEP_MB);
        memset(memory + ((size_t)i << 20), (int)i + 1, left << 20);
        usleep(STEP_US);
    }
    return memory;
}

/* Arguments: megabytes, file of its begins, file whose existence lets it end. Returns the number of begins. */
MR_TASK(hog) {
    int64_t megabytes;
    mr_span begins, may_end;
    char path[128], other[128];
    MR_TRY(mr_arg_int(call, 0, &megabytes));
    MR_TRY(mr_arg_str(call, 1, &begins));
    MR_TRY(mr_arg_str(call, 2, &may_end));
    snprintf(path, sizeof path, "%.*s", (int)begins.size, (const char *)begins.data);
    snprintf(other, sizeof other, "%.*s", (int)may_end.size, (const char *)may_end.data);
    note(path);
    char *memory = take(megabytes);
    for (int i = 0; i < HELD_MS && notes(other) == 0; i++) usleep(1000);
    free(memory);
    return mr_return(call, mr_int(notes(path)));
}

MR_CREATE(Keeper) { return mr_set_self(call, take(LIMIT_MB / 8), free); }
MR_METHOD(Keeper, hello) { return mr_return(call, mr_int(1)); }
MR_METHOD(Keeper, grow) {
    char *more = take(LIMIT_MB * 2);
    usleep(HELD_MS * 1000);
    return mr_return(call, mr_int(more[0]));
}

/* ---- Drivers. */

static void path_of(const char *name, char out[128]) { snprintf(out, 128, "%s/%s", fixture->folder, name); }

static void forget(const char *name) {
    char path[128];
    path_of(name, path);
    unlink(path);
}

static mr_status submit(const char *name, int64_t megabytes, int retries, mr_ref *out) {
    char begins[128], may_end[128];
    path_of(name, begins);
    path_of("end", may_end);
    const mr_arg args[] = {mr_int(megabytes), mr_str(begins), mr_str(may_end)};
    return mr_task_submit(mr, "hog", &MR_OPTIONS(mr_task_options, .max_retries = retries), args, 3, out);
}

static int64_t begun(const char *name) {
    char path[128];
    path_of(name, path);
    return notes(path);
}

static bool await_begun(const char *name, int64_t count) {
    for (int i = 0; i < HELD_MS && begun(name) < count; i++) usleep(1000);
    return begun(name) >= count;
}

static bool said(const char *what) {
    if (strstr(mr_last_error(), what) != NULL) return true;
    fprintf(stderr, "'%s' is not in: %s\n", what, mr_last_error());
    return false;
}

static mr_status outcome(mr_ref ref) {
    mr_value value;
    mr_status status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    if (status == MR_OK) mr_value_release(&value);
    mr_release(mr, ref);
    return status;
}

static bool open_limited(int megabytes) {
    char limit[32];
    snprintf(limit, sizeof limit, "%dM", megabytes);
    setenv("MINIRAY_MEMORY_LIMIT", limit, 1);
    return runtime_fixture_open(fixture, &mr) == MR_OK;
}

static int close_driver(void) {
    mr_shutdown(mr);
    forget("a");
    forget("b");
    forget("end");
    return 0;
}

/* ---- One task that needs more than there is. */

static int one_too_large(void *argument) {
    mr_ref ref;
    TEST_CHILD_CHECK(open_limited(LIMIT_MB));
    TEST_CHILD_CHECK(submit("a", 2 * LIMIT_MB, 5, &ref) == MR_OK);
    TEST_CHILD_CHECK(outcome(ref) == MR_WORKER_DIED);
    TEST_CHILD_CHECK(said("task 'hog'") && said("MINIRAY_MEMORY_LIMIT is nearly used up: ") &&
                     said(SANITIZED ? " of 800 MB" : " of 400 MB"));
    TEST_CHILD_CHECK(said("(threshold 95 %)") && said("MB by this worker (hog), not retried as the only task"));
    TEST_CHILD_CHECK(said("(give each more num_cpus)") && said("MINIRAY_MEMORY_USAGE_THRESHOLD; largest: ") &&
                     said(" process "));
    TEST_CHILD_CHECK(strchr(mr_last_error(), '\n') == NULL);
    TEST_CHILD_CHECK(begun("a") == 1);
    TEST_CHILD_CHECK(runtime_works(mr));
    return close_driver();
}

static void a_task_that_needs_too_much_fails_at_once(void **state) {
    fixture = *state;
    assert_int_equal(test_child_run(one_too_large, NULL, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(fixture, "a task that was ended");
}

/* ---- Two tasks that fit one after the other. With ThreadSanitizer not even one fits: its shadow memory counts. */

static int two_in_turn(void *argument) {
    mr_ref older, newer;
    TEST_CHILD_CHECK(open_limited(LIMIT_MB));
    TEST_CHILD_CHECK(submit("a", LIMIT_MB * 5 / 8, 1, &older) == MR_OK && await_begun("a", 1));
    TEST_CHILD_CHECK(submit("b", LIMIT_MB * 5 / 8, 1, &newer) == MR_OK);
    TEST_CHILD_CHECK(await_begun("b", 3)); /* ended twice, with one retry */
    char end[128];
    path_of("end", end);
    note(end);
    TEST_CHILD_CHECK(runtime_gives(mr, older, 1)); /* the older one was never ended */
    TEST_CHILD_CHECK(outcome(newer) == MR_OK);
    return close_driver();
}

static void of_two_tasks_the_newer_is_retried_until_it_fits(void **state) {
    if (TSAN) skip();
    fixture = *state;
    assert_int_equal(test_child_run(two_in_turn, NULL, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(fixture, "two tasks");
}

static int without_retries_after_that(void *argument) {
    mr_ref older, newer;
    setenv("MINIRAY_TASK_OOM_RETRIES", "1", 1);
    TEST_CHILD_CHECK(open_limited(LIMIT_MB));
    TEST_CHILD_CHECK(submit("a", LIMIT_MB * 5 / 8, 1, &older) == MR_OK && await_begun("a", 1));
    TEST_CHILD_CHECK(submit("b", LIMIT_MB * 5 / 8, 1, &newer) == MR_OK);
    char end[128];
    path_of("end", end);
    TEST_CHILD_CHECK(await_begun("b", 3)); /* one retry after a lack of memory, one of max_retries */
    TEST_CHILD_CHECK(outcome(newer) == MR_WORKER_DIED && said("nearly used up") && begun("b") == 3);
    note(end);
    TEST_CHILD_CHECK(outcome(older) == MR_OK);
    return close_driver();
}

static void retries_can_be_limited(void **state) {
    if (TSAN) skip();
    fixture = *state;
    assert_int_equal(test_child_run(without_retries_after_that, NULL, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(fixture, "a limit of retries");
}

/* ---- Actors. */

static int actors_last(void *argument) {
    mr_ref ref;
    mr_actor actor;
    TEST_CHILD_CHECK(open_limited(LIMIT_MB));
    TEST_CHILD_CHECK(submit("a", LIMIT_MB * 5 / 8, -1, &ref) == MR_OK && await_begun("a", 1));
    TEST_CHILD_CHECK(mr_new_actor(mr, "Keeper", &actor) == MR_OK); /* newer than the task */
    mr_ref hello;
    TEST_CHILD_CHECK(mr_call_actor(mr, actor, "hello", &hello) == MR_OK && runtime_gives(mr, hello, 1));
    mr_ref more;
    TEST_CHILD_CHECK(submit("b", LIMIT_MB / 2, -1, &more) == MR_OK);
    TEST_CHILD_CHECK(outcome(more) == MR_WORKER_DIED && said("nearly used up")); /* the newest task */
    char end[128];
    path_of("end", end);
    note(end);
    TEST_CHILD_CHECK(outcome(ref) == MR_OK);
    TEST_CHILD_CHECK(mr_call_actor(mr, actor, "hello", &hello) == MR_OK && runtime_gives(mr, hello, 1));
    TEST_CHILD_CHECK(mr_call_actor(mr, actor, "grow", &ref) == MR_OK);
    TEST_CHILD_CHECK(outcome(ref) == MR_ACTOR_DIED && said("nearly used up") && said("(actor Keeper)"));
    mr_actor_release(mr, actor);
    return close_driver();
}

static void tasks_are_ended_before_actors(void **state) {
    if (TSAN) skip();
    fixture = *state;
    assert_int_equal(test_child_run(actors_last, NULL, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(fixture, "the end of an actor");
}

/* ---- In a memory cgroup. */

static char group[128]; /* its folder; "": none could be made */

static bool put(const char *folder, const char *file, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return done;
}

static bool make_group(void) {
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    char limit[32];
    snprintf(limit, sizeof limit, "%d", GROUP_MB << 20);
    for (size_t i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/miniray-test-%d", roots[i], (int)getpid());
        if (mkdir(group, 0755) != 0) continue;
        (void)put(group, "memory.swap.max", "0");
        if (put(group, i == 0 ? "memory.limit_in_bytes" : "memory.max", limit)) return true;
        rmdir(group);
    }
    group[0] = '\0';
    return false;
}

static void remove_group(void) {
    for (int i = 0; i < 10000 && rmdir(group) != 0 && errno == EBUSY; i++) usleep(1000);
}

static bool join_group(void) { return put(group, "cgroup.procs", "0"); }

static int in_a_group(void *argument) {
    mr_ref ref;
    TEST_CHILD_CHECK(join_group());
    TEST_CHILD_CHECK(runtime_fixture_open(fixture, &mr) == MR_OK);
    TEST_CHILD_CHECK(submit("a", 2 * GROUP_MB, 5, &ref) == MR_OK);
    TEST_CHILD_CHECK(outcome(ref) == MR_WORKER_DIED);
    TEST_CHILD_CHECK(said("by the node: memory is nearly used up: ") && said(" of 256 MB (threshold 60 %)"));
    return close_driver();
}

static int without_a_monitor(void *argument) {
    mr_ref ref;
    TEST_CHILD_CHECK(join_group());
    TEST_CHILD_CHECK(runtime_fixture_open(fixture, &mr) == MR_OK);
    TEST_CHILD_CHECK(submit("a", 2 * GROUP_MB, -1, &ref) == MR_OK);
    TEST_CHILD_CHECK(outcome(ref) == MR_WORKER_DIED);
    const char *used = SANITIZED ? "(SIGKILL), out of memory: it used " : "(SIGKILL), out of memory: it used 2";
    TEST_CHILD_CHECK(said(used) && said(" MB at its peak, and the limit is 256 MB"));
    return close_driver();
}

static void the_limit_of_a_cgroup_counts(void **state) {
    fixture = *state;
    if (!make_group()) {
        print_message("no memory cgroup can be made here: %s\n", strerror(errno));
        skip();
    }
    setenv("MINIRAY_MEMORY_USAGE_THRESHOLD", "60", 1);
    int monitored = test_child_run(in_a_group, NULL, RUNTIME_FIXTURE_CHILD_MS);
    unsetenv("MINIRAY_MEMORY_USAGE_THRESHOLD");
    runtime_fixture_gone(fixture, "the monitor in a cgroup");
    setenv("MINIRAY_MEMORY_CHECK_US", "0", 1);
    int by_kernel = test_child_run(without_a_monitor, NULL, RUNTIME_FIXTURE_CHILD_MS);
    unsetenv("MINIRAY_MEMORY_CHECK_US");
    runtime_fixture_gone(fixture, "the kernel in a cgroup");
    remove_group();
    assert_int_equal(monitored, 0);
    assert_int_equal(by_kernel, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        TEST(a_task_that_needs_too_much_fails_at_once),
        TEST(of_two_tasks_the_newer_is_retried_until_it_fits),
        TEST(retries_can_be_limited),
        TEST(tasks_are_ended_before_actors),
        TEST(the_limit_of_a_cgroup_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
