/* ps_misuse_test.c — misuse of a worker's connection: invalid requests return errors, nothing hangs, threads share
 * it. */
#include <pthread.h>
#include <setjmp.h>
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

enum { THREADS = 4, PUSHES = 200, SHORT_US = 300000 };

static ps_fixture begin_with(ps_fixture fixture) {
    fixture.servers = fixture.copies = 1;
    fixture.slots = 3;
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    fixture.workers = 0; /* this process is every worker */
    return fixture;
}

static ps_fixture begin(mr_ps_consistency consistency, uint32_t workers) {
    return begin_with((ps_fixture){.workers = workers, .consistency = consistency});
}

static mr_ps *connect_to(const ps_fixture *fixture, int rank) {
    mr_ps *ps = ps_fixture_connect(fixture, rank);
    assert_non_null(ps);
    return ps;
}

static uint64_t step_of(mr_ps *ps) {
    uint64_t step = 0;
    assert_int_equal(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step), MR_OK);
    return step;
}

static mr_ps_table *table_in(mr_ps *ps, const char *name, mr_ps_table_options options) {
    mr_ps_table *table = NULL;
    mr_status status = mr_ps_table_create(ps, name, &options, PS_FIXTURE_PATIENCE_US, &table);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    assert_int_equal(status, MR_OK);
    return table;
}

static void a_failed_connection_reports_the_cause(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 1, .copies = 1};
    mr_ps *ps = NULL;
    mr_ps_cluster_map *map = NULL;
    uint64_t checkpoint;
    assert_int_equal(mr_ps_connect("nowhere", 0, 0, &ps), MR_INVALID);
    assert_int_equal(mr_ps_connect("tcp:127.0.0.1:1", MR_PS_READER - 1, 0, &ps), MR_INVALID);
    assert_int_equal(mr_ps_connect("tcp:127.0.0.1:1", 0, 0, &ps), MR_TIMEOUT);
    assert_true(ps_fixture_init(&fixture));
    assert_int_equal(mr_ps_connect(fixture.address, 0, SHORT_US, &ps), MR_TIMEOUT);
    assert_said("no answer from the scheduler at unix:");
    assert_int_equal(mr_ps_cluster_map_get(fixture.address, SHORT_US, &map), MR_TIMEOUT);
    assert_said("no answer from the scheduler at unix:");
    assert_int_equal(mr_ps_checkpoint(fixture.address, SHORT_US, &checkpoint), MR_TIMEOUT);
    assert_said("no answer from the scheduler at unix:");
    assert_int_equal(mr_ps_checkpoint(fixture.address, 0, &checkpoint), MR_TIMEOUT);
    assert_true(ps_fixture_start_scheduler(&fixture));
    assert_int_equal(mr_ps_connect(fixture.address, 0, SHORT_US, &ps), MR_TIMEOUT);
    assert_said("waits for servers");
    assert_int_equal(mr_ps_cluster_map_get(fixture.address, PS_FIXTURE_PATIENCE_US, &map), MR_OK);
    assert_int_equal(map->number, 0);
    mr_ps_cluster_map_free(map);
    assert_int_equal(mr_ps_checkpoint(fixture.address, SHORT_US, &checkpoint), MR_TIMEOUT);
    assert_said("0 of 1 servers are connected");
    ps_fixture_start_server(&fixture, 0);
    assert_int_equal(mr_ps_connect(fixture.address, 1, PS_FIXTURE_PATIENCE_US, &ps), MR_NOT_FOUND);
    assert_said("no rank 1");
    assert_null(ps);
    assert_true(ps_fixture_fini(&fixture));
}

static void roles_check_their_options(void **state) {
    static const mr_ps_scheduler_options good = {.size = sizeof(mr_ps_scheduler_options),
                                                 .listen = "unix:/nowhere/at/all",
                                                 .checkpoint_dir = "/proc/nothing",
                                                 .num_workers = 1,
                                                 .num_servers = 1};
    mr_ps_scheduler_options bad = good;
    bad.checkpoint_dir = NULL;
    assert_int_equal(mr_ps_run_scheduler(&bad), MR_INVALID);
    assert_said("checkpoint_dir is NULL");
    bad = good;
    bad.replicas = 2;
    assert_int_equal(mr_ps_run_scheduler(&bad), MR_INVALID);
    assert_said("2 replicas of each slot");
    bad = good;
    bad.slots = 1 << 20;
    assert_int_equal(mr_ps_run_scheduler(&bad), MR_INVALID);
    assert_said("slots");
    bad = good;
    bad.listen = "tcp:1.2.3.4:0";
    assert_int_not_equal(mr_ps_run_scheduler(&bad), MR_OK);
    assert_int_equal(mr_ps_run_server(&MR_OPTIONS(mr_ps_server_options, .scheduler = "nowhere")), MR_INVALID);
    assert_int_equal(mr_ps_run_server(&MR_OPTIONS(mr_ps_server_options, .scheduler = "unix:/x", .number = 1 << 20)),
                     MR_INVALID);
}

static void a_folder_has_one_scheduler(void **state) {
    ps_fixture fixture = begin(MR_PS_ASP, 1);
    const mr_ps_scheduler_options second =
        MR_OPTIONS(mr_ps_scheduler_options, .listen = "tcp:127.0.0.1:0", .checkpoint_dir = fixture.folder,
                   .num_workers = 1, .num_servers = 1, .slots = 3);
    assert_int_equal(mr_ps_run_scheduler(&second), MR_BUSY);
    assert_said("another scheduler is in the folder");
    mr_ps_scheduler_options same = second;
    same.listen = fixture.address;
    assert_int_equal(mr_ps_run_scheduler(&same), MR_EXISTS);
    assert_said("already listens on");
    mr_ps_close(connect_to(&fixture, MR_PS_ANY_RANK)); /* a server that has served ends normally */
    assert_true(ps_fixture_fini(&fixture));
}

static void requests_are_checked(void **state) {
    ps_fixture fixture = begin(MR_PS_BSP, 1);
    mr_ps *ps = connect_to(&fixture, MR_PS_ANY_RANK);
    mr_ps_table *table = table_in(ps, "rows", MR_OPTIONS(mr_ps_table_options, .dim = 2, .refuse_nan = 1));
    const uint64_t keys[] = {3, 5, 5, 4};
    const uint32_t wrong[] = {2, 3};
    float values[4] = {1, 2, 3, 4};
    const float nan[] = {1, 2, 3, __builtin_nanf("")};
    mr_ps_ticket ticket;
    mr_ps_info info;
    mr_ps_info_get(ps, &info);
    assert_true(info.rank == 0 && info.ranks == 1 && info.slots == 3 && info.servers == 1 && info.replicas == 1);
    assert_int_equal(mr_ps_push(table, keys, 2, values, NULL, NULL, &ticket), MR_STALE);
    assert_said("no step is open");
    assert_int_equal(mr_ps_end(ps), MR_STALE);
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(mr_ps_push(table, keys, 3, values, NULL, NULL, &ticket), MR_INVALID);
    assert_said("keys[2] is 5, equal to");
    assert_int_equal(mr_ps_pull(table, keys + 2, 2, values, NULL, NULL, &ticket), MR_INVALID);
    assert_said("keys[1] is 4, below");
    assert_int_equal(mr_ps_push(table, keys, 2, values, wrong, NULL, &ticket), MR_INVALID);
    assert_said("lengths[1] is 3");
    assert_int_equal(mr_ps_push(table, keys, 2, nan, NULL, NULL, &ticket), MR_INVALID);
    assert_said("value 3 is not finite");
    assert_int_equal(mr_ps_push(table, keys, SIZE_MAX, values, NULL, NULL, &ticket), MR_TOO_LARGE);
    assert_int_equal(mr_ps_push_array(table, 0, values, 0, 1, NULL, &ticket), MR_INVALID);
    assert_said("keys, no arrays");
    assert_int_equal(mr_ps_push(table, keys, 0, values, NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, 0), MR_OK); /* an empty request has finished at once */
    assert_int_equal(mr_ps_push(table, keys, 2, values, NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, SHORT_US), MR_TIMEOUT);
    assert_said("are sent when the step ends");
    assert_int_equal(mr_ps_flush(ps, SHORT_US), MR_TIMEOUT);
    assert_said("the step is still open");
    assert_int_equal(mr_ps_end(ps), MR_OK);
    assert_int_equal(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, 0), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, 0), MR_NOT_FOUND);
    assert_said("no request");
    assert_int_equal(step_of(ps), 1);
    float shown[6] = {9, 9, 9, 9, 9, 9};
    assert_int_equal(mr_ps_pull(table, (const uint64_t[]){3, 4, 5}, 3, shown, NULL, NULL, NULL), MR_OK);
    assert_memory_equal(shown, ((const float[]){1, 2, 0, 0, 3, 4}), sizeof shown);
    mr_ps_close(ps);
    assert_int_equal(mr_ps_pull(table, keys, 1, shown, NULL, NULL, NULL), MR_CLOSED);
    mr_ps_table_free(table);
    mr_ps_close(NULL);
    mr_ps_table_free(NULL);
    assert_true(ps_fixture_fini(&fixture));
}

static void tables_are_checked(void **state) {
    ps_fixture fixture = begin(MR_PS_ASP, 1);
    mr_ps *ps = connect_to(&fixture, 0);
    mr_ps_table *table = table_in(ps, "rows", MR_OPTIONS(mr_ps_table_options, .dim = 2)), *other = NULL;
    mr_ps_table_list *listing = NULL;
    mr_ps_table_options options = MR_INIT(mr_ps_table_options);
    const uint64_t key = 1;
    float values[2] = {1, 2};
    assert_int_equal(
        mr_ps_table_create(ps, "rows", &MR_OPTIONS(mr_ps_table_options, .dim = 3), PS_FIXTURE_PATIENCE_US, &other),
        MR_EXISTS);
    assert_said("exists with dim ");
    assert_int_equal(mr_ps_table_create(ps, "rows", &MR_OPTIONS(mr_ps_table_options, .dim = 2, .dtype = MR_F16),
                                        PS_FIXTURE_PATIENCE_US, &other),
                     MR_EXISTS);
    assert_said("with another dtype");
    assert_int_equal(mr_ps_table_create(ps, "x", &MR_OPTIONS(mr_ps_table_options, .optimizer = "magic"),
                                        PS_FIXTURE_PATIENCE_US, &other),
                     MR_INVALID);
    assert_int_equal(
        mr_ps_table_create(ps, "x", &MR_OPTIONS(mr_ps_table_options, .clip_norm = -1), PS_FIXTURE_PATIENCE_US, &other),
        MR_INVALID);
    assert_said("clip_norm is -1");
    assert_int_equal(
        mr_ps_table_create(ps, "x", &MR_OPTIONS(mr_ps_table_options, .clip_norm = 1), PS_FIXTURE_PATIENCE_US, &other),
        MR_INVALID);
    assert_said("only bsp tables can clip");
    const mr_ps_array array = {.name = "a", .dims = 1, .shape = {8}};
    assert_int_equal(mr_ps_table_create(ps, "x",
                                        &MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                                    .array_count = 1, .optimizer = "lamb"),
                                        PS_FIXTURE_PATIENCE_US, &other),
                     MR_INVALID);
    assert_said("optimizer 'lamb' of a dense table needs bsp");
    assert_int_equal(mr_ps_table_open(ps, "nothing", PS_FIXTURE_PATIENCE_US, &other), MR_NOT_FOUND);
    assert_said("table 'nothing' does not exist");
    assert_int_equal(mr_ps_table_open(ps, "rosw", PS_FIXTURE_PATIENCE_US, &other), MR_NOT_FOUND);
    assert_said("table 'rosw' does not exist; did you mean rows?");
    assert_int_equal(mr_ps_table_open(ps, "rows", MR_FOREVER, &other), MR_OK);
    mr_ps_table_options_get(other, &options);
    assert_true(options.dim == 2 && options.dtype == MR_F32);
    assert_string_equal(options.optimizer, "add");
    assert_string_equal(mr_ps_table_name(other), "rows");
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(mr_ps_push(table, &key, 1, values, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_table_drop(table, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_table_drop(table, PS_FIXTURE_PATIENCE_US), MR_NOT_FOUND);
    assert_int_equal(mr_ps_push(other, &key, 1, values, NULL, NULL, NULL), MR_NOT_FOUND); /* dropped for all handles */
    assert_said("table 'rows' was dropped");
    assert_int_equal(mr_ps_tables(ps, PS_FIXTURE_PATIENCE_US, &listing), MR_OK);
    assert_int_equal(listing->count, 0);
    mr_ps_table_list_free(listing);
    mr_ps_table_free(other);
    other = table_in(ps, "rows", MR_OPTIONS(mr_ps_table_options, .dim = 2)); /* a new table of the same name */
    assert_int_equal(mr_ps_pull(other, &key, 1, values, NULL, NULL, NULL), MR_OK);
    assert_true(values[0] == 0 && values[1] == 0);
    mr_ps_table_free(table);
    mr_ps_table_free(other);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

/* Another worker has dropped the table. */
static void a_table_that_others_dropped_is_gone(void **state) {
    ps_fixture fixture = begin(MR_PS_ASP, 2);
    mr_ps *one = connect_to(&fixture, 0), *other = connect_to(&fixture, 1);
    mr_ps_table *mine = table_in(one, "rows", (mr_ps_table_options)MR_INIT(mr_ps_table_options)), *theirs;
    const uint64_t key = 1;
    float value = 1;
    assert_int_equal(mr_ps_table_open(other, "rows", PS_FIXTURE_PATIENCE_US, &theirs), MR_OK);
    assert_int_equal(step_of(one), 0);
    assert_int_equal(step_of(other), 0);
    assert_int_equal(mr_ps_push(theirs, &key, 1, &value, NULL, NULL, NULL), MR_OK);
    assert_int_equal(mr_ps_table_drop(mine, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_end(one), MR_OK);
    assert_int_equal(mr_ps_flush(one, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(mr_ps_pull(theirs, &key, 1, &value, NULL, NULL, NULL), MR_NOT_FOUND);
    assert_said("was dropped");
    assert_int_equal(mr_ps_push(theirs, &key, 1, &value, NULL, NULL, NULL), MR_OK); /* no effect */
    mr_ps_table_free(mine);
    mr_ps_table_free(theirs);
    mr_ps_close(one);
    mr_ps_close(other);
    assert_true(ps_fixture_fini(&fixture));
}

static void arrays_are_checked(void **state) {
    ps_fixture fixture = begin(MR_PS_ASP, 1);
    mr_ps *ps = connect_to(&fixture, 0);
    const mr_ps_array array = {.name = "w", .dims = 2, .shape = {2, 3}};
    mr_ps_table *table =
        table_in(ps, "dense", MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1));
    const mr_ps_array others[] = {{.name = "v", .dims = 2, .shape = {2, 3}}, {.name = "w", .dims = 2, .shape = {3, 2}}};
    static const char *const told[] = {"with array 'w' in place of 'v'", "with arrays of other shapes",
                                       "exists with 1 array, not 2"};
    for (uint32_t i = 0; i < 3; i++) {
        mr_ps_table *other;
        mr_ps_table_options options =
            MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &others[i % 2], .array_count = 1 + i / 2);
        assert_int_equal(mr_ps_table_create(ps, "dense", &options, PS_FIXTURE_PATIENCE_US, &other), MR_EXISTS);
        assert_said(told[i]);
    }
    const uint64_t key = 0;
    float values[6] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(mr_ps_push_array(table, 1, values, 0, 1, NULL, NULL), MR_INVALID);
    assert_said("has no array 1");
    assert_int_equal(mr_ps_push_array(table, 0, values, 0, 7, NULL, NULL), MR_INVALID);
    assert_said("array 'w' has 6");
    assert_int_equal(mr_ps_pull_array(table, 0, values, 7, 0, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull_array(table, 0, values, 1, SIZE_MAX, NULL, NULL), MR_INVALID);
    assert_int_equal(mr_ps_push(table, &key, 1, values, NULL, NULL, NULL), MR_INVALID);
    assert_said("arrays, no keys");
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

typedef struct told {
    mr_ps_table *table;
    uint64_t key;
    float value, shown;
    mr_status status, waited, next; /* `next` is MR_BUSY until the callback runs */
} told;

static void note_next(void *context, mr_status status) {
    __atomic_store_n(&((told *)context)->next, status, __ATOMIC_RELEASE);
}

/* The callback makes the next request without waiting for it. */
static void note(void *context, mr_status status) {
    told *told = context;
    told->status = status;
    told->waited = mr_ps_pull(told->table, &told->key, 1, &told->shown, NULL, NULL, NULL);
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .done = note_next, .context = told);
    if (mr_ps_pull(told->table, &told->key, 1, &told->shown, NULL, &options, NULL) != MR_OK) note_next(told, MR_DENIED);
}

static void callbacks_are_called(void **state) {
    ps_fixture fixture = begin(MR_PS_ASP, 1);
    mr_ps *ps = connect_to(&fixture, 0);
    mr_ps_table *table = table_in(ps, "rows", (mr_ps_table_options)MR_INIT(mr_ps_table_options));
    told told = {.table = table, .key = 4, .value = 5, .status = MR_BUSY, .next = MR_BUSY};
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .done = note, .context = &told);
    mr_ps_ticket ticket;
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(mr_ps_push(table, &told.key, 1, &told.value, NULL, &options, &ticket), MR_OK);
    while (__atomic_load_n(&told.next, __ATOMIC_ACQUIRE) == MR_BUSY)
        assert_int_equal(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US), MR_OK);
    assert_int_equal(told.status, MR_OK);
    assert_int_equal(told.waited, MR_DENIED);
    assert_int_equal(told.next, MR_OK);
    assert_true(told.shown == 5);
    assert_int_equal(mr_ps_wait(ps, ticket, PS_FIXTURE_PATIENCE_US), MR_OK); /* a wait is allowed, too */
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

/* One of two ranks never takes part. */
static void nothing_waits_for_ever(void **state) {
    ps_fixture fixture = begin(MR_PS_BSP, 2);
    mr_ps *ps = connect_to(&fixture, 0);
    mr_ps_table *table = table_in(ps, "rows", (mr_ps_table_options)MR_INIT(mr_ps_table_options));
    const uint64_t key = 0;
    const float value = 1;
    mr_ps_ticket ticket;
    uint64_t step;
    assert_int_equal(step_of(ps), 0);
    assert_int_equal(mr_ps_push(table, &key, 1, &value, NULL, NULL, &ticket), MR_OK);
    assert_int_equal(mr_ps_end(ps), MR_OK);
    assert_int_equal(mr_ps_wait(ps, ticket, SHORT_US), MR_TIMEOUT);
    assert_said("not been answered");
    assert_int_equal(mr_ps_begin(ps, SHORT_US, &step), MR_TIMEOUT);
    assert_said("step 1 cannot begin");
    assert_int_equal(mr_ps_flush(ps, SHORT_US), MR_TIMEOUT);
    assert_said("are not acknowledged");
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

static void a_rank_is_played_by_the_last_who_came(void **state) {
    ps_fixture fixture = begin(MR_PS_BSP, 1);
    mr_ps *first = connect_to(&fixture, 0), *second = connect_to(&fixture, 0);
    uint64_t step;
    assert_int_equal(step_of(second), 0);
    assert_int_equal(mr_ps_begin(first, PS_FIXTURE_PATIENCE_US, &step), MR_EXISTS);
    assert_said("another process holds rank 0");
    mr_ps_close(first);
    mr_ps_close(second);
    assert_true(ps_fixture_fini(&fixture));
}

/* Pushes that no thread waits for arrive, and another worker reads them. */
static void pushes_arrive_while_their_program_does_other_things(void **state) {
    ps_fixture fixture = begin(MR_PS_ASP, 2);
    mr_ps *one = connect_to(&fixture, 0), *other = connect_to(&fixture, 1);
    mr_ps_table *mine = table_in(one, "rows", (mr_ps_table_options)MR_INIT(mr_ps_table_options)),
                *theirs = table_in(other, "rows", (mr_ps_table_options)MR_INIT(mr_ps_table_options));
    const uint64_t key = 1;
    mr_ps_ticket ticket;
    float pushed = 3, shown = 0;
    assert_int_equal(step_of(one), 0);
    assert_int_equal(step_of(other), 0);
    assert_int_equal(mr_ps_push(mine, &key, 1, &pushed, NULL, NULL, &ticket), MR_OK);
    while (shown == 0) assert_int_equal(mr_ps_pull(theirs, &key, 1, &shown, NULL, NULL, NULL), MR_OK);
    assert_true(shown == 3);
    mr_ps_close(one); /* close() without a wait */
    mr_ps_close(other);
    mr_ps_table_free(mine);
    mr_ps_table_free(theirs);
    assert_true(ps_fixture_fini(&fixture));
}

typedef struct task {
    mr_ps *ps;
    mr_ps_table *table;
    uint64_t key;
    mr_status status;
} task;

static void *push_and_wait(void *argument) {
    task *task = argument;
    const float one = 1;
    float shown;
    for (int i = 0; i < PUSHES && task->status == MR_OK; i++) {
        mr_ps_ticket ticket;
        task->status = mr_ps_push(task->table, &task->key, 1, &one, NULL, NULL, &ticket);
        if (task->status == MR_OK) task->status = mr_ps_wait(task->ps, ticket, PS_FIXTURE_PATIENCE_US);
        if (task->status == MR_OK) task->status = mr_ps_pull(task->table, &task->key, 1, &shown, NULL, NULL, NULL);
    }
    return NULL;
}

static void threads_share_a_connection(void **state) {
    ps_fixture fixture = begin(MR_PS_ASP, 1);
    mr_ps *ps = connect_to(&fixture, 0);
    mr_ps_table *table = table_in(ps, "rows", (mr_ps_table_options)MR_INIT(mr_ps_table_options));
    pthread_t threads[THREADS];
    task tasks[THREADS];
    assert_int_equal(step_of(ps), 0);
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (task){ps, table, (uint64_t)i % 2, MR_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, push_and_wait, &tasks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) assert_int_equal(tasks[i].status, MR_OK);
    float sums[2] = {0};
    assert_int_equal(mr_ps_pull(table, (const uint64_t[]){0, 1}, 2, sums, NULL, NULL, NULL), MR_OK);
    assert_true(sums[0] == THREADS / 2 * PUSHES && sums[1] == THREADS / 2 * PUSHES);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

/* The test pushes more than the server may hold: the server stays alive, and returns an error. */
static void a_server_without_memory_refuses(void **state) {
    enum { DIM = 1024, ROWS = 1024, LISTS = 64 }; /* 4 MB each, of the server's 64 MB */
    ps_fixture fixture = begin_with((ps_fixture){.workers = 1, .consistency = MR_PS_ASP, .memory = 1});
    mr_ps *ps = connect_to(&fixture, 0);
    mr_ps_table *table = table_in(ps, "much", MR_OPTIONS(mr_ps_table_options, .dim = DIM));
    float *values = xcalloc(ROWS * DIM, sizeof *values);
    uint64_t keys[ROWS];
    mr_status status = MR_OK;
    (void)step_of(ps);
    for (uint64_t list = 0; list < LISTS && status == MR_OK; list++) {
        mr_ps_ticket ticket;
        for (uint64_t i = 0; i < ROWS; i++) keys[i] = list * ROWS + i;
        assert_int_equal(mr_ps_push(table, keys, ROWS, values, NULL, NULL, &ticket), MR_OK);
        for (int again = 0; again < 200; again++)
            if ((status = mr_ps_wait(ps, ticket, SHORT_US)) != MR_TIMEOUT) break;
    }
    assert_int_equal(status, MR_NOMEM);
    assert_said("is out of memory");
    mr_ps_table_free(table);
    mr_ps_close(ps);
    free(values);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_connection_reports_the_cause),
        cmocka_unit_test(roles_check_their_options),
        cmocka_unit_test(a_folder_has_one_scheduler),
        cmocka_unit_test(requests_are_checked),
        cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(a_table_that_others_dropped_is_gone),
        cmocka_unit_test(arrays_are_checked),
        cmocka_unit_test(callbacks_are_called),
        cmocka_unit_test(nothing_waits_for_ever),
        cmocka_unit_test(a_rank_is_played_by_the_last_who_came),
        cmocka_unit_test(pushes_arrive_while_their_program_does_other_things),
        cmocka_unit_test(threads_share_a_connection),
        cmocka_unit_test(a_server_without_memory_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
