/* error.c — see error.h. One text per thread, no allocation. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/elide.h"

static _Thread_local char last_error[ERROR_TEXT_MAX];

const char *mr_last_error(void) { return last_error; }

const char *mr_version(void) { return MR_VERSION; }

static const struct {
    const char *name, *text;
} statuses[] = {
#define X(name, number, text) [number] = {#name, text},
    MR_STATUS_LIST(X)
#undef X
};

static bool is_known(mr_status status) { return (unsigned)status < sizeof statuses / sizeof *statuses; }

const char *mr_status_name(mr_status status) { return is_known(status) ? statuses[status].name : "UNKNOWN"; }

const char *mr_status_text(mr_status status) {
    return is_known(status) ? statuses[status].text : "a status that this version does not know";
}

/* Stores "text: reason". When both are long, each gets half, without its middle (elide.h). The arguments may have been
 * made from the stored text, so callers pass copies. */
static void keep(const char *text, const char *reason) {
    size_t length = strlen(text);
    if (reason == NULL) {
        elide(text, length, last_error, sizeof last_error);
        return;
    }
    size_t room = sizeof last_error - sizeof ": ", half = room / 2, reason_length = strlen(reason);
    size_t reason_room = length < half ? room - length : half;
    size_t text_room = room - (reason_length < reason_room ? reason_length : reason_room);
    size_t used = elide(text, length, last_error, text_room + 1);
    memcpy(last_error + used, ": ", 2);
    elide(reason, reason_length, last_error + used + 2, sizeof last_error - used - 2);
}

/* Longer than the stored text, so that its end is known. */
#define FORMAT_TEXT(text, format)                    \
    char text[4 * ERROR_TEXT_MAX];                   \
    va_list arguments;                               \
    va_start(arguments, format);                     \
    vsnprintf(text, sizeof text, format, arguments); \
    va_end(arguments)

mr_status error_set(mr_status status, const char *format, ...) {
    if (strchr(format, '%') == NULL) { /* a constant text, as for a wait that timed out, which is no failure */
        keep(format, NULL);
        return status;
    }
    int saved = errno;
    FORMAT_TEXT(text, format);
    keep(text, NULL);
    errno = saved;
    return status;
}

mr_status error_status(int number) {
    switch (number) {
    case ENOMEM:
    case ENOSPC: return MR_NOMEM;
    case EACCES:
    case EPERM: return MR_DENIED;
    default: return MR_IO;
    }
}

/* Appends the exhausted resource, if it has a limit, and how to raise the limit. EAGAIN is the error of starting
 * processes and threads. */
static void name_limit(int number, char *text, size_t size) {
    static const struct {
        int number, resource;
        const char *format;
    } limits[] = {
        {EMFILE, RLIMIT_NOFILE, " (at most %llu; ulimit -Hn raises that)"},
        {ENOMEM, RLIMIT_AS, " (at most %llu bytes of address space; ulimit -v raises that)"},
        {EAGAIN, RLIMIT_NPROC, " (at most %llu processes and threads of this user; ulimit -u raises that)"},
    };
    size_t used = strlen(text);
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit limit;
        if (number != limits[i].number || getrlimit(limits[i].resource, &limit) != 0) continue;
        if (limit.rlim_cur == RLIM_INFINITY) return;
        snprintf(text + used, size - used, limits[i].format, (unsigned long long)limit.rlim_cur);
    }
}

mr_status error_errno(const char *format, ...) {
    int saved = errno;
    FORMAT_TEXT(text, format);
    char reason[160], room[128];
    const char *why = strerror_r(saved, room, sizeof room);
    snprintf(reason, sizeof reason, "%.100s", why);
    name_limit(saved, reason, sizeof reason);
    keep(text, reason);
    errno = saved;
    return error_status(saved);
}

mr_status error_wrap(mr_status status, const char *format, ...) {
    int saved = errno;
    FORMAT_TEXT(text, format);
    char inner[ERROR_TEXT_MAX];
    memcpy(inner, last_error, sizeof inner);
    keep(text, inner[0] == '\0' ? mr_status_text(status) : inner);
    errno = saved;
    return status;
}

void error_clear(void) { last_error[0] = '\0'; }
