/* errand_core.h — what the files of an errand share; see errand.h. */
#pragma once
#include "kv/customer_core.h"
#include "kv/errand.h"

typedef struct trip { /* one errand that is under way to its slots */
    customer *customer;
    const errand *errand;
    ticket *ticket;
    bool after; /* it pulls what its own push makes */
} trip;

/* A step is open, the table is there and of this kind. */
mr_status errand_check(const customer *customer, const errand *errand, bool has_arrays);
mr_status errand_check_finite(const sheet *sheet, const void *values, size_t count);
/* In rounds, whether so much more may be pushed to a slot in this step; else whether so many more sections may. */
mr_status errand_check_room(customer *customer, uint32_t slot, size_t sections, size_t bytes);
mr_status errand_begin(trip *trip, uint64_t *ticket);

/* A section of a push, to be filled in; *out is empty (values NULL) if the slot has it from an earlier stint. */
mr_status errand_add(trip *trip, uint32_t slot, parcel_op op, size_t count, size_t value_bytes, parcel_room *out);
/* One row more, for that key: of the section before it, if that is a run which goes on with it, or one of its own. */
mr_status errand_add_row(trip *trip, uint32_t slot, parcel_op op, uint64_t key, parcel_room *out);
/* A section of a query, whose answer `part` takes. */
mr_status errand_ask(trip *trip, uint32_t slot, parcel_op op, size_t answer, scatter *part, parcel_room *out);
