/* log.c — see log.h. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"

enum {
    FRAME_MAX = 256, /* bytes around the message */
    MESSAGE_MAX = LOG_LINE_MAX - FRAME_MAX,
    MODULE_MAX = 64,
};

/* The only mutable state of base: a process has one stderr. */
_Atomic int log_level_now = LOG_WARN;
static _Atomic bool as_json;
static _Atomic int target_fd = STDERR_FILENO;

void log_set_level(log_level level) { atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed); }
void log_set_json(bool json) { atomic_store_explicit(&as_json, json, memory_order_relaxed); }
void log_set_fd(int fd) { atomic_store_explicit(&target_fd, fd, memory_order_relaxed); }

/* "../src/net/shm/broker.c" becomes "net/shm/broker". */
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

/* Escapes the message so that it stays on one line and contains no terminal control characters. A message that does not
 * fit is cut and marked. */
static void escape_message(const char *message, size_t length, bool json, char out[MESSAGE_MAX]) {
    static const char mark[] = "… (cut)";
    size_t taken, used = json_escape(span_of(message, length), json, (uint8_t *)out, MESSAGE_MAX - sizeof mark, &taken);
    out[used] = '\0';
    if (taken < length) strcpy(out + used, mark);
}

static void write_line(const char *line, size_t size) {
    int fd = atomic_load_explicit(&target_fd, memory_order_relaxed);
    (void)TEMP_FAILURE_RETRY(write(fd, line, size)); /* another failure cannot be reported */
}

void log_line(log_level level, const char *file, const char *format, ...) {
    static const char *const names[] = {"error", "warn", "info", "debug"};
    static const char *const shown[] = {"ERROR", "WARN ", "INFO ", "DEBUG"};
    int saved = errno;
    bool json = atomic_load_explicit(&as_json, memory_order_relaxed);
    char message[LOG_LINE_MAX], escaped[MESSAGE_MAX], line[LOG_LINE_MAX], module[MODULE_MAX], when[40];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    module_of(file, module, sizeof module);
    time_text(when, sizeof when);
    escape_message(message, strlen(message), json, escaped);
    int length = json ? snprintf(line, sizeof line,
                                 "{\"time\":\"%s\",\"level\":\"%s\",\"module\":\"%s\",\"pid\":%d,\"message\":\"%s\"}\n",
                                 when, names[level], module, (int)getpid(), escaped)
                      : snprintf(line, sizeof line, "%s %s %s: %s (pid %d)\n", when, shown[level], module, escaped,
                                 (int)getpid());
    write_line(line, (size_t)length);
    errno = saved;
}
