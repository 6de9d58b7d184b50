/* worker_decode.c — see worker_internal.h: decoding of requests. Tested by tests/runtime_task_test.c. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "runtime/worker/stream_writer.h"
#include "runtime/worker/worker_internal.h"

/* ---- Names by number. */

static void names_free(known_names *names) {
    for (uint32_t i = 0; i < names->count; i++) interned_name_unref(names->by_number[i]);
    free(names->by_number);
    free(names);
}

static __attribute__((noinline)) known_names *look_up_names(worker *worker, link_id link) {
    known_names *names = map_get(&worker->names, link.v);
    if (names == NULL) {
        names = XNEW(known_names, .link = link);
        map_put(&worker->names, link.v, names);
    }
    return worker->recent = names;
}

static inline known_names *names_of(worker *worker, link_id link) {
    known_names *recent = worker->recent;
    return __builtin_expect(recent != NULL && recent->link.v == link.v, 1) ? recent : look_up_names(worker, link);
}

/* Assigns the peer's number to this name. */
static mr_status learn(known_names *names, uint32_t number, interned_name *name) {
    if (number > NAME_TABLE_MAX)
        return error_set(MR_CORRUPT, "malformed request: name number %u exceeds %d", number, NAME_TABLE_MAX);
    if (number >= names->count) {
        uint32_t count = number < 16 ? 16 : 2 * number;
        MR_TRY(alloc_try_resize(&names->by_number, count * sizeof *names->by_number));
        memset(names->by_number + names->count, 0, (count - names->count) * sizeof *names->by_number);
        names->count = count;
    }
    interned_name_unref(names->by_number[number]);
    names->by_number[number] = interned_name_ref(name);
    return MR_OK;
}

void worker_forget_names(worker *worker, link_id link) {
    known_names *names = map_remove(&worker->names, link.v);
    if (names == NULL) return;
    if (worker->recent == names) worker->recent = NULL;
    names_free(names);
}

void worker_names_fini(worker *worker) {
    for (map_entry entry; map_next(&worker->names, 0, &entry) != 0;) names_free(map_remove(&worker->names, entry.key));
    map_fini(&worker->names);
}

/* ---- Requests. */

/* Decodes the name of a task or a method that is sent as text, and assigns its number. */
static __attribute__((noinline)) mr_status read_name(worker *worker, const rpc_call_request *request, wire_head head,
                                                     mr_call *call, const uint8_t **rest) {
    span payload = request->payload;
    reader reader = reader_of(*rest, (size_t)(payload.data + payload.size - *rest));
    if (request->method == WORKER_ACTOR_CALL) call->actor = wire_get_actor(&reader);
    const uint8_t *text = reader_bytes(&reader, wire_padded(head.name_size));
    if (text == NULL || head.returns == 0 || head.name_size > WIRE_NAME_MAX || memchr(text, 0, head.name_size) != NULL)
        return error_set(MR_CORRUPT, "malformed request of %zu bytes: name length %u (at most %d), %u results",
                         payload.size, head.name_size, WIRE_NAME_MAX, head.returns);
    span code = {0};
    if ((head.flags & WIRE_CODE) != 0) {
        uint64_t size = reader_u64(&reader);
        const uint8_t *bytes = size > MR_CODE_MAX ? NULL : reader_bytes(&reader, wire_padded((size_t)size));
        if (bytes == NULL)
            return error_set(MR_CORRUPT, "malformed request of %zu bytes: code length %llu (at most %d)", payload.size,
                             (unsigned long long)size, MR_CODE_MAX);
        code = span_of(bytes, (size_t)size);
    }
    *rest = reader.at;
    call->name = name_table_get(&worker->worker->names, (const char *)text, head.name_size, code);
    if (call->name == NULL) return MR_NOMEM;
    return head.number == 0 ? MR_OK : learn(names_of(worker, request->token.link), head.number, call->name);
}

static __attribute__((noinline)) mr_status read_repeat(span payload, mr_call *call, const uint8_t **rest) {
    size_t left = (size_t)(payload.data + payload.size - *rest);
    if (left < sizeof call->repeat)
        return error_set(MR_CORRUPT, "malformed request: %zu bytes for the number of a call, %zu expected", left,
                         sizeof call->repeat);
    memcpy(&call->repeat, *rest, sizeof call->repeat);
    *rest += sizeof call->repeat;
    return MR_OK;
}

/* Decodes the name of a task or a method; the arguments begin at *rest. */
static mr_status read_call(worker *worker, const rpc_call_request *request, mr_call *call, const uint8_t **rest) {
    wire_head head;
    span payload = request->payload;
    if (payload.size < sizeof head)
        return error_set(MR_CORRUPT, "malformed request: %zu bytes, at least %zu", payload.size, sizeof head);
    memcpy(&head, payload.data, sizeof head);
    call->returns = head.returns;
    call->holds = (head.flags & WIRE_HOLDS) != 0;
    if ((head.flags & WIRE_STREAM) != 0) MR_TRY(stream_writer_open(call));
    *rest = payload.data + sizeof head;
    if (__builtin_expect((head.flags & WIRE_REPEATS) != 0, 0)) MR_TRY(read_repeat(payload, call, rest));
    if (head.name_size != 0) return read_name(worker, request, head, call, rest);
    const known_names *names = names_of(worker, request->token.link);
    interned_name *known = head.number < names->count ? names->by_number[head.number] : NULL;
    if (known == NULL || head.returns == 0)
        return error_set(MR_CORRUPT, "malformed request: unknown name number %u, or %u results", head.number,
                         head.returns);
    call->name = interned_name_ref(known);
    call->actor = worker->actor;
    return MR_OK;
}

/* Decodes WORKER_ACTOR_INIT: the class of an actor that is to be created here; the arguments begin at *rest. */
static __attribute__((noinline)) mr_status read_init(worker *worker, const rpc_call_request *request, mr_call *call,
                                                     const uint8_t **rest) {
    span payload = request->payload;
    reader reader = reader_of(payload.data, payload.size);
    call->actor = wire_get_actor(&reader);
    call->returns = 1;
    span name = wire_get_name(&reader);
    call->threads = reader_u32(&reader);
    if (reader.failed || call->threads == 0 || call->threads > WORKER_THREADS_MAX)
        return error_set(MR_CORRUPT, "malformed creation of an actor: %zu bytes, %u threads (1 to %d)", payload.size,
                         call->threads, WORKER_THREADS_MAX);
    size_t fields = wire_padded((size_t)(reader.at - payload.data));
    if (fields > payload.size)
        return error_set(MR_CORRUPT, "malformed request: its fields take %zu of its %zu bytes", fields, payload.size);
    *rest = payload.data + fields;
    call->name = name_table_get(&worker->worker->names, (const char *)name.data, name.size, (span){0});
    return call->name == NULL ? MR_NOMEM : MR_OK;
}

mr_status worker_read(worker *worker, const rpc_call_request *request, mr_call *call) {
    const uint8_t *rest = NULL;
    mr_status status = request->method == WORKER_ACTOR_INIT ? read_init(worker, request, call, &rest)
                                                            : read_call(worker, request, call, &rest);
    if (status != MR_OK || (request->body.size > 0 && request->body.data == NULL)) {
        wire_body_drop(request->body.data);
        return status != MR_OK ? status
                               : error_set(MR_NOMEM, "no memory for %zu bytes of arguments", request->body.size);
    }
    if (request->body.size > 0) return call_take_pack(call, wire_body_pack(request->body.data));
    size_t size = (size_t)(request->payload.data + request->payload.size - rest);
    return size == 0 ? MR_OK : call_take_args(call, span_of(rest, size), &worker->spares); /* 0: no arguments */
}
