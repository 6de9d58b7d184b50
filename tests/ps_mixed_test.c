/* ps_mixed_test.c — consistency per table: bsp, ssp and asp in one deployment of processes that are killed; the
 * guarantees of each, and invalid requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { STEPS = 120, STEP_US = 4000, RANKS = 2 };
#define SHORT_US INT64_C(200000)

/* ---- Processes that train with a table of each kind, while others are killed (ps_fixture.h compares the bits). */

static ps_fixture world_of(void) {
    return (ps_fixture){.servers = 3,
                        .workers = 4,
                        .slots = 3,
                        .copies = 2,
                        .steps = STEPS,
                        .step_us = STEP_US,
                        .consistency = MR_PS_BSP,
                        .mixed = true};
}

static void begin_world(ps_fixture *fixture) {
    assert_true(ps_fixture_init(fixture));
    assert_true(ps_fixture_start(fixture));
    assert_true(ps_fixture_reaches(fixture, 5));
}

static void finish_world(ps_fixture *fixture) {
    assert_true(ps_fixture_trained(fixture));
    assert_true(ps_fixture_fini(fixture));
}

static void a_server_and_a_worker_are_killed(void **state) {
    ps_fixture fixture = world_of();
    begin_world(&fixture);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    mr_ps_replica dead = ps_fixture_process(&fixture, 1);
    ps_fixture_kill(&fixture, &fixture.server[1]);
    ps_fixture_kill(&fixture, &fixture.worker[2]);
    ps_fixture_start_worker(&fixture, 2);
    ps_fixture_start_server(&fixture, 1);
    assert_true(ps_fixture_full(&fixture, 0, &dead));
    finish_world(&fixture);
}

static void all_go_back_to_one_checkpoint(void **state) {
    ps_fixture fixture = world_of();
    fixture.slots = 2;
    fixture.checkpoint_us = 200000;
    fixture.steps = 0; /* no limit: ends when a checkpoint is complete, which syncs each slot to disk */
    begin_world(&fixture);
    for (int i = 0; i < 3000 && ps_fixture_checkpoint(&fixture) == 0; i++) usleep(10000);
    uint64_t whole = ps_fixture_checkpoint(&fixture), past = ps_fixture_generation(&fixture);
    assert_true(whole != 0);
    for (uint32_t i = 0; i < fixture.workers; i++) ps_fixture_kill(&fixture, &fixture.worker[i]);
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_kill(&fixture, &fixture.server[i]);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    assert_true(ps_fixture_start(&fixture));
    assert_true(ps_fixture_full(&fixture, past, NULL));
    mr_ps_cluster_map *map = NULL;
    must(mr_ps_cluster_map_get(fixture.address, PS_FIXTURE_PATIENCE_US, &map));
    assert_true(map->restored_from >= whole);
    assert_int_equal(map->info.slots, 2);
    assert_int_equal(map->slot_count, 2 * 2 + 1);
    assert_int_equal(map->info.mixed_consistency, 1);
    mr_ps_cluster_map_free(map);
    ps_fixture_stop(&fixture);
    finish_world(&fixture);
}

/* ---- Two ranks of this process. */

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps[RANKS];
} scene;

static void begin(scene *scene, mr_ps_consistency consistency, bool mixed) {
    scene->fixture = (ps_fixture){
        .servers = 2, .workers = RANKS, .slots = 2, .copies = 1, .consistency = consistency, .mixed = mixed};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&scene->fixture, i);
    scene->fixture.workers = 0; /* this process holds both ranks */
    for (int i = 0; i < RANKS; i++)
        must(mr_ps_connect(scene->fixture.address, i, PS_FIXTURE_PATIENCE_US, &scene->ps[i]));
}

static void finish(scene *scene) {
    for (int i = 0; i < RANKS; i++) mr_ps_close(scene->ps[i]);
    assert_true(ps_fixture_fini(&scene->fixture));
}

static mr_ps_table *table_of(scene *scene, int rank, const char *consistency) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .consistency = consistency);
    mr_ps_table *table = NULL;
    must(mr_ps_table_create(scene->ps[rank], consistency, &options, PS_FIXTURE_PATIENCE_US, &table));
    return table;
}

static void begin_step(scene *scene, int rank, uint64_t expected) {
    uint64_t step = UINT64_MAX;
    must(mr_ps_begin(scene->ps[rank], PS_FIXTURE_PATIENCE_US, &step));
    assert_int_equal(step, expected);
}

static void add(mr_ps_table *table, uint64_t key, float value) {
    must(mr_ps_push(table, &key, 1, &value, NULL, NULL, &(mr_ps_ticket){0}));
}

static float shown(mr_ps_table *table, uint64_t key) {
    float value = -1;
    must(mr_ps_pull(table, &key, 1, &value, NULL, NULL, NULL));
    return value;
}

/* A rank without a table with rounds does not wait for rounds. A rank that opens such a table continues with the
 * others' round. */
static void only_those_with_rounds_wait(void **state) {
    enum { AHEAD = 12 };
    scene scene;
    uint64_t step;
    begin(&scene, MR_PS_ASP, true);
    mr_ps_table *sums = table_of(&scene, 0, "bsp"), *mine = table_of(&scene, 0, "asp"),
                *loose = table_of(&scene, 1, "asp");
    for (uint64_t i = 0; i < AHEAD; i++) { /* the other rank has begun no step */
        begin_step(&scene, 1, i);
        add(loose, 7, 1);
        must(mr_ps_end(scene.ps[1]));
    }
    for (uint64_t i = 0; i < AHEAD; i++) {
        begin_step(&scene, 0, i);
        assert_true(shown(sums, 3) == 2 * (float)i);
        add(sums, 3, 2);
        add(mine, 7, 1);
        must(mr_ps_end(scene.ps[0]));
    }
    must(mr_ps_flush(scene.ps[1], PS_FIXTURE_PATIENCE_US)); /* all rounds are complete */
    begin_step(&scene, 1, AHEAD);
    mr_ps_table *late = table_of(&scene, 1, "bsp");
    float value = 1;
    assert_int_equal(mr_ps_push(late, &(uint64_t){3}, 1, &value, NULL, NULL, &(mr_ps_ticket){0}), MR_STALE);
    assert_true(shown(loose, 7) == 2 * AHEAD);
    must(mr_ps_end(scene.ps[1]));
    assert_int_equal(mr_ps_begin(scene.ps[1], SHORT_US, &step), MR_TIMEOUT); /* the other rank is in the step */
    begin_step(&scene, 0, AHEAD);
    must(mr_ps_end(scene.ps[0]));
    for (int i = 0; i < RANKS; i++) begin_step(&scene, i, AHEAD + 1);
    assert_true(shown(late, 3) == 2 * AHEAD);
    add(late, 3, 0.5f);
    add(sums, 3, 0.25f);
    for (int i = 0; i < RANKS; i++) must(mr_ps_end(scene.ps[i]));
    for (int i = 0; i < RANKS; i++) begin_step(&scene, i, AHEAD + 2);
    assert_true(shown(late, 3) == 2 * AHEAD + 0.75f && shown(sums, 3) == 2 * AHEAD + 0.75f);
    mr_ps_table_free(sums);
    mr_ps_table_free(mine);
    mr_ps_table_free(loose);
    mr_ps_table_free(late);
    finish(&scene);
}

/* Tables with different bounds share their slots. */
static void a_bound_is_that_of_its_table(void **state) {
    enum { BOUND = 2 };
    scene scene;
    begin(&scene, MR_PS_ASP, false);
    mr_ps_table *loose = table_of(&scene, 1, "asp"), *bounded = table_of(&scene, 1, "ssp:2"),
                *looser = table_of(&scene, 1, "ssp:9"), *other = table_of(&scene, 0, "ssp:2");
    for (uint64_t i = 0; i <= BOUND; i++) {
        begin_step(&scene, 1, i);
        add(bounded, 1, 1);
        add(loose, 1, 1);
        assert_true(shown(bounded, 1) == (float)(i + 1)); /* has the rank's own pushes */
        must(mr_ps_end(scene.ps[1]));
    }
    begin_step(&scene, 1, BOUND + 1);
    assert_true(shown(loose, 1) == BOUND + 1 && shown(looser, 1) == 0); /* tables without a bound */
    mr_ps_ticket ticket;
    float value = -1;
    must(mr_ps_pull(bounded, &(uint64_t){1}, 1, &value, NULL, NULL, &ticket));
    assert_int_equal(mr_ps_wait(scene.ps[1], ticket, SHORT_US), MR_TIMEOUT);
    begin_step(&scene, 0, 0);
    add(other, 1, 10);
    must(mr_ps_end(scene.ps[0]));
    must(mr_ps_wait(scene.ps[1], ticket, PS_FIXTURE_PATIENCE_US));
    assert_true(value == BOUND + 1 + 10); /* pushes of the step that the other rank had to end */
    mr_ps_table_free(loose);
    mr_ps_table_free(bounded);
    mr_ps_table_free(looser);
    mr_ps_table_free(other);
    finish(&scene);
}

/* ---- Invalid requests. */

static mr_status create(scene *scene, const char *name, const char *consistency) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .consistency = consistency);
    mr_ps_table *table = NULL;
    mr_status status = mr_ps_table_create(scene->ps[0], name, &options, PS_FIXTURE_PATIENCE_US, &table);
    mr_ps_table_free(table);
    return status;
}

static void is_told(const char *what) {
    if (strstr(mr_last_error(), what) == NULL) fail_msg("'%s' does not say '%s'", mr_last_error(), what);
}

static void unavailable_consistencies_are_refused(void **state) {
    static const char *const none[] = {"BSP", "ssp", "ssp:", "ssp:-1", "ssp:2x", "ssp:1048577", "sequential"};
    scene scene;
    begin(&scene, MR_PS_ASP, false);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(create(&scene, "t", none[i]), MR_INVALID);
        is_told("unknown consistency");
    }
    assert_int_equal(create(&scene, "t", "bsp"), MR_INVALID);
    is_told("no rounds");
    is_told("mixed");
    must(create(&scene, "t", NULL));
    must(create(&scene, "t", "asp")); /* with the consistency of its creation */
    must(create(&scene, "t", ""));
    assert_int_equal(create(&scene, "t", "ssp:3"), MR_EXISTS);
    is_told("consistency");
    must(create(&scene, "u", "ssp:003"));
    mr_ps_table *table;
    mr_ps_table_options options = MR_INIT(mr_ps_table_options);
    must(mr_ps_table_open(scene.ps[1], "u", PS_FIXTURE_PATIENCE_US, &table));
    mr_ps_table_options_get(table, &options);
    assert_string_equal(options.consistency, "ssp:3");
    mr_ps_table_free(table);
    finish(&scene);
    begin(&scene, MR_PS_BSP, false);
    assert_int_equal(create(&scene, "t", "asp"), MR_INVALID);
    is_told("rounds only");
    must(create(&scene, "t", "bsp"));
    finish(&scene);
    begin(&scene, MR_PS_ASP, true);
    const mr_ps_table_options clipped = MR_OPTIONS(mr_ps_table_options, .clip_norm = 1, .consistency = "bsp"),
                              loose = MR_OPTIONS(mr_ps_table_options, .clip_norm = 1);
    must(mr_ps_table_create(scene.ps[0], "clipped", &clipped, PS_FIXTURE_PATIENCE_US, &table)); /* has rounds */
    mr_ps_table_free(table);
    assert_int_equal(mr_ps_table_create(scene.ps[0], "loose", &loose, PS_FIXTURE_PATIENCE_US, &table), MR_INVALID);
    is_told("clip_norm");
    finish(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_those_with_rounds_wait),           cmocka_unit_test(a_bound_is_that_of_its_table),
        cmocka_unit_test(unavailable_consistencies_are_refused), cmocka_unit_test(a_server_and_a_worker_are_killed),
        cmocka_unit_test(all_go_back_to_one_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
