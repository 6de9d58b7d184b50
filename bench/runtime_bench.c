/* runtime_bench.c — tasks, actor calls and objects from a C driver, compared with the bare ring in the same run. The
 * benchmark is the driver: its workers are this same binary, started again. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/bare_ring.h"
#include "bench/suites.h"
#include "miniray/runtime.h"

enum { SAMPLES_MAX = 1 << 18, WINDOW = 512, BATCH = 16, BYTES = 10 * 1024 };

MR_TASK(bench_nothing) { return MR_OK; }
MR_CREATE(BenchEcho) { return MR_OK; }
MR_METHOD(BenchEcho, nothing) { return MR_OK; }

void runtime_bench_serve(void) {
    mr_context *mr;
    if (getenv("MINIRAY_BOOT") == NULL) return;
    if (mr_init(NULL, &mr) != MR_OK) exit(1); /* in a worker mr_init serves until the node ends */
}

static mr_context *start(int workers) {
    mr_context *mr;
    if (mr_init(&MR_OPTIONS(mr_options, .num_workers = workers, .store_bytes = 128 << 20), &mr) != MR_OK)
        bench_fail("mr_init: %s", mr_last_error());
    return mr;
}

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s: %s", mr_status_name(status), mr_last_error());
}

typedef struct subject { /* ---- Bodies. */
    mr_context *mr;
    bool is_actor;
    mr_actor actor;
    const void *argument;
    size_t bytes;
} subject;

typedef struct load { /* ---- Measurements. */
    bool is_actor;
    int workers;
    size_t bytes; /* bytes of a call's argument; 0: no argument */
} load;

static void submit(subject *subject, mr_ref *ref) {
    if (subject->bytes > 0)
        must(mr_call_actor(subject->mr, subject->actor, "nothing", ref, mr_bytes(subject->argument, subject->bytes)));
    else if (subject->is_actor)
        must(mr_call_actor(subject->mr, subject->actor, "nothing", ref));
    else
        must(mr_call_task(subject->mr, "bench_nothing", ref));
}

static void finish(subject *subject, mr_ref ref) {
    mr_value value;
    must(mr_get(subject->mr, ref, 20 * 1000 * 1000, &value));
    mr_value_release(&value);
    mr_release(subject->mr, ref);
}

static void subject_open(subject *subject, const load *load) {
    static const uint8_t argument[BYTES];
    *subject = (struct subject){
        .mr = start(load->workers), .is_actor = load->is_actor, .argument = argument, .bytes = load->bytes};
    if (load->is_actor) must(mr_new_actor(subject->mr, "BenchEcho", &subject->actor));
    for (int i = 0; i < 2000; i++) { /* warm-up */
        mr_ref ref;
        submit(subject, &ref);
        finish(subject, ref);
    }
}

/* Measures batches of sixteen, as for the bare ring, so that the cost of the clock is negligible. */
static void one_by_one(const bench_run *run, const void *argument, double *values) {
    subject subject;
    subject_open(&subject, argument);
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    int64_t now = clock_ns(), end = now + (int64_t)(run->seconds * 1e9);
    while (now < end) {
        int64_t before = now;
        for (int i = 0; i < BATCH; i++) {
            mr_ref ref;
            submit(&subject, &ref);
            finish(&subject, ref);
        }
        now = clock_ns();
        bench_samples_add(&samples, (double)(now - before) / (1e3 * BATCH));
    }
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    mr_shutdown(subject.mr);
    bench_samples_fini(&samples);
}

static void pipelined(const bench_run *run, const void *argument, double *values) {
    subject subject;
    subject_open(&subject, argument);
    mr_ref refs[WINDOW];
    for (int i = 0; i < WINDOW; i++) submit(&subject, &refs[i]);
    int64_t start_ns = clock_ns(), end = start_ns + (int64_t)(run->seconds * 1e9);
    uint64_t count = 0;
    while (clock_ns() < end)
        for (int i = 0; i < WINDOW; i++, count++) {
            finish(&subject, refs[i]);
            submit(&subject, &refs[i]);
        }
    values[0] = (double)count * 1e3 / (double)(clock_ns() - start_ns);
    for (int i = 0; i < WINDOW; i++) finish(&subject, refs[i]);
    mr_shutdown(subject.mr);
}

/* Four drivers, each with a node and a worker: total rate of all. */
static void programs_at_once(const bench_run *run, const void *argument, double *values) {
    enum { PROGRAMS = 4 };
    int fds[2];
    if (pipe(fds) != 0) bench_fail("no pipe");
    for (int i = 0; i < PROGRAMS; i++) {
        pid_t pid = fork();
        if (pid < 0) bench_fail("no process");
        if (pid > 0) continue;
        double rate = 0;
        pipelined(run, argument, &rate);
        _exit(write(fds[1], &rate, sizeof rate) == sizeof rate ? 0 : 1);
    }
    values[0] = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        double rate;
        if (read(fds[0], &rate, sizeof rate) != sizeof rate) bench_fail("a program ended early");
        values[0] += rate;
    }
    while (wait(NULL) > 0) {}
}

static double resident_bytes(void) {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) bench_fail("/proc/self/statm cannot be read");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* Submits all calls at once and waits for one after the other; also measures the memory of each waiting call. */
static void queued(const bench_run *run, const void *argument, double *values) {
    const int count = run->quick ? 100 * 1000 : 1000 * 1000;
    mr_context *mr = start(2);
    subject subject = {.mr = mr};
    mr_ref *refs = calloc((size_t)count, sizeof *refs);
    if (refs == NULL) bench_fail("no memory");
    for (int i = 0; i < count; i++) refs[i].word[0] = 1; /* touches the pages, which are then not counted */
    int64_t before_ns = clock_ns();
    for (int i = 0; i < count; i++) submit(&subject, &refs[i]);
    for (int i = 0; i < count; i++) finish(&subject, refs[i]);
    values[0] = (double)(clock_ns() - before_ns) / 1e9 * (1000.0 * 1000.0 / count);
    mr_shutdown(mr);
    subject.mr = mr = start(1);
    mr_task_options never = MR_OPTIONS(mr_task_options, .resources = "moon=1");
    double before = resident_bytes();
    for (int i = 0; i < count; i++) must(mr_task_submit(mr, "bench_nothing", &never, NULL, 0, &refs[i]));
    values[1] = (resident_bytes() - before) / count;
    mr_shutdown(mr);
    free(refs);
}

static void wait_many(const bench_run *run, const void *argument, double *values) {
    enum { REFS = 1000 };
    mr_context *mr = start(1);
    mr_ref refs[REFS];
    unsigned char ready[REFS];
    size_t count;
    for (int i = 0; i < REFS; i++) must(mr_put(mr, mr_int(i), &refs[i]));
    int64_t start_ns = clock_ns(), end = start_ns + (int64_t)(run->seconds * 1e9);
    uint64_t rounds = 0;
    for (; clock_ns() < end; rounds++) must(mr_wait(mr, refs, REFS, REFS, 0, ready, &count));
    values[0] = (double)rounds * 1e6 / (double)(clock_ns() - start_ns);
    mr_shutdown(mr);
}

static void put_get(const bench_run *run, const void *argument, double *values) {
    mr_context *mr = start(1);
    int64_t start_ns = clock_ns(), end = start_ns + (int64_t)(run->seconds * 1e9);
    uint64_t count = 0;
    while (clock_ns() < end)
        for (int i = 0; i < 256; i++, count++) {
            mr_ref ref;
            mr_value value;
            must(mr_put(mr, mr_int(i), &ref));
            must(mr_get(mr, ref, 0, &value));
            mr_value_release(&value);
            mr_release(mr, ref);
        }
    values[0] = (double)count * 1e3 / (double)(clock_ns() - start_ns);
    mr_shutdown(mr);
}

static void first_result(const bench_run *run, const void *argument, double *values) {
    int64_t before = clock_ns();
    subject subject = {.mr = start(2)};
    mr_ref ref;
    submit(&subject, &ref);
    finish(&subject, ref);
    values[0] = (double)(clock_ns() - before) / 1e6;
    before = clock_ns();
    mr_shutdown(subject.mr);
    values[1] = (double)(clock_ns() - before) / 1e6;
}

void runtime_bench(bench *b) {
    static const load task = {false, 1}, actor = {true, 1}, tasks_of_8 = {false, 8};
    bench_measure(b, &(bench_pair){.ours = one_by_one, .argument = &actor, .reference = bare_round_trip_fn},
                  (bench_row[]){{.name = "actor call, p50",
                                 .unit = "us",
                                 .reference = "bare ring, there and back",
                                 .bar = {BENCH_RATIO_AT_MOST, 1.5}},
                                {.name = "actor call, p99",
                                 .unit = "us",
                                 .value = 1,
                                 .reference = "bare ring, there and back",
                                 .ref_value = 1}},
                  2);
    bench_measure(
        b, &(bench_pair){.ours = one_by_one, .argument = &task, .reference = bare_round_trip_fn},
        (bench_row[]){
            {.name = "task, p50", .unit = "us", .reference = "bare ring, there and back"},
            {.name = "task, p99", .unit = "us", .value = 1, .reference = "bare ring, there and back", .ref_value = 1}},
        2);
    static const load with_bytes = {true, 1, BYTES};
    static const size_t bytes = BYTES;
    bench_measure(
        b,
        &(bench_pair){
            .ours = one_by_one, .argument = &with_bytes, .reference = bare_bytes_fn, .reference_argument = &bytes},
        (bench_row[]){
            {.name = "actor call with 10 KB, p50", .unit = "us", .reference = "bare ring, 10 KB copied in and out"},
            {.name = "actor call with 10 KB, p99",
             .unit = "us",
             .value = 1,
             .reference = "bare ring, 10 KB copied in and out",
             .ref_value = 1}},
        2);
    static const char limit[] = "bare ring, messages one way";
    bench_measure(
        b, &(bench_pair){.ours = pipelined, .argument = &actor, .reference = bare_rate_fn},
        &(bench_row){
            .name = "actor calls, pipelined", .unit = "M/s", .reference = limit, .bar = {BENCH_VALUE_AT_LEAST, 5}},
        1);
    bench_measure(
        b, &(bench_pair){.ours = pipelined, .argument = &task, .reference = bare_rate_fn},
        &(bench_row){.name = "tasks, pipelined", .unit = "M/s", .reference = limit, .bar = {BENCH_VALUE_AT_LEAST, 2}},
        1);
    bench_measure(
        b,
        &(bench_pair){.ours = pipelined, .argument = &tasks_of_8, .reference = pipelined, .reference_argument = &task},
        &(bench_row){.name = "tasks, pipelined, 8 workers",
                     .unit = "M/s",
                     .reference = "one worker",
                     .bar = {BENCH_RATIO_AT_LEAST, 0.5}},
        1);
    bench_measure(b, &(bench_pair){.ours = programs_at_once, .argument = &task, .reference = bare_rate_fn},
                  &(bench_row){.name = "tasks, pipelined, 4 programs", .unit = "M/s", .reference = limit}, 1);
    bench_measure(b, &(bench_pair){.ours = queued},
                  (bench_row[]){{.name = "1M queued tasks", .unit = "s", .bar = {BENCH_VALUE_AT_MOST, 3}},
                                {.name = "a queued task", .unit = "B", .value = 1, .bar = {BENCH_VALUE_AT_MOST, 600}}},
                  2);
    bench_measure(b, &(bench_pair){.ours = wait_many},
                  &(bench_row){.name = "wait on 1k refs", .unit = "k/s", .bar = {BENCH_VALUE_AT_LEAST, 100}}, 1);
    bench_measure(b, &(bench_pair){.ours = put_get},
                  &(bench_row){.name = "small put and get", .unit = "M/s", .bar = {BENCH_VALUE_AT_LEAST, 5}}, 1);
    bench_measure(b, &(bench_pair){.ours = first_result},
                  (bench_row[]){{.name = "mr_init to first result", .unit = "ms", .bar = {BENCH_VALUE_AT_MOST, 15}},
                                {.name = "mr_shutdown", .unit = "ms", .value = 1}},
                  2);
}
