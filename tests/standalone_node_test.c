/* standalone_node_test.c — a node that several drivers join, seen from the drivers and from outside.
 *
 * Every test has a fixture of its own (runtime_fixture.h) with a node, started by a process that ends before the first
 * driver joins. The node and the workers are this same binary, started again. */
#include <errno.h>
#include <fcntl.h>
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(where_am_i) { /* properties that a worker inherits from its driver */
    char text[600], folder[256];
    const char *marker = getenv("MINIRAY_TEST_MARKER"), *tmp = getenv("TMPDIR");
    if (getcwd(folder, sizeof folder) == NULL) return MR_IO;
    snprintf(text, sizeof text, "%s|%s|%s|%s", program_invocation_name, folder, marker == NULL ? "" : marker, tmp);
    return mr_return(call, mr_str(text));
}

MR_CREATE(Counter) {
    int64_t *self = calloc(1, sizeof *self);
    return mr_set_self(call, self, free);
}
MR_METHOD(Counter, next) { return mr_return(call, mr_int(++*(int64_t *)mr_self(call))); }
MR_METHOD(Counter, die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

static void *die_after(void *argument) { /* dies as soon as the process has ended */
    struct pollfd program = {.fd = (int)(intptr_t)argument, .events = POLLIN};
    poll(&program, 1, -1);
    kill(getpid(), SIGKILL);
    return NULL;
}

MR_METHOD(Counter, die_with) { /* dies together with the process of this pid */
    int64_t pid;
    pthread_t thread;
    MR_TRY(mr_arg_int(call, 0, &pid));
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0 || pthread_create(&thread, NULL, die_after, (void *)(intptr_t)fd) != 0) return MR_IO;
    pthread_detach(thread);
    return mr_return(call, mr_int(0));
}

/* ---- The node. */

static int start_node(void *argument) {
    runtime_fixture_enter(argument);
    mr_node_info node;
    mr_status status = mr_node_start(&MR_OPTIONS(mr_node_options, .num_cpus = 2, .store_bytes = 64 << 20), &node);
    if (status != MR_OK) fprintf(stderr, "mr_node_start: %s\n", mr_last_error());
    return status;
}

static int stop_node(void *argument) {
    runtime_fixture_enter(argument);
    mr_node_info node;
    mr_status status = mr_node_stop(NULL, &node);
    return status;
}

static int make(void **state) {
    return runtime_fixture_make(state) != 0 || test_child_run(start_node, *state, RUNTIME_FIXTURE_CHILD_MS) != 0;
}

static int unmake(void **state) {
    int failed = test_child_run(stop_node, *state, RUNTIME_FIXTURE_CHILD_MS);
    runtime_fixture_gone(*state, "miniray stop");
    return runtime_fixture_unmake(state) + failed;
}

static int node_pid(void) {
    mr_node_info node;
    if (mr_node_start(NULL, &node) != MR_EXISTS) return -1;
    const char *process = strstr(mr_last_error(), "process ");
    return process == NULL ? -1 : atoi(process + 8);
}

static bool join_in(const runtime_fixture *fixture, const char *name_space) {
    runtime_fixture_enter(fixture);
    mr_status status = mr_init(&MR_OPTIONS(mr_options, .address = "auto", .name_space = name_space), &mr);
    if (status != MR_OK) fprintf(stderr, "mr_init: %s\n", mr_last_error());
    return status == MR_OK;
}

static bool counts(mr_actor counter, int64_t expected) {
    mr_ref ref;
    return mr_call_actor(mr, counter, "next", &ref) == MR_OK && runtime_gives(mr, ref, expected);
}

/* Waits until at most this many processes are left. */
static bool is_alone(const runtime_fixture *fixture, size_t processes) {
    int64_t start = runtime_fixture_now_ms();
    while (runtime_fixture_processes(fixture) != processes) {
        if (runtime_fixture_now_ms() - start > RUNTIME_FIXTURE_GONE_MS) {
            fprintf(stderr, "%zu processes instead of %zu\n", runtime_fixture_processes(fixture), processes);
            return false;
        }
        poll(NULL, 0, 2);
    }
    return true;
}

/* ---- Joining. */

static int work_and_go(void *argument) {
    TEST_CHILD_CHECK(join_in(argument, NULL));
    for (int i = 0; i < 20; i++) TEST_CHILD_CHECK(runtime_works(mr));
    char address[256];
    snprintf(address, sizeof address, "%s", mr_address(mr));
    mr_shutdown(mr);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = address), &mr) == MR_OK &&
                     runtime_works(mr)); /* the same node */
    mr_shutdown(mr);
    return 0;
}

static void programs_come_and_go(void **state) {
    for (int i = 0; i < 5; i++) {
        assert_int_equal(test_child_run(work_and_go, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
        assert_true(is_alone(*state, RUNTIME_FIXTURE_LASTING)); /* the workers of a driver end with it */
    }
}

static void programs_are_there_at_once(void **state) {
    pid_t pids[4];
    for (int i = 0; i < 4; i++) pids[i] = test_child_start(work_and_go, *state);
    for (int i = 0; i < 4; i++) assert_int_equal(test_child_wait(pids[i], RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_true(is_alone(*state, RUNTIME_FIXTURE_LASTING));
}

enum { KEPT_FLOATS = 1 << 20 };

static mr_status put_filled(float with, mr_ref *out) {
    float *data = malloc(KEPT_FLOATS * sizeof *data);
    for (size_t i = 0; i < KEPT_FLOATS; i++) data[i] = with;
    mr_status status = mr_put(mr, mr_vector(data, KEPT_FLOATS), out);
    free(data);
    return status;
}

static int keep_a_value(void *argument) { /* other drivers reuse the value's memory, and write to it */
    mr_ref ref, others[12];
    mr_value value;
    mr_tensor tensor;
    if (!join_in(argument, NULL) || put_filled(7, &ref) != MR_OK) return 1;
    if (mr_get(mr, ref, MR_FOREVER, &value) != MR_OK || mr_value_tensor(&value, &tensor) != MR_OK) return 2;
    mr_shutdown(mr);
    if (!join_in(argument, NULL)) return 3;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (put_filled(8, &others[i]) != MR_OK) return 4;
    for (size_t i = 0; i < KEPT_FLOATS; i++)
        if (((const float *)tensor.data)[i] != 7) return 5;
    mr_value_release(&value);
    mr_shutdown(mr);
    return 0;
}

static void a_value_outlives_the_stay_of_its_program(void **state) {
    assert_int_equal(test_child_run(keep_a_value, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

static int ask_where(void *argument) {
    const runtime_fixture *fixture = argument;
    char folder[TEMP_DIR_FOLDER_MAX + 8], expected[700];
    snprintf(folder, sizeof folder, "%s/here", fixture->folder);
    TEST_CHILD_CHECK(mkdir(folder, 0700) == 0 && chdir(folder) == 0);
    setenv("MINIRAY_TEST_MARKER", "set before it joined", 1);
    TEST_CHILD_CHECK(join_in(fixture, NULL));
    TEST_CHILD_CHECK(chdir("/") == 0 && rmdir(folder) == 0); /* after the join: no effect */
    setenv("MINIRAY_TEST_MARKER", "set afterwards", 1);
    snprintf(expected, sizeof expected, "%s|%s (deleted)|set before it joined|%s", program_invocation_name, folder,
             fixture->folder);
    mr_ref ref;
    mr_value value;
    mr_span text;
    TEST_CHILD_CHECK(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)) == MR_OK && runtime_gives(mr, ref, 2));
    TEST_CHILD_CHECK(mr_call_task(mr, "where_am_i", &ref) == MR_OK);
    mr_status status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    if (status == MR_IO) return 0; /* a removed folder has no name */
    TEST_CHILD_CHECK(status == MR_OK && mr_value_str(&value, &text) == MR_OK);
    TEST_CHILD_CHECK(text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0);
    return 0;
}

static void workers_have_what_their_program_had(void **state) {
    assert_int_equal(test_child_run(ask_where, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

static int join_wrongly(void *argument) {
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "/nowhere/at/all"), &mr) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "miniray start") != NULL);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "auto", .num_workers = 3), &mr) == MR_INVALID);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "miniray start") != NULL);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "nonsense"), &mr) == MR_INVALID);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "auto", .name_space = "#2"), &mr) == MR_INVALID);
    mr_node_info node;
    TEST_CHILD_CHECK(mr_node_start(NULL, &node) == MR_EXISTS);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "miniray stop") != NULL);
    setenv("MINIRAY_ADDRESS", "auto", 1);
    TEST_CHILD_CHECK(mr_init(NULL, &mr) == MR_OK);
    TEST_CHILD_CHECK(runtime_works(mr));
    mr_shutdown(mr);
    return 0;
}

static void wrong_addresses_are_told(void **state) {
    assert_int_equal(test_child_run(join_wrongly, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

/* ---- Actors of other drivers. */

typedef struct pair { /* two drivers that take turns */
    const runtime_fixture *fixture;
    int to[2], back[2];
} pair;

static bool say(const int fds[2]) { return write(fds[1], "x", 1) == 1; }
static bool hear(const int fds[2]) {
    char byte;
    return read(fds[0], &byte, 1) == 1;
}

static int have_actors(void *argument) {
    pair *pair = argument;
    mr_actor shared, detached, own;
    TEST_CHILD_CHECK(join_in(pair->fixture, "shop"));
    TEST_CHILD_CHECK(
        mr_actor_create(mr, "Counter", &MR_OPTIONS(mr_actor_options, .name = "shared"), NULL, 0, &shared) == MR_OK);
    TEST_CHILD_CHECK(mr_actor_create(mr, "Counter", &MR_OPTIONS(mr_actor_options, .name = "own", .name_space = "mine"),
                                     NULL, 0, &own) == MR_OK);
    TEST_CHILD_CHECK(mr_actor_create(mr, "Counter",
                                     &MR_OPTIONS(mr_actor_options, .name = "lasting", .detached = 1, .max_restarts = 1),
                                     NULL, 0, &detached) == MR_OK);
    TEST_CHILD_CHECK(mr_actor_create(mr, "Counter", &MR_OPTIONS(mr_actor_options, .name = "shared"), NULL, 0, &own) ==
                     MR_EXISTS);
    TEST_CHILD_CHECK(counts(shared, 1) && counts(detached, 1));
    TEST_CHILD_CHECK(say(pair->to) && hear(pair->back));
    TEST_CHILD_CHECK(counts(shared, 3));
    mr_shutdown(mr);
    return 0;
}

static int use_actors(void *argument) {
    pair *pair = argument;
    mr_actor shared, detached, own;
    mr_ref ref;
    mr_value value;
    TEST_CHILD_CHECK(hear(pair->to) && join_in(pair->fixture, "shop"));
    TEST_CHILD_CHECK(mr_actor_find(mr, "shared", NULL, &shared) == MR_OK && counts(shared, 2));
    TEST_CHILD_CHECK(mr_actor_find(mr, "own", NULL, &own) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(mr_actor_find(mr, "own", "", &own) == MR_INVALID);
    TEST_CHILD_CHECK(mr_actor_find(mr, "shared", "mine", &own) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(mr_actor_find(mr, "own", "mine", &own) == MR_OK && counts(own, 1));
    TEST_CHILD_CHECK(say(pair->back));
    TEST_CHILD_CHECK(is_alone(
        pair->fixture, RUNTIME_FIXTURE_LASTING + 2 + 1)); /* the node, the driver's workers, and the detached actor */
    mr_status status = mr_call_actor(mr, shared, "next", &ref);
    if (status == MR_OK) status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    TEST_CHILD_CHECK(status == MR_ACTOR_DIED);
    TEST_CHILD_CHECK(mr_actor_find(mr, "shared", NULL, &shared) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(mr_actor_find(mr, "lasting", NULL, &detached) == MR_OK && counts(detached, 2));
    TEST_CHILD_CHECK(mr_call_actor(mr, detached, "die", NULL) == MR_OK);
    status = mr_call_actor(mr, detached, "next", &ref); /* restarted with the launch spec of a driver that has ended */
    if (status == MR_OK) status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
    TEST_CHILD_CHECK(status == MR_OK || status == MR_ACTOR_DIED);
    TEST_CHILD_CHECK(status == MR_OK || counts(detached, 1));
    TEST_CHILD_CHECK(mr_actor_kill(mr, detached) == MR_OK);
    mr_shutdown(mr);
    return 0;
}

static void actors_are_called_by_other_programs(void **state) {
    pair pair = {.fixture = *state};
    assert_true(pipe(pair.to) == 0 && pipe(pair.back) == 0);
    pid_t owner = test_child_start(have_actors, &pair), user = test_child_start(use_actors, &pair);
    assert_int_equal(test_child_wait(user, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_int_equal(test_child_wait(owner, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_true(is_alone(*state, RUNTIME_FIXTURE_LASTING));
    for (int i = 0; i < 2; i++) {
        close(pair.to[i]);
        close(pair.back[i]);
    }
}

static bool has_idle_workers(int64_t expected) {
    mr_inspect *inspect;
    int64_t idle = -1, start = runtime_fixture_now_ms();
    if (mr_inspect_within(mr, &inspect) != MR_OK) return false;
    while (idle != expected && runtime_fixture_now_ms() - start < RUNTIME_FIXTURE_GONE_MS) {
        mr_value status, workers, count;
        if (mr_inspect_ask(inspect, "status", NULL, 0, &status) != MR_OK) break;
        bool found =
            mr_value_field(&status, "workers", &workers) == MR_OK && mr_value_field(&workers, "idle", &count) == MR_OK;
        if (!found || mr_value_int(&count, &idle) != MR_OK) break;
        mr_value_release(&status);
    }
    mr_inspect_close(inspect);
    return idle == expected;
}

static int leave_with_its_actor(void *argument) {
    mr_actor actor;
    mr_ref ref;
    TEST_CHILD_CHECK(join_in(argument, "shop"));
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "lasting", .detached = 1, .max_restarts = 1);
    TEST_CHILD_CHECK(mr_actor_create(mr, "Counter", &options, NULL, 0, &actor) == MR_OK && counts(actor, 1));
    TEST_CHILD_CHECK(has_idle_workers(2)); /* these workers will end with this driver */
    TEST_CHILD_CHECK(mr_call_actor(mr, actor, "die_with", &ref, mr_int(getpid())) == MR_OK &&
                     runtime_gives(mr, ref, 0));
    return kill(getpid(), SIGKILL);
}

static int find_it_again(void *argument) {
    mr_actor actor;
    mr_ref ref;
    mr_value value;
    int64_t count = 0;
    TEST_CHILD_CHECK(join_in(argument, "shop"));
    TEST_CHILD_CHECK(mr_actor_find(mr, "lasting", NULL, &actor) == MR_OK);
    while (count != 1) { /* the first process may still be alive, and lose the call */
        mr_call_options options = MR_OPTIONS(mr_call_options, .max_retries = 1);
        TEST_CHILD_CHECK(mr_actor_submit(mr, actor, "next", &options, NULL, 0, &ref) == MR_OK);
        mr_status status = mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value);
        if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
        TEST_CHILD_CHECK(status == MR_OK && mr_value_int(&value, &count) == MR_OK);
        mr_value_release(&value);
        mr_release(mr, ref);
    }
    TEST_CHILD_CHECK(mr_actor_kill(mr, actor) == MR_OK);
    mr_shutdown(mr);
    return 0;
}

/* The workers of a finished job take a while to end; none of them becomes the actor's next process. */
static void an_actor_that_dies_with_its_program_is_started_again(void **state) {
    for (int i = 0; i < 10; i++) {
        assert_int_equal(test_child_run(leave_with_its_actor, *state, RUNTIME_FIXTURE_CHILD_MS), -SIGKILL);
        assert_int_equal(test_child_run(find_it_again, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
        assert_true(is_alone(*state, RUNTIME_FIXTURE_LASTING));
    }
}

/* ---- A detached actor whose next process cannot be started. */

/* Name of a file: while it exists, workers only append a line to it when they start. */
#define TRIES "MINIRAY_TEST_TRIES"

static int leave_an_actor(void *argument) {
    const runtime_fixture *fixture = argument;
    char path[TEMP_DIR_FOLDER_MAX + 16];
    mr_actor actor;
    snprintf(path, sizeof path, "%s/tries", fixture->folder);
    setenv(TRIES, path, 1);
    TEST_CHILD_CHECK(join_in(fixture, "shop"));
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "lasting", .detached = 1, .max_restarts = 1);
    TEST_CHILD_CHECK(mr_actor_create(mr, "Counter", &options, NULL, 0, &actor) == MR_OK && counts(actor, 1));
    mr_shutdown(mr);
    return 0;
}

static int find_it_dead(void *argument) {
    mr_actor actor;
    mr_ref ref;
    mr_value value;
    TEST_CHILD_CHECK(join_in(argument, "shop"));
    TEST_CHILD_CHECK(mr_actor_find(mr, "lasting", NULL, &actor) == MR_OK);
    TEST_CHILD_CHECK(mr_call_actor(mr, actor, "die", NULL) == MR_OK);
    TEST_CHILD_CHECK(
        mr_actor_submit(mr, actor, "next", &MR_OPTIONS(mr_call_options, .max_retries = 1), NULL, 0, &ref) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_ACTOR_DIED);
    fprintf(stderr, "    %s\n", mr_last_error());
    TEST_CHILD_CHECK(strstr(mr_last_error(), "exited with status 3") != NULL);
    mr_shutdown(mr);
    return 0;
}

static int be_of_no_use(const char *path) {
    int fd = open(path, O_WRONLY | O_APPEND);
    if (fd < 0) return mr_init(NULL, &mr) != MR_OK;
    return write(fd, "x", 1) == 1 ? 3 : 4;
}

/* The number of attempts is the same as with a living driver, and callers of the actor get the cause. */
static void an_actor_whose_program_has_gone_is_not_tried_for_ever(void **state) {
    const runtime_fixture *fixture = *state;
    char path[TEMP_DIR_FOLDER_MAX + 16];
    struct stat tries;
    snprintf(path, sizeof path, "%s/tries", fixture->folder);
    assert_int_equal(test_child_run(leave_an_actor, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(test_child_run(find_it_dead, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_true(is_alone(*state, RUNTIME_FIXTURE_LASTING));
    assert_int_equal(stat(path, &tries), 0);
    assert_in_range(tries.st_size, 1, 10);
    assert_int_equal(unlink(path), 0);
}

static int call_itself_ada(void *argument) { /* actors of drivers without a namespace have separate names */
    mr_actor actor;
    TEST_CHILD_CHECK(join_in(argument, NULL));
    TEST_CHILD_CHECK(mr_actor_find(mr, "ada", NULL, &actor) == MR_NOT_FOUND);
    TEST_CHILD_CHECK(mr_actor_create(mr, "Counter", &MR_OPTIONS(mr_actor_options, .name = "ada"), NULL, 0, &actor) ==
                     MR_OK);
    TEST_CHILD_CHECK(mr_actor_find(mr, "ada", NULL, &actor) == MR_OK && counts(actor, 1));
    TEST_CHILD_CHECK(runtime_fixture_ready(argument));
    poll(NULL, 0, RUNTIME_FIXTURE_LONG_MS);
    return 0;
}

static void names_are_a_programs_own_unless_it_says_where(void **state) {
    pid_t pids[2];
    for (int i = 0; i < 2; i++) {
        pids[i] = test_child_start(call_itself_ada, *state);
        runtime_fixture_await(*state);
    }
    for (int i = 0; i < 2; i++) {
        kill(pids[i], SIGKILL);
        assert_int_equal(test_child_wait(pids[i], RUNTIME_FIXTURE_CHILD_MS), -SIGKILL);
    }
    assert_true(is_alone(*state, RUNTIME_FIXTURE_LASTING)); /* all processes of a killed driver end */
}

/* ---- Sharing. */

enum { FLOOD = 5000, FEW = 20 };

static int flood(void *argument) {
    TEST_CHILD_CHECK(join_in(argument, NULL));
    mr_ref ref;
    for (int i = 0; i < FLOOD; i++) {
        TEST_CHILD_CHECK(mr_call_task(mr, "pause_ms", &ref, mr_int(5)) == MR_OK);
        if (i == 100) TEST_CHILD_CHECK(runtime_fixture_ready(argument));
    }
    mr_value value;
    TEST_CHILD_CHECK(mr_get(mr, ref, MR_FOREVER, &value) == MR_OK);
    return 1; /* not reached: the driver is killed long before */
}

static int do_a_little(void *argument) {
    TEST_CHILD_CHECK(join_in(argument, NULL));
    for (int i = 0; i < FEW; i++) TEST_CHILD_CHECK(runtime_works(mr));
    mr_shutdown(mr);
    return 0;
}

static void a_flooding_program_does_not_starve_others(void **state) {
    pid_t flooding = test_child_start(flood, *state);
    runtime_fixture_await(*state);
    int64_t start = runtime_fixture_now_ms();
    assert_int_equal(test_child_run(do_a_little, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    int64_t took = runtime_fixture_now_ms() - start;
    print_message("    %d tasks beside a flood: %lld ms\n", FEW, (long long)took);
    assert_true(took < FLOOD * 5 / 2); /* duration of the flood on both CPUs */
    kill(flooding, SIGKILL);
    assert_int_equal(test_child_wait(flooding, RUNTIME_FIXTURE_CHILD_MS), -SIGKILL);
}

/* ---- Ends. */

static int lose_the_node(void *argument) {
    runtime_fixture_enter(argument);
    TEST_CHILD_CHECK(join_in(argument, NULL));
    TEST_CHILD_CHECK(runtime_works(mr));
    mr_ref ref;
    mr_value value;
    TEST_CHILD_CHECK(mr_call_task(mr, "pause_ms", &ref, mr_int(RUNTIME_FIXTURE_LONG_MS)) == MR_OK);
    TEST_CHILD_CHECK(runtime_fixture_ready(argument));
    mr_status status = mr_get(mr, ref, MR_FOREVER, &value);
    TEST_CHILD_CHECK(status != MR_OK && strstr(mr_last_error(), "node") != NULL);
    TEST_CHILD_CHECK(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)) != MR_OK);
    mr_shutdown(mr);
    return 0;
}

static int kill_node(void *argument) {
    runtime_fixture_enter(argument);
    int pid = node_pid();
    TEST_CHILD_CHECK(pid > 0 && kill(pid, SIGKILL) == 0);
    return 0;
}

static void a_killed_node_is_told_at_once_and_replaced(void **state) {
    pid_t pid = test_child_start(lose_the_node, *state);
    runtime_fixture_await(*state);
    assert_int_equal(test_child_run(kill_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_int_equal(test_child_wait(pid, RUNTIME_FIXTURE_GONE_MS), 0);
    assert_true(is_alone(*state, 0));
    int found = test_child_run(stop_node, *state, RUNTIME_FIXTURE_CHILD_MS); /* the node may be about to end */
    if (found == 0) found = test_child_run(stop_node, *state, RUNTIME_FIXTURE_CHILD_MS);
    assert_int_equal(found, MR_NOT_FOUND);
    /* The new node replaces the old files. */
    assert_int_equal(test_child_run(start_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_int_equal(test_child_run(work_and_go, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

static void a_stopped_node_is_told_at_once(void **state) {
    pid_t pid = test_child_start(lose_the_node, *state);
    runtime_fixture_await(*state);
    assert_int_equal(test_child_run(stop_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_int_equal(test_child_wait(pid, RUNTIME_FIXTURE_GONE_MS), 0);
    assert_true(is_alone(*state, 0));
    assert_int_equal(test_child_run(start_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

/* ---- Idling. */

enum { IDLE_MS = 500, TICKS_MAX = 5, OWN_KB_MAX = 40 * 1024 }; /* limits; the bars are no tick, and 10 MB */

static long ticks_of(int pid) { /* CPU time in hundredths of a second */
    char path[64];
    long user = -1, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) return -1;
    if (fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &kernel) != 2)
        user = -1;
    fclose(file);
    return user < 0 ? -1 : user + kernel;
}

/* Private memory of a process, and its share of mapped files, without shared memory. */
static long own_kb_of(int pid) {
    char path[64], line[256];
    long kb, total = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Pss_Anon: %ld", &kb) == 1 || sscanf(line, "Pss_File: %ld", &kb) == 1) total += kb;
    if (file != NULL) fclose(file);
    return total;
}

static int be_idle(void *argument) {
    TEST_CHILD_CHECK(join_in(argument, NULL) && runtime_works(mr));
    int pid = node_pid();
    poll(NULL, 0, IDLE_MS / 2); /* unused leases are returned first */
    long before = ticks_of(pid);
    poll(NULL, 0, IDLE_MS);
    long after = ticks_of(pid), own_kb = own_kb_of(pid);
    printf("    an idle node: %ld ticks in %d ms, %ld kB beside the arena\n", after - before, IDLE_MS, own_kb);
    TEST_CHILD_CHECK(before >= 0 && after - before <= TICKS_MAX);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    TEST_CHILD_CHECK(own_kb > 0 && own_kb <= OWN_KB_MAX);
#endif
    mr_shutdown(mr);
    return 0;
}

static void an_idle_node_costs_next_to_nothing(void **state) {
    assert_int_equal(test_child_run(be_idle, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

#define WITH_A_NODE(test) cmocka_unit_test_setup_teardown(test, make, unmake)

int main(void) {
    const char *tries = getenv(TRIES);
    if (getenv("MINIRAY_BOOT") != NULL) /* worker: runs its tasks */
        return tries != NULL ? be_of_no_use(tries) : mr_init(NULL, &mr) != MR_OK;
    const struct CMUnitTest tests[] = {
        WITH_A_NODE(programs_come_and_go),
        WITH_A_NODE(a_value_outlives_the_stay_of_its_program),
        WITH_A_NODE(programs_are_there_at_once),
        WITH_A_NODE(workers_have_what_their_program_had),
        WITH_A_NODE(wrong_addresses_are_told),
        WITH_A_NODE(actors_are_called_by_other_programs),
        WITH_A_NODE(an_actor_that_dies_with_its_program_is_started_again),
        WITH_A_NODE(an_actor_whose_program_has_gone_is_not_tried_for_ever),
        WITH_A_NODE(names_are_a_programs_own_unless_it_says_where),
        WITH_A_NODE(a_flooding_program_does_not_starve_others),
        WITH_A_NODE(a_killed_node_is_told_at_once_and_replaced),
        WITH_A_NODE(a_stopped_node_is_told_at_once),
        WITH_A_NODE(an_idle_node_costs_next_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
