/* callback_test.c — callbacks of a driver: when a future is ready, and when a body is cancelled. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/runtime.h"

enum { PATIENCE_US = 20 * 1000 * 1000 };

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(pause_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    usleep((useconds_t)ms * 1000);
    return mr_return(call, mr_int(ms));
}

MR_TASK(fails) { return mr_fail(call, "on purpose"); }

/* An actor that records the callbacks of its calls. */
typedef struct heard {
    _Atomic int cancelled, spared;
    sem_t *told;
} heard;

static void on_cancel(void *user, bool cancelled) {
    heard *heard = user;
    if (cancelled)
        heard->cancelled++;
    else
        heard->spared++;
    if (cancelled && heard->told != NULL) sem_post(heard->told);
}

MR_CREATE(Ear) { return mr_set_self(call, calloc(1, sizeof(heard)), free); }
MR_METHOD(Ear, spare) {
    MR_TRY(mr_on_cancel(call, on_cancel, mr_self(call)));
    mr_status again = mr_on_cancel(call, on_cancel, mr_self(call));
    return mr_return(call, mr_int(again));
}
MR_METHOD(Ear, defer) {
    MR_TRY(mr_on_cancel(call, on_cancel, mr_self(call)));
    mr_defer(call);
    mr_finish(call, mr_return(call, mr_nil()));
    return MR_OK;
}
MR_METHOD(Ear, tell) {
    heard *heard = mr_self(call);
    return mr_return(call, mr_int(heard->cancelled * 100 + heard->spared));
}

/* Sleeps on a descriptor that the runtime does not know, until its callback runs; then writes a file. */
MR_TASK(until_cancelled) {
    mr_span path;
    sem_t told;
    MR_TRY(mr_arg_str(call, 0, &path));
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)path.size, (const char *)path.data);
    sem_init(&told, 0, 0);
    heard heard = {.told = &told};
    MR_TRY(mr_on_cancel(call, on_cancel, &heard));
    fclose(fopen(name, "w"));
    while (sem_wait(&told) != 0) {}
    bool knows = mr_call_cancelled(call);
    if (knows) unlink(name);
    return MR_OK;
}

/* ---- Tests. */

typedef struct seen {
    sem_t told;
    int count;
    mr_ref ref;
    pthread_t thread;
    int64_t value;
} seen;

static void on_ready(void *user, mr_ref ref) {
    seen *seen = user;
    mr_value value;
    seen->count++;
    seen->ref = ref;
    seen->thread = pthread_self();
    seen->value = -1;
    if (mr_get(mr, ref, 0, &value) == MR_OK) { /* callbacks may use the runtime */
        if (mr_value_int(&value, &seen->value) != MR_OK) seen->value = -2;
        mr_value_release(&value);
    }
    sem_post(&seen->told);
}

static void wait_told(seen *seen) {
    while (sem_wait(&seen->told) != 0) {}
}

static void a_future_that_is_there_tells_at_once(void **state) {
    seen seen = {0};
    mr_ref ref;
    sem_init(&seen.told, 0, 0);
    assert_int_equal(mr_put(mr, mr_int(7), &ref), MR_OK);
    assert_int_equal(mr_on_ready(mr, ref, on_ready, &seen), MR_OK);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.value, 7);
    assert_true(pthread_equal(seen.thread, pthread_self()));
    mr_release(mr, ref);
    assert_int_equal(mr_on_ready(mr, ref, on_ready, &seen), MR_NOT_FOUND);
    assert_int_equal(mr_on_ready(mr, ref, NULL, &seen), MR_INVALID);
    assert_int_equal(seen.count, 1);
}

/* No thread of the driver waits in the runtime: the library's own thread runs the callback. */
static void a_future_tells_when_it_comes(void **state) {
    seen seen = {0}, failed = {0};
    mr_ref ref, bad;
    sem_init(&seen.told, 0, 0);
    sem_init(&failed.told, 0, 0);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mr_call_task(mr, "pause_ms", &ref, mr_int(i % 4)), MR_OK);
        assert_int_equal(mr_on_ready(mr, ref, on_ready, &seen), MR_OK);
        wait_told(&seen);
        assert_int_equal(seen.value, i % 4);
        assert_int_equal(seen.count, i + 1);
        mr_release(mr, ref);
    }
    assert_int_equal(mr_call_task(mr, "fails", &bad), MR_OK);
    assert_int_equal(mr_on_ready(mr, bad, on_ready, &failed), MR_OK);
    wait_told(&failed);
    assert_int_equal(failed.value, -1);
    mr_release(mr, bad);
}

/* One thread polls while it waits for its own result; the callback of another future runs nevertheless. */
static void a_notice_comes_while_others_wait(void **state) {
    seen seen = {0};
    mr_ref slow, fast;
    mr_value value;
    sem_init(&seen.told, 0, 0);
    assert_int_equal(mr_call_task(mr, "pause_ms", &slow, mr_int(100)), MR_OK);
    assert_int_equal(mr_call_task(mr, "pause_ms", &fast, mr_int(1)), MR_OK);
    assert_int_equal(mr_on_ready(mr, fast, on_ready, &seen), MR_OK);
    mr_release(mr, fast); /* the callback runs although the reference is released */
    assert_int_equal(mr_get(mr, slow, PATIENCE_US, &value), MR_OK);
    wait_told(&seen);
    assert_int_equal(seen.count, 1);
    mr_value_release(&value);
    mr_release(mr, slow);
}

static void a_task_can_ask_whether_its_result_is_wanted(void **state) {
    char name[] = "/tmp/miniray-notice-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
    unlink(name);
    mr_ref ref;
    mr_value value;
    assert_int_equal(mr_call_task(mr, "until_cancelled", &ref, mr_str(name)), MR_OK);
    for (int i = 0; i < 2000 && access(name, F_OK) != 0; i++)
        assert_int_equal(mr_get(mr, ref, 10 * 1000, &value), MR_TIMEOUT);
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_CANCELLED);
    for (int i = 0; i < 20000 && access(name, F_OK) == 0; i++) usleep(1000);
    assert_int_not_equal(access(name, F_OK), 0);
    mr_release(mr, ref);
}

static int64_t ask(mr_actor actor, const char *method) {
    mr_ref ref;
    mr_value value;
    int64_t number = -1;
    assert_int_equal(mr_call_actor(mr, actor, method, &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    (void)(mr_value_int(&value, &number) == MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
    return number;
}

static void a_body_that_ends_by_itself_is_told_that_too(void **state) {
    mr_actor ear;
    assert_int_equal(mr_new_actor(mr, "Ear", &ear), MR_OK);
    assert_int_equal(ask(ear, "spare"), MR_INVALID); /* status that the second callback got */
    ask(ear, "defer");
    assert_int_equal(ask(ear, "tell"), 2);
    mr_actor_release(mr, ear);
}

static int set_up(void **state) {
    return mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 32 << 20), &mr) != MR_OK;
}

static int tear_down(void **state) {
    mr_shutdown(mr);
    return 0;
}

/* Callbacks of pending futures run when the runtime ends. */
static void shutdown_calls_all_callbacks(void **state) {
    seen seen = {0};
    mr_ref ref;
    sem_init(&seen.told, 0, 0);
    assert_int_equal(set_up(NULL), 0);
    assert_int_equal(mr_call_task(mr, "pause_ms", &ref, mr_int(30000)), MR_OK);
    assert_int_equal(mr_on_ready(mr, ref, on_ready, &seen), MR_OK);
    assert_int_equal(seen.count, 0);
    tear_down(NULL);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.value, -1);
}

int main(int argc, char **argv) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_future_that_is_there_tells_at_once),
        cmocka_unit_test(a_future_tells_when_it_comes),
        cmocka_unit_test(a_notice_comes_while_others_wait),
        cmocka_unit_test(a_task_can_ask_whether_its_result_is_wanted),
        cmocka_unit_test(a_body_that_ends_by_itself_is_told_that_too),
    };
    const struct CMUnitTest alone[] = {cmocka_unit_test(shutdown_calls_all_callbacks)};
    int failed = cmocka_run_group_tests(tests, set_up, tear_down);
    return failed + cmocka_run_group_tests(alone, NULL, NULL);
}
