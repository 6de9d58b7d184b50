/* simd.h — SIMD clones of loops over arrays, and streaming stores that bypass the caches.
 *
 *     SIMD_CLONES static void add(float *restrict sum, const float *restrict row, size_t count) { … }
 *
 * On amd64 the compiler makes such a function twice, for the baseline and for AVX2, and the dynamic linker selects one
 * at program start: a plain loop then processes eight floats instead of four at a time. Both do the same arithmetic in
 * the same order (nothing is fused: -ffp-contract=off), so their results have the same bits. The baseline of arm64 has
 * vectors.
 *
 * Such a function is static and its name is unique in the library: clang 14 makes the resolvers of static functions
 * global, and those of others wrong. Disabled under ThreadSanitizer, which is not initialized when the linker runs the
 * resolvers. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/tsan.h"

#if defined(__x86_64__) && !TSAN
#define SIMD_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define SIMD_CLONES
#endif

enum { SIMD_LINE = 64, SIMD_PAGE = 4096, SIMD_PAGES = 4 };

#if defined(__SSE2__)
static inline void simd_stream_line(char *line, const char *source) {
    for (size_t i = 0; i < SIMD_LINE; i += 16)
        _mm_stream_si128((__m128i *)(line + i), _mm_loadu_si128((const __m128i *)(source + i)));
}
#endif

/* memcpy for bytes that this CPU does not read soon: without reading the overwritten cache lines. Only whole lines
 * bypass the caches, because streaming a partial line would read and write memory. With several pages, one line of each
 * is copied in turn: the processor prefetches within a page only, and does so in all pages at once. arm64 detects by
 * itself that whole lines are written. */
static inline void simd_stream(void *to, const void *from, size_t size) {
#if defined(__SSE2__)
    size_t head = -(uintptr_t)to & (SIMD_LINE - 1);
    if (size >= 256) {
        memcpy(to, from, head);
        char *line = (char *)to + head;
        const char *source = (const char *)from + head;
        size -= head;
        for (; size >= SIMD_PAGES * SIMD_PAGE; size -= SIMD_PAGES * SIMD_PAGE) {
            for (size_t at = 0; at < SIMD_PAGE; at += SIMD_LINE)
                for (size_t page = 0; page < SIMD_PAGES; page++)
                    simd_stream_line(line + page * SIMD_PAGE + at, source + page * SIMD_PAGE + at);
            line += SIMD_PAGES * SIMD_PAGE;
            source += SIMD_PAGES * SIMD_PAGE;
        }
        for (; size >= SIMD_LINE; size -= SIMD_LINE, line += SIMD_LINE, source += SIMD_LINE)
            simd_stream_line(line, source);
        memcpy(line, source, size);
        return;
    }
#endif
    memcpy(to, from, size);
}

/* Orders streamed stores before a later store that publishes them to another thread or process. */
static inline void simd_stream_end(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}
