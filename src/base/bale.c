/* bale.c — see bale.h. */
#include "base/bale.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct own {
    bale bale;
    size_t size;
    uint8_t bytes[];
} own;

static void free_own(bale *bale) { free(bale); }

_Static_assert(offsetof(own, bytes) % 8 == 0, "what lies in it is aligned");

bale *bale_new(size_t size) {
    own *own = xmalloc(sizeof *own + size);
    own->bale = (bale){1, free_own};
    own->size = size;
    return &own->bale;
}

bale *bale_copy(span bytes) {
    bale *bale = bale_new(bytes.size);
    if (bytes.size != 0) memcpy(bale_room(bale), bytes.data, bytes.size);
    return bale;
}

mr_status bale_resize(bale **bale, size_t size) {
    void *memory = *bale;
    MR_ASSERT(*bale == NULL || ((*bale)->refs == 1 && (*bale)->release == free_own));
    if (*bale != NULL && ((own *)memory)->size == size) return MR_OK;
    MR_TRY(alloc_try_resize(&memory, sizeof(own) + size));
    own *own = memory;
    if (*bale == NULL) own->bale = (struct bale){1, free_own};
    own->size = size;
    *bale = &own->bale;
    return MR_OK;
}

void bale_cut(bale *bale, size_t size) { ((own *)bale)->size = size; }

uint8_t *bale_room(bale *bale) { return ((own *)bale)->bytes; }

span bale_bytes(const bale *bale) {
    const own *own = (const struct own *)bale;
    return span_of(own->bytes, own->size);
}
