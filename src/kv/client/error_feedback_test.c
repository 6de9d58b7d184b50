/* error_feedback_test.c — residuals of keys and arrays, their limit, and reading what was written. */
#include "kv/client/error_feedback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"

enum { DIM = 3, ARRAY = 100, KEYS = 50 };

static error_feedback_keys rows(const uint64_t *keys, size_t count) {
    return (error_feedback_keys){.keys = keys, .count = count, .dim = DIM};
}

static void a_key_has_what_was_written(void **state) {
    error_feedback *feedback = error_feedback_create(4, ERROR_FEEDBACK_BYTES_MAX);
    const uint64_t keys[] = {3, 9, UINT64_MAX};
    const float rests[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    float back[9];
    error_feedback_keys all = rows(keys, 3);
    error_feedback_read(feedback, &all, back);
    for (int i = 0; i < 9; i++) assert_true(back[i] == 0);
    error_feedback_write(feedback, &all, rests);
    error_feedback_read(feedback, &all, back);
    assert_memory_equal(back, rests, sizeof rests);
    assert_int_equal(error_feedback_look_at(feedback).keys, 3);
    error_feedback_forget(feedback, (uint64_t[]){9, 10}, 2);
    error_feedback_read(feedback, &all, back);
    assert_true(back[2] == 3 && back[3] == 0 && back[5] == 0 && back[6] == 7);
    assert_int_equal(error_feedback_look_at(feedback).keys, 2);
    assert_int_equal(error_feedback_look_at(feedback).forgotten, 0);
    error_feedback_destroy(feedback);
}

/* A vector that becomes shorter keeps the residuals behind its end. */
static void vectors_grow(void **state) {
    error_feedback *feedback = error_feedback_create(4, ERROR_FEEDBACK_BYTES_MAX);
    const uint64_t key = 5;
    float back[4];
    const uint32_t lengths[] = {2, 4, 1};
    for (int i = 0; i < 3; i++) {
        const float rests[] = {(float)i, 10, 20, 30};
        error_feedback_keys one = {.keys = &key, .lengths = &lengths[i], .count = 1};
        error_feedback_write(feedback, &one, rests);
    }
    error_feedback_keys whole = {.keys = &key, .lengths = (uint32_t[]){4}, .count = 1};
    error_feedback_read(feedback, &whole, back);
    assert_true(back[0] == 2 && back[1] == 10 && back[3] == 30);
    error_feedback_destroy(feedback);
}

static void the_oldest_are_forgotten(void **state) {
    error_feedback *feedback = error_feedback_create(4, 4096);
    const float rests[DIM] = {1, 1, 1};
    float back[DIM];
    for (uint64_t key = 0; key < 1000; key++) {
        error_feedback_keys one = rows(&key, 1), first = rows((uint64_t[]){0}, 1);
        error_feedback_write(feedback, &one, rests);
        error_feedback_write(feedback, &first, rests); /* keeps this key recently used */
        assert_true(error_feedback_look_at(feedback).bytes <= 4096);
    }
    error_feedback_look look = error_feedback_look_at(feedback);
    assert_true(look.keys > 10 && look.keys < 100 && look.forgotten + look.keys >= 999);
    for (uint64_t key = 0; key < 1000; key++) {
        error_feedback_keys one = rows(&key, 1);
        error_feedback_read(feedback, &one, back);
        assert_true((back[0] == 1) == (key == 0 || key > 1000 - look.keys));
    }
    error_feedback_destroy(feedback);
}

static void append(error_feedback *feedback, bool all, uint8_t **bytes, size_t *size) {
    size_t more = error_feedback_size(feedback, all);
    *bytes = xrealloc(*bytes, *size + more + 1);
    error_feedback_save(feedback, all, *bytes + *size);
    *size += more;
}

static bool load(error_feedback *feedback, const uint8_t *bytes, size_t size) {
    reader reader = reader_of(bytes, size);
    uint32_t table;
    while (reader_left(&reader) > 0)
        if (!error_feedback_peek(&reader, &table) || !error_feedback_load(feedback, &reader)) return false;
    return true;
}

static void assert_same(error_feedback *one, error_feedback *other) {
    size_t size = error_feedback_size(one, true);
    uint8_t *mine = xmalloc(size + 1), *theirs = xmalloc(size + 1);
    assert_int_equal(error_feedback_size(other, true), size);
    error_feedback_save(one, true, mine);
    error_feedback_save(other, true, theirs);
    assert_memory_equal(mine, theirs, size);
    free(mine);
    free(theirs);
}

static void do_something(error_feedback *feedback, rng *rng) {
    uint64_t key = rng_below(rng, KEYS);
    uint32_t length = (uint32_t)rng_below(rng, 6);
    float rests[6], *stretch;
    for (int i = 0; i < 6; i++) rests[i] = (float)rng_below(rng, 1000);
    error_feedback_keys one = {.keys = &key, .lengths = &length, .count = 1};
    size_t first = rng_below(rng, ARRAY), count = rng_below(rng, ARRAY - first + 1);
    uint32_t array = (uint32_t)rng_below(rng, 3);
    switch (rng_below(rng, 8)) {
    case 0: error_feedback_forget(feedback, &key, 1); break;
    case 1: error_feedback_clear(feedback, array, first, count); break;
    case 2:
        assert_int_equal(error_feedback_stretch(feedback, array, ARRAY, first, count, &stretch), MR_OK);
        for (size_t i = 0; i < count; i++) stretch[i] += (float)rng_below(rng, 100);
        break;
    default: error_feedback_write(feedback, &one, rests); break;
    }
}

/* The changes of all steps, read one after the other, equal the whole state, also when the limit is met. */
static void changes_add_up_to_everything(void **state) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        rng rng;
        rng_init(&rng, seed);
        error_feedback *live = error_feedback_create(7, seed % 2 == 0 ? ERROR_FEEDBACK_BYTES_MAX : 2048);
        uint8_t *bytes = NULL;
        size_t size = 0;
        for (int step = 0; step < 30; step++) {
            for (uint64_t i = rng_below(&rng, 60); i > 0; i--) do_something(live, &rng);
            append(live, false, &bytes, &size);
            error_feedback_settle(live);
            assert_int_equal(error_feedback_size(live, false), 0);
            error_feedback *read = error_feedback_create(7, seed % 2 == 0 ? ERROR_FEEDBACK_BYTES_MAX : 2048);
            assert_true(load(read, bytes, size));
            assert_same(live, read);
            assert_int_equal(error_feedback_size(read, false), 0);
            if (step % 7 == 6) { /* continues with a feedback that was read from the whole state */
                error_feedback_destroy(live);
                live = read;
                size = 0;
                append(live, true, &bytes, &size);
            } else {
                error_feedback_destroy(read);
            }
        }
        free(bytes);
        error_feedback_destroy(live);
    }
}

static void every_length_is_checked(void **state) {
    rng rng;
    rng_init(&rng, 1);
    error_feedback *live = error_feedback_create(7, ERROR_FEEDBACK_BYTES_MAX);
    for (int i = 0; i < 30; i++) do_something(live, &rng);
    uint8_t *bytes = NULL;
    size_t size = 0;
    append(live, true, &bytes, &size);
    for (size_t cut = 1; cut < size; cut++) {
        uint8_t *exact = malloc(cut); /* of the exact size, for the sanitizer */
        memcpy(exact, bytes, cut);
        error_feedback *read = error_feedback_create(7, ERROR_FEEDBACK_BYTES_MAX);
        (void)load(read, exact, cut); /* true only at the end of a piece */
        error_feedback_destroy(read);
        free(exact);
    }
    const struct {
        uint32_t table, kind;
        uint64_t words[6];
    } wrong[] = {
        {8, 1, {0}},
        {7, 0, {0}},
        {7, 4, {0}},
        {7, 1, {UINT64_MAX, 1, 0}},
        {7, 1, {1, 1, UINT64_MAX}},
        {7, 2, {UINT64_MAX, 1}},
        {7, 3, {UINT64_MAX, 0, UINT64_MAX, 0}},
        {7, 3, {1, ERROR_FEEDBACK_ARRAYS_MAX, 1, 0}},
        {7, 3, {1, 0, ERROR_FEEDBACK_ITEMS_MAX, 0}},
        {7, 3, {2, 0, 2, 1}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        error_feedback *read = error_feedback_create(7, ERROR_FEEDBACK_BYTES_MAX);
        assert_false(load(read, (const uint8_t *)&wrong[i], sizeof wrong[i]));
        error_feedback_destroy(read);
    }
    free(bytes);
    error_feedback_destroy(live);
}

/* Without memory a residual is dropped, and nothing else changes. */
static void no_memory(void **state) {
    const float rests[DIM] = {1, 2, 3};
    const uint64_t key = 1;
    float back[DIM], *stretch;
    error_feedback_keys one = rows(&key, 1);
    for (size_t nth = 1; nth <= 2; nth++) {
        error_feedback *feedback = error_feedback_create(4, ERROR_FEEDBACK_BYTES_MAX);
        alloc_fail_at(nth);
        error_feedback_write(feedback, &one, rests);
        alloc_fail_at(0);
        assert_int_equal(error_feedback_look_at(feedback).forgotten, 1);
        error_feedback_read(feedback, &one, back);
        assert_true(back[0] == 0);
        alloc_fail_at(1);
        assert_int_equal(error_feedback_stretch(feedback, 0, 5, 0, 5, &stretch), MR_NOMEM);
        alloc_fail_at(0);
        assert_int_equal(error_feedback_stretch(feedback, 0, 5, 0, 5, &stretch), MR_OK);
        error_feedback_destroy(feedback);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_what_was_written), cmocka_unit_test(vectors_grow),
        cmocka_unit_test(the_oldest_are_forgotten),   cmocka_unit_test(changes_add_up_to_everything),
        cmocka_unit_test(every_length_is_checked),    cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
