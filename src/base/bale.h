/* bale.h — reference-counted immutable bytes, shared without a copy.
 *
 * The content of a message (gradients, sums, values) lies in one bale, and every user of a part of it, above all the
 * log of a slot, holds the bale. The owner of the memory defines how it is returned: the simulator frees it, an engine
 * returns a stretch of its arena. The bytes begin at a multiple of 8. No locks: a bale belongs to one loop. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

typedef struct bale bale;
typedef void bale_free_fn(bale *bale);

struct bale { /* embedded at the head of the memory that it stands for */
    size_t refs;
    bale_free_fn *release;
};

static inline bale *bale_ref(bale *bale) {
    if (bale != NULL) bale->refs++;
    return bale;
}
static inline void bale_unref(bale *bale) { /* NULL: bytes that nobody needs to hold */
    if (bale != NULL && --bale->refs == 0) bale->release(bale);
}

bale *bale_new(size_t size); /* one of its own, with one ref; its bytes are the caller's to write */
bale *bale_copy(span bytes); /* the same, with these bytes */
/* Another size for one that was made here and that nobody else holds: it may move. NULL: a new one. MR_NOMEM. */
MR_MUST mr_status bale_resize(bale **own, size_t size);
void bale_cut(bale *own, size_t size); /* it has fewer bytes now; its memory stays as it is */
uint8_t *bale_room(bale *own);         /* of one that was made here */
span bale_bytes(const bale *own);

typedef struct bale_piece { /* a stretch of bytes, and what holds them; NULL: they are there for the call only */
    span bytes;
    bale *bale;
} bale_piece;
