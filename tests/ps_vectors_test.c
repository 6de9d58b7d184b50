/* ps_vectors_test.c — pulls of vectors whose lengths the caller does not know, from real servers: values, repeated
 * lists, answers that are larger than a message, and invalid requests. */
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

enum { KEYS = 6000, LONGEST = 23, LARGE = 5, LARGE_ITEMS = 2 << 20 };

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
    mr_ps_table *table;
} scene;

static void next_step(scene *scene, bool first) {
    uint64_t step;
    if (!first) {
        must(mr_ps_end(scene->ps));
        must(mr_ps_flush(scene->ps, PS_FIXTURE_PATIENCE_US));
    }
    must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &step));
}

static void begin(scene *scene, mr_ps_consistency consistency, uint32_t slots) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS);
    scene->fixture = (ps_fixture){.servers = 2, .workers = 1, .slots = slots, .copies = 1, .consistency = consistency};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&scene->fixture, i);
    scene->fixture.workers = 0; /* this process is the worker */
    must(mr_ps_connect(scene->fixture.address, 0, PS_FIXTURE_PATIENCE_US, &scene->ps));
    must(mr_ps_table_create(scene->ps, "vectors", &options, PS_FIXTURE_PATIENCE_US, &scene->table));
    next_step(scene, true);
}

static void finish(scene *scene) {
    mr_ps_table_free(scene->table);
    mr_ps_close(scene->ps);
    assert_true(ps_fixture_fini(&scene->fixture));
}

static uint32_t length_of(size_t i) { return (uint32_t)(i * 7 % (LONGEST + 1)); }
static float value_of(size_t i, size_t k) { return (float)i + (float)k / 32; }

static void check(const mr_ps_vectors *vectors, size_t from) {
    const float *values = vectors->values;
    size_t total = 0;
    assert_int_equal(vectors->count, KEYS - from);
    for (size_t i = from; i < KEYS; i++) {
        uint32_t length = i % 2 == 0 ? length_of(i) : 0; /* every other key was never pushed to */
        assert_int_equal(vectors->lengths[i - from], length);
        for (uint32_t k = 0; k < length; k++) assert_true(values[total + k] == value_of(i, k));
        total += length;
    }
    assert_int_equal(vectors->value_count, total);
}

static void lengths_come_with_the_values(mr_ps_consistency consistency) {
    static uint64_t keys[KEYS], pushed[KEYS];
    static uint32_t lengths[KEYS];
    static float values[KEYS * LONGEST];
    scene scene;
    size_t at = 0, count = 0;
    begin(&scene, consistency, 3);
    for (size_t i = 0; i < KEYS; i++) keys[i] = i * 1000003;
    for (size_t i = 0; i < KEYS; i += 2) {
        pushed[count] = keys[i];
        lengths[count++] = length_of(i);
        for (uint32_t k = 0; k < length_of(i); k++) values[at++] = value_of(i, k);
    }
    mr_ps_ticket ticket;
    must(mr_ps_push(scene.table, pushed, count, values, lengths, NULL, &ticket));
    next_step(&scene, false);
    must(mr_ps_wait(scene.ps, ticket, PS_FIXTURE_PATIENCE_US));
    for (int turn = 0; turn < 5; turn++) {
        mr_ps_vectors *vectors = NULL, *tail = NULL;
        mr_ps_push_stats before, after;
        mr_ps_push_stats_get(scene.ps, &before);
        must(mr_ps_pull_vectors(scene.table, keys, KEYS, &vectors, NULL, NULL));
        mr_ps_push_stats_get(scene.ps, &after);
        assert_int_equal(after.pull_bytes_sent - before.pull_bytes_sent < 1000, turn >= 2); /* known lists of keys */
        must(mr_ps_pull_vectors(scene.table, keys + 10, KEYS - 10, &tail, NULL, &ticket));
        must(mr_ps_wait(scene.ps, ticket, PS_FIXTURE_PATIENCE_US));
        check(vectors, 0);
        check(tail, 10);
        mr_ps_vectors_free(vectors);
        mr_ps_vectors_free(tail);
    }
    finish(&scene);
}

static void lengths_come_in_asp(void **state) { lengths_come_with_the_values(MR_PS_ASP); }
static void lengths_come_in_bsp(void **state) { lengths_come_with_the_values(MR_PS_BSP); }

/* All vectors of the slot exceed the largest answer: the query is divided. */
static void large_vectors_come_in_parts(void **state) {
    uint64_t keys[LARGE];
    uint32_t ones[LARGE];
    float few[LARGE], *values = malloc(LARGE_ITEMS * sizeof *values);
    mr_ps_vectors *vectors = NULL;
    scene scene;
    begin(&scene, MR_PS_ASP, 1);
    assert_non_null(values);
    for (uint32_t i = 0; i < LARGE; i++) {
        const uint32_t length = LARGE_ITEMS - i;
        keys[i] = i;
        ones[i] = 1;
        for (size_t k = 0; k < length; k++) values[k] = (float)(i + k % 1000);
        must(mr_ps_push(scene.table, &keys[i], 1, values, &length, NULL, NULL));
    }
    must(mr_ps_pull_vectors(scene.table, keys, LARGE, &vectors, NULL, NULL));
    const float *at = vectors->values;
    for (uint32_t i = 0; i < LARGE; i++) {
        assert_int_equal(vectors->lengths[i], LARGE_ITEMS - i);
        for (size_t k = 0; k < LARGE_ITEMS - i; k++) assert_true(at[k] == (float)(i + k % 1000));
        at += LARGE_ITEMS - i;
    }
    mr_ps_vectors_free(vectors);
    /* the lengths are known, and much shorter: the answer would be as large */
    assert_int_equal(mr_ps_pull(scene.table, keys, LARGE, few, ones, NULL, NULL), MR_TOO_LARGE);
    must(mr_ps_pull(scene.table, keys, 2, few, ones, NULL, NULL));
    assert_true(few[0] == 0 && few[1] == 1);
    free(values);
    finish(&scene);
}

static void mistakes_are_rejected(void **state) {
    const uint64_t keys[] = {1, 2}, falling[] = {2, 1};
    mr_ps_vectors *vectors = NULL;
    mr_ps_version *version;
    mr_ps_table *rows;
    scene scene;
    begin(&scene, MR_PS_ASP, 2);
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 3);
    must(mr_ps_table_create(scene.ps, "rows", &options, PS_FIXTURE_PATIENCE_US, &rows));
    must(mr_ps_version_create(scene.table, &version));
    const mr_ps_request_options conditional = MR_OPTIONS(mr_ps_request_options, .version = version);
    assert_int_equal(mr_ps_pull_vectors(scene.table, keys, 2, NULL, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_vectors(scene.table, falling, 2, &vectors, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_vectors(scene.table, NULL, 2, &vectors, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_vectors(scene.table, keys, 2, &vectors, &conditional, NULL), MR_INVALID);
    for (size_t count = 0; count <= 2; count++)
        assert_int_equal(mr_ps_pull_vectors(rows, keys, count, &vectors, NULL, NULL), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "'rows' has rows of 3 values; use mr_ps_pull"));
    assert_null(vectors);
    must(mr_ps_pull_vectors(scene.table, NULL, 0, &vectors, NULL, NULL));
    assert_true(vectors->count == 0 && vectors->value_count == 0);
    mr_ps_vectors_free(vectors);
    mr_ps_vectors_free(NULL);
    mr_ps_version_free(version);
    mr_ps_table_free(rows);
    finish(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_come_in_asp),
        cmocka_unit_test(lengths_come_in_bsp),
        cmocka_unit_test(large_vectors_come_in_parts),
        cmocka_unit_test(mistakes_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
