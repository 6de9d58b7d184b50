/* exact_value.h — for tests: an encoded value in memory of exactly its size, so that a sanitizer detects accesses
 * outside it. */
#pragma once
#include "net/value.h"

typedef struct exact_value {
    uint8_t *payload; /* owned */
    size_t payload_size;
    uint8_t *body; /* owned */
    size_t body_size;
    value_buffer *buffers; /* owned; the memory that the buffers point to belongs to the argument */
    uint32_t buffer_count;
} exact_value;

/* MR_OK, or the status of value_measure. */
MR_MUST mr_status pack(const mr_arg *arg, size_t out_of_line_min, exact_value *out);

/* A payload without buffers around arbitrary bytes. */
exact_value pack_raw(const void *value, size_t size);

void exact_value_fini(exact_value *value);

static inline span exact_value_payload(const exact_value *value) {
    return span_of(value->payload, value->payload_size);
}
static inline span exact_value_body(const exact_value *value) { return span_of(value->body, value->body_size); }

/* The value inside the payload. */
span exact_value_value(const exact_value *value);

MR_MUST mr_status exact_value_open(const exact_value *value, value_doc *doc, mr_value *root);

/* Reads every byte of the value through the public functions, and returns a number that depends on all of them, on the
 * kinds and on the order. */
uint64_t value_digest(const mr_value *value);
