/* log.h — diagnostic log lines on stderr.
 *
 *     2026-11-15T08:00:00.123Z WARN  net/shm/broker: process 4711 went silent (pid 4711)
 *     {"time":"2026-11-15T08:00:00.123Z","level":"warn","module":"net/shm/broker","pid":4711,"message":"process …"}
 *
 * The module is the file's path without src/ and .c. A line is one write(2), so lines of several processes do not mix;
 * a message with line breaks has them escaped. An error is logged once, where it is finally handled: code that returns
 * a status does not log. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>

typedef enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG } log_level;

enum { LOG_LINE_MAX = 4096 }; /* longer lines are cut and marked */

/* Settings of the whole process, from any thread. The defaults are LOG_WARN, text, stderr. */
void log_set_level(log_level level);
void log_set_json(bool json);
void log_set_fd(int fd); /* borrowed */

extern _Atomic int log_level_now; /* read by the macro below, written by log_set_level */

/* The arguments are evaluated only if the line is written. errno and the thread's last error are unchanged. */
#define log_at(level, ...)                                                              \
    do {                                                                                \
        if ((int)(level) <= atomic_load_explicit(&log_level_now, memory_order_relaxed)) \
            log_line(level, __FILE__, __VA_ARGS__);                                     \
    } while (0)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

void log_line(log_level level, const char *file, const char *format, ...) __attribute__((format(printf, 3, 4)));
