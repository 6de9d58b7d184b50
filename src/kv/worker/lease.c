/* lease.c — see lease.h. */
#include "kv/worker/lease.h"

#include <stdlib.h>

#include "base/alloc.h"

static void release(bale *bale) {
    lease *own = (lease *)bale;
    free(own->copy);
    free(own);
}

lease *lease_make(span bytes, lease_moved_fn *moved, void *context) {
    lease *lease = xcalloc(1, sizeof *lease);
    lease->bale = (bale){1, release};
    lease->bytes = bytes;
    lease->moved = moved;
    lease->context = context;
    return lease;
}

bool lease_recall(lease *lease) {
    span from = lease->bytes;
    if (lease->copy != NULL) return true;
    if (alloc_try(from.size, &lease->copy) != MR_OK) return false;
    memcpy(lease->copy, from.data, from.size);
    lease->bytes = span_of(lease->copy, from.size);
    lease->moved(lease->context, &lease->bale, from, lease->bytes);
    return true;
}

void lease_end(lease *lease) {
    if (lease == NULL) return;
    if (lease->bale.refs > 1 && !lease_recall(lease))
        lease->moved(lease->context, &lease->bale, lease->bytes, (span){0});
    bale_unref(&lease->bale);
}
