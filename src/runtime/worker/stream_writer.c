/* stream_writer.c — see stream_writer.h. Tested by tests/yield_test.c. */
#include "runtime/worker/stream_writer.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/worker/worker_internal.h"

typedef struct asker {
    list place;
    rpc_call_token token;
} asker;

mr_status stream_writer_open(mr_call *call) {
    MR_TRY(alloc_try(sizeof(call_yield), &call->yield));
    list_init(&call->yield->askers);
    list_init(&call->yield->waiters);
    return MR_OK;
}

void stream_writer_close(mr_call *call) {
    for (list *at; (at = list_pop_front(&call->yield->askers)) != NULL;) free(container_of(at, asker, place));
    free(call->yield);
    call->yield = NULL;
}

void stream_writer_wake(mr_call *call) {
    list_for_each (at, &call->yield->waiters) {
        stream_writer_waiter *waiter = container_of(at, stream_writer_waiter, place);
        waiter->wake(waiter);
    }
}

mr_status stream_writer_ask(mr_call *call, rpc_call_token token) {
    call_yield *yield = call->yield;
    if (yield->asker_count >= STREAM_AHEAD_MAX)
        return error_set(MR_TOO_LARGE, "too many requests for results of stream %s: at most %d at once",
                         call->name->text, STREAM_AHEAD_MAX);
    asker *made;
    MR_TRY(alloc_try(sizeof(asker), &made));
    made->token = token;
    list_push_back(&yield->askers, &made->place);
    yield->asker_count++;
    stream_writer_wake(call);
    return MR_OK;
}

/* ---- Results. */

mr_status stream_writer_pack(mr_call *call, const mr_arg *value, stream_writer_value *out) {
    value_pack_item item = {.arg = value};
    out->pack = NULL;
    out->size = value_pack_pack_small(&item, 1, out->small, sizeof out->small);
    if (out->size != 0) return MR_OK;
    attachment_packer packer = call_packer(call);
    return attachment_pack(&packer, &item, 1, &out->pack);
}

static mr_status answer(core_worker *worker, rpc_call_token token, const stream_writer_value *value) {
    if (value->pack == NULL) return wire_answer_bytes(worker->rpc, token, span_of(value->small, value->size), false);
    MR_TRY(wire_answer_values(worker->rpc, token, value->pack));
    if (value->pack->attachment != NULL) result_holds_keep(&worker->holds, token, value->pack);
    return MR_OK;
}

mr_status stream_writer_give(core_worker *worker, mr_call *call, const stream_writer_value *value) {
    call_yield *yield = call->yield;
    while (!call->cancelled && !list_empty(&yield->askers)) {
        list *first = MUTATED("no-line") ? yield->askers.prev : yield->askers.next;
        asker *asker = container_of(first, struct asker, place);
        mr_status status = answer(worker, asker->token, value);
        if (status != MR_OK && status != MR_CLOSED) return status;
        list_remove(&asker->place);
        free(asker);
        yield->asker_count--;
        if (status == MR_CLOSED) continue;
        yield->given++;
        return MR_OK;
    }
    if (call->cancelled)
        return error_set(MR_CANCELLED, "the stream of %s was cancelled by its reader", call->name->text);
    if (!worker_is_over(worker->worker))
        return error_set(MR_BUSY, "the reader has not requested the next result of stream %s yet", call->name->text);
    yield->cut = true;
    return error_set(MR_CLOSED, "the rest of stream %s is lost: its worker ends", call->name->text);
}

bool stream_writer_is_idle(const mr_call *call) {
    return !call->cancelled && !call->worker->over && list_empty(&call->yield->askers);
}
