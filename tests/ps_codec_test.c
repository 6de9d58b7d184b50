/* ps_codec_test.c — pushes through every codec, in real processes: the received values, the bytes sent, and equal bits
 * whichever process is killed.
 *
 * A worker has a table of each kind for each codec, and one of each without. Its pushes depend on the step only, so the
 * tables without a codec have the sums that the others must approximate. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "ps/stable_hash.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

enum { SLOTS = 3, KEYS = 48, DIM = 12, LONGEST = 24, ITEMS = 1500, STEPS = 24, PATIENCE_MS = 120000 };
enum { ROWS, VECTORS, ARRAY, KINDS };

typedef struct trial {
    const char *codec;
    double size; /* largest ratio to the bytes without a codec */
    double off;  /* largest distance from the sums; 0: exact */
    const char *precision;
} trial;

static const trial trials[] = {
    {"none", 1.01, 0},
    {"fp16", 0.65, 0.01},
    {"bf16", 0.65, 0.02},
    {"int8", 0.5, 0.02},
    {"sign", 0.35, 0.4},
    {"topk:0.25", 0.75, 0.4},
    {"randk:0.25", 0.6, 0.4},
    {"lz4", 0.95, 0},
    {"zstd", 0.9, 0},
    {"int8+zstd", 0.45, 0.02},
    {"none", 0.65, 0.02, "bf16"},
    {"none", 0.65, 0.01, "fp16"},
    {"lz4", 0.64, 0.02, "bf16"},
    {"int8", 0.5, 0.02, "bf16"},
};
enum { TRIALS = sizeof trials / sizeof *trials };

typedef struct weights {
    float rows[KEYS][DIM], vectors[KEYS][LONGEST], array[ITEMS];
} weights;

typedef struct report { /* report of a worker, in shared memory */
    weights weights[TRIALS];
    uint64_t plain[TRIALS], sent[TRIALS];
    uint64_t step, lost;
    int done;
} report;

typedef struct cast { /* parameters of one run */
    ps_fixture fixture;
    report *report;
    pid_t worker;
    uint64_t die_at; /* step in which the worker stays until killed; 0: none */
    bool half;       /* stay after half of the step's pushes */
} cast;

/* ---- The worker. */

static uint32_t length_of(size_t key) { return 1 + (uint32_t)(key * 7 % LONGEST); }

/* A value near a mean that depends on the item. There are few distinct values, so that they can be compressed. */
static float gradient(uint64_t step, size_t kind, size_t item) {
    double tends = (double)(stable_hash2(kind, item) % 64) / 32.0 - 1;
    double noise = (double)(stable_hash2(stable_hash2(step, kind), item) % 16) / 16.0 - 0.5;
    return (float)(tends + noise);
}

typedef struct model {
    mr_ps_table *tables[TRIALS][KINDS];
    uint64_t keys[KEYS];
    uint32_t lengths[KEYS];
} model;

static mr_status open_model(mr_ps *ps, model *model) {
    const mr_ps_array array = {.name = "weights", .dims = 1, .shape = {ITEMS}};
    for (size_t i = 0; i < KEYS; i++) {
        model->keys[i] = i * i * 3 + 5;
        model->lengths[i] = length_of(i);
    }
    for (size_t t = 0; t < TRIALS; t++) {
        const mr_ps_table_options options[] = {
            MR_OPTIONS(mr_ps_table_options, .dim = DIM, .compression = trials[t].codec,
                       .precision = trials[t].precision, .seed = 3),
            MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS, .compression = trials[t].codec,
                       .precision = trials[t].precision),
            MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = 400,
                       .compression = trials[t].codec, .precision = trials[t].precision)};
        for (int kind = 0; kind < KINDS; kind++) {
            char name[MR_PS_NAME_MAX];
            snprintf(name, sizeof name, "%zu %s %d", t, trials[t].codec, kind);
            MR_TRY(mr_ps_table_create(ps, name, &options[kind], PS_FIXTURE_PATIENCE_US, &model->tables[t][kind]));
        }
    }
    return MR_OK;
}

static void close_model(model *model) {
    for (size_t t = 0; t < TRIALS; t++)
        for (int kind = 0; kind < KINDS; kind++) mr_ps_table_free(model->tables[t][kind]);
}

/* Pushes one row alone, the others together; vectors; the array in two ranges. */
static mr_status push(const model *model, size_t t, uint64_t step, mr_ps_ticket tickets[5]) {
    static float rows[KEYS][DIM], vectors[KEYS * LONGEST], array[ITEMS];
    size_t at = 0, half = ITEMS / 2;
    for (size_t i = 0; i < KEYS; i++) {
        for (size_t k = 0; k < DIM; k++) rows[i][k] = gradient(step, ROWS, i * DIM + k);
        for (size_t k = 0; k < length_of(i); k++) vectors[at++] = gradient(step, VECTORS, i * LONGEST + k);
    }
    for (size_t i = 0; i < ITEMS; i++) array[i] = gradient(step, ARRAY, i);
    MR_TRY(mr_ps_push(model->tables[t][ROWS], model->keys, 1, rows[0], NULL, NULL, &tickets[0]));
    MR_TRY(mr_ps_push(model->tables[t][ROWS], model->keys + 1, KEYS - 1, rows[1], NULL, NULL, &tickets[1]));
    MR_TRY(mr_ps_push(model->tables[t][VECTORS], model->keys, KEYS, vectors, model->lengths, NULL, &tickets[2]));
    MR_TRY(mr_ps_push_array(model->tables[t][ARRAY], 0, array, 0, half, NULL, &tickets[3]));
    return mr_ps_push_array(model->tables[t][ARRAY], 0, array + half, half, ITEMS - half, NULL, &tickets[4]);
}

static mr_status pull(const model *model, size_t t, weights *out) {
    const mr_ps_request_options *plain = NULL;
    float flat[KEYS * LONGEST];
    MR_TRY(mr_ps_pull(model->tables[t][ROWS], model->keys, KEYS, out->rows, NULL, plain, NULL));
    MR_TRY(mr_ps_pull(model->tables[t][VECTORS], model->keys, KEYS, flat, model->lengths, plain, NULL));
    const float *at = flat;
    for (size_t i = 0; i < KEYS; at += length_of(i++)) memcpy(out->vectors[i], at, length_of(i) * sizeof *at);
    return mr_ps_pull_array(model->tables[t][ARRAY], 0, out->array, 0, ITEMS, plain, NULL);
}

static mr_status push_all(mr_ps *ps, const model *model, const cast *cast, uint64_t step) {
    static mr_ps_ticket tickets[TRIALS][5]; /* values of this step, kept until its end */
    for (size_t t = 0; t < TRIALS; t++) {
        mr_ps_push_stats before, after;
        if (cast->half && cast->die_at != 0 && step == cast->die_at && t == TRIALS / 2) {
            usleep(200000); /* time for some pushes to arrive */
            __atomic_store_n(&cast->report->step, step, __ATOMIC_RELEASE);
            for (;;) pause();
        }
        mr_ps_push_stats_get(ps, &before);
        MR_TRY(push(model, t, step, tickets[t]));
        mr_ps_push_stats_get(ps, &after);
        cast->report->plain[t] += after.push_bytes - before.push_bytes;
        cast->report->sent[t] += after.push_bytes_sent - before.push_bytes_sent;
    }
    MR_TRY(mr_ps_end(ps));
    for (size_t t = 0; t < TRIALS; t++)
        for (int i = 0; i < 5; i++) MR_TRY(mr_ps_wait(ps, tickets[t][i], PS_FIXTURE_PATIENCE_US));
    return MR_OK;
}

static int be_worker(void *argument) {
    const cast *cast = argument;
    report *report = cast->report;
    mr_ps *ps;
    model model;
    mr_ps_push_stats traffic;
    TEST_CHILD_CHECK(mr_ps_connect(cast->fixture.address, 0, PS_FIXTURE_PATIENCE_US, &ps) == MR_OK);
    TEST_CHILD_CHECK(open_model(ps, &model) == MR_OK);
    for (;;) {
        uint64_t step;
        TEST_CHILD_CHECK(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step) == MR_OK);
        if (cast->die_at == 0 || !cast->half || step != cast->die_at)
            __atomic_store_n(&report->step, step, __ATOMIC_RELEASE);
        if (cast->die_at != 0 && !cast->half && step == cast->die_at)
            for (;;) pause();
        if (step >= STEPS) break;
        mr_status status = push_all(ps, &model, cast, step);
        if (status != MR_OK) fprintf(stderr, "step %d: %s\n", (int)step, mr_last_error());
        TEST_CHILD_CHECK(status == MR_OK);
    }
    for (size_t t = 0; t < TRIALS; t++) TEST_CHILD_CHECK(pull(&model, t, &report->weights[t]) == MR_OK);
    mr_ps_push_stats_get(ps, &traffic);
    report->lost = traffic.feedback_lost;
    report->done = 1;
    close_model(&model);
    mr_ps_close(ps);
    return 0;
}

/* ---- Runs. */

static void begin(cast *cast, mr_ps_consistency consistency, uint32_t copies, bool tcp) {
    *cast = (struct cast){
        .fixture = {
            .tcp = tcp, .servers = 2, .workers = 1, .slots = SLOTS, .copies = copies, .consistency = consistency}};
    cast->report = mmap(NULL, sizeof *cast->report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(cast->report != MAP_FAILED);
    assert_true(ps_fixture_init(&cast->fixture));
    assert_true(ps_fixture_start_scheduler(&cast->fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&cast->fixture, i);
    cast->fixture.workers = 0;
}

static void reach(const cast *cast, uint64_t step) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    while (__atomic_load_n(&cast->report->step, __ATOMIC_ACQUIRE) < step && clock_now_us(clock_real()) < until_us)
        usleep(2000);
    assert_true(cast->report->step >= step);
}

static void end(cast *cast) {
    assert_int_equal(test_child_wait(cast->worker, PATIENCE_MS), 0);
    assert_true(cast->report->done);
    assert_true(ps_fixture_fini(&cast->fixture));
}

static report *run(mr_ps_consistency consistency, uint32_t copies) {
    cast cast;
    begin(&cast, consistency, copies, false);
    cast.worker = test_child_start(be_worker, &cast);
    end(&cast);
    return cast.report;
}

static void free_report(report *report) { munmap(report, sizeof *report); }

static void same_weights(const report *one, const report *other) {
    for (size_t t = 0; t < TRIALS; t++)
        if (memcmp(&one->weights[t], &other->weights[t], sizeof(weights)) != 0) fail_msg("%s differs", trials[t].codec);
}

static double distance(const float *one, const float *other, size_t count) {
    double off = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        off += pow((double)one[i] - (double)other[i], 2);
        length += pow((double)other[i], 2);
    }
    return sqrt(off / length);
}

static void looks_right(const report *report) {
    const size_t counts[] = {KEYS * DIM, KEYS * LONGEST, ITEMS};
    for (size_t t = 0; t < TRIALS; t++) {
        const weights *mine = &report->weights[t], *sums = &report->weights[0];
        const float *parts[] = {mine->rows[0], mine->vectors[0], mine->array},
                    *wanted[] = {sums->rows[0], sums->vectors[0], sums->array};
        for (int kind = 0; kind < KINDS; kind++) {
            double off = distance(parts[kind], wanted[kind], counts[kind]);
            if (!(off <= trials[t].off)) fail_msg("%s, kind %d: off by %.3f", trials[t].codec, kind, off);
        }
        double size = (double)report->sent[t] / (double)report->plain[t];
        if (!(size <= trials[t].size)) fail_msg("%s has %.3f of the bytes", trials[t].codec, size);
    }
    for (size_t i = 0; i < ITEMS; i++) { /* every push was counted once */
        float sum = 0;
        for (uint64_t step = 0; step < STEPS; step++) sum += gradient(step, ARRAY, i);
        assert_true(report->weights[0].array[i] == sum);
    }
    assert_int_equal(report->lost, 0);
}

static void undisturbed(mr_ps_consistency consistency) {
    report *one = run(consistency, 1), *two = run(consistency, 2);
    looks_right(one);
    same_weights(one, two);
    free_report(one);
    free_report(two);
}

static void every_codec_in_bsp(void **state) { undisturbed(MR_PS_BSP); }
static void every_codec_in_asp(void **state) { undisturbed(MR_PS_ASP); }

static void kill_server(mr_ps_consistency consistency) {
    report *plain = run(consistency, 2);
    cast cast;
    begin(&cast, consistency, 2, false);
    cast.worker = test_child_start(be_worker, &cast);
    reach(&cast, STEPS / 3);
    ps_fixture_kill(&cast.fixture, &cast.fixture.server[0]);
    ps_fixture_start_server(&cast.fixture, 0);
    end(&cast);
    same_weights(cast.report, plain);
    free_report(cast.report);
    free_report(plain);
}

static void a_server_is_killed_in_bsp(void **state) { kill_server(MR_PS_BSP); }
static void a_server_is_killed_in_asp(void **state) { kill_server(MR_PS_ASP); }

/* Kills the worker twice: at the beginning of a step and in the middle of one. `keeps`: the rank's feedback file is
 * kept. */
static void kill_worker(mr_ps_consistency consistency, bool keeps) {
    report *plain = run(consistency, 2);
    cast cast;
    begin(&cast, consistency, 2, !keeps);
    for (int half = 0; half < 2; half++) {
        cast.half = half;
        cast.die_at = STEPS / 3 + (uint64_t)half * 4;
        cast.worker = test_child_start(be_worker, &cast);
        reach(&cast, cast.die_at);
        ps_fixture_kill(&cast.fixture, &cast.worker);
    }
    cast.die_at = 0;
    cast.worker = test_child_start(be_worker, &cast);
    cast.fixture.killed += 1;
    end(&cast);
    if (keeps) {
        same_weights(cast.report, plain);
    } else {
        assert_memory_equal(&cast.report->weights[0], &plain->weights[0], sizeof(weights));
        assert_memory_not_equal(&cast.report->weights[3], &plain->weights[3], sizeof(weights));
    }
    assert_int_equal(cast.report->lost, keeps ? 0 : 1);
    free_report(cast.report);
    free_report(plain);
}

static void a_worker_is_killed_in_bsp(void **state) { kill_worker(MR_PS_BSP, true); }
static void a_worker_is_killed_in_asp(void **state) { kill_worker(MR_PS_ASP, true); }

/* Over tcp, feedback is kept only in a folder that the program names. Without one nothing hangs, no push is counted
 * twice, and a message reports the missing file. */
static void without_its_file_feedback_begins_at_zero(void **state) { kill_worker(MR_PS_BSP, false); }

/* ---- Invalid requests, and sets. */

static void rules(void **state) {
    cast cast;
    mr_ps *ps;
    mr_ps_table *table, *half;
    mr_ps_push_stats traffic;
    uint64_t step, keys[] = {1, 2};
    float values[32] = {0}, shown[32];
    uint16_t halves[32];
    begin(&cast, MR_PS_ASP, 1, false);
    must(mr_ps_connect(cast.fixture.address, 0, PS_FIXTURE_PATIENCE_US, &ps));
    const mr_ps_table_options counters = MR_OPTIONS(mr_ps_table_options, .dtype = MR_I64, .compression = "int8"),
                              unknown = MR_OPTIONS(mr_ps_table_options, .compression = "gzip"),
                              fine = MR_OPTIONS(mr_ps_table_options, .dtype = MR_I64, .compression = "zstd"),
                              sign = MR_OPTIONS(mr_ps_table_options, .dim = 16, .compression = "sign"),
                              same = MR_OPTIONS(mr_ps_table_options, .dim = 16, .dtype = MR_F16, .compression = "fp16");
    assert_int_equal(mr_ps_table_create(ps, "c", &counters, PS_FIXTURE_PATIENCE_US, &table), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "int64 tables can only use"));
    assert_int_equal(mr_ps_table_create(ps, "u", &unknown, PS_FIXTURE_PATIENCE_US, &table), MR_INVALID);
    must(mr_ps_table_create(ps, "f", &fine, PS_FIXTURE_PATIENCE_US, &table));
    mr_ps_table_free(table);
    must(mr_ps_table_create(ps, "s", &sign, PS_FIXTURE_PATIENCE_US, &table));
    must(mr_ps_table_create(ps, "h", &same, PS_FIXTURE_PATIENCE_US, &half));
    assert_int_equal(mr_ps_set_state_dir(ps, "/no/such/folder"), MR_INVALID);
    must(mr_ps_set_state_dir(ps, cast.fixture.folder));
    must(mr_ps_set_state_dir(ps, NULL));
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    assert_int_equal(mr_ps_set_state_dir(ps, NULL), MR_BUSY);

    values[3] = INFINITY;
    assert_int_equal(mr_ps_push(table, keys, 2, values, NULL, NULL, NULL), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "codec"));
    assert_int_equal(mr_ps_push(table, keys, 1, values, NULL, NULL, NULL), MR_INVALID);

    /* A set stores exactly its values, without error feedback. */
    for (int i = 0; i < 32; i++) values[i] = (float)i * 0.37f;
    must(mr_ps_push(table, keys, 2, values, NULL, NULL, NULL));
    mr_ps_push_stats_get(ps, &traffic);
    assert_true(traffic.encoded == 2 || traffic.encoded == 1);
    assert_true(traffic.feedback_bytes > 0 && traffic.push_bytes_sent < traffic.push_bytes);
    const mr_ps_request_options set = MR_OPTIONS(mr_ps_request_options, .set = 1);
    must(mr_ps_push(table, keys, 2, values, NULL, &set, NULL));
    must(mr_ps_pull(table, keys, 2, shown, NULL, NULL, NULL));
    assert_memory_equal(shown, values, sizeof shown);
    mr_ps_push_stats_get(ps, &traffic);
    assert_int_equal(traffic.feedback_bytes, 0);
    memset(values, 0, sizeof values);
    must(mr_ps_push(table, keys, 2, values, NULL, NULL, NULL));
    float now[32];
    must(mr_ps_pull(table, keys, 2, now, NULL, NULL, NULL));
    assert_memory_equal(shown, now, sizeof shown);

    /* A codec that does not change values of the dtype is not used. */
    mr_ps_push_stats before;
    mr_ps_push_stats_get(ps, &before);
    memset(halves, 0x3c, sizeof halves);
    must(mr_ps_push(half, keys, 2, halves, NULL, NULL, NULL));
    mr_ps_push_stats_get(ps, &traffic);
    assert_int_equal(traffic.encoded, before.encoded);
    mr_ps_table_free(table);
    mr_ps_table_free(half);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&cast.fixture));
    free_report(cast.report);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules),
        cmocka_unit_test(every_codec_in_bsp),
        cmocka_unit_test(every_codec_in_asp),
        cmocka_unit_test(a_server_is_killed_in_bsp),
        cmocka_unit_test(a_server_is_killed_in_asp),
        cmocka_unit_test(a_worker_is_killed_in_bsp),
        cmocka_unit_test(a_worker_is_killed_in_asp),
        cmocka_unit_test(without_its_file_feedback_begins_at_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
