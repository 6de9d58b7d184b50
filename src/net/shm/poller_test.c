/* poller_test.c — one thread drives, the others wait for their answers, and every waiter is woken. Also run under
 * ThreadSanitizer. */
#include "net/shm/poller.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/futex.h"

static void the_first_drives_and_an_answer_is_seen(void **state) {
    poller poller;
    poller_init(&poller);
    poller_waiter waiter;
    poller_waiter_init(&waiter);
    poller_lock(&poller);
    assert_int_equal(poller_wait(&poller, &waiter, -1), POLLER_DRIVE);
    poller_finish(&poller, &waiter);
    assert_int_equal(poller_wait(&poller, &waiter, -1), POLLER_DONE);
    poller_pass(&poller);
    assert_false(poller.driven);
    poller_unlock(&poller);
}

static void a_wait_in_line_ends_in_time(void **state) {
    poller poller;
    poller_init(&poller);
    poller_waiter driver, other;
    poller_waiter_init(&driver);
    poller_waiter_init(&other);
    poller_lock(&poller);
    assert_int_equal(poller_wait(&poller, &driver, -1), POLLER_DRIVE);
    assert_int_equal(poller_wait(&poller, &other, 1000), POLLER_TIMEOUT);
    assert_true(list_empty(&poller.line));
    assert_int_equal(poller_wait(&poller, &other, 0), POLLER_TIMEOUT);
    poller_pass(&poller);
    assert_int_equal(poller_wait(&poller, &other, 0), POLLER_DRIVE);
    poller_pass(&poller);
    poller_unlock(&poller);
}

static void count_rouse(void *away) { ++*(int *)away; }

static void a_driver_that_is_away_is_roused(void **state) {
    poller poller;
    poller_init(&poller);
    poller_waiter waiter;
    poller_waiter_init(&waiter);
    int roused = 0;
    poller_lock(&poller);
    assert_int_equal(poller_wait(&poller, &waiter, -1), POLLER_DRIVE);
    poller_leave(&poller, count_rouse, &roused);
    poller_lock(&poller); /* as another thread does */
    poller_finish(&poller, &waiter);
    assert_int_equal(roused, 1);
    poller_unlock(&poller);
    poller_return(&poller);
    poller_pass(&poller);
    poller_waiter_init(&waiter);
    assert_int_equal(poller_wait(&poller, &waiter, -1), POLLER_DRIVE);
    poller_finish(&poller, &waiter); /* finished by the driver itself: no wake-up */
    assert_int_equal(roused, 1);
    poller_pass(&poller);
    poller_unlock(&poller);
}

/* ---- A model of calls: a call puts a number on a queue; the driver takes numbers off it in order and finishes the
 * waiter of each. The lock protects the queue. */

enum { THREADS = 4, CALLS = 4000, QUEUE = 64 };

typedef struct model {
    poller poller;
    poller_waiter *queue[QUEUE];
    unsigned first, count;
    _Atomic uint32_t asked, arrived; /* numbers of sent calls and of received answers: both only grow */
    unsigned drivers, drivers_most, answered;
} model;

static void tell(_Atomic uint32_t *count) {
    atomic_fetch_add(count, 1);
    futex_wake(count, FUTEX_WITHIN);
}

static void *server(void *argument) {
    model *model = argument;
    for (unsigned i = 0; i < THREADS * CALLS; i++) {
        while (atomic_load(&model->asked) == i) futex_wait(&model->asked, i, -1, FUTEX_WITHIN);
        tell(&model->arrived); /* an answer arrives only for a sent call */
    }
    return NULL;
}

/* Locked: takes all received answers. */
static void take_arrived(model *model) {
    while (model->answered < atomic_load(&model->arrived)) {
        poller_waiter *waiter = model->queue[model->first];
        model->first = (model->first + 1) % QUEUE;
        model->count--;
        model->answered++;
        poller_finish(&model->poller, waiter);
    }
}

static void drive(model *model, poller_waiter *mine) {
    if (++model->drivers > model->drivers_most) model->drivers_most = model->drivers;
    while (!mine->done) {
        unsigned seen = model->answered;
        poller_unlock(&model->poller);
        futex_wait(&model->arrived, seen, -1, FUTEX_WITHIN); /* only answers end this wait, so rouse is not needed */
        poller_lock(&model->poller);
        take_arrived(model);
    }
    model->drivers--;
    poller_pass(&model->poller);
}

static void *caller(void *argument) {
    model *model = argument;
    for (int i = 0; i < CALLS; i++) {
        poller_waiter waiter;
        poller_waiter_init(&waiter);
        poller_lock(&model->poller);
        model->queue[(model->first + model->count++) % QUEUE] = &waiter;
        tell(&model->asked);
        for (;;) {
            poller_turn turn = poller_wait(&model->poller, &waiter, -1);
            if (turn == POLLER_DONE) break;
            drive(model, &waiter);
        }
        poller_unlock(&model->poller);
    }
    return NULL;
}

static void many_threads_get_every_answer(void **state) {
    model model = {.first = 0};
    poller_init(&model.poller);
    pthread_t threads[THREADS + 1];
    assert_int_equal(pthread_create(&threads[THREADS], NULL, server, &model), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, caller, &model), 0);
    for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(model.answered, THREADS * CALLS);
    assert_int_equal(model.drivers_most, 1);
    assert_false(model.poller.driven);
    assert_true(list_empty(&model.poller.line));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_drives_and_an_answer_is_seen),
        cmocka_unit_test(a_wait_in_line_ends_in_time),
        cmocka_unit_test(a_driver_that_is_away_is_roused),
        cmocka_unit_test(many_threads_get_every_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
