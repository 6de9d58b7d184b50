/* view.c — see view.h. */
#include "store/view.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"

/* Bits of /proc/self/pagemap: a page that is present and of a file was not written by us. */
#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED (UINT64_C(1) << 62)
#define PAGEMAP_FILE    (UINT64_C(1) << 61)

enum { LOOK_PAGES = 256 };

/* PAGEMAP_SCAN of Linux 6.7, which Debian 12's headers do not know. */
typedef struct scan_region {
    uint64_t start, end, categories;
} scan_region;

typedef struct scan_request {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t inverted, all_of, any_of, returned;
} scan_request;

enum { SCAN_FILE = 1 << 2, SCAN_PRESENT = 1 << 3, SCAN_SWAPPED = 1 << 4 };
#define SCAN_COMMAND _IOWR('f', 16, scan_request)

/* How many pages of the range, up to one, have a copy of our own: there, but not of a file. < 0: not to be known. */
static int scan(int fd, const uint8_t *from, uint64_t size) {
    scan_region found;
    scan_request request = {.size = sizeof request,
                            .start = (uintptr_t)from,
                            .end = (uintptr_t)from + size,
                            .vec = (uintptr_t)&found,
                            .vec_len = 1,
                            .max_pages = 1,
                            .inverted = SCAN_FILE,
                            .all_of = SCAN_FILE,
                            .any_of = SCAN_PRESENT | SCAN_SWAPPED,
                            .returned = SCAN_PRESENT | SCAN_SWAPPED};
    return ioctl(fd, SCAN_COMMAND, &request);
}

mr_status view_map_open(const arena *arena, view_map *out) {
    void *base = FAILPOINT_ERROR("store.view_mmap")
                     ? (errno = ENOMEM, MAP_FAILED)
                     : mmap(NULL, arena->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, arena->fd, 0);
    if (base == MAP_FAILED) return error_errno("mapping the arena for views");
    *out = (view_map){.base = base,
                      .size = arena->size,
                      .page = (uint64_t)sysconf(_SC_PAGESIZE),
                      .pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    out->can_scan = out->pagemap_fd >= 0 && scan(out->pagemap_fd, out->base, out->page) >= 0;
    return MR_OK;
}

void view_map_close(view_map *map) {
    if (map->base == NULL) return;
    munmap(map->base, map->size);
    if (map->pagemap_fd >= 0) close(map->pagemap_fd);
    *map = (view_map){.pagemap_fd = -1};
}

/* Could a page of these have been written? */
static bool may_be_written(const view_map *map, const uint8_t *from, uint64_t pages) {
    uint64_t seen[LOOK_PAGES];
    uint64_t first = (uintptr_t)from / map->page;
    for (uint64_t at = 0; at < pages; at += LOOK_PAGES) {
        uint64_t count = pages - at < LOOK_PAGES ? pages - at : LOOK_PAGES;
        ssize_t size = (ssize_t)(count * sizeof seen[0]);
        if (pread(map->pagemap_fd, seen, (size_t)size, (off_t)((first + at) * sizeof seen[0])) != size) return true;
        for (uint64_t i = 0; i < count; i++)
            if ((seen[i] & PAGEMAP_SWAPPED) != 0 || ((seen[i] & PAGEMAP_PRESENT) != 0 && (seen[i] & PAGEMAP_FILE) == 0))
                return true;
    }
    return false;
}

void view_drop(view_map *map, uint64_t offset, uint64_t size) {
    MR_ASSERT(offset % map->page == 0 && offset <= map->size && size <= map->size - offset);
    uint64_t pages = (size + map->page - 1) / map->page;
    uint8_t *from = map->base + offset;
    if (map->can_scan && scan(map->pagemap_fd, from, pages * map->page) == 0) return;
    if (!map->can_scan && size <= VIEW_LOOK_BYTES && map->pagemap_fd >= 0 && !may_be_written(map, from, pages)) return;
    int failed = madvise(from, pages * map->page, MADV_DONTNEED);
    MR_ASSERT(failed == 0); /* the range is ours and mapped: nothing can be wrong with it */
}
