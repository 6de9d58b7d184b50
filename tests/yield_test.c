/* yield_test.c — streams: bodies that yield their results one after another: in order, no faster than they are taken,
 * large ones in place; and the ways in which a stream ends. */
#include <sched.h>
#include <semaphore.h>
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

enum { PATIENCE_US = 20 * 1000 * 1000, PATIENCE_MS = PATIENCE_US / 1000, LARGE = 100 * 1000 };

static mr_context *mr;

/* ---- Tasks and actors. */

/* Yields 0, 1, … count-1. */
static mr_status count_up(mr_call *call) {
    int64_t count;
    MR_TRY(mr_arg_int(call, 0, &count));
    for (int64_t i = 0; i < count; i++) MR_TRY(mr_yield(call, mr_int(i)));
    return MR_OK;
}
MR_TASK(count_to) { return count_up(call); }

/* Yields the same, and returns how often no item was requested yet. */
MR_TASK(count_without_waiting) {
    int64_t count, busy = 0;
    MR_TRY(mr_arg_int(call, 0, &count));
    for (int64_t i = 0; i < count;) {
        mr_status status = mr_try_yield(call, mr_int(i));
        if (status == MR_OK) i++;
        if (status != MR_OK && status != MR_BUSY) return status;
        busy += status == MR_BUSY;
        if (status == MR_BUSY) sched_yield();
    }
    return mr_return(call, mr_int(busy));
}
MR_METHOD(Counter, count_to) { return count_up(call); }
MR_METHOD(Counter, hello) { return mr_return(call, mr_int(1)); }
MR_CREATE(Counter) { return MR_OK; }

MR_TASK(count_then_fail) {
    MR_TRY(count_up(call));
    return mr_fail_with(call, (mr_span){"why", 3}, "no more of that");
}

MR_TASK(count_then_die) {
    MR_TRY(count_up(call));
    kill(getpid(), SIGKILL);
    return MR_OK;
}

/* Dies the first time, when its file does not exist yet. */
MR_TASK(die_then_count) {
    mr_span path;
    char name[256];
    MR_TRY(mr_arg_str(call, 1, &path));
    snprintf(name, sizeof name, "%.*s", (int)path.size, (const char *)path.data);
    if (access(name, F_OK) != 0) {
        fclose(fopen(name, "w"));
        kill(getpid(), SIGKILL);
    }
    return count_up(call);
}

/* Yields arrays with all items equal to i. */
MR_TASK(arrays) {
    int64_t count;
    MR_TRY(mr_arg_int(call, 0, &count));
    float *data = malloc(LARGE * sizeof *data);
    mr_status status = MR_OK;
    for (int64_t i = 0; i < count && status == MR_OK; i++) {
        for (int k = 0; k < LARGE; k++) data[k] = (float)i;
        status = mr_yield(call, mr_vector(data, LARGE));
    }
    free(data);
    return status;
}

/* Yields lists of a future and a number. */
MR_TASK(futures) {
    mr_context *here = mr_call_context(call);
    for (int i = 0; i < 3; i++) {
        mr_ref ref;
        MR_TRY(mr_put(here, mr_int(10 + i), &ref));
        mr_arg items[] = {mr_future(ref), mr_int(i)};
        MR_TRY(mr_yield(call, mr_list(items, 2)));
        mr_release(here, ref);
    }
    return mr_return(call, mr_str("all"));
}

/* Yields for ever. When the stream is dropped, writes a file with the count. */
MR_TASK(endless) {
    mr_span path;
    char name[256];
    int64_t given = 0;
    mr_status status;
    MR_TRY(mr_arg_str(call, 0, &path));
    snprintf(name, sizeof name, "%.*s", (int)path.size, (const char *)path.data);
    while ((status = mr_yield(call, mr_int(given))) == MR_OK) given++;
    FILE *file = fopen(name, "w");
    fprintf(file, "%d %d %lld\n", status == MR_CANCELLED, mr_call_cancelled(call), (long long)given);
    fclose(file);
    return status;
}

MR_TASK(one) { return mr_return(call, mr_int(1)); }
MR_TASK(yields_unasked) {
    if (mr_call_streams(call)) return MR_CORRUPT;
    mr_status status = mr_yield(call, mr_int(1));
    return mr_return(call, mr_int(status));
}

/* Takes items of a stream that the worker owns. */
MR_TASK(sum_of_stream) {
    mr_context *here = mr_call_context(call);
    mr_arg count = mr_int(50);
    mr_ref stream, next;
    int64_t sum = 0;
    mr_status status;
    MR_TRY(
        mr_task_submit(here, "count_to", &MR_OPTIONS(mr_task_options, .num_returns = MR_STREAM), &count, 1, &stream));
    while ((status = mr_stream_next(here, stream, MR_FOREVER, &next)) == MR_OK) {
        mr_value value;
        int64_t number;
        MR_TRY(mr_get(here, next, MR_FOREVER, &value));
        MR_TRY(mr_value_int(&value, &number));
        sum += number;
        mr_value_release(&value);
        mr_release(here, next);
    }
    mr_release(here, stream);
    return status == MR_END ? mr_return(call, mr_int(sum)) : status;
}

/* ---- Tests. */

static mr_ref stream_of(const char *task, int ahead, mr_arg first, mr_arg second) {
    mr_arg args[] = {first, second};
    mr_ref stream;
    mr_task_options options = MR_OPTIONS(mr_task_options, .num_returns = MR_STREAM, .stream_ahead = ahead);
    assert_int_equal(mr_task_submit(mr, task, &options, args, 2, &stream), MR_OK);
    return stream;
}

static int64_t int_of(mr_ref ref) {
    mr_value value;
    int64_t number = -1;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &number), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
    return number;
}

static void takes(mr_ref stream, int64_t from, int64_t to) {
    mr_ref next;
    for (int64_t i = from; i < to; i++) {
        assert_int_equal(mr_stream_next(mr, stream, PATIENCE_US, &next), MR_OK);
        assert_int_equal(int_of(next), i);
    }
}

static void ends(mr_ref stream) {
    mr_ref next;
    for (int i = 0; i < 3; i++) assert_int_equal(mr_stream_next(mr, stream, PATIENCE_US, &next), MR_END);
}

static void fails(mr_ref stream, mr_status expected) {
    mr_ref next;
    mr_value value;
    assert_int_equal(mr_stream_next(mr, stream, PATIENCE_US, &next), MR_OK);
    assert_int_equal(mr_get(mr, next, PATIENCE_US, &value), expected);
    mr_release(mr, next);
    ends(stream);
}

static void results_come_in_order(void **state) {
    static const int aheads[] = {0, 1, 3, 64};
    for (size_t i = 0; i < 4; i++) {
        mr_ref stream = stream_of("count_to", aheads[i], mr_int(300), mr_nil());
        takes(stream, 0, 300);
        ends(stream);
        assert_int_equal(int_of(stream), 300); /* the future of the whole stream: the number of items */
    }
    mr_ref none = stream_of("count_to", 0, mr_int(0), mr_nil());
    ends(none);
    mr_release(mr, none);
}

/* A generator with no more items than may wait ends without a reader. */
static void a_generator_ends_although_no_value_is_taken(void **state) {
    mr_value value;
    mr_ref stream = stream_of("count_to", 64, mr_int(60), mr_nil());
    assert_int_equal(mr_get(mr, stream, PATIENCE_US, &value), MR_OK);
    mr_value_release(&value);
    takes(stream, 0, 60);
    ends(stream);
    mr_release(mr, stream);
}

static void a_body_need_not_wait(void **state) {
    mr_ref stream = stream_of("count_without_waiting", 1, mr_int(50), mr_nil()), next;
    assert_int_equal(mr_stream_next(mr, stream, PATIENCE_US, &next), MR_OK);
    assert_int_equal(int_of(next), 0);
    assert_int_equal(mr_wait(mr, &stream, 1, 1, 10 * 1000, &(unsigned char){0}, &(size_t){0}), MR_TIMEOUT);
    takes(stream, 1, 50);
    ends(stream);
    assert_true(int_of(stream) > 0); /* yields were refused while no item was taken */
}

static void an_actor_gives_too(void **state) {
    mr_actor counter;
    mr_arg count = mr_int(100);
    mr_ref stream, hello;
    assert_int_equal(mr_new_actor(mr, "Counter", &counter), MR_OK);
    for (int i = 0; i < 3; i++) {
        mr_call_options options = MR_OPTIONS(mr_call_options, .num_returns = MR_STREAM, .stream_ahead = 2);
        assert_int_equal(mr_actor_submit(mr, counter, "count_to", &options, &count, 1, &stream), MR_OK);
        assert_int_equal(mr_call_actor(mr, counter, "hello", &hello), MR_OK);
        takes(stream, 0, i == 1 ? 10 : 100);
        if (i != 1) ends(stream);
        mr_release(mr, stream); /* the second stream is released half-read, and does not block others */
        assert_int_equal(int_of(hello), 1);
    }
    mr_actor_release(mr, counter);
}

static void large_results_are_read_where_they_lie(void **state) {
    mr_ref stream = stream_of("arrays", 2, mr_int(40), mr_nil()), next; /* 16 MB, which is all memory */
    for (int i = 0; i < 40; i++) {
        mr_value value;
        mr_tensor tensor;
        assert_int_equal(mr_stream_next(mr, stream, PATIENCE_US, &next), MR_OK);
        assert_int_equal(mr_get(mr, next, PATIENCE_US, &value), MR_OK);
        assert_int_equal(mr_value_tensor(&value, &tensor), MR_OK);
        assert_int_equal(tensor.bytes, LARGE * sizeof(float));
        assert_true(((const float *)tensor.data)[0] == (float)i && ((const float *)tensor.data)[LARGE - 1] == (float)i);
        mr_value_release(&value);
        mr_release(mr, next);
    }
    ends(stream);
    mr_release(mr, stream);
}

static void futures_inside_results_work(void **state) {
    mr_ref stream = stream_of("futures", 1, mr_nil(), mr_nil()), next, inner;
    for (int i = 0; i < 3; i++) {
        mr_value value, item;
        assert_int_equal(mr_stream_next(mr, stream, PATIENCE_US, &next), MR_OK);
        assert_int_equal(mr_get(mr, next, PATIENCE_US, &value), MR_OK);
        mr_iter iter = mr_value_iter(&value);
        assert_true(mr_iter_next(&iter, &item));
        assert_int_equal(mr_value_ref(&item, &inner), MR_OK);
        assert_int_equal(mr_retain(mr, inner), MR_OK);
        mr_value_release(&value);
        mr_release(mr, next);
        assert_int_equal(int_of(inner), 10 + i);
    }
    ends(stream);
    mr_release(mr, stream);
}

static void a_failure_is_the_last_result(void **state) {
    char detail[8];
    size_t size;
    mr_ref stream = stream_of("count_then_fail", 0, mr_int(20), mr_nil()), next;
    takes(stream, 0, 20);
    assert_int_equal(mr_stream_next(mr, stream, PATIENCE_US, &next), MR_OK);
    assert_int_equal(mr_failure_detail(mr, next, detail, sizeof detail, &size), MR_OK);
    assert_int_equal(size, 3);
    mr_value value;
    assert_int_equal(mr_get(mr, next, PATIENCE_US, &value), MR_TASK_FAILED);
    mr_release(mr, next);
    ends(stream);
    mr_release(mr, stream);
    /* An item that was not taken before the stream failed is still available. */
    stream = stream_of("count_then_fail", 64, mr_int(3), mr_nil());
    assert_int_equal(mr_get(mr, stream, PATIENCE_US, &value), MR_TASK_FAILED);
    takes(stream, 0, 3);
    fails(stream, MR_TASK_FAILED);
    mr_release(mr, stream);
}

static void the_death_of_a_worker_comes_after_what_it_gave(void **state) {
    mr_ref stream = stream_of("count_then_die", 0, mr_int(10), mr_nil());
    takes(stream, 0, 10);
    fails(stream, MR_WORKER_DIED);
    mr_release(mr, stream);
    char name[] = "/tmp/miniray-stream-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0 && close(fd) == 0 && unlink(name) == 0);
    /* Nothing was yielded before the death, so the task is retried. */
    stream = stream_of("die_then_count", 0, mr_int(10), mr_str(name));
    takes(stream, 0, 10);
    ends(stream);
    mr_release(mr, stream);
    unlink(name);
}

/* Reads the file that the body writes at its end, as soon as the file exists. */
static void await_words(const char *name, int *cancelled, int *knows, long long *given) {
    for (int i = 0; i < PATIENCE_MS; i++, usleep(1000)) {
        FILE *file = fopen(name, "r");
        if (file == NULL) continue;
        int read = fscanf(file, "%d %d %lld", cancelled, knows, given);
        fclose(file);
        if (read == 3) return;
    }
    fail_msg("the body was not told");
}

static void the_consumer_has_left(void **state) {
    for (int way = 0; way < 2; way++) {
        char name[] = "/tmp/miniray-stream-XXXXXX";
        int fd = mkstemp(name), cancelled = 0, knows = 0;
        long long given = 0;
        assert_true(fd >= 0 && close(fd) == 0 && unlink(name) == 0);
        mr_ref stream = stream_of("endless", 5, mr_str(name), mr_nil());
        takes(stream, 0, 3);
        if (way == 0) {
            mr_release(mr, stream);
        } else {
            assert_int_equal(mr_cancel(mr, stream), MR_OK);
            mr_ref next;
            mr_value value;
            mr_status status = MR_OK;
            for (int i = 0; i < 7 && status == MR_OK; i++) { /* the available items, then the cancellation */
                assert_int_equal(mr_stream_next(mr, stream, PATIENCE_US, &next), MR_OK);
                status = mr_get(mr, next, PATIENCE_US, &value);
                mr_release(mr, next);
            }
            assert_int_equal(status, MR_CANCELLED);
            ends(stream);
            mr_release(mr, stream);
        }
        await_words(name, &cancelled, &knows, &given);
        assert_int_equal(cancelled, 1);
        assert_int_equal(knows, 1);
        assert_true(given >= 3 && given <= 8); /* at most the taken items and those that may wait */
        unlink(name);
    }
}

/* With one CPU, a body that waits for its reader gives up its CPU. */
static void a_body_that_waits_lends_its_slot(void **state) {
    mr_ref stream = stream_of("count_to", 1, mr_int(5), mr_nil());
    for (int i = 0; i < 5; i++) {
        mr_ref other;
        takes(stream, i, i + 1);
        assert_int_equal(mr_call_task(mr, "one", &other), MR_OK);
        assert_int_equal(int_of(other), 1);
    }
    ends(stream);
    mr_release(mr, stream);
}

static void ready(void *user, mr_ref ref) { sem_post(user); }

static void the_next_one_can_be_stall(void **state) {
    sem_t told;
    mr_ref stream = stream_of("count_to", 0, mr_int(3), mr_nil()), peeked, again, next;
    sem_init(&told, 0, 0);
    for (int i = 0; i < 3; i++) {
        unsigned char there;
        size_t count;
        assert_int_equal(mr_stream_peek(mr, stream, &peeked), MR_OK);
        assert_int_equal(mr_stream_peek(mr, stream, &again), MR_OK);
        assert_memory_equal(&peeked, &again, sizeof peeked);
        assert_int_equal(mr_on_ready(mr, peeked, ready, &told), MR_OK);
        while (sem_wait(&told) != 0) {}
        assert_int_equal(mr_wait(mr, &peeked, 1, 1, PATIENCE_US, &there, &count), MR_OK);
        assert_int_equal(mr_stream_next(mr, stream, 0, &next), MR_OK);
        assert_memory_equal(&peeked, &next, sizeof next);
        assert_int_equal(int_of(next), i);
    }
    mr_value value;
    assert_int_equal(mr_stream_peek(mr, stream, &peeked), MR_OK);
    assert_int_equal(mr_get(mr, peeked, PATIENCE_US, &value), MR_END);
    ends(stream);
    mr_release(mr, stream);
    assert_int_equal(mr_get(mr, peeked, 0, &value), MR_NOT_FOUND); /* the item was freed with the stream */
}

static void a_worker_takes_too(void **state) {
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "sum_of_stream", &ref), MR_OK);
    assert_int_equal(int_of(ref), 49 * 50 / 2);
}

static void wrong_use_is_refused(void **state) {
    mr_ref ref, next;
    mr_arg arg = mr_int(1);
    mr_batch *group;
    mr_task_options options = MR_OPTIONS(mr_task_options, .num_returns = MR_STREAM);
    assert_int_equal(mr_call_task(mr, "one", &ref), MR_OK);
    assert_int_equal(mr_stream_next(mr, ref, 0, &next), MR_INVALID);
    assert_int_equal(mr_stream_peek(mr, ref, &next), MR_INVALID);
    mr_release(mr, ref);
    assert_int_equal(mr_stream_next(mr, ref, 0, &next), MR_NOT_FOUND);
    assert_int_equal(mr_task_submit(mr, "count_to", &options, &arg, 1, NULL), MR_INVALID);
    options.stream_ahead = -1;
    assert_int_equal(mr_task_submit(mr, "count_to", &options, &arg, 1, &ref), MR_INVALID);
    options.stream_ahead = 5000;
    assert_int_equal(mr_task_submit(mr, "count_to", &options, &arg, 1, &ref), MR_INVALID);
    options.stream_ahead = 0;
    assert_int_equal(mr_task_submit(mr, "no such task", &options, &arg, 1, &ref), MR_NOT_FOUND);
    arg = mr_future(ref); /* a released reference */
    assert_int_equal(mr_task_submit(mr, "count_to", &options, &arg, 1, &next), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "which this process does not have: it was released"));
    assert_int_equal(mr_batch_open(mr, &group), MR_OK);
    assert_int_equal(mr_batch_task(group, "count_to", &options, &arg, 1, &ref), MR_INVALID);
    mr_batch_cancel(group);
    assert_int_equal(mr_call_task(mr, "yields_unasked", &ref), MR_OK);
    assert_int_equal(int_of(ref), MR_INVALID);
}

static int set_up(void **state) {
    return mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 32 << 20), &mr) != MR_OK;
}

/* Open streams, read or not, end with the runtime. */
static int tear_down(void **state) {
    mr_ref stream = stream_of("count_to", 4, mr_int(1000), mr_nil());
    takes(stream, 0, 1);
    (void)stream_of("count_to", 4, mr_int(1000), mr_nil());
    mr_shutdown(mr);
    return 0;
}

int main(int argc, char **argv) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_come_in_order),
        cmocka_unit_test(a_generator_ends_although_no_value_is_taken),
        cmocka_unit_test(a_body_need_not_wait),
        cmocka_unit_test(an_actor_gives_too),
        cmocka_unit_test(large_results_are_read_where_they_lie),
        cmocka_unit_test(futures_inside_results_work),
        cmocka_unit_test(a_failure_is_the_last_result),
        cmocka_unit_test(the_death_of_a_worker_comes_after_what_it_gave),
        cmocka_unit_test(the_consumer_has_left),
        cmocka_unit_test(a_body_that_waits_lends_its_slot),
        cmocka_unit_test(the_next_one_can_be_stall),
        cmocka_unit_test(a_worker_takes_too),
        cmocka_unit_test(wrong_use_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
