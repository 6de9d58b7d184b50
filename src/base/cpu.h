/* cpu.h — the four things that C17 cannot say about the CPU.
 *
 * cpu_fence is a full barrier (store before, load after), as atomic_thread_fence(memory_order_seq_cst), but the
 * cheapest instruction for it with both compilers, and one that ThreadSanitizer does not refuse. */
#pragma once
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

static inline void cpu_fence(void) {
#if defined(__x86_64__)
    __asm__ volatile("lock; orl $0, -4(%%rsp)" ::: "memory", "cc");
#elif defined(__aarch64__)
    __asm__ volatile("dmb ish" ::: "memory");
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Asks for the cache line of `at`, to write to it soon. Any address will do: nothing is touched. */
static inline void cpu_prefetch_write(const void *at) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(*(const char *)at)); /* a no-op where the CPU does not know it */
#else
    __builtin_prefetch(at, 1);
#endif
}

/* Says that this is a waiting loop. */
static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* The CPU that this thread runs on; a load where the C library keeps it up to date (rseq). */
static inline uint32_t cpu_current(void) { return (uint32_t)sched_getcpu(); }
