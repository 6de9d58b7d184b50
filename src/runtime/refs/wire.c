/* wire.c — see wire.h. Tested by tests/runtime_task_test.c and tests/runtime_protocol_test.c. */
#include "runtime/refs/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "runtime/refs/attachment.h"

enum { OUTCOME_SIZE = 8, VALUE_AT = 2 /* offset of the value in an answer of one value */ };

span wire_get_name(reader *reader) {
    span name = reader_span32(reader);
    if (name.size > WIRE_NAME_MAX || (name.size > 0 && memchr(name.data, 0, name.size) != NULL)) reader->failed = true;
    return reader->failed ? (span){0} : name;
}

/* ---- The payload. Fields are padded to 8, so that an inline value pack can be used in place. */

static bool is_inline(const wire_message *message) {
    return message->pack == NULL || message->pack->size <= VALUE_PACK_INLINE_MAX;
}

static span inside_of(const wire_message *message) {
    if (message->pack == NULL) return message->small;
    return is_inline(message) ? span_of(message->pack->bytes, message->pack->size) : (span){0};
}

static size_t payload_size(const wire_message *message) {
    return wire_padded(message->fields.size) + inside_of(message).size;
}

static void write_payload(const wire_message *message, uint8_t *at) {
    size_t fields = wire_padded(message->fields.size);
    span inside = inside_of(message);
    memset(at + message->fields.size, 0, fields - message->fields.size);
    if (message->fields.size > 0) memcpy(at, message->fields.data, message->fields.size);
    if (inside.size > 0) memcpy(at + fields, inside.data, inside.size);
}

/* ---- Requests. */

static void on_done(void *argument, rpc_call_id id, const rpc_call_result *result) {
    wire_call *call = argument;
    call->answered = id;
    call->id = (rpc_call_id){0};
    call->done(call, result);
}

static void *on_answer_body(void *argument, rpc_call_id id, span payload, uint64_t size) {
    wire_call *call = argument;
    if (size > SIZE_MAX || value_pack_room((size_t)size, &call->arriving) != MR_OK) return NULL;
    return call->arriving->bytes;
}

static const rpc_call_options usual_options = {.on_body = on_answer_body};

static void let_go(wire_call *call) {
    if (call->free != NULL) call->free(call);
}

static void on_body_left(void *argument, mr_status status) {
    wire_call *call = argument;
    value_pack_unref(call->leaving);
    call->leaving = NULL;
    if (call->ended) let_go(call);
}

/* Starts the call. `body` (NULL: none) is sent with it, and a reference to `body` taken. */
static inline void commit(rpc *rpc, int64_t now_us, const rpc_call_options *options, link_id link, size_t size,
                          value_pack *body, wire_call *call) {
    MR_ASSERT(call->id.number == 0 && call->leaving == NULL);
    if (body == NULL) {
        call->id = rpc_commit(rpc, now_us, link, size, options, on_done, call);
        return;
    }
    call->leaving = value_pack_ref(body);
    call->id = rpc_commit_body(rpc, now_us, link, size, span_of(body->bytes, body->size), on_body_left, options,
                               on_done, call);
}

static mr_status ask(rpc *rpc, int64_t now_us, const rpc_call_options *options, link_id link, wire_method method,
                     const wire_message *message, wire_call *call) {
    uint8_t *at;
    size_t size = payload_size(message);
    MR_TRY(rpc_begin(rpc, link, (uint32_t)method, size, &at));
    write_payload(message, at);
    commit(rpc, now_us, options, link, size, is_inline(message) ? NULL : message->pack, call);
    return MR_OK;
}

mr_status wire_ask(rpc *rpc, link_id link, wire_method method, const wire_message *message, wire_call *call) {
    return ask(rpc, 0, &usual_options, link, method, message, call);
}

mr_status wire_ask_within(rpc *rpc, int64_t now_us, int64_t timeout_us, link_id link, wire_method method,
                          const wire_message *message, wire_call *call) {
    const rpc_call_options options = {.on_body = on_answer_body, .timeout_us = timeout_us};
    return ask(rpc, now_us, &options, link, method, message, call);
}

void wire_call_free(wire_call *call) { free(call); }

static void told(wire_call *call, const rpc_call_result *result) { wire_call_end(call); }

mr_status wire_tell(rpc *rpc, link_id link, wire_method method, span fields) {
    wire_call *call = XNEW(wire_call, .done = told, .free = wire_call_free);
    mr_status status = wire_ask(rpc, link, method, &(wire_message){.fields = fields}, call);
    if (status != MR_OK) free(call);
    return status;
}

void wire_call_commit(rpc *rpc, link_id link, size_t size, value_pack *body, wire_call *call) {
    commit(rpc, 0, &usual_options, link, size, body, call);
}

bool wire_call_commit_now(rpc *rpc, link_id link, size_t size, const span *pieces, size_t count, wire_call *call) {
    MR_ASSERT(call->id.number == 0 && call->leaving == NULL);
    return rpc_commit_now(rpc, link, size, pieces, count, on_answer_body, on_done, call, &call->id);
}

mr_status wire_call_words(rpc *rpc, link_id link, wire_method method, const uint64_t *words, size_t count,
                          wire_call *call) {
    rpc_call_small small = {.method = (uint32_t)method,
                            .count = (uint32_t)count,
                            .words = words,
                            .on_body = on_answer_body,
                            .done = on_done,
                            .argument = call};
    return rpc_ask(rpc, link, &small, &call->id);
}

void wire_call_end_slowly(wire_call *call) {
    MR_ASSERT(call->id.number == 0 && !call->ended);
    value_pack_unref(call->arriving);
    call->arriving = NULL;
    if (call->leaving == NULL) {
        let_go(call);
        return;
    }
    call->ended = true;
}

static mr_status copy_pack(span bytes, value_pack **out) {
    value_pack *made;
    MR_TRY(value_pack_room(bytes.size, &made));
    if (bytes.size > 0) memcpy(made->bytes, bytes.data, bytes.size);
    *out = made;
    return MR_OK;
}

static mr_status checked(value_pack *pack, struct value_pack **out) {
    value_pack_view view;
    mr_status status = value_pack_check(pack, &view);
    if (status != MR_OK) {
        value_pack_unref(pack);
        return status;
    }
    *out = pack;
    return MR_OK;
}

failure *wire_failure(const rpc_call_result *result, const char *origin) {
    if (result->why != NULL) return failure_create(result->status, result->why->text, origin, NULL);
    char text[RPC_CALL_TEXT_MAX + 1];
    size_t size = result->payload.size < RPC_CALL_TEXT_MAX ? result->payload.size : RPC_CALL_TEXT_MAX;
    if (size > 0) memcpy(text, result->payload.data, size);
    text[size] = '\0';
    return failure_create(result->status, size > 0 ? text : mr_status_text(result->status), origin, NULL);
}

static mr_status read_values(wire_call *call, const rpc_call_result *result, span rest, wire_values *values) {
    *values = (wire_values){0};
    if (result->body.size == 0) return value_pack_open(rest, &values->view);
    values->owner = call->arriving;
    call->arriving = NULL;
    mr_status status = value_pack_check(values->owner, &values->view);
    if (status != MR_OK) value_pack_unref(values->owner);
    return status;
}

/* Reads an answer of one value (WIRE_VALUE) into a value pack, for callers without a special case. */
static mr_status read_value(const rpc_call_result *result, wire_values *values) {
    value_pack_item item = {.entry.kind = VALUE_PACK_PLAIN};
    if (!wire_read_small(result, &item.entry.bytes))
        return error_set(MR_CORRUPT, "malformed answer: its value exceeds its %zu bytes", result->payload.size);
    *values = (wire_values){0};
    MR_TRY(value_pack_create(&item, 1, &values->owner));
    mr_status status = value_pack_open(span_of(values->owner->bytes, values->owner->size), &values->view);
    MR_ASSERT(status == MR_OK);
    return MR_OK;
}

mr_status wire_read(wire_call *call, const rpc_call_result *result, wire_values *values, failure **failed) {
    *failed = NULL;
    if (result->payload.size < OUTCOME_SIZE)
        return error_set(MR_CORRUPT, "malformed answer: %zu bytes, at least %d", result->payload.size, OUTCOME_SIZE);
    span rest = span_of(result->payload.data + OUTCOME_SIZE, result->payload.size - OUTCOME_SIZE);
    if (result->payload.data[0] == WIRE_VALUES) return read_values(call, result, rest, values);
    if (result->payload.data[0] == WIRE_VALUE) return read_value(result, values);
    if (result->payload.data[0] != WIRE_FAILED)
        return error_set(MR_CORRUPT, "malformed answer: unknown kind %u", result->payload.data[0]);
    reader reader = reader_of(rest.data, rest.size);
    return failure_decode(&reader, failed);
}

bool wire_read_other(const rpc_call_result *result, span *value) {
    span payload = result->payload;
    if (payload.size < OUTCOME_SIZE || result->body.size > 0) return false;
    if (payload.data[0] == WIRE_VALUE) {
        *value = span_of(payload.data + VALUE_AT, payload.data[1]);
        return value->size > 0 && value->size <= payload.size - VALUE_AT;
    }
    if (payload.data[0] != WIRE_VALUES) return false;
    return value_pack_one_plain(span_of(payload.data + OUTCOME_SIZE, payload.size - OUTCOME_SIZE), value);
}

mr_status wire_values_keep(wire_values *values) {
    if (values->owner != NULL) return MR_OK;
    MR_TRY(copy_pack(span_of(values->view.bytes, values->view.size), &values->owner));
    values->owner->count = values->view.count;
    values->owner->hidden = values->view.hidden;
    values->view.bytes = values->owner->bytes;
    return MR_OK;
}

void wire_outcome(wire_call *call, const rpc_call_result *result, const char *origin, value_pack **values,
                  failure **failed) {
    *values = NULL;
    *failed = NULL;
    if (result->status != MR_OK) {
        *failed = wire_failure(result, origin);
        return;
    }
    wire_values read;
    mr_status status = wire_read(call, result, &read, failed);
    if (status == MR_OK && *failed == NULL) status = wire_values_keep(&read);
    if (status != MR_OK) *failed = failure_create(status, mr_last_error(), origin, NULL);
    if (*failed == NULL) *values = read.owner;
}

/* ---- Answers. */

static void answer_left(void *argument, mr_status status) { value_pack_unref(argument); }

mr_status wire_answer(rpc *rpc, rpc_call_token token, span fields) {
    uint8_t *at;
    MR_TRY(rpc_reply_begin(rpc, token, fields.size, &at));
    if (fields.size > 0) memcpy(at, fields.data, fields.size);
    rpc_reply_commit(rpc, token, fields.size);
    return MR_OK;
}

/* Answers with one plain value, in words, as it was written. The rest of its last word is zero (value_pack.h). */
static mr_status answer_value(rpc *rpc, rpc_call_token token, span value, bool more) {
    uint64_t first, second = 0, words[2];
    memcpy(&first, value.data, sizeof first);
    if (value.size > sizeof first) memcpy(&second, value.data + sizeof first, sizeof second);
    words[0] = WIRE_VALUE | (uint64_t)value.size << 8 | first << 8 * VALUE_AT;
    words[1] = first >> (64 - 8 * VALUE_AT) | second << 8 * VALUE_AT;
    return rpc_reply(rpc, token, words, value.size <= OUTCOME_SIZE - VALUE_AT ? 1 : 2, more);
}

static __attribute__((noinline)) mr_status answer_bytes(rpc *rpc, rpc_call_token token, span values, bool more) {
    static const uint8_t kind[OUTCOME_SIZE] = {WIRE_VALUES};
    span value;
    if (value_pack_one_plain(values, &value) && value.size > 0 && value.size <= WIRE_VALUE_MAX)
        return answer_value(rpc, token, value, more);
    uint8_t *at;
    MR_TRY(rpc_reply_begin(rpc, token, OUTCOME_SIZE + values.size, &at));
    memcpy(at, kind, sizeof kind);
    bytes_copy_words(at + OUTCOME_SIZE, values.data, values.size);
    rpc_reply_commit(rpc, token, OUTCOME_SIZE + values.size);
    return MR_OK;
}

mr_status wire_answer_bytes(rpc *rpc, rpc_call_token token, span values, bool more) {
    uint64_t byte;
    if (!value_pack_one_byte(values, &byte)) return answer_bytes(rpc, token, values, more);
    uint64_t word = WIRE_VALUE | UINT64_C(1) << 8 | byte << 8 * VALUE_AT;
    return rpc_reply(rpc, token, &word, 1, more);
}

static mr_status answer_values(rpc *rpc, rpc_call_token token, value_pack *values) {
    static const uint8_t kind[OUTCOME_SIZE] = {WIRE_VALUES};
    wire_message message = {.fields = span_of(kind, sizeof kind), .pack = values};
    uint8_t *at;
    size_t size = payload_size(&message);
    MR_TRY(rpc_reply_begin(rpc, token, size, &at));
    write_payload(&message, at);
    if (is_inline(&message)) {
        rpc_reply_commit(rpc, token, size);
        return MR_OK;
    }
    value_pack *body = value_pack_ref(values);
    rpc_reply_commit_body(rpc, token, size, span_of(body->bytes, body->size), answer_left, body);
    return MR_OK;
}

mr_status wire_answer_values(rpc *rpc, rpc_call_token token, value_pack *values) {
    if (values->attachment == NULL) return answer_values(rpc, token, values);
    value_pack *dressed; /* the value pack with its table of references (attachment.h) */
    MR_TRY(attachment_dress(values, &dressed));
    mr_status status = answer_values(rpc, token, dressed);
    value_pack_unref(dressed);
    return status;
}

mr_status wire_answer_failure(rpc *rpc, rpc_call_token token, const failure *failure) {
    size_t size = OUTCOME_SIZE + failure_encoded_size(failure);
    uint8_t *at;
    MR_TRY(rpc_reply_begin(rpc, token, size, &at));
    memset(at, 0, OUTCOME_SIZE);
    at[0] = WIRE_FAILED;
    writer writer = writer_of(at + OUTCOME_SIZE, size - OUTCOME_SIZE);
    failure_encode(failure, &writer);
    MR_ASSERT(!writer.failed);
    rpc_reply_commit(rpc, token, size);
    return MR_OK;
}

void wire_refuse(rpc *rpc, rpc_call_token token, mr_status status, const char *text) {
    if (rpc_fail(rpc, token, status, text) != MR_OK) error_clear();
}

void *wire_body_room(uint64_t size) {
    value_pack *pack;
    if (size > SIZE_MAX || value_pack_room((size_t)size, &pack) != MR_OK) return NULL;
    return pack->bytes;
}

/* A value pack's memory begins 64 bytes before its bytes. */
value_pack *wire_body_pack(const void *body) { return (value_pack *)(uintptr_t)((const uint8_t *)body - 64); }

void wire_body_drop(const void *body) {
    if (body != NULL) value_pack_unref(wire_body_pack(body));
}

mr_status wire_take_pack(const reader *reader, span payload, span body, value_pack **out) {
    if (body.size > 0) {
        if (body.data == NULL) return error_set(MR_NOMEM, "no memory for %zu bytes of arguments", body.size);
        return checked(wire_body_pack(body.data), out);
    }
    size_t fields = reader->failed ? payload.size : wire_padded((size_t)(reader->at - payload.data));
    if (fields > payload.size)
        return error_set(MR_CORRUPT, "malformed request: its fields take %zu of its %zu bytes", fields, payload.size);
    value_pack *pack;
    MR_TRY(copy_pack(span_of(payload.data + fields, payload.size - fields), &pack));
    return checked(pack, out);
}
