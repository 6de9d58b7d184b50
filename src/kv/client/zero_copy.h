/* zero_copy.h — zero-copy pushes: values sent from the caller's memory.
 *
 *   lent ── everybody who held it has let go ──► over
 *  └── zero_copy_end, or zero_copy_recall, while somebody holds it ──► copied: who points at it is told where it lies
 *  now
 *
 * A large stretch of an array is not copied into its payload: the payload ends with the head of the section, and the
 * values follow it from where they lie (shared_bytes_piece). They are the caller's again when the ticket is over.
 * Usually they have left by then, since they were acknowledged. But what was sent twice, or to a server that does not
 * read any more, may still wait in a link: then the lease is recalled, which copies it. So nothing is sent of memory
 * that was given back, and what is sent again is what was pushed.
 *
 * Ownership  a lease is a shared buffer: shared. Its creator holds it until zero_copy_end. Threads: the kv worker's. */
#pragma once
#include "base/shared_bytes.h"

/* What lay at `from` lies at `to` now, wherever this shared buffer holds it; nowhere, where there is no memory for it.
 * */
typedef void zero_copy_moved_fn(void *context, const shared_bytes *bytes, span from, span to);

typedef struct zero_copy {
    shared_bytes shared; /* first: its address is the lease's */
    span bytes;
    void *copy; /* owned; NULL: they are still the caller's */
    zero_copy_moved_fn *moved;
    void *context;
} zero_copy;

zero_copy *zero_copy_make(span bytes, zero_copy_moved_fn *moved, void *context); /* with one ref */
/* the caller's memory is not used any more. False: no memory, all is as it was */
bool zero_copy_recall(zero_copy *zero_copy);
void zero_copy_end(zero_copy *zero_copy); /* gives up the ref, and recalls what others still hold. NULL: no-op */
