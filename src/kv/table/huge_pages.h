/* huge_pages.h — memory of tables, which grow while they serve, on huge pages where the system allows it.
 *
 * A lookup in a large table misses the caches anyway; on small pages it misses the tables of pages, too. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "miniray/status.h"

enum { HUGE_PAGES_LINE = 64, HUGE_PAGES_PAGE = 4096, HUGE_PAGES_HUGE_PAGE = 2 << 20 };

/* Zeroed memory, from the beginning of a line on. Where it is large it comes straight from the system, which clears a
 * page when it is touched first: a table does not stop for all of it. To be given back with its size; NULL: nothing is
 * done. */
MR_MUST mr_status huge_pages_take(size_t size, void **out); /* MR_NOMEM */
void huge_pages_give(void *memory, size_t size);

/* What this process frees it will need again soon: malloc is asked to keep it. For servers, whose requests are made of
 * large pieces of memory: a page that comes fresh from the system costs more than all that is done with it. */
void huge_pages_keep_freed(void);

/* Asks for huge pages behind those parts of the memory that are whole ones. It is a wish: what comes of it shows in the
 * speed only. */
static inline void huge_pages_prefer_huge(void *memory, size_t size) {
    uintptr_t from = ((uintptr_t)memory + HUGE_PAGES_HUGE_PAGE - 1) & -(uintptr_t)HUGE_PAGES_HUGE_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) & -(uintptr_t)HUGE_PAGES_HUGE_PAGE;
    if (from < to) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

/* Gives back what is behind the whole pages of the memory, which is no longer looked at but still to be freed. */
static inline void huge_pages_drop(void *memory, size_t size) {
    uintptr_t from = ((uintptr_t)memory + HUGE_PAGES_PAGE - 1) & -(uintptr_t)HUGE_PAGES_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) & -(uintptr_t)HUGE_PAGES_PAGE;
    if (from < to) (void)madvise((void *)from, to - from, MADV_DONTNEED);
}
