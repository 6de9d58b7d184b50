/* exact_value.c — see exact_value.h. */
#include "tests/support/exact_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* Allocates exactly this size, aligned. */
static uint8_t *exact(size_t align, size_t size) {
    void *memory = NULL;
    MR_ASSERT(posix_memalign(&memory, align, size ? size : 1) == 0 && memory != NULL);
    memset(memory, 0xee, size);
    return memory;
}

mr_status pack(const mr_arg *arg, size_t out_of_line_min, exact_value *out) {
    value_plan plan;
    MR_TRY(value_measure(arg, out_of_line_min, &plan));
    out->buffer_count = plan.buffer_count;
    out->buffers = xcalloc(plan.buffer_count, sizeof *out->buffers);
    out->payload_size = plan.size;
    out->payload = exact(VALUE_ALIGN, plan.size);
    value_write(arg, &plan, out->payload, out->buffers);
    out->body_size = value_body_size(out->buffers, out->buffer_count);
    out->body = exact(VALUE_BUFFER_ALIGN, out->body_size);
    value_body_write(out->buffers, out->buffer_count, out->body);
    return MR_OK;
}

exact_value pack_raw(const void *value, size_t size) {
    value_payload_header header = {.value_size = (uint32_t)size};
    exact_value out = {.payload_size = sizeof header + size};
    out.payload = exact(VALUE_ALIGN, out.payload_size);
    memcpy(out.payload, &header, sizeof header);
    if (size != 0) memcpy(out.payload + sizeof header, value, size);
    return out;
}

void exact_value_fini(exact_value *value) {
    free(value->payload);
    free(value->body);
    free(value->buffers);
    memset(value, 0, sizeof *value);
}

span exact_value_value(const exact_value *value) {
    value_payload_header header;
    memcpy(&header, value->payload, sizeof header);
    return span_of(value->payload + value->payload_size - header.value_size, header.value_size);
}

mr_status exact_value_open(const exact_value *value, value_doc *doc, mr_value *root) {
    return value_open(doc, exact_value_payload(value), exact_value_body(value), root);
}

/* ---- Digest. */

static uint64_t mix(uint64_t digest, uint64_t number) {
    digest = (digest ^ number) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 29;
}

static uint64_t mix_span(uint64_t digest, mr_span bytes) {
    const uint8_t *at = bytes.data;
    for (size_t i = 0; i < bytes.size; i++) digest = mix(digest, at[i]);
    return mix(digest, bytes.size);
}

static uint64_t mix_tensor(uint64_t digest, const mr_value *value) {
    mr_tensor tensor;
    MR_ASSERT(mr_value_tensor(value, &tensor) == MR_OK);
    MR_ASSERT((uintptr_t)tensor.data % mr_dtype_size(tensor.dtype) == 0);
    digest = mix(mix(mix(digest, tensor.dtype), tensor.tensor_kind), (uint64_t)tensor.dims);
    for (int i = 0; i < tensor.dims; i++) digest = mix(digest, (uint64_t)tensor.shape[i]);
    return mix_span(digest, (mr_span){tensor.data, tensor.bytes});
}

static uint64_t mix_custom(uint64_t digest, const mr_value *value) {
    mr_custom custom;
    MR_ASSERT(mr_value_custom(value, &custom) == MR_OK);
    digest = mix_span(mix(digest, (uint64_t)custom.format), custom.data);
    for (size_t i = 0; i < custom.buffer_count; i++) {
        mr_span buffer;
        MR_ASSERT(mr_value_buffer(value, i, &buffer) == MR_OK);
        digest = mix_span(digest, buffer);
    }
    return mix(digest, custom.buffer_count);
}

static uint64_t mix_error(uint64_t digest, const mr_value *value) {
    mr_error error;
    for (size_t i = 0; mr_value_error(value, i, &error) == MR_OK; i++)
        digest = mix_span(mix_span(mix(digest, (uint64_t)error.code), error.message), error.origin);
    return digest;
}

static uint64_t mix_scalar(uint64_t digest, const mr_value *value) {
    bool b;
    int64_t i;
    double f;
    uint64_t bits;
    mr_span bytes;
    mr_ref ref;
    mr_actor actor;
    switch (mr_value_kind(value)) {
    case MR_KIND_BOOL: MR_ASSERT(mr_value_bool(value, &b) == MR_OK); return mix(digest, b);
    case MR_KIND_INT: MR_ASSERT(mr_value_int(value, &i) == MR_OK); return mix(digest, (uint64_t)i);
    case MR_KIND_FLOAT:
        MR_ASSERT(mr_value_float(value, &f) == MR_OK);
        memcpy(&bits, &f, sizeof bits);
        return mix(digest, bits);
    case MR_KIND_STR: MR_ASSERT(mr_value_str(value, &bytes) == MR_OK); return mix_span(digest, bytes);
    case MR_KIND_BYTES: MR_ASSERT(mr_value_bytes(value, &bytes) == MR_OK); return mix_span(digest, bytes);
    case MR_KIND_REF: MR_ASSERT(mr_value_ref(value, &ref) == MR_OK); return mix(mix(digest, ref.word[0]), ref.word[1]);
    case MR_KIND_ACTOR:
        MR_ASSERT(mr_value_actor(value, &actor) == MR_OK);
        return mix(mix(digest, actor.word[0]), actor.word[1]);
    case MR_KIND_ERROR: return mix_error(digest, value);
    default: return digest;
    }
}

static uint64_t digest_from(uint64_t digest, const mr_value *value) {
    mr_kind kind = mr_value_kind(value);
    digest = mix(digest, kind);
    if (kind == MR_KIND_TENSOR) return mix_tensor(digest, value);
    if (kind == MR_KIND_CUSTOM) return mix_custom(digest, value);
    if (kind != MR_KIND_LIST && kind != MR_KIND_TUPLE && kind != MR_KIND_MAP) return mix_scalar(digest, value);
    size_t count = 0;
    mr_iter iter = mr_value_iter(value);
    for (mr_value item; mr_iter_next(&iter, &item); count++) digest = digest_from(digest, &item);
    MR_ASSERT(count == mr_value_count(value) * (kind == MR_KIND_MAP ? 2 : 1));
    return mix(digest, count);
}

uint64_t value_digest(const mr_value *value) { return digest_from(0, value); }
