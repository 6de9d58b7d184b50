/* node_output.h — output of workers on its way to their driver: repeats folded, rate limited, in order per stream.
 *
 *   line ──► as the last one? counted ──► too many a second? counted ──► "(Counter pid=4711) line" ──► CLIENT_PRINT
 *
 * All of this is done for each outlet by itself. A line that comes again is shown once; how often it came again is said
 * when another one comes, and meanwhile at 10, 100, 1,000 … times. More than OUTPUT_LINES_MAX lines a second are not
 * shown, and how many they were is said with the next one that is; they are all in the files (worker_log.h). One batch
 * of an outlet is under way at a time, and what waits behind it is bounded: a program that does not read costs nothing
 * but its own lines. Pure over `rpc`; time comes in. */
#pragma once
#include "base/list.h"
#include "net/rpc/rpc.h"
#include "runtime/common/std_stream.h"

enum { OUTPUT_LINES_MAX = 1000, OUTPUT_LINE_MAX = 1024, OUTPUT_BYTES_MAX = 128 * 1024, OUTPUT_LABEL_MAX = 63 };

typedef void node_answer_fn(void *context, rpc_call_token token);

typedef struct node_std_stream {
    buffer waiting;  /* to be sent */
    bool sending;    /* a batch is under way */
    int64_t mark_us; /* the second that is counted began */
    uint32_t shown;  /* in it */
    uint64_t hidden; /* lines since the last that was shown */
    uint64_t repeats;
    char last[OUTPUT_LINE_MAX]; /* who said it last: */
    char last_label[OUTPUT_LABEL_MAX + 1];
    int last_pid;
    size_t last_size; /* SIZE_MAX: there was none */
} node_std_stream;

typedef struct node_output {
    rpc *rpc;               /* borrowed */
    link_id link;           /* of the program; v == 0: nobody wants it */
    list answers;           /* of who wants to know when all is shown */
    node_answer_fn *answer; /* how they are told */
    void *context;
    node_std_stream streams[STD_STREAMS];
} node_output;

node_output *node_output_create(rpc *rpc, link_id link, node_answer_fn *answer, void *context);
void node_output_room(node_output *output); /* the link has room again */
void node_output_end(node_output *output);  /* its program is gone; frees it, now or when nothing is under way */

typedef struct node_output_source {
    const char *label; /* at most OUTPUT_LABEL_MAX bytes of it are shown */
    int pid;           /* 0: not shown */
    std_stream std_stream;
} node_output_source;

void node_output_line(node_output *output, int64_t now_us, const node_output_source *source, span line);
/* Answers the token with nothing when all that has come so far was shown. */
void node_output_drain(node_output *output, rpc_call_token token);
