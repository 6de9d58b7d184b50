/* event_loop_test.c — timers, idles, watches and wake-ups. */
#include "net/event_loop.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

typedef struct fixture {
    event_loop *loop;
    event_loop_timer *timer;
    event_loop_idle *idle, *other_idle;
    event_loop_watch *watch;
    int fds[2];
    int calls, other_calls;
    int64_t fired_us;
} fixture;

static bool looks_first; /* all tests run with and without polling */

static void setup(fixture *fixture) {
    memset(fixture, 0, sizeof *fixture);
    assert_int_equal(event_loop_create(&fixture->loop), MR_OK);
    if (looks_first) event_loop_look_first(fixture->loop);
}

static void on_timer(void *context) {
    fixture *fixture = context;
    fixture->calls++;
    fixture->fired_us = clock_now_us(clock_real());
    event_loop_stop(fixture->loop);
}

static void a_timer_is_never_early(void **state) {
    fixture fixture;
    setup(&fixture);
    fixture.timer = event_loop_timer_create(fixture.loop, on_timer, &fixture);
    static const int64_t delays_us[] = {0, 1, 700, 1000, 2500, 7300};
    for (size_t i = 0; i < sizeof delays_us / sizeof delays_us[0]; i++) {
        int64_t set_us = clock_now_us(clock_real());
        event_loop_timer_set(fixture.timer, delays_us[i]);
        event_loop_run(fixture.loop);
        assert_int_equal(fixture.calls, (int)i + 1);
        assert_true(fixture.fired_us - set_us >= delays_us[i]);
    }
    event_loop_timer_destroy(fixture.timer);
    event_loop_destroy(fixture.loop);
}

static void a_timer_that_is_off_does_not_fire(void **state) {
    fixture fixture;
    setup(&fixture);
    fixture.timer = event_loop_timer_create(fixture.loop, on_timer, &fixture);
    event_loop_timer *never = event_loop_timer_create(fixture.loop, on_timer, &fixture);
    event_loop_timer_set(never, INT64_MAX);
    event_loop_timer_set(fixture.timer, 1000);
    event_loop_timer_set(fixture.timer, -1);
    event_loop_run_once(fixture.loop, 5000);
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(fixture.calls, 0);
    event_loop_timer_destroy(never);
    event_loop_timer_destroy(fixture.timer);
    event_loop_destroy(fixture.loop);
}

static void destroy_timer(void *context) {
    fixture *fixture = context;
    fixture->calls++;
    event_loop_timer_destroy(fixture->timer);
    event_loop_stop(fixture->loop);
}

static void a_timer_may_end_itself(void **state) {
    fixture fixture;
    setup(&fixture);
    fixture.timer = event_loop_timer_create(fixture.loop, destroy_timer, &fixture);
    event_loop_timer_set(fixture.timer, 0);
    event_loop_run(fixture.loop);
    assert_int_equal(fixture.calls, 1);
    event_loop_destroy(fixture.loop); /* its close callback is still pending */
}

static void run_once_keeps_its_limit(void **state) {
    fixture fixture;
    setup(&fixture);
    int64_t start_us = clock_now_us(clock_real());
    event_loop_run_once(fixture.loop, 3000);
    int64_t waited_us = clock_now_us(clock_real()) - start_us;
    assert_true(waited_us >= 3000 && waited_us < 3000000);
    event_loop_run_once(fixture.loop, 0);
    event_loop_destroy(fixture.loop);
}

static void a_stop_before_the_run_ends_it(void **state) {
    fixture fixture;
    setup(&fixture);
    event_loop_stop(fixture.loop);
    event_loop_run(fixture.loop);
    event_loop_destroy(fixture.loop);
}

static void count(void *context) { ((fixture *)context)->calls++; }
static void count_other(void *context) { ((fixture *)context)->other_calls++; }

static void idles_run_before_the_wait_and_at_the_end(void **state) {
    fixture fixture;
    setup(&fixture);
    fixture.idle = event_loop_idle_add(fixture.loop, count, &fixture);
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(fixture.calls, 2);
    fixture.timer = event_loop_timer_create(fixture.loop, on_timer, &fixture);
    event_loop_timer_set(fixture.timer, 0);
    fixture.calls = 0;
    event_loop_run(fixture.loop);
    assert_true(fixture.calls >= 2); /* once for the timer, then for the idle */
    event_loop_idle_remove(fixture.idle);
    event_loop_timer_destroy(fixture.timer);
    event_loop_destroy(fixture.loop);
}

static void remove_both(void *context) {
    fixture *fixture = context;
    fixture->calls++;
    event_loop_idle_remove(fixture->idle);
    event_loop_idle_remove(fixture->other_idle);
}

static void an_idle_may_remove_itself_and_others(void **state) {
    fixture fixture;
    setup(&fixture);
    fixture.idle = event_loop_idle_add(fixture.loop, remove_both, &fixture);
    fixture.other_idle = event_loop_idle_add(fixture.loop, count_other, &fixture);
    event_loop_run_once(fixture.loop, 0);
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(fixture.calls, 1);
    assert_int_equal(fixture.other_calls, 0);
    event_loop_destroy(fixture.loop);
}

static void add_other(void *context) {
    fixture *fixture = context;
    if (fixture->calls++ == 0) fixture->other_idle = event_loop_idle_add(fixture->loop, count_other, fixture);
}

static void an_idle_added_by_an_idle_runs_too(void **state) {
    fixture fixture;
    setup(&fixture);
    fixture.idle = event_loop_idle_add(fixture.loop, add_other, &fixture);
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(fixture.other_calls, fixture.calls);
    event_loop_idle_remove(fixture.idle);
    event_loop_idle_remove(fixture.other_idle);
    event_loop_destroy(fixture.loop);
}

static void read_one(void *context) {
    fixture *fixture = context;
    char byte;
    if (read(fixture->fds[0], &byte, 1) == 1)
        fixture->calls++;
    else
        fixture->other_calls++; /* the other end was closed */
}

static void a_watch_tells_bytes_and_the_end(void **state) {
    fixture fixture;
    setup(&fixture);
    assert_int_equal(pipe(fixture.fds), 0);
    assert_int_equal(event_loop_watch_add(fixture.loop, fixture.fds[0], read_one, &fixture, &fixture.watch), MR_OK);
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(fixture.calls, 0);
    assert_int_equal(write(fixture.fds[1], "ab", 2), 2);
    event_loop_run_once(fixture.loop, 1000000);
    event_loop_run_once(fixture.loop, 1000000);
    assert_int_equal(fixture.calls, 2);
    close(fixture.fds[1]);
    event_loop_run_once(fixture.loop, 1000000);
    assert_int_equal(fixture.other_calls, 1);
    event_loop_watch_remove(fixture.watch);
    close(fixture.fds[0]);
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(fixture.other_calls, 1);
    event_loop_destroy(fixture.loop);
}

static void an_unwatchable_descriptor_is_refused(void **state) {
    fixture fixture;
    setup(&fixture);
    assert_int_equal(event_loop_watch_add(fixture.loop, -1, read_one, &fixture, &fixture.watch), MR_IO);
    assert_non_null(strstr(mr_last_error(), "cannot watch a file descriptor: "));
    event_loop_destroy(fixture.loop);
}

static void *wake_from_outside(void *argument) {
    event_loop_wake(argument);
    return NULL;
}

static void another_thread_ends_the_wait(void **state) {
    fixture fixture;
    setup(&fixture);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_from_outside, fixture.loop), 0);
    event_loop_run_once(fixture.loop, -1); /* never returns without the wake-up: there is nothing to wait for */
    assert_int_equal(pthread_join(thread, NULL), 0);
    event_loop_wake(fixture.loop); /* a wake-up before the wait is not lost */
    event_loop_run_once(fixture.loop, -1);
    event_loop_destroy(fixture.loop);
}

static void a_pause_ends_with_what_is_to_do(void **state) {
    fixture fixture;
    setup(&fixture);
    assert_int_equal(pipe(fixture.fds), 0);
    assert_int_equal(event_loop_watch_add(fixture.loop, fixture.fds[0], read_one, &fixture, &fixture.watch), MR_OK);
    assert_int_equal(event_loop_pause_us(fixture.loop), 0); /* libuv has not passed the watch to the kernel yet */
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(event_loop_pause_us(fixture.loop), -1);
    assert_int_equal(write(fixture.fds[1], "a", 1), 1);
    event_loop_pause(fixture.loop, -1);
    assert_int_equal(fixture.calls, 0);
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(fixture.calls, 1);
    event_loop_wake(fixture.loop);
    event_loop_pause(fixture.loop, -1);
    event_loop_pause(fixture.loop, 0);
    event_loop_watch_remove(fixture.watch);
    close(fixture.fds[0]);
    close(fixture.fds[1]);
    event_loop_destroy(fixture.loop);
}

static bool is_there(void *context) { return *(const bool *)context; }
static bool is_not_there(void *context) { return !*(const bool *)context; }
static void look_away(void *context) {}

static void a_pause_tells_whether_a_lookout_ended_it(void **state) {
    static const event_loop_lookout_ops ops = {is_there, is_not_there, look_away};
    fixture fixture;
    bool there = false;
    setup(&fixture);
    event_loop_lookout *lookout = event_loop_lookout_add(fixture.loop, &ops, &there);
    event_loop_run_once(fixture.loop, 0); /* passes the descriptor that wakes the loop to the kernel */
    event_loop_wake(fixture.loop);
    assert_false(event_loop_pause(fixture.loop, -1)); /* the loop slept */
    there = true;
    assert_true(event_loop_pause(fixture.loop, -1));
    assert_false(event_loop_pause(fixture.loop, 0)); /* a pause of 0 does not wait */
    event_loop_lookout_remove(lookout);
    event_loop_destroy(fixture.loop);
}

static void insist(void *context) {
    fixture *fixture = context;
    if (++fixture->calls < 200) event_loop_idle_again(fixture->loop);
    if (fixture->calls == 200) event_loop_wake(fixture->loop); /* from here on the loop may wait */
}

static void idles_that_want_to_run_again_do_before_the_wait(void **state) {
    fixture fixture;
    setup(&fixture);
    fixture.timer = event_loop_timer_create(fixture.loop, on_timer, &fixture);
    fixture.idle = event_loop_idle_add(fixture.loop, insist, &fixture);
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(event_loop_pause_us(fixture.loop), 0);
    while (fixture.calls < 200) event_loop_run_once(fixture.loop, -1); /* would not end if the loop waited */
    event_loop_run_once(fixture.loop, 0);
    assert_int_equal(event_loop_pause_us(fixture.loop), -1);
    fixture.calls = 0;
    event_loop_timer_set(fixture.timer, 1000); /* timers run between repeated idles */
    event_loop_run(fixture.loop);
    assert_true(fixture.fired_us != 0);
    event_loop_idle_remove(fixture.idle);
    event_loop_timer_destroy(fixture.timer);
    event_loop_destroy(fixture.loop);
}

static size_t open_fds(void) {
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    size_t count = 0;
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

static void a_loop_leaves_nothing_behind(void **state) {
    fixture fixture;
    setup(&fixture); /* libuv keeps a pipe for signals from the first loop on */
    event_loop_destroy(fixture.loop);
    size_t before = open_fds();
    for (int i = 0; i < 50; i++) {
        setup(&fixture);
        event_loop_destroy(fixture.loop);
    }
    assert_int_equal(open_fds(), before);
}

static void a_loop_that_was_stopped_late_closes(void **state) {
    fixture fixture;
    setup(&fixture);
    event_loop_stop(fixture.loop); /* the loop does not run, and will not */
    event_loop_destroy(fixture.loop);
}

static void errors_keep_their_text(void **state) {
    assert_int_equal(event_loop_status(0, "this"), MR_OK);
    assert_int_equal(event_loop_status(UV_EACCES, "that"), MR_DENIED);
    assert_int_equal(event_loop_status(UV_ECONNREFUSED, "that"), MR_IO);
    assert_string_equal(mr_last_error(), "that: connection refused");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_is_never_early),
        cmocka_unit_test(a_timer_that_is_off_does_not_fire),
        cmocka_unit_test(a_timer_may_end_itself),
        cmocka_unit_test(run_once_keeps_its_limit),
        cmocka_unit_test(a_stop_before_the_run_ends_it),
        cmocka_unit_test(idles_run_before_the_wait_and_at_the_end),
        cmocka_unit_test(an_idle_may_remove_itself_and_others),
        cmocka_unit_test(an_idle_added_by_an_idle_runs_too),
        cmocka_unit_test(a_watch_tells_bytes_and_the_end),
        cmocka_unit_test(an_unwatchable_descriptor_is_refused),
        cmocka_unit_test(another_thread_ends_the_wait),
        cmocka_unit_test(a_pause_ends_with_what_is_to_do),
        cmocka_unit_test(a_pause_tells_whether_a_lookout_ended_it),
        cmocka_unit_test(idles_that_want_to_run_again_do_before_the_wait),
        cmocka_unit_test(a_loop_leaves_nothing_behind),
        cmocka_unit_test(a_loop_that_was_stopped_late_closes),
        cmocka_unit_test(errors_keep_their_text),
    };
    int failed = cmocka_run_group_tests_name("loops that sleep", tests, NULL, NULL);
    looks_first = true;
    return failed + cmocka_run_group_tests_name("loops that look first", tests, NULL, NULL);
}
