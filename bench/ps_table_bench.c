/* ps_table_bench.c — rows by key in memory: the work of a parameter server for each key of a request; and optimizers
 * and codecs.
 *
 * The reference of rows, in the same run, is the limit of any index that is separate from its rows: a random cache line
 * of an array with 16 bytes per row, which holds the number of a row, and that row in an array of its own; both
 * prefetched, with the position in the index known beforehand. Requests have 10 k keys, drawn evenly from all present
 * keys.
 *
 * The reference of optimizers is memcpy: a copy of n bytes reads n and writes n. An optimizer that reads and writes k
 * arrays of n bytes is counted as k·n/2, so a ratio of 1.0 to memcpy means the same traffic in the same time. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "kv/codec/codec.h"
#include "kv/optim/optim.h"
#include "kv/table/huge_pages.h"
#include "kv/table/sparse_table.h"

#define LOAD_LEAST 0.52 /* memory allowed per row: 16 bytes, divided by this fraction of places in use */
enum { REQUEST = 10000, REQUESTS = 32, LOT = 1000, AHEAD = 32 };

#define LIMIT "random index line and row, fetched ahead"

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
        if (sparse_table_touch(table, keys, 1000, 0, places, NULL) != MR_OK) failed("touch");
    }
}

static optim optimizer(const char *name) {
    const optim_ops *ops;
    optim optim;
    if (optim_find(name, &ops) != MR_OK) failed("optim");
    optim_settings settings = optim_defaults(ops);
    if (optim_init(&optim, ops, &settings) != MR_OK) failed("optim");
    return optim;
}

typedef struct requests {
    uint64_t *keys; /* REQUESTS requests, one after another */
    float *values;  /* keys of one request */
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
    const sparse_table_options options = {
        .dtype = MR_F32, .dim = scene->dim, .init = {INITIALIZER_UNIFORM, -1, 1, 1, 1}};
    sparse *table;
    if (sparse_table_create(&options, &table) != MR_OK) failed("create");
    fill(table, scene->rows);
    optim sgd = optimizer("sgd");
    requests requests = draw(scene, false);
    for (size_t turn = 0; turn < scene->rows / REQUEST; turn++) /* steady state of a server: the growth is complete */
        if (sparse_table_touch(table, requests.keys + turn % REQUESTS * REQUEST, REQUEST, 0, requests.rows, NULL) !=
            MR_OK)
            failed("touch");
    double spent = 0, keys = 0;
    for (size_t turn = 0; spent < run->seconds * 1e9; turn = (turn + 1) % REQUESTS, keys += REQUEST) {
        const uint64_t *wanted = requests.keys + turn * REQUEST;
        int64_t start = clock_ns();
        if (!scene->pushes) {
            sparse_table_read(table, wanted, REQUEST, MR_F32, requests.values);
        } else {
            if (sparse_table_touch(table, wanted, REQUEST, 0, requests.rows, NULL) != MR_OK) failed("touch");
            optim_rows(&sgd, requests.rows, REQUEST, scene->dim, requests.values, 0.01f, 1);
        }
        spent += (double)(clock_ns() - start);
    }
    values[0] = keys * 1e3 / spent;
    values[1] = spent / keys;
    values[2] = (double)sparse_table_look_at(table).bytes / (double)scene->rows - scene->dim * sizeof(float);
    sparse_table_destroy(table);
}

/* ---- The limit: rows are read by their position, without a search for keys. */

typedef struct index_line { /* cache line of the index with the numbers of four rows */
    uint64_t numbers[4], rest[4];
} index_line;

/* Allocates memory on huge pages, as tables do. */
static void *memory_of(size_t size) {
    void *memory = NULL;
    if (huge_pages_take(size, &memory) != MR_OK) failed("memory");
    memset(memory, 1, size);
    return memory;
}

static index_line *index_of(uint64_t rows) {
    index_line *index = memory_of((rows / 4 + 1) * sizeof *index);
    for (uint64_t i = 0; i < rows; i++) index[i / 4].numbers[i % 4] = key_of(i) % rows; /* each row once */
    return index;
}

/* Finds the rows of LOT places. */
static void find_bare(const index_line *index, float *array, uint32_t dim, const uint64_t *places, void **rows) {
    for (size_t i = 0; i < AHEAD; i++) __builtin_prefetch(&index[places[i] / 4]);
    for (size_t i = 0; i < LOT; i++) {
        if (i + AHEAD < LOT) __builtin_prefetch(&index[places[i + AHEAD] / 4]);
        rows[i] = array + index[places[i] / 4].numbers[places[i] % 4] * dim;
    }
}

static void read_bare(void *const *rows, size_t size, float *values) {
    for (size_t i = 0; i < AHEAD; i++) __builtin_prefetch(rows[i]);
    for (size_t i = 0; i < LOT; i++) {
        if (i + AHEAD < LOT) __builtin_prefetch(rows[i + AHEAD]);
        memcpy((uint8_t *)values + i * size, rows[i], size);
    }
}

static void bare(const bench_run *run, const void *argument, double *values) {
    const scene *scene = argument;
    float *array = memory_of(scene->rows * scene->dim * sizeof *array);
    const index_line *index = index_of(scene->rows);
    optim sgd = optimizer("sgd");
    requests requests = draw(scene, true);
    double spent = 0, keys = 0;
    for (size_t turn = 0; spent < run->seconds * 1e9; turn = (turn + 1) % REQUESTS, keys += REQUEST) {
        const uint64_t *wanted = requests.keys + turn * REQUEST;
        int64_t start = clock_ns();
        for (size_t at = 0; at < REQUEST; at += LOT) {
            float *of_lot = requests.values + at * scene->dim;
            find_bare(index, array, scene->dim, wanted + at, requests.rows);
            if (scene->pushes)
                optim_rows(&sgd, requests.rows, LOT, scene->dim, of_lot, 0.01f, 1);
            else
                read_bare(requests.rows, scene->dim * sizeof *array, of_lot);
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
                                   .reference = LIMIT,
                                   .bar = {BENCH_VALUE_AT_LEAST, rows[i].bar}},
                      1);
}

static void key_rows(bench *b) {
    static const scene pull = {1000000, 1, false}, push = {1000000, 1, true};
    bench_measure(b, &(bench_pair){serve, &pull, bare, &pull},
                  (bench_row[]){{.name = "pull, work a key, 1 float, 1 M rows",
                                 .unit = "ns",
                                 .value = 1,
                                 .reference = LIMIT,
                                 .ref_value = 1,
                                 .bar = {BENCH_VALUE_AT_MOST, 25}},
                                {.name = "memory a row beyond its payload",
                                 .unit = "B",
                                 .value = 2,
                                 .bar = {BENCH_VALUE_AT_MOST, 16 / LOAD_LEAST}}},
                  2);
    bench_measure(b, &(bench_pair){serve, &push, bare, &push},
                  &(bench_row){.name = "push, work a key, 1 float, 1 M rows",
                               .unit = "ns",
                               .value = 1,
                               .reference = LIMIT,
                               .ref_value = 1,
                               .bar = {BENCH_VALUE_AT_MOST, 25}},
                  1);
}

/* ---- Growth: insertion of new keys, a few at once, and the longest duration of one insertion. */

enum { NEW = 100 };

static void grow(const bench_run *run, const void *argument, double *values) {
    const sparse_table_options options = {.dtype = MR_F32, .dim = 16};
    uint64_t rows = run->quick ? 100000 : 2000000, keys[NEW];
    void *places[NEW];
    sparse *table;
    bench_samples samples;
    bench_samples_init(&samples, rows / NEW);
    if (sparse_table_create(&options, &table) != MR_OK) failed("create");
    double spent = 0;
    for (uint64_t at = 0; at < rows; at += NEW) {
        for (uint64_t i = 0; i < NEW; i++) keys[i] = key_of(at + i);
        int64_t start = clock_ns();
        if (sparse_table_touch(table, keys, NEW, 0, places, NULL) != MR_OK) failed("touch");
        double took = (double)(clock_ns() - start);
        spent += took;
        bench_samples_add(&samples, took / 1e3);
    }
    values[0] = (double)rows * 1e3 / spent;
    values[1] = bench_samples_percentile(&samples, 99.9);
    values[2] = bench_samples_percentile(&samples, 100);
    bench_samples_fini(&samples);
    sparse_table_destroy(table);
}

static void growth_rows(bench *b) {
    bench_measure(b, &(bench_pair){.ours = grow},
                  (bench_row[]){{.name = "new rows, 16 floats, up to 2 M", .unit = "M/s"},
                                {.name = "100 new rows, p99.9", .unit = "us", .value = 1},
                                {.name = "100 new rows, longest", .unit = "us", .value = 2}},
                  3);
}

/* ---- Optimizers. */

typedef struct update {
    const char *name;
    double arrays; /* arrays read and written */
} update;

static void apply(const bench_run *run, const void *argument, double *values) {
    const update *update = argument;
    size_t count = (size_t)(run->quick ? 4 : 100) << 18;
    optim optim = optimizer(update->name);
    float *array[6];
    for (size_t k = 0; k < 6; k++) {
        array[k] = bench_memory(count * sizeof(float));
        for (size_t i = 0; i < count; i++) array[k][i] = 1 + (float)(i % 97) / 97;
    }
    optim_arrays arrays = {array[0], array[0], {array[1], array[2], array[3], array[4]}, array[5]};
    double spent = 0, updates = 0;
    for (uint64_t t = 1; spent < run->seconds * 1e9 || updates < 3; t++, updates++) {
        optim_moment moment = optim_at(&optim, t, 1e-6f, 1);
        int64_t start = clock_ns();
        optim_apply(&optim, &moment, &arrays, count);
        spent += (double)(clock_ns() - start);
    }
    values[0] = updates * update->arrays / 2 * (double)(count * sizeof(float)) / spent;
}

static void optimizer_rows(bench *b) {
    static const limit_copy copy = {100 << 20, 1};
    static const struct {
        const char *name;
        update update;
        double bar; /* ratio to memcpy; 0: no bar */
    } rows[] = {
        {"add, 100 MB", {"add", 3}, 0},
        {"sgd, 100 MB", {"sgd", 3}, 0},
        {"momentum, 100 MB", {"momentum", 5}, 1.09},
        {"nesterov, 100 MB", {"nesterov", 5}, 0},
        {"adagrad, 100 MB", {"adagrad", 5}, 0},
        {"rmsprop, 100 MB", {"rmsprop", 5}, 0},
        {"adam, 100 MB", {"adam", 7}, 0.7},
        {"adamw, 100 MB", {"adamw", 7}, 0},
        {"lamb, 100 MB", {"lamb", 7}, 0},
        {"ftrl, 100 MB", {"ftrl", 7}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_measure(b, &(bench_pair){apply, &rows[i].update, limit_memcpy_fn, &copy},
                      &(bench_row){.name = rows[i].name,
                                   .unit = "GB/s",
                                   .reference = "memcpy 100 MB",
                                   .bar = {rows[i].bar > 0 ? BENCH_RATIO_AT_LEAST : BENCH_NO_BAR, rows[i].bar}},
                      1);
}

/* ---- Codecs: 16 MB of fp32, in GB/s of the fp32 bytes. */

typedef struct payload {
    const char *codec;
    bool decodes;
} payload;

static void code(const bench_run *run, const void *argument, double *values) {
    const payload *payload = argument;
    size_t count = (size_t)(run->quick ? 1 : 4) << 20, size;
    codec codec;
    if (codec_parse(payload->codec, &codec) != MR_OK) failed("codec");
    float *from = bench_memory(count * sizeof *from), *back = bench_memory(count * sizeof *back);
    uint8_t *message = bench_memory(codec_bound(&codec, count));
    rng rng;
    rng_init(&rng, 1);
    for (size_t i = 0; i < count; i++) from[i] = (float)(rng_unit(&rng) - 0.5);
    double spent = 0, turns = 0;
    for (; spent < run->seconds * 1e9 || turns < 2; turns++) {
        int64_t start = clock_ns();
        if ((turns == 0 || !payload->decodes) &&
            codec_encode(&codec, (uint64_t)turns, from, count, message, codec_bound(&codec, count), &size) != MR_OK)
            failed("encode");
        if (turns == 0) start = clock_ns(); /* the first is not counted */
        if (payload->decodes && codec_decode(span_of(message, size), back, count) != MR_OK) failed("decode");
        spent += (double)(clock_ns() - start);
    }
    values[0] = turns * (double)(count * sizeof *from) / spent;
}

static void codec_rows(bench *b) {
    static const limit_copy copy = {16 << 20, 1};
    static const struct {
        const char *name;
        payload payload;
    } rows[] = {
        {"fp16, encoded", {"fp16", false}},        {"fp16, decoded", {"fp16", true}},
        {"bf16, encoded", {"bf16", false}},        {"bf16, decoded", {"bf16", true}},
        {"int8, encoded", {"int8", false}},        {"int8, decoded", {"int8", true}},
        {"sign, encoded", {"sign", false}},        {"sign, decoded", {"sign", true}},
        {"topk:0.01, encoded", {"topk", false}},   {"topk:0.01, decoded", {"topk", true}},
        {"randk:0.01, encoded", {"randk", false}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_measure(b, &(bench_pair){code, &rows[i].payload, limit_memcpy_fn, &copy},
                      &(bench_row){.name = rows[i].name, .unit = "GB/s", .reference = "memcpy 16 MB"}, 1);
}

void ps_table_bench(bench *b) {
    sparse_rows(b);
    key_rows(b);
    growth_rows(b);
    optimizer_rows(b);
    codec_rows(b);
}
