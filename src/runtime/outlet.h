/* outlet.h — the two output streams of a process, stdout and stderr, kept apart from a worker's files (worker_log.h) to
 * the streams of its driver (node_output.h). */
#pragma once
#include <unistd.h>

typedef enum outlet { OUTLET_OUT, OUTLET_ERR, OUTLETS } outlet; /* on the wire: no number changes its meaning */

static inline int outlet_fd(outlet outlet) { return outlet == OUTLET_OUT ? STDOUT_FILENO : STDERR_FILENO; }
/* How the name of a worker's file ends. */
static inline const char *outlet_end(outlet outlet) { return outlet == OUTLET_OUT ? ".out.log" : ".err.log"; }
