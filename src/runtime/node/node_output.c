/* node_output.c — see node_output.h. */
#include "runtime/node/node_output.h"

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
    node_output *output;
    outlet outlet;
} batch;

node_output *node_output_create(calls *calls, link_id link, node_answer_fn *answer, void *context) {
    node_output *output = XNEW(node_output, .calls = calls, .link = link, .answer = answer, .context = context);
    for (outlet i = 0; i < OUTLETS; i++) {
        output->outlets[i].last_size = SIZE_MAX;
        buffer_init(&output->outlets[i].waiting, OUTPUT_BYTES_MAX);
    }
    list_init(&output->answers);
    return output;
}

static bool is_sending(const node_output *output) {
    return output->outlets[OUTLET_OUT].sending || output->outlets[OUTLET_ERR].sending;
}

static void output_free(node_output *output) {
    for (list *at; (at = list_pop_front(&output->answers)) != NULL;) free(container_of(at, waiter, place));
    for (outlet i = 0; i < OUTLETS; i++) buffer_fini(&output->outlets[i].waiting);
    free(output);
}

void node_output_end(node_output *output) {
    output->link.v = 0;
    if (!is_sending(output)) output_free(output);
}

/* ---- Sending. */

static void send(node_output *output, outlet outlet);

static void batch_done(wire_call *call, const call_result *result) {
    batch *batch = container_of(call, struct batch, call);
    node_output *output = batch->output;
    outlet outlet = batch->outlet;
    wire_call_end(call);
    output->outlets[outlet].sending = false;
    if (output->link.v != 0)
        send(output, outlet);
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

/* Whole lines that fit into one message. */
static size_t batch_size(const buffer *waiting) {
    size_t size = waiting->size < CALL_PAYLOAD_MAX / 4 ? waiting->size : CALL_PAYLOAD_MAX / 4;
    while (size > 0 && waiting->data[size - 1] != '\n') size--;
    return size;
}

static bool is_empty(const node_output *output) {
    return !is_sending(output) && output->outlets[OUTLET_OUT].waiting.size == 0 &&
           output->outlets[OUTLET_ERR].waiting.size == 0;
}

static void send(node_output *output, outlet outlet) {
    node_outlet *from = &output->outlets[outlet];
    if (from->sending || output->link.v == 0) return;
    size_t size = batch_size(&from->waiting), room = 1 + 4 + size;
    if (size == 0) {
        if (is_empty(output)) answer_all(output);
        return;
    }
    batch *batch = xcalloc(1, sizeof *batch);
    *batch = (struct batch){.call = {.done = batch_done, .free = wire_call_free}, .output = output, .outlet = outlet};
    uint8_t *fields = xcalloc(1, room);
    writer writer = writer_of(fields, room);
    writer_u8(&writer, (uint8_t)outlet);
    writer_span32(&writer, span_of(from->waiting.data, size));
    wire_message message = {.fields = span_of(fields, room)};
    mr_status status = wire_ask(output->calls, output->link, CLIENT_PRINT, &message, &batch->call);
    free(fields);
    if (status != MR_OK) { /* no room: when there is, or not at all */
        free(batch);
        if (status != MR_BUSY) buffer_clear(&from->waiting);
        return;
    }
    from->sending = true;
    buffer_consume(&from->waiting, size);
}

void node_output_room(node_output *output) {
    for (outlet i = 0; i < OUTLETS; i++) send(output, i);
}

/* ---- Folding. */

static bool put(node_outlet *outlet, const node_output_source *source, const char *text, size_t size) {
    char prefix[OUTPUT_LABEL_MAX + 32];
    int length = snprintf(prefix, sizeof prefix, source->pid > 0 ? "(%.*s pid=%d) " : "(%.*s) ", OUTPUT_LABEL_MAX,
                          source->label, source->pid);
    if (buffer_reserve(&outlet->waiting, (size_t)length + size + 1) != MR_OK) return false;
    mr_status status = buffer_append(&outlet->waiting, prefix, (size_t)length);
    if (status == MR_OK) status = buffer_append(&outlet->waiting, text, size);
    if (status == MR_OK) status = buffer_append(&outlet->waiting, "\n", 1);
    return status == MR_OK;
}

__attribute__((format(printf, 3, 4))) static bool put_note(node_outlet *outlet, const node_output_source *source,
                                                           const char *format, ...) {
    char text[96];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return put(outlet, source, text, (size_t)length);
}

/* In the name of whoever said it last. */
static void put_repeats(node_outlet *outlet, const char *so_far) {
    node_output_source source = {.label = outlet->last_label, .pid = outlet->last_pid};
    if (outlet->repeats == 1)
        put_note(outlet, &source, "[the line above once more]");
    else
        put_note(outlet, &source, "[the line above %" PRIu64 " times more%s]", outlet->repeats, so_far);
}

static void say_repeats(node_outlet *outlet) {
    if (outlet->repeats > 0) put_repeats(outlet, "");
    outlet->repeats = 0;
}

/* What there is no room to say is said with the next. */
static void say_hidden(node_outlet *outlet, const node_output_source *source) {
    uint64_t count = outlet->hidden;
    if (count == 1 && put_note(outlet, source, "[1 line not shown; it is in the logs]")) outlet->hidden = 0;
    if (count > 1 && put_note(outlet, source, "[%" PRIu64 " lines not shown; they are in the logs]", count))
        outlet->hidden = 0;
}

static bool is_round(uint64_t number) { /* 10, 100, … */
    while (number >= 10 && number % 10 == 0) number /= 10;
    return number == 1;
}

/* True: this second has room for one more. */
static bool may_show(node_outlet *outlet, int64_t now_us) {
    if (now_us - outlet->mark_us >= 1000 * 1000 || now_us < outlet->mark_us) {
        outlet->mark_us = now_us;
        outlet->shown = 0;
    }
    return outlet->shown++ < OUTPUT_LINES_MAX;
}

static void keep_source(node_outlet *outlet, const node_output_source *source) {
    snprintf(outlet->last_label, sizeof outlet->last_label, "%s", source->label);
    outlet->last_pid = source->pid;
}

static void count_repeat(node_outlet *outlet, int64_t now_us, const node_output_source *source) {
    outlet->repeats++;
    keep_source(outlet, source);
    if (outlet->repeats >= 10 && is_round(outlet->repeats) && may_show(outlet, now_us)) put_repeats(outlet, " so far");
}

void node_output_line(node_output *output, int64_t now_us, const node_output_source *source, span line) {
    node_outlet *outlet = &output->outlets[source->outlet];
    if (output->link.v == 0) return;
    size_t size = line.size < OUTPUT_LINE_MAX ? line.size : OUTPUT_LINE_MAX;
    if (size == outlet->last_size && memcmp(line.data, outlet->last, size) == 0) {
        count_repeat(outlet, now_us, source);
    } else {
        say_repeats(outlet);
        if (!may_show(outlet, now_us)) {
            outlet->hidden++;
            return;
        }
        say_hidden(outlet, source);
        if (!put(outlet, source, (const char *)line.data, size)) outlet->hidden++;
        keep_source(outlet, source);
        memcpy(outlet->last, line.data, size);
        outlet->last_size = size;
    }
    send(output, source->outlet);
}

void node_output_drain(node_output *output, call_token token) {
    waiter *waiter = XNEW(struct waiter, .token = token);
    list_push_back(&output->answers, &waiter->place);
    for (outlet i = 0; i < OUTLETS; i++) {
        say_repeats(&output->outlets[i]);
        say_hidden(&output->outlets[i], &(node_output_source){.label = "node"});
    }
    node_output_room(output);
}
