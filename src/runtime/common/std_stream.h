/* std_stream.h — the two output streams of a process, stdout and stderr, kept apart from a worker's files
 * (worker_log.h) to the streams of its driver (node_output.h). */
#pragma once
#include <unistd.h>

/* on the wire: no number changes its meaning */
typedef enum std_stream { STD_STREAM_OUT, STD_STREAM_ERR, STD_STREAMS } std_stream;

static inline int std_stream_fd(std_stream std_stream) {
    return std_stream == STD_STREAM_OUT ? STDOUT_FILENO : STDERR_FILENO;
}
/* Suffix of the name of a worker's output file. */
static inline const char *std_stream_end(std_stream std_stream) {
    return std_stream == STD_STREAM_OUT ? ".out.log" : ".err.log";
}
