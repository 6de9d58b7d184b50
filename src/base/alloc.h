/* alloc.h — memory from the process heap.
 *
 * x* for small, bounded, control-plane allocations of our own: they never return NULL, a machine without memory for
 * them ends the process with a message. alloc_try for everything sized by a user or a peer, after its size was checked:
 * it answers MR_NOMEM. Free both with free(). */
#pragma once
#include <stddef.h>

#include "miniray/status.h"

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1)));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1, 2)));
/* Zeroed, and in cache lines of its own: for data that every call touches. Where malloc puts it otherwise, and which of
 * its fields then share a line or lie in two, is chance, and makes calls a fifth slower or faster from one program to
 * the next. */
void *xcalloc_lines(size_t size) __attribute__((malloc, returns_nonnull, alloc_size(1)));
void *xrealloc(void *memory, size_t size) __attribute__((returns_nonnull, alloc_size(2)));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
/* `from` may be NULL where the size is 0. */
void *xcopy(const void *from, size_t size) __attribute__((malloc, returns_nonnull, alloc_size(2)));
#define XNEW(type, ...) ((type *)xcopy(&(type){__VA_ARGS__}, sizeof(type))) /* with these fields, the rest is zero */
char *xasprintf(const char *format, ...) __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));

/* `out` and `memory` are the address of a pointer to any type, unchanged on failure. Size 0 gives a pointer, too, which
 * is to be freed. `align` is a power of two and at least the size of a pointer. */
MR_MUST mr_status alloc_try(size_t size, void *out);                       /* zeroed */
MR_MUST mr_status alloc_try_resize(void *memory, size_t size);             /* as realloc */
MR_MUST mr_status alloc_try_lines(size_t size, void *out);                 /* zeroed; as xcalloc_lines */
MR_MUST mr_status alloc_try_aligned(size_t align, size_t size, void *out); /* not zeroed */

/* Arrays that grow: `items` is the address of the pointer to an array of *room items of `size` bytes. Afterwards the
 * array has room for `need` items; a larger one has at least twice the room. */
void xgrow_now(void *items, size_t *room, size_t need, size_t size);
static inline void xgrow(void *items, size_t *room, size_t need, size_t size) {
    if (need > *room) xgrow_now(items, room, need, size);
}
MR_MUST mr_status alloc_grow_now(void *items, size_t *room, size_t need, size_t size);
MR_MUST static inline mr_status alloc_try_grow(void *items, size_t *room, size_t need, size_t size) {
    return need <= *room ? MR_OK : alloc_grow_now(items, room, need, size); /* MR_NOMEM: the array is as it was */
}

/* The compiler rejects an argument that is not the address of a pointer. */
#define ALLOC_ADDRESS(of)                  ((void)sizeof(*(of) == NULL), (void *)(of))
#define alloc_try(size, out)               alloc_try(size, ALLOC_ADDRESS(out))
#define alloc_try_resize(memory, size)     alloc_try_resize(ALLOC_ADDRESS(memory), size)
#define alloc_try_lines(size, out)         alloc_try_lines(size, ALLOC_ADDRESS(out))
#define alloc_try_aligned(align, size, to) alloc_try_aligned(align, size, ALLOC_ADDRESS(to))
#define alloc_try_grow(items, ...)         alloc_try_grow(ALLOC_ADDRESS(items), __VA_ARGS__)
#define xgrow(items, ...)                  xgrow(ALLOC_ADDRESS(items), __VA_ARGS__)

/* This process will have large blocks and give them back again and again. glibc returns such memory to the system at
 * once, and the next block costs a fault for each of its pages, until glibc has seen a block of its size freed: so this
 * frees one. A program that has set these limits itself keeps them. */
void alloc_expect_large(void);

/* Tests make the nth alloc_try* from now on in this thread fail, once (1 is the next); 0 ends it. To prove that a
 * function survives every failure, call it with n = 1, 2, … until it succeeds. */
void alloc_fail_at(size_t nth);
