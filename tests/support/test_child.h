/* test_child.h — runs code of tests in another process.
 *
 * A failed cmocka assertion in a forked child does not fail the parent. So a child asserts nothing: it returns a code,
 * and only the parent asserts, on the result of test_child_wait. A child dies with its parent. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

typedef int test_child_fn(void *argument); /* returns 0 for success; the value, 0…125, is the exit status */

pid_t test_child_start(test_child_fn *fn, void *argument);

/* Waits up to timeout_ms, then kills the child. Returns the exit status; -signal if a signal ended the child; -1000 if
 * this function killed the child. */
int test_child_wait(pid_t pid, int timeout_ms);

bool test_child_stops(pid_t pid); /* waits until a signal stops the child; false: the child has ended instead */

/* Starts a child, and waits for its end. */
int test_child_run(test_child_fn *fn, void *argument, int timeout_ms);

/* For children: `TEST_CHILD_CHECK(x)` returns 101 from test_child_fn after printing its location. */
#define TEST_CHILD_CHECK(condition)                                                 \
    do {                                                                            \
        if (!(condition)) return test_child_failed(#condition, __FILE__, __LINE__); \
    } while (0)
int test_child_failed(const char *condition, const char *file, int line);
