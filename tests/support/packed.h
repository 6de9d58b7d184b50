/* packed.h — for tests: an encoded value in memory of exactly its size, so that a sanitizer sees a step beside it. */
#pragma once
#include "net/value.h"

typedef struct packed {
    uint8_t *parcel; /* owned */
    size_t parcel_size;
    uint8_t *body; /* owned */
    size_t body_size;
    value_buffer *buffers; /* owned; what they point to is the argument's */
    uint32_t buffer_count;
} packed;

/* MR_OK or what value_measure says. */
MR_MUST mr_status pack(const mr_arg *arg, size_t out_of_line_min, packed *out);

/* A parcel without buffers around bytes that may be anything. */
packed pack_raw(const void *value, size_t size);

void packed_fini(packed *packed);

static inline span packed_parcel(const packed *packed) { return span_of(packed->parcel, packed->parcel_size); }
static inline span packed_body(const packed *packed) { return span_of(packed->body, packed->body_size); }

/* The value inside the parcel. */
span packed_value(const packed *packed);

MR_MUST mr_status packed_open(const packed *packed, value_doc *doc, mr_value *root);

/* Reads every byte that the value has, through the public functions, and gives a number that depends on all of them,
 * on the kinds and on the order. */
uint64_t value_digest(const mr_value *value);
