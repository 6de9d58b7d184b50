/* assert.h — assertions that stay on in release builds.
 *
 * MR_ASSERT stays on in release builds. It prints the expectation, its place and where to report it, then aborts.
 * Mistakes of the world (a peer, a file, a user's argument) are never asserted: it is a status. */
#pragma once

#define MR_ASSERT(condition) \
    (__builtin_expect(!!(condition), 1) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__, __func__))

/* Marks a line that is never reached. */
#define MR_UNREACHABLE() assert_failed("this line is never reached", __FILE__, __LINE__, __func__)

void assert_failed(const char *condition, const char *file, int line, const char *function)
    __attribute__((noreturn, cold));
