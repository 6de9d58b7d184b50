/* kv_request_internal.h — internals of a push or pull, shared by kv_request*.c; see kv_request.h. */
#pragma once
#include "kv/client/kv_request.h"
#include "kv/client/kv_worker_internal.h"

typedef struct kv_request_builder { /* one request that is being split */
    kv_worker *worker;
    const kv_request *request;
    ticket *ticket;
    bool after;        /* it pulls the result of its own push */
    uint8_t flags;     /* of the sections of its push */
    uint8_t names;     /* of the section that asks: PAYLOAD_LISTED, PAYLOAD_KNOWN or 0 */
    bool run;          /* the keys of the added section are consecutive */
    push_batch *batch; /* that has the last added section */
} kv_request_builder;

/* Checks that a step is open, and that the table exists and is of this kind. */
mr_status kv_request_check(const kv_worker *worker, const kv_request *request, bool has_arrays);
mr_status kv_request_check_finite(const kv_request *request, size_t count); /* of the pushed values */
/* In rounds, whether so many more bytes fit into a slot in this step; else so many more sections. */
mr_status kv_request_check_room(kv_worker *worker, uint32_t slot, size_t sections, size_t bytes);
mr_status kv_request_begin(kv_request_builder *builder, uint64_t *ticket);

/* A section of a push, to be filled in; *out is empty (values NULL) if the slot has it from an earlier term. */
mr_status kv_request_add(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count, size_t value_bytes,
                         payload_room *out);
/* The same for values that lie at `afar` in this process's memory, which the server of the slot sees. */
mr_status kv_request_add_afar(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count,
                              size_t value_bytes, const payload_afar *afar, const payload_place *place);
/* The same for values that are sent without a copy, of a multiple of 8 bytes. */
mr_status kv_request_add_borrowed(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count, span values,
                                  const payload_place *place);
/* One row more, for that key: of the section before it, if that is a run which continues with the key, or a section of
 * its own. *values: the destination of its values; NULL: the slot has it from an earlier term. */
mr_status kv_request_add_row(kv_request_builder *builder, uint32_t slot, payload_op op, uint64_t key, void **values);

/* ---- Codecs (kv_request_encode.c). */

typedef struct kv_request_section { /* of a push, as the input of a codec */
    uint32_t slot;
    payload_op op;
    size_t count;        /* of keys, or of items of a stretch */
    uint64_t place;      /* its first key, or where the stretch begins */
    const float *values; /* borrowed, as are the residuals, which are changed */
    float *rests;
    size_t items;
} kv_request_section;

bool kv_request_is_coded(const kv_request *request);                    /* by a lossy codec */
size_t kv_request_value_bytes(const kv_request *request, size_t items); /* of a section with so many values, at most */
/* from the table's dtype */
void kv_request_floats(const kv_request *request, const void *from, size_t count, float *to);
/* As kv_request_add; its values are written. The encoder has room for them and for a message of
 * kv_request_value_bytes. */
mr_status kv_request_add_coded(kv_request_builder *builder, const kv_request_section *section, payload_room *out);
/* The last added section is complete. Without codecs it would have `plain` bytes. */
mr_status kv_request_seal(kv_request_builder *builder, size_t plain);

/* ---- Queries. */

/* A section of a query, whose answer `part` takes. */
mr_status kv_request_ask(kv_request_builder *builder, uint32_t slot, payload_op op, size_t answer, scatter *part,
                         payload_room *out);
