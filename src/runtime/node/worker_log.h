/* worker_log.h — output files of the workers: two for each, in the session directory.
 *
 *   PID.out.log  its standard output     PID.err.log  its standard error
 *
 * A worker writes to its files itself: the worker never waits, nothing written is lost when it dies, and the node needs
 * no descriptor for it. The node is woken by inotify, reads new bytes and passes them on line by line, in order for
 * each file. A file that grows beyond WORKER_LOG_BYTES_MAX is moved to NAME.log.1, over the one before, and begins
 * again, so each has at most about twice that; if a worker writes faster than the node reads, parts are left out of the
 * lines passed on. Empty files are removed. The node's own file WORKER_LOG_OWN in that directory, if any, is capped
 * likewise.
 *
 * A line that begins with WORKER_LOG_NAME is not passed on: it sets the worker's label for later lines, such as the
 * text form of an object of another language.
 *
 * Threads one: that of the loop. An idle session costs nothing. */
#pragma once
#include "base/bytes.h"
#include "net/event_loop.h"
#include "runtime/common/std_stream.h"

#define WORKER_LOG_OWN  "node.log"
#define WORKER_LOG_NAME "\x1ename:"

enum { WORKER_LOG_BYTES_MAX = 4 * 1024 * 1024 };

typedef struct worker_logs worker_logs;

typedef struct worker_log_source {
    uint32_t program;
    int pid;
    std_stream std_stream;
    const char *label; /* "": use the name of the body that runs (at `place`) */
    uint64_t place;    /* position of the end of the line in its file */
} worker_log_source;

/* A line without its end, borrowed. */
typedef void worker_log_fn(void *context, const worker_log_source *source, span line);

/* `folder` is borrowed until worker_logs_close. MR_IO: no inotify, or no descriptor. */
MR_MUST mr_status worker_logs_open(event_loop *loop, const char *folder, worker_log_fn *fn, void *context,
                                   worker_logs **out);
void worker_logs_close(worker_logs *logs); /* NULL is a no-op */

/* Call worker_logs_create before a worker is started: it returns descriptors for the output, which the caller closes,
 * or false and -1. Call worker_logs_started afterwards, with the pid, or with 0 if the worker was not started. */
bool worker_logs_create(worker_logs *logs, int fds[STD_STREAMS]);
void worker_logs_started(worker_logs *logs, uint32_t program, int pid);
void worker_logs_made(worker_logs *logs, uint32_t program, int pid); /* a worker that has created its files itself */
void worker_logs_label(worker_logs *logs, int pid, const char *label);
void worker_logs_ended(worker_logs *logs, int pid); /* passes on the last lines before returning */

/* Passes on all output so far before returning, including an unfinished line. */
void worker_logs_drain(worker_logs *logs);
/* Last lines of the worker's stderr, or of its stdout if stderr is empty: "last line but one | last line"; "": no
 * output. */
void worker_logs_last(worker_logs *logs, int pid, char *out, size_t size);
