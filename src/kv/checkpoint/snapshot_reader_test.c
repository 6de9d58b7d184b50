/* snapshot_reader_test.c — tables, rows, vectors, blocks and shapes of a slot's file; missing or malformed parts. */
#include "kv/checkpoint/snapshot_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/support/snapshot_fixture.h"

enum { LIMIT = 1 << 24, TABLES = 4 };

static buffer file_of(bool keeps) {
    shared_bytes *shard = snapshot_fixture_shard_of_tables(keeps);
    table_catalog names = snapshot_fixture_names();
    buffer file;
    buffer_init(&file, LIMIT);
    assert_int_equal(snapshot_file_encode(6, shared_bytes_bytes(shard), &names, SNAPSHOT_FILE_CHECKED,
                                          &(byte_sink){buffer_put, &file}),
                     MR_OK);
    table_catalog_fini(&names);
    shared_bytes_unref(shard);
    return file;
}

static snapshot_reader look_at(const buffer *file) {
    snapshot_reader reader;
    assert_int_equal(snapshot_reader_open(span_of(file->data, file->size), &reader), MR_OK);
    return reader;
}

static snapshot_table table_of(const snapshot_reader *reader, uint32_t index) {
    snapshot_table table;
    assert_int_equal(snapshot_reader_table(reader, index, &table), MR_OK);
    return table;
}

static void tables_are_shown(void **state) {
    for (int keeps = 0; keeps < 2; keeps++) {
        buffer file = file_of(keeps != 0);
        snapshot_reader reader = look_at(&file);
        assert_true(reader.tables == TABLES && reader.version == 41 && reader.rounds == (keeps != 0));
        snapshot_table users = table_of(&reader, 0), words = table_of(&reader, 1), net = table_of(&reader, 2),
                       last = table_of(&reader, 3);
        assert_string_equal(users.name, "users");
        assert_true(users.schema.id == 1 && users.schema.dim == 2 && users.rows == 3);
        assert_true(users.bytes == 6 * sizeof(float) && users.keys.size == 3 * 8 && users.values.size == users.bytes);
        assert_string_equal(words.name, "words");
        assert_true(words.rows == 2 && words.bytes == 6 * sizeof(float) && words.lengths.size == 2 * 4);
        assert_string_equal(net.name, "net");
        assert_true(net.rows == 4 && net.bytes == 4 * sizeof(float) && net.blocks == 1 && net.values.size == 0);
        assert_string_equal(last.name, "table-4"); /* the catalog does not have the table */
        assert_true(last.rows == 1 && last.keys.size == 2 * 8 && last.touches.size == 2 * 4);
        snapshot_reader_close(&reader);
        buffer_fini(&file);
    }
}

static void blocks_are_shown(void **state) {
    /* pushed values, after the first step of momentum with the default rate */
    static const float values[] = {1, 2, 3, 4};
    buffer file = file_of(false);
    snapshot_reader reader = look_at(&file);
    snapshot_table net = table_of(&reader, 2), users = table_of(&reader, 0);
    snapshot_block block;
    uint64_t shape[SAFETENSORS_DIMS_MAX];
    uint32_t dims;
    assert_int_equal(snapshot_reader_block(&reader, &net, 0, &block), MR_OK);
    assert_true(block.array == 1 && block.number == 2 && block.items == 4);
    assert_string_equal(block.name, "b/1");
    assert_int_equal(block.values.size, sizeof values);
    for (size_t i = 0; i < 4; i++) {
        float value;
        memcpy(&value, block.values.data + i * sizeof value, sizeof value);
        assert_true(value == -0.01f * values[i]);
    }
    assert_string_equal(snapshot_reader_array(&reader, &net, 0), "w"); /* the array has no push */
    assert_string_equal(snapshot_reader_array(&reader, &net, 1), "b/1");
    assert_null(snapshot_reader_array(&reader, &net, 2));
    assert_null(snapshot_reader_array(&reader, &users, 0));
    assert_true(snapshot_reader_shape(&reader, &net, 1, shape, &dims));
    assert_true(dims == 1 && shape[0] == 12);
    assert_false(snapshot_reader_shape(&reader, &net, 2, shape, &dims));
    assert_int_equal(snapshot_reader_dtype(&net.schema), SAFETENSORS_F32);
    assert_int_equal(snapshot_reader_dtype(&(table_schema){.dtype = MR_I64}), SAFETENSORS_I64);
    /* dtype of the stored values */
    assert_int_equal(snapshot_reader_dtype(&(table_schema){.dtype = MR_BF16}), SAFETENSORS_F32);
    snapshot_reader_close(&reader);
    buffer_fini(&file);
}

static void a_snapshot_without_tables_lists_none(void **state) {
    const table_catalog none = {0};
    static const char *const values[] = {"who is in", "noise"};
    for (int i = 0; i < 2; i++) { /* a slot without an engine; a malformed snapshot */
        shared_bytes *shard =
            i == 0 ? snapshot_fixture_shard(span_of(values[0], 9)) : shared_bytes_copy(span_of(values[1], 5));
        snapshot_table table;
        buffer file;
        buffer_init(&file, LIMIT);
        assert_int_equal(snapshot_file_encode(6, shared_bytes_bytes(shard), &none, SNAPSHOT_FILE_CHECKED,
                                              &(byte_sink){buffer_put, &file}),
                         MR_OK);
        snapshot_reader reader = look_at(&file);
        assert_int_equal(reader.tables, 0);
        assert_int_equal(snapshot_reader_table(&reader, 0, &table), MR_CORRUPT);
        snapshot_reader_close(&reader);
        buffer_fini(&file);
        shared_bytes_unref(shard);
    }
}

/* The file without a tensor, or with another tensor or text in its place. */
static void change(const buffer *file, const char *name, const safetensor *instead, const char *text, buffer *out) {
    safetensors list, changed = {0};
    assert_int_equal(safetensors_read(span_of(file->data, file->size), &list), MR_OK);
    bool found = false;
    for (size_t i = 0; i < list.count; i++) {
        const safetensor *tensor = &list.tensors[i];
        bool it = strcmp(tensor->name, name) == 0;
        found = found || it;
        if (it && instead != NULL)
            safetensors_add(&changed, name, instead->dtype, instead->shape, instead->dims, instead->data.data);
        if (!it) safetensors_add(&changed, tensor->name, tensor->dtype, tensor->shape, tensor->dims, tensor->data.data);
    }
    for (size_t i = 0; i < list.text_count; i++) {
        bool it = strcmp(list.texts[i].key, name) == 0;
        found = found || it;
        if (!it || text != NULL) safetensors_say(&changed, list.texts[i].key, it ? text : list.texts[i].value);
    }
    assert_true(found);
    buffer_clear(out);
    assert_int_equal(safetensors_write(&changed, out), MR_OK);
    safetensors_fini(&list);
    safetensors_fini(&changed);
}

/* The file does not open, or one of its tables cannot be read. */
static bool is_refused(const buffer *file) {
    snapshot_reader reader;
    snapshot_table table;
    mr_status status = snapshot_reader_open(span_of(file->data, file->size), &reader);
    if (status != MR_OK) return status == MR_CORRUPT;
    bool refused = false;
    for (uint32_t i = 0; i < reader.tables; i++)
        refused = refused || snapshot_reader_table(&reader, i, &table) == MR_CORRUPT;
    snapshot_reader_close(&reader);
    return refused;
}

static void damage_is_told(void **state) {
    static const char *const needed[] = {".slot/version", ".shelf/head",    "users/definition", "users/keys",
                                         "users/touches", "users/values",   "words/keys",       "words/lengths",
                                         "words/values",  "net/blocks",     "net/b/1/2/values", "format",
                                         "table.1",       "table.2.array.1"};
    static const uint8_t bytes[64];
    const safetensor none = {.dtype = SAFETENSORS_U8, .dims = 1, .shape = {64}, .data = span_of(bytes, 64)};
    const safetensor one = {.dtype = SAFETENSORS_U64, .dims = 1, .shape = {1}, .data = span_of(bytes, 8)};
    const safetensor number = {.dtype = SAFETENSORS_U32, .dims = 1, .shape = {2}, .data = span_of(bytes, 8)};
    buffer file = file_of(true), changed;
    buffer_init(&changed, LIMIT);
    assert_false(is_refused(&file));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        change(&file, needed[i], NULL, NULL, &changed);
        if (!is_refused(&changed)) fail_msg("nobody misses %s", needed[i]);
    }
    change(&file, "users/keys", &none, NULL, &changed); /* another dtype */
    assert_true(is_refused(&changed));
    change(&file, "users/keys", &one, NULL, &changed); /* fewer keys than rows */
    assert_true(is_refused(&changed));
    change(&file, "words/lengths", &number, NULL, &changed); /* other lengths of vectors */
    assert_true(is_refused(&changed));
    change(&file, "format", NULL, "miniray slot 0", &changed);
    assert_true(is_refused(&changed));
    assert_non_null(strstr(mr_last_error(), "miniray slot 0"));
    change(&file, "tables", NULL, "1000000", &changed); /* more tables than tensors */
    assert_true(is_refused(&changed));
    change(&file, "tables", NULL, "3x", &changed);
    assert_true(is_refused(&changed));
    buffer_fini(&changed);
    buffer_fini(&file);
}

static void shapes_are_read_or_are_none(void **state) {
    static const struct {
        const char *text;
        uint32_t dims; /* UINT32_MAX: not a shape */
    } cases[] = {{"12", 1}, {"3x4", 2}, {"", 0}, {"3xx4", UINT32_MAX}, {"x", UINT32_MAX}, {"3 by 4", UINT32_MAX}};
    buffer file = file_of(false), changed;
    buffer_init(&changed, LIMIT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t shape[SAFETENSORS_DIMS_MAX];
        uint32_t dims;
        change(&file, "table.2.shape.1", NULL, cases[i].text, &changed);
        snapshot_reader reader = look_at(&changed);
        snapshot_table net = table_of(&reader, 2);
        bool is = snapshot_reader_shape(&reader, &net, 1, shape, &dims);
        assert_int_equal(is, cases[i].dims != UINT32_MAX);
        if (is) assert_int_equal(dims, cases[i].dims);
        snapshot_reader_close(&reader);
    }
    buffer_fini(&changed);
    buffer_fini(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_shown),
        cmocka_unit_test(blocks_are_shown),
        cmocka_unit_test(a_snapshot_without_tables_lists_none),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(shapes_are_read_or_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
