/* runtime_life_test.c — how a program's runtime begins and ends, also when somebody is killed: nothing is left over.
 *
 * Every test has a folder of its own, which the program under test has as TMPDIR. Its node and workers have that in
 * their environment, by which they are found; the runtime's own folder lies in it. The programs are forked from this
 * process, which never opens the runtime itself and so has no threads. */
#include <dirent.h>
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
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "runtime/context.h"
#include "tests/support/child.h"

enum {
    PATIENCE_US = 60 * 1000 * 1000, /* for what must come */
    CHILD_MS = 120 * 1000,
    GONE_MS = 10 * 1000, /* ten times the bar */
    LONG_MS = 600 * 1000,
};

#define FAILING_START "MINIRAY_TEST_FAILING_START" /* workers that see it end before mr_init */

static mr_context *mr;
static sig_atomic_t interrupts;

/* ---- What workers do. */

MR_TASK(add) {
    int64_t a, b;
    MR_TRY(mr_arg_int(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &b));
    return mr_return(call, mr_int(a + b));
}

MR_TASK(pause_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    poll(NULL, 0, (int)ms);
    return mr_return(call, mr_int(ms));
}

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

MR_TASK(mark) { /* leaves a trace that does not need the runtime to be seen */
    append_byte("marks");
    return mr_return(call, mr_nil());
}

MR_CREATE(Sleeper) { return MR_OK; }
MR_METHOD(Sleeper, sleep) {
    poll(NULL, 0, LONG_MS);
    return MR_OK;
}
MR_METHOD(Sleeper, hello) { return mr_return(call, mr_int(1)); }

/* ---- The world of a test. */

typedef struct world {
    char folder[48];
    int ready[2]; /* the program says here that it is where the test wants it */
} world;

static int world_make(void **state) {
    world *world = calloc(1, sizeof *world);
    strcpy(world->folder, "/tmp/miniray-life-XXXXXX");
    *state = world;
    return mkdtemp(world->folder) == NULL || pipe2(world->ready, O_CLOEXEC) != 0;
}

/* Fails if anything was left in the folder. */
static int world_unmake(void **state) {
    world *world = *state;
    int failed = rmdir(world->folder);
    if (failed != 0) print_message("%s is not empty\n", world->folder);
    close(world->ready[0]);
    close(world->ready[1]);
    free(world);
    return failed;
}

static size_t entries_of(const char *path) {
    DIR *folder = opendir(path);
    size_t count = 0;
    while (folder != NULL && readdir(folder) != NULL) count++;
    if (folder != NULL) closedir(folder);
    return count;
}

static bool folder_is_empty(const char *path) { return entries_of(path) == 2; }

static bool has_in_environment(const char *pid, const char *text) {
    char path[300];
    static char bytes[1 << 17];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t size = 0;
    for (ssize_t got; size < sizeof bytes && (got = read(fd, bytes + size, sizeof bytes - size)) > 0;)
        size += (size_t)got;
    close(fd);
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

/* How many nodes and workers of this test's programs there are. */
static size_t processes_of(const world *world) {
    char text[64];
    snprintf(text, sizeof text, "TMPDIR=%s", world->folder);
    DIR *folder = opendir("/proc");
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') count += has_in_environment(entry->d_name, text);
    closedir(folder);
    return count;
}

static int64_t now_ms(void) { return clock_ns() / 1000000; }

/* Waits until no process and no file is left; how long after `start` that was, or -1. */
static int64_t gone_after_ms(const world *world, int64_t start) {
    for (;;) {
        bool gone = processes_of(world) == 0 && folder_is_empty(world->folder);
        int64_t took = now_ms() - start;
        if (gone) return took;
        if (took > GONE_MS) {
            print_message("left: %zu processes, %zu files\n", processes_of(world), entries_of(world->folder) - 2);
            return -1;
        }
        poll(NULL, 0, 2);
    }
}

static void assert_all_gone_since(const world *world, int64_t start, const char *after) {
    int64_t took = gone_after_ms(world, start);
    assert_true(took >= 0);
    print_message("    all gone %lld ms after %s\n", (long long)took, after);
}

static void assert_all_gone(const world *world, const char *after) { assert_all_gone_since(world, now_ms(), after); }

static void await_ready(const world *world) {
    struct pollfd wait = {.fd = world->ready[0], .events = POLLIN};
    char byte;
    assert_int_equal(poll(&wait, 1, CHILD_MS), 1);
    assert_int_equal(read(world->ready[0], &byte, 1), 1);
}

static bool say_ready(const world *world) { return write(world->ready[1], "r", 1) == 1; }

/* What a sanitizer finds in the node or a worker goes into the folder too, where it does not go unseen. */
static void report_into(const char *folder, const char *variable) {
    char options[512];
    const char *before = getenv(variable);
    if (before != NULL && strstr(before, folder) != NULL) return;
    snprintf(options, sizeof options, "%s:symbolize=0:log_path=%s/report", before == NULL ? "" : before, folder);
    setenv(variable, options, 1);
}

static void enter(const char *folder) {
    setenv("TMPDIR", folder, 1);
    report_into(folder, "ASAN_OPTIONS");
    report_into(folder, "UBSAN_OPTIONS");
    report_into(folder, "TSAN_OPTIONS");
}

static mr_status open_runtime(const world *world, mr_context **out) {
    enter(world->folder);
    mr_status status = mr_init(&(mr_options){.num_workers = 2, .store_bytes = 64 << 20}, out);
    if (status != MR_OK) fprintf(stderr, "mr_init: %s\n", mr_last_error());
    return status;
}

static bool gives(mr_context *of, mr_ref ref, int64_t expected) {
    mr_value value;
    int64_t number = 0;
    mr_status status = mr_get(of, ref, PATIENCE_US, &value);
    mr_release(of, ref);
    if (status != MR_OK) {
        fprintf(stderr, "%s: %s\n", mr_status_name(status), mr_last_error());
        return false;
    }
    bool same = mr_value_int(&value, &number) == MR_OK && number == expected;
    mr_value_release(&value);
    return same;
}

static bool works(mr_context *of) {
    mr_ref ref;
    return mr_call_task(of, "add", &ref, mr_int(2), mr_int(3)) == MR_OK && gives(of, ref, 5);
}

/* Tasks that run, tasks that wait, an actor that is busy. */
static bool start_work(mr_ref refs[5]) {
    mr_actor sleeper;
    if (!works(mr)) return false;
    if (mr_new_actor(mr, "Sleeper", &sleeper) != MR_OK) return false;
    if (mr_call_actor(mr, sleeper, "hello", &refs[0]) != MR_OK || !gives(mr, refs[0], 1)) return false;
    return mr_call_actor(mr, sleeper, "sleep", &refs[0]) == MR_OK &&
           mr_call_task(mr, "pause_ms", &refs[1], mr_int(LONG_MS)) == MR_OK &&
           mr_call_task(mr, "pause_ms", &refs[2], mr_int(LONG_MS)) == MR_OK &&
           mr_call_task(mr, "pause_ms", &refs[3], mr_int(LONG_MS)) == MR_OK &&
           mr_call_task(mr, "add", &refs[4], mr_future(refs[1]), mr_int(1)) == MR_OK;
}

/* ---- Killing. */

static int be_killed(void *argument) {
    mr_ref refs[5];
    CHILD_CHECK(open_runtime(argument, &mr) == MR_OK);
    CHILD_CHECK(start_work(refs));
    CHILD_CHECK(say_ready(argument));
    mr_value value;
    CHILD_CHECK(mr_get(mr, refs[4], MR_FOREVER, &value) != MR_OK);
    return 0;
}

static void a_killed_program_takes_everything_with_it(void **state) {
    pid_t pid = child_start(be_killed, *state);
    await_ready(*state);
    assert_true(processes_of(*state) >= 4);
    assert_false(folder_is_empty(((world *)*state)->folder));
    int64_t start = now_ms();
    kill(pid, SIGKILL);
    assert_int_equal(child_wait(pid, CHILD_MS), -SIGKILL);
    assert_all_gone_since(*state, start, "kill -9 of the program");
}

static void *kill_node_soon(void *argument) {
    poll(NULL, 0, 50);
    kill(mr->node_pid, SIGKILL);
    return NULL;
}

/* An error that came of the node's end, and at once. */
static bool tells_of_the_node(mr_status status, int64_t since_ms) {
    bool told = status != MR_OK && status != MR_TIMEOUT && strstr(mr_last_error(), "node") != NULL;
    bool soon = now_ms() - since_ms < GONE_MS;
    if (!told || !soon)
        fprintf(stderr, "%s: %s, after %lld ms\n", mr_status_name(status), mr_last_error(),
                (long long)(now_ms() - since_ms));
    return told && soon;
}

static int lose_the_node(void *argument) {
    world *world = argument;
    mr_ref refs[5], ref;
    mr_value value;
    mr_actor actor;
    pthread_t killer;
    CHILD_CHECK(open_runtime(world, &mr) == MR_OK);
    CHILD_CHECK(start_work(refs));
    int64_t start = now_ms();
    CHILD_CHECK(pthread_create(&killer, NULL, kill_node_soon, NULL) == 0);
    for (int i = 4; i >= 0; i--) CHILD_CHECK(tells_of_the_node(mr_get(mr, refs[i], PATIENCE_US, &value), start));
    fprintf(stderr, "    every future told of it %lld ms after kill -9 of the node\n",
            (long long)(now_ms() - start - 50));
    pthread_join(killer, NULL);
    start = now_ms();
    CHILD_CHECK(tells_of_the_node(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)), start));
    CHILD_CHECK(tells_of_the_node(mr_call_task(mr, "add", NULL, mr_int(1), mr_int(1)), start));
    CHILD_CHECK(tells_of_the_node(mr_new_actor(mr, "Sleeper", &actor), start));
    CHILD_CHECK(tells_of_the_node(mr_actor_find(mr, "nobody", &actor), start));
    CHILD_CHECK(mr_cancel(mr, refs[1]) == MR_NOT_FOUND);
    for (int i = 0; i < 5; i++) mr_release(mr, refs[i]);
    while (processes_of(world) > 0 && now_ms() - start < GONE_MS) poll(NULL, 0, 2);
    CHILD_CHECK(processes_of(world) == 0);
    mr_shutdown(mr);
    CHILD_CHECK(folder_is_empty(world->folder));
    CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    return 0;
}

static void a_killed_node_is_told_at_once(void **state) {
    assert_int_equal(child_run(lose_the_node, *state, CHILD_MS), 0);
    assert_all_gone(*state, "mr_shutdown without a node");
}

/* ---- Ctrl-C. */

static void count_interrupt(int signal) { interrupts++; }

static int take_interrupts(void *argument) {
    mr_ref refs[4];
    setpgid(0, 0);
    signal(SIGINT, count_interrupt);
    CHILD_CHECK(open_runtime(argument, &mr) == MR_OK);
    CHILD_CHECK(works(mr));
    for (int i = 0; i < 4; i++)
        CHILD_CHECK(mr_task_submit(mr, "pause_ms", &(mr_task_options){.max_retries = -1}, MR_ARGS(mr_int(100)),
                                   &refs[i]) == MR_OK);
    for (int i = 0; i < 10; i++) {
        kill(0, SIGINT);
        poll(NULL, 0, 5);
    }
    CHILD_CHECK(interrupts > 0);
    for (int i = 0; i < 4; i++) CHILD_CHECK(gives(mr, refs[i], 100)); /* no worker died of it */
    mr_shutdown(mr);
    return 0;
}

static void an_interrupt_is_the_programs_own(void **state) {
    assert_int_equal(child_run(take_interrupts, *state, CHILD_MS), 0);
    assert_all_gone(*state, "mr_shutdown");
}

static int be_interrupted(void *argument) {
    setpgid(0, 0);
    return be_killed(argument);
}

static void an_interrupted_program_takes_everything_with_it(void **state) {
    pid_t pid = child_start(be_interrupted, *state);
    await_ready(*state);
    int64_t start = now_ms();
    kill(-pid, SIGINT);
    assert_int_equal(child_wait(pid, CHILD_MS), -SIGINT);
    assert_all_gone_since(*state, start, "Ctrl-C");
}

/* ---- Beginning and ending. */

static int open_two(void *argument) {
    mr_context *one, *two;
    CHILD_CHECK(open_runtime(argument, &one) == MR_OK);
    CHILD_CHECK(open_runtime(argument, &two) == MR_OK);
    CHILD_CHECK(works(one) && works(two) && works(one));
    mr_ref ref;
    mr_value value;
    CHILD_CHECK(mr_put(one, mr_int(1), &ref) == MR_OK);
    CHILD_CHECK(mr_get(two, ref, 0, &value) == MR_NOT_FOUND ||
                one->client.objects.process == two->client.objects.process);
    mr_shutdown(one);
    CHILD_CHECK(works(two));
    mr_shutdown(two);
    return 0;
}

static void a_program_may_have_two(void **state) {
    assert_int_equal(child_run(open_two, *state, CHILD_MS), 0);
    assert_all_gone(*state, "two mr_shutdown");
}

static int begin_and_end_often(void *argument) {
    world *world = argument;
    size_t fds = 0, threads = 0;
    for (int i = 0; i < 20; i++) {
        CHILD_CHECK(open_runtime(world, &mr) == MR_OK);
        if (i % 3 != 0) CHILD_CHECK(works(mr));
        if (i % 5 == 1) CHILD_CHECK(mr_call_task(mr, "pause_ms", NULL, mr_int(LONG_MS)) == MR_OK);
        mr_shutdown(mr);
        if (i == 1) fds = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
        CHILD_CHECK(processes_of(world) == 0);
        CHILD_CHECK(folder_is_empty(world->folder));
        CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    }
    CHILD_CHECK(entries_of("/proc/self/fd") == fds);
    CHILD_CHECK(entries_of("/proc/self/task") == threads);
    return 0;
}

static void beginning_and_ending_leaks_nothing(void **state) {
    assert_int_equal(child_run(begin_and_end_often, *state, CHILD_MS), 0);
}

static int end_without_a_word(void *argument) {
    mr_ref refs[5];
    CHILD_CHECK(open_runtime(argument, &mr) == MR_OK);
    CHILD_CHECK(start_work(refs));
    exit(7);
}

static void a_program_may_forget_to_shut_down(void **state) {
    assert_int_equal(child_run(end_without_a_word, *state, CHILD_MS), 7);
    assert_all_gone(*state, "the program's end");
}

/* ---- What cannot work. */

static int start_failing_workers(void *argument) {
    world *world = argument;
    mr_ref ref;
    mr_value value;
    mr_actor actor;
    setenv(FAILING_START, "1", 1);
    CHILD_CHECK(open_runtime(world, &mr) == MR_OK);
    for (int i = 0; i < 3; i++) {
        CHILD_CHECK(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)) == MR_OK);
        CHILD_CHECK(mr_get(mr, ref, PATIENCE_US, &value) == MR_WORKER_DIED);
        CHILD_CHECK(strstr(mr_last_error(), "mr_init") != NULL);
        mr_release(mr, ref);
    }
    mr_status status = mr_new_actor(mr, "Sleeper", &actor);
    if (status == MR_OK) {
        CHILD_CHECK(mr_call_actor(mr, actor, "hello", &ref) == MR_OK);
        status = mr_get(mr, ref, PATIENCE_US, &value);
    }
    CHILD_CHECK(status == MR_WORKER_DIED || status == MR_ACTOR_DIED);
    CHILD_CHECK(strstr(mr_last_error(), "mr_init") != NULL);
    mr_shutdown(mr);
    return 0;
}

static void workers_that_cannot_start_are_not_started_for_ever(void **state) {
    world *world = *state;
    char path[128];
    assert_int_equal(child_run(start_failing_workers, world, CHILD_MS), 0);
    snprintf(path, sizeof path, "%s/starts", world->folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t starts = lseek(fd, 0, SEEK_END);
    close(fd);
    unlink(path);
    assert_in_range(starts, 1, 10);
    assert_all_gone(world, "mr_shutdown without workers");
}

static void limit_fds(rlim_t count) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* With so few descriptors it works, or says why not; the node and the workers have no more. */
static int begin_with_few_fds(void *argument) {
    world *world = argument;
    mr_ref ref;
    mr_value value;
    enter(world->folder);
    int first = open("/dev/null", O_RDONLY | O_CLOEXEC), worked = 0;
    close(first);
    for (int more = 0; more < 44; more += more < 16 ? 3 : 7) {
        limit_fds((rlim_t)(first + more));
        mr_status status = mr_init(&(mr_options){.num_workers = 2, .store_bytes = 64 << 20}, &mr);
        CHILD_CHECK(status == MR_OK || mr_last_error()[0] != '\0');
        if (status == MR_OK) {
            status = mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1));
            if (status == MR_OK) status = mr_get(mr, ref, PATIENCE_US, &value);
            CHILD_CHECK(status != MR_TIMEOUT);
            CHILD_CHECK(status == MR_OK || mr_last_error()[0] != '\0');
            if (status == MR_OK) mr_value_release(&value);
            worked += status == MR_OK;
            mr_shutdown(mr);
        }
        limit_fds(256);
        CHILD_CHECK(processes_of(world) == 0);
        CHILD_CHECK(folder_is_empty(world->folder));
        CHILD_CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        CHILD_CHECK(fd == first); /* none was left open */
        close(fd);
    }
    CHILD_CHECK(worked > 0);
    return 0;
}

static void too_few_descriptors_are_a_clear_error(void **state) {
    assert_int_equal(child_run(begin_with_few_fds, *state, CHILD_MS), 0);
    assert_all_gone(*state, "too few descriptors");
}

/* They run out later: what needs none goes on, what needs one says so. */
static int run_out_of_fds(void *argument) {
    mr_ref ref;
    mr_value value;
    mr_actor actor;
    CHILD_CHECK(open_runtime(argument, &mr) == MR_OK);
    CHILD_CHECK(works(mr));
    limit_fds(3);
    for (int i = 0; i < 4; i++) {
        mr_status status = mr_new_actor(mr, "Sleeper", &actor);
        if (status == MR_OK) status = mr_call_actor(mr, actor, "hello", &ref);
        if (status == MR_OK) status = mr_get(mr, ref, PATIENCE_US, &value);
        CHILD_CHECK(status == MR_OK || (status != MR_TIMEOUT && mr_last_error()[0] != '\0'));
        if (status == MR_OK) mr_value_release(&value);
    }
    limit_fds(256);
    CHILD_CHECK(works(mr));
    mr_shutdown(mr);
    return 0;
}

/* The node's run out: no more actors, but tasks go on; and when there are some again, so do actors. */
static int run_node_out_of_fds(void *argument) {
    mr_ref ref;
    mr_value value;
    mr_actor actor;
    struct rlimit few, before;
    char path[64];
    CHILD_CHECK(open_runtime(argument, &mr) == MR_OK);
    mr_ref both[2]; /* so that both workers have come */
    for (int i = 0; i < 2; i++) CHILD_CHECK(mr_call_task(mr, "pause_ms", &both[i], mr_int(300)) == MR_OK);
    for (int i = 0; i < 2; i++) CHILD_CHECK(gives(mr, both[i], 300));
    snprintf(path, sizeof path, "/proc/%d/fd", mr->node_pid);
    CHILD_CHECK(prlimit(mr->node_pid, RLIMIT_NOFILE, NULL, &before) == 0);
    few = before;
    few.rlim_cur = entries_of(path) + 2;
    CHILD_CHECK(prlimit(mr->node_pid, RLIMIT_NOFILE, &few, NULL) == 0);
    int refused = 0;
    for (int i = 0; i < 8; i++) {
        mr_status status = mr_new_actor(mr, "Sleeper", &actor);
        if (status == MR_OK) status = mr_call_actor(mr, actor, "hello", &ref);
        if (status == MR_OK) status = mr_get(mr, ref, PATIENCE_US, &value);
        CHILD_CHECK(status == MR_OK || status == MR_WORKER_DIED || status == MR_ACTOR_DIED);
        CHILD_CHECK(status == MR_OK || mr_last_error()[0] != '\0');
        refused += status != MR_OK;
        if (status == MR_OK) mr_value_release(&value);
        if (refused > 0) break;
    }
    CHILD_CHECK(refused > 0);
    CHILD_CHECK(prlimit(mr->node_pid, RLIMIT_NOFILE, &before, NULL) == 0);
    CHILD_CHECK(works(mr));
    CHILD_CHECK(mr_new_actor(mr, "Sleeper", &actor) == MR_OK);
    CHILD_CHECK(mr_call_actor(mr, actor, "hello", &ref) == MR_OK && gives(mr, ref, 1));
    mr_shutdown(mr);
    return 0;
}

static void a_node_without_descriptors_recovers(void **state) {
    assert_int_equal(child_run(run_node_out_of_fds, *state, CHILD_MS), 0);
    assert_all_gone(*state, "the node's running out of descriptors");
}

static void descriptors_that_run_out_end_nothing(void **state) {
    assert_int_equal(child_run(run_out_of_fds, *state, CHILD_MS), 0);
    assert_all_gone(*state, "running out of descriptors");
}

static int ask_for_nonsense(void *argument) {
    world *world = argument;
    enter(world->folder);
    mr_options nonsense[] = {{.num_workers = -1},     {.num_workers = INT32_MAX}, {.num_gpus = -1},
                             {.resources = "cheese"}, {.store_bytes = SIZE_MAX},  {.store_bytes = (size_t)1 << 62},
                             {.store_bytes = 1}};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        mr_status status = mr_init(&nonsense[i], &mr);
        fprintf(stderr, "    %s\n", status == MR_OK ? "accepted" : mr_last_error());
        CHILD_CHECK(status != MR_OK && mr_last_error()[0] != '\0');
        if (i < 4) CHILD_CHECK(status == MR_INVALID);
        CHILD_CHECK(processes_of(world) == 0 && folder_is_empty(world->folder));
    }
    setenv("TMPDIR", "/nowhere/at/all", 1);
    CHILD_CHECK(mr_init(NULL, &mr) != MR_OK);
    CHILD_CHECK(strstr(mr_last_error(), "/nowhere/at/all") != NULL);
    return 0;
}

static void nonsense_is_refused(void **state) { assert_int_equal(child_run(ask_for_nonsense, *state, CHILD_MS), 0); }

static int use_released(void *argument) {
    mr_ref ref, sum;
    mr_value value;
    unsigned char ready;
    size_t count;
    CHILD_CHECK(open_runtime(argument, &mr) == MR_OK);
    CHILD_CHECK(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)) == MR_OK);
    mr_release(mr, ref);
    mr_release(mr, ref); /* again: no harm */
    CHILD_CHECK(mr_get(mr, ref, PATIENCE_US, &value) == MR_NOT_FOUND);
    CHILD_CHECK(mr_wait(mr, &ref, 1, 1, PATIENCE_US, &ready, &count) == MR_NOT_FOUND);
    CHILD_CHECK(mr_cancel(mr, ref) == MR_NOT_FOUND);
    CHILD_CHECK(mr_call_task(mr, "add", &sum, mr_future(ref), mr_int(1)) == MR_INVALID);
    CHILD_CHECK(mr_get(mr, (mr_ref){{0, 0}}, 0, &value) == MR_NOT_FOUND);
    CHILD_CHECK(works(mr));
    mr_shutdown(mr);
    return 0;
}

static void a_released_future_is_not_found(void **state) {
    assert_int_equal(child_run(use_released, *state, CHILD_MS), 0);
}

/* ---- Threads, and what nobody waits for. */

static void *submit_and_get(void *argument) {
    static int failed;
    for (int64_t i = 0; i < 300; i++) {
        mr_ref ref, next, put;
        if (mr_put(mr, mr_int(i), &put) != MR_OK) return &failed;
        if (mr_call_task(mr, "add", &ref, mr_future(put), mr_int(1)) != MR_OK) return &failed;
        if (mr_call_task(mr, "add", &next, mr_future(ref), mr_int(1)) != MR_OK) return &failed;
        mr_release(mr, put);
        if (!gives(mr, ref, i + 1) || !gives(mr, next, i + 2)) return &failed;
    }
    return NULL;
}

static int use_from_threads(void *argument) {
    pthread_t threads[4];
    void *failed;
    CHILD_CHECK(open_runtime(argument, &mr) == MR_OK);
    for (int i = 0; i < 4; i++) CHILD_CHECK(pthread_create(&threads[i], NULL, submit_and_get, NULL) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        CHILD_CHECK(failed == NULL);
    }
    mr_shutdown(mr);
    return 0;
}

static void threads_share_a_context(void **state) {
    assert_int_equal(child_run(use_from_threads, *state, CHILD_MS), 0);
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
    world *world = argument;
    char path[128];
    mr_ref ref = {{0, 0}}, after = {{0, 0}};
    mr_value value;
    snprintf(path, sizeof path, "%s/stderr", world->folder);
    int kept = dup(2), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    CHILD_CHECK(open_runtime(world, &mr) == MR_OK);
    dup2(fd, 2);
    close(fd);
    bool fine = mr_call_task(mr, "fail_with", NULL, mr_str("cheddar")) == MR_OK && /* nobody ever wanted it */
                mr_call_task(mr, "fail_with", &ref, mr_str("gouda")) == MR_OK;
    mr_release(mr, ref); /* not any more */
    fine = fine && mr_call_task(mr, "fail_with", &ref, mr_str("brie")) == MR_OK &&
           mr_get(mr, ref, PATIENCE_US, &value) == MR_TASK_FAILED; /* seen: nothing to say */
    mr_release(mr, ref);
    fine = fine && mr_call_task(mr, "fail_with", &ref, mr_str("feta")) == MR_OK && /* seen through another */
           mr_call_task(mr, "add", &after, mr_future(ref), mr_int(1)) == MR_OK;
    mr_release(mr, ref);
    fine = fine && mr_get(mr, after, PATIENCE_US, &value) == MR_TASK_FAILED;
    mr_release(mr, after);
    int64_t start = now_ms();
    while ((count_in_file(path, "cheddar") == 0 || count_in_file(path, "gouda") == 0) && now_ms() - start < GONE_MS)
        poll(NULL, 0, 2);
    fine = fine && works(mr) && mr_call_task(mr, "pause_ms", NULL, mr_int(LONG_MS)) == MR_OK; /* ends quietly */
    mr_shutdown(mr);
    dup2(kept, 2);
    close(kept);
    CHILD_CHECK(fine);
    CHILD_CHECK(count_in_file(path, "cheddar") == 1);
    CHILD_CHECK(count_in_file(path, "gouda") == 1);
    CHILD_CHECK(count_in_file(path, "brie") == 0);
    CHILD_CHECK(count_in_file(path, "pause_ms") == 0);
    CHILD_CHECK(count_in_file(path, "feta") == 0);
    CHILD_CHECK(unlink(path) == 0);
    return 0;
}

static void a_failure_that_nobody_sees_is_printed_once(void **state) {
    assert_int_equal(child_run(drop_futures, *state, CHILD_MS), 0);
}

/* The program computes and never waits: what depends on results starts all the same. */
static int not_wait(void *argument) {
    enum { LINKS = 50 };
    world *world = argument;
    char path[128];
    mr_ref ref, next;
    snprintf(path, sizeof path, "%s/marks", world->folder);
    CHILD_CHECK(open_runtime(world, &mr) == MR_OK);
    CHILD_CHECK(mr_call_task(mr, "mark", &ref) == MR_OK);
    for (int i = 1; i < LINKS; i++) {
        CHILD_CHECK(mr_call_task(mr, "mark", &next, mr_future(ref)) == MR_OK);
        mr_release(mr, ref);
        ref = next;
    }
    mr_release(mr, ref);
    int64_t start = now_ms();
    while (count_in_file(path, "x") < LINKS && now_ms() - start < PATIENCE_US / 1000) poll(NULL, 0, 2);
    CHILD_CHECK(count_in_file(path, "x") == LINKS);
    mr_shutdown(mr);
    CHILD_CHECK(unlink(path) == 0);
    return 0;
}

static void work_goes_on_while_the_program_computes(void **state) {
    assert_int_equal(child_run(not_wait, *state, CHILD_MS), 0);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, world_make, world_unmake)

int main(void) {
    const char *boot = getenv("MINIRAY_BOOT");
    if (boot != NULL && getenv(FAILING_START) != NULL) {
        append_byte("starts");
        return 3;
    }
    if (boot != NULL) return mr_init(NULL, &mr) != MR_OK; /* a worker: serves here */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_killed_program_takes_everything_with_it),
        IN_A_WORLD(a_killed_node_is_told_at_once),
        IN_A_WORLD(an_interrupt_is_the_programs_own),
        IN_A_WORLD(an_interrupted_program_takes_everything_with_it),
        IN_A_WORLD(a_program_may_have_two),
        IN_A_WORLD(beginning_and_ending_leaks_nothing),
        IN_A_WORLD(a_program_may_forget_to_shut_down),
        IN_A_WORLD(workers_that_cannot_start_are_not_started_for_ever),
        IN_A_WORLD(too_few_descriptors_are_a_clear_error),
        IN_A_WORLD(descriptors_that_run_out_end_nothing),
        IN_A_WORLD(a_node_without_descriptors_recovers),
        IN_A_WORLD(nonsense_is_refused),
        IN_A_WORLD(a_released_future_is_not_found),
        IN_A_WORLD(threads_share_a_context),
        IN_A_WORLD(a_failure_that_nobody_sees_is_printed_once),
        IN_A_WORLD(work_goes_on_while_the_program_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
