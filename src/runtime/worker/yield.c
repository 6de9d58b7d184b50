/* yield.c — see yield.h. Tested by tests/yield_test.c. */
#include "runtime/worker/yield.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/worker/worker_state.h"

typedef struct asker {
    list place;
    call_token token;
} asker;

mr_status yield_open(mr_call *call) {
    MR_TRY(alloc_try(sizeof(call_yield), &call->yield));
    list_init(&call->yield->askers);
    list_init(&call->yield->waiters);
    return MR_OK;
}

void yield_close(mr_call *call) {
    for (list *at; (at = list_pop_front(&call->yield->askers)) != NULL;) free(container_of(at, asker, place));
    free(call->yield);
    call->yield = NULL;
}

void yield_wake(mr_call *call) {
    list_for_each (at, &call->yield->waiters) {
        yield_waiter *waiter = container_of(at, yield_waiter, place);
        waiter->wake(waiter);
    }
}

mr_status yield_ask(mr_call *call, call_token token) {
    call_yield *yield = call->yield;
    if (yield->asker_count >= STREAM_AHEAD_MAX)
        return error_set(MR_TOO_LARGE, "too many requests for results of stream %s: at most %d at once",
                         call->name->text, STREAM_AHEAD_MAX);
    asker *made;
    MR_TRY(alloc_try(sizeof(asker), &made));
    made->token = token;
    list_push_back(&yield->askers, &made->place);
    yield->asker_count++;
    yield_wake(call);
    return MR_OK;
}

/* ---- Giving. */

mr_status yield_pack(mr_call *call, const mr_arg *value, yield_value *out) {
    bundle_item item = {.arg = value};
    out->bundle = NULL;
    out->size = bundle_pack_small(&item, 1, out->small, sizeof out->small);
    if (out->size != 0) return MR_OK;
    cargo_packer packer = call_packer(call);
    return cargo_pack(&packer, &item, 1, &out->bundle);
}

static mr_status answer(client *client, call_token token, const yield_value *value) {
    if (value->bundle == NULL)
        return wire_answer_bytes(client->calls, token, span_of(value->small, value->size), false);
    MR_TRY(wire_answer_values(client->calls, token, value->bundle));
    if (value->bundle->cargo != NULL) transit_keep(&client->transit, token, value->bundle);
    return MR_OK;
}

mr_status yield_give(client *client, mr_call *call, const yield_value *value) {
    call_yield *yield = call->yield;
    while (!call->cancelled && !list_empty(&yield->askers)) {
        list *first = MUTATED("no-line") ? yield->askers.prev : yield->askers.next;
        asker *asker = container_of(first, struct asker, place);
        mr_status status = answer(client, asker->token, value);
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
    if (!worker_is_over(client->worker))
        return error_set(MR_BUSY, "the reader has not requested the next result of stream %s yet", call->name->text);
    yield->cut = true;
    return error_set(MR_CLOSED, "the rest of stream %s is lost: its worker ends", call->name->text);
}

bool yield_is_idle(const mr_call *call) {
    return !call->cancelled && !call->worker->over && list_empty(&call->yield->askers);
}
