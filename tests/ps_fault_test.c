/* ps_fault_test.c — the parameter server as processes that are killed and stopped while four ranks train: at the end
 * the weights have the bits of plain sums in one process. Recovery times are printed without a bar. */
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
#include "cluster/metadata_store.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/test_child.h"

enum { KILLS = 3, STEPS = 250, STEP_US = 4000 };

static ps_fixture world_of(void) {
    return (ps_fixture){.servers = 3,
                        .workers = 4,
                        .slots = 6,
                        .copies = 2,
                        .steps = STEPS,
                        .step_us = STEP_US,
                        .consistency = MR_PS_BSP};
}

static void begin(ps_fixture *fixture) {
    assert_true(ps_fixture_init(fixture));
    assert_true(ps_fixture_start(fixture));
    assert_true(ps_fixture_reaches(fixture, 5));
}

static void finish(ps_fixture *fixture) {
    assert_true(ps_fixture_trained(fixture));
    assert_true(ps_fixture_fini(fixture));
}

static double seconds_since(int64_t from_us) { return (double)(clock_now_us(clock_real()) - from_us) / 1e6; }

static void kill_servers(ps_fixture *fixture) {
    rng rng;
    rng_init(&rng, 7);
    begin(fixture);
    for (int i = 0; i < KILLS; i++) {
        assert_true(ps_fixture_full(fixture, 0, NULL));
        uint32_t victim = (uint32_t)rng_below(&rng, fixture->servers);
        mr_ps_replica dead = ps_fixture_process(fixture, victim);
        int64_t from_us = clock_now_us(clock_real());
        ps_fixture_kill(fixture, &fixture->server[victim]);
        ps_fixture_start_server(fixture, victim);
        assert_true(ps_fixture_full(fixture, 0, &dead));
        printf("server %u was killed: all copies are back after %.2f s\n", victim, seconds_since(from_us));
    }
    finish(fixture);
}

static void servers_are_killed(void **state) {
    ps_fixture fixture = world_of();
    kill_servers(&fixture);
}

static void servers_are_killed_by_tcp(void **state) {
    ps_fixture fixture = world_of();
    fixture.tcp = true;
    kill_servers(&fixture);
}

static void pushes_count_once_without_rounds(void **state) {
    ps_fixture fixture = world_of();
    fixture.consistency = MR_PS_ASP;
    begin(&fixture);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    mr_ps_replica dead = ps_fixture_process(&fixture, 1);
    ps_fixture_kill(&fixture, &fixture.server[1]);
    ps_fixture_kill(&fixture, &fixture.worker[2]);
    ps_fixture_start_worker(&fixture, 2);
    ps_fixture_start_server(&fixture, 1);
    assert_true(ps_fixture_full(&fixture, 0, &dead));
    finish(&fixture);
}

static void the_scheduler_is_killed(void **state) {
    ps_fixture fixture = world_of();
    begin(&fixture);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    uint64_t step = fixture.progress[0];
    assert_true(ps_fixture_reaches(&fixture, step + 10)); /* training continues without the scheduler */
    assert_true(ps_fixture_start_scheduler(&fixture));
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    mr_ps_replica dead = ps_fixture_process(&fixture, 1); /* the scheduler's state is restored */
    assert_true(dead.incarnation != 0);
    ps_fixture_kill(&fixture, &fixture.server[1]);
    ps_fixture_kill(&fixture, &fixture.scheduler); /* the scheduler is dead when it is needed */
    ps_fixture_start_server(&fixture, 1);
    assert_true(ps_fixture_start_scheduler(&fixture));
    assert_true(ps_fixture_full(&fixture, 0, &dead));
    finish(&fixture);
}

static void a_server_stops_and_wakes_up(void **state) {
    ps_fixture fixture = world_of();
    begin(&fixture);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    mr_ps_replica asleep = ps_fixture_process(&fixture, 0);
    kill(fixture.server[0], SIGSTOP);
    assert_true(test_child_stops(fixture.server[0]));
    assert_true(ps_fixture_full(&fixture, 0, &asleep)); /* other servers have the slots of the sleeping one */
    kill(fixture.server[0], SIGCONT);
    finish(&fixture);
}

/* Slots have one replica: replacing a server that is alive, or only paused, would lose its slots. */
static void a_live_server_is_not_replaced(void **state) {
    ps_fixture fixture = world_of();
    fixture.copies = 1;
    fixture.steps = 0;
    begin(&fixture);
    uint64_t generation = ps_fixture_generation(&fixture);
    pid_t first = fixture.server[0];
    ps_fixture_start_server(&fixture, 0); /* a second start */
    usleep(1500000);
    ps_fixture_kill(&fixture, &fixture.server[0]);
    fixture.server[0] = first;
    kill(first, SIGSTOP);
    assert_true(test_child_stops(first));
    usleep(2500000);
    pid_t another = ps_fixture_start_another(&fixture);
    usleep(1500000);
    kill(first, SIGCONT);
    assert_true(ps_fixture_reaches(&fixture, fixture.progress[0] + 5));
    assert_true(ps_fixture_generation(&fixture) == generation);
    assert_int_equal(ps_fixture_process(&fixture, 3).server, 3); /* the new server has a new number */
    kill(another, SIGTERM);
    assert_int_equal(test_child_wait(another, 60000), 0);
    ps_fixture_stop(&fixture);
    finish(&fixture);
}

/* A server that was replaced while it was paused ends with an error. */
static void a_server_that_was_replaced_ends(void **state) {
    ps_fixture fixture = world_of();
    begin(&fixture);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    mr_ps_replica asleep = ps_fixture_process(&fixture, 0);
    pid_t first = fixture.server[0];
    kill(first, SIGSTOP);
    assert_true(test_child_stops(first));
    ps_fixture_start_server(&fixture, 0); /* the new process waits until the old one has been silent for two seconds */
    assert_true(ps_fixture_full(&fixture, 0, &asleep));
    for (int64_t us = 0; ps_fixture_process(&fixture, 0).incarnation <= asleep.incarnation; us += 20000, usleep(20000))
        assert_true(us < PS_FIXTURE_PATIENCE_US);
    kill(first, SIGCONT);
    assert_int_not_equal(test_child_wait(first, 60000), 0);
    finish(&fixture);
}

static void a_worker_is_killed(void **state) {
    ps_fixture fixture = world_of();
    begin(&fixture);
    ps_fixture_kill(&fixture, &fixture.worker[2]);
    ps_fixture_start_worker(&fixture, 2);
    assert_true(ps_fixture_reaches(&fixture, fixture.progress[0] + 2));
    ps_fixture_kill(&fixture, &fixture.worker[0]);
    ps_fixture_kill(&fixture, &fixture.worker[3]);
    ps_fixture_start_worker(&fixture, 3);
    ps_fixture_start_worker(&fixture, 0);
    finish(&fixture);
}

static bool wait_for_checkpoint(ps_fixture *fixture, uint64_t behind) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    while (ps_fixture_checkpoint(fixture) <= behind && clock_now_us(clock_real()) < until_us) usleep(10000);
    return ps_fixture_checkpoint(fixture) > behind;
}

static void everything_is_killed(void **state) {
    ps_fixture fixture = world_of();
    fixture.checkpoint_us = 400000; /* a checkpoint syncs each slot to disk, one after another; */
    fixture.steps = 0;              /* ranks train until one is complete */
    begin(&fixture);
    assert_true(wait_for_checkpoint(&fixture, 0));
    uint64_t whole = ps_fixture_checkpoint(&fixture), past = ps_fixture_generation(&fixture);
    for (uint32_t i = 0; i < fixture.workers; i++) ps_fixture_kill(&fixture, &fixture.worker[i]);
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_kill(&fixture, &fixture.server[i]);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    int64_t from_us = clock_now_us(clock_real());
    assert_true(ps_fixture_start(&fixture));
    assert_true(ps_fixture_full(&fixture, past, NULL));
    printf("everything was killed: restored after %.2f s\n", seconds_since(from_us));
    mr_ps_cluster_map *map = NULL;
    assert_int_equal(mr_ps_cluster_map_get(fixture.address, PS_FIXTURE_PATIENCE_US, &map), MR_OK);
    assert_true(map->restored_from >= whole); /* no complete checkpoint is lost */
    mr_ps_cluster_map_free(map);
    ps_fixture_stop(&fixture);
    finish(&fixture);
}

/* Ranks of different speeds push ones to all slots, and die while others wait for them. No rank waits for ever, and a
 * restored checkpoint has the same number of ones in every slot. */
static void exact_checkpoints_are_even(void **state) {
    ps_fixture fixture = world_of();
    fixture.consistency = MR_PS_ASP;
    fixture.checkpoint_us = 100000;
    fixture.exact = true;
    fixture.steps = 0;        /* until checkpoints are complete, also on a slow disk */
    fixture.gap_us = STEP_US; /* a rank is within a step at any time */
    begin(&fixture);
    assert_true(wait_for_checkpoint(&fixture, 0));
    ps_fixture_kill(&fixture, &fixture.worker[2]); /* possibly within a step */
    uint64_t step = fixture.progress[0];
    ps_fixture_kill(&fixture, &fixture.scheduler); /* possibly within a quiesce */
    for (int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US; fixture.progress[0] < step + 5;) {
        assert_true(clock_now_us(clock_real()) < until_us); /* the other ranks continue */
        usleep(5000);
    }
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_worker(&fixture, 2);
    assert_true(wait_for_checkpoint(&fixture, ps_fixture_checkpoint(&fixture)));
    uint64_t whole = ps_fixture_checkpoint(&fixture), past = ps_fixture_generation(&fixture);
    for (uint32_t i = 0; i < fixture.workers; i++) ps_fixture_kill(&fixture, &fixture.worker[i]);
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_kill(&fixture, &fixture.server[i]);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    fixture.checkpoint_us = 1000000; /* with fewer checkpoints the run ends sooner */
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, past, NULL));
    assert_true(ps_fixture_checkpoint(&fixture) >= whole);
    assert_true(ps_fixture_even(&fixture));
    for (uint32_t i = 0; i < fixture.workers; i++) ps_fixture_start_worker(&fixture, i);
    ps_fixture_stop(&fixture);
    finish(&fixture);
}

/* The metadata store loses its disk. Processes that start before the store has learned the old state get incarnations
 * below known ones. Their messages are rejected with that reason, and the processes take other incarnations. */
static void the_scheduler_loses_its_disk(void **state) {
    const uint64_t old = 1 << 22; /* above the generation that an empty metadata store draws */
    ps_fixture fixture = world_of();
    fixture.servers = 2;
    fixture.steps = 400; /* no rank ends before the test stops it */
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_age(&fixture, old));
    assert_true(ps_fixture_start(&fixture));
    assert_true(ps_fixture_reaches(&fixture, 5));
    mr_ps_replica before = ps_fixture_process(&fixture, 1);
    uint64_t past = ps_fixture_generation(&fixture);
    assert_true(metadata_store_generation(before.incarnation) == old);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    ps_fixture_kill(&fixture, &fixture.server[1]);
    ps_fixture_kill(&fixture, &fixture.worker[2]);
    ps_fixture_forget(&fixture);
    const pid_t others[] = {fixture.server[0], fixture.worker[0], fixture.worker[1], fixture.worker[3]};
    for (size_t i = 0; i < 4; i++) kill(others[i], SIGSTOP);
    for (size_t i = 0; i < 4; i++) assert_true(test_child_stops(others[i]));
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 1);
    ps_fixture_start_worker(&fixture, 2);
    usleep(1000000); /* both have incarnations by now; if not, the test passes as well */
    for (size_t i = 1; i < 4; i++) kill(others[i], SIGCONT);
    for (int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
         ps_fixture_generation(&fixture) != past;) {
        assert_true(clock_now_us(clock_real()) < until_us); /* ranks report their cluster map */
        usleep(1000);
    }
    kill(others[0], SIGCONT); /* not earlier: two servers could begin anew */
    assert_true(ps_fixture_full(&fixture, past, &before));
    assert_true(metadata_store_generation(ps_fixture_process(&fixture, 1).incarnation) > old);
    finish(&fixture);
}

/* ---- The folder of a scheduler. */

typedef struct refusal {
    char address[200], words[100];
    const char *folder;
    rlim_t file_max; /* maximal file size in bytes */
    mr_status status;
} refusal;

/* Runs in another process, since a scheduler that starts would serve for ever. */
static int begin_in_vain(void *argument) {
    const refusal *refusal = argument;
    const mr_ps_scheduler_options options =
        MR_OPTIONS(mr_ps_scheduler_options, .listen = refusal->address, .checkpoint_dir = refusal->folder,
                   .num_workers = 1, .num_servers = 1, .slots = 1, .replicas = 1, .consistency = MR_PS_ASP);
    const struct rlimit limit = {refusal->file_max, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    TEST_CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    mr_status status = mr_ps_run_scheduler(&options);
    bool good = status == refusal->status && strstr(mr_last_error(), refusal->words) != NULL &&
                strstr(mr_last_error(), refusal->folder) != NULL;
    if (!good) fprintf(stderr, "status %d: %s\n", (int)status, mr_last_error());
    return good ? 0 : 1;
}

static refusal refusal_of(const ps_fixture *fixture, mr_status status) {
    refusal refusal = {.folder = fixture->folder, .file_max = RLIM_INFINITY, .status = status};
    snprintf(refusal.address, sizeof refusal.address, "unix:%s/s.second", fixture->folder);
    return refusal;
}

static void a_folder_has_one_scheduler(void **state) {
    ps_fixture fixture = world_of();
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    refusal second = refusal_of(&fixture, MR_BUSY);
    snprintf(second.words, sizeof second.words, "begin in another folder: 'scheduler.lock' is locked by process %d",
             (int)fixture.scheduler);
    assert_int_equal(test_child_run(begin_in_vain, &second, 60000), 0);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    assert_true(ps_fixture_start_scheduler(&fixture)); /* the lock ended with its process */
    assert_true(ps_fixture_fini(&fixture));
}

/* The disk is full from the first write on; later the folder is usable. */
static void a_folder_that_takes_nothing_is_named(void **state) {
    ps_fixture fixture = world_of();
    assert_true(ps_fixture_init(&fixture));
    refusal full = refusal_of(&fixture, MR_IO);
    full.file_max = 100;
    snprintf(full.words, sizeof full.words, "check its permissions and free space: cannot write 'keeper.new': ");
    assert_int_equal(test_child_run(begin_in_vain, &full, 60000), 0);
    assert_true(ps_fixture_start_scheduler(&fixture));
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_count_once_without_rounds),
        cmocka_unit_test(servers_are_killed),
        cmocka_unit_test(servers_are_killed_by_tcp),
        cmocka_unit_test(the_scheduler_is_killed),
        cmocka_unit_test(a_server_stops_and_wakes_up),
        cmocka_unit_test(a_live_server_is_not_replaced),
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
