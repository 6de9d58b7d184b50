/* ps_large_test.c — real models: a table of 10,000 arrays, thousands of tables, and the names and shapes of BERT-large,
 * with default options; created, pushed, pulled, listed, saved, and there again after all processes were killed.
 *
 * With MINIRAY_LARGE (make soak) there are 5,000 tables and all 340 M parameters of BERT-large; without, 1,500 tables,
 * each with one or two synced writes of a disk, and arrays of the same names with fewer rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/safetensors.h"
#include "net/disk.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/status_assert.h"

enum { ARRAYS = 10000, SLOTS = 16, PUSHED = 100 };

static bool is_large(void) { return getenv("MINIRAY_LARGE") != NULL; }
static int table_count(void) { return is_large() ? 5000 : 1500; }

static ps_fixture begin(void) {
    ps_fixture fixture = {.servers = 2,
                          .workers = 1,
                          .slots = SLOTS,
                          .copies = 1,
                          .consistency = MR_PS_ASP,
                          .checkpoint_us = INT64_C(1000000000)};
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < fixture.servers; i++) ps_fixture_start_server(&fixture, i);
    return fixture;
}

static mr_ps *connect(const ps_fixture *fixture) {
    mr_ps *ps = ps_fixture_connect(fixture, 0);
    assert_non_null(ps);
    return ps;
}

/* Makes a checkpoint, kills all processes, and starts them again. */
static void kill_and_restart(ps_fixture *fixture) {
    uint64_t number;
    must(mr_ps_checkpoint(fixture->address, PS_FIXTURE_PATIENCE_US, &number));
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_kill(fixture, &fixture->server[i]);
    ps_fixture_kill(fixture, &fixture->scheduler);
    assert_true(ps_fixture_start_scheduler(fixture));
    for (uint32_t i = 0; i < fixture->servers; i++) ps_fixture_start_server(fixture, i);
}

/* The first request after the loss of all replicas says that the tables continue from the checkpoint. */
static void hear_of_loss(mr_ps_table *table, mr_ps_kind kind) {
    const uint64_t key = 0;
    float values[2];
    mr_status status = kind == MR_PS_DENSE ? mr_ps_pull_array(table, 0, values, 0, 1, NULL, NULL)
                                           : mr_ps_pull(table, &key, 1, values, NULL, NULL, NULL);
    assert_int_equal(status, MR_STALE);
}

static double seconds(int64_t since_us) { return (double)(clock_now_us(clock_real()) - since_us) / 1e6; }

/* ---- BERT-large. */

typedef struct model {
    mr_ps_array *arrays;
    char (*names)[MR_PS_NAME_MAX];
    uint32_t count;
} model;

static void add_array(model *model, const char *name, int64_t rows, int64_t columns) {
    mr_ps_array *array = &model->arrays[model->count];
    snprintf(model->names[model->count], sizeof *model->names, "%s", name);
    *array = (mr_ps_array){.name = model->names[model->count++], .dims = columns == 0 ? 1 : 2};
    array->shape[0] = columns == 0 && !is_large() ? 8 : rows;
    array->shape[1] = columns;
    if (columns != 0 && !is_large()) array->shape[0] = 2;
}

static void add_linear(model *model, const char *name, int64_t out, int64_t in) {
    char full[MR_PS_NAME_MAX];
    snprintf(full, sizeof full, "%s.weight", name);
    add_array(model, full, out, in);
    snprintf(full, sizeof full, "%s.bias", name);
    add_array(model, full, out, 0);
}

/* Names and shapes of `bert-large-uncased`, as transformers.BertForMaskedLM has them. */
static model bert_large(void) {
    static const struct {
        const char *name;
        int64_t out, in;
    } layers[] = {{"attention.self.query", 1024, 1024},
                  {"attention.self.key", 1024, 1024},
                  {"attention.self.value", 1024, 1024},
                  {"attention.output.dense", 1024, 1024},
                  {"attention.output.LayerNorm", 1024, 0},
                  {"intermediate.dense", 4096, 1024},
                  {"output.dense", 1024, 4096},
                  {"output.LayerNorm", 1024, 0}};
    model model = {.arrays = xcalloc(400, sizeof *model.arrays), .names = xcalloc(400, sizeof *model.names)};
    add_array(&model, "bert.embeddings.word_embeddings.weight", 30522, 1024);
    add_array(&model, "bert.embeddings.position_embeddings.weight", 512, 1024);
    add_array(&model, "bert.embeddings.token_type_embeddings.weight", 2, 1024);
    add_linear(&model, "bert.embeddings.LayerNorm", 1024, 0);
    for (int layer = 0; layer < 24; layer++)
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            char name[MR_PS_NAME_MAX - 8];
            snprintf(name, sizeof name, "bert.encoder.layer.%d.%s", layer, layers[i].name);
            add_linear(&model, name, layers[i].out, layers[i].in);
        }
    add_linear(&model, "bert.pooler.dense", 1024, 1024);
    add_linear(&model, "cls.predictions.transform.dense", 1024, 1024);
    add_linear(&model, "cls.predictions.transform.LayerNorm", 1024, 0);
    add_array(&model, "cls.predictions.bias", 30522, 0);
    return model;
}

static uint64_t items_of(const mr_ps_array *array) {
    return (uint64_t)(array->shape[0] * (array->dims == 2 ? array->shape[1] : 1));
}

static float value_of(uint32_t array, uint64_t item) { return (float)array + (float)(item % 1000) / 1024; }

static void push_all(mr_ps_table *table, const model *model) {
    for (uint32_t i = 0; i < model->count; i++) {
        uint64_t items = items_of(&model->arrays[i]);
        float *values = xmalloc(items * sizeof *values);
        for (uint64_t k = 0; k < items; k++) values[k] = value_of(i, k);
        must(mr_ps_push_array(table, i, values, 0, items, NULL, NULL));
        free(values);
    }
}

static void check_all(mr_ps_table *table, const model *model) {
    for (uint32_t i = 0; i < model->count; i++) {
        uint64_t items = items_of(&model->arrays[i]), wrong = 0;
        float *values = xmalloc(items * sizeof *values);
        must(mr_ps_pull_array(table, i, values, 0, items, NULL, NULL));
        for (uint64_t k = 0; k < items; k++) wrong += values[k] != value_of(i, k);
        assert_int_equal(wrong, 0);
        free(values);
    }
}

static void bert_large_survives(void **state) {
    ps_fixture fixture = begin();
    model model = bert_large();
    uint64_t items = 0;
    for (uint32_t i = 0; i < model.count; i++) items += items_of(&model.arrays[i]);
    assert_in_range(model.count, 390, 400);
    if (is_large()) assert_in_range(items, 334000000, 345000000);
    mr_ps_table *table;
    mr_ps *ps = connect(&fixture);
    mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = model.arrays, .array_count = model.count);
    must(mr_ps_table_create(ps, "bert-large-uncased", &options, PS_FIXTURE_PATIENCE_US, &table));
    push_all(table, &model);
    check_all(table, &model);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    kill_and_restart(&fixture);
    ps = connect(&fixture);
    must(mr_ps_table_create(ps, "bert-large-uncased", &options, PS_FIXTURE_PATIENCE_US, &table));
    hear_of_loss(table, MR_PS_DENSE);
    check_all(table, &model);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    free(model.arrays);
    free(model.names);
    assert_true(ps_fixture_fini(&fixture));
}

/* ---- Many arrays, and many tables. */

static void check_arrays(mr_ps_table *table) {
    for (uint32_t i = 0; i < ARRAYS; i += ARRAYS / PUSHED) {
        float values[6];
        must(mr_ps_pull_array(table, i, values, 0, 6, NULL, NULL));
        for (uint32_t k = 0; k < 6; k++) assert_true(values[k] == value_of(i, k));
    }
    float none;
    must(mr_ps_pull_array(table, ARRAYS - 1, &none, 5, 1, NULL, NULL));
    assert_true(none == 0);
}

/* The checkpoint is listed, and its export has every array. */
static void check_export(const ps_fixture *fixture, const char (*names)[40]) {
    mr_ps_checkpoints *list;
    char path[sizeof fixture->folder + 16], name[64];
    disk disk;
    buffer file;
    safetensors tensors;
    must(mr_ps_checkpoints_get(fixture->folder, &list));
    assert_true(list->count != 0 && list->list[0].table_count == 1);
    assert_int_equal(list->list[0].tables[0].rows, PUSHED * 6);
    mr_ps_checkpoints_free(list);
    snprintf(path, sizeof path, "%s/manifest.out", fixture->folder); /* is removed with the manifests */
    int64_t begun_us = clock_now_us(clock_real());
    must(mr_ps_checkpoint_export(fixture->folder, 0, path));
    printf("its checkpoint is exported in %.3f s\n", seconds(begun_us));
    must(disk_open(fixture->folder, &disk));
    buffer_init(&file, 64 << 20);
    must(disk_read_all(disk, "manifest.out", 64 << 20, &file));
    must(safetensors_read(span_of(file.data, file.size), &tensors));
    assert_int_equal(tensors.count, ARRAYS);
    for (uint32_t i = 0; i < ARRAYS; i++) {
        snprintf(name, sizeof name, "deep/%s", names[i]);
        const safetensor *tensor = safetensors_find(&tensors, name);
        const float expected = i % (ARRAYS / PUSHED) == 0 ? value_of(i, 5) : 0;
        assert_true(tensor != NULL && tensor->data.size == 6 * sizeof expected);
        assert_memory_equal(tensor->data.data + 5 * sizeof expected, &expected, sizeof expected);
    }
    safetensors_fini(&tensors);
    buffer_fini(&file);
    disk_close(disk);
}

static void a_table_has_ten_thousand_arrays(void **state) {
    ps_fixture fixture = begin();
    mr_ps_array *arrays = xcalloc(ARRAYS, sizeof *arrays);
    char(*names)[40] = xcalloc(ARRAYS, sizeof *names);
    for (int i = 0; i < ARRAYS; i++) {
        snprintf(names[i], sizeof *names, "decoder.block.%d.layer.%d.weight", i / 10, i % 10);
        arrays[i] = (mr_ps_array){.name = names[i], .dims = 2, .shape = {3, 2}};
    }
    mr_ps_table *table;
    mr_ps *ps = connect(&fixture);
    mr_ps_table_options options =
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = arrays, .array_count = ARRAYS);
    int64_t begun_us = clock_now_us(clock_real());
    must(mr_ps_table_create(ps, "deep", &options, PS_FIXTURE_PATIENCE_US, &table));
    printf("a table of %d arrays is created in %.3f s\n", ARRAYS, seconds(begun_us));
    for (uint32_t i = 0; i < ARRAYS; i += ARRAYS / PUSHED) {
        float values[6];
        for (uint32_t k = 0; k < 6; k++) values[k] = value_of(i, k);
        must(mr_ps_push_array(table, i, values, 0, 6, NULL, NULL));
    }
    check_arrays(table);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    kill_and_restart(&fixture);
    ps = connect(&fixture);
    begun_us = clock_now_us(clock_real());
    must(mr_ps_table_open(ps, "deep", PS_FIXTURE_PATIENCE_US, &table));
    printf("it is opened in %.3f s\n", seconds(begun_us));
    hear_of_loss(table, MR_PS_DENSE);
    mr_ps_table_options found = MR_INIT(mr_ps_table_options);
    mr_ps_table_options_get(table, &found);
    assert_int_equal(found.array_count, ARRAYS);
    assert_string_equal(found.arrays[ARRAYS - 1].name, names[ARRAYS - 1]);
    check_arrays(table);
    check_export(&fixture, (const char(*)[40])names);
    mr_ps_table_free(table);
    mr_ps_close(ps);
    free(arrays);
    free(names);
    assert_true(ps_fixture_fini(&fixture));
}

/* Tables that are neither the first nor the last ones of a page are right as well. */
static void check_tables(const ps_fixture *fixture, mr_ps *ps) {
    mr_ps_table_list *listing;
    mr_ps_overview *overview;
    char name[MR_PS_NAME_MAX];
    must(mr_ps_tables(ps, PS_FIXTURE_PATIENCE_US, &listing));
    assert_int_equal(listing->count, table_count());
    must(mr_ps_overview_get(fixture->address, PS_FIXTURE_PATIENCE_US, &overview));
    assert_int_equal(overview->table_count, table_count());
    for (int i = 0; i < table_count(); i++) {
        snprintf(name, sizeof name, "table.%d", i);
        assert_string_equal(listing->names[i], name);
        assert_string_equal(overview->tables[i].name, name);
    }
    mr_ps_table_list_free(listing);
    mr_ps_overview_free(overview);
    for (int i = 0; i < table_count(); i += table_count() / PUSHED) {
        const uint64_t key = (uint64_t)i;
        mr_ps_table *table;
        float row[2];
        snprintf(name, sizeof name, "table.%d", i);
        must(mr_ps_table_open(ps, name, PS_FIXTURE_PATIENCE_US, &table));
        must(mr_ps_pull(table, &key, 1, row, NULL, NULL, NULL));
        assert_true(row[0] == (float)i && row[1] == 7);
        mr_ps_table_free(table);
    }
}

static bool all_are_counted(const ps_fixture *fixture) {
    mr_ps_overview *overview;
    uint64_t rows = 0;
    must(mr_ps_overview_get(fixture->address, PS_FIXTURE_PATIENCE_US, &overview));
    for (uint32_t i = 0; i < overview->table_count; i++) rows += overview->tables[i].rows;
    mr_ps_overview_free(overview);
    return rows == PUSHED;
}

static void there_are_thousands_of_tables(void **state) {
    ps_fixture fixture = begin();
    mr_ps *ps = connect(&fixture);
    mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 2);
    int64_t begun_us = clock_now_us(clock_real());
    for (int i = 0; i < table_count(); i++) {
        char name[MR_PS_NAME_MAX];
        mr_ps_table *table;
        const uint64_t key = (uint64_t)i;
        const float row[2] = {(float)i, 7};
        snprintf(name, sizeof name, "table.%d", i);
        must(mr_ps_table_create(ps, name, &options, PS_FIXTURE_PATIENCE_US, &table));
        if (i % (table_count() / PUSHED) == 0) must(mr_ps_push(table, &key, 1, row, NULL, NULL, NULL));
        mr_ps_table_free(table);
        if (i == 99 || i == table_count() - 1) printf("%d tables are created in %.3f s\n", i + 1, seconds(begun_us));
    }
    for (int64_t us = 0; !all_are_counted(&fixture); us += 50000, usleep(50000))
        assert_true(us < PS_FIXTURE_PATIENCE_US);
    check_tables(&fixture, ps);
    mr_ps_close(ps);
    kill_and_restart(&fixture);
    ps = connect(&fixture);
    mr_ps_table *first;
    must(mr_ps_table_open(ps, "table.0", PS_FIXTURE_PATIENCE_US, &first));
    hear_of_loss(first, MR_PS_SPARSE);
    mr_ps_table_free(first);
    check_tables(&fixture, ps);
    mr_ps_close(ps);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_has_ten_thousand_arrays),
        cmocka_unit_test(there_are_thousands_of_tables),
        cmocka_unit_test(bert_large_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
