/* ps_norms_test.c — clipping by the norm of a whole table, and LAMB of arrays in several slots, while servers are
 * killed: the bits equal the same arithmetic in this process. */
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

#include "base/alloc.h"
#include "base/rng.h"
#include "kv/client/table_info.h"
#include "kv/engine/slot_norms.h"
#include "kv/optim/l2_norm.h"
#include "kv/optim/lr_schedule.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/test_child.h"

enum {
    SLOTS = 6,
    RANKS = 2,
    DIM = 3,
    KEYS = 40,
    ITEMS = KEYS * DIM,
    STEPS = 12,
    KILL_EVERY = 4,
    ARRAYS = 2,
    BLOCK = 7
};

/* The ranks run in a child process, which asserts nothing (test_child.h) and exits instead. */
#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) exit(test_child_failed(#condition, __FILE__, __LINE__)); \
    } while (0)

static void must(mr_status status) {
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    CHECK(status == MR_OK);
}

/* ---- The same arithmetic in this process. */

typedef struct twin { /* a table of ITEMS values: rows of DIM, or consecutive arrays */
    table_info table;
    optim optim;
    float values[ITEMS], state[OPTIM_STATES_MAX][ITEMS];
} twin;

static const int64_t array_items[ARRAYS] = {50, ITEMS - 50};

static void twin_init(twin *twin, mr_ps_table *handle, uint32_t id) {
    mr_ps_table_options options = MR_INIT(mr_ps_table_options);
    table_catalog_table table;
    const optim_ops *ops;
    const cluster_map map = {.consistency = {CONSISTENCY_BSP, 0}, .slot_count = SLOTS + 1};
    memset(twin, 0, sizeof *twin);
    mr_ps_table_options_get(handle, &options);
    must(table_catalog_table_init(&table, mr_ps_table_name(handle), &options));
    table.schema.id = id; /* tables are numbered in order of creation */
    must(table_info_init(&twin->table, &table, &map));
    must(optim_find(options.optimizer, &ops));
    must(optim_init(&twin->optim, ops, &table.schema.settings));
    initializer init = table.schema.init;
    init.table = id;
    for (uint64_t i = 0; options.kind == MR_PS_SPARSE && i < KEYS; i++)
        initializer_fill(&init, MR_F32, i * 11 + 2, 0, DIM, twin->values + i * DIM);
    for (uint32_t i = 0, first = 0; options.kind == MR_PS_DENSE && i < ARRAYS; first += (uint32_t)array_items[i++]) {
        init.table = (uint64_t)id << 32 | i;
        initializer_fill(&init, MR_F32, 0, 0, (size_t)array_items[i], twin->values + first);
    }
    table_catalog_table_fini(&table);
}

static bool is_dense(const twin *twin) { return twin->table.table.schema.kind == TABLE_SCHEMA_DENSE; }

static optim_arrays arrays_at(twin *twin, size_t first, const float *gradient) {
    optim_arrays arrays = {.from = twin->values + first, .to = twin->values + first, .gradient = gradient + first};
    for (int i = 0; i < OPTIM_STATES_MAX; i++) arrays.state[i] = twin->state[i] + first;
    return arrays;
}

typedef void block_fn(twin *twin, uint32_t array, uint32_t block, size_t first, size_t count, void *context);

static void each_block(twin *twin, block_fn *fn, void *context) {
    size_t start = 0;
    for (uint32_t array = 0; array < ARRAYS; start += (size_t)array_items[array++]) {
        const dense_table_plan *plan = &twin->table.arrays[array].plan;
        for (uint32_t block = 0; block < plan->blocks; block++)
            fn(twin, array, block, start + dense_table_first(plan, block), dense_table_count(plan, block), context);
    }
}

typedef struct measuring {
    const float *gradient;
    optim_moment moment;
    bool whole; /* true: the norm is that of the gradient; false: of values and updates */
    uint32_t slot;
    slot_norms found;
} measuring;

static void measure_block(twin *twin, uint32_t array, uint32_t block, size_t first, size_t count, void *context) {
    measuring *at = context;
    if (table_info_block_slot(&twin->table, array, block) != at->slot) return;
    if (at->whole) {
        slot_norms_add(&at->found, 1, SLOT_NORMS_WHOLE, l2_norm_squares(at->gradient + first, count), 0);
        return;
    }
    double squares[2];
    optim_arrays arrays = arrays_at(twin, first, at->gradient);
    optim_measure(&twin->optim, &at->moment, &arrays, count, squares);
    slot_norms_add(&at->found, 1, 1 + array, squares[0], squares[1]);
}

/* Adds the keys of a slot, in their order. */
static void measure_rows(twin *twin, measuring *at) {
    float values[ITEMS];
    size_t count = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        if (slot_placement_slot(&twin->table.placement, i * 11 + 2) != at->slot) continue;
        memcpy(values + count, at->gradient + i * DIM, DIM * sizeof *values);
        count += DIM;
    }
    if (count != 0) slot_norms_add(&at->found, 1, SLOT_NORMS_WHOLE, l2_norm_squares(values, count), 0);
}

static slot_norms measured(twin *twin, const float *gradient, bool whole, const optim_moment *moment) {
    shared_bytes *parts[SLOTS];
    span spans[SLOTS];
    slot_norms all = {0};
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        measuring at = {gradient, *moment, whole, slot, {0}};
        if (is_dense(twin))
            each_block(twin, measure_block, &at);
        else
            measure_rows(twin, &at);
        parts[slot] = slot_norms_write(&at.found);
        spans[slot] = shared_bytes_bytes(parts[slot]);
        slot_norms_fini(&at.found);
    }
    shared_bytes *sum = slot_norms_combine(NULL, spans, SLOTS);
    CHECK(slot_norms_read(&all, shared_bytes_bytes(sum)));
    shared_bytes_unref(sum);
    for (uint32_t slot = 0; slot < SLOTS; slot++) shared_bytes_unref(parts[slot]);
    return all;
}

/* The learning rate that a rank gives with its pushes of a step; 0: none. That of rank 0 applies if it gives one. */
static float pushed_rate(uint64_t t, int rank) { return (t + (uint64_t)rank) % 4 < 2 ? 0 : 0.01f * (float)(rank + 1); }

static float rate_of(const twin *twin, uint64_t t) {
    for (int rank = 0; rank < RANKS; rank++)
        if (pushed_rate(t, rank) != 0) return pushed_rate(t, rank);
    return lr_schedule_rate(&twin->table.table.schema.schedule, t - 1);
}

/* Applies a step as one update with the scaled sum of all ranks. */
static bool twin_push(twin *twin, uint64_t t, const float *gradient) {
    const table_schema *schema = &twin->table.table.schema;
    float mean = schema->average ? (float)(1 / (double)RANKS) : 1, clip = 1;
    optim_moment moment = optim_at(&twin->optim, t, rate_of(twin, t), mean);
    if (schema->clip_norm != 0) {
        slot_norms whole = measured(twin, gradient, true, &moment);
        double squares = slot_norms_find(&whole, 1, SLOT_NORMS_WHOLE)->squares[0] * ((double)mean * (double)mean);
        clip = l2_norm_clip(squares, (double)schema->clip_norm);
        moment.scale = mean * clip;
        slot_norms_fini(&whole);
    }
    if (!is_dense(twin)) {
        for (size_t i = 0; i < KEYS; i++) {
            optim_arrays row = arrays_at(twin, i * DIM, gradient);
            double squares[2];
            if (optim_measures(&twin->optim)) optim_measure(&twin->optim, &moment, &row, DIM, squares);
            if (optim_measures(&twin->optim)) moment.trust = l2_norm_trust(squares[0], squares[1]);
            optim_apply(&twin->optim, &moment, &row, DIM);
        }
        return clip < 1;
    }
    slot_norms arrays = {0};
    if (optim_measures(&twin->optim)) arrays = measured(twin, gradient, false, &moment);
    size_t first = 0;
    for (uint32_t i = 0; i < ARRAYS; first += (size_t)array_items[i++]) {
        const slot_norms_item *item = slot_norms_find(&arrays, 1, 1 + i);
        moment.trust = item == NULL ? 1 : l2_norm_trust(item->squares[0], item->squares[1]);
        optim_arrays array = arrays_at(twin, first, gradient);
        optim_apply(&twin->optim, &moment, &array, (size_t)array_items[i]);
    }
    slot_norms_fini(&arrays);
    return clip < 1;
}

/* ---- Tables on servers. */

static const mr_ps_array arrays[ARRAYS] = {{"first", 1, {50}}, {"second", 2, {7, 10}}};

static const struct {
    const char *name;
    mr_ps_table_options options;
} tables[] = {
    {"clipped rows",
     {.size = sizeof(mr_ps_table_options),
      .dim = DIM,
      .optimizer = "momentum",
      .schedule = "cosine:20:0.01+warmup:3",
      .rate = 0.2f,
      .decay = 0.01f,
      .average = 1,
      .clip_norm = 1.5f,
      .initializer = "uniform:-1:1"}},
    {"rows of lamb",
     {.size = sizeof(mr_ps_table_options),
      .dim = DIM,
      .optimizer = "lamb",
      .rate = 0.05f,
      .clip_norm = 4,
      .decay = 0.1f,
      .initializer = "normal:0:1"}},
    {"arrays of lamb",
     {.size = sizeof(mr_ps_table_options),
      .kind = MR_PS_DENSE,
      .arrays = arrays,
      .array_count = ARRAYS,
      .block = BLOCK,
      .optimizer = "lamb",
      .rate = 0.05f,
      .decay = 0.02f,
      .initializer = "normal:0:0.5"}},
    {"clipped arrays of lamb",
     {.size = sizeof(mr_ps_table_options),
      .kind = MR_PS_DENSE,
      .arrays = arrays,
      .array_count = ARRAYS,
      .block = BLOCK,
      .optimizer = "lamb",
      .schedule = "step:4:0.5",
      .rate = 0.05f,
      .average = 1,
      .clip_norm = 1.5f,
      .initializer = "normal:0:0.5"}},
    {"clipped arrays",
     {.size = sizeof(mr_ps_table_options),
      .kind = MR_PS_DENSE,
      .arrays = arrays,
      .array_count = ARRAYS,
      .block = BLOCK,
      .optimizer = "adamw",
      .rate = 0.01f,
      .decay = 0.1f,
      .clip_norm = 4}},
    {"plain rows", {.size = sizeof(mr_ps_table_options), .dim = DIM, .optimizer = "adagrad"}},
};
enum { TABLES = sizeof tables / sizeof *tables };

typedef struct scene {
    ps_fixture fixture;
    volatile uint64_t *page; /* shared: step in which the test must kill a server, and step in which it did */
    mr_ps *ps[RANKS];
    mr_ps_table *table[RANKS][TABLES];
    twin twins[TABLES];
    uint64_t keys[KEYS];
} scene;

/* ---- The ranks. */

static void connect(scene *scene) {
    for (int i = 0; i < RANKS; i++)
        must(mr_ps_connect(scene->fixture.address, i, PS_FIXTURE_PATIENCE_US, &scene->ps[i]));
    for (size_t k = 0; k < TABLES; k++) {
        for (int i = 0; i < RANKS; i++)
            must(mr_ps_table_create(scene->ps[i], tables[k].name, &tables[k].options, PS_FIXTURE_PATIENCE_US,
                                    &scene->table[i][k]));
        twin_init(&scene->twins[k], scene->table[0][k], (uint32_t)k + 1);
    }
    for (uint64_t i = 0; i < KEYS; i++) scene->keys[i] = i * 11 + 2;
}

static void leave(scene *scene) {
    for (int i = 0; i < RANKS; i++) {
        for (size_t k = 0; k < TABLES; k++) mr_ps_table_free(scene->table[i][k]);
        mr_ps_close(scene->ps[i]);
    }
    for (size_t k = 0; k < TABLES; k++) table_info_fini(&scene->twins[k].table);
}

static void push(scene *scene, int rank, uint64_t t, size_t k, const float *gradient) {
    const mr_ps_request_options options = MR_OPTIONS(mr_ps_request_options, .rate = pushed_rate(t, rank));
    mr_ps_table *table = scene->table[rank][k];
    size_t first = 0;
    if (tables[k].options.kind == MR_PS_SPARSE)
        must(mr_ps_push(table, scene->keys, KEYS, gradient, NULL, &options, &(mr_ps_ticket){0}));
    for (uint32_t i = 0; tables[k].options.kind == MR_PS_DENSE && i < ARRAYS; first += (size_t)array_items[i++])
        must(mr_ps_push_array(table, i, gradient + first, 0, (size_t)array_items[i], &options, &(mr_ps_ticket){0}));
}

static void compare(scene *scene, int rank, size_t k) {
    float shown[ITEMS];
    size_t first = 0;
    if (tables[k].options.kind == MR_PS_SPARSE)
        must(mr_ps_pull(scene->table[rank][k], scene->keys, KEYS, shown, NULL, NULL, NULL));
    for (uint32_t i = 0; tables[k].options.kind == MR_PS_DENSE && i < ARRAYS; first += (size_t)array_items[i++])
        must(mr_ps_pull_array(scene->table[rank][k], i, shown + first, 0, (size_t)array_items[i], NULL, NULL));
    for (size_t i = 0; i < ITEMS; i++) {
        float expected = scene->twins[k].values[i];
        bool same = memcmp(&shown[i], &expected, sizeof expected) == 0;
        if (!same)
            fprintf(stderr, "%s: item %zu is %a, and should be %a\n", tables[k].name, i, (double)shown[i],
                    (double)expected);
        CHECK(same);
    }
}

/* Asks for the death of a server when one rank has ended its step, and the round is open. */
static void let_kill(scene *scene, uint64_t t) {
    scene->page[0] = t;
    for (int i = 0; scene->page[1] != t && i < 60000; i++) usleep(1000);
    CHECK(scene->page[1] == t);
}

static void step(scene *scene, uint64_t t, rng *rng, size_t clipped[TABLES]) {
    static float gradients[RANKS][TABLES][ITEMS], sum[ITEMS];
    double size = t % 3 == 0 ? 0.01 : 1; /* some gradients are below the limit */
    for (int rank = 0; rank < RANKS; rank++) {
        uint64_t begun = 0;
        must(mr_ps_begin(scene->ps[rank], PS_FIXTURE_PATIENCE_US, &begun));
        CHECK(begun == t - 1);
        for (size_t k = 0; k < TABLES; k++) compare(scene, rank, k);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        for (size_t k = 0; k < TABLES; k++) {
            for (size_t i = 0; i < ITEMS; i++) gradients[rank][k][i] = (float)((rng_unit(rng) - 0.5) * size);
            push(scene, rank, t, k, gradients[rank][k]);
        }
        must(mr_ps_end(scene->ps[rank]));
        if (rank == 0 && t % KILL_EVERY == 3) let_kill(scene, t);
    }
    for (int rank = 0; rank < RANKS; rank++) must(mr_ps_flush(scene->ps[rank], PS_FIXTURE_PATIENCE_US));
    for (size_t k = 0; k < TABLES; k++) {
        for (size_t i = 0; i < ITEMS; i++) sum[i] = gradients[0][k][i] + gradients[1][k][i];
        clipped[k] += twin_push(&scene->twins[k], t, sum);
    }
}

static int be_ranks(void *argument) {
    scene *scene = argument;
    size_t clipped[TABLES] = {0};
    rng rng;
    rng_init(&rng, 11);
    connect(scene);
    for (uint64_t t = 1; t <= STEPS; t++) step(scene, t, &rng, clipped);
    must(mr_ps_begin(scene->ps[0], PS_FIXTURE_PATIENCE_US, &(uint64_t){0}));
    for (size_t k = 0; k < TABLES; k++) { /* the limits clip some gradients, but not all */
        bool clips = tables[k].options.clip_norm != 0;
        TEST_CHILD_CHECK(clips ? clipped[k] > 0 && clipped[k] < STEPS : clipped[k] == 0);
        compare(scene, 0, k);
    }
    leave(scene);
    free(scene);
    return 0;
}

/* ---- The process that kills. */

static void kill_in(scene *scene, uint64_t t) {
    uint32_t victim = (uint32_t)(t / KILL_EVERY) % scene->fixture.servers;
    for (int i = 0; scene->page[0] != t && i < 60000; i++) usleep(1000);
    assert_int_equal(scene->page[0], t);
    assert_true(ps_fixture_full(&scene->fixture, 0, NULL));
    mr_ps_replica dead = ps_fixture_process(&scene->fixture, victim);
    ps_fixture_kill(&scene->fixture, &scene->fixture.server[victim]);
    ps_fixture_start_server(&scene->fixture, victim);
    scene->page[1] = t;
    assert_true(ps_fixture_full(&scene->fixture, 0, &dead));
}

static void the_bits_equal_one_process_after_any_kill(void **state) {
    scene *scene = xcalloc(1, sizeof *scene);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    scene->page = page;
    scene->fixture =
        (ps_fixture){.servers = 3, .workers = RANKS, .slots = SLOTS, .copies = 2, .consistency = MR_PS_BSP};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < scene->fixture.servers; i++) ps_fixture_start_server(&scene->fixture, i);
    pid_t ranks = test_child_start(be_ranks, scene);
    for (uint64_t t = 3; t <= STEPS; t += KILL_EVERY) kill_in(scene, t);
    assert_int_equal(test_child_wait(ranks, 120000), 0);
    assert_true(ps_fixture_fini(&scene->fixture));
    munmap(page, 4096);
    free(scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_bits_equal_one_process_after_any_kill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
