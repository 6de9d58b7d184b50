/* runtime_life_test.c — start and end of a driver's runtime, also when a process is killed: nothing is left. */
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

static mr_context *mr;
static sig_atomic_t interrupts;

/* Submits running tasks, waiting tasks and a call of a busy actor. */
static bool start_work(mr_ref refs[5]) {
    mr_actor sleeper;
    if (!runtime_works(mr)) return false;
    if (mr_new_actor(mr, "Sleeper", &sleeper) != MR_OK) return false;
    if (mr_call_actor(mr, sleeper, "hello", &refs[0]) != MR_OK || !runtime_gives(mr, refs[0], 1)) return false;
    return mr_call_actor(mr, sleeper, "sleep", &refs[0]) == MR_OK &&
           mr_call_task(mr, "pause_ms", &refs[1], mr_int(RUNTIME_FIXTURE_LONG_MS)) == MR_OK &&
           mr_call_task(mr, "pause_ms", &refs[2], mr_int(RUNTIME_FIXTURE_LONG_MS)) == MR_OK &&
           mr_call_task(mr, "pause_ms", &refs[3], mr_int(RUNTIME_FIXTURE_LONG_MS)) == MR_OK &&
           mr_call_task(mr, "add", &refs[4], mr_future(refs[1]), mr_int(1)) == MR_OK;
}

/* ---- Killing. */

static int be_killed(void *argument) {
    mr_ref refs[5];
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(start_work(refs));
    TEST_CHILD_CHECK(runtime_fixture_ready(argument));
    mr_value value;
    TEST_CHILD_CHECK(mr_get(mr, refs[4], MR_FOREVER, &value) != MR_OK);
    return 0;
}

static void a_killed_program_takes_everything_with_it(void **state) {
    pid_t pid = test_child_start(be_killed, *state);
    runtime_fixture_await(*state);
    assert_true(runtime_fixture_processes(*state) >= 4);
    assert_false(temp_dir_is_empty(((runtime_fixture *)*state)->folder));
    int64_t start = runtime_fixture_now_ms();
    kill(pid, SIGKILL);
    assert_int_equal(test_child_wait(pid, RUNTIME_FIXTURE_CHILD_MS), -SIGKILL);
    runtime_fixture_gone_since(*state, start, "kill -9 of the program");
}

static void *kill_node_soon(void *argument) {
    poll(NULL, 0, 50);
    kill(mr->node_pid, SIGKILL);
    return NULL;
}

/* Whether the error arrived at once and reports the node's end. */
static bool tells_of_the_node(mr_status status, int64_t since_ms) {
    bool told = status != MR_OK && status != MR_TIMEOUT && strstr(mr_last_error(), "node") != NULL;
    bool soon = runtime_fixture_now_ms() - since_ms < RUNTIME_FIXTURE_GONE_MS;
    if (!told || !soon)
        fprintf(stderr, "%s: %s, after %lld ms\n", mr_status_name(status), mr_last_error(),
                (long long)(runtime_fixture_now_ms() - since_ms));
    return told && soon;
}

static int lose_the_node(void *argument) {
    runtime_fixture *fixture = argument;
    mr_ref refs[5], ref;
    mr_value value;
    mr_actor actor;
    pthread_t killer;
    TEST_CHILD_CHECK(runtime_fixture_open(fixture, &mr) == MR_OK);
    TEST_CHILD_CHECK(start_work(refs));
    int64_t start = runtime_fixture_now_ms();
    TEST_CHILD_CHECK(pthread_create(&killer, NULL, kill_node_soon, NULL) == 0);
    for (int i = 4; i >= 0; i--)
        TEST_CHILD_CHECK(tells_of_the_node(mr_get(mr, refs[i], RUNTIME_FIXTURE_PATIENCE_US, &value), start));
    fprintf(stderr, "    every future told of it %lld ms after kill -9 of the node\n",
            (long long)(runtime_fixture_now_ms() - start - 50));
    pthread_join(killer, NULL);
    start = runtime_fixture_now_ms();
    TEST_CHILD_CHECK(tells_of_the_node(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)), start));
    TEST_CHILD_CHECK(tells_of_the_node(mr_call_task(mr, "add", NULL, mr_int(1), mr_int(1)), start));
    TEST_CHILD_CHECK(tells_of_the_node(mr_new_actor(mr, "Sleeper", &actor), start));
    TEST_CHILD_CHECK(tells_of_the_node(mr_actor_find(mr, "nobody", NULL, &actor), start));
    TEST_CHILD_CHECK(mr_cancel(mr, refs[1]) == MR_NOT_FOUND);
    for (int i = 0; i < 5; i++) mr_release(mr, refs[i]);
    while (runtime_fixture_processes(fixture) > 0 && runtime_fixture_now_ms() - start < RUNTIME_FIXTURE_GONE_MS)
        poll(NULL, 0, 2);
    TEST_CHILD_CHECK(runtime_fixture_processes(fixture) == 0);
    mr_shutdown(mr);
    TEST_CHILD_CHECK(temp_dir_is_empty(fixture->folder));
    TEST_CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    return 0;
}

static void a_killed_node_is_told_at_once(void **state) {
    assert_int_equal(test_child_run(lose_the_node, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown without a node");
}

/* ---- Ctrl-C. */

static void count_interrupt(int signal) { interrupts++; }

static int take_interrupts(void *argument) {
    mr_ref refs[4];
    setpgid(0, 0);
    signal(SIGINT, count_interrupt);
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(runtime_works(mr));
    for (int i = 0; i < 4; i++)
        TEST_CHILD_CHECK(mr_task_submit(mr, "pause_ms", &MR_OPTIONS(mr_task_options, .max_retries = -1),
                                        MR_ARGS(mr_int(100)), &refs[i]) == MR_OK);
    for (int i = 0; i < 10; i++) {
        kill(0, SIGINT);
        poll(NULL, 0, 5);
    }
    TEST_CHILD_CHECK(interrupts > 0);
    /* No worker has died of the interrupt. */
    for (int i = 0; i < 4; i++) TEST_CHILD_CHECK(runtime_gives(mr, refs[i], 100));
    mr_shutdown(mr);
    return 0;
}

static void an_interrupt_is_the_programs_own(void **state) {
    assert_int_equal(test_child_run(take_interrupts, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int be_interrupted(void *argument) {
    setpgid(0, 0);
    return be_killed(argument);
}

static void an_interrupted_program_takes_everything_with_it(void **state) {
    pid_t pid = test_child_start(be_interrupted, *state);
    runtime_fixture_await(*state);
    int64_t start = runtime_fixture_now_ms();
    kill(-pid, SIGINT);
    assert_int_equal(test_child_wait(pid, RUNTIME_FIXTURE_CHILD_MS), -SIGINT);
    runtime_fixture_gone_since(*state, start, "Ctrl-C");
}

/* ---- Starting and ending. */

static int open_two(void *argument) {
    mr_context *one, *two;
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &one) == MR_OK);
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &two) == MR_OK);
    TEST_CHILD_CHECK(runtime_works(one) && runtime_works(two) && runtime_works(one));
    mr_ref ref;
    mr_value value;
    TEST_CHILD_CHECK(mr_put(one, mr_int(1), &ref) == MR_OK);
    TEST_CHILD_CHECK(mr_get(two, ref, 0, &value) == MR_NOT_FOUND ||
                     one->worker.objects.process == two->worker.objects.process);
    mr_shutdown(one);
    TEST_CHILD_CHECK(runtime_works(two));
    mr_shutdown(two);
    return 0;
}

static void a_program_may_have_two(void **state) {
    assert_int_equal(test_child_run(open_two, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "two mr_shutdown");
}

static int begin_and_end_often(void *argument) {
    runtime_fixture *fixture = argument;
    size_t fds = 0, threads = 0;
    for (int i = 0; i < 20; i++) {
        TEST_CHILD_CHECK(runtime_fixture_open(fixture, &mr) == MR_OK);
        if (i % 3 != 0) TEST_CHILD_CHECK(runtime_works(mr));
        if (i % 5 == 1) TEST_CHILD_CHECK(mr_call_task(mr, "pause_ms", NULL, mr_int(RUNTIME_FIXTURE_LONG_MS)) == MR_OK);
        mr_shutdown(mr);
        if (i == 1) fds = temp_dir_entries("/proc/self/fd"), threads = temp_dir_entries("/proc/self/task");
        TEST_CHILD_CHECK(runtime_fixture_processes(fixture) == 0);
        TEST_CHILD_CHECK(temp_dir_is_empty(fixture->folder));
        TEST_CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    }
    TEST_CHILD_CHECK(temp_dir_entries("/proc/self/fd") == fds);
    TEST_CHILD_CHECK(temp_dir_entries("/proc/self/task") == threads);
    return 0;
}

static void beginning_and_ending_leaks_nothing(void **state) {
    assert_int_equal(test_child_run(begin_and_end_often, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
}

/* A forked child of the driver has copies of all the driver's descriptors, and outlives the driver. */
static int fork_and_be_killed(void *argument) {
    runtime_fixture *fixture = argument;
    TEST_CHILD_CHECK(runtime_fixture_open(fixture, &mr) == MR_OK && runtime_works(mr));
    pid_t pid = fork();
    if (pid == 0) {
        poll(NULL, 0, RUNTIME_FIXTURE_LONG_MS);
        _exit(0);
    }
    TEST_CHILD_CHECK(write(fixture->ready[1], &pid, sizeof pid) == sizeof pid);
    poll(NULL, 0, RUNTIME_FIXTURE_LONG_MS);
    return 0;
}

static void a_forked_child_keeps_nothing_alive(void **state) {
    runtime_fixture *fixture = *state;
    pid_t pid = test_child_start(fork_and_be_killed, fixture), forked;
    assert_int_equal(read(fixture->ready[0], &forked, sizeof forked), sizeof forked);
    kill(pid, SIGKILL);
    assert_int_equal(test_child_wait(pid, RUNTIME_FIXTURE_CHILD_MS), -SIGKILL);
    assert_int_equal(kill(forked, 0), 0);
    runtime_fixture_gone(fixture, "kill -9 of a program that has forked");
    kill(forked, SIGKILL);
}

static int fork_and_shut_down(void *argument) {
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK && runtime_works(mr));
    pid_t pid = fork();
    if (pid == 0) {
        poll(NULL, 0, RUNTIME_FIXTURE_LONG_MS);
        _exit(0);
    }
    mr_shutdown(mr);
    TEST_CHILD_CHECK(runtime_fixture_processes(argument) == 0);
    kill(pid, SIGKILL);
    TEST_CHILD_CHECK(waitpid(pid, NULL, 0) == pid);
    return 0;
}

static void a_program_that_has_forked_shuts_down(void **state) {
    assert_int_equal(test_child_run(fork_and_shut_down, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

/* ---- Threads that wait at the end. */

static mr_ref stall;

static bool is_told(const char *what, mr_status status) {
    if (status == MR_CLOSED && mr_last_error()[0] != '\0') return true;
    fprintf(stderr, "%s: %s, '%s'\n", what, mr_status_name(status), mr_last_error());
    return false;
}

/* A thread that got the error releases its references; the reason may not be known yet. */
static void *after_the_end(const char *what, mr_status status) {
    mr_ref ref;
    mr_value value;
    bool told = is_told(what, status);
    for (int i = 0; i < 100; i++) {
        status = mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1));
        if (status == MR_OK) status = mr_get(mr, ref, MR_FOREVER, &value);
        told = is_told("a task", status) && told;
    }
    told = is_told("the same again", mr_get(mr, stall, MR_FOREVER, &value)) && told;
    told = is_told("a small put", mr_put(mr, mr_int(1), &ref)) && told;
    mr_release(mr, stall);
    return told ? &stall : NULL;
}

static void *wait_in_get(void *none) {
    mr_value value;
    return after_the_end("mr_get", mr_get(mr, stall, MR_FOREVER, &value));
}

static void *wait_in_wait(void *none) {
    unsigned char ready;
    size_t count;
    return after_the_end("mr_wait", mr_wait(mr, &stall, 1, 1, MR_FOREVER, &ready, &count));
}

/* Views as many objects as fit into memory, so that none can be spilled. */
static void *wait_in_put(void *none) {
    enum { COUNT = 100, FLOATS = 1 << 20 };
    static float data[FLOATS];
    mr_ref refs[COUNT];
    mr_value values[COUNT];
    mr_status status = MR_OK;
    int made = 0;
    while (made < COUNT && status == MR_OK) {
        status = mr_put(mr, mr_vector(data, FLOATS), &refs[made]);
        if (status == MR_OK && mr_get(mr, refs[made], 0, &values[made]) == MR_OK) made++;
    }
    void *told = after_the_end("mr_put", status);
    for (int i = 0; i < made; i++) {
        mr_value_release(&values[i]);
        mr_release(mr, refs[i]);
    }
    return told;
}

static bool waits_or_packs(size_t count) {
    context_lock(mr);
    bool all = mr->waiting + (atomic_load(&mr->packing) > 0) >= count;
    context_unlock(mr);
    return all;
}

static int end_while_others_wait(void *argument) {
    void *(*const waits[])(void *) = {wait_in_get, wait_in_get, wait_in_wait, wait_in_get, wait_in_put};
    runtime_fixture_enter(argument);
    for (size_t count = 1; count <= 5; count++) {
        pthread_t threads[5];
        TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 32 << 20), &mr) == MR_OK);
        TEST_CHILD_CHECK(mr_call_task(mr, "pause_ms", &stall, mr_int(RUNTIME_FIXTURE_LONG_MS)) == MR_OK);
        for (size_t i = 0; i < count; i++) {
            TEST_CHILD_CHECK(mr_retain(mr, stall) == MR_OK);
            TEST_CHILD_CHECK(pthread_create(&threads[i], NULL, waits[i], NULL) == 0);
            while (!waits_or_packs(i + 1)) usleep(1000);
        }
        mr_shutdown(mr);
        for (size_t i = 0; i < count; i++) {
            void *told;
            TEST_CHILD_CHECK(pthread_join(threads[i], &told) == 0 && told != NULL);
        }
    }
    return 0;
}

static void threads_that_wait_are_told_of_the_end(void **state) {
    assert_int_equal(test_child_run(end_while_others_wait, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown while others wait");
}

static int end_without_a_word(void *argument) {
    mr_ref refs[5];
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(start_work(refs));
    exit(7);
}

static void a_program_may_forget_to_shut_down(void **state) {
    assert_int_equal(test_child_run(end_without_a_word, *state, RUNTIME_FIXTURE_CHILD_MS), 7);
    runtime_fixture_gone(*state, "the program's end");
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_killed_program_takes_everything_with_it),
        IN_A_WORLD(a_killed_node_is_told_at_once),
        IN_A_WORLD(an_interrupt_is_the_programs_own),
        IN_A_WORLD(an_interrupted_program_takes_everything_with_it),
        IN_A_WORLD(a_program_may_have_two),
        IN_A_WORLD(beginning_and_ending_leaks_nothing),
        IN_A_WORLD(threads_that_wait_are_told_of_the_end),
        IN_A_WORLD(a_program_may_forget_to_shut_down),
        IN_A_WORLD(a_forked_child_keeps_nothing_alive),
        IN_A_WORLD(a_program_that_has_forked_shuts_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
