/* ps_large_pull_test.c — one request pulls or pushes more than 64 MB, the limit of a packet, from or to one slot: a
 * range of rows, a list of keys, vectors, an array; in ASP and in BSP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { DIM = 4096, ROW = DIM * (int)sizeof(float), ROWS = (100 << 20) / ROW, GAP = 7, LIMIT = 64 << 20 };
_Static_assert((int64_t)ROWS *ROW > LIMIT + (LIMIT >> 1), "the values do not fit a packet");

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
    uint64_t step;
    float *values, *shown;
    uint64_t *keys, *found;
} scene;

static void begin(scene *scene, mr_ps_consistency consistency) {
    *scene =
        (struct scene){.fixture = {.servers = 1, .copies = 1, .workers = 1, .slots = 1, .consistency = consistency}};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    ps_fixture_start_server(&scene->fixture, 0);
    scene->fixture.workers = 0; /* this process is the worker */
    must(mr_ps_connect(scene->fixture.address, 0, PS_FIXTURE_PATIENCE_US, &scene->ps));
    scene->values = xcalloc(ROWS, ROW);
    scene->shown = xcalloc(ROWS, ROW);
    scene->keys = xcalloc(ROWS, sizeof *scene->keys);
    scene->found = xcalloc(ROWS, sizeof *scene->found);
    for (uint64_t i = 0; i < ROWS; i++) scene->keys[i] = i * GAP;
    for (size_t i = 0; i < (size_t)ROWS * DIM; i++) scene->values[i] = (float)(i * 2654435761 >> 7 & 0xffff);
}

static void finish(scene *scene) {
    free(scene->values);
    free(scene->shown);
    free(scene->keys);
    free(scene->found);
    mr_ps_close(scene->ps);
    assert_true(ps_fixture_fini(&scene->fixture));
}

static mr_ps_table *table_in(scene *scene, const char *name, mr_ps_table_options options) {
    mr_ps_table *table = NULL;
    must(mr_ps_table_create(scene->ps, name, &options, PS_FIXTURE_PATIENCE_US, &table));
    return table;
}

static void open_step(scene *scene) { must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &scene->step)); }

/* Ends the step with its pushes, and opens the next one. */
static void end_step(scene *scene, mr_ps_ticket ticket) {
    must(mr_ps_end(scene->ps));
    must(mr_ps_wait(scene->ps, ticket, PS_FIXTURE_PATIENCE_US));
    open_step(scene);
}

static void assert_shown(scene *scene) {
    assert_memory_equal(scene->shown, scene->values, (size_t)ROWS * ROW);
    memset(scene->shown, 0, (size_t)ROWS * ROW);
}

static void rows(mr_ps_consistency consistency) {
    scene scene;
    mr_ps_ticket ticket;
    size_t count = 0;
    begin(&scene, consistency);
    mr_ps_table *table = table_in(
        &scene, "rows", MR_OPTIONS(mr_ps_table_options, .dim = DIM, .ordered = 1, .last_key = (uint64_t)ROWS * GAP));
    open_step(&scene);
    must(mr_ps_push(table, scene.keys, ROWS, scene.values, NULL, NULL, &ticket));
    end_step(&scene, ticket);
    must(mr_ps_pull_range(table, 0, (uint64_t)ROWS * GAP, scene.found, scene.shown, ROWS, &count, NULL, NULL));
    assert_int_equal(count, ROWS);
    assert_memory_equal(scene.found, scene.keys, ROWS * sizeof *scene.keys);
    assert_shown(&scene);
    must(mr_ps_pull(table, scene.keys, ROWS, scene.shown, NULL, NULL, NULL));
    assert_shown(&scene);
    /* without room for the last row, and without the last row */
    assert_int_equal(
        mr_ps_pull_range(table, 0, (uint64_t)ROWS * GAP, scene.found, scene.shown, ROWS - 1, &count, NULL, NULL),
        MR_TOO_LARGE);
    assert_int_equal(count, ROWS);
    must(mr_ps_pull_range(table, 1, scene.keys[ROWS - 2], scene.found, scene.shown, ROWS, &count, NULL, NULL));
    assert_int_equal(count, ROWS - 2);
    assert_memory_equal(scene.found, scene.keys + 1, (ROWS - 2) * sizeof *scene.keys);
    assert_memory_equal(scene.shown, scene.values + DIM, (size_t)(ROWS - 2) * ROW);
    mr_ps_table_free(table);
    finish(&scene);
}

static void rows_in_asp(void **state) { rows(MR_PS_ASP); }
static void rows_in_bsp(void **state) { rows(MR_PS_BSP); }

static void arrays_and_vectors(mr_ps_consistency consistency) {
    scene scene;
    mr_ps_ticket ticket;
    mr_ps_vectors *vectors = NULL;
    begin(&scene, consistency);
    const mr_ps_array array = {.name = "w", .dims = 2, .shape = {ROWS, DIM}};
    uint32_t *lengths = xcalloc(ROWS, sizeof *lengths);
    for (int i = 0; i < ROWS; i++) lengths[i] = DIM;
    mr_ps_table *dense =
                    table_in(&scene, "dense",
                             MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1)),
                *loose = table_in(&scene, "vectors", MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS));
    open_step(&scene);
    must(mr_ps_push_array(dense, 0, scene.values, 0, (size_t)ROWS * DIM, NULL, &ticket));
    end_step(&scene, ticket);
    must(mr_ps_pull_array(dense, 0, scene.shown, 0, (size_t)ROWS * DIM, NULL, NULL));
    assert_shown(&scene);
    must(mr_ps_push(loose, scene.keys, ROWS, scene.values, lengths, NULL, &ticket));
    end_step(&scene, ticket);
    must(mr_ps_pull(loose, scene.keys, ROWS, scene.shown, lengths, NULL, NULL));
    assert_shown(&scene);
    must(mr_ps_pull_vectors(loose, scene.keys, ROWS, &vectors, NULL, NULL));
    assert_int_equal(vectors->value_count, (size_t)ROWS * DIM);
    assert_memory_equal(vectors->values, scene.values, (size_t)ROWS * ROW);
    mr_ps_vectors_free(vectors);
    free(lengths);
    mr_ps_table_free(dense);
    mr_ps_table_free(loose);
    finish(&scene);
}

static void others_in_asp(void **state) { arrays_and_vectors(MR_PS_ASP); }
static void others_in_bsp(void **state) { arrays_and_vectors(MR_PS_BSP); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_asp),
        cmocka_unit_test(rows_in_bsp),
        cmocka_unit_test(others_in_asp),
        cmocka_unit_test(others_in_bsp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
