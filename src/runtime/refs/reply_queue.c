/* reply_queue.c — see reply_queue.h. */
#include "runtime/refs/reply_queue.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/refs/wire.h"

typedef struct answer {
    list place;
    rpc_call_token token;
    value_pack *values;
} answer;

void reply_queue_init(reply_queue *replies) { list_init(&replies->answers); }

static void drop(answer *answer) {
    list_remove(&answer->place);
    value_pack_unref(answer->values);
    free(answer);
}

void reply_queue_fini(reply_queue *replies) {
    while (!list_empty(&replies->answers)) drop(container_of(replies->answers.next, answer, place));
}

void reply_queue_answer(reply_queue *replies, rpc *rpc, rpc_call_token token, value_pack *values) {
    if (wire_answer_values(rpc, token, values) != MR_BUSY) {
        value_pack_unref(values);
        return;
    }
    answer *kept = XNEW(answer, .token = token, .values = values);
    list_push_back(&replies->answers, &kept->place);
}

/* Each of them may be on a link of its own. */
void reply_queue_room(reply_queue *replies, rpc *rpc) {
    list_for_each (at, &replies->answers) {
        answer *answer = container_of(at, struct answer, place);
        if (wire_answer_values(rpc, answer->token, answer->values) != MR_BUSY) drop(answer);
    }
}
