/* ps_rounds_test.c — rounds of BSP that do not wait for all ranks: backup workers and deadlines, with processes that
 * are stopped and continue. Counted contributions are in every slot, others are in none, and each rank learns whether
 * its contribution counted. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { RANKS = 3, KEYS = 8, STEP_US = 2000, SOME = 5, MANY = 100, LATE = 6, MORE = 20, PATIENCE_MS = 60000 };
#define DEADLINE_US INT64_C(150000)

typedef struct totals { /* totals of a rank, written by its process */
    uint64_t step, begun, counted, missed;
    uint32_t stops;                         /* 1: the rank stops itself within its step */
    float shown[RANKS][KEYS], loose[RANKS]; /* at the end: sums over all ranks */
} totals;

typedef struct page { /* memory shared with the workers */
    totals ranks[RANKS];
    uint64_t last; /* step at which all ranks end */
} page;

typedef struct part {
    page *page;
    bool mixed;
    uint32_t rank;
    char address[MR_PS_ADDRESS_MAX];
} part;

typedef struct tables {
    mr_ps_table *sums, *loose; /* loose: without rounds; NULL: none */
} tables;

/* ---- A worker: in each step it adds one to its own keys, which are in several slots. */

static void keys_of(uint32_t rank, uint64_t keys[KEYS]) {
    for (uint64_t i = 0; i < KEYS; i++) keys[i] = rank * 1000 + i * i * 7;
}

static void count(uint64_t *number) { __atomic_fetch_add(number, 1, __ATOMIC_RELEASE); }

static mr_status play(mr_ps *ps, const tables *tables, uint32_t rank, totals *own) {
    static const float ones[KEYS] = {1, 1, 1, 1, 1, 1, 1, 1};
    uint64_t keys[KEYS];
    float shown[KEYS];
    mr_ps_ticket tickets[2];
    keys_of(rank, keys);
    MR_TRY(mr_ps_pull(tables->sums, keys, KEYS, shown, NULL, NULL, NULL));
    usleep(STEP_US);
    if (__atomic_exchange_n(&own->stops, 0, __ATOMIC_ACQ_REL) != 0) raise(SIGSTOP);
    MR_TRY(mr_ps_push(tables->sums, keys, KEYS, ones, NULL, NULL, &tickets[0]));
    if (tables->loose != NULL) MR_TRY(mr_ps_push(tables->loose, keys, 1, ones, NULL, NULL, &tickets[1]));
    MR_TRY(mr_ps_end(ps));
    return mr_ps_wait(ps, tickets[0], PS_FIXTURE_PATIENCE_US);
}

static mr_status look(const tables *tables, totals *own) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t keys[KEYS];
        keys_of(rank, keys);
        MR_TRY(mr_ps_pull(tables->sums, keys, KEYS, own->shown[rank], NULL, NULL, NULL));
        if (tables->loose != NULL) MR_TRY(mr_ps_pull(tables->loose, keys, 1, &own->loose[rank], NULL, NULL, NULL));
    }
    return MR_OK;
}

static mr_status train(const part *part, mr_ps *ps, const tables *tables) {
    totals *own = &part->page->ranks[part->rank];
    for (;;) {
        uint64_t step;
        MR_TRY(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        __atomic_store_n(&own->step, step, __ATOMIC_RELEASE);
        if (step >= __atomic_load_n(&part->page->last, __ATOMIC_ACQUIRE)) return look(tables, own);
        count(&own->begun);
        mr_status status = play(ps, tables, part->rank, own);
        if (status != MR_OK && status != MR_STALE) return status;
        count(status == MR_OK ? &own->counted : &own->missed);
    }
}

static mr_status open_table(mr_ps *ps, const char *consistency, mr_ps_table **out) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .consistency = consistency);
    return mr_ps_table_create(ps, consistency, &options, PS_FIXTURE_PATIENCE_US, out);
}

static int work(void *argument) {
    const part *part = argument;
    mr_ps *ps;
    tables tables = {0};
    mr_status status = mr_ps_connect(part->address, (int)part->rank, PS_FIXTURE_PATIENCE_US, &ps);
    TEST_CHILD_CHECK(status == MR_OK);
    status = open_table(ps, "bsp", &tables.sums);
    if (status == MR_OK && part->mixed) status = open_table(ps, "asp", &tables.loose);
    if (status == MR_OK) status = train(part, ps, &tables);
    if (status != MR_OK) fprintf(stderr, "rank %u: %s\n", part->rank, mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    mr_ps_table_free(tables.sums);
    mr_ps_table_free(tables.loose);
    mr_ps_close(ps);
    return 0;
}

/* ---- The fixture. */

typedef struct scene {
    ps_fixture fixture;
    page *page;
    pid_t worker[RANKS];
} scene;

static void begin(scene *scene, ps_fixture fixture) {
    fixture.servers = fixture.copies = 2;
    fixture.slots = 3;
    fixture.workers = RANKS;
    *scene = (struct scene){.fixture = fixture};
    scene->page = mmap(NULL, sizeof *scene->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(scene->page != MAP_FAILED);
    scene->page->last = UINT64_MAX;
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < scene->fixture.servers; i++) ps_fixture_start_server(&scene->fixture, i);
    for (uint32_t i = 0; i < RANKS; i++) {
        part part = {.page = scene->page, .mixed = fixture.mixed, .rank = i};
        memcpy(part.address, scene->fixture.address, sizeof part.address);
        scene->worker[i] = fork_server_start(&scene->fixture.fork_server, work, &part, sizeof part);
        assert_true(scene->worker[i] > 0);
    }
}

static uint64_t read_of(const uint64_t *number) { return __atomic_load_n(number, __ATOMIC_ACQUIRE); }

static void await(const uint64_t *number, uint64_t least) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    while (read_of(number) < least) {
        if (clock_now_us(clock_real()) > until_us)
            fail_msg("%llu, not %llu", (unsigned long long)read_of(number), (unsigned long long)least);
        usleep(1000);
    }
}

/* Waits until these two ranks have counted in `rounds` more rounds. */
static void go_on(scene *scene, uint32_t one, uint32_t other, uint64_t rounds) {
    uint64_t *first = &scene->page->ranks[one].counted, *second = &scene->page->ranks[other].counted;
    uint64_t least = read_of(first) + rounds, least_other = read_of(second) + rounds;
    await(first, least);
    await(second, least_other);
}

static void stop(const scene *scene, uint32_t rank) {
    int status;
    __atomic_store_n(&scene->page->ranks[rank].stops, 1, __ATOMIC_RELEASE);
    assert_int_equal(waitpid(scene->worker[rank], &status, WUNTRACED), scene->worker[rank]);
    assert_true(WIFSTOPPED(status));
}

static void resume(const scene *scene, uint32_t rank) { assert_int_equal(kill(scene->worker[rank], SIGCONT), 0); }

/* Ends the run. All ranks pull equal values: for each rank, the number of its steps that counted. */
static void finish(scene *scene) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        if (read_of(&scene->page->ranks[i].step) > last) last = read_of(&scene->page->ranks[i].step);
    __atomic_store_n(&scene->page->last, last + MORE, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < RANKS; i++) assert_int_equal(test_child_wait(scene->worker[i], PATIENCE_MS), 0);
    for (uint32_t i = 0; i < RANKS * RANKS; i++) {
        const totals *own = &scene->page->ranks[i % RANKS], *sees = &scene->page->ranks[i / RANKS];
        for (int k = 0; k < KEYS; k++) assert_int_equal((uint64_t)sees->shown[i % RANKS][k], own->counted);
        if (!scene->fixture.mixed) continue;
        assert_true(sees->loose[i % RANKS] >= (float)own->counted && sees->loose[i % RANKS] <= (float)own->begun);
    }
    munmap(scene->page, sizeof *scene->page);
    scene->fixture.workers = 0;
    assert_true(ps_fixture_fini(&scene->fixture));
}

/* ---- Backup workers. */

static void two_go_on_without_the_third(ps_fixture fixture) {
    scene scene;
    char text[4096];
    fixture.backup = 1;
    begin(&scene, fixture);
    go_on(&scene, 0, 1, SOME);
    assert_true(ps_fixture_status(&scene.fixture, "", text, sizeof text));
    assert_non_null(strstr(text, "A round waits for 2 of 3 ranks\n"));
    stop(&scene, 2);
    go_on(&scene, 0, 1, MANY);
    uint64_t missed = scene.page->ranks[2].missed, far = read_of(&scene.page->ranks[0].step);
    resume(&scene, 2);
    await(&scene.page->ranks[2].missed, missed + 1); /* the round of the rank's step is closed */
    await(&scene.page->ranks[2].step, far);          /* the rank continues with the step of the others */
    stop(&scene, 0);
    go_on(&scene, 1, 2, MANY); /* rounds need the rank again, and it takes part */
    resume(&scene, 0);
    finish(&scene);
}

static void backup_workers(void **state) { two_go_on_without_the_third((ps_fixture){.consistency = MR_PS_BSP}); }

static void backup_workers_beside_tables_without_rounds(void **state) {
    two_go_on_without_the_third((ps_fixture){.consistency = MR_PS_ASP, .mixed = true});
}

/* ---- Deadlines. */

static void a_late_rank_is_left_out(void **state) {
    scene scene;
    char text[4096];
    begin(&scene, (ps_fixture){.consistency = MR_PS_BSP, .deadline_us = DEADLINE_US});
    go_on(&scene, 0, 2, SOME);
    assert_true(ps_fixture_status(&scene.fixture, "", text, sizeof text));
    assert_non_null(strstr(text, "A round waits for 3 of 3 ranks, for at most 0.15 s\n"));
    stop(&scene, 2);
    int64_t began_us = clock_now_us(clock_real());
    go_on(&scene, 0, 1, LATE);
    assert_true(clock_now_us(clock_real()) - began_us >= (LATE - 2) * DEADLINE_US); /* not before the deadline */
    uint64_t missed = scene.page->ranks[2].missed;
    resume(&scene, 2);
    await(&scene.page->ranks[2].missed, missed + 1);
    go_on(&scene, 1, 2, SOME);
    finish(&scene);
}

/* ---- Invalid requests. */

static void wrong_options_are_told(void **state) {
    const struct {
        mr_ps_consistency consistency;
        int mixed;
        uint32_t backup;
        int64_t deadline_us;
        const char *told;
    } cases[] = {
        {MR_PS_BSP, 0, RANKS, 0, "3 backup workers of 3: at least 1 worker must not be a backup"},
        {MR_PS_BSP, 0, UINT32_MAX, 0, "at least 1 worker must not be a backup"},
        {MR_PS_ASP, 1, RANKS, 0, "at least 1 worker must not be a backup"},
        {MR_PS_ASP, 0, 1, 0, "a number of backup workers needs rounds"},
        {MR_PS_SSP, 0, 0, 1, "a deadline needs rounds"},
        {MR_PS_BSP, 0, 0, -1, "a deadline of -1 µs"},
        {MR_PS_BSP, 0, 1, INT64_C(1) << 32, "a deadline of 4294967296 µs: expected 0 (none) to 4294967295"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mr_ps_scheduler_options options =
            MR_OPTIONS(mr_ps_scheduler_options, .listen = "unix:/nowhere/at/all", .checkpoint_dir = "/proc/nothing",
                       .num_workers = RANKS, .num_servers = 1, .consistency = cases[i].consistency,
                       .mixed_consistency = cases[i].mixed, .backup_workers = cases[i].backup,
                       .deadline_us = cases[i].deadline_us);
        assert_int_equal(mr_ps_run_scheduler(&options), MR_INVALID);
        if (strstr(mr_last_error(), cases[i].told) == NULL)
            fail_msg("'%s' does not say '%s'", mr_last_error(), cases[i].told);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup_workers),
        cmocka_unit_test(backup_workers_beside_tables_without_rounds),
        cmocka_unit_test(a_late_rank_is_left_out),
        cmocka_unit_test(wrong_options_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
