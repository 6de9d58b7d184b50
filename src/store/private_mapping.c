/* private_mapping.c — see private_mapping.h. */
#include "store/private_mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/failpoint.h"

/* Bits of /proc/self/pagemap. A page that is present and belongs to a file was not written by this process. */
#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED (UINT64_C(1) << 62)
#define PAGEMAP_FILE    (UINT64_C(1) << 61)

enum { LOOK_PAGES = 256 };

/* PAGEMAP_SCAN of Linux 6.7; the headers of Debian 12 lack it. */
typedef struct scan_region {
    uint64_t start, end, categories;
} scan_region;

typedef struct scan_request {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t inverted, all_of, any_of, returned;
} scan_request;

enum { SCAN_FILE = 1 << 2, SCAN_PRESENT = 1 << 3, SCAN_SWAPPED = 1 << 4 };
#define SCAN_COMMAND _IOWR('f', 16, scan_request)

/* The number of pages, at most 1, of which this process has a private copy (present, but not of a file). < 0: the
 * kernel does not support the request. */
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

mr_status private_mapping_open(const arena *arena, private_mapping *out) {
    void *base = FAILPOINT_ERROR("store.lens_mmap")
                     ? (errno = ENOMEM, MAP_FAILED)
                     : mmap(NULL, arena->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, arena->fd, 0);
    if (base == MAP_FAILED) return error_errno("cannot map the arena (fd %d) for reading objects", arena->fd);
    *out = (private_mapping){.base = base,
                             .size = arena->size,
                             .page = (uint64_t)sysconf(_SC_PAGESIZE),
                             .pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    out->can_scan = out->pagemap_fd >= 0 && scan(out->pagemap_fd, out->base, out->page) >= 0;
    return MR_OK;
}

void private_mapping_close(private_mapping *mapping) {
    if (mapping->base == NULL) return;
    munmap(mapping->base, mapping->size);
    if (mapping->pagemap_fd >= 0) close(mapping->pagemap_fd);
    *mapping = PRIVATE_MAPPING_NONE;
}

/* Reads a byte of each page and writes it back, which makes the kernel copy the page. */
void private_mapping_keep(private_mapping *mapping, uint64_t offset, uint64_t size) {
    MR_ASSERT(offset <= mapping->size && size <= mapping->size - offset);
    for (uint64_t at = 0; at < size; at += mapping->page) {
        volatile uint8_t *byte = mapping->base + offset + at;
        *byte = *byte;
    }
}

/* Whether one of these pages may have been written. */
static bool may_be_written(const private_mapping *mapping, const uint8_t *from, uint64_t pages) {
    uint64_t seen[LOOK_PAGES];
    uint64_t first = (uintptr_t)from / mapping->page;
    for (uint64_t at = 0; at < pages; at += LOOK_PAGES) {
        uint64_t count = pages - at < LOOK_PAGES ? pages - at : LOOK_PAGES;
        ssize_t size = (ssize_t)(count * sizeof seen[0]);
        if (pread(mapping->pagemap_fd, seen, (size_t)size, (off_t)((first + at) * sizeof seen[0])) != size) return true;
        for (uint64_t i = 0; i < count; i++)
            if ((seen[i] & PAGEMAP_SWAPPED) != 0 || ((seen[i] & PAGEMAP_PRESENT) != 0 && (seen[i] & PAGEMAP_FILE) == 0))
                return true;
    }
    return false;
}

static void drop_now(private_mapping *mapping, private_mapping_range range) {
    uint8_t *from = mapping->base + range.offset;
    if (mapping->can_scan && scan(mapping->pagemap_fd, from, range.size) == 0) return;
    if (!mapping->can_scan && range.size <= PRIVATE_MAPPING_LOOK_BYTES && mapping->pagemap_fd >= 0 &&
        !may_be_written(mapping, from, range.size / mapping->page))
        return;
    int failed = madvise(from, range.size, MADV_DONTNEED);
    MR_ASSERT(failed == 0); /* cannot fail: this process has mapped the range */
}

/* One scan for each group of adjacent ranges; if it finds a written page, one for each range of the group. */
static void drop_later(private_mapping *mapping) {
    for (uint32_t first = 0, next; first < mapping->later_count; first = next) {
        private_mapping_range all = mapping->later[first];
        for (next = first + 1; next < mapping->later_count; next++) {
            if (mapping->later[next].offset != all.offset + all.size) break;
            all.size += mapping->later[next].size;
        }
        if (next - first > 1 && scan(mapping->pagemap_fd, mapping->base + all.offset, all.size) == 0) continue;
        for (uint32_t i = first; i < next; i++) drop_now(mapping, mapping->later[i]);
    }
    mapping->later_count = 0;
}

void *private_mapping_view(private_mapping *mapping, uint64_t offset, uint64_t size) {
    MR_ASSERT(offset <= mapping->size && size <= mapping->size - offset &&
              mapping->later_count <= PRIVATE_MAPPING_LATER);
    for (uint32_t i = 0; i < mapping->later_count; i++) {
        private_mapping_range range = mapping->later[i];
        if (offset >= range.offset + range.size || range.offset >= offset + size) continue;
        drop_later(mapping);
        break;
    }
    return mapping->base + offset;
}

void private_mapping_drop(private_mapping *mapping, uint64_t offset, uint64_t size) {
    MR_ASSERT(offset % mapping->page == 0 && offset <= mapping->size && size <= mapping->size - offset);
    private_mapping_range range = {offset, (size + mapping->page - 1) / mapping->page * mapping->page};
    if (!mapping->can_scan || range.size > PRIVATE_MAPPING_LATER_BYTES) {
        drop_now(mapping, range);
        return;
    }
    if (mapping->later_count == PRIVATE_MAPPING_LATER) drop_later(mapping);
    uint32_t at = mapping->later_count++;
    for (; at > 0 && mapping->later[at - 1].offset > offset; at--) mapping->later[at] = mapping->later[at - 1];
    mapping->later[at] = range;
    /* ranges that wait are in order and do not overlap */
    MR_ASSERT(at == 0 || mapping->later[at - 1].offset + mapping->later[at - 1].size <= range.offset);
    MR_ASSERT(at + 1 == mapping->later_count || range.offset + range.size <= mapping->later[at + 1].offset);
}
