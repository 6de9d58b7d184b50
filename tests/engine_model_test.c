/* engine_model_test.c — random pushes, one by one and in rounds, compared with a model made of plain arrays; and a
 * replica that is filled from the engine midway, repeatedly, and has the same bytes. */
#include "kv/engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rng.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/payload_builder.h"

enum { KEYS = 24, DIM = 3, LONG = 5, BLOCK = 8, BLOCKS = 3, RANKS = 3, ROWS = 1, COUNTERS, VECTORS, ARRAYS };

/* ---- The model. */

typedef struct model {
    struct {
        bool there;
        float values[DIM];
    } rows[KEYS];
    int64_t counters[KEYS];
    struct {
        uint32_t length;
        float values[LONG];
    } vectors[KEYS];
    float blocks[BLOCKS][BLOCK];
} model;

static const initializer row_init = {INITIALIZER_UNIFORM, -1, 1, 3, ROWS};
static const initializer block_init = {INITIALIZER_NORMAL, 0, 1, 3, (uint64_t)ARRAYS << 32};

static void begin_row(model *model, uint64_t key) {
    model->rows[key].there = false;
    initializer_fill(&row_init, MR_F32, key, 0, DIM, model->rows[key].values);
}

static void begin(model *model) {
    memset(model, 0, sizeof *model);
    for (uint64_t key = 0; key < KEYS; key++) begin_row(model, key);
    initializer_fill(&block_init, MR_F32, 0, 0, BLOCKS * BLOCK, &model->blocks[0][0]);
}

static void descend(float *values, const float *gradient, size_t count) { /* SGD with rate 0.5 */
    for (size_t i = 0; i < count; i++) values[i] = values[i] - 0.5f * gradient[i];
}

/* ---- Random pushes: one key or range at a time. */

typedef struct change {
    payload_op op;
    uint32_t table, length, first;
    uint64_t key; /* key, or number of a block */
    float values[BLOCK];
} change;

static change draw(rng *rng) {
    static const change kinds[] = {
        {PAYLOAD_ADD_ROWS, ROWS},       {PAYLOAD_ADD_ROWS, ROWS},       {PAYLOAD_SET_ROWS, ROWS},
        {PAYLOAD_ERASE, ROWS},          {PAYLOAD_ADD_ROWS, COUNTERS},   {PAYLOAD_ADD_VECTORS, VECTORS},
        {PAYLOAD_ADD_VECTORS, VECTORS}, {PAYLOAD_SET_VECTORS, VECTORS}, {PAYLOAD_ERASE, VECTORS},
        {PAYLOAD_ADD_BLOCK, ARRAYS},    {PAYLOAD_ADD_BLOCK, ARRAYS},    {PAYLOAD_SET_BLOCK, ARRAYS}};
    change change = kinds[rng_below(rng, sizeof kinds / sizeof *kinds)];
    change.key = rng_below(rng, change.table == ARRAYS ? BLOCKS : KEYS);
    change.length = change.table == ROWS ? DIM : change.table == VECTORS ? (uint32_t)rng_below(rng, LONG + 1) : 0;
    if (change.table == ARRAYS) {
        change.first = (uint32_t)rng_below(rng, BLOCK);
        change.length = 1 + (uint32_t)rng_below(rng, BLOCK - change.first);
    }
    for (size_t i = 0; i < BLOCK; i++) change.values[i] = (float)(rng_unit(rng) - 0.5);
    return change;
}

static void write(payload_writer *writer, const change *change) {
    if (change->op == PAYLOAD_ERASE)
        payload_keys(writer, PAYLOAD_ERASE, change->table, &change->key, 1);
    else if (change->table == ROWS)
        payload_rows(writer, change->op, ROWS, &change->key, 1, change->values, DIM);
    else if (change->table == COUNTERS)
        payload_counters(writer, COUNTERS, change->key, (int64_t)(change->values[0] * 1000));
    else if (change->table == VECTORS)
        payload_vector(writer, change->op, VECTORS, change->key, change->values, change->length);
    else
        payload_block(writer, change->op, ARRAYS, (payload_place){0, (uint32_t)change->key, BLOCK, change->first},
                      change->values, change->length);
}

static void write_one(payload_writer *writer, change *changes, size_t *count, rng *rng) {
    changes[*count] = draw(rng);
    write(writer, &changes[(*count)++]);
}

static void do_vector(model *model, const change *change) {
    float *values = model->vectors[change->key].values;
    uint32_t *length = &model->vectors[change->key].length;
    if (change->op != PAYLOAD_ADD_VECTORS) { /* set or erased; an erased vector has length 0 */
        memset(values, 0, sizeof model->vectors[0].values);
        *length = change->op == PAYLOAD_ERASE ? 0 : change->length;
        memcpy(values, change->values, *length * sizeof *values);
        return;
    }
    if (change->length > *length) *length = change->length;
    for (uint32_t i = 0; i < change->length; i++) values[i] += change->values[i];
}

static void do_one(model *model, const change *change) {
    float *row = model->rows[change->key % KEYS].values, *block = model->blocks[change->key % BLOCKS] + change->first;
    if (change->table == VECTORS) do_vector(model, change);
    if (change->table == COUNTERS) model->counters[change->key] += (int64_t)(change->values[0] * 1000);
    if (change->table == ROWS && change->op == PAYLOAD_ADD_ROWS) descend(row, change->values, DIM);
    if (change->table == ROWS && change->op == PAYLOAD_SET_ROWS) memcpy(row, change->values, DIM * sizeof *row);
    if (change->table == ROWS) model->rows[change->key].there = true;
    if (change->table == ROWS && change->op == PAYLOAD_ERASE) begin_row(model, change->key);
    if (change->op == PAYLOAD_ADD_BLOCK) descend(block, change->values, change->length);
    if (change->op == PAYLOAD_SET_BLOCK) memcpy(block, change->values, change->length * sizeof *block);
}

/* Applies a round: first its erases, then its sets, then the sum of the other pushes. */
static void do_round(model *model, const change *changes, size_t count) {
    struct change sums[4 * KEYS] = {0};
    size_t sum_count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++)
            if (pass == 0 ? changes[i].op == PAYLOAD_ERASE : payload_is_set(changes[i].op)) do_one(model, &changes[i]);
    for (size_t i = 0; i < count; i++) {
        const change *change = &changes[i];
        if (change->op == PAYLOAD_ERASE || payload_is_set(change->op)) continue;
        size_t at = 0;
        while (at < sum_count && (sums[at].table != change->table || sums[at].key != change->key)) at++;
        struct change *sum = &sums[at];
        bool is_new = at == sum_count;
        if (is_new) *sum = (struct change){.op = change->op, .table = change->table, .key = change->key};
        sum_count += is_new;
        if (change->table == COUNTERS) {
            do_one(model, change);
            continue;
        }
        for (uint32_t k = 0; k < change->length; k++) /* item by item: the first gradient is assigned, not added */
            sum->values[change->first + k] += change->values[k];
        if (change->first + change->length > sum->length) sum->length = change->first + change->length;
    }
    for (size_t i = 0; i < sum_count; i++)
        if (sums[i].table != COUNTERS) do_one(model, &sums[i]);
}

/* ---- Answers of the slot compared with the model. */

static const void *section_of(payload_reader *reader, payload_op op, payload_section *out) {
    assert_true(payload_next(reader, out));
    assert_int_equal(out->op, op);
    return out->values.data;
}

static void assert_shows(void *engine, const model *model, bool kept) {
    payload_writer writer = {0};
    payload_section section;
    payload_room room;
    uint64_t keys[KEYS], there = 0;
    for (uint64_t i = 0; i < KEYS; i++) keys[i] = i;
    payload_keys(&writer, PAYLOAD_GET_ROWS, ROWS, keys, KEYS);
    payload_keys(&writer, PAYLOAD_GET_ROWS, COUNTERS, keys, KEYS);
    payload_keys(&writer, PAYLOAD_GET_VECTORS, VECTORS, keys, KEYS);
    for (uint32_t i = 0; i < BLOCKS; i++) payload_get_block(&writer, ARRAYS, (payload_place){0, i, BLOCK, 0}, BLOCK);
    assert_int_equal(payload_add(&writer, (payload_head){.table = ROWS, .op = PAYLOAD_GET_RANGE}, 0, &room), MR_OK);
    room.range[1] = KEYS;
    shared_bytes *shown = engine_ops.show(engine, payload_written(&writer), kept);
    payload_reader reader = payload_open(shared_bytes_bytes(shown));
    const float *values = section_of(&reader, PAYLOAD_ROWS, &section);
    for (size_t i = 0; i < KEYS; i++)
        assert_memory_equal(values + i * DIM, model->rows[i].values, DIM * sizeof *values);
    assert_memory_equal(section_of(&reader, PAYLOAD_ROWS, &section), model->counters, sizeof model->counters);
    values = section_of(&reader, PAYLOAD_VECTORS, &section);
    for (size_t i = 0; i < KEYS; values += section.lengths[i++]) {
        assert_int_equal(section.lengths[i], model->vectors[i].length);
        assert_memory_equal(values, model->vectors[i].values, section.lengths[i] * sizeof *values);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        assert_memory_equal(section_of(&reader, PAYLOAD_BLOCK, &section), model->blocks[i], sizeof model->blocks[i]);
    (void)section_of(&reader, PAYLOAD_RANGE, &section);
    for (uint64_t i = 0; i < KEYS; i++)
        if (model->rows[i].there) assert_true(there < section.count && section.keys[there++] == i);
    assert_int_equal(there, section.count);
    shared_bytes_unref(shown);
    payload_fini(&writer);
}

static void define_all(payload_writer *writer) {
    payload_define(
        writer, (definition_options){
                    .id = ROWS, .dim = DIM, .optimizer = "sgd", .rate = 0.5, .initializer = "uniform:-1:1", .seed = 3});
    payload_define(writer, (definition_options){.id = COUNTERS, .dtype = MR_I64});
    payload_define(writer, (definition_options){.id = VECTORS, .kind = TABLE_SCHEMA_VECTORS});
    payload_define(writer, (definition_options){.id = ARRAYS,
                                                .kind = TABLE_SCHEMA_DENSE,
                                                .block = BLOCK,
                                                .optimizer = "sgd",
                                                .rate = 0.5,
                                                .initializer = "normal:0:1",
                                                .seed = 3});
}

/* ---- A sequence of pushes to a slot. */

typedef struct day {
    rng rng;
    void *engine, *copy;
    model now, before;
    bool rounds;
} day;

static shared_bytes *sum_of(const void *engine, change *changes, size_t *count, rng *rng) {
    void *sum = engine_ops.sum_begin(engine);
    for (int rank = 0; rank < RANKS; rank++) {
        payload_writer writer = {0};
        for (uint64_t i = rng_below(rng, 6); i > 0; i--) write_one(&writer, changes, count, rng);
        engine_ops.sum_add(sum, payload_written(&writer));
        payload_fini(&writer);
    }
    shared_bytes *bytes = shared_bytes_new(engine_ops.sum_size(sum));
    engine_ops.sum_write(sum, shared_bytes_room(bytes));
    engine_ops.sum_end(sum);
    assert_int_equal(payload_check(shared_bytes_bytes(bytes)), MR_OK);
    return bytes;
}

static void push(day *day, uint64_t moment) {
    change changes[RANKS * 6];
    size_t count = 0;
    shared_bytes *payload;
    day->before = day->now;
    if (day->rounds) {
        payload = sum_of(day->engine, changes, &count, &day->rng);
        do_round(&day->now, changes, count);
    } else {
        payload_writer writer = {0};
        for (uint64_t i = rng_below(&day->rng, 6); i > 0; i--) write_one(&writer, changes, &count, &day->rng);
        for (size_t i = 0; i < count; i++) do_one(&day->now, &changes[i]);
        payload = payload_take(&writer);
    }
    size_t cut = rng_chance(&day->rng, 0.1) && shared_bytes_bytes(payload).size > 0 ? 1 + rng_below(&day->rng, 7) : 0;
    if (cut != 0) day->now = day->before; /* the cut payload is malformed */
    span bytes = span_of(shared_bytes_bytes(payload).data, shared_bytes_bytes(payload).size - cut);
    engine_ops.apply(day->engine, bytes, moment);
    engine_ops.apply(day->copy, bytes, moment);
    shared_bytes_unref(payload);
}

static void refill(day *day) {
    shared_bytes *bytes = engine_fixture_bytes(day->engine);
    engine_ops.destroy(day->copy);
    day->copy = engine_ops.create(NULL, 0, day->rounds);
    assert_true(engine_ops.read(day->copy, shared_bytes_bytes(bytes)));
    shared_bytes_unref(bytes);
}

static void live(uint64_t seed, bool rounds) {
    day day = {.rounds = rounds};
    payload_writer writer = {0};
    rng_init(&day.rng, seed);
    day.engine = engine_ops.create(NULL, 0, rounds);
    day.copy = engine_ops.create(NULL, 0, rounds);
    begin(&day.now);
    define_all(&writer);
    engine_ops.apply(day.engine, payload_written(&writer), 1);
    engine_ops.apply(day.copy, payload_written(&writer), 1);
    payload_fini(&writer);
    for (uint64_t turn = 2; turn < 120; turn++) {
        push(&day, turn);
        if (rng_chance(&day.rng, 0.1)) refill(&day);
        assert_shows(day.engine, &day.now, false);
        assert_shows(day.copy, &day.now, false);
        if (rounds) assert_shows(day.engine, &day.before, true);
        if (rounds) assert_shows(day.copy, &day.before, true);
        if (turn % 10 == 0) engine_fixture_assert_same(day.engine, day.copy);
    }
    engine_fixture_assert_same(day.engine, day.copy);
    engine_ops.destroy(day.engine);
    engine_ops.destroy(day.copy);
}

static void pushes_do_what_the_model_does(void **state) {
    for (uint64_t seed = 1; seed <= 30; seed++) live(seed, false);
}

static void rounds_do_what_the_model_does(void **state) {
    for (uint64_t seed = 1; seed <= 30; seed++) live(seed, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_do_what_the_model_does),
        cmocka_unit_test(rounds_do_what_the_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
