/* test_child.h — the one way for tests to run code in another process.
 *
 * A failed cmocka assertion in a forked child leaves the parent green. So a child asserts nothing: it returns a code,
 * and only the parent asserts, on what test_child_wait tells it. A child dies with its parent. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

typedef int test_child_fn(void *argument); /* 0: all is well; the value is the exit status, 0…125 */

pid_t test_child_start(test_child_fn *fn, void *argument);

/* Waits up to timeout_ms, then kills it. The exit status; -signal if a signal ended it; -1000 if it had to be killed.
 */
int test_child_wait(pid_t pid, int timeout_ms);

bool test_child_stops(pid_t pid); /* waits until a signal stops it; false: it has ended instead */

/* Both. */
int test_child_run(test_child_fn *fn, void *argument, int timeout_ms);

/* For children: `TEST_CHILD_CHECK(x)` returns 101 from test_child_fn after printing where. */
#define TEST_CHILD_CHECK(condition)                                                 \
    do {                                                                            \
        if (!(condition)) return test_child_failed(#condition, __FILE__, __LINE__); \
    } while (0)
int test_child_failed(const char *condition, const char *file, int line);
