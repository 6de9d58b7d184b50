/* ps_engine_bench.c — work of a server per request, from received bytes to bytes to send: check a payload, look up its
 * keys, apply or answer it. Without the network, which ps_bench measures. Requests have 10 k keys, drawn evenly from
 * all present keys and ascending, as workers send them. The reference of rows is the same work on the bare table
 * (sparse_table.h, optim.h), the reference of dense arrays is memcpy of as many bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/limits.h"
#include "bench/suites.h"
#include "kv/engine/engine.h"
#include "kv/table/huge_pages.h"
#include "kv/table/key_sort.h"
#include "kv/table/sparse_table.h"

enum { REQUEST = 10000, REQUESTS = 32, FILL = 1000, BLOCK = 1 << 18 };

static void must(mr_status status) {
    if (status != MR_OK) bench_fail("%s", mr_last_error());
}

/* ---- A slot with one table. */

static shared_bytes *definition_payload(mr_ps_table_options options) {
    payload_writer writer = {0};
    payload_room room;
    table_schema made;
    must(table_schema_make(1, &options, &made));
    must(payload_add(&writer, (payload_head){.table = 1, .op = PAYLOAD_DEFINE}, TABLE_SCHEMA_SIZE, &room));
    table_schema_encode(&made, room.values);
    return payload_take(&writer);
}

static void *slot(mr_ps_table_options options, bool keeps) {
    huge_pages_keep_freed(); /* configured as in a server */
    void *engine = engine_ops.create(NULL, 0, keeps);
    shared_bytes *payload = definition_payload(options);
    engine_ops.apply(engine, shared_bytes_bytes(payload), 1);
    shared_bytes_unref(payload);
    return engine;
}

static uint64_t key_of(uint64_t i) { return i * UINT64_C(2654435761) + 7; }

static shared_bytes *rows_payload(payload_op op, const uint64_t *keys, uint32_t count, uint32_t dim) {
    payload_writer writer = {0};
    payload_room room;
    bool pushes = payload_is_push(op);
    payload_head head = {.table = 1, .op = op, .dtype = pushes ? MR_F32 : 0, .count = count};
    must(payload_add(&writer, head, pushes ? (size_t)count * dim * sizeof(float) : 0, &room));
    memcpy(room.keys, keys, count * sizeof *keys);
    for (size_t i = 0; pushes && i < (size_t)count * dim; i++) ((float *)room.values)[i] = 1e-3f;
    return payload_take(&writer);
}

static void fill(void *engine, uint64_t rows, uint32_t dim) {
    uint64_t keys[FILL];
    for (uint64_t at = 0; at < rows; at += FILL) {
        for (uint64_t i = 0; i < FILL; i++) keys[i] = key_of(at + i);
        key_sort_keys(keys, FILL);
        shared_bytes *payload = rows_payload(PAYLOAD_ADD_ROWS, keys, FILL, dim);
        engine_ops.apply(engine, shared_bytes_bytes(payload), 1);
        shared_bytes_unref(payload);
    }
}

/* ---- Rows. */

typedef struct scene {
    uint64_t rows;
    uint32_t dim, keys; /* keys of a request */
    payload_op op;
    bool keeps;
} scene;

static void draw(const scene *scene, uint64_t *keys, rng *rng) {
    size_t count = 0;
    for (uint32_t i = 0; i < scene->keys; i++) keys[i] = key_of(rng_below(rng, scene->rows));
    key_sort_keys(keys, scene->keys);
    for (uint32_t i = 0; i < scene->keys; i++)
        if (i == 0 || keys[i] != keys[count - 1]) keys[count++] = keys[i];
    for (; count < scene->keys; count++) keys[count] = keys[count - 1] + 1; /* some keys are new */
}

/* The steady state of a server: the growth of the index is complete. Pushes complete it step by step. */
static void settle(void *engine, const scene *scene, uint64_t *keys, rng *rng) {
    for (uint64_t had = 0; had < scene->rows; had += scene->keys) {
        draw(scene, keys, rng);
        shared_bytes *payload = rows_payload(PAYLOAD_ADD_ROWS, keys, scene->keys, scene->dim);
        engine_ops.apply(engine, shared_bytes_bytes(payload), 1);
        shared_bytes_unref(payload);
    }
}

static void serve(const bench_run *run, const void *argument, double *values) {
    const scene *scene = argument;
    void *engine = slot((mr_ps_table_options){.dim = scene->dim, .optimizer = "sgd"}, scene->keeps);
    uint64_t *keys = bench_memory(scene->keys * sizeof *keys);
    shared_bytes *requests[REQUESTS];
    rng rng;
    rng_init(&rng, 1);
    fill(engine, scene->rows, scene->dim);
    settle(engine, scene, keys, &rng);
    for (size_t i = 0; i < REQUESTS; i++) {
        draw(scene, keys, &rng);
        requests[i] = rows_payload(scene->op, keys, scene->keys, scene->dim);
        engine_ops.apply(engine, shared_bytes_bytes(requests[i]), 1); /* creates rows for new keys */
    }
    double spent = 0, count = 0;
    for (size_t turn = 0; spent < run->seconds * 1e9; turn = (turn + 1) % REQUESTS, count += scene->keys) {
        span request = shared_bytes_bytes(requests[turn]);
        int64_t start = clock_ns();
        if (payload_is_push(scene->op))
            engine_ops.apply(engine, request, 1);
        else
            shared_bytes_unref(engine_ops.show(engine, request, false));
        spent += (double)(clock_ns() - start);
    }
    values[0] = count * 1e3 / spent;
    values[1] = spent / count;
}

/* Measures the same work on the table alone. */
static void bare(const bench_run *run, const void *argument, double *values) {
    const scene *scene = argument;
    const sparse_table_options options = {.dtype = MR_F32, .dim = scene->dim};
    const optim_ops *ops;
    optim sgd;
    sparse *table;
    rng rng;
    rng_init(&rng, 1);
    must(sparse_table_create(&options, &table));
    must(optim_find("sgd", &ops));
    optim_settings settings = optim_defaults(ops);
    must(optim_init(&sgd, ops, &settings));
    uint64_t *keys = bench_memory((size_t)scene->keys * REQUESTS * sizeof *keys), some[FILL];
    void **rows = bench_memory((scene->keys > FILL ? scene->keys : FILL) * sizeof *rows);
    float *row_values = bench_memory((size_t)scene->keys * scene->dim * sizeof *row_values);
    for (uint64_t at = 0; at < scene->rows; at += FILL) {
        for (uint64_t i = 0; i < FILL; i++) some[i] = key_of(at + i);
        must(sparse_table_touch(table, some, FILL, 0, rows, NULL));
    }
    for (uint64_t had = 0; had < scene->rows; had += scene->keys) { /* as in settle */
        draw(scene, keys, &rng);
        must(sparse_table_touch(table, keys, scene->keys, 0, rows, NULL));
    }
    for (size_t i = 0; i < REQUESTS; i++) draw(scene, keys + i * scene->keys, &rng);
    double spent = 0, count = 0;
    for (size_t turn = 0; spent < run->seconds * 1e9; turn = (turn + 1) % REQUESTS, count += scene->keys) {
        const uint64_t *wanted = keys + turn * scene->keys;
        int64_t start = clock_ns();
        if (payload_is_push(scene->op)) {
            must(sparse_table_touch(table, wanted, scene->keys, 0, rows, NULL));
            optim_rows(&sgd, rows, scene->keys, scene->dim, row_values, 0.01f, 1);
        } else {
            sparse_table_read(table, wanted, scene->keys, MR_F32, row_values);
        }
        spent += (double)(clock_ns() - start);
    }
    values[0] = count * 1e3 / spent;
    values[1] = spent / count;
}

static void request_rows(bench *b) {
    static const struct {
        const char *name;
        scene scene;
        double bar; /* keys per second; 0: no bar */
    } rows[] = {
        {"pull, 16 floats, 1 M rows", {1000000, 16, REQUEST, PAYLOAD_GET_ROWS, false}, 28},
        {"pull, 16 floats, 10 M rows", {10000000, 16, REQUEST, PAYLOAD_GET_ROWS, false}, 15},
        {"push, 16 floats, 1 M rows", {1000000, 16, REQUEST, PAYLOAD_ADD_ROWS, false}, 20},
        {"push, 16 floats, 10 M rows", {10000000, 16, REQUEST, PAYLOAD_ADD_ROWS, false}, 12},
        {"push, 16 floats, 1 M rows, version kept", {1000000, 16, REQUEST, PAYLOAD_ADD_ROWS, true}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_measure(b, &(bench_pair){serve, &rows[i].scene, bare, &rows[i].scene},
                      &(bench_row){.name = rows[i].name,
                                   .unit = "M keys/s",
                                   .reference = "the bare table",
                                   .bar = {rows[i].bar > 0 ? BENCH_VALUE_AT_LEAST : BENCH_NO_BAR, rows[i].bar}},
                      1);
}

static void key_rows(bench *b) {
    static const struct {
        const char *name;
        scene scene;
        double bar; /* ns; 0: no bar */
    } rows[] = {
        {"pull, work a key, 1 float, 1 M rows", {1000000, 1, REQUEST, PAYLOAD_GET_ROWS, false}, 25},
        {"push, work a key, 1 float, 1 M rows", {1000000, 1, REQUEST, PAYLOAD_ADD_ROWS, false}, 25},
        {"push of one key, 4 floats", {1000, 4, 1, PAYLOAD_ADD_ROWS, false}, 0},
        {"pull of one key, 4 floats", {1000, 4, 1, PAYLOAD_GET_ROWS, false}, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_measure(b, &(bench_pair){serve, &rows[i].scene, bare, &rows[i].scene},
                      &(bench_row){.name = rows[i].name,
                                   .unit = "ns",
                                   .value = 1,
                                   .reference = "the bare table",
                                   .ref_value = 1,
                                   .bar = {rows[i].bar > 0 ? BENCH_VALUE_AT_MOST : BENCH_NO_BAR, rows[i].bar}},
                      1);
}

/* ---- Ranges, of a slot with 1 M rows of 16 floats. The reference is a pull of as many listed keys. */

enum { RANGED = 1000000, RANGED_DIM = 16 };

/* A query for `count` consecutive rows: as a range, or as a list of keys. */
static shared_bytes *range_payload(uint64_t from, uint32_t count, bool lists) {
    payload_writer writer = {0};
    payload_room room;
    payload_head head = {.table = 1, .op = lists ? PAYLOAD_GET_ROWS : PAYLOAD_GET_RANGE, .count = count};
    must(payload_add(&writer, head, 0, &room));
    for (uint32_t i = 0; lists && i < count; i++) room.keys[i] = key_of(from + i);
    if (!lists) room.range[0] = key_of(from);
    if (!lists) room.range[1] = key_of(from + count - 1);
    return payload_take(&writer);
}

static double pull_range(void *engine, uint64_t from, uint32_t count, bool lists) { /* returns ns */
    shared_bytes *request = range_payload(from, count, lists);
    int64_t start = clock_ns();
    shared_bytes *answer = engine_ops.show(engine, shared_bytes_bytes(request), false);
    double spent = (double)(clock_ns() - start);
    if (shared_bytes_bytes(answer).size < count * RANGED_DIM * sizeof(float)) bench_fail("rows are missing");
    shared_bytes_unref(answer);
    shared_bytes_unref(request);
    return spent;
}

/* values: µs of a range, ms of the first one. */
static void pull_ranges(const bench_run *run, uint32_t count, bool lists, double *values) {
    void *engine = slot((mr_ps_table_options){.dim = RANGED_DIM, .ordered = 1, .optimizer = "sgd"}, false);
    rng rng;
    rng_init(&rng, 1);
    fill(engine, RANGED, RANGED_DIM);
    double spent = 0, ranges = 0, first = pull_range(engine, 0, count, lists);
    for (; spent < run->seconds * 1e9; ranges++)
        spent += pull_range(engine, rng_below(&rng, RANGED - count + 1), count, lists);
    values[0] = spent / ranges / 1e3;
    values[1] = first / 1e6;
}

static void ranges_of(const bench_run *run, const void *argument, double *values) {
    pull_ranges(run, *(const uint32_t *)argument, false, values);
}
static void lists_of(const bench_run *run, const void *argument, double *values) {
    pull_ranges(run, *(const uint32_t *)argument, true, values);
}

/* Pushes new keys to an empty slot. argument: pushes between two ranges; 0: no ranges. values: ns of a
 * new key, without the ranges; µs of a range. */
static void grow(const bench_run *run, const void *argument, double *values) {
    enum { MOST = 4000 };
    const uint32_t every = *(const uint32_t *)argument;
    uint64_t keys[FILL];
    double pushed = 0, ranged = 0, ranges = 0;
    uint64_t count = 0;
    void *engine = slot((mr_ps_table_options){.dim = RANGED_DIM, .ordered = 1, .optimizer = "sgd"}, false);
    for (; count < MOST && pushed < run->seconds * 1e9; count++) {
        for (uint64_t i = 0; i < FILL; i++) keys[i] = key_of(i * MOST + count); /* all over the range */
        shared_bytes *payload = rows_payload(PAYLOAD_ADD_ROWS, keys, FILL, RANGED_DIM);
        int64_t start = clock_ns();
        engine_ops.apply(engine, shared_bytes_bytes(payload), 1);
        pushed += (double)(clock_ns() - start);
        shared_bytes_unref(payload);
        if (every == 0 || count % every != 0) continue;
        shared_bytes *request = range_payload(0, MOST, false);
        start = clock_ns();
        shared_bytes_unref(engine_ops.show(engine, shared_bytes_bytes(request), false));
        ranged += (double)(clock_ns() - start);
        ranges++;
        shared_bytes_unref(request);
    }
    values[0] = pushed / (double)(count * FILL);
    values[1] = ranges == 0 ? 0 : ranged / ranges / 1e3;
}

static void range_rows(bench *b) {
    static const struct {
        const char *name, *first;
        uint32_t count;
    } rows[] = {{"range of 10 rows", "range of 10 rows, the first", 10},
                {"range of 1,000 rows", "range of 1,000 rows, the first", 1000},
                {"range of 100,000 rows", "range of 100,000 rows, the first", 100000}};
    static const uint32_t never = 0, often = 10;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bench_row both[] = {
            {.name = rows[i].name, .unit = "µs", .reference = "a list of as many keys"},
            {.name = rows[i].first, .unit = "ms", .value = 1, .reference = "a list of as many keys", .ref_value = 1}};
        bench_measure(b, &(bench_pair){ranges_of, &rows[i].count, lists_of, &rows[i].count}, both, 2);
    }
    bench_measure(
        b, &(bench_pair){grow, &often, grow, &never},
        &(bench_row){.name = "push of new keys, a range every 10,000", .unit = "ns", .reference = "without ranges"}, 1);
}

/* ---- Rounds: contributions of 4 ranks, 10 k keys of 16 floats each, added up. */

enum { RANKS = 4, WIDTH = 16 };

static void sum(const bench_run *run, const void *argument, double *values) {
    const scene drawn = {*(const uint64_t *)argument, WIDTH, REQUEST, PAYLOAD_ADD_ROWS, true};
    uint64_t *keys = bench_memory(REQUEST * sizeof *keys);
    shared_bytes *contributions[RANKS];
    rng rng;
    rng_init(&rng, 1);
    huge_pages_keep_freed();
    void *engine = engine_ops.create(NULL, 0, true);
    for (size_t i = 0; i < RANKS; i++) {
        draw(&drawn, keys, &rng);
        contributions[i] = rows_payload(PAYLOAD_ADD_ROWS, keys, REQUEST, WIDTH);
    }
    double spent = 0, count = 0;
    for (; spent < run->seconds * 1e9; count += RANKS * REQUEST) {
        int64_t start = clock_ns();
        void *sum = engine_ops.sum_begin(engine);
        for (size_t i = 0; i < RANKS; i++) engine_ops.sum_add(sum, shared_bytes_bytes(contributions[i]));
        shared_bytes *bytes = shared_bytes_new(engine_ops.sum_size(sum));
        engine_ops.sum_write(sum, shared_bytes_room(bytes));
        engine_ops.sum_end(sum);
        shared_bytes_unref(bytes);
        spent += (double)(clock_ns() - start);
    }
    engine_ops.destroy(engine);
    values[0] = count * 1e3 / spent;
}

static void round_rows(bench *b) {
    static const uint64_t many = 1000000, few = REQUEST;
    bench_measure(b, &(bench_pair){.ours = sum, .argument = &many},
                  &(bench_row){.name = "sum of 4 ranks, keys of 1 M", .unit = "M keys/s"}, 1);
    bench_measure(b, &(bench_pair){.ours = sum, .argument = &few},
                  &(bench_row){.name = "sum of 4 ranks, keys of 10 k", .unit = "M keys/s"}, 1);
}

/* ---- Dense arrays: pushed with add, and pulled. */

typedef struct array {
    size_t bytes;
    bool pulls;
} array;

/* Section for the block that begins with the item `at`: a worker's request has at most one section per block. */
static shared_bytes *block_payload(const array *array, uint32_t at) {
    payload_writer writer = {0};
    payload_room room;
    uint32_t left = (uint32_t)(array->bytes / sizeof(float)) - at, count = left < BLOCK ? left : BLOCK;
    payload_head head = {.table = 1, .op = PAYLOAD_ADD_BLOCK, .dtype = MR_F32, .count = count};
    if (array->pulls) head = (payload_head){.table = 1, .op = PAYLOAD_GET_BLOCK, .count = count};
    must(payload_add(&writer, head, array->pulls ? 0 : count * sizeof(float), &room));
    *room.place = (payload_place){0, at / BLOCK, count, 0};
    for (uint32_t i = 0; !array->pulls && i < count; i++) ((float *)room.values)[i] = (float)(i % 97);
    return payload_take(&writer);
}

static void carry(const bench_run *run, const void *argument, double *values) {
    const array *array = argument;
    const struct array pushed = {array->bytes, false};
    void *engine = slot((mr_ps_table_options){.kind = MR_PS_DENSE, .block = BLOCK}, false);
    uint32_t items = (uint32_t)(array->bytes / sizeof(float)), blocks = (items + BLOCK - 1) / BLOCK;
    shared_bytes **requests = bench_memory(blocks * sizeof(shared_bytes *));
    for (uint32_t i = 0; i < blocks; i++) {
        shared_bytes *push = block_payload(&pushed, i * BLOCK);
        engine_ops.apply(engine, shared_bytes_bytes(push), 1);
        shared_bytes_unref(push);
        requests[i] = block_payload(array, i * BLOCK);
    }
    double spent = 0, turns = 0;
    for (; spent < run->seconds * 1e9 || turns < 3; turns++) {
        int64_t start = clock_ns();
        for (uint32_t i = 0; i < blocks; i++) {
            if (array->pulls)
                shared_bytes_unref(engine_ops.show(engine, shared_bytes_bytes(requests[i]), false));
            else
                engine_ops.apply(engine, shared_bytes_bytes(requests[i]), 1);
        }
        spent += (double)(clock_ns() - start);
    }
    values[0] = turns * (double)array->bytes / spent;
}

static void array_rows(bench *b) {
    static const struct {
        const char *name;
        array array;
        limit_copy copy;
    } rows[] = {
        {"dense push with add, 1 MB", {1 << 20, false}, {1 << 20, 1}},
        {"dense push with add, 16 MB", {16 << 20, false}, {16 << 20, 1}},
        {"dense push with add, 100 MB", {100 << 20, false}, {100 << 20, 1}},
        {"dense pull, 1 MB", {1 << 20, true}, {1 << 20, 1}},
        {"dense pull, 16 MB", {16 << 20, true}, {16 << 20, 1}},
        {"dense pull, 100 MB", {100 << 20, true}, {100 << 20, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        bench_measure(b, &(bench_pair){carry, &rows[i].array, limit_memcpy_fn, &rows[i].copy},
                      &(bench_row){.name = rows[i].name, .unit = "GB/s", .reference = "memcpy of as much"}, 1);
}

void ps_engine_bench(bench *b) {
    request_rows(b);
    key_rows(b);
    range_rows(b);
    round_rows(b);
    array_rows(b);
}
