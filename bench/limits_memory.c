/* limits_memory.c — copying memory and touching it for the first time. See limits.h. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "bench/limits.h"

enum { THREADS_MAX = 64, PAGE = 4096 };

typedef struct copier {
    const limit_copy *copy;
    unsigned index;
    double seconds, rate;
    pthread_barrier_t *start;
} copier;

static void *copier_main(void *argument) {
    copier *self = argument;
    size_t size = self->copy->size;
    bench_pin(BENCH_TWO_CPUS, self->index);
    uint8_t *from = bench_memory(size), *to = bench_memory(size);
    size_t batch = size < (1 << 20) ? (1 << 20) / size : 1; /* between two reads of the clock */
    memcpy(to, from, size);
    pthread_barrier_wait(self->start);
    int64_t start_ns = clock_ns(), end_ns, until_ns = start_ns + (int64_t)(self->seconds * 1e9);
    uint64_t copies = 0;
    do {
        for (size_t i = 0; i < batch; i++) {
            memcpy(to, from, size);
            __asm__ volatile("" ::"r"(to), "r"(from) : "memory"); /* keeps the compiler from removing copies */
        }
        copies += batch;
        end_ns = clock_ns();
    } while (end_ns < until_ns);
    self->rate = (double)copies * (double)size / (double)(end_ns - start_ns);
    munmap(from, size);
    munmap(to, size);
    return NULL;
}

double limit_memcpy(const limit_copy *copy, double seconds) {
    unsigned threads = copy->threads == 0 ? 1 : copy->threads;
    if (threads > THREADS_MAX || copy->size == 0) bench_fail("cannot copy with %u threads", threads);
    copier copiers[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    double rate = 0;
    for (unsigned i = 0; i < threads; i++) {
        copiers[i] = (copier){.copy = copy, .index = i, .seconds = seconds, .start = &start};
        if (pthread_create(&ids[i], NULL, copier_main, &copiers[i]) != 0) bench_fail("no thread to be had");
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        rate += copiers[i].rate;
    }
    pthread_barrier_destroy(&start);
    return rate;
}

void limit_memcpy_fn(const bench_run *run, const void *argument, double *values) {
    values[0] = limit_memcpy(argument, run->seconds);
}

/* ---- From one CPU to another. */

typedef struct writer {
    size_t size;
    uint8_t *place;
    _Atomic uint64_t turn; /* odd: the writer's turn */
    _Atomic bool stop;
} writer;

static void await_turn(writer *writer, uint64_t odd) {
    while (atomic_load_explicit(&writer->turn, memory_order_acquire) % 2 != odd) cpu_relax();
}

static void pass_turn(writer *writer) { atomic_fetch_add_explicit(&writer->turn, 1, memory_order_release); }

static void *writer_main(void *argument) {
    writer *self = argument;
    bench_pin(BENCH_TWO_CPUS, 1);
    for (uint8_t value = 0;; value++) {
        await_turn(self, 1);
        if (atomic_load_explicit(&self->stop, memory_order_relaxed)) return NULL;
        memset(self->place, value, self->size);
        pass_turn(self);
    }
}

double limit_memcpy_across(size_t size, double seconds) {
    enum { SAMPLES_MAX = 1 << 16 };
    writer writer = {.size = size, .place = bench_memory(size)};
    uint8_t *to = bench_memory(size);
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    pthread_t id;
    if (pthread_create(&id, NULL, writer_main, &writer) != 0) bench_fail("no thread to be had");
    bench_pin(BENCH_TWO_CPUS, 0);
    int64_t until_ns = clock_ns() + (int64_t)(seconds * 1e9), end_ns = 0;
    while (end_ns < until_ns) {
        pass_turn(&writer);
        await_turn(&writer, 0);
        int64_t start_ns = clock_ns();
        memcpy(to, writer.place, size);
        __asm__ volatile("" ::"r"(to) : "memory");
        end_ns = clock_ns();
        bench_samples_add(&samples, (double)size / (double)(end_ns - start_ns));
    }
    atomic_store_explicit(&writer.stop, true, memory_order_relaxed);
    pass_turn(&writer);
    pthread_join(id, NULL);
    double rate = bench_samples_percentile(&samples, 50);
    bench_samples_fini(&samples);
    munmap(writer.place, size);
    munmap(to, size);
    return rate;
}

void limit_memcpy_across_fn(const bench_run *run, const void *argument, double *values) {
    values[0] = limit_memcpy_across(((const limit_copy *)argument)->size, run->seconds);
}

/* ---- Fresh pages. */

static uint8_t *map(size_t size, int flags, int fd) {
    uint8_t *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (memory == MAP_FAILED) bench_fail("map %zu bytes: %s", size, strerror(errno));
    madvise(memory, size, MADV_NOHUGEPAGE);
    return memory;
}

/* Touches every page of a mapping and unmaps it; returns the nanoseconds of the touching alone. */
static int64_t touch(uint8_t *memory, size_t size, bool read_only) {
    volatile uint8_t *pages = memory;
    int64_t start_ns = clock_ns();
    for (size_t at = 0; at < size; at += PAGE) {
        if (read_only)
            (void)pages[at];
        else
            pages[at] = 1;
    }
    int64_t spent_ns = clock_ns() - start_ns;
    munmap(memory, size);
    return spent_ns;
}

static int64_t touch_memfd(size_t size, bool second) {
    int fd = memfd_create("limit", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) bench_fail("memfd of %zu bytes: %s", size, strerror(errno));
    int64_t spent_ns = touch(map(size, MAP_SHARED, fd), size, false);
    if (second) spent_ns = touch(map(size, MAP_SHARED, fd), size, true);
    close(fd);
    return spent_ns;
}

double limit_page_us(limit_page page, double seconds) {
    size_t size = (size_t)16 << 20;
    int64_t until_ns = clock_ns() + (int64_t)(seconds * 1e9), spent_ns = 0;
    uint64_t pages = 0;
    do {
        if (page == LIMIT_PAGE_ANONYMOUS)
            spent_ns += touch(map(size, MAP_PRIVATE | MAP_ANONYMOUS, -1), size, false);
        else
            spent_ns += touch_memfd(size, page == LIMIT_PAGE_SECOND_MAPPING);
        pages += size / PAGE;
    } while (clock_ns() < until_ns);
    return (double)spent_ns / (double)pages / 1e3;
}
