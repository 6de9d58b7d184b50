/* optim_test.c — names, settings, versions, rows and a user-defined optimizer. Results are compared with plain formulas
 * in fp64 here, and bit by bit with NumPy in tests/python/test_optim.py. */
#include "kv/optim/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "kv/optim/l2_norm.h"
#include "kv/table/sparse_table.h"

static const char *const names[] = {"add",     "sgd",  "momentum", "nesterov", "adagrad",
                                    "rmsprop", "adam", "adamw",    "lamb",     "ftrl"};
enum { NAMES = sizeof names / sizeof *names, ITEMS = 1000 };

static optim make(const char *name) {
    const optim_ops *ops;
    optim optim;
    assert_int_equal(optim_find(name, &ops), MR_OK);
    optim_settings settings = optim_defaults(ops);
    assert_int_equal(optim_init(&optim, ops, &settings), MR_OK);
    return optim;
}

static void unknown_names_and_settings_are_refused(void **state) {
    const optim_ops *ops;
    assert_int_equal(optim_find("adma", &ops), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "add, sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, lamb, ftrl"));
    char users[16];
    optim_users(OPTIM_HAS_momentum, users, sizeof users);
    assert_string_equal(users, "momentum, neste"); /* cut to the room */
    const struct {
        const char *name;
        optim_settings settings;
    } wrong[] = {
        {"sgd", {.decay = -1}},
        {"momentum", {.momentum = 1}},
        {"adagrad", {.epsilon = 0}},
        {"rmsprop", {.beta2 = NAN, .epsilon = 1}},
        {"adam", {.beta1 = 1, .beta2 = 0.9f, .epsilon = 1}},
        {"ftrl", {.beta = 0}},
        {"ftrl", {.beta = 1, .l1 = -1}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        optim optim;
        assert_int_equal(optim_find(wrong[i].name, &ops), MR_OK);
        assert_int_equal(optim_init(&optim, ops, &wrong[i].settings), MR_INVALID);
        assert_non_null(strstr(mr_last_error(), wrong[i].name));
    }
}

typedef struct world {
    float values[2][ITEMS], state[OPTIM_STATES_MAX][ITEMS], gradient[ITEMS];
} world;

static void step(const optim *optim, world *world, uint64_t t, size_t from, size_t to, size_t at, size_t count) {
    optim_arrays arrays = {
        .from = world->values[from] + at, .to = world->values[to] + at, .gradient = world->gradient + at};
    for (size_t k = 0; k < OPTIM_STATES_MAX; k++) arrays.state[k] = world->state[k] + at;
    optim_moment moment = optim_at(optim, t, 0.1f, 1);
    optim_apply(optim, &moment, &arrays, count);
}

static void begin(world *world) {
    rng rng;
    rng_init(&rng, 3);
    memset(world, 0, sizeof *world);
    for (size_t i = 0; i < ITEMS; i++) {
        world->values[0][i] = (float)(rng_unit(&rng) - 0.5);
        world->gradient[i] = (float)(rng_unit(&rng) - 0.5);
    }
}

/* Updates in place, into the other version, and in pieces at any offset give the same bits. */
static void how_arrays_are_cut_makes_no_difference(void **state) {
    static world whole, other, pieces;
    for (size_t n = 0; n < NAMES; n++) {
        optim optim = make(names[n]);
        begin(&whole);
        begin(&other);
        begin(&pieces);
        for (uint64_t t = 1; t <= 4; t++) {
            step(&optim, &whole, t, 0, 0, 0, ITEMS);
            step(&optim, &other, t, (t + 1) % 2, t % 2, 0, ITEMS);
            for (size_t at = 0, size = 1; at < ITEMS; at += size, size = size % 50 + 3)
                step(&optim, &pieces, t, 0, 0, at, ITEMS - at < size ? ITEMS - at : size);
        }
        assert_memory_equal(whole.values[0], other.values[0], sizeof whole.values[0]);
        assert_memory_equal(whole.state, other.state, sizeof whole.state);
        assert_memory_equal(&whole, &pieces, sizeof whole);
    }
}

/* (w − 3)² has its minimum at 3. */
static void each_finds_the_bottom_of_a_bowl(void **state) {
    for (size_t n = 1; n < NAMES; n++) {
        optim optim = make(names[n]);
        float row[4] = {1}; /* one value, then state */
        void *rows[1] = {row};
        for (int t = 0; t < 3000; t++) {
            float gradient = 2 * (row[0] - 3);
            optim_rows(&optim, rows, 1, 1, &gradient, strcmp(names[n], "ftrl") == 0 ? 1 : 0.01f, 1);
        }
        if (fabsf(row[0] - 3) > 0.1f && strcmp(names[n], "adagrad") != 0) fail_msg("%s: %g", names[n], (double)row[0]);
        assert_true(row[0] > 1.5f); /* adagrad slows down */
    }
}

/* Without a gradient a value does not change, even if the rate does. */
static void ftrl_keeps_what_it_was_given(void **state) {
    optim optim = make("ftrl");
    optim.settings.l1 = 0.5f;
    optim.settings.l2 = 0.25f;
    float row[9] = {3, -2, 0};
    const float nothing[3] = {0}, some[3] = {0.5f, 0.25f, 4};
    const float rates[] = {0.1f, 0.5f, 1e-3f, 0x1p-64f, 0x1p-65f, 1e-44f, 0};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        optim_rows(&optim, (void *[]){row}, 1, 3, nothing, rates[i], 1);
        assert_true(fabsf(row[0] - 3) < 1e-5f && fabsf(row[1] + 2) < 1e-5f && row[2] == 0);
    }
    optim_rows(&optim, (void *[]){row}, 1, 3, some, 0.1f, 1);
    assert_true(row[0] < 3 && row[0] > 2.5f && row[1] < -2 && row[2] < 0);
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) { /* smaller rates make smaller steps */
        float from[9];
        memcpy(from, row, sizeof from);
        optim_rows(&optim, (void *[]){row}, 1, 3, some, rates[i], 1);
        for (size_t k = 0; k < 3; k++)
            assert_true(row[k] <= from[k] + 1e-6f && row[k] > from[k] - 10 * rates[i] - 1e-5f);
    }
}

static void rows_have_the_state_that_they_need(void **state) {
    assert_int_equal(optim_row_state(&(optim){.ops = make("sgd").ops}, 16), 0);
    optim momentum = make("momentum"), adam = make("adam");
    assert_int_equal(optim_row_state(&momentum, 16), 64);
    assert_int_equal(optim_row_state(&adam, 16), 132);
    const sparse_table_options options = {.dtype = MR_F32, .dim = 3, .state = optim_row_state(&adam, 3)};
    sparse *table;
    assert_int_equal(sparse_table_create(&options, &table), MR_OK);
    uint64_t keys[2] = {1, 2};
    void *rows[2];
    float gradients[6] = {1, 1, 1, 2, 2, 2};
    for (uint32_t t = 1; t <= 3; t++) {
        assert_int_equal(sparse_table_touch(table, keys, 2, t, rows, NULL), MR_OK);
        if (t == 2) rows[1] = NULL; /* as for a key that is not admitted */
        optim_rows(&adam, rows, 2, 3, gradients, 0.1f, 1);
    }
    uint32_t counts[2];
    for (size_t i = 0; i < 2; i++) memcpy(&counts[i], (const float *)sparse_table_find(table, keys[i]) + 9, 4);
    assert_true(counts[0] == 3 && counts[1] == 2);
    const float *one = sparse_table_find(table, 1), *two = sparse_table_find(table, 2);
    assert_true(fabsf(one[0] + 0.3f) < 1e-5f &&
                fabsf(two[0] + 0.2f) < 1e-5f); /* with constant gradients each update is the rate */
    sparse_table_destroy(table);
}

/* Updates of rows equal updates of arrays, though small rows have code of their own; NULL rows are skipped. */
static void rows_become_what_arrays_become(void **state) {
    enum { ROWS = 40, DIM_MAX = 20 };
    static float values[ROWS][DIM_MAX], twins[ROWS][DIM_MAX], gradients[ROWS * DIM_MAX];
    rng rng;
    rng_init(&rng, 4);
    for (size_t n = 0; n < 2; n++) {
        optim optim = make(n == 0 ? "add" : "sgd");
        optim.settings.decay = 0.25f;
        optim_moment moment = optim_at(&optim, 1, 0.1f, 0.7f);
        for (uint32_t dim = 1; dim <= DIM_MAX; dim++) {
            void *rows[ROWS];
            for (size_t i = 0; i < ROWS; i++) rows[i] = i == 7 ? NULL : values[i];
            for (size_t i = 0; i < ROWS * DIM_MAX; i++) gradients[i] = (float)(rng_unit(&rng) - 0.5);
            for (size_t i = 0; i < ROWS * DIM_MAX; i++) values[i / DIM_MAX][i % DIM_MAX] = (float)rng_unit(&rng);
            memcpy(twins, values, sizeof twins);
            optim_rows(&optim, rows, ROWS, dim, gradients, 0.1f, 0.7f);
            for (size_t i = 0; i < ROWS; i++) {
                optim_arrays twin = {.from = twins[i], .to = twins[i], .gradient = gradients + i * dim};
                if (i != 7) optim_apply(&optim, &moment, &twin, dim);
            }
            assert_memory_equal(values, twins, sizeof twins);
        }
    }
}

static void counters_are_added_to(void **state) {
    int64_t row[2] = {5, INT64_MAX};
    void *rows[2] = {row, NULL};
    const int64_t more[4] = {-7, 1, 100, 100};
    optim_count_rows(rows, 2, 2, more);
    assert_true(row[0] == -2 && row[1] == INT64_MIN);
}

/* LAMB's trust ratio is over the whole array: parts are measured, then added. */
static void lamb_measures_without_changing(void **state) {
    static world world, before;
    optim lamb = make("lamb");
    begin(&world);
    before = world;
    optim_arrays arrays = {.from = world.values[0], .to = world.values[1], .gradient = world.gradient};
    arrays.state[0] = world.state[0];
    arrays.state[1] = world.state[1];
    optim_moment moment = optim_at(&lamb, 1, 0.1f, 1);
    double squares[2];
    assert_true(optim_measures(&lamb));
    optim_measure(&lamb, &moment, &arrays, ITEMS, squares);
    assert_memory_equal(&world, &before, sizeof world);
    assert_true(squares[0] == l2_norm_squares(world.values[0], ITEMS));
    assert_true(fabs(squares[1] - ITEMS) < 1); /* the first update of Adam is the gradient's sign */
    moment.trust = l2_norm_trust(squares[0], squares[1]);
    optim_apply(&lamb, &moment, &arrays, ITEMS);
    double moved = 0;
    for (size_t i = 0; i < ITEMS; i++) moved += pow((double)world.values[1][i] - (double)world.values[0][i], 2);
    assert_true(fabs(sqrt(moved) - 0.1 * sqrt(squares[0])) < 1e-3); /* the length of the change is rate times |w| */
}

/* ---- A user-defined optimizer: the sign of the gradient, times a factor in its settings. */

static void apply_sign(const optim *optim, const optim_moment *moment, const optim_arrays *arrays, size_t count) {
    float width = *(const float *)optim->settings.own;
    for (size_t i = 0; i < count; i++)
        arrays->to[i] = arrays->from[i] - (arrays->gradient[i] > 0 ? width : arrays->gradient[i] < 0 ? -width : 0);
}

static void anybody_can_write_one(void **state) {
    static const optim_ops sign = {.name = "sign", .apply = apply_sign};
    const float width = 0.25f;
    optim own;
    assert_int_equal(optim_init(&own, &sign, &(optim_settings){.own = &width}), MR_OK);
    float row[3] = {1, 1, 1};
    optim_rows(&own, (void *[]){row}, 1, 3, (float[]){5, -5, 0}, 1, 1);
    assert_true(row[0] == 0.75f && row[1] == 1.25f && row[2] == 1 && optim_row_state(&own, 3) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_and_settings_are_refused),
        cmocka_unit_test(how_arrays_are_cut_makes_no_difference),
        cmocka_unit_test(each_finds_the_bottom_of_a_bowl),
        cmocka_unit_test(ftrl_keeps_what_it_was_given),
        cmocka_unit_test(rows_have_the_state_that_they_need),
        cmocka_unit_test(rows_become_what_arrays_become),
        cmocka_unit_test(counters_are_added_to),
        cmocka_unit_test(lamb_measures_without_changing),
        cmocka_unit_test(anybody_can_write_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
