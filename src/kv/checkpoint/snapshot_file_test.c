/* snapshot_file_test.c — a slot snapshot becomes a readable safetensors file, which decodes to the same bytes. */
#include "kv/checkpoint/snapshot_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/snapshot_fixture.h"
#include "tests/support/temp_dir.h"

enum { LIMIT = 1 << 26 };

/* Encodes the snapshot with the encoder's check and without it, into the same file. */
static void comes_back(shared_bytes *shard, const table_catalog *catalog, buffer *file) {
    buffer again;
    buffer_init(&again, LIMIT);
    for (size_t checked = 0; checked <= LIMIT; checked += LIMIT) {
        size_t before = file->size;
        buffer_clear(file);
        assert_int_equal(
            snapshot_file_encode(6, shared_bytes_bytes(shard), catalog, checked, &(byte_sink){buffer_put, file}),
            MR_OK);
        assert_true(checked == 0 || file->size == before);
        assert_int_equal(snapshot_file_decode(span_of(file->data, file->size), &again), MR_OK);
        assert_int_equal(again.size, shared_bytes_bytes(shard).size);
        assert_memory_equal(again.data, shared_bytes_bytes(shard).data, again.size);
    }
    buffer_fini(&again);
}

static const safetensor *tensor(const safetensors *list, const char *name, safetensors_dtype dtype, uint64_t items) {
    const safetensor *found = safetensors_find(list, name);
    if (found == NULL) fail_msg("there is no %s", name);
    assert_int_equal(found->dtype, dtype);
    assert_int_equal(found->data.size, items * safetensors_item(dtype));
    return found;
}

static void tables_are_tensors(void **state) {
    for (int keeps = 0; keeps < 2; keeps++) {
        shared_bytes *shard = snapshot_fixture_shard_of_tables(keeps != 0);
        table_catalog tables = snapshot_fixture_names();
        safetensors list;
        buffer file;
        buffer_init(&file, LIMIT);
        comes_back(shard, &tables, &file);
        assert_int_equal(safetensors_read(span_of(file.data, file.size), &list), MR_OK);
        assert_null(safetensors_find(&list, ".slot/shard"));
        const uint64_t *clock =
            (const void *)tensor(&list, ".slot/clock", SAFETENSORS_U64, SNAPSHOT_FIXTURE_RANKS)->data.data;
        assert_true(clock[0] == 100 && clock[2] == 102);
        tensor(&list, "users/values", SAFETENSORS_F32, 6);
        tensor(&list, "words/values", SAFETENSORS_F32, 6);
        tensor(&list, "net/b/1/2/values", SAFETENSORS_F32, 4);
        tensor(&list, "net/b/1/2/state-0", SAFETENSORS_F32, 4);
        assert_int_equal(safetensors_find(&list, "net/b/1/2/before") != NULL, keeps);
        tensor(&list, "table-4/values", SAFETENSORS_F32, 1); /* one of two keys has a row */
        tensor(&list, "table-4/keys", SAFETENSORS_U64, 2);
        const uint64_t *keys = (const void *)tensor(&list, "words/keys", SAFETENSORS_U64, 2)->data.data;
        assert_true(keys[0] == 3 && keys[1] == 1000000007);
        uint64_t sum = 0;
        const uint64_t *users = (const void *)tensor(&list, "users/keys", SAFETENSORS_U64, 3)->data.data;
        for (int i = 0; i < 3; i++) sum += users[i];
        assert_int_equal(sum, 3 + 9 + 1000000007);
        safetensors_fini(&list);
        table_catalog_fini(&tables);
        buffer_fini(&file);
        shared_bytes_unref(shard);
    }
}

static void an_opaque_state_is_stored_as_one_tensor(void **state) {
    const table_catalog none = {0};
    static const char *const odd[] = {"", "noise", "\x03\0\0\0\xff\xff\xff\xff"};
    buffer file;
    buffer_init(&file, LIMIT);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        shared_bytes *shard = shared_bytes_copy(span_of(odd[i], i == 2 ? 8 : strlen(odd[i])));
        comes_back(shard, &none, &file);
        shared_bytes_unref(shard);
    }
    shared_bytes *round_state = snapshot_fixture_shard(span_of("who is in", 9)),
                 *torn = snapshot_fixture_shard_of_tables(true);
    comes_back(round_state, &none, &file);
    shared_bytes_room(torn)[shared_bytes_bytes(torn).size / 2] ^= 0x55; /* any result of the decoder is fine */
    comes_back(torn, &none, &file);
    shared_bytes_unref(round_state);
    shared_bytes_unref(torn);
    buffer_fini(&file);
}

/* A snapshot that is too large to be checked in memory: written piece by piece, it comes back as well. */
static void a_large_snapshot_comes_back(void **state) {
    enum { ROWS = 3000, DIM = 1000, BLOCKS = 16, ITEMS = 1 << 16, LONG = 20000 };
    const mr_ps_array array = {.name = "w", .dims = 1, .shape = {(int64_t)BLOCKS * ITEMS}};
    const mr_ps_table_options options[] = {{.dim = DIM, .optimizer = "adagrad", .admit = 2},
                                           {.kind = MR_PS_VECTORS},
                                           {.kind = MR_PS_DENSE, .arrays = &array, .array_count = 1, .block = ITEMS}};
    static const char *const names[] = {"rows", "vectors", "dense"};
    table_catalog catalog = {0};
    for (int i = 0; i < 3; i++) {
        table_catalog_table table;
        assert_int_equal(table_catalog_table_init(&table, names[i], &options[i]), MR_OK);
        snapshot_fixture_add(&catalog, &table);
        table_catalog_table_fini(&table);
    }
    for (int keeps = 0; keeps < 2; keeps++) {
        void *engine = engine_ops.create(NULL, 0, keeps != 0);
        float *values = xcalloc(ITEMS, sizeof *values);
        payload_writer writer = {0};
        for (size_t i = 0; i < ITEMS; i++) values[i] = (float)(i * 2654435761 >> 9 & 0xffff);
        payload_define(&writer, (definition_options){.id = 1, .dim = DIM, .optimizer = "adagrad", .admit = 2});
        payload_define(&writer, (definition_options){.id = 2, .kind = TABLE_SCHEMA_VECTORS});
        payload_define(&writer, (definition_options){.id = 3, .kind = TABLE_SCHEMA_DENSE, .block = ITEMS});
        engine_fixture_apply(engine, &writer, 1);
        for (uint64_t push = 0; push < 2; push++)
            for (uint64_t key = 0; key < ROWS; key++) {
                if (push == 1 && key % 5 == 0) continue; /* stays without a row */
                payload_rows(&writer, PAYLOAD_ADD_ROWS, 1, &key, 1, values + key, DIM);
                engine_fixture_apply(engine, &writer, 2);
            }
        for (uint32_t i = 0; i < 20; i++) {
            payload_vector(&writer, PAYLOAD_ADD_VECTORS, 2, i, values + i, i % 3 == 0 ? 0 : i % 3 == 1 ? LONG : i);
            payload_block(&writer, PAYLOAD_ADD_BLOCK, 3, (payload_place){0, i % BLOCKS, ITEMS, 0}, values, ITEMS);
        }
        engine_fixture_apply(engine, &writer, 3);
        shared_bytes *bytes = engine_fixture_bytes(engine), *shard = snapshot_fixture_shard(shared_bytes_bytes(bytes));
        assert_true(shared_bytes_bytes(shard).size > 2 * SNAPSHOT_FILE_CHECKED);
        safetensors list;
        buffer file;
        buffer_init(&file, LIMIT);
        comes_back(shard, &catalog, &file);
        assert_int_equal(safetensors_read(span_of(file.data, file.size), &list), MR_OK);
        assert_null(safetensors_find(&list, ".slot/shard"));
        tensor(&list, "rows/keys", SAFETENSORS_U64, ROWS);
        tensor(&list, "rows/values", SAFETENSORS_F32, (uint64_t)(ROWS - ROWS / 5) * DIM);
        safetensors_fini(&list);
        shared_bytes_room(shard)[shared_bytes_bytes(shard).size / 2] ^= 0x55; /* in a value, or in the head of a row */
        comes_back(shard, &catalog, &file);
        buffer_fini(&file);
        shared_bytes_unref(bytes);
        shared_bytes_unref(shard);
        engine_ops.destroy(engine);
        free(values);
    }
    table_catalog_fini(&catalog);
}

/* Two tables whose tensors would have equal names are stored as one tensor, whatever their size. */
static void equal_names_are_not_used(void **state) {
    table_catalog catalog = snapshot_fixture_names_with("table-4"); /* as the table that the catalog does not list */
    shared_bytes *shard = snapshot_fixture_shard_of_tables(false);
    safetensors list;
    buffer file;
    buffer_init(&file, LIMIT);
    comes_back(shard, &catalog, &file);
    assert_int_equal(safetensors_read(span_of(file.data, file.size), &list), MR_OK);
    assert_non_null(safetensors_find(&list, ".slot/shard"));
    safetensors_fini(&list);
    table_catalog_fini(&catalog);
    buffer_fini(&file);
    shared_bytes_unref(shard);
}

static void a_file_that_is_no_snapshot_is_refused(void **state) {
    safetensors list = {0};
    buffer file, shard;
    buffer_init(&file, LIMIT);
    buffer_init(&shard, LIMIT);
    assert_int_equal(snapshot_file_decode(span_of("noise", 5), &shard), MR_CORRUPT);
    safetensors_add(&list, "a", SAFETENSORS_U8, (uint64_t[]){1}, 1, "a");
    assert_int_equal(safetensors_write(&list, &file), MR_OK);
    assert_int_equal(snapshot_file_decode(span_of(file.data, file.size), &shard), MR_CORRUPT); /* no format number */
    safetensors_say(&list, "format", SNAPSHOT_FILE_FORMAT);
    assert_int_equal(safetensors_write(&list, &file), MR_OK);
    assert_int_equal(snapshot_file_decode(span_of(file.data, file.size), &shard), MR_CORRUPT); /* no tensors */
    safetensors_fini(&list);
    buffer_fini(&file);
    buffer_fini(&shard);
}

/* Another program, written from the description of the format, reads the file. */
static void another_reader_sees_the_same(void **state) {
    const char *source = getenv("MINIRAY_TEST_SOURCE");
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 32], command[512], line[256];
    if (source == NULL || access("/usr/bin/python3", X_OK) != 0) skip();
    shared_bytes *shard = snapshot_fixture_shard_of_tables(true);
    table_catalog tables = snapshot_fixture_names();
    buffer file;
    buffer_init(&file, LIMIT);
    comes_back(shard, &tables, &file);
    assert_true(temp_dir_folder(folder));
    snprintf(path, sizeof path, "%s/slot.safetensors", folder);
    FILE *out = fopen(path, "we");
    assert_non_null(out);
    assert_int_equal(fwrite(file.data, 1, file.size, out), file.size);
    assert_int_equal(fclose(out), 0);
    snprintf(command, sizeof command, "/usr/bin/python3 '%s/tests/support/read_safetensors.py' '%s'", source, path);
    FILE *said = popen(command, "re");
    assert_non_null(said);
    int found = 0;
    while (fgets(line, sizeof line, said) != NULL) {
        found += strcmp(line, "format=" SNAPSHOT_FILE_FORMAT "\n") == 0 || strcmp(line, "table.0=users\n") == 0;
        found += strcmp(line, "words/values F32 [6] 21.0\n") == 0; /* 1, and 2 to 6 */
        found += strcmp(line, ".slot/clock U64 [3] 303\n") == 0;
        found += strcmp(line, "words/keys U64 [2] 1000000010\n") == 0;
    }
    assert_int_equal(pclose(said), 0);
    assert_int_equal(found, 5);
    assert_int_equal(unlink(path) | rmdir(folder), 0);
    table_catalog_fini(&tables);
    buffer_fini(&file);
    shared_bytes_unref(shard);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_tensors),
        cmocka_unit_test(an_opaque_state_is_stored_as_one_tensor),
        cmocka_unit_test(a_file_that_is_no_snapshot_is_refused),
        cmocka_unit_test(a_large_snapshot_comes_back),
        cmocka_unit_test(equal_names_are_not_used),
        cmocka_unit_test(another_reader_sees_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
