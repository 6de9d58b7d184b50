/* runtime_loop_test.c — an actor with an event loop of its own: calls run in it, it answers deferred calls, and other
 * threads wake it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/runtime.h"
#include "tests/support/runtime_main.h"

enum { PATIENCE_US = 30 * 1000 * 1000, LEFT_MAX = 64 };

/* ---- The actor. */

typedef struct looper {
    mr_context *mr;
    bool in_loop;
    mr_call *left[LEFT_MAX]; /* deferred calls that the loop answers */
    int left_count;
    int64_t waits;           /* waits that ended without a call */
    _Atomic bool may_answer; /* set by the other thread */
} looper;

static void answer_left(looper *self) {
    while (self->left_count > 0) {
        mr_call *call = self->left[--self->left_count];
        mr_finish(call, mr_return(call, mr_int(self->left_count)));
    }
}

/* The loop waits without a timeout, so every event must wake it. */
static void loop(void *user) {
    looper *self = user;
    mr_status status;
    self->in_loop = true;
    while ((status = mr_serve(self->mr, MR_FOREVER)) != MR_CLOSED) {
        if (status == MR_TIMEOUT) self->waits++;
        if (atomic_load(&self->may_answer)) answer_left(self);
    }
    self->in_loop = false;
}

MR_CREATE(Looper) {
    looper *self = calloc(1, sizeof *self);
    self->mr = mr_call_context(call);
    mr_set_loop(call, loop, self);
    return mr_set_self(call, self, free);
}

MR_METHOD(Looper, where) {
    const looper *self = mr_self(call);
    return mr_return(call, mr_bool(self->in_loop));
}

MR_METHOD(Looper, waits) {
    const looper *self = mr_self(call);
    return mr_return(call, mr_int(self->waits));
}

/* A wake ends one mr_serve, and tells it, so that a loop may look without waiting before it waits without a timeout. */
MR_METHOD(Looper, wakes_once) {
    looper *self = mr_self(call);
    mr_serve_wake(self->mr);
    mr_status first = mr_serve(self->mr, 0), second = mr_serve(self->mr, 0);
    return mr_return(call, mr_bool(first == MR_OK && second == MR_TIMEOUT));
}

MR_METHOD(Looper, later) {
    looper *self = mr_self(call);
    mr_defer(call);
    self->left[self->left_count++] = call;
    return MR_OK;
}

static void *wake(void *argument) {
    looper *self = argument;
    atomic_store(&self->may_answer, true);
    mr_serve_wake(self->mr);
    return NULL;
}

MR_METHOD(Looper, start_thread) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, wake, mr_self(call)) != 0) return mr_fail(call, "no thread");
    pthread_detach(thread);
    return mr_return(call, mr_nil());
}

/* ---- Tests. */

static int64_t get_int(mr_ref ref) {
    mr_value value;
    int64_t number = -1;
    bool truth = false;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    if (mr_value_int(&value, &number) != MR_OK && mr_value_bool(&value, &truth) == MR_OK) number = truth;
    mr_value_release(&value);
    mr_release(mr, ref);
    return number;
}

static int64_t ask(mr_actor actor, const char *method) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, actor, method, &ref), MR_OK);
    return get_int(ref);
}

static void a_wake_is_told_once(void **state) {
    mr_actor actor;
    assert_int_equal(mr_new_actor(mr, "Looper", &actor), MR_OK);
    assert_int_equal(ask(actor, "wakes_once"), 1);
    mr_actor_release(mr, actor);
}

static void calls_are_run_in_the_loop(void **state) {
    mr_actor actor;
    assert_int_equal(mr_new_actor(mr, "Looper", &actor), MR_OK);
    for (int i = 0; i < 1000; i++) assert_int_equal(ask(actor, "where"), 1);
    mr_actor_release(mr, actor);
}

static void another_thread_wakes_it(void **state) {
    mr_actor actor;
    assert_int_equal(mr_new_actor(mr, "Looper", &actor), MR_OK);
    mr_ref left[LEFT_MAX];
    for (int i = 0; i < LEFT_MAX; i++) assert_int_equal(mr_call_actor(mr, actor, "later", &left[i]), MR_OK);
    ask(actor, "start_thread");
    for (int i = 0; i < LEFT_MAX; i++) assert_int_equal(get_int(left[i]), i);
    mr_actor_release(mr, actor);
}

static void it_does_not_wake_by_itself(void **state) {
    mr_actor actor;
    assert_int_equal(mr_new_actor(mr, "Looper", &actor), MR_OK);
    int64_t waits = ask(actor, "waits");
    for (int i = 0; i < 100; i++) ask(actor, "where");
    assert_int_equal(ask(actor, "waits"), waits);
    mr_actor_release(mr, actor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_run_in_the_loop),
        cmocka_unit_test(a_wake_is_told_once),
        cmocka_unit_test(another_thread_wakes_it),
        cmocka_unit_test(it_does_not_wake_by_itself),
    };
    return runtime_main(tests);
}
