/* arena.c — see arena.h.
 *
 * A memfd is charged to the machine and to the memory cgroup of the process that first touches a page, independent of
 * the size of /dev/shm. Pages that do not exist are not charged, so the size alone reserves nothing: arena_create
 * refuses a size that can never be available, and arena_back checks again before each range and then allocates its
 * pages. The check comes first because a cgroup at its limit has a process killed instead of returning an error. */
#include "net/shm/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/rng.h"
#include "net/shm/memory_headroom.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    BACK_STEP = 2 << 20,     /* between two checks of the available memory */
    HEADROOM_KEPT = 8 << 20, /* memory that backing leaves to all other uses */
};

static uint64_t page_size(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }
static uint64_t round_down(uint64_t value, uint64_t unit) { return value - value % unit; }
static uint64_t round_up(uint64_t value, uint64_t unit) { return round_down(value + unit - 1, unit); }

static int make_memfd(void) {
    if (FAILPOINT_ERROR("arena.memfd")) return errno = EMFILE, -1;
    int fd = memfd_create("miniray-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("miniray-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd; /* kernels before 6.3 lack MFD_NOEXEC_SEAL */
}

static mr_status map(int fd, uint64_t size, arena *out) {
    void *base = FAILPOINT_ERROR("arena.mmap") ? (errno = ENOMEM, MAP_FAILED)
                                               : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return error_errno("cannot map the arena of %" PRIu64 " bytes", size);
    *out = (arena){.base = base, .size = size, .fd = fd};
    return MR_OK;
}

/* Without memory for the bits everything stays writable. */
static void guard(arena *arena) {
    _Atomic uint64_t *allowed = calloc(arena->size / ARENA_ALLOW_BYTES / 64 + 1, sizeof *allowed);
    if (allowed == NULL) return;
    if (mprotect(arena->base + ARENA_EXTENTS_OFFSET, arena->size - ARENA_EXTENTS_OFFSET, PROT_READ) == 0)
        arena->allowed = allowed;
    else
        free(allowed);
}

static uint64_t allow_mask(uint64_t first, uint64_t end) { /* bits of units first to end - 1 in the word of `first` */
    uint64_t count = end - first < 64 - first % 64 ? end - first : 64 - first % 64;
    return (count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1) << (first % 64);
}

static uint64_t next_word(uint64_t unit) { return round_down(unit, 64) + 64; }

void arena_allow_now(const arena *arena, uint64_t from, uint64_t end) {
    if (from < ARENA_EXTENTS_OFFSET) from = ARENA_EXTENTS_OFFSET;
    if (arena->allowed == NULL || from >= end) return;
    from = round_down(from, page_size());
    end = round_up(end, page_size());
    uint64_t first = from / ARENA_ALLOW_BYTES, last = end / ARENA_ALLOW_BYTES;
    bool all = true;
    for (uint64_t at = first; at < last && all; at = next_word(at))
        all = (~atomic_load_explicit(&arena->allowed[at / 64], memory_order_relaxed) & allow_mask(at, last)) == 0;
    if (all) return;
    if (FAILPOINT_ERROR("arena.allow") ? (errno = ENOMEM, true)
                                       : mprotect(arena->base + from, end - from, PROT_READ | PROT_WRITE) != 0) {
        /* The limit of mappings is reached. One mapping for all needs less of them. */
        first = ARENA_EXTENTS_OFFSET / ARENA_ALLOW_BYTES;
        last = arena->size / ARENA_ALLOW_BYTES;
        int failed =
            mprotect(arena->base + ARENA_EXTENTS_OFFSET, arena->size - ARENA_EXTENTS_OFFSET, PROT_READ | PROT_WRITE);
        MR_ASSERT(failed == 0);
    }
    for (uint64_t at = first; at < last; at = next_word(at))
        atomic_fetch_or_explicit(&arena->allowed[at / 64], allow_mask(at, last), memory_order_relaxed);
}

/* Sets the file's final size. */
static mr_status seal(int fd, uint64_t size) {
    if (FAILPOINT_ERROR("arena.truncate") ? (errno = ENOSPC, true) : ftruncate(fd, (off_t)size) != 0)
        return error_errno("cannot resize the arena's memfd to %" PRIu64 " bytes", size);
    if (FAILPOINT_ERROR("arena.seal") ? (errno = EPERM, true) : fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        return error_errno("cannot seal the arena's memfd of %" PRIu64 " bytes", size);
    return MR_OK;
}

static mr_status fits(uint64_t size) {
    uint64_t left = memory_headroom_bytes();
    if (left != MEMORY_HEADROOM_UNKNOWN && size > left)
        return error_set(MR_NOMEM,
                         "an arena of %" PRIu64 " bytes does not fit: the machine or the memory cgroup has %" PRIu64
                         " bytes left; set arena_bytes",
                         size, left);
    return MR_OK;
}

mr_status arena_create(uint64_t size, arena *out) {
    if (size > INT64_MAX - page_size())
        return error_set(MR_INVALID, "an arena of %" PRIu64 " bytes: the limit is 2^63", size);
    if (size < ARENA_SIZE_MIN)
        return error_set(MR_INVALID, "an arena of %" PRIu64 " bytes: the minimum is %" PRIu64, size, ARENA_SIZE_MIN);
    size = round_up(size, page_size());
    MR_TRY(fits(size));
    int fd = make_memfd();
    if (fd < 0) return error_errno("cannot create the arena of %" PRIu64 " bytes: memfd_create", size);
    arena made = {.fd = -1};
    mr_status status = seal(fd, size);
    if (status == MR_OK) status = map(fd, size, &made);
    if (status != MR_OK) {
        close(fd);
        return status;
    }
    MR_ASSERT(made.base != NULL);
    status = arena_back(&made, 0, ARENA_EXTENTS_OFFSET);
    if (status != MR_OK) {
        arena_unmap(&made);
        return status;
    }
    *(arena_header *)(void *)made.base = (arena_header){.magic = ARENA_MAGIC,
                                                        .version = ARENA_VERSION,
                                                        .process_blocks = PROCESS_BLOCKS_MAX,
                                                        .size = size,
                                                        .generation = rng_system_seed()};
    *out = made;
    return MR_OK;
}

/* Checks the file before any byte of it is read. */
static mr_status check_file(int fd, uint64_t size) {
    struct stat stat;
    if (fstat(fd, &stat) != 0) return error_errno("cannot stat the received arena (fd %d)", fd);
    if (size < ARENA_SIZE_MIN || stat.st_size < 0 || (uint64_t)stat.st_size != size)
        return error_set(MR_CORRUPT, "the received arena has %lld bytes; the broker announced %" PRIu64,
                         (long long)stat.st_size, size);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS)
        return error_set(MR_CORRUPT, "the received arena is not sealed (%d): it could shrink", seals);
    return MR_OK;
}

static mr_status check_header(const arena *arena) {
    arena_header header;
    memcpy(&header, arena->base, sizeof header);
    if (header.magic != ARENA_MAGIC)
        return error_set(MR_CORRUPT, "not an arena: fd %d has another magic number", arena->fd);
    if (header.version != ARENA_VERSION)
        return error_set(MR_CORRUPT, "the arena has version %u, this program knows %d: use the same release everywhere",
                         header.version, ARENA_VERSION);
    if (header.process_blocks != PROCESS_BLOCKS_MAX || header.size != arena->size)
        return error_set(MR_CORRUPT, "malformed arena header: %u process blocks, %" PRIu64 " bytes",
                         header.process_blocks, header.size);
    return MR_OK;
}

mr_status arena_map(int fd, uint64_t size, arena *out) {
    MR_ASSERT(fd >= 0);
    arena made = {.fd = -1};
    mr_status status = check_file(fd, size);
    if (status == MR_OK) status = map(fd, size, &made);
    if (status == MR_OK) status = check_header(&made);
    if (status == MR_OK) guard(&made);
    if (status == MR_OK)
        *out = made;
    else if (made.base != NULL)
        arena_unmap(&made);
    else
        close(fd);
    return status;
}

void arena_unmap(arena *arena) {
    if (arena->base == NULL) return;
    munmap(arena->base, arena->size);
    free((void *)(uintptr_t)arena->allowed);
    close(arena->fd);
    *arena = (struct arena){.fd = -1};
}

bool arena_holds(const arena *arena, extent extent) {
    return extent.size > 0 && extent.offset % 64 == 0 && extent.offset >= ARENA_EXTENTS_OFFSET &&
           extent.offset <= arena->size && extent.size <= arena->size - extent.offset;
}

/* Makes page tables refer to pages that exist already. Writing an unchanged byte atomically does not disturb another
 * process that writes the same byte. */
static void touch(uint8_t *from, uint64_t size) {
    for (uint64_t at = 0; at < size; at += page_size()) __atomic_fetch_or(from + at, 0, __ATOMIC_RELAXED);
}

mr_status arena_populate(const arena *arena, uint64_t from, uint64_t end) {
    MR_ASSERT(from <= end && end <= arena->size);
    arena_allow_now(arena, from, end);
    from = round_down(from, page_size());
    end = round_up(end, page_size());
    int failed;
    do
        failed = FAILPOINT_ERROR("arena.populate") ? (errno = ENOMEM, -1)
                                                   : madvise(arena->base + from, end - from, MADV_POPULATE_WRITE);
    while (failed != 0 && (errno == EINTR || errno == EAGAIN));
    if (failed == 0) return MR_OK;
    if (errno != EINVAL) return error_errno("cannot populate %" PRIu64 " bytes of the arena", end - from);
    touch(arena->base + from, end - from); /* before Linux 5.14 */
    return MR_OK;
}

static mr_status back_step(arena *arena, uint64_t from, uint64_t end) {
    uint64_t left = memory_headroom_bytes();
    if (left < end - from + HEADROOM_KEPT)
        return error_set(
            MR_NOMEM, "out of memory for the arena: the machine or the memory cgroup has %" PRIu64 " bytes left", left);
    if (FAILPOINT_ERROR("arena.fallocate")
            ? (errno = ENOSPC, true)
            : TEMP_FAILURE_RETRY(fallocate(arena->fd, 0, (off_t)from, (off_t)(end - from))) != 0)
        return error_errno("cannot back %" PRIu64 " bytes of the arena", end - from);
    return arena_populate(arena, from, end);
}

mr_status arena_back(arena *arena, uint64_t from, uint64_t end) {
    MR_ASSERT(from <= end && end <= arena->size);
    from = round_down(from, page_size());
    end = round_up(end, page_size());
    for (uint64_t at = from; at < end;) {
        uint64_t next = end - at > BACK_STEP ? at + BACK_STEP : end;
        MR_TRY(back_step(arena, at, next));
        at = next;
    }
    return MR_OK;
}

mr_status arena_punch(arena *arena, uint64_t from, uint64_t end) {
    MR_ASSERT(from <= end && end <= arena->size && from >= ARENA_EXTENTS_OFFSET);
    from = round_up(from, page_size());
    end = round_down(end, page_size());
    if (from >= end) return MR_OK;
    const int hole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (FAILPOINT_ERROR("arena.punch")
            ? (errno = ENOMEM, true)
            : TEMP_FAILURE_RETRY(fallocate(arena->fd, hole, (off_t)from, (off_t)(end - from))) != 0)
        return error_errno("cannot return %" PRIu64 " bytes of the arena to the system", end - from);
    return MR_OK;
}
