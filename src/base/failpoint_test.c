/* failpoint_test.c — failpoints are found, armed and hit in builds with failpoints, and absent in others. */
#include "base/failpoint.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/support/test_child.h"

static void visit(void) { FAILPOINT("test.plain"); }
static bool visit_error(void) { return FAILPOINT_ERROR("test.error"); }
static bool visit_either(bool first) { return first ? FAILPOINT_ERROR("test.twin") : FAILPOINT_ERROR("test.twin"); }

static void texts_that_make_no_sense_are_refused(void **state) {
    const char *const texts[] = {"",
                                 "test.plain",
                                 "=kill",
                                 "test.plain=",
                                 "test.plain=none",
                                 "test.plain=kil",
                                 "test.plain=kill@",
                                 "test.plain=kill@0",
                                 "test.plain=kill@-1",
                                 "test.plain=kill@ 1",
                                 "test.plain=kill@1x",
                                 "test.plain=kill@1@2",
                                 "test.plain=kill@9999999999",
                                 "test.plain=kill kill"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) assert_int_equal(failpoint_arm(texts[i]), MR_INVALID);
    assert_int_equal(failpoint_arm("no.such=kill"), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "'no.such'"));
    assert_int_equal(failpoint_arm("test.plai=kill"), MR_NOT_FOUND);
    assert_int_equal(failpoint_arm("test.plainer=kill"), MR_NOT_FOUND);
    visit();
}

#ifdef MR_FAILPOINTS

static const failpoint *find(const char *name, size_t *count) {
    const failpoint *found = NULL;
    *count = 0;
    for (size_t i = 0; i < failpoint_count(); i++) {
        const failpoint *point = failpoint_at(i);
        assert_non_null(point); /* a NULL would be padding between the pointers */
        assert_in_range(strlen(point->name), 1, 95);
        if (strcmp(point->name, name) == 0) found = point, (*count)++;
    }
    return found;
}

static void every_site_is_found(void **state) {
    size_t count;
    assert_non_null(find("test.plain", &count));
    assert_int_equal(count, 1);
    assert_non_null(find("test.error", &count));
    assert_int_equal(count, 1);
    assert_non_null(find("test.twin", &count));
    assert_int_equal(count, 2);
    assert_null(find("test.none", &count));
}

static void visits_are_counted(void **state) {
    size_t count;
    failpoint_disarm_all();
    const failpoint *point = find("test.plain", &count);
    for (int i = 0; i < 5; i++) visit();
    assert_int_equal(point->visits, 5);
    failpoint_disarm_all();
    assert_int_equal(point->visits, 0);
}

static void error_comes_once_at_the_nth_visit(void **state) {
    for (int nth = 1; nth <= 4; nth++) {
        char text[64];
        snprintf(text, sizeof text, "test.error=error@%d", nth);
        assert_int_equal(failpoint_arm(text), MR_OK);
        for (int i = 1; i <= 8; i++) assert_int_equal(visit_error(), i == nth);
    }
    assert_int_equal(failpoint_arm("test.error=error"), MR_OK);
    assert_true(visit_error());
    assert_int_equal(failpoint_arm("test.error=error"), MR_OK);
    failpoint_disarm_all();
    assert_false(visit_error());
}

static void sites_of_one_name_are_armed_together(void **state) {
    assert_int_equal(failpoint_arm("test.twin=error@2"), MR_OK);
    assert_false(visit_either(true));
    assert_false(visit_either(false));
    assert_true(visit_either(false));
    assert_true(visit_either(true));
    failpoint_disarm_all();
}

static int arms_and_visits_thrice(void *text) {
    if (failpoint_arm(text) != MR_OK) return 1;
    for (int i = 0; i < 3; i++) visit();
    return 7;
}

static char *text_of(const char *text) {
    static char copy[64];
    return strcpy(copy, text);
}

static void kill_and_exit_end_the_process(void **state) {
    assert_int_equal(test_child_run(arms_and_visits_thrice, text_of("test.plain=kill"), 60000), -SIGKILL);
    assert_int_equal(test_child_run(arms_and_visits_thrice, text_of("test.plain=kill@3"), 60000), -SIGKILL);
    assert_int_equal(test_child_run(arms_and_visits_thrice, text_of("test.plain=kill@4"), 60000), 7);
    assert_int_equal(test_child_run(arms_and_visits_thrice, text_of("test.plain=exit@2"), 60000),
                     FAILPOINT_EXIT_STATUS);
    assert_int_equal(test_child_run(arms_and_visits_thrice, text_of("test.plain=error"), 60000), 7);
}

static void stop_stops_until_it_is_continued(void **state) {
    pid_t pid = test_child_start(arms_and_visits_thrice, text_of("test.plain=stop@2"));
    int status;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(test_child_wait(pid, 60000), 7);
}

/* A program that is started with the variable set is armed before main. */
static int starts_again(void *text) {
    setenv("MINIRAY_FAILPOINT", text, 1);
    execl("/proc/self/exe", "failpoint-test", "--visit", (char *)NULL);
    return 1;
}

static void the_environment_arms(void **state) {
    assert_int_equal(test_child_run(starts_again, text_of("test.plain=kill"), 60000), -SIGKILL);
    assert_int_equal(test_child_run(starts_again, text_of("test.plain=exit"), 60000), FAILPOINT_EXIT_STATUS);
    assert_int_equal(test_child_run(starts_again, text_of("test.plain=exit@2"), 60000), 9);
}

enum { THREADS = 4, VISITS = 1000 };

static void *visits_often(void *errors) {
    for (int i = 0; i < VISITS; i++) *(int *)errors += visit_error();
    return NULL;
}

static void one_visit_of_all_threads_is_the_nth(void **state) {
    failpoint_disarm_all();
    assert_int_equal(failpoint_arm("test.error=error@1500"), MR_OK);
    pthread_t threads[THREADS];
    int errors[THREADS] = {0}, sum = 0;
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, visits_often, &errors[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += errors[i];
    }
    size_t count;
    assert_int_equal(sum, 1);
    assert_int_equal(find("test.error", &count)->visits, THREADS * VISITS);
    failpoint_disarm_all();
}

#else

_Static_assert(!FAILPOINT_ERROR("test.constant"), "it is a constant: nothing is left in the code");

static void every_site_is_compiled_out(void **state) {
    assert_int_equal(failpoint_count(), 0);
    assert_int_equal(failpoint_arm("test.plain=kill"), MR_NOT_FOUND);
    visit();
    assert_false(visit_error());
    assert_false(visit_either(true) || visit_either(false));
    failpoint_disarm_all();
}

#endif

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "--visit") == 0) {
        visit();
        return 9;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_that_make_no_sense_are_refused),
#ifdef MR_FAILPOINTS
        cmocka_unit_test(every_site_is_found),
        cmocka_unit_test(visits_are_counted),
        cmocka_unit_test(error_comes_once_at_the_nth_visit),
        cmocka_unit_test(sites_of_one_name_are_armed_together),
        cmocka_unit_test(kill_and_exit_end_the_process),
        cmocka_unit_test(stop_stops_until_it_is_continued),
        cmocka_unit_test(the_environment_arms),
        cmocka_unit_test(one_visit_of_all_threads_is_the_nth),
#else
        cmocka_unit_test(every_site_is_compiled_out),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
