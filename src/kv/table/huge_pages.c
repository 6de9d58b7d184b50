/* huge_pages.c — see huge_pages.h. */
#include "kv/table/huge_pages.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/error.h"

enum { LARGE = 256 << 10, MAPPED = 32 << 20, KEPT = 256 << 20 }; /* MAPPED: glibc's maximum of M_MMAP_THRESHOLD */
enum { MOST_OF_A_PAGE = HUGE_PAGES_HUGE_PAGE / 4 * 3 };

/* Size to be mapped. The rest behind the last full huge page gets a huge page too, if it fills most of it. */
static size_t mapped(size_t size) {
    size_t rest = size % HUGE_PAGES_HUGE_PAGE;
    return rest < MOST_OF_A_PAGE ? size : size - rest + HUGE_PAGES_HUGE_PAGE;
}

/* Maps memory that is aligned to a huge page if it contains one: more is mapped, and the excess is unmapped. */
static void *map(size_t size) {
    size_t more = size < HUGE_PAGES_HUGE_PAGE ? 0 : HUGE_PAGES_HUGE_PAGE - HUGE_PAGES_PAGE;
    uint8_t *memory = mmap(NULL, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || more == 0) return memory;
    size_t before = -(uintptr_t)memory % HUGE_PAGES_HUGE_PAGE,
           end = (size + HUGE_PAGES_PAGE - 1) & -(size_t)HUGE_PAGES_PAGE;
    if (before != 0) (void)munmap(memory, before);
    if (before != more) (void)munmap(memory + before + end, more - before);
    return memory + before;
}

#undef huge_pages_take /* the macro calls the function defined here */

mr_status huge_pages_take(size_t size, void *out) {
    if (size < LARGE) return alloc_try_lines(size, (void **)out);
    void *memory;
    MR_TRY(alloc_try(0, &memory)); /* lets tests make this allocation fail, too */
    free(memory);
    memory = map(mapped(size));
    if (memory == MAP_FAILED) return error_errno("out of memory for %zu bytes of a table", size);
    huge_pages_prefer_huge(memory, mapped(size));
    *(void **)out = memory;
    return MR_OK;
}

void huge_pages_keep_freed(void) {
    (void)!mallopt(M_MMAP_THRESHOLD, MAPPED); /* smaller allocations come from the heap, which is not trimmed: */
    (void)!mallopt(M_TRIM_THRESHOLD, KEPT);
}

void huge_pages_give(void *memory, size_t size) {
    if (size < LARGE)
        free(memory);
    else if (memory != NULL)
        munmap(memory, mapped(size));
}
