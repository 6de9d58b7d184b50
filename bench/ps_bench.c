/* ps_bench.c — the parameter server as processes, one worker and one server, compared with raw sockets and a bare ring
 * in the same run.
 *
 * The measuring process is the worker; scheduler and server are its children. Tables are ASP with the optimizer that
 * adds, so the server acknowledges a push after adding it. Every table is spread over PS_BENCH_CLUSTER_SLOTS slots. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/bare_ring.h"
#include "bench/ps_bench_cluster.h"
#include "bench/suites.h"

enum { SMALL = 4, SMALL_KEYS = 256, PIPELINE = 4096, SAMPLES_MAX = 1 << 18, ROUNDS_MIN = 3 };
enum { PAUSE_US = 100 };
enum { DIM = 16, LIST = 10000, LISTS_QUICK = 20, DENSE_BLOCK_ITEMS = 64 * 1024, STEP_MAX = 10000 };

typedef struct work { /* one row's argument */
    limit_wire wire;
    size_t bytes;     /* bytes of the array; 0: a few floats */
    uint64_t lists;   /* number of lists of LIST keys each: together all rows */
    uint32_t servers; /* number of servers; 0: one */
    bool waits;       /* waits for the push before it pulls */
    bool pauses;      /* pause before each pair, so that the server sleeps */
    bool exported;    /* values lie in memory shared with the server */
} work;

/* This process is the worker: it opens a table in a deployment of its own. */
static void start(ps_bench_cluster *cluster, const work *work, const mr_ps_table_options *options) {
    ps_bench_cluster_start(cluster, &(ps_bench_cluster_options){.wire = work->wire, .servers = work->servers}, options);
}

/* ---- Small requests. */

static const mr_ps_table_options small_table = {.size = sizeof(mr_ps_table_options), .dim = SMALL};

/* Computes for `us` microseconds, with a side effect so that the compiler keeps the loop. */
static void pass_time(int64_t us) {
    for (int64_t until_ns = clock_ns() + us * 1000; clock_ns() < until_ns;) continue;
}

static void one_pair(ps_bench_cluster *cluster, const work *work, float *some) {
    const uint64_t key = 7;
    mr_ps_ticket ticket;
    ps_bench_cluster_must(mr_ps_push(cluster->table, &key, 1, some, NULL, NULL, work->waits ? NULL : &ticket),
                          "a push");
    ps_bench_cluster_must(mr_ps_pull(cluster->table, &key, 1, some, NULL, NULL, NULL), "a pull");
    if (!work->waits) ps_bench_cluster_must(mr_ps_wait(cluster->ps, ticket, PS_BENCH_CLUSTER_PATIENCE_US), "a push");
}

static void push_then_pull(const bench_run *run, const void *argument, double *values) {
    const work *work = argument;
    ps_bench_cluster cluster;
    size_t count = 0;
    float some[SMALL] = {1, 2, 3, 4};
    bench_samples samples;
    start(&cluster, work, &small_table);
    bench_samples_init(&samples, SAMPLES_MAX);
    int64_t warm_ns = clock_ns() + (int64_t)(run->seconds * 2e8), until_ns = warm_ns + (int64_t)(run->seconds * 1e9);
    for (int64_t now_ns = clock_ns(); now_ns < until_ns;) {
        if (work->pauses) pass_time(PAUSE_US);
        now_ns = clock_ns();
        one_pair(&cluster, work, some);
        int64_t end_ns = clock_ns();
        if (now_ns >= warm_ns) bench_samples_add(&samples, (double)(end_ns - now_ns) / 1e3);
        now_ns = end_ns;
        some[0] = 1e-3f; /* keeps the value finite */
        if (++count % STEP_MAX == 0) ps_bench_cluster_next_step(&cluster);
    }
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    bench_samples_fini(&samples);
    ps_bench_cluster_stop(&cluster);
}

/* Pushes all keys in turn, several times; waits only after all were pushed. */
static void push_many(const bench_run *run, const void *argument, double *values) {
    const work *work = argument;
    ps_bench_cluster cluster;
    const float some[SMALL] = {1, 2, 3, 4};
    mr_ps_ticket tickets[PIPELINE];
    uint64_t count = 0;
    start(&cluster, work, &small_table);
    int64_t start_ns = clock_ns(), until_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns;
    do {
        for (uint64_t i = 0; i < PIPELINE; i++) {
            const uint64_t key = i % SMALL_KEYS;
            ps_bench_cluster_must(mr_ps_push(cluster.table, &key, 1, some, NULL, NULL, &tickets[i]), "a push");
        }
        for (uint32_t i = 0; i < PIPELINE; i++)
            ps_bench_cluster_must(mr_ps_wait(cluster.ps, tickets[i], PS_BENCH_CLUSTER_PATIENCE_US), "a push");
        count += PIPELINE;
    } while ((now_ns = clock_ns()) < until_ns);
    values[0] = (double)count / (double)(now_ns - start_ns) * 1e3;
    ps_bench_cluster_stop(&cluster);
}

/* ---- Lists of keys. */

typedef struct lists { /* lists of LIST keys each, drawn from all rows */
    uint64_t *keys, count;
    float *values;
} lists;

/* Every list has one of each `count` neighbours, so all lists together are all rows. */
static lists make_lists(uint64_t count) {
    lists lists = {bench_memory(count * LIST * sizeof(uint64_t)), count, bench_memory(LIST * DIM * sizeof(float))};
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < LIST; k++) lists.keys[i * LIST + k] = k * count + (i * 37 + k * 61) % count;
    for (size_t i = 0; i < (size_t)LIST * DIM; i++) lists.values[i] = 1e-3f;
    return lists;
}

static mr_status push_list(const ps_bench_cluster *cluster, const lists *lists, uint64_t i, mr_ps_ticket *ticket) {
    return mr_ps_push(cluster->table, lists->keys + i % lists->count * LIST, LIST, lists->values, NULL, NULL, ticket);
}
static mr_status pull_list(const ps_bench_cluster *cluster, const lists *lists, uint64_t i, mr_ps_ticket *ticket) {
    return mr_ps_pull(cluster->table, lists->keys + i % lists->count * LIST, LIST, lists->values, NULL, NULL, ticket);
}

typedef mr_status list_fn(const ps_bench_cluster *cluster, const lists *lists, uint64_t i, mr_ps_ticket *ticket);

/* Two requests are in flight at a time. */
static uint64_t run_lists(const ps_bench_cluster *cluster, const lists *lists, list_fn *request, uint64_t least,
                          int64_t until_ns) {
    mr_ps_ticket tickets[2];
    uint64_t count = 0;
    for (; count < least || clock_ns() < until_ns; count++) {
        if (count >= 2)
            ps_bench_cluster_must(mr_ps_wait(cluster->ps, tickets[count % 2], PS_BENCH_CLUSTER_PATIENCE_US), "a list");
        ps_bench_cluster_must(request(cluster, lists, count, &tickets[count % 2]), "a list");
    }
    ps_bench_cluster_must(mr_ps_flush(cluster->ps, PS_BENCH_CLUSTER_PATIENCE_US), "all lists");
    for (int i = 0; i < 2; i++)
        ps_bench_cluster_must(mr_ps_wait(cluster->ps, tickets[i], PS_BENCH_CLUSTER_PATIENCE_US), "a list");
    return count;
}

/* M keys per second. */
static double rate_of_lists(const bench_run *run, const ps_bench_cluster *cluster, const lists *lists,
                            list_fn *request) {
    int64_t start_ns = clock_ns();
    uint64_t count = run_lists(cluster, lists, request, ROUNDS_MIN, start_ns + (int64_t)(run->seconds * 1e9));
    return (double)(count * LIST) / (double)(clock_ns() - start_ns) * 1e3;
}

static void pull_and_push_lists(const bench_run *run, const void *argument, double *values) {
    const work *work = argument;
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = DIM);
    ps_bench_cluster cluster;
    lists lists = make_lists(run->quick ? LISTS_QUICK : work->lists);
    start(&cluster, work, &options);
    (void)run_lists(&cluster, &lists, push_list, lists.count, 0); /* creates all rows first */
    values[0] = rate_of_lists(run, &cluster, &lists, pull_list);
    values[1] = rate_of_lists(run, &cluster, &lists, push_list);
    ps_bench_cluster_stop(&cluster);
}

/* ---- Large requests. */

typedef mr_status request_fn(ps_bench_cluster *cluster, float *values, size_t count);

static mr_status push(ps_bench_cluster *cluster, float *values, size_t count) {
    return mr_ps_push_array(cluster->table, 0, values, 0, count, NULL, NULL);
}
static mr_status pull(ps_bench_cluster *cluster, float *values, size_t count) {
    return mr_ps_pull_array(cluster->table, 0, values, 0, count, NULL, NULL);
}

static void measure_dense(const bench_run *run, const work *work, request_fn *request, double *values) {
    ps_bench_cluster cluster;
    size_t count = work->bytes / sizeof(float), rounds = 0;
    float *memory = work->exported ? NULL : bench_memory(work->bytes);
    const mr_ps_array array = {.name = "all", .dims = 1, .shape = {(int64_t)count}};
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                                   .array_count = 1, .block = DENSE_BLOCK_ITEMS);
    start(&cluster, work, &options);
    if (work->exported) {
        void *exported;
        ps_bench_cluster_must(mr_ps_buffer_alloc(cluster.ps, work->bytes, &exported), "memory");
        memory = memset(exported, 0, work->bytes);
    }
    ps_bench_cluster_must(push(&cluster, memory, count), "a push"); /* the server has allocated its memory by then */
    ps_bench_cluster_must(pull(&cluster, memory, count), "a pull"); /* and this process has mapped it */
    int64_t start_ns = clock_ns(), until_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns;
    do {
        ps_bench_cluster_must(request(&cluster, memory, count), "a request");
        rounds++;
        now_ns = clock_ns();
    } while (now_ns < until_ns || rounds < ROUNDS_MIN);
    values[0] = (double)work->bytes * (double)rounds / (double)(now_ns - start_ns);
    ps_bench_cluster_stop(&cluster);
}

static void push_dense(const bench_run *run, const void *argument, double *values) {
    measure_dense(run, argument, push, values);
}
static void pull_dense(const bench_run *run, const void *argument, double *values) {
    measure_dense(run, argument, pull, values);
}

/* ---- Rounds: cost per step of norms across slots. */

typedef struct norms_work {
    const char *optimizer;
    float clip_norm;
} norms_work;

static void steps_of_bsp(const bench_run *run, const void *argument, double *values) {
    const norms_work *work = argument;
    ps_bench_cluster cluster;
    size_t count = (1 << 20) / sizeof(float), steps = 0;
    float *memory = bench_memory(1 << 20);
    const mr_ps_array array = {.name = "all", .dims = 1, .shape = {(int64_t)count}};
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                                   .array_count = 1, .block = (uint32_t)count / PS_BENCH_CLUSTER_SLOTS,
                                                   .optimizer = work->optimizer, .clip_norm = work->clip_norm);
    for (size_t i = 0; i < count; i++) memory[i] = 1e-3f;
    ps_bench_cluster_start(&cluster, &(ps_bench_cluster_options){.wire = LIMIT_UNIX, .consistency = MR_PS_BSP},
                           &options);
    int64_t start_ns = 0, until_ns = 0, now_ns;
    do {
        mr_ps_ticket ticket;
        ps_bench_cluster_must(mr_ps_push_array(cluster.table, 0, memory, 0, count, NULL, &ticket), "a push");
        ps_bench_cluster_next_step(&cluster);
        ps_bench_cluster_must(mr_ps_wait(cluster.ps, ticket, PS_BENCH_CLUSTER_PATIENCE_US), "a push");
        now_ns = clock_ns();
        if (steps++ == 0) start_ns = now_ns; /* the server has allocated its memory by then */
        if (steps == 1) until_ns = start_ns + (int64_t)(run->seconds * 1e9);
    } while (now_ns < until_ns || steps <= ROUNDS_MIN);
    values[0] = (double)(now_ns - start_ns) / 1e3 / (double)(steps - 1);
    ps_bench_cluster_stop(&cluster);
}

/* ---- Rows. */

static void small_row(bench *b, const char *name, const work *work, double bar) {
    limit_trip trip = {work->wire, BENCH_TWO_CPUS};
    char p50[96], p99[96];
    snprintf(p50, sizeof p50, "%s, p50", name);
    snprintf(p99, sizeof p99, "%s, p99", name);
    bool bare = work->wire == LIMIT_UNIX && !work->pauses; /* neither side sleeps: no system call on the path */
    const char *raw = bare                      ? "bare ring round trip"
                      : work->wire == LIMIT_TCP ? "raw tcp round trip"
                                                : "raw unix round trip";
    bench_bar most = {BENCH_VALUE_AT_MOST, bar};
    bench_measure(
        b, &(bench_pair){push_then_pull, work, bare ? bare_round_trip_fn : limit_round_trip_fn, &trip},
        (const bench_row[]){{.name = p50, .unit = "us", .reference = raw, .bar = bar == 0 ? (bench_bar){0} : most},
                            {.name = p99, .unit = "us", .value = 1, .reference = raw, .ref_value = 1}},
        2);
}

static void small_rows(bench *b) {
    static const work tcp = {.wire = LIMIT_TCP};
    small_row(b, "push then pull of 4 floats, tcp", &tcp, 25);
    small_row(b, "push then pull of 4 floats, unix", &(work){.wire = LIMIT_UNIX}, 1);
    small_row(b, "push then pull of 4 floats, unix, the server asleep", &(work){.wire = LIMIT_UNIX, .pauses = true},
              12);
    small_row(b, "push, waited for, then pull of 4 floats, tcp", &(work){.wire = LIMIT_TCP, .waits = true}, 0);
    small_row(b, "push, waited for, then pull of 4 floats, unix", &(work){.wire = LIMIT_UNIX, .waits = true}, 0);
    for (int wire = 0; wire < 2; wire++)
        bench_measure(b, &(bench_pair){.ours = push_many, .argument = wire == 0 ? &tcp : &(work){.wire = LIMIT_UNIX}},
                      &(bench_row){.name = wire == 0 ? "pushes of 4 floats, pipelined, tcp"
                                                     : "pushes of 4 floats, pipelined, unix",
                                   .unit = "M/s",
                                   .reference = "ps-lite",
                                   .known_reference = 0.147,
                                   .bar = {BENCH_VALUE_AT_LEAST, 5}},
                      1);
}

static void list_rows(bench *b, limit_wire wire, uint64_t millions, double pull_bar, double push_bar) {
    const work work = {.wire = wire, .lists = millions * 1000000 / LIST};
    char rows[32], pulls[96], pushes[96];
    snprintf(rows, sizeof rows, "%u M rows, %s", (unsigned)millions, wire == LIMIT_TCP ? "tcp" : "unix");
    snprintf(pulls, sizeof pulls, "sparse pull, 10 k keys of 16 floats, %s", rows);
    snprintf(pushes, sizeof pushes, "sparse push, 10 k keys of 16 floats, %s", rows);
    bench_measure(b, &(bench_pair){.ours = pull_and_push_lists, .argument = &work},
                  (const bench_row[]){{.name = pulls,
                                       .unit = "M keys/s",
                                       .reference = "ps-lite, 1 M rows",
                                       .known_reference = 6.5,
                                       .bar = {BENCH_VALUE_AT_LEAST, pull_bar}},
                                      {.name = pushes,
                                       .unit = "M keys/s",
                                       .value = 1,
                                       .reference = "ps-lite, 1 M rows",
                                       .known_reference = 2.7,
                                       .bar = {BENCH_VALUE_AT_LEAST, push_bar}}},
                  2);
}

/* The bars, 5.5, 3.8 and 3.8 GB/s, were set on a machine whose raw sockets reach 7.2, 4.9 and 4.9. */
static void dense_rows(bench *b, size_t megabytes) {
    work work = {.wire = LIMIT_TCP, .bytes = megabytes << 20};
    limit_flow flow = {LIMIT_TCP, megabytes << 20, BENCH_TWO_CPUS};
    char pushes[64], pulls[64];
    snprintf(pushes, sizeof pushes, "dense push, %zu MB, tcp", megabytes);
    snprintf(pulls, sizeof pulls, "dense pull, %zu MB, tcp", megabytes);
    bench_measure(
        b, &(bench_pair){push_dense, &work, limit_stream_fn, &flow},
        &(bench_row){.name = pushes, .unit = "GB/s", .reference = "raw tcp", .bar = {BENCH_RATIO_AT_LEAST, 0.75}}, 1);
    bench_measure(
        b, &(bench_pair){pull_dense, &work, limit_stream_fn, &flow},
        &(bench_row){.name = pulls, .unit = "GB/s", .reference = "raw tcp", .bar = {BENCH_RATIO_AT_LEAST, 0.75}}, 1);
}

/* On one machine values are passed through shared memory, so the limit is a copy. The bars of pushes, 22, 17 and 13
 * GB/s, were set on a machine that copies 31, 26 and 26 GB/s. */
static void seen_rows(bench *b, size_t megabytes, double bar) {
    work exported = {.wire = LIMIT_UNIX, .bytes = megabytes << 20, .exported = true};
    work own = {.wire = LIMIT_UNIX, .bytes = megabytes << 20};
    limit_copy copy = {megabytes << 20, 1};
    char referred[64], sent[64], pulls[64];
    snprintf(referred, sizeof referred, "dense push by reference, %zu MB, unix", megabytes);
    snprintf(sent, sizeof sent, "dense push, %zu MB, unix", megabytes);
    snprintf(pulls, sizeof pulls, "dense pull, %zu MB, unix", megabytes);
    bench_measure(
        b, &(bench_pair){push_dense, &exported, limit_memcpy_fn, &copy},
        &(bench_row){.name = referred, .unit = "GB/s", .reference = "memcpy", .bar = {BENCH_RATIO_AT_LEAST, bar}}, 1);
    bench_measure(b, &(bench_pair){push_dense, &own, limit_memcpy_fn, &copy},
                  &(bench_row){.name = sent, .unit = "GB/s", .reference = "memcpy"}, 1);
    bench_measure(
        b, &(bench_pair){pull_dense, &own, limit_memcpy_fn, &copy},
        &(bench_row){.name = pulls, .unit = "GB/s", .reference = "memcpy", .bar = {BENCH_RATIO_AT_LEAST, 0.8}}, 1);
}

/* A server has one thread: two servers compare with two copying threads. */
static void two_servers_row(bench *b) {
    static const work exported = {.wire = LIMIT_UNIX, .bytes = 100 << 20, .exported = true, .servers = 2};
    static const limit_copy copy = {100 << 20, 2};
    bench_measure(b, &(bench_pair){push_dense, &exported, limit_memcpy_fn, &copy},
                  &(bench_row){.name = "dense push by reference, 100 MB, unix, two servers",
                               .unit = "GB/s",
                               .reference = "memcpy, two threads",
                               .bar = {BENCH_RATIO_AT_LEAST, 22.0 / 48}},
                  1);
}

static void norm_rows(bench *b) {
    static const norms_work plain = {"sgd", 0}, clipped = {"sgd", 1}, adam = {"adam", 0}, lamb = {"lamb", 0},
                            both = {"lamb", 1};
    bench_measure(b, &(bench_pair){steps_of_bsp, &clipped, steps_of_bsp, &plain},
                  &(bench_row){.name = "BSP step, 1 MB in 16 slots, clip_norm", .unit = "us", .reference = "no norms"},
                  1);
    bench_measure(b, &(bench_pair){steps_of_bsp, &lamb, steps_of_bsp, &adam},
                  &(bench_row){.name = "BSP step, 1 MB in 16 slots, lamb", .unit = "us", .reference = "adam"}, 1);
    bench_measure(
        b, &(bench_pair){steps_of_bsp, &both, steps_of_bsp, &adam},
        &(bench_row){.name = "BSP step, 1 MB in 16 slots, lamb and clip_norm", .unit = "us", .reference = "adam"}, 1);
}

void ps_bench(bench *b) {
    small_rows(b);
    list_rows(b, LIMIT_TCP, 1, 17, 14);
    list_rows(b, LIMIT_UNIX, 1, 28, 20);
    list_rows(b, LIMIT_TCP, 10, 12, 9);
    list_rows(b, LIMIT_UNIX, 10, 15, 12);
    dense_rows(b, 1);
    dense_rows(b, 16);
    dense_rows(b, 100);
    seen_rows(b, 1, 0.7);
    seen_rows(b, 16, 0.65);
    seen_rows(b, 100, 0.5);
    two_servers_row(b);
    norm_rows(b);
}
