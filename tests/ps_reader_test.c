/* ps_reader_test.c — readers: connections that pull, hold no rank, and for which nobody waits.
 *
 * Every step of every rank adds one to every value of all tables. So a pull of a table with rounds shows one step if
 * all its values are equal; they are the steps of all ranks in total. */
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
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { KEYS = 200, DIM = 3, LENGTH = 5, BLOCK = 5000, ITEMS = 12 * BLOCK, PATIENCE_MS = 60000, APP = 3 };
/* STOP, TURN: indices, in the memory that is shared with the ranks, of the order to end, and of the number of the
 * rank's process that may begin */
enum { STOP = 2, TURN = 3, PULLS = 60 };

typedef struct model {
    mr_ps_table *rows, *vectors, *arrays, *ordered;
} model;

static void must_fail(mr_status status, mr_status wanted) {
    if (status != wanted) fprintf(stderr, "MR_%s: %s\n", mr_status_name(status), mr_last_error());
    assert_int_equal(status, wanted);
}

static uint64_t keys[KEYS];
static float ones[ITEMS];

static void fill(void) {
    for (uint64_t i = 0; i < KEYS; i++) keys[i] = i * 7;
    for (size_t i = 0; i < ITEMS; i++) ones[i] = 1;
}

/* In a mixed deployment the ordered table has no rounds. */
static mr_status create(const ps_fixture *fixture, mr_ps *ps, model *model) {
    const mr_ps_array array = {.name = "a", .dims = 1, .shape = {ITEMS}};
    const mr_ps_table_options rows = MR_OPTIONS(mr_ps_table_options, .dim = DIM);
    const mr_ps_table_options vectors = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS);
    const mr_ps_table_options arrays =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = BLOCK);
    mr_ps_table_options ordered = MR_OPTIONS(mr_ps_table_options, .ordered = 1, .last_key = KEYS * 7);
    if (fixture->mixed) ordered.consistency = "ssp:1";
    MR_TRY(mr_ps_table_create(ps, "rows", &rows, PS_FIXTURE_PATIENCE_US, &model->rows));
    MR_TRY(mr_ps_table_create(ps, "vectors", &vectors, PS_FIXTURE_PATIENCE_US, &model->vectors));
    MR_TRY(mr_ps_table_create(ps, "arrays", &arrays, PS_FIXTURE_PATIENCE_US, &model->arrays));
    return mr_ps_table_create(ps, "ordered", &ordered, PS_FIXTURE_PATIENCE_US, &model->ordered);
}

static mr_status open_all(mr_ps *ps, model *model) {
    MR_TRY(mr_ps_table_open(ps, "rows", PS_FIXTURE_PATIENCE_US, &model->rows));
    MR_TRY(mr_ps_table_open(ps, "vectors", PS_FIXTURE_PATIENCE_US, &model->vectors));
    MR_TRY(mr_ps_table_open(ps, "arrays", PS_FIXTURE_PATIENCE_US, &model->arrays));
    return mr_ps_table_open(ps, "ordered", PS_FIXTURE_PATIENCE_US, &model->ordered);
}

static void close_all(const model *model) {
    mr_ps_table_free(model->rows);
    mr_ps_table_free(model->vectors);
    mr_ps_table_free(model->arrays);
    mr_ps_table_free(model->ordered);
}

/* ---- Ranks. */

typedef struct part {
    ps_fixture *fixture;
    uint32_t rank;
    uint64_t steps; /* 0: until STOP */
    bool leaves;
    uint64_t turn; /* its process begins at this TURN: processes are forked before this one has threads (TSan) */
} part;

static void await_turn(const part *part) {
    while (__atomic_load_n(&part->fixture->progress[TURN], __ATOMIC_ACQUIRE) < part->turn) usleep(1000);
}

static void take_turn(ps_fixture *fixture, uint64_t turn) {
    __atomic_store_n(&fixture->progress[TURN], turn, __ATOMIC_RELEASE);
}

static mr_status step(const model *model) {
    uint32_t lengths[KEYS];
    mr_ps_ticket ticket;
    for (int i = 0; i < KEYS; i++) lengths[i] = LENGTH;
    MR_TRY(mr_ps_push(model->rows, keys, KEYS, ones, NULL, NULL, &ticket));
    MR_TRY(mr_ps_push(model->vectors, keys, KEYS, ones, lengths, NULL, &ticket));
    MR_TRY(mr_ps_push_array(model->arrays, 0, ones, 0, ITEMS, NULL, &ticket));
    return mr_ps_push(model->ordered, keys, KEYS, ones, NULL, NULL, &ticket);
}

static bool goes_on(const part *part, uint64_t done) {
    if (part->steps != 0) return done < part->steps;
    return __atomic_load_n(&part->fixture->progress[STOP], __ATOMIC_ACQUIRE) == 0;
}

static mr_status train(const part *part, mr_ps *ps, const model *model) {
    uint64_t number;
    for (uint64_t done = 0;; done++) {
        MR_TRY(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &number));
        bool last = !goes_on(part, done + 1);
        mr_status status = step(model);
        if (status == MR_OK) status = mr_ps_end(ps);
        if (status == MR_OK) status = mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US);
        if (status != MR_OK) return status;
        __atomic_store_n(&part->fixture->progress[part->rank], number + 1, __ATOMIC_RELEASE);
        if (last) return MR_OK;
    }
}

static int work(void *argument) {
    const part *part = argument;
    mr_ps *ps;
    model model;
    fill();
    await_turn(part);
    TEST_CHILD_CHECK(mr_ps_connect(part->fixture->address, (int)part->rank, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(create(part->fixture, ps, &model) == MR_OK);
    mr_status status = train(part, ps, &model);
    if (status == MR_OK && part->leaves) status = mr_ps_leave(ps, PS_FIXTURE_PATIENCE_US);
    if (status != MR_OK) fprintf(stderr, "rank %u: %s\n", part->rank, mr_last_error());
    TEST_CHILD_CHECK(status == MR_OK);
    close_all(&model);
    mr_ps_close(ps);
    return 0;
}

static void start(ps_fixture *fixture, uint32_t rank, uint64_t steps, bool leaves) {
    part part = {.fixture = fixture, .rank = rank, .steps = steps, .leaves = leaves};
    fixture->worker[rank] = test_child_start(work, &part);
}

/* A process that waits for its turn. */
static pid_t prepare(ps_fixture *fixture, uint32_t rank, uint64_t steps) {
    part part = {.fixture = fixture, .rank = rank, .steps = steps, .turn = 1};
    return test_child_start(work, &part);
}

static void await_rank(ps_fixture *fixture, uint32_t rank) {
    assert_int_equal(test_child_wait(fixture->worker[rank], PATIENCE_MS), 0);
    fixture->worker[rank] = 0;
}

static uint64_t done_by(const ps_fixture *fixture, uint32_t rank) {
    return __atomic_load_n(&fixture->progress[rank], __ATOMIC_ACQUIRE);
}

/* Steps of all ranks in total that are acknowledged. */
static uint64_t steps_done(const ps_fixture *fixture) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < fixture->workers; i++) sum += done_by(fixture, i);
    return sum;
}

static void await_step(const ps_fixture *fixture, uint64_t step) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    while (steps_done(fixture) < step) {
        assert_true(clock_now_us(clock_real()) < until_us);
        usleep(1000);
    }
}

/* ---- A reader. */

typedef struct reader {
    const ps_fixture *fixture;
    mr_ps *ps;
    model model;
    mr_ps_version *version; /* of `seen` */
    float *seen;
} reader;

static reader join(const ps_fixture *fixture) {
    reader reader = {.fixture = fixture, .ps = ps_fixture_connect(fixture, MR_PS_READER)};
    assert_non_null(reader.ps);
    must(open_all(reader.ps, &reader.model));
    must(mr_ps_version_create(reader.model.arrays, &reader.version));
    reader.seen = calloc(ITEMS, sizeof *reader.seen);
    assert_non_null(reader.seen);
    return reader;
}

static void part_from(reader *reader) {
    mr_ps_version_free(reader->version);
    free(reader->seen);
    close_all(&reader->model);
    mr_ps_close(reader->ps);
}

/* All values are equal; returns their value. */
static uint64_t steps_in(const float *values, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (values[i] != values[0]) fprintf(stderr, "value %zu is %g, value 0 is %g\n", i, values[i], values[0]);
        assert_true(values[i] == values[0]);
    }
    return (uint64_t)values[0];
}

static uint64_t pull_rows(const reader *reader) {
    float values[KEYS * DIM];
    must(mr_ps_pull(reader->model.rows, keys, KEYS, values, NULL, NULL, NULL));
    return steps_in(values, KEYS * DIM);
}

static uint64_t pull_vectors(const reader *reader) {
    mr_ps_vectors *vectors;
    must(mr_ps_pull_vectors(reader->model.vectors, keys, KEYS, &vectors, NULL, NULL));
    uint64_t steps = vectors->value_count == 0 ? 0 : steps_in(vectors->values, vectors->value_count);
    assert_true(vectors->value_count == 0 || vectors->value_count == (size_t)KEYS * LENGTH);
    mr_ps_vectors_free(vectors);
    return steps;
}

static uint64_t pull_array(const reader *reader) {
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .version = reader->version);
    must(mr_ps_pull_array(reader->model.arrays, 0, reader->seen, 0, ITEMS, &options, NULL));
    return steps_in(reader->seen, ITEMS);
}

static uint64_t pull_range(const reader *reader) {
    uint64_t found[KEYS + 1];
    float values[KEYS + 1];
    size_t count;
    must(mr_ps_pull_range(reader->model.ordered, 0, KEYS * 7, found, values, KEYS + 1, &count, NULL, NULL));
    assert_true(count == 0 || count == KEYS);
    return count == 0 ? 0 : steps_in(values, count);
}

typedef uint64_t pull_fn(const reader *reader);
static pull_fn *const pulls[] = {pull_rows, pull_vectors, pull_array, pull_range};
enum { KINDS = sizeof pulls / sizeof *pulls };

/* Each pull shows one step, and none that is older than the steps that were acknowledged before it. */
static void look(const reader *reader) {
    for (int i = 0; i < KINDS; i++) {
        uint64_t least = steps_done(reader->fixture), steps = pulls[i](reader);
        if (steps < least) fprintf(stderr, "pull %d shows step %d of %d\n", i, (int)steps, (int)least);
        assert_true(steps >= least);
    }
}

static void look_for(const reader *reader, uint64_t steps) {
    for (int i = 0; i < KINDS; i++) assert_int_equal(pulls[i](reader), steps);
}

static void begin(ps_fixture *fixture) {
    fill();
    assert_true(ps_fixture_init(fixture));
    assert_true(ps_fixture_start_scheduler(fixture));
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
    assert_true(ps_fixture_full(fixture, 0, NULL));
}

static void stop(ps_fixture *fixture) { __atomic_store_n(&fixture->progress[STOP], 1, __ATOMIC_RELEASE); }

/* ---- Tests. */

static void a_reader_sees_whole_steps(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = 5, .copies = 2, .readers = 1, .consistency = MR_PS_BSP};
    begin(&fixture);
    start(&fixture, 0, 0, false);
    await_step(&fixture, 1);
    reader reader = join(&fixture);
    mr_ps_info info;
    mr_ps_info_get(reader.ps, &info);
    assert_true(info.rank == UINT32_MAX && info.ranks == 1);
    for (int i = 0; i < PULLS; i++) look(&reader);
    stop(&fixture);
    await_rank(&fixture, 0);
    look_for(&reader, steps_done(&fixture)); /* nobody trains, and no process of a rank is there */
    part_from(&reader);
    assert_true(ps_fixture_fini(&fixture));
}

static void a_reader_sees_the_steps_of_the_last_rank(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 2, .slots = 5, .copies = 1, .readers = 2, .consistency = MR_PS_BSP};
    begin(&fixture);
    start(&fixture, 0, 0, false);
    start(&fixture, 1, 20, true);
    await_step(&fixture, 1);
    reader reader = join(&fixture), other = join(&fixture);
    while (done_by(&fixture, 1) < 20) look(&reader);
    await_rank(&fixture, 1);
    for (int i = 0; i < PULLS; i++) look(&reader);
    stop(&fixture);
    await_rank(&fixture, 0);
    look_for(&reader, steps_done(&fixture));
    look_for(&other, steps_done(&fixture));
    part_from(&reader);
    part_from(&other);
    assert_true(ps_fixture_fini(&fixture));
}

static void a_reader_outlives_a_server(void **state) {
    ps_fixture fixture = {.servers = 3, .workers = 1, .slots = 5, .copies = 2, .readers = 1, .consistency = MR_PS_BSP};
    begin(&fixture);
    start(&fixture, 0, 0, false);
    await_step(&fixture, 1);
    reader reader = join(&fixture);
    look(&reader);
    mr_ps_replica dead = ps_fixture_process(&fixture, 1);
    ps_fixture_kill(&fixture, &fixture.server[1]);
    for (int i = 0; i < PULLS; i++) look(&reader);
    assert_true(ps_fixture_full(&fixture, 0, &dead));
    for (int i = 0; i < PULLS; i++) look(&reader);
    stop(&fixture);
    await_rank(&fixture, 0);
    look_for(&reader, steps_done(&fixture));
    part_from(&reader);
    assert_true(ps_fixture_fini(&fixture));
}

/* A rank that pushed to some slots and died leaves slots in different rounds, until its step is repeated. */
static int die_in_a_step(void *argument) {
    const part *part = argument;
    mr_ps *ps;
    model model;
    uint64_t number;
    fill();
    await_turn(part);
    TEST_CHILD_CHECK(mr_ps_connect(part->fixture->address, (int)part->rank, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(create(part->fixture, ps, &model) == MR_OK);
    TEST_CHILD_CHECK(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &number) == MR_OK);
    TEST_CHILD_CHECK(step(&model) == MR_OK && mr_ps_end(ps) == MR_OK);
    usleep(part->steps == 0 ? 0 : 300);
    kill(getpid(), SIGKILL);
    return 0;
}

static void a_reader_waits_for_no_rank(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = 5, .copies = 1, .readers = 1, .consistency = MR_PS_BSP};
    begin(&fixture);
    start(&fixture, 0, 3, false);
    await_rank(&fixture, 0);
    enum { DEATHS = 6 };
    part parts[DEATHS];
    pid_t children[DEATHS];
    for (uint64_t i = 0; i < DEATHS; i++) {
        parts[i] = (part){.fixture = &fixture, .steps = i % 2, .turn = i + 1};
        children[i] = test_child_start(die_in_a_step, &parts[i]);
    }
    reader reader = join(&fixture);
    for (uint64_t i = 0; i < DEATHS; i++) {
        take_turn(&fixture, i + 1);
        assert_int_equal(test_child_wait(children[i], PATIENCE_MS), -SIGKILL);
        fixture.killed++;
        for (int k = 0; k < KINDS; k++) assert_true(pulls[k](&reader) >= 3);
    }
    part_from(&reader);
    assert_true(ps_fixture_fini(&fixture));
}

/* With a bound the ranks do not wait for the reader, which does nothing at first. */
static void nobody_waits_for_a_reader(mr_ps_consistency consistency, bool mixed) {
    ps_fixture fixture = {
        .servers = 2, .workers = 2, .slots = 4, .copies = 1, .readers = 1, .consistency = consistency, .mixed = mixed};
    begin(&fixture);
    for (uint32_t i = 0; i < 2; i++) fixture.worker[i] = prepare(&fixture, i, 50);
    mr_ps *idle = ps_fixture_connect(&fixture, MR_PS_READER);
    assert_non_null(idle);
    take_turn(&fixture, 1);
    await_rank(&fixture, 0);
    await_rank(&fixture, 1);
    mr_ps_close(idle);
    reader reader = join(&fixture);
    look_for(&reader, 2 * 50);
    part_from(&reader);
    assert_true(ps_fixture_fini(&fixture));
}

static void nobody_waits_for_a_reader_in_bsp(void **state) { nobody_waits_for_a_reader(MR_PS_BSP, false); }
static void nobody_waits_for_a_reader_in_ssp(void **state) { nobody_waits_for_a_reader(MR_PS_SSP, false); }
static void nobody_waits_for_a_reader_in_asp(void **state) { nobody_waits_for_a_reader(MR_PS_ASP, false); }
static void nobody_waits_for_a_reader_beside_tables_without_steps(void **state) {
    nobody_waits_for_a_reader(MR_PS_BSP, true);
}

static int be_reader(void *argument) {
    const ps_fixture *fixture = argument;
    mr_ps *ps;
    TEST_CHILD_CHECK(mr_ps_connect(fixture->address, MR_PS_READER, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    kill(getpid(), SIGSTOP); /* the test sees that this reader is connected */
    return 0;
}

static void the_place_of_a_dead_reader_is_free(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .readers = 1, .consistency = MR_PS_ASP};
    mr_ps *ps = NULL;
    begin(&fixture);
    pid_t first = test_child_start(be_reader, &fixture);
    assert_true(test_child_stops(first));
    must_fail(mr_ps_connect(fixture.address, MR_PS_READER, 300000, &ps), MR_TIMEOUT);
    assert_non_null(strstr(mr_last_error(), "1 reader is connected"));
    assert_non_null(strstr(mr_last_error(), "--readers 1"));
    kill(first, SIGCONT);
    ps_fixture_kill(&fixture, &first);
    must(mr_ps_connect(fixture.address, MR_PS_READER, PS_FIXTURE_PATIENCE_US, &ps));
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

static void a_deployment_without_readers_refuses_them(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .consistency = MR_PS_ASP};
    mr_ps *ps = NULL;
    begin(&fixture);
    must_fail(mr_ps_connect(fixture.address, MR_PS_READER, PS_FIXTURE_PATIENCE_US, &ps), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), "--readers N"));
    must_fail(mr_ps_connect(fixture.address, MR_PS_READER - 1, PS_FIXTURE_PATIENCE_US, &ps), MR_INVALID);
    assert_true(ps_fixture_fini(&fixture));
    const mr_ps_scheduler_options options =
        MR_OPTIONS(mr_ps_scheduler_options, .listen = "unix:/nowhere/at/all", .checkpoint_dir = "/proc/nothing",
                   .num_workers = 1, .num_servers = 1, .readers = 5000);
    must_fail(mr_ps_run_scheduler(&options), MR_INVALID);
    assert_said("5000 readers: expected 0 to 1024");
}

static void a_reader_only_pulls(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .readers = 1, .consistency = MR_PS_BSP};
    begin(&fixture);
    start(&fixture, 0, 1, false);
    await_rank(&fixture, 0);
    reader reader = join(&fixture);
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 1);
    const uint64_t sizes[] = {10};
    float values[DIM];
    uint64_t number;
    mr_ps_table *table;
    mr_ps_data_batch batch;
    mr_ps_table_list *tables;
    must_fail(mr_ps_begin(reader.ps, MR_FOREVER, &number), MR_DENIED);
    assert_non_null(strstr(mr_last_error(), "cannot begin a step: this connection is a reader"));
    must_fail(mr_ps_end(reader.ps), MR_DENIED);
    must_fail(mr_ps_skip(reader.ps), MR_DENIED);
    must_fail(mr_ps_leave(reader.ps, MR_FOREVER), MR_DENIED);
    must_fail(mr_ps_barrier(reader.ps, "b", MR_PS_WORKERS, MR_FOREVER), MR_DENIED);
    must_fail(mr_ps_dataset_define(reader.ps, sizes, 1, MR_FOREVER), MR_DENIED);
    must_fail(mr_ps_dataset_next(reader.ps, 1, MR_FOREVER, &batch), MR_DENIED);
    must_fail(mr_ps_dataset_leave(reader.ps, MR_FOREVER), MR_DENIED);
    must_fail(mr_ps_set_state_dir(reader.ps, fixture.folder), MR_DENIED);
    must_fail(mr_ps_table_create(reader.ps, "new", &options, MR_FOREVER, &table), MR_DENIED);
    must_fail(mr_ps_table_drop(reader.model.rows, MR_FOREVER), MR_DENIED);
    must_fail(mr_ps_push(reader.model.rows, keys, 1, ones, NULL, NULL, NULL), MR_DENIED);
    must_fail(mr_ps_push_pull(reader.model.rows, keys, 1, ones, values, NULL, NULL, NULL), MR_DENIED);
    must_fail(mr_ps_push_range(reader.model.ordered, 0, 1, ones, NULL, NULL), MR_DENIED);
    must_fail(mr_ps_push_pull_range(reader.model.ordered, 0, 1, ones, values, NULL, NULL), MR_DENIED);
    must_fail(mr_ps_push_array(reader.model.arrays, 0, ones, 0, 1, NULL, NULL), MR_DENIED);
    must_fail(mr_ps_push_pull_array(reader.model.arrays, 0, ones, values, 0, 1, NULL, NULL), MR_DENIED);
    must(mr_ps_tables(reader.ps, PS_FIXTURE_PATIENCE_US, &tables));
    assert_int_equal(tables->count, 4);
    mr_ps_table_list_free(tables);
    must(mr_ps_flush(reader.ps, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_metric_set(reader.ps, "queries", 5));
    look_for(&reader, 1);
    part_from(&reader);
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- Messages and the list of processes. */

static void answer(void *context, mr_ps_message *message) {
    mr_ps_request request;
    mr_ps_message_get(message, &request);
    if (request.from.role == MR_PS_READERS && request.from.number == 0) *(int *)context += 1;
    must(mr_ps_respond(message, request.head + 1, NULL, 0));
}

static void a_reader_is_listed_and_sends_messages(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .readers = 3, .consistency = MR_PS_ASP};
    int seen = 0;
    begin(&fixture);
    mr_ps *rank = ps_fixture_connect(&fixture, 0), *reader = ps_fixture_connect(&fixture, MR_PS_READER);
    assert_true(rank != NULL && reader != NULL);
    must(mr_ps_handle(rank, APP, answer, &seen));
    must(mr_ps_handle(reader, APP, answer, &seen));
    mr_ps_ticket ticket;
    mr_ps_responses *responses;
    must(mr_ps_send(reader, (mr_ps_peer){MR_PS_WORKERS, 0}, APP, 6, NULL, 0, NULL, NULL, &ticket));
    must(mr_ps_responses_wait(reader, ticket, PS_FIXTURE_PATIENCE_US, &responses));
    assert_true(responses->count == 1 && responses->list[0].status == MR_OK && responses->list[0].head == 7);
    mr_ps_responses_free(responses);
    assert_int_equal(seen, 1);
    must(mr_ps_send(rank, (mr_ps_peer){MR_PS_READERS, 0}, APP, 6, NULL, 0, NULL, NULL, &ticket));
    must(mr_ps_responses_wait(rank, ticket, PS_FIXTURE_PATIENCE_US, &responses));
    assert_true(responses->count == 1 && responses->list[0].head == 7);
    mr_ps_responses_free(responses);
    must(mr_ps_send(rank, (mr_ps_peer){MR_PS_WORKERS, MR_PS_EVERY}, APP, 6, NULL, 0, NULL, NULL, &ticket));
    must(mr_ps_responses_wait(rank, ticket, PS_FIXTURE_PATIENCE_US, &responses));
    assert_int_equal(responses->count, 1); /* a reader is no worker */
    mr_ps_responses_free(responses);
    mr_ps_processes *processes;
    must(mr_ps_processes_get(fixture.address, PS_FIXTURE_PATIENCE_US, &processes));
    uint32_t readers = 0;
    for (uint32_t i = 0; i < processes->count; i++) {
        readers += processes->processes[i].role == MR_PS_READERS;
        assert_true(processes->processes[i].role != MR_PS_READERS || processes->processes[i].number == 0);
    }
    assert_int_equal(readers, 1);
    mr_ps_processes_free(processes);
    char text[8192];
    must(mr_ps_metric_set(reader, "queries", 5));
    assert_true(ps_fixture_status(&fixture, "", text, sizeof text));
    assert_non_null(strstr(text, "READER"));
    assert_true(ps_fixture_status(&fixture, "--json", text, sizeof text));
    assert_non_null(strstr(text, "\"reader\""));
    mr_ps_cluster_map *map;
    must(mr_ps_cluster_map_get(fixture.address, PS_FIXTURE_PATIENCE_US, &map));
    assert_int_equal(map->info.ranks, 1);
    mr_ps_cluster_map_free(map);
    must(mr_ps_barrier(rank, "all", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US)); /* the reader does not come */
    mr_ps_close(reader);
    mr_ps_close(rank);
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- A loss. */

static void start_again(ps_fixture *fixture) {
    uint64_t generation = ps_fixture_generation(fixture);
    ps_fixture_kill(fixture, &fixture->server[0]);
    ps_fixture_start_server(fixture, 0);
    assert_true(ps_fixture_full(fixture, generation, NULL));
}

static mr_status pull_one(mr_ps_table *table, float *out) { return mr_ps_pull(table, keys, 1, out, NULL, NULL, NULL); }

/* The reader reports the loss once, and that is no report to the program that trained. */
static void a_loss_is_reported_to_readers_and_ranks(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .readers = 2, .consistency = MR_PS_ASP};
    float values[DIM];
    mr_ps_table *table;
    begin(&fixture);
    start(&fixture, 0, 3, false);
    await_rank(&fixture, 0);
    reader reader = join(&fixture);
    look_for(&reader, 3);
    start_again(&fixture);
    must_fail(pull_one(reader.model.rows, values), MR_STALE);
    assert_non_null(strstr(mr_last_error(), "acknowledged pushes are lost"));
    must(pull_one(reader.model.rows, values));
    assert_true(values[0] == 0);
    struct reader late = join(&fixture); /* was not connected at the time of the loss */
    must(pull_one(late.model.rows, values));
    mr_ps *rank = ps_fixture_connect(&fixture, 0);
    assert_non_null(rank);
    must(mr_ps_table_open(rank, "rows", PS_FIXTURE_PATIENCE_US, &table));
    must_fail(pull_one(table, values), MR_STALE);
    must(pull_one(table, values));
    mr_ps_table_free(table);
    mr_ps_close(rank);
    part_from(&late);
    part_from(&reader);
    assert_true(ps_fixture_fini(&fixture));
}

static void a_loss_is_reported_in_bsp(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .readers = 1, .consistency = MR_PS_BSP};
    float values[DIM];
    begin(&fixture);
    start(&fixture, 0, 3, false);
    await_rank(&fixture, 0);
    pid_t next = prepare(&fixture, 0, 2);
    reader reader = join(&fixture);
    look_for(&reader, 3);
    start_again(&fixture);
    must_fail(pull_one(reader.model.rows, values), MR_STALE);
    must(pull_one(reader.model.rows, values));
    assert_true(values[0] == 0);
    fixture.worker[0] = next;
    take_turn(&fixture, 1);
    await_rank(&fixture, 0);
    look_for(&reader, 2);
    part_from(&reader);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_sees_whole_steps),
        cmocka_unit_test(a_reader_sees_the_steps_of_the_last_rank),
        cmocka_unit_test(a_reader_outlives_a_server),
        cmocka_unit_test(a_reader_waits_for_no_rank),
        cmocka_unit_test(nobody_waits_for_a_reader_in_bsp),
        cmocka_unit_test(nobody_waits_for_a_reader_in_ssp),
        cmocka_unit_test(nobody_waits_for_a_reader_in_asp),
        cmocka_unit_test(nobody_waits_for_a_reader_beside_tables_without_steps),
        cmocka_unit_test(the_place_of_a_dead_reader_is_free),
        cmocka_unit_test(a_deployment_without_readers_refuses_them),
        cmocka_unit_test(a_reader_only_pulls),
        cmocka_unit_test(a_reader_is_listed_and_sends_messages),
        cmocka_unit_test(a_loss_is_reported_to_readers_and_ranks),
        cmocka_unit_test(a_loss_is_reported_in_bsp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
