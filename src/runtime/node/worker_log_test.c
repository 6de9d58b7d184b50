/* worker_log_test.c — output files of workers, as the node reads them; the test process writes to them as the
 * workers. */
#include "runtime/node/worker_log.h"

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

#include "tests/support/temp_dir.h"

enum { LINES_MAX = 16384, PATIENCE = 2000 };

typedef struct fixture {
    char folder[TEMP_DIR_FOLDER_MAX];
    event_loop *loop;
    worker_logs *logs;
    size_t count;
    char lines[LINES_MAX][96];
} fixture;

static void keep(void *context, const worker_log_source *source, span line) {
    fixture *fixture = context;
    assert_true(fixture->count < LINES_MAX);
    snprintf(fixture->lines[fixture->count++], sizeof fixture->lines[0], "%u %s %d%c %.*s", source->program,
             source->label, source->pid, source->std_stream == STD_STREAM_OUT ? ':' : '!',
             (int)(line.size < 60 ? line.size : 60), (const char *)line.data);
}

static int setup(void **state) {
    fixture *fixture = calloc(1, sizeof *fixture);
    *state = fixture;
    return !temp_dir_folder(fixture->folder) || event_loop_create(&fixture->loop) != MR_OK ||
           worker_logs_open(fixture->loop, fixture->folder, keep, fixture, &fixture->logs) != MR_OK;
}

static int teardown(void **state) {
    fixture *fixture = *state;
    worker_logs_close(fixture->logs);
    event_loop_destroy(fixture->loop);
    int left = rmdir(fixture->folder);
    free(fixture);
    return left;
}

static void path_of(const fixture *fixture, const char *name, char out[200]) {
    snprintf(out, 200, "%s/%s", fixture->folder, name);
}

static off_t size_of(const fixture *fixture, const char *name) {
    char path[200];
    struct stat stat;
    path_of(fixture, name, path);
    return lstat(path, &stat) == 0 ? stat.st_size : -1;
}

static void remove_file(const fixture *fixture, const char *name) {
    char path[200];
    path_of(fixture, name, path);
    assert_int_equal(unlink(path), 0);
}

static void say(int fd, const char *text) { assert_int_equal(write(fd, text, strlen(text)), strlen(text)); }

static void await(fixture *fixture, size_t count) {
    for (int i = 0; i < PATIENCE && fixture->count < count; i++) event_loop_run_once(fixture->loop, 10 * 1000);
    assert_int_equal(fixture->count, count);
}

static void start_both(fixture *fixture, int pid, int fds[STD_STREAMS]) {
    assert_true(worker_logs_create(fixture->logs, fds));
    worker_logs_started(fixture->logs, 3, pid);
}

/* Starts a worker that writes to stdout only; returns the descriptor of its stdout. */
static int start(fixture *fixture, int pid) {
    int fds[STD_STREAMS];
    start_both(fixture, pid, fds);
    close(fds[STD_STREAM_ERR]);
    return fds[STD_STREAM_OUT];
}

static void lines_come_as_they_are_written(void **state) {
    fixture *fixture = *state;
    int fd = start(fixture, 4711);
    say(fd, "first\nsecond\nhalf of the");
    await(fixture, 2);
    assert_string_equal(fixture->lines[0], "3  4711: first");
    assert_string_equal(fixture->lines[1], "3  4711: second");
    worker_logs_label(fixture->logs, 4711, "Counter");
    say(fd, " third\n\n");
    await(fixture, 4);
    assert_string_equal(fixture->lines[2], "3 Counter 4711: half of the third");
    assert_string_equal(fixture->lines[3], "3 Counter 4711: ");
    say(fd, "last words, without an end");
    close(fd);
    worker_logs_ended(fixture->logs, 4711);
    assert_int_equal(fixture->count, 5);
    assert_string_equal(fixture->lines[4], "3 Counter 4711: last words, without an end");
    assert_true(size_of(fixture, "4711.out.log") > 0);
    remove_file(fixture, "4711.out.log");
}

static void a_worker_says_what_it_is_called(void **state) {
    fixture *fixture = *state;
    int fd = start(fixture, 4711);
    worker_logs_label(fixture->logs, 4711, "Counter");
    say(fd, "before\n" WORKER_LOG_NAME "Counter(7)\nafter\n" WORKER_LOG_NAME "\n");
    await(fixture, 3);
    assert_string_equal(fixture->lines[0], "3 Counter 4711: before");
    assert_string_equal(fixture->lines[1], "3 Counter(7) 4711: after");
    assert_string_equal(fixture->lines[2], "3 Counter(7) 4711: " WORKER_LOG_NAME); /* empty label */
    close(fd);
    worker_logs_ended(fixture->logs, 4711);
    remove_file(fixture, "4711.out.log");
}

static void std_streams_stay_apart(void **state) {
    fixture *fixture = *state;
    int fds[STD_STREAMS];
    start_both(fixture, 4711, fds);
    say(fds[STD_STREAM_ERR], "a complaint\nhalf of ");
    say(fds[STD_STREAM_OUT], "a line\nhalf a ");
    await(fixture, 2);
    say(fds[STD_STREAM_ERR], "another\n" WORKER_LOG_NAME "a complaint is no name\n");
    say(fds[STD_STREAM_OUT], "line\n");
    worker_logs_drain(fixture->logs);
    assert_int_equal(fixture->count, 5);
    assert_string_equal(fixture->lines[2], "3  4711: half a line");
    assert_string_equal(fixture->lines[3], "3  4711! half of another");
    assert_string_equal(fixture->lines[4], "3  4711! " WORKER_LOG_NAME "a complaint is no name");
    say(fds[STD_STREAM_OUT], WORKER_LOG_NAME "Counter(7)\n");
    say(fds[STD_STREAM_ERR], "by its name\n");
    close(fds[STD_STREAM_OUT]);
    close(fds[STD_STREAM_ERR]);
    worker_logs_ended(fixture->logs, 4711);
    assert_string_equal(fixture->lines[5], "3 Counter(7) 4711! by its name");
    remove_file(fixture, "4711.out.log");
    remove_file(fixture, "4711.err.log");
}

/* Rotation of one stream's file does not affect the other's. */
static void each_std_stream_has_its_own_limit(void **state) {
    fixture *fixture = *state;
    char line[1000];
    int fds[STD_STREAMS];
    start_both(fixture, 4711, fds);
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    say(fds[STD_STREAM_OUT], "the only line\n");
    for (int i = 0; i < WORKER_LOG_BYTES_MAX / (int)sizeof line + 2; i++) {
        assert_int_equal(write(fds[STD_STREAM_ERR], line, sizeof line), sizeof line);
        if (i % 100 == 0) worker_logs_drain(fixture->logs);
        fixture->count = 0;
    }
    worker_logs_drain(fixture->logs);
    assert_int_equal(size_of(fixture, "4711.err.log"), 0);
    assert_true(size_of(fixture, "4711.err.log.1") > WORKER_LOG_BYTES_MAX);
    assert_int_equal(size_of(fixture, "4711.out.log"), strlen("the only line\n"));
    close(fds[STD_STREAM_OUT]);
    close(fds[STD_STREAM_ERR]);
    worker_logs_ended(fixture->logs, 4711);
    remove_file(fixture, "4711.out.log");
    remove_file(fixture, "4711.err.log"); /* not removed, since it was rotated */
    remove_file(fixture, "4711.err.log.1");
}

static void a_line_without_an_end_comes_when_all_is_wanted(void **state) {
    fixture *fixture = *state;
    int fd = start(fixture, 4711);
    say(fd, "whole\nnot whole");
    worker_logs_drain(fixture->logs);
    assert_int_equal(fixture->count, 2);
    assert_string_equal(fixture->lines[1], "3  4711: not whole");
    say(fd, " yet\n");
    worker_logs_drain(fixture->logs);
    assert_string_equal(fixture->lines[2], "3  4711:  yet");
    close(fd);
    worker_logs_ended(fixture->logs, 4711);
    assert_int_equal(fixture->count, 3);
    remove_file(fixture, "4711.out.log");
}

static void silence_leaves_nothing(void **state) {
    fixture *fixture = *state;
    close(start(fixture, 4711));
    worker_logs_ended(fixture->logs, 4711);
    worker_logs_ended(fixture->logs, 4711); /* no effect the second time */
    assert_int_equal(size_of(fixture, "4711.out.log"), -1);
    assert_int_equal(size_of(fixture, "4711.err.log"), -1);
    int fds[STD_STREAMS];
    start_both(fixture, 0, fds); /* the start failed */
    close(fds[STD_STREAM_OUT]);
    close(fds[STD_STREAM_ERR]);
    close(start(fixture, 4712)); /* ended by worker_logs_close */
}

static void a_file_has_a_limit(void **state) {
    fixture *fixture = *state;
    char line[1000];
    int fd = start(fixture, 4711);
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < 3 * WORKER_LOG_BYTES_MAX / (int)sizeof line; i++) {
        assert_int_equal(write(fd, line, sizeof line), sizeof line);
        if (i % 100 == 0) worker_logs_drain(fixture->logs);
        fixture->count = 0;
        assert_true(size_of(fixture, "4711.out.log") <= WORKER_LOG_BYTES_MAX + 101 * (off_t)sizeof line);
    }
    assert_true(size_of(fixture, "4711.out.log.1") >= WORKER_LOG_BYTES_MAX);
    assert_true(size_of(fixture, "4711.out.log.1") <= WORKER_LOG_BYTES_MAX + 101 * (off_t)sizeof line);
    close(fd);
    worker_logs_ended(fixture->logs, 4711);
    remove_file(fixture, "4711.out.log");
    remove_file(fixture, "4711.out.log.1");
}

static void the_nodes_own_log_has_a_limit(void **state) {
    fixture *fixture = *state;
    char path[200], line[1000];
    path_of(fixture, WORKER_LOG_OWN, path);
    FILE *file = fopen(path, "ae");
    assert_non_null(file);
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int i = 0; i < WORKER_LOG_BYTES_MAX / (int)sizeof line + 10; i++) fwrite(line, 1, sizeof line, file);
    fclose(file);
    for (int i = 0; i < PATIENCE && size_of(fixture, WORKER_LOG_OWN) > 0; i++)
        event_loop_run_once(fixture->loop, 10 * 1000);
    assert_int_equal(size_of(fixture, WORKER_LOG_OWN), 0);
    assert_true(size_of(fixture, WORKER_LOG_OWN ".1") > WORKER_LOG_BYTES_MAX);
    assert_int_equal(fixture->count, 0); /* the node's own file is not passed on */
    remove_file(fixture, WORKER_LOG_OWN);
    remove_file(fixture, WORKER_LOG_OWN ".1");
}

static void excess_output_is_left_out(void **state) {
    fixture *fixture = *state;
    int fd = start(fixture, 4711);
    FILE *file = fdopen(fd, "a");
    for (int i = 0; i < 100 * 1000; i++) fprintf(file, "line %d\n", i);
    fflush(file);
    worker_logs_drain(fixture->logs);
    assert_false(fixture->count == 0);
    assert_non_null(strstr(fixture->lines[0], "kB not shown]"));
    fixture->count = 0;
    fputs("the end\n", file);
    fclose(file);
    worker_logs_ended(fixture->logs, 4711);
    assert_string_equal(fixture->lines[0], "3  4711: the end");
    remove_file(fixture, "4711.out.log");
}

static void the_last_lines_can_be_quoted(void **state) {
    fixture *fixture = *state;
    char text[200], small[12];
    int fds[STD_STREAMS];
    start_both(fixture, 4711, fds);
    int fd = fds[STD_STREAM_OUT];
    worker_logs_last(fixture->logs, 4711, text, sizeof text);
    assert_string_equal(text, "");
    worker_logs_last(fixture->logs, 4799, text, sizeof text);
    assert_string_equal(text, "");
    say(fd, "one\ntwo\nthree\twith a \033[1mtab\nfour\n\n");
    worker_logs_last(fixture->logs, 4711, text, sizeof text);
    assert_string_equal(text, "two | three with a  [1mtab | four");
    worker_logs_last(fixture->logs, 4711, small, sizeof small);
    assert_true(strlen(small) < sizeof small);
    say(fds[STD_STREAM_ERR], "why\n"); /* stderr is preferred */
    worker_logs_last(fixture->logs, 4711, text, sizeof text);
    assert_string_equal(text, "why");
    say(fds[STD_STREAM_ERR],
        "Fatal Python error: Aborted\n\n  File \"a.py\", line 3 in f\n  one\n  two\n\nmodules\nwhy\n");
    worker_logs_last(fixture->logs, 4711, text, sizeof text);
    assert_string_equal(text,
                        "Fatal Python error: Aborted |  |   File \"a.py\", line 3 in f |   one |   two |  | modules"
                        " | why");
    worker_logs_last(fixture->logs, 4711, small, sizeof small);
    assert_true(strlen(small) < sizeof small);
    close(fds[STD_STREAM_ERR]);
    close(fd);
    worker_logs_ended(fixture->logs, 4711);
    worker_logs_last(fixture->logs, 4711, text, sizeof text); /* also after the worker has ended */
    assert_true(strncmp(text, "Fatal", 5) == 0);
    remove_file(fixture, "4711.err.log");
    remove_file(fixture, "4711.out.log");
}

#define WITH_LOGS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_LOGS(lines_come_as_they_are_written),
        WITH_LOGS(a_worker_says_what_it_is_called),
        WITH_LOGS(std_streams_stay_apart),
        WITH_LOGS(each_std_stream_has_its_own_limit),
        WITH_LOGS(a_line_without_an_end_comes_when_all_is_wanted),
        WITH_LOGS(silence_leaves_nothing),
        WITH_LOGS(a_file_has_a_limit),
        WITH_LOGS(the_nodes_own_log_has_a_limit),
        WITH_LOGS(excess_output_is_left_out),
        WITH_LOGS(the_last_lines_can_be_quoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
