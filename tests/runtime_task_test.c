/* runtime_task_test.c — tasks seen from a driver: dependencies, several values, retries, cancellation, batches. The
 * test is the driver: its workers are this same binary, started again. */
#include <fcntl.h>
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

#include "miniray/runtime.h"
#include "tests/support/future_assert.h"

enum { PATIENCE_US = 20 * 1000 * 1000 };

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(add) {
    int64_t a, b;
    MR_TRY(mr_arg_int(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &b));
    return mr_return(call, mr_int(a + b));
}

MR_TASK(fail_with) {
    mr_span text;
    MR_TRY(mr_arg_str(call, 0, &text));
    return mr_fail(call, "%.*s", (int)text.size, (const char *)text.data);
}

MR_TASK(die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

MR_TASK(process_id_of_worker) { return mr_return(call, mr_int(getpid())); }

/* The child returns a value or an error, as requested. The parent returns how the child ended. */
MR_TASK(fork_child) {
    int64_t fails;
    int status;
    MR_TRY(mr_arg_int(call, 0, &fails));
    pid_t child = fork();
    if (child == 0) return fails != 0 ? mr_fail(call, "on purpose") : mr_return(call, mr_str("of the child"));
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return MR_IO;
    return mr_return(call, mr_int(WEXITSTATUS(status)));
}

MR_TASK(pause_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    usleep((useconds_t)ms * 1000);
    return mr_return(call, mr_int(ms));
}

/* Nested tasks, each of which waits for the next. */
MR_TASK(deep) {
    int64_t depth, below = 0;
    mr_ref ref;
    mr_value value;
    MR_TRY(mr_arg_int(call, 0, &depth));
    if (depth > 1) {
        MR_TRY(mr_call_task(mr_call_context(call), "deep", &ref, mr_int(depth - 1)));
        MR_TRY(mr_get(mr_call_context(call), ref, MR_FOREVER, &value));
        MR_TRY(mr_value_int(&value, &below));
        mr_value_release(&value);
        mr_release(mr_call_context(call), ref);
    }
    return mr_return(call, mr_int(below + 1));
}

static void note(const char *path, char what) {
    int fd = open(path, O_WRONLY | O_APPEND);
    if (fd < 0 || write(fd, &what, 1) != 1) abort();
    close(fd);
}

static int count_in_file(const char *path, char what) {
    char bytes[64];
    int fd = open(path, O_RDONLY), count = 0;
    ssize_t size = read(fd, bytes, sizeof bytes);
    close(fd);
    for (ssize_t i = 0; i < size; i++) count += bytes[i] == what;
    return count;
}

/* Submits a child that does the same, and runs until cancelled; then writes to a file. */
MR_TASK(endless) {
    char path[128];
    mr_span text;
    int64_t depth;
    mr_ref child;
    MR_TRY(mr_arg_str(call, 0, &text));
    MR_TRY(mr_arg_int(call, 1, &depth));
    snprintf(path, sizeof path, "%.*s", (int)text.size, (const char *)text.data);
    if (depth > 0) MR_TRY(mr_call_task(mr_call_context(call), "endless", &child, mr_str(path), mr_int(depth - 1)));
    note(path, 's');
    while (!mr_call_cancelled(call)) usleep(1000);
    note(path, 'c');
    return MR_OK;
}

MR_TASK(split) { /* splits a number into as many digits as requested */
    int64_t number, skip = -1;
    MR_TRY(mr_arg_int(call, 0, &number));
    if (mr_arg_count(call) > 1) MR_TRY(mr_arg_int(call, 1, &skip));
    for (size_t i = 0; i < 6 && number > 0; i++, number /= 10)
        if ((int64_t)i != skip) MR_TRY(mr_return_at(call, i, mr_int(number % 10)));
    return MR_OK;
}

enum { DEADLY = 7 };

static void again_path(int64_t base, char *out, size_t size) {
    snprintf(out, size, "/tmp/miniray-again-%lld", (long long)base);
}

/* Returns its number. The body with DEADLY kills its worker the first time, and records that in a file. The arguments
 * are small. */
MR_TASK(die_once) {
    char path[64];
    int64_t base, number;
    MR_TRY(mr_arg_int(call, 0, &base));
    MR_TRY(mr_arg_int(call, 1, &number));
    again_path(base, path, sizeof path);
    if (number == DEADLY && count_in_file(path, 'd') == 0) {
        note(path, 'd');
        kill(getpid(), SIGKILL);
    }
    return mr_return(call, mr_int(number));
}

MR_CREATE(Counter) {
    int64_t start = 0;
    if (mr_arg_count(call) > 0) MR_TRY(mr_arg_int(call, 0, &start));
    if (start < 0) return mr_fail(call, "a counter does not start at %lld", (long long)start);
    int64_t *self = malloc(sizeof *self);
    *self = start;
    return mr_set_self(call, self, free);
}

MR_METHOD(Counter, next) { return mr_return(call, mr_int(++*(int64_t *)mr_self(call))); }

MR_METHOD(Counter, two) {
    MR_TRY(mr_return_at(call, 1, mr_str("a text that is too long to lie in the object itself")));
    return mr_return_at(call, 0, mr_int(++*(int64_t *)mr_self(call)));
}

MR_METHOD(Counter, die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

/* ---- The tests. */

static void a_task_gives_its_result(void **state) {
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_int(2), mr_int(3)), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 5);
}

static void many_tasks_at_once(void **state) {
    enum { MANY = 5000 };
    mr_ref *refs = calloc(MANY, sizeof *refs);
    for (int i = 0; i < MANY; i++) assert_int_equal(mr_call_task(mr, "add", &refs[i], mr_int(i), mr_int(i)), MR_OK);
    for (int i = 0; i < MANY; i++) assert_int_equal(future_assert_int(mr, refs[i]), 2 * i);
    free(refs);
}

static void futures_are_arguments(void **state) {
    mr_ref ref, next;
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_int(0), mr_int(0)), MR_OK);
    for (int i = 0; i < 500; i++) { /* the whole chain is submitted before its first task has run */
        assert_int_equal(mr_call_task(mr, "add", &next, mr_future(ref), mr_int(1)), MR_OK);
        mr_release(mr, ref);
        ref = next;
    }
    assert_int_equal(future_assert_int(mr, ref), 500);
}

static void wrong_use_is_refused(void **state) {
    mr_ref ref;
    mr_actor actor;
    assert_int_equal(mr_call_task(mr, "no_such_task", &ref), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "no_such_task"));
    assert_non_null(strstr(mr_last_error(), "add"));
    assert_int_equal(mr_new_actor(mr, "NoSuchClass", &actor), MR_NOT_FOUND);
    assert_int_equal(mr_task_submit(mr, "add", &MR_OPTIONS(mr_task_options, .resources = "x"), NULL, 0, &ref),
                     MR_INVALID);
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_future((mr_ref){{1, 2}})), MR_INVALID);
    assert_int_equal(mr_task_submit(mr, "add", NULL, NULL, 2, &ref), MR_INVALID);
    mr_task_options no_code = MR_OPTIONS(mr_task_options, .code = {NULL, 4});
    assert_int_equal(mr_task_submit(mr, "add", &no_code, NULL, 0, &ref), MR_INVALID);
    mr_ref there;
    assert_int_equal(mr_put(mr, mr_int(1), &there), MR_OK);
    mr_release(mr, there);
}

static void a_dead_worker_is_named_and_tasks_are_tried_again(void **state) {
    mr_ref ref;
    assert_int_equal(mr_task_submit(mr, "die", &MR_OPTIONS(mr_task_options, .max_retries = -1), NULL, 0, &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_WORKER_DIED);
    assert_non_null(strstr(mr_last_error(), "die"));
    assert_true(strstr(mr_last_error(), "SIGKILL") != NULL || strstr(mr_last_error(), "Killed") != NULL);
    mr_ref slow[8];
    for (int i = 0; i < 8; i++) assert_int_equal(mr_call_task(mr, "pause_ms", &slow[i], mr_int(30)), MR_OK);
    assert_int_equal(mr_task_submit(mr, "process_id_of_worker", NULL, NULL, 0, &ref), MR_OK);
    kill((pid_t)future_assert_int(mr, ref), SIGKILL);
    for (int i = 0; i < 8; i++) assert_int_equal(future_assert_int(mr, slow[i]), 30);
}

/* A worker that knows a task's name gets the task before it is recorded here (tasks_submit_straight). Tasks that are
 * unfinished when the worker dies are sent to another worker, with their arguments. */
static void tasks_submitted_together_are_retried(void **state) {
    enum { TASKS = 40, ROUNDS = 3 };
    for (int round = 0; round < ROUNDS; round++) {
        char path[64];
        int64_t base = (int64_t)getpid() * ROUNDS + round;
        again_path(base, path, sizeof path);
        int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        assert_true(fd >= 0);
        close(fd);
        mr_ref refs[TASKS], none[TASKS];
        for (int i = 0; i < TASKS; i++) /* makes the name known to the workers */
            assert_int_equal(mr_call_task(mr, "die_once", &refs[i], mr_int(base), mr_int(100 + i)), MR_OK);
        for (int i = 0; i < TASKS; i++) assert_int_equal(future_assert_int(mr, refs[i]), 100 + i);
        for (int i = 0; i < TASKS; i++) {
            assert_int_equal(mr_call_task(mr, "die_once", &refs[i], mr_int(base), mr_int(i)), MR_OK);
            assert_int_equal(mr_call_task(mr, "process_id_of_worker", &none[i]), MR_OK);
        }
        for (int i = 0; i < TASKS; i++) {
            assert_int_equal(future_assert_int(mr, refs[i]), i);
            assert_true(future_assert_int(mr, none[i]) > 0);
        }
        assert_true(count_in_file(path, 'd') == 1);
        unlink(path);
    }
}

static void nested_tasks_do_not_wait_for_themselves(void **state) {
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "deep", &ref, mr_int(12)), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 12);
}

static void wait_gives_what_is_there(void **state) {
    mr_ref refs[3];
    unsigned char ready[3];
    size_t count;
    assert_int_equal(mr_call_task(mr, "pause_ms", &refs[0], mr_int(1)), MR_OK);
    assert_int_equal(mr_call_task(mr, "pause_ms", &refs[1], mr_int(400)), MR_OK);
    assert_int_equal(mr_put(mr, mr_nil(), &refs[2]), MR_OK);
    assert_int_equal(mr_wait(mr, refs, 3, 2, PATIENCE_US, ready, &count), MR_OK);
    assert_int_equal(count, 2);
    assert_true(ready[0] && !ready[1] && ready[2]);
    assert_int_equal(mr_wait(mr, refs, 3, 3, 1000, ready, &count), MR_TIMEOUT);
    assert_non_null(strstr(mr_last_error(), "timed out after 0.001 s: "));
    assert_non_null(strstr(mr_last_error(), " of 3 futures are ready, 3 are needed"));
    assert_int_equal(mr_wait(mr, refs, 3, 4, 0, ready, &count), MR_INVALID);
    assert_int_equal(mr_wait(mr, refs, 3, 3, PATIENCE_US, ready, &count), MR_OK);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) mr_release(mr, refs[i]);
}

static void tasks_are_cancelled(void **state) {
    mr_ref slow, waiting, queued[64];
    assert_int_equal(mr_call_task(mr, "pause_ms", &slow, mr_int(300)), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &waiting, mr_future(slow), mr_int(1)), MR_OK);
    for (int i = 0; i < 64; i++) assert_int_equal(mr_call_task(mr, "pause_ms", &queued[i], mr_int(20)), MR_OK);
    assert_int_equal(mr_cancel(mr, waiting), MR_OK);
    assert_int_equal(future_assert_failure(mr, waiting), MR_CANCELLED);
    for (int i = 0; i < 64; i++) {
        mr_status status = mr_cancel(mr, queued[i]);
        assert_true(status == MR_OK || status == MR_NOT_FOUND);
        if (status == MR_OK)
            assert_int_equal(future_assert_failure(mr, queued[i]), MR_CANCELLED);
        else
            mr_release(mr, queued[i]);
    }
    assert_int_equal(future_assert_int(mr, slow), 300);
    assert_int_equal(mr_cancel(mr, slow), MR_NOT_FOUND);
}

static void several_values_are_returned(void **state) {
    mr_ref refs[6], ref;
    mr_arg number = mr_int(654321), missing[] = {mr_int(54321), mr_int(2)};
    assert_int_equal(mr_task_submit(mr, "split", &MR_OPTIONS(mr_task_options, .num_returns = 6), &number, 1, refs),
                     MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_future(refs[5]), mr_future(refs[0])), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 7);
    for (int i = 5; i >= 0; i--) assert_int_equal(future_assert_int(mr, refs[i]), i + 1);
    assert_int_equal(mr_task_submit(mr, "split", &MR_OPTIONS(mr_task_options, .num_returns = 5), missing, 2, refs),
                     MR_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(future_assert_failure(mr, refs[i]), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "did not return value 2"));
    assert_int_equal(mr_task_submit(mr, "split", &MR_OPTIONS(mr_task_options, .num_returns = 1), &number, 1, refs),
                     MR_OK);
    assert_int_equal(future_assert_failure(mr, refs[0]), MR_INVALID); /* the task returned more values than requested */
    assert_int_equal(mr_task_submit(mr, "split", &MR_OPTIONS(mr_task_options, .num_returns = -1), &number, 1, refs),
                     MR_INVALID);
    mr_actor counter;
    mr_value value;
    mr_span text;
    assert_int_equal(mr_new_actor(mr, "Counter", &counter), MR_OK);
    assert_int_equal(mr_actor_submit(mr, counter, "two", &MR_OPTIONS(mr_call_options, .num_returns = 2), NULL, 0, refs),
                     MR_OK);
    assert_int_equal(mr_get(mr, refs[1], PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_str(&value, &text), MR_OK);
    assert_int_equal(text.size, 51);
    mr_value_release(&value);
    mr_release(mr, refs[1]);
    assert_int_equal(future_assert_int(mr, refs[0]), 1);
}

/* Of two workers, one runs the task and one its child; the child's child waits. All three end when the first is
 * cancelled. The child's child may begin on the worker that is free first, before its own cancellation has arrived
 * there; then it is cancelled while it runs. */
static void a_running_task_is_cancelled_with_its_children(void **state) {
    char path[] = "/tmp/miniray-cancel-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "endless", &ref, mr_str(path), mr_int(2)), MR_OK);
    for (int i = 0; i < 20000 && count_in_file(path, 's') != 2; i++) usleep(1000);
    assert_int_equal(count_in_file(path, 's'), 2);
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_CANCELLED);
    for (int i = 0; i < 20000 && count_in_file(path, 'c') < 2; i++) usleep(1000);
    assert_true(count_in_file(path, 'c') >= 2);
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)), MR_OK); /* the workers are free again */
    assert_int_equal(future_assert_int(mr, ref), 2);
    for (int i = 0; i < 20000 && count_in_file(path, 'c') != count_in_file(path, 's'); i++) usleep(1000);
    assert_int_equal(count_in_file(path, 'c'), count_in_file(path, 's'));
    unlink(path);
}

static void several_futures_become_one(void **state) {
    enum { MANY = 300 };
    mr_ref refs[MANY], joined, bad, all;
    mr_value value, item;
    int64_t number = -1;
    for (int i = 0; i < MANY; i++) assert_int_equal(mr_call_task(mr, "add", &refs[i], mr_int(i), mr_int(i)), MR_OK);
    assert_int_equal(mr_join(mr, refs, MANY, &joined), MR_OK);
    assert_int_equal(mr_get(mr, joined, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_count(&value), MANY);
    for (size_t i = 0; i < MANY; i += 37) {
        assert_int_equal(mr_value_item(&value, i, &item), MR_OK);
        assert_int_equal(mr_value_int(&item, &number), MR_OK);
        assert_int_equal(number, 2 * i);
    }
    mr_value_release(&value);
    assert_int_equal(mr_call_task(mr, "fail_with", &bad, mr_str("one of them")), MR_OK);
    assert_int_equal(mr_join(mr, (mr_ref[]){joined, bad}, 2, &all), MR_OK);
    assert_int_equal(future_assert_failure(mr, all), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "one of them"));
    mr_release(mr, bad);
    mr_release(mr, joined);
    for (int i = 0; i < MANY; i++) mr_release(mr, refs[i]);
    assert_int_equal(mr_join(mr, NULL, 0, &all), MR_OK);
    assert_int_equal(mr_get(mr, all, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_count(&value), 0);
    mr_value_release(&value);
    mr_release(mr, all);
    assert_int_equal(mr_call_task(mr, "no such task", &all), MR_NOT_FOUND);
    assert_null(strstr(mr_last_error(), ".join")); /* .join is no task of the user */
}

static void a_group_is_submitted_as_one(void **state) {
    mr_batch *group;
    mr_actor counter;
    mr_ref sum, twice, first, second, outside;
    assert_int_equal(mr_new_actor(mr, "Counter", &counter), MR_OK);
    assert_int_equal(mr_batch_open(mr, &group), MR_OK);
    assert_int_equal(mr_batch_actor(group, counter, "next", NULL, NULL, 0, &first), MR_OK);
    assert_int_equal(mr_batch_task(group, "add", NULL, MR_ARGS(mr_future(first), mr_int(10)), &sum), MR_OK);
    assert_int_equal(mr_batch_task(group, "add", NULL, MR_ARGS(mr_future(sum), mr_future(sum)), &twice), MR_OK);
    assert_int_equal(mr_batch_actor(group, counter, "next", NULL, NULL, 0, &second), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &outside), MR_OK);
    assert_int_equal(future_assert_int(mr, outside), 1); /* no task of the batch has run */
    mr_value value;
    assert_int_equal(mr_get(mr, twice, 1000, &value), MR_TIMEOUT);
    assert_non_null(strstr(mr_last_error(), "timed out after 0.001 s waiting for task '"));
    assert_int_equal(mr_batch_submit(group), MR_OK);
    assert_int_equal(future_assert_int(mr, twice), 24);
    assert_int_equal(future_assert_int(mr, second), 3);
    assert_int_equal(future_assert_int(mr, first), 2);
    assert_int_equal(future_assert_int(mr, sum), 12);
    assert_int_equal(mr_batch_open(mr, &group), MR_OK); /* a dropped batch runs nothing, whatever its dependencies */
    assert_int_equal(mr_batch_actor(group, counter, "next", NULL, NULL, 0, &first), MR_OK);
    assert_int_equal(mr_batch_task(group, "add", NULL, MR_ARGS(mr_future(first), mr_int(1)), &sum), MR_OK);
    assert_int_equal(mr_batch_task(group, "no such task", NULL, NULL, 0, &twice), MR_NOT_FOUND);
    assert_int_equal(mr_cancel(mr, sum), MR_OK);
    mr_batch_cancel(group);
    assert_int_equal(future_assert_failure(mr, first), MR_CANCELLED);
    assert_int_equal(future_assert_failure(mr, sum), MR_CANCELLED);
    assert_int_equal(mr_call_actor(mr, counter, "next", &outside), MR_OK);
    assert_int_equal(future_assert_int(mr, outside), 4);
}

/* With max_calls, no worker runs more calls than that, and a worker ends after them. */
static void a_worker_that_has_run_enough_is_ended(void **state) {
    enum { TASKS = 12, MOST = 3 };
    mr_task_options few = MR_OPTIONS(mr_task_options, .max_calls = MOST, .max_retries = -1);
    mr_ref refs[TASKS];
    int64_t pids[TASKS];
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(mr_task_submit(mr, "process_id_of_worker", &few, NULL, 0, &refs[i]), MR_OK);
    for (int i = 0; i < TASKS; i++) pids[i] = future_assert_int(mr, refs[i]);
    for (int i = 0; i < TASKS; i++) {
        int same = 0;
        for (int j = 0; j < TASKS; j++) same += pids[j] == pids[i];
        assert_in_range(same, 1, MOST);
    }
    for (int tries = 0; tries < 3000 && kill((pid_t)pids[0], 0) == 0; tries++) usleep(10000);
    assert_int_not_equal(kill((pid_t)pids[0], 0), 0);
    few.max_calls = -1;
    assert_int_equal(mr_task_submit(mr, "process_id_of_worker", &few, NULL, 0, &refs[0]), MR_INVALID);
}

static void a_child_that_returns_from_its_task_ends(void **state) {
    mr_ref refs[4];
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 4; i++) assert_int_equal(mr_call_task(mr, "fork_child", &refs[i], mr_int(i % 2)), MR_OK);
        for (int i = 0; i < 4; i++) assert_int_equal(future_assert_int(mr, refs[i]), i % 2);
    }
}

static int set_up(void **state) {
    mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20), &mr);
    if (status != MR_OK) print_message("mr_init: %s\n", mr_last_error());
    return status != MR_OK;
}

static int tear_down(void **state) {
    mr_shutdown(mr);
    return 0;
}

int main(int argc, char **argv) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_gives_its_result),
        cmocka_unit_test(many_tasks_at_once),
        cmocka_unit_test(futures_are_arguments),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(a_dead_worker_is_named_and_tasks_are_tried_again),
        cmocka_unit_test(nested_tasks_do_not_wait_for_themselves),
        cmocka_unit_test(wait_gives_what_is_there),
        cmocka_unit_test(tasks_are_cancelled),
        cmocka_unit_test(several_values_are_returned),
        cmocka_unit_test(a_running_task_is_cancelled_with_its_children),
        cmocka_unit_test(several_futures_become_one),
        cmocka_unit_test(a_group_is_submitted_as_one),
        cmocka_unit_test(a_worker_that_has_run_enough_is_ended),
        cmocka_unit_test(tasks_submitted_together_are_retried),
        cmocka_unit_test(a_child_that_returns_from_its_task_ends),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
