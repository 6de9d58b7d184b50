/* ps_scale_bench.c — throughput of pushes and pulls by key, and memory of the server, by number of rows and by size of
 * a value; one worker, one server, on a unix address. tools/bench-plot draws the output of `--json`.
 *
 * Requests have as many keys as there are rows, at most LIST, and at most REQUEST_BYTES of values; they are drawn from
 * all rows alike. The number of rows grows in powers of ten while a quarter of the machine's free memory is enough. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/ps_bench_cluster.h"
#include "bench/suites.h"
#include "net/shm/memory_headroom.h"

enum { LIST = 10000, LISTS = 32, UNDER_WAY = 2, ROUNDS_MIN = 3, REQUEST_BYTES = 4 << 20 };
enum { KEY_DIM = 16, VALUE_ROWS = 20000, ROWS_QUICK = 100000, SETTLE_US = 200000 };
#define ROWS_MAX     UINT64_C(100000000)
#define ROW_OVERHEAD 32 /* estimated bytes of a row beside its values */

/* Indices of the values of a measurement. */
enum { PULL_KEYS, PUSH_KEYS, PULL_BYTES, PUSH_BYTES, OVERHEAD };

typedef struct scene {
    uint64_t rows;
    uint32_t dim;
} scene;

typedef struct lists {
    uint64_t *keys, count, stride; /* count keys per list; one of each `stride` neighbours */
    float *values;                 /* keys of UNDER_WAY lists */
    uint32_t dim;
} lists;

static lists make_lists(const scene *scene) {
    uint64_t bytes = scene->dim * sizeof(float), count = REQUEST_BYTES / bytes;
    if (count > LIST) count = LIST;
    if (count > scene->rows) count = scene->rows;
    lists lists = {.keys = bench_memory(LISTS * count * sizeof *lists.keys),
                   .count = count,
                   .stride = scene->rows / count,
                   .values = bench_memory(UNDER_WAY * count * bytes),
                   .dim = scene->dim};
    return lists;
}

/* Computes list `number`: lists 0 … stride - 1 together are all rows; they are not stored. */
static void write_list(const lists *lists, uint64_t number, uint64_t *keys) {
    for (uint64_t k = 0; k < lists->count; k++) keys[k] = k * lists->stride + (number + k * 61) % lists->stride;
}

typedef mr_status list_fn(const ps_bench_cluster *cluster, const lists *lists, const uint64_t *keys, float *values,
                          mr_ps_ticket *ticket);

static mr_status push(const ps_bench_cluster *cluster, const lists *lists, const uint64_t *keys, float *values,
                      mr_ps_ticket *ticket) {
    return mr_ps_push(cluster->table, keys, lists->count, values, NULL, NULL, ticket);
}
static mr_status pull(const ps_bench_cluster *cluster, const lists *lists, const uint64_t *keys, float *values,
                      mr_ps_ticket *ticket) {
    return mr_ps_pull(cluster->table, keys, lists->count, values, NULL, NULL, ticket);
}

static void wait_for(const ps_bench_cluster *cluster, mr_ps_ticket ticket) {
    ps_bench_cluster_must(mr_ps_wait(cluster->ps, ticket, PS_BENCH_CLUSTER_PATIENCE_US), "a list");
}

static void make_rows(const ps_bench_cluster *cluster, const lists *lists) {
    for (uint64_t i = 0; i < lists->stride; i++) {
        mr_ps_ticket ticket;
        write_list(lists, i, lists->keys);
        ps_bench_cluster_must(push(cluster, lists, lists->keys, lists->values, &ticket), "a row");
        wait_for(cluster, ticket);
    }
}

/* Keys per nanosecond. */
static double rate(const bench_run *run, const ps_bench_cluster *cluster, const lists *lists, list_fn *request) {
    mr_ps_ticket tickets[UNDER_WAY];
    uint64_t count = 0;
    for (uint64_t i = 0; i < LISTS; i++)
        write_list(lists, i * (lists->stride / LISTS + 1), lists->keys + i * lists->count);
    int64_t start_ns = clock_ns(), until_ns = start_ns + (int64_t)(run->seconds * 1e9);
    for (; count < ROUNDS_MIN || clock_ns() < until_ns; count++) {
        uint64_t at = count % UNDER_WAY;
        if (count >= UNDER_WAY) wait_for(cluster, tickets[at]);
        ps_bench_cluster_must(request(cluster, lists, lists->keys + count % LISTS * lists->count,
                                      lists->values + at * lists->count * lists->dim, &tickets[at]),
                              "a list");
    }
    for (size_t i = 0; i < UNDER_WAY; i++) wait_for(cluster, tickets[i]);
    return (double)(count * lists->count) / (double)(clock_ns() - start_ns);
}

/* ---- Memory. */

static double resident(pid_t pid) {
    char path[64];
    unsigned long long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fscanf(file, "%*u %llu", &pages) != 1) bench_fail("%s cannot be read", path);
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Bytes; 0: unknown. */
static uint64_t memory_left(void) {
    uint64_t left = memory_headroom_bytes();
    return left == MEMORY_HEADROOM_UNKNOWN ? 0 : left;
}

static void measure(const bench_run *run, const void *argument, double *values) {
    scene scene = *(const struct scene *)argument;
    if (run->quick && scene.rows > ROWS_QUICK) scene.rows = ROWS_QUICK;
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = scene.dim);
    double bytes = scene.dim * sizeof(float);
    ps_bench_cluster cluster;
    lists lists = make_lists(&scene);
    ps_bench_cluster_start(&cluster, &(ps_bench_cluster_options){.wire = LIMIT_UNIX}, &options);
    double before = resident(cluster.server[0]);
    make_rows(&cluster, &lists);
    usleep(SETTLE_US); /* buffers of requests in flight are freed */
    values[OVERHEAD] = (resident(cluster.server[0]) - before) / (double)scene.rows - bytes;
    double pulls = rate(run, &cluster, &lists, pull), pushes = rate(run, &cluster, &lists, push);
    values[PULL_KEYS] = pulls * 1e3;
    values[PUSH_KEYS] = pushes * 1e3;
    values[PULL_BYTES] = pulls * bytes;
    values[PUSH_BYTES] = pushes * bytes;
    ps_bench_cluster_stop(&cluster);
}

/* ---- Rows. */

static const char *count_text(uint64_t count, char text[16]) {
    if (count >= 1000000)
        snprintf(text, 16, "%u M", (unsigned)(count / 1000000));
    else
        snprintf(text, 16, "%u k", (unsigned)(count / 1000));
    return text;
}

static void rows_of_keys(bench *b, uint64_t rows) {
    const scene scene = {rows, KEY_DIM};
    char count[16], pulls[64], pushes[64], memory[64];
    count_text(rows, count);
    snprintf(pulls, sizeof pulls, "pull of 16 floats a key, %s rows", count);
    snprintf(pushes, sizeof pushes, "push of 16 floats a key, %s rows", count);
    snprintf(memory, sizeof memory, "memory a row beyond its payload, %s rows", count);
    bench_measure(b, &(bench_pair){.ours = measure, .argument = &scene},
                  (const bench_row[]){{.name = pulls,
                                       .unit = "M keys/s",
                                       .value = PULL_KEYS,
                                       .reference = "ps-lite, 1 M",
                                       .known_reference = 6.5},
                                      {.name = pushes,
                                       .unit = "M keys/s",
                                       .value = PUSH_KEYS,
                                       .reference = "ps-lite, 1 M",
                                       .known_reference = 2.7},
                                      {.name = memory, .unit = "B", .value = OVERHEAD}},
                  rows < 1000000 ? 2 : 3); /* with fewer rows the process itself dominates */
}

static void rows_of_values(bench *b, uint32_t dim) {
    const scene scene = {VALUE_ROWS, dim};
    const limit_copy copy = {REQUEST_BYTES, 1};
    char pulls[64], pushes[64];
    snprintf(pulls, sizeof pulls, "pull of values of %u B, 20 k rows", (unsigned)(dim * sizeof(float)));
    snprintf(pushes, sizeof pushes, "push of values of %u B, 20 k rows", (unsigned)(dim * sizeof(float)));
    bench_measure(
        b, &(bench_pair){measure, &scene, limit_memcpy_fn, &copy},
        (const bench_row[]){{.name = pulls, .unit = "GB/s", .value = PULL_BYTES, .reference = "memcpy 4 MB"},
                            {.name = pushes, .unit = "GB/s", .value = PUSH_BYTES, .reference = "memcpy 4 MB"}},
        2);
}

void ps_scale_bench(bench *b) {
    for (uint64_t rows = 1000; rows <= ROWS_MAX; rows *= 10)
        if (rows <= 10000000 || rows * (KEY_DIM * sizeof(float) + ROW_OVERHEAD) <= memory_left() / 4)
            rows_of_keys(b, rows);
    for (uint32_t dim = 1; dim <= 4096; dim *= 4) rows_of_values(b, dim);
}
