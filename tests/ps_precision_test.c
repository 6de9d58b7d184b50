/* ps_precision_test.c — precision of tables and dtypes of requests, in real processes: pulled values have the bits of a
 * twin with fp32 weights, for every kind of table, over every transport; and the bytes that are sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "ps/stable_hash.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

/* A block is read or sent in place, if it can be. */
enum { KEYS = 40, DIM = 7, ITEMS = 45000, BLOCK = 35000, PUSHES = 3 };
enum { ROWS, ROW, RANGE, VECTORS, ARRAY, WAYS };

static const char *const precisions[] = {"fp32", "bf16", "fp16"};
static const mr_dtype dtypes[] = {MR_F32, MR_BF16, MR_F16};
enum { DTYPES = 3 };

static float rounded(mr_dtype dtype, float value) {
    if (dtype == MR_F32) return value;
    return dtype == MR_F16 ? half_from_fp16(half_to_fp16(value)) : half_from_bf16(half_to_bf16(value));
}

static void write_as(mr_dtype dtype, float value, void *out, size_t i) {
    if (dtype == MR_F32)
        ((float *)out)[i] = value;
    else
        ((uint16_t *)out)[i] = dtype == MR_F16 ? half_to_fp16(value) : half_to_bf16(value);
}

static float read_as(mr_dtype dtype, const void *values, size_t i) {
    if (dtype == MR_F32) return ((const float *)values)[i];
    uint16_t half = ((const uint16_t *)values)[i];
    return dtype == MR_F16 ? half_from_fp16(half) : half_from_bf16(half);
}

static float gradient(size_t push, size_t item) { return (float)(stable_hash2(push, item) % 100003) / 7919.0f - 6; }

static size_t items_of(int way) { return way == ARRAY ? ITEMS : way == ROW ? DIM : KEYS * DIM; }

typedef struct subject { /* a table, and how it is used */
    mr_ps *ps;
    mr_ps_table *table;
    int way;
    mr_dtype precision, dtype;
    bool steps;
    uint64_t keys[KEYS];
    uint32_t lengths[KEYS];
} subject;

static void open_table(subject *subject, const char *name, int precision, bool other_dtype) {
    const mr_ps_array array = {.name = "weights", .dims = 1, .shape = {ITEMS}};
    bool vectors = subject->way == VECTORS;
    const mr_ps_table_options options = MR_OPTIONS(
        mr_ps_table_options, .dim = subject->way <= RANGE ? DIM : 0, .ordered = subject->way == RANGE,
        .kind = subject->way == ARRAY ? MR_PS_DENSE
                : vectors             ? MR_PS_VECTORS
                                      : MR_PS_SPARSE,
        .arrays = subject->way == ARRAY ? &array : NULL, .array_count = subject->way == ARRAY,
        .block = subject->way == ARRAY ? BLOCK : 0, .optimizer = vectors ? "add" : "sgd", .rate = vectors ? 0 : 0.5f,
        .dtype = other_dtype ? dtypes[precision] : MR_F32, .precision = other_dtype ? NULL : precisions[precision]);
    must(mr_ps_table_create(subject->ps, name, &options, PS_FIXTURE_PATIENCE_US, &subject->table));
    subject->precision = dtypes[precision];
    for (size_t i = 0; i < KEYS; i++) {
        subject->keys[i] = subject->way == RANGE ? 100 + i : i * i * 3 + 5;
        subject->lengths[i] = DIM;
    }
}

static mr_status push(const subject *subject, const void *values, bool set, mr_ps_ticket *ticket) {
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .dtype = subject->dtype, .set = set);
    const uint32_t *lengths = subject->way == VECTORS ? subject->lengths : NULL;
    if (subject->way == ARRAY) return mr_ps_push_array(subject->table, 0, values, 0, ITEMS, &options, ticket);
    if (subject->way == RANGE)
        return mr_ps_push_range(subject->table, subject->keys[0], KEYS, values, &options, ticket);
    return mr_ps_push(subject->table, subject->keys, subject->way == ROW ? 1 : KEYS, values, lengths, &options, ticket);
}

static void push_now(const subject *subject, const void *values, bool set) {
    mr_ps_ticket ticket;
    must(push(subject, values, set, &ticket));
    if (subject->steps) must(mr_ps_end(subject->ps));
    must(mr_ps_wait(subject->ps, ticket, PS_FIXTURE_PATIENCE_US));
    if (subject->steps) must(mr_ps_begin(subject->ps, PS_FIXTURE_PATIENCE_US, &(uint64_t){0}));
}

static void pull(const subject *subject, void *out) {
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .dtype = subject->dtype);
    const uint32_t *lengths = subject->way == VECTORS ? subject->lengths : NULL;
    uint64_t found[KEYS];
    size_t count = KEYS;
    if (subject->way == ARRAY) {
        must(mr_ps_pull_array(subject->table, 0, out, 0, ITEMS, &options, NULL));
    } else if (subject->way == RANGE) {
        must(mr_ps_pull_range(subject->table, 100, 100 + KEYS - 1, found, out, KEYS, &count, &options, NULL));
        assert_int_equal(count, KEYS);
    } else {
        size_t keys = subject->way == ROW ? 1 : KEYS;
        must(mr_ps_pull(subject->table, subject->keys, keys, out, lengths, &options, NULL));
    }
    if (subject->way != VECTORS) return;
    mr_ps_vectors *vectors; /* the same values when the lengths are unknown */
    must(mr_ps_pull_vectors(subject->table, subject->keys, KEYS, &vectors, &options, NULL));
    assert_int_equal(vectors->value_count, KEYS * DIM);
    assert_memory_equal(vectors->values, out, KEYS * DIM * mr_dtype_size(subject->dtype));
    mr_ps_vectors_free(vectors);
}

/* Pushes gradients, then assigns, and compares with the twin. */
static void follow(const subject *subject, void *buffer) {
    static float weights[ITEMS];
    size_t items = items_of(subject->way);
    memset(weights, 0, sizeof weights);
    for (size_t n = 0; n <= PUSHES; n++) {
        bool set = n == PUSHES;
        for (size_t i = 0; i < items; i++) {
            float given = rounded(subject->dtype, gradient(n, i)), wire = rounded(subject->precision, given);
            write_as(subject->dtype, given, buffer, i);
            if (set)
                weights[i] = given; /* not rounded to the precision */
            else
                weights[i] += subject->way == VECTORS ? wire : -0.5f * wire;
        }
        push_now(subject, buffer, set);
        memset(buffer, 0xee, items * sizeof(float));
        pull(subject, buffer);
        for (size_t i = 0; i < items; i++) {
            float shown = rounded(subject->dtype, rounded(subject->precision, weights[i]));
            if (read_as(subject->dtype, buffer, i) != shown)
                fail_msg("way %d, precision %s, dtype %s, push %zu, item %zu: %g, expected %g", subject->way,
                         mr_dtype_name(subject->precision), mr_dtype_name(subject->dtype), n, i,
                         (double)read_as(subject->dtype, buffer, i), (double)shown);
        }
    }
}

static void follow_all(ps_fixture *fixture) {
    bool steps = fixture->consistency == MR_PS_BSP;
    mr_ps *ps = ps_fixture_connect(fixture, 0);
    void *shared;
    assert_non_null(ps);
    static float own[ITEMS];
    must(mr_ps_buffer_alloc(ps, sizeof own, &shared)); /* servers of this machine may read this one in place */
    if (steps) must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &(uint64_t){0}));
    for (int way = 0; way < WAYS; way++)
        for (int p = 0; p < DTYPES; p++)
            for (int d = 0; d < DTYPES; d++)
                for (int other = 0; other <= (p != 0 && (way == ROWS || way == ARRAY)); other++) {
                    /* a precision, or a dtype that implies it */
                    char name[MR_PS_NAME_MAX];
                    subject subject = {.ps = ps, .way = way, .dtype = dtypes[d], .steps = steps};
                    snprintf(name, sizeof name, "%d %d %d %d", way, p, d, other);
                    open_table(&subject, name, p, other != 0);
                    follow(&subject, way == ARRAY && d == 0 ? shared : own);
                    mr_ps_table_free(subject.table);
                }
    if (steps) must(mr_ps_end(ps));
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    mr_ps_close(ps);
}

static void run(mr_ps_consistency consistency, bool tcp, uint32_t copies) {
    ps_fixture fixture = {
        .tcp = tcp, .servers = 2, .workers = 1, .slots = 3, .copies = copies, .consistency = consistency};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    follow_all(&fixture);
    fixture.workers = 0;
    assert_true(ps_fixture_fini(&fixture));
}

static void bits_are_those_of_a_twin(void **state) { run(MR_PS_ASP, false, 1); }
static void bits_are_the_same_over_tcp(void **state) { run(MR_PS_ASP, true, 2); }
static void bits_are_the_same_in_rounds(void **state) { run(MR_PS_BSP, false, 2); }

/* ---- Bytes, options, errors. */

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps;
} scene;

static void begin(scene *scene) {
    scene->fixture = (ps_fixture){.servers = 1, .workers = 1, .slots = 2, .copies = 1, .consistency = MR_PS_ASP};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    ps_fixture_start_server(&scene->fixture, 0);
    scene->ps = ps_fixture_connect(&scene->fixture, 0);
    assert_non_null(scene->ps);
}

static void end(scene *scene) {
    must(mr_ps_flush(scene->ps, PS_FIXTURE_PATIENCE_US));
    mr_ps_close(scene->ps);
    scene->fixture.workers = 0;
    assert_true(ps_fixture_fini(&scene->fixture));
}

static void a_precision_halves_the_bytes(void **state) {
    static float values[8192];
    uint64_t keys[512];
    scene scene;
    begin(&scene);
    for (size_t i = 0; i < 512; i++) keys[i] = i * 3;
    for (int d = 0; d < DTYPES; d++) {
        mr_ps_table *table;
        mr_ps_push_stats before, after;
        const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 16, .precision = precisions[d]);
        must(mr_ps_table_create(scene.ps, precisions[d], &options, PS_FIXTURE_PATIENCE_US, &table));
        mr_ps_push_stats_get(scene.ps, &before);
        must(mr_ps_push(table, keys, 512, values, NULL, NULL, NULL));
        must(mr_ps_push(table, keys, 1, values, NULL, NULL, NULL));
        mr_ps_push_stats_get(scene.ps, &after);
        uint64_t plain = after.push_bytes - before.push_bytes, sent = after.push_bytes_sent - before.push_bytes_sent;
        uint64_t saved = d == 0 ? 0 : 513 * 16 * 2;
        assert_true(plain >= sizeof values);
        assert_int_equal(plain - sent, saved);
        mr_ps_table_free(table);
    }
    end(&scene);
}

/* The handle of a table that another connection created has its precision. */
static void the_precision_is_the_tables(void **state) {
    static const uint64_t key = 3;
    float value = 1.00390625f, shown; /* halfway between two bf16: rounded to the even one, 1 */
    mr_ps_table *table, *opened;
    scene scene;
    begin(&scene);
    const mr_ps_table_options half = MR_OPTIONS(mr_ps_table_options, .precision = "bf16"),
                              plain = MR_OPTIONS(mr_ps_table_options, .precision = "fp32"),
                              none = MR_INIT(mr_ps_table_options);
    must(mr_ps_table_create(scene.ps, "half", &half, PS_FIXTURE_PATIENCE_US, &table));
    must(mr_ps_table_open(scene.ps, "half", PS_FIXTURE_PATIENCE_US, &opened));
    mr_ps_table_options options = MR_INIT(mr_ps_table_options);
    mr_ps_table_options_get(opened, &options);
    assert_string_equal(options.precision, "bf16");
    must(mr_ps_push(opened, &key, 1, &value, NULL, NULL, NULL));
    must(mr_ps_pull(table, &key, 1, &shown, NULL, NULL, NULL));
    assert_true(shown == 1);
    mr_ps_table_free(opened);
    mr_ps_table_free(table);
    assert_int_equal(mr_ps_table_create(scene.ps, "half", &plain, PS_FIXTURE_PATIENCE_US, &table), MR_EXISTS);
    assert_non_null(strstr(mr_last_error(), "another precision"));
    must(mr_ps_table_create(scene.ps, "plain", &plain, PS_FIXTURE_PATIENCE_US, &table));
    must(mr_ps_table_create(scene.ps, "plain", &none, PS_FIXTURE_PATIENCE_US, &opened)); /* the same options */
    mr_ps_table_free(opened);
    mr_ps_table_free(table);
    end(&scene);
}

static void refuses(mr_ps *ps, mr_ps_table_options options, const char *text) {
    mr_ps_table *table;
    assert_int_equal(mr_ps_table_create(ps, "wrong", &options, PS_FIXTURE_PATIENCE_US, &table), MR_INVALID);
    if (strstr(mr_last_error(), text) == NULL) fail_msg("%s: expected %s", mr_last_error(), text);
}

static void wrong_options_are_refused(void **state) {
    static const uint64_t key = 3;
    int64_t count = 1;
    float large[] = {1, 70000}, shown;
    mr_ps_table *table;
    scene scene;
    begin(&scene);
    refuses(scene.ps, MR_OPTIONS(mr_ps_table_options, .precision = "bf61"), "unknown precision 'bf61'");
    refuses(scene.ps, MR_OPTIONS(mr_ps_table_options, .precision = "bf16", .dtype = MR_I64), "int64");
    refuses(scene.ps, MR_OPTIONS(mr_ps_table_options, .precision = "bf16", .dtype = MR_F16), "float16");
    const mr_ps_table_options counters = MR_OPTIONS(mr_ps_table_options, .dtype = MR_I64),
                              careful = MR_OPTIONS(mr_ps_table_options, .dim = 2, .precision = "fp16", .refuse_nan = 1);
    const mr_ps_request_options as_float = MR_OPTIONS(mr_ps_request_options, .dtype = MR_F32),
                                as_int = MR_OPTIONS(mr_ps_request_options, .dtype = MR_I64),
                                as_double = MR_OPTIONS(mr_ps_request_options, .dtype = MR_F64);
    must(mr_ps_table_create(scene.ps, "counters", &counters, PS_FIXTURE_PATIENCE_US, &table));
    assert_int_equal(mr_ps_push(table, &key, 1, &large, NULL, &as_float, NULL), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "values of float32: table 'counters' has int64"));
    must(mr_ps_push(table, &key, 1, &count, NULL, &as_int, NULL));
    mr_ps_table_free(table);
    must(mr_ps_table_create(scene.ps, "careful", &careful, PS_FIXTURE_PATIENCE_US, &table));
    assert_int_equal(mr_ps_pull(table, &key, 1, &shown, NULL, &as_int, NULL), MR_INVALID);
    assert_int_equal(mr_ps_pull(table, &key, 1, &shown, NULL, &as_double, NULL), MR_INVALID);
    assert_int_equal(mr_ps_push(table, &key, 1, large, NULL, NULL, NULL), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "value 1 is not finite as float16"));
    mr_ps_table_free(table);
    end(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_a_twin),    cmocka_unit_test(bits_are_the_same_over_tcp),
        cmocka_unit_test(bits_are_the_same_in_rounds), cmocka_unit_test(a_precision_halves_the_bytes),
        cmocka_unit_test(the_precision_is_the_tables), cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
