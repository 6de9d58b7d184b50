/* node_output.c — see node_output.h. */
#include "runtime/node/node_output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/refs/wire.h"

typedef struct waiter {
    list place;
    rpc_call_token token;
} waiter;

typedef struct batch { /* lines in flight to the driver */
    wire_call call;
    node_output *output;
    std_stream std_stream;
} batch;

node_output *node_output_create(rpc *rpc, link_id link, node_answer_fn *answer, void *context) {
    node_output *output = XNEW(node_output, .rpc = rpc, .link = link, .answer = answer, .context = context);
    for (std_stream i = 0; i < STD_STREAMS; i++) {
        output->streams[i].last_size = SIZE_MAX;
        buffer_init(&output->streams[i].waiting, OUTPUT_BYTES_MAX);
    }
    list_init(&output->answers);
    return output;
}

static bool is_sending(const node_output *output) {
    return output->streams[STD_STREAM_OUT].sending || output->streams[STD_STREAM_ERR].sending;
}

static void output_free(node_output *output) {
    for (list *at; (at = list_pop_front(&output->answers)) != NULL;) free(container_of(at, waiter, place));
    for (std_stream i = 0; i < STD_STREAMS; i++) buffer_fini(&output->streams[i].waiting);
    free(output);
}

void node_output_end(node_output *output) {
    output->link.v = 0;
    if (!is_sending(output)) output_free(output);
}

/* ---- Sending. */

static void send(node_output *output, std_stream std_stream);

static void batch_done(wire_call *call, const rpc_call_result *result) {
    batch *batch = container_of(call, struct batch, call);
    node_output *output = batch->output;
    std_stream std_stream = batch->std_stream;
    wire_call_end(call);
    output->streams[std_stream].sending = false;
    if (output->link.v != 0)
        send(output, std_stream);
    else if (!is_sending(output))
        output_free(output);
}

static void answer_all(node_output *output) {
    for (list *at; (at = list_pop_front(&output->answers)) != NULL;) {
        waiter *waiter = container_of(at, struct waiter, place);
        output->answer(output->context, waiter->token);
        free(waiter);
    }
}

/* Size of the whole lines that fit into one message. */
static size_t batch_size(const buffer *waiting) {
    size_t size = waiting->size < RPC_CALL_PAYLOAD_MAX / 4 ? waiting->size : RPC_CALL_PAYLOAD_MAX / 4;
    while (size > 0 && waiting->data[size - 1] != '\n') size--;
    return size;
}

static bool is_empty(const node_output *output) {
    return !is_sending(output) && output->streams[STD_STREAM_OUT].waiting.size == 0 &&
           output->streams[STD_STREAM_ERR].waiting.size == 0;
}

static void send(node_output *output, std_stream std_stream) {
    node_std_stream *from = &output->streams[std_stream];
    if (from->sending || output->link.v == 0) return;
    size_t size = batch_size(&from->waiting), room = 1 + 4 + size;
    if (size == 0) {
        if (is_empty(output)) answer_all(output);
        return;
    }
    batch *batch = XNEW(struct batch, .call = {.done = batch_done, .free = wire_call_free}, .output = output,
                        .std_stream = std_stream);
    uint8_t *fields = xcalloc(1, room);
    writer writer = writer_of(fields, room);
    writer_u8(&writer, (uint8_t)std_stream);
    writer_span32(&writer, span_of(from->waiting.data, size));
    wire_message message = {.fields = span_of(fields, room)};
    mr_status status = wire_ask(output->rpc, output->link, CLIENT_PRINT, &message, &batch->call);
    free(fields);
    if (status != MR_OK) { /* MR_BUSY: sent when the link has room; else dropped */
        free(batch);
        if (status != MR_BUSY) buffer_clear(&from->waiting);
        return;
    }
    from->sending = true;
    buffer_consume(&from->waiting, size);
}

void node_output_room(node_output *output) {
    for (std_stream i = 0; i < STD_STREAMS; i++) send(output, i);
}

/* ---- Folding. */

static bool put(node_std_stream *stream, const node_output_source *source, const char *text, size_t size) {
    char prefix[OUTPUT_LABEL_MAX + 32];
    int length = snprintf(prefix, sizeof prefix, source->pid > 0 ? "(%.*s pid=%d) " : "(%.*s) ", OUTPUT_LABEL_MAX,
                          source->label, source->pid);
    return buffer_reserve(&stream->waiting, (size_t)length + size + 1) == MR_OK &&
           buffer_append(&stream->waiting, prefix, (size_t)length) == MR_OK &&
           buffer_append(&stream->waiting, text, size) == MR_OK && buffer_append(&stream->waiting, "\n", 1) == MR_OK;
}

__attribute__((format(printf, 3, 4))) static bool put_note(node_std_stream *stream, const node_output_source *source,
                                                           const char *format, ...) {
    char text[96];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return put(stream, source, text, (size_t)length);
}

/* Shows the count of repeats, with the label of the last source. */
static void put_repeats(node_std_stream *stream, const char *so_far) {
    node_output_source source = {.label = stream->last_label, .pid = stream->last_pid};
    if (stream->repeats == 1)
        put_note(stream, &source, "[the line above once more]");
    else
        put_note(stream, &source, "[the line above %" PRIu64 " times more%s]", stream->repeats, so_far);
}

static void say_repeats(node_std_stream *stream) {
    if (stream->repeats > 0) put_repeats(stream, "");
    stream->repeats = 0;
}

/* Shows the count of hidden lines. If the buffer has no room, the count is shown before the next displayed line. */
static void say_hidden(node_std_stream *stream, const node_output_source *source) {
    uint64_t count = stream->hidden;
    if (count == 1 && put_note(stream, source, "[1 line not shown; it is in the logs]")) stream->hidden = 0;
    if (count > 1 && put_note(stream, source, "[%" PRIu64 " lines not shown; they are in the logs]", count))
        stream->hidden = 0;
}

static bool is_round(uint64_t number) { /* 1, 10, 100, … */
    while (number >= 10 && number % 10 == 0) number /= 10;
    return number == 1;
}

/* Counts one more line in this second; false: over the limit. */
static bool may_show(node_std_stream *stream, int64_t now_us) {
    if (now_us - stream->mark_us >= 1000 * 1000 || now_us < stream->mark_us) {
        stream->mark_us = now_us;
        stream->shown = 0;
    }
    return stream->shown++ < OUTPUT_LINES_MAX;
}

static void keep_source(node_std_stream *stream, const node_output_source *source) {
    snprintf(stream->last_label, sizeof stream->last_label, "%s", source->label);
    stream->last_pid = source->pid;
}

static void count_repeat(node_std_stream *stream, int64_t now_us, const node_output_source *source) {
    stream->repeats++;
    keep_source(stream, source);
    if (stream->repeats >= 10 && is_round(stream->repeats) && may_show(stream, now_us)) put_repeats(stream, " so far");
}

void node_output_line(node_output *output, int64_t now_us, const node_output_source *source, span line) {
    node_std_stream *stream = &output->streams[source->std_stream];
    if (output->link.v == 0) return;
    size_t size = line.size < OUTPUT_LINE_MAX ? line.size : OUTPUT_LINE_MAX;
    if (size == stream->last_size && memcmp(line.data, stream->last, size) == 0) {
        count_repeat(stream, now_us, source);
    } else {
        say_repeats(stream);
        if (!may_show(stream, now_us)) {
            stream->hidden++;
            return;
        }
        say_hidden(stream, source);
        if (!put(stream, source, (const char *)line.data, size)) stream->hidden++;
        keep_source(stream, source);
        memcpy(stream->last, line.data, size);
        stream->last_size = size;
    }
    send(output, source->std_stream);
}

void node_output_drain(node_output *output, rpc_call_token token) {
    waiter *waiter = XNEW(struct waiter, .token = token);
    list_push_back(&output->answers, &waiter->place);
    for (std_stream i = 0; i < STD_STREAMS; i++) {
        say_repeats(&output->streams[i]);
        say_hidden(&output->streams[i], &(node_output_source){.label = "node"});
    }
    node_output_room(output);
}
