/* catalog_log_test.c — tables survive restarts, and every failure of the disk, in a real folder; a change costs its own
 * bytes; the value of release 0.2.0 is taken over. */
#include "kv/control/catalog_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cluster/metadata_file.h"
#include "tests/support/failing_disk.h"
#include "tests/support/samples.h"
#include "tests/support/temp_dir.h"

typedef struct world {
    char path[TEMP_DIR_FOLDER_MAX];
    failing_disk failing;
    metadata_file file;
    rng rng;
    metadata_db *db;
    catalog_log *log;
    table_catalog told; /* what a follower was told */
} world;

static void follow(void *context, uint32_t id, span bytes) {
    table_catalog *told = context;
    if (id == 0)
        table_catalog_fini(told);
    else if (bytes.size == 0)
        assert_true(table_catalog_remove(told, id));
    else
        assert_int_equal(table_catalog_put(told, bytes), MR_OK);
}

static void close_all(world *world) {
    catalog_log_close(world->log);
    if (world->db != NULL) metadata_db_close(world->db);
    table_catalog_fini(&world->told);
    world->log = NULL;
    world->db = NULL;
}

static mr_status reopen(world *world) {
    close_all(world);
    MR_TRY(metadata_db_open(metadata_file_storage(&world->file), &world->rng, 0, &world->db));
    MR_TRY(catalog_log_open(world->file.disk, world->db, &world->log));
    catalog_log_follow(world->log, follow, &world->told);
    return MR_OK;
}

static void begin(world *world) {
    *world = (struct world){.path = ""};
    assert_true(temp_dir_folder(world->path));
    assert_int_equal(disk_open(world->path, &world->failing.real), MR_OK);
    world->failing.unsynced = true;
    world->file.disk = failing_disk_ops(&world->failing);
    rng_init(&world->rng, 7);
    assert_int_equal(reopen(world), MR_OK);
}

static void end(world *world) {
    close_all(world);
    disk_close(world->failing.real);
    sample_remove(world->path);
}

static mr_status add(world *world, const char *name, uint32_t array_count) {
    mr_ps_array *arrays = xcalloc(array_count + 1, sizeof *arrays);
    char(*names)[60] = xcalloc(array_count + 1, sizeof *names);
    for (uint32_t i = 0; i < array_count; i++) {
        snprintf(names[i], sizeof *names, "a.long.name.of.an.array.as.models.have.them.%u", i);
        arrays[i].name = names[i];
    }
    mr_ps_table_options options = {.dim = 3};
    if (array_count != 0)
        options = (mr_ps_table_options){.kind = MR_PS_DENSE, .arrays = arrays, .array_count = array_count};
    table_catalog_table table;
    assert_int_equal(table_catalog_table_init(&table, name, &options), MR_OK);
    mr_status status = catalog_log_add(world->log, &table);
    table_catalog_table_fini(&table);
    free(arrays);
    free(names);
    return status;
}

static uint32_t id_of(const world *world, const char *name) { /* 0: there is no such table */
    const table_catalog_entry *entry = table_catalog_find(catalog_log_tables(world->log), name);
    return entry == NULL ? 0 : entry->table.schema.id;
}

static void assert_follower_knows_all(const world *world) {
    const table_catalog *tables = catalog_log_tables(world->log);
    assert_int_equal(world->told.count, tables->count);
    for (size_t i = 0; i < tables->count; i++) {
        const table_catalog_entry *entry = tables->entries[i], *told = world->told.entries[i];
        assert_true(told->size == entry->size && memcmp(told->bytes, entry->bytes, told->size) == 0);
    }
}

static void tables_survive_restarts(void **state) {
    world world;
    begin(&world);
    assert_int_equal(add(&world, "a", 0), MR_OK);
    assert_int_equal(add(&world, "deep", 10000), MR_OK);
    assert_int_equal(add(&world, "c", 0), MR_OK);
    assert_int_equal(catalog_log_drop(world.log, 1), MR_OK);
    assert_int_equal(catalog_log_drop(world.log, 1), MR_OK); /* it is gone */
    assert_int_equal(catalog_log_drop(world.log, 3), MR_OK);
    for (int i = 0; i < 2; i++) {
        assert_true(id_of(&world, "a") == 0 && id_of(&world, "deep") == 2 && id_of(&world, "c") == 0);
        assert_int_equal(table_catalog_find(catalog_log_tables(world.log), "deep")->table.array_count, 10000);
        assert_follower_knows_all(&world);
        assert_int_equal(reopen(&world), MR_OK);
    }
    assert_int_equal(add(&world, "a", 0), MR_OK);
    assert_int_equal(id_of(&world, "a"), 4); /* no id is given twice */
    end(&world);
}

static uint64_t size_of(const world *world, const char *name) { /* 0: no such file */
    disk real = world->failing.real;
    uint64_t size = 0;
    return real.ops->size(real.self, name, &size) == MR_OK ? size : 0;
}

/* Each creation appends its own bytes to the file, and writes a metadata value of fixed size. */
static void a_change_costs_its_own_bytes(void **state) {
    world world;
    char name[20];
    begin(&world);
    assert_int_equal(add(&world, "table 0", 0), MR_OK);
    assert_int_equal(add(&world, "table 1", 0), MR_OK);
    uint64_t before = size_of(&world, "tables-1"), metadata = size_of(&world, METADATA_FILE_FILE);
    for (int i = 2; i < 12; i++) {
        snprintf(name, sizeof name, "table %d", i);
        assert_int_equal(add(&world, name, 0), MR_OK);
    }
    uint64_t each = (size_of(&world, "tables-1") - before) / 10;
    assert_in_range(each, 100, 400);
    assert_int_equal(size_of(&world, METADATA_FILE_FILE), metadata);
    end(&world);
}

/* A file with many bytes of dropped tables is replaced. */
static void a_file_does_not_grow_without_end(void **state) {
    world world;
    begin(&world);
    assert_int_equal(add(&world, "stays", 0), MR_OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(add(&world, "goes", 10000), MR_OK);
        assert_int_equal(catalog_log_drop(world.log, id_of(&world, "goes")), MR_OK);
    }
    assert_true(size_of(&world, "tables-1") == 0 && size_of(&world, "tables-2") == 0);
    assert_int_equal(reopen(&world), MR_OK);
    assert_true(id_of(&world, "stays") == 1 && id_of(&world, "goes") == 0);
    assert_int_equal(table_catalog_next(catalog_log_tables(world.log)), 10);
    end(&world);
}

/* One change with a failing disk: it is made or not, and nothing else changes. `maybe`: it may be decided later. */
typedef struct model {
    bool there[3], maybe[3];
} model;

static const char *const names[] = {"a", "b", "c"};

static void change(world *world, model *model, int i) {
    uint32_t id = id_of(world, names[i]);
    mr_status status = id == 0 ? add(world, names[i], i == 1 ? 300 : 0) : catalog_log_drop(world->log, id);
    if (status == MR_OK)
        model->there[i] = id == 0;
    else
        model->maybe[i] = true;
}

/* A failed change may be decided after a restart; then the follower knows it as well. */
static void restart(world *world, model *model) {
    world->failing.countdown = 0;
    assert_int_equal(reopen(world), MR_OK);
    for (int i = 0; i < 3; i++) {
        bool found = id_of(world, names[i]) != 0;
        assert_true(found == model->there[i] || model->maybe[i]);
        model->there[i] = found;
        model->maybe[i] = false;
    }
    assert_follower_knows_all(world);
}

/* For every operation: the disk fails from it on; then it works again, with or without a restart in between. */
static void a_failing_disk_loses_nothing(void **state) {
    int failures = 0;
    for (int nth = 1; nth <= 20; nth++)
        for (int how = 0; how < 4; how++) {
            world world;
            model model = {{false}};
            begin(&world);
            for (int i = 0; i < 3; i++) change(&world, &model, i);
            world.failing.countdown = nth;
            world.failing.after = how % 2 == 1;
            for (int i = 0; i < 8; i++) change(&world, &model, i % 3);
            failures += model.maybe[0] || model.maybe[1] || model.maybe[2];
            if (how / 2 == 1) restart(&world, &model);
            world.failing.countdown = 0;
            change(&world, &model, 1); /* the disk works again */
            assert_follower_knows_all(&world);
            restart(&world, &model);
            change(&world, &model, 2);
            restart(&world, &model);
            end(&world);
        }
    assert_true(failures > 20); /* the sweep reached the changes */
}

/* A change whose commit fails may be decided after a restart (metadata_db.h): the next change, which fails, too, keeps
 * its bytes. */
static void a_failed_change_keeps_its_bytes(void **state) {
    int decided = 0;
    for (int first = 1; first <= 6; first++)
        for (int second = 1; second <= 8; second++) {
            world world;
            begin(&world);
            world.failing.unsynced = false;
            assert_int_equal(add(&world, "a", 0), MR_OK);
            assert_int_equal(add(&world, "b", 0), MR_OK);
            world.failing.countdown = first;
            world.failing.after = true;
            bool failed = add(&world, "first", 0) != MR_OK;
            world.failing.countdown = second;
            world.failing.after = false;
            if (failed) (void)add(&world, "other", 7);
            world.failing.countdown = 0;
            assert_int_equal(reopen(&world), MR_OK);
            assert_true(id_of(&world, "a") == 1 && id_of(&world, "b") == 2);
            decided += failed && id_of(&world, "first") != 0;
            end(&world);
        }
    assert_true(decided > 0);
}

/* Bytes of the file that were committed and have changed, or are missing, are noticed. */
static void damage_is_noticed(void **state) {
    world world;
    begin(&world);
    assert_int_equal(add(&world, "a", 0), MR_OK);
    assert_int_equal(add(&world, "b", 0), MR_OK);
    disk real = world.failing.real;
    uint64_t size = size_of(&world, "tables-1");
    uint8_t byte, *whole = xmalloc(size);
    size_t got;
    assert_int_equal(real.ops->read(real.self, "tables-1", 0, whole, size, &got), MR_OK);
    for (uint64_t at = 0; at < size; at += 7) {
        byte = whole[at] ^ 0x10;
        assert_int_equal(real.ops->write(real.self, "tables-1", at, span_of(&byte, 1)), MR_OK);
        assert_int_equal(reopen(&world), MR_CORRUPT);
        assert_non_null(strstr(mr_last_error(), "tables"));
        assert_int_equal(real.ops->write(real.self, "tables-1", at, span_of(whole + at, 1)), MR_OK);
    }
    byte = '9'; /* another format */
    assert_int_equal(real.ops->write(real.self, "tables-1", 3, span_of(&byte, 1)), MR_OK);
    assert_int_equal(reopen(&world), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "has format 9; this version reads format 1"));
    assert_int_equal(disk_replace(real, "tables-1", span_of(whole, size - 1)), MR_OK);
    assert_int_equal(reopen(&world), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "'tables-1' is damaged: its size has changed"));
    assert_int_equal(disk_replace(real, "tables-1", span_of(whole, size)), MR_OK);
    byte = 77; /* not committed: a crash may have left it there */
    assert_int_equal(real.ops->write(real.self, "tables-1", size, span_of(&byte, 1)), MR_OK);
    assert_int_equal(reopen(&world), MR_OK);
    assert_int_equal(real.ops->remove(real.self, "tables-1"), MR_OK);
    assert_int_equal(reopen(&world), MR_CORRUPT);
    assert_non_null(strstr(mr_last_error(), "'tables-1' is damaged: it is missing"));
    free(whole);
    end(&world);
}

/* The value that release 0.2.0 wrote is replaced by a file; without that the tables would be lost. */
static void the_release_before_is_taken_over(void **state) {
    world world;
    uint8_t bytes[2000];
    begin(&world);
    assert_int_equal(add(&world, "a", 0), MR_OK);
    assert_int_equal(add(&world, "b", 2), MR_OK);
    writer writer = writer_of(bytes, sizeof bytes);
    writer_u32(&writer, TABLE_CATALOG_MAGIC_BEFORE);
    writer_u32(&writer, 17);
    writer_u32(&writer, 2);
    for (int i = 0; i < 2; i++) writer_bytes(&writer, world.told.entries[i]->bytes, world.told.entries[i]->size);
    assert_false(writer.failed);
    uint64_t version;
    span value, key = span_of(CATALOG_LOG_KEY, strlen(CATALOG_LOG_KEY));
    metadata_db_get(world.db, key, &version, &value);
    assert_int_equal(metadata_db_swap(world.db, key, version, span_of(bytes, writer_size(&writer)), 0), MR_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(reopen(&world), MR_OK);
        assert_true(id_of(&world, "a") == 1 && id_of(&world, "b") == 2);
        metadata_db_get(world.db, key, &version, &value);
        assert_memory_equal(value.data, "MKT3", 4);
    }
    assert_int_equal(add(&world, "c", 0), MR_OK);
    assert_int_equal(id_of(&world, "c"), 17);
    end(&world);
}

/* A metadata store that has lost its decisions has lost the tables, too; the follower is told. */
static void lost_decisions_lose_the_tables(void **state) {
    world world;
    begin(&world);
    assert_int_equal(add(&world, "a", 0), MR_OK);
    uint64_t version;
    span value, key = span_of("other", 5);
    metadata_db_get(world.db, key, &version, &value);
    assert_int_equal(metadata_db_heed(world.db, key, version + 9), MR_OK);
    assert_int_equal(id_of(&world, "a"), 0);
    assert_int_equal(world.told.count, 0);
    assert_int_equal(add(&world, "b", 0), MR_OK);
    assert_int_equal(reopen(&world), MR_OK);
    assert_true(id_of(&world, "a") == 0 && id_of(&world, "b") == 1);
    end(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_survive_restarts),          cmocka_unit_test(a_change_costs_its_own_bytes),
        cmocka_unit_test(a_file_does_not_grow_without_end), cmocka_unit_test(a_failing_disk_loses_nothing),
        cmocka_unit_test(a_failed_change_keeps_its_bytes),  cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(the_release_before_is_taken_over), cmocka_unit_test(lost_decisions_lose_the_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
