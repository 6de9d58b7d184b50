/* shared_bytes.h — reference-counted immutable bytes, shared without a copy.
 *
 * The content of a message (gradients, sums, values) lies in one shared buffer, and every user of a part of it, above
 * all the log of a slot, holds the shared buffer. The owner of the memory defines how it is returned: the simulator
 * frees it, an engine returns a stretch of its arena. The bytes begin at a multiple of 8. No locks: a shared buffer
 * belongs to one loop. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

typedef struct shared_bytes shared_bytes;
typedef void shared_bytes_free_fn(shared_bytes *bytes);

struct shared_bytes { /* embedded at the head of the memory that it stands for */
    size_t refs;
    shared_bytes_free_fn *release;
};

static inline shared_bytes *shared_bytes_ref(shared_bytes *bytes) {
    if (bytes != NULL) bytes->refs++;
    return bytes;
}
static inline void shared_bytes_unref(shared_bytes *bytes) { /* NULL: bytes without a count */
    if (bytes != NULL && --bytes->refs == 0) bytes->release(bytes);
}

shared_bytes *shared_bytes_new(size_t size); /* one of its own, with one ref; its bytes are the caller's to write */
shared_bytes *shared_bytes_copy(span bytes); /* the same, with these bytes */
/* Another size for one that was made here and has no other holder: it may move. NULL: a new one. MR_NOMEM. */
MR_MUST mr_status shared_bytes_resize(shared_bytes **own, size_t size);
void shared_bytes_cut(shared_bytes *own, size_t size); /* it has fewer bytes now; its memory stays as it is */
uint8_t *shared_bytes_room(shared_bytes *own);         /* of one that was made here */
span shared_bytes_bytes(const shared_bytes *own);

/* a stretch of bytes, and what holds them; NULL: they are there for the call only */
typedef struct shared_bytes_piece {
    span bytes;
    shared_bytes *shared;
} shared_bytes_piece;
