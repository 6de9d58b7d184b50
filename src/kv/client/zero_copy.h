/* zero_copy.h — zero-copy pushes: values sent from the caller's memory.
 *
 *   shared ── all holders have released it ──► over
 *   └── zero_copy_end, or zero_copy_recall, while it is held ──► copied: `moved` informs the holders
 *
 * A large stretch of an array is not copied into its payload: the payload ends with the head of the section, and the
 * values follow it from the caller's memory (shared_bytes_piece). The memory is the caller's again when the ticket is
 * over. Usually the values have been sent by then, since they were acknowledged. Values that were sent twice, or to a
 * server that no longer reads, may still be queued in a link; zero_copy_recall copies them. So no link sends from
 * memory that was returned to the caller, and a repeated send has the pushed bytes.
 *
 * Ownership  a zero_copy is a shared buffer. Its creator holds it until zero_copy_end. Threads: the kv_worker's. */
#pragma once
#include "base/shared_bytes.h"

/* Called after a copy: the bytes at `from` are now at `to`, in every holder of this shared buffer; `to` is NULL without
 * memory. */
typedef void zero_copy_moved_fn(void *context, const shared_bytes *bytes, span from, span to);

typedef struct zero_copy {
    shared_bytes shared; /* first field: its address is the zero_copy's */
    span bytes;
    void *copy; /* owned; NULL: the values are still in the caller's memory */
    zero_copy_moved_fn *moved;
    void *context;
} zero_copy;

zero_copy *zero_copy_make(span bytes, zero_copy_moved_fn *moved, void *context); /* with one reference */
/* Copies the values, so that the caller's memory is not used any more. False: no memory, and nothing has changed. */
bool zero_copy_recall(zero_copy *zero_copy);
/* releases the creator's reference; copies bytes that others still hold. NULL: no-op */
void zero_copy_end(zero_copy *zero_copy);
