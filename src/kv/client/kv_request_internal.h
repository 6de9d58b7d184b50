/* kv_request_internal.h — internals of a push or pull, shared by request*.c; see kv_request.h. */
#pragma once
#include "kv/client/kv_request.h"
#include "kv/client/kv_worker_internal.h"

typedef struct kv_request_builder { /* one request that is under way to its slots */
    kv_worker *worker;
    const kv_request *request;
    ticket *ticket;
    bool after;        /* it pulls what its own push makes */
    uint8_t flags;     /* of the sections of its push */
    uint8_t names;     /* of the section that asks: PAYLOAD_LISTED, PAYLOAD_KNOWN or 0 */
    bool run;          /* the keys of the section that is added are one after the other */
    push_batch *batch; /* that has the section which was added last */
} kv_request_builder;

/* A step is open, the table is there and of this kind. */
mr_status kv_request_check(const kv_worker *worker, const kv_request *request, bool has_arrays);
mr_status kv_request_check_finite(const kv_request *request, size_t count); /* of those that it pushes */
/* In rounds, whether so much more may be pushed to a slot in this step; else whether so many more sections may. */
mr_status kv_request_check_room(kv_worker *worker, uint32_t slot, size_t sections, size_t bytes);
mr_status kv_request_begin(kv_request_builder *builder, uint64_t *ticket);

/* A section of a push, to be filled in; *out is empty (values NULL) if the slot has it from an earlier term. */
mr_status kv_request_add(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count, size_t value_bytes,
                         payload_room *out);
/* The same for values that lie at `afar` in this process's memory, which the server of the slot sees. */
mr_status kv_request_add_afar(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count,
                              size_t value_bytes, const payload_afar *afar, const payload_place *place);
/* The same for values that are lent, of a multiple of 8 bytes: they are sent from where they lie. */
mr_status kv_request_add_borrowed(kv_request_builder *builder, uint32_t slot, payload_op op, size_t count, span values,
                                  const payload_place *place);
/* One row more, for that key: of the section before it, if that is a run which goes on with it, or one of its own.
 * *values: where its values are to be written; NULL: the slot has it from an earlier term. */
mr_status kv_request_add_row(kv_request_builder *builder, uint32_t slot, payload_op op, uint64_t key, void **values);

/* ---- Codecs (kv_request_encode.c). */

typedef struct kv_request_section { /* of a push, as a codec takes it */
    uint32_t slot;
    payload_op op;
    size_t count;        /* of keys, or of items of a stretch */
    uint64_t place;      /* its first key, or where the stretch begins */
    const float *values; /* borrowed, as are the rests, which are changed */
    float *rests;
    size_t items;
} kv_request_section;

bool kv_request_is_coded(const kv_request *request);                    /* by a codec that loses something */
size_t kv_request_value_bytes(const kv_request *request, size_t items); /* of a section with so many values, at most */
/* from the table's dtype */
void kv_request_floats(const kv_request *request, const void *from, size_t count, float *to);
/* As kv_request_add; its values are written. The coder has room for them and for a message of kv_request_value_bytes.
 * */
mr_status kv_request_add_coded(kv_request_builder *builder, const kv_request_section *section, payload_room *out);
/* The section that was added last is whole. Without codecs it would have `plain` bytes. */
mr_status kv_request_seal(kv_request_builder *builder, size_t plain);

/* ---- Queries. */

/* A section of a query, whose answer `part` takes. */
mr_status kv_request_ask(kv_request_builder *builder, uint32_t slot, payload_op op, size_t answer, scatter *part,
                         payload_room *out);
