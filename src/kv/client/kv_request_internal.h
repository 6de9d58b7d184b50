/* kv_request_internal.h — internals of a push or pull, shared by kv_request*.c; see kv_request.h. */
#pragma once
#include "kv/client/kv_request.h"
#include "kv/client/kv_worker_internal.h"

typedef struct kv_request_builder { /* a request that is being split */
    kv_worker *worker;
    const kv_request *request;
    ticket *ticket;
    reader_pull *pull; /* of a reader, from slots with rounds; NULL: another request */
    bool after;        /* the request pulls the result of its own push */
    uint8_t flags;     /* of the sections of the push */
    uint8_t names;     /* of the asking section: PAYLOAD_LISTED, PAYLOAD_KNOWN or 0 */
    bool run;          /* the keys of the added section are consecutive */
    bool left_out;     /* the push is left out; a pull of the request is not */
    push_batch *batch; /* batch with the last added section */
} kv_request_builder;

/* Checks that a step is open, and that the table exists and has arrays (`has_arrays`) or keys. */
mr_status kv_request_check(const kv_worker *worker, const kv_request *request, bool has_arrays);
/* Checks `count` pushed values, and sets builder->left_out. MR_INVALID: one is not finite, and the table refuses it. */
mr_status kv_request_check_finite(kv_request_builder *builder, size_t count);
/* Whether `bytes` more (in rounds) or `sections` more (outside rounds) of this step fit into the slot's queue. */
mr_status kv_request_check_room(kv_worker *worker, uint32_t slot, size_t sections, size_t bytes);
mr_status kv_request_begin(kv_request_builder *builder, uint64_t *ticket);
/* The request is split, with this outcome: ends the part of the ticket that the builder holds. */
void kv_request_end(kv_request_builder *builder, mr_status status);

/* Adds a section of a push, whose values the caller writes to *out. *out is empty (values NULL) if the slot has applied
 * the section in an earlier term. */
mr_status kv_request_add(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count, size_t value_bytes,
                         payload_room *out);
/* Same, for values at `afar` in this process's memory, which the server of the slot has imported. */
mr_status kv_request_add_afar(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count,
                              size_t value_bytes, const payload_afar *afar, const payload_place *place);
/* Same, for values that are sent without a copy; their size is a multiple of 8 bytes. */
mr_status kv_request_add_borrowed(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count, span values,
                                  const payload_place *place);
/* Adds one row: to the last section, if it is a run that `key` continues, or as a section of its own. *values:
 * destination of the row's values; NULL: the slot has applied the push in an earlier term. */
mr_status kv_request_add_row(kv_request_builder *builder, uint32_t slot, payload_op op, uint64_t key, void **values);

/* ---- Codecs (kv_request_encode.c). */

typedef struct kv_request_section { /* a section of a push, as the input of a codec */
    uint32_t slot;
    payload_op op;
    size_t count;        /* keys, or items of a stretch */
    uint64_t place;      /* first key, or first item of the stretch */
    const float *values; /* borrowed; the residuals too, and they are changed */
    float *rests;
    size_t items;
} kv_request_section;

bool kv_request_is_coded(const kv_request *request); /* by a lossy codec */
/* upper bound for a section of `items` values */
size_t kv_request_value_bytes(const kv_request *request, size_t items);
/* Converts pushed values to those on the wire. */
void kv_request_write(const kv_request *request, const void *from, size_t count, void *to);
/* As kv_request_add, and writes the values. The encoder has room for them and for a message of
 * kv_request_value_bytes. */
mr_status kv_request_add_coded(kv_request_builder *builder, const kv_request_section *section, payload_room *out);
/* Whether the step may leave the push out, so that its residuals must be saved (feedback_undo.h). */
bool kv_request_may_undo(const kv_request *request);
/* Completes the last added section, which would have `plain` bytes without codecs. */
mr_status kv_request_seal(kv_request_builder *builder, size_t plain);

/* ---- Queries. */

/* Adds a section to a query; `part` receives its answer. */
mr_status kv_request_ask(kv_request_builder *builder, uint32_t slot, payload_op op, size_t answer, scatter *part,
                         payload_room *out);
