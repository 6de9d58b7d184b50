/* initializer_test.c — initial values. */
#include "kv/table/initializer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ps/stable_hash.h"

enum { COUNT = 20000 };

static void mixing_is_undone(void **state) {
    for (uint64_t i = 0; i < 10000; i++)
        assert_true(stable_unhash(stable_hash(i * i * i)) == i * i * i && stable_hash(stable_unhash(i)) == i);
    assert_true(stable_unhash(stable_hash(UINT64_MAX)) == UINT64_MAX);
}

static void a_row_may_be_filled_in_pieces(void **state) {
    const initializer all[] = {{INITIALIZER_ZEROS},
                               {INITIALIZER_CONSTANT, 0.5f},
                               {INITIALIZER_UNIFORM, -1, 1, 7, 3},
                               {INITIALIZER_NORMAL, 0, 1, 7, 3}};
    for (size_t k = 0; k < 4; k++) {
        float whole[50], pieces[50];
        initializer_fill(&all[k], MR_F32, 42, 0, 50, whole);
        for (size_t at = 0; at < 50; at += 7)
            initializer_fill(&all[k], MR_F32, 42, at, at + 7 > 50 ? 50 - at : 7, pieces + at);
        assert_memory_equal(whole, pieces, sizeof whole);
    }
}

static void all_that_it_depends_on_counts(void **state) {
    const initializer base = {INITIALIZER_UNIFORM, 0, 1, 7, 3};
    initializer seed = base, table = base;
    seed.seed++;
    table.table++;
    float a[4], b[4];
    initializer_fill(&base, MR_F32, 42, 0, 4, a);
    initializer_fill(&base, MR_F32, 43, 0, 4, b);
    assert_memory_not_equal(a, b, sizeof a);
    initializer_fill(&seed, MR_F32, 42, 0, 4, b);
    assert_memory_not_equal(a, b, sizeof a);
    initializer_fill(&table, MR_F32, 42, 0, 4, b);
    assert_memory_not_equal(a, b, sizeof a);
}

static void moments(const initializer *init, double *mean, double *deviation, double *fourth) {
    static float values[COUNT];
    double sum = 0, squares = 0, fourths = 0;
    for (size_t i = 0; i < COUNT / 100; i++) initializer_fill(init, MR_F32, i, 0, 100, values + i * 100);
    for (size_t i = 0; i < COUNT; i++) sum += (double)values[i] / COUNT;
    for (size_t i = 0; i < COUNT; i++) {
        double off = (double)values[i] - sum;
        squares += off * off / COUNT;
        fourths += off * off * off * off / COUNT;
    }
    *mean = sum;
    *deviation = sqrt(squares);
    *fourth = fourths / (squares * squares);
}

static void they_are_distributed_as_they_say(void **state) {
    double mean, deviation, fourth;
    moments(&(initializer){INITIALIZER_UNIFORM, 2, 4, 1, 1}, &mean, &deviation, &fourth);
    assert_true(fabs(mean - 3) < 0.02 && fabs(deviation - 1 / sqrt(3)) < 0.02 && fabs(fourth - 1.8) < 0.05);
    moments(&(initializer){INITIALIZER_NORMAL, 1, 2, 1, 1}, &mean, &deviation, &fourth);
    assert_true(fabs(mean - 1) < 0.06 && fabs(deviation - 2) < 0.06 && fabs(fourth - 3) < 0.2);
}

/* The bits are the same on every machine: stored rows were initialized with them. */
static void the_bits_are_these(void **state) {
    float uniform[2], normal[2];
    initializer_fill(&(initializer){INITIALIZER_UNIFORM, -1, 1, 7, 3}, MR_F32, 42, 0, 2, uniform);
    initializer_fill(&(initializer){INITIALIZER_NORMAL, 0, 1, 7, 3}, MR_F32, 42, 0, 2, normal);
    assert_true(uniform[0] == -0x1.117198p-1f && uniform[1] == -0x1.0a7dap-1f);
    assert_true(normal[0] == 0x1.29bebcp+0f && normal[1] == 0x1.42d528p-4f);
}

static void invalid_initializers_are_refused(void **state) {
    const initializer wrong[] = {{INITIALIZER_UNIFORM, 1, 0},
                                 {INITIALIZER_UNIFORM, -3e38f, 3e38f},
                                 {INITIALIZER_NORMAL, 0, -1},
                                 {INITIALIZER_CONSTANT, NAN},
                                 {(initializer_kind)9}};
    for (size_t i = 0; i < 5; i++) assert_int_equal(initializer_check(&wrong[i], MR_F32), MR_INVALID);
    assert_int_equal(initializer_check(&(initializer){INITIALIZER_UNIFORM, 0, 0}, MR_F32), MR_OK);
    assert_int_equal(initializer_check(&(initializer){INITIALIZER_UNIFORM, 0, 1}, MR_I64), MR_INVALID);
    assert_int_equal(initializer_check(&(initializer){INITIALIZER_CONSTANT, 0.5f}, MR_I64), MR_INVALID);
    assert_int_equal(initializer_check(&(initializer){INITIALIZER_CONSTANT, 1e30f}, MR_I64), MR_INVALID);
    assert_int_equal(initializer_check(&(initializer){INITIALIZER_CONSTANT, -3}, MR_I64), MR_OK);
    int64_t counters[2];
    initializer_fill(&(initializer){INITIALIZER_CONSTANT, -3}, MR_I64, 0, 0, 2, counters);
    assert_true(counters[0] == -3 && counters[1] == -3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixing_is_undone),
        cmocka_unit_test(a_row_may_be_filled_in_pieces),
        cmocka_unit_test(all_that_it_depends_on_counts),
        cmocka_unit_test(they_are_distributed_as_they_say),
        cmocka_unit_test(the_bits_are_these),
        cmocka_unit_test(invalid_initializers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
