/* node_output.c — see node_output.h. */
#include "runtime/node_output.h"

#include <inttypes.h>
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

static void put_note(node_output *output, const node_output_source *source, uint64_t count, const char *what) {
    char text[96];
    int length = snprintf(text, sizeof text, "[%" PRIu64 " %s]", count, what);
    put(output, source, text, (size_t)length);
}

#define REPEATED "times the line above"
#define HIDDEN   "lines not shown; they are in the logs"

static void say_repeats(node_output *output, const node_output_source *source) {
    if (output->repeats > 0) put_note(output, source, output->repeats, REPEATED);
    output->repeats = 0;
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

void node_output_line(node_output *output, int64_t now_us, const node_output_source *source, span line) {
    if (output->link.v == 0) return;
    size_t size = line.size < OUTPUT_LINE_MAX ? line.size : OUTPUT_LINE_MAX;
    if (size == output->last_size && memcmp(line.data, output->last, size) == 0) {
        output->repeats++;
        if (output->repeats >= 10 && is_round(output->repeats) && may_show(output, now_us))
            put_note(output, source, output->repeats, REPEATED " so far");
    } else {
        say_repeats(output, source);
        if (!may_show(output, now_us)) {
            output->hidden++;
            return;
        }
        if (output->hidden > 0) put_note(output, source, output->hidden, HIDDEN);
        output->hidden = 0;
        if (!put(output, source, (const char *)line.data, size)) output->hidden = 1;
        memcpy(output->last, line.data, size);
        output->last_size = size;
    }
    send(output);
}

void node_output_drain(node_output *output, const node_output_source *source, call_token token) {
    say_repeats(output, source);
    if (output->hidden > 0) put_note(output, source, output->hidden, HIDDEN);
    output->hidden = 0;
    waiter *waiter = xcalloc(1, sizeof *waiter);
    waiter->token = token;
    list_push_back(&output->answers, &waiter->place);
    send(output);
}
