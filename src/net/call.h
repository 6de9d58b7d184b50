/* call.h — requests and responses over a transport.
 *
 * Pure: no I/O of its own, no threads, no clock but `now_us`. The host gives it a transport, hands it that transport's
 * events, and calls calls_tick when calls_next_us comes. One object serves both sides: it makes calls and answers them.
 *
 *   started ──► waiting for the answer ──► done, exactly once, with one of:
 *                 answer came              MR_OK or the status the handler gave
 *                 deadline passed          MR_TIMEOUT
 *                 calls_cancel             MR_CANCELLED (the other side is told)
 *                 link closed              the cause's status
 *
 * Promises  Every call that was started ends, once. A handler runs at most once for each (call, attempt), however often
 *           the network delivers it. A call asks again (attempt + 1) only if its options say so. The budget that is
 * left travels with the request, and a request whose budget is gone is not run. Bounds    At most CALL_WINDOW calls of
 * one link are open at a time (MR_BUSY beyond), so what the answering side remembers to recognise repeats is one small
 * record per place in the window. */
#pragma once
#include "net/env.h"

enum { CALL_WINDOW = 4096, CALL_ATTEMPTS_MAX = 1000 };

typedef struct call_id { /* unique within one `calls` object; v == 0: none */
    uint64_t v;
} call_id;

typedef struct calls calls;

/* ---- Asking. */

typedef struct call_options {
    int64_t timeout_us;         /* for the whole call; <= 0: no deadline */
    int64_t attempt_timeout_us; /* ask again after this long without an answer; <= 0: never */
    int attempts_max;           /* 0 and 1: ask once. More: the payload is copied and kept until the call ends */
} call_options;

typedef struct call_result { /* borrowed for the duration of call_done_fn */
    mr_status status;
    span payload; /* the answer; for a failure its text */
    span body;
    const cause *why; /* NULL unless the link closed */
} call_result;

typedef void call_done_fn(void *argument, call_id id, const call_result *result);

/* Two steps, so that the payload is written straight into the transport's memory: begin gives `size` bytes at *payload,
 * commit sends them. Nothing else may be sent on that link in between. MR_BUSY: the window or the link is full. */
MR_MUST mr_status calls_begin(calls *calls, link_id link, uint32_t method, size_t size, uint8_t **payload);
call_id calls_commit(calls *calls, int64_t now_us, link_id link, size_t size, const call_options *options,
                     call_done_fn *done, void *argument);
/* The same with a body, which is borrowed until done is called. A call with a body asks once. */
call_id calls_commit_body(calls *calls, int64_t now_us, link_id link, size_t size, span body,
                          const call_options *options, call_done_fn *done, void *argument);

/* Ends the call with MR_CANCELLED, before this returns. MR_NOT_FOUND: it has ended already. */
mr_status calls_cancel(calls *calls, call_id id);

/* ---- Answering. */

typedef struct call_token { /* names one request that waits for its answer; may be copied and kept */
    link_id link;
    uint32_t attempt;
    uint64_t number;
} call_token;

typedef struct call_request { /* borrowed for the duration of the handler */
    call_token token;
    uint32_t method;
    int64_t deadline_us; /* on this side's clock; CLOCK_NEVER_US: none */
    span payload, body;
} call_request;

typedef struct call_handlers {
    void (*on_request)(void *context, const call_request *request);                /* answer now or later, once */
    void (*on_cancel)(void *context, call_token token);                            /* the caller gave up; may be NULL */
    void *(*on_body)(void *context, uint32_t method, span payload, uint64_t size); /* as transport_events.on_body */
    void (*on_link_open)(void *context, link_id link, const peer *peer);           /* may be NULL */
    void (*on_link_closed)(void *context, link_id link,
                           const cause *why);     /* after all its calls were ended; may be NULL */
    void (*on_room)(void *context, link_id link); /* may be NULL */
} call_handlers;

/* MR_CLOSED: the link is gone or the request was answered or cancelled; the answer goes nowhere, which is no fault. */
MR_MUST mr_status calls_reply_begin(calls *calls, call_token token, size_t size, uint8_t **payload);
void calls_reply_commit(calls *calls, call_token token, size_t size);
void calls_reply_commit_body(calls *calls, call_token token, size_t size, span body, body_sent_fn *sent,
                             void *argument);
MR_MUST mr_status calls_fail(calls *calls, call_token token, mr_status status, const char *text);

/* ---- Life. */

calls *calls_create(const env *env, const call_handlers *handlers, void *context); /* both borrowed for its life */
void calls_destroy(calls *calls); /* ends every open call with MR_CLOSED */

extern const transport_events calls_events; /* for the transport; the context is the calls object */

int64_t
calls_next_us(const calls *calls); /* when calls_tick has something to do; CLOCK_NEVER_US: not before an event */
void calls_tick(calls *calls, int64_t now_us);
size_t calls_open_count(const calls *calls);

/* Switches that make the simulator prove that each mechanism is needed. Never set outside it. */
typedef struct call_mutations {
    bool no_duplicate_filter, no_deadline;
} call_mutations;
void calls_mutate(calls *calls, call_mutations mutations);
