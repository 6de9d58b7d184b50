/* error.c — see error.h. One text per thread, no allocation. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[ERROR_TEXT_MAX];

const char *mr_last_error(void) { return last_error; }

const char *mr_version(void) { return MR_VERSION; }

const char *mr_status_name(mr_status status) {
    switch (status) {
#define X(name, number, text) \
    case MR_##name: return #name;
        MR_STATUS_LIST(X)
#undef X
    }
    return "UNKNOWN";
}

const char *mr_status_text(mr_status status) {
    switch (status) {
#define X(name, number, text) \
    case MR_##name: return text;
        MR_STATUS_LIST(X)
#undef X
    }
    return "a status that this version does not know";
}

mr_status error_set(mr_status status, const char *format, ...) {
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    errno = saved;
    return status;
}

static mr_status status_of_errno(int number) {
    switch (number) {
    case ENOMEM:
    case ENOSPC: return MR_NOMEM;
    case EACCES:
    case EPERM: return MR_DENIED;
    default: return MR_IO;
    }
}

mr_status error_errno(const char *format, ...) {
    int saved = errno;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof last_error) {
        char text[128];
        snprintf(last_error + length, sizeof last_error - (size_t)length, ": %s", strerror_r(saved, text, sizeof text));
    }
    errno = saved;
    return status_of_errno(saved);
}

mr_status error_wrap(mr_status status, const char *format, ...) {
    int saved = errno;
    char inner[ERROR_TEXT_MAX];
    memcpy(inner, last_error, sizeof inner);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof last_error)
        snprintf(last_error + length, sizeof last_error - (size_t)length, ": %s", inner);
    errno = saved;
    return status;
}

void error_clear(void) { last_error[0] = '\0'; }
