/* yield.h — the results of a body that gives several, as its worker sees them (flow.h has the whole picture).
 *
 * The caller asks for results before they are there; what it asks waits here until mr_yield answers it. A body that is
 * faster than its caller waits in mr_yield, and lends its worker's slot meanwhile. */
#pragma once
#include "net/call.h"
#include "runtime/call.h"

struct client;

typedef struct yield_waiter { /* of a thread in mr_yield; lives on its stack */
    list place;
    void (*wake)(struct yield_waiter *waiter); /* may be called more than once; with the lock held */
} yield_waiter;

typedef struct call_yield { /* of a call that was flagged; owned by it */
    list askers;            /* of those who want a result, in order; at most STREAM_AHEAD_MAX */
    uint32_t asker_count;
    list waiters;   /* of yield_waiter */
    uint64_t given; /* results so far */
    bool cut;       /* the worker was over when there was one more: the call is not answered then */
} call_yield;

MR_MUST mr_status yield_open(mr_call *call); /* MR_NOMEM */
void yield_close(mr_call *call);             /* whoever still asks is not answered: the call is */

typedef struct yield_value { /* a result, packed: few bytes, or a bundle */
    _Alignas(8) uint8_t small[CALL_RESULT_SMALL];
    size_t size; /* of the bytes; 0: a bundle */
    bundle *bundle;
} yield_value;

MR_MUST mr_status yield_pack(mr_call *call, const mr_arg *value, yield_value *out); /* without the lock */
/* Answers the first who asks; whoever does not want it any more is passed over. MR_BUSY: nobody asks, or there is no
 * room for the answer. MR_CANCELLED; MR_CLOSED: nobody asks, and the worker is over. With the lock held. */
MR_MUST mr_status yield_give(struct client *client, mr_call *call, const yield_value *value);

/* Somebody asks for the next result. MR_TOO_LARGE: too many do. MR_NOMEM. With the lock held. */
MR_MUST mr_status yield_ask(mr_call *call, call_token token);
void yield_wake(mr_call *call); /* it was cancelled, or its worker is over */
/* A result is not asked for yet, and will be: the call was not cancelled, and its worker is not over. */
bool yield_is_idle(const mr_call *call);
