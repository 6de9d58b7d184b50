/* stream_writer.h — the results of a body that gives several, as its worker sees them (stream_reader.h has the whole
 * picture).
 *
 * The caller asks for results before they are there; what it asks waits here until mr_yield answers it. A body that is
 * faster than its caller waits in mr_yield, and lends its worker's slot meanwhile. */
#pragma once
#include "net/rpc/rpc.h"
#include "runtime/worker/call.h"

struct core_worker;

typedef struct stream_writer_waiter { /* of a thread in mr_yield; lives on its stack */
    list place;
    void (*wake)(struct stream_writer_waiter *waiter); /* may be called more than once; with the lock held */
} stream_writer_waiter;

typedef struct call_yield { /* of a call that was flagged; owned by it */
    list askers;            /* of those who want a result, in order; at most STREAM_AHEAD_MAX */
    uint32_t asker_count;
    list waiters;   /* of stream_writer_waiter */
    uint64_t given; /* results so far */
    bool cut;       /* the worker was over when there was one more: the call is not answered then */
} call_yield;

MR_MUST mr_status stream_writer_open(mr_call *call); /* MR_NOMEM */
void stream_writer_close(mr_call *call);             /* whoever still asks is not answered: the call is */

typedef struct stream_writer_value { /* a result, packed: few bytes, or a bundle */
    _Alignas(8) uint8_t small[CALL_RESULT_SMALL];
    size_t size; /* of the bytes; 0: a bundle */
    value_pack *pack;
} stream_writer_value;

/* without the lock */
MR_MUST mr_status stream_writer_pack(mr_call *call, const mr_arg *value, stream_writer_value *out);
/* Answers the first who asks; whoever does not want it any more is passed over. MR_BUSY: nobody asks, or there is no
 * room for the answer. MR_CANCELLED; MR_CLOSED: nobody asks, and the worker is over. With the lock held. */
MR_MUST mr_status stream_writer_give(struct core_worker *worker, mr_call *call, const stream_writer_value *value);

/* Somebody asks for the next result. MR_TOO_LARGE: too many do. MR_NOMEM. With the lock held. */
MR_MUST mr_status stream_writer_ask(mr_call *call, rpc_call_token token);
void stream_writer_wake(mr_call *call); /* it was cancelled, or its worker is over */
/* A result is not asked for yet, and will be: the call was not cancelled, and its worker is not over. */
bool stream_writer_is_idle(const mr_call *call);
