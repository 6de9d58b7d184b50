/* lease.h — zero-copy pushes: values sent from the caller's memory.
 *
 *   lent ── everybody who held it has let go ──► over
 *     └─── lease_end, or lease_recall, while somebody holds it ──► copied: who points at it is told where it lies now
 *
 * A large stretch of an array is not copied into its parcel: the parcel ends with the head of the section, and the
 * values follow it from where they lie (bale_piece). They are the caller's again when the ticket is over. Usually they
 * have left by then, since they were acknowledged. But what was sent twice, or to a server that does not read any more,
 * may still wait in a link: then the lease is recalled, which copies it. So nothing is sent of memory that was given
 * back, and what is sent again is what was pushed.
 *
 * Ownership   a lease is a bale: shared. Its creator holds it until lease_end. Threads: the customer's. */
#pragma once
#include "base/bale.h"

/* What lay at `from` lies at `to` now, wherever this bale holds it; nowhere, where there is no memory for it. */
typedef void lease_moved_fn(void *context, const bale *bale, span from, span to);

typedef struct lease {
    bale bale; /* first: its address is the lease's */
    span bytes;
    void *copy; /* owned; NULL: they are still the caller's */
    lease_moved_fn *moved;
    void *context;
} lease;

lease *lease_make(span bytes, lease_moved_fn *moved, void *context); /* with one ref */
bool lease_recall(lease *lease); /* the caller's memory is not used any more. False: no memory, all is as it was */
void lease_end(lease *lease);    /* gives up the ref, and recalls what others still hold. NULL: no-op */
