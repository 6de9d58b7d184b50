/* gather_test.c — answers to a range pull arrive in any order and are written in key order. */
#include "kv/client/gather.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PIECES = 3, DIM = 2, ROOM = 8, ROW = DIM * (int)sizeof(float), LAST = 1000, MOST = ROOM + 1 };

typedef struct scene {
    gather *gather;
    uint64_t keys[ROOM];
    float values[ROOM * DIM];
    size_t count;
} scene;

static void begin(scene *scene, size_t room) {
    *scene = (struct scene){.count = 99};
    assert_int_equal(gather_create(PIECES, (gather_rows){DIM, MR_F32, MR_F32}, LAST, scene->keys, scene->values, room,
                                   &scene->count, &scene->gather),
                     MR_OK);
}

/* An answer with `count` consecutive keys from `first`, of `most` that were asked for; the values are the keys. */
static mr_status take_of(scene *scene, uint32_t piece, uint64_t first, uint32_t count, uint32_t most) {
    uint64_t keys[ROOM];
    float values[ROOM * DIM];
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = first + i;
        for (int k = 0; k < DIM; k++) values[i * DIM + (uint32_t)k] = (float)(first + i) + (float)k / 2;
    }
    const payload_section answer = {.op = PAYLOAD_RANGE,
                                    .dtype = MR_F32,
                                    .count = count,
                                    .keys = keys,
                                    .values = span_of(values, count * (size_t)ROW)};
    return gather_take(scene->gather, piece, most, &answer);
}

static mr_status take(scene *scene, uint32_t piece, uint64_t first, uint32_t count) {
    return take_of(scene, piece, first, count, MOST);
}

static void pieces_come_in_any_order(void **state) {
    static const uint32_t orders[][PIECES] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};
    static const uint32_t counts[PIECES] = {3, 0, 2};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        scene scene;
        begin(&scene, ROOM);
        for (int k = 0; k < PIECES; k++) {
            assert_int_equal(scene.count, 99); /* nothing is written before all answers have arrived */
            assert_true(scene.keys[0] == 0 && scene.values[1] == 0);
            assert_int_equal(take(&scene, orders[i][k], 10 + orders[i][k] * 100, counts[orders[i][k]]), MR_OK);
        }
        const uint64_t expected[] = {10, 11, 12, 210, 211};
        assert_int_equal(scene.count, 5);
        assert_memory_equal(scene.keys, expected, sizeof expected);
        for (size_t k = 0; k < 5; k++)
            assert_true(scene.values[2 * k] == (float)expected[k] &&
                        scene.values[2 * k + 1] == (float)expected[k] + 0.5f);
        gather_destroy(scene.gather);
    }
}

static void answers_of_a_repeated_pull_replace_all(void **state) {
    scene scene;
    begin(&scene, ROOM);
    for (uint32_t i = 0; i < PIECES; i++) assert_int_equal(take(&scene, i, 10 + i * 100, 1), MR_OK);
    assert_int_equal(scene.count, 3);
    gather_renew(scene.gather);
    for (uint32_t i = 0; i < PIECES - 1; i++) assert_int_equal(take(&scene, i, 20 + i * 100, 2), MR_OK);
    gather_renew(scene.gather); /* also before all have answered */
    for (uint32_t i = 0; i < PIECES; i++) assert_int_equal(take(&scene, i, 30 + i * 100, i == 0 ? 2 : 0), MR_OK);
    assert_true(scene.count == 2 && scene.keys[0] == 30 && scene.keys[1] == 31 && scene.values[0] == 30);
    gather_destroy(scene.gather);
}

static void values_without_room_are_counted(void **state) {
    scene scene;
    begin(&scene, 4);
    assert_int_equal(take(&scene, 1, 100, 2), MR_OK);
    assert_int_equal(take(&scene, 2, 200, 1), MR_OK);
    assert_int_equal(take(&scene, 0, 0, 2), MR_TOO_LARGE);
    assert_int_equal(scene.count, 5);
    for (size_t i = 0; i < ROOM; i++) assert_true(scene.keys[i] == 0 && scene.values[i] == 0);
    gather_destroy(scene.gather);
}

static void room_for_all_of_it_is_enough(void **state) {
    scene scene;
    begin(&scene, 5);
    for (uint32_t i = 0; i < PIECES; i++) assert_int_equal(take(&scene, i, i * 100, i == 0 ? 1 : 2), MR_OK);
    assert_true(scene.count == 5 && scene.keys[4] == 201 && scene.keys[5] == 0);
    gather_destroy(scene.gather);
}

static void nothing_anywhere_is_no_row(void **state) {
    scene scene;
    begin(&scene, 0);
    for (uint32_t i = 0; i < PIECES; i++) assert_int_equal(take(&scene, i, 0, 0), MR_OK);
    assert_int_equal(scene.count, 0);
    gather_destroy(scene.gather);
}

static void invalid_ranges_are_refused(void **state) {
    static const uint64_t keys[] = {1, 2};
    static const float values[2 * DIM];
    const payload_section good = {
        .op = PAYLOAD_RANGE, .count = 2, .keys = keys, .values = span_of(values, sizeof values)};
    payload_section wrong[4] = {good, good, good, good};
    scene scene;
    begin(&scene, ROOM);
    wrong[0].op = PAYLOAD_ROWS;
    wrong[1].values.size -= sizeof(float);
    wrong[2].count = 1; /* but values for two */
    wrong[3].flags = PAYLOAD_CODED;
    for (size_t i = 0; i < 4; i++) assert_int_equal(gather_take(scene.gather, 0, MOST, &wrong[i]), MR_CORRUPT);
    /* none of the malformed answers was counted */
    for (uint32_t i = 0; i < PIECES; i++) assert_int_equal(take(&scene, i, i * 10, 1), MR_OK);
    assert_int_equal(scene.count, PIECES);
    gather_destroy(scene.gather);
}

static void assert_rest(const scene *scene, uint32_t piece, uint64_t first, size_t rows) {
    uint64_t range[2];
    assert_int_equal(gather_rest(scene->gather, piece, &range[0], &range[1]), rows);
    assert_true(range[0] == first && range[1] == LAST);
}

static void a_slot_answers_in_parts(void **state) {
    scene scene;
    begin(&scene, ROOM);
    assert_int_equal(take(&scene, 0, 10, 1), MR_OK);
    assert_int_equal(take_of(&scene, 1, 100, 2, 2), MR_BUSY);
    assert_rest(&scene, 1, 102, ROOM - 1);
    assert_int_equal(take_of(&scene, 2, 999, 2, 2), MR_OK);      /* up to the last key: no row can follow */
    assert_int_equal(take_of(&scene, 1, 101, 2, 2), MR_CORRUPT); /* known already */
    assert_int_equal(take_of(&scene, 1, 102, 3, 2), MR_CORRUPT); /* more than asked for */
    assert_int_equal(take_of(&scene, 1, 102, 2, 2), MR_BUSY);
    assert_int_equal(scene.count, 99);
    assert_int_equal(take_of(&scene, 1, 104, 0, 2), MR_OK);
    const uint64_t expected[] = {10, 100, 101, 102, 103, 999, 1000};
    assert_int_equal(scene.count, 7);
    assert_memory_equal(scene.keys, expected, sizeof expected);
    for (size_t i = 0; i < 7; i++) assert_true(scene.values[2 * i] == (float)expected[i]);
    gather_destroy(scene.gather);
}

/* With one row more than there is room for, a slot is not asked again. */
static void a_slot_with_too_many_rows_ends(void **state) {
    scene scene;
    begin(&scene, 3);
    assert_int_equal(take(&scene, 0, 10, 0), MR_OK);
    assert_int_equal(take(&scene, 2, 20, 0), MR_OK);
    assert_int_equal(take_of(&scene, 1, 100, 2, 2), MR_BUSY);
    assert_rest(&scene, 1, 102, 2);
    assert_int_equal(take_of(&scene, 1, 102, 2, 2), MR_TOO_LARGE);
    assert_int_equal(scene.count, 4);
    gather_destroy(scene.gather);
}

static void one_that_is_not_whole_is_given_up(void **state) {
    scene scene;
    begin(&scene, ROOM);
    assert_int_equal(take(&scene, 1, 5, 3), MR_OK);
    gather_destroy(scene.gather); /* also frees the kept answers */
    assert_int_equal(scene.count, 99);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_in_any_order),          cmocka_unit_test(answers_of_a_repeated_pull_replace_all),
        cmocka_unit_test(values_without_room_are_counted),   cmocka_unit_test(room_for_all_of_it_is_enough),
        cmocka_unit_test(nothing_anywhere_is_no_row),        cmocka_unit_test(invalid_ranges_are_refused),
        cmocka_unit_test(one_that_is_not_whole_is_given_up), cmocka_unit_test(a_slot_answers_in_parts),
        cmocka_unit_test(a_slot_with_too_many_rows_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
