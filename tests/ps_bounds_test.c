/* ps_bounds_test.c — requests and tables at the limits: too long, empty, of another table, without memory. Each is
 * refused with an error, and the requests after it are served. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { SHORT_US = 300000 };

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
    uint64_t step;
} scene;

static void begin(scene *scene, ps_fixture fixture) {
    fixture.servers = fixture.copies = fixture.workers = 1;
    fixture.slots = 3;
    scene->fixture = fixture;
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    ps_fixture_start_server(&scene->fixture, 0);
    scene->fixture.workers = 0; /* this process is the worker */
    must(mr_ps_connect(scene->fixture.address, 0, PS_FIXTURE_PATIENCE_US, &scene->ps));
    must(mr_ps_begin(scene->ps, PS_FIXTURE_PATIENCE_US, &scene->step));
}

static void finish(scene *scene) {
    mr_ps_close(scene->ps);
    assert_true(ps_fixture_fini(&scene->fixture));
}

static mr_ps_table *table_in(scene *scene, const char *name, mr_ps_table_options options) {
    mr_ps_table *table = NULL;
    must(mr_ps_table_create(scene->ps, name, &options, PS_FIXTURE_PATIENCE_US, &table));
    return table;
}

/* A request above a server's limit would never be acknowledged, nor would any request behind it. */
static void a_vector_that_is_too_long_is_refused(mr_ps_consistency consistency) {
    enum { MOST = (15 << 20) / sizeof(float), WITH_KEY = 16 };
    scene scene;
    begin(&scene, (ps_fixture){.consistency = consistency});
    mr_ps_table *table = table_in(&scene, "vectors", MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS));
    float *values = xcalloc(MOST + 1, sizeof *values), *shown = xcalloc(MOST, sizeof *shown);
    const uint64_t keys[] = {7, 8};
    mr_ps_ticket ticket;
    for (size_t i = 0; i < MOST; i++) values[i] = (float)i;
    assert_int_equal(mr_ps_push(table, keys, 2, values, (const uint32_t[]){1, MOST}, NULL, &ticket), MR_TOO_LARGE);
    assert_said("the vector of key 8 has ");
    must(mr_ps_push(table, keys, 1, values, (const uint32_t[]){MOST - WITH_KEY}, NULL, &ticket));
    must(mr_ps_end(scene.ps));
    must(mr_ps_wait(scene.ps, ticket, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_begin(scene.ps, PS_FIXTURE_PATIENCE_US, &scene.step));
    must(mr_ps_pull(table, keys, 2, shown, (const uint32_t[]){MOST - WITH_KEY, 1}, NULL, NULL));
    assert_memory_equal(shown, values, (MOST - WITH_KEY) * sizeof *values);
    assert_true(shown[MOST - WITH_KEY] == 0);
    free(values);
    free(shown);
    mr_ps_table_free(table);
    finish(&scene);
}

static void a_long_vector_of_asp(void **state) { a_vector_that_is_too_long_is_refused(MR_PS_ASP); }
static void a_long_vector_of_bsp(void **state) { a_vector_that_is_too_long_is_refused(MR_PS_BSP); }

static void memory_at_null_is_refused(void **state) {
    scene scene;
    begin(&scene, (ps_fixture){.consistency = MR_PS_ASP});
    const mr_ps_array array = {.name = "w", .dims = 1, .shape = {4}};
    mr_ps_table *rows = table_in(&scene, "rows", MR_OPTIONS(mr_ps_table_options, .dim = 2, .ordered = 1)), *none = NULL,
                *vectors = table_in(&scene, "vectors", MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS)),
                *dense =
                    table_in(&scene, "dense",
                             MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1));
    const uint64_t keys[] = {1, 2};
    uint64_t found[2];
    float values[4] = {1, 2, 3, 4};
    size_t count;
    for (size_t i = 1; i <= 2; i++) { /* single rows have a separate code path */
        assert_int_equal(mr_ps_push(rows, NULL, i, values, NULL, NULL, NULL), MR_INVALID);
        assert_said("keys is NULL");
        assert_int_equal(mr_ps_push(rows, keys, i, NULL, NULL, NULL, NULL), MR_INVALID);
        assert_said("keys are NULL");
        assert_int_equal(mr_ps_pull(rows, keys, i, NULL, NULL, NULL, NULL), MR_INVALID);
        assert_int_equal(mr_ps_push_pull(rows, keys, i, values, NULL, NULL, NULL, NULL), MR_INVALID);
        assert_int_equal(mr_ps_push_range(rows, 1, i, NULL, NULL, NULL), MR_INVALID);
    }
    assert_int_equal(mr_ps_push(vectors, keys, 2, NULL, (const uint32_t[]){0, 1}, NULL, NULL), MR_INVALID);
    must(mr_ps_push(vectors, keys, 2, NULL, (const uint32_t[]){0, 0}, NULL, NULL)); /* empty */
    assert_int_equal(mr_ps_push_array(dense, 0, NULL, 0, 4, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_array(dense, 0, NULL, 0, 4, NULL, NULL), MR_INVALID);
    must(mr_ps_push_array(dense, 0, NULL, 4, 0, NULL, NULL));
    assert_int_equal(mr_ps_pull_range(rows, 0, 9, NULL, values, 2, &count, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_range(rows, 0, 9, found, NULL, 2, &count, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_range(rows, 0, 9, found, values, 2, NULL, NULL, NULL), MR_INVALID);
    must(mr_ps_pull_range(rows, 0, 9, found, values, 2, &count, NULL, NULL));
    assert_int_equal(count, 0); /* no refused push was applied */
    assert_int_equal(mr_ps_table_create(scene.ps, "x",
                                        &MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .array_count = 1),
                                        PS_FIXTURE_PATIENCE_US, &none),
                     MR_INVALID);
    assert_said("arrays is NULL");
    mr_ps_table_free(rows);
    mr_ps_table_free(vectors);
    mr_ps_table_free(dense);
    finish(&scene);
}

/* The table is not created, since no process could open it and then drop it. */
static void a_table_that_cannot_lie_in_all_slots_is_not_made(void **state) {
    scene scene;
    begin(&scene, (ps_fixture){.consistency = MR_PS_ASP});
    const mr_ps_table_options few = MR_OPTIONS(mr_ps_table_options, .ordered = 1, .first_key = 7, .last_key = 8);
    mr_ps_table *table = NULL;
    mr_ps_table_list *listing;
    assert_int_equal(mr_ps_table_create(scene.ps, "few", &few, PS_FIXTURE_PATIENCE_US, &table), MR_INVALID);
    assert_said("fewer keys than slots");
    must(mr_ps_tables(scene.ps, PS_FIXTURE_PATIENCE_US, &listing));
    assert_int_equal(listing->count, 0);
    mr_ps_table_list_free(listing);
    table = table_in(&scene, "few", MR_OPTIONS(mr_ps_table_options, .ordered = 1, .first_key = 7, .last_key = 9));
    mr_ps_table_free(table);
    finish(&scene);
}

static void a_mark_is_of_one_table(void **state) {
    scene scene;
    begin(&scene, (ps_fixture){.consistency = MR_PS_ASP});
    mr_ps_table *one = table_in(&scene, "one", (mr_ps_table_options)MR_INIT(mr_ps_table_options)),
                *other = table_in(&scene, "other", (mr_ps_table_options)MR_INIT(mr_ps_table_options));
    mr_ps_version *mark;
    const uint64_t key = 1;
    float shown = 5;
    must(mr_ps_version_create(other, &mark));
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .version = mark);
    assert_int_equal(mr_ps_pull(one, &key, 1, &shown, NULL, &options, NULL), MR_INVALID);
    assert_said("to another table than 'one'");
    must(mr_ps_pull(other, &key, 1, &shown, NULL, &options, NULL));
    assert_true(shown == 0);
    mr_ps_version_free(mark);
    mr_ps_table_free(one);
    mr_ps_table_free(other);
    finish(&scene);
}

/* When memory is missing, rounds cannot continue, and waiting ranks get the cause. */
static void a_round_for_which_there_is_no_memory(void **state) {
    enum { DIM = 1024, ROWS = 1024, ROUNDS = 64 }; /* 4 MB each, of the server's 64 MB */
    scene scene;
    begin(&scene, (ps_fixture){.consistency = MR_PS_BSP, .memory = 1});
    mr_ps_table *table = table_in(&scene, "much", MR_OPTIONS(mr_ps_table_options, .dim = DIM));
    float *values = xcalloc(ROWS * DIM, sizeof *values);
    mr_status status = MR_OK;
    while (status == MR_OK && scene.step < ROUNDS) {
        uint64_t keys[ROWS];
        mr_ps_ticket ticket;
        for (uint64_t i = 0; i < ROWS; i++) keys[i] = scene.step * ROWS + i;
        must(mr_ps_push(table, keys, ROWS, values, NULL, NULL, &ticket));
        must(mr_ps_end(scene.ps));
        status = mr_ps_begin(scene.ps, 10 * SHORT_US, &scene.step);
    }
    assert_int_equal(status, MR_TIMEOUT);
    assert_said("is out of memory");
    assert_int_equal(mr_ps_flush(scene.ps, SHORT_US), MR_TIMEOUT);
    assert_said("is out of memory");
    free(values);
    mr_ps_table_free(table);
    finish(&scene);
}

typedef struct caller {
    const char *address;
    mr_ps *ps;
} caller;

static void *connect_early(void *argument) {
    caller *caller = argument;
    if (mr_ps_connect(caller->address, 0, PS_FIXTURE_PATIENCE_US, &caller->ps) != MR_OK) caller->ps = NULL;
    return NULL;
}

/* A worker connects while servers are missing, and the error names them. A later wait has another cause. */
static void a_stall_that_ended_is_not_reported(void **state) {
    enum { WORKERS = 2, EARLY_US = 1500000 }; /* the cause is reported every second */
    ps_fixture fixture = {.servers = 1, .workers = WORKERS, .slots = 1, .copies = 1, .consistency = MR_PS_BSP};
    pthread_t thread;
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    fixture.workers = 0;
    caller caller = {.address = fixture.address};
    uint64_t step;
    assert_int_equal(pthread_create(&thread, NULL, connect_early, &caller), 0);
    usleep(EARLY_US);
    ps_fixture_start_server(&fixture, 0);
    pthread_join(thread, NULL);
    assert_non_null(caller.ps);
    must(mr_ps_begin(caller.ps, PS_FIXTURE_PATIENCE_US, &step));
    must(mr_ps_end(caller.ps));
    assert_int_equal(mr_ps_begin(caller.ps, SHORT_US, &step), MR_TIMEOUT); /* the other rank never begins the step */
    assert_said("step 1 cannot begin");
    assert_null(strstr(mr_last_error(), "servers are here"));
    mr_ps_close(caller.ps);
    assert_true(ps_fixture_fini(&fixture));
}

static uint32_t slots_at(mr_ps *ps) {
    mr_ps_info info;
    mr_ps_info_get(ps, &info);
    return info.slots;
}

/* The folder decides where keys are: a scheduler that names no number of slots takes the folder's. */
static void a_folder_keeps_its_slots(void **state) {
    scene scene;
    begin(&scene, (ps_fixture){.consistency = MR_PS_ASP});
    mr_ps_close(scene.ps);
    for (uint32_t slots = 0; slots <= 3; slots += 3) {
        ps_fixture_kill(&scene.fixture, &scene.fixture.scheduler);
        scene.fixture.slots = slots;
        scene.fixture.workers = 1;
        assert_true(ps_fixture_start_scheduler(&scene.fixture));
        scene.fixture.workers = 0;
        must(mr_ps_connect(scene.fixture.address, 0, PS_FIXTURE_PATIENCE_US, &scene.ps));
        assert_int_equal(slots_at(scene.ps), 3);
        if (slots == 0) mr_ps_close(scene.ps);
    }
    finish(&scene);
    ps_fixture fresh = {.servers = 1, .workers = 1, .slots = 0, .copies = 1, .consistency = MR_PS_ASP};
    assert_true(ps_fixture_init(&fresh));
    assert_true(ps_fixture_start_scheduler(&fresh));
    ps_fixture_start_server(&fresh, 0);
    fresh.workers = 0;
    mr_ps *ps = ps_fixture_connect(&fresh, 0);
    assert_non_null(ps);
    assert_int_equal(slots_at(ps), 16);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fresh));
}

static void a_pull_that_waits_for_the_slowest_says_so(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 2, .slots = 1, .copies = 1, .consistency = MR_PS_SSP};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    fixture.workers = 0;
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    mr_ps_table *table;
    const uint64_t key = 1;
    float shown;
    uint64_t step;
    must(mr_ps_table_create(ps, "rows", NULL, PS_FIXTURE_PATIENCE_US, &table));
    for (int i = 0; i < 4; i++) {
        must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        must(mr_ps_end(ps));
    }
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    const mr_ps_request_options brief = MR_OPTIONS(mr_ps_request_options, .timeout_us = SHORT_US);
    assert_int_equal(mr_ps_pull(table, &key, 1, &shown, NULL, &brief, NULL), MR_TIMEOUT);
    assert_said("the slowest rank");
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- A slot, and the push of a step to it, that are larger than any packet between processes. */

enum { LARGE_ITEMS = 20 << 20 }; /* 80 MB */

static void replace_server(ps_fixture *fixture, uint32_t number) {
    const mr_ps_replica dead = ps_fixture_process(fixture, number);
    ps_fixture_kill(fixture, &fixture->server[number]);
    ps_fixture_start_server(fixture, number);
    assert_true(ps_fixture_full(fixture, 0, &dead));
}

/* Steps without pushes, until the scheduler has a checkpoint. */
static void await_checkpoint(const ps_fixture *fixture, mr_ps *ps) {
    uint64_t step;
    for (int i = 0; i < 600 && ps_fixture_checkpoint(fixture) == 0; i++) {
        must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        must(mr_ps_end(ps));
        usleep(100000);
    }
    assert_true(ps_fixture_checkpoint(fixture) != 0);
}

static void a_large_slot_has_its_replicas_and_checkpoints(void **state) {
    ps_fixture fixture = {
        .servers = 2, .workers = 1, .slots = 1, .copies = 2, .checkpoint_us = 500000, .consistency = MR_PS_BSP};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    fixture.workers = 0; /* this process is the worker */
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    mr_ps_table *table;
    const mr_ps_array array = {.name = "w", .dims = 1, .shape = {LARGE_ITEMS}};
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1);
    must(mr_ps_table_create(ps, "large", &options, PS_FIXTURE_PATIENCE_US, &table));
    float *values = xmalloc(LARGE_ITEMS * sizeof *values), *shown = xcalloc(LARGE_ITEMS, sizeof *shown);
    for (size_t i = 0; i < LARGE_ITEMS; i++) values[i] = (float)(i % 1000003);
    uint64_t step;
    mr_ps_ticket ticket;
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    must(mr_ps_push_array(table, 0, values, 0, LARGE_ITEMS, NULL, &ticket));
    must(mr_ps_end(ps));
    must(mr_ps_wait(ps, ticket, PS_FIXTURE_PATIENCE_US));
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    uint64_t generation = ps_fixture_generation(&fixture);
    await_checkpoint(&fixture, ps);
    for (uint32_t i = 0; i < 2; i++) replace_server(&fixture, i);  /* each time the state goes to the new process */
    assert_int_equal(ps_fixture_generation(&fixture), generation); /* nothing was lost */
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    must(mr_ps_pull_array(table, 0, shown, 0, LARGE_ITEMS, NULL, NULL));
    must(mr_ps_end(ps));
    assert_memory_equal(shown, values, LARGE_ITEMS * sizeof *values);
    free(values);
    free(shown);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_keeps_its_slots),
        cmocka_unit_test(a_large_slot_has_its_replicas_and_checkpoints),
        cmocka_unit_test(a_long_vector_of_asp),
        cmocka_unit_test(a_long_vector_of_bsp),
        cmocka_unit_test(memory_at_null_is_refused),
        cmocka_unit_test(a_table_that_cannot_lie_in_all_slots_is_not_made),
        cmocka_unit_test(a_mark_is_of_one_table),
        cmocka_unit_test(a_round_for_which_there_is_no_memory),
        cmocka_unit_test(a_stall_that_ended_is_not_reported),
        cmocka_unit_test(a_pull_that_waits_for_the_slowest_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
