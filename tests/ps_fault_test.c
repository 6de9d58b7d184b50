/* ps_fault_test.c — the parameter server as processes that are killed and stopped while four ranks train: at the end
 * the weights have the bits of plain sums in one process. How long recovery takes is printed, not judged. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/support/child.h"
#include "tests/support/ps_world.h"

enum { KILLS = 3, STEPS = 250, STEP_US = 4000 };

static ps_world world_of(void) {
    return (ps_world){.servers = 3,
                      .workers = 4,
                      .slots = 6,
                      .copies = 2,
                      .steps = STEPS,
                      .step_us = STEP_US,
                      .consistency = MR_PS_BSP};
}

static void begin(ps_world *world) {
    assert_true(ps_world_init(world));
    assert_true(ps_world_start(world));
    assert_true(ps_world_reaches(world, 5));
}

static void finish(ps_world *world) {
    assert_true(ps_world_trained(world));
    assert_true(ps_world_fini(world));
}

static double seconds_since(int64_t from_us) { return (double)(clock_now_us(clock_real()) - from_us) / 1e6; }

static void kill_servers(ps_world *world) {
    rng rng;
    rng_init(&rng, 7);
    begin(world);
    for (int i = 0; i < KILLS; i++) {
        assert_true(ps_world_full(world, 0, NULL));
        uint32_t victim = (uint32_t)rng_below(&rng, world->servers);
        mr_ps_copy dead = ps_world_process(world, victim);
        int64_t from_us = clock_now_us(clock_real());
        ps_world_kill(world, &world->server[victim]);
        ps_world_start_server(world, victim);
        assert_true(ps_world_full(world, 0, &dead));
        printf("server %u was killed: all copies are back after %.2f s\n", victim, seconds_since(from_us));
    }
    finish(world);
}

static void servers_are_killed(void **state) {
    ps_world world = world_of();
    kill_servers(&world);
}

static void servers_are_killed_by_tcp(void **state) {
    ps_world world = world_of();
    world.tcp = true;
    kill_servers(&world);
}

static void pushes_count_once_without_rounds(void **state) {
    ps_world world = world_of();
    world.consistency = MR_PS_ASP;
    begin(&world);
    assert_true(ps_world_full(&world, 0, NULL));
    mr_ps_copy dead = ps_world_process(&world, 1);
    ps_world_kill(&world, &world.server[1]);
    ps_world_kill(&world, &world.worker[2]);
    ps_world_start_worker(&world, 2);
    ps_world_start_server(&world, 1);
    assert_true(ps_world_full(&world, 0, &dead));
    finish(&world);
}

static void the_scheduler_is_killed(void **state) {
    ps_world world = world_of();
    begin(&world);
    ps_world_kill(&world, &world.scheduler);
    uint64_t step = world.progress[0];
    assert_true(ps_world_reaches(&world, step + 10)); /* training does not need it */
    assert_true(ps_world_start_scheduler(&world));
    assert_true(ps_world_full(&world, 0, NULL));
    mr_ps_copy dead = ps_world_process(&world, 1); /* and what it knew it knows */
    assert_true(dead.incarnation != 0);
    ps_world_kill(&world, &world.server[1]);
    ps_world_kill(&world, &world.scheduler); /* now it is away when it is needed */
    ps_world_start_server(&world, 1);
    assert_true(ps_world_start_scheduler(&world));
    assert_true(ps_world_full(&world, 0, &dead));
    finish(&world);
}

static void a_server_stops_and_wakes_up(void **state) {
    ps_world world = world_of();
    begin(&world);
    assert_true(ps_world_full(&world, 0, NULL));
    mr_ps_copy asleep = ps_world_process(&world, 0);
    kill(world.server[0], SIGSTOP);
    assert_true(child_stops(world.server[0]));
    assert_true(ps_world_full(&world, 0, &asleep)); /* the others have its slots, without it */
    kill(world.server[0], SIGCONT);
    finish(&world);
}

static void a_worker_is_killed(void **state) {
    ps_world world = world_of();
    begin(&world);
    ps_world_kill(&world, &world.worker[2]);
    ps_world_start_worker(&world, 2);
    assert_true(ps_world_reaches(&world, world.progress[0] + 2));
    ps_world_kill(&world, &world.worker[0]);
    ps_world_kill(&world, &world.worker[3]);
    ps_world_start_worker(&world, 3);
    ps_world_start_worker(&world, 0);
    finish(&world);
}

static uint64_t checkpoint_of(ps_world *world) {
    mr_ps_chart *chart = NULL;
    uint64_t checkpoint =
        mr_ps_chart_get(world->address, PS_WORLD_PATIENCE_US, &chart) == MR_OK ? chart->checkpoint : 0;
    mr_ps_chart_free(chart);
    return checkpoint;
}

static void everything_is_killed(void **state) {
    ps_world world = world_of();
    world.checkpoint_us = 400000; /* each is synced to disk, shard by shard */
    world.steps = 150;
    begin(&world);
    for (int i = 0; i < 1000 && checkpoint_of(&world) == 0; i++) usleep(10000);
    uint64_t whole = checkpoint_of(&world), past = ps_world_generation(&world);
    assert_true(whole != 0);
    for (uint32_t i = 0; i < world.workers; i++) ps_world_kill(&world, &world.worker[i]);
    for (uint32_t i = 0; i < world.servers; i++) ps_world_kill(&world, &world.server[i]);
    ps_world_kill(&world, &world.scheduler);
    int64_t from_us = clock_now_us(clock_real());
    assert_true(ps_world_start(&world));
    assert_true(ps_world_full(&world, past, NULL));
    printf("everything was killed: restored after %.2f s\n", seconds_since(from_us));
    mr_ps_chart *chart = NULL;
    assert_int_equal(mr_ps_chart_get(world.address, PS_WORLD_PATIENCE_US, &chart), MR_OK);
    assert_true(chart->origin >= whole); /* nothing that was whole is lost */
    mr_ps_chart_free(chart);
    finish(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_count_once_without_rounds),
        cmocka_unit_test(servers_are_killed),
        cmocka_unit_test(servers_are_killed_by_tcp),
        cmocka_unit_test(the_scheduler_is_killed),
        cmocka_unit_test(a_server_stops_and_wakes_up),
        cmocka_unit_test(a_worker_is_killed),
        cmocka_unit_test(everything_is_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
