/* ps_table_bench.c — rows by key in memory: what a server of the parameter server does for each key of a request.
 *
 * Beside it, in the same run, the limit: as many rows of the same size at random places of one array, fetched ahead in
 * the same way, with the places known beforehand. Requests are of 10 k keys, drawn evenly from all that are there. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/suites.h"
#include "ps/table/sparse.h"

enum { REQUEST = 10000, REQUESTS = 32, LINE = 64, AHEAD = 16 };

typedef struct scene {
    uint64_t rows;
    uint32_t dim;
    bool pushes;
} scene;

static uint64_t key_of(uint64_t i) { return i * UINT64_C(2654435761) + 7; }

static void failed(const char *what) { bench_fail("%s: %s", what, mr_last_error()); }

static void fill(sparse *table, uint64_t rows) {
    uint64_t keys[1000];
    void *places[1000];
    for (uint64_t at = 0; at < rows; at += 1000) {
        for (uint64_t i = 0; i < 1000; i++) keys[i] = key_of(at + i);
        if (sparse_touch(table, keys, 1000, 0, places) != MR_OK) failed("touch");
    }
}

/* Steps the `count` floats of each row down its gradient. */
static void descend(void *const *rows, size_t count, uint32_t dim, const float *gradients) {
    for (size_t i = 0; i < count; i++) {
        if (i + AHEAD < count) __builtin_prefetch(rows[i + AHEAD], 1);
        float *row = rows[i];
        for (uint32_t k = 0; k < dim; k++) row[k] -= 0.01f * gradients[i * dim + k];
    }
}

typedef struct requests {
    uint64_t *keys; /* REQUESTS of them, one after another */
    float *values;  /* of one */
    void **rows;
} requests;

static requests draw(const scene *scene, bool as_places) {
    rng rng;
    rng_init(&rng, 1);
    requests made = {bench_memory(REQUESTS * REQUEST * sizeof *made.keys),
                     bench_memory(REQUEST * scene->dim * sizeof *made.values),
                     bench_memory(REQUEST * sizeof *made.rows)};
    for (size_t i = 0; i < REQUESTS * REQUEST; i++) {
        uint64_t one = rng_below(&rng, scene->rows);
        made.keys[i] = as_places ? one : key_of(one);
    }
    return made;
}

static void serve(const bench_run *run, const void *argument, double *values) {
    const scene *scene = argument;
    const sparse_options options = {.dtype = MR_F32, .dim = scene->dim, .init = {INITIALIZER_UNIFORM, -1, 1, 1, 1}};
    sparse *table;
    if (sparse_create(&options, &table) != MR_OK) failed("create");
    fill(table, scene->rows);
    requests requests = draw(scene, false);
    double spent = 0, keys = 0;
    for (size_t turn = 0; spent < run->seconds * 1e9; turn = (turn + 1) % REQUESTS, keys += REQUEST) {
        const uint64_t *wanted = requests.keys + turn * REQUEST;
        int64_t start = clock_ns();
        if (!scene->pushes) {
            sparse_read(table, wanted, REQUEST, requests.values);
        } else {
            if (sparse_touch(table, wanted, REQUEST, 0, requests.rows) != MR_OK) failed("touch");
            descend(requests.rows, REQUEST, scene->dim, requests.values);
        }
        spent += (double)(clock_ns() - start);
    }
    values[0] = keys * 1e3 / spent;
    values[1] = spent / keys;
    values[2] = (double)sparse_look_at(table).bytes / (double)scene->rows - scene->dim * sizeof(float);
    sparse_destroy(table);
}

/* The limit: places are known, so nothing is looked up. */
static void bare(const bench_run *run, const void *argument, double *values) {
    const scene *scene = argument;
    float *array = bench_memory(scene->rows * scene->dim * sizeof *array);
    requests requests = draw(scene, true);
    double spent = 0, keys = 0;
    for (size_t turn = 0; spent < run->seconds * 1e9; turn = (turn + 1) % REQUESTS, keys += REQUEST) {
        const uint64_t *wanted = requests.keys + turn * REQUEST;
        int64_t start = clock_ns();
        for (size_t i = 0; i < REQUEST; i++) requests.rows[i] = array + wanted[i] * scene->dim;
        if (scene->pushes) {
            descend(requests.rows, REQUEST, scene->dim, requests.values);
        } else {
            for (size_t i = 0; i < REQUEST; i++) {
                if (i + AHEAD < REQUEST) __builtin_prefetch(requests.rows[i + AHEAD]);
                memcpy(requests.values + i * scene->dim, requests.rows[i], scene->dim * sizeof(float));
            }
        }
        spent += (double)(clock_ns() - start);
    }
    values[0] = keys * 1e3 / spent;
    values[1] = spent / keys;
}

static void sparse_rows(bench *b) {
    static const struct {
        const char *name;
        scene scene;
        double bar;
    } rows[] = {
        {"pull, 16 floats, 1 M rows", {1000000, 16, false}, 28},
        {"pull, 16 floats, 10 M rows", {10000000, 16, false}, 15},
        {"push, 16 floats, 1 M rows", {1000000, 16, true}, 20},
        {"push, 16 floats, 10 M rows", {10000000, 16, true}, 12},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_measure(b, &(bench_pair){serve, &rows[i].scene, bare, &rows[i].scene},
                      &(bench_row){.name = rows[i].name,
                                   .unit = "M keys/s",
                                   .reference = "random rows, fetched ahead",
                                   .bar = {BENCH_VALUE_AT_LEAST, rows[i].bar}},
                      1);
}

void ps_table_bench(bench *b) { sparse_rows(b); }
