/* ps_rate_test.c — learning rates of pushes (mr_ps_request_options.rate), in real processes: in a round that of the
 * lowest rank, otherwise that of each push, also when servers are killed and a rank repeats a step. The bits equal the
 * same arithmetic in this process. */
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

#include "kv/optim/optim.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { RANKS = 3, SLOTS = 4, ITEMS = 600, BLOCK = 100, KEYS = 24, STEPS = 24 };
enum { ARRAY, ROWS, TABLES };

static const float table_rates[TABLES] = {0.01f, 0.125f};

typedef struct weights {
    float array[ITEMS], rows[KEYS];
} weights;

typedef struct scene {
    ps_fixture fixture;
    mr_ps *ps[RANKS];
    mr_ps_table *table[RANKS][TABLES];
} scene;

static void start(scene *scene, mr_ps_consistency consistency, uint32_t ranks, uint32_t servers) {
    *scene = (struct scene){
        .fixture = {
            .servers = servers, .workers = ranks, .slots = SLOTS, .copies = servers, .consistency = consistency}};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < servers; i++) ps_fixture_start_server(&scene->fixture, i);
    scene->fixture.workers = 0; /* this process has all ranks */
}

/* ---- Rounds. */

static void connect(scene *scene, uint32_t rank) {
    const mr_ps_array array = {.name = "weights", .dims = 1, .shape = {ITEMS}};
    const mr_ps_table_options means = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                                 .array_count = 1, .block = BLOCK, .optimizer = "adam",
                                                 .rate = table_rates[ARRAY], .average = 1),
                              sums = MR_OPTIONS(mr_ps_table_options, .optimizer = "adam", .rate = table_rates[ROWS]);
    mr_ps *ps = scene->ps[rank] = ps_fixture_connect(&scene->fixture, (int)rank);
    assert_non_null(ps);
    must(mr_ps_table_create(ps, "array", &means, PS_FIXTURE_PATIENCE_US, &scene->table[rank][ARRAY]));
    must(mr_ps_table_create(ps, "rows", &sums, PS_FIXTURE_PATIENCE_US, &scene->table[rank][ROWS]));
}

static void disconnect(scene *scene, uint32_t rank) {
    for (int i = 0; i < TABLES; i++) mr_ps_table_free(scene->table[rank][i]);
    mr_ps_close(scene->ps[rank]);
}

/* Rank 0 is left out in every third step, all ranks in every twelfth. */
static bool is_left_out(uint64_t step, uint32_t rank) { return step % 12 == 7 || (rank == 0 && step % 3 == 1); }

/* The rate that a rank gives for a table; 0: none. Ranks give different ones, and in some steps none does. */
static float rate_of(uint64_t step, uint32_t rank, int table) {
    if (step % 6 == 5 || (step + rank + (uint64_t)table) % 4 == 0) return 0;
    return (float)(1 + (step * 7 + rank * 3 + (uint64_t)table) % 11) / 100;
}

/* Whether the rank pushes to the key: of some keys only one rank, so that some slots get pushes of few ranks. */
static bool pushes(uint64_t step, uint32_t rank, uint64_t key) { return key % 4 == 3 || key % 4 == (rank + step) % 3; }

static float gradient(uint64_t step, uint32_t rank, size_t item) {
    return (float)((step * 31 + rank * 17 + item * 7) % 41) / 16 - 1;
}

typedef struct values { /* of a rank's step, until its end */
    uint64_t keys[KEYS];
    float array[ITEMS], rows[KEYS];
    mr_ps_ticket tickets[4];
} values;

/* The rows are pushed in two requests: the rate of the second one counts. */
static void push(const scene *scene, uint32_t rank, uint64_t step, values *values) {
    float rate = rate_of(step, rank, ROWS), other = rate == 0 ? 0 : 9;
    const mr_ps_request_options of_array = MR_OPTIONS(mr_ps_request_options, .rate = rate_of(step, rank, ARRAY)),
                                first = MR_OPTIONS(mr_ps_request_options, .rate = other),
                                second = MR_OPTIONS(mr_ps_request_options, .rate = rate);
    uint32_t count = 0;
    memset(values->tickets, 0, sizeof values->tickets);
    for (size_t i = 0; i < ITEMS; i++) values->array[i] = gradient(step, rank, i);
    for (uint64_t key = 0; key < KEYS; key++) {
        if (!pushes(step, rank, key)) continue;
        values->keys[count] = key;
        values->rows[count++] = gradient(step, rank, key);
    }
    mr_ps_table *array = scene->table[rank][ARRAY], *rows = scene->table[rank][ROWS];
    must(mr_ps_push_array(array, 0, values->array, 0, ITEMS, &of_array, &values->tickets[0]));
    must(mr_ps_push(rows, values->keys, 2, values->rows, NULL, &first, &values->tickets[1]));
    must(mr_ps_push(rows, values->keys + 2, count - 2, values->rows + 2, NULL, &second, &values->tickets[2]));
    if (is_left_out(step, rank)) must(mr_ps_skip(scene->ps[rank]));
}

/* A server dies and comes back, and a rank loses its connection inside a step, which it then repeats. */
static void disturb(scene *scene, uint64_t step, values *values) {
    uint32_t server = step % 2 == 0 ? 0 : 1, rank = (uint32_t)(step % RANKS);
    uint64_t found;
    assert_true(ps_fixture_full(&scene->fixture, 0, NULL));
    ps_fixture_kill(&scene->fixture, &scene->fixture.server[server]);
    ps_fixture_start_server(&scene->fixture, server);
    push(scene, rank, step, &values[rank]);
    disconnect(scene, rank);
    connect(scene, rank);
    must(mr_ps_begin(scene->ps[rank], PS_FIXTURE_PATIENCE_US, &found));
    assert_int_equal(found, step);
}

static void train(scene *scene, bool disturbs, weights *out) {
    static values values[RANKS];
    uint64_t found, keys[KEYS];
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            must(mr_ps_begin(scene->ps[rank], PS_FIXTURE_PATIENCE_US, &found));
            assert_int_equal(found, step);
        }
        if (disturbs && step % 8 == 6) disturb(scene, step, values);
        for (uint32_t i = 0; i < RANKS; i++) { /* the lowest rank is not the first to arrive */
            uint32_t rank = (uint32_t)((i + step) % RANKS);
            push(scene, rank, step, &values[rank]);
            must(mr_ps_end(scene->ps[rank]));
        }
        for (uint32_t rank = 0; rank < RANKS; rank++)
            for (int i = 0; i < 3; i++)
                must(mr_ps_wait(scene->ps[rank], values[rank].tickets[i], PS_FIXTURE_PATIENCE_US));
    }
    for (uint64_t key = 0; key < KEYS; key++) keys[key] = key;
    if (disturbs) assert_true(ps_fixture_full(&scene->fixture, 0, NULL)); /* the last server has come back */
    must(mr_ps_begin(scene->ps[1], PS_FIXTURE_PATIENCE_US, &found));
    must(mr_ps_pull_array(scene->table[1][ARRAY], 0, out->array, 0, ITEMS, NULL, NULL));
    must(mr_ps_pull(scene->table[1][ROWS], keys, KEYS, out->rows, NULL, NULL, NULL));
}

typedef struct twin { /* adam of a table */
    optim optim;
    float state[2][ITEMS];
    uint64_t updates[ITEMS];
} twin;

static void update(twin *twin, float *value, size_t item, float gradient, float rate, float scale) {
    optim_moment moment = optim_at(&twin->optim, ++twin->updates[item], rate, scale);
    optim_arrays arrays = {
        .from = value, .to = value, .gradient = &gradient, .state = {&twin->state[0][item], &twin->state[1][item]}};
    optim_apply(&twin->optim, &moment, &arrays, 1);
}

static float deciding_rate(uint64_t step, int table) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
        if (!is_left_out(step, rank) && rate_of(step, rank, table) != 0) return rate_of(step, rank, table);
    return table_rates[table];
}

/* The sum of the ranks that push to the item and are not left out, in their order. False: none does. */
static bool add_up(uint64_t step, size_t item, bool is_row, float *sum) {
    bool any = false;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (is_left_out(step, rank) || (is_row && !pushes(step, rank, item))) continue;
        *sum = any ? *sum + gradient(step, rank, item) : gradient(step, rank, item);
        any = true;
    }
    return any;
}

static void compute(weights *out) {
    static twin twins[TABLES];
    const optim_ops *adam;
    must(optim_find("adam", &adam));
    const optim_settings settings = optim_defaults(adam);
    memset(out, 0, sizeof *out);
    memset(twins, 0, sizeof twins);
    for (int i = 0; i < TABLES; i++) must(optim_init(&twins[i].optim, adam, &settings));
    for (uint64_t step = 0; step < STEPS; step++) {
        double members = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++) members += !is_left_out(step, rank);
        for (size_t i = 0; i < ITEMS; i++) {
            float sum;
            if (add_up(step, i, false, &sum))
                update(&twins[ARRAY], &out->array[i], i, sum, deciding_rate(step, ARRAY), (float)(1 / members));
            if (i < KEYS && add_up(step, i, true, &sum))
                update(&twins[ROWS], &out->rows[i], i, sum, deciding_rate(step, ROWS), 1);
        }
    }
}

static void run(bool disturbs) {
    scene scene;
    weights shown, expected;
    start(&scene, MR_PS_BSP, RANKS, 2);
    for (uint32_t rank = 0; rank < RANKS; rank++) connect(&scene, rank);
    train(&scene, disturbs, &shown);
    for (uint32_t rank = 0; rank < RANKS; rank++) disconnect(&scene, rank);
    assert_true(ps_fixture_fini(&scene.fixture));
    compute(&expected);
    assert_memory_equal(shown.array, expected.array, sizeof shown.array);
    assert_memory_equal(shown.rows, expected.rows, sizeof shown.rows);
}

static void the_lowest_rank_gives_the_rate_of_a_round(void **state) { run(false); }
static void bits_do_not_depend_on_deaths(void **state) { run(true); }

/* ---- Without rounds. */

enum { LARGE = 40000, ROUNDS = 6, SINGLES = 60 };

typedef struct lone { /* the tables of a rank without rounds, and their expected values */
    mr_ps_table *rows, *ordered, *arrays, *coded;
    float rows_are[KEYS], ordered_are[KEYS], array_is[LARGE], coded_is[ITEMS];
} lone;

static void open_tables(mr_ps *ps, lone *lone) {
    const mr_ps_array large = {.name = "large", .dims = 1, .shape = {LARGE}},
                      small = {.name = "small", .dims = 1, .shape = {ITEMS}};
    const mr_ps_table_options rows = MR_OPTIONS(mr_ps_table_options, .optimizer = "sgd", .rate = 1),
                              ordered = MR_OPTIONS(mr_ps_table_options, .optimizer = "sgd", .rate = 1, .ordered = 1,
                                                   .last_key = 1000),
                              arrays = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &large,
                                                  .array_count = 1, .block = 20000, .optimizer = "sgd", .rate = 1),
                              coded = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &small,
                                                 .array_count = 1, .optimizer = "sgd", .rate = 1,
                                                 .compression = "fp16+lz4");
    memset(lone, 0, sizeof *lone);
    must(mr_ps_table_create(ps, "rows", &rows, PS_FIXTURE_PATIENCE_US, &lone->rows));
    must(mr_ps_table_create(ps, "ordered", &ordered, PS_FIXTURE_PATIENCE_US, &lone->ordered));
    must(mr_ps_table_create(ps, "arrays", &arrays, PS_FIXTURE_PATIENCE_US, &lone->arrays));
    must(mr_ps_table_create(ps, "coded", &coded, PS_FIXTURE_PATIENCE_US, &lone->coded));
}

static void close_tables(lone *lone) {
    mr_ps_table_free(lone->rows);
    mr_ps_table_free(lone->ordered);
    mr_ps_table_free(lone->arrays);
    mr_ps_table_free(lone->coded);
}

/* Rates whose multiples are exact, so that the results are: sgd with the rate of the table, 1, if there is none. */
static float exact_rate(uint64_t turn) { return (float[]){0, 0.5f, 2, -1, 0.25f}[turn % 5]; }
static float descent(uint64_t turn) { return exact_rate(turn) == 0 ? 1 : exact_rate(turn) < 0 ? 0 : exact_rate(turn); }

/* Single rows, many in one message: each run of rows has one rate. */
static void push_singles(lone *lone, mr_ps *ps, uint64_t round) {
    static const float one = 1;
    mr_ps_ticket tickets[SINGLES];
    for (uint64_t i = 0; i < SINGLES; i++) {
        uint64_t key = i % KEYS, turn = (i / 4 + round);
        const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .rate = exact_rate(turn));
        must(mr_ps_push(lone->rows, &key, 1, &one, NULL, &options, &tickets[i]));
        lone->rows_are[key] -= descent(turn);
    }
    for (uint64_t i = 0; i < SINGLES; i++) must(mr_ps_wait(ps, tickets[i], PS_FIXTURE_PATIENCE_US));
}

static void push_lists(lone *lone, uint64_t round) {
    float ones[KEYS], shown[KEYS];
    uint64_t keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) keys[i] = i, ones[i] = 1;
    for (uint64_t turn = round; turn < round + 5; turn++) {
        const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .rate = exact_rate(turn));
        for (uint64_t i = 0; i < KEYS; i++) lone->rows_are[i] -= descent(turn), lone->ordered_are[i] -= descent(turn);
        if (turn % 2 == 0) {
            must(mr_ps_push(lone->rows, keys, KEYS, ones, NULL, &options, NULL));
            must(mr_ps_push_range(lone->ordered, 0, KEYS, ones, &options, NULL));
        } else {
            must(mr_ps_push_pull(lone->rows, keys, KEYS, ones, shown, NULL, &options, NULL));
            assert_memory_equal(shown, lone->rows_are, sizeof shown);
            must(mr_ps_push_pull_range(lone->ordered, 0, KEYS, ones, shown, &options, NULL));
            assert_memory_equal(shown, lone->ordered_are, sizeof shown);
        }
    }
}

/* `values` has LARGE ones: in a buffer that servers read, or in memory from which they are sent. */
static void push_arrays(lone *lone, const float *values, uint64_t round) {
    static float shown[LARGE];
    for (uint64_t turn = round; turn < round + 5; turn++) {
        const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .rate = exact_rate(turn));
        size_t first = turn % 3 * 1000;
        for (size_t i = first; i < LARGE; i++) lone->array_is[i] -= descent(turn);
        for (size_t i = 0; i < ITEMS; i++) lone->coded_is[i] -= descent(turn);
        must(mr_ps_push_array(lone->arrays, 0, values, first, LARGE - first, &options, NULL));
        must(mr_ps_push_pull_array(lone->coded, 0, values, shown, 0, ITEMS, &options, NULL));
        assert_memory_equal(shown, lone->coded_is, sizeof lone->coded_is);
    }
    must(mr_ps_pull_array(lone->arrays, 0, shown, 0, LARGE, NULL, NULL));
    assert_memory_equal(shown, lone->array_is, sizeof shown);
}

static void expect_rows(const lone *lone) {
    float shown[KEYS];
    uint64_t keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) keys[i] = i;
    must(mr_ps_pull(lone->rows, keys, KEYS, shown, NULL, NULL, NULL));
    assert_memory_equal(shown, lone->rows_are, sizeof shown);
    must(mr_ps_pull(lone->ordered, keys, KEYS, shown, NULL, NULL, NULL));
    assert_memory_equal(shown, lone->ordered_are, sizeof shown);
}

static void without_rounds_each_push_has_its_rate(void **state) {
    static float plain[LARGE];
    static lone lone;
    scene scene;
    void *buffer;
    uint64_t step;
    start(&scene, MR_PS_ASP, 1, 2);
    mr_ps *ps = ps_fixture_connect(&scene.fixture, 0);
    assert_non_null(ps);
    open_tables(ps, &lone);
    must(mr_ps_buffer_alloc(ps, sizeof plain, &buffer));
    for (size_t i = 0; i < LARGE; i++) plain[i] = ((float *)buffer)[i] = 1;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        if (round == 2 || round == 4) { /* pushes of this step find a chain of one replica, or a new one */
            uint32_t victim = round == 2 ? 0 : 1;
            assert_true(ps_fixture_full(&scene.fixture, 0, NULL));
            ps_fixture_kill(&scene.fixture, &scene.fixture.server[victim]);
            ps_fixture_start_server(&scene.fixture, victim);
        }
        push_singles(&lone, ps, round);
        push_lists(&lone, round);
        push_arrays(&lone, round % 2 == 0 ? buffer : plain, round);
        expect_rows(&lone);
        must(mr_ps_end(ps));
    }
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    assert_true(ps_fixture_full(&scene.fixture, 0, NULL));
    close_tables(&lone);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&scene.fixture));
}

/* ---- Errors and the warning. */

static void refuse(mr_ps_table *table, const mr_ps_request_options *options, const char *text) {
    const uint64_t key = 1;
    const int64_t value = 0;
    assert_int_equal(mr_ps_push(table, &key, 1, &value, NULL, options, NULL), MR_INVALID);
    assert_said(text);
}

static void a_rate_without_effect_is_refused(void **state) {
    static const mr_ps_request_options set = MR_OPTIONS(mr_ps_request_options, .rate = 0.5f, .set = 1),
                                       half = MR_OPTIONS(mr_ps_request_options, .rate = 0.5f),
                                       infinite = MR_OPTIONS(mr_ps_request_options, .rate = -INFINITY),
                                       nan = MR_OPTIONS(mr_ps_request_options, .rate = NAN);
    const mr_ps_table_options sgd = MR_OPTIONS(mr_ps_table_options, .optimizer = "sgd"),
                              counters = MR_OPTIONS(mr_ps_table_options, .dtype = MR_I64);
    uint64_t key = 1;
    float value;
    mr_ps_table *table, *sums, *counts;
    scene scene;
    start(&scene, MR_PS_ASP, 1, 1);
    mr_ps *ps = ps_fixture_connect(&scene.fixture, 0);
    assert_non_null(ps);
    must(mr_ps_table_create(ps, "sgd", &sgd, PS_FIXTURE_PATIENCE_US, &table));
    must(mr_ps_table_create(ps, "sums", NULL, PS_FIXTURE_PATIENCE_US, &sums));
    must(mr_ps_table_create(ps, "counts", &counters, PS_FIXTURE_PATIENCE_US, &counts));
    refuse(table, &nan, "a push to table 'sgd' with the learning rate nan: it must be finite");
    refuse(table, &infinite, "the learning rate -inf: it must be finite");
    refuse(table, &set, "a push to table 'sgd' with the learning rate 0.5 and set: values are assigned without one");
    refuse(sums, &half, "table 'sums' with the learning rate 0.5: its optimizer 'add' has none; these have one: sgd, ");
    refuse(counts, &half, "table 'counts' with the learning rate 0.5: its optimizer 'add' has none");
    assert_int_equal(mr_ps_pull(table, &key, 1, &value, NULL, &half, NULL), MR_INVALID);
    assert_said("a pull from table 'sgd' with the learning rate 0.5: only pushes have one");
    mr_ps_table_free(table);
    mr_ps_table_free(sums);
    mr_ps_table_free(counts);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&scene.fixture));
}

static size_t count_of(const char *text, const char *words) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, words)) != NULL; at += strlen(words)) count++;
    return count;
}

/* Each server warns once about a table. Its stderr is that of this process when the fixture begins. */
static void ranks_that_differ_are_warned_about_once(void **state) {
    scene scene;
    weights shown;
    char text[1 << 16] = "";
    int own = dup(STDERR_FILENO), log = memfd_create("log", 0);
    assert_true(own >= 0 && log >= 0);
    assert_int_equal(dup2(log, STDERR_FILENO), STDERR_FILENO);
    start(&scene, MR_PS_BSP, RANKS, 1);
    assert_int_equal(dup2(own, STDERR_FILENO), STDERR_FILENO);
    for (uint32_t rank = 0; rank < RANKS; rank++) connect(&scene, rank);
    train(&scene, false, &shown);
    for (uint32_t rank = 0; rank < RANKS; rank++) disconnect(&scene, rank);
    assert_true(ps_fixture_fini(&scene.fixture));
    ssize_t size = pread(log, text, sizeof text - 1, 0);
    assert_true(size > 0);
    assert_int_equal(count_of(text, "table 1: the ranks of a step push with different learning rates, "), 1);
    assert_int_equal(count_of(text, "table 2: the ranks of a step push with different learning rates, "), 1);
    assert_int_equal(count_of(text, "different learning rates"), 2);
    close(log);
    close(own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_rank_gives_the_rate_of_a_round), cmocka_unit_test(bits_do_not_depend_on_deaths),
        cmocka_unit_test(without_rounds_each_push_has_its_rate),     cmocka_unit_test(a_rate_without_effect_is_refused),
        cmocka_unit_test(ranks_that_differ_are_warned_about_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
