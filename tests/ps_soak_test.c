/* ps_soak_test.c — a parameter server of real processes that die, join and leave repeatedly while four ranks train: at
 * the end the weights have the bits of plain sums in one process. Durations are printed; the test allows ten times the
 * bar.
 *
 *   servers are killed      a random one of three, every two seconds, once all replicas are restored
 *   servers join and leave  from one to eight, and back
 *   everything is killed    at random instants: no checkpoint that was reported complete is lost, whatever number of
 *                           servers it is restored onto
 *   programs without steps  push to a slot of more than 64 MB, and one is idle, while servers are killed: nothing is
 *                           lost, and no table is reset
 *
 * MINIRAY_PS_SECONDS is the duration of each of them (0: a few times), MINIRAY_PS_SEED the seed of random choices. */
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

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/test_child.h"

enum { KILLS = 4, RESTORES = 2, STEP_US = 4000, MANY = 8, LOOK_US = 10000000, LARGE = 3 << 19 };
enum { HUGE_ITEMS = 18 << 20, PART_ITEMS = 1 << 16, PART_PUSHES = 8 };

static int64_t now_us(void) { return clock_now_us(clock_real()); }

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static int64_t end_of_scene(void) { return now_us() + (int64_t)number_of("MINIRAY_PS_SECONDS", 0) * 1000000; }
static bool is_soak(void) { return number_of("MINIRAY_PS_SECONDS", 0) != 0; }

/* ---- Durations. */

typedef struct times {
    double *seconds; /* owned */
    size_t count, room;
} times;

static void note(times *times, double seconds) {
    if (times->count == times->room) {
        times->room = 2 * times->room + 64;
        times->seconds = xrealloc(times->seconds, times->room * sizeof *times->seconds);
    }
    times->seconds[times->count++] = seconds;
}

static int ascending(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double quantile(times *times, double part) {
    if (times->count == 0) return 0;
    qsort(times->seconds, times->count, sizeof *times->seconds, ascending);
    size_t at = (size_t)(part * (double)times->count);
    return times->seconds[at < times->count ? at : times->count - 1];
}

static void print_times(const char *what, times *times) {
    printf("    %s: p50 %.3f s, p99 %.3f s, max %.3f s (%zu)\n", what, quantile(times, 0.5), quantile(times, 0.99),
           quantile(times, 1), times->count);
}

/* ---- The fixture. */

static void begin(ps_fixture *fixture) {
    assert_true(ps_fixture_init(fixture));
    assert_true(ps_fixture_start(fixture));
    assert_true(ps_fixture_reaches(fixture, 5));
}

static void finish(ps_fixture *fixture) {
    ps_fixture_stop(fixture);
    assert_true(ps_fixture_trained(fixture));
    assert_true(ps_fixture_fini(fixture));
}

/* Start of this rank's first step that ended after `from_us`; 0: no such step yet. */
static int64_t goes_on_us(const ps_fixture *fixture, uint32_t rank, int64_t from_us) {
    uint64_t last = __atomic_load_n(&fixture->progress[rank], __ATOMIC_ACQUIRE), step = last;
    while (step > 0 && ps_fixture_begun_us(fixture, rank, step - 1) > from_us) step--;
    return step < last && ps_fixture_begun_us(fixture, rank, step) > from_us
               ? ps_fixture_begun_us(fixture, rank, step + 1)
               : 0;
}

/* Seconds after `from_us` until every rank has begun and ended a step. */
static double time_to_go_on(const ps_fixture *fixture, int64_t from_us) {
    int64_t until_us = now_us() + PS_FIXTURE_PATIENCE_US, last_us = 0;
    for (uint32_t i = 0; i < fixture->workers; i++) {
        int64_t here_us;
        while ((here_us = goes_on_us(fixture, i, from_us)) == 0 && now_us() < until_us) usleep(1000);
        assert_true(here_us != 0);
        if (here_us > last_us) last_us = here_us;
    }
    return (double)(last_us - from_us) / 1e6;
}

static mr_ps_cluster_map *look(ps_fixture *fixture) {
    mr_ps_cluster_map *map = NULL;
    assert_int_equal(mr_ps_cluster_map_get(fixture->address, LOOK_US, &map), MR_OK);
    return map;
}

/* ---- Servers are killed. */

static void a_server_is_killed_every_two_seconds(void **state) {
    ps_fixture fixture = {.servers = 3,
                          .workers = 4,
                          .slots = 12,
                          .copies = 2,
                          .step_us = STEP_US,
                          .balance_us = 500000,
                          .consistency = MR_PS_BSP};
    times pauses = {0}, fills = {0};
    rng rng;
    rng_init(&rng, number_of("MINIRAY_PS_SEED", 7));
    begin(&fixture);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    for (int64_t end_us = end_of_scene(); fills.count < KILLS || now_us() < end_us;) {
        uint32_t victim = (uint32_t)rng_below(&rng, fixture.servers);
        mr_ps_replica dead = ps_fixture_process(&fixture, victim);
        int64_t from_us = now_us();
        ps_fixture_kill(&fixture, &fixture.server[victim]);
        ps_fixture_start_server(&fixture, victim);
        assert_true(ps_fixture_full(&fixture, 0, &dead));
        note(&fills, (double)(now_us() - from_us) / 1e6);
        note(&pauses, time_to_go_on(&fixture, from_us));
        int64_t left_us = from_us + 2000000 - now_us();
        if (is_soak() && left_us > 0) usleep((useconds_t)left_us);
    }
    uint64_t steps = fixture.progress[0];
    finish(&fixture);
    printf("    %zu servers were killed in %llu steps\n", fills.count, (unsigned long long)steps);
    print_times("training goes on after", &pauses);
    print_times("all copies are back after", &fills);
    assert_true(quantile(&pauses, 0.5) <= 5 && quantile(&pauses, 0.99) <= 8);
    free(pauses.seconds);
    free(fills.seconds);
}

/* ---- Everything is killed. */

static void kill_all(ps_fixture *fixture, rng *rng) {
    pid_t *all[1 + PS_FIXTURE_SERVERS_MAX + PS_FIXTURE_WORKERS_MAX];
    size_t count = 0;
    all[count++] = &fixture->scheduler;
    for (uint32_t i = 0; i < fixture->servers; i++) all[count++] = &fixture->server[i];
    for (uint32_t i = 0; i < fixture->workers; i++) all[count++] = &fixture->worker[i];
    for (size_t i = count; i-- > 0;) {
        size_t other = rng_below(rng, i + 1);
        pid_t *pid = all[other];
        all[other] = all[i];
        ps_fixture_kill(fixture, pid);
    }
}

/* Waits for a while. Returns the newest checkpoint that was reported complete by then. */
static uint64_t told_within(ps_fixture *fixture, int64_t for_us, uint64_t told) {
    int64_t until_us = now_us() + for_us;
    do {
        mr_ps_cluster_map *map = look(fixture);
        if (map->checkpoint > told) told = map->checkpoint;
        mr_ps_cluster_map_free(map);
        usleep(5000);
    } while (now_us() < until_us || told == 0);
    return told;
}

static void no_checkpoint_is_lost(void **state) {
    ps_fixture fixture = {.servers = 3,
                          .workers = 4,
                          .slots = 6,
                          .copies = 2,
                          .step_us = STEP_US,
                          .checkpoint_us = 100000,
                          .consistency = MR_PS_BSP};
    times restores = {0};
    uint64_t told = 0;
    rng rng;
    rng_init(&rng, number_of("MINIRAY_PS_SEED", 7));
    begin(&fixture);
    for (int64_t end_us = end_of_scene(); restores.count < RESTORES || now_us() < end_us;) {
        told = told_within(&fixture, (int64_t)rng_below(&rng, 1500000), told);
        uint64_t past = ps_fixture_generation(&fixture);
        kill_all(&fixture, &rng);
        fixture.servers = 3 + (uint32_t)rng_below(&rng, 2);
        int64_t from_us = now_us();
        assert_true(ps_fixture_start(&fixture));
        assert_true(ps_fixture_full(&fixture, past, NULL));
        note(&restores, (double)(now_us() - from_us) / 1e6);
        mr_ps_cluster_map *map = look(&fixture);
        assert_true(map->restored_from >= told);
        told = map->restored_from;
        mr_ps_cluster_map_free(map);
    }
    finish(&fixture);
    printf("    everything was killed %zu times, the last checkpoint was %llu\n", restores.count,
           (unsigned long long)told);
    print_times("restored after", &restores);
    free(restores.seconds);
}

/* ---- Servers join and leave. */

typedef struct moves {
    mr_ps_cluster_map *last; /* owned: the latest map */
    size_t moved;            /* replicas that moved to another server */
    double ideal;            /* replicas that had to move */
} moves;

static bool has_copy(const mr_ps_slot *slot, const mr_ps_replica *copy) {
    for (uint32_t i = 0; i < slot->count; i++)
        if (slot->replicas[i].server == copy->server && slot->replicas[i].incarnation == copy->incarnation) return true;
    return false;
}

static uint32_t copies_on(const mr_ps_cluster_map *map, uint32_t server) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < map->slot_count; i++)
        for (uint32_t k = 0; k < map->slots[i].count; k++) count += map->slots[i].replicas[k].server == server;
    return count;
}

/* True: the map has changed since the last call. */
static bool watch(ps_fixture *fixture, moves *moves) {
    mr_ps_cluster_map *map = look(fixture);
    bool changed = moves->last == NULL || moves->last->number != map->number;
    for (uint32_t i = 0; moves->last != NULL && i < map->slot_count; i++)
        for (uint32_t k = 0; k < map->slots[i].count; k++)
            moves->moved += !has_copy(&moves->last->slots[i], &map->slots[i].replicas[k]);
    mr_ps_cluster_map_free(moves->last);
    moves->last = map;
    return changed;
}

/* Waits until the server has replicas, or has none, and the map has not changed for a while. */
static void settle(ps_fixture *fixture, moves *moves, uint32_t server, bool has) {
    const int64_t quiet_us = is_soak() ? 600000 : 200000;
    int64_t until_us = now_us() + PS_FIXTURE_PATIENCE_US, changed_us = now_us();
    while (now_us() < until_us) {
        if (watch(fixture, moves)) changed_us = now_us();
        if ((copies_on(moves->last, server) != 0) == has && now_us() - changed_us > quiet_us) return;
        usleep(5000);
    }
    fail_msg("the slots of server %u do not settle", server);
}

/* Adds the durations of the steps from `from` on. */
static void note_steps(const ps_fixture *fixture, uint64_t from, times *steps) {
    for (uint32_t rank = 0; rank < fixture->workers; rank++)
        for (uint64_t step = from; step < fixture->progress[rank]; step++)
            note(steps,
                 (double)(ps_fixture_begun_us(fixture, rank, step + 1) - ps_fixture_begun_us(fixture, rank, step)) /
                     1e6);
}

static void come(ps_fixture *fixture, moves *moves, uint32_t server) {
    moves->ideal += (double)moves->last->slot_count / (server + 1);
    ps_fixture_start_server(fixture, server);
    settle(fixture, moves, server, true);
}

/* Ends the server by SIGTERM; its slots move first. */
static void go(ps_fixture *fixture, moves *moves, uint32_t server) {
    moves->ideal += copies_on(moves->last, server);
    kill(fixture->server[server], SIGTERM);
    settle(fixture, moves, server, false);
    assert_int_equal(test_child_wait(fixture->server[server], 60000), 0);
    fixture->server[server] = 0;
}

static void servers_come_and_go(void **state) {
    ps_fixture fixture = {
        .servers = 1, .workers = 4, .slots = 64, .copies = 1, .step_us = STEP_US, .consistency = MR_PS_BSP};
    moves moves = {0};
    times steps = {0};
    size_t rounds = 0;
    begin(&fixture);
    (void)watch(&fixture, &moves);
    uint64_t generation = moves.last->generation, from = fixture.progress[0];
    for (int64_t end_us = end_of_scene(); rounds == 0 || now_us() < end_us; rounds++) {
        for (uint32_t i = 1; i < MANY; i++) come(&fixture, &moves, i);
        for (uint32_t i = MANY; i-- > 1;) go(&fixture, &moves, i);
        if (fixture.progress[0] - from > PS_FIXTURE_BEGUN / 2) { /* before the recorded times are overwritten */
            note_steps(&fixture, from, &steps);
            from = fixture.progress[0];
        }
    }
    note_steps(&fixture, from, &steps);
    assert_true(moves.last->generation == generation); /* no slot was lost */
    finish(&fixture);
    printf("    one to eight servers and back, %zu times: %zu copies moved, %.2f x those that had to\n", rounds,
           moves.moved, (double)moves.moved / moves.ideal);
    print_times("a step takes", &steps);
    assert_true((double)moves.moved <= 1.2 * moves.ideal);
    if (is_soak()) assert_true(quantile(&steps, 0.99) <= 2); /* a short run has few steps and shares the machine */
    mr_ps_cluster_map_free(moves.last);
    free(steps.seconds);
}

/* ---- Large slots. */

static mr_ps_table *open_large(mr_ps *ps, int64_t items, const char *optimizer) {
    const mr_ps_array array = {.name = "w", .dims = 1, .shape = {items}};
    const mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .optimizer = optimizer,
                   .rate = strcmp(optimizer, "add") == 0 ? 0 : 1);
    mr_ps_table *table = NULL;
    assert_int_equal(mr_ps_table_create(ps, "large", &options, PS_FIXTURE_PATIENCE_US, &table), MR_OK);
    return table;
}

static void start_without_workers(ps_fixture *fixture, uint32_t ranks) {
    fixture->workers = ranks; /* of this process */
    assert_true(ps_fixture_start_scheduler(fixture));
    fixture->workers = 0;
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
}

/* A requested checkpoint of some megabytes is restored onto another number of servers. */
static void large_slots_are_restored(void **state) {
    ps_fixture fixture = {.servers = 1, .slots = 2, .copies = 1, .consistency = MR_PS_ASP, .steps = 1};
    float *values = xcalloc(LARGE, sizeof *values), *before = xcalloc(LARGE, sizeof *before), *after = values;
    mr_ps *ps;
    uint64_t step, checkpoint;
    rng rng;
    rng_init(&rng, 1);
    for (size_t i = 0; i < LARGE; i++) values[i] = (float)rng_below(&rng, 1000);
    assert_true(ps_fixture_init(&fixture));
    start_without_workers(&fixture, 1);
    assert_int_equal(mr_ps_connect(fixture.address, 0, PS_FIXTURE_PATIENCE_US, &ps), MR_OK);
    mr_ps_table *table = open_large(ps, LARGE, "momentum");
    assert_int_equal(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step), MR_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(mr_ps_push_array(table, 0, values, 0, LARGE, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_pull_array(table, 0, before, 0, LARGE, NULL, NULL), MR_OK);
    mr_ps_cluster_map *map = look(&fixture);
    uint64_t generation = map->generation;
    mr_ps_cluster_map_free(map);
    assert_int_equal(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US, &checkpoint), MR_OK);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    ps_fixture_kill(&fixture, &fixture.server[0]);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    fixture.servers = 2;
    start_without_workers(&fixture, 1);
    assert_true(ps_fixture_full(&fixture, generation, NULL));
    map = look(&fixture);
    assert_int_equal(map->restored_from, checkpoint);
    mr_ps_cluster_map_free(map);
    assert_int_equal(mr_ps_connect(fixture.address, 0, PS_FIXTURE_PATIENCE_US, &ps), MR_OK);
    table = open_large(ps, LARGE, "momentum");
    assert_int_equal(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step), MR_OK);
    assert_int_equal(mr_ps_pull_array(table, 0, after, 0, LARGE, NULL, NULL), MR_OK);
    assert_memory_equal(after, before, LARGE * sizeof *after);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    free(values);
    free(before);
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- Programs without steps. */

/* Adds to some parts of the table, and to `sums`. */
static void push_parts(mr_ps *ps, mr_ps_table *table, float *sums, rng *rng) {
    float ones[PART_ITEMS];
    for (size_t i = 0; i < PART_ITEMS; i++) ones[i] = (float)(1 + i % 3);
    for (int k = 0; k < PART_PUSHES; k++) {
        uint64_t first = rng_below(rng, HUGE_ITEMS - PART_ITEMS);
        mr_ps_ticket ticket;
        assert_int_equal(mr_ps_push_array(table, 0, ones, first, PART_ITEMS, NULL, &ticket), MR_OK);
        for (size_t i = 0; i < PART_ITEMS; i++) sums[first + i] += ones[i];
    }
    assert_int_equal(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US), MR_OK);
}

static void assert_shown(mr_ps_table *table, const float *sums, float *shown) {
    assert_int_equal(mr_ps_pull_array(table, 0, shown, 0, HUGE_ITEMS, NULL, NULL), MR_OK);
    assert_memory_equal(shown, sums, HUGE_ITEMS * sizeof *shown);
}

static void programs_without_steps_lose_nothing(void **state) {
    ps_fixture fixture = {.servers = 3, .slots = 1, .copies = 2, .consistency = MR_PS_ASP};
    float *sums = xcalloc(HUGE_ITEMS, sizeof *sums), *shown = xcalloc(HUGE_ITEMS, sizeof *shown);
    times fills = {0};
    rng rng;
    rng_init(&rng, number_of("MINIRAY_PS_SEED", 7));
    assert_true(ps_fixture_init(&fixture));
    start_without_workers(&fixture, 2);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    mr_ps *ps = ps_fixture_connect(&fixture, 0), *idle = ps_fixture_connect(&fixture, 1);
    assert_true(ps != NULL && idle != NULL);
    mr_ps_table *table = open_large(ps, HUGE_ITEMS, "add"), *seen = open_large(idle, HUGE_ITEMS, "add");
    memset(shown, 0, HUGE_ITEMS * sizeof *shown);
    /* every block exists: the slot has more than 64 MB */
    assert_int_equal(mr_ps_push_array(table, 0, shown, 0, HUGE_ITEMS, NULL, NULL), MR_OK);
    assert_shown(seen, sums, shown);
    uint64_t generation = ps_fixture_generation(&fixture);
    for (int64_t end_us = end_of_scene(); fills.count < KILLS || now_us() < end_us;) {
        mr_ps_cluster_map *map = look(&fixture);
        mr_ps_replica dead = map->slots[0].replicas[rng_below(&rng, map->slots[0].count)];
        uint32_t victim = dead.server;
        int64_t from_us = now_us();
        mr_ps_cluster_map_free(map);
        ps_fixture_kill(&fixture, &fixture.server[victim]);
        push_parts(ps, table, sums, &rng);
        ps_fixture_start_server(&fixture, victim);
        push_parts(ps, table, sums, &rng);
        assert_true(ps_fixture_full(&fixture, 0, &dead));
        note(&fills, (double)(now_us() - from_us) / 1e6);
        push_parts(ps, table, sums, &rng);
    }
    assert_shown(seen, sums, shown); /* the idle program is told nothing, since nothing was lost */
    assert_shown(table, sums, shown);
    assert_true(ps_fixture_generation(&fixture) == generation);
    printf("    %zu servers were killed beside programs without steps\n", fills.count);
    print_times("all copies of a slot of 72 MB are back after", &fills);
    mr_ps_table_free(table);
    mr_ps_table_free(seen);
    mr_ps_close(ps);
    mr_ps_close(idle);
    free(fills.seconds);
    free(sums);
    free(shown);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_killed_every_two_seconds),
        cmocka_unit_test(no_checkpoint_is_lost),
        cmocka_unit_test(large_slots_are_restored),
        cmocka_unit_test(programs_without_steps_lose_nothing),
        cmocka_unit_test(servers_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
