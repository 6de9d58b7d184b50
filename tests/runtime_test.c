/* runtime_test.c — tasks, actors and objects, from a program's point of view. The test is the program: its workers are
 * this same binary, started again. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/runtime.h"

enum { PATIENCE_US = 20 * 1000 * 1000 };

static mr_context *mr;

/* ---- What workers do. */

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

MR_TASK(fail_in_detail) { return mr_fail_with(call, (mr_span){"\0detail", 7}, "it went wrong"); }

/* A class that answers to every name. */
static mr_status echo_name(mr_call *call) { return mr_return(call, mr_str(mr_call_name(call))); }
__attribute__((constructor)) static void echo_register(void) { mr_register_method("Echo", "*", echo_name); }

MR_CREATE(Keeper) { return mr_set_self(call, calloc(2, sizeof(mr_value)), free); }
MR_METHOD(Keeper, keep) {
    mr_value *kept = mr_self(call);
    mr_tensor here, there;
    for (size_t i = 0; i < 2; i++) MR_TRY(mr_arg_keep(call, i, &kept[i]));
    MR_TRY(mr_arg_tensor(call, 0, &here));
    MR_TRY(mr_value_tensor(&kept[0], &there));
    return mr_return(call, mr_int(here.data == there.data));
}
MR_METHOD(Keeper, total) {
    mr_value *kept = mr_self(call);
    int64_t total = 0;
    for (size_t i = 0; i < 2; i++) {
        mr_tensor tensor;
        MR_TRY(mr_value_tensor(&kept[i], &tensor));
        for (size_t k = 0; k < tensor.bytes / sizeof(float); k++) total += (int64_t)((const float *)tensor.data)[k];
        mr_value_release(&kept[i]);
    }
    return mr_return(call, mr_int(total));
}

/* A gate keeps those who wait at it until it is opened. */
typedef struct gate {
    mr_call *waiting[8];
    int count;
} gate;

MR_CREATE(Gate) { return mr_set_self(call, calloc(1, sizeof(gate)), free); }
MR_METHOD(Gate, wait) {
    gate *gate = mr_self(call);
    mr_defer(call);
    gate->waiting[gate->count++] = call;
    return MR_OK;
}
MR_METHOD(Gate, open) {
    gate *gate = mr_self(call);
    int64_t opened = gate->count;
    while (gate->count > 0) {
        mr_call *waiting = gate->waiting[--gate->count];
        int64_t number;
        mr_status status = mr_arg_int(waiting, 0, &number);
        if (status == MR_OK)
            status = number < 0 ? mr_fail(waiting, "less than nothing") : mr_return(waiting, mr_int(number));
        mr_finish(waiting, status);
    }
    return mr_return(call, mr_int(opened));
}

static void *answer_in_a_while(void *argument) {
    mr_call *call = argument;
    usleep(2000);
    mr_finish(call, mr_return(call, mr_bool(pthread_self() != 0)));
    return NULL;
}
MR_METHOD(Gate, in_a_thread) {
    pthread_t thread;
    mr_defer(call);
    return pthread_create(&thread, NULL, answer_in_a_while, call) != 0 || pthread_detach(thread) != 0 ? MR_IO : MR_OK;
}
MR_METHOD(Gate, at_once) { /* finished before the body is left */
    mr_defer(call);
    mr_finish(call, mr_return(call, mr_handle(mr_call_self(call))));
    return MR_OK;
}

MR_TASK(die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

MR_TASK(process_id_of_worker) { return mr_return(call, mr_int(getpid())); }

MR_TASK(pause_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    usleep((useconds_t)ms * 1000);
    return mr_return(call, mr_int(ms));
}

MR_TASK(sum) {
    mr_tensor tensor;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    double total = 0;
    for (size_t i = 0; i < tensor.bytes / sizeof(float); i++) total += ((const float *)tensor.data)[i];
    return mr_return(call, mr_float(total));
}

MR_TASK(ones) {
    int64_t count;
    MR_TRY(mr_arg_int(call, 0, &count));
    float *data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++) data[i] = 1;
    mr_status status = mr_return(call, mr_vector(data, (size_t)count));
    free(data);
    return status;
}

/* Nested: each waits for the next one. */
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

/* Submits a child, which does the same, and goes on until it is cancelled; says so in a file. */
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

MR_TASK(describe) { /* an error: how long its chain is, and itself */
    mr_value value;
    mr_error error;
    size_t count = 0;
    MR_TRY(mr_arg_value(call, 0, &value));
    while (mr_value_error(&value, count, &error) == MR_OK) count++;
    mr_arg items[] = {mr_int((int64_t)count), mr_pass(&value)};
    return mr_return(call, mr_list(items, 2));
}

MR_TASK(split) { /* a number into its digits, as many as are asked for */
    int64_t number, skip = -1;
    MR_TRY(mr_arg_int(call, 0, &number));
    if (mr_arg_count(call) > 1) MR_TRY(mr_arg_int(call, 1, &skip));
    for (size_t i = 0; i < 6 && number > 0; i++, number /= 10)
        if ((int64_t)i != skip) MR_TRY(mr_return_at(call, i, mr_int(number % 10)));
    return MR_OK;
}

/* Several threads meet inside of it. */
typedef struct room {
    pthread_mutex_t lock;
    pthread_cond_t came;
    int inside, order;
} room;

MR_CREATE(Room) {
    room *self = calloc(1, sizeof *self);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->came, NULL);
    return mr_set_self(call, self, free);
}
MR_METHOD(Room, meet) { /* returns when so many are inside, with the number in which it began */
    room *self = mr_self(call);
    int64_t wanted;
    MR_TRY(mr_arg_int(call, 0, &wanted));
    pthread_mutex_lock(&self->lock);
    int number = ++self->order;
    self->inside++;
    pthread_cond_broadcast(&self->came);
    while (self->inside < wanted) pthread_cond_wait(&self->came, &self->lock);
    pthread_mutex_unlock(&self->lock);
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
MR_METHOD(Counter, pause) {
    usleep(20 * 1000);
    return MR_OK;
}
MR_METHOD(Counter, die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}
MR_METHOD(Counter, process) { return mr_return(call, mr_int(getpid())); }

MR_TASK(count_with) { /* a task that calls an actor it was handed */
    mr_actor counter;
    mr_ref ref;
    mr_value value;
    int64_t number;
    MR_TRY(mr_arg_actor(call, 0, &counter));
    MR_TRY(mr_call_actor(mr_call_context(call), counter, "next", &ref));
    MR_TRY(mr_get(mr_call_context(call), ref, MR_FOREVER, &value));
    MR_TRY(mr_value_int(&value, &number));
    mr_value_release(&value);
    mr_release(mr_call_context(call), ref);
    return mr_return(call, mr_int(number));
}

/* ---- Helpers. */

static int64_t get_int(mr_ref ref) {
    mr_value value;
    int64_t number = INT64_MIN;
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    if (status != MR_OK) print_message("%s: %s\n", mr_status_name(status), mr_last_error());
    assert_int_equal(status, MR_OK);
    assert_int_equal(mr_value_int(&value, &number), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
    return number;
}

static mr_status get_failure(mr_ref ref) {
    mr_value value;
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    mr_release(mr, ref);
    return status;
}

/* ---- The tests. */

static void a_task_gives_its_result(void **state) {
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_int(2), mr_int(3)), MR_OK);
    assert_int_equal(get_int(ref), 5);
}

static void many_tasks_at_once(void **state) {
    enum { MANY = 5000 };
    mr_ref *refs = calloc(MANY, sizeof *refs);
    for (int i = 0; i < MANY; i++) assert_int_equal(mr_call_task(mr, "add", &refs[i], mr_int(i), mr_int(i)), MR_OK);
    for (int i = 0; i < MANY; i++) assert_int_equal(get_int(refs[i]), 2 * i);
    free(refs);
}

static void futures_are_arguments(void **state) {
    mr_ref ref, next;
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_int(0), mr_int(0)), MR_OK);
    for (int i = 0; i < 500; i++) { /* a chain that is submitted before its first link has run */
        assert_int_equal(mr_call_task(mr, "add", &next, mr_future(ref), mr_int(1)), MR_OK);
        mr_release(mr, ref);
        ref = next;
    }
    assert_int_equal(get_int(ref), 500);
}

static void put_and_get(void **state) {
    mr_ref ref, sum;
    assert_int_equal(mr_put(mr, mr_int(40), &ref), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &sum, mr_future(ref), mr_int(2)), MR_OK);
    assert_int_equal(get_int(sum), 42);
    assert_int_equal(get_int(ref), 40);
    mr_value value;
    assert_int_equal(mr_get(mr, ref, 0, &value), MR_NOT_FOUND); /* released above */
}

static void large_values_go_both_ways(void **state) {
    enum { COUNT = 1 << 20 };
    float *data = malloc(COUNT * sizeof *data);
    for (int i = 0; i < COUNT; i++) data[i] = 0.5f;
    mr_ref ref;
    mr_value value;
    double total;
    assert_int_equal(mr_call_task(mr, "sum", &ref, mr_vector(data, COUNT)), MR_OK);
    free(data); /* it was copied */
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_float(&value, &total), MR_OK);
    assert_true(total == COUNT / 2);
    mr_value_release(&value);
    mr_release(mr, ref);

    mr_tensor tensor;
    assert_int_equal(mr_call_task(mr, "ones", &ref, mr_int(COUNT)), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
    assert_int_equal(tensor.bytes, COUNT * sizeof(float));
    assert_true(((const float *)tensor.data)[COUNT - 1] == 1);
    assert_int_equal((uintptr_t)tensor.data % 64, 0);
    mr_value_release(&value);
    mr_release(mr, ref);
}

static void a_failure_tells_its_story(void **state) {
    mr_ref ref, after;
    assert_int_equal(mr_call_task(mr, "fail_with", &ref, mr_str("no cheese")), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &after, mr_future(ref), mr_int(1)), MR_OK);
    assert_int_equal(get_failure(ref), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "no cheese"));
    assert_non_null(strstr(mr_last_error(), "fail_with"));
    assert_int_equal(get_failure(after), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "task 'add'"));
    assert_non_null(strstr(mr_last_error(), "no cheese"));
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_str("x"), mr_int(1)), MR_OK);
    assert_int_equal(get_failure(ref), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "argument 0 of add"));
}

static void a_detail_comes_by_way_of_others(void **state) {
    mr_ref failed, after, fine;
    mr_value value;
    char detail[16];
    size_t size;
    assert_int_equal(mr_call_task(mr, "fail_in_detail", &failed), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &after, mr_future(failed), mr_int(1)), MR_OK);
    assert_int_equal(mr_get(mr, after, PATIENCE_US, &value), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "it went wrong"));
    assert_int_equal(mr_failure_detail(mr, after, detail, sizeof detail, &size), MR_OK);
    assert_int_equal(size, 7);
    assert_memory_equal(detail, "\0detail", 7);
    detail[0] = '#';
    assert_int_equal(mr_failure_detail(mr, failed, detail, 0, &size), MR_OK);
    assert_true(size == 7 && detail[0] == '#');
    assert_int_equal(mr_put(mr, mr_int(1), &fine), MR_OK);
    assert_int_equal(mr_failure_detail(mr, fine, detail, sizeof detail, &size), MR_OK);
    assert_int_equal(size, 0);
    mr_release(mr, fine);
    mr_release(mr, failed);
    mr_release(mr, after);
    assert_int_equal(mr_failure_detail(mr, after, detail, sizeof detail, &size), MR_NOT_FOUND);
}

static void an_answer_may_be_deferred(void **state) {
    mr_actor gate, itself;
    mr_ref waiting[4], opened, later[20];
    mr_value value;
    assert_int_equal(mr_new_actor(mr, "Gate", &gate), MR_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(mr_call_actor(mr, gate, "wait", &waiting[i], mr_int(i - 1)), MR_OK);
    assert_int_equal(mr_get(mr, waiting[3], 50 * 1000, &value), MR_TIMEOUT);
    assert_int_equal(mr_call_actor(mr, gate, "open", &opened), MR_OK);
    assert_int_equal(get_int(opened), 4);
    assert_int_equal(mr_get(mr, waiting[0], PATIENCE_US, &value), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "less than nothing"));
    for (int i = 1; i < 4; i++) assert_int_equal(get_int(waiting[i]), i - 1);
    for (int i = 0; i < 20; i++) assert_int_equal(mr_call_actor(mr, gate, "in_a_thread", &later[i]), MR_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mr_get(mr, later[i], PATIENCE_US, &value), MR_OK);
        mr_value_release(&value);
        mr_release(mr, later[i]);
    }
    assert_int_equal(mr_call_actor(mr, gate, "at_once", &opened), MR_OK);
    assert_int_equal(mr_get(mr, opened, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_actor(&value, &itself), MR_OK);
    assert_memory_equal(&itself, &gate, sizeof gate);
    mr_value_release(&value);
    assert_int_equal(mr_actor_kill(mr, gate), MR_OK);
    mr_release(mr, waiting[0]);
    mr_release(mr, opened);
}

static void arguments_may_be_kept(void **state) {
    mr_actor keeper;
    mr_ref ref;
    float *data = malloc(100000 * sizeof *data);
    for (int i = 0; i < 100000; i++) data[i] = 1;
    assert_int_equal(mr_new_actor(mr, "Keeper", &keeper), MR_OK);
    assert_int_equal(mr_call_actor(mr, keeper, "keep", &ref, mr_vector(data, 100000), mr_vector(data, 3)), MR_OK);
    assert_int_equal(get_int(ref), 1);
    for (int i = 0; i < 20; i++) { /* others take the memory of what is gone */
        data[0] = (float)i;
        assert_int_equal(mr_call_task(mr, "sum", &ref, mr_vector(data, 100000)), MR_OK);
        mr_value value;
        assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
        mr_value_release(&value);
        mr_release(mr, ref);
    }
    assert_int_equal(mr_call_actor(mr, keeper, "total", &ref), MR_OK);
    assert_int_equal(get_int(ref), 100003);
    assert_int_equal(mr_actor_kill(mr, keeper), MR_OK);
    free(data);
}

static void a_class_may_answer_to_every_name(void **state) {
    mr_actor echo;
    mr_ref ref;
    mr_value value;
    mr_span text;
    assert_int_equal(mr_new_actor(mr, "Echo", &echo), MR_OK);
    assert_int_equal(mr_call_actor(mr, echo, "never heard of", &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_str(&value, &text), MR_OK);
    assert_true(text.size == 14 && memcmp(text.data, "never heard of", 14) == 0);
    mr_value_release(&value);
    mr_release(mr, ref);
    assert_int_equal(mr_actor_kill(mr, echo), MR_OK);
}

static void wrong_use_is_refused(void **state) {
    mr_ref ref;
    mr_actor actor;
    assert_int_equal(mr_call_task(mr, "no_such_task", &ref), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "no_such_task"));
    assert_non_null(strstr(mr_last_error(), "add"));
    assert_int_equal(mr_new_actor(mr, "NoSuchClass", &actor), MR_NOT_FOUND);
    assert_int_equal(mr_task_submit(mr, "add", &(mr_task_options){.resources = "x"}, NULL, 0, &ref), MR_INVALID);
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_future((mr_ref){{1, 2}})), MR_INVALID);
    mr_ref there;
    assert_int_equal(mr_put(mr, mr_int(1), &there), MR_OK);
    mr_release(mr, there);
}

static void a_dead_worker_is_named_and_tasks_are_tried_again(void **state) {
    mr_ref ref;
    assert_int_equal(mr_task_submit(mr, "die", &(mr_task_options){.max_retries = -1}, NULL, 0, &ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_WORKER_DIED);
    assert_non_null(strstr(mr_last_error(), "die"));
    assert_true(strstr(mr_last_error(), "SIGKILL") != NULL || strstr(mr_last_error(), "Killed") != NULL);
    mr_ref slow[8];
    for (int i = 0; i < 8; i++) assert_int_equal(mr_call_task(mr, "pause_ms", &slow[i], mr_int(30)), MR_OK);
    assert_int_equal(mr_task_submit(mr, "process_id_of_worker", NULL, NULL, 0, &ref), MR_OK);
    kill((pid_t)get_int(ref), SIGKILL);
    for (int i = 0; i < 8; i++) assert_int_equal(get_int(slow[i]), 30);
}

static void nested_tasks_do_not_wait_for_themselves(void **state) {
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "deep", &ref, mr_int(12)), MR_OK);
    assert_int_equal(get_int(ref), 12);
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
    assert_int_equal(get_failure(waiting), MR_CANCELLED);
    for (int i = 0; i < 64; i++) {
        mr_status status = mr_cancel(mr, queued[i]);
        assert_true(status == MR_OK || status == MR_NOT_FOUND);
        if (status == MR_OK)
            assert_int_equal(get_failure(queued[i]), MR_CANCELLED);
        else
            mr_release(mr, queued[i]);
    }
    assert_int_equal(get_int(slow), 300);
    assert_int_equal(mr_cancel(mr, slow), MR_NOT_FOUND);
}

static void an_actor_keeps_its_state_and_its_order(void **state) {
    mr_actor counter;
    mr_ref refs[200];
    assert_int_equal(mr_new_actor(mr, "Counter", &counter, mr_int(100)), MR_OK);
    for (int i = 0; i < 200; i++) assert_int_equal(mr_call_actor(mr, counter, "next", &refs[i]), MR_OK);
    for (int i = 0; i < 200; i++) assert_int_equal(get_int(refs[i]), 101 + i);
    mr_ref from_task;
    assert_int_equal(mr_call_task(mr, "count_with", &from_task, mr_handle(counter)), MR_OK);
    assert_int_equal(get_int(from_task), 301);
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, counter, "no_such_method", &ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "next"));
    assert_int_equal(mr_actor_kill(mr, counter), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_ACTOR_DIED);
}

static void actors_have_names(void **state) {
    mr_actor counter, found;
    mr_task_options options = {.name = "the counter"};
    mr_ref ref;
    assert_int_equal(mr_actor_find(mr, "the counter", NULL, &found), MR_NOT_FOUND);
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &counter), MR_OK);
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &found), MR_EXISTS);
    assert_int_equal(mr_actor_find(mr, "the counter", NULL, &found), MR_OK);
    assert_int_equal(mr_call_actor(mr, found, "next", &ref), MR_OK);
    assert_int_equal(get_int(ref), 1);
    assert_int_equal(mr_actor_kill(mr, counter), MR_OK);
    assert_int_equal(mr_actor_find(mr, "the counter", NULL, &found), MR_NOT_FOUND);
}

static void an_actor_that_cannot_be_created_says_why(void **state) {
    mr_actor counter;
    mr_ref ref;
    assert_int_equal(mr_new_actor(mr, "Counter", &counter, mr_int(-1)), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_ACTOR_DIED);
    assert_non_null(strstr(mr_last_error(), "does not start at -1"));
}

static void an_actor_may_be_created_with_futures(void **state) {
    mr_actor counter;
    mr_ref start, bad, ref, second;
    assert_int_equal(mr_call_task(mr, "pause_ms", &start, mr_int(20)), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Counter", &counter, mr_future(start)), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &ref), MR_OK); /* made before the actor can be */
    assert_int_equal(mr_call_actor(mr, counter, "next", &second), MR_OK);
    assert_int_equal(get_int(second), 22);
    assert_int_equal(get_int(ref), 21);
    mr_release(mr, start);
    assert_int_equal(mr_call_task(mr, "fail_with", &bad, mr_str("no start")), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Counter", &counter, mr_future(bad)), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_ACTOR_DIED);
    assert_non_null(strstr(mr_last_error(), "no start"));
    mr_release(mr, bad);
}

static void errors_are_values(void **state) {
    mr_ref bad, next, ref;
    mr_value value;
    mr_error error;
    mr_task_options wants = {.errors_as_values = 1};
    assert_int_equal(mr_call_task(mr, "fail_with", &bad, mr_str("no luck")), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &next, mr_future(bad), mr_int(1)), MR_OK);
    assert_int_equal(mr_task_submit(mr, "describe", &wants, MR_ARGS(mr_future(next), mr_int(1)), &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK); /* what the body saw, with the error inside */
    mr_value item;
    int64_t causes = -1;
    assert_int_equal(mr_value_count(&value), 2);
    assert_int_equal(mr_value_item(&value, 0, &item), MR_OK);
    assert_int_equal(mr_value_int(&item, &causes), MR_OK);
    assert_true(causes >= 2);
    assert_int_equal(mr_value_item(&value, 1, &item), MR_OK);
    assert_int_equal(mr_value_kind(&item), MR_KIND_ERROR);
    assert_int_equal(mr_value_error(&item, 0, &error), MR_OK);
    assert_int_equal(error.code, MR_TASK_FAILED);
    assert_non_null(memmem(error.origin.data, error.origin.size, "task 'add'", 10));
    assert_int_equal(mr_value_error(&item, (size_t)causes - 1, &error), MR_OK);
    assert_non_null(memmem(error.message.data, error.message.size, "no luck", 7));
    assert_non_null(memmem(error.origin.data, error.origin.size, "worker process", 14));
    assert_int_equal(mr_value_error(&item, (size_t)causes, &error), MR_NOT_FOUND);
    mr_value_release(&value);
    mr_release(mr, ref);
    assert_int_equal(mr_failure(mr, bad, &value), MR_OK);
    assert_int_equal(mr_value_error(&value, 0, &error), MR_OK);
    assert_int_equal(error.message.size, 7);
    mr_value_release(&value);
    mr_release(mr, bad);
    mr_release(mr, next);
    assert_int_equal(mr_failure(mr, bad, &value), MR_NOT_FOUND);
    assert_int_equal(mr_put(mr, mr_int(1), &ref), MR_OK);
    assert_int_equal(mr_failure(mr, ref, &value), MR_INVALID);
    mr_release(mr, ref);
}

static void what_is_gone_or_never_was_is_named(void **state) {
    mr_actor nobody = {{12345, 67890}}, unborn;
    mr_ref ref, slow, released;
    mr_value value;
    unsigned char ready[2];
    size_t count;
    assert_int_equal(mr_call_actor(mr, nobody, "next", &ref), MR_OK);
    mr_status status = get_failure(ref);
    assert_true(status == MR_NOT_FOUND || status == MR_ACTOR_DIED);
    assert_int_not_equal(mr_actor_kill(mr, nobody), MR_OK);
    assert_int_equal(mr_put(mr, mr_int(1), &released), MR_OK);
    mr_release(mr, released);
    mr_release(mr, released); /* once more: no harm */
    assert_int_equal(mr_get(mr, released, 0, &value), MR_NOT_FOUND);
    assert_int_equal(mr_cancel(mr, released), MR_NOT_FOUND);
    assert_int_equal(mr_wait(mr, &released, 1, 1, 0, ready, &count), MR_NOT_FOUND);
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_future(released), mr_int(1)), MR_INVALID);
    assert_int_equal(mr_join(mr, &released, 1, &ref), MR_INVALID);
    assert_int_equal(mr_call_task(mr, "pause_ms", &slow, mr_int(50)), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Counter", &unborn, mr_future(slow)), MR_OK);
    assert_int_equal(mr_call_actor(mr, unborn, "next", &ref), MR_OK);
    assert_int_equal(mr_actor_kill(mr, unborn), MR_OK);
    assert_int_equal(get_failure(ref), MR_ACTOR_DIED);
    assert_non_null(strstr(mr_last_error(), "before it was created"));
    assert_int_equal(get_int(slow), 50);
}

static void several_values_are_returned(void **state) {
    mr_ref refs[6], ref;
    mr_arg number = mr_int(654321), missing[] = {mr_int(54321), mr_int(2)};
    assert_int_equal(mr_task_submit(mr, "split", &(mr_task_options){.num_returns = 6}, &number, 1, refs), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_future(refs[5]), mr_future(refs[0])), MR_OK);
    assert_int_equal(get_int(ref), 7);
    for (int i = 5; i >= 0; i--) assert_int_equal(get_int(refs[i]), i + 1);
    assert_int_equal(mr_task_submit(mr, "split", &(mr_task_options){.num_returns = 5}, missing, 2, refs), MR_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(get_failure(refs[i]), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "did not return value 2"));
    assert_int_equal(mr_task_submit(mr, "split", &(mr_task_options){.num_returns = 1}, &number, 1, refs), MR_OK);
    assert_int_equal(get_failure(refs[0]), MR_INVALID); /* it returned more than was asked for */
    assert_int_equal(mr_task_submit(mr, "split", &(mr_task_options){.num_returns = -1}, &number, 1, refs), MR_INVALID);
    mr_actor counter;
    mr_value value;
    mr_span text;
    assert_int_equal(mr_new_actor(mr, "Counter", &counter), MR_OK);
    assert_int_equal(mr_actor_submit(mr, counter, "two", &(mr_task_options){.num_returns = 2}, NULL, 0, refs), MR_OK);
    assert_int_equal(mr_get(mr, refs[1], PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_str(&value, &text), MR_OK);
    assert_int_equal(text.size, 51);
    mr_value_release(&value);
    mr_release(mr, refs[1]);
    assert_int_equal(get_int(refs[0]), 1);
}

static bool file_has(const char *path, char what, int count) {
    char bytes[64];
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, bytes, sizeof bytes);
    close(fd);
    for (ssize_t i = 0; i < size; i++) count -= bytes[i] == what;
    return count == 0;
}

/* Two workers: the task and its child run, the child's child waits. All end with the first. */
static void a_running_task_is_cancelled_with_its_children(void **state) {
    char path[] = "/tmp/miniray-cancel-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "endless", &ref, mr_str(path), mr_int(2)), MR_OK);
    for (int i = 0; i < 20000 && !file_has(path, 's', 2); i++) usleep(1000);
    assert_true(file_has(path, 's', 2));
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_CANCELLED);
    for (int i = 0; i < 20000 && !file_has(path, 'c', 2); i++) usleep(1000);
    assert_true(file_has(path, 'c', 2));
    assert_int_equal(mr_call_task(mr, "add", &ref, mr_int(1), mr_int(1)), MR_OK); /* the workers are free again */
    assert_int_equal(get_int(ref), 2);
    assert_true(file_has(path, 's', 2)); /* the third never ran */
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
    assert_int_equal(get_failure(all), MR_TASK_FAILED);
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
    assert_null(strstr(mr_last_error(), ".join")); /* not a task of the program's */
}

static void a_group_is_submitted_as_one(void **state) {
    mr_group *group;
    mr_actor counter;
    mr_ref sum, twice, first, second, outside;
    assert_int_equal(mr_new_actor(mr, "Counter", &counter), MR_OK);
    assert_int_equal(mr_group_open(mr, &group), MR_OK);
    assert_int_equal(mr_group_actor(group, counter, "next", NULL, NULL, 0, &first), MR_OK);
    assert_int_equal(mr_group_task(group, "add", NULL, MR_ARGS(mr_future(first), mr_int(10)), &sum), MR_OK);
    assert_int_equal(mr_group_task(group, "add", NULL, MR_ARGS(mr_future(sum), mr_future(sum)), &twice), MR_OK);
    assert_int_equal(mr_group_actor(group, counter, "next", NULL, NULL, 0, &second), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &outside), MR_OK);
    assert_int_equal(get_int(outside), 1); /* nothing of the group has run */
    mr_value value;
    assert_int_equal(mr_get(mr, twice, 1000, &value), MR_TIMEOUT);
    assert_int_equal(mr_group_submit(group), MR_OK);
    assert_int_equal(get_int(twice), 24);
    assert_int_equal(get_int(second), 3);
    assert_int_equal(get_int(first), 2);
    assert_int_equal(get_int(sum), 12);
    assert_int_equal(mr_group_open(mr, &group), MR_OK); /* dropped: nothing runs, whatever depends on what */
    assert_int_equal(mr_group_actor(group, counter, "next", NULL, NULL, 0, &first), MR_OK);
    assert_int_equal(mr_group_task(group, "add", NULL, MR_ARGS(mr_future(first), mr_int(1)), &sum), MR_OK);
    assert_int_equal(mr_group_task(group, "no such task", NULL, NULL, 0, &twice), MR_NOT_FOUND);
    assert_int_equal(mr_cancel(mr, sum), MR_OK);
    mr_group_drop(group);
    assert_int_equal(get_failure(first), MR_CANCELLED);
    assert_int_equal(get_failure(sum), MR_CANCELLED);
    assert_int_equal(mr_call_actor(mr, counter, "next", &outside), MR_OK);
    assert_int_equal(get_int(outside), 4);
}

/* Calls that are lost with the actor's process are sent to the next one, in their order; those that may not be are not.
 */
static void lost_calls_are_sent_again(void **state) {
    enum { MANY = 50 };
    mr_actor phoenix;
    mr_ref death, refs[MANY], once;
    mr_task_options mortal = {.max_call_retries = -1};
    mr_task_options again = {.max_restarts = 2, .max_call_retries = 2};
    assert_int_equal(mr_actor_create(mr, "Counter", &again, NULL, 0, &phoenix), MR_OK);
    assert_int_equal(mr_call_actor(mr, phoenix, "next", &once), MR_OK);
    assert_int_equal(get_int(once), 1);
    assert_int_equal(mr_actor_submit(mr, phoenix, "pause", NULL, NULL, 0, &once), MR_OK); /* so that all wait there */
    mr_release(mr, once);
    assert_int_equal(mr_actor_submit(mr, phoenix, "die", &mortal, NULL, 0, &death), MR_OK);
    assert_int_equal(mr_actor_submit(mr, phoenix, "next", &mortal, NULL, 0, &once), MR_OK);
    for (int i = 0; i < MANY; i++) assert_int_equal(mr_call_actor(mr, phoenix, "next", &refs[i]), MR_OK);
    assert_int_equal(get_failure(death), MR_ACTOR_DIED);
    assert_int_equal(get_failure(once), MR_ACTOR_DIED);
    for (int i = 0; i < MANY; i++) assert_int_equal(get_int(refs[i]), i + 1); /* of the one that was born again */
}

static void an_actor_may_have_several_threads(void **state) {
    enum { THREADS = 4 };
    mr_actor room;
    mr_ref refs[THREADS];
    bool seen[THREADS + 1] = {false};
    mr_task_options options = {.max_concurrency = THREADS};
    assert_int_equal(mr_actor_create(mr, "Room", &options, NULL, 0, &room), MR_OK);
    for (int i = 0; i < THREADS; i++) assert_int_equal(mr_call_actor(mr, room, "meet", &refs[i], mr_int(4)), MR_OK);
    for (int i = 0; i < THREADS; i++) {
        int64_t number = get_int(refs[i]); /* none of them comes before all are inside */
        assert_true(number >= 1 && number <= THREADS && !seen[number]);
        seen[number] = true;
    }
    assert_int_equal(mr_actor_kill(mr, room), MR_OK);
    options.max_concurrency = -1;
    assert_int_equal(mr_actor_create(mr, "Room", &options, NULL, 0, &room), MR_INVALID);
}

static void a_dead_actor_is_reported_or_started_again(void **state) {
    mr_actor mortal, phoenix;
    mr_ref ref;
    assert_int_equal(mr_new_actor(mr, "Counter", &mortal), MR_OK);
    assert_int_equal(mr_call_actor(mr, mortal, "die", &ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_ACTOR_DIED);
    assert_int_equal(mr_call_actor(mr, mortal, "next", &ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_ACTOR_DIED);
    mr_arg start = mr_int(7);
    assert_int_equal(mr_actor_create(mr, "Counter", &(mr_task_options){.max_restarts = 1}, &start, 1, &phoenix), MR_OK);
    assert_int_equal(mr_call_actor(mr, phoenix, "next", &ref), MR_OK);
    assert_int_equal(get_int(ref), 8);
    assert_int_equal(mr_call_actor(mr, phoenix, "die", &ref), MR_OK);
    assert_int_equal(get_failure(ref), MR_ACTOR_DIED);
    assert_int_equal(mr_call_actor(mr, phoenix, "next", &ref), MR_OK);
    assert_int_equal(get_int(ref), 8); /* born again, with what it was created with */
}

/* What a handle's holder can know, and how a process is ended without the actor. */
static void an_actor_is_looked_at_and_restarted(void **state) {
    static mr_actor_facts facts;
    mr_actor actor;
    mr_ref ref;
    mr_task_options options = {.name = "looked at", .max_restarts = 1, .about = {"next, die", 9}};
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &actor), MR_OK);
    assert_int_equal(mr_actor_look(mr, actor, &facts), MR_OK);
    assert_string_equal(facts.class_name, "Counter");
    assert_string_equal(facts.name, "looked at");
    assert_int_equal(facts.about_size, 9);
    assert_memory_equal(facts.about, "next, die", 9);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(mr_call_actor(mr, actor, "next", &ref), MR_OK);
        assert_int_equal(get_int(ref), i);
    }
    assert_int_equal(mr_actor_restart(mr, actor), MR_OK);
    for (mr_status status = MR_ACTOR_DIED; status == MR_ACTOR_DIED;) { /* calls that were too early are lost with it */
        mr_value value;
        int64_t number = 3;
        assert_int_equal(mr_call_actor(mr, actor, "next", &ref), MR_OK);
        status = mr_get(mr, ref, MR_FOREVER, &value);
        if (status == MR_OK && mr_value_int(&value, &number) == MR_OK && number > 1) status = MR_ACTOR_DIED;
        mr_release(mr, ref);
    }
    assert_int_equal(mr_actor_look(mr, actor, &facts), MR_OK);
    assert_int_equal(facts.starts, 2);
    assert_int_equal(mr_actor_restart(mr, actor), MR_OK); /* it may not again: it is dead */
    do assert_int_equal(mr_call_actor(mr, actor, "next", &ref), MR_OK);
    while (get_failure(ref) != MR_ACTOR_DIED);
    static char much[MR_ABOUT_MAX + 1];
    options = (mr_task_options){.about = {much, sizeof much}};
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &actor), MR_TOO_LARGE);
    options.about.size--;
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &actor), MR_OK);
    assert_int_equal(mr_actor_look(mr, actor, &facts), MR_OK);
    assert_int_equal(facts.about_size, MR_ABOUT_MAX);
    assert_int_equal(mr_actor_look(mr, (mr_actor){{1, 2}}, &facts), MR_NOT_FOUND);
    assert_int_equal(mr_actor_restart(mr, (mr_actor){{1, 2}}), MR_NOT_FOUND);
}

static int set_up(void **state) {
    mr_status status = mr_init(&(mr_options){.num_workers = 2, .store_bytes = 64 << 20}, &mr);
    if (status != MR_OK) print_message("mr_init: %s\n", mr_last_error());
    return status != MR_OK;
}

static int tear_down(void **state) {
    mr_shutdown(mr);
    return 0;
}

int main(int argc, char **argv) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* a worker: serves here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_gives_its_result),
        cmocka_unit_test(many_tasks_at_once),
        cmocka_unit_test(futures_are_arguments),
        cmocka_unit_test(put_and_get),
        cmocka_unit_test(large_values_go_both_ways),
        cmocka_unit_test(a_failure_tells_its_story),
        cmocka_unit_test(a_detail_comes_by_way_of_others),
        cmocka_unit_test(a_class_may_answer_to_every_name),
        cmocka_unit_test(an_answer_may_be_deferred),
        cmocka_unit_test(arguments_may_be_kept),
        cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(a_dead_worker_is_named_and_tasks_are_tried_again),
        cmocka_unit_test(nested_tasks_do_not_wait_for_themselves),
        cmocka_unit_test(wait_gives_what_is_there),
        cmocka_unit_test(tasks_are_cancelled),
        cmocka_unit_test(an_actor_keeps_its_state_and_its_order),
        cmocka_unit_test(actors_have_names),
        cmocka_unit_test(an_actor_that_cannot_be_created_says_why),
        cmocka_unit_test(an_actor_may_be_created_with_futures),
        cmocka_unit_test(errors_are_values),
        cmocka_unit_test(what_is_gone_or_never_was_is_named),
        cmocka_unit_test(several_values_are_returned),
        cmocka_unit_test(a_running_task_is_cancelled_with_its_children),
        cmocka_unit_test(several_futures_become_one),
        cmocka_unit_test(a_group_is_submitted_as_one),
        cmocka_unit_test(lost_calls_are_sent_again),
        cmocka_unit_test(an_actor_may_have_several_threads),
        cmocka_unit_test(a_dead_actor_is_reported_or_started_again),
        cmocka_unit_test(an_actor_is_looked_at_and_restarted),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
