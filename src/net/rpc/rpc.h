/* rpc.h — RPC: requests and responses over a transport.
 *
 * Pure: no I/O of its own, no threads, no clock but `now_us` and the env's. The host gives it a transport, hands it
 * that transport's events, and calls rpc_tick when rpc_next_us comes. One object serves both sides: it makes calls
 * and answers them.
 *
 *   started ──► waiting for the answer ──► done, exactly once, with one of:
 *                 answer came              MR_OK or the status the handler gave
 *                 deadline passed          MR_TIMEOUT (also: the last attempt stayed unanswered)
 *                 rpc_cancel               MR_CANCELLED (the other side learns it)
 *                 link closed              the cause's status
 *
 * Promises  Every call that was started ends, once, and not before rpc_commit has returned. A handler runs at most
 *           once for each (call, attempt), however often the network delivers it. A call asks again (attempt + 1) only
 *           if its options say so. The budget that is left travels with the request, and a request whose budget is gone
 *           is not run.
 * Bounds    At most RPC_CALL_WINDOW calls of one link are open at a time (MR_BUSY beyond). Each takes a place; a number
 *           is a place and how often it was used, so the answering side recognises repeats by one small record per
 *           place, and a call that takes an hour holds up no other. Both sides' tables grow with the places that are
 *           used.
 * Peers     are not trusted. A message that no correct peer sends (too short, unknown kind, an answer to something that
 *           was never asked) ends all calls of the link with MR_CORRUPT and closes it. Effects of a lossy network
 *           (duplicates, responses to calls that have ended, cancellations of unknown calls) are counted and dropped.
 * Callbacks may start, answer and cancel calls and open and close links; only rpc_destroy is forbidden in them. */
#pragma once
#include "net/env.h"

enum {
    RPC_CALL_WINDOW = 4096,
    RPC_CALL_ATTEMPTS_MAX = 1000,
    RPC_CALL_OVERHEAD = 24, /* bytes of a message's head that are ours */
    RPC_CALL_PAYLOAD_MAX = MESSAGE_HEAD_MAX - RPC_CALL_OVERHEAD,
    RPC_CALL_SMALL_WORDS = 320,
    RPC_CALL_TEXT_MAX = 1024,             /* longer texts of failures are cut */
    RPC_CALL_KEPT_MAX = 64 * 1024 * 1024, /* bytes that one `rpc` object keeps for asking again */
};

typedef struct rpc_call_id { /* unique within one `rpc` object; number == 0: none */
    uint64_t number;
    link_id link;
} rpc_call_id;

typedef struct rpc rpc;

/* ---- Asking. */

typedef struct rpc_call_result { /* borrowed for the duration of rpc_call_done_fn */
    mr_status status;
    span payload;     /* the answer; for a failure its text */
    span body;        /* at the place of rpc_call_options.on_body */
    const cause *why; /* NULL unless it was lost with its link or rpc_destroy */
} rpc_call_result;

typedef void rpc_call_done_fn(void *argument, rpc_call_id id, const rpc_call_result *result);

/* Where the answer's body shall lie: `size` bytes that stay valid until done is called. `argument` is that of done.
 * NULL: not wanted; the body is thrown away and the call ends with MR_TOO_LARGE. */
typedef void *rpc_call_body_fn(void *argument, rpc_call_id id, span payload, uint64_t size);

typedef struct rpc_call_options { /* NULL in its place: all zero */
    int64_t timeout_us;           /* for the whole call; <= 0: no deadline */
    int64_t attempt_timeout_us;   /* ask again after this long without an answer; <= 0: never */
    int attempts_max; /* 0 and 1: ask once. More: the payload is copied and kept until the call ends; a call for which
                         there is no memory (RPC_CALL_KEPT_MAX) asks once */
    rpc_call_body_fn *on_body; /* NULL: an answer with a body is an error, as above */
} rpc_call_options;

/* Two steps, so that the payload is written straight into the transport's memory: begin gives `size` bytes at *payload,
 * commit sends them (`size` may be smaller than it was). Nothing else may be sent on that link, and no event may come,
 * in between; a begun call that is not committed was never started. MR_BUSY: the window or the link is full, on_room
 * follows. MR_CLOSED: no such link, or it is still opening. MR_TOO_LARGE, MR_NOMEM. */
MR_MUST mr_status rpc_begin(rpc *rpc, link_id link, uint32_t method, size_t size, uint8_t **payload);
/* now_us is read only if the options name a time: others pass 0 and save themselves the clock. */
rpc_call_id rpc_commit(rpc *rpc, int64_t now_us, link_id link, size_t size, const rpc_call_options *options,
                       rpc_call_done_fn *done, void *argument);
/* The same with a body, which is borrowed until sent(argument) is called: exactly once, before or after done (a
 * deadline does not wait for a slow link), perhaps before this returns. A call with a body asks once. */
rpc_call_id rpc_commit_body(rpc *rpc, int64_t now_us, link_id link, size_t size, span body, body_sent_fn *sent,
                            const rpc_call_options *options, rpc_call_done_fn *done, void *argument);

/* The same with a body in pieces that all leave before this returns, and asked once, without a deadline. False: they
 * cannot, nothing was sent, and the begun message stays begun. */
MR_MUST bool rpc_commit_now(rpc *rpc, link_id link, size_t size, const span *pieces, size_t count,
                            rpc_call_body_fn *on_body, rpc_call_done_fn *done, void *argument, rpc_call_id *out);

typedef struct rpc_call_small { /* a whole call that is small, asks once and has no deadline */
    uint32_t method;
    uint32_t count; /* at most RPC_CALL_SMALL_WORDS */
    const uint64_t *words;
    rpc_call_body_fn *on_body;
    rpc_call_done_fn *done;
    void *argument;
} rpc_call_small;

/* Begins, writes and commits it in one step. Fails as rpc_begin does. Of many in a row some leave with the next ones,
 * a moment later: the caller has the transport driven soon. */
MR_MUST mr_status rpc_ask(rpc *rpc, link_id link, const rpc_call_small *small, rpc_call_id *out);

bool rpc_has_link(const rpc *rpc, link_id link); /* it is open, or about to end */

/* Something will be sent on that link in a moment. */
void rpc_foresee(rpc *rpc, link_id link);

/* Ends the call with MR_CANCELLED, before this returns. MR_NOT_FOUND: it has ended already. */
mr_status rpc_cancel(rpc *rpc, rpc_call_id id);

/* ---- Answering. */

typedef struct rpc_call_token { /* names one request that waits for its answer; may be copied and kept */
    link_id link;
    uint32_t attempt;
    uint64_t number;
} rpc_call_token;

typedef struct rpc_call_request { /* borrowed for the duration of the handler */
    rpc_call_token token;
    uint32_t method;
    int64_t deadline_us; /* on this side's clock; CLOCK_NEVER_US: none */
    span payload;
    span body; /* data == NULL with its size: on_body refused it; answer with a failure */
} rpc_call_request;

typedef struct rpc_call_handlers {
    /* Answer now or later, once. When a call asks again before it was answered there is a token for each attempt; the
     * first answer to any of them is the call's, the others then go nowhere. */
    void (*on_request)(void *context, const rpc_call_request *request);
    /* The caller gave up: no attempt of this call waits for an answer any more. May be NULL. */
    void (*on_cancel)(void *context, rpc_call_token token);
    /* The same of a call that was answered: the two crossed, and the answer is not read. May come for a call that was
     * never seen. May be NULL. */
    void (*on_crossed)(void *context, rpc_call_token token);
    /* Where a request's body shall lie: `size` bytes that come back in on_request or, if the link closes first, with
     * on_link_closed. NULL: not wanted. May be NULL itself: no bodies. */
    void *(*on_body)(void *context, link_id link, uint32_t method, span payload, uint64_t size);
    void (*on_link_open)(void *context, link_id link, const peer *peer); /* may be NULL */
    /* After all its calls were ended; its tokens are stale, without on_cancel. May be NULL. */
    void (*on_link_closed)(void *context, link_id link, const cause *why);
    void (*on_room)(void *context, link_id link); /* after MR_BUSY: try again. May be NULL */
} rpc_call_handlers;

/* Two steps as above. MR_BUSY: nothing has happened; keep the token and answer again after on_room. MR_CLOSED: the link
 * is gone or the request was answered or cancelled; the answer goes nowhere, which is no fault. MR_TOO_LARGE. */
MR_MUST mr_status rpc_reply_begin(rpc *rpc, rpc_call_token token, size_t size, uint8_t **payload);
void rpc_reply_commit(rpc *rpc, rpc_call_token token, size_t size);
/* Both steps for an answer of so many words. `more` answers follow at once: it may leave with them. */
MR_MUST mr_status rpc_reply(rpc *rpc, rpc_call_token token, const uint64_t *words, size_t count, bool more);
/* The body is borrowed until sent(argument) is called, as transport_ops.commit_body. */
void rpc_reply_commit_body(rpc *rpc, rpc_call_token token, size_t size, span body, body_sent_fn *sent, void *argument);
/* Answers with a failure and its text (NULL: none). Fails as rpc_reply_begin does. */
MR_MUST mr_status rpc_fail(rpc *rpc, rpc_call_token token, mr_status status, const char *text);

/* ---- Life. */

/* All borrowed for its life. env->transport is used from the first event on, so it may be filled in after this: the
 * transport wants the calls object as its context. */
rpc *rpc_create(const env *env, const rpc_call_handlers *handlers, void *context);
/* Ends every open call with MR_CLOSED. The transport must bring no event to it afterwards. */
void rpc_destroy(rpc *rpc);

extern const transport_events rpc_events; /* for the transport; the context is the calls object */

int64_t rpc_next_us(const rpc *rpc); /* when rpc_tick has something to do; CLOCK_NEVER_US: not before an event */
void rpc_tick(rpc *rpc, int64_t now_us);
size_t rpc_open_count(const rpc *rpc);

typedef struct rpc_call_stats { /* counts since the object was made */
    uint64_t started;           /* = answered + failed + timed_out + cancelled + lost + rpc_open_count */
    uint64_t answered;          /* with MR_OK */
    uint64_t failed;            /* with a status of the handler's, or an unwanted body */
    uint64_t timed_out, cancelled;
    uint64_t lost;         /* with their link, or rpc_destroy */
    uint64_t asked_again;  /* attempts beyond the first */
    uint64_t late_answers; /* came for calls that had ended; dropped */
    uint64_t requests;     /* handlers run */
    uint64_t repeats;      /* requests that were here before, or whose call is over; dropped */
    uint64_t expired;      /* requests without budget; dropped */
    uint64_t bad_messages; /* each closed its link */
} rpc_call_stats;
rpc_call_stats rpc_stats(const rpc *rpc);
