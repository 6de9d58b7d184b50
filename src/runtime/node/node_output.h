/* node_output.h — output of workers to their driver: repeats folded, rate limited, in order per stream.
 *
 *   line ──► as the last one? counted ──► too many a second? counted ──► "(Counter pid=4711) line" ──► CLIENT_PRINT
 *
 * Each output stream is handled separately. A repeated line is shown once; the number of repeats is shown when another
 * line comes, and meanwhile at 10, 100, 1,000 … times. More than OUTPUT_LINES_MAX lines a second are not shown, and
 * their number is shown with the next displayed line; all lines are in the files (worker_log.h). One batch of a stream
 * is in flight at a time, and the queue behind it is bounded: a driver that does not read loses only its own lines.
 * Pure over `rpc`; time is an argument. */
#pragma once
#include "base/list.h"
#include "net/rpc/rpc.h"
#include "runtime/common/std_stream.h"

enum { OUTPUT_LINES_MAX = 1000, OUTPUT_LINE_MAX = 1024, OUTPUT_BYTES_MAX = 128 * 1024, OUTPUT_LABEL_MAX = 63 };

typedef void node_answer_fn(void *context, rpc_call_token token);

typedef struct node_std_stream {
    buffer waiting;  /* lines to be sent */
    bool sending;    /* a batch is in flight */
    int64_t mark_us; /* begin of the second that `shown` counts */
    uint32_t shown;  /* lines shown in that second */
    uint64_t hidden; /* lines not shown since the last displayed one */
    uint64_t repeats;
    char last[OUTPUT_LINE_MAX]; /* last displayed line, and the last source: */
    char last_label[OUTPUT_LABEL_MAX + 1];
    int last_pid;
    size_t last_size; /* SIZE_MAX: no line yet */
} node_std_stream;

typedef struct node_output {
    rpc *rpc;               /* borrowed */
    link_id link;           /* of the driver; v == 0: the driver is gone */
    list answers;           /* pending drain requests */
    node_answer_fn *answer; /* answers a drain request */
    void *context;
    node_std_stream streams[STD_STREAMS];
} node_output;

node_output *node_output_create(rpc *rpc, link_id link, node_answer_fn *answer, void *context);
void node_output_room(node_output *output); /* the link has room again */
void node_output_end(node_output *output); /* the driver is gone; frees the output, now or when no batch is in flight */

typedef struct node_output_source {
    const char *label; /* at most OUTPUT_LABEL_MAX bytes are shown */
    int pid;           /* 0: not shown */
    std_stream std_stream;
} node_output_source;

void node_output_line(node_output *output, int64_t now_us, const node_output_source *source, span line);
/* Answers the token, without a value, when the driver has answered for all output so far. */
void node_output_drain(node_output *output, rpc_call_token token);
