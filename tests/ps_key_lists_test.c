/* ps_key_lists_test.c — lists of keys that are pulled repeatedly: the answers, the bytes sent, and servers that have
 * forgotten the lists, or are new. */
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

enum { SLOTS = 3, DIM = 2, COUNT = 2000, MANY = 120 };

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
    mr_ps_table *rows, *vectors;
    uint64_t keys[COUNT];
    uint32_t lengths[COUNT];
} scene;

static void list_of(scene *scene, uint64_t stride, uint64_t number) {
    for (uint64_t i = 0; i < COUNT; i++) scene->keys[i] = i * stride + number;
}

/* Values follow from the numbers of the keys. */
static void begin(scene *scene, mr_ps_consistency consistency) {
    static float values[COUNT * DIM];
    uint64_t step;
    mr_ps_ticket tickets[2];
    scene->fixture = (ps_fixture){.servers = 2, .workers = 1, .slots = SLOTS, .copies = 2, .consistency = consistency};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&scene->fixture, i);
    scene->fixture.workers = 0; /* this process is the worker */
    must(mr_ps_connect(scene->fixture.address, 0, PS_FIXTURE_PATIENCE_US, &scene->ps));
    const mr_ps_table_options rows = MR_OPTIONS(mr_ps_table_options, .dim = DIM),
                              vectors = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS);
    must(mr_ps_table_create(scene->ps, "rows", &rows, PS_FIXTURE_PATIENCE_US, &scene->rows));
    must(mr_ps_table_create(scene->ps, "vectors", &vectors, PS_FIXTURE_PATIENCE_US, &scene->vectors));
    must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &step));
    list_of(scene, 11, 0);
    for (size_t i = 0; i < COUNT; i++) scene->lengths[i] = DIM;
    for (size_t i = 0; i < COUNT * DIM; i++) values[i] = (float)i + 1;
    must(mr_ps_push(scene->rows, scene->keys, COUNT, values, NULL, NULL, &tickets[0]));
    must(mr_ps_push(scene->vectors, scene->keys, COUNT, values, scene->lengths, NULL, &tickets[1]));
    must(mr_ps_end(scene->ps));
    must(mr_ps_flush(scene->ps, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &step));
}

static void finish(scene *scene) {
    mr_ps_table_free(scene->rows);
    mr_ps_table_free(scene->vectors);
    mr_ps_close(scene->ps);
    assert_true(ps_fixture_fini(&scene->fixture));
}

static void pull(scene *scene, bool vectors) {
    static float shown[COUNT * DIM];
    memset(shown, 0, sizeof shown);
    if (vectors)
        must(mr_ps_pull(scene->vectors, scene->keys, COUNT, shown, scene->lengths, NULL, NULL));
    else
        must(mr_ps_pull(scene->rows, scene->keys, COUNT, shown, NULL, NULL, NULL));
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < DIM; k++) {
            bool pushed = scene->keys[i] % 11 == 0 && scene->keys[i] / 11 < COUNT;
            float wanted = pushed ? (float)(scene->keys[i] / 11 * DIM + k + 1) : 0;
            assert_true(shown[i * DIM + k] == wanted);
        }
}

static uint64_t sent_by(scene *scene, bool vectors) {
    mr_ps_push_stats before, after;
    mr_ps_push_stats_get(scene->ps, &before);
    pull(scene, vectors);
    mr_ps_push_stats_get(scene->ps, &after);
    assert_true(after.pull_bytes - before.pull_bytes >= COUNT * 8);
    return after.pull_bytes_sent - before.pull_bytes_sent;
}

static uint64_t repeated(scene *scene) {
    mr_ps_push_stats traffic;
    mr_ps_push_stats_get(scene->ps, &traffic);
    return traffic.pulls_repeated;
}

static void the_third_time(mr_ps_consistency consistency) {
    scene scene;
    begin(&scene, consistency);
    for (int vectors = 0; vectors < 2; vectors++) {
        bool known = vectors == 1; /* the same keys in another table: the slots know the list */
        for (int turn = 0; turn < 5; turn++) {
            uint64_t sent = sent_by(&scene, vectors);
            if (known || turn >= 2)
                assert_true(sent < 300);
            else
                assert_true(sent >= COUNT * 8);
        }
    }
    finish(&scene);
}

static void lists_are_named_in_asp(void **state) { the_third_time(MR_PS_ASP); }
static void lists_are_named_in_bsp(void **state) { the_third_time(MR_PS_BSP); }

/* More lists than a slot remembers are used in turn: an evicted list is sent again. */
static void an_evicted_list_is_sent_again(void **state) {
    scene scene;
    begin(&scene, MR_PS_ASP);
    for (int turn = 0; turn < 4; turn++)
        for (uint64_t number = 0; number < MANY * 2; number++) {
            list_of(&scene, 499, number); /* no two lists have a key in common */
            pull(&scene, false);
            pull(&scene, number % 2 == 0);
        }
    assert_true(repeated(&scene) > 0);
    finish(&scene);
}

static void another_head_does_not_have_them(void **state) {
    scene scene;
    begin(&scene, MR_PS_BSP);
    for (int turn = 0; turn < 4; turn++) pull(&scene, false);
    for (uint32_t i = 0; i < 2; i++) {
        mr_ps_replica dead = ps_fixture_process(&scene.fixture, i);
        ps_fixture_kill(&scene.fixture, &scene.fixture.server[i]);
        for (int turn = 0; turn < 20; turn++) pull(&scene, turn % 2);
        ps_fixture_start_server(&scene.fixture, i);
        assert_true(ps_fixture_full(&scene.fixture, 0, &dead));
    }
    assert_true(repeated(&scene) > 0);
    assert_true(sent_by(&scene, false) < 300); /* the slots know the lists */
    finish(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_named_in_asp),
        cmocka_unit_test(lists_are_named_in_bsp),
        cmocka_unit_test(an_evicted_list_is_sent_again),
        cmocka_unit_test(another_head_does_not_have_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
