/* yield.c — see yield.h, and miniray/runtime.h. */
#include "runtime/yield.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/flow.h"
#include "runtime/serve.h"

typedef struct asker {
    list place;
    call_token token;
} asker;

typedef struct yielder { /* a thread that waits to be asked; lives on its stack */
    list place;
    baton_waiter waiter;
} yielder;

mr_status yield_open(mr_call *call) {
    void *memory;
    MR_TRY(alloc_try(sizeof(call_yield), &memory));
    call->yield = memory;
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
        baton_waiter *waiter = &container_of(at, yielder, place)->waiter;
        if (!waiter->done) baton_finish(&call->mr->baton, waiter);
    }
}

mr_status yield_ask(mr_call *call, call_token token) {
    call_yield *yield = call->yield;
    if (yield->asker_count >= STREAM_AHEAD_MAX)
        return error_set(MR_TOO_LARGE, "more than %d results of a stream are asked for", STREAM_AHEAD_MAX);
    void *memory;
    MR_TRY(alloc_try(sizeof(asker), &memory));
    asker *made = memory;
    made->token = token;
    list_init(&made->place);
    list_push_back(&yield->askers, &made->place);
    yield->asker_count++;
    yield_wake(call);
    return MR_OK;
}

/* ---- Giving. */

typedef struct result { /* packed: few bytes, or a bundle */
    _Alignas(8) uint8_t small[CALL_RESULT_SMALL];
    size_t size; /* of the bytes; 0: a bundle */
    bundle *bundle;
} result;

static mr_status pack(mr_call *call, const mr_arg *value, result *out) {
    bundle_item item = {.arg = value};
    out->bundle = NULL;
    out->size = bundle_pack_small(&item, 1, out->small, sizeof out->small);
    if (out->size != 0) return MR_OK;
    cargo_packer packer = context_packer(call->mr);
    packer.leaves = true;
    return cargo_pack(&packer, &item, 1, &out->bundle);
}

/* Until somebody asks. */
static mr_status await_asker(mr_call *call) {
    while (!call->cancelled && list_empty(&call->yield->askers)) {
        yielder self;
        baton_waiter_init(&self.waiter);
        list_init(&self.place);
        list_push_back(&call->yield->waiters, &self.place);
        mr_status status = serve_wait(call->mr, &self.waiter, -1);
        list_remove(&self.place);
        MR_TRY(status);
    }
    return call->cancelled ? error_set(MR_CANCELLED, "nobody takes what %s gives any more", call->name->text) : MR_OK;
}

static mr_status answer(mr_call *call, call_token token, const result *result) {
    client *client = &call->mr->client;
    if (result->bundle == NULL) return wire_answer_bytes(client->calls, token, span_of(result->small, result->size));
    MR_TRY(wire_answer_values(client->calls, token, result->bundle));
    if (result->bundle->cargo != NULL) transit_keep(&client->transit, token, result->bundle);
    return MR_OK;
}

/* One who does not want it any more is passed over. */
static mr_status give(mr_call *call, const result *result) {
    for (;;) {
        MR_TRY(await_asker(call));
        asker *asker = container_of(call->yield->askers.next, struct asker, place);
        mr_status status = answer(call, asker->token, result);
        if (status == MR_BUSY) {
            context_pause(call->mr);
            continue;
        }
        if (status != MR_OK && status != MR_CLOSED) return status;
        list_remove(&asker->place);
        free(asker);
        call->yield->asker_count--;
        if (status == MR_OK) return MR_OK;
    }
}

bool mr_call_streams(const mr_call *call) { return call->yield != NULL; }

mr_status mr_yield(mr_call *call, mr_arg value) {
    if (call->yield == NULL)
        return error_set(MR_INVALID, "%s was not called for a stream (num_returns = MR_STREAM)", call->name->text);
    result result;
    MR_TRY(pack(call, &value, &result));
    context_lock(call->mr);
    mr_status status = give(call, &result);
    if (status == MR_OK) {
        call->yield->given++;
        client_stir(&call->mr->client);
    }
    bundle_unref(result.bundle);
    context_unlock(call->mr);
    return status;
}

mr_status mr_yield_now(mr_call *call, mr_arg value) {
    context_lock(call->mr);
    bool busy = call->yield != NULL && !call->cancelled && list_empty(&call->yield->askers);
    context_unlock(call->mr);
    return busy ? error_set(MR_BUSY, "nobody has asked for the next result of %s yet", call->name->text)
                : mr_yield(call, value);
}
