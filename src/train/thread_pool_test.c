/* thread_pool_test.c — every member works in every round, and a round ends when all have ended. */
#include "train/thread_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include <cmocka.h>

enum { PARTS = 1000 };

typedef struct count_job {
    _Atomic size_t next, runs;
    int done[PARTS]; /* part i is written by the member that took number i */
} count_job;

static void count_some(void *argument) {
    count_job *job = argument;
    atomic_fetch_add(&job->runs, 1);
    for (size_t part; (part = atomic_fetch_add(&job->next, 1)) < PARTS;) job->done[part]++;
}

static void works(size_t size, size_t expected) {
    thread_pool *pool;
    assert_int_equal(thread_pool_create(size, &pool), MR_OK);
    if (expected != 0) assert_int_equal(thread_pool_size(pool), expected);
    for (int round = 0; round < 300; round++) {
        count_job job = {0};
        thread_pool_run(pool, count_some, &job);
        assert_int_equal(atomic_load(&job.runs), thread_pool_size(pool));
        for (size_t i = 0; i < PARTS; i++) assert_int_equal(job.done[i], 1);
    }
    thread_pool_destroy(pool);
}

static void all_parts_are_done_once(void **state) { works(4, 4); }
static void one_is_the_caller_alone(void **state) { works(1, 1); }
static void zero_takes_the_cpus(void **state) { works(0, 0); }

static void no_pool_is_the_caller_alone(void **state) {
    count_job job = {0};
    thread_pool_run(NULL, count_some, &job);
    assert_int_equal(atomic_load(&job.runs), 1);
    assert_int_equal(thread_pool_size(NULL), 1);
    thread_pool_destroy(NULL);
}

static void a_pool_that_never_worked_ends(void **state) {
    thread_pool *pool;
    assert_int_equal(thread_pool_create(3, &pool), MR_OK);
    thread_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_are_done_once),       cmocka_unit_test(one_is_the_caller_alone),
        cmocka_unit_test(zero_takes_the_cpus),           cmocka_unit_test(no_pool_is_the_caller_alone),
        cmocka_unit_test(a_pool_that_never_worked_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
