/* zygote_test.c — workers that are forked from a zygote: their parent, the report of their end, and the death of the
 * zygote, the node or the driver. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/process/context.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

#define HOW "TEMPLATE_TEST" /* environment variable with the behaviour of the zygote */

static mr_context *mr;
static int begun_by;    /* pid of the process that ran main: the zygote's, in all its copies */
static int copy_number; /* in a copy */
static int befores;     /* each copy has its own count */

MR_TASK(begun_by_pid) { return mr_return(call, mr_int(begun_by)); }
MR_TASK(own_pid) { return mr_return(call, mr_int(getpid())); }
MR_TASK(parent_pid) { return mr_return(call, mr_int(getppid())); }
MR_TASK(number) { return mr_return(call, mr_int(copy_number == befores ? copy_number : -1)); }
MR_TASK(leave) { _exit(3); }
MR_TASK(crash) {
    raise(SIGKILL); /* a sanitizer turns other deaths into an exit */
    return MR_OK;
}

MR_CREATE(Home) { return MR_OK; }
MR_METHOD(Home, pid) { return mr_return(call, mr_int(getpid())); }
MR_METHOD(Home, begun_by) { return mr_return(call, mr_int(begun_by)); }

static void before(void) { befores++; }
static void child(uint32_t number) { copy_number = (int)number; }

static const mr_fork hooks = {.before = before, .child = child};

static mr_status open_with(const runtime_fixture *fixture, const char *how) {
    runtime_fixture_enter(fixture);
    setenv(HOW, how, 1);
    mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20, .fork = &hooks), &mr);
    if (status != MR_OK) fprintf(stderr, "mr_init: %s\n", mr_last_error());
    return status;
}

static int64_t value_of(mr_ref ref) {
    mr_value value;
    int64_t number = -1;
    mr_status status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    mr_release(mr, ref);
    if (status != MR_OK || mr_value_int(&value, &number) != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    if (status == MR_OK) mr_value_release(&value);
    return number;
}

static int64_t task(const char *name) {
    mr_ref ref;
    return mr_call_task(mr, name, &ref) == MR_OK ? value_of(ref) : -1;
}

static int64_t of_new_actor(const char *method) {
    mr_actor actor;
    mr_ref ref;
    if (mr_new_actor(mr, "Home", &actor) != MR_OK || mr_call_actor(mr, actor, method, &ref) != MR_OK) return -1;
    return value_of(ref);
}

/* ---- Tests. */

static int make_copies(void *argument) {
    TEST_CHILD_CHECK(open_with(argument, "") == MR_OK);
    int64_t template = task("begun_by_pid");
    TEST_CHILD_CHECK(template > 0 && template != mr->node_pid);
    TEST_CHILD_CHECK(task("own_pid") != template);
    TEST_CHILD_CHECK(task("parent_pid") == mr->node_pid);
    TEST_CHILD_CHECK(task("number") > 0);
    for (int i = 0; i < 3; i++) TEST_CHILD_CHECK(of_new_actor("begun_by") == template);
    mr_shutdown(mr);
    TEST_CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    return 0;
}

static void workers_are_copies_and_the_nodes_children(void **state) {
    assert_int_equal(test_child_run(make_copies, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static bool dies_of(const char *name, const char *cause) {
    mr_ref ref;
    mr_value value;
    mr_task_options once = MR_OPTIONS(mr_task_options, .max_retries = -1);
    if (mr_task_submit(mr, name, &once, NULL, 0, &ref) != MR_OK) return false;
    bool died = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_WORKER_DIED;
    bool told = strstr(mr_last_error(), cause) != NULL;
    if (!died || !told) fprintf(stderr, "%s\n", mr_last_error());
    mr_release(mr, ref);
    return died && told;
}

static int die_in_copies(void *argument) {
    TEST_CHILD_CHECK(open_with(argument, "") == MR_OK);
    TEST_CHILD_CHECK(dies_of("leave", "exited with status 3"));
    TEST_CHILD_CHECK(dies_of("crash", "signal 9"));
    TEST_CHILD_CHECK(runtime_works(mr));
    mr_shutdown(mr);
    return 0;
}

static void the_cause_of_a_copys_death_is_exact(void **state) {
    assert_int_equal(test_child_run(die_in_copies, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int lose_templates(void *argument) {
    TEST_CHILD_CHECK(open_with(argument, "") == MR_OK);
    int64_t worker = task("own_pid"), first = task("begun_by_pid");
    TEST_CHILD_CHECK(first > 0 && kill((pid_t)first, SIGKILL) == 0);
    int64_t second = first;
    for (int i = 0; i < 4 && second == first; i++) second = of_new_actor("begun_by"); /* idle workers are used first */
    TEST_CHILD_CHECK(second > 0 && second != first);
    TEST_CHILD_CHECK(kill((pid_t)worker, 0) == 0); /* the workers outlive the zygote */
    mr_shutdown(mr);
    return 0;
}

static void a_dead_zygote_is_replaced(void **state) {
    assert_int_equal(test_child_run(lose_templates, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

/* Actors are created while zygotes are killed one after another: all actors start. */
static int lose_templates_at_work(void *argument) {
    enum { ROUNDS = 12, ACTORS = 4 };
    mr_ref refs[ACTORS];
    mr_actor actors[ACTORS];
    TEST_CHILD_CHECK(open_with(argument, "") == MR_OK);
    int64_t template = task("begun_by_pid");
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ACTORS; i++) TEST_CHILD_CHECK(mr_new_actor(mr, "Home", &actors[i]) == MR_OK);
        for (int i = 0; i < ACTORS; i++) TEST_CHILD_CHECK(mr_call_actor(mr, actors[i], "begun_by", &refs[i]) == MR_OK);
        poll(NULL, 0, round % 4); /* another instant each time; all instants are valid */
        kill((pid_t) template, SIGKILL);
        for (int i = 0; i < ACTORS; i++) TEST_CHILD_CHECK((template = value_of(refs[i])) > 0);
        for (int i = 0; i < ACTORS; i++) TEST_CHILD_CHECK(mr_actor_kill(mr, actors[i]) == MR_OK);
    }
    mr_shutdown(mr);
    return 0;
}

static void zygotes_may_die_at_any_moment(void **state) {
    assert_int_equal(test_child_run(lose_templates_at_work, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

/* Kills all workers and zygotes, again and again: the node and its reaper stay. */
static void kill_all_for(const runtime_fixture *fixture, int64_t ms) {
    int64_t start = runtime_fixture_now_ms();
    while (runtime_fixture_now_ms() - start < ms) {
        int pids[64];
        size_t count = runtime_fixture_find(fixture, "MINIRAY_BOOT=template", pids, 64);
        for (size_t i = 0; i < count; i++) kill(pids[i], SIGKILL);
        poll(NULL, 0, 2);
    }
}

/* All processes of a job are killed for a while, as by the kernel when memory is short: its actors come back. */
static int survive_a_burst(void *argument) {
    enum { ACTORS = 4, BURST_MS = 2500 };
    mr_actor actors[ACTORS];
    mr_ref refs[ACTORS];
    mr_actor_options options =
        MR_OPTIONS(mr_actor_options, .max_restarts = MR_NO_LIMIT, .max_call_retries = MR_NO_LIMIT);
    TEST_CHILD_CHECK(open_with(argument, "") == MR_OK);
    for (int i = 0; i < ACTORS; i++) {
        TEST_CHILD_CHECK(mr_actor_create(mr, "Home", &options, NULL, 0, &actors[i]) == MR_OK);
        TEST_CHILD_CHECK(mr_call_actor(mr, actors[i], "pid", &refs[i]) == MR_OK && value_of(refs[i]) > 0);
    }
    kill_all_for(argument, BURST_MS);
    for (int i = 0; i < ACTORS; i++) TEST_CHILD_CHECK(mr_call_actor(mr, actors[i], "pid", &refs[i]) == MR_OK);
    for (int i = 0; i < ACTORS; i++) TEST_CHILD_CHECK(value_of(refs[i]) > 0);
    TEST_CHILD_CHECK(runtime_works(mr));
    mr_shutdown(mr);
    return 0;
}

static void actors_that_may_restart_survive_a_burst_of_kills(void **state) {
    assert_int_equal(test_child_run(survive_a_burst, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int have_threads(void *argument) {
    TEST_CHILD_CHECK(open_with(argument, "threads") == MR_OK);
    TEST_CHILD_CHECK(task("begun_by_pid") > 0);
    for (int i = 0; i < 2; i++) TEST_CHILD_CHECK(of_new_actor("begun_by") > 0);
    TEST_CHILD_CHECK(of_new_actor("begun_by") != of_new_actor("begun_by")); /* each worker has run main itself */
    mr_shutdown(mr);
    return 0;
}

static void a_program_with_threads_has_its_workers_started_afresh(void **state) {
    assert_int_equal(test_child_run(have_threads, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int never_start(void *argument) {
    mr_ref ref;
    mr_value value;
    TEST_CHILD_CHECK(open_with(argument, "ends") == MR_OK);
    mr_status status = mr_call_task(mr, "own_pid", &ref);
    if (status == MR_OK) status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    TEST_CHILD_CHECK(status == MR_WORKER_DIED);
    fprintf(stderr, "    %s\n", mr_last_error());
    TEST_CHILD_CHECK(strstr(mr_last_error(), "status 9") != NULL);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "no luck today") != NULL);
    mr_shutdown(mr);
    return 0;
}

static void a_zygote_that_cannot_start_is_reported_with_its_output(void **state) {
    assert_int_equal(test_child_run(never_start, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int be_killed(void *argument) {
    TEST_CHILD_CHECK(open_with(argument, "") == MR_OK);
    TEST_CHILD_CHECK(of_new_actor("pid") > 0 && runtime_works(mr));
    TEST_CHILD_CHECK(runtime_fixture_ready(argument));
    poll(NULL, 0, RUNTIME_FIXTURE_LONG_MS);
    return 0;
}

static void a_killed_program_ends_zygote_and_workers(void **state) {
    pid_t pid = test_child_start(be_killed, *state);
    runtime_fixture_await(*state);
    assert_true(runtime_fixture_processes(*state) >= 4);
    int64_t start = runtime_fixture_now_ms();
    kill(pid, SIGKILL);
    assert_int_equal(test_child_wait(pid, RUNTIME_FIXTURE_CHILD_MS), -SIGKILL);
    runtime_fixture_gone_since(*state, start, "kill -9 of the program");
}

static int lose_the_node(void *argument) {
    TEST_CHILD_CHECK(open_with(argument, "") == MR_OK);
    TEST_CHILD_CHECK(of_new_actor("pid") > 0 && runtime_works(mr));
    int64_t start = runtime_fixture_now_ms();
    kill(mr->node_pid, SIGKILL);
    while (runtime_fixture_processes(argument) > 0 && runtime_fixture_now_ms() - start < RUNTIME_FIXTURE_GONE_MS)
        poll(NULL, 0, 2);
    TEST_CHILD_CHECK(runtime_fixture_processes(argument) == 0);
    mr_shutdown(mr);
    return 0;
}

static void a_killed_node_ends_zygote_and_workers(void **state) {
    assert_int_equal(test_child_run(lose_the_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown without a node");
}

static void *wait_for_ever(void *argument) {
    pause();
    return NULL;
}

static int serve(void) {
    const char *how = getenv(HOW) == NULL ? "" : getenv(HOW);
    pthread_t thread;
    begun_by = getpid();
    if (strcmp(how, "ends") == 0) {
        printf("no luck today\n");
        return 9;
    }
    if (strcmp(how, "threads") == 0 && pthread_create(&thread, NULL, wait_for_ever, NULL) != 0) return 1;
    return mr_init(&MR_OPTIONS(mr_options, .fork = &hooks), &mr) != MR_OK;
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return serve();
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(workers_are_copies_and_the_nodes_children),
        IN_A_WORLD(the_cause_of_a_copys_death_is_exact),
        IN_A_WORLD(a_dead_zygote_is_replaced),
        IN_A_WORLD(zygotes_may_die_at_any_moment),
        IN_A_WORLD(actors_that_may_restart_survive_a_burst_of_kills),
        IN_A_WORLD(a_program_with_threads_has_its_workers_started_afresh),
        IN_A_WORLD(a_zygote_that_cannot_start_is_reported_with_its_output),
        IN_A_WORLD(a_killed_program_ends_zygote_and_workers),
        IN_A_WORLD(a_killed_node_ends_zygote_and_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
