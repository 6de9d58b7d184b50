/* ps_bench.c — the parameter server as processes, one worker and one server, beside raw sockets of the same run.
 *
 * The measuring process is the worker; scheduler and server are children of it. The table is ASP, so that a push is
 * acknowledged when the server has added it. Large arrays lie in slots of BLOCK floats. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "miniray/ps.h"

#define PATIENCE_US INT64_C(20000000)
enum {
    SMALL = 4,
    SMALL_SLOTS = 256,
    PIPELINE = 8 * SMALL_SLOTS,
    SAMPLES_MAX = 1 << 18,
    ROUNDS_MIN = 3,
    BLOCK = 64 * 1024
};

typedef struct work { /* one row's argument */
    limit_wire wire;
    size_t bytes; /* of the array; 0: a few floats */
} work;

typedef struct world {
    uint32_t slots;
    int ready_fd;
    char folder[BENCH_FOLDER_MAX], address[MR_PS_ADDRESS_MAX];
    pid_t scheduler, server;
    mr_ps *ps;
} world;

static void must(mr_status status, const char *what) {
    if (status != MR_OK) bench_fail("%s: %s", what, mr_last_error());
}

/* ---- The others. */

static void on_listening(void *context, const char *address) {
    const world *world = context;
    char text[MR_PS_ADDRESS_MAX] = {0};
    snprintf(text, sizeof text, "%s", address);
    bench_ready(world->ready_fd, text, sizeof text);
}

static void be_scheduler(void *argument, int ready_fd) {
    world *world = argument;
    world->ready_fd = ready_fd;
    mr_ps_scheduler_options options = {.listen = world->address,
                                       .folder = world->folder,
                                       .workers = 1,
                                       .servers = 1,
                                       .slots = world->slots,
                                       .on_listening = on_listening,
                                       .context = world};
    must(mr_ps_run_scheduler(&options), "the scheduler");
}

static void be_server(void *argument, int ready_fd) {
    world *world = argument;
    world->ready_fd = ready_fd;
    bench_pin(BENCH_TWO_CPUS, 1);
    mr_ps_server_options options = {.scheduler = world->address, .on_listening = on_listening, .context = world};
    must(mr_ps_run_server(&options), "the server");
}

static void start(world *world, limit_wire wire, uint32_t slots) {
    char said[MR_PS_ADDRESS_MAX];
    uint64_t step;
    *world = (struct world){.slots = slots, .address = "tcp:127.0.0.1:0"};
    bench_folder(world->folder);
    if (wire == LIMIT_UNIX && snprintf(world->address, sizeof world->address, "unix:%s/s", world->folder) > 48)
        bench_fail("$TMPDIR is too long for the path of a socket");
    world->scheduler = bench_server(be_scheduler, world, world->address, sizeof world->address);
    world->server = bench_server(be_server, world, said, sizeof said);
    must(mr_ps_connect(world->address, 0, PATIENCE_US, &world->ps), "connecting");
    must(mr_ps_begin(world->ps, PATIENCE_US, &step), "a step");
    bench_pin(BENCH_TWO_CPUS, 0);
}

static void stop(world *world) {
    mr_ps_close(world->ps);
    kill(world->server, SIGTERM);
    bench_join(world->server);
    kill(world->scheduler, SIGTERM);
    bench_join(world->scheduler);
    DIR *folder = opendir(world->folder);
    for (struct dirent *item; folder != NULL && (item = readdir(folder)) != NULL;)
        if (item->d_name[0] != '.') unlinkat(dirfd(folder), item->d_name, 0);
    if (folder != NULL) closedir(folder);
    rmdir(world->folder);
}

/* ---- Small ones. */

static void push_then_pull(const bench_run *run, const void *argument, double *values) {
    const work *work = argument;
    world world;
    float some[SMALL] = {1, 2, 3, 4};
    bench_samples samples;
    start(&world, work->wire, 1);
    bench_samples_init(&samples, SAMPLES_MAX);
    int64_t warm_ns = clock_ns() + (int64_t)(run->seconds * 2e8), until_ns = warm_ns + (int64_t)(run->seconds * 1e9);
    for (int64_t now_ns = clock_ns(); now_ns < until_ns;) {
        must(mr_ps_push(world.ps, 0, some, SMALL, NULL), "a push");
        must(mr_ps_pull(world.ps, 0, some, SMALL, NULL), "a pull");
        int64_t end_ns = clock_ns();
        if (now_ns >= warm_ns) bench_samples_add(&samples, (double)(end_ns - now_ns) / 1e3);
        now_ns = end_ns;
        some[0] = 1e-3f; /* so that it stays a number */
    }
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    bench_samples_fini(&samples);
    stop(&world);
}

/* All slots in turn, several times; none is waited for before all were pushed. */
static void push_many(const bench_run *run, const void *argument, double *values) {
    const work *work = argument;
    world world;
    const float some[SMALL] = {1, 2, 3, 4};
    mr_ps_ticket tickets[PIPELINE];
    uint64_t count = 0;
    start(&world, work->wire, SMALL_SLOTS);
    int64_t start_ns = clock_ns(), until_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns;
    do {
        for (uint32_t i = 0; i < PIPELINE; i++)
            must(mr_ps_push(world.ps, i % SMALL_SLOTS, some, SMALL, &tickets[i]), "a push");
        for (uint32_t i = 0; i < PIPELINE; i++) must(mr_ps_wait(world.ps, tickets[i], PATIENCE_US), "a push");
        count += PIPELINE;
    } while ((now_ns = clock_ns()) < until_ns);
    values[0] = (double)count / (double)(now_ns - start_ns) * 1e3;
    stop(&world);
}

/* ---- Large ones. */

typedef mr_status request_fn(world *world, uint32_t slot, float *values, size_t count, mr_ps_ticket *ticket);

static mr_status push(world *world, uint32_t slot, float *values, size_t count, mr_ps_ticket *ticket) {
    return mr_ps_push(world->ps, slot, values, count, ticket);
}
static mr_status pull(world *world, uint32_t slot, float *values, size_t count, mr_ps_ticket *ticket) {
    return mr_ps_pull(world->ps, slot, values, count, ticket);
}

static void all_slots(world *world, request_fn *request, float *memory, size_t count, mr_ps_ticket *tickets) {
    for (uint32_t i = 0; i < world->slots; i++) {
        size_t at = (size_t)i * BLOCK, left = count - at;
        must(request(world, i, memory + at, left < BLOCK ? left : BLOCK, &tickets[i]), "a request");
    }
    for (uint32_t i = 0; i < world->slots; i++) must(mr_ps_wait(world->ps, tickets[i], PATIENCE_US), "a request");
}

static void measure_dense(const bench_run *run, const work *work, request_fn *request, double *values) {
    world world;
    size_t count = work->bytes / sizeof(float), rounds = 0;
    uint32_t slots = (uint32_t)((count + BLOCK - 1) / BLOCK);
    float *memory = bench_memory(work->bytes);
    mr_ps_ticket *tickets = bench_memory(slots * sizeof *tickets);
    start(&world, work->wire, slots);
    all_slots(&world, push, memory, count, tickets); /* the server has its memory by then */
    int64_t start_ns = clock_ns(), until_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns;
    do {
        all_slots(&world, request, memory, count, tickets);
        rounds++;
        now_ns = clock_ns();
    } while (now_ns < until_ns || rounds < ROUNDS_MIN);
    values[0] = (double)work->bytes * (double)rounds / (double)(now_ns - start_ns);
    stop(&world);
}

static void push_dense(const bench_run *run, const void *argument, double *values) {
    measure_dense(run, argument, push, values);
}
static void pull_dense(const bench_run *run, const void *argument, double *values) {
    measure_dense(run, argument, pull, values);
}

/* ---- Rows. */

static void small_rows(bench *b) {
    static const work tcp = {.wire = LIMIT_TCP}, local = {.wire = LIMIT_UNIX};
    static const limit_trip tcp_trip = {LIMIT_TCP, BENCH_TWO_CPUS}, local_trip = {LIMIT_UNIX, BENCH_TWO_CPUS};
    bench_measure(b, &(bench_pair){push_then_pull, &tcp, limit_round_trip_fn, &tcp_trip},
                  (const bench_row[]){{.name = "push then pull of 4 floats, tcp, p50",
                                       .unit = "us",
                                       .reference = "raw tcp round trip",
                                       .bar = {BENCH_VALUE_AT_MOST, 25}},
                                      {.name = "push then pull of 4 floats, tcp, p99",
                                       .unit = "us",
                                       .value = 1,
                                       .reference = "raw tcp round trip",
                                       .ref_value = 1}},
                  2);
    bench_measure(
        b, &(bench_pair){push_then_pull, &local, limit_round_trip_fn, &local_trip},
        &(bench_row){.name = "push then pull of 4 floats, unix, p50", .unit = "us", .reference = "raw unix round trip"},
        1);
    bench_measure(b, &(bench_pair){.ours = push_many, .argument = &tcp},
                  &(bench_row){.name = "pushes of 4 floats, pipelined, tcp",
                               .unit = "M/s",
                               .reference = "ps-lite",
                               .known_reference = 0.147,
                               .bar = {BENCH_VALUE_AT_LEAST, 5}},
                  1);
}

static void dense_rows(bench *b, size_t megabytes, double bar) {
    work work = {LIMIT_TCP, megabytes << 20};
    limit_flow flow = {LIMIT_TCP, megabytes << 20, BENCH_TWO_CPUS};
    char pushes[64], pulls[64];
    snprintf(pushes, sizeof pushes, "dense push, %zu MB, tcp", megabytes);
    snprintf(pulls, sizeof pulls, "dense pull, %zu MB, tcp", megabytes);
    bench_measure(
        b, &(bench_pair){push_dense, &work, limit_stream_fn, &flow},
        &(bench_row){.name = pushes, .unit = "GB/s", .reference = "raw tcp", .bar = {BENCH_VALUE_AT_LEAST, bar}}, 1);
    bench_measure(
        b, &(bench_pair){pull_dense, &work, limit_stream_fn, &flow},
        &(bench_row){.name = pulls, .unit = "GB/s", .reference = "raw tcp", .bar = {BENCH_VALUE_AT_LEAST, bar}}, 1);
}

void ps_bench(bench *b) {
    small_rows(b);
    dense_rows(b, 1, 5.5);
    dense_rows(b, 16, 3.8);
    dense_rows(b, 100, 3.8);
}
