/* bale.c — see bale.h. */
#include "ps/bale.h"

#include <stdlib.h>

#include "base/alloc.h"

typedef struct copied {
    bale bale;
    size_t size;
    uint8_t bytes[];
} copied;

static void free_copied(bale *bale) { free(bale); }

bale *bale_copy(span bytes) {
    copied *copied = xmalloc(sizeof *copied + bytes.size);
    copied->bale = (bale){1, free_copied};
    copied->size = bytes.size;
    if (bytes.size != 0) memcpy(copied->bytes, bytes.data, bytes.size);
    return &copied->bale;
}

span bale_bytes(const bale *bale) {
    const copied *copied = (const struct copied *)bale;
    return span_of(copied->bytes, copied->size);
}
