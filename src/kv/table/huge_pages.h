/* huge_pages.h — memory of tables, which grow while they serve, on huge pages where the system allows it.
 *
 * A lookup in a large table misses the caches; on small pages it also misses the TLB. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "miniray/status.h"

enum { HUGE_PAGES_LINE = 64, HUGE_PAGES_PAGE = 4096, HUGE_PAGES_HUGE_PAGE = 2 << 20 };

/* Allocates zeroed memory, aligned to a cache line. Large memory is mapped, and the kernel clears a page at its first
 * touch, so the call does not wait for all of it. huge_pages_give needs the size; NULL: no-op. */
MR_MUST mr_status huge_pages_take(size_t size, void *out); /* `out` and MR_NOMEM as of alloc_try */
#define huge_pages_take(size, out) huge_pages_take(size, ALLOC_ADDRESS(out))
void huge_pages_give(void *memory, size_t size);

/* Makes malloc keep freed memory for reuse. For servers, whose requests use large allocations: a fresh page from the
 * kernel costs more than the work on it. */
void huge_pages_keep_freed(void);

/* Asks for huge pages for the parts of the memory that are full huge pages. Without them only the speed differs. */
static inline void huge_pages_prefer_huge(void *memory, size_t size) {
    uintptr_t from = ((uintptr_t)memory + HUGE_PAGES_HUGE_PAGE - 1) & -(uintptr_t)HUGE_PAGES_HUGE_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) & -(uintptr_t)HUGE_PAGES_HUGE_PAGE;
    if (from < to) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

/* Returns the full pages of the memory to the kernel. The memory is not read any more, and still has to be freed. */
static inline void huge_pages_drop(void *memory, size_t size) {
    uintptr_t from = ((uintptr_t)memory + HUGE_PAGES_PAGE - 1) & -(uintptr_t)HUGE_PAGES_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) & -(uintptr_t)HUGE_PAGES_PAGE;
    if (from < to) (void)madvise((void *)from, to - from, MADV_DONTNEED);
}
