/* ps_server_test.c — server programs: optimizers of their own, and what a server does that is to go. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/child.h"
#include "tests/support/ps_world.h"
#include "tests/support/status.h"

enum { ENDS_MS = 60000 };

static mr_ps *connect_to(const ps_world *world, int rank) {
    mr_ps *ps = ps_world_connect(world, rank);
    assert_non_null(ps);
    return ps;
}

/* ---- Optimizers of one's own. */

/* Counts how often a value was pushed to, and adds the gradient so many times. */
static void eager(void *context, const mr_ps_update *update) {
    float *times = update->state[0];
    for (size_t i = 0; i < update->count; i++) {
        times[i] += 1;
        update->to[i] = update->from[i] + update->rate * times[i] * update->scale * update->gradient[i];
    }
}

static const mr_ps_optimizer optimizers[] = {{"eager", 1, eager, NULL}};

static void push(mr_ps *ps, mr_ps_table *table, mr_ps_table *dense) {
    uint64_t step;
    const uint64_t keys[] = {3, 1000000007};
    const float gradient[] = {1, 2, 3, 4};
    assert_int_equal(mr_ps_begin(ps, PS_WORLD_PATIENCE_US, &step), MR_OK);
    assert_int_equal(mr_ps_push(table, keys, 2, gradient, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_push_array(dense, 0, gradient, 0, 4, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_end(ps), MR_OK);
}

static void has(mr_ps *ps, mr_ps_table *table, mr_ps_table *dense, float factor) {
    uint64_t step;
    const uint64_t keys[] = {3, 1000000007};
    float rows[4], array[4];
    assert_int_equal(mr_ps_begin(ps, PS_WORLD_PATIENCE_US, &step), MR_OK);
    assert_int_equal(mr_ps_pull(table, keys, 2, rows, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_pull_array(dense, 0, array, 0, 4, NULL, NULL), MR_OK);
    for (int i = 0; i < 4; i++) assert_true(rows[i] == factor * (float)(i + 1) && array[i] == rows[i]);
}

static void a_server_program_has_optimizers_of_its_own(void **state) {
    ps_world world = {
        .servers = 2, .workers = 1, .slots = 4, .copies = 2, .optimizers = optimizers, .optimizer_count = 1};
    const mr_ps_array array = {.name = "a", .dims = 1, .shape = {4}};
    mr_ps_table_options options = {.dim = 2, .optimizer = "own:eager", .rate = 0.5f};
    mr_ps_table *table = NULL, *dense = NULL, *none = NULL;
    assert_true(ps_world_init(&world));
    assert_true(ps_world_start_scheduler(&world));
    for (uint32_t i = 0; i < 2; i++) ps_world_start_server(&world, i);
    mr_ps *ps = connect_to(&world, 0);
    assert_int_equal(mr_ps_table_create(ps, "rows", &options, PS_WORLD_PATIENCE_US, &table), MR_OK);
    options = (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = 3};
    options.optimizer = "own:eager";
    options.rate = 0.5f;
    assert_int_equal(mr_ps_table_create(ps, "dense", &options, PS_WORLD_PATIENCE_US, &dense), MR_OK);
    options.optimizer = "own:nobody";
    assert_int_equal(mr_ps_table_create(ps, "none", &options, PS_WORLD_PATIENCE_US, &none), MR_NOT_FOUND);
    assert_said("has no optimizer 'nobody'");
    push(ps, table, dense);
    has(ps, table, dense, 0.5f);
    push(ps, table, dense);
    has(ps, table, dense, 1.5f);
    mr_ps_copy dead = ps_world_process(&world, 0); /* what it had counted is on the other copy, too */
    ps_world_kill(&world, &world.server[0]);
    ps_world_start_server(&world, 0);
    assert_true(ps_world_full(&world, 0, &dead));
    push(ps, table, dense);
    has(ps, table, dense, 3);
    mr_ps_table_free(table);
    mr_ps_table_free(dense);
    mr_ps_close(ps);
    world.workers = 0;
    assert_true(ps_world_fini(&world));
}

static void optimizers_are_checked(void **state) {
    const mr_ps_optimizer twice[] = {{"same", 0, eager, NULL}, {"same", 0, eager, NULL}};
    const mr_ps_optimizer bad[] = {{"", 0, eager, NULL},
                                   {"none", 0, NULL, NULL},
                                   {"states", 5, eager, NULL},
                                   {"a name that is far too long", 0, eager, NULL}};
    mr_ps_server_options options = {.scheduler = "unix:/nowhere/s", .optimizers = twice, .optimizer_count = 2};
    assert_int_equal(mr_ps_run_server(&options), MR_INVALID);
    assert_said("two optimizers 'same'");
    options.optimizer_count = 1;
    for (int i = 0; i < 4; i++) {
        options.optimizers = &bad[i];
        assert_int_equal(mr_ps_run_server(&options), MR_INVALID);
    }
    options.optimizers = NULL;
    assert_int_equal(mr_ps_run_server(&options), MR_INVALID);
    assert_said("1 optimizers at NULL");
    options.optimizer_count = 0;
    options.apps = &(mr_ps_app){.app = -1};
    options.app_count = 1;
    assert_int_not_equal(mr_ps_run_server(&options), MR_OK);
}

/* ---- Leaving. */

/* With one copy of each slot: nothing is lost, nothing goes back, and training goes on meanwhile. */
static void slots_move_before_a_server_leaves(void **state) {
    ps_world world = {.servers = 2, .workers = 2, .slots = 8, .copies = 1, .steps = 120, .step_us = 10000};
    world.consistency = MR_PS_BSP;
    assert_true(ps_world_init(&world));
    assert_true(ps_world_start(&world));
    assert_true(ps_world_full(&world, 0, NULL));
    assert_true(ps_world_reaches(&world, 10));
    uint64_t generation = ps_world_generation(&world);
    mr_ps_copy gone = ps_world_process(&world, 0);
    kill(world.server[0], SIGTERM);
    assert_int_equal(child_wait(world.server[0], ENDS_MS), 0);
    world.server[0] = 0;
    assert_true(ps_world_full(&world, 0, &gone)); /* at once: it went when that was so */
    assert_int_equal(ps_world_generation(&world), generation);
    ps_world_start_server(&world, 0); /* and it is taken back */
    assert_true(ps_world_trained(&world));
    assert_int_equal(ps_world_generation(&world), generation);
    assert_true(ps_world_fini(&world));
}

static void the_last_one_need_not_wait(void **state) {
    ps_world world = {.servers = 2, .workers = 1, .slots = 2, .copies = 1};
    assert_true(ps_world_init(&world));
    assert_true(ps_world_start_scheduler(&world));
    for (uint32_t i = 0; i < 2; i++) ps_world_start_server(&world, i);
    assert_true(ps_world_full(&world, 0, NULL));
    for (uint32_t i = 0; i < 2; i++) kill(world.server[i], SIGTERM); /* both: nobody is left to take anything */
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(child_wait(world.server[i], ENDS_MS), 0);
        world.server[i] = 0;
    }
    world.workers = 0;
    assert_true(ps_world_fini(&world));
}

static void a_second_signal_ends_it(void **state) {
    ps_world world = {.servers = 2, .workers = 1, .slots = 2, .copies = 1};
    assert_true(ps_world_init(&world));
    assert_true(ps_world_start_scheduler(&world));
    for (uint32_t i = 0; i < 2; i++) ps_world_start_server(&world, i);
    assert_true(ps_world_full(&world, 0, NULL));
    kill(world.server[1], SIGSTOP); /* so that nothing can move to it */
    kill(world.server[0], SIGTERM);
    usleep(100000);
    kill(world.server[0], SIGTERM);
    assert_int_equal(child_wait(world.server[0], ENDS_MS), 0);
    world.server[0] = 0;
    kill(world.server[1], SIGCONT);
    world.workers = 0;
    assert_true(ps_world_fini(&world));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_program_has_optimizers_of_its_own),
        cmocka_unit_test(optimizers_are_checked),
        cmocka_unit_test(slots_move_before_a_server_leaves),
        cmocka_unit_test(the_last_one_need_not_wait),
        cmocka_unit_test(a_second_signal_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
