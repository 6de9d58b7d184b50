/* ps_tables_test.c — tables of every kind, over unix sockets and tcp, compared with the same arithmetic in this
 * process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "kv/optim/optim.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { SLOTS = 5, DIM = 3, KEYS = 40, STEPS = 6 };

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
} scene;

static void begin_with(scene *scene, bool tcp, mr_ps_consistency consistency, uint32_t copies) {
    scene->fixture = (ps_fixture){
        .tcp = tcp, .servers = 2, .workers = 1, .slots = SLOTS, .copies = copies, .consistency = consistency};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&scene->fixture, i);
    scene->fixture.workers = 0; /* this process is the worker */
    assert_int_equal(mr_ps_connect(scene->fixture.address, 0, PS_FIXTURE_PATIENCE_US, &scene->ps), MR_OK);
}

static void begin(scene *scene, bool tcp, mr_ps_consistency consistency) { begin_with(scene, tcp, consistency, 2); }

static void finish(scene *scene) {
    mr_ps_close(scene->ps);
    assert_true(ps_fixture_fini(&scene->fixture));
}

static uint64_t step_of(scene *scene) {
    uint64_t step = 0;
    must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &step));
    return step;
}

static void end_step(scene *scene) {
    must(mr_ps_end(scene->ps));
    must(mr_ps_flush(scene->ps, PS_FIXTURE_PATIENCE_US));
}

static mr_ps_table *table_in(scene *scene, const char *name, mr_ps_table_options options) {
    mr_ps_table *table = NULL;
    must(mr_ps_table_create(scene->ps, name, &options, PS_FIXTURE_PATIENCE_US, &table));
    return table;
}

static void fill(rng *rng, float *values, size_t count) {
    for (size_t i = 0; i < count; i++) values[i] = (float)rng_below(rng, 2000) / 1000.0f - 1.0f;
}

/* ---- Optimizers. */

typedef struct twin { /* a row or an array, with the state of its optimizer */
    optim optim;
    float values[KEYS * DIM], state[OPTIM_STATES_MAX][KEYS * DIM];
} twin;

static void twin_init(twin *twin, const char *name) {
    const optim_ops *ops;
    memset(twin, 0, sizeof *twin);
    must(optim_find(name, &ops));
    optim_settings settings = optim_defaults(ops);
    must(optim_init(&twin->optim, ops, &settings));
}

static void twin_push(twin *twin, uint64_t t, float rate, size_t first, size_t count, const float *gradient) {
    optim_moment moment = optim_at(&twin->optim, t, rate, 1);
    optim_arrays arrays = {.from = twin->values + first, .to = twin->values + first, .gradient = gradient};
    for (int i = 0; i < OPTIM_STATES_MAX; i++) arrays.state[i] = twin->state[i] + first;
    optim_apply(&twin->optim, &moment, &arrays, count);
}

static const char *const row_optimizers[] = {"add",     "sgd",  "momentum", "nesterov", "adagrad",
                                             "rmsprop", "adam", "adamw",    "ftrl"};

static float rate_of(const char *optimizer) { return strcmp(optimizer, "add") == 0 ? 0 : 0.5f; } /* `add` has no rate */

static void optimize_rows(scene *scene, const char *name, rng *rng) {
    mr_ps_table *table =
        table_in(scene, name, MR_OPTIONS(mr_ps_table_options, .dim = DIM, .optimizer = name, .rate = rate_of(name)));
    uint64_t keys[KEYS];
    float gradient[KEYS * DIM], shown[KEYS * DIM];
    twin twin;
    twin_init(&twin, name);
    for (uint64_t i = 0; i < KEYS; i++) keys[i] = i * 11 + 2;
    for (uint64_t t = 1; t <= 3; t++) {
        step_of(scene);
        fill(rng, gradient, KEYS * DIM);
        must(mr_ps_push(table, keys, KEYS, gradient, NULL, NULL, &(mr_ps_ticket){0}));
        for (size_t i = 0; i < KEYS; i++) twin_push(&twin, t, 0.5f, i * DIM, DIM, gradient + i * DIM);
        end_step(scene);
    }
    step_of(scene);
    must(mr_ps_pull(table, keys, KEYS, shown, NULL, NULL, NULL));
    assert_memory_equal(shown, twin.values, sizeof shown);
    mr_ps_table_free(table);
}

static void optimize_array(scene *scene, const char *name, rng *rng) {
    const mr_ps_array array = {.name = "w", .dims = 2, .shape = {KEYS, DIM}};
    char title[MR_PS_NAME_MAX];
    snprintf(title, sizeof title, "array %s", name);
    mr_ps_table *table = table_in(scene, title,
                                  MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                             .array_count = 1, .block = 7, .optimizer = name, .rate = rate_of(name)));
    float gradient[KEYS * DIM], shown[KEYS * DIM];
    twin twin;
    twin_init(&twin, name);
    for (uint64_t t = 1; t <= 3; t++) {
        step_of(scene);
        fill(rng, gradient, KEYS * DIM);
        must(mr_ps_push_array(table, 0, gradient, 0, KEYS * DIM, NULL, &(mr_ps_ticket){0}));
        twin_push(&twin, t, 0.5f, 0, KEYS * DIM, gradient);
        end_step(scene);
    }
    step_of(scene);
    must(mr_ps_pull_array(table, 0, shown, 0, KEYS * DIM, NULL, NULL));
    assert_memory_equal(shown, twin.values, sizeof shown);
    mr_ps_table_free(table);
}

static void optimizers(mr_ps_consistency consistency, bool tcp) {
    scene scene;
    rng rng;
    rng_init(&rng, 3);
    begin(&scene, tcp, consistency);
    for (size_t i = 0; i < sizeof row_optimizers / sizeof *row_optimizers; i++) {
        optimize_rows(&scene, row_optimizers[i], &rng);
        optimize_array(&scene, row_optimizers[i], &rng);
    }
    finish(&scene);
}

static void optimizers_in_rounds(void **state) { optimizers(MR_PS_BSP, true); }
static void optimizers_without_rounds(void **state) { optimizers(MR_PS_ASP, false); }

/* ---- Lists of keys of all kinds, compared with a plain array. */

enum { SPACE = 3000, LONGEST = 6 };

typedef struct plain { /* content of the tables, by key */
    float rows[SPACE][DIM], vectors[SPACE][LONGEST];
    int64_t counts[SPACE];
} plain;

static size_t draw_keys(rng *rng, uint64_t *keys) {
    size_t count = 0;
    uint64_t stride = 1 + rng_below(rng, 200);
    for (uint64_t key = rng_below(rng, stride); key < SPACE; key += 1 + rng_below(rng, stride)) keys[count++] = key;
    return count;
}

static void try_rows(mr_ps_table *table, plain *plain, rng *rng, const uint64_t *keys, size_t count) {
    float *values = xcalloc(count * DIM + 1, sizeof *values), *shown = xcalloc(count * DIM + 1, sizeof *shown);
    bool sets = rng_below(rng, 4) == 0;
    mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .set = sets);
    fill(rng, values, count * DIM);
    for (size_t i = 0; i < count * DIM; i++) {
        float *to = &plain->rows[keys[i / DIM]][i % DIM];
        *to = sets ? values[i] : *to + values[i];
    }
    if (rng_below(rng, 2) == 0) {
        must(mr_ps_push(table, keys, count, values, NULL, &options, NULL));
        must(mr_ps_pull(table, keys, count, shown, NULL, NULL, NULL));
    } else {
        must(mr_ps_push_pull(table, keys, count, values, shown, NULL, &options, NULL));
    }
    for (size_t i = 0; i < count; i++) assert_memory_equal(shown + i * DIM, plain->rows[keys[i]], DIM * sizeof *shown);
    free(values);
    free(shown);
}

static void try_vectors(mr_ps_table *table, plain *plain, rng *rng, const uint64_t *keys, size_t count) {
    float *values = xcalloc(count * LONGEST + 1, sizeof *values), *shown = xcalloc(count * LONGEST + 1, sizeof *shown);
    uint32_t *lengths = xcalloc(count + 1, sizeof *lengths);
    size_t at = 0;
    fill(rng, values, count * LONGEST);
    for (size_t i = 0; i < count; i++) {
        lengths[i] = (uint32_t)rng_below(rng, LONGEST + 1);
        for (uint32_t k = 0; k < lengths[i]; k++) plain->vectors[keys[i]][k] += values[at++];
    }
    must(mr_ps_push(table, keys, count, values, lengths, NULL, NULL));
    for (size_t i = 0; i < count; i++) lengths[i] = (uint32_t)rng_below(rng, LONGEST + 1);
    must(mr_ps_pull(table, keys, count, shown, lengths, NULL, NULL));
    at = 0;
    for (size_t i = 0; i < count; at += lengths[i++])
        assert_memory_equal(shown + at, plain->vectors[keys[i]], lengths[i] * sizeof *shown);
    free(values);
    free(shown);
    free(lengths);
}

static void try_counters(mr_ps_table *table, plain *plain, rng *rng, const uint64_t *keys, size_t count) {
    int64_t *more = xcalloc(count + 1, sizeof *more), *shown = xcalloc(count + 1, sizeof *shown);
    for (size_t i = 0; i < count; i++) plain->counts[keys[i]] += more[i] = (int64_t)rng_next(rng) >> 8;
    must(mr_ps_push_pull(table, keys, count, more, shown, NULL, NULL, NULL));
    for (size_t i = 0; i < count; i++) assert_int_equal(shown[i], plain->counts[keys[i]]);
    free(more);
    free(shown);
}

static void lists(bool tcp, mr_ps_consistency consistency) {
    scene scene;
    rng rng;
    rng_init(&rng, 11);
    begin(&scene, tcp, consistency);
    plain *plain = xcalloc(1, sizeof *plain);
    uint64_t *keys = xcalloc(SPACE, sizeof *keys);
    mr_ps_table *rows = table_in(&scene, "rows", MR_OPTIONS(mr_ps_table_options, .dim = DIM));
    mr_ps_table *ordered =
        table_in(&scene, "counters",
                 MR_OPTIONS(mr_ps_table_options, .dtype = MR_I64, .ordered = 1, .first_key = 0, .last_key = SPACE - 1));
    mr_ps_table *vectors = table_in(&scene, "vectors", MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS));
    for (int step = 0; step < STEPS; step++) {
        assert_int_equal(step_of(&scene), step);
        for (int i = 0; i < 5; i++) {
            size_t count = draw_keys(&rng, keys);
            try_rows(rows, plain, &rng, keys, count);
            try_vectors(vectors, plain, &rng, keys, count);
            try_counters(ordered, plain, &rng, keys, count);
        }
        must(mr_ps_end(scene.ps));
    }
    mr_ps_table_free(rows);
    mr_ps_table_free(ordered);
    mr_ps_table_free(vectors);
    free(plain);
    free(keys);
    finish(&scene);
}

static void lists_of_keys(void **state) { lists(false, MR_PS_ASP); }
static void lists_of_keys_by_tcp(void **state) { lists(true, MR_PS_SSP); }

/* With rounds, push_pull returns the values after the round of the step. */
static void a_round_shows_what_it_makes(void **state) {
    scene scene;
    begin(&scene, false, MR_PS_BSP);
    mr_ps_table *table = table_in(&scene, "rows", MR_OPTIONS(mr_ps_table_options, .dim = DIM));
    const uint64_t keys[] = {1, 2};
    float values[2 * DIM] = {1, 2, 3, 4, 5, 6}, before[2 * DIM], after[2 * DIM];
    mr_ps_ticket ticket;
    for (int step = 0; step < 3; step++) {
        assert_int_equal(step_of(&scene), step);
        must(mr_ps_push_pull(table, keys, 2, values, after, NULL, NULL, &ticket));
        must(mr_ps_push(table, keys, 1, values, NULL, NULL, &(mr_ps_ticket){0})); /* a repeated push of one key */
        must(mr_ps_pull(table, keys, 2, before, NULL, NULL, NULL)); /* a pull that the push does not delay */
        must(mr_ps_end(scene.ps));
        must(mr_ps_wait(scene.ps, ticket, PS_FIXTURE_PATIENCE_US));
        for (int i = 0; i < 2 * DIM; i++) {
            float each = values[i] * (i < DIM ? 2 : 1);
            assert_true(before[i] == each * (float)step);
            assert_true(after[i] == each * (float)(step + 1));
        }
    }
    mr_ps_table_free(table);
    finish(&scene);
}

/* ---- Ranges, and changes since a version. */

static void a_range_of_keys(void **state) {
    enum { MANY = 100 };
    scene scene;
    begin(&scene, false, MR_PS_ASP);
    mr_ps_table *table =
        table_in(&scene, "rows", MR_OPTIONS(mr_ps_table_options, .ordered = 1, .first_key = 10, .last_key = 9999));
    mr_ps_table *hashed = table_in(&scene, "hashed", (mr_ps_table_options)MR_INIT(mr_ps_table_options));
    uint64_t keys[MANY], found[MANY];
    float values[MANY], shown[MANY];
    size_t count = 0;
    for (int i = 0; i < MANY; i++) {
        keys[i] = (uint64_t)(10 + i * 90);
        values[i] = (float)i;
    }
    step_of(&scene);
    must(mr_ps_pull_range(table, 10, 9999, found, shown, MANY, &count, NULL, NULL));
    assert_int_equal(count, 0);
    must(mr_ps_push(table, keys, MANY, values, NULL, NULL, NULL));
    must(mr_ps_pull_range(table, 10, 9999, found, shown, MANY, &count, NULL, NULL));
    assert_int_equal(count, MANY);
    assert_memory_equal(found, keys, sizeof keys);
    assert_memory_equal(shown, values, sizeof values);
    must(mr_ps_pull_range(table, keys[17] + 1, keys[60], found, shown, 43, &count, NULL, NULL));
    assert_int_equal(count, 43);
    assert_memory_equal(found, keys + 18, 43 * sizeof *keys);
    assert_memory_equal(shown, values + 18, 43 * sizeof *values);
    assert_int_equal(mr_ps_pull_range(table, keys[17], keys[60], found, shown, 43, &count, NULL, NULL), MR_TOO_LARGE);
    assert_int_equal(count, 44);
    assert_int_equal(mr_ps_pull_range(table, 9, 20, found, shown, MANY, &count, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_range(table, 21, 20, found, shown, MANY, &count, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_range(hashed, 1, 20, found, shown, MANY, &count, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_range(table, 10, 20, found, shown, SIZE_MAX, &count, NULL, NULL), MR_TOO_LARGE);
    mr_ps_table_free(table);
    mr_ps_table_free(hashed);
    finish(&scene);
}

static void only_what_has_changed(void **state) {
    enum { MANY = 200 };
    scene scene;
    begin(&scene, true, MR_PS_ASP);
    mr_ps_table *table = table_in(&scene, "rows", (mr_ps_table_options)MR_INIT(mr_ps_table_options));
    uint64_t keys[MANY];
    float values[MANY], shown[MANY];
    mr_ps_version *mark;
    for (int i = 0; i < MANY; i++) {
        keys[i] = (uint64_t)i;
        values[i] = (float)(i + 1);
    }
    must(mr_ps_version_create(table, &mark));
    const mr_ps_request_options newer = MR_OPTIONS(mr_ps_request_options, .version = mark);
    step_of(&scene);
    must(mr_ps_push(table, keys, MANY, values, NULL, NULL, NULL));
    must(mr_ps_pull(table, keys, MANY, shown, NULL, &newer, NULL));
    assert_int_equal(mr_ps_version_changed(mark), SLOTS);
    assert_memory_equal(shown, values, sizeof values);
    must(mr_ps_pull(table, keys, MANY, shown, NULL, &newer, NULL));
    assert_int_equal(mr_ps_version_changed(mark), 0);
    assert_memory_equal(shown, values, sizeof values);
    must(mr_ps_push(table, &keys[9], 1, &values[9], NULL, NULL, NULL)); /* a key of one slot */
    shown[9] = 0;
    must(mr_ps_pull(table, keys, MANY, shown, NULL, &newer, NULL));
    assert_int_equal(mr_ps_version_changed(mark), 1);
    values[9] *= 2;
    assert_memory_equal(shown, values, sizeof values);
    mr_ps_version_free(mark);
    mr_ps_version_free(NULL);
    mr_ps_table_free(table);
    finish(&scene);
}

/* ---- Large requests are split into many messages. */

static void large_requests(bool tcp) {
    enum { MANY = 150000, ITEMS = 5 << 18 };
    scene scene;
    begin_with(&scene, tcp, MR_PS_ASP, 1);
    const mr_ps_array array = {.name = "w", .dims = 1, .shape = {ITEMS}};
    mr_ps_table *rows = table_in(&scene, "rows", MR_OPTIONS(mr_ps_table_options, .dim = 4));
    mr_ps_table *dense = table_in(
        &scene, "dense", MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1));
    uint64_t *keys = xcalloc(MANY, sizeof *keys);
    float *values = xcalloc(ITEMS, sizeof *values), *shown = xcalloc(ITEMS, sizeof *shown);
    for (uint64_t i = 0; i < MANY; i++) keys[i] = i * i;
    for (size_t i = 0; i < ITEMS; i++) values[i] = (float)i;
    step_of(&scene);
    must(mr_ps_push(rows, keys, MANY, values, NULL, NULL, NULL));
    must(mr_ps_pull(rows, keys, MANY, shown, NULL, NULL, NULL));
    assert_memory_equal(shown, values, MANY * 4 * sizeof *shown);
    memset(shown, 0, ITEMS * sizeof *shown);
    must(mr_ps_push_array(dense, 0, values, 0, ITEMS, NULL, NULL));
    must(mr_ps_pull_array(dense, 0, shown, 0, ITEMS, NULL, NULL));
    assert_memory_equal(shown, values, ITEMS * sizeof *shown);
    must(mr_ps_push_array(dense, 0, values, 1000, ITEMS - 2000, &MR_OPTIONS(mr_ps_request_options, .set = 1), NULL));
    must(mr_ps_pull_array(dense, 0, shown, 999, 3, NULL, NULL));
    assert_true(shown[0] == 999 && shown[1] == 0 && shown[2] == 1);
    free(keys);
    free(values);
    free(shown);
    mr_ps_table_free(rows);
    mr_ps_table_free(dense);
    finish(&scene);
}

static void large_requests_are_cut(void **state) { large_requests(false); }
static void large_requests_are_cut_by_tcp(void **state) { large_requests(true); }

/* Many small requests without waits are served in order. */
static void small_requests_go_together(void **state) {
    enum { MANY = 20000 };
    scene scene;
    begin(&scene, true, MR_PS_ASP);
    mr_ps_table *table = table_in(&scene, "rows", (mr_ps_table_options)MR_INIT(mr_ps_table_options));
    mr_ps_ticket *tickets = xcalloc(MANY, sizeof *tickets);
    float *values = xcalloc(MANY, sizeof *values), shown[10];
    const uint64_t keys[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    step_of(&scene);
    for (int i = 0; i < MANY; i++) {
        values[i] = (float)i;
        must(mr_ps_push(table, &keys[i % 10], 1, &values[i], NULL, &MR_OPTIONS(mr_ps_request_options, .set = 1),
                        &tickets[i]));
    }
    must(mr_ps_pull(table, keys, 10, shown, NULL, NULL, NULL));
    for (int i = 0; i < 10; i++) assert_true(shown[i] == (float)(MANY - 10 + i)); /* values of the last set */
    for (int i = 0; i < MANY; i++) must(mr_ps_wait(scene.ps, tickets[i], PS_FIXTURE_PATIENCE_US));
    free(values);
    free(tickets);
    mr_ps_table_free(table);
    finish(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_in_rounds),
        cmocka_unit_test(optimizers_without_rounds),
        cmocka_unit_test(lists_of_keys),
        cmocka_unit_test(lists_of_keys_by_tcp),
        cmocka_unit_test(a_round_shows_what_it_makes),
        cmocka_unit_test(a_range_of_keys),
        cmocka_unit_test(only_what_has_changed),
        cmocka_unit_test(large_requests_are_cut),
        cmocka_unit_test(large_requests_are_cut_by_tcp),
        cmocka_unit_test(small_requests_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
