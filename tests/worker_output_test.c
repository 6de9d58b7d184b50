/* worker_output_test.c — output of workers: in files, on the driver's streams, and in errors about dead workers. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "runtime/node/worker_log.h"
#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(say) {
    mr_span text;
    MR_TRY(mr_arg_str(call, 0, &text));
    printf("%.*s\n", (int)text.size, (const char *)text.data);
    return mr_return(call, mr_int(getpid()));
}

/* Prints plain lines on both streams. */
MR_TASK(speak) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    for (int64_t i = 0; i < number; i++) {
        printf("output %lld\n", (long long)i);
        fprintf(stderr, "complaint %lld\n", (long long)i);
    }
    return mr_return(call, mr_int(number));
}

MR_TASK(print_and_die) {
    puts("printed before the end");
    fflush(stdout);
    raise(SIGKILL);
    return MR_OK;
}

MR_TASK(say_and_die) {
    puts("a line of output");
    fputs("the line before the last\nthe last words\n", stderr);
    int64_t how;
    MR_TRY(mr_arg_int(call, 0, &how));
    if (how == 0) _exit(41);
    raise((int)how);
    return MR_OK;
}

MR_TASK(flood) {
    int64_t count;
    MR_TRY(mr_arg_int(call, 0, &count));
    for (int64_t i = 0; i < count; i++) printf("line %lld of a flood that says nothing\n", (long long)i);
    return mr_return(call, mr_int(count));
}

MR_TASK(repeat) {
    int64_t count;
    MR_TRY(mr_arg_int(call, 0, &count));
    for (int64_t i = 0; i < count; i++) puts("again");
    puts("something else");
    return mr_return(call, mr_int(count));
}

/* Two names for the same task: each line contains its name. */
static mr_status mumble(mr_call *call, const char *name) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    if (number % 3 != 0) printf("%s %lld\n", name, (long long)number); /* not every task prints */
    if (number % 5 != 0) fprintf(stderr, "%s %lld\n", name, (long long)number);
    return mr_return(call, mr_int(number));
}
MR_TASK(tick) { return mumble(call, "tick"); }
MR_TASK(tock) { return mumble(call, "tock"); }

/* From now on no byte can be written to the worker's files (1), or again (0). */
MR_TASK(fill_disk) {
    static int before[2];
    int64_t filled;
    MR_TRY(mr_arg_int(call, 0, &filled));
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        if (filled) before[i] = dup(i + 1);
        dup2(filled ? full : before[i], i + 1);
        if (!filled) close(before[i]);
    }
    close(full);
    return mr_return(call, mr_int(filled));
}

MR_TASK(parent) {
    puts("asked for its parent");
    return mr_return(call, mr_int(getppid()));
}

MR_CREATE(Talker) {
    puts("a talker is born");
    return MR_OK;
}
MR_METHOD(Talker, talk) {
    puts("a talker talks");
    return mr_return(call, mr_int(getpid()));
}

/* ---- A driver whose streams are recorded. */

enum { TEXT_MAX = 1 << 20 };

typedef struct program {
    runtime_fixture *fixture;
    int (*run)(void); /* run with the runtime open; 0: success */
    int fds[3];       /* the driver's stdout and stderr */
    int log_to_driver;
    mr_print_fn *print;
    void *user;
} program;

typedef struct told { /* the driver's output; the caller frees it */
    char *out, *err;
} told;

static void told_free(told *told) {
    free(told->out);
    free(told->err);
}

static int run_program(void *argument) {
    program *program = argument;
    runtime_fixture_enter(program->fixture);
    for (int fd = 1; fd <= 2; fd++) dup2(program->fds[fd], fd);
    mr_options options =
        MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 16 << 20, .log_to_driver = program->log_to_driver,
                   .print = program->print, .print_user = program->user);
    TEST_CHILD_CHECK(mr_init(&options, &mr) == MR_OK);
    int failed = program->run();
    mr_shutdown(mr);
    return failed;
}

static char *text_of(int fd) {
    char *text = calloc(1, TEXT_MAX);
    assert_true(pread(fd, text, TEXT_MAX - 1, 0) >= 0);
    close(fd);
    return text;
}

static told run_with(program *program) {
    program->fds[1] = memfd_create("stdout", MFD_CLOEXEC);
    program->fds[2] = memfd_create("stderr", MFD_CLOEXEC);
    int failed = test_child_run(run_program, program, RUNTIME_FIXTURE_CHILD_MS);
    told told = {text_of(program->fds[1]), text_of(program->fds[2])};
    if (failed != 0) print_error("%s\n", told.err);
    assert_int_equal(failed, 0);
    return told;
}

static told told_by(void **state, int (*run)(void), int log_to_driver) {
    return run_with(&(program){.fixture = *state, .run = run, .log_to_driver = log_to_driver});
}

static void assert_has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) print_error("'%s' is not in:\n%.4000s\n", part, text);
    assert_non_null(strstr(text, part));
}

static size_t lines_of(const char *text) {
    size_t count = 0;
    for (; *text != '\0'; text++) count += *text == '\n';
    return count;
}

/* All log files of all sessions, concatenated; the sessions are removed. */
static size_t take_logs(const runtime_fixture *fixture, char *out, size_t size, off_t *largest) {
    char base[200], path[600];
    size_t used = 0;
    snprintf(base, sizeof base, "%s/miniray-%u", fixture->folder, (unsigned)geteuid());
    DIR *runs = opendir(base);
    for (struct dirent *run; runs != NULL && (run = readdir(runs)) != NULL;) {
        if (run->d_name[0] == '.') continue;
        char folder[400];
        snprintf(folder, sizeof folder, "%s/%.100s", base, run->d_name);
        DIR *files = opendir(folder);
        for (struct dirent *file; files != NULL && (file = readdir(files)) != NULL;) {
            if (file->d_name[0] == '.') continue;
            struct stat stat;
            snprintf(path, sizeof path, "%s/%.100s", folder, file->d_name);
            int fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fstat(fd, &stat) == 0 && stat.st_size > *largest) *largest = stat.st_size;
            ssize_t got = read(fd, out + used, size - 1 - used);
            if (got > 0) used += (size_t)got;
            close(fd);
            unlink(path);
        }
        if (files != NULL) closedir(files);
        rmdir(folder);
    }
    if (runs != NULL) closedir(runs);
    rmdir(base);
    out[used] = '\0';
    return used;
}

static bool ask(const char *task, int64_t number) {
    mr_ref ref;
    return mr_call_task(mr, task, &ref, mr_int(number)) == MR_OK && runtime_gives(mr, ref, number);
}

/* ---- The tests. */

static int say_hello(void) {
    mr_ref ref;
    mr_value value;
    mr_actor talker;
    TEST_CHILD_CHECK(mr_call_task(mr, "say", &ref, mr_str("hello from a task")) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_OK);
    TEST_CHILD_CHECK(mr_new_actor(mr, "Talker", &talker) == MR_OK);
    TEST_CHILD_CHECK(mr_call_actor(mr, talker, "talk", &ref) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_OK);
    return 0;
}

static void lines_reach_the_program_and_a_file(void **state) {
    static char logs[TEXT_MAX];
    off_t largest = 0;
    told told = told_by(state, say_hello, 0);
    assert_has(told.out, "(say pid=");
    assert_has(told.out, ") hello from a task\n");
    assert_has(told.out, "(Talker pid=");
    assert_has(told.out, ") a talker is born\n");
    assert_has(told.out, ") a talker talks\n");
    assert_string_equal(told.err, "");
    told_free(&told);
    take_logs(*state, logs, sizeof logs, &largest);
    assert_has(logs, "hello from a task\n");
    assert_has(logs, "a talker is born\na talker talks\n");
}

static void a_program_may_not_want_them(void **state) {
    static char logs[TEXT_MAX];
    off_t largest = 0;
    told told = told_by(state, say_hello, -1);
    assert_string_equal(told.out, "");
    assert_string_equal(told.err, "");
    told_free(&told);
    take_logs(*state, logs, sizeof logs, &largest);
    assert_has(logs, "hello from a task\n");
}

enum { SPOKEN = 100 };

static int speak_twice(void) {
    puts("the program's own line");
    TEST_CHILD_CHECK(ask("speak", SPOKEN));
    return 0;
}

/* Asserts that the lines of one stream are in their order, and that nothing else is in the stream. */
static void assert_lines(const char *text, const char *word) {
    for (int i = 0; i < SPOKEN; i++) {
        char said[32], line[64];
        int pid, size = 0;
        snprintf(said, sizeof said, "%s %d", word, i);
        assert_int_equal(sscanf(text, "(speak pid=%d) %n%63[^\n]", &pid, &size, line), 2);
        assert_string_equal(line, said);
        text += (size_t)size + strlen(line) + 1;
    }
    assert_string_equal(text, "");
}

static void streams_stay_apart(void **state) {
    static const char own[] = "the program's own line\n";
    static char logs[TEXT_MAX];
    off_t largest = 0;
    told told = told_by(state, speak_twice, 0);
    assert_int_equal(strncmp(told.out, own, strlen(own)), 0); /* output does not bypass the stream's buffer */
    assert_lines(told.out + strlen(own), "output");
    assert_lines(told.err, "complaint");
    told_free(&told);
    take_logs(*state, logs, sizeof logs, &largest);
}

static void keep_lines(void *user, int fd, const char *text, size_t size) {
    int to = ((int *)user)[fd];
    if (write(to, text, size) != (ssize_t)size) abort();
}

static void a_program_may_show_them_itself(void **state) {
    static char logs[TEXT_MAX];
    off_t largest = 0;
    int kept[3] = {-1, memfd_create("out", MFD_CLOEXEC), memfd_create("err", MFD_CLOEXEC)};
    told told = run_with(&(program){.fixture = *state, .run = speak_twice, .print = keep_lines, .user = kept});
    assert_string_equal(told.out, "the program's own line\n");
    assert_string_equal(told.err, "");
    told_free(&told);
    told = (struct told){text_of(kept[1]), text_of(kept[2])};
    assert_lines(told.out, "output");
    assert_lines(told.err, "complaint");
    told_free(&told);
    take_logs(*state, logs, sizeof logs, &largest);
}

static int ask_for_deaths(void) {
    static const struct {
        int how;
        const char *said;
    } deaths[] = {{0, "exited with status 41"}, {SIGUSR1, "SIGUSR1"}, {SIGKILL, "SIGKILL"}, {SIGTERM, "SIGTERM"}};
    mr_value value;
    mr_ref ref;
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        TEST_CHILD_CHECK(mr_task_submit(mr, "say_and_die", &MR_OPTIONS(mr_task_options, .max_retries = -1),
                                        MR_ARGS(mr_int(deaths[i].how)), &ref) == MR_OK);
        TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_WORKER_DIED);
        TEST_CHILD_CHECK(strstr(mr_last_error(), "the line before the last | the last words") != NULL);
        TEST_CHILD_CHECK(strstr(mr_last_error(), "a line of output") == NULL);
        TEST_CHILD_CHECK(strstr(mr_last_error(), deaths[i].said) != NULL);
    }
    TEST_CHILD_CHECK(
        mr_task_submit(mr, "print_and_die", &MR_OPTIONS(mr_task_options, .max_retries = -1), NULL, 0, &ref) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_WORKER_DIED);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "its last output: \"printed before the end\"") != NULL);
    return 0;
}

static void the_dead_are_quoted(void **state) {
    static char logs[TEXT_MAX];
    off_t largest = 0;
    told told = told_by(state, ask_for_deaths, 0);
    size_t seen = 0; /* no output is lost, whatever the kind of death */
    for (const char *at = told.err; (at = strstr(at, ") the last words\n")) != NULL; at++) seen++;
    assert_int_equal(seen, 4);
    assert_has(told.out, ") printed before the end\n");
    told_free(&told);
    take_logs(*state, logs, sizeof logs, &largest);
}

enum { FLOOD = 200 * 1000 };

static int make_floods(void) {
    TEST_CHILD_CHECK(ask("flood", FLOOD));
    return 0;
}

static void floods_are_not_shown_whole(void **state) {
    static char logs[TEXT_MAX];
    off_t largest = 0;
    told told = told_by(state, make_floods, 0);
    assert_in_range(lines_of(told.out), 1, FLOOD / 4);
    assert_has(told.out, "not shown");
    assert_string_equal(told.err, "");
    told_free(&told);
    take_logs(*state, logs, sizeof logs, &largest);
    assert_true(largest > 1024 && largest < 3 * WORKER_LOG_BYTES_MAX); /* the node may have been busy */
}

static int repeat_itself(void) {
    TEST_CHILD_CHECK(ask("repeat", 5000));
    return 0;
}

static void repeated_lines_are_counted(void **state) {
    static char logs[TEXT_MAX];
    off_t largest = 0;
    told told = told_by(state, repeat_itself, 0);
    assert_has(told.out, ") again\n");
    assert_has(told.out, "[the line above 4999 times more]\n");
    assert_has(told.out, ") something else\n");
    assert_true(lines_of(told.out) < 20);
    told_free(&told);
    take_logs(*state, logs, sizeof logs, &largest);
}

/* ---- Missing resources, on a node whose log is not this driver's stderr. */

static int ask_a_lasting_node(void *argument) {
    program *program = argument;
    mr_ref ref;
    mr_value value;
    mr_node_info node;
    runtime_fixture_enter(program->fixture);
    TEST_CHILD_CHECK(mr_node_start(&MR_OPTIONS(mr_node_options, .num_cpus = 1, .store_bytes = 16 << 20), &node) ==
                     MR_OK);
    dup2(program->fds[2], STDERR_FILENO);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .address = "auto"), &mr) == MR_OK);
    TEST_CHILD_CHECK(mr_task_submit(mr, "say", &MR_OPTIONS(mr_task_options, .resources = "unicorn=1"),
                                    MR_ARGS(mr_str("no")), &ref) == MR_OK);
    /* The task waits for a machine with the resource. */
    TEST_CHILD_CHECK(mr_get(mr, ref, 100 * 1000, &value) == MR_TIMEOUT);
    mr_shutdown(mr);
    TEST_CHILD_CHECK(mr_node_stop(NULL, &node) == MR_OK);
    return 0;
}

static void missing_logs_are_reported(void **state) {
    char text[4096] = "";
    program program = {.fixture = *state, .fds = {-1, -1, memfd_create("stderr", MFD_CLOEXEC)}};
    assert_int_equal(test_child_run(ask_a_lasting_node, &program, RUNTIME_FIXTURE_CHILD_MS), 0);
    assert_true(pread(program.fds[2], text, sizeof text - 1, 0) > 0);
    close(program.fds[2]);
    assert_has(text, "(node) task 'say' (t");
    assert_has(text, ") waits for cpu=1, unicorn=1, but this machine has cpu=1: cancel it, or start the node with "
                     "more (");
    assert_has(text, "; `miniray why t");
    runtime_fixture_gone(*state, "mr_node_stop");
}

static int speak_on_a_full_disk(void) {
    mr_ref ref;
    TEST_CHILD_CHECK(ask("fill_disk", 1));
    for (int i = 0; i < 3; i++) TEST_CHILD_CHECK(ask("speak", 1000));
    TEST_CHILD_CHECK(ask("fill_disk", 0));
    TEST_CHILD_CHECK(mr_call_task(mr, "say", &ref, mr_str("there is room")) == MR_OK);
    mr_value value;
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_OK);
    return 0;
}

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;
    while ((text = strstr(text, part)) != NULL) text += strlen(part), count++;
    return count;
}

/* printf fails, the task does not: one warning says so. */
static void a_full_disk_is_reported_once(void **state) {
    static char logs[TEXT_MAX];
    off_t largest = 0;
    told told = told_by(state, speak_on_a_full_disk, 0);
    assert_has(told.err, "cannot write its output to ");
    assert_int_equal(count_of(told.err, "cannot write its output"), 1);
    assert_has(told.err, ": No space left on device; tasks go on");
    assert_has(told.out, ") there is room\n");
    assert_null(strstr(told.out, "output 999"));
    told_free(&told);
    take_logs(*state, logs, sizeof logs, &largest);
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

static int alternate(void) {
    enum { TASKS = 40 };
    mr_ref refs[TASKS];
    for (int i = 0; i < TASKS; i++) /* short tasks of each name, all in one worker */
        TEST_CHILD_CHECK(mr_call_task(mr, i / 2 % 2 == 0 ? "tick" : "tock", &refs[i], mr_int(i)) == MR_OK);
    for (int i = 0; i < TASKS; i++) TEST_CHILD_CHECK(runtime_gives(mr, refs[i], i));
    return 0;
}

/* Number of lines. Each line has the name of the task that printed it, however fast the tasks alternate. */
static int lines_by_name(char *text) {
    char *next;
    int lines = 0;
    for (char *line = strtok_r(text, "\n", &next); line != NULL; line = strtok_r(NULL, "\n", &next)) {
        char label[32], name[32];
        int pid, number;
        if (sscanf(line, "(%31s pid=%d) %31s %d", label, &pid, name, &number) != 4) continue;
        if (strcmp(label, name) != 0) print_error("%s\n", line);
        assert_string_equal(label, name);
        lines++;
    }
    return lines;
}

static void a_line_has_the_name_of_its_task(void **state) {
    told told = told_by(state, alternate, 0);
    assert_int_equal(lines_by_name(told.out), 26);
    assert_int_equal(lines_by_name(told.err), 32);
    told_free(&told);
    runtime_fixture_gone(*state, "two tasks");
}

/* The node is stopped when the driver ends, as an overloaded machine would do. */
static int end_while_it_stands(void) {
    mr_ref ref;
    mr_value value;
    int64_t node;
    TEST_CHILD_CHECK(mr_call_task(mr, "parent", &ref) == MR_OK);
    TEST_CHILD_CHECK(mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) == MR_OK &&
                     mr_value_int(&value, &node) == MR_OK);
    TEST_CHILD_CHECK(kill((pid_t)node, SIGSTOP) == 0);
    pid_t waker = fork();
    if (waker == 0) {
        usleep(1500 * 1000);
        _exit(kill((pid_t)node, SIGCONT) != 0);
    }
    return waker < 0;
}

static void a_slow_node_is_waited_for(void **state) {
    told told = told_by(state, end_while_it_stands, 0);
    assert_has(told.out, ") asked for its parent\n");
    told_free(&told);
    runtime_fixture_gone(*state, "a slow node");
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(lines_reach_the_program_and_a_file),
        IN_A_WORLD(a_program_may_not_want_them),
        IN_A_WORLD(streams_stay_apart),
        IN_A_WORLD(a_program_may_show_them_itself),
        IN_A_WORLD(the_dead_are_quoted),
        IN_A_WORLD(floods_are_not_shown_whole),
        IN_A_WORLD(repeated_lines_are_counted),
        IN_A_WORLD(missing_logs_are_reported),
        IN_A_WORLD(a_full_disk_is_reported_once),
        IN_A_WORLD(a_line_has_the_name_of_its_task),
        IN_A_WORLD(a_slow_node_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
