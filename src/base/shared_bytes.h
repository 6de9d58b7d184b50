/* shared_bytes.h — reference-counted immutable bytes, shared without a copy.
 *
 * The content of a message (gradients, sums, values) is one shared buffer. Each user of a part of it, such as the log
 * of a slot, has a reference to the shared buffer. The owner of the memory defines how it is freed: the simulator calls
 * free, an engine returns the range to its arena. The bytes begin at a multiple of 8. No locks: a shared buffer belongs
 * to one event loop. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

typedef struct shared_bytes shared_bytes;
typedef void shared_bytes_free_fn(shared_bytes *bytes);

struct shared_bytes { /* embedded at the head of the memory that it counts references to */
    size_t refs;
    shared_bytes_free_fn *release;
};

static inline shared_bytes *shared_bytes_ref(shared_bytes *bytes) {
    if (bytes != NULL) bytes->refs++;
    return bytes;
}
static inline void shared_bytes_unref(shared_bytes *bytes) { /* NULL: bytes without a reference count */
    if (bytes != NULL && --bytes->refs == 0) bytes->release(bytes);
}

shared_bytes *shared_bytes_new(size_t size); /* a new buffer with one reference and uninitialized bytes */
shared_bytes *shared_bytes_copy(span bytes); /* a new buffer with a copy of the bytes */
/* Resizes a buffer made by shared_bytes_new or _copy with no other reference; it may move. NULL: a new buffer.
 * MR_NOMEM. */
MR_MUST mr_status shared_bytes_resize(shared_bytes **own, size_t size);
void shared_bytes_cut(shared_bytes *own, size_t size); /* reduces the size; the memory is not freed */
uint8_t *shared_bytes_room(shared_bytes *own);         /* bytes of a buffer made by shared_bytes_new or _copy */
span shared_bytes_bytes(const shared_bytes *own);

/* A range of bytes and the buffer that holds it; NULL: the bytes are valid during the call only. */
typedef struct shared_bytes_piece {
    span bytes;
    shared_bytes *shared;
} shared_bytes_piece;
