/* clock_test.c — real and virtual clocks, and deadlines. */
#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/test_child.h"

static void real_time_goes_on(void **state) {
    clock_source clock = clock_real();
    int64_t before_us = clock_now_us(clock), before_ns = clock_ns();
    for (int i = 0; i < 1000; i++) {
        int64_t now_us = clock_now_us(clock), now_ns = clock_ns();
        assert_true(now_us >= before_us && now_ns >= before_ns);
        before_us = now_us, before_ns = now_ns;
    }
    while (clock_ns() == before_ns) continue;
    assert_true(clock_wall_us(clock) / 1000000 >= (int64_t)time(NULL) - 60);
    assert_true(clock_wall_us(clock) / 1000000 <= (int64_t)time(NULL) + 60);
    assert_true(clock_ns() / 1000 - clock_now_us(clock) < 60000000); /* the same clock in two units */
    assert_true(clock_now_us(clock) - clock_ns() / 1000 < 60000000);
}

/* Over at least 20 ms the ticks agree with the clock. An interruption between the two reads spoils a measurement but
 * never makes a wrong rate look right, so one good measurement of many suffices. */
static void ticks_tell_the_time(void **state) {
    double rate = clock_ticks_per_us();
    assert_true(rate > 0 && rate == clock_ticks_per_us());
    for (int tries = 0;; tries++) {
        assert_true(tries < 50);
        int64_t start_ns = clock_ns();
        uint64_t start = clock_ticks();
        while (clock_ns() - start_ns < 20000000) continue;
        double by_ticks = (double)(clock_ticks() - start) / rate, by_clock = (double)(clock_ns() - start_ns) / 1000;
        if (by_ticks > 0.9 * by_clock && by_ticks < 1.1 * by_clock) return;
    }
}

static void virtual_time_stands_until_it_is_moved(void **state) {
    virtual_clock virtual = {.now_us = 100, .wall_offset_us = 5000};
    clock_source clock = clock_virtual(&virtual);
    assert_int_equal(clock_now_us(clock), 100);
    assert_int_equal(clock_wall_us(clock), 5100);
    virtual_clock_advance(&virtual, 100);
    virtual_clock_advance(&virtual, 250);
    assert_int_equal(clock_now_us(clock), 250);
    virtual.wall_offset_us -= 6000; /* the system's wall clock is set */
    assert_int_equal(clock_now_us(clock), 250);
    assert_int_equal(clock_wall_us(clock), -750);
}

static int quiet_fd;

static int goes_back(void *argument) {
    dup2(quiet_fd, STDERR_FILENO);
    virtual_clock_advance(argument, 99);
    return 0;
}

static void virtual_time_never_goes_back(void **state) {
    virtual_clock virtual = {.now_us = 100};
    quiet_fd = memfd_create("stderr", MFD_CLOEXEC);
    assert_int_equal(test_child_run(goes_back, &virtual, 60000), -SIGABRT);
    close(quiet_fd);
}

static void deadlines_do_not_overflow(void **state) {
    assert_int_equal(clock_deadline_us(100, 0), 100);
    assert_int_equal(clock_deadline_us(100, 20), 120);
    assert_int_equal(clock_deadline_us(-100, 20), -80);
    assert_int_equal(clock_deadline_us(100, -1), CLOCK_NEVER_US);
    assert_int_equal(clock_deadline_us(100, INT64_MIN), CLOCK_NEVER_US);
    assert_int_equal(clock_deadline_us(100, INT64_MAX), CLOCK_NEVER_US);
    assert_int_equal(clock_deadline_us(CLOCK_NEVER_US, 1), CLOCK_NEVER_US);
    assert_int_equal(clock_deadline_us(CLOCK_NEVER_US - 5, 5), CLOCK_NEVER_US);
    assert_int_equal(clock_deadline_us(CLOCK_NEVER_US - 5, 4), CLOCK_NEVER_US - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_time_goes_on),
        cmocka_unit_test(ticks_tell_the_time),
        cmocka_unit_test(virtual_time_stands_until_it_is_moved),
        cmocka_unit_test(virtual_time_never_goes_back),
        cmocka_unit_test(deadlines_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
