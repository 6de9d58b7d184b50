/* checkpoint_list_test.c — checkpoints of a folder, newest first, complete or damaged; and their files. */
#include "kv/checkpoint/checkpoint_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/checkpoint/checkpoint_thread.h"
#include "kv/checkpoint/snapshot_file.h"
#include "miniray/admin.h"
#include "tests/support/snapshot_fixture.h"
#include "tests/support/temp_dir.h"

enum { SLOTS = 2, LIMIT = 1 << 20 };

static void write_file(const char *folder, const char *name, const void *data, size_t size) {
    char *path = xasprintf("%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    free(path);
}

static void remove_file(const char *folder, const char *name) {
    char *path = xasprintf("%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
    free(path);
}

/* Writes a manifest as checkpoint_store.h defines it, whose slot snapshots have this content and place. */
static void write_manifest(const char *folder, const char *name, uint64_t number, uint8_t place, span content) {
    uint8_t bytes[CHECKPOINT_STORE_MANIFEST_MAX];
    writer writer = writer_of(bytes, sizeof bytes);
    writer_u32(&writer, CHECKPOINT_STORE_MAGIC);
    writer_u64(&writer, number);
    writer_u64(&writer, 1 + number);
    writer_u64(&writer, 77);
    writer_u64(&writer, 0);
    writer_u32(&writer, SLOTS);
    for (uint32_t i = 0; i < SLOTS; i++) {
        writer_u8(&writer, place);
        writer_u64(&writer, 5);
        writer_u64(&writer, content.size);
        writer_u64(&writer, XXH3_64bits(content.data, content.size));
    }
    writer_u64(&writer, XXH3_64bits(bytes, writer_size(&writer)));
    assert_false(writer.failed);
    write_file(folder, name, bytes, writer_size(&writer));
}

static void write_shards(const char *folder, uint8_t place, span content) {
    for (uint32_t i = 0; i < SLOTS; i++) {
        char name[DISK_NAME_MAX];
        checkpoint_store_name_shard(name, place, i, CHECKPOINT_THREAD_ENDING);
        write_file(folder, name, content.data, content.size);
    }
}

static void remove_shards(const char *folder, uint8_t place) {
    for (uint32_t i = 0; i < SLOTS; i++) {
        char name[DISK_NAME_MAX];
        checkpoint_store_name_shard(name, place, i, CHECKPOINT_THREAD_ENDING);
        remove_file(folder, name);
    }
}

static void the_newest_come_first(void **state) {
    const span content = span_of("a shard", 7);
    char folder[TEMP_DIR_FOLDER_MAX], name[DISK_NAME_MAX];
    checkpoint_list list;
    buffer file;
    buffer_init(&file, LIMIT);
    assert_true(temp_dir_folder(folder));
    write_manifest(folder, CHECKPOINT_STORE_MANIFEST, 9, 2, content);
    write_manifest(folder, "manifest-0", 5, 0, content);
    write_manifest(folder, "manifest-1", 9, 2, content); /* the newest manifest, under its temporary name */
    write_shards(folder, 2, content);
    assert_int_equal(checkpoint_list_open(folder, &list), MR_OK);
    assert_true(list.count == 2 && list.damaged_count == 0);
    assert_true(list.manifests[0].number == 9 && list.manifests[1].number == 5);
    assert_ptr_equal(checkpoint_list_find(&list, 5), &list.manifests[1]);
    assert_null(checkpoint_list_find(&list, 7));
    assert_true(checkpoint_list_keeps(&list, 5) && !checkpoint_list_keeps(&list, 7));
    assert_int_equal(checkpoint_list_read(&list, &list.manifests[0], 1, name, &file), MR_OK);
    assert_string_equal(name, "shard-2-1.safetensors");
    assert_true(file.size == 7 && memcmp(file.data, "a shard", 7) == 0);
    assert_int_equal(checkpoint_list_read(&list, &list.manifests[1], 0, name, &file), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "shard-0-0.safetensors is missing"));
    write_file(folder, "shard-2-1.safetensors", "a shardy", 8);
    assert_int_equal(checkpoint_list_read(&list, &list.manifests[0], 1, name, &file), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "shard-2-1.safetensors is damaged"));
    write_file(folder, "shard-2-1.safetensors", "a shord", 7);
    assert_int_equal(checkpoint_list_read(&list, &list.manifests[0], 1, name, &file), MR_CORRUPT);
    write_manifest(folder, "manifest-0", 12, 1, content); /* a running scheduler writes a checkpoint */
    assert_true(!checkpoint_list_keeps(&list, 5) && checkpoint_list_keeps(&list, 12));
    checkpoint_list_close(&list);
    remove_shards(folder, 2);
    remove_file(folder, CHECKPOINT_STORE_MANIFEST);
    remove_file(folder, "manifest-0");
    remove_file(folder, "manifest-1");
    assert_int_equal(rmdir(folder), 0);
    buffer_fini(&file);
}

static void a_folder_without_checkpoint_is_reported(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    checkpoint_list list;
    assert_true(temp_dir_folder(folder));
    assert_int_equal(checkpoint_list_open(folder, &list), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "no checkpoint in"));
    /* a folder without a complete checkpoint */
    write_manifest(folder, CHECKPOINT_STORE_MANIFEST, 0, 0, span_of("", 0));
    assert_int_equal(checkpoint_list_open(folder, &list), MR_NOT_FOUND);
    write_file(folder, CHECKPOINT_STORE_MANIFEST, "noise", 5);
    assert_int_equal(checkpoint_list_open(folder, &list), MR_OK);
    assert_true(list.count == 0 && list.damaged_count == 1);
    assert_string_equal(list.damaged[0], CHECKPOINT_STORE_MANIFEST);
    checkpoint_list_close(&list);
    remove_file(folder, CHECKPOINT_STORE_MANIFEST);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(checkpoint_list_open(folder, &list), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "does not exist"));
}

/* Rows and bytes are sums over all slots. */
static void tables_are_added_up(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_ps_checkpoints *all;
    shared_bytes *shard = snapshot_fixture_shard_of_tables(true);
    table_catalog names = snapshot_fixture_names();
    buffer file;
    buffer_init(&file, LIMIT);
    assert_int_equal(snapshot_file_encode(6, shared_bytes_bytes(shard), &names, SNAPSHOT_FILE_CHECKED,
                                          &(byte_sink){buffer_put, &file}),
                     MR_OK);
    span content = span_of(file.data, file.size);
    assert_true(temp_dir_folder(folder));
    write_manifest(folder, CHECKPOINT_STORE_MANIFEST, 9, 2, content);
    write_file(folder, "manifest-0", "noise", 5);
    write_shards(folder, 2, content);
    assert_int_equal(mr_ps_checkpoints_get(folder, &all), MR_OK);
    assert_int_equal(all->count, 2);
    const mr_ps_checkpoint_info *one = &all->list[0];
    assert_true(one->number == 9 && one->generation == 77 && one->step == 41 && one->slots == SLOTS);
    assert_true(one->damage[0] == '\0' && one->bytes == SLOTS * file.size && one->written_us != 0);
    assert_int_equal(one->table_count, 4);
    assert_string_equal(one->tables[0].name, "users");
    assert_true(one->tables[0].rows == SLOTS * 3 && one->tables[0].dim == 2);
    assert_true(one->tables[2].kind == MR_PS_DENSE && one->tables[2].rows == SLOTS * 4 && one->tables[2].dim == 0);
    assert_string_equal(all->list[1].damage, "manifest-0 is damaged");
    mr_ps_checkpoints_free(all);
    remove_shards(folder, 2);
    remove_file(folder, CHECKPOINT_STORE_MANIFEST);
    remove_file(folder, "manifest-0");
    assert_int_equal(rmdir(folder), 0);
    table_catalog_fini(&names);
    shared_bytes_unref(shard);
    buffer_fini(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_come_first),
        cmocka_unit_test(a_folder_without_checkpoint_is_reported),
        cmocka_unit_test(tables_are_added_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
