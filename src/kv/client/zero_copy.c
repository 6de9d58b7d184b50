/* zero_copy.c — see zero_copy.h. */
#include "kv/client/zero_copy.h"

#include <stdlib.h>

#include "base/alloc.h"

static void release(shared_bytes *bytes) {
    zero_copy *own = (zero_copy *)bytes;
    free(own->copy);
    free(own);
}

zero_copy *zero_copy_make(span bytes, zero_copy_moved_fn *moved, void *context) {
    zero_copy *zero_copy = xcalloc(1, sizeof *zero_copy);
    zero_copy->shared = (shared_bytes){1, release};
    zero_copy->bytes = bytes;
    zero_copy->moved = moved;
    zero_copy->context = context;
    return zero_copy;
}

bool zero_copy_recall(zero_copy *zero_copy) {
    span from = zero_copy->bytes;
    if (zero_copy->copy != NULL) return true;
    if (alloc_try(from.size, &zero_copy->copy) != MR_OK) return false;
    memcpy(zero_copy->copy, from.data, from.size);
    zero_copy->bytes = span_of(zero_copy->copy, from.size);
    zero_copy->moved(zero_copy->context, &zero_copy->shared, from, zero_copy->bytes);
    return true;
}

void zero_copy_end(zero_copy *zero_copy) {
    if (zero_copy == NULL) return;
    if (zero_copy->shared.refs > 1 && !zero_copy_recall(zero_copy))
        zero_copy->moved(zero_copy->context, &zero_copy->shared, zero_copy->bytes, (span){0});
    shared_bytes_unref(&zero_copy->shared);
}
