/* large_ring.c — see large_ring.h. */
#include "net/socket/large_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/shm/memory_headroom.h"
#include "net/shm/sealed_memfd.h"

enum { HEADROOM_KEPT = 64 << 20 };

static mr_status map(int fd, int how, large_ring *ring) {
    void *memory = mmap(NULL, LARGE_RING_CAPACITY, how, MAP_SHARED, fd, 0);
    if (FAILPOINT_ERROR("annex.map") && memory != MAP_FAILED) {
        munmap(memory, LARGE_RING_CAPACITY);
        memory = MAP_FAILED;
        errno = ENOMEM;
    }
    if (memory == MAP_FAILED) return error_errno("cannot map a large ring of %d bytes", LARGE_RING_CAPACITY);
    ring->bytes = memory;
    return MR_OK;
}

mr_status large_ring_back(large_ring *ring) {
    if (ring->backed) return MR_OK;
    uint64_t left = memory_headroom_bytes();
    if (left != MEMORY_HEADROOM_UNKNOWN && left < (uint64_t)LARGE_RING_CAPACITY + HEADROOM_KEPT)
        return error_set(MR_NOMEM,
                         "out of memory for a large ring: the machine or the memory cgroup has %llu bytes left",
                         (unsigned long long)left);
    if (FAILPOINT_ERROR("annex.back") ? (errno = ENOSPC, true)
                                      : TEMP_FAILURE_RETRY(fallocate(ring->fd, 0, 0, LARGE_RING_CAPACITY)) != 0)
        return error_errno("cannot back a large ring of %d bytes", LARGE_RING_CAPACITY);
    ring->backed = true;
    return MR_OK;
}

mr_status large_ring_create(large_ring *out) {
    large_ring made = {.fd = sealed_memfd_create("miniray-annex", LARGE_RING_CAPACITY)};
    if (made.fd < 0) return error_errno("cannot create a large ring of %d bytes", LARGE_RING_CAPACITY);
    mr_status status = large_ring_back(&made);
    if (status == MR_OK) status = map(made.fd, PROT_READ | PROT_WRITE, &made);
    if (status == MR_OK)
        *out = made;
    else
        close(made.fd);
    return status;
}

mr_status large_ring_join(int fd, large_ring *out) {
    large_ring joined = {.fd = -1};
    uint64_t size;
    if (!sealed_memfd_read_size(fd, &size) || size != LARGE_RING_CAPACITY)
        return error_set(MR_CORRUPT, "fd %d, which is not a large ring of a shm pipe", fd);
    MR_TRY(map(fd, PROT_READ, &joined));
    *out = joined;
    return MR_OK;
}

void large_ring_close(large_ring *ring) {
    if (ring->bytes == NULL) return;
    munmap(ring->bytes, LARGE_RING_CAPACITY);
    if (ring->fd >= 0) close(ring->fd);
    *ring = (struct large_ring){.fd = -1};
}

void large_ring_rest(large_ring *ring) {
    MR_ASSERT(ring->bytes != NULL && ring->fd >= 0);
    if (!ring->backed) return;
    ring->backed = fallocate(ring->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LARGE_RING_CAPACITY) != 0;
}
