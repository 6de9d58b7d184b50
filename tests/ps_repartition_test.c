/* ps_repartition_test.c — a stopped deployment starts again with another number of slots: with the values, optimizer
 * states and steps that it would have had with the same number. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { PHASES = 3, STEPS = 3, KEYS = 60, DIM = 3, LENGTH = 2, ITEMS = 70, KINDS = 6 };

typedef struct shown { /* what a worker sees at the end of a phase */
    uint64_t step;     /* the step with which the phase began */
    float rows[KEYS * DIM], ordered[KEYS * DIM], vectors[KEYS * LENGTH], arrays[2][ITEMS];
    int64_t counters[KEYS];
} shown;

static mr_ps_table *table_of(mr_ps *ps, const char *name, mr_ps_table_options options, bool first) {
    mr_ps_table *table = NULL;
    must(first ? mr_ps_table_create(ps, name, &options, PS_FIXTURE_PATIENCE_US, &table)
               : mr_ps_table_open(ps, name, PS_FIXTURE_PATIENCE_US, &table));
    return table;
}

static void open_tables(mr_ps *ps, bool first, const char *rounds, const char *other, mr_ps_table *tables[KINDS]) {
    const mr_ps_array arrays[] = {{.name = "w", .dims = 2, .shape = {7, 10}},
                                  {.name = "b", .dims = 1, .shape = {ITEMS}}};
    tables[0] = table_of(ps, "rows",
                         MR_OPTIONS(mr_ps_table_options, .dim = DIM, .optimizer = "adam", .initializer = "uniform:-1:1",
                                    .consistency = rounds),
                         first);
    tables[1] = table_of(ps, "ordered",
                         MR_OPTIONS(mr_ps_table_options, .dim = DIM, .ordered = 1, .last_key = 100000,
                                    .optimizer = "adagrad", .consistency = other),
                         first);
    tables[2] =
        table_of(ps, "vectors", MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS, .consistency = other), first);
    tables[3] =
        table_of(ps, "counters", MR_OPTIONS(mr_ps_table_options, .dtype = MR_I64, .consistency = rounds), first);
    tables[4] =
        table_of(ps, "model",
                 MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = arrays, .array_count = 2, .block = 9,
                            .optimizer = "adam", .initializer = "normal:0:1", .consistency = rounds),
                 first);
    tables[5] = table_of(ps, "late",
                         MR_OPTIONS(mr_ps_table_options, .dim = DIM, .admit = 2, .age_max = 1000,
                                    .optimizer = "momentum", .consistency = other),
                         first);
}

typedef struct request {
    uint64_t keys[KEYS];
    uint32_t lengths[KEYS];
    float values[KEYS * DIM];
    int64_t counts[KEYS];
} request;

static void fill(request *request, uint64_t step) {
    for (uint64_t i = 0; i < KEYS; i++) {
        request->keys[i] = i * 1583 + 1;
        request->lengths[i] = LENGTH;
        request->counts[i] = (int64_t)(step * i);
    }
    for (size_t i = 0; i < KEYS * DIM; i++) request->values[i] = (float)((i * 37 + step * 11) % 23) / 8 - 1;
}

static void push(mr_ps_table *tables[KINDS], uint64_t step) {
    request request;
    mr_ps_ticket tickets[KINDS + 1];
    fill(&request, step);
    must(mr_ps_push(tables[0], request.keys, KEYS, request.values, NULL, NULL, &tickets[0]));
    must(mr_ps_push(tables[1], request.keys, KEYS, request.values, NULL, NULL, &tickets[1]));
    must(mr_ps_push(tables[2], request.keys, KEYS, request.values, request.lengths, NULL, &tickets[2]));
    must(mr_ps_push(tables[3], request.keys, KEYS, request.counts, NULL, NULL, &tickets[3]));
    must(mr_ps_push_array(tables[4], 0, request.values, 0, ITEMS, NULL, &tickets[4]));
    must(mr_ps_push_array(tables[4], 1, request.values, 20, 40, NULL, &tickets[5]));
    /* the last keys get their second push, which makes their rows, in a later phase */
    must(mr_ps_push(tables[5], request.keys, step % 2 == 0 ? KEYS : KEYS / 2, request.values, NULL, NULL, &tickets[6]));
}

static void pull(mr_ps_table *tables[KINDS], shown *out, float late[KEYS * DIM]) {
    request request;
    fill(&request, 0);
    must(mr_ps_pull(tables[0], request.keys, KEYS, out->rows, NULL, NULL, NULL));
    must(mr_ps_pull(tables[1], request.keys, KEYS, out->ordered, NULL, NULL, NULL));
    must(mr_ps_pull(tables[2], request.keys, KEYS, out->vectors, request.lengths, NULL, NULL));
    must(mr_ps_pull(tables[3], request.keys, KEYS, out->counters, NULL, NULL, NULL));
    for (uint32_t i = 0; i < 2; i++) must(mr_ps_pull_array(tables[4], i, out->arrays[i], 0, ITEMS, NULL, NULL));
    must(mr_ps_pull(tables[5], request.keys, KEYS, late, NULL, NULL, NULL));
}

/* Compares with what the worker saw before the stop. */
static void assert_same(mr_ps_table *tables[KINDS], const shown *before, const float late_before[KEYS * DIM]) {
    static shown now;
    static float late[KEYS * DIM];
    pull(tables, &now, late);
    now.step = before->step;
    assert_memory_equal(&now, before, sizeof now);
    assert_memory_equal(late, late_before, sizeof late);
}

static void start(ps_fixture *fixture, uint32_t slots) {
    fixture->slots = slots;
    assert_true(ps_fixture_start_scheduler(fixture));
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
}

static void stop(ps_fixture *fixture) {
    assert_true(
        ps_fixture_terminate(&fixture->scheduler)); /* servers first would wait for others to take their slots */
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_kill(fixture, &fixture->server[i]);
}

typedef struct kind { /* of a deployment */
    mr_ps_consistency consistency;
    bool mixed;
    const char *rounds, *other; /* consistency of some tables and of the others */
} kind;

static ps_fixture fixture_of(const kind *kind) {
    return (ps_fixture){
        .servers = 2, .copies = 1, .workers = 1, .consistency = kind->consistency, .mixed = kind->mixed};
}

typedef struct saving { /* a checkpoint that another thread requests */
    const char *address;
    mr_status status;
    bool done;
} saving;

static void *save(void *argument) {
    saving *saving = argument;
    uint64_t number;
    saving->status = mr_ps_checkpoint(saving->address, PS_FIXTURE_PATIENCE_US, &number);
    __atomic_store_n(&saving->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Makes a checkpoint with all pushes so far, while empty steps end. */
static void save_among_steps(const ps_fixture *fixture, mr_ps *ps) {
    saving saving = {.address = fixture->address};
    pthread_t thread;
    uint64_t step;
    assert_int_equal(pthread_create(&thread, NULL, save, &saving), 0);
    while (!__atomic_load_n(&saving.done, __ATOMIC_ACQUIRE)) {
        must(mr_ps_end(ps));
        must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        usleep(10000);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    must(saving.status);
}

static void run(const kind *kind, const uint32_t slots[PHASES], shown out[PHASES], float late[PHASES][KEYS * DIM]) {
    ps_fixture fixture = fixture_of(kind);
    assert_true(ps_fixture_init(&fixture));
    for (int phase = 0; phase < PHASES; phase++) {
        mr_ps_table *tables[KINDS];
        uint64_t number;
        start(&fixture, slots[phase]);
        mr_ps *ps = ps_fixture_connect(&fixture, 0);
        assert_non_null(ps);
        must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &out[phase].step));
        open_tables(ps, phase == 0, kind->rounds, kind->other, tables);
        if (kind->mixed) { /* a process uses tables with rounds from its second step on */
            must(mr_ps_end(ps));
            must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &number));
        }
        if (phase > 0) assert_same(tables, &out[phase - 1], late[phase - 1]);
        for (uint64_t step = 0; step < STEPS; step++) {
            push(tables, (uint64_t)phase * STEPS + step);
            must(mr_ps_end(ps));
            must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
            must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &number));
        }
        pull(tables, &out[phase], late[phase]);
        if (kind->mixed) save_among_steps(&fixture, ps);
        for (int i = 0; i < KINDS; i++) mr_ps_table_free(tables[i]);
        mr_ps_close(ps);
        if (!kind->mixed) must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US, &number));
        stop(&fixture);
    }
    assert_true(ps_fixture_fini(&fixture));
}

static void other_slots_change_nothing(const kind *kind) {
    static shown plain[PHASES], changed[PHASES];
    static float late[2][PHASES][KEYS * DIM];
    memset(plain, 0, sizeof plain);
    memset(changed, 0, sizeof changed);
    run(kind, (const uint32_t[]){3, 3, 3}, plain, late[0]);
    run(kind, (const uint32_t[]){3, 8, 2}, changed, late[1]);
    for (int i = 0; i < PHASES; i++) assert_int_equal(changed[i].step, plain[i].step);
    assert_memory_equal(plain, changed, sizeof plain);
    assert_memory_equal(late[0], late[1], sizeof late[0]);
}

static void in_asp(void **state) { other_slots_change_nothing(&(kind){MR_PS_ASP, false, "asp", "asp"}); }
static void in_ssp(void **state) { other_slots_change_nothing(&(kind){MR_PS_SSP, false, "ssp:0", "ssp:0"}); }
static void in_bsp(void **state) { other_slots_change_nothing(&(kind){MR_PS_BSP, false, "bsp", "bsp"}); }

/* The number of empty steps differs from run to run, so only the values before and after each change are compared. */
static void mixed(void **state) {
    static shown shown[PHASES];
    static float late[PHASES][KEYS * DIM];
    run(&(kind){MR_PS_BSP, true, "bsp", "asp"}, (const uint32_t[]){3, 8, 2}, shown, late);
}

static void copy_file(const char *from, const char *to) {
    static uint8_t bytes[1 << 20];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, in);
    assert_true(size > 0 && size < sizeof bytes && fwrite(bytes, 1, size, out) == size);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

/* Pulls the one row of the table, with this number of slots. */
static void assert_row(const ps_fixture *fixture, uint32_t slots, float expected) {
    mr_ps_table *table = NULL;
    mr_ps_info info;
    const uint64_t key = 7;
    float value = 0;
    mr_ps *ps = ps_fixture_connect(fixture, 0);
    assert_non_null(ps);
    must(mr_ps_table_open(ps, "rows", PS_FIXTURE_PATIENCE_US, &table));
    must(mr_ps_pull(table, &key, 1, &value, NULL, NULL, NULL));
    assert_true(value == expected);
    mr_ps_info_get(ps, &info);
    assert_int_equal(info.slots, slots);
    mr_ps_table_free(table);
    mr_ps_close(ps);
}

/* Makes a deployment of 3 slots with a checkpoint of one row. */
static void begin_with_row(ps_fixture *fixture, float value) {
    const kind kind = {MR_PS_ASP, false, "asp", "asp"};
    const uint64_t key = 7;
    uint64_t number;
    *fixture = fixture_of(&kind);
    assert_true(ps_fixture_init(fixture));
    start(fixture, 3);
    mr_ps *ps = ps_fixture_connect(fixture, 0);
    assert_non_null(ps);
    mr_ps_table *table = table_of(ps, "rows", MR_OPTIONS(mr_ps_table_options, .dim = 1), true);
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &number));
    must(mr_ps_push(table, &key, 1, &value, NULL, NULL, NULL));
    must(mr_ps_end(ps));
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_checkpoint(fixture->address, PS_FIXTURE_PATIENCE_US, &number));
    mr_ps_table_free(table);
    mr_ps_close(ps);
}

/* A scheduler that ends between the new manifest and the empty cluster map leaves the decisions of 3 slots beside a
 * checkpoint of 8: the next one makes of it what it is to have. */
/* The decisions of before, and the checkpoint of after: as a crash between the two leaves them. */
static void a_crash_in_between_loses_nothing(void **state) {
    for (int again = 0; again < 2; again++) { /* the next start has as many slots as before, or the new number again */
        ps_fixture fixture;
        char keeper[TEMP_DIR_FOLDER_MAX + 16], before[TEMP_DIR_FOLDER_MAX + 16];
        begin_with_row(&fixture, 5);
        stop(&fixture);
        snprintf(keeper, sizeof keeper, "%s/keeper", fixture.folder);
        snprintf(before, sizeof before, "%s/s.before", fixture.folder);
        copy_file(keeper, before);
        fixture.slots = 8;
        assert_true(ps_fixture_start_scheduler(&fixture));
        assert_true(ps_fixture_terminate(&fixture.scheduler));
        copy_file(before, keeper);
        start(&fixture, again ? 8 : 0);
        assert_row(&fixture, again ? 8 : 3, 5);
        stop(&fixture);
        start(&fixture, 8);
        assert_row(&fixture, 8, 5);
        stop(&fixture);
        assert_int_equal(unlink(before), 0);
        assert_true(ps_fixture_fini(&fixture));
    }
}

/* Without a stop on purpose servers may live and have newer values: nothing is changed. */
static void only_after_a_stop(void **state) {
    ps_fixture fixture;
    begin_with_row(&fixture, 5);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    assert_int_equal(unlink(fixture.address + strlen("unix:")), 0); /* the killed scheduler's socket */
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_kill(&fixture, &fixture.server[i]);
    fixture.killed--;
    fixture.slots = 4;
    assert_false(ps_fixture_start_scheduler(&fixture));
    start(&fixture, 0); /* as many as before */
    mr_ps *ps = ps_fixture_connect(&fixture, 0);
    assert_non_null(ps);
    mr_ps_close(ps);
    stop(&fixture);
    start(&fixture, 4);
    assert_row(&fixture, 4, 5);
    stop(&fixture);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_asp),
        cmocka_unit_test(in_ssp),
        cmocka_unit_test(in_bsp),
        cmocka_unit_test(mixed),
        cmocka_unit_test(only_after_a_stop),
        cmocka_unit_test(a_crash_in_between_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
