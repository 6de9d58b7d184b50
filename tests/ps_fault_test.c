/* ps_fault_test.c — the parameter server as processes that are killed and stopped while four ranks train: at the end
 * the weights have the bits of plain sums in one process. How long recovery takes is printed, not judged. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cluster/coordinator.h"
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
        mr_ps_replica dead = ps_world_process(world, victim);
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
    mr_ps_replica dead = ps_world_process(&world, 1);
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
    mr_ps_replica dead = ps_world_process(&world, 1); /* and what it knew it knows */
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
    mr_ps_replica asleep = ps_world_process(&world, 0);
    kill(world.server[0], SIGSTOP);
    assert_true(child_stops(world.server[0]));
    assert_true(ps_world_full(&world, 0, &asleep)); /* the others have its slots, without it */
    kill(world.server[0], SIGCONT);
    finish(&world);
}

/* With one copy of everything: another process in the place of one that is here, or merely asleep, would be a loss. */
static void nobody_takes_the_place_of_a_server_that_lives(void **state) {
    ps_world world = world_of();
    world.copies = 1;
    world.steps = 0;
    begin(&world);
    uint64_t generation = ps_world_generation(&world);
    pid_t first = world.server[0];
    ps_world_start_server(&world, 0); /* once more */
    usleep(1500000);
    ps_world_kill(&world, &world.server[0]);
    world.server[0] = first;
    kill(first, SIGSTOP);
    assert_true(child_stops(first));
    usleep(2500000);
    pid_t another = ps_world_start_another(&world);
    usleep(1500000);
    kill(first, SIGCONT);
    assert_true(ps_world_reaches(&world, world.progress[0] + 5));
    assert_true(ps_world_generation(&world) == generation);
    assert_int_equal(ps_world_process(&world, 3).server, 3); /* that has a number of its own */
    kill(another, SIGTERM);
    assert_int_equal(child_wait(another, 60000), 0);
    ps_world_stop(&world);
    finish(&world);
}

/* One that was replaced while it slept ends, and says why. */
static void a_server_that_was_replaced_ends(void **state) {
    ps_world world = world_of();
    begin(&world);
    assert_true(ps_world_full(&world, 0, NULL));
    mr_ps_replica asleep = ps_world_process(&world, 0);
    pid_t first = world.server[0];
    kill(first, SIGSTOP);
    assert_true(child_stops(first));
    ps_world_start_server(&world, 0); /* it waits until the first has been silent for two seconds */
    assert_true(ps_world_full(&world, 0, &asleep));
    for (int64_t us = 0; ps_world_process(&world, 0).incarnation <= asleep.incarnation; us += 20000, usleep(20000))
        assert_true(us < PS_WORLD_PATIENCE_US);
    kill(first, SIGCONT);
    assert_int_not_equal(child_wait(first, 60000), 0);
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

static bool wait_for_checkpoint(ps_world *world, uint64_t behind) {
    int64_t until_us = clock_now_us(clock_real()) + PS_WORLD_PATIENCE_US;
    while (ps_world_checkpoint(world) <= behind && clock_now_us(clock_real()) < until_us) usleep(10000);
    return ps_world_checkpoint(world) > behind;
}

static void everything_is_killed(void **state) {
    ps_world world = world_of();
    world.checkpoint_us = 400000; /* each is synced to disk, shard by shard: */
    world.steps = 0;              /* however long that takes, somebody trains */
    begin(&world);
    assert_true(wait_for_checkpoint(&world, 0));
    uint64_t whole = ps_world_checkpoint(&world), past = ps_world_generation(&world);
    for (uint32_t i = 0; i < world.workers; i++) ps_world_kill(&world, &world.worker[i]);
    for (uint32_t i = 0; i < world.servers; i++) ps_world_kill(&world, &world.server[i]);
    ps_world_kill(&world, &world.scheduler);
    int64_t from_us = clock_now_us(clock_real());
    assert_true(ps_world_start(&world));
    assert_true(ps_world_full(&world, past, NULL));
    printf("everything was killed: restored after %.2f s\n", seconds_since(from_us));
    mr_ps_cluster_map *chart = NULL;
    assert_int_equal(mr_ps_cluster_map_get(world.address, PS_WORLD_PATIENCE_US, &chart), MR_OK);
    assert_true(chart->restored_from >= whole); /* nothing that was whole is lost */
    mr_ps_cluster_map_free(chart);
    ps_world_stop(&world);
    finish(&world);
}

/* Ranks of different speeds push ones to all slots, and die while others wait for them: nobody waits for ever, and what
 * is restored has as many of them everywhere. */
static void exact_checkpoints_are_even(void **state) {
    ps_world world = world_of();
    world.consistency = MR_PS_ASP;
    world.checkpoint_us = 100000;
    world.exact = true;
    world.steps = 0;        /* until checkpoints have become whole, on a slow disk too */
    world.gap_us = STEP_US; /* at any time somebody is within a step */
    begin(&world);
    assert_true(wait_for_checkpoint(&world, 0));
    ps_world_kill(&world, &world.worker[2]); /* perhaps within a step */
    uint64_t step = world.progress[0];
    ps_world_kill(&world, &world.scheduler); /* perhaps within a pause */
    for (int64_t until_us = clock_now_us(clock_real()) + PS_WORLD_PATIENCE_US; world.progress[0] < step + 5;) {
        assert_true(clock_now_us(clock_real()) < until_us); /* the others go on */
        usleep(5000);
    }
    assert_true(ps_world_start_scheduler(&world));
    ps_world_start_worker(&world, 2);
    assert_true(wait_for_checkpoint(&world, ps_world_checkpoint(&world)));
    uint64_t whole = ps_world_checkpoint(&world), past = ps_world_generation(&world);
    for (uint32_t i = 0; i < world.workers; i++) ps_world_kill(&world, &world.worker[i]);
    for (uint32_t i = 0; i < world.servers; i++) ps_world_kill(&world, &world.server[i]);
    ps_world_kill(&world, &world.scheduler);
    world.checkpoint_us = 1000000; /* enough was cut: now it should end */
    assert_true(ps_world_start_scheduler(&world));
    for (uint32_t i = 0; i < world.servers; i++) ps_world_start_server(&world, i);
    assert_true(ps_world_full(&world, past, NULL));
    assert_true(ps_world_checkpoint(&world) >= whole);
    assert_true(ps_world_even(&world));
    for (uint32_t i = 0; i < world.workers; i++) ps_world_start_worker(&world, i);
    ps_world_stop(&world);
    finish(&world);
}

/* The coordinator's disk is lost, and those who begin before anybody has told it what there was get incarnations below
 * the ones that are known: they are not heard, are told so, and enrol once more. */
static void the_scheduler_loses_its_disk(void **state) {
    const uint64_t old = 1 << 22; /* a coordinator that has forgotten draws its generation far below that */
    ps_world world = world_of();
    world.servers = 2;
    world.steps = 100;
    assert_true(ps_world_init(&world));
    assert_true(ps_world_age(&world, old));
    assert_true(ps_world_start(&world));
    assert_true(ps_world_reaches(&world, 5));
    mr_ps_replica before = ps_world_process(&world, 1);
    uint64_t past = ps_world_generation(&world);
    assert_true(coordinator_generation(before.incarnation) == old);
    ps_world_kill(&world, &world.scheduler);
    ps_world_kill(&world, &world.server[1]);
    ps_world_kill(&world, &world.worker[2]);
    ps_world_forget(&world);
    const pid_t others[] = {world.server[0], world.worker[0], world.worker[1], world.worker[3]};
    for (size_t i = 0; i < 4; i++) kill(others[i], SIGSTOP);
    for (size_t i = 0; i < 4; i++) assert_true(child_stops(others[i]));
    assert_true(ps_world_start_scheduler(&world));
    ps_world_start_server(&world, 1);
    ps_world_start_worker(&world, 2);
    usleep(1000000); /* they have their incarnations by then; if not, they learn nothing that is wrong */
    for (size_t i = 1; i < 4; i++) kill(others[i], SIGCONT);
    for (int64_t until_us = clock_now_us(clock_real()) + PS_WORLD_PATIENCE_US; ps_world_generation(&world) != past;) {
        assert_true(clock_now_us(clock_real()) < until_us); /* ranks tell of their chart */
        usleep(1000);
    }
    kill(others[0], SIGCONT); /* not before that: two servers are enough to begin anew, and nothing is known then */
    assert_true(ps_world_full(&world, past, &before));
    assert_true(coordinator_generation(ps_world_process(&world, 1).incarnation) > old);
    finish(&world);
}

/* ---- The folder of a scheduler. */

typedef struct refusal {
    char address[200], words[100];
    const char *folder;
    rlim_t file_max; /* bytes of the largest file that may be written */
    mr_status status;
} refusal;

/* In another process: one that begins would serve forever. */
static int begin_in_vain(void *argument) {
    const refusal *refusal = argument;
    const mr_ps_scheduler_options options =
        MR_OPTIONS(mr_ps_scheduler_options, .listen = refusal->address, .checkpoint_dir = refusal->folder,
                   .num_workers = 1, .num_servers = 1, .slots = 1, .replicas = 1, .consistency = MR_PS_ASP);
    const struct rlimit limit = {refusal->file_max, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    mr_status status = mr_ps_run_scheduler(&options);
    bool good = status == refusal->status && strstr(mr_last_error(), refusal->words) != NULL &&
                strstr(mr_last_error(), refusal->folder) != NULL;
    if (!good) fprintf(stderr, "status %d: %s\n", (int)status, mr_last_error());
    return good ? 0 : 1;
}

static refusal refusal_of(const ps_world *world, mr_status status) {
    refusal refusal = {.folder = world->folder, .file_max = RLIM_INFINITY, .status = status};
    snprintf(refusal.address, sizeof refusal.address, "unix:%s/s.second", world->folder);
    return refusal;
}

static void a_folder_has_one_scheduler(void **state) {
    ps_world world = world_of();
    assert_true(ps_world_init(&world));
    assert_true(ps_world_start_scheduler(&world));
    refusal second = refusal_of(&world, MR_BUSY);
    snprintf(second.words, sizeof second.words, "begin in another folder: 'scheduler.lock' is locked by process %d",
             (int)world.scheduler);
    assert_int_equal(child_run(begin_in_vain, &second, 60000), 0);
    ps_world_kill(&world, &world.scheduler);
    assert_true(ps_world_start_scheduler(&world)); /* the lock has ended with its process */
    assert_true(ps_world_fini(&world));
}

/* As when it is full from the first write on; later it may be used. */
static void a_folder_that_takes_nothing_is_named(void **state) {
    ps_world world = world_of();
    assert_true(ps_world_init(&world));
    refusal full = refusal_of(&world, MR_IO);
    full.file_max = 100;
    snprintf(full.words, sizeof full.words, "check its permissions and free space: cannot write 'keeper.new': ");
    assert_int_equal(child_run(begin_in_vain, &full, 60000), 0);
    assert_true(ps_world_start_scheduler(&world));
    assert_true(ps_world_fini(&world));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_count_once_without_rounds),
        cmocka_unit_test(servers_are_killed),
        cmocka_unit_test(servers_are_killed_by_tcp),
        cmocka_unit_test(the_scheduler_is_killed),
        cmocka_unit_test(a_server_stops_and_wakes_up),
        cmocka_unit_test(nobody_takes_the_place_of_a_server_that_lives),
        cmocka_unit_test(a_server_that_was_replaced_ends),
        cmocka_unit_test(a_worker_is_killed),
        cmocka_unit_test(everything_is_killed),
        cmocka_unit_test(exact_checkpoints_are_even),
        cmocka_unit_test(the_scheduler_loses_its_disk),
        cmocka_unit_test(a_folder_has_one_scheduler),
        cmocka_unit_test(a_folder_that_takes_nothing_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
