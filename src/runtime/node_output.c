/* node_output.c — see node_output.h. */
#include "runtime/node_output.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/wire.h"

typedef struct waiter {
    list place;
    call_token token;
} waiter;

typedef struct batch { /* under way to the program */
    wire_call call;
    node_output *output; /* NULL: it has ended */
} batch;

node_output *node_output_create(calls *calls, link_id link, node_answer_fn *answer, void *context) {
    node_output *output = xcalloc(1, sizeof *output);
    *output = (node_output){.calls = calls, .link = link, .answer = answer, .context = context, .last_size = SIZE_MAX};
    buffer_init(&output->waiting, OUTPUT_BYTES_MAX);
    list_init(&output->answers);
    return output;
}

static void output_free(node_output *output) {
    for (list *at; (at = list_pop_front(&output->answers)) != NULL;) free(container_of(at, waiter, place));
    buffer_fini(&output->waiting);
    free(output);
}

void node_output_end(node_output *output) {
    output->link.v = 0;
    if (!output->sending) output_free(output);
}

/* ---- Sending. */

static void send(node_output *output);

static void batch_free(wire_call *call) { free(container_of(call, batch, call)); }

static void batch_done(wire_call *call, const call_result *result) {
    node_output *output = container_of(call, batch, call)->output;
    wire_call_end(call);
    output->sending = false;
    if (output->link.v == 0)
        output_free(output);
    else
        send(output);
}

static void answer_all(node_output *output) {
    for (list *at; (at = list_pop_front(&output->answers)) != NULL;) {
        waiter *waiter = container_of(at, struct waiter, place);
        output->answer(output->context, waiter->token);
        free(waiter);
    }
}

/* Whole lines that fit into one message. */
static size_t batch_size(const buffer *waiting) {
    size_t size = waiting->size < CALL_PAYLOAD_MAX / 4 ? waiting->size : CALL_PAYLOAD_MAX / 4;
    while (size > 0 && waiting->data[size - 1] != '\n') size--;
    return size;
}

static void send(node_output *output) {
    if (output->sending || output->link.v == 0) return;
    size_t size = batch_size(&output->waiting);
    if (size == 0) {
        answer_all(output);
        return;
    }
    batch *batch = xcalloc(1, sizeof *batch);
    *batch = (struct batch){.call = {.done = batch_done, .free = batch_free}, .output = output};
    uint8_t *fields = xcalloc(1, 4 + size);
    writer writer = writer_of(fields, 4 + size);
    writer_span32(&writer, span_of(output->waiting.data, size));
    wire_message message = {.fields = span_of(fields, 4 + size)};
    mr_status status = wire_ask(output->calls, output->link, CLIENT_PRINT, &message, &batch->call);
    free(fields);
    if (status != MR_OK) { /* no room: when there is, or not at all */
        free(batch);
        if (status != MR_BUSY) buffer_clear(&output->waiting);
        return;
    }
    output->sending = true;
    buffer_consume(&output->waiting, size);
}

void node_output_room(node_output *output) { send(output); }

/* ---- Folding. */

static bool put(node_output *output, const node_output_source *source, const char *text, size_t size) {
    char prefix[OUTPUT_LABEL_MAX + 32];
    int length = snprintf(prefix, sizeof prefix, source->pid > 0 ? "(%.*s pid=%d) " : "(%.*s) ", OUTPUT_LABEL_MAX,
                          source->label, source->pid);
    if (buffer_reserve(&output->waiting, (size_t)length + size + 1) != MR_OK) return false;
    mr_status status = buffer_append(&output->waiting, prefix, (size_t)length);
    if (status == MR_OK) status = buffer_append(&output->waiting, text, size);
    if (status == MR_OK) status = buffer_append(&output->waiting, "\n", 1);
    return status == MR_OK;
}

__attribute__((format(printf, 3, 4))) static bool put_note(node_output *output, const node_output_source *source,
                                                           const char *format, ...) {
    char text[96];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return put(output, source, text, (size_t)length);
}

/* In the name of whoever said it last. */
static void put_repeats(node_output *output, const char *so_far) {
    node_output_source source = {.label = output->last_label, .pid = output->last_pid};
    if (output->repeats == 1)
        put_note(output, &source, "[the line above once more]");
    else
        put_note(output, &source, "[the line above %" PRIu64 " times more%s]", output->repeats, so_far);
}

static void say_repeats(node_output *output) {
    if (output->repeats > 0) put_repeats(output, "");
    output->repeats = 0;
}

/* What there is no room to say is said with the next. */
static void say_hidden(node_output *output, const node_output_source *source) {
    uint64_t count = output->hidden;
    if (count == 1 && put_note(output, source, "[1 line not shown; it is in the logs]")) output->hidden = 0;
    if (count > 1 && put_note(output, source, "[%" PRIu64 " lines not shown; they are in the logs]", count))
        output->hidden = 0;
}

static bool is_round(uint64_t number) { /* 10, 100, … */
    while (number >= 10 && number % 10 == 0) number /= 10;
    return number == 1;
}

/* True: this second has room for one more. */
static bool may_show(node_output *output, int64_t now_us) {
    if (now_us - output->mark_us >= 1000 * 1000 || now_us < output->mark_us) {
        output->mark_us = now_us;
        output->shown = 0;
    }
    return output->shown++ < OUTPUT_LINES_MAX;
}

static void keep_source(node_output *output, const node_output_source *source) {
    snprintf(output->last_label, sizeof output->last_label, "%s", source->label);
    output->last_pid = source->pid;
}

void node_output_line(node_output *output, int64_t now_us, const node_output_source *source, span line) {
    if (output->link.v == 0) return;
    size_t size = line.size < OUTPUT_LINE_MAX ? line.size : OUTPUT_LINE_MAX;
    if (size == output->last_size && memcmp(line.data, output->last, size) == 0) {
        output->repeats++;
        keep_source(output, source);
        if (output->repeats >= 10 && is_round(output->repeats) && may_show(output, now_us))
            put_repeats(output, " so far");
    } else {
        say_repeats(output);
        if (!may_show(output, now_us)) {
            output->hidden++;
            return;
        }
        say_hidden(output, source);
        if (!put(output, source, (const char *)line.data, size)) output->hidden++;
        keep_source(output, source);
        memcpy(output->last, line.data, size);
        output->last_size = size;
    }
    send(output);
}

void node_output_drain(node_output *output, const node_output_source *source, call_token token) {
    say_repeats(output);
    say_hidden(output, source);
    waiter *waiter = xcalloc(1, sizeof *waiter);
    waiter->token = token;
    list_push_back(&output->answers, &waiter->place);
    send(output);
}
