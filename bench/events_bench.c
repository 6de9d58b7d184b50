/* events_bench.c — what it costs that every call leaves a trace of itself (runtime/events.h): the trace alone, and
 * calls with it beside calls without (the option events_kept), in the same binary. */
#include <stdlib.h>

#include "base/clock.h"
#include "bench/suites.h"
#include "miniray/runtime.h"
#include "runtime/events.h"

enum { BATCH = 1024, RECORDS = 2048, SAMPLES_MAX = 1 << 18, WINDOW = 512, WARM = 5000 };

static void calls(const bench_run *run, const void *argument, double *values) {
    events events;
    size_t bytes = events_bytes(RECORDS);
    events_open(&events, bench_memory(bytes), bytes, clock_real(), &(events_identity){.process = 1});
    events_call call = {.kind = EVENT_METHOD, .name = "nothing", .name_size = 7, .process = 1, .key = 1};
    int64_t start_ns = clock_ns(), end_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns = start_ns;
    uint64_t count = 0;
    for (; now_ns < end_ns; now_ns = clock_ns())
        for (int i = 0; i < BATCH; i++) {
            call.call = count++;
            uint64_t entered = events_repeat(&events, call.key) ? events_again(&events) : events_enter(&events, &call);
            events_leave(&events, entered, MR_OK);
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

/* ---- Whole calls, seen and unseen. */

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s: %s", mr_status_name(status), mr_last_error());
}

static mr_context *start(const char *kept, mr_actor *actor) {
    mr_context *mr;
    setenv("MINIRAY_EVENTS_KEPT", kept, 1);
    must(mr_init(&(mr_options){.num_workers = 1}, &mr));
    must(mr_new_actor(mr, "BenchEcho", actor));
    return mr;
}

static void finish(mr_context *mr, mr_ref ref) {
    mr_value value;
    must(mr_get(mr, ref, 20 * 1000 * 1000, &value));
    mr_value_release(&value);
    mr_release(mr, ref);
}

static void round_trips(const bench_run *run, const void *kept, double *values) {
    mr_actor actor;
    mr_ref ref;
    mr_context *mr = start(kept, &actor);
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    int64_t before_ns = clock_ns(), end_ns = before_ns + (int64_t)(run->seconds * 1e9);
    for (uint64_t i = 0; before_ns < end_ns; i++) {
        must(mr_call_actor(mr, actor, "nothing", &ref));
        finish(mr, ref);
        int64_t now_ns = clock_ns();
        if (i >= WARM) bench_samples_add(&samples, (double)(now_ns - before_ns) / 1e3);
        before_ns = now_ns;
    }
    values[0] = bench_samples_percentile(&samples, 50);
    bench_samples_fini(&samples);
    mr_shutdown(mr);
}

static void pipelined(const bench_run *run, const void *kept, double *values) {
    mr_actor actor;
    mr_ref refs[WINDOW];
    mr_context *mr = start(kept, &actor);
    for (int i = 0; i < WINDOW; i++) must(mr_call_actor(mr, actor, "nothing", &refs[i]));
    int64_t start_ns = clock_ns(), end_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns = start_ns;
    uint64_t count = 0;
    for (; now_ns < end_ns; now_ns = clock_ns())
        for (int i = 0; i < WINDOW; i++, count++) {
            finish(mr, refs[i]);
            must(mr_call_actor(mr, actor, "nothing", &refs[i]));
        }
    values[0] = (double)count * 1e3 / (double)(now_ns - start_ns);
    for (int i = 0; i < WINDOW; i++) finish(mr, refs[i]);
    mr_shutdown(mr);
}

void events_bench(bench *b) {
    bench_measure(b, &(bench_pair){.ours = calls, .reference = looks_at_clock},
                  &(bench_row){.name = "trace of a short call", .unit = "ns", .reference = "one look at the clock"}, 1);
    bench_measure(
        b, &(bench_pair){.ours = round_trips, .argument = "2048", .reference = round_trips, .reference_argument = "0"},
        &(bench_row){
            .name = "actor call, seen, p50", .unit = "us", .reference = "unseen", .bar = {BENCH_RATIO_AT_MOST, 1.02}},
        1);
    bench_measure(
        b, &(bench_pair){.ours = pipelined, .argument = "2048", .reference = pipelined, .reference_argument = "0"},
        &(bench_row){.name = "actor calls, seen, pipelined",
                     .unit = "M/s",
                     .reference = "unseen",
                     .bar = {BENCH_RATIO_AT_LEAST, 0.98}},
        1);
}
