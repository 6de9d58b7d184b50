/* ps_zero_copy_test.c — large arrays that are pushed from the caller's memory (kv/client/zero_copy.h) while servers are
 * killed and stopped: as soon as a ticket is over, or a call has timed out, that memory is overwritten and freed. At
 * the end the values have the bits of plain sums in one process. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { SLOTS = 4, ITEMS = 2 << 20, BLOCK = 64 << 10, STEPS = 10, STRUCK = 4, BUFFERS = 3, SHORT_US = 100000 };

typedef struct buffer {
    float *values; /* owned; NULL: no push in flight */
    mr_ps_ticket ticket;
} buffer;

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
    mr_ps_table *table;
    buffer buffers[BUFFERS];
    unsigned voided; /* pushes that a restore voided */
    bool struck;
} scene;

static void begin(scene *scene, const ps_fixture *kind) {
    const mr_ps_array array = {.name = "all", .dims = 1, .shape = {ITEMS}};
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = BLOCK);
    *scene = (struct scene){.fixture = *kind};
    scene->fixture.slots = SLOTS;
    scene->fixture.workers = 1;
    scene->fixture.consistency = MR_PS_ASP;
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < scene->fixture.servers; i++) ps_fixture_start_server(&scene->fixture, i);
    scene->fixture.workers = 0; /* this process is the worker */
    scene->ps = ps_fixture_connect(&scene->fixture, 0);
    assert_non_null(scene->ps);
    must(mr_ps_table_create(scene->ps, "table", &options, PS_FIXTURE_PATIENCE_US, &scene->table));
    assert_true(ps_fixture_full(&scene->fixture, 0, NULL));
}

static void finish(scene *scene) {
    mr_ps_table_free(scene->table);
    mr_ps_close(scene->ps);
    assert_true(ps_fixture_fini(&scene->fixture));
}

/* Sums of these values are rounded, so they depend on the order and on each push counting once. */
static float value_of(uint64_t step, size_t i) { return (float)((i * 31 + step * 17) % 1009) / 97.0f; }

static float *values_of(uint64_t step) {
    float *values = xmalloc(ITEMS * sizeof *values);
    for (size_t i = 0; i < ITEMS; i++) values[i] = value_of(step, i);
    return values;
}

static void overwrite(float *values) {
    memset(values, 0xff, ITEMS * sizeof *values);
    free(values);
}

static void expect(scene *scene, uint64_t steps) {
    float *shown = xmalloc(ITEMS * sizeof *shown);
    size_t wrong = 0;
    must(mr_ps_pull_array(scene->table, 0, shown, 0, ITEMS, NULL, NULL));
    for (size_t i = 0; i < ITEMS; i++) {
        float sum = 0;
        for (uint64_t step = 0; step < steps; step++) sum += value_of(step, i);
        wrong += memcmp(&sum, &shown[i], sizeof sum) != 0;
    }
    assert_int_equal(wrong, 0);
    free(shown);
}

static uint64_t step_of(scene *scene) {
    uint64_t step;
    must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &step));
    return step;
}

/* False for MR_STALE: the step, and possibly earlier ones, must be repeated. */
static bool is_valid(scene *scene, mr_status status) {
    if (status != MR_STALE) must(status);
    scene->voided += status == MR_STALE;
    return status == MR_OK;
}

static void take_back(scene *scene, buffer *buffer) {
    if (buffer->values == NULL) return;
    (void)is_valid(scene, mr_ps_wait(scene->ps, buffer->ticket, PS_FIXTURE_PATIENCE_US));
    overwrite(buffer->values);
    buffer->values = NULL;
}

typedef void strike_fn(scene *scene);

/* A stopped server does not read, so pushes to it are still borrowed when it is killed. */
static void push_step(scene *scene, uint64_t step, strike_fn *strike) {
    buffer *buffer = &scene->buffers[step % BUFFERS];
    bool strikes = step == STRUCK && !scene->struck;
    take_back(scene, buffer);
    if (strikes) {
        kill(scene->fixture.server[0], SIGSTOP);
        assert_true(test_child_stops(scene->fixture.server[0]));
    }
    buffer->values = values_of(step);
    mr_status status = mr_ps_push_array(scene->table, 0, buffer->values, 0, ITEMS, NULL, &buffer->ticket);
    if (!is_valid(scene, status)) {
        overwrite(buffer->values);
        buffer->values = NULL;
        return;
    }
    if (strikes) {
        assert_int_equal(mr_ps_wait(scene->ps, buffer->ticket, SHORT_US), MR_TIMEOUT);
        strike(scene);
        scene->struck = true;
    }
    (void)is_valid(scene, mr_ps_end(scene->ps));
}

static void play(scene *scene, strike_fn *strike) {
    unsigned voided;
    do {
        voided = scene->voided;
        for (uint64_t step; (step = step_of(scene)) < STEPS;) push_step(scene, step, strike);
        for (int i = 0; i < BUFFERS; i++) take_back(scene, &scene->buffers[i]);
    } while (scene->voided != voided);
    assert_true(scene->struck);
    must(mr_ps_flush(scene->ps, PS_FIXTURE_PATIENCE_US));
    expect(scene, STEPS);
    printf("    %u pushes were made again\n", scene->voided); /* two replicas: only if other servers were suspected */
}

static void kill_it(scene *scene) {
    ps_fixture_kill(&scene->fixture, &scene->fixture.server[0]);
    ps_fixture_start_server(&scene->fixture, 0);
}

static void a_server_is_killed(const ps_fixture *kind) {
    scene scene;
    begin(&scene, kind);
    play(&scene, kill_it);
    finish(&scene);
}

static void a_server_is_killed_by_tcp(void **state) {
    a_server_is_killed(&(ps_fixture){.tcp = true, .servers = 3, .copies = 2});
}

static void a_server_is_killed_by_unix(void **state) { a_server_is_killed(&(ps_fixture){.servers = 3, .copies = 2}); }

/* The killed server's slots have no other replica: the tables go back to a checkpoint, and later steps are repeated. */
static void the_only_copy_is_killed(void **state) {
    scene scene;
    begin(&scene, &(ps_fixture){.tcp = true, .servers = 2, .copies = 1, .checkpoint_us = 300000});
    play(&scene, kill_it);
    assert_true(scene.voided != 0);
    finish(&scene);
}

/* Other servers get the slots of the struck server while the link to it is full of sent data; the ticket ends
 * nevertheless. */
static void replace_it(scene *scene) {
    take_back(scene, &scene->buffers[STRUCK % BUFFERS]);
    kill(scene->fixture.server[0], SIGCONT);
}

static void a_server_stops_and_wakes_up(const ps_fixture *kind) {
    scene scene;
    begin(&scene, kind);
    play(&scene, replace_it);
    finish(&scene);
}

static void a_server_stops_by_tcp(void **state) {
    a_server_stops_and_wakes_up(&(ps_fixture){.tcp = true, .servers = 3, .copies = 2});
}

static void a_server_stops_by_unix(void **state) {
    a_server_stops_and_wakes_up(&(ps_fixture){.servers = 3, .copies = 2});
}

/* The scheduler is stopped first, so that it suspects no server. */
static void stop_all(ps_fixture *fixture) {
    kill(fixture->scheduler, SIGSTOP);
    assert_true(test_child_stops(fixture->scheduler));
    for (uint32_t i = 0; i < fixture->servers; i++) kill(fixture->server[i], SIGSTOP);
    for (uint32_t i = 0; i < fixture->servers; i++) assert_true(test_child_stops(fixture->server[i]));
}

/* After a timeout the push is still applied; the pull writes nothing. */
static void calls_that_give_up(const ps_fixture *kind) {
    const mr_ps_request_options soon = MR_OPTIONS(mr_ps_request_options, .timeout_us = SHORT_US),
                                forever = MR_OPTIONS(mr_ps_request_options, .timeout_us = MR_FOREVER);
    scene scene;
    begin(&scene, kind);
    assert_int_equal(step_of(&scene), 0);
    float *values = values_of(0), *shown = values_of(1), *pushed = values_of(1);
    must(mr_ps_push_array(scene.table, 0, values, 0, ITEMS, &forever, NULL));
    overwrite(values);
    stop_all(&scene.fixture);
    assert_int_equal(mr_ps_pull_array(scene.table, 0, shown, 0, ITEMS, &soon, NULL), MR_TIMEOUT);
    assert_said("is not done");
    assert_int_equal(mr_ps_push_array(scene.table, 0, pushed, 0, ITEMS, &soon, NULL), MR_TIMEOUT);
    overwrite(shown);
    overwrite(pushed);
    for (uint32_t i = 0; i < scene.fixture.servers; i++) kill(scene.fixture.server[i], SIGCONT);
    must(mr_ps_flush(scene.ps, PS_FIXTURE_PATIENCE_US));
    kill(scene.fixture.scheduler, SIGCONT);
    expect(&scene, 2);
    must(mr_ps_end(scene.ps));
    finish(&scene);
}

static void calls_give_up_by_tcp(void **state) {
    calls_that_give_up(&(ps_fixture){.tcp = true, .servers = 1, .copies = 1});
}
static void calls_give_up_by_unix(void **state) { calls_that_give_up(&(ps_fixture){.servers = 2, .copies = 2}); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_killed_by_tcp), cmocka_unit_test(a_server_is_killed_by_unix),
        cmocka_unit_test(the_only_copy_is_killed),   cmocka_unit_test(a_server_stops_by_tcp),
        cmocka_unit_test(a_server_stops_by_unix),    cmocka_unit_test(calls_give_up_by_tcp),
        cmocka_unit_test(calls_give_up_by_unix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
