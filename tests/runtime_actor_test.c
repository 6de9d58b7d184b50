/* runtime_actor_test.c — actors seen from a driver: order, names, deferred answers, threads, death and restart. The
 * test is the driver: its workers are this same binary, started again. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/runtime.h"
#include "tests/support/future_assert.h"

enum { PATIENCE_US = 20 * 1000 * 1000 };

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(fail_with) {
    mr_span text;
    MR_TRY(mr_arg_str(call, 0, &text));
    return mr_fail(call, "%.*s", (int)text.size, (const char *)text.data);
}

/* A class whose method exists under every name. */
static mr_status echo_name(mr_call *call) { return mr_return(call, mr_str(mr_call_name(call))); }

__attribute__((constructor)) static void echo_register(void) { mr_register_method("Echo", "*", echo_name); }

/* A gate blocks its callers until it is opened. */
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

MR_METHOD(Gate, at_once) { /* finishes the call before the body returns */
    mr_defer(call);
    mr_finish(call, mr_return(call, mr_handle(mr_call_self(call))));
    return MR_OK;
}

MR_TASK(die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

MR_TASK(pause_ms) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    usleep((useconds_t)ms * 1000);
    return mr_return(call, mr_int(ms));
}

/* An actor in which several threads run calls at once. */
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

MR_METHOD(Room, meet) { /* returns the position of this call when `count` calls are inside */
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

MR_METHOD(Counter, pause) {
    usleep(20 * 1000);
    return MR_OK;
}

MR_METHOD(Counter, die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

MR_TASK(count_with) { /* a task that calls an actor by a handle argument */
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

/* ---- The tests. */

static void an_answer_may_be_deferred(void **state) {
    mr_actor gate, itself;
    mr_ref waiting[4], opened, later[20];
    mr_value value;
    assert_int_equal(mr_new_actor(mr, "Gate", &gate), MR_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(mr_call_actor(mr, gate, "wait", &waiting[i], mr_int(i - 1)), MR_OK);
    assert_int_equal(mr_get(mr, waiting[3], 50 * 1000, &value), MR_TIMEOUT);
    assert_non_null(strstr(mr_last_error(), "timed out after 0.05 s waiting for method '"));
    assert_non_null(strstr(mr_last_error(), "`miniray why o"));
    assert_int_equal(mr_call_actor(mr, gate, "open", &opened), MR_OK);
    assert_int_equal(future_assert_int(mr, opened), 4);
    assert_int_equal(mr_get(mr, waiting[0], PATIENCE_US, &value), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "less than nothing"));
    for (int i = 1; i < 4; i++) assert_int_equal(future_assert_int(mr, waiting[i]), i - 1);
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

static void an_actor_keeps_its_state_and_its_order(void **state) {
    mr_actor counter;
    mr_ref refs[200];
    assert_int_equal(mr_new_actor(mr, "Counter", &counter, mr_int(100)), MR_OK);
    for (int i = 0; i < 200; i++) assert_int_equal(mr_call_actor(mr, counter, "next", &refs[i]), MR_OK);
    for (int i = 0; i < 200; i++) assert_int_equal(future_assert_int(mr, refs[i]), 101 + i);
    mr_ref from_task;
    assert_int_equal(mr_call_task(mr, "count_with", &from_task, mr_handle(counter)), MR_OK);
    assert_int_equal(future_assert_int(mr, from_task), 301);
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, counter, "no_such_method", &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "next"));
    assert_int_equal(mr_actor_kill(mr, counter), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
}

static void actors_have_names(void **state) {
    mr_actor counter, found;
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "the counter");
    mr_ref ref;
    assert_int_equal(mr_actor_find(mr, "the counter", NULL, &found), MR_NOT_FOUND);
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &counter), MR_OK);
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &found), MR_EXISTS);
    assert_int_equal(mr_actor_find(mr, "the counter", NULL, &found), MR_OK);
    assert_int_equal(mr_call_actor(mr, found, "next", &ref), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 1);
    assert_int_equal(mr_actor_kill(mr, counter), MR_OK);
    assert_int_equal(mr_actor_find(mr, "the counter", NULL, &found), MR_NOT_FOUND);
}

static void an_actor_that_cannot_be_created_says_why(void **state) {
    mr_actor counter;
    mr_ref ref;
    assert_int_equal(mr_new_actor(mr, "Counter", &counter, mr_int(-1)), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
    assert_non_null(strstr(mr_last_error(), "does not start at -1"));
}

static void an_actor_may_be_created_with_futures(void **state) {
    mr_actor counter;
    mr_ref start, bad, ref, second;
    assert_int_equal(mr_call_task(mr, "pause_ms", &start, mr_int(20)), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Counter", &counter, mr_future(start)), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &ref), MR_OK); /* before the actor can be created */
    assert_int_equal(mr_call_actor(mr, counter, "next", &second), MR_OK);
    assert_int_equal(future_assert_int(mr, second), 22);
    assert_int_equal(future_assert_int(mr, ref), 21);
    mr_release(mr, start);
    assert_int_equal(mr_call_task(mr, "fail_with", &bad, mr_str("no start")), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Counter", &counter, mr_future(bad)), MR_OK);
    assert_int_equal(mr_call_actor(mr, counter, "next", &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
    assert_non_null(strstr(mr_last_error(), "no start"));
    mr_release(mr, bad);
}

/* Calls that are lost with the actor's process are sent to its next process, in order, if they have retries. */
static void lost_calls_are_sent_again(void **state) {
    enum { MANY = 50 };
    mr_actor phoenix;
    mr_ref death, refs[MANY], once;
    mr_call_options mortal = MR_OPTIONS(mr_call_options, .max_retries = -1);
    mr_actor_options again = MR_OPTIONS(mr_actor_options, .max_restarts = 2, .max_call_retries = 2);
    assert_int_equal(mr_actor_create(mr, "Counter", &again, NULL, 0, &phoenix), MR_OK);
    assert_int_equal(mr_call_actor(mr, phoenix, "next", &once), MR_OK);
    assert_int_equal(future_assert_int(mr, once), 1);
    /* The calls after this one wait at the actor. */
    assert_int_equal(mr_actor_submit(mr, phoenix, "pause", NULL, NULL, 0, &once), MR_OK);
    mr_release(mr, once);
    assert_int_equal(mr_actor_submit(mr, phoenix, "die", &mortal, NULL, 0, &death), MR_OK);
    assert_int_equal(mr_actor_submit(mr, phoenix, "next", &mortal, NULL, 0, &once), MR_OK);
    for (int i = 0; i < MANY; i++) assert_int_equal(mr_call_actor(mr, phoenix, "next", &refs[i]), MR_OK);
    assert_int_equal(future_assert_failure(mr, death), MR_ACTOR_DIED);
    assert_int_equal(future_assert_failure(mr, once), MR_ACTOR_DIED);
    /* Results of the restarted actor. */
    for (int i = 0; i < MANY; i++) assert_int_equal(future_assert_int(mr, refs[i]), i + 1);
}

static void an_actor_may_have_several_threads(void **state) {
    enum { THREADS = 4 };
    mr_actor room;
    mr_ref refs[THREADS];
    bool seen[THREADS + 1] = {false};
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .max_concurrency = THREADS);
    assert_int_equal(mr_actor_create(mr, "Room", &options, NULL, 0, &room), MR_OK);
    for (int i = 0; i < THREADS; i++) assert_int_equal(mr_call_actor(mr, room, "meet", &refs[i], mr_int(4)), MR_OK);
    for (int i = 0; i < THREADS; i++) {
        int64_t number = future_assert_int(mr, refs[i]); /* no call returns before all are inside */
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
    assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
    assert_int_equal(mr_call_actor(mr, mortal, "next", &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
    mr_arg start = mr_int(7);
    assert_int_equal(
        mr_actor_create(mr, "Counter", &MR_OPTIONS(mr_actor_options, .max_restarts = 1), &start, 1, &phoenix), MR_OK);
    assert_int_equal(mr_call_actor(mr, phoenix, "next", &ref), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 8);
    assert_int_equal(mr_call_actor(mr, phoenix, "die", &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
    assert_int_equal(mr_call_actor(mr, phoenix, "next", &ref), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 8); /* restarted with the creation arguments */
}

/* The holder of a handle reads information about the actor, and ends the actor's process but not the actor. */
static void an_actor_is_looked_at_and_restarted(void **state) {
    static mr_actor_info facts;
    mr_actor actor;
    mr_ref ref;
    mr_actor_options options =
        MR_OPTIONS(mr_actor_options, .name = "looked at", .max_restarts = 1, .about = {"next, die", 9});
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &actor), MR_OK);
    assert_int_equal(mr_actor_info_get(mr, actor, &facts), MR_OK);
    assert_string_equal(facts.class_name, "Counter");
    assert_string_equal(facts.name, "looked at");
    assert_int_equal(facts.about_size, 9);
    assert_memory_equal(facts.about, "next, die", 9);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(mr_call_actor(mr, actor, "next", &ref), MR_OK);
        assert_int_equal(future_assert_int(mr, ref), i);
    }
    assert_int_equal(mr_actor_restart(mr, actor), MR_OK);
    for (mr_status status = MR_ACTOR_DIED; status == MR_ACTOR_DIED;) { /* calls sent before the restart are lost */
        mr_value value;
        int64_t number = 3;
        assert_int_equal(mr_call_actor(mr, actor, "next", &ref), MR_OK);
        status = mr_get(mr, ref, MR_FOREVER, &value);
        if (status == MR_OK && mr_value_int(&value, &number) == MR_OK && number > 1) status = MR_ACTOR_DIED;
        mr_release(mr, ref);
    }
    assert_int_equal(mr_actor_info_get(mr, actor, &facts), MR_OK);
    assert_int_equal(facts.starts, 2);
    assert_int_equal(mr_actor_restart(mr, actor), MR_OK); /* no restart is left, so the actor is dead */
    do assert_int_equal(mr_call_actor(mr, actor, "next", &ref), MR_OK);
    while (future_assert_failure(mr, ref) != MR_ACTOR_DIED);
    static char much[MR_ABOUT_MAX + 1];
    options = MR_OPTIONS(mr_actor_options, .about = {much, sizeof much});
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &actor), MR_TOO_LARGE);
    options.about.size--;
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &actor), MR_OK);
    assert_int_equal(mr_actor_info_get(mr, actor, &facts), MR_OK);
    assert_int_equal(facts.about_size, MR_ABOUT_MAX);
    assert_int_equal(mr_actor_info_get(mr, (mr_actor){{1, 2}}, &facts), MR_NOT_FOUND);
    assert_int_equal(mr_actor_restart(mr, (mr_actor){{1, 2}}), MR_NOT_FOUND);
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
        cmocka_unit_test(a_class_may_answer_to_every_name),
        cmocka_unit_test(an_answer_may_be_deferred),
        cmocka_unit_test(an_actor_keeps_its_state_and_its_order),
        cmocka_unit_test(actors_have_names),
        cmocka_unit_test(an_actor_that_cannot_be_created_says_why),
        cmocka_unit_test(an_actor_may_be_created_with_futures),
        cmocka_unit_test(lost_calls_are_sent_again),
        cmocka_unit_test(an_actor_may_have_several_threads),
        cmocka_unit_test(a_dead_actor_is_reported_or_started_again),
        cmocka_unit_test(an_actor_is_looked_at_and_restarted),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
