/* reply_queue.c — see reply_queue.h. */
#include "runtime/refs/reply_queue.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "runtime/refs/wire.h"

typedef struct answer {
    list place;
    rpc_call_token token;
    value_pack *values; /* NULL: an answer without values */
    bool byte;
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

static mr_status try_answer(rpc *rpc, const answer *answer) {
    return answer->values != NULL ? wire_answer_values(rpc, answer->token, answer->values)
                                  : wire_answer(rpc, answer->token, span_of("", answer->byte));
}

static void answer_or_keep(reply_queue *replies, rpc *rpc, answer given) {
    if (try_answer(rpc, &given) != MR_BUSY) {
        value_pack_unref(given.values);
        return;
    }
    answer *kept = xcopy(&given, sizeof given);
    list_push_back(&replies->answers, &kept->place);
}

void reply_queue_answer(reply_queue *replies, rpc *rpc, rpc_call_token token, value_pack *values) {
    answer_or_keep(replies, rpc, (answer){.token = token, .values = values});
}

void reply_queue_acknowledge(reply_queue *replies, rpc *rpc, rpc_call_token token, bool byte) {
    answer_or_keep(replies, rpc, (answer){.token = token, .byte = byte});
}

/* Tries every answer, since each may be for another link. */
void reply_queue_room(reply_queue *replies, rpc *rpc) {
    list_for_each (at, &replies->answers) {
        answer *answer = container_of(at, struct answer, place);
        if (try_answer(rpc, answer) != MR_BUSY) drop(answer);
    }
}
