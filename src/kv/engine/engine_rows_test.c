/* engine_rows_test.c — rows by key: pushes, pulls, counters, left-out values, and eviction. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "kv/payload/key_list_cache.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/payload_builder.h"

static void rows_are_pushed_and_pulled(void **state) {
    void *engine = engine_fixture_new(false);
    payload_writer writer = {0};
    const uint64_t keys[] = {3, 8, 9};
    const float values[] = {1, 2, 3, 4, 5, 6};
    payload_define(&writer,
                   (definition_options){.dim = 2, .optimizer = "sgd", .rate = 0.5, .initializer = "constant:10"});
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, 3, values, 2);
    engine_fixture_apply(engine, &writer, 1);
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, (const uint64_t[]){2, 8}, 2);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_ROWS);
    assert_int_equal(section.count, 2);
    assert_int_equal(section.version, 2);
    assert_int_equal(section.values.size, 16);
    assert_true(engine_fixture_floats(&section)[0] == 10 && engine_fixture_floats(&section)[2] == 8.5f &&
                engine_fixture_floats(&section)[3] == 8);
    engine_fixture_end(&answers);
    engine_ops.destroy(engine);
}

/* Asks for a list of keys by its hash, or with all keys, to be cached. */
static const float *ask_for_list(void *engine, uint32_t table, const uint64_t *keys, uint32_t count, bool named,
                                 engine_fixture_answers *answers) {
    payload_writer writer = {0};
    payload_room room;
    uint8_t flags = named ? PAYLOAD_KNOWN : PAYLOAD_LISTED;
    const payload_head head = {.table = table, .op = PAYLOAD_GET_ROWS, .flags = flags, .count = count};
    assert_int_equal(payload_add(&writer, head, 0, &room), MR_OK);
    key_list_cache_name name = key_list_cache_name_of(keys, count);
    if (named)
        memcpy(room.keys, &name, sizeof name);
    else
        memcpy(room.keys, keys, count * sizeof *keys);
    *answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(answers, PAYLOAD_ROWS);
    assert_int_equal(section.count, count);
    return engine_fixture_floats(&section);
}

/* Row numbers are cached with a list; rows made and erased later are still shown correctly, in each table. */
static void lists_that_are_named_show_what_is_there(void **state) {
    enum { COUNT = 40 };
    void *engine = engine_fixture_new(false);
    uint64_t keys[COUNT];
    float sums[3][COUNT] = {0};
    for (uint64_t i = 0; i < COUNT; i++) keys[i] = 5 * i;
    engine_fixture_define(engine, (definition_options){.id = 1});
    engine_fixture_define(engine, (definition_options){.id = 2});
    for (uint32_t round = 0; round < 60; round++) {
        payload_writer writer = {0};
        uint32_t table = 1 + round % 2, at = round * 7 % COUNT;
        const float one = (float)(round + 1);
        if (round % 10 == 9) {
            payload_keys(&writer, PAYLOAD_ERASE, table, &keys[at], 1);
            sums[table][at] = 0;
        } else {
            payload_rows(&writer, PAYLOAD_ADD_ROWS, table, &keys[at], 1, &one, 1);
            sums[table][at] += one;
        }
        engine_fixture_apply(engine, &writer, round + 1);
        for (uint32_t asked = 0; asked < 6; asked++) { /* both tables in turn, repeatedly */
            engine_fixture_answers answers;
            uint32_t other = 1 + asked / 2 % 2;
            const float *values = ask_for_list(engine, other, keys, COUNT, round + asked != 0, &answers);
            assert_memory_equal(values, sums[other], sizeof sums[other]);
            engine_fixture_end(&answers);
        }
    }
    engine_ops.destroy(engine);
}

static void ranges_are_ascending(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.id = 1});
    for (uint64_t key = 0; key < 3000; key += 3)
        engine_fixture_push(engine, key * 7919 % 3001, (float)(key * 7919 % 3001), 1);
    const struct {
        uint64_t first, last;
        uint32_t most;
    } ranges[] = {{0, 3001, 0}, {100, 200, 0}, {100, UINT64_MAX, 7}, {0, UINT64_MAX, 0}, {5000, 6000, 0}, {9, 3, 0}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        payload_writer writer = {0};
        payload_room room;
        const payload_head head = {.table = 1, .op = PAYLOAD_GET_RANGE, .count = ranges[i].most};
        assert_int_equal(payload_add(&writer, head, 0, &room), MR_OK);
        room.range[0] = ranges[i].first;
        room.range[1] = ranges[i].last;
        size_t expected = 0;
        for (uint64_t key = 0; key < 3000; key += 3)
            expected += key * 7919 % 3001 >= ranges[i].first && key * 7919 % 3001 <= ranges[i].last;
        if (ranges[i].most != 0 && expected > ranges[i].most) expected = ranges[i].most;
        engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
        payload_section section = engine_fixture_next(&answers, PAYLOAD_RANGE);
        assert_int_equal(section.count, expected);
        for (uint32_t k = 0; k < section.count; k++) {
            assert_true(k == 0 || section.keys[k - 1] < section.keys[k]);
            assert_true(engine_fixture_floats(&section)[k] == (float)section.keys[k]);
        }
        engine_fixture_end(&answers);
    }
    engine_ops.destroy(engine);
}

/* A range without a bound on its rows does not make an answer that no packet can carry. */
static void a_range_has_a_limit(void **state) {
    enum { WIDE = 1 << 16, ROWS = PAYLOAD_ANSWER_MAX / (WIDE * (int)sizeof(float)) };
    void *engine = engine_fixture_new(false);
    float *values = calloc(WIDE, sizeof *values);
    engine_fixture_define(engine, (definition_options){.id = 1, .dim = WIDE});
    for (uint64_t key = 0; key < ROWS; key++) {
        payload_writer writer = {0};
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, &key, 1, values, WIDE);
        engine_fixture_apply(engine, &writer, 1);
    }
    free(values);
    for (uint32_t most = 0; most < ROWS; most += ROWS - 1) { /* all rows; one less than all */
        payload_writer writer = {0};
        payload_room room;
        const payload_head head = {.table = 1, .op = PAYLOAD_GET_RANGE, .count = most};
        assert_int_equal(payload_add(&writer, head, 0, &room), MR_OK);
        room.range[1] = UINT64_MAX;
        engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
        payload_section section = engine_fixture_next(&answers, most == 0 ? PAYLOAD_NONE : PAYLOAD_RANGE);
        assert_int_equal(section.count, most == 0 ? PAYLOAD_TOO_LARGE : most);
        engine_fixture_end(&answers);
    }
    engine_ops.destroy(engine);
}

/* ---- Ranges between changes: present and previous versions, compared with a set of keys. */

enum { NUMBERS = 4000, STRIDE = 7 };

typedef struct set {
    bool there[NUMBERS];
} set;

static void check_range(void *engine, const set *set, uint64_t first, uint64_t last, uint32_t most, bool kept) {
    payload_writer writer = {0};
    payload_room room;
    const payload_head head = {.table = 1, .op = PAYLOAD_GET_RANGE, .count = most};
    assert_int_equal(payload_add(&writer, head, 0, &room), MR_OK);
    room.range[0] = first;
    room.range[1] = last;
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, kept);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_RANGE);
    uint32_t count = 0;
    for (uint64_t i = 0; i < NUMBERS && (most == 0 || count < most); i++) {
        if (!set->there[i] || i * STRIDE < first || i * STRIDE > last) continue;
        assert_true(count < section.count && section.keys[count] == i * STRIDE);
        count++;
    }
    assert_int_equal(section.count, count);
    engine_fixture_end(&answers);
}

static void check_ranges(void *engine, const set *set, bool kept, rng *rng) {
    const uint64_t end = NUMBERS * STRIDE;
    uint64_t first = rng_below(rng, end);
    check_range(engine, set, 0, UINT64_MAX, 0, kept);
    check_range(engine, set, first, first + rng_below(rng, 300), (uint32_t)rng_below(rng, 10), kept); /* often narrow */
    check_range(engine, set, first, first + rng_below(rng, end), 1 + (uint32_t)rng_below(rng, 2000), kept);
}

/* Pushes to some keys, or erases them. */
static void change_some(void *engine, set *set, rng *rng) {
    static const float values[NUMBERS];
    uint64_t keys[NUMBERS], from = rng_below(rng, NUMBERS);
    uint32_t count = 0, most = rng_below(rng, 8) == 0 ? NUMBERS : (uint32_t)rng_below(rng, 60);
    bool erases = rng_below(rng, 2) == 0, near = rng_below(rng, 2) == 0;
    payload_writer writer = {0};
    for (uint64_t i = from; i < NUMBERS && count < most; i += near ? 1 : 1 + rng_below(rng, 90)) {
        keys[count++] = i * STRIDE;
        set->there[i] = !erases;
    }
    if (erases)
        payload_keys(&writer, PAYLOAD_ERASE, 1, keys, count);
    else
        payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, keys, count, values, 1);
    engine_fixture_apply(engine, &writer, 1);
}

static void ranges_follow_every_change(void **state) {
    void *engine = engine_fixture_new(true);
    set now = {0}, before = {0};
    rng rng;
    rng_init(&rng, 1);
    engine_fixture_define(engine, (definition_options){.id = 1});
    for (int turn = 0; turn < 400; turn++) {
        before = now;
        change_some(engine, &now, &rng);
        if (turn % 3 == 0) check_ranges(engine, &now, false, &rng);
        if (turn % 2 == 0) check_ranges(engine, &before, true, &rng);
        if (turn % 50 != 0) continue;
        void *copy = engine_fixture_copy(engine, true);
        engine_ops.destroy(engine);
        engine = copy;
        check_ranges(engine, &before, true, &rng);
    }
    engine_ops.destroy(engine);
}

static void dtypes_are_kept_whole(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.dtype = MR_BF16});
    engine_fixture_push(engine, 1, 1, 1);
    /* each one alone would be rounded away */
    for (int i = 0; i < 256; i++) engine_fixture_push(engine, 1, 0x1p-10f, 1);
    payload_writer writer = {0};
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, (const uint64_t[]){1}, 1);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_ROWS);
    uint16_t half;
    assert_int_equal(section.values.size, 2);
    memcpy(&half, section.values.data, sizeof half);
    assert_true(half_from_bf16(half) == 1.25f);
    engine_fixture_end(&answers);
    payload_room room; /* a push may be fp16 */
    assert_int_equal(payload_add(&writer,
                                 (payload_head){.table = 1, .op = PAYLOAD_SET_ROWS, .dtype = MR_BF16, .count = 1}, 2,
                                 &room),
                     MR_OK);
    *room.keys = 1;
    half = half_to_bf16(7);
    memcpy(room.values, &half, sizeof half);
    engine_ops.apply(engine, payload_written(&writer), 1);
    answers = engine_fixture_ask(engine, &writer, false);
    section = engine_fixture_next(&answers, PAYLOAD_ROWS);
    assert_memory_equal(section.values.data, &half, sizeof half);
    engine_fixture_end(&answers);
    engine_ops.destroy(engine);
}

static void counters_count(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.dtype = MR_I64});
    for (int i = 0; i < 3; i++) {
        payload_writer writer = {0};
        payload_counters(&writer, 1, 7, INT64_C(1) << 40);
        engine_fixture_apply(engine, &writer, 1);
    }
    engine_fixture_push(engine, 7, 1, 1); /* another dtype: refused */
    payload_writer writer = {0};
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, (const uint64_t[]){7}, 1);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_ROWS);
    int64_t value;
    memcpy(&value, section.values.data, sizeof value);
    assert_true(value == INT64_C(3) << 40);
    engine_fixture_end(&answers);
    assert_int_equal(engine_fixture_look(engine).refused, 1);
    engine_ops.destroy(engine);
}

static void non_finite_values_are_left_out(void **state) {
    void *engine = engine_fixture_new(false);
    payload_writer writer = {0};
    payload_define(&writer, (definition_options){.dim = 2, .refuse_nan = true});
    payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, (const uint64_t[]){1, 2, 3}, 3, (const float[]){1, 2, 3, NAN, 5, 6}, 2);
    engine_fixture_apply(engine, &writer, 1);
    payload_keys(&writer, PAYLOAD_GET_ROWS, 1, (const uint64_t[]){1, 2, 3}, 3);
    engine_fixture_answers answers = engine_fixture_ask(engine, &writer, false);
    payload_section section = engine_fixture_next(&answers, PAYLOAD_ROWS);
    assert_memory_equal(section.values.data, ((const float[]){1, 2, 0, 0, 5, 6}), 24);
    engine_fixture_end(&answers);
    assert_int_equal(engine_fixture_look(engine).left_out, 1);
    assert_int_equal(engine_fixture_look(engine).keys, 2);
    engine_ops.destroy(engine);
}

static void keys_are_admitted(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.admit = 3});
    for (int i = 0; i < 4; i++) engine_fixture_push(engine, 9, 1, 1);
    assert_true(engine_fixture_row(engine, 9, false) == 2);
    engine_fixture_push(engine, 10, 1, 1);
    assert_true(engine_fixture_look(engine).keys == 1 && engine_fixture_look(engine).candidates == 1);
    engine_ops.destroy(engine);
}

static void old_keys_go(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.age_max = 80});
    for (uint64_t key = 0; key < 200; key++) engine_fixture_push(engine, key, 1, 1);
    for (uint64_t moment = 2; moment <= 100; moment++) {
        engine_fixture_push(engine, 1000, 1, moment);
        if (moment <= 81) assert_int_equal(engine_fixture_look(engine).keys, moment == 2 ? 201 : 202);
        engine_fixture_push(engine, 2000, 1, 1); /* time does not go back: the other key is not older than this one */
    }
    assert_int_equal(engine_fixture_look(engine).keys, 2);
    assert_int_equal(engine_fixture_look(engine).evicted, 200);
    engine_fixture_push(engine, 5, 1, 1000);
    assert_int_equal(engine_fixture_look(engine).keys, 1);
    engine_ops.destroy(engine);
}

static void the_oldest_go_when_there_are_too_many(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.rows_max = 32});
    for (uint64_t key = 1; key <= 100; key++) {
        engine_fixture_push(engine, key, 1, key);
        assert_true(engine_fixture_look(engine).keys <= 32);
        assert_true(engine_fixture_row(engine, key, false) == 1);
    }
    assert_true(engine_fixture_row(engine, 75, false) == 1 && engine_fixture_row(engine, 60, false) == 0);
    engine_ops.destroy(engine);
}

/* A program without steps pushes at a single moment. */
static void within_a_moment_the_oldest_go_too(void **state) {
    void *engine = engine_fixture_new(false);
    engine_fixture_define(engine, (definition_options){.rows_max = 32});
    for (uint64_t key = 1; key <= 100; key++) {
        engine_fixture_push(engine, key, 1, 1);
        assert_true(engine_fixture_look(engine).keys <= 32);
        assert_true(engine_fixture_row(engine, key, false) == 1);
    }
    assert_true(engine_fixture_row(engine, 75, false) == 1 && engine_fixture_row(engine, 60, false) == 0);
    engine_ops.destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_pushed_and_pulled),
        cmocka_unit_test(lists_that_are_named_show_what_is_there),
        cmocka_unit_test(ranges_are_ascending),
        cmocka_unit_test(a_range_has_a_limit),
        cmocka_unit_test(ranges_follow_every_change),
        cmocka_unit_test(dtypes_are_kept_whole),
        cmocka_unit_test(counters_count),
        cmocka_unit_test(non_finite_values_are_left_out),
        cmocka_unit_test(keys_are_admitted),
        cmocka_unit_test(old_keys_go),
        cmocka_unit_test(the_oldest_go_when_there_are_too_many),
        cmocka_unit_test(within_a_moment_the_oldest_go_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
