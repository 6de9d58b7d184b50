/* cpu.h — CPU instructions and facts that C17 lacks: fences, prefetch, pause, the current CPU.
 *
 * cpu_fence is a full barrier (store before, load after), as atomic_thread_fence(memory_order_seq_cst), but the
 * cheapest instruction for it with both compilers, and one that ThreadSanitizer does not refuse. */
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#ifdef LIBC_WEAK /* base/libc.h */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
#define CPU_HAS_RSEQ (&__rseq_size != NULL && __rseq_size != 0)
#else
#define CPU_HAS_RSEQ (__rseq_size != 0)
#endif

static inline void cpu_fence(void) {
#if defined(__x86_64__)
    __asm__ volatile("lock; orl $0, -4(%%rsp)" ::: "memory", "cc");
#elif defined(__aarch64__)
    __asm__ volatile("dmb ish" ::: "memory");
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Requests ownership of the cache line at `at` for an early write. Any address is allowed: memory is not accessed. */
static inline void cpu_prefetch_write(const void *at) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(*(const char *)at)); /* a no-op on CPUs without it */
#else
    __builtin_prefetch(at, 1);
#endif
}

/* Moves the cache line at `at`, just written and soon read by another CPU, to the cache that both share, where the
 * other CPU finds it sooner. If the writer keeps writing to the line, this costs more than it saves. */
static inline void cpu_hand_over(const void *at) {
#if defined(__x86_64__)
    __asm__ volatile("cldemote %0" ::"m"(*(const char *)at)); /* a no-op on CPUs without it */
#else
    (void)at;
#endif
}

/* Tells the CPU that this is a spin loop. */
static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* A number that identifies this thread among the live threads of the process. One load. */
static inline uintptr_t cpu_thread(void) {
    uintptr_t thread;
#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(thread));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(thread));
#else
    thread = (uintptr_t)pthread_self();
#endif
    return thread;
}

/* The CPU that this thread runs on: one load where the kernel maintains it in memory (rseq). */
static inline uint32_t cpu_current(void) {
#if defined(RSEQ_SIG) && (defined(__x86_64__) || defined(__aarch64__))
    if (CPU_HAS_RSEQ) {
        const struct rseq *area = (const struct rseq *)(cpu_thread() + (uintptr_t)__rseq_offset);
        int32_t cpu = (int32_t)__atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED);
        if (__builtin_expect(cpu >= 0, 1)) return (uint32_t)cpu; /* negative: this thread has no rseq area */
    }
#endif
    return (uint32_t)sched_getcpu();
}

/* Number of CPUs that this process may run on; at least 1. */
static inline uint32_t cpu_count(void) {
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    return count < 1 ? 1 : (uint32_t)count;
}
