/* reply_queue.h — queue of answers for which the transport had no room: sent in order on on_room. */
#pragma once
#include "base/list.h"
#include "net/rpc/rpc.h"
#include "runtime/refs/value_pack.h"

typedef struct reply_queue { /* answers of one `rpc` object */
    list answers;
} reply_queue;

void reply_queue_init(reply_queue *replies);
void reply_queue_fini(reply_queue *replies);
/* Answers now or later. The reference to the value pack is taken over. */
void reply_queue_answer(reply_queue *replies, rpc *rpc, rpc_call_token token, value_pack *values);
/* The same with an empty answer or, if `byte`, with one byte 0. */
void reply_queue_acknowledge(reply_queue *replies, rpc *rpc, rpc_call_token token, bool byte);
void reply_queue_room(reply_queue *replies, rpc *rpc);
