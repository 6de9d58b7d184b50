/* flow_take.c — the functions of miniray/runtime.h that take from a stream (flow.h). */
#include "base/error.h"
#include "runtime/context.h"
#include "runtime/worker/serve.h"

static mr_status find(mr_context *mr, mr_ref ref, flow **out) {
    const object *whole = object_find(&mr->client.objects, ref);
    if (whole == NULL) return error_set(MR_NOT_FOUND, "this process does not have that stream (any more)");
    *out = flow_find(&mr->client.flows, whole);
    return *out != NULL ? MR_OK : error_set(MR_INVALID, "that future is no stream of this process");
}

typedef struct arrival { /* of a result that somebody waits for */
    object_waiter waiter;
    mr_context *mr;
    baton_waiter baton;
} arrival;

static void arrived(object_waiter *waiter, object *object) {
    arrival *arrival = container_of(waiter, struct arrival, waiter);
    baton_finish(&arrival->mr->baton, &arrival->baton);
}

static mr_status await(mr_context *mr, object *result, int64_t timeout_us) {
    arrival arrival = {.waiter.fn = arrived, .mr = mr};
    baton_waiter_init(&arrival.baton);
    object_hold(result); /* others may take it meanwhile */
    object_wait(&mr->client.objects, result, &arrival.waiter);
    mr_status status = serve_wait(mr, &arrival.baton, timeout_us);
    object_unwait(&arrival.waiter);
    object_drop(&mr->client.objects, result);
    return status;
}

/* Whoever comes first gets it; one who waited in vain waits for the next, as long as it did. */
static mr_status next_locked(mr_context *mr, mr_ref ref, int64_t timeout_us, mr_ref *out) {
    flow *flow;
    object *head;
    MR_TRY(find(mr, ref, &flow));
    MR_TRY(flow_head(flow, &head));
    while (head->state == OBJECT_PENDING) {
        MR_TRY(await(mr, head, timeout_us));
        MR_TRY(find(mr, ref, &flow));
        MR_TRY(flow_head(flow, &head));
    }
    if (head->state == OBJECT_FAILED && head->failure->code == MR_END) return failure_raise(head->failure);
    *out = flow_take(flow)->ref;
    return MR_OK;
}

mr_status mr_stream_next(mr_context *mr, mr_ref stream, int64_t timeout_us, mr_ref *out) {
    MR_TRY(context_check(mr, out));
    context_lock(mr);
    mr_status status = next_locked(mr, stream, timeout_us, out);
    context_unlock(mr);
    return status;
}

mr_status mr_stream_peek(mr_context *mr, mr_ref ref, mr_ref *out) {
    MR_TRY(context_check(mr, out));
    flow *flow;
    object *head;
    context_lock(mr);
    mr_status status = find(mr, ref, &flow);
    if (status == MR_OK) status = flow_peek(flow, &head);
    if (status == MR_OK) *out = head->ref;
    context_unlock(mr);
    return status;
}
