/* ps_codec_bench.c — cost and saving of codecs: pushes through each codec, compared with pushes without one in the same
 * run; steps in half precision, compared with fp32; and pulls of a list of keys that the server has cached.
 *
 * The measuring process is the worker; scheduler and server are its children, on tcp of this machine. That network
 * moves gigabytes per second: saved bytes gain little there, and the cost of encoding dominates. The number of bytes
 * sent is a row of its own: it matters on a slower network. Values are drawn from a normal distribution, as gradients
 * are; no two are equal, so lz4 and zstd find little to compress. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/ps_bench_cluster.h"
#include "bench/suites.h"
#include "net/dtype_convert.h"

enum { DENSE = 4 << 20, DIM = 16, LIST = 10000, ROUNDS_MIN = 3, WARM = 5, BLOCK = 64 * 1024 };

typedef struct work {
    const char *codec;
    bool sparse;
} work;

static const ps_bench_cluster_options over_tcp = {.wire = LIMIT_TCP};

static float *drawn(size_t count) {
    rng rng;
    float *values = bench_memory(count * sizeof *values);
    rng_init(&rng, 1);
    for (size_t i = 0; i < count; i++) {
        double from = rng_unit(&rng) + 1e-9, around = rng_unit(&rng);
        values[i] = (float)(sqrt(-2 * log(from)) * cos(6.283185307 * around) * 0.01);
    }
    return values;
}

typedef struct request {
    const uint64_t *keys; /* NULL: an array */
    const float *values;
    size_t count;
} request;

static void push(const ps_bench_cluster *cluster, const request *request) {
    if (request->keys == NULL)
        ps_bench_cluster_must(mr_ps_push_array(cluster->table, 0, request->values, 0, request->count, NULL, NULL),
                              "a push");
    else
        ps_bench_cluster_must(
            mr_ps_push(cluster->table, request->keys, request->count, request->values, NULL, NULL, NULL), "a push");
}

/* values[0]: GB/s or M keys/s; values[1]: bytes sent, as a percentage of the bytes without a codec. */
static void pushes(const bench_run *run, const void *argument, double *values) {
    const work *work = argument;
    ps_bench_cluster cluster;
    const mr_ps_array array = {.name = "all", .dims = 1, .shape = {DENSE}};
    const mr_ps_table_options dense = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                                 .array_count = 1, .block = BLOCK, .compression = work->codec);
    const mr_ps_table_options sparse = MR_OPTIONS(mr_ps_table_options, .dim = DIM, .compression = work->codec);
    uint64_t *keys = bench_memory(LIST * sizeof *keys);
    for (uint64_t i = 0; i < LIST; i++) keys[i] = i * 97 + 5;
    const request request = {work->sparse ? keys : NULL, drawn(work->sparse ? LIST * DIM : DENSE),
                             work->sparse ? LIST : DENSE};
    mr_ps_push_stats before, after;
    ps_bench_cluster_start(&cluster, &over_tcp, work->sparse ? &sparse : &dense);
    push(&cluster, &request); /* the server has allocated its memory, and error feedback exists */
    mr_ps_push_stats_get(cluster.ps, &before);
    size_t rounds = 0;
    int64_t start_ns = clock_ns(), until_ns = start_ns + (int64_t)(run->seconds * 1e9), now_ns;
    do {
        push(&cluster, &request);
        rounds++;
        now_ns = clock_ns();
    } while (now_ns < until_ns || rounds < ROUNDS_MIN);
    mr_ps_push_stats_get(cluster.ps, &after);
    double each = work->sparse ? LIST * 1e3 : DENSE * sizeof(float);
    values[0] = each * (double)rounds / (double)(now_ns - start_ns);
    values[1] =
        100 * (double)(after.push_bytes_sent - before.push_bytes_sent) / (double)(after.push_bytes - before.push_bytes);
    ps_bench_cluster_stop(&cluster);
}

/* values[0]: M keys/s; values[1]: bytes sent, as a percentage of the bytes with all keys. The argument: use another
 * list of keys each time. */
static void pulls(const bench_run *run, const void *argument, double *values) {
    const bool *others = argument;
    const mr_ps_table_options sparse = MR_OPTIONS(mr_ps_table_options, .dim = DIM);
    uint64_t *keys = bench_memory(LIST * sizeof *keys), turn = 0;
    float *rows = bench_memory(LIST * DIM * sizeof *rows);
    mr_ps_push_stats before, after;
    ps_bench_cluster cluster;
    ps_bench_cluster_start(&cluster, &over_tcp, &sparse);
    mr_ps_push_stats_get(cluster.ps, &before);
    int64_t start_ns = 0, until_ns = INT64_MAX, now_ns;
    do {
        for (uint64_t i = 0; (*others || turn == 0) && i < LIST; i++) keys[i] = i * 97 + turn * 7919;
        if (turn++ == WARM) {
            mr_ps_push_stats_get(cluster.ps, &before);
            start_ns = clock_ns();
            until_ns = start_ns + (int64_t)(run->seconds * 1e9);
        }
        ps_bench_cluster_must(mr_ps_pull(cluster.table, keys, LIST, rows, NULL, NULL, NULL), "a pull");
        now_ns = clock_ns();
    } while (now_ns < until_ns);
    mr_ps_push_stats_get(cluster.ps, &after);
    values[0] = LIST * 1e3 * (double)(turn - WARM) / (double)(now_ns - start_ns);
    values[1] =
        100 * (double)(after.pull_bytes_sent - before.pull_bytes_sent) / (double)(after.pull_bytes - before.pull_bytes);
    ps_bench_cluster_stop(&cluster);
}

static void list_rows(bench *b) {
    static const bool same = false, others = true;
    bench_measure(
        b, &(bench_pair){pulls, &same, pulls, &others},
        (const bench_row[]){{.name = "pull of 10 k keys of 16 floats, the same again",
                             .unit = "M keys/s",
                             .reference = "another list each time"},
                            {.name = "pull of 10 k keys, the same again, bytes sent", .unit = "%", .value = 1}},
        2);
}

typedef struct step { /* a push and a pull of an array */
    const char *precision;
    mr_dtype dtype; /* of the worker's memory */
} step;

/* values[0]: million values of the array per second, pushed and pulled; values[1]: bytes of pushes, as a percentage of
 * those of fp32. */
static void steps(const bench_run *run, const void *argument, double *values) {
    const step *step = argument;
    const mr_ps_array array = {.name = "all", .dims = 1, .shape = {DENSE}};
    const mr_ps_table_options dense = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                                 .array_count = 1, .block = BLOCK, .precision = step->precision);
    const mr_ps_request_options as = MR_OPTIONS(mr_ps_request_options, .dtype = step->dtype);
    const float *given = drawn(DENSE);
    void *pushed = bench_memory(DENSE * sizeof(float)), *pulled = bench_memory(DENSE * sizeof(float));
    mr_ps_push_stats before, after;
    ps_bench_cluster cluster;
    dtype_convert(MR_F32, given, step->dtype, DENSE, pushed);
    ps_bench_cluster_start(&cluster, &over_tcp, &dense);
    int64_t start_ns = 0, until_ns = INT64_MAX, now_ns;
    size_t rounds = 0;
    do {
        if (rounds++ == 1) { /* the server has allocated its memory */
            mr_ps_push_stats_get(cluster.ps, &before);
            start_ns = clock_ns();
            until_ns = start_ns + (int64_t)(run->seconds * 1e9);
        }
        ps_bench_cluster_must(mr_ps_push_array(cluster.table, 0, pushed, 0, DENSE, &as, NULL), "a push");
        ps_bench_cluster_must(mr_ps_pull_array(cluster.table, 0, pulled, 0, DENSE, &as, NULL), "a pull");
        now_ns = clock_ns();
    } while (now_ns < until_ns || rounds < ROUNDS_MIN);
    mr_ps_push_stats_get(cluster.ps, &after);
    values[0] = (double)DENSE * 1e3 * (double)(rounds - 1) / (double)(now_ns - start_ns);
    values[1] = 100 * (double)(after.push_bytes_sent - before.push_bytes_sent) /
                ((double)DENSE * sizeof(float) * (double)(rounds - 1));
    ps_bench_cluster_stop(&cluster);
}

static void step_rows(bench *b, const char *name, step ours) {
    const step plain = {"fp32", MR_F32};
    char rate[80], bytes[80];
    snprintf(rate, sizeof rate, "push and pull of 4.2 M values, %s", name);
    snprintf(bytes, sizeof bytes, "push of 4.2 M values, %s, bytes sent", name);
    bench_measure(b, &(bench_pair){steps, &ours, steps, &plain},
                  (const bench_row[]){{.name = rate, .unit = "M values/s", .reference = "fp32"},
                                      {.name = bytes, .unit = "%", .value = 1}},
                  2);
}

static void codec_rows(bench *b, const char *codec, bool sparse) {
    const work ours = {codec, sparse}, plain = {"none", sparse};
    const char *what = sparse ? "10 k keys of 16 floats" : "16 MB";
    char rate[80], bytes[80];
    snprintf(rate, sizeof rate, "push of %s, %s", what, codec);
    snprintf(bytes, sizeof bytes, "push of %s, %s, bytes sent", what, codec);
    bench_measure(b, &(bench_pair){pushes, &ours, pushes, &plain},
                  (const bench_row[]){{.name = rate, .unit = sparse ? "M keys/s" : "GB/s", .reference = "no codec"},
                                      {.name = bytes, .unit = "%", .value = 1}},
                  2);
}

void ps_codec_bench(bench *b) {
    static const char *const codecs[] = {"fp16",       "bf16", "int8", "sign",     "topk:0.01",
                                         "randk:0.01", "lz4",  "zstd", "int8+zstd"};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        codec_rows(b, codecs[i], false);
        codec_rows(b, codecs[i], true);
    }
    step_rows(b, "precision bf16", (step){"bf16", MR_F32});
    step_rows(b, "precision fp16", (step){"fp16", MR_F32});
    step_rows(b, "memory of bf16", (step){"fp32", MR_BF16});
    list_rows(b);
}
