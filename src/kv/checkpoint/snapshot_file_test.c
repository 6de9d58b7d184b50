/* snapshot_file_test.c — a slot snapshot becomes a readable safetensors file, which decodes to the same bytes. */
#include "kv/checkpoint/snapshot_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/snapshot_fixture.h"
#include "tests/support/temp_dir.h"

enum { LIMIT = 1 << 24 };

static void comes_back(shared_bytes *shard, const table_catalog *catalog, buffer *file) {
    buffer again;
    buffer_init(&again, LIMIT);
    assert_int_equal(snapshot_file_encode(6, shared_bytes_bytes(shard), catalog, file), MR_OK);
    assert_int_equal(snapshot_file_decode(span_of(file->data, file->size), &again), MR_OK);
    assert_int_equal(again.size, shared_bytes_bytes(shard).size);
    assert_memory_equal(again.data, shared_bytes_bytes(shard).data, again.size);
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
        cmocka_unit_test(another_reader_sees_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
