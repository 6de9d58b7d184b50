/* assert.h — assertions that stay on in release builds.
 *
 * MR_ASSERT prints the condition, its place and where to report it, then aborts. Errors from outside (a peer, a file, a
 * user's argument) are never asserted: they are a status. */
#pragma once

#define MR_ASSERT(condition) \
    (__builtin_expect(!!(condition), 1) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__, __func__))

/* Marks a line that is never reached. */
#define MR_UNREACHABLE() assert_failed("this line is never reached", __FILE__, __LINE__, __func__)

void assert_failed(const char *condition, const char *file, int line, const char *function)
    __attribute__((noreturn, cold));
