/* engine_test.c — tables of a slot: definition, optimizers, codecs, rounds, and the previous version. */
#include "kv/engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kv/codec/codec.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/payload_builder.h"

static void a_push_that_pulls_shows_what_it_pushed(void **state) {
    void *engine = engine_fixture_new(false);
    payload_writer writer = {0};
    payload_define(&writer, (definition_options){.id = 1});
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){5}, 1, (const float[]){7}, 1);
    size_t before = writer.size;
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){6}, 1, (const float[]){1}, 1);
    shared_bytes_room(writer.bytes)[before + 5] = PAYLOAD_MUTE;
    payload_keys(&writer, PAYLOAD_ERASE, 1, (const uint64_t[]){5}, 1);
    engine_ops.apply(engine, payload_written(&writer), 1);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_ROWS);
    assert_true(section.count == 1 && engine_fixture_floats(&section)[0] == 0);
    engine_fixture_end(&answers);
    assert_true(engine_fixture_row(engine, 6, false) == 1);
    engine_ops.destroy(engine);
}

static void unknown_and_dropped_tables_are_told(void **state) {
    void *engine = engine_fixture_new(false);
    payload_writer writer = {0};
    const uint64_t key = 4;
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, &key, 1);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_NONE).count, PAYLOAD_UNKNOWN);
    engine_fixture_end(&answers);

    payload_define(&writer, (definition_options){.initializer = "constant:3"}); /* shown with its initial values */
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, &key, 1);
    answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_ROWS);
    assert_true(section.version == 0 && engine_fixture_floats(&section)[0] == 3);
    engine_fixture_end(&answers);
    engine_look look;
    assert_int_equal(engine_look_at(engine, 0, &look, 1), 0);

    engine_fixture_define(engine, (definition_options){.initializer = "constant:3"});
    assert_int_equal(engine_look_at(engine, 0, &look, 1), 1);
    payload_vector(&writer, PAYLOAD_ADD_VECTORS, 1, 4, (const float[]){1}, 1);
    answers = engine_fixture_ask(engine, &writer, false);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_NONE).count, PAYLOAD_MISFIT);
    engine_fixture_end(&answers);

    payload_plain(&writer, PAYLOAD_DROP, 1);
    /* a dropped id is never defined again */
    payload_define(&writer, (definition_options){.initializer = "constant:3"});
    engine_fixture_apply(engine, &writer, 2);
    payload_define(&writer, (definition_options){.initializer = "constant:3"});
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, &key, 1);
    answers = engine_fixture_ask(engine, &writer, false);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_NONE).count, PAYLOAD_DROPPED);
    engine_fixture_end(&answers);
    engine_ops.destroy(engine);
}

static void the_first_schema_stays(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.initializer = "constant:3"});
    engine_fixture_define(engine, (definition_options){.initializer = "constant:4"});
    engine_fixture_define(engine, (definition_options){.initializer = "constant:3"});
    assert_true(engine_fixture_row(engine, 1, false) == 3);
    assert_int_equal(engine_fixture_look(engine).refused, 1);
    engine_ops.destroy(engine);
}

static void values_that_have_not_changed_are_not_sent(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.id = 1});
    engine_fixture_push(engine, 5, 1, 1);
    payload_writer writer = {0};
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, (const uint64_t[]){5}, 1);
    const uint64_t version = 2;
    memcpy(shared_bytes_room(writer.bytes) + PAYLOAD_HEAD, &version, sizeof version);
    shared_bytes *query = shared_bytes_copy(payload_written(&writer));
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_SAME).version, 2);
    engine_fixture_end(&answers);
    engine_fixture_push(engine, 6, 1, 1);
    shared_bytes *shown = engine_ops.show(engine, shared_bytes_bytes(query), false);
    assert_int_equal(shared_bytes_bytes(shown).data[4], PAYLOAD_ROWS);
    shared_bytes_unref(shown);
    shared_bytes_unref(query);
    engine_ops.destroy(engine);
}

static void rates_follow_the_moment(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.optimizer = "sgd", .rate = 1, .schedule = "step:10:0.5"});
    engine_fixture_push(engine, 1, 1, 1);
    assert_true(engine_fixture_row(engine, 1, false) == -1);
    engine_fixture_push(engine, 1, 1, 10);
    assert_true(engine_fixture_row(engine, 1, false) == -2);
    engine_fixture_push(engine, 1, 1, 11);
    assert_true(engine_fixture_row(engine, 1, false) == -2.5f);
    engine_fixture_push(engine, 1, 1, 3); /* a rank that is behind the others */
    assert_true(engine_fixture_row(engine, 1, false) == -3.5f);
    engine_ops.destroy(engine);
}

/* A rate that was pushed replaces that of the schedule for one section. */
static void a_push_may_have_a_rate(void **state) {
    static const uint64_t keys[] = {1, 2};
    for (int keeps = 0; keeps < 2; keeps++) {
        void *engine = engine_fixture_new(keeps != 0);
        payload_writer writer = {0};
        engine_fixture_define(engine, (definition_options){.optimizer = "sgd", .rate = 1, .schedule = "step:10:0.5"});
        payload_rate(&writer, 1, 4);
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 1, (const float[]){1}, 1);
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys + 1, 1, (const float[]){1}, 1);
        engine_fixture_apply(engine, &writer, 11);
        assert_true(engine_fixture_row(engine, 1, false) == -4 && engine_fixture_row(engine, 2, false) == -0.5f);
        payload_rate(&writer, 2, 4); /* of another table */
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 1, (const float[]){1}, 1);
        payload_rate(&writer, 1, 0);
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys + 1, 1, (const float[]){1}, 1);
        engine_fixture_apply(engine, &writer, 11);
        assert_true(engine_fixture_row(engine, 1, false) == -4.5f && engine_fixture_row(engine, 2, false) == -0.5f);
        payload_rate(&writer, 1, 9); /* a rate alone changes nothing */
        engine_fixture_apply(engine, &writer, 12);
        engine_fixture_push(engine, 1, 1, 12);
        assert_true(engine_fixture_row(engine, 1, false) == -5);
        assert_int_equal(engine_fixture_look(engine).refused, 0);
        engine_ops.destroy(engine);
    }
}

/* Compresses the last section, if the machine has lz4. */
static bool press(payload_writer *writer) {
    compressor *compressor;
    if (compressor_open(COMPRESSOR_LZ4, &compressor) != MR_OK) return false;
    assert_int_equal(payload_press(writer, compressor), MR_OK);
    compressor_close(compressor);
    return true;
}

static void note_rate(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count) {
    for (size_t i = 0; i < count; i++) arrays->to[i] = moment->rate;
}

/* All kinds of sections: blocks, encoded and compressed rows, runs, and an optimizer of one's own. */
static void every_push_may_have_a_rate(void **state) {
    static const optim_ops mine = {.name = "mine", .apply = note_rate};
    static const optim_ops *const list[] = {&mine};
    static const uint64_t keys[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float values[8 * 16];
    engine_host host = {.optimizers = list, .optimizer_count = 1};
    void *engine = engine_ops.create(&host, 0, false);
    payload_writer writer = {0};
    payload_room room;
    engine_fixture_define(engine, (definition_options){.optimizer = "own:mine", .dim = 16, .codec = "lz4"});
    payload_define(&writer,
                   (definition_options){.id = 2, .kind = TABLE_SCHEMA_DENSE, .block = 4, .optimizer = "own:mine"});
    payload_rate(&writer, 2, 3);
    payload_block(&writer, PAYLOAD_ADD_BLOCK, 2, (payload_place){0, 0, 4, 1}, values, 2);
    payload_rate(&writer, 1, 5);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 8, values, 16);
    bool pressed = press(&writer);
    payload_rate(&writer, 1, 6);
    const payload_head run = {.table = 1, .op = PAYLOAD_ADD_ROWS, .flags = PAYLOAD_RUN, .dtype = MR_F32, .count = 2};
    assert_int_equal(payload_add(&writer, run, 2 * 16 * sizeof(float), &room), MR_OK);
    *room.keys = 20;
    memset(room.values, 0, 2 * 16 * sizeof(float));
    engine_fixture_apply(engine, &writer, 1);
    assert_true(engine_fixture_row(engine, 21, false) == 6);
    if (pressed) assert_true(engine_fixture_row(engine, 8, false) == 5);
    payload_get_block(&writer, 2, (payload_place){0, 0, 4, 0}, 4);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_BLOCK);
    assert_memory_equal(section.values.data, ((const float[]){0, 3, 3, 0}), 16);
    engine_fixture_end(&answers);
    engine_ops.destroy(engine);
}

static void rounds_are_averaged(void **state) {
    for (int average = 0; average < 2; average++) {
        void *engine = engine_fixture_new(false), *sum = engine_ops.sum_begin(engine);
        engine_fixture_define(engine, (definition_options){.average = average});
        for (int rank = 0; rank < 4; rank++) {
            payload_writer writer = {0};
            if (rank != 2) payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){8}, 1);
            engine_ops.sum_add(sum, payload_written(&writer));
            payload_fini(&writer);
        }
        shared_bytes *round = shared_bytes_new(engine_ops.sum_size(sum));
        engine_ops.sum_write(sum, shared_bytes_room(round));
        engine_ops.sum_end(sum);
        engine_ops.apply(engine, shared_bytes_bytes(round), 1);
        shared_bytes_unref(round);
        assert_true(engine_fixture_row(engine, 1, false) == (average ? 6 : 24));
        engine_ops.destroy(engine);
    }
}

static void codecs_are_decoded(void **state) {
    static const char *const names[] = {"fp16", "bf16", "int8", "sign", "topk:0.5", "randk:0.5"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        enum { COUNT = 40, DIM = 5 };
        float values[COUNT * DIM], expected[COUNT * DIM];
        uint64_t keys[COUNT];
        codec codec;
        payload_room room;
        size_t size;
        payload_writer writer = {0};
        for (size_t i = 0; i < COUNT * DIM; i++) values[i] = (float)(i % 17) - 8;
        for (uint64_t i = 0; i < COUNT; i++) keys[i] = 3 * i;
        void *engine = engine_fixture_new(false);
        char pressed[40];
        snprintf(pressed, sizeof pressed, "%s+lz4", names[k]);
        engine_fixture_define(engine, (definition_options){.dim = DIM, .codec = pressed});
        assert_int_equal(codec_parse(names[k], &codec), MR_OK);
        size_t bound = codec_bound(&codec, COUNT * DIM);
        const payload_head head = {
            .table = 1, .op = PAYLOAD_ADD_ROWS, .flags = PAYLOAD_CODED, .dtype = MR_F32, .count = COUNT};
        assert_int_equal(payload_add(&writer, head, bound, &room), MR_OK);
        memcpy(room.keys, keys, sizeof keys);
        assert_int_equal(codec_encode(&codec, 1, values, COUNT * DIM, room.values, bound, &size), MR_OK);
        assert_int_equal(codec_decode(span_of(room.values, size), expected, COUNT * DIM), MR_OK);
        payload_trim(&writer, bound - size);
        (void)press(&writer);
        engine_fixture_apply(engine, &writer, 1);
        payload_keys(&writer, PAYLOAD_GET_ROWS, 1, keys, COUNT);
        engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
        payload_section section = engine_fixture_next(&answers, PAYLOAD_ROWS);
        for (size_t i = 0; i < COUNT * DIM; i++) assert_true(engine_fixture_floats(&section)[i] == 0 + expected[i]);
        engine_fixture_end(&answers);
        engine_ops.destroy(engine);
    }
}

/* A server has the libraries of its tables only: another compression must not make it end. */
static void only_the_compression_of_the_table_is_decoded(void **state) {
    static const char *const names[] = {"none", "zstd", "lz4"};
    static const uint64_t keys[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const float values[8 * 16];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool agreed = i == 2;
        void *engine = engine_fixture_new(false);
        payload_writer writer = {0};
        engine_fixture_define(engine, (definition_options){.dim = 16, .codec = names[i]});
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 8, values, 16);
        if (press(&writer)) {
            engine_fixture_apply(engine, &writer, 1);
            assert_int_equal(engine_fixture_look(engine).refused, !agreed);
            assert_int_equal(engine_fixture_look(engine).keys, agreed ? 8 : 0);
        }
        payload_fini(&writer);
        engine_ops.destroy(engine);
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
    engine_host host = {.optimizers = list, .optimizer_count = 1};
    void *engine = engine_ops.create(&host, 0, false), *stranger = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.optimizer = "own:mine"});
    engine_fixture_define(stranger, (definition_options){.optimizer = "own:mine"});
    engine_fixture_push(engine, 1, 4, 1);
    engine_fixture_push(engine, 1, 2, 2);
    assert_true(engine_fixture_row(engine, 1, false) == 8);
    engine_look look;
    assert_int_equal(engine_look_at(stranger, 0, &look, 1), 0);
    engine_ops.destroy(engine);
    engine_ops.destroy(stranger);
}

static void the_version_before_is_kept(void **state) {
    void *engine = engine_fixture_new(true);
    engine_fixture_define(engine, (definition_options){.id = 1});
    engine_fixture_push(engine, 1, 5, 1);
    assert_true(engine_fixture_row(engine, 1, false) == 5 && engine_fixture_row(engine, 1, true) == 0);
    engine_fixture_push(engine, 2, 7, 2);
    assert_true(engine_fixture_row(engine, 1, true) == 5 && engine_fixture_row(engine, 2, true) == 0 &&
                engine_fixture_row(engine, 2, false) == 7);
    payload_writer writer = {0};
    payload_keys(&writer, PAYLOAD_ERASE, 1, (const uint64_t[]){1}, 1);
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1}, 1);
    engine_fixture_apply(engine, &writer, 3);
    assert_true(engine_fixture_row(engine, 1, true) == 5 && engine_fixture_row(engine, 1, false) == 1);
    engine_ops.apply(engine, span_of("nonsense", 8), 4); /* a malformed push changes nothing */
    assert_true(engine_fixture_row(engine, 1, true) == 1 && engine_fixture_row(engine, 1, false) == 1);
    payload_plain(&writer, PAYLOAD_DROP, 1);
    engine_fixture_apply(engine, &writer, 5);
    assert_true(engine_fixture_row(engine, 1, true) == 1);
    void *copy = engine_fixture_copy(engine, true);
    assert_true(engine_fixture_row(copy, 1, true) == 1);
    engine_ops.apply(copy, (span){0}, 6);
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, (const uint64_t[]){1}, 1);
    engine_fixture_answers answers = engine_fixture_ask(copy, &writer, true);
    assert_int_equal(engine_fixture_next(&answers, PAYLOAD_NONE).count, PAYLOAD_DROPPED);
    engine_fixture_end(&answers);
    engine_ops.destroy(engine);
    engine_ops.destroy(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_that_pulls_shows_what_it_pushed),
        cmocka_unit_test(unknown_and_dropped_tables_are_told),
        cmocka_unit_test(the_first_schema_stays),
        cmocka_unit_test(values_that_have_not_changed_are_not_sent),
        cmocka_unit_test(rates_follow_the_moment),
        cmocka_unit_test(a_push_may_have_a_rate),
        cmocka_unit_test(every_push_may_have_a_rate),
        cmocka_unit_test(rounds_are_averaged),
        cmocka_unit_test(codecs_are_decoded),
        cmocka_unit_test(only_the_compression_of_the_table_is_decoded),
        cmocka_unit_test(an_optimizer_of_ones_own_runs),
        cmocka_unit_test(the_version_before_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
