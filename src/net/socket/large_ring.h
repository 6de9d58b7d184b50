/* large_ring.h — larger second ring of one direction of a shm pipe (shm_pipe.h): memory that its writer makes and its
 * reader maps.
 *
 * A sealed memfd of LARGE_RING_CAPACITY bytes, nothing but bytes. Its writer backs it before it writes there: missing
 * memory is an error then, not a signal. A large ring that has not been used for long rests: its pages go back to the
 * machine, both sides keep their maps, and it is backed again when it is needed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miniray/status.h"

enum { LARGE_RING_CAPACITY = 8 << 20 };

typedef struct large_ring {
    uint8_t *bytes; /* mapped, by its reader only to be read; NULL: there is none, as in zeroed memory */
    int fd;         /* its writer's, owned; -1 */
    bool backed;    /* its writer's: its pages are there */
} large_ring;

/* Backed. MR_NOMEM, MR_IO: there can be none */
MR_MUST mr_status large_ring_create(large_ring *out);
/* Maps the ring that the writer passed; fd is not kept. MR_CORRUPT: it is no large ring. MR_IO: it cannot be mapped. */
MR_MUST mr_status large_ring_join(int fd, large_ring *out);
void large_ring_close(large_ring *ring);

/* For its writer. */
MR_MUST mr_status large_ring_back(large_ring *ring); /* MR_NOMEM, MR_IO: it is as it was */
void large_ring_rest(large_ring *ring);              /* its content is lost */
