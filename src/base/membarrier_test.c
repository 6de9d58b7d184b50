/* membarrier_test.c — of two sides, one with the light and one with the heavy barrier, at least one sees the other's
 * store. */
#include "base/membarrier.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpu.h"

enum { ROUNDS = 1000 };

typedef struct scene {
    _Alignas(64) _Atomic int light; /* the word that each side stores */
    _Alignas(64) _Atomic int heavy;
    _Alignas(64) _Atomic int round, done; /* the round that each side has reached */
    _Alignas(64) int light_saw;
} scene;

static void meet(_Atomic int *word, int round) {
    for (int i = 0; atomic_load(word) < round; i++)
        if (i % 64 == 63)
            sched_yield(); /* both threads may be on one CPU */
        else
            cpu_relax();
}

static void *light_side(void *argument) {
    scene *scene = argument;
    for (int i = 1; i <= ROUNDS; i++) {
        meet(&scene->round, i);
        atomic_store_explicit(&scene->light, i, memory_order_relaxed);
        MEMBARRIER_LIGHT();
        scene->light_saw = atomic_load_explicit(&scene->heavy, memory_order_relaxed);
        atomic_store(&scene->done, i);
    }
    return NULL;
}

static void one_of_the_two_sees_the_other(void **state) {
    static scene scene;
    pthread_t thread;
    int missed = 0;
    if (!membarrier_register()) skip(); /* this kernel has no membarrier */
    assert_int_equal(pthread_create(&thread, NULL, light_side, &scene), 0);
    for (int i = 1; i <= ROUNDS; i++) {
        atomic_store(&scene.round, i);
        atomic_store_explicit(&scene.heavy, i, memory_order_relaxed);
        membarrier_heavy();
        int saw = atomic_load_explicit(&scene.light, memory_order_relaxed);
        meet(&scene.done, i);
        missed += saw != i && scene.light_saw != i;
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(missed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_of_the_two_sees_the_other)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
