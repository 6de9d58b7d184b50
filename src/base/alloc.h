/* alloc.h — memory from the process heap.
 *
 * The x* functions are for small, bounded, control-plane allocations. They never return NULL: a machine without memory
 * for them ends the process with a message. The alloc_try* functions are for all sizes that a user or a peer chooses,
 * after a check of the size; they return MR_NOMEM. Both are freed with free(). */
#pragma once
#include <stddef.h>

#include "miniray/status.h"

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1)));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1, 2)));
/* Zeroed memory in cache lines of its own, for data that every call touches. With plain malloc, chance decides which
 * fields share or straddle a cache line, which makes calls up to a fifth slower from one program to the next. */
void *xcalloc_lines(size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1)));
void *xrealloc(void *memory, size_t size) __attribute__((returns_nonnull, alloc_size(2)));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
/* `from` may be NULL where the size is 0. */
void *xcopy(const void *from, size_t size) __attribute__((malloc, returns_nonnull, alloc_size(2)));
#define XNEW(type, ...) ((type *)xcopy(&(type){__VA_ARGS__}, sizeof(type))) /* the fields that are not given are zero */
char *xasprintf(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

/* `out` and `memory` are addresses of a pointer to any type; the pointer is unchanged on failure. Size 0 also gives a
 * pointer that must be freed. `align` is a power of two and at least the size of a pointer. */
MR_MUST mr_status alloc_try(size_t size, void *out);                       /* zeroed */
MR_MUST mr_status alloc_try_resize(void *memory, size_t size);             /* as realloc */
MR_MUST mr_status alloc_try_lines(size_t size, void *out);                 /* zeroed; as xcalloc_lines */
MR_MUST mr_status alloc_try_aligned(size_t align, size_t size, void *out); /* not zeroed */

/* Growing arrays: `items` is the address of the pointer to an array of *room items of `size` bytes. After the call the
 * array has room for `need` items; an array that grows at least doubles its room. */
void xgrow_now(void *items, size_t *room, size_t need, size_t size);
static inline void xgrow(void *items, size_t *room, size_t need, size_t size) {
    if (need > *room) xgrow_now(items, room, need, size);
}
MR_MUST mr_status alloc_grow_now(void *items, size_t *room, size_t need, size_t size);
MR_MUST static inline mr_status alloc_try_grow(void *items, size_t *room, size_t need, size_t size) {
    return need <= *room ? MR_OK : alloc_grow_now(items, room, need, size); /* MR_NOMEM: the array is unchanged */
}

/* The compiler rejects an argument that is not the address of a pointer. */
#define ALLOC_ADDRESS(of)                  ((void)sizeof(*(of) == NULL), (void *)(of))
#define alloc_try(size, out)               alloc_try(size, ALLOC_ADDRESS(out))
#define alloc_try_resize(memory, size)     alloc_try_resize(ALLOC_ADDRESS(memory), size)
#define alloc_try_lines(size, out)         alloc_try_lines(size, ALLOC_ADDRESS(out))
#define alloc_try_aligned(align, size, to) alloc_try_aligned(align, size, ALLOC_ADDRESS(to))
#define alloc_try_grow(items, ...)         alloc_try_grow(ALLOC_ADDRESS(items), __VA_ARGS__)
#define xgrow(items, ...)                  xgrow(ALLOC_ADDRESS(items), __VA_ARGS__)

/* For a process that repeatedly allocates and frees large blocks. glibc returns such memory to the system at once, and
 * each page of the next block costs a fault, until glibc has seen a block of that size freed. This function allocates
 * and frees one such block. Limits that a program has set itself stay. */
void alloc_expect_large(void);

/* For tests: the nth alloc_try* call from now on in this thread fails, once (1 is the next); 0 cancels. To prove that a
 * function survives every allocation failure, a test calls it with n = 1, 2, … until it succeeds. */
void alloc_fail_at(size_t nth);
