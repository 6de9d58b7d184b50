/* loopback.c — see loopback.h. */
#include "tests/support/loopback.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

link_id loopback_link(uint32_t pair, int end) { return (link_id){.v = 1 + 2 * pair + (uint32_t)end}; }
static uint32_t pair_of(link_id link) { return (link.v - 1) / 2; }
static int end_of(const loopback_end *end) { return (int)(end - end->loopback->ends); }

/* ---- The queue. */

static loopback_message *push(loopback_end *end, uint32_t pair, span head, span body) {
    if (end->count == end->capacity) {
        end->capacity = end->capacity == 0 ? 16 : 2 * end->capacity;
        end->queue = xrealloc(end->queue, end->capacity * sizeof *end->queue);
    }
    loopback_message *message = &end->queue[end->count++];
    *message = (loopback_message){.pair = pair, .head_size = head.size, .body_size = body.size};
    message->head = memcpy(xmalloc(head.size), head.data, head.size);
    if (body.size != 0) message->body = memcpy(xmalloc(body.size), body.data, body.size);
    return message;
}

static loopback_message take(loopback_end *end, size_t index) {
    MR_ASSERT(index < end->count);
    loopback_message message = end->queue[index];
    memmove(&end->queue[index], &end->queue[index + 1], (--end->count - index) * sizeof message);
    return message;
}

static void finish(loopback_message *message, mr_status status) {
    if (message->sent != NULL) message->sent(message->argument, status);
    free(message->head);
    free(message->body);
}

static void tell_room(loopback_end *end, uint32_t pair) {
    if (!end->wants_room || end->count >= end->room || end->loopback->state[pair] != LOOPBACK_OPEN) return;
    end->wants_room = false;
    end->events->on_room(end->context, loopback_link(pair, end_of(end)));
}

/* ---- Operations of the transport. */

static mr_status slot_open(void *self, const char *address, link_id *out) { return MR_INVALID; }

static void slot_close(void *self, link_id link) {
    loopback_end *end = self;
    if (end->loopback->state[pair_of(link)] == LOOPBACK_OPEN) end->loopback->state[pair_of(link)] = LOOPBACK_CLOSING;
}

static mr_status slot_reserve(void *self, link_id link, size_t size, uint8_t **out) {
    loopback_end *end = self;
    MR_ASSERT(end_of(end) == (int)((link.v - 1) % 2));
    if (size > MESSAGE_HEAD_MAX) return MR_TOO_LARGE;
    if (pair_of(link) >= end->loopback->pairs || end->loopback->state[pair_of(link)] != LOOPBACK_OPEN) return MR_CLOSED;
    if (end->count >= end->room) {
        end->wants_room = true;
        return MR_BUSY;
    }
    free(end->reserved);
    end->reserved = xmalloc(size + 1);
    memset(end->reserved, 0xa5, size + 1);
    end->reserved_size = size;
    end->reserved_pair = pair_of(link);
    end->reserves++;
    *out = end->reserved + 1;
    return MR_OK;
}

static void slot_commit_body(void *self, link_id link, size_t size, span body, body_sent_fn *sent, void *argument) {
    loopback_end *end = self;
    MR_ASSERT(end->reserved != NULL && end->reserved_pair == pair_of(link) && size <= end->reserved_size);
    loopback_message *message = push(end, pair_of(link), span_of(end->reserved + 1, size), body);
    message->sent = sent;
    message->argument = argument;
    free(end->reserved);
    end->reserved = NULL;
}

static void slot_commit(void *self, link_id link, size_t size) {
    slot_commit_body(self, link, size, (span){0}, NULL, NULL);
}

static void slot_discard(void *self, link_id link) {
    loopback_end *end = self, *other = &end->loopback->ends[1 - end_of(end)];
    for (size_t i = 0; i < other->count; i++) {
        loopback_message *message = &other->queue[i];
        if (message->pair != pair_of(link) || message->into == NULL || message->into == BODY_DISCARD) continue;
        message->into = BODY_DISCARD;
    }
    end->discards++;
}

static void slot_flush(void *self) {}

static const transport_ops ops = {
    .name = "loopback",
    .open = slot_open,
    .close = slot_close,
    .reserve = slot_reserve,
    .commit = slot_commit,
    .commit_body = slot_commit_body,
    .discard = slot_discard,
    .flush = slot_flush,
};

/* ---- Functions for the test. */

void loopback_init(loopback *loopback) {
    memset(loopback, 0, sizeof *loopback);
    for (int i = 0; i < 2; i++) {
        loopback->ends[i].loopback = loopback;
        loopback->ends[i].room = SIZE_MAX;
    }
}

void loopback_fini(loopback *loopback) {
    for (int i = 0; i < 2; i++) {
        loopback_end *end = &loopback->ends[i];
        while (end->count > 0) loopback_drop(loopback, i, 0);
        free(end->queue);
        free(end->reserved);
    }
}

transport loopback_transport(loopback *loopback, int end) {
    return (transport){.ops = &ops, .self = &loopback->ends[end]};
}

void loopback_listen(loopback *loopback, int end, const transport_events *events, void *context) {
    loopback->ends[end].events = events;
    loopback->ends[end].context = context;
}

uint32_t loopback_join(loopback *loopback) {
    uint32_t pair = loopback->pairs++;
    MR_ASSERT(pair < LOOPBACK_LINKS_MAX);
    loopback->state[pair] = LOOPBACK_OPEN;
    for (int i = 0; i < 2; i++) {
        peer peer = {.process = 1000 + (uint64_t)(1 - i), .name = "loopback"};
        loopback->ends[i].events->on_open(loopback->ends[i].context, loopback_link(pair, i), &peer);
    }
    return pair;
}

void loopback_break(loopback *loopback, uint32_t pair, mr_status status, const char *text) {
    loopback->state[pair] = LOOPBACK_GONE;
    cause why;
    cause_set(&why, status, "%s", text);
    for (int i = 0; i < 2; i++) {
        loopback_end *end = &loopback->ends[i];
        for (size_t at = 0; at < end->count;)
            if (end->queue[at].pair == pair)
                loopback_drop(loopback, i, at);
            else
                at++;
        end->events->on_closed(end->context, loopback_link(pair, i), &why);
    }
}

void loopback_inject(loopback *loopback, int from, uint32_t pair, span head, span body) {
    push(&loopback->ends[from], pair, head, body);
}

void loopback_drop(loopback *loopback, int from, size_t index) {
    loopback_message message = take(&loopback->ends[from], index);
    finish(&message, MR_CLOSED);
    tell_room(&loopback->ends[from], message.pair);
}

void loopback_double(loopback *loopback, int from, size_t index) {
    MR_ASSERT(index < loopback->ends[from].count);
    loopback_message message = loopback->ends[from].queue[index];
    push(&loopback->ends[from], message.pair, span_of(message.head, message.head_size),
         span_of(message.body, message.body_size));
}

void loopback_body_start(loopback *loopback, int from, size_t index) {
    MR_ASSERT(index < loopback->ends[from].count);
    loopback_message *message = &loopback->ends[from].queue[index];
    MR_ASSERT(message->body_size != 0 && message->into == NULL);
    loopback_end *to = &loopback->ends[1 - from];
    message->into = to->events->on_body(to->context, loopback_link(message->pair, 1 - from),
                                        span_of(message->head, message->head_size), message->body_size);
}

void loopback_deliver(loopback *loopback, int from, size_t index) {
    MR_ASSERT(index < loopback->ends[from].count);
    if (loopback->ends[from].queue[index].body_size != 0 && loopback->ends[from].queue[index].into == NULL)
        loopback_body_start(loopback, from, index);
    loopback_message message = take(&loopback->ends[from], index);
    if (message.body_size != 0 && message.into == NULL) { /* the receiver refused the body */
        finish(&message, MR_CLOSED);
        loopback_break(loopback, message.pair, MR_TOO_LARGE, "the body was refused");
        return;
    }
    struct message arrived = {.head = span_of(message.head, message.head_size)};
    if (message.body_size != 0) {
        if (message.into != BODY_DISCARD) memcpy(message.into, message.body, message.body_size);
        arrived.body = span_of(message.into == BODY_DISCARD ? NULL : message.into, message.body_size);
    }
    loopback_end *to = &loopback->ends[1 - from];
    to->events->on_message(to->context, loopback_link(message.pair, 1 - from), &arrived);
    finish(&message, MR_OK);
    tell_room(&loopback->ends[from], message.pair);
}

void loopback_run(loopback *loopback) {
    for (bool busy = true; busy;) {
        busy = false;
        for (int from = 0; from < 2; from++)
            while (loopback->ends[from].count > 0) {
                loopback_deliver(loopback, from, 0);
                busy = true;
            }
        for (uint32_t pair = 0; pair < loopback->pairs; pair++)
            if (loopback->state[pair] == LOOPBACK_CLOSING) {
                loopback_break(loopback, pair, MR_CLOSED, "closed on purpose");
                busy = true;
            }
    }
}
