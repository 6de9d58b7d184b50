/* memory.c — see memory.h. */
#include "kv/table/memory.h"

#include <malloc.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

enum { LARGE = 256 << 10, MAPPED = 32 << 20, KEPT = 256 << 20 }; /* the most that glibc lets MAPPED be */

mr_status memory_take(size_t size, void **out) {
    if (size < LARGE) return alloc_try(size, out);
    void *memory;
    MR_TRY(alloc_try(0, &memory)); /* so that tests can make this one fail, too */
    free(memory);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return error_errno("no memory for %zu bytes of a table", size);
    memory_prefer_huge(memory, size);
    *out = memory;
    return MR_OK;
}

void memory_keep_freed(void) {
    (void)!mallopt(M_MMAP_THRESHOLD, MAPPED); /* smaller ones come from the heap, which stays: */
    (void)!mallopt(M_TRIM_THRESHOLD, KEPT);
}

void memory_give(void *memory, size_t size) {
    if (size < LARGE)
        free(memory);
    else if (memory != NULL)
        munmap(memory, size);
}
