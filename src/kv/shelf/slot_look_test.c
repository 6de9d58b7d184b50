/* slot_look_test.c — the file of a slot is looked at: tables, rows, vectors, blocks, shapes; and whatever is not there,
 * or does not fit, is told. */
#include "kv/shelf/slot_look.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/support/slots.h"

enum { LIMIT = 1 << 24, TABLES = 4 };

static buffer file_of(bool keeps) {
    bale *shard = slots_shard_of_tables(keeps);
    catalogue names = slots_names();
    buffer file;
    buffer_init(&file, LIMIT);
    assert_int_equal(slot_file_encode(6, bale_bytes(shard), &names, &file), MR_OK);
    catalogue_fini(&names);
    bale_unref(shard);
    return file;
}

static slot_look look_at(const buffer *file) {
    slot_look look;
    assert_int_equal(slot_look_open(span_of(file->data, file->size), &look), MR_OK);
    return look;
}

static slot_table table_of(const slot_look *look, uint32_t index) {
    slot_table table;
    assert_int_equal(slot_look_table(look, index, &table), MR_OK);
    return table;
}

static void tables_are_shown(void **state) {
    for (int keeps = 0; keeps < 2; keeps++) {
        buffer file = file_of(keeps != 0);
        slot_look look = look_at(&file);
        assert_true(look.tables == TABLES && look.version == 41 && look.rounds == (keeps != 0));
        slot_table users = table_of(&look, 0), words = table_of(&look, 1), net = table_of(&look, 2),
                   last = table_of(&look, 3);
        assert_string_equal(users.name, "users");
        assert_true(users.definition.id == 1 && users.definition.dim == 2 && users.rows == 3);
        assert_true(users.bytes == 6 * sizeof(float) && users.keys.size == 3 * 8 && users.values.size == users.bytes);
        assert_string_equal(words.name, "words");
        assert_true(words.rows == 2 && words.bytes == 6 * sizeof(float) && words.lengths.size == 2 * 4);
        assert_string_equal(net.name, "net");
        assert_true(net.rows == 4 && net.bytes == 4 * sizeof(float) && net.blocks == 1 && net.values.size == 0);
        assert_string_equal(last.name, "table-4"); /* the catalogue does not have it */
        assert_true(last.rows == 1 && last.keys.size == 2 * 8 && last.touches.size == 2 * 4);
        slot_look_close(&look);
        buffer_fini(&file);
    }
}

static void blocks_are_shown(void **state) {
    static const float values[] = {1, 2, 3, 4}; /* what was pushed, with momentum's first step and the default rate */
    buffer file = file_of(false);
    slot_look look = look_at(&file);
    slot_table net = table_of(&look, 2), users = table_of(&look, 0);
    slot_block block;
    uint64_t shape[SAFETENSORS_DIMS_MAX];
    uint32_t dims;
    assert_int_equal(slot_look_block(&look, &net, 0, &block), MR_OK);
    assert_true(block.array == 1 && block.number == 2 && block.items == 4);
    assert_string_equal(block.name, "b/1");
    assert_int_equal(block.values.size, sizeof values);
    for (size_t i = 0; i < 4; i++) {
        float value;
        memcpy(&value, block.values.data + i * sizeof value, sizeof value);
        assert_true(value == -0.01f * values[i]);
    }
    assert_string_equal(slot_look_array(&look, &net, 0), "w"); /* nobody has pushed to it */
    assert_string_equal(slot_look_array(&look, &net, 1), "b/1");
    assert_null(slot_look_array(&look, &net, 2));
    assert_null(slot_look_array(&look, &users, 0));
    assert_true(slot_look_shape(&look, &net, 1, shape, &dims));
    assert_true(dims == 1 && shape[0] == 12);
    assert_false(slot_look_shape(&look, &net, 2, shape, &dims));
    assert_int_equal(slot_look_dtype(&net.definition), SAFETENSORS_F32);
    assert_int_equal(slot_look_dtype(&(definition){.dtype = MR_I64}), SAFETENSORS_I64);
    assert_int_equal(slot_look_dtype(&(definition){.dtype = MR_BF16}), SAFETENSORS_F32); /* as it is kept */
    slot_look_close(&look);
    buffer_fini(&file);
}

static void what_has_no_tables_shows_none(void **state) {
    const catalogue none = {0};
    static const char *const values[] = {"who is in", "noise"};
    for (int i = 0; i < 2; i++) { /* values that are no tables; a shard that is none */
        bale *shard = i == 0 ? slots_shard(span_of(values[0], 9)) : bale_copy(span_of(values[1], 5));
        slot_table table;
        buffer file;
        buffer_init(&file, LIMIT);
        assert_int_equal(slot_file_encode(6, bale_bytes(shard), &none, &file), MR_OK);
        slot_look look = look_at(&file);
        assert_int_equal(look.tables, 0);
        assert_int_equal(slot_look_table(&look, 0, &table), MR_CORRUPT);
        slot_look_close(&look);
        buffer_fini(&file);
        bale_unref(shard);
    }
}

/* The same file with one tensor less, or another one in its place; or another text. */
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

/* Opens, or does not; and if it does one of its tables cannot be shown. */
static bool is_refused(const buffer *file) {
    slot_look look;
    slot_table table;
    mr_status status = slot_look_open(span_of(file->data, file->size), &look);
    if (status != MR_OK) return status == MR_CORRUPT;
    bool refused = false;
    for (uint32_t i = 0; i < look.tables; i++) refused = refused || slot_look_table(&look, i, &table) == MR_CORRUPT;
    slot_look_close(&look);
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
    change(&file, "users/keys", &one, NULL, &changed); /* fewer keys than there are rows */
    assert_true(is_refused(&changed));
    change(&file, "words/lengths", &number, NULL, &changed); /* vectors of another length */
    assert_true(is_refused(&changed));
    change(&file, "format", NULL, "miniray slot 0", &changed);
    assert_true(is_refused(&changed));
    assert_non_null(strstr(mr_last_error(), "miniray slot 0"));
    change(&file, "tables", NULL, "1000000", &changed); /* more than there are tensors */
    assert_true(is_refused(&changed));
    change(&file, "tables", NULL, "3x", &changed);
    assert_true(is_refused(&changed));
    buffer_fini(&changed);
    buffer_fini(&file);
}

static void shapes_are_read_or_are_none(void **state) {
    static const struct {
        const char *text;
        uint32_t dims; /* UINT32_MAX: it is none */
    } cases[] = {{"12", 1}, {"3x4", 2}, {"", 0}, {"3xx4", UINT32_MAX}, {"x", UINT32_MAX}, {"3 by 4", UINT32_MAX}};
    buffer file = file_of(false), changed;
    buffer_init(&changed, LIMIT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t shape[SAFETENSORS_DIMS_MAX];
        uint32_t dims;
        change(&file, "table.2.shape.1", NULL, cases[i].text, &changed);
        slot_look look = look_at(&changed);
        slot_table net = table_of(&look, 2);
        bool is = slot_look_shape(&look, &net, 1, shape, &dims);
        assert_int_equal(is, cases[i].dims != UINT32_MAX);
        if (is) assert_int_equal(dims, cases[i].dims);
        slot_look_close(&look);
    }
    buffer_fini(&changed);
    buffer_fini(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_shown),
        cmocka_unit_test(blocks_are_shown),
        cmocka_unit_test(what_has_no_tables_shows_none),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(shapes_are_read_or_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
