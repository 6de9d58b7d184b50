/* shelf_test.c — tables of a slot: which there are, what optimizers, codecs and rounds make of pushes, and the version
 * before. */
#include "kv/shelf/shelf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kv/codec/codec.h"
#include "tests/support/parcels.h"
#include "tests/support/shelves.h"

static void a_push_that_pulls_shows_what_it_pushed(void **state) {
    void *shelf = shelves_new(false);
    parcel_writer writer = {0};
    parcels_define(&writer, (definition_options){.id = 1});
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){5}, 1, (const float[]){7}, 1);
    size_t before = writer.size;
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){6}, 1, (const float[]){1}, 1);
    bale_room(writer.bale)[before + 5] = PARCEL_MUTE;
    parcels_keys(&writer, PARCEL_ERASE, 1, (const uint64_t[]){5}, 1);
    shelf_ops.apply(shelf, parcel_written(&writer), 1);
    shelves_answers answers = shelves_ask(shelf, &writer, false);
    parcel_section section = shelves_next(&answers, PARCEL_ROWS);
    assert_true(section.count == 1 && shelves_floats(&section)[0] == 0);
    shelves_end(&answers);
    assert_true(shelves_row(shelf, 6, false) == 1);
    shelf_ops.destroy(shelf);
}

static void unknown_and_dropped_tables_are_told(void **state) {
    void *shelf = shelves_new(false);
    parcel_writer writer = {0};
    const uint64_t key = 4;
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, &key, 1);
    shelves_answers answers = shelves_ask(shelf, &writer, false);
    assert_int_equal(shelves_next(&answers, PARCEL_NONE).count, PARCEL_UNKNOWN);
    shelves_end(&answers);

    parcels_define(&writer, (definition_options){.initializer = "constant:3"}); /* shown as it would begin */
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, &key, 1);
    answers = shelves_ask(shelf, &writer, false);
    parcel_section section = shelves_next(&answers, PARCEL_ROWS);
    assert_true(section.version == 0 && shelves_floats(&section)[0] == 3);
    shelves_end(&answers);
    assert_int_equal(shelf_look_at(shelf, NULL, 0), 0);

    shelves_define(shelf, (definition_options){.initializer = "constant:3"});
    assert_int_equal(shelf_look_at(shelf, NULL, 0), 1);
    parcels_vector(&writer, PARCEL_ADD_VECTORS, 1, 4, (const float[]){1}, 1);
    answers = shelves_ask(shelf, &writer, false);
    assert_int_equal(shelves_next(&answers, PARCEL_NONE).count, PARCEL_MISFIT);
    shelves_end(&answers);

    parcels_plain(&writer, PARCEL_DROP, 1);
    parcels_define(&writer, (definition_options){.initializer = "constant:3"}); /* too late: never again */
    shelves_apply(shelf, &writer, 2);
    parcels_define(&writer, (definition_options){.initializer = "constant:3"});
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, &key, 1);
    answers = shelves_ask(shelf, &writer, false);
    assert_int_equal(shelves_next(&answers, PARCEL_NONE).count, PARCEL_DROPPED);
    shelves_end(&answers);
    shelf_ops.destroy(shelf);
}

static void the_first_definition_stays(void **state) {
    void *shelf = shelves_new(false);
    shelves_define(shelf, (definition_options){.initializer = "constant:3"});
    shelves_define(shelf, (definition_options){.initializer = "constant:4"});
    shelves_define(shelf, (definition_options){.initializer = "constant:3"});
    assert_true(shelves_row(shelf, 1, false) == 3);
    assert_int_equal(shelves_look(shelf).refused, 1);
    shelf_ops.destroy(shelf);
}

static void values_that_have_not_changed_are_not_sent(void **state) {
    void *shelf = shelves_new(false);
    shelves_define(shelf, (definition_options){.id = 1});
    shelves_push(shelf, 5, 1, 1);
    parcel_writer writer = {0};
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, (const uint64_t[]){5}, 1);
    const uint64_t version = 2;
    memcpy(bale_room(writer.bale) + PARCEL_HEAD, &version, sizeof version);
    bale *query = bale_copy(parcel_written(&writer));
    shelves_answers answers = shelves_ask(shelf, &writer, false);
    assert_int_equal(shelves_next(&answers, PARCEL_SAME).version, 2);
    shelves_end(&answers);
    shelves_push(shelf, 6, 1, 1);
    bale *shown = shelf_ops.show(shelf, bale_bytes(query), false);
    assert_int_equal(bale_bytes(shown).data[4], PARCEL_ROWS);
    bale_unref(shown);
    bale_unref(query);
    shelf_ops.destroy(shelf);
}

static void rates_follow_the_moment(void **state) {
    void *shelf = shelves_new(false);
    shelves_define(shelf, (definition_options){.optimizer = "sgd", .rate = 1, .schedule = "step:10:0.5"});
    shelves_push(shelf, 1, 1, 1);
    assert_true(shelves_row(shelf, 1, false) == -1);
    shelves_push(shelf, 1, 1, 10);
    assert_true(shelves_row(shelf, 1, false) == -2);
    shelves_push(shelf, 1, 1, 11);
    assert_true(shelves_row(shelf, 1, false) == -2.5f);
    shelves_push(shelf, 1, 1, 3); /* a rank that is behind */
    assert_true(shelves_row(shelf, 1, false) == -3.5f);
    shelf_ops.destroy(shelf);
}

static void rounds_are_averaged(void **state) {
    for (int average = 0; average < 2; average++) {
        void *shelf = shelves_new(false), *sum = shelf_ops.sum_begin(NULL, 0);
        shelves_define(shelf, (definition_options){.average = average});
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
        assert_true(shelves_row(shelf, 1, false) == (average ? 6 : 24));
        shelf_ops.destroy(shelf);
    }
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
        void *shelf = shelves_new(false);
        shelves_define(shelf, (definition_options){.dim = DIM, .codec = names[k]});
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
        shelves_apply(shelf, &writer, 1);
        parcels_keys(&writer, PARCEL_GET_ROWS, 1, keys, COUNT);
        shelves_answers answers = shelves_ask(shelf, &writer, false);
        parcel_section section = shelves_next(&answers, PARCEL_ROWS);
        for (size_t i = 0; i < COUNT * DIM; i++) assert_true(shelves_floats(&section)[i] == 0 + expected[i]);
        shelves_end(&answers);
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
    void *shelf = shelf_ops.create(&host, 0, false), *stranger = shelves_new(false);
    shelves_define(shelf, (definition_options){.optimizer = "own:mine"});
    shelves_define(stranger, (definition_options){.optimizer = "own:mine"});
    shelves_push(shelf, 1, 4, 1);
    shelves_push(shelf, 1, 2, 2);
    assert_true(shelves_row(shelf, 1, false) == 8);
    assert_int_equal(shelf_look_at(stranger, NULL, 0), 0);
    shelf_ops.destroy(shelf);
    shelf_ops.destroy(stranger);
}

static void the_version_before_is_kept(void **state) {
    void *shelf = shelves_new(true);
    shelves_define(shelf, (definition_options){.id = 1});
    shelves_push(shelf, 1, 5, 1);
    assert_true(shelves_row(shelf, 1, false) == 5 && shelves_row(shelf, 1, true) == 0);
    shelves_push(shelf, 2, 7, 2);
    assert_true(shelves_row(shelf, 1, true) == 5 && shelves_row(shelf, 2, true) == 0 &&
                shelves_row(shelf, 2, false) == 7);
    parcel_writer writer = {0};
    parcels_keys(&writer, PARCEL_ERASE, 1, (const uint64_t[]){1}, 1);
    parcels_rows(&writer, PARCEL_ADD_ROWS, 1, (const uint64_t[]){1}, 1, (const float[]){1}, 1);
    shelves_apply(shelf, &writer, 3);
    assert_true(shelves_row(shelf, 1, true) == 5 && shelves_row(shelf, 1, false) == 1);
    shelf_ops.apply(shelf, span_of("nonsense", 8), 4); /* nothing has changed since */
    assert_true(shelves_row(shelf, 1, true) == 1 && shelves_row(shelf, 1, false) == 1);
    parcels_plain(&writer, PARCEL_DROP, 1);
    shelves_apply(shelf, &writer, 5);
    assert_true(shelves_row(shelf, 1, true) == 1);
    void *copy = shelves_copy(shelf, true);
    assert_true(shelves_row(copy, 1, true) == 1);
    shelf_ops.apply(copy, (span){0}, 6);
    parcels_keys(&writer, PARCEL_GET_ROWS, 1, (const uint64_t[]){1}, 1);
    shelves_answers answers = shelves_ask(copy, &writer, true);
    assert_int_equal(shelves_next(&answers, PARCEL_NONE).count, PARCEL_DROPPED);
    shelves_end(&answers);
    shelf_ops.destroy(shelf);
    shelf_ops.destroy(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_that_pulls_shows_what_it_pushed),
        cmocka_unit_test(unknown_and_dropped_tables_are_told),
        cmocka_unit_test(the_first_definition_stays),
        cmocka_unit_test(values_that_have_not_changed_are_not_sent),
        cmocka_unit_test(rates_follow_the_moment),
        cmocka_unit_test(rounds_are_averaged),
        cmocka_unit_test(codecs_are_decoded),
        cmocka_unit_test(an_optimizer_of_ones_own_runs),
        cmocka_unit_test(the_version_before_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
