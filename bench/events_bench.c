/* events_bench.c — what it costs that every call leaves a trace of itself (runtime/events.h). */
#include "base/clock.h"
#include "bench/suites.h"
#include "runtime/events.h"

enum { BATCH = 1024, RECORDS = 2048 };

static void calls(const bench_run *run, const void *argument, double *values) {
    events events;
    size_t bytes = events_bytes(RECORDS);
    events_open(&events, bench_memory(bytes), bytes, clock_real(), &(events_identity){.process = 1});
    events_call call = {.kind = EVENT_METHOD, .name = "nothing", .name_size = 7, .process = 1};
    int64_t start_ns = clock_ns(), end_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns = start_ns;
    uint64_t count = 0;
    for (; now_ns < end_ns; now_ns = clock_ns())
        for (int i = 0; i < BATCH; i++) {
            call.call = count++;
            events_leave(&events, events_enter(&events, &call), MR_OK);
        }
    values[0] = (double)(now_ns - start_ns) / (double)count;
}

static void looks_at_clock(const bench_run *run, const void *argument, double *values) {
    int64_t start_ns = clock_ns(), end_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns = start_ns;
    uint64_t count = 0, sum = 0;
    for (; now_ns < end_ns; now_ns = clock_ns())
        for (int i = 0; i < BATCH; i++, count++) sum += (uint64_t)clock_now_us(clock_real());
    values[0] = (double)(now_ns - start_ns) / (double)(count + (sum == 0));
}

void events_bench(bench *b) {
    bench_measure(b, &(bench_pair){.ours = calls, .reference = looks_at_clock},
                  &(bench_row){.name = "trace of a short call", .unit = "ns", .reference = "one look at the clock"}, 1);
}
