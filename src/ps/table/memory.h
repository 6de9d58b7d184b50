/* memory.h — large memory of tables: on huge pages where the system allows it.
 *
 * A lookup in a large table misses the caches anyway; on small pages it misses the tables of pages, too. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum { MEMORY_LINE = 64, MEMORY_PAGE = 4096, MEMORY_HUGE_PAGE = 2 << 20 };

/* Asks for huge pages behind those parts of the memory that are whole ones. It is a wish: what comes of it shows in the
 * speed only. */
static inline void memory_prefer_huge(void *memory, size_t size) {
    uintptr_t from = ((uintptr_t)memory + MEMORY_HUGE_PAGE - 1) & -(uintptr_t)MEMORY_HUGE_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) & -(uintptr_t)MEMORY_HUGE_PAGE;
    if (from < to) (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}

/* Gives back what is behind the whole pages of the memory, which is no longer looked at but still to be freed. */
static inline void memory_drop(void *memory, size_t size) {
    uintptr_t from = ((uintptr_t)memory + MEMORY_PAGE - 1) & -(uintptr_t)MEMORY_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) & -(uintptr_t)MEMORY_PAGE;
    if (from < to) (void)madvise((void *)from, to - from, MADV_DONTNEED);
}
