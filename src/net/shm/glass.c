/* glass.c — see glass.h. */
#include "net/shm/glass.h"

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
#include "base/vector.h"
#include "net/shm/extents.h"
#include "net/shm/headroom.h"
#include "net/shm/sealed.h"

enum { HEADROOM_KEPT = 8 << 20 };

typedef struct layout { /* as it lies in shared memory */
    uint64_t magic, size;
    _Atomic uint64_t words[GLASS_WORDS];
} layout;

_Static_assert(sizeof(layout) <= GLASS_FRONT && GLASS_FRONT % EXTENT_UNIT == 0, "stretches are behind it");

struct glass {
    layout *shared; /* mapped */
    uint64_t size;
    int fd, read_fd;
    extents *extents;
    map sizes;    /* offset → bytes of what is taken */
    extent *left; /* to others, in their order */
    uint32_t left_count;
    uint32_t *free_words, free_count, next_word;
};

/* ---- Life. */

/* One that cannot be mapped to be written; where /proc is not there, the other one. */
static int open_again(int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY | O_CLOEXEC);
    return again >= 0 ? again : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static mr_status back(const glass *glass, uint64_t offset, uint64_t size) {
    uint64_t left = headroom_bytes();
    if (left != HEADROOM_UNKNOWN && left < size + HEADROOM_KEPT)
        return error_set(MR_NOMEM, "no memory for %llu shared bytes: the machine or the memory cgroup has %llu left",
                         (unsigned long long)size, (unsigned long long)left);
    if (FAILPOINT_ERROR("glass.fallocate")
            ? (errno = ENOSPC, true)
            : TEMP_FAILURE_RETRY(fallocate(glass->fd, 0, (off_t)offset, (off_t)size)) != 0)
        return error_errno("cannot back %llu bytes of exported memory", (unsigned long long)size);
    return MR_OK;
}

static mr_status open_file(glass *glass) {
    glass->fd = FAILPOINT_ERROR("glass.memfd") ? (errno = EMFILE, -1) : sealed_create("miniray-glass", glass->size);
    if (glass->fd < 0) return error_errno("cannot create a memfd for export (fd %d)", glass->fd);
    glass->read_fd = open_again(glass->fd);
    if (glass->read_fd < 0) return error_errno("cannot open the exported memory (fd %d) for reading", glass->fd);
    MR_TRY(back(glass, 0, GLASS_FRONT));
    void *memory = mmap(NULL, glass->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, glass->fd, 0);
    if (memory == MAP_FAILED) return error_errno("cannot map exported memory (fd %d)", glass->fd);
    glass->shared = memory;
    (void)madvise(memory, glass->size, MADV_DONTDUMP);
    return MR_OK;
}

mr_status glass_create(uint64_t size, glass **out) {
    size -= size % EXTENT_UNIT;
    if (size < GLASS_FRONT + EXTENT_UNIT || size > INT64_MAX)
        return error_set(MR_INVALID, "exported memory of %llu bytes: the minimum is %d", (unsigned long long)size,
                         GLASS_FRONT + EXTENT_UNIT);
    glass *glass = xcalloc(1, sizeof *glass);
    *glass = (struct glass){.size = size, .fd = -1, .read_fd = -1, .next_word = 1};
    mr_status status = open_file(glass);
    if (status != MR_OK) {
        glass_destroy(glass);
        return status;
    }
    glass->shared->magic = GLASS_MAGIC;
    glass->shared->size = size;
    glass->extents = extents_create(GLASS_FRONT, size);
    *out = glass;
    return MR_OK;
}

/* All but what was left to others. */
static void unmap(glass *glass) {
    uint8_t *base = (uint8_t *)glass->shared;
    uint64_t at = 0;
    for (uint32_t i = 0; i < glass->left_count; i++) {
        if (glass->left[i].offset > at) munmap(base + at, glass->left[i].offset - at);
        at = glass->left[i].offset + glass->left[i].size;
    }
    if (at < glass->size) munmap(base + at, glass->size - at);
}

void glass_destroy(glass *glass) {
    if (glass == NULL) return;
    if (glass->extents != NULL) extents_destroy(glass->extents);
    if (glass->shared != NULL) unmap(glass);
    free(glass->left);
    if (glass->fd >= 0) close(glass->fd);
    if (glass->read_fd >= 0) close(glass->read_fd);
    map_fini(&glass->sizes);
    free(glass->free_words);
    free(glass);
}

int glass_fd(const glass *glass) { return glass->read_fd; }
uint64_t glass_used(const glass *glass) { return extents_stats_now(glass->extents).used; }

/* ---- Stretches. */

static uint8_t *base_of(const glass *glass) { return (uint8_t *)glass->shared; }

mr_status glass_take(glass *glass, size_t size, void **out) {
    extent extent;
    if (size == 0 || size > glass->size)
        return error_set(size == 0 ? MR_INVALID : MR_NOMEM, "cannot export %zu bytes", size);
    MR_TRY(extents_alloc(glass->extents, size, &extent));
    mr_status status = back(glass, extent.offset, extent.size);
    if (status != MR_OK) {
        extents_free(glass->extents, extent);
        return status;
    }
    map_put(&glass->sizes, extent.offset, (void *)(uintptr_t)extent.size);
    *out = base_of(glass) + extent.offset;
    return MR_OK;
}

static uint64_t offset_of(const glass *glass, const void *memory) {
    return (uint64_t)((const uint8_t *)memory - base_of(glass));
}

/* Its pages go; where they cannot, they are cleared for who takes them next. */
void glass_give(glass *glass, void *memory) {
    if (memory == NULL) return;
    uint64_t offset = offset_of(glass, memory), size = (uintptr_t)map_remove(&glass->sizes, offset);
    MR_ASSERT(size != 0);
    if (fallocate(glass->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size) != 0)
        memset(memory, 0, size);
    extents_free(glass->extents, (extent){offset, size});
}

void glass_leave(glass *glass, void *memory) {
    uint64_t offset = offset_of(glass, memory), size = (uintptr_t)map_remove(&glass->sizes, offset);
    uint32_t at = glass->left_count++;
    MR_ASSERT(size != 0);
    glass->left = xrealloc(glass->left, glass->left_count * sizeof *glass->left);
    for (; at > 0 && glass->left[at - 1].offset > offset; at--) glass->left[at] = glass->left[at - 1];
    glass->left[at] = (extent){offset, size};
}

bool glass_holds(const glass *glass, const void *memory, size_t size, uint64_t *offset) {
    uintptr_t at = (uintptr_t)memory, base = (uintptr_t)glass->shared;
    if (at < base + GLASS_FRONT || at - base > glass->size || size > glass->size - (at - base)) return false;
    *offset = at - base;
    return true;
}

bool glass_owns(const glass *glass, const void *memory) {
    uint64_t offset;
    return glass_holds(glass, memory, 1, &offset) && map_get(&glass->sizes, offset) != NULL;
}

/* ---- Words. */

uint32_t glass_word_take(glass *glass) {
    if (glass->free_count != 0) return glass->free_words[--glass->free_count];
    return glass->next_word == GLASS_WORDS ? 0 : glass->next_word++;
}

void glass_word_give(glass *glass, uint32_t word) {
    if (word == 0) return;
    if (glass->free_words == NULL) glass->free_words = xcalloc(GLASS_WORDS, sizeof *glass->free_words);
    glass->free_words[glass->free_count++] = word;
}

void glass_change(glass *glass, uint32_t word) {
    _Atomic uint64_t *at = &glass->shared->words[word];
    atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) | 1, memory_order_relaxed);
    cpu_fence();
}

void glass_changed(glass *glass, uint32_t word) {
    _Atomic uint64_t *at = &glass->shared->words[word];
    atomic_store_explicit(at, (atomic_load_explicit(at, memory_order_relaxed) | 1) + 1, memory_order_release);
}

uint64_t glass_word(const glass *glass, uint32_t word) {
    return atomic_load_explicit(&glass->shared->words[word], memory_order_relaxed);
}

/* ---- For those who look. */

glass_view glass_own_view(const glass *glass) { return (glass_view){base_of(glass), glass->size}; }

mr_status glass_look(int fd, glass_view *out) {
    uint64_t size;
    if (!sealed_read_size(fd, &size) || size < GLASS_FRONT)
        return error_set(MR_CORRUPT, "the received fd %d is not exported memory: not sealed, or too small", fd);
    void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (memory == MAP_FAILED) return error_errno("cannot map %llu bytes of imported memory", (unsigned long long)size);
    const layout *shared = memory;
    if (shared->magic != GLASS_MAGIC || shared->size != size) {
        munmap(memory, size);
        return error_set(MR_CORRUPT, "the received fd %d is not exported memory: wrong header", fd);
    }
    (void)madvise(memory, size, MADV_DONTDUMP);
    *out = (glass_view){memory, size};
    return MR_OK;
}

void glass_look_away(glass_view *view) {
    if (view->base != NULL) munmap((void *)(uintptr_t)view->base, view->size);
    *view = (glass_view){0};
}

const void *glass_at(const glass_view *view, uint64_t offset, size_t size) {
    if (view->base == NULL || offset < GLASS_FRONT || offset > view->size || size > view->size - offset) return NULL;
    return view->base + offset;
}

bool glass_copy(const glass_view *view, uint32_t word, uint64_t value, uint64_t offset, size_t size, bool streams,
                void *to) {
    const layout *shared = (const void *)view->base;
    const void *from = glass_at(view, offset, size);
    if (from == NULL || word == 0 || word >= GLASS_WORDS || value % 2 != 0) return false;
    if (atomic_load_explicit(&shared->words[word], memory_order_acquire) != value) return false;
    if (streams) {
        vector_stream(to, from, size);
        vector_stream_end();
    } else {
        memcpy(to, from, size);
    }
    cpu_fence();
    return atomic_load_explicit(&shared->words[word], memory_order_relaxed) == value;
}
