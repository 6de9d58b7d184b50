/* futex_test.c — a wait on a changed word returns, a wait times out, and a wake reaches a waiter, also one in another
 * mapping of the word. */
#include "base/futex.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

enum { ROUNDS = 2000 };

static void a_word_that_changed_is_not_slept_on(void **state) {
    _Atomic uint32_t word = 7;
    futex_wait(&word, 6, -1, FUTEX_WITHIN); /* would never return */
    futex_wait(&word, 6, -1, FUTEX_ACROSS);
}

static void a_sleep_ends_in_time(void **state) {
    _Atomic uint32_t word = 0;
    const futex_reach reaches[] = {FUTEX_WITHIN, FUTEX_ACROSS};
    for (int i = 0; i < 2; i++) {
        int64_t start_us = clock_now_us(clock_real());
        while (clock_now_us(clock_real()) < start_us + 2000) futex_wait(&word, 0, 2000, reaches[i]);
        futex_wait(&word, 0, 0, reaches[i]);
        assert_true(clock_now_us(clock_real()) - start_us >= 2000);
    }
}

/* Two threads alternate: the word is even in the first thread's turn, odd in the other's. */
typedef struct turns {
    _Atomic uint32_t *word;
    futex_reach reach;
    uint32_t mine;
} turns;

static void *take_turns(void *argument) {
    const turns *turns = argument;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t now;
        while ((now = atomic_load(turns->word)) % 2 != turns->mine) futex_wait(turns->word, now, -1, turns->reach);
        atomic_store(turns->word, now + 1);
        futex_wake(turns->word, turns->reach);
    }
    return NULL;
}

static void both_take_all_turns(_Atomic uint32_t *here, _Atomic uint32_t *there, futex_reach reach) {
    turns mine = {here, reach, 0}, other = {there, reach, 1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_turns, &other), 0);
    take_turns(&mine);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(here), 2 * ROUNDS);
}

static void a_wake_reaches_the_sleeper(void **state) {
    _Atomic uint32_t word = 0;
    both_take_all_turns(&word, &word, FUTEX_WITHIN);
}

static void a_wake_reaches_a_sleeper_at_another_address(void **state) {
    int fd = memfd_create("futex-test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof(uint32_t)), 0);
    _Atomic uint32_t *maps[2];
    for (int i = 0; i < 2; i++) {
        maps[i] = mmap(NULL, sizeof *maps[i], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(maps[i] != MAP_FAILED);
    }
    both_take_all_turns(maps[0], maps[1], FUTEX_ACROSS);
    for (int i = 0; i < 2; i++) munmap(maps[i], sizeof *maps[i]);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_that_changed_is_not_slept_on),
        cmocka_unit_test(a_sleep_ends_in_time),
        cmocka_unit_test(a_wake_reaches_the_sleeper),
        cmocka_unit_test(a_wake_reaches_a_sleeper_at_another_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
