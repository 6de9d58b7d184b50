/* error.h — thread-local error text behind mr_last_error().
 *
 * A status is the kind of a failure; the text names the file, the peer, the limit and the remedy. The text is written
 * once, where the failure occurs, and read with mr_last_error():
 *
 *     return error_set(MR_TOO_LARGE, "a frame of %zu bytes is over the limit of %zu", size, limit);
 */
#pragma once
#include "miniray/status.h"

enum { ERROR_TEXT_MAX = 512 }; /* longer texts are cut */

/* Stores the text for this thread and returns the status. errno is unchanged. */
mr_status error_set(mr_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* MR_NOMEM for ENOMEM and ENOSPC, MR_DENIED for EACCES and EPERM, else MR_IO. */
mr_status error_status(int number);

/* As error_set, with ": <strerror(errno)>" appended and error_status(errno). */
mr_status error_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prepends "what: " to the stored text, for a caller that can add context. Returns the status. */
mr_status error_wrap(mr_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

void error_clear(void);
