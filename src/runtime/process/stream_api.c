/* stream_api.c — public functions of streams: reading results (stream_reader.h) and yielding them (stream_writer.h). */
#include "base/error.h"
#include "runtime/process/context.h"
#include "runtime/worker/stream_writer.h"

/* ---- Reading results. */

static mr_status find(mr_context *mr, mr_ref ref, stream_reader **out) {
    const object *whole = object_find(&mr->worker.objects, ref);
    if (whole == NULL)
        return error_set(MR_NOT_FOUND, "this process does not have stream " OBJECT_ID ": it was released",
                         OBJECT_ID_OF(ref));
    *out = stream_reader_find(&mr->worker.readers, whole);
    return *out != NULL
               ? MR_OK
               : error_set(MR_INVALID, "object " OBJECT_ID " is not a stream of this process", OBJECT_ID_OF(ref));
}

static mr_status await(mr_context *mr, object *result, int64_t timeout_us) {
    object_hold(result); /* other threads may take it meanwhile */
    mr_status status = context_wait_object(mr, result, timeout_us);
    object_drop(&mr->worker.objects, result);
    return status;
}

/* The first thread takes the result; a thread that lost the race waits for the next one, with the full timeout
 * again. */
static mr_status next_locked(mr_context *mr, mr_ref ref, int64_t timeout_us, mr_ref *out) {
    stream_reader *stream = NULL;
    object *head;
    for (;;) {
        MR_TRY(find(mr, ref, &stream));
        MR_TRY(stream_reader_head(stream, &head));
        if (head->state != OBJECT_PENDING) break;
        MR_TRY(await(mr, head, timeout_us));
    }
    if (head->state == OBJECT_FAILED && head->failure->code == MR_END) return failure_raise(head->failure);
    *out = stream_reader_take(stream)->ref;
    return MR_OK;
}

typedef struct next_again {
    mr_ref stream;
    mr_ref *out;
} next_again;

static mr_status next_step(mr_context *mr, void *what, int64_t timeout_us) {
    const next_again *again = what;
    return next_locked(mr, again->stream, timeout_us, again->out);
}

mr_status mr_stream_next(mr_context *mr, mr_ref stream, int64_t timeout_us, mr_ref *out) {
    MR_TRY(context_check(mr, out));
    next_again again = {stream, out};
    context_lock(mr);
    mr_status status = context_done(mr, next_step(mr, &again, timeout_us));
    return status == CONTEXT_INTERRUPTED ? context_resume(mr, next_step, &again, timeout_us) : status;
}

mr_status mr_stream_peek(mr_context *mr, mr_ref ref, mr_ref *out) {
    MR_TRY(context_check(mr, out));
    stream_reader *stream;
    object *head;
    context_lock(mr);
    mr_status status = find(mr, ref, &stream);
    if (status == MR_OK) status = stream_reader_peek(stream, &head);
    if (status == MR_OK) *out = head->ref;
    return context_done(mr, status);
}

/* ---- Yielding results. */

typedef struct yielder { /* a thread that waits until the next result is requested */
    stream_writer_waiter waiter;
    mr_context *mr;
    poller_waiter poller;
} yielder;

static void wake(stream_writer_waiter *waiter) {
    yielder *yielder = container_of(waiter, struct yielder, waiter);
    if (!yielder->poller.done) poller_finish(&yielder->mr->poller, &yielder->poller);
}

/* Waits until the next result is requested, or never will be. */
static mr_status await_asker(mr_call *call) {
    mr_status status = MR_OK;
    while (status == MR_OK && stream_writer_is_idle(call)) {
        yielder self = {.waiter.wake = wake, .mr = call->mr};
        poller_waiter_init(&self.poller);
        list_push_back(&call->yield->waiters, &self.waiter.place);
        status = context_wait_lending(call->mr, &self.poller, -1);
        list_remove(&self.waiter.place);
    }
    return status;
}

static mr_status give_waiting(mr_call *call, const stream_writer_value *value) {
    for (;;) {
        MR_TRY(await_asker(call));
        mr_status status = stream_writer_give(&call->mr->worker, call, value);
        if (status != MR_BUSY) return status;
        if (!list_empty(&call->yield->askers)) context_pause(call->mr); /* no room for the answer */
    }
}

bool mr_call_streams(const mr_call *call) { return call->yield != NULL; }

mr_status mr_yield(mr_call *call, mr_arg value) {
    if (call->yield == NULL)
        return error_set(MR_INVALID, "mr_yield: %s was not called with num_returns = MR_STREAM", call->name->text);
    stream_writer_value packed;
    MR_TRY(call_check_process(call));
    MR_TRY(stream_writer_pack(call, &value, &packed));
    context_lock(call->mr);
    mr_status status = give_waiting(call, &packed);
    if (status == MR_OK) core_worker_stir(&call->mr->worker);
    value_pack_unref(packed.pack);
    return context_done(call->mr, status);
}

mr_status mr_try_yield(mr_call *call, mr_arg value) {
    MR_TRY(call_check_process(call));
    context_lock(call->mr);
    bool busy = call->yield != NULL && stream_writer_is_idle(call);
    context_unlock(call->mr);
    return busy ? error_set(MR_BUSY, "the reader has not requested the next result of stream %s yet", call->name->text)
                : mr_yield(call, value);
}
