/* formats_test.c — the library reads the samples in tests/formats, one of each file format of each release, and rejects
 * another format number with an error that gives both numbers and the action. `formats-test write FOLDER` writes the
 * samples of this version (tests/formats/make). The content of the samples: tests/support/samples.h. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
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
#include "base/safetensors.h"
#include "cluster/consumer_group.h"
#include "cluster/metadata_file.h"
#include "cluster/sqlite_import.h"
#include "kv/checkpoint/snapshot_file.h"
#include "kv/client/feedback_file.h"
#include "kv/control/catalog_log.h"
#include "kv/control/dataset_spec.h"
#include "miniray/model.h"
#include "net/disk.h"
#include "ps/checkpoint_store.h"
#include "ps/cluster_map.h"
#include "tests/support/samples.h"
#include "tests/support/status_assert.h"
#include "tests/support/test_child.h"

#define RELEASES \
    { "0.1.0", "0.2.0" }
enum { WAIT_MS = 60000 };

static bool has_both(const char *text, unsigned found, unsigned known) {
    char words[80];
    snprintf(words, sizeof words, "has format %u; this version reads format %u: use the", found, known);
    if (strstr(text, words) != NULL) return true;
    fprintf(stderr, "it said: %s\n", text);
    return false;
}

static void assert_rejected(mr_status status, unsigned found, unsigned known) {
    assert_int_equal(status, MR_CORRUPT);
    assert_true(has_both(mr_last_error(), found, known));
}

/* ---- The folder of a scheduler. */

/* Only 0.1.0 used a database, which needs SQLite to be imported. */
static bool can_import(const char *release) {
    if (strcmp(release, "0.1.0") != 0) return false;
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) print_message("this machine has no SQLite: the import of its samples is not tested\n");
    if (library != NULL) dlclose(library);
    return library != NULL;
}

/* Copies the sample folder of a scheduler. The file `keeper` is copied as well for the release that used a database. */
static void copy_scheduler(const char *release, const char *folder) {
    char *from = sample_of(release, "scheduler"), *image = sample_of(release, "scheduler-image"),
         *database = sample_path(folder, SQLITE_IMPORT_FILE);
    sample_copy_files(from, folder);
    if (access(image, F_OK) == 0) {
        assert_int_equal(unlink(database), 0);
        sample_copy_files(image, folder);
    }
    free(from);
    free(image);
    free(database);
}

static void assert_continues(ps_fixture *fixture) {
    sample_client client;
    assert_true(ps_fixture_start_scheduler(fixture));
    ps_fixture_start_server(fixture, 0);
    sample_client_join(fixture, &client);
    sample_client_check(&client, 2);
    sample_client_push(&client); /* the state of optimizers is restored, too */
    sample_client_check(&client, 3);
    must(mr_ps_dataset_define(client.ps, sample_parts, 2, PS_FIXTURE_PATIENCE_US));
    assert_int_equal(mr_ps_dataset_define(client.ps, sample_parts, 1, PS_FIXTURE_PATIENCE_US), MR_EXISTS);
    sample_client_leave(&client);
}

static void a_scheduler_continues(void **state) {
    ps_fixture fixture = sample_world();
    copy_scheduler(*state, fixture.folder);
    assert_continues(&fixture);
    assert_true(ps_fixture_fini(&fixture));
}

/* A folder as the release left it. The database of 0.1.0 is imported once. */
static void a_folder_with_a_database_continues(void **state) {
    if (!can_import(*state)) skip();
    ps_fixture fixture = sample_world();
    char *from = sample_of(*state, "scheduler");
    sample_copy_files(from, fixture.folder);
    assert_continues(&fixture);
    ps_fixture_kill(&fixture, &fixture.server[0]);
    ps_fixture_kill(&fixture, &fixture.scheduler);
    char *database = sample_path(fixture.folder, SQLITE_IMPORT_FILE),
         *done = sample_path(fixture.folder, SQLITE_IMPORT_DONE);
    assert_true(access(database, F_OK) != 0 && access(done, F_OK) == 0);
    assert_true(ps_fixture_start_scheduler(&fixture)); /* the second start does without the database */
    free(from);
    free(database);
    free(done);
    assert_true(ps_fixture_fini(&fixture));
}

typedef struct expected {
    char folder[TEMP_DIR_FOLDER_MAX];
    unsigned found, known;
} expected;

/* Runs in another process, since a scheduler that rejects nothing would serve for ever. */
static int start_and_fail(void *argument) {
    const expected *expected = argument;
    char *address = xasprintf("unix:%s/s", expected->folder);
    mr_ps_scheduler_options options =
        MR_OPTIONS(mr_ps_scheduler_options, .listen = address, .checkpoint_dir = expected->folder, .num_workers = 1,
                   .num_servers = 1, .slots = SAMPLE_SLOTS, .replicas = 1, .consistency = MR_PS_ASP);
    TEST_CHILD_CHECK(mr_ps_run_scheduler(&options) == MR_CORRUPT);
    TEST_CHILD_CHECK(has_both(mr_last_error(), expected->found, expected->known));
    TEST_CHILD_CHECK(strstr(mr_last_error(), expected->folder) != NULL);
    free(address);
    return 0;
}

static void assert_not_started(expected *expected, unsigned found, unsigned known) {
    expected->found = found;
    expected->known = known;
    assert_int_equal(test_child_run(start_and_fail, expected, WAIT_MS), 0);
    sample_remove(expected->folder);
}

/* SQLite's user_version is at offset 60, big-endian. */
static void another_database_is_rejected(void **state) {
    expected expected;
    if (!can_import(*state)) skip();
    sample_copy(*state, "scheduler", expected.folder);
    char *path = sample_path(expected.folder, SQLITE_IMPORT_FILE);
    sample_change(path, 63, 9, 0);
    free(path);
    assert_not_started(&expected, 9, SQLITE_IMPORT_FORMAT);
}

static void another_value_is_rejected(void **state) {
    static const struct {
        const char *key;
        size_t offset;
        uint8_t byte;
        unsigned found, known;
    } changes[] = {{CLUSTER_MAP_KEY, 0, 99, 99, CLUSTER_MAP_LAYOUT},
                   {CONSUMER_GROUP_KEY, 0, 99, 99, CONSUMER_GROUP_LAYOUT},
                   {DATASET_SPEC_KEY, 0, 99, 99, DATASET_SPEC_LAYOUT},
                   {CATALOG_LOG_KEY, 3, '9', 9, CATALOG_LOG_FORMAT}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        expected expected;
        metadata_file file = {0};
        assert_true(temp_dir_folder(expected.folder));
        copy_scheduler(*state, expected.folder);
        must(disk_open(expected.folder, &file.disk));
        sample_values values = sample_values_load(metadata_file_storage(&file));
        ((uint8_t *)(uintptr_t)sample_values_of(&values, changes[i].key).data)[changes[i].offset] = changes[i].byte;
        sample_values_save(metadata_file_storage(&file), &values);
        sample_values_fini(&values);
        disk_close(file.disk);
        assert_not_started(&expected, changes[i].found, changes[i].known);
    }
}

/* The tables, in the format of any release; the first start takes them over. */
static void the_tables_are_read(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    metadata_file file = {0};
    rng rng;
    assert_true(temp_dir_folder(folder));
    copy_scheduler(*state, folder);
    must(disk_open(folder, &file.disk));
    rng_init(&rng, 1);
    for (int i = 0; i < 2; i++) {
        metadata_db *db;
        catalog_log *log;
        table_catalog_table model;
        must(metadata_db_open(metadata_file_storage(&file), &rng, 0, &db));
        must(catalog_log_open(file.disk, db, &log));
        const table_catalog *catalog = catalog_log_tables(log);
        assert_int_equal(catalog->count, SAMPLE_TABLES);
        must(table_catalog_table_decode(span_of(catalog->entries[2]->bytes, catalog->entries[2]->size), &model));
        assert_string_equal(model.arrays[0].name, "weights");
        table_catalog_table_fini(&model);
        catalog_log_close(log);
        metadata_db_close(db);
    }
    disk_close(file.disk);
    sample_remove(folder);
}

static void an_image_is_read(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    metadata_file file = {0};
    cluster_map map = {0};
    dataset_spec spec = {0};
    consumer_group group = {0};
    assert_true(temp_dir_folder(folder));
    copy_scheduler(*state, folder);
    must(disk_open(folder, &file.disk));
    sample_values values = sample_values_load(metadata_file_storage(&file));
    must(cluster_map_follow(&map, sample_values_of(&values, CLUSTER_MAP_KEY)));
    assert_true(map.slot_count == SAMPLE_SLOTS && map.rank_count == 1 && map.consistency.kind == CONSISTENCY_ASP);
    must(dataset_spec_decode(sample_values_of(&values, DATASET_SPEC_KEY), &spec));
    assert_true(spec.count == 2 && spec.sizes[0] == sample_parts[0] && spec.sizes[1] == sample_parts[1]);
    must(consumer_group_decode(sample_values_of(&values, CONSUMER_GROUP_KEY), &group));
    cluster_map_fini(&map);
    dataset_spec_fini(&spec);
    consumer_group_fini(&group);
    size_t corpus_bytes = sample_values_of(&values, DATASET_SPEC_KEY).size;
    uint64_t saves = file.number; /* 0 for format 3, which has no count */

    sample_values_save(metadata_file_storage(&file), &values); /* in the format of this version */
    sample_values_fini(&values);
    values = sample_values_load(metadata_file_storage(&file));
    assert_int_equal(file.number, saves + values.count);
    assert_int_equal(sample_values_of(&values, DATASET_SPEC_KEY).size, corpus_bytes);
    sample_values_fini(&values);
    disk_close(file.disk);
    sample_remove(folder);
}

/* A file with another format number and a valid checksum. */
static void another_image_is_rejected(void **state) {
    expected expected;
    assert_true(temp_dir_folder(expected.folder));
    copy_scheduler(*state, expected.folder);
    char *path = sample_path(expected.folder, METADATA_FILE_FILE);
    buffer file = sample_read(path);
    sample_change(path, 3, '9', file.data[3] == '3' ? SAMPLE_SUMMED_ALL : 8);
    buffer_fini(&file);
    free(path);
    assert_not_started(&expected, 9, METADATA_FILE_FORMAT);
}

/* ---- Checkpoints. */

static void another_manifest_is_rejected(void **state) {
    expected expected;
    mr_ps_checkpoints *all = NULL;
    assert_true(temp_dir_folder(expected.folder));
    copy_scheduler(*state, expected.folder);
    must(mr_ps_checkpoints_get(expected.folder, &all));
    assert_true(all->count > 0 && all->list[0].damage[0] == '\0' && all->list[0].table_count == SAMPLE_TABLES);
    mr_ps_checkpoints_free(all);
    char *path = sample_path(expected.folder, CHECKPOINT_STORE_MANIFEST);
    sample_change(path, 3, '9', SAMPLE_SUMMED_ALL);
    free(path);
    assert_rejected(mr_ps_checkpoints_get(expected.folder, &all), 9, 4);
    assert_rejected(mr_ps_checkpoint_export(expected.folder, 0, expected.folder), 9, 4);
    assert_not_started(&expected, 9, 4);
}

static void files_of_slots_are_read(void **state) {
    char *folder = sample_of(*state, "scheduler");
    DIR *files = opendir(folder);
    size_t count = 0;
    assert_non_null(files);
    for (struct dirent *item; (item = readdir(files)) != NULL;) {
        if (strncmp(item->d_name, "shard-", 6) != 0) continue;
        char *path = sample_path(folder, item->d_name);
        buffer file = sample_read(path), shard;
        buffer_init(&shard, SAMPLE_FILE_MAX);
        must(snapshot_file_decode(span_of(file.data, file.size), &shard));
        char *number = memmem(file.data, file.size, SNAPSHOT_FILE_NAME, strlen(SNAPSHOT_FILE_NAME));
        assert_non_null(number);
        number[strlen(SNAPSHOT_FILE_NAME)] = '9';
        assert_rejected(snapshot_file_decode(span_of(file.data, file.size), &shard), 9, 2);
        buffer_fini(&shard);
        buffer_fini(&file);
        free(path);
        count++;
    }
    assert_true(count >= SAMPLE_SLOTS);
    closedir(files);
    free(folder);
}

static const float *tensor(const safetensors *list, const char *name, size_t items) {
    const safetensor *found = safetensors_find(list, name);
    if (found == NULL) fail_msg("there is no '%s'", name);
    assert_true(found->dtype == SAFETENSORS_F32 && found->data.size == items * sizeof(float));
    return (const float *)(const void *)found->data.data;
}

/* Exports are safetensors files for other programs; the library does not read them. */
static void an_export_is_as_it_was(void **state) {
    char *folder = sample_of(*state, "export"), *path = NULL;
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (struct dirent *item; (item = readdir(files)) != NULL;)
        if (strncmp(item->d_name, "checkpoint-", 11) == 0) path = sample_path(folder, item->d_name);
    closedir(files);
    assert_non_null(path);
    buffer file = sample_read(path);
    safetensors list = {0};
    must(safetensors_read(span_of(file.data, file.size), &list));
    assert_string_equal(safetensors_text_of(&list, "format"), "miniray checkpoint 1");
    const float *rows = tensor(&list, "rows/values", SAMPLE_KEYS * SAMPLE_DIM),
                *weights = tensor(&list, "model/weights", SAMPLE_ITEMS);
    for (int i = 0; i < SAMPLE_KEYS * SAMPLE_DIM; i++) assert_true(rows[i] == sample_row(i) * 2); /* keys ascend */
    for (int i = 0; i < SAMPLE_ITEMS; i++) assert_true(fabsf(weights[i] - sample_weight(2)) < 1e-5f);
    safetensors_fini(&list);
    buffer_fini(&file);
    free(path);
    free(folder);
}

/* ---- Feedback. */

static void feedback_is_read(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    const uint64_t keys[] = {5, 6};
    float rests[4] = {0}, *stretch;
    sample_copy(*state, "feedback", folder);
    char *path = sample_path(folder, "rank-2");
    feedback_file *file = feedback_file_create(0);
    feedback_file_keep(file, path);
    feedback_file_begin(file, SAMPLE_RANK, SAMPLE_GENERATION, SAMPLE_STEP);
    assert_non_null(feedback_file_find(file, 1));
    error_feedback_read(feedback_file_find(file, 1), &(error_feedback_keys){.keys = keys, .count = 2, .dim = 2}, rests);
    assert_true(rests[0] == 0.5f && rests[1] == -0.25f && rests[2] == 0.75f && rests[3] == 2);
    must(error_feedback_stretch(feedback_file_of(file, 9), 0, 200, SAMPLE_FIRST, SAMPLE_RESTS, &stretch));
    for (int i = 0; i < SAMPLE_RESTS; i++) assert_true(stretch[i] == sample_rest(i));
    assert_int_equal(feedback_file_look_at(file).begun_empty, 0);
    feedback_file_destroy(file);
    free(path);
    sample_remove(folder);
}

/* The rank continues without its feedback, with a message on stderr, and the file stays. */
static void other_feedback_is_rejected(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], text[1024] = "";
    sample_copy(*state, "feedback", folder);
    char *path = sample_path(folder, "rank-2"), *said = sample_path(folder, "stderr");
    sample_change(path, 7, '9', 0);
    buffer before = sample_read(path);
    int to = open(said, O_RDWR | O_CREAT | O_CLOEXEC, 0600), kept = dup(2);
    assert_true(to >= 0 && kept >= 0 && fflush(stderr) == 0 && dup2(to, 2) == 2);
    feedback_file *file = feedback_file_create(0);
    feedback_file_keep(file, path);
    feedback_file_begin(file, SAMPLE_RANK, SAMPLE_GENERATION, SAMPLE_STEP);
    bool empty = feedback_file_find(file, 1) == NULL;
    feedback_file_end(file, SAMPLE_STEP + 1);
    feedback_file_destroy(file);
    assert_int_equal(dup2(kept, 2), 2);
    close(kept);
    assert_true(empty && pread(to, text, sizeof text - 1, 0) > 0);
    close(to);
    assert_true(has_both(text, 9, 1));
    assert_non_null(strstr(text, path));
    buffer after = sample_read(path);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.data, before.data, before.size);
    buffer_fini(&before);
    buffer_fini(&after);
    free(path);
    free(said);
    sample_remove(folder);
}

/* ---- A checkpoint of a model server. */

/* The sample of the release; of one that had no such checkpoints, what this version writes. */
static void copy_model(const char *release, char folder[TEMP_DIR_FOLDER_MAX]) {
    char *sample = sample_of(release, "model");
    if (access(sample, F_OK) == 0)
        sample_copy(release, "model", folder);
    else {
        assert_true(temp_dir_folder(folder));
        sample_model_write(folder);
    }
    free(sample);
}

static void a_model_is_read(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    copy_model(*state, folder);
    sample_model_check(folder);
    sample_remove(folder);
}

static void another_model_is_rejected(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_model_checkpoint facts;
    copy_model(*state, folder);
    char *path = sample_path(folder, "manifest");
    sample_change(path, 3, '9', SAMPLE_SUMMED_ALL);
    assert_rejected(mr_model_checkpoint_peek(folder, &facts), 9, 1);
    assert_non_null(strstr(mr_last_error(), folder));
    free(path);
    sample_remove(folder);
}

static void write_samples(void **state) { samples_write(*state); }

int main(int argc, char **argv) {
    static const char *const releases[] = RELEASES;
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(write_samples, argv[2])};
        return cmocka_run_group_tests(tests, NULL, NULL);
    }
    int failed = 0;
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        void *release = (void *)(uintptr_t)releases[i];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(a_scheduler_continues, release),
            cmocka_unit_test_prestate(a_folder_with_a_database_continues, release),
            cmocka_unit_test_prestate(another_database_is_rejected, release),
            cmocka_unit_test_prestate(another_value_is_rejected, release),
            cmocka_unit_test_prestate(the_tables_are_read, release),
            cmocka_unit_test_prestate(an_image_is_read, release),
            cmocka_unit_test_prestate(another_image_is_rejected, release),
            cmocka_unit_test_prestate(another_manifest_is_rejected, release),
            cmocka_unit_test_prestate(files_of_slots_are_read, release),
            cmocka_unit_test_prestate(an_export_is_as_it_was, release),
            cmocka_unit_test_prestate(feedback_is_read, release),
            cmocka_unit_test_prestate(other_feedback_is_rejected, release),
            cmocka_unit_test_prestate(a_model_is_read, release),
            cmocka_unit_test_prestate(another_model_is_rejected, release),
        };
        print_message("release %s\n", releases[i]);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
