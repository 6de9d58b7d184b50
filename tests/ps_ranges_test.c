/* ps_ranges_test.c — requests for consecutive keys, and for ranges of arrays: results, bytes sent, and invalid
 * requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { SLOTS = 4, DIM = 3, LAST = 9999, FIRST = 1200, COUNT = 6000 };

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
} scene;

static void begin(scene *scene, mr_ps_consistency consistency) {
    scene->fixture = (ps_fixture){.servers = 2, .workers = 1, .slots = SLOTS, .copies = 2, .consistency = consistency};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&scene->fixture, i);
    scene->fixture.workers = 0; /* this process is the worker */
    must(mr_ps_connect(scene->fixture.address, 0, PS_FIXTURE_PATIENCE_US, &scene->ps));
}

static void next_step(scene *scene, bool first) {
    uint64_t step;
    if (!first) {
        must(mr_ps_end(scene->ps));
        must(mr_ps_flush(scene->ps, PS_FIXTURE_PATIENCE_US));
    }
    must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &step));
}

static void finish(scene *scene) {
    mr_ps_close(scene->ps);
    assert_true(ps_fixture_fini(&scene->fixture));
}

static float value_of(size_t key, size_t i) { return (float)(key % 977) + (float)i / 4; }

/* Pushing a range equals pushing all its keys, through every codec that changes the layout of a section. */
static void push_ranges(mr_ps_consistency consistency) {
    static const char *const codecs[] = {"none", "int8", "zstd", "fp16+lz4"};
    static float values[COUNT][DIM], shown[2][COUNT][DIM];
    static uint64_t keys[COUNT];
    scene scene;
    begin(&scene, consistency);
    for (size_t i = 0; i < COUNT; i++) keys[i] = FIRST + i;
    for (size_t c = 0; c < sizeof codecs / sizeof *codecs; c++) {
        mr_ps_table *ranges, *lists;
        const mr_ps_table_options options =
            MR_OPTIONS(mr_ps_table_options, .dim = DIM, .ordered = 1, .last_key = LAST, .compression = codecs[c]);
        const mr_ps_request_options set = MR_OPTIONS(mr_ps_request_options, .set = 1);
        char name[MR_PS_NAME_MAX];
        mr_ps_push_stats before, after;
        mr_ps_ticket tickets[4];
        snprintf(name, sizeof name, "ranges %s", codecs[c]);
        must(mr_ps_table_create(scene.ps, name, &options, PS_FIXTURE_PATIENCE_US, &ranges));
        snprintf(name, sizeof name, "lists %s", codecs[c]);
        must(mr_ps_table_create(scene.ps, name, &options, PS_FIXTURE_PATIENCE_US, &lists));
        next_step(&scene, c == 0);
        for (size_t i = 0; i < COUNT; i++)
            for (size_t k = 0; k < DIM; k++) values[i][k] = value_of(FIRST + i, k);
        mr_ps_push_stats_get(scene.ps, &before);
        must(mr_ps_push_range(ranges, FIRST, COUNT, values, NULL, &tickets[0]));
        mr_ps_push_stats_get(scene.ps, &after);
        must(mr_ps_push(lists, keys, COUNT, values, NULL, NULL, &tickets[1]));
        if (c == 0) {
            uint64_t sent = after.push_bytes_sent - before.push_bytes_sent;
            assert_true(after.push_bytes - before.push_bytes > sizeof values + COUNT * 8);
            assert_true(sent > sizeof values && sent < sizeof values + 1000); /* keys are not sent */
        }
        next_step(&scene, false);
        must(mr_ps_push_range(ranges, FIRST + 10, 2, values, &set, &tickets[2]));
        must(mr_ps_push(lists, keys + 10, 2, values, NULL, &set, &tickets[3]));
        next_step(&scene, false);
        for (int i = 0; i < 4; i++) must(mr_ps_wait(scene.ps, tickets[i], PS_FIXTURE_PATIENCE_US));
        must(mr_ps_pull(ranges, keys, COUNT, shown[0], NULL, NULL, NULL));
        must(mr_ps_pull(lists, keys, COUNT, shown[1], NULL, NULL, NULL));
        assert_memory_equal(shown[0], shown[1], sizeof shown[0]);
        assert_memory_equal(shown[0][10], values[0], 2 * sizeof values[0]);
        if (c == 0) assert_memory_equal(shown[0][12], values[12], (COUNT - 12) * sizeof values[0]);
        static uint64_t found[COUNT + 1];
        size_t count;
        must(mr_ps_pull_range(ranges, 0, LAST, found, shown[1], COUNT, &count, NULL, NULL));
        assert_true(count == COUNT && found[0] == FIRST && found[COUNT - 1] == FIRST + COUNT - 1);
        assert_memory_equal(shown[0], shown[1], sizeof shown[0]);
        mr_ps_table_free(ranges);
        mr_ps_table_free(lists);
    }
    finish(&scene);
}

static void ranges_in_asp(void **state) { push_ranges(MR_PS_ASP); }
static void ranges_in_bsp(void **state) { push_ranges(MR_PS_BSP); }

static void invalid_ranges(void **state) {
    scene scene;
    mr_ps_table *ordered, *hashed, *vectors;
    float one[DIM * 2] = {1};
    begin(&scene, MR_PS_ASP);
    const mr_ps_table_options options[] = {MR_OPTIONS(mr_ps_table_options, .dim = DIM, .ordered = 1),
                                           MR_OPTIONS(mr_ps_table_options, .dim = DIM),
                                           MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS, .ordered = 1)};
    must(mr_ps_table_create(scene.ps, "o", &options[0], PS_FIXTURE_PATIENCE_US, &ordered));
    must(mr_ps_table_create(scene.ps, "h", &options[1], PS_FIXTURE_PATIENCE_US, &hashed));
    must(mr_ps_table_create(scene.ps, "v", &options[2], PS_FIXTURE_PATIENCE_US, &vectors));
    next_step(&scene, true);
    must(mr_ps_end(scene.ps));
    assert_int_equal(mr_ps_push_range(ordered, 1, 1, one, NULL, NULL), MR_STALE); /* no step is open */
    next_step(&scene, true);
    assert_int_equal(mr_ps_push_range(hashed, 1, 1, one, NULL, NULL), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "no ranges"));
    assert_int_equal(mr_ps_push_range(vectors, 1, 1, one, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_push_range(ordered, UINT64_MAX, 2, one, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_push_range(ordered, 1, (1 << 20) + 1, one, NULL, NULL), MR_TOO_LARGE);
    must(mr_ps_push_range(ordered, 1, 0, one, NULL, NULL));
    must(mr_ps_push_range(ordered, UINT64_MAX - 1, 2, one, NULL, NULL));
    float shown[DIM] = {0};
    must(mr_ps_pull(ordered, (uint64_t[]){UINT64_MAX - 1}, 1, shown, NULL, NULL, NULL));
    assert_true(shown[0] == 1);
    mr_ps_table_free(ordered);
    mr_ps_table_free(hashed);
    mr_ps_table_free(vectors);
    finish(&scene);
}

static void add_to(float *values, size_t count, float more) {
    for (size_t i = 0; i < count; i++) values[i] += more;
}

/* The answer of push_pull contains the push: for a range of keys and a range of an array, sent or shared. */
static void push_and_pull(mr_ps_consistency consistency) {
    enum { ITEMS = 100000, FROM = 500, REPEATS = 3 };
    static float pushed[ITEMS], pulled[ITEMS], rows[COUNT * DIM], shown[COUNT * DIM], wanted[ITEMS], sums[COUNT * DIM];
    const mr_ps_array array = {.name = "w", .dims = 1, .shape = {ITEMS}};
    mr_ps_table *ranges, *dense;
    scene scene;
    begin(&scene, consistency);
    must(mr_ps_table_create(scene.ps, "r", &MR_OPTIONS(mr_ps_table_options, .dim = DIM, .ordered = 1, .last_key = LAST),
                            PS_FIXTURE_PATIENCE_US, &ranges));
    must(mr_ps_table_create(
        scene.ps, "d",
        &MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = 30000),
        PS_FIXTURE_PATIENCE_US, &dense));
    for (size_t i = 0; i < ITEMS; i++) pushed[i] = value_of(i, 1);
    for (size_t i = 0; i < COUNT * DIM; i++) rows[i] = value_of(i, 2);
    memset(wanted, 0, sizeof wanted);
    memset(sums, 0, sizeof sums);
    for (int again = 0; again < REPEATS; again++) {
        mr_ps_ticket tickets[2];
        next_step(&scene, again == 0);
        must(mr_ps_push_pull_range(ranges, FIRST, COUNT, rows, shown, NULL, &tickets[0]));
        must(mr_ps_push_pull_array(dense, 0, pushed + FROM, pulled, FROM, ITEMS - FROM, NULL, &tickets[1]));
        if (consistency == MR_PS_BSP) next_step(&scene, false);
        for (int i = 0; i < 2; i++) must(mr_ps_wait(scene.ps, tickets[i], PS_FIXTURE_PATIENCE_US));
        for (size_t i = 0; i < COUNT * DIM; i++) sums[i] += rows[i];
        for (size_t i = FROM; i < ITEMS; i++) wanted[i] += pushed[i];
        assert_memory_equal(shown, sums, sizeof sums);
        assert_memory_equal(pulled, wanted + FROM, (ITEMS - FROM) * sizeof *wanted);
        add_to(pushed, ITEMS, 1);
    }
    assert_int_equal(mr_ps_push_pull_range(ranges, LAST, 2, rows, shown, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_push_pull_array(dense, 0, pushed, NULL, 0, 1, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_push_pull_array(dense, 0, pushed, pulled, 1, ITEMS, NULL, NULL), MR_INVALID);
    mr_ps_table_free(ranges);
    mr_ps_table_free(dense);
    finish(&scene);
}

static void both_in_asp(void **state) { push_and_pull(MR_PS_ASP); }
static void both_in_bsp(void **state) { push_and_pull(MR_PS_BSP); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_in_asp), cmocka_unit_test(ranges_in_bsp),  cmocka_unit_test(both_in_asp),
        cmocka_unit_test(both_in_bsp),   cmocka_unit_test(invalid_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
