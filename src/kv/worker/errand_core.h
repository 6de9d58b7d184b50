/* errand_core.h — internals of a push or pull, shared by errand*.c; see errand.h. */
#pragma once
#include "kv/worker/customer_core.h"
#include "kv/worker/errand.h"

typedef struct trip { /* one errand that is under way to its slots */
    customer *customer;
    const errand *errand;
    ticket *ticket;
    bool after;    /* it pulls what its own push makes */
    uint8_t flags; /* of the sections of its push */
    uint8_t names; /* of the section that asks: PARCEL_LISTED, PARCEL_KNOWN or 0 */
    bool run;      /* the keys of the section that is added are one after the other */
    batch *batch;  /* that has the section which was added last */
} trip;

/* A step is open, the table is there and of this kind. */
mr_status errand_check(const customer *customer, const errand *errand, bool has_arrays);
mr_status errand_check_finite(const errand *errand, size_t count); /* of those that it pushes */
/* In rounds, whether so much more may be pushed to a slot in this step; else whether so many more sections may. */
mr_status errand_check_room(customer *customer, uint32_t slot, size_t sections, size_t bytes);
mr_status errand_begin(trip *trip, uint64_t *ticket);

/* A section of a push, to be filled in; *out is empty (values NULL) if the slot has it from an earlier stint. */
mr_status errand_add(trip *trip, uint32_t slot, parcel_op op, size_t count, size_t value_bytes, parcel_room *out);
/* The same for values that lie at `afar` in this process's memory, which the server of the slot sees. */
mr_status errand_add_afar(trip *trip, uint32_t slot, parcel_op op, size_t count, size_t value_bytes,
                          const parcel_afar *afar, const parcel_place *place);
/* The same for values that are lent, of a multiple of 8 bytes: they are sent from where they lie. */
mr_status errand_add_lent(trip *trip, uint32_t slot, parcel_op op, size_t count, span values,
                          const parcel_place *place);
/* One row more, for that key: of the section before it, if that is a run which goes on with it, or one of its own.
 * *values: where its values are to be written; NULL: the slot has it from an earlier stint. */
mr_status errand_add_row(trip *trip, uint32_t slot, parcel_op op, uint64_t key, void **values);

/* ---- Codecs (errand_code.c). */

typedef struct errand_section { /* of a push, as a codec takes it */
    uint32_t slot;
    parcel_op op;
    size_t count;        /* of keys, or of items of a stretch */
    uint64_t place;      /* its first key, or where the stretch begins */
    const float *values; /* borrowed, as are the rests, which are changed */
    float *rests;
    size_t items;
} errand_section;

bool errand_is_coded(const errand *errand);                    /* by a codec that loses something */
size_t errand_value_bytes(const errand *errand, size_t items); /* of a section with so many values, at most */
void errand_floats(const errand *errand, const void *from, size_t count, float *to); /* from the table's dtype */
/* As errand_add; its values are written. The coder has room for them and for a message of errand_value_bytes. */
mr_status errand_add_coded(trip *trip, const errand_section *section, parcel_room *out);
/* The section that was added last is whole. Without codecs it would have `plain` bytes. */
mr_status errand_seal(trip *trip, size_t plain);

/* ---- Queries. */

/* A section of a query, whose answer `part` takes. */
mr_status errand_ask(trip *trip, uint32_t slot, parcel_op op, size_t answer, scatter *part, parcel_room *out);
