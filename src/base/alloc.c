/* alloc.c — see alloc.h. */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

static void *or_die(void *memory, size_t count, size_t size) {
    if (memory != NULL) return memory;
    fprintf(stderr, "miniray: out of memory: %zu × %zu bytes for internal use are not to be had\n", count, size);
    abort();
}

void *xmalloc(size_t size) { return or_die(malloc(size ? size : 1), 1, size); }

void *xcalloc(size_t count, size_t size) {
    bool none = count == 0 || size == 0;
    return or_die(none ? calloc(1, 1) : calloc(count, size), count, size);
}

static void *lines(size_t size) {
    enum { LINE = 64 };
    size_t whole = size == 0 ? LINE : (size + LINE - 1) / LINE * LINE;
    void *memory = whole < size ? NULL : aligned_alloc(LINE, whole);
    return memory == NULL ? NULL : memset(memory, 0, whole);
}

void *xcalloc_lines(size_t size) { return or_die(lines(size), 1, size); }

void *xrealloc(void *memory, size_t size) { return or_die(realloc(memory, size ? size : 1), 1, size); }

void *xcopy(const void *from, size_t size) {
    void *to = xmalloc(size);
    return size == 0 ? to : memcpy(to, from, size);
}

char *xstrdup(const char *text) { return xcopy(text, strlen(text) + 1); }

char *xasprintf(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    return or_die(length < 0 ? NULL : text, 1, strlen(format));
}

/* ---- Allocations that may fail. */

static _Thread_local size_t fail_countdown; /* 0: off */

void alloc_fail_at(size_t nth) { fail_countdown = nth; }

static bool made_to_fail(void) { return fail_countdown != 0 && --fail_countdown == 0; }

static mr_status no_memory(size_t size) { return error_set(MR_NOMEM, "out of memory: %zu bytes", size); }

#undef alloc_try /* the functions behind the macros of alloc.h */
#undef alloc_try_resize
#undef alloc_try_lines
#undef alloc_try_aligned

/* Stores the allocation through `out`, the address of a pointer, unless `memory` is NULL. */
static mr_status hand_out(void *memory, size_t size, void *out) {
    if (memory == NULL) return no_memory(size);
    memcpy(out, &memory, sizeof memory);
    return MR_OK;
}

mr_status alloc_try(size_t size, void *out) {
    return hand_out(made_to_fail() ? NULL : calloc(1, size ? size : 1), size, out);
}

mr_status alloc_try_resize(void *memory, size_t size) {
    void *before;
    memcpy(&before, memory, sizeof before);
    return hand_out(made_to_fail() ? NULL : realloc(before, size ? size : 1), size, memory);
}

mr_status alloc_try_lines(size_t size, void *out) { return hand_out(made_to_fail() ? NULL : lines(size), size, out); }

mr_status alloc_try_aligned(size_t align, size_t size, void *out) {
    MR_ASSERT(align >= sizeof(void *) && (align & (align - 1)) == 0);
    void *memory;
    bool made = !made_to_fail() && posix_memalign(&memory, align, size ? size : 1) == 0;
    return hand_out(made ? memory : NULL, size, out);
}

/* ---- Arrays that grow. */

static size_t larger_room(size_t room, size_t need) {
    enum { ROOM_FIRST = 16 };
    size_t larger = room < ROOM_FIRST / 2 ? ROOM_FIRST : 2 * room;
    return larger < need ? need : larger;
}

void xgrow_now(void *items, size_t *room, size_t need, size_t size) {
    void *memory;
    memcpy(&memory, items, sizeof memory);
    *room = larger_room(*room, need);
    memory = xrealloc(memory, *room * size);
    memcpy(items, &memory, sizeof memory);
}

mr_status alloc_grow_now(void *items, size_t *room, size_t need, size_t size) {
    size_t larger = larger_room(*room, need);
    MR_TRY(alloc_try_resize(items, larger * size));
    *room = larger;
    return MR_OK;
}

void alloc_expect_large(void) {
    const size_t size = ((size_t)32 << 20) - ((size_t)64 << 10); /* the largest size that raises glibc's limits */
    void *volatile block = malloc(size);                         /* volatile: else both calls are optimized away */
    free(block);
}
