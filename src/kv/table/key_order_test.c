/* key_order_test.c — random changes and ranges, compared with a sorted set; and the bounds of notes. */
#include "kv/table/key_order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"

enum { UNIVERSE = 6000, TURNS = 300 };

typedef struct model { /* keys are `number` · stride */
    bool there[UNIVERSE];
    uint64_t stride;
} model;

static bool has(const void *context, uint64_t key) {
    const model *model = context;
    return model->there[key / model->stride];
}

/* The keys from `first` on are those of the model. */
static void check(const key_order *order, const model *model, uint64_t first) {
    key_order_cursor cursor = key_order_seek(order, first);
    uint64_t key;
    for (uint64_t i = 0; i < UNIVERSE; i++) {
        if (!model->there[i] || i * model->stride < first) continue;
        assert_true(key_order_next(order, &cursor, &key));
        assert_true(key == i * model->stride);
    }
    assert_false(key_order_next(order, &cursor, &key));
}

static key_order *make(const model *model, rng *rng) {
    uint64_t keys[UNIVERSE];
    size_t count = 0;
    key_order *order;
    for (uint64_t i = 0; i < UNIVERSE; i++)
        if (model->there[i]) keys[count++] = i * model->stride;
    for (size_t i = count; i > 1; i--) { /* in any order */
        size_t other = rng_below(rng, i);
        uint64_t key = keys[i - 1];
        keys[i - 1] = keys[other];
        keys[other] = key;
    }
    assert_int_equal(key_order_create(keys, count, &order), MR_OK);
    return order;
}

/* Adds and removes keys: mostly neighbors, which split leaves, or empty them. */
static void change(key_order *order, model *model, rng *rng) {
    size_t count = rng_below(rng, 4) == 0 ? rng_below(rng, UNIVERSE) : rng_below(rng, 40);
    bool near = rng_below(rng, 2) == 0, adds = rng_below(rng, 2) == 0;
    uint64_t from = rng_below(rng, UNIVERSE);
    for (size_t i = 0; i < count; i++) {
        uint64_t number = near ? (from + i) % UNIVERSE : rng_below(rng, UNIVERSE);
        model->there[number] = adds;
        assert_true(key_order_note(order, number * model->stride));
    }
}

static void ranges_are_those_of_a_sorted_set(void **state) {
    static const uint64_t strides[] = {1, 1000003, UINT64_MAX / UNIVERSE};
    for (size_t s = 0; s < sizeof strides / sizeof *strides; s++) {
        model model = {.stride = strides[s]};
        rng rng;
        rng_init(&rng, s + 1);
        for (size_t i = 0; s != 1 && i < UNIVERSE; i++) model.there[i] = rng_below(&rng, 3) == 0;
        key_order *order = make(&model, &rng);
        check(order, &model, 0);
        for (int turn = 0; turn < TURNS; turn++) {
            change(order, &model, &rng);
            if (turn % 3 == 0) change(order, &model, &rng); /* a key may be noted twice */
            assert_int_equal(key_order_settle(order, has, &model), MR_OK);
            check(order, &model, rng_below(&rng, UNIVERSE) * strides[s] + rng_below(&rng, 2));
        }
        memset(model.there, 0, sizeof model.there);
        for (uint64_t i = 0; i < UNIVERSE; i++) assert_true(key_order_note(order, i * strides[s]));
        assert_int_equal(key_order_settle(order, has, &model), MR_OK);
        check(order, &model, 0);
        key_order_destroy(order);
    }
}

/* Memory follows the keys: about 11 bytes each, and notes are bounded. */
static void notes_are_bounded(void **state) {
    enum { KEYS = 200000 };
    uint64_t *keys = malloc(KEYS * sizeof *keys);
    size_t noted = 0;
    key_order *order;
    assert_non_null(keys);
    for (size_t i = 0; i < KEYS; i++) keys[i] = i * 3;
    assert_int_equal(key_order_create(keys, KEYS, &order), MR_OK);
    assert_true(key_order_bytes(order) < KEYS * 12);
    while (key_order_note(order, noted)) noted++;
    assert_int_equal(noted, KEYS + KEY_ORDER_NOTED);
    key_order_destroy(order);
    assert_int_equal(key_order_bytes(NULL), 0);
    free(keys);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_those_of_a_sorted_set),
        cmocka_unit_test(notes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
