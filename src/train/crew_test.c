/* crew_test.c — every member works in every round, and a round ends when all have ended. */
#include "train/crew.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include <cmocka.h>

enum { PARTS = 1000 };

typedef struct count_job {
    _Atomic size_t next, runs;
    int done[PARTS]; /* written by whoever took the number */
} count_job;

static void count_some(void *argument) {
    count_job *job = argument;
    atomic_fetch_add(&job->runs, 1);
    for (size_t part; (part = atomic_fetch_add(&job->next, 1)) < PARTS;) job->done[part]++;
}

static void works(size_t size, size_t expected) {
    crew *crew;
    assert_int_equal(crew_create(size, &crew), MR_OK);
    if (expected != 0) assert_int_equal(crew_size(crew), expected);
    for (int round = 0; round < 300; round++) {
        count_job job = {0};
        crew_run(crew, count_some, &job);
        assert_int_equal(atomic_load(&job.runs), crew_size(crew));
        for (size_t i = 0; i < PARTS; i++) assert_int_equal(job.done[i], 1);
    }
    crew_destroy(crew);
}

static void all_parts_are_done_once(void **state) { works(4, 4); }
static void one_is_the_caller_alone(void **state) { works(1, 1); }
static void zero_takes_the_cpus(void **state) { works(0, 0); }

static void no_crew_is_the_caller_alone(void **state) {
    count_job job = {0};
    crew_run(NULL, count_some, &job);
    assert_int_equal(atomic_load(&job.runs), 1);
    assert_int_equal(crew_size(NULL), 1);
    crew_destroy(NULL);
}

static void a_crew_that_never_worked_ends(void **state) {
    crew *crew;
    assert_int_equal(crew_create(3, &crew), MR_OK);
    crew_destroy(crew);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_parts_are_done_once),       cmocka_unit_test(one_is_the_caller_alone),
        cmocka_unit_test(zero_takes_the_cpus),           cmocka_unit_test(no_crew_is_the_caller_alone),
        cmocka_unit_test(a_crew_that_never_worked_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
