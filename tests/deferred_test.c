/* deferred_test.c — a call whose body defers its answer (mr_defer) ends once, with the outcome that the other thread
 * gave (mr_finish), however the end of the body and mr_finish interleave. Under TSan a data race ends the worker. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "miniray/runtime.h"
#include "tests/support/runtime_main.h"
#include "tests/support/sanitized.h"

enum {
    PATIENCE_US = 60 * 1000 * 1000,
    FINISHERS = 2, /* threads that finish calls: one for each thread of the actor */
    AHEAD = 64,    /* calls under way */
    CALLS = SANITIZED ? 10000 : 100000,
    RACE_US = 8 * 1000 * 1000, /* a busy machine makes as many calls as it can in this time */
    SPIN_MASK = 127
};

/* ---- The actor: its bodies pass each call to a finisher, and both then race. */

typedef struct finisher {
    _Atomic(mr_call *) call; /* call to be finished; NULL: none */
    _Atomic bool over;
    pthread_t thread;
    uint32_t spins; /* varies the moment at which the finisher begins */
} finisher;

typedef struct racer {
    finisher finishers[FINISHERS];
    _Atomic uint32_t next;
} racer;

static void spin(uint32_t times) {
    for (volatile uint32_t i = 0; i < times; i++) {}
}

/* Even numbers are returned, odd ones are the text of a failure. */
static mr_status outcome_of(mr_call *call) {
    int64_t number;
    MR_TRY(mr_arg_int(call, 0, &number));
    return number % 2 == 0 ? mr_return(call, mr_int(number)) : mr_fail(call, "call %lld", (long long)number);
}

static void *finish_calls(void *argument) {
    finisher *self = argument;
    while (!atomic_load(&self->over)) {
        mr_call *call = atomic_exchange(&self->call, NULL);
        if (call == NULL) {
            sched_yield();
            continue;
        }
        spin(self->spins++ & SPIN_MASK);
        mr_finish(call, outcome_of(call));
    }
    return NULL;
}

static void racer_free(void *state) {
    racer *self = state;
    for (int i = 0; i < FINISHERS; i++) {
        atomic_store(&self->finishers[i].over, true);
        pthread_join(self->finishers[i].thread, NULL);
    }
    free(self);
}

MR_CREATE(Racer) {
    racer *self = calloc(1, sizeof *self);
    for (int i = 0; i < FINISHERS; i++)
        if (pthread_create(&self->finishers[i].thread, NULL, finish_calls, &self->finishers[i]) != 0) abort();
    return mr_set_self(call, self, racer_free);
}

MR_METHOD(Racer, pass) {
    racer *self = mr_self(call);
    uint32_t number = atomic_fetch_add(&self->next, 1);
    _Atomic(mr_call *) *place = &self->finishers[number % FINISHERS].call;
    mr_call *none = NULL;
    mr_defer(call);
    while (!atomic_compare_exchange_weak(place, &none, call)) {
        none = NULL;
        sched_yield();
    }
    while (atomic_load(place) == call) sched_yield(); /* returns just when the finisher has taken the call */
    spin(number / (SPIN_MASK + 1) & SPIN_MASK);
    return MR_OK;
}

/* Fails after mr_defer, without passing the call on: the body's status is the outcome. */
MR_METHOD(Racer, keep) {
    mr_defer(call);
    return mr_fail(call, "no thread takes it");
}

/* ---- The driver. */

static void check_outcome(mr_ref ref, int64_t number) {
    mr_value value;
    int64_t got = -1;
    char text[32];
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    if (number % 2 == 0) {
        if (status != MR_OK) fail_msg("call %lld: %s, %s", (long long)number, mr_status_name(status), mr_last_error());
        assert_int_equal(mr_value_int(&value, &got), MR_OK);
        assert_int_equal(got, number);
        mr_value_release(&value);
    } else {
        snprintf(text, sizeof text, "call %lld\n", (long long)number);
        if (status != MR_TASK_FAILED || strstr(mr_last_error(), "call ") == NULL)
            fail_msg("call %lld: %s, %s", (long long)number, mr_status_name(status), mr_last_error());
        if (strtoll(strstr(mr_last_error(), "call ") + strlen("call "), NULL, 10) != number)
            fail_msg("call %lld got the outcome of another: %s", (long long)number, mr_last_error());
    }
    mr_release(mr, ref);
}

static void race(uint32_t threads) {
    mr_actor actor;
    mr_ref refs[AHEAD];
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .max_concurrency = threads);
    assert_int_equal(mr_actor_create(mr, "Racer", &options, NULL, 0, &actor), MR_OK);
    int64_t calls = CALLS, until_us = clock_now_us(clock_real()) + RACE_US;
    for (int64_t i = 0; i < calls + AHEAD; i++) {
        if (i >= AHEAD) check_outcome(refs[i % AHEAD], i - AHEAD);
        if (i >= AHEAD && i < calls && clock_now_us(clock_real()) > until_us) calls = i;
        if (i < calls) assert_int_equal(mr_call_actor(mr, actor, "pass", &refs[i % AHEAD], mr_int(i)), MR_OK);
    }
    mr_actor_release(mr, actor);
}

static void one_thread_and_a_finisher_end_each_call_once(void **state) { race(1); }

static void two_threads_and_their_finishers_end_each_call_once(void **state) { race(2); }

static void a_body_that_fails_after_deferring_ends_its_call(void **state) {
    mr_actor actor;
    mr_ref ref;
    mr_value value;
    assert_int_equal(mr_new_actor(mr, "Racer", &actor), MR_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mr_call_actor(mr, actor, "keep", &ref), MR_OK);
        assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_TASK_FAILED);
        assert_non_null(strstr(mr_last_error(), "no thread takes it"));
        mr_release(mr, ref);
    }
    mr_actor_release(mr, actor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread_and_a_finisher_end_each_call_once),
        cmocka_unit_test(two_threads_and_their_finishers_end_each_call_once),
        cmocka_unit_test(a_body_that_fails_after_deferring_ends_its_call),
    };
    return runtime_main(tests);
}
