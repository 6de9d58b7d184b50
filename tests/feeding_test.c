/* feeding_test.c — assignment of tasks to workers, and its correction: short tasks go to few workers, many deep, and a
 * blocked worker returns tasks that it has not begun. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/concurrent_bodies.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"
#include "tests/support/temp_dir.h"

enum { WORKERS = 4, SHORT = 3000, LOOK_US = 1000, NOTES = 60, NOTE_BYTES = 20000, LONG_MS = 10 };
enum { IN_LINE = 20, STEPS_BACK_MAX = 3, ROUNDS = 20 };

/* ---- Tasks and actors. */

MR_TASK(short_one) { return MR_OK; }

static void write_down(const char *path, char what) {
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd < 0 || write(fd, &what, 1) != 1) abort();
    close(fd);
}

static void note(const char *path) { write_down(path, 'x'); }

MR_TASK(meets) { return concurrent_others(call); }

/* Writes that the task has begun, and waits for a future inside a list. */
MR_TASK(waits_for_another) {
    char path[CONCURRENT_PATH_MAX];
    mr_value list, item, value;
    mr_ref ref;
    MR_TRY(concurrent_path(call, path));
    MR_TRY(mr_arg_value(call, 1, &list));
    MR_TRY(mr_value_item(&list, 0, &item));
    MR_TRY(mr_value_ref(&item, &ref));
    note(path);
    MR_TRY(mr_get(mr_call_context(call), ref, MR_FOREVER, &value));
    mr_value_release(&value);
    return mr_return(call, mr_int(getpid()));
}

MR_TASK(process_of_worker) { return mr_return(call, mr_int(getpid())); }

MR_TASK(gives_two) {
    MR_TRY(mr_yield(call, mr_int(1)));
    return mr_yield(call, mr_int(2));
}

MR_CREATE(Gate) { return MR_OK; }

MR_METHOD(Gate, opens) { /* returns when the file exists */
    char path[CONCURRENT_PATH_MAX];
    MR_TRY(concurrent_path(call, path));
    while (access(path, F_OK) != 0) usleep(LOOK_US);
    return MR_OK;
}

MR_TASK(notes) { /* counts its runs; some take a while */
    char path[CONCURRENT_PATH_MAX];
    int64_t number;
    mr_value value;
    mr_span bytes;
    MR_TRY(concurrent_path(call, path));
    MR_TRY(mr_arg_int(call, 1, &number));
    MR_TRY(mr_arg_value(call, 2, &value));
    MR_TRY(mr_value_bytes(&value, &bytes));
    note(path);
    if (number % 10 == 0) usleep(LONG_MS * 1000);
    return mr_return(call, mr_int(number + (int64_t)bytes.size));
}

MR_TASK(writes_its_letter) { /* the first task takes longer */
    char path[CONCURRENT_PATH_MAX];
    int64_t number;
    MR_TRY(concurrent_path(call, path));
    MR_TRY(mr_arg_int(call, 1, &number));
    write_down(path, (char)('a' + number));
    if (number == 0) usleep(LONG_MS * 1000);
    return MR_OK;
}

/* ---- The driver. */

static void teach_that_tasks_are_short(mr_context *of) {
    static mr_ref refs[SHORT];
    for (int i = 0; i < SHORT; i++) assert_int_equal(mr_call_task(of, "short_one", &refs[i]), MR_OK);
    for (int i = 0; i < SHORT; i++) assert_int_equal(future_assert_failure(of, refs[i]), MR_OK);
}

static void tasks_that_wait_for_each_other_all_begin(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_ref refs[WORKERS];
    int64_t who[WORKERS];
    assert_true(temp_dir_folder(folder));
    teach_that_tasks_are_short(mr);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(mr_call_task(mr, "meets", &refs[i], mr_str(folder), mr_int(WORKERS)), MR_OK);
    for (int i = 0; i < WORKERS; i++) who[i] = future_assert_int(mr, refs[i]);
    concurrent_clear(folder, who, WORKERS);
    assert_int_equal(rmdir(folder), 0);
}

/* A node with one worker that has run short tasks; its present body waits for another future. A task that becomes ready
 * while that body runs (`begun`) is queued behind the body. */
typedef struct line {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 16];
    mr_context *mr;
    mr_ref begun;
} line;

static void line_open(line *line) {
    mr_actor gate;
    assert_true(temp_dir_folder(line->folder));
    snprintf(line->path, sizeof line->path, "%s/begun", line->folder);
    assert_int_equal(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 64 << 20), &line->mr), MR_OK);
    assert_int_equal(mr_new_actor(line->mr, "Gate", &gate), MR_OK);
    teach_that_tasks_are_short(line->mr);
    assert_int_equal(mr_call_actor(line->mr, gate, "opens", &line->begun, mr_str(line->path)), MR_OK);
}

static mr_ref line_body_waits(const line *line, mr_ref other) {
    mr_arg item = mr_future(other);
    mr_ref body;
    assert_int_equal(mr_call_task(line->mr, "waits_for_another", &body, mr_str(line->path), mr_list(&item, 1)), MR_OK);
    return body;
}

static void line_close(line *line) {
    mr_release(line->mr, line->begun);
    mr_shutdown(line->mr);
    assert_int_equal(unlink(line->path), 0);
    assert_int_equal(rmdir(line->folder), 0);
}

static void a_body_does_not_wait_for_what_stands_behind_it(void **state) {
    line line;
    mr_ref last, first;
    line_open(&line);
    assert_int_equal(mr_call_task(line.mr, "short_one", &last, mr_future(line.begun)), MR_OK);
    first = line_body_waits(&line, last);
    assert_int_equal(future_assert_failure(line.mr, first), MR_OK);
    assert_int_equal(future_assert_failure(line.mr, last), MR_OK);
    line_close(&line);
}

/* The body waits for a gate that opens after the first item of the stream was taken. */
static void a_body_does_not_wait_for_a_stream_that_stands_behind_it(void **state) {
    line line;
    char taken[TEMP_DIR_FOLDER_MAX + 16];
    mr_actor gate;
    mr_ref opens, first, stream, result;
    line_open(&line);
    snprintf(taken, sizeof taken, "%s/taken", line.folder);
    assert_int_equal(mr_new_actor(line.mr, "Gate", &gate), MR_OK);
    assert_int_equal(mr_call_actor(line.mr, gate, "opens", &opens, mr_str(taken)), MR_OK);
    mr_arg begun = mr_future(line.begun);
    mr_task_options streams = MR_OPTIONS(mr_task_options, .num_returns = MR_STREAM);
    assert_int_equal(mr_task_submit(line.mr, "gives_two", &streams, &begun, 1, &stream), MR_OK);
    first = line_body_waits(&line, opens);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(mr_stream_next(line.mr, stream, MR_FOREVER, &result), MR_OK);
        assert_int_equal(future_assert_int(line.mr, result), i);
        if (i == 1) note(taken);
    }
    assert_int_equal(mr_stream_next(line.mr, stream, MR_FOREVER, &result), MR_END);
    assert_int_equal(future_assert_failure(line.mr, first), MR_OK);
    mr_release(line.mr, stream);
    mr_release(line.mr, opens);
    assert_int_equal(unlink(taken), 0);
    line_close(&line);
}

/* The body's worker gets a task with max_calls = 1, and returns the task without running it; the worker does not
 * end. */
static void requeued_tasks_are_not_counted(void **state) {
    line line;
    mr_ref last, first, next;
    line_open(&line);
    mr_arg begun = mr_future(line.begun);
    assert_int_equal(
        mr_task_submit(line.mr, "short_one", &MR_OPTIONS(mr_task_options, .max_calls = 1), &begun, 1, &last), MR_OK);
    first = line_body_waits(&line, last);
    assert_int_equal(mr_call_task(line.mr, "process_of_worker", &next, mr_future(first)), MR_OK);
    assert_int_equal(future_assert_int(line.mr, next), future_assert_int(line.mr, first));
    assert_int_equal(future_assert_failure(line.mr, last), MR_OK);
    line_close(&line);
}

static void requeued_tasks_run_once(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 16];
    static uint8_t bytes[NOTE_BYTES];
    mr_ref refs[NOTES];
    struct stat notes;
    assert_true(temp_dir_folder(folder));
    snprintf(path, sizeof path, "%s/notes", folder);
    teach_that_tasks_are_short(mr);
    for (int i = 0; i < NOTES; i++)
        assert_int_equal(mr_call_task(mr, "notes", &refs[i], mr_str(path), mr_int(i), mr_bytes(bytes, sizeof bytes)),
                         MR_OK);
    for (int i = 0; i < NOTES; i++) assert_int_equal(future_assert_int(mr, refs[i]), i + NOTE_BYTES);
    assert_int_equal(stat(path, &notes), 0);
    assert_int_equal(notes.st_size, NOTES);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Some tasks may overtake others: those in flight when the first tasks were returned run where they arrive. Both groups
 * keep their order. */
static void assert_in_few_runs(const char *messages) {
    int steps_back = 0;
    for (int i = 1; i < IN_LINE; i++) steps_back += messages[i] < messages[i - 1];
    if (steps_back > STEPS_BACK_MAX) fail_msg("the order is %s", messages);
}

static void stand_in_line(mr_context *one, const char *path) {
    char messages[IN_LINE + 1] = "";
    mr_ref refs[IN_LINE];
    teach_that_tasks_are_short(one);
    for (int i = 0; i < IN_LINE; i++)
        assert_int_equal(mr_call_task(one, "writes_its_letter", &refs[i], mr_str(path), mr_int(i)), MR_OK);
    for (int i = 0; i < IN_LINE; i++) assert_int_equal(future_assert_failure(one, refs[i]), MR_OK);
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, messages, IN_LINE), IN_LINE);
    close(fd);
    assert_in_few_runs(messages);
    assert_int_equal(unlink(path), 0);
}

static void requeued_tasks_keep_their_order(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 16];
    mr_context *one;
    assert_true(temp_dir_folder(folder));
    snprintf(path, sizeof path, "%s/letters", folder);
    assert_int_equal(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 64 << 20), &one), MR_OK);
    for (int i = 0; i < ROUNDS; i++) stand_in_line(one, path);
    mr_shutdown(one);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_that_wait_for_each_other_all_begin),
        cmocka_unit_test(a_body_does_not_wait_for_what_stands_behind_it),
        cmocka_unit_test(a_body_does_not_wait_for_a_stream_that_stands_behind_it),
        cmocka_unit_test(requeued_tasks_are_not_counted),
        cmocka_unit_test(requeued_tasks_run_once),
        cmocka_unit_test(requeued_tasks_keep_their_order),
    };
    return runtime_main_with(tests, .num_workers = WORKERS, .store_bytes = 64u << 20);
}
