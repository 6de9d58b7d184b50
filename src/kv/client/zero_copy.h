/* zero_copy.h — zero-copy pushes: values sent from the caller's memory.
 *
 *   shared ── all holders have released it ──► over
 *   └── zero_copy_end, or zero_copy_recall, while it is held ──► copied: the holders are told its new address
 *
 * A large stretch of an array is not copied into its payload: the payload ends with the head of the section, and the
 * values follow it from the caller's memory (shared_bytes_piece). They are the caller's again when the ticket is over.
 * Usually they have been sent by then, since they were acknowledged. But values that were sent twice, or to a server
 * that does not read any more, may still wait in a link: then zero_copy_recall copies them. So nothing is sent from
 * memory that was given back, and a repeated send has the pushed bytes.
 *
 * Ownership  a zero_copy is a shared buffer. Its creator holds it until zero_copy_end. Threads: the kv_worker's. */
#pragma once
#include "base/shared_bytes.h"

/* The bytes at `from` are at `to` now, wherever this shared buffer holds them; NULL, where there is no memory. */
typedef void zero_copy_moved_fn(void *context, const shared_bytes *bytes, span from, span to);

typedef struct zero_copy {
    shared_bytes shared; /* first: its address is the zero_copy's */
    span bytes;
    void *copy; /* owned; NULL: the values are still in the caller's memory */
    zero_copy_moved_fn *moved;
    void *context;
} zero_copy;

zero_copy *zero_copy_make(span bytes, zero_copy_moved_fn *moved, void *context); /* with one ref */
/* the caller's memory is not used any more. False: no memory, nothing has changed */
bool zero_copy_recall(zero_copy *zero_copy);
void zero_copy_end(zero_copy *zero_copy); /* releases the ref, and copies bytes that others still hold. NULL: no-op */
