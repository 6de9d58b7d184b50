/* child.h — the one way for tests to run code in another process.
 *
 * A failed cmocka assertion in a forked child leaves the parent green. So a child asserts nothing: it returns a code,
 * and only the parent asserts, on what child_wait tells it. A child dies with its parent. */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

typedef int child_fn(void *argument); /* 0: all is well; the value is the exit status, 0…125 */

pid_t child_start(child_fn *fn, void *argument);

/* Waits up to timeout_ms, then kills it. The exit status; -signal if a signal ended it; -1000 if it had to be killed.
 */
int child_wait(pid_t pid, int timeout_ms);

bool child_stops(pid_t pid); /* waits until a signal stops it; false: it has ended instead */

/* Both. */
int child_run(child_fn *fn, void *argument, int timeout_ms);

/* For children: `CHILD_CHECK(x)` returns 101 from child_fn after printing where. */
#define CHILD_CHECK(condition)                                                 \
    do {                                                                       \
        if (!(condition)) return child_failed(#condition, __FILE__, __LINE__); \
    } while (0)
int child_failed(const char *condition, const char *file, int line);
