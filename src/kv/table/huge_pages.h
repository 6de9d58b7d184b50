/* huge_pages.h — memory of tables, which grow while they serve, on huge pages where the system allows it.
 *
 * A lookup in a large table misses the caches anyway; on small pages it misses the TLB, too. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "miniray/status.h"

enum { HUGE_PAGES_LINE = 64, HUGE_PAGES_PAGE = 4096, HUGE_PAGES_HUGE_PAGE = 2 << 20 };

/* Zeroed memory, aligned to a cache line. Large memory comes straight from the system, which clears a page at its first
 * touch: a table does not wait for all of it. To be freed with its size; NULL: no-op. */
MR_MUST mr_status huge_pages_take(size_t size, void *out); /* `out` and MR_NOMEM as of alloc_try */
#define huge_pages_take(size, out) huge_pages_take(size, ALLOC_ADDRESS(out))
void huge_pages_give(void *memory, size_t size);

/* Asks malloc to keep freed memory, which this process will need again soon. For servers, whose requests use large
 * pieces of memory: a fresh page from the system costs more than the work on it. */
void huge_pages_keep_freed(void);

/* Asks for huge pages behind the parts of the memory that are whole ones. Without them only the speed differs. */
static inline void huge_pages_prefer_huge(void *memory, size_t size) {
    uintptr_t from = ((uintptr_t)memory + HUGE_PAGES_HUGE_PAGE - 1) & -(uintptr_t)HUGE_PAGES_HUGE_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) & -(uintptr_t)HUGE_PAGES_HUGE_PAGE;
    if (from < to) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

/* Returns the whole pages of the memory to the system; the memory is no longer read but still to be freed. */
static inline void huge_pages_drop(void *memory, size_t size) {
    uintptr_t from = ((uintptr_t)memory + HUGE_PAGES_PAGE - 1) & -(uintptr_t)HUGE_PAGES_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) & -(uintptr_t)HUGE_PAGES_PAGE;
    if (from < to) (void)madvise((void *)from, to - from, MADV_DONTNEED);
}
