/* error.h — thread-local error text behind mr_last_error().
 *
 * A status says what kind of failure it is; the text says which file, which peer, which limit, and what to do. It is
 * written once, where the failure is born, and read with mr_last_error():
 *
 *     return error_set(MR_TOO_LARGE, "a frame of %zu bytes is over the limit of %zu", size, limit);
 */
#pragma once
#include "miniray/status.h"

enum { ERROR_TEXT_MAX = 512 }; /* longer texts are cut */

/* Keeps the text for this thread and gives the status back. Keeps errno. */
mr_status error_set(mr_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* MR_NOMEM for ENOMEM and ENOSPC, MR_DENIED for EACCES and EPERM, else MR_IO. */
mr_status error_status(int number);

/* As error_set, with ": <strerror(errno)>" appended and error_status(errno). */
mr_status error_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts "what: " in front of the present text, for a caller that knows more. Gives the status back. */
mr_status error_wrap(mr_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

void error_clear(void);
