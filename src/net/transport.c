/* transport.c — see transport.h. */
#include "net/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void cause_set_list(cause *cause, mr_status status, const char *format, va_list arguments) {
    memset(cause, 0, sizeof *cause);
    cause->status = status;
    cause->exit_code = -1;
    vsnprintf(cause->text, sizeof cause->text, format, arguments);
}

void cause_set(cause *cause, mr_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    cause_set_list(cause, status, format, arguments);
    va_end(arguments);
}

typedef struct joined { /* pieces in one */
    body_sent_fn *sent;
    void *argument;
    uint8_t bytes[];
} joined;

static void joined_sent(void *argument, mr_status status) {
    joined *joined = argument;
    joined->sent(joined->argument, status);
    free(joined);
}

void transport_commit_pieces(transport transport, link_id link, size_t size, const span *pieces, size_t count,
                             body_sent_fn *sent, void *argument) {
    const transport_ops *ops = transport.ops;
    if (ops->commit_pieces != NULL) {
        ops->commit_pieces(transport.self, link, size, pieces, count, sent, argument);
        return;
    }
    if (count == 1) {
        ops->commit_body(transport.self, link, size, pieces[0], sent, argument);
        return;
    }
    size_t total = 0, at = 0;
    for (size_t i = 0; i < count; i++) total += pieces[i].size;
    void *memory;
    if (alloc_try_aligned(sizeof(void *), sizeof(joined) + total, &memory) != MR_OK) {
        sent(argument, MR_NOMEM);
        return;
    }
    joined *joined = memory;
    joined->sent = sent;
    joined->argument = argument;
    for (size_t i = 0; i < count; at += pieces[i++].size)
        if (pieces[i].size != 0) memcpy(joined->bytes + at, pieces[i].data, pieces[i].size);
    ops->commit_body(transport.self, link, size, span_of(joined->bytes, total), joined_sent, joined);
}
