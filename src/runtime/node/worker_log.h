/* worker_log.h — output files of the workers: two for each, in the session directory.
 *
 *   PID.out.log  what it wrote to its standard output     PID.err.log  what it wrote to its standard error
 *
 * A worker writes to its files itself: it never waits, nothing that it has written is lost when it dies, and it costs
 * the node no descriptor. The node is woken by inotify, reads what is new and hands it on line by line, those of one
 * file in their order. A file that grows beyond WORKER_LOG_BYTES_MAX is moved to NAME.log.1, over the one before, and
 * begins again, so each has at most about twice that; if a worker prints faster than the node cares to read, stretches
 * are left out of what is handed on. A file to which nothing was written does not stay. What the node itself writes to
 * WORKER_LOG_OWN in that folder, if it does, is capped likewise.
 *
 * A line of its output that begins with WORKER_LOG_NAME is not handed on: the worker says with it what it is called
 * from there on, such as the text that an object of another language has for itself.
 *
 * Threads  one: that of the loop. An idle run costs nothing. */
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
    const char *label; /* what it is called; "": whatever it runs is called (at `place`) */
    uint64_t place;    /* in its file: where the line ends */
} worker_log_source;

/* A line without its end, borrowed. */
typedef void worker_log_fn(void *context, const worker_log_source *source, span line);

/* `folder` is borrowed for its life. MR_IO: no inotify, or no descriptor. */
MR_MUST mr_status worker_logs_open(event_loop *loop, const char *folder, worker_log_fn *fn, void *context,
                                   worker_logs **out);
void worker_logs_close(worker_logs *logs); /* NULL is a no-op */

/* Before a worker is started: the descriptors for what it prints, the caller's to close; false: there are none (-1).
 * Afterwards: who it is, or pid 0 if it was not started. */
bool worker_logs_create(worker_logs *logs, int fds[STD_STREAMS]);
void worker_logs_started(worker_logs *logs, uint32_t program, int pid);
void worker_logs_made(worker_logs *logs, uint32_t program, int pid); /* one that has made its files itself */
void worker_logs_label(worker_logs *logs, int pid, const char *label);
void worker_logs_ended(worker_logs *logs, int pid); /* its last lines come before this returns */

/* Whatever is there comes before this returns, also of a line that has not ended. */
void worker_logs_drain(worker_logs *logs);
/* "last line but one | last line" of its complaints, or of its output if it had none; "": it printed nothing. */
void worker_logs_last(worker_logs *logs, int pid, char *out, size_t size);
