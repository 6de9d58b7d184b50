/* request_cause.h — why the requests of a worker wait, for the errors of timeouts: what the worker knows itself (a
 * stall that the scheduler has reported, processes that it cannot reach), and the ranks that it waits for, which the
 * scheduler knows. Tested by tests/ps_cause_test.c. */
#pragma once
#include "kv/client/kv_worker.h"
#include "miniray/admin.h"

enum { REQUEST_CAUSE_MAX = 360 };

typedef enum request_cause_kind {
    REQUEST_CAUSE_UNKNOWN, /* "" */
    REQUEST_CAUSE_WHOLE,   /* with the next step */
    REQUEST_CAUSE_PARTIAL, /* `miniray ps status` shows more */
} request_cause_kind;

/* Writes a sentence without a full stop: the cause, and what ends it. */
request_cause_kind request_cause_write(const kv_worker *worker, char out[REQUEST_CAUSE_MAX]);

/* Writes the ranks that have not begun this worker's step, with those that no process holds, if that holds the worker
 * up. `all`: also ranks without a process that have begun it, for a barrier. Unknown: there are none. */
request_cause_kind request_cause_ranks(const kv_worker *worker, const mr_ps_processes *processes, bool all,
                                       char out[REQUEST_CAUSE_MAX]);
