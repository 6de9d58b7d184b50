/* clock.c — see clock.h. */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

#include "base/assert.h"

static int64_t read_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t real_monotonic_us(void *self) { return read_ns(CLOCK_MONOTONIC) / 1000; }
static int64_t real_wall_us(void *self) { return read_ns(CLOCK_REALTIME) / 1000; }

clock_source clock_real(void) {
    static const clock_ops ops = {real_monotonic_us, real_wall_us};
    return (clock_source){&ops, NULL};
}

static int64_t virtual_monotonic_us(void *self) { return ((virtual_clock *)self)->now_us; }
static int64_t virtual_wall_us(void *self) {
    virtual_clock *clock = self;
    return clock->now_us + clock->wall_offset_us;
}

clock_source clock_virtual(virtual_clock *clock) {
    static const clock_ops ops = {virtual_monotonic_us, virtual_wall_us};
    return (clock_source){&ops, clock};
}

void virtual_clock_advance(virtual_clock *clock, int64_t to_us) {
    MR_ASSERT(to_us >= clock->now_us);
    clock->now_us = to_us;
}

int64_t clock_ns(void) { return read_ns(CLOCK_MONOTONIC); }

uint64_t clock_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return (uint64_t)clock_ns();
#endif
}

#if defined(__x86_64__)
typedef struct instant {
    int64_t ns;
    uint64_t ticks;
} instant;

/* Reads both clocks at one moment. An interruption between the two reads would spoil the rate, so a slow pair is read
 * again. */
static instant read_both(void) {
    instant now;
    int64_t took_ns;
    int tries = 0;
    do {
        now.ns = clock_ns();
        now.ticks = clock_ticks();
        took_ns = clock_ns() - now.ns;
    } while (took_ns > 1000 && ++tries < 100);
    return now;
}

static double measure_ticks_per_us(void) {
    instant start = read_both(), end;
    do end = read_both();
    while (end.ns - start.ns < 200000);
    return (double)(end.ticks - start.ticks) * 1000.0 / (double)(end.ns - start.ns);
}
#endif

double clock_ticks_per_us(void) {
#if defined(__aarch64__)
    uint64_t frequency;
    __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
    return (double)frequency / 1e6;
#elif defined(__x86_64__)
    static _Atomic double
        measured; /* a constant of the machine: two threads that measure at once store equally good values */
    double rate = atomic_load_explicit(&measured, memory_order_relaxed);
    if (rate == 0) {
        rate = measure_ticks_per_us();
        atomic_store_explicit(&measured, rate, memory_order_relaxed);
    }
    return rate;
#else
    return 1000;
#endif
}

int64_t clock_deadline_us(int64_t now_us, int64_t timeout_us) {
    if (timeout_us < 0 || now_us > CLOCK_NEVER_US - timeout_us) return CLOCK_NEVER_US;
    return now_us + timeout_us;
}
