/* shared_bytes.c — see shared_bytes.h. */
#include "base/shared_bytes.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct own {
    shared_bytes shared;
    size_t size;
    uint8_t bytes[];
} own;

static void free_own(shared_bytes *bytes) { free(bytes); }

_Static_assert(offsetof(own, bytes) % 8 == 0, "what lies in it is aligned");

shared_bytes *shared_bytes_new(size_t size) {
    own *own = xmalloc(sizeof *own + size);
    *own = (struct own){{1, free_own}, size};
    return &own->shared;
}

shared_bytes *shared_bytes_copy(span bytes) {
    shared_bytes *shared = shared_bytes_new(bytes.size);
    if (bytes.size != 0) memcpy(shared_bytes_room(shared), bytes.data, bytes.size);
    return shared;
}

mr_status shared_bytes_resize(shared_bytes **bytes, size_t size) {
    void *memory = *bytes;
    MR_ASSERT(*bytes == NULL || ((*bytes)->refs == 1 && (*bytes)->release == free_own));
    if (*bytes != NULL && ((own *)memory)->size == size) return MR_OK;
    MR_TRY(alloc_try_resize(&memory, sizeof(own) + size));
    own *own = memory;
    if (*bytes == NULL) own->shared = (struct shared_bytes){1, free_own};
    own->size = size;
    *bytes = &own->shared;
    return MR_OK;
}

void shared_bytes_cut(shared_bytes *bytes, size_t size) { ((own *)bytes)->size = size; }

uint8_t *shared_bytes_room(shared_bytes *bytes) { return ((own *)bytes)->bytes; }

span shared_bytes_bytes(const shared_bytes *bytes) {
    const own *own = (const struct own *)bytes;
    return span_of(own->bytes, own->size);
}
