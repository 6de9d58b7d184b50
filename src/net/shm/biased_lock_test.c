/* biased_lock_test.c — mutual exclusion with and without an owner. Also run under ThreadSanitizer. */
#include "net/shm/biased_lock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/futex.h"

static void *lock_once(void *argument) {
    biased_lock_lock(argument);
    biased_lock_unlock(argument);
    return NULL;
}

static void in_another_thread(void *(*fn)(void *), void *argument) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fn, argument), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void lock_often(biased_lock *lock, int times) {
    for (int i = 0; i < times; i++) lock_once(lock);
}

static void without_an_owner_it_is_a_plain_lock(void **state) {
    biased_lock lock = {0};
    biased_lock_lock(&lock);
    assert_int_equal(lock.word, 1);
    assert_int_equal(lock.inside, 0);
    biased_lock_unlock(&lock);
    assert_int_equal(lock.word, 0);
}

static void the_owner_comes_in_by_a_plain_store(void **state) {
    biased_lock lock = {0};
    biased_lock_own(&lock, cpu_thread());
    if (lock.owner == 0) skip(); /* the kernel lacks membarrier */
    biased_lock_lock(&lock);
    assert_int_equal(lock.word, 0);
    assert_int_equal(lock.inside, 1);
    biased_lock_unlock(&lock);
    assert_int_equal(lock.inside, 0);
}

static void *ask(void *argument) {
    biased_lock_own(argument, cpu_thread());
    return NULL;
}

static void the_first_that_asks_is_the_owner(void **state) {
    biased_lock lock = {0};
    biased_lock_own(&lock, cpu_thread());
    uintptr_t owner = lock.owner;
    in_another_thread(ask, &lock);
    assert_true(lock.owner == owner);
}

static void a_busy_owner_keeps_its_bias_and_an_idle_one_earns_it_again(void **state) {
    biased_lock lock = {0};
    biased_lock_own(&lock, cpu_thread());
    if (lock.owner == 0) skip();
    lock_often(&lock, BIASED_LOCK_BIASED_MIN);
    in_another_thread(lock_once, &lock);
    assert_true(lock.bias == lock.owner);
    in_another_thread(lock_once, &lock); /* the owner did not lock meanwhile */
    assert_true(lock.bias == 0);
    lock_often(&lock, BIASED_LOCK_IN_A_ROW - 1);
    assert_true(lock.bias == 0);
    in_another_thread(lock_once, &lock); /* another thread locks, which resets the count */
    lock_often(&lock, BIASED_LOCK_IN_A_ROW - 1);
    assert_true(lock.bias == 0);
    lock_often(&lock, 1);
    assert_true(lock.bias == lock.owner);
}

static void *only_lock(void *argument) {
    biased_lock_lock(argument);
    return NULL;
}

static void *only_unlock(void *argument) {
    biased_lock_unlock(argument);
    return NULL;
}

/* The owner is interrupted after it saw its bias, and stores inside while another thread holds the lock. */
static void a_late_owner_does_not_break_exclusion(void **state) {
    biased_lock lock = {0};
    biased_lock_own(&lock, cpu_thread());
    if (lock.owner == 0) skip();
    in_another_thread(only_lock, &lock);
    assert_int_equal(lock.word, 1);
    lock.inside = 1;
    in_another_thread(only_unlock, &lock);
    assert_int_equal(lock.word, 0);
    assert_int_equal(lock.inside, 1);
    biased_lock_step_out(&lock); /* the owner sees that its bias was revoked */
    in_another_thread(lock_once, &lock);
    lock_once(&lock);
}

/* ---- Many threads, one of which is the owner, and data under the lock. */

enum { OTHERS = 3, ROUNDS = 20000 };

typedef struct scene {
    biased_lock lock;
    unsigned inside, most, count; /* not atomic: under the lock */
} scene;

static void visit(scene *scene) {
    biased_lock_lock(&scene->lock);
    if (++scene->inside > scene->most) scene->most = scene->inside;
    scene->count++;
    scene->inside--;
    biased_lock_unlock(&scene->lock);
}

static void *visit_seldom(void *argument) {
    scene *scene = argument;
    _Atomic uint32_t nothing = 0;
    for (int i = 0; i < ROUNDS / 100; i++) {
        visit(scene);
        futex_wait(&nothing, 0, 20, FUTEX_WITHIN); /* so that the owner gets its bias back meanwhile */
    }
    return NULL;
}

static void *visit_often(void *argument) {
    for (int i = 0; i < ROUNDS; i++) visit(argument);
    return NULL;
}

static void one_at_a_time(void *(*others)(void *), unsigned each) {
    scene scene = {0};
    pthread_t threads[OTHERS];
    biased_lock_own(&scene.lock, cpu_thread());
    for (int i = 0; i < OTHERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, others, &scene), 0);
    for (int i = 0; i < 10 * ROUNDS; i++) visit(&scene);
    for (int i = 0; i < OTHERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(scene.most, 1);
    assert_int_equal(scene.count, 10 * ROUNDS + OTHERS * each);
}

static void one_at_a_time_is_inside_where_others_come_seldom(void **state) {
    one_at_a_time(visit_seldom, ROUNDS / 100);
}
static void one_at_a_time_is_inside_where_others_come_often(void **state) { one_at_a_time(visit_often, ROUNDS); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_owner_it_is_a_plain_lock),
        cmocka_unit_test(the_owner_comes_in_by_a_plain_store),
        cmocka_unit_test(the_first_that_asks_is_the_owner),
        cmocka_unit_test(a_late_owner_does_not_break_exclusion),
        cmocka_unit_test(a_busy_owner_keeps_its_bias_and_an_idle_one_earns_it_again),
        cmocka_unit_test(one_at_a_time_is_inside_where_others_come_seldom),
        cmocka_unit_test(one_at_a_time_is_inside_where_others_come_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
