/* event_ring_bench.c — cost of recording an event for every call (runtime/common/event_ring.h): the recording alone,
 * and calls with it compared with calls without it (option events_kept), in the same binary. */
#include <stdlib.h>

#include "base/clock.h"
#include "bench/suites.h"
#include "miniray/runtime.h"
#include "runtime/common/event_ring.h"

enum { BATCH = 1024, RECORDS = 2048, WINDOW = 512 };

static void calls(const bench_run *run, const void *argument, double *values) {
    event_ring ring;
    size_t bytes = event_ring_bytes(RECORDS);
    event_ring_open(&ring, bench_memory(bytes), bytes, clock_real(), &(event_ring_identity){.process = 1});
    event_ring_call call = {.kind = EVENT_METHOD, .name = "nothing", .name_size = 7, .process = 1, .key = 1};
    int64_t start_ns = clock_ns(), end_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns = start_ns;
    uint64_t count = 0;
    for (; now_ns < end_ns; now_ns = clock_ns())
        for (int i = 0; i < BATCH; i++) {
            call.call = count++;
            uint64_t entered =
                event_ring_repeat(&ring, call.key) ? event_ring_again(&ring) : event_ring_enter(&ring, &call);
            event_ring_leave(&ring, entered, MR_OK);
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

/* ---- Whole calls, with and without events: two drivers in this process take turns of a few milliseconds. Noise of the
 * machine affects both, so the median of their ratios is more precise than the ratio of their medians. */

enum { TURNS_MAX = 512 };

typedef struct program {
    mr_context *mr;
    mr_actor actor;
    mr_ref refs[WINDOW];
} program;

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s: %s", mr_status_name(status), mr_last_error());
}

static void program_open(program *program, const char *kept) {
    setenv("MINIRAY_EVENTS_KEPT", kept, 1);
    must(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 64 << 20), &program->mr));
    unsetenv("MINIRAY_EVENTS_KEPT");
    must(mr_new_actor(program->mr, "BenchEcho", &program->actor));
}

static void call(program *program, mr_ref *ref) { must(mr_call_actor(program->mr, program->actor, "nothing", ref)); }

static void finish(program *program, mr_ref ref) {
    mr_value value;
    must(mr_get(program->mr, ref, 20 * 1000 * 1000, &value));
    mr_value_release(&value);
    mr_release(program->mr, ref);
}

static void one_by_one(program *program, int count) {
    for (int i = 0; i < count; i++) {
        mr_ref ref;
        call(program, &ref);
        finish(program, ref);
    }
}

static void pipelined(program *program, int count) {
    for (int i = 0; i < WINDOW; i++) call(program, &program->refs[i]);
    for (int i = 0; i < count; i++) {
        finish(program, program->refs[i % WINDOW]);
        call(program, &program->refs[i % WINDOW]);
    }
    for (int i = 0; i < WINDOW; i++) finish(program, program->refs[(count + i) % WINDOW]);
}

typedef struct load {
    void (*run)(program *program, int count);
    int warm, count; /* duration of one turn */
} load;

/* Nanoseconds per call. The worker of this driver slept during the turn of the other driver: the first calls wake it
 * and are not counted. */
static double turn(program *program, const load *load) {
    load->run(program, load->warm);
    int64_t before_ns = clock_ns();
    load->run(program, load->count);
    return (double)(clock_ns() - before_ns) / load->count;
}

/* The median of the ratios of one pair of drivers. A pair keeps its accidental properties (CPU, cache lines): their
 * effect is several times the measured difference, and only measurements of other pairs average it out. */
static double ratio_of_pair(const load *load, bool seen_first, double seconds) {
    program *seen = bench_memory(sizeof *seen), *unseen = bench_memory(sizeof *unseen);
    if (seen_first) program_open(seen, "2048");
    program_open(unseen, "0");
    if (!seen_first) program_open(seen, "2048");
    bench_samples ratios;
    bench_samples_init(&ratios, TURNS_MAX);
    int64_t end_ns = clock_ns() + (int64_t)(seconds * 1e9);
    for (int i = 0; clock_ns() < end_ns; i++) { /* the order alternates */
        double first = turn(i % 2 == 0 ? seen : unseen, load), second = turn(i % 2 == 0 ? unseen : seen, load);
        bench_samples_add(&ratios, i % 2 == 0 ? first / second : second / first);
    }
    double ratio = bench_samples_percentile(&ratios, 50);
    bench_samples_fini(&ratios);
    mr_shutdown(unseen->mr);
    mr_shutdown(seen->mr);
    return ratio;
}

static void taking_turns(const bench_run *run, const void *argument, double *values) {
    enum { PAIRS = 4 };
    values[0] = 0;
    for (int i = 0; i < PAIRS; i++) values[0] += ratio_of_pair(argument, i % 2 == 0, run->seconds) / PAIRS;
}

void events_bench(bench *b) {
    static const load sync = {one_by_one, 500, 2000}, async = {pipelined, 1000, 10000};
    bench_measure(b, &(bench_pair){.ours = calls, .reference = looks_at_clock},
                  &(bench_row){.name = "trace of a short call", .unit = "ns", .reference = "one look at the clock"}, 1);
    bench_measure(b, &(bench_pair){.ours = taking_turns, .argument = &sync},
                  &(bench_row){.name = "actor call, seen / unseen", .unit = "x", .bar = {BENCH_VALUE_AT_MOST, 1.02}},
                  1);
    bench_measure(b, &(bench_pair){.ours = taking_turns, .argument = &async},
                  &(bench_row){.name = "pipelined, seen / unseen", .unit = "x", .bar = {BENCH_VALUE_AT_MOST, 1.02}}, 1);
}
