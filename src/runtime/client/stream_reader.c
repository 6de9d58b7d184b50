/* stream_reader.c — see stream_reader.h. Tested by tests/yield_test.c. */
#include "runtime/client/stream_reader.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/mutation.h"
#include "runtime/client/core_worker.h"
#include "runtime/refs/attachment.h"

enum { WINDOW_FIRST = 4 /* pulls at the begin; one more for each arrived result */ };

struct stream_reader {
    stream_readers *readers;
    object *whole; /* held */
    object_waiter ended;
    list pulls; /* elements: pull, not taken, in order */
    uint32_t count, window, ahead;
    link_id link;    /* link on which the request was sent */
    uint64_t number; /* number of the request's call; 0: not sent, or over */
    failure *failed; /* failure of the request, until a pull reports it */
    bool began, over;
};

typedef struct pull {
    wire_call call;
    list place;
    stream_reader *stream; /* NULL: abandoned or taken; the record is freed when the call ends */
    object *object;        /* held */
    bool peeked;           /* the program has a reference from mr_stream_peek */
} pull;

/* ---- Pulls. */

static mr_status receive(pull *pull, const rpc_call_result *result, value_pack **values, failure **failed) {
    core_worker *worker = pull->stream->readers->worker;
    wire_outcome(&pull->call, result, "a result of a stream", values, failed);
    if (*failed != NULL) return MR_OK;
    mr_status status =
        (*values)->count == 1
            ? attachment_receive(&worker->objects, *values)
            : error_set(MR_CORRUPT, "malformed result of a stream: %u values instead of 1", (*values)->count);
    if (status == MR_OK && (*values)->attachment != NULL)
        result_holds_arrived(&worker->holds, pull->call.answered, *values);
    return status;
}

static void fill(stream_reader *stream);

static void pulled(wire_call *call, const rpc_call_result *result) {
    pull *pull = container_of(call, struct pull, call);
    if (pull->stream == NULL) {
        wire_call_end(call);
        return;
    }
    if (result->status != MR_OK) return; /* the pull is idle again: the end of the request has the cause */
    stream_readers *readers = pull->stream->readers;
    objects *objects = &readers->worker->objects;
    value_pack *values = NULL;
    failure *failed = NULL;
    mr_status status = receive(pull, result, &values, &failed);
    if (status != MR_OK) failed = failure_create(status, mr_last_error(), "a result of a stream", NULL);
    pull->stream->began = true;
    object *whole = object_hold(pull->stream->whole); /* a waiter may abandon the stream */
    if (failed != NULL)
        object_fail(objects, pull->object, failed);
    else
        object_fulfil(objects, pull->object, values, 0);
    value_pack_unref(values);
    failure_unref(failed);
    stream_reader *stream = stream_reader_find(readers, whole);
    if (stream != NULL && stream->window < stream->ahead) {
        stream->window++;
        fill(stream);
    }
    object_drop(objects, whole);
}

/* The cancelled call ends in `pulled`. */
static void cancel_call(const core_worker *worker, const pull *pull) {
    if (pull->call.id.number != 0 && rpc_cancel(worker->rpc, pull->call.id) != MR_OK) error_clear();
}

/* Removes a pull from its stream; the record is freed when its call has ended. */
static void pull_drop(pull *pull) {
    core_worker *worker = pull->stream->readers->worker;
    object *object = pull->object;
    bool peeked = pull->peeked;
    list_remove(&pull->place);
    pull->stream->count--;
    pull->stream = NULL;
    if (pull->call.id.number == 0)
        wire_call_end(&pull->call);
    else
        cancel_call(worker, pull);
    if (peeked) object_unname(&worker->objects, object);
    object_drop(&worker->objects, object);
}

static mr_status pull_ask(pull *pull) {
    const stream_reader *stream = pull->stream;
    wire_message message = {.fields = span_of(&stream->number, sizeof stream->number)};
    return wire_ask(stream->readers->worker->rpc, stream->link, WORKER_NEXT, &message, &pull->call);
}

static void feed(stream_reader *stream) {
    if (stream->number == 0) return;
    list_for_each (at, &stream->pulls) {
        pull *pull = container_of(at, struct pull, place);
        if (pull->object->state != OBJECT_PENDING || pull->call.id.number != 0) continue;
        if (pull_ask(pull) != MR_OK) return; /* repeated when the link has room, or ended with the link */
    }
    core_worker_stir(stream->readers->worker);
}

/* Fails a pull that gets no result: the first with the request's failure, all others with MR_END. */
static void fail_pull(stream_reader *stream, pull *pull) {
    failure *failed = stream->failed;
    stream->failed = NULL;
    if (failed == NULL) failed = failure_create(MR_END, "the stream has no more results", "", NULL);
    object_fail(&stream->readers->worker->objects, pull->object, failed);
    failure_unref(failed);
}

static mr_status add_pull(stream_reader *stream) {
    objects *objects = &stream->readers->worker->objects;
    pull *made;
    MR_TRY(alloc_try(sizeof(pull), &made));
    *made = (pull){.call = {.done = pulled, .free = wire_call_free}, .stream = stream};
    made->object = object_create(objects, false);
    if (made->object == NULL) {
        free(made);
        return MR_NOMEM;
    }
    made->object->seen = true; /* no failure is logged before the program has a reference */
    list_push_back(&stream->pulls, &made->place);
    stream->count++;
    if (stream->over) fail_pull(stream, made);
    return MR_OK;
}

/* Requests as many results as may wait; a request without memory is repeated when the next result is taken. */
static void fill(stream_reader *stream) {
    uint32_t more = MUTATED("no-ahead") ? 3 : 0;
    while (!stream->over && stream->count < stream->window + more && stream->count < stream->ahead + more)
        if (add_pull(stream) != MR_OK) break;
    feed(stream);
}

/* ---- The request of a stream. */

static void whole_settled(object_waiter *waiter, object *whole) {
    stream_reader *stream = container_of(waiter, struct stream_reader, ended);
    stream->over = true;
    stream->number = 0;
    stream->failed = whole->state == OBJECT_FAILED ? failure_ref(whole->failure) : NULL;
    object_hold(whole); /* a waiter may abandon the stream, but not this object */
    list_for_each (at, &stream->pulls) {
        pull *pull = container_of(at, struct pull, place);
        if (pull->object->state != OBJECT_PENDING || MUTATED("no-end")) continue;
        cancel_call(stream->readers->worker, pull);
        fail_pull(stream, pull);
    }
    object_drop(&stream->readers->worker->objects, whole);
}

void stream_reader_sent(invocation *invocation, link_id link) {
    stream_reader *stream = stream_reader_find(&invocation->worker->readers, invocation->result);
    if (stream == NULL) return; /* the stream was abandoned: the cancellation of the request follows */
    stream->link = link;
    stream->number = invocation->call.id.number;
    fill(stream);
}

void stream_reader_unsent(const invocation *invocation) {
    stream_reader *stream = stream_reader_find(&invocation->worker->readers, invocation->result);
    if (stream == NULL) return;
    stream->number = 0; /* no pull is sent until the request is sent again */
    list_for_each (at, &stream->pulls) cancel_call(invocation->worker, container_of(at, pull, place));
}

bool stream_reader_began(const invocation *invocation) {
    const stream_reader *stream = stream_reader_find(&invocation->worker->readers, invocation->result);
    return stream == NULL || (stream->began && !MUTATED("no-began"));
}

/* ---- Start and end. */

void stream_readers_init(stream_readers *readers, core_worker *worker) {
    *readers = (struct stream_readers){.worker = worker};
}

mr_status stream_reader_open(stream_readers *readers, object *whole, uint32_t ahead) {
    stream_reader *made;
    MR_TRY(alloc_try(sizeof(stream_reader), &made));
    *made = (stream_reader){.readers = readers, .whole = object_hold(whole), .ended.fn = whole_settled, .ahead = ahead};
    made->window = ahead < WINDOW_FIRST ? ahead : WINDOW_FIRST;
    list_init(&made->pulls);
    whole->streams = true;
    whole->seen = true; /* fail_pull reports the failure */
    object_wait(&readers->worker->objects, whole, &made->ended);
    map_put(&readers->by_serial, whole->ref.word[1], made);
    return MR_OK;
}

stream_reader *stream_reader_find(const stream_readers *readers, const object *whole) {
    return whole->streams ? map_get(&readers->by_serial, whole->ref.word[1]) : NULL;
}

static void stream_reader_free(stream_reader *stream) {
    while (!list_empty(&stream->pulls)) pull_drop(container_of(stream->pulls.next, pull, place));
    object_unwait(&stream->ended);
    failure_unref(stream->failed);
    object_drop(&stream->readers->worker->objects, stream->whole);
    free(stream);
}

void stream_reader_abandon(stream_readers *readers, object *whole) {
    stream_reader *stream = map_remove(&readers->by_serial, whole->ref.word[1]);
    if (stream == NULL) return;
    bool silent = whole->maker == NULL || MUTATED("no-abandon");
    if (!silent && invocation_cancel(whole, WIRE_WITH_CHILDREN) != MR_OK) error_clear(); /* wakes the waiters */
    stream_reader_free(stream);
}

void stream_readers_fini(stream_readers *readers) {
    for (map_entry entry; map_next(&readers->by_serial, 0, &entry) != 0;)
        stream_reader_free(map_remove(&readers->by_serial, entry.key));
    map_fini(&readers->by_serial);
}

void stream_readers_feed(stream_readers *readers) {
    map_for_each (slot, &readers->by_serial) feed(slot.value);
}

/* ---- Taking of results. */

mr_status stream_reader_head(stream_reader *stream, object **out) {
    if (list_empty(&stream->pulls)) MR_TRY(add_pull(stream));
    feed(stream);
    *out = container_of(stream->pulls.next, pull, place)->object;
    return MR_OK;
}

mr_status stream_reader_peek(stream_reader *stream, object **out) {
    MR_TRY(stream_reader_head(stream, out));
    pull *head = container_of(stream->pulls.next, pull, place);
    if (!head->peeked) object_name(head->object);
    head->peeked = true;
    return MR_OK;
}

object *stream_reader_take(stream_reader *stream) {
    pull *head = container_of(stream->pulls.next, pull, place);
    object *object = head->object;
    MR_ASSERT(object->state != OBJECT_PENDING);
    if (!head->peeked || object->names == 0) object_name(object);
    head->peeked = false; /* the reference is the program's own now */
    object->seen = false;
    pull_drop(head);
    fill(stream);
    return object;
}
