/* ps_skip_test.c — ranks that are left out of steps (mr_ps_skip, skip_nonfinite), in real processes: what the others
 * pushed is averaged over them alone, in every slot, also when servers are killed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { RANKS = 3, SLOTS = 4, ITEMS = 600, BLOCK = 100, KEYS = 16, STEPS = 24 };

typedef struct weights {
    float array[ITEMS], rows[KEYS], coded[ITEMS];
} weights;

typedef struct scene {
    ps_fixture fixture;
    uint32_t ranks;
    const char *codec;
    mr_ps *ps[RANKS];
    mr_ps_table *array[RANKS], *rows[RANKS], *coded[RANKS];
    uint64_t keys[KEYS];
} scene;

static void connect(scene *scene, uint32_t rank) {
    const mr_ps_array array = {.name = "weights", .dims = 1, .shape = {ITEMS}};
    bool rounds = scene->fixture.consistency == MR_PS_BSP;
    const mr_ps_table_options means = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                                 .array_count = 1, .block = BLOCK, .optimizer = "sgd", .rate = 1,
                                                 .average = rounds),
                              sums = MR_OPTIONS(mr_ps_table_options, .precision = "fp16"),
                              coded = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = &array,
                                                 .array_count = 1, .block = BLOCK, .compression = scene->codec);
    mr_ps *ps = scene->ps[rank] = ps_fixture_connect(&scene->fixture, (int)rank);
    assert_non_null(ps);
    must(mr_ps_table_create(ps, "means", &means, PS_FIXTURE_PATIENCE_US, &scene->array[rank]));
    must(mr_ps_table_create(ps, "sums", &sums, PS_FIXTURE_PATIENCE_US, &scene->rows[rank]));
    must(mr_ps_table_create(ps, "coded", &coded, PS_FIXTURE_PATIENCE_US, &scene->coded[rank]));
}

static void disconnect(scene *scene, uint32_t rank) {
    mr_ps_table_free(scene->array[rank]);
    mr_ps_table_free(scene->rows[rank]);
    mr_ps_table_free(scene->coded[rank]);
    mr_ps_close(scene->ps[rank]);
}

static void begin(scene *scene, mr_ps_consistency consistency, uint32_t ranks, uint32_t copies, const char *codec) {
    *scene = (struct scene){.ranks = ranks, .codec = codec};
    scene->fixture =
        (ps_fixture){.servers = 2, .workers = ranks, .slots = SLOTS, .copies = copies, .consistency = consistency};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&scene->fixture, i);
    for (size_t i = 0; i < KEYS; i++) scene->keys[i] = i * 7 + 1;
    for (uint32_t rank = 0; rank < ranks; rank++) connect(scene, rank);
}

static void end(scene *scene) {
    for (uint32_t rank = 0; rank < scene->ranks; rank++) disconnect(scene, rank);
    scene->fixture.workers = 0;
    assert_true(ps_fixture_fini(&scene->fixture));
}

static bool is_left_out(uint64_t step, uint32_t rank) {
    return step % 6 == 4 || (step * 5 + rank * 3) % 4 == 0; /* in every sixth step all ranks are */
}

static float gradient(uint64_t step, uint32_t rank, size_t item) {
    return (float)((step * 31 + rank * 17 + item * 7) % 41) - 20;
}

typedef enum way { BEFORE, AMONG, BEHIND, CALL, WAYS } way; /* place of the value that is not finite, or mr_ps_skip */

typedef struct values { /* of a rank's step, until its end */
    float array[ITEMS], rows[KEYS], coded[ITEMS];
    mr_ps_ticket tickets[3];
} values;

static void push(const scene *scene, uint32_t rank, uint64_t step, way way, values *values) {
    static const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .skip_nonfinite = 1);
    mr_ps_ticket *tickets = values->tickets;
    bool skips = is_left_out(step, rank);
    for (size_t i = 0; i < ITEMS; i++) values->array[i] = values->coded[i] = gradient(step, rank, i);
    for (size_t i = 0; i < KEYS; i++) values->rows[i] = gradient(step, rank, i);
    if (skips && way == BEFORE) values->array[ITEMS - 1] = NAN;
    if (skips && way == AMONG) values->coded[ITEMS / 2] = -INFINITY;
    if (skips && way == BEHIND) values->rows[KEYS - 1] = 65520; /* an infinity in fp16 */
    if (skips && way == CALL) must(mr_ps_skip(scene->ps[rank]));
    must(mr_ps_push_array(scene->array[rank], 0, values->array, 0, ITEMS, &options, &tickets[0]));
    must(mr_ps_push_array(scene->coded[rank], 0, values->coded, 0, ITEMS, &options, &tickets[1]));
    must(mr_ps_push(scene->rows[rank], scene->keys, KEYS, values->rows, NULL, &options, &tickets[2]));
}

/* A server dies and comes back, and a rank loses its connection inside a step, which it then repeats. */
static void disturb(scene *scene, uint64_t step, way way, values *values) {
    uint32_t server = step % 2 == 0 ? 0 : 1, rank = (uint32_t)(step % RANKS);
    uint64_t found;
    assert_true(ps_fixture_full(&scene->fixture, 0, NULL));
    ps_fixture_kill(&scene->fixture, &scene->fixture.server[server]);
    ps_fixture_start_server(&scene->fixture, server);
    push(scene, rank, step, way, &values[rank]);
    disconnect(scene, rank);
    connect(scene, rank);
    must(mr_ps_begin(scene->ps[rank], PS_FIXTURE_PATIENCE_US, &found));
    assert_int_equal(found, step);
}

static void train(scene *scene, way way, bool disturbs, weights *out) {
    static values values[RANKS];
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            uint64_t found;
            must(mr_ps_begin(scene->ps[rank], PS_FIXTURE_PATIENCE_US, &found));
            assert_int_equal(found, step);
        }
        if (disturbs && step % 8 == 6) disturb(scene, step, way, values);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            uint64_t before = mr_ps_skipped(scene->ps[rank]);
            push(scene, rank, step, way, &values[rank]);
            must(mr_ps_end(scene->ps[rank]));
            assert_int_equal(mr_ps_skipped(scene->ps[rank]) - before, is_left_out(step, rank));
        }
        for (uint32_t rank = 0; rank < RANKS; rank++)
            for (int i = 0; i < 3; i++)
                must(mr_ps_wait(scene->ps[rank], values[rank].tickets[i], PS_FIXTURE_PATIENCE_US));
    }
    uint64_t last;
    if (disturbs) assert_true(ps_fixture_full(&scene->fixture, 0, NULL)); /* the last server has come back */
    must(mr_ps_begin(scene->ps[1], PS_FIXTURE_PATIENCE_US, &last));
    must(mr_ps_pull_array(scene->array[1], 0, out->array, 0, ITEMS, NULL, NULL));
    must(mr_ps_pull_array(scene->coded[1], 0, out->coded, 0, ITEMS, NULL, NULL));
    must(mr_ps_pull(scene->rows[1], scene->keys, KEYS, out->rows, NULL, NULL, NULL));
}

/* The same arithmetic in this process; without the coded table. */
static void compute(weights *out) {
    memset(out, 0, sizeof *out);
    for (uint64_t step = 0; step < STEPS; step++)
        for (size_t i = 0; i < ITEMS; i++) {
            float sum = 0, members = 0;
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                if (is_left_out(step, rank)) continue;
                sum += gradient(step, rank, i);
                members++;
            }
            if (members != 0) out->array[i] -= sum / members;
            if (i < KEYS) out->rows[i] += sum;
        }
}

static void run(way way, bool disturbs, const char *codec, weights *out) {
    scene scene;
    weights expected;
    begin(&scene, MR_PS_BSP, RANKS, disturbs ? 2 : 1, codec);
    train(&scene, way, disturbs, out);
    end(&scene);
    compute(&expected);
    assert_memory_equal(out->rows, expected.rows, sizeof expected.rows);
    for (size_t i = 0; i < ITEMS; i++)
        if (fabsf(out->array[i] - expected.array[i]) > 1e-3f)
            fail_msg("item %zu is %g, expected %g", i, (double)out->array[i], (double)expected.array[i]);
}

static void whole_steps_are_left_out(void **state) {
    static weights weights[WAYS];
    for (way way = 0; way < WAYS; way++) run(way, false, "topk:0.1", &weights[way]);
    for (way way = 1; way < WAYS; way++) /* error feedback, too, knows nothing of these steps */
        assert_memory_equal(&weights[way], &weights[0], sizeof *weights);
}

static void bits_do_not_depend_on_deaths(void **state) {
    static weights plain, killed;
    run(AMONG, false, "topk:0.1", &plain);
    run(AMONG, true, "topk:0.1", &killed);
    assert_memory_equal(&plain, &killed, sizeof plain);
}

/* Without rounds only the push that is not finite is left out. */
static void without_rounds_a_push_is_left_out(void **state) {
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .skip_nonfinite = 1);
    static float good[ITEMS], shown[ITEMS];
    float rows[KEYS], found[KEYS];
    scene scene;
    begin(&scene, MR_PS_ASP, 1, 1, "int8");
    assert_int_equal(mr_ps_skip(scene.ps[0]), MR_STALE);
    for (size_t i = 0; i < ITEMS; i++) good[i] = 1;
    for (size_t i = 0; i < KEYS; i++) rows[i] = 2;
    must(mr_ps_push_array(scene.array[0], 0, good, 0, ITEMS, &options, NULL));
    good[7] = NAN;
    must(mr_ps_push_array(scene.array[0], 0, good, 0, ITEMS, &options, NULL));
    must(mr_ps_push_array(scene.coded[0], 0, good, 0, ITEMS, &options, NULL)); /* not MR_INVALID of the codec */
    must(mr_ps_pull_array(scene.array[0], 0, shown, 0, ITEMS, NULL, NULL));
    for (size_t i = 0; i < ITEMS; i++) assert_true(shown[i] == -1);
    must(mr_ps_pull_array(scene.coded[0], 0, shown, 0, ITEMS, NULL, NULL));
    for (size_t i = 0; i < ITEMS; i++) assert_true(shown[i] == 0);
    must(mr_ps_push(scene.rows[0], scene.keys, KEYS, rows, NULL, &options, NULL));
    rows[0] = INFINITY;
    must(mr_ps_push_pull(scene.rows[0], scene.keys, KEYS, rows, found, NULL, &options, NULL)); /* pulls nevertheless */
    must(mr_ps_push(scene.rows[0], scene.keys, 1, rows, NULL, &options, NULL));
    for (size_t i = 0; i < KEYS; i++) assert_true(found[i] == 2);
    assert_int_equal(mr_ps_skipped(scene.ps[0]), 4);
    must(mr_ps_push(scene.rows[0], scene.keys, 1, rows, NULL, NULL, NULL)); /* without the option */
    must(mr_ps_pull(scene.rows[0], scene.keys, 1, found, NULL, NULL, NULL));
    assert_true(isinf(found[0]));
    end(&scene);
}

static void a_mean_needs_rounds(void **state) {
    const mr_ps_table_options mean = MR_OPTIONS(mr_ps_table_options, .average = 1);
    mr_ps_table *table;
    scene scene;
    begin(&scene, MR_PS_ASP, 1, 1, "int8");
    assert_int_equal(mr_ps_table_create(scene.ps[0], "mean", &mean, PS_FIXTURE_PATIENCE_US, &table), MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "only bsp tables can average over the ranks, and table 'mean' is asp"));
    end(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_steps_are_left_out),
        cmocka_unit_test(bits_do_not_depend_on_deaths),
        cmocka_unit_test(without_rounds_a_push_is_left_out),
        cmocka_unit_test(a_mean_needs_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
