/* shelf_test.c — tables of a slot: what pushes do, what queries show, now and before, and that copies have the same
 * bytes. */
#include "kv/shelf/shelf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/rng.h"
#include "kv/codec/codec.h"
#include "tests/support/parcels.h"
#include "tests/support/shelves.h"

/* ---- A slot, and what is said to it. */

static void *slot(bool keeps) { return shelf_ops.create(NULL, 0, keeps); }

static void apply(void *shelf, parcel_writer *writer, uint64_t moment) { /* and empties it */
    shelf_ops.apply(shelf, parcel_written(writer), moment);
    parcel_fini(writer);
}

typedef struct answers {
    bale *bale;
    parcel_reader reader;
} answers;

static answers ask(void *shelf, parcel_writer *writer, bool kept) {
    answers answers = {.bale = shelf_ops.show(shelf, parcel_written(writer), kept)};
    assert_int_equal(parcel_check(bale_bytes(answers.bale)), MR_OK);
    answers.reader = parcel_open(bale_bytes(answers.bale));
    parcel_fini(writer);
    return answers;
}

static parcel_section next(answers *answers, parcel_op op) {
    parcel_section section;
    assert_true(parcel_next(&answers->reader, &section));
    assert_int_equal(section.op, op);
    return section;
}

static void assert_end(answers *answers) {
    parcel_section section;
    assert_false(parcel_next(&answers->reader, &section));
    bale_unref(answers->bale);
}

static const float *floats(const parcel_section *section) { return (const float *)(const void *)section->values.data; }

static void define(void *shelf, definition_options options) {
    parcel_writer writer = {0};
    parcels_define(&writer, options);
    apply(shelf, &writer, 1);
}

static void push_row(void *shelf, uint64_t key, float value, uint64_t moment) {
    parcel_writer writer = {0};
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, &key, 1, &value, 1);
    apply(shelf, &writer, moment);
}

static float row_of(void *shelf, uint64_t key, bool kept) {
    parcel_writer writer = {0};
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, &key, 1);
    answers answers = ask(shelf, &writer, kept);
    parcel_section section = next(&answers, PARCEL_ROWS);
    float value = floats(&section)[0];
    assert_end(&answers);
    return value;
}

static parcel_look look_of(void *shelf) {
    parcel_writer writer = {0};
    parcel_look look;
    parcels_plain(&writer, PARCEL_GET_LOOK, 1);
    answers answers = ask(shelf, &writer, false);
    parcel_section section = next(&answers, PARCEL_LOOK);
    assert_int_equal(section.values.size, sizeof look);
    memcpy(&look, section.values.data, sizeof look);
    assert_end(&answers);
    return look;
}

static void *copy_of(void *shelf, bool keeps) {
    void *copy = slot(keeps);
    bale *bytes = shelves_bytes(shelf);
    assert_true(shelf_ops.read(copy, bale_bytes(bytes)));
    bale_unref(bytes);
    return copy;
}

/* ---- Tables. */

static void rows_are_pushed_and_pulled(void **state) {
    void *shelf = slot(false);
    parcel_writer writer = {0};
    const uint64_t keys[] = {3, 8, 9};
    const float values[] = {1, 2, 3, 4, 5, 6};
    parcels_define(&writer,
                   (definition_options){.dim = 2, .optimizer = "sgd", .rate = 0.5, .initializer = "constant:10"});
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, keys, 3, values, 2);
    apply(shelf, &writer, 1);
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, (const uint64_t[]){2, 8}, 2);
    answers answers = ask(shelf, &writer, false);
    parcel_section section = next(&answers, PARCEL_ROWS);
    assert_int_equal(section.count, 2);
    assert_int_equal(section.version, 2);
    assert_int_equal(section.values.size, 16);
    assert_true(floats(&section)[0] == 10 && floats(&section)[2] == 8.5f && floats(&section)[3] == 8);
    assert_end(&answers);
    shelf_ops.destroy(shelf);
}

static void a_push_that_pulls_shows_what_it_pushed(void **state) {
    void *shelf = slot(false);
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.id = 1});
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){5}, 1, (const float[]){7}, 1);
    size_t before = writer.size;
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){6}, 1, (const float[]){1}, 1);
    bale_room(writer.bale)[before + 5] = PARCEL_MUTE;
    parcels_keys(&writer, PARCEL_ERASE, 1, (const uint64_t[]){5}, 1);
    shelf_ops.apply(shelf, parcel_written(&writer), 1);
    answers answers = ask(shelf, &writer, false);
    parcel_section section = next(&answers, PARCEL_ROWS);
    assert_true(section.count == 1 && floats(&section)[0] == 0);
    assert_end(&answers);
    assert_true(row_of(shelf, 6, false) == 1);
    shelf_ops.destroy(shelf);
}

static void unknown_and_dropped_tables_are_told(void **state) {
    void *shelf = slot(false);
    parcel_writer writer = {0};
    const uint64_t key = 4;
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, &key, 1);
    answers answers = ask(shelf, &writer, false);
    assert_int_equal(next(&answers, PARCEL_NONE).count, PARCEL_UNKNOWN);
    assert_end(&answers);

    parcels_define(&writer, (definition_options){.initializer = "constant:3"}); /* shown as it would begin */
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, &key, 1);
    answers = ask(shelf, &writer, false);
    parcel_section section = next(&answers, PARCEL_ROWS);
    assert_true(section.version == 0 && floats(&section)[0] == 3);
    assert_end(&answers);
    assert_int_equal(shelf_look_at(shelf, NULL, 0), 0);

    define(shelf, (definition_options){.initializer = "constant:3"});
    assert_int_equal(shelf_look_at(shelf, NULL, 0), 1);
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 1, 4, (const float[]){1}, 1);
    answers = ask(shelf, &writer, false);
    assert_int_equal(next(&answers, PARCEL_NONE).count, PARCEL_MISFIT);
    assert_end(&answers);

    parcels_plain(&writer, PARCEL_DROP, 1);
    parcels_define(&writer, (definition_options){.initializer = "constant:3"}); /* too late: never again */
    apply(shelf, &writer, 2);
    parcels_define(&writer, (definition_options){.initializer = "constant:3"});
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, &key, 1);
    answers = ask(shelf, &writer, false);
    assert_int_equal(next(&answers, PARCEL_NONE).count, PARCEL_DROPPED);
    assert_end(&answers);
    shelf_ops.destroy(shelf);
}

static void the_first_definition_stays(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.initializer = "constant:3"});
    define(shelf, (definition_options){.initializer = "constant:4"});
    define(shelf, (definition_options){.initializer = "constant:3"});
    assert_true(row_of(shelf, 1, false) == 3);
    assert_int_equal(look_of(shelf).refused, 1);
    shelf_ops.destroy(shelf);
}

static void values_that_have_not_changed_are_not_sent(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.id = 1});
    push_row(shelf, 5, 1, 1);
    parcel_writer writer = {0};
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, (const uint64_t[]){5}, 1);
    const uint64_t version = 2;
    memcpy(bale_room(writer.bale) + PARCEL_HEAD, &version, sizeof version);
    bale *query = bale_copy(parcel_written(&writer));
    answers answers = ask(shelf, &writer, false);
    assert_int_equal(next(&answers, PARCEL_SAME).version, 2);
    assert_end(&answers);
    push_row(shelf, 6, 1, 1);
    bale *shown = shelf_ops.show(shelf, bale_bytes(query), false);
    assert_int_equal(bale_bytes(shown).data[4], PARCEL_ROWS);
    bale_unref(shown);
    bale_unref(query);
    shelf_ops.destroy(shelf);
}

static void ranges_are_ascending(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.id = 1});
    for (uint64_t key = 0; key < 3000; key += 3) push_row(shelf, key * 7919 % 3001, (float)(key * 7919 % 3001), 1);
    const struct {
        uint64_t first, last;
        uint32_t most;
    } ranges[] = {{0, 3001, 0}, {100, 200, 0}, {100, UINT64_MAX, 7}, {0, UINT64_MAX, 0}, {5000, 6000, 0}, {9, 3, 0}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        parcel_writer writer = {0};
        parcel_room room;
        const parcel_head head = {.table = 1, .op = PARCEL_GET_RANGE, .count = ranges[i].most};
        assert_int_equal(parcel_add(&writer, head, 0, &room), MR_OK);
        room.range[0] = ranges[i].first;
        room.range[1] = ranges[i].last;
        size_t expected = 0;
        for (uint64_t key = 0; key < 3000; key += 3)
            expected += key * 7919 % 3001 >= ranges[i].first && key * 7919 % 3001 <= ranges[i].last;
        if (ranges[i].most != 0 && expected > ranges[i].most) expected = ranges[i].most;
        answers answers = ask(shelf, &writer, false);
        parcel_section section = next(&answers, PARCEL_RANGE);
        assert_int_equal(section.count, expected);
        for (uint32_t k = 0; k < section.count; k++) {
            assert_true(k == 0 || section.keys[k - 1] < section.keys[k]);
            assert_true(floats(&section)[k] == (float)section.keys[k]);
        }
        assert_end(&answers);
    }
    shelf_ops.destroy(shelf);
}

static void vectors_are_as_long_as_the_longest(void **state) {
    void *shelf = slot(true);
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.kind = DEFINITION_VECTORS});
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 1, 4, (const float[]){1, 2, 3}, 3);
    apply(shelf, &writer, 1);
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 1, 4, (const float[]){1}, 1);
    parcels_vector(&writer, PARCEL_SET_VECTORS, 1, 6, (const float[]){5, 5}, 2);
    apply(shelf, &writer, 2);
    for (int kept = 0; kept < 2; kept++) {
        parcels_keys(&writer, PARCEL_GET_VECTORS, 1, (const uint64_t[]){4, 5, 6}, 3);
        answers answers = ask(shelf, &writer, kept);
        parcel_section section = next(&answers, PARCEL_VECTORS);
        assert_true(section.lengths[0] == 3 && section.lengths[1] == 0 && section.lengths[2] == (kept ? 0 : 2));
        assert_true(floats(&section)[0] == (kept ? 1 : 2) && floats(&section)[2] == 3);
        assert_end(&answers);
    }
    shelf_ops.destroy(shelf);
}

static void blocks_begin_where_the_array_does(void **state) {
    void *shelf = slot(false);
    definition_options options = {
        .kind = DEFINITION_DENSE, .block = 8, .initializer = "uniform:-1:1", .seed = 4, .optimizer = "momentum"};
    define(shelf, options);
    const parcel_place second = {2, 1, 5, 0}, part = {2, 1, 5, 3};
    initializer init = {INITIALIZER_UNIFORM, -1, 1, 4, (uint64_t)1 << 32 | 2};
    float expected[5], speeds[5] = {0};
    initializer_fill(&init, 0, 8, 5, expected);
    for (int turn = 0; turn < 3; turn++) {
        const float gradient[] = {1, 2, 3, 4, 5};
        parcel_writer writer = {0};
        parcels_get_block(&writer, 1, part, 2);
        parcels_block(&writer, PARCEL_ADD_BLOCK, 1, second, gradient, 5);
        answers answers = ask(shelf, &writer, false);
        parcel_section section = next(&answers, PARCEL_BLOCK);
        assert_memory_equal(section.values.data, expected + 3, 8);
        section = next(&answers, PARCEL_BLOCK);
        assert_memory_equal(section.values.data, expected, 20);
        assert_end(&answers);
        parcels_block(&writer, PARCEL_ADD_BLOCK, 1, second, gradient, 5);
        apply(shelf, &writer, 1);
        for (int i = 0; i < 5; i++) {
            speeds[i] = 0.9f * speeds[i] + gradient[i];
            expected[i] = expected[i] - 0.01f * speeds[i];
        }
    }
    assert_int_equal(look_of(shelf).keys, 1);
    shelf_ops.destroy(shelf);
}

static void dtypes_are_kept_whole(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.dtype = MR_BF16});
    push_row(shelf, 1, 1, 1);
    for (int i = 0; i < 256; i++) push_row(shelf, 1, 0x1p-10f, 1); /* each alone would be rounded away */
    parcel_writer writer = {0};
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, (const uint64_t[]){1}, 1);
    answers answers = ask(shelf, &writer, false);
    parcel_section section = next(&answers, PARCEL_ROWS);
    uint16_t half;
    assert_int_equal(section.values.size, 2);
    memcpy(&half, section.values.data, sizeof half);
    assert_true(half_from_bf16(half) == 1.25f);
    assert_end(&answers);
    parcel_room room; /* a push may be narrow, too */
    assert_int_equal(
        parcel_add(&writer, (parcel_head){.table = 1, .op = PARCEL_SET_ROWS, .dtype = MR_BF16, .count = 1}, 2, &room),
        MR_OK);
    *room.keys = 1;
    half = half_to_bf16(7);
    memcpy(room.values, &half, sizeof half);
    shelf_ops.apply(shelf, parcel_written(&writer), 1);
    answers = ask(shelf, &writer, false);
    section = next(&answers, PARCEL_ROWS);
    assert_memory_equal(section.values.data, &half, sizeof half);
    assert_end(&answers);
    shelf_ops.destroy(shelf);
}

static void counters_count(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.dtype = MR_I64});
    for (int i = 0; i < 3; i++) {
        parcel_writer writer = {0};
        parcels_counters(&writer, 1, 7, INT64_C(1) << 40);
        apply(shelf, &writer, 1);
    }
    push_row(shelf, 7, 1, 1); /* of another dtype: refused */
    parcel_writer writer = {0};
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, (const uint64_t[]){7}, 1);
    answers answers = ask(shelf, &writer, false);
    parcel_section section = next(&answers, PARCEL_ROWS);
    int64_t value;
    memcpy(&value, section.values.data, sizeof value);
    assert_true(value == INT64_C(3) << 40);
    assert_end(&answers);
    assert_int_equal(look_of(shelf).refused, 1);
    shelf_ops.destroy(shelf);
}

/* ---- What a table asks for. */

static void rates_follow_the_moment(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.optimizer = "sgd", .rate = 1, .schedule = "step:10:0.5"});
    push_row(shelf, 1, 1, 1);
    assert_true(row_of(shelf, 1, false) == -1);
    push_row(shelf, 1, 1, 10);
    assert_true(row_of(shelf, 1, false) == -2);
    push_row(shelf, 1, 1, 11);
    assert_true(row_of(shelf, 1, false) == -2.5f);
    push_row(shelf, 1, 1, 3); /* a rank that is behind */
    assert_true(row_of(shelf, 1, false) == -3.5f);
    shelf_ops.destroy(shelf);
}

static void rounds_are_averaged(void **state) {
    for (int average = 0; average < 2; average++) {
        void *shelf = slot(false), *sum = shelf_ops.sum_begin(NULL, 0);
        define(shelf, (definition_options){.average = average});
        for (int rank = 0; rank < 4; rank++) {
            parcel_writer writer = {0};
            if (rank != 2) parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){8}, 1);
            shelf_ops.sum_add(sum, parcel_written(&writer));
            parcel_fini(&writer);
        }
        bale *round = bale_new(shelf_ops.sum_size(sum));
        shelf_ops.sum_write(sum, bale_room(round));
        shelf_ops.sum_end(sum);
        shelf_ops.apply(shelf, bale_bytes(round), 1);
        bale_unref(round);
        assert_true(row_of(shelf, 1, false) == (average ? 6 : 24));
        shelf_ops.destroy(shelf);
    }
}

static void what_is_not_finite_is_left_out(void **state) {
    void *shelf = slot(false);
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.dim = 2, .refuse_nan = true});
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1, 2, 3}, 3, (const float[]){1, 2, 3, NAN, 5, 6}, 2);
    apply(shelf, &writer, 1);
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, (const uint64_t[]){1, 2, 3}, 3);
    answers answers = ask(shelf, &writer, false);
    parcel_section section = next(&answers, PARCEL_ROWS);
    assert_memory_equal(section.values.data, ((const float[]){1, 2, 0, 0, 5, 6}), 24);
    assert_end(&answers);
    assert_int_equal(look_of(shelf).left_out, 1);
    assert_int_equal(look_of(shelf).keys, 2);
    shelf_ops.destroy(shelf);
}

static void keys_are_admitted(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.admit = 3});
    for (int i = 0; i < 4; i++) push_row(shelf, 9, 1, 1);
    assert_true(row_of(shelf, 9, false) == 2);
    push_row(shelf, 10, 1, 1);
    assert_true(look_of(shelf).keys == 1 && look_of(shelf).candidates == 1);
    shelf_ops.destroy(shelf);
}

static void old_keys_go(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.age_max = 80});
    for (uint64_t key = 0; key < 200; key++) push_row(shelf, key, 1, 1);
    for (uint64_t moment = 2; moment <= 100; moment++) {
        push_row(shelf, 1000, 1, moment);
        if (moment <= 81) assert_int_equal(look_of(shelf).keys, moment == 2 ? 201 : 202);
        push_row(shelf, 2000, 1, 1); /* time does not go back: the other is not older than this one */
    }
    assert_int_equal(look_of(shelf).keys, 2);
    assert_int_equal(look_of(shelf).evicted, 200);
    push_row(shelf, 5, 1, 1000);
    assert_int_equal(look_of(shelf).keys, 1);
    shelf_ops.destroy(shelf);
}

static void the_oldest_go_when_there_are_too_many(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.rows_max = 32});
    for (uint64_t key = 1; key <= 100; key++) {
        push_row(shelf, key, 1, key);
        assert_true(look_of(shelf).keys <= 32);
        assert_true(row_of(shelf, key, false) == 1);
    }
    assert_true(row_of(shelf, 75, false) == 1 && row_of(shelf, 60, false) == 0);
    shelf_ops.destroy(shelf);
}

static void codecs_are_decoded(void **state) {
    static const char *const names[] = {"fp16", "bf16", "int8", "sign", "topk:0.5", "randk:0.5"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        enum { COUNT = 40, DIM = 5 };
        float values[COUNT * DIM], expected[COUNT * DIM];
        uint64_t keys[COUNT];
        codec codec;
        parcel_room room;
        size_t size;
        parcel_writer writer = {0};
        for (size_t i = 0; i < COUNT * DIM; i++) values[i] = (float)(i % 17) - 8;
        for (uint64_t i = 0; i < COUNT; i++) keys[i] = 3 * i;
        void *shelf = slot(false);
        define(shelf, (definition_options){.dim = DIM, .codec = names[k]});
        assert_int_equal(codec_parse(names[k], &codec), MR_OK);
        size_t bound = codec_bound(&codec, COUNT * DIM);
        const parcel_head head = {
            .table = 1, .op = PARCEL_ADD_ROWS, .flags = PARCEL_CODED, .dtype = MR_F32, .count = COUNT};
        assert_int_equal(parcel_add(&writer, head, bound, &room), MR_OK);
        memcpy(room.keys, keys, sizeof keys);
        assert_int_equal(codec_encode(&codec, 1, values, COUNT * DIM, room.values, bound, &size), MR_OK);
        assert_int_equal(codec_decode(span_of(room.values, size), expected, COUNT * DIM), MR_OK);
        parcel_trim(&writer, bound - size);
        press *press;
        if (press_open(PRESS_LZ4, &press) == MR_OK) {
            assert_int_equal(parcel_press(&writer, press), MR_OK);
            press_close(press);
        }
        apply(shelf, &writer, 1);
        parcels_keys(&writer, PARCEL_GET_ROWS, 1, keys, COUNT);
        answers answers = ask(shelf, &writer, false);
        parcel_section section = next(&answers, PARCEL_ROWS);
        for (size_t i = 0; i < COUNT * DIM; i++) assert_true(floats(&section)[i] == 0 + expected[i]);
        assert_end(&answers);
        shelf_ops.destroy(shelf);
    }
}

static void halve(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count) {
    for (size_t i = 0; i < count; i++) {
        arrays->state[0][i] += arrays->gradient[i];
        arrays->to[i] = arrays->from[i] / 2 + arrays->state[0][i];
    }
}

static void an_optimizer_of_ones_own_runs(void **state) {
    static const optim_ops mine = {.name = "mine", .states = 1, .apply = halve};
    static const optim_ops *const list[] = {&mine};
    shelf_host host = {.optimizers = list, .optimizer_count = 1};
    void *shelf = shelf_ops.create(&host, 0, false), *stranger = slot(false);
    define(shelf, (definition_options){.optimizer = "own:mine"});
    define(stranger, (definition_options){.optimizer = "own:mine"});
    push_row(shelf, 1, 4, 1);
    push_row(shelf, 1, 2, 2);
    assert_true(row_of(shelf, 1, false) == 8);
    assert_int_equal(shelf_look_at(stranger, NULL, 0), 0);
    shelf_ops.destroy(shelf);
    shelf_ops.destroy(stranger);
}

/* ---- The version before. */

static void the_version_before_is_kept(void **state) {
    void *shelf = slot(true);
    define(shelf, (definition_options){.id = 1});
    push_row(shelf, 1, 5, 1);
    assert_true(row_of(shelf, 1, false) == 5 && row_of(shelf, 1, true) == 0);
    push_row(shelf, 2, 7, 2);
    assert_true(row_of(shelf, 1, true) == 5 && row_of(shelf, 2, true) == 0 && row_of(shelf, 2, false) == 7);
    parcel_writer writer = {0};
    parcels_keys(&writer, PARCEL_ERASE, 1, (const uint64_t[]){1}, 1);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1}, 1);
    apply(shelf, &writer, 3);
    assert_true(row_of(shelf, 1, true) == 5 && row_of(shelf, 1, false) == 1);
    shelf_ops.apply(shelf, span_of("nonsense", 8), 4); /* nothing has changed since */
    assert_true(row_of(shelf, 1, true) == 1 && row_of(shelf, 1, false) == 1);
    parcels_plain(&writer, PARCEL_DROP, 1);
    apply(shelf, &writer, 5);
    assert_true(row_of(shelf, 1, true) == 1);
    void *copy = copy_of(shelf, true);
    assert_true(row_of(copy, 1, true) == 1);
    shelf_ops.apply(copy, (span){0}, 6);
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, (const uint64_t[]){1}, 1);
    answers answers = ask(copy, &writer, true);
    assert_int_equal(next(&answers, PARCEL_NONE).count, PARCEL_DROPPED);
    assert_end(&answers);
    shelf_ops.destroy(shelf);
    shelf_ops.destroy(copy);
}

/* ---- As bytes. */

static void no_other_bytes_are_read(void **state) {
    void *shelf = slot(true), *other = slot(true), *plain = slot(false);
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.optimizer = "adam", .admit = 2});
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1, 2}, 2, (const float[]){1, 2}, 1);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1}, 1);
    parcels_define(&writer, (definition_options){.id = 2, .kind = DEFINITION_VECTORS});
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 2, 4, (const float[]){1, 2, 3}, 3);
    parcels_define(&writer, (definition_options){.id = 3, .kind = DEFINITION_DENSE, .block = 8});
    parcels_block(&writer, PARCEL_ADD_BLOCK, 3, (parcel_place){0, 1, 4, 0}, (const float[]){1, 2, 3, 4}, 4);
    parcels_plain(&writer, PARCEL_DROP, 9);
    apply(shelf, &writer, 1);
    bale *bytes = shelves_bytes(shelf);
    span all = bale_bytes(bytes);
    for (size_t size = 0; size < all.size; size++) assert_false(shelf_ops.read(other, span_of(all.data, size)));
    assert_false(shelf_ops.read(plain, all)); /* it keeps nothing */
    rng rng;
    rng_init(&rng, 5);
    for (int turn = 0; turn < 2000; turn++) { /* whatever is read is written again */
        bale *wrong = bale_copy(all);
        bale_room(wrong)[rng_below(&rng, all.size)] ^= (uint8_t)(1 << rng_below(&rng, 8));
        if (shelf_ops.read(other, bale_bytes(wrong))) {
            bale *again = shelves_bytes(other);
            assert_int_equal(bale_bytes(again).size, all.size);
            bale_unref(again);
        }
        bale_unref(wrong);
    }
    assert_true(shelf_ops.read(other, all));
    shelves_assert_same(shelf, other);
    bale_unref(bytes);
    shelf_ops.destroy(shelf);
    shelf_ops.destroy(other);
    shelf_ops.destroy(plain);
}

static void what_makes_no_sense_changes_nothing(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.dim = 2});
    bale *before = shelves_bytes(shelf);
    parcel_writer writer = {0};
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1, 2}, 2, (const float[]){1, 2, 3, 4}, 2);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){2, 1}, 2, (const float[]){1, 2, 3, 4}, 2);
    shelf_ops.apply(shelf, parcel_written(&writer), 1); /* keys that do not ascend, behind some that do */
    parcel_fini(&writer);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 7, (const uint64_t[]){1}, 1, (const float[]){1}, 1); /* unknown */
    shelf_ops.apply(shelf, parcel_written(&writer), 1);
    bale *none = shelf_ops.show(shelf, span_of("nonsense", 8), false);
    assert_int_equal(bale_bytes(none).size, 0);
    bale *after = shelves_bytes(shelf);
    assert_memory_equal(bale_bytes(before).data, bale_bytes(after).data, bale_bytes(before).size);
    assert_int_equal(bale_bytes(before).size, bale_bytes(after).size);
    parcel_fini(&writer);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1, 2, 3}, 3); /* too long */
    parcels_block(&writer, PARCEL_ADD_BLOCK, 1, (parcel_place){0, 0, 1, 0}, (const float[]){1}, 1);   /* no array */
    apply(shelf, &writer, 1);
    assert_int_equal(look_of(shelf).refused, 2);
    assert_int_equal(look_of(shelf).keys, 0);
    bale_unref(none);
    bale_unref(before);
    bale_unref(after);
    shelf_ops.destroy(shelf);
}

static void bytes_need_no_alignment(void **state) {
    void *shelf = slot(false);
    define(shelf, (definition_options){.id = 1});
    parcel_writer writer = {0};
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){5}, 1);
    span written = parcel_written(&writer);
    uint8_t *odd = xmalloc(written.size + 3);
    memcpy(odd + 3, written.data, written.size);
    shelf_ops.apply(shelf, span_of(odd + 3, written.size), 1);
    bale *shown = shelf_ops.show(shelf, span_of(odd + 3, written.size), false);
    assert_int_equal(bale_bytes(shown).size, parcel_section_size(PARCEL_ROWS, 1, 4));
    assert_true(row_of(shelf, 1, false) == 5);
    bale_unref(shown);
    free(odd);
    parcel_fini(&writer);
    shelf_ops.destroy(shelf);
}

/* ---- Values that lie elsewhere. */

enum { SEEN_ITEMS = 8192, SEEN_PROCESS = 9 };

typedef struct seen { /* one process that pushes, and shows what it has */
    glass *glass;
    glass_view view;
    float *values;
    afar_sight sight;
    shelf_host host;
    void *shelf;
} seen;

static const glass_view *see(void *context, uint64_t process) {
    const seen *seen = context;
    return process == SEEN_PROCESS ? &seen->view : NULL;
}

static void seen_begin(seen *seen, bool keeps) {
    void *memory;
    assert_int_equal(glass_create(GLASS_FRONT + (4 << 20), &seen->glass), MR_OK);
    assert_int_equal(glass_take(seen->glass, SEEN_ITEMS * sizeof(float), &memory), MR_OK);
    assert_int_equal(glass_look(glass_fd(seen->glass), &seen->view), MR_OK);
    seen->values = memory;
    for (int i = 0; i < SEEN_ITEMS; i++) seen->values[i] = (float)i;
    seen->sight = (afar_sight){see, seen};
    seen->host = (shelf_host){.sight = &seen->sight, .glass = seen->glass, .process = SEEN_PROCESS};
    seen->shelf = shelf_ops.create(&seen->host, 0, keeps);
    define(seen->shelf, (definition_options){.kind = DEFINITION_DENSE, .block = SEEN_ITEMS});
}

static void seen_end(seen *seen) {
    uint64_t used = glass_used(seen->glass);
    shelf_ops.destroy(seen->shelf);
    assert_true(glass_used(seen->glass) < used); /* its blocks lay there */
    glass_look_away(&seen->view);
    glass_destroy(seen->glass);
}

static void write_afar(const seen *seen, parcel_writer *writer) {
    parcel_head head = {.table = 1, .op = PARCEL_ADD_BLOCK, .flags = PARCEL_AFAR, .dtype = MR_F32, .count = SEEN_ITEMS};
    parcel_afar afar = {.process = SEEN_PROCESS};
    parcel_room room;
    assert_true(glass_holds(seen->glass, seen->values, SEEN_ITEMS * sizeof(float), &afar.offset));
    assert_int_equal(parcel_add(writer, head, sizeof afar, &room), MR_OK);
    *room.place = (parcel_place){0, 0, SEEN_ITEMS, 0};
    memcpy(room.values, &afar, sizeof afar);
}

/* Where it lies, as it was before the last apply or is now. */
static parcel_afar look_for(const seen *seen, bool kept) {
    parcel_writer writer = {0};
    parcels_get_block(&writer, 1, (parcel_place){0, 0, SEEN_ITEMS, 4}, SEEN_ITEMS - 4);
    bale_room(writer.bale)[5] |= PARCEL_AFAR;
    answers answers = ask(seen->shelf, &writer, kept);
    parcel_section section = next(&answers, PARCEL_BLOCK);
    assert_int_equal(section.flags, PARCEL_AFAR);
    assert_true(section.afar.process == SEEN_PROCESS && section.count == SEEN_ITEMS - 4);
    assert_end(&answers);
    return section.afar;
}

static bool sees(const seen *seen, const parcel_afar *afar, float factor) {
    static float copy[SEEN_ITEMS - 4];
    if (!glass_copy(&seen->view, (uint32_t)afar->word, afar->value, afar->offset, sizeof copy, copy)) return false;
    for (int i = 0; i < SEEN_ITEMS - 4; i++) assert_true(copy[i] == factor * (float)(i + 4));
    return true;
}

static void a_push_is_read_where_it_lies_once_it_is_settled(void **state) {
    seen seen;
    parcel_writer writer = {0};
    bale *own = NULL;
    seen_begin(&seen, false);
    write_afar(&seen, &writer);
    span push = parcel_written(&writer);
    shelf_ops.apply(seen.shelf, push, 1); /* not settled: a copy could not read it either */
    assert_int_equal(look_of(seen.shelf).refused, 1);
    assert_true(shelf_ops.settle(&seen.host, push, true, &own));
    assert_null(own);
    shelf_ops.apply(seen.shelf, push, 1);
    assert_int_equal(look_of(seen.shelf).refused, 1);
    parcel_afar first = look_for(&seen, false);
    assert_true(sees(&seen, &first, 1));
    shelf_ops.apply(seen.shelf, push, 2); /* that was for one apply */
    assert_int_equal(look_of(seen.shelf).refused, 2);
    assert_true(sees(&seen, &first, 1));
    assert_true(shelf_ops.settle(&seen.host, push, false, &own)); /* with its bytes anybody applies it */
    assert_non_null(own);
    shelf_ops.apply(seen.shelf, bale_bytes(own), 2);
    bale_unref(own);
    assert_false(sees(&seen, &first, 1)); /* it has changed */
    first = look_for(&seen, false);
    assert_true(sees(&seen, &first, 2));
    assert_false(shelf_ops.settle(NULL, push, true, &own));
    parcel_fini(&writer);
    seen_end(&seen);
}

static void the_version_before_stays_in_sight(void **state) {
    seen seen;
    parcel_writer writer = {0};
    seen_begin(&seen, true);
    parcel_afar shown[4];
    for (int i = 1; i <= 3; i++) {
        parcels_block(&writer, PARCEL_ADD_BLOCK, 1, (parcel_place){0, 0, SEEN_ITEMS, 0}, seen.values, SEEN_ITEMS);
        apply(seen.shelf, &writer, (uint64_t)i);
        shown[i] = look_for(&seen, false);
        assert_true(sees(&seen, &shown[i], (float)i));
        if (i == 1) continue;
        assert_true(sees(&seen, &shown[i - 1], (float)(i - 1))); /* the next was written beside it */
        parcel_afar kept = look_for(&seen, true);
        assert_memory_equal(&kept, &shown[i - 1], sizeof kept);
    }
    assert_false(sees(&seen, &shown[1], 1)); /* and the one after that over it */
    seen_end(&seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_pushed_and_pulled),
        cmocka_unit_test(a_push_that_pulls_shows_what_it_pushed),
        cmocka_unit_test(unknown_and_dropped_tables_are_told),
        cmocka_unit_test(the_first_definition_stays),
        cmocka_unit_test(values_that_have_not_changed_are_not_sent),
        cmocka_unit_test(ranges_are_ascending),
        cmocka_unit_test(vectors_are_as_long_as_the_longest),
        cmocka_unit_test(blocks_begin_where_the_array_does),
        cmocka_unit_test(dtypes_are_kept_whole),
        cmocka_unit_test(counters_count),
        cmocka_unit_test(rates_follow_the_moment),
        cmocka_unit_test(rounds_are_averaged),
        cmocka_unit_test(what_is_not_finite_is_left_out),
        cmocka_unit_test(keys_are_admitted),
        cmocka_unit_test(old_keys_go),
        cmocka_unit_test(the_oldest_go_when_there_are_too_many),
        cmocka_unit_test(codecs_are_decoded),
        cmocka_unit_test(an_optimizer_of_ones_own_runs),
        cmocka_unit_test(the_version_before_is_kept),
        cmocka_unit_test(no_other_bytes_are_read),
        cmocka_unit_test(what_makes_no_sense_changes_nothing),
        cmocka_unit_test(bytes_need_no_alignment),
        cmocka_unit_test(a_push_is_read_where_it_lies_once_it_is_settled),
        cmocka_unit_test(the_version_before_stays_in_sight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
