/* baton_test.c — one drives, the others wait for their answers; nobody is forgotten. Run under ThreadSanitizer too. */
#include "net/shm/baton.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/futex.h"

static void the_first_drives_and_an_answer_is_seen(void **state) {
    baton baton;
    baton_init(&baton);
    baton_waiter waiter;
    baton_waiter_init(&waiter);
    baton_lock(&baton);
    assert_int_equal(baton_wait(&baton, &waiter, -1), BATON_DRIVE);
    baton_finish(&baton, &waiter);
    assert_int_equal(baton_wait(&baton, &waiter, -1), BATON_DONE);
    baton_pass(&baton);
    assert_false(baton.driven);
    baton_unlock(&baton);
}

static void a_wait_in_line_ends_in_time(void **state) {
    baton baton;
    baton_init(&baton);
    baton_waiter driver, other;
    baton_waiter_init(&driver);
    baton_waiter_init(&other);
    baton_lock(&baton);
    assert_int_equal(baton_wait(&baton, &driver, -1), BATON_DRIVE);
    assert_int_equal(baton_wait(&baton, &other, 1000), BATON_TIMEOUT);
    assert_true(list_empty(&baton.line));
    assert_int_equal(baton_wait(&baton, &other, 0), BATON_TIMEOUT);
    baton_pass(&baton);
    assert_int_equal(baton_wait(&baton, &other, 0), BATON_DRIVE);
    baton_pass(&baton);
    baton_unlock(&baton);
}

static void count_rouse(void *away) { ++*(int *)away; }

static void a_driver_that_is_away_is_roused(void **state) {
    baton baton;
    baton_init(&baton);
    baton_waiter waiter;
    baton_waiter_init(&waiter);
    int roused = 0;
    baton_lock(&baton);
    assert_int_equal(baton_wait(&baton, &waiter, -1), BATON_DRIVE);
    baton_leave(&baton, count_rouse, &roused);
    baton_lock(&baton); /* as another thread does */
    baton_finish(&baton, &waiter);
    assert_int_equal(roused, 1);
    baton_unlock(&baton);
    baton_return(&baton);
    baton_pass(&baton);
    baton_waiter_init(&waiter);
    assert_int_equal(baton_wait(&baton, &waiter, -1), BATON_DRIVE);
    baton_finish(&baton, &waiter); /* by the driver itself: it is there */
    assert_int_equal(roused, 1);
    baton_pass(&baton);
    baton_unlock(&baton);
}

/* ---- A model of calls: asking puts a number on a queue; whoever drives takes numbers off it, in order, and finishes
 * the waiter that asked. The queue is what the lock protects. */

enum { THREADS = 4, CALLS = 4000, QUEUE = 64 };

typedef struct model {
    baton baton;
    baton_waiter *queue[QUEUE];
    unsigned first, count;
    _Atomic uint32_t asked, arrived; /* what has "gone out", and "come in" and may be taken: both only grow */
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
        tell(&model->arrived); /* an answer arrives only for what was asked */
    }
    return NULL;
}

/* With the lock held: takes everything that has arrived. */
static void take_arrived(model *model) {
    while (model->answered < atomic_load(&model->arrived)) {
        baton_waiter *waiter = model->queue[model->first];
        model->first = (model->first + 1) % QUEUE;
        model->count--;
        model->answered++;
        baton_finish(&model->baton, waiter);
    }
}

static void drive(model *model, baton_waiter *mine) {
    if (++model->drivers > model->drivers_most) model->drivers_most = model->drivers;
    while (!mine->done) {
        unsigned seen = model->answered;
        baton_unlock(&model->baton);
        futex_wait(&model->arrived, seen, -1, FUTEX_WITHIN); /* only answers end this wait: nobody has to rouse it */
        baton_lock(&model->baton);
        take_arrived(model);
    }
    model->drivers--;
    baton_pass(&model->baton);
}

static void *caller(void *argument) {
    model *model = argument;
    for (int i = 0; i < CALLS; i++) {
        baton_waiter waiter;
        baton_waiter_init(&waiter);
        baton_lock(&model->baton);
        model->queue[(model->first + model->count++) % QUEUE] = &waiter;
        tell(&model->asked);
        for (;;) {
            baton_turn turn = baton_wait(&model->baton, &waiter, -1);
            if (turn == BATON_DONE) break;
            drive(model, &waiter);
        }
        baton_unlock(&model->baton);
    }
    return NULL;
}

static void many_threads_get_every_answer(void **state) {
    model model = {.first = 0};
    baton_init(&model.baton);
    pthread_t threads[THREADS + 1];
    assert_int_equal(pthread_create(&threads[THREADS], NULL, server, &model), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, caller, &model), 0);
    for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(model.answered, THREADS * CALLS);
    assert_int_equal(model.drivers_most, 1);
    assert_false(model.baton.driven);
    assert_true(list_empty(&model.baton.line));
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
