/* shm_export.c — see shm_export.h. */
#include "net/shm/shm_export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/map.h"
#include "base/simd.h"
#include "net/shm/extent_allocator.h"
#include "net/shm/memory_headroom.h"
#include "net/shm/sealed_memfd.h"

enum { HEADROOM_KEPT = 8 << 20 };

typedef struct layout { /* layout in shared memory */
    uint64_t magic, size;
    _Atomic uint64_t words[SHM_EXPORT_WORDS];
} layout;

_Static_assert(sizeof(layout) <= SHM_EXPORT_FRONT && SHM_EXPORT_FRONT % EXTENT_UNIT == 0, "stretches are behind it");

struct shm_export {
    layout *shared; /* mapped */
    uint64_t size;
    int fd, read_fd;
    extent_allocator *allocator;
    map sizes;    /* offset → bytes of a taken extent */
    extent *left; /* extents left mapped, in the order of their offsets */
    uint32_t left_count;
    uint32_t *free_words, free_count, next_word;
};

/* ---- Creation and destruction. */

/* A descriptor that cannot be mapped writable; without /proc a duplicate of the writable one. */
static int open_again(int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    return again >= 0 ? again : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static mr_status back(const shm_export *export, uint64_t offset, uint64_t size) {
    uint64_t left = memory_headroom_bytes();
    if (left != MEMORY_HEADROOM_UNKNOWN && left < size + HEADROOM_KEPT)
        return error_set(MR_NOMEM, "no memory for %llu shared bytes: the machine or the memory cgroup has %llu left",
                         (unsigned long long)size, (unsigned long long)left);
    if (FAILPOINT_ERROR("glass.fallocate")
            ? (errno = ENOSPC, true)
            : TEMP_FAILURE_RETRY(fallocate(export->fd, 0, (off_t)offset, (off_t)size)) != 0)
        return error_errno("cannot back %llu bytes of exported memory", (unsigned long long)size);
    return MR_OK;
}

static mr_status open_file(shm_export *export) {
    export->fd =
        FAILPOINT_ERROR("glass.memfd") ? (errno = EMFILE, -1) : sealed_memfd_create("miniray-glass", export->size);
    if (export->fd < 0) return error_errno("cannot create a memfd for export (fd %d)", export->fd);
    export->read_fd = open_again(export->fd);
    if (export->read_fd < 0) return error_errno("cannot open the exported memory (fd %d) for reading", export->fd);
    MR_TRY(back(export, 0, SHM_EXPORT_FRONT));
    void *memory = mmap(NULL, export->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, export->fd, 0);
    if (memory == MAP_FAILED) return error_errno("cannot map exported memory (fd %d)", export->fd);
    export->shared = memory;
    (void)madvise(memory, export->size, MADV_DONTDUMP);
    return MR_OK;
}

mr_status shm_export_create(uint64_t size, shm_export **out) {
    size -= size % EXTENT_UNIT;
    if (size < SHM_EXPORT_FRONT + EXTENT_UNIT || size > INT64_MAX)
        return error_set(MR_INVALID, "exported memory of %llu bytes: the minimum is %d", (unsigned long long)size,
                         SHM_EXPORT_FRONT + EXTENT_UNIT);
    shm_export *export = XNEW(shm_export, .size = size, .fd = -1, .read_fd = -1, .next_word = 1);
    mr_status status = open_file(export);
    if (status != MR_OK) {
        shm_export_destroy(export);
        return status;
    }
    export->shared->magic = SHM_EXPORT_MAGIC;
    export->shared->size = size;
    export->allocator = extent_allocator_create(SHM_EXPORT_FRONT, size);
    *out = export;
    return MR_OK;
}

static uint8_t *base_of(const shm_export *export) { return (uint8_t *)export->shared; }

/* Unmaps everything but the extents passed to shm_export_leave. */
static void unmap(shm_export *export) {
    uint8_t *base = base_of(export);
    uint64_t at = 0;
    for (uint32_t i = 0; i < export->left_count; i++) {
        if (export->left[i].offset > at) munmap(base + at, export->left[i].offset - at);
        at = export->left[i].offset + export->left[i].size;
    }
    if (at < export->size) munmap(base + at, export->size - at);
}

void shm_export_destroy(shm_export *export) {
    if (export == NULL) return;
    if (export->allocator != NULL) extent_allocator_destroy(export->allocator);
    if (export->shared != NULL) unmap(export);
    free(export->left);
    if (export->fd >= 0) close(export->fd);
    if (export->read_fd >= 0) close(export->read_fd);
    map_fini(&export->sizes);
    free(export->free_words);
    free(export);
}

int shm_export_fd(const shm_export *export) { return export->read_fd; }
uint64_t shm_export_used(const shm_export *export) { return extent_allocator_stats_now(export->allocator).used; }

/* ---- Extents. */

mr_status shm_export_take(shm_export *export, size_t size, void **out) {
    extent extent;
    if (size == 0 || size > export->size)
        return error_set(size == 0 ? MR_INVALID : MR_NOMEM, "cannot export %zu bytes", size);
    MR_TRY(extent_allocator_alloc(export->allocator, size, &extent));
    mr_status status = back(export, extent.offset, extent.size);
    if (status != MR_OK) {
        extent_allocator_free(export->allocator, extent);
        return status;
    }
    map_put(&export->sizes, extent.offset, (void *)(uintptr_t)extent.size);
    *out = base_of(export) + extent.offset;
    return MR_OK;
}

static uint64_t offset_of(const shm_export *export, const void *memory) {
    return (uint64_t)((const uint8_t *)memory - base_of(export));
}

/* Punches the extent's pages out; if that fails, clears them for the next use. */
void shm_export_give(shm_export *export, void *memory) {
    if (memory == NULL) return;
    uint64_t offset = offset_of(export, memory), size = (uintptr_t)map_remove(&export->sizes, offset);
    MR_ASSERT(size != 0);
    if (fallocate(export->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size) != 0)
        memset(memory, 0, size);
    extent_allocator_free(export->allocator, (extent){offset, size});
}

void shm_export_leave(shm_export *export, void *memory) {
    uint64_t offset = offset_of(export, memory), size = (uintptr_t)map_remove(&export->sizes, offset);
    uint32_t at = export->left_count++;
    MR_ASSERT(size != 0);
    export->left = xrealloc(export->left, export->left_count * sizeof *export->left);
    for (; at > 0 && export->left[at - 1].offset > offset; at--) export->left[at] = export->left[at - 1];
    export->left[at] = (extent){offset, size};
}

bool shm_export_holds(const shm_export *export, const void *memory, size_t size, uint64_t *offset) {
    uintptr_t at = (uintptr_t)memory, base = (uintptr_t) export->shared;
    if (at < base + SHM_EXPORT_FRONT || at - base > export->size || size > export->size - (at - base)) return false;
    *offset = at - base;
    return true;
}

bool shm_export_owns(const shm_export *export, const void *memory) {
    uint64_t offset;
    return shm_export_holds(export, memory, 1, &offset) && map_get(&export->sizes, offset) != NULL;
}

/* ---- Words. */

uint32_t shm_export_word_take(shm_export *export) {
    if (export->free_count != 0) return export->free_words[--export->free_count];
    return export->next_word == SHM_EXPORT_WORDS ? 0 : export->next_word++;
}

void shm_export_word_give(shm_export *export, uint32_t word) {
    if (word == 0) return;
    if (export->free_words == NULL) export->free_words = xcalloc(SHM_EXPORT_WORDS, sizeof *export->free_words);
    export->free_words[export->free_count++] = word;
}

void shm_export_change(shm_export *export, uint32_t word) {
    _Atomic uint64_t *at = &export->shared->words[word];
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) | 1, memory_order_relaxed);
    cpu_fence();
}

void shm_export_changed(shm_export *export, uint32_t word) {
    _Atomic uint64_t *at = &export->shared->words[word];
    atomic_store_explicit(at, (atomic_load_explicit(at, memory_order_relaxed) | 1) + 1, memory_order_release);
}

uint64_t shm_export_word(const shm_export *export, uint32_t word) {
    return atomic_load_explicit(&export->shared->words[word], memory_order_relaxed);
}

/* ---- Readers. */

shm_import shm_export_import(const shm_export *export) { return (shm_import){base_of(export), export->size}; }

mr_status shm_import_open(int fd, shm_import *out) {
    uint64_t size;
    if (!sealed_memfd_read_size(fd, &size) || size < SHM_EXPORT_FRONT)
        return error_set(MR_CORRUPT, "the received fd %d is not exported memory: not sealed, or too small", fd);
    void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED) return error_errno("cannot map %llu bytes of imported memory", (unsigned long long)size);
    const layout *shared = memory;
    if (shared->magic != SHM_EXPORT_MAGIC || shared->size != size) {
        munmap(memory, size);
        return error_set(MR_CORRUPT, "the received fd %d is not exported memory: wrong header", fd);
    }
    (void)madvise(memory, size, MADV_DONTDUMP);
    *out = (shm_import){memory, size};
    return MR_OK;
}

void shm_import_close(shm_import *import) {
    if (import->base != NULL) munmap((void *)(uintptr_t)import->base, import->size);
    *import = (shm_import){0};
}

const void *shm_import_at(const shm_import *import, uint64_t offset, size_t size) {
    if (import->base == NULL || offset < SHM_EXPORT_FRONT || offset > import->size || size > import->size - offset)
        return NULL;
    return import->base + offset;
}

bool shm_import_copy(const shm_import *import, uint32_t word, uint64_t value, uint64_t offset, size_t size,
                     bool streams, void *to) {
    const layout *shared = (const void *)import->base;
    const void *from = shm_import_at(import, offset, size);
    if (from == NULL || word == 0 || word >= SHM_EXPORT_WORDS || value % 2 != 0) return false;
    if (atomic_load_explicit(&shared->words[word], memory_order_acquire) != value) return false;
    if (streams) {
        simd_stream(to, from, size);
        simd_stream_end();
    } else {
        memcpy(to, from, size);
    }
    cpu_fence();
    return atomic_load_explicit(&shared->words[word], memory_order_relaxed) == value;
}
