/* log.c — see log.h. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The one mutable state of base: a process has one stderr. */
_Atomic int log_level_now = LOG_WARN;
static _Atomic bool as_json;
static _Atomic int target_fd = STDERR_FILENO;

void log_set_level(log_level level) { atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed); }
void log_set_json(bool json) { atomic_store_explicit(&as_json, json, memory_order_relaxed); }
void log_set_fd(int fd) { atomic_store_explicit(&target_fd, fd, memory_order_relaxed); }

/* "../src/net/shm/hub.c" → "net/shm/hub" */
static void module_of(const char *file, char *out, size_t size) {
    const char *src = strstr(file, "src/");
    snprintf(out, size, "%s", src == NULL ? file : src + 4);
    char *dot = strrchr(out, '.');
    if (dot != NULL) *dot = '\0';
}

static void time_text(char *out, size_t size) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out + length, size - length, ".%03ldZ", now.tv_nsec / 1000000);
}

/* Control characters (and in JSON quotes and backslashes) are escaped, so a line stays a line. Returns the length. */
static size_t escape(const char *text, bool json, char *out, size_t size) {
    size_t used = 0;
    for (const char *at = text; *at != '\0' && used + 8 < size; at++) {
        unsigned char c = (unsigned char)*at;
        if (json && (c == '"' || c == '\\'))
            out[used++] = '\\', out[used++] = (char)c;
        else if (c == '\n')
            out[used++] = '\\', out[used++] = 'n';
        else if (c == '\t')
            out[used++] = '\\', out[used++] = 't';
        else if (c < 0x20 || c == 0x7f)
            used += (size_t)snprintf(out + used, size - used, "\\u%04x", c);
        else
            out[used++] = (char)c;
    }
    out[used] = '\0';
    return used;
}

void log_line(log_level level, const char *file, const char *format, ...) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    static const char *const shown[] = {"ERROR", "WARN ", "INFO ", "DEBUG"};
    int saved = errno;
    char message[LOG_LINE_MAX - 256], escaped[LOG_LINE_MAX - 200], line[LOG_LINE_MAX], module[64], when[40];
    va_list arguments;
    va_start(arguments, format);
    int wanted = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (wanted >= (int)sizeof message) strcpy(message + sizeof message - 9, " (cut)");
    module_of(file, module, sizeof module);
    time_text(when, sizeof when);
    escape(message, as_json, escaped, sizeof escaped);
    int length = as_json
                     ? snprintf(line, sizeof line,
                                "{\"time\":\"%s\",\"level\":\"%s\",\"module\":\"%s\",\"pid\":%d,\"message\":\"%s\"}\n",
                                when, names[level], module, (int)getpid(), escaped)
                     : snprintf(line, sizeof line, "%s %s %s: %s (pid %d)\n", when, shown[level], module, escaped,
                                (int)getpid());
    if (length >= (int)sizeof line) length = (int)sizeof line - 1;
    ssize_t written = write(target_fd, line, (size_t)length);
    (void)written; /* nobody is left to tell */
    errno = saved;
}
