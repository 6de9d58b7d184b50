/* yield.c — see yield.h, and miniray/runtime.h. */
#include "runtime/worker/yield.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/flow.h"
#include "runtime/worker/serve.h"
#include "runtime/worker/worker.h"

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
    if (call->cancelled) return error_set(MR_CANCELLED, "nobody takes what %s gives any more", call->name->text);
    if (!worker_is_over(client->worker))
        return error_set(MR_BUSY, "nobody has asked for the next result of %s yet", call->name->text);
    yield->cut = true;
    return error_set(MR_CLOSED, "%s cannot give the rest: its worker ends", call->name->text);
}

/* Nobody asks yet, and somebody will. */
static bool is_idle(const mr_call *call) {
    return !call->cancelled && !worker_is_over(call->mr->client.worker) && list_empty(&call->yield->askers);
}

/* Until somebody asks, or nobody will any more. */
static mr_status await_asker(mr_call *call) {
    mr_status status = MR_OK;
    while (status == MR_OK && is_idle(call)) {
        yielder self;
        baton_waiter_init(&self.waiter);
        list_init(&self.place);
        list_push_back(&call->yield->waiters, &self.place);
        status = serve_wait(call->mr, &self.waiter, -1);
        list_remove(&self.place);
    }
    return status;
}

static mr_status give_waiting(mr_call *call, const yield_value *value) {
    for (;;) {
        MR_TRY(await_asker(call));
        mr_status status = yield_give(&call->mr->client, call, value);
        if (status != MR_BUSY) return status;
        if (!list_empty(&call->yield->askers)) context_pause(call->mr); /* there is no room */
    }
}

bool mr_call_streams(const mr_call *call) { return call->yield != NULL; }

mr_status mr_yield(mr_call *call, mr_arg value) {
    if (call->yield == NULL)
        return error_set(MR_INVALID, "%s was not called for a stream (num_returns = MR_STREAM)", call->name->text);
    yield_value packed;
    MR_TRY(call_check_process(call));
    MR_TRY(yield_pack(call, &value, &packed));
    context_lock(call->mr);
    mr_status status = give_waiting(call, &packed);
    if (status == MR_OK) client_stir(&call->mr->client);
    bundle_unref(packed.bundle);
    context_unlock(call->mr);
    return status;
}

mr_status mr_yield_now(mr_call *call, mr_arg value) {
    MR_TRY(call_check_process(call));
    context_lock(call->mr);
    bool busy = call->yield != NULL && is_idle(call);
    context_unlock(call->mr);
    return busy ? error_set(MR_BUSY, "nobody has asked for the next result of %s yet", call->name->text)
                : mr_yield(call, value);
}
