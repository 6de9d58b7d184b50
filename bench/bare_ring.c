/* bare_ring.c — see bare_ring.h. */
#include "bench/bare_ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { SAMPLES_MAX = 1 << 18, BATCH = 16 };
#define STOP_VALUE UINT64_MAX

static void echo(void *argument) {
    bare_ring *rings = argument;
    bare_end in = {0}, out = {0};
    bench_pin(BENCH_TWO_CPUS, 1);
    for (;;) {
        uint64_t value = bare_take(&rings[0], &in);
        bare_put(&rings[1], &out, value);
        if (value == STOP_VALUE) return;
    }
}

static void round_trips(const bench_run *run, double *values) {
    bare_ring *rings = bench_shared(2 * sizeof *rings);
    bare_end in = {0}, out = {0};
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    pid_t pid = bench_child(echo, rings);
    bench_pin(BENCH_TWO_CPUS, 0);
    int64_t start = clock_ns(), now = start, end = start + (int64_t)(run->seconds * 1e9);
    while (now < end) {
        int64_t before = now;
        for (uint64_t i = 0; i < BATCH; i++) {
            bare_put(&rings[0], &out, i);
            bare_take(&rings[1], &in);
        }
        now = clock_ns();
        bench_samples_add(&samples, (double)(now - before) / (1e3 * BATCH));
    }
    bare_put(&rings[0], &out, STOP_VALUE);
    bench_join(pid);
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    bench_samples_fini(&samples);
}

void bare_round_trip_fn(const bench_run *run, const void *argument, double *values) { round_trips(run, values); }

void bare_one_way_fn(const bench_run *run, const void *argument, double *values) {
    round_trips(run, values);
    values[0] /= 2;
    values[1] /= 2;
}

/* ---- With bytes: the minimal cost of a message of that size, one copy into shared memory and one out of it. */

enum { BLOCKS = 4 };

typedef struct bare_bytes { /* shared memory */
    bare_ring rings[2];
    size_t size;
    _Alignas(128) uint8_t blocks[];
} bare_bytes;

static void echo_bytes(void *argument) {
    bare_bytes *shared = argument;
    bare_end in = {0}, out = {0};
    uint8_t *own = xmalloc(shared->size);
    bench_pin(BENCH_TWO_CPUS, 1);
    for (;;) {
        uint64_t value = bare_take(&shared->rings[0], &in);
        if (value != STOP_VALUE) memcpy(own, shared->blocks + value % BLOCKS * shared->size, shared->size);
        bare_put(&shared->rings[1], &out, value);
        if (value == STOP_VALUE) break;
    }
    free(own);
}

void bare_bytes_fn(const bench_run *run, const void *argument, double *values) {
    size_t size = *(const size_t *)argument;
    bare_bytes *shared = bench_shared(sizeof *shared + BLOCKS * size);
    shared->size = size;
    bare_end in = {0}, out = {0};
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    uint8_t *own = xcalloc(1, size);
    pid_t pid = bench_child(echo_bytes, shared);
    bench_pin(BENCH_TWO_CPUS, 0);
    int64_t now = clock_ns(), end = now + (int64_t)(run->seconds * 1e9);
    while (now < end) {
        int64_t before = now;
        for (uint64_t i = 0; i < BATCH; i++) {
            memcpy(shared->blocks + i % BLOCKS * size, own, size);
            bare_put(&shared->rings[0], &out, i);
            bare_take(&shared->rings[1], &in);
        }
        now = clock_ns();
        bench_samples_add(&samples, (double)(now - before) / (1e3 * BATCH));
    }
    bare_put(&shared->rings[0], &out, STOP_VALUE);
    bench_join(pid);
    free(own);
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    bench_samples_fini(&samples);
}

static void swallow(void *argument) {
    bare_ring *ring = argument;
    bare_end in = {0};
    bench_pin(BENCH_TWO_CPUS, 1);
    while (bare_take(ring, &in) != STOP_VALUE) {}
}

void bare_rate_fn(const bench_run *run, const void *argument, double *values) {
    bare_ring *ring = bench_shared(sizeof *ring);
    bare_end out = {0};
    pid_t pid = bench_child(swallow, ring);
    bench_pin(BENCH_TWO_CPUS, 0);
    int64_t start = clock_ns(), end = start + (int64_t)(run->seconds * 1e9);
    while (clock_ns() < end)
        for (uint64_t i = 0; i < 256; i++) bare_put(ring, &out, i);
    uint64_t count = out.mine;
    bare_put(ring, &out, STOP_VALUE);
    bench_join(pid);
    values[0] = (double)count * 1e3 / (double)(clock_ns() - start);
}
