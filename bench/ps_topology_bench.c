/* ps_topology_bench.c — the same work in deployments of other shapes: two servers and two workers compared with one of
 * each, and two replicas of every slot compared with one. Every rank does the work; rates are summed over ranks, times
 * are averaged. With fewer CPUs than processes the processes share CPUs, and the rows show the cost of that. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/ps_bench_cluster.h"
#include "bench/suites.h"

enum { SMALL = 4, PIPELINE = 4096, SMALL_KEYS = 256, SAMPLES_MAX = 1 << 18, STEP_MAX = 10000, UNDER_WAY = 2 };
enum { DIM = 16, LIST = 10000, LISTS = 100, ITEMS = 4 << 20, BLOCK = 64 * 1024, ROUNDS_MIN = 3, VALUES = 2 };

typedef struct part { /* results, indexed by rank */
    double values[VALUES];
} part;

typedef struct scene scene;

typedef struct task {
    const char *name, *unit;
    const mr_ps_table_options *table;
    void (*prepare)(ps_bench_cluster *cluster, scene *scene); /* runs before all ranks begin; may be NULL */
    void (*play)(ps_bench_cluster *cluster, scene *scene, uint32_t rank, double values[VALUES]);
    bool times; /* result: p50 and p99, in µs; else a rate */
} task;

struct scene {
    const bench_run *run;
    const task *task;
    part *parts;    /* shared with all ranks */
    uint64_t *keys; /* number of lists */
    float *memory;
};

static int64_t end_of(const scene *scene) { return clock_ns() + (int64_t)(scene->run->seconds * 1e9); }

/* ---- Small requests. */

static void push_then_pull(ps_bench_cluster *cluster, scene *scene, uint32_t rank, double values[VALUES]) {
    const uint64_t key = 7 + rank;
    float some[SMALL] = {1e-3f, 1e-3f, 1e-3f, 1e-3f};
    size_t count = 0;
    bench_samples samples;
    bench_samples_init(&samples, SAMPLES_MAX);
    for (int64_t now_ns = clock_ns(), until_ns = end_of(scene); now_ns < until_ns;) {
        mr_ps_ticket ticket;
        ps_bench_cluster_must(mr_ps_push(cluster->table, &key, 1, some, NULL, NULL, &ticket), "a push");
        ps_bench_cluster_must(mr_ps_pull(cluster->table, &key, 1, some, NULL, NULL, NULL), "a pull");
        ps_bench_cluster_must(mr_ps_wait(cluster->ps, ticket, PS_BENCH_CLUSTER_PATIENCE_US), "a push");
        int64_t end_ns = clock_ns();
        bench_samples_add(&samples, (double)(end_ns - now_ns) / 1e3);
        now_ns = end_ns;
        memset(some, 0, sizeof some); /* keeps the value finite */
        if (++count % STEP_MAX == 0) ps_bench_cluster_next_step(cluster);
    }
    values[0] = bench_samples_percentile(&samples, 50);
    values[1] = bench_samples_percentile(&samples, 99);
    bench_samples_fini(&samples);
}

static void push_many(ps_bench_cluster *cluster, scene *scene, uint32_t rank, double values[VALUES]) {
    const float some[SMALL] = {1e-3f, 1e-3f, 1e-3f, 1e-3f};
    mr_ps_ticket tickets[PIPELINE];
    uint64_t count = 0;
    int64_t start_ns = clock_ns(), until_ns = end_of(scene), now_ns;
    do {
        for (uint64_t i = 0; i < PIPELINE; i++) {
            const uint64_t key = i % SMALL_KEYS + rank;
            ps_bench_cluster_must(mr_ps_push(cluster->table, &key, 1, some, NULL, NULL, &tickets[i]), "a push");
        }
        for (size_t i = 0; i < PIPELINE; i++)
            ps_bench_cluster_must(mr_ps_wait(cluster->ps, tickets[i], PS_BENCH_CLUSTER_PATIENCE_US), "a push");
        count += PIPELINE;
    } while ((now_ns = clock_ns()) < until_ns);
    values[0] = (double)count / (double)(now_ns - start_ns) * 1e3;
}

/* ---- Lists of keys, two requests in flight at a time. */

typedef mr_status list_fn(const ps_bench_cluster *cluster, const scene *scene, uint64_t number, mr_ps_ticket *ticket);

static mr_status push_list(const ps_bench_cluster *cluster, const scene *scene, uint64_t number, mr_ps_ticket *ticket) {
    return mr_ps_push(cluster->table, scene->keys + number % LISTS * LIST, LIST, scene->memory, NULL, NULL, ticket);
}
static mr_status pull_list(const ps_bench_cluster *cluster, const scene *scene, uint64_t number, mr_ps_ticket *ticket) {
    float *values = scene->memory + number % UNDER_WAY * LIST * DIM;
    return mr_ps_pull(cluster->table, scene->keys + number % LISTS * LIST, LIST, values, NULL, NULL, ticket);
}

static uint64_t run_lists(const ps_bench_cluster *cluster, const scene *scene, list_fn *request, uint64_t least,
                          int64_t until_ns) {
    mr_ps_ticket tickets[UNDER_WAY];
    uint64_t count = 0;
    for (; count < least || clock_ns() < until_ns; count++) {
        mr_ps_ticket *ticket = &tickets[count % UNDER_WAY];
        if (count >= UNDER_WAY)
            ps_bench_cluster_must(mr_ps_wait(cluster->ps, *ticket, PS_BENCH_CLUSTER_PATIENCE_US), "a list");
        ps_bench_cluster_must(request(cluster, scene, count, ticket), "a list");
    }
    for (size_t i = 0; i < UNDER_WAY; i++)
        ps_bench_cluster_must(mr_ps_wait(cluster->ps, tickets[i], PS_BENCH_CLUSTER_PATIENCE_US), "a list");
    return count;
}

/* Every list has one of each LISTS neighbours: all lists together are all rows, which exist after this call. */
static void make_lists(ps_bench_cluster *cluster, scene *scene) {
    scene->keys = bench_memory((size_t)LISTS * LIST * sizeof *scene->keys);
    scene->memory = bench_memory((size_t)UNDER_WAY * LIST * DIM * sizeof *scene->memory);
    for (uint64_t i = 0; i < LISTS; i++)
        for (uint64_t k = 0; k < LIST; k++) scene->keys[i * LIST + k] = k * LISTS + (i * 37 + k * 61) % LISTS;
    (void)run_lists(cluster, scene, push_list, LISTS, 0);
}

static double rate_of_lists(ps_bench_cluster *cluster, scene *scene, list_fn *request) {
    int64_t start_ns = clock_ns();
    uint64_t count = run_lists(cluster, scene, request, ROUNDS_MIN, end_of(scene));
    return (double)(count * LIST) / (double)(clock_ns() - start_ns) * 1e3;
}

static void push_lists(ps_bench_cluster *cluster, scene *scene, uint32_t rank, double values[VALUES]) {
    (void)rank;
    values[0] = rate_of_lists(cluster, scene, push_list);
}
static void pull_lists(ps_bench_cluster *cluster, scene *scene, uint32_t rank, double values[VALUES]) {
    (void)rank;
    values[0] = rate_of_lists(cluster, scene, pull_list);
}

/* ---- An array, from memory shared with servers of the machine. */

static mr_status push_array(ps_bench_cluster *cluster, float *memory) {
    return mr_ps_push_array(cluster->table, 0, memory, 0, ITEMS, NULL, NULL);
}
static mr_status pull_array(ps_bench_cluster *cluster, float *memory) {
    return mr_ps_pull_array(cluster->table, 0, memory, 0, ITEMS, NULL, NULL);
}

static void make_array(ps_bench_cluster *cluster, scene *scene) {
    void *memory;
    ps_bench_cluster_must(mr_ps_buffer_alloc(cluster->ps, ITEMS * sizeof *scene->memory, &memory), "memory");
    scene->memory = memory;
    ps_bench_cluster_must(push_array(cluster, scene->memory), "a push");
    ps_bench_cluster_must(pull_array(cluster, scene->memory), "a pull");
}

static double rate_of_array(ps_bench_cluster *cluster, scene *scene,
                            mr_status (*request)(ps_bench_cluster *cluster, float *memory)) {
    size_t rounds = 0;
    int64_t start_ns = clock_ns(), until_ns = end_of(scene), now_ns;
    do {
        ps_bench_cluster_must(request(cluster, scene->memory), "an array");
        rounds++;
        now_ns = clock_ns();
    } while (now_ns < until_ns || rounds < ROUNDS_MIN);
    return (double)(ITEMS * sizeof(float)) * (double)rounds / (double)(now_ns - start_ns);
}

static void push_arrays(ps_bench_cluster *cluster, scene *scene, uint32_t rank, double values[VALUES]) {
    (void)rank;
    values[0] = rate_of_array(cluster, scene, push_array);
}
static void pull_arrays(ps_bench_cluster *cluster, scene *scene, uint32_t rank, double values[VALUES]) {
    (void)rank;
    values[0] = rate_of_array(cluster, scene, pull_array);
}

/* ---- A measurement. */

typedef struct shape {
    uint32_t servers, ranks, copies;
} shape;

typedef struct stage { /* a row's argument */
    const task *task;
    limit_wire wire;
    shape shape;
} stage;

static void play(ps_bench_cluster *cluster, uint32_t rank, void *argument) {
    scene *scene = argument;
    if (scene->task->prepare != NULL) scene->task->prepare(cluster, scene);
    if (cluster->options.ranks > 1) ps_bench_cluster_meet(cluster, "go");
    scene->task->play(cluster, scene, rank, scene->parts[rank].values);
}

static void measure(const bench_run *run, const void *argument, double *values) {
    const stage *stage = argument;
    const shape *shape = &stage->shape;
    ps_bench_cluster cluster;
    scene scene = {.run = run, .task = stage->task, .parts = bench_shared(PS_BENCH_CLUSTER_RANKS_MAX * sizeof(part))};
    const ps_bench_cluster_options options = {.wire = stage->wire,
                                              .servers = shape->servers,
                                              .ranks = shape->ranks,
                                              .copies = shape->copies,
                                              .rank = play,
                                              .argument = &scene};
    ps_bench_cluster_start(&cluster, &options, stage->task->table);
    play(&cluster, 0, &scene);
    ps_bench_cluster_stop(&cluster);
    for (size_t i = 0; i < VALUES; i++) {
        values[i] = 0;
        for (uint32_t rank = 0; rank < shape->ranks; rank++) values[i] += scene.parts[rank].values[i];
        if (stage->task->times) values[i] /= shape->ranks;
    }
}

/* ---- Rows. */

static const mr_ps_table_options small_table = {.size = sizeof(mr_ps_table_options), .dim = SMALL},
                                 list_table = MR_OPTIONS(mr_ps_table_options, .dim = DIM);
static const mr_ps_array whole = {.name = "all", .dims = 1, .shape = {ITEMS}};
static const mr_ps_table_options array_table = {
    .size = sizeof(mr_ps_table_options), .kind = MR_PS_DENSE, .arrays = &whole, .array_count = 1, .block = BLOCK};

static const task tasks[] = {
    {"push then pull of 4 floats", "us", &small_table, NULL, push_then_pull, true},
    {"pushes of 4 floats, pipelined", "M/s", &small_table, NULL, push_many, false},
    {"sparse pull, 10 k keys of 16 floats, 1 M rows", "M keys/s", &list_table, make_lists, pull_lists, false},
    {"sparse push, 10 k keys of 16 floats, 1 M rows", "M keys/s", &list_table, make_lists, push_lists, false},
    {"dense pull, 16 MB", "GB/s", &array_table, make_array, pull_arrays, false},
    {"dense push, 16 MB", "GB/s", &array_table, make_array, push_arrays, false},
};

typedef struct comparison {
    const char *name, *reference;
    shape ours, beside;
} comparison;

static void row(bench *b, const task *task, limit_wire wire, const comparison *comparison) {
    const stage ours = {task, wire, comparison->ours}, beside = {task, wire, comparison->beside};
    const char *where = wire == LIMIT_TCP ? "tcp" : "unix";
    char first[128], second[128];
    snprintf(first, sizeof first, "%s: %s, %s%s", comparison->name, task->name, where, task->times ? ", p50" : "");
    snprintf(second, sizeof second, "%s: %s, %s, p99", comparison->name, task->name, where);
    const bench_row rows[] = {
        {.name = first, .unit = task->unit, .reference = comparison->reference},
        {.name = second, .unit = task->unit, .value = 1, .reference = comparison->reference, .ref_value = 1}};
    bench_measure(b, &(bench_pair){measure, &ours, measure, &beside}, rows, task->times ? 2 : 1);
}

void ps_topology_bench(bench *b) {
    static const comparison comparisons[] = {{"2+2", "1 server, 1 worker", {2, 2, 1}, {1, 1, 1}},
                                             {"2 copies", "1 copy", {2, 1, 2}, {2, 1, 1}}};
    static const limit_wire wires[] = {LIMIT_TCP, LIMIT_UNIX};
    for (size_t c = 0; c < sizeof comparisons / sizeof *comparisons; c++)
        for (size_t w = 0; w < sizeof wires / sizeof *wires; w++)
            for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++) row(b, &tasks[t], wires[w], &comparisons[c]);
}
