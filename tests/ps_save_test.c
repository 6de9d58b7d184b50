/* ps_save_test.c — a model is saved at any time, and when the deployment is stopped. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/safetensors.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { SLOTS = 4, KEYS = 32, BLOCKS = 16, BLOCK = 1 << 19, FILE_MAX = 64 << 20, WAIT_MS = 60000 };

static void start_all(ps_fixture *fixture) {
    assert_true(ps_fixture_start_scheduler(fixture));
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
    assert_true(ps_fixture_full(fixture, 0, NULL));
}

static void start(ps_fixture *fixture) {
    assert_true(ps_fixture_init(fixture));
    start_all(fixture);
}

/* After an end of all processes. */
static void start_again(ps_fixture *fixture) {
    const char *path = fixture->address + strlen("unix:");
    if (access(path, F_OK) == 0) assert_int_equal(unlink(path), 0); /* of a killed scheduler */
    start_all(fixture);
}

static void kill_servers(ps_fixture *fixture) {
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_kill(fixture, &fixture->server[i]);
}

/* ---- A rank is killed inside a step. */

/* A dense table whose blocks are in all slots: a push of it is larger than the buffers of a socket. */
static mr_status open_model(mr_ps *ps, mr_ps_table **out) {
    const mr_ps_array array = {.name = "weights", .dims = 1, .shape = {(int64_t)BLOCKS * BLOCK}};
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = BLOCK,
                   .optimizer = "momentum", .rate = 0.5f, .initializer = "zeros");
    return mr_ps_table_create(ps, "model", &options, PS_FIXTURE_PATIENCE_US, out);
}

static mr_status push_and_end(mr_ps *ps, mr_ps_table *model, const float *gradient) {
    mr_ps_ticket ticket;
    MR_TRY(mr_ps_push_array(model, 0, gradient, 0, (uint64_t)BLOCKS * BLOCK, NULL, &ticket));
    return mr_ps_end(ps);
}

static float *filled(float value) {
    float *values = malloc((size_t)BLOCKS * BLOCK * sizeof *values);
    for (size_t i = 0; values != NULL && i < (size_t)BLOCKS * BLOCK; i++) values[i] = value;
    return values;
}

typedef struct pusher {
    char address[MR_PS_ADDRESS_MAX];
    uint64_t *begun, *allowed; /* shared: steps that the child has begun, and that it may push */
    uint64_t steps;            /* the child ends after so many */
} pusher;

static mr_status push_steps(const pusher *pusher, mr_ps *ps, mr_ps_table *model, const float *gradient) {
    for (uint64_t i = 0, step; i < pusher->steps; i++) {
        mr_status status = mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step);
        if (status == MR_STALE) status = mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step);
        MR_TRY(status);
        __atomic_store_n(pusher->begun, i + 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(pusher->allowed, __ATOMIC_ACQUIRE) <= i) usleep(1000);
        MR_TRY(push_and_end(ps, model, gradient));
        MR_TRY(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    }
    return MR_OK;
}

/* Rank 1. */
static int push_as_rank_1(void *argument) {
    const pusher *pusher = argument;
    mr_ps *ps;
    mr_ps_table *model;
    float *gradient = filled(2);
    TEST_CHILD_CHECK(gradient != NULL && mr_ps_connect(pusher->address, 1, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK &&
                     open_model(ps, &model) == MR_OK);
    TEST_CHILD_CHECK(push_steps(pusher, ps, model, gradient) == MR_OK);
    mr_ps_table_free(model);
    mr_ps_close(ps);
    free(gradient);
    return 0;
}

static pid_t start_rank_1(const ps_fixture *fixture, uint64_t steps) {
    pusher pusher = {.begun = &fixture->progress[0], .allowed = &fixture->progress[1], .steps = steps};
    strcpy(pusher.address, fixture->address);
    return fork_server_start(&fixture->fork_server, push_as_rank_1, &pusher, sizeof pusher);
}

static void allow(const ps_fixture *fixture, uint64_t steps) {
    __atomic_store_n(&fixture->progress[1], steps, __ATOMIC_RELEASE);
}

static void await_begun(const ps_fixture *fixture, uint64_t steps) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    while (__atomic_load_n(&fixture->progress[0], __ATOMIC_ACQUIRE) < steps && clock_now_us(clock_real()) < until_us)
        usleep(1000);
    assert_true(__atomic_load_n(&fixture->progress[0], __ATOMIC_ACQUIRE) >= steps);
}

static void pull_all(mr_ps_table *model, float *out) {
    must(mr_ps_pull_array(model, 0, out, 0, (uint64_t)BLOCKS * BLOCK, NULL, NULL));
}

static void assert_all(const float *values, float expected) {
    for (size_t i = 0; i < (size_t)BLOCKS * BLOCK; i++)
        if (values[i] != expected) fail_msg("item %zu is %f, expected %f", i, (double)values[i], (double)expected);
}

static void assert_exported(const ps_fixture *fixture, float expected) {
    char path[TEMP_DIR_FOLDER_MAX + 32];
    safetensors list = {0};
    snprintf(path, sizeof path, "%s/manifest.export", fixture->folder);
    must(mr_ps_checkpoint_export(fixture->folder, 0, path));
    FILE *stream = fopen(path, "r");
    buffer file;
    buffer_init(&file, FILE_MAX);
    must(buffer_reserve(&file, FILE_MAX));
    assert_non_null(stream);
    file.size = fread(file.data, 1, FILE_MAX, stream);
    assert_int_equal(fclose(stream), 0);
    must(safetensors_read(span_of(file.data, file.size), &list));
    const safetensor *weights = safetensors_find(&list, "model/weights");
    assert_true(weights != NULL && weights->data.size == (size_t)BLOCKS * BLOCK * sizeof(float));
    assert_all((const float *)(const void *)weights->data.data, expected);
    safetensors_fini(&list);
    buffer_fini(&file);
}

/* Server 1 reads nothing while both ranks push the second step, so only slots of server 0 end it; rank 1 is killed. The
 * checkpoint has the model after the first step, in all slots, and a restored deployment repeats the second one. The
 * momentum shows that no slot adds the second step twice. */
static void a_rank_killed_inside_a_step_delays_no_save(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 2, .slots = SLOTS, .copies = 1, .consistency = MR_PS_BSP};
    uint64_t number, step;
    mr_ps_table *model;
    start(&fixture);
    float *gradient = filled(1), *seen = filled(0);
    allow(&fixture, 1);
    pid_t other = start_rank_1(&fixture, 2);
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    must(open_model(ps, &model));
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    must(push_and_end(ps, model, gradient));
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    pull_all(model, seen);
    assert_all(seen, -1.5f); /* momentum 3, learning rate 0.5 */
    await_begun(&fixture, 2);
    kill(fixture.server[1], SIGSTOP);
    allow(&fixture, 2);
    must(push_and_end(ps, model, gradient));
    usleep(3000000); /* server 0 has all of both ranks by then; otherwise the step has ended nowhere */
    ps_fixture_kill(&fixture, &other);
    kill(fixture.server[1], SIGCONT);
    usleep(2000000); /* server 1 has all of rank 0 */
    must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US / 2, &number));
    assert_exported(&fixture, -1.5f);
    mr_ps_table_free(model);
    mr_ps_close(ps);
    uint64_t generation = ps_fixture_generation(&fixture);
    kill_servers(&fixture);
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, generation, NULL));
    other = start_rank_1(&fixture, 1);
    ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    must(open_model(ps, &model));
    mr_status status = mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step);
    if (status == MR_STALE) status = mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step);
    must(status);
    assert_int_equal(step, 1);
    pull_all(model, seen);
    assert_all(seen, -1.5f);
    must(push_and_end(ps, model, gradient));
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    assert_int_equal(test_child_wait(other, WAIT_MS), 0);
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    pull_all(model, seen);
    assert_all(seen, -1.5f - 0.5f * (0.9f * 3 + 3));
    mr_ps_table_free(model);
    mr_ps_close(ps);
    free(gradient);
    free(seen);
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- Sums, which every push changes. */

typedef struct sums {
    uint64_t keys[KEYS];
    float values[KEYS];
} sums;

/* Opens the table as rank 0, adds `times` to each key without a step, and pulls. */
static sums use(const ps_fixture *fixture, uint32_t times) {
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .dim = 1, .consistency = fixture->mixed ? "asp" : NULL);
    float ones[KEYS];
    sums sums;
    mr_ps_table *table;
    mr_ps_ticket ticket;
    for (size_t i = 0; i < KEYS; i++) {
        sums.keys[i] = i * UINT64_C(7919);
        ones[i] = 1;
    }
    mr_ps *ps = ps_fixture_connect(fixture, 0);
    assert_non_null(ps);
    must(mr_ps_table_create(ps, "sums", &options, PS_FIXTURE_PATIENCE_US, &table));
    mr_status status = mr_ps_pull(table, sums.keys, KEYS, sums.values, NULL, NULL, NULL);
    assert_true(status == MR_OK || status == MR_STALE); /* a return to a checkpoint is reported once */
    for (uint32_t i = 0; i < times; i++) must(mr_ps_push(table, sums.keys, KEYS, ones, NULL, NULL, &ticket));
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_pull(table, sums.keys, KEYS, sums.values, NULL, NULL, NULL));
    mr_ps_table_free(table);
    mr_ps_close(ps);
    return sums;
}

static void assert_sums(const ps_fixture *fixture, float expected) {
    sums sums = use(fixture, 0);
    for (size_t i = 0; i < KEYS; i++)
        if (sums.values[i] != expected)
            fail_msg("key %zu is %f, expected %f", i, (double)sums.values[i], (double)expected);
}

/* No step ends, and each checkpoint has all pushes before it. */
static void tables_without_steps_are_saved_while_rounds_rest(void **state) {
    ps_fixture fixture = {
        .servers = 2, .workers = 1, .slots = SLOTS, .copies = 1, .consistency = MR_PS_BSP, .mixed = true};
    uint64_t number, last = 0;
    start(&fixture);
    for (uint32_t i = 1; i <= 3; i++) {
        (void)use(&fixture, 2);
        must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US / 2, &number));
        assert_true(number > last);
        last = number;
        uint64_t generation = ps_fixture_generation(&fixture);
        kill_servers(&fixture);
        for (uint32_t k = 0; k < 2; k++) ps_fixture_start_server(&fixture, k);
        assert_true(ps_fixture_full(&fixture, generation, NULL));
        assert_sums(&fixture, (float)(2 * i));
    }
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- A stop. */

static ps_fixture deployment(void) {
    return (ps_fixture){.servers = 2, .workers = 1, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
}

/* The scheduler is stopped, and then the servers are killed, as `miniray ps local` does it. */
static void a_stop_of_the_scheduler_saves(void **state) {
    ps_fixture fixture = deployment();
    start(&fixture);
    for (uint32_t i = 1; i <= 2; i++) {
        (void)use(&fixture, 3);
        assert_true(ps_fixture_terminate(&fixture.scheduler));
        kill_servers(&fixture);
        start_again(&fixture);
        assert_sums(&fixture, (float)(3 * i));
    }
    assert_true(ps_fixture_fini(&fixture));
}

/* All processes get the signal at once, as from Ctrl-C or a service manager, the servers first. */
static void a_signal_to_all_saves(void **state) {
    ps_fixture fixture = deployment();
    start(&fixture);
    (void)use(&fixture, 3);
    for (uint32_t i = 0; i < 2; i++) kill(fixture.server[i], SIGTERM);
    kill(fixture.scheduler, SIGINT);
    kill(fixture.scheduler, SIGTERM); /* by its own name, too */
    assert_int_equal(test_child_wait(fixture.scheduler, WAIT_MS), 0);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(test_child_wait(fixture.server[i], WAIT_MS), 0);
    start_again(&fixture);
    assert_sums(&fixture, 3);
    assert_true(ps_fixture_fini(&fixture));
}

/* The last server drains while the scheduler runs on. */
static void the_drain_of_the_last_server_saves(void **state) {
    ps_fixture fixture = deployment();
    start(&fixture);
    (void)use(&fixture, 3);
    uint64_t generation = ps_fixture_generation(&fixture);
    for (uint32_t i = 0; i < 2; i++) assert_true(ps_fixture_terminate(&fixture.server[i]));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, generation, NULL));
    assert_sums(&fixture, 3);
    assert_true(ps_fixture_fini(&fixture));
}

/* Nothing can be saved: the stop does not wait for long. */
static void a_stop_does_not_wait_for_dead_servers(void **state) {
    ps_fixture fixture = deployment();
    uint64_t number;
    start(&fixture);
    (void)use(&fixture, 3);
    must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US / 2, &number));
    (void)use(&fixture, 1);
    kill_servers(&fixture);
    int64_t since_us = clock_now_us(clock_real());
    assert_true(ps_fixture_terminate(&fixture.scheduler));
    assert_true(clock_now_us(clock_real()) - since_us < PS_FIXTURE_PATIENCE_US / 2);
    start_again(&fixture);
    assert_sums(&fixture, 3);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_killed_inside_a_step_delays_no_save),
        cmocka_unit_test(tables_without_steps_are_saved_while_rounds_rest),
        cmocka_unit_test(a_stop_of_the_scheduler_saves),
        cmocka_unit_test(a_signal_to_all_saves),
        cmocka_unit_test(the_drain_of_the_last_server_saves),
        cmocka_unit_test(a_stop_does_not_wait_for_dead_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
