/* rpc_fuzz.c — a peer that sends arbitrary messages to a host that makes and answers calls meanwhile.
 *
 * The input is a list of steps: a byte that selects the step, then its parameters. For every input, each started call
 * ends once, memory for a body is written only while its call is open, and the host closes the link at most once. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "fuzz/fuzz.h"
#include "net/rpc/rpc.h"

enum { CALLS_MAX = 64, HEAD_MAX = 64, BODY_MAX = 32, TOKENS_MAX = 32 };

enum {
    STEP_CALL,
    STEP_CALL_TIMED,
    STEP_CANCEL,
    STEP_TIME,
    STEP_MESSAGE,
    STEP_BODY,
    STEP_ANSWER,
    STEP_LINK,
    STEP_ROOM,
    STEPS
};

typedef struct asked {
    rpc_call_id id;
    bool open;
    uint8_t place[BODY_MAX];
} asked;

typedef struct host {
    env env;
    virtual_clock clock;
    rpc *rpc;
    link_id link;
    bool closing, full;
    uint8_t head[HEAD_MAX];
    asked asked[CALLS_MAX];
    size_t asked_count;
    rpc_call_token tokens[TOKENS_MAX];
    size_t token_count;
    uint8_t request_body[BODY_MAX];
    const uint8_t *arriving; /* target of the body that is arriving */
} host;

/* ---- A transport that sends nothing. */

static mr_status slot_reserve(void *self, link_id link, size_t size, uint8_t **out) {
    host *host = self;
    MR_ASSERT(link.v == host->link.v && size <= HEAD_MAX);
    if (host->closing) return MR_CLOSED;
    if (host->full) return MR_BUSY;
    *out = host->head;
    return MR_OK;
}

static void slot_commit(void *self, link_id link, size_t size) { MR_ASSERT(!((host *)self)->closing); }

static void slot_close(void *self, link_id link) {
    host *host = self;
    MR_ASSERT(!host->closing);
    host->closing = true;
}

static void slot_discard(void *self, link_id link) { ((host *)self)->arriving = NULL; }

static const transport_ops ops = {
    .name = "nowhere", .reserve = slot_reserve, .commit = slot_commit, .close = slot_close, .discard = slot_discard};

/* ---- The host. */

static void on_request(void *context, const rpc_call_request *request) {
    host *host = context;
    if (host->token_count < TOKENS_MAX) host->tokens[host->token_count++] = request->token;
}

static void *on_body(void *context, link_id link, uint32_t method, span payload, uint64_t size) {
    return method % 2 == 0 ? ((host *)context)->request_body : NULL;
}

static void on_cancel(void *context, rpc_call_token token) {
    host *host = context;
    uint8_t *payload;
    MR_ASSERT(rpc_reply_begin(host->rpc, token, 0, &payload) == MR_CLOSED);
}

static const rpc_call_handlers handlers = {.on_request = on_request, .on_body = on_body, .on_cancel = on_cancel};

static void done(void *argument, rpc_call_id id, const rpc_call_result *result) {
    asked *asked = argument;
    MR_ASSERT(asked->open);
    asked->open = false;
}

static void *answer_body(void *argument, rpc_call_id id, span payload, uint64_t size) {
    asked *asked = argument;
    MR_ASSERT(asked->open);
    return payload.size % 4 == 3 ? NULL : asked->place;
}

static void start_call(host *host, const rpc_call_options *options) {
    uint8_t *payload;
    if (host->asked_count == CALLS_MAX) return;
    if (rpc_begin(host->rpc, host->link, 1, 4, &payload) != MR_OK) return;
    memcpy(payload, "ping", 4);
    asked *asked = &host->asked[host->asked_count++];
    asked->open = true;
    asked->id = rpc_commit(host->rpc, host->clock.now_us, host->link, 4, options, done, asked);
}

static void answer(host *host, uint8_t how) {
    if (host->token_count == 0) return;
    rpc_call_token token = host->tokens[how % host->token_count];
    uint8_t *payload;
    if (how % 2 == 0) {
        mr_status status = rpc_fail(host->rpc, token, MR_DENIED, "no");
        MR_ASSERT(status == MR_OK || status == MR_BUSY || status == MR_CLOSED);
    } else if (rpc_reply_begin(host->rpc, token, 2, &payload) == MR_OK) {
        memcpy(payload, "ok", 2);
        rpc_reply_commit(host->rpc, token, 2);
    }
}

static void close_link(host *host) {
    cause why;
    cause_set(&why, MR_IO, "reset");
    rpc_events.on_closed(host->rpc, host->link, &why);
    MR_ASSERT(rpc_open_count(host->rpc) == 0);
    host->closing = host->full = false;
    host->link.v++;
    rpc_events.on_open(host->rpc, host->link, &(peer){0});
}

/* ---- The peer. */

static void deliver(host *host, span head, span body) {
    message message = {.head = head, .body = body};
    rpc_events.on_message(host->rpc, host->link, &message);
}

static void deliver_with_body(host *host, span head, uint8_t how) {
    size_t size = 1 + how % BODY_MAX;
    uint8_t *place = rpc_events.on_body(host->rpc, host->link, head, size);
    MR_ASSERT(place != NULL);
    host->arriving = place == BODY_DISCARD ? NULL : place;
    if (how >= 128) { /* the body arrives later */
        host->clock.now_us += 50;
        rpc_tick(host->rpc, host->clock.now_us);
    }
    if (host->arriving != NULL) memset(place, how, size);
    span body = span_of(host->arriving, size);
    host->arriving = NULL;
    deliver(host, head, body);
}

static void step(host *host, reader *reader) {
    static const rpc_call_options timed = {
        .timeout_us = 100, .attempt_timeout_us = 30, .attempts_max = 3, .on_body = answer_body};
    uint8_t which = reader_u8(reader) % STEPS, how = 0;
    if (which != STEP_CALL) how = reader_u8(reader);
    if (reader->failed) return;
    if (which == STEP_CALL) start_call(host, NULL);
    if (which == STEP_CALL_TIMED) start_call(host, &timed);
    if (which == STEP_CANCEL && host->asked_count > 0) {
        const asked *asked = &host->asked[how % host->asked_count];
        bool was_open = asked->open;
        MR_ASSERT(rpc_cancel(host->rpc, asked->id) == (was_open ? MR_OK : MR_NOT_FOUND) && !asked->open);
    }
    if (which == STEP_TIME) {
        host->clock.now_us += how;
        rpc_tick(host->rpc, host->clock.now_us);
        MR_ASSERT(rpc_next_us(host->rpc) > host->clock.now_us);
    }
    if (which == STEP_ANSWER) answer(host, how);
    if (which == STEP_LINK) close_link(host);
    if (which == STEP_ROOM) {
        host->full = how % 2 == 0;
        if (!host->full) rpc_events.on_room(host->rpc, host->link);
    }
    if (which == STEP_MESSAGE || which == STEP_BODY) {
        uint8_t copy[HEAD_MAX];
        size_t size = reader_left(reader) < how % HEAD_MAX ? reader_left(reader) : how % HEAD_MAX;
        if (size != 0) memcpy(copy, reader_bytes(reader, size), size);
        if (which == STEP_MESSAGE)
            deliver(host, span_of(copy, size), (span){0});
        else
            deliver_with_body(host, span_of(copy, size), how);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    host *host = xcalloc(1, sizeof *host);
    host->clock.now_us = 1000;
    host->env = (env){.clock = clock_virtual(&host->clock), .transport = {&ops, host}};
    host->rpc = rpc_create(&host->env, &handlers, host);
    host->link.v = 1;
    rpc_events.on_open(host->rpc, host->link, &(peer){0});
    reader reader = reader_of(data, size);
    while (reader_left(&reader) > 0 && !reader.failed) step(host, &reader);
    size_t open = 0;
    for (size_t i = 0; i < host->asked_count; i++) open += host->asked[i].open;
    MR_ASSERT(open == rpc_open_count(host->rpc));
    rpc_destroy(host->rpc);
    for (size_t i = 0; i < host->asked_count; i++) MR_ASSERT(!host->asked[i].open);
    free(host);
    return 0;
}
