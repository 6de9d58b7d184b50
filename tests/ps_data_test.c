/* ps_data_test.c — data for workers, as processes: workers that join late, leave, are killed and replaced, miss rounds;
 * a scheduler that is killed; tables that go back to a checkpoint, or to nothing.
 *
 * Every item has a key of its own for each epoch, to which its worker adds one: at the end each of them is one. */
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
#include "tests/support/test_child.h"

enum {
    RANKS = 3,
    EPOCHS = 2,
    BATCH = 5,
    MORE = 20,
    STEPS_MAX = 1 << 15,
    STEP_US = 2000,
    AWAY_US = 1200000,
    PATIENCE_MS = 90000
};
static const uint64_t sizes[] = {101, 64, 7, 150, 33};
enum { PARTS = sizeof sizes / sizeof *sizes, ITEMS = 101 + 64 + 7 + 150 + 33, KEYS = ITEMS * EPOCHS };

typedef struct page {                          /* memory shared with the workers */
    mr_ps_data_batch pieces[RANKS][STEPS_MAX]; /* batch of each step; `to` 0: none yet */
    uint64_t steps[RANKS], others[RANKS];      /* steps begun with a batch; steps whose batch changed in a repetition */
    uint64_t missed[RANKS], at[RANKS];         /* at: last begun step */
    uint64_t last;                             /* step with which all ranks end, when all items are done */
    uint32_t stops[RANKS], leaves[RANKS];      /* 1: the rank stops itself within its step; 1: the rank leaves */
    uint32_t anew;                             /* 1: the data may restart from the beginning, with other batches */
} page;

typedef struct part {
    page *page;
    uint32_t rank;
    char address[MR_PS_ADDRESS_MAX];
} part;

/* ---- A worker. */

static uint64_t key_of(uint64_t epoch, uint32_t which, uint64_t item) {
    uint64_t key = epoch * ITEMS + item;
    for (uint32_t i = 0; i < which; i++) key += sizes[i];
    return key;
}

static void all_keys(uint64_t keys[KEYS]) {
    size_t count = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint32_t i = 0; i < PARTS; i++)
            for (uint64_t item = 0; item < sizes[i]; item++) keys[count++] = key_of(epoch, i, item);
}

static mr_status look(mr_ps_table *table, bool *done) {
    uint64_t keys[KEYS], there = 0;
    float values[KEYS];
    all_keys(keys);
    MR_TRY(mr_ps_pull(table, keys, KEYS, values, NULL, NULL, NULL));
    for (size_t i = 0; i < KEYS; i++) there += values[i] >= 1;
    *done = there == KEYS;
    return MR_OK;
}

static bool is_same(const mr_ps_data_batch *a, const mr_ps_data_batch *b) {
    return a->shard == b->shard && a->epoch == b->epoch && a->from == b->from && a->to == b->to;
}

static void note(const part *part, uint64_t step, const mr_ps_data_batch *piece) {
    mr_ps_data_batch *there = &part->page->pieces[part->rank][step % STEPS_MAX];
    bool other = there->to != 0 && !is_same(there, piece) && part->page->anew == 0;
    if (other) fprintf(stderr, "rank %u: another piece for step %d\n", part->rank, (int)step);
    *there = *piece;
    __atomic_fetch_add(&part->page->others[part->rank], other, __ATOMIC_RELEASE);
    __atomic_fetch_add(&part->page->steps[part->rank], 1, __ATOMIC_RELEASE);
}

static mr_status learn(mr_ps *ps, mr_ps_table *table, const part *part, const mr_ps_data_batch *piece) {
    uint64_t keys[BATCH];
    static const float ones[BATCH] = {1, 1, 1, 1, 1};
    mr_ps_ticket ticket;
    size_t count = piece->epoch < EPOCHS ? (size_t)(piece->to - piece->from) : 0;
    for (size_t i = 0; i < count; i++) keys[i] = key_of(piece->epoch, piece->shard, piece->from + i);
    usleep(STEP_US);
    if (__atomic_exchange_n(&part->page->stops[part->rank], 0, __ATOMIC_ACQ_REL) != 0) raise(SIGSTOP);
    if (count != 0) MR_TRY(mr_ps_push(table, keys, count, ones, NULL, NULL, &ticket));
    MR_TRY(mr_ps_end(ps));
    return count == 0 ? MR_OK : mr_ps_wait(ps, ticket, PS_FIXTURE_PATIENCE_US);
}

static mr_status play(mr_ps *ps, mr_ps_table *table, const part *part, bool *done) {
    uint64_t step;
    mr_ps_data_batch piece;
    MR_TRY(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    __atomic_store_n(&part->page->at[part->rank], step, __ATOMIC_RELEASE);
    if (step >= __atomic_load_n(&part->page->last, __ATOMIC_ACQUIRE)) MR_TRY(look(table, done));
    if (*done) return MR_OK;
    MR_TRY(mr_ps_dataset_next(ps, BATCH, PS_FIXTURE_PATIENCE_US, &piece));
    if (piece.to - piece.from > BATCH) return MR_CORRUPT;
    note(part, step, &piece);
    return learn(ps, table, part, &piece);
}

static mr_status leave(mr_ps *ps) {
    mr_ps_info info;
    mr_ps_info_get(ps, &info);
    return info.consistency == MR_PS_BSP ? mr_ps_leave(ps, PS_FIXTURE_PATIENCE_US)
                                         : mr_ps_dataset_leave(ps, PS_FIXTURE_PATIENCE_US);
}

static mr_status train(mr_ps *ps, mr_ps_table *table, const part *part) {
    page *page = part->page;
    for (bool done = false; !done;) {
        mr_status status = play(ps, table, part, &done);
        if (status != MR_OK && status != MR_STALE) return status;
        __atomic_fetch_add(&page->missed[part->rank], status == MR_STALE, __ATOMIC_RELEASE);
        if (__atomic_load_n(&page->leaves[part->rank], __ATOMIC_ACQUIRE) != 0 && status == MR_OK && !done)
            return leave(ps);
    }
    return MR_OK;
}

static int work(void *argument) {
    const part *part = argument;
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 1);
    mr_ps *ps;
    mr_ps_table *table = NULL;
    TEST_CHILD_CHECK(mr_ps_connect(part->address, (int)part->rank, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    mr_status status = mr_ps_table_create(ps, "items", &options, PS_FIXTURE_PATIENCE_US, &table);
    if (status == MR_OK) status = mr_ps_dataset_define(ps, sizes, PARTS, PS_FIXTURE_PATIENCE_US);
    if (status == MR_OK) status = train(ps, table, part);
    if (status != MR_OK) fprintf(stderr, "rank %u: %s\n", part->rank, mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    return 0;
}

static int count(void *argument) {
    const part *part = argument;
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 1);
    uint64_t keys[KEYS], step;
    float values[KEYS];
    mr_ps *ps;
    mr_ps_table *table;
    bool good = true;
    all_keys(keys);
    TEST_CHILD_CHECK(mr_ps_connect(part->address, 0, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_table_create(ps, "items", &options, PS_FIXTURE_PATIENCE_US, &table) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_pull(table, keys, KEYS, values, NULL, NULL, NULL) == MR_OK);
    for (size_t i = 0; i < KEYS; i++) {
        if (values[i] != 1) fprintf(stderr, "item %d was used %g times\n", (int)i, values[i]);
        good = good && values[i] == 1;
    }
    TEST_CHILD_CHECK(good);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    return 0;
}

/* ---- The fixture. */

typedef struct scene {
    ps_fixture fixture;
    page *page;
    pid_t worker[RANKS];
} scene;

static part part_of(const scene *scene, uint32_t rank) {
    part part = {.page = scene->page, .rank = rank};
    memcpy(part.address, scene->fixture.address, sizeof part.address);
    return part;
}

static void start_worker(scene *scene, uint32_t rank) {
    part part = part_of(scene, rank);
    scene->worker[rank] = fork_server_start(&scene->fixture.fork_server, work, &part, sizeof part);
    assert_true(scene->worker[rank] > 0);
}

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

static void go_on(scene *scene, uint32_t rank, uint64_t steps) {
    await(&scene->page->steps[rank], read_of(&scene->page->steps[rank]) + steps);
}

static void end_worker(scene *scene, uint32_t rank) {
    assert_int_equal(test_child_wait(scene->worker[rank], PATIENCE_MS), 0);
    scene->worker[rank] = 0;
}

static void finish(scene *scene) {
    uint64_t last = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        if (read_of(&scene->page->at[i]) > last) last = read_of(&scene->page->at[i]);
    __atomic_store_n(&scene->page->last, last + MORE, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < RANKS; i++)
        if (scene->worker[i] != 0) end_worker(scene, i);
    for (uint32_t i = 0; i < RANKS; i++) assert_int_equal(scene->page->others[i], 0);
    part part = part_of(scene, 0);
    assert_int_equal(test_child_run(count, &part, PATIENCE_MS), 0);
    munmap(scene->page, sizeof *scene->page);
    scene->fixture.workers = 0;
    assert_true(ps_fixture_fini(&scene->fixture));
}

/* One worker joins late, one is killed and replaced, the scheduler is killed, one worker leaves before the end. */
static void come_and_go(ps_fixture fixture) {
    scene scene;
    begin(&scene, fixture);
    start_worker(&scene, 0);
    start_worker(&scene, 1);
    if (fixture.consistency == MR_PS_BSP) start_worker(&scene, 2); /* a BSP round waits for the rank */
    go_on(&scene, 0, 4);
    if (fixture.consistency != MR_PS_BSP) start_worker(&scene, 2);
    go_on(&scene, 2, 4);
    char text[8192];
    assert_true(ps_fixture_status(&scene.fixture, "", text, sizeof text));
    assert_non_null(strstr(text, "of 355 items and "));
    assert_non_null(strstr(text, "RANK  SHARDS  ITEMS LEFT\n"));
    assert_true(ps_fixture_status(&scene.fixture, "--json", text, sizeof text));
    assert_non_null(strstr(text, "\"items\":355,"));
    ps_fixture_kill(&scene.fixture, &scene.worker[1]);
    start_worker(&scene, 1);
    go_on(&scene, 1, 3);
    ps_fixture_kill(&scene.fixture, &scene.fixture.scheduler);
    assert_true(ps_fixture_start_scheduler(&scene.fixture));
    go_on(&scene, 1, 3);
    scene.page->leaves[2] = 1;
    end_worker(&scene, 2);
    finish(&scene);
}

static void workers_of_asp_come_and_go(void **state) { come_and_go((ps_fixture){.consistency = MR_PS_ASP}); }
static void workers_of_bsp_come_and_go(void **state) { come_and_go((ps_fixture){.consistency = MR_PS_BSP}); }

/* Other ranks do the batch of a step whose round closed without its rank. */
static void missed_batches_are_done_by_others(void **state) {
    scene scene;
    int status;
    begin(&scene, (ps_fixture){.consistency = MR_PS_BSP, .backup = 1});
    for (uint32_t i = 0; i < RANKS; i++) start_worker(&scene, i);
    for (int i = 0; i < 2; i++) {
        go_on(&scene, 2, 3);
        uint64_t missed = read_of(&scene.page->missed[2]);
        __atomic_store_n(&scene.page->stops[2], 1, __ATOMIC_RELEASE);
        assert_int_equal(waitpid(scene.worker[2], &status, WUNTRACED), scene.worker[2]);
        assert_true(WIFSTOPPED(status));
        go_on(&scene, 0, 5);
        assert_int_equal(kill(scene.worker[2], SIGCONT), 0);
        await(&scene.page->missed[2], missed + 1);
    }
    finish(&scene);
}

/* Kills all servers, and with them every replica of every table. */
static void lose_all(scene *scene) {
    uint64_t generation = ps_fixture_generation(&scene->fixture);
    for (uint32_t i = 0; i < scene->fixture.servers; i++) ps_fixture_kill(&scene->fixture, &scene->fixture.server[i]);
    for (uint32_t i = 0; i < scene->fixture.servers; i++) ps_fixture_start_server(&scene->fixture, i);
    assert_true(ps_fixture_full(&scene->fixture, generation, NULL));
}

/* The run is long enough that claims which are needed after the restore would be dropped if dropping did not wait for
 * checkpoints. */
static void go_back(ps_fixture fixture) {
    scene scene;
    fixture.checkpoint_us = 2000000;
    begin(&scene, fixture);
    for (uint32_t i = 0; i < RANKS; i++) start_worker(&scene, i);
    for (uint64_t times = 0, last = 0; times < 2; times++) {
        int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
        while (ps_fixture_checkpoint(&scene.fixture) <= last) assert_true(clock_now_us(clock_real()) < until_us);
        last = ps_fixture_checkpoint(&scene.fixture);
        usleep(AWAY_US);
        go_on(&scene, 0, 3);
        lose_all(&scene);
    }
    finish(&scene);
}

static void steps_that_are_played_again_have_their_pieces(void **state) {
    go_back((ps_fixture){.consistency = MR_PS_ASP});
}

static void rounds_that_are_played_again_have_their_pieces(void **state) {
    go_back((ps_fixture){.consistency = MR_PS_BSP});
}

static void from_nothing_the_data_begins_again(void **state) {
    scene scene;
    begin(&scene, (ps_fixture){.consistency = MR_PS_ASP});
    scene.page->anew = 1;
    for (uint32_t i = 0; i < RANKS; i++) start_worker(&scene, i);
    go_on(&scene, 0, 8);
    lose_all(&scene);
    finish(&scene);
}

/* ---- Invalid requests. */

static int misuse(void *argument) {
    const part *part = argument;
    uint64_t step, many[2049], other[PARTS];
    mr_ps_data_batch piece = {0};
    mr_ps *ps;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) many[i] = 1;
    memcpy(other, sizes, sizeof other);
    other[3]++;
    TEST_CHILD_CHECK(mr_ps_connect(part->address, 0, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_dataset_next(ps, 1, PS_FIXTURE_PATIENCE_US, &piece) == MR_DENIED);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, sizes, 0, PS_FIXTURE_PATIENCE_US) == MR_INVALID);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, NULL, 2, PS_FIXTURE_PATIENCE_US) == MR_INVALID);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, (uint64_t[]){1, 0}, 2, PS_FIXTURE_PATIENCE_US) == MR_INVALID);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, many, 2049, PS_FIXTURE_PATIENCE_US) == MR_TOO_LARGE);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, (uint64_t[]){1, UINT64_MAX}, 2, PS_FIXTURE_PATIENCE_US) == MR_TOO_LARGE);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, sizes, PARTS, MR_FOREVER) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, sizes, PARTS, PS_FIXTURE_PATIENCE_US) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, sizes, PARTS - 1, PS_FIXTURE_PATIENCE_US) == MR_EXISTS);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "with 5 shards, not 4") != NULL);
    TEST_CHILD_CHECK(mr_ps_dataset_define(ps, other, PARTS, PS_FIXTURE_PATIENCE_US) == MR_EXISTS);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "shard 3 has 150 items, not 151") != NULL);
    TEST_CHILD_CHECK(mr_ps_dataset_next(ps, 1, PS_FIXTURE_PATIENCE_US, &piece) == MR_STALE); /* no step is open */
    TEST_CHILD_CHECK(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_dataset_next(ps, 0, PS_FIXTURE_PATIENCE_US, &piece) == MR_INVALID);
    TEST_CHILD_CHECK(mr_ps_dataset_next(ps, (UINT64_C(1) << 32) + 1, PS_FIXTURE_PATIENCE_US, &piece) == MR_INVALID);
    TEST_CHILD_CHECK(mr_ps_dataset_leave(ps, PS_FIXTURE_PATIENCE_US) == MR_DENIED);
    TEST_CHILD_CHECK(mr_ps_dataset_next(ps, 1000, PS_FIXTURE_PATIENCE_US, &piece) == MR_OK);
    TEST_CHILD_CHECK(piece.from == 0 && piece.to == sizes[piece.shard]); /* at most the size of a shard */
    mr_ps_close(ps);
    return 0;
}

static void invalid_options_are_reported(void **state) {
    scene scene;
    begin(&scene, (ps_fixture){.consistency = MR_PS_ASP});
    part part = part_of(&scene, 0);
    assert_int_equal(test_child_run(misuse, &part, PATIENCE_MS), 0);
    munmap(scene.page, sizeof *scene.page);
    scene.fixture.workers = 0;
    assert_true(ps_fixture_fini(&scene.fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_options_are_reported),
        cmocka_unit_test(workers_of_asp_come_and_go),
        cmocka_unit_test(workers_of_bsp_come_and_go),
        cmocka_unit_test(missed_batches_are_done_by_others),
        cmocka_unit_test(steps_that_are_played_again_have_their_pieces),
        cmocka_unit_test(rounds_that_are_played_again_have_their_pieces),
        cmocka_unit_test(from_nothing_the_data_begins_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
