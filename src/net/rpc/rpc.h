/* rpc.h — RPC: requests and responses over a transport.
 *
 * Pure: no I/O of its own, no threads, no clock but `now_us` and the env's. The host provides a transport, passes that
 * transport's events on, and calls rpc_tick at rpc_next_us. One object serves both sides: it makes and answers calls.
 *
 *   started ──► waiting for the answer ──► done, exactly once, with one of:
 *                 answer arrived           MR_OK or the handler's status
 *                 deadline passed          MR_TIMEOUT (also: the last attempt stayed unanswered)
 *                 rpc_cancel               MR_CANCELLED (the other side is notified)
 *                 link closed              the cause's status
 *
 * Promises  Every started call ends exactly once, and not before rpc_commit has returned. A handler runs at most once
 *           for each (call, attempt), however often the network delivers it. A call is retried (attempt + 1) only if
 *           its options request that. A request carries its remaining budget; a request without budget is not run.
 * Bounds    At most RPC_CALL_WINDOW calls of one link are open at a time (MR_BUSY beyond). Each takes a place; a call
 *           number combines a place and its use count, so the answering side detects repeats with one small record per
 *           place, and a long call does not delay others. Both sides' tables grow with the places used.
 * Peers     are not trusted. A message that no correct peer sends (too short, unknown kind, an answer to something that
 *           was never asked) ends all calls of the link with MR_CORRUPT and closes it. Effects of a lossy network
 *           (duplicates, responses to calls that have ended, cancellations of unknown calls) are counted and dropped.
 * Callbacks may start, answer and cancel calls and open and close links; only rpc_destroy is forbidden in them. */
#pragma once
#include "net/env.h"

enum {
    RPC_CALL_WINDOW = 4096,
    RPC_CALL_ATTEMPTS_MAX = 1000,
    RPC_CALL_OVERHEAD = 24, /* bytes of a message's head used by the RPC header */
    RPC_CALL_PAYLOAD_MAX = MESSAGE_HEAD_MAX - RPC_CALL_OVERHEAD,
    RPC_CALL_SMALL_WORDS = 320,
    RPC_CALL_TEXT_MAX = 1024,             /* longer failure texts are cut */
    RPC_CALL_KEPT_MAX = 64 * 1024 * 1024, /* bytes of payloads that one `rpc` object keeps for retries */
};

typedef struct rpc_call_id { /* unique within one `rpc` object; number == 0: none */
    uint64_t number;
    link_id link;
} rpc_call_id;

typedef struct rpc rpc;

/* ---- Calls. */

typedef struct rpc_call_result { /* borrowed for the duration of rpc_call_done_fn */
    mr_status status;
    span payload;     /* the answer; for a failure, its text */
    span body;        /* in the memory of rpc_call_options.on_body */
    const cause *why; /* NULL unless the call was lost with its link or by rpc_destroy */
} rpc_call_result;

typedef void rpc_call_done_fn(void *argument, rpc_call_id id, const rpc_call_result *result);

/* Returns memory for the answer's body: `size` bytes that stay valid until done is called. `argument` is that of done.
 * NULL: not wanted; the body is discarded and the call ends with MR_TOO_LARGE. */
typedef void *rpc_call_body_fn(void *argument, rpc_call_id id, span payload, uint64_t size);

typedef struct rpc_call_options { /* NULL instead of options: all zero */
    int64_t timeout_us;           /* for the whole call; <= 0: no deadline */
    int64_t attempt_timeout_us;   /* retry after this time without an answer; <= 0: never */
    int attempts_max;             /* 0 and 1: no retry. More: the payload is kept for retries;
                                               without memory for the copy (RPC_CALL_KEPT_MAX) no retry */
    rpc_call_body_fn *on_body;    /* NULL: an answer with a body ends the call with MR_TOO_LARGE */
} rpc_call_options;

/* A call takes two steps, so that the payload is written directly into the transport's memory: begin returns `size`
 * bytes at *payload, commit sends them (`size` may be smaller then). In between nothing else may be sent on the link
 * and no event may occur; a begun call that is not committed is not started. MR_BUSY: the window or the link is full,
 * on_room follows. MR_CLOSED: the link does not exist or is still opening. MR_TOO_LARGE, MR_NOMEM. */
MR_MUST mr_status rpc_begin(rpc *rpc, link_id link, uint32_t method, size_t size, uint8_t **payload);
/* now_us is read only if the options contain a time; otherwise callers may pass 0. */
rpc_call_id rpc_commit(rpc *rpc, int64_t now_us, link_id link, size_t size, const rpc_call_options *options,
                       rpc_call_done_fn *done, void *argument);
/* As rpc_commit, with a body, which is borrowed until sent(argument) is called: exactly once, before or after done (a
 * deadline does not wait for a slow link), possibly before this returns. A call with a body is not retried. */
rpc_call_id rpc_commit_body(rpc *rpc, int64_t now_us, link_id link, size_t size, span body, body_sent_fn *sent,
                            const rpc_call_options *options, rpc_call_done_fn *done, void *argument);

/* As rpc_commit, with a body in parts that are all sent before this returns, without retry and deadline. False:
 * impossible now, nothing was sent, and the begun message stays begun. */
MR_MUST bool rpc_commit_now(rpc *rpc, link_id link, size_t size, const span *pieces, size_t count,
                            rpc_call_body_fn *on_body, rpc_call_done_fn *done, void *argument, rpc_call_id *out);

typedef struct rpc_call_small { /* a complete small call without retry and deadline */
    uint32_t method;
    uint32_t count; /* at most RPC_CALL_SMALL_WORDS */
    const uint64_t *words;
    rpc_call_body_fn *on_body;
    rpc_call_done_fn *done;
    void *argument;
} rpc_call_small;

/* Begins, writes and commits the call in one step. Fails as rpc_begin does. Of several consecutive calls some may be
 * held back and sent with the next ones: the caller must have the transport driven soon. */
MR_MUST mr_status rpc_ask(rpc *rpc, link_id link, const rpc_call_small *small, rpc_call_id *out);

bool rpc_has_link(const rpc *rpc, link_id link); /* the link is open, or about to end */

/* Hint that something will be sent on that link soon. */
void rpc_foresee(rpc *rpc, link_id link);

/* Ends the call with MR_CANCELLED before this returns. MR_NOT_FOUND: the call has ended already. */
mr_status rpc_cancel(rpc *rpc, rpc_call_id id);

/* ---- Answers. */

typedef struct rpc_call_token { /* identifies one request that waits for its answer; may be copied and kept */
    link_id link;
    uint32_t attempt;
    uint64_t number;
} rpc_call_token;

typedef struct rpc_call_request { /* borrowed for the duration of the handler */
    rpc_call_token token;
    uint32_t method;
    int64_t deadline_us; /* on this side's clock; CLOCK_NEVER_US: none */
    span payload;
    span body; /* data == NULL with a size: on_body refused the body, and the handler must answer with a failure */
} rpc_call_request;

typedef struct rpc_call_handlers {
    /* The handler answers once, now or later. A call that is retried before it was answered has a token for each
       attempt; the first answer to any of them counts, and the others are dropped. */
    void (*on_request)(void *context, const rpc_call_request *request);
    /* The caller cancelled the call: no attempt of it waits for an answer. May be NULL. */
    void (*on_cancel)(void *context, rpc_call_token token);
    /* A cancellation crossed with the answer, which is not read. May be called for an unknown call. May be NULL. */
    void (*on_crossed)(void *context, rpc_call_token token);
    /* Returns memory for a request's body: `size` bytes that are passed back in on_request or, if the link closes
       first, are free again in on_link_closed. NULL: not wanted. The function itself may be NULL: no bodies. */
    void *(*on_body)(void *context, link_id link, uint32_t method, span payload, uint64_t size);
    void (*on_link_open)(void *context, link_id link, const peer *peer); /* may be NULL */
    /* Called after all calls of the link have ended; its tokens become invalid without on_cancel. May be NULL. */
    void (*on_link_closed)(void *context, link_id link, const cause *why);
    void (*on_room)(void *context, link_id link); /* after MR_BUSY: sending may succeed again. May be NULL */
} rpc_call_handlers;

/* Two steps, as for a call. MR_BUSY: nothing was done; the handler keeps the token and answers again after on_room.
 * MR_CLOSED: the link is closed, or the request was answered or cancelled; the answer is dropped, which is no error.
 * MR_TOO_LARGE. */
MR_MUST mr_status rpc_reply_begin(rpc *rpc, rpc_call_token token, size_t size, uint8_t **payload);
void rpc_reply_commit(rpc *rpc, rpc_call_token token, size_t size);
/* Both steps for an answer of `count` words. `more`: further answers follow at once, and this one may be sent with
 * them. */
MR_MUST mr_status rpc_reply(rpc *rpc, rpc_call_token token, const uint64_t *words, size_t count, bool more);
/* The body is borrowed until sent(argument) is called, as transport_ops.commit_body. */
void rpc_reply_commit_body(rpc *rpc, rpc_call_token token, size_t size, span body, body_sent_fn *sent, void *argument);
/* Answers with a failure and its text (NULL: none). Fails as rpc_reply_begin does. */
MR_MUST mr_status rpc_fail(rpc *rpc, rpc_call_token token, mr_status status, const char *text);

/* ---- Creation and destruction. */

/* All arguments are borrowed for the object's life. env->transport is used from the first event on, so it may be filled
 * in later: the transport needs the rpc object as its context. */
rpc *rpc_create(const env *env, const rpc_call_handlers *handlers, void *context);
/* Ends every open call with MR_CLOSED. The transport must not call events of the object afterwards. */
void rpc_destroy(rpc *rpc);

extern const transport_events rpc_events; /* for the transport; the context is the rpc object */

int64_t rpc_next_us(const rpc *rpc); /* time of the next rpc_tick; CLOCK_NEVER_US: not before an event */
void rpc_tick(rpc *rpc, int64_t now_us);
size_t rpc_open_count(const rpc *rpc);

typedef struct rpc_call_stats { /* counts since the object was created */
    uint64_t started;           /* = answered + failed + timed_out + cancelled + lost + rpc_open_count */
    uint64_t answered;          /* with MR_OK */
    uint64_t failed;            /* with a status from the handler, or with an unwanted body */
    uint64_t timed_out, cancelled;
    uint64_t lost;         /* with their link, or by rpc_destroy */
    uint64_t asked_again;  /* attempts after the first */
    uint64_t late_answers; /* answers to calls that had ended; dropped */
    uint64_t requests;     /* handlers run */
    uint64_t repeats;      /* repeated requests, or requests of ended calls; dropped */
    uint64_t expired;      /* requests without remaining budget; dropped */
    uint64_t bad_messages; /* invalid messages; each closed its link */
} rpc_call_stats;
rpc_call_stats rpc_stats(const rpc *rpc);
