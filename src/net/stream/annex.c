/* annex.c — see annex.h. */
#include "net/stream/annex.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "net/shm/headroom.h"
#include "net/shm/sealed.h"

enum { HEADROOM_KEPT = 64 << 20 };

static mr_status map(int fd, int how, annex *annex) {
    void *memory = mmap(NULL, ANNEX_CAPACITY, how, MAP_SHARED, fd, 0);
    if (FAILPOINT_ERROR("annex.map") && memory != MAP_FAILED) {
        munmap(memory, ANNEX_CAPACITY);
        memory = MAP_FAILED;
        errno = ENOMEM;
    }
    if (memory == MAP_FAILED) return error_errno("cannot map a large ring of %d bytes", ANNEX_CAPACITY);
    annex->bytes = memory;
    return MR_OK;
}

mr_status annex_back(annex *annex) {
    if (annex->backed) return MR_OK;
    uint64_t left = headroom_bytes();
    if (left != HEADROOM_UNKNOWN && left < (uint64_t)ANNEX_CAPACITY + HEADROOM_KEPT)
        return error_set(MR_NOMEM,
                         "out of memory for a large ring: the machine or the memory cgroup has %llu bytes left",
                         (unsigned long long)left);
    if (FAILPOINT_ERROR("annex.back") ? (errno = ENOSPC, true)
                                      : TEMP_FAILURE_RETRY(fallocate(annex->fd, 0, 0, ANNEX_CAPACITY)) != 0)
        return error_errno("cannot back a large ring of %d bytes", ANNEX_CAPACITY);
    annex->backed = true;
    return MR_OK;
}

mr_status annex_create(annex *out) {
    annex made = {.fd = sealed_create("miniray-annex", ANNEX_CAPACITY)};
    if (made.fd < 0) return error_errno("cannot create a large ring of %d bytes", ANNEX_CAPACITY);
    mr_status status = annex_back(&made);
    if (status == MR_OK) status = map(made.fd, PROT_READ | PROT_WRITE, &made);
    if (status != MR_OK) {
        close(made.fd);
        return status;
    }
    *out = made;
    return MR_OK;
}

mr_status annex_join(int fd, annex *out) {
    annex joined = {.fd = -1};
    uint64_t size;
    if (!sealed_read_size(fd, &size) || size != ANNEX_CAPACITY)
        return error_set(MR_CORRUPT, "fd %d, which is not a large ring of a shm pipe", fd);
    MR_TRY(map(fd, PROT_READ, &joined));
    *out = joined;
    return MR_OK;
}

void annex_close(annex *annex) {
    if (annex->bytes == NULL) return;
    munmap(annex->bytes, ANNEX_CAPACITY);
    if (annex->fd >= 0) close(annex->fd);
    *annex = (struct annex){.fd = -1};
}

void annex_rest(annex *annex) {
    MR_ASSERT(annex->bytes != NULL && annex->fd >= 0);
    if (!annex->backed) return;
    bool rests = fallocate(annex->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, ANNEX_CAPACITY) == 0;
    annex->backed = !rests;
}
