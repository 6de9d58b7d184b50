/* large_ring.h — larger second ring of one direction of a shm pipe (shm_pipe.h): memory that its writer creates and its
 * reader maps.
 *
 * A large ring is a sealed memfd of LARGE_RING_CAPACITY data bytes. Its writer backs the pages before it writes to
 * them, so that missing memory is an error, not a signal. The pages of a large ring that was not used for some time are
 * returned to the machine; both sides keep their mappings, and the pages are backed again when needed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { LARGE_RING_CAPACITY = 8 << 20 };

typedef struct large_ring {
    uint8_t *bytes; /* mapped, read-only for the reader; NULL: no large ring, as in zeroed memory */
    int fd;         /* owned by the writer; -1: none */
    bool backed;    /* writer only: the pages exist */
} large_ring;

/* Creates a backed ring. MR_NOMEM, MR_IO. */
MR_MUST mr_status large_ring_create(large_ring *out);
/* Maps the ring received from the writer; fd is not kept. MR_CORRUPT: not a large ring. MR_IO: it cannot be mapped. */
MR_MUST mr_status large_ring_join(int fd, large_ring *out);
void large_ring_close(large_ring *ring);

/* For the writer. */
MR_MUST mr_status large_ring_back(large_ring *ring); /* MR_NOMEM, MR_IO: the ring is unchanged */
void large_ring_rest(large_ring *ring);              /* frees the pages; the content is lost */
