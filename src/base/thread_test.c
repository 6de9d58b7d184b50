/* thread_test.c — a library thread blocks all signals, and its parent's mask is unchanged. */
#include "base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void *read_mask(void *argument) {
    pthread_sigmask(SIG_BLOCK, NULL, argument);
    return NULL;
}

static void signals_are_blocked_in_the_thread_only(void **state) {
    sigset_t before, after, inside;
    pthread_t thread;
    sigemptyset(&inside);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(thread_start(&thread, read_mask, &inside), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    const int signals[] = {SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        assert_int_equal(sigismember(&inside, signals[i]), 1);
        assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(signals_are_blocked_in_the_thread_only)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
