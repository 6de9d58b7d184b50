/* stream_writer.h — stream of results of a generator body: the worker's side (stream_reader.h describes both).
 *
 * The caller requests results in advance; its requests wait here until mr_yield answers them. A body that is faster
 * than its caller waits in mr_yield, and the worker's resources are released meanwhile. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/worker/call.h"

struct core_worker;

typedef struct stream_writer_waiter { /* thread in mr_yield; on its stack */
    list place;
    void (*wake)(struct stream_writer_waiter *waiter); /* may be called more than once; with the lock held */
} stream_writer_waiter;

typedef struct call_yield { /* stream state of a call with WIRE_STREAM; owned by the call */
    list askers;            /* pending requests for a result, in order; at most STREAM_AHEAD_MAX */
    uint32_t asker_count;
    list waiters;   /* elements: stream_writer_waiter */
    uint64_t given; /* number of results so far */
    bool cut;       /* the worker was over before a result was given: the call is not answered */
} call_yield;

MR_MUST mr_status stream_writer_open(mr_call *call); /* MR_NOMEM */
void stream_writer_close(mr_call *call);             /* pending requests get no answer, but the call does */

typedef struct stream_writer_value { /* a packed result: few bytes, or a value pack */
    _Alignas(8) uint8_t small[CALL_RESULT_SMALL];
    size_t size; /* size in `small`; 0: a value pack */
    value_pack *pack;
} stream_writer_value;

/* called without the lock */
MR_MUST mr_status stream_writer_pack(mr_call *call, const mr_arg *value, stream_writer_value *out);
/* Answers the first pending request; cancelled requests are skipped. MR_BUSY: no request, or no room for the answer.
 * MR_CANCELLED; MR_CLOSED: no request, and the worker is over. With the lock held. */
MR_MUST mr_status stream_writer_give(struct core_worker *worker, mr_call *call, const stream_writer_value *value);

/* Adds a request for the next result. MR_TOO_LARGE: too many requests. MR_NOMEM. With the lock held. */
MR_MUST mr_status stream_writer_ask(mr_call *call, rpc_call_token token);
void stream_writer_wake(mr_call *call); /* called when the call was cancelled, or its worker is over */
/* Whether no request is pending, but one will follow: the call was not cancelled, and its worker is not over. */
bool stream_writer_is_idle(const mr_call *call);
