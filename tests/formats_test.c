/* formats_test.c — the samples in tests/formats, one of each file format of each release, are read by the library; with
 * another format number they are rejected by an error that gives both numbers and the action. `formats-test write
 * FOLDER` writes the samples of this version (tests/formats/make). So is a program that speaks another version of the
 * runtime's protocol.
 *
 *   scheduler/               the folder of a scheduler that was stopped: coordinator.db, manifest, files of slots
 *   scheduler-image/keeper   the same values where there is no SQLite
 *   export/                  what mr_ps_checkpoint_export writes
 *   feedback/rank-2          what codecs have lost, of a rank */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/format.h"
#include "base/safetensors.h"
#include "cluster/image.h"
#include "cluster/keeper.h"
#include "cluster/roster.h"
#include "cluster/sqlite.h"
#include "kv/catalogue.h"
#include "kv/corpus.h"
#include "kv/shelf/slot_file.h"
#include "kv/worker/memoir.h"
#include "net/disk.h"
#include "ps/chart.h"
#include "ps/depot.h"
#include "runtime/wire.h"
#include "tests/support/call_peer.h"
#include "tests/support/child.h"
#include "tests/support/ps_world.h"
#include "tests/support/status.h"

#define RELEASES \
    { "0.1.0" }
enum {
    KEYS = 6,
    DIM = 2,
    SLOTS = 2,
    ITEMS = 12,
    BLOCK = 5,
    FILE_MAX = 1 << 20,
    WAIT_MS = 60000,
    RANK = 2,
    GENERATION = 77,
    STEP = 3,
    RESTS = 100,
    FIRST = 10,
    TABLES = 3,
    PATH_SIZE = 512
};
static const uint64_t parts[] = {7, 5}; /* items of the data */
static const float rate = 0.5f;

/* ---- What is in the samples. */

static uint64_t key_at(int i) { return (uint64_t)i * 7919 + 3; }
static float row_at(int i) { return (float)i + 1; }           /* "rows": what was pushed, twice */
static float vector_at(int i) { return (float)i * 0.25f; }    /* "vectors" */
static float rest_at(int i) { return (float)i * 0.125f - 3; } /* of the feedback */
static float tuned_at(int times) {                            /* "model": adagrad with gradients of 1 */
    float weight = 0;
    for (int i = 1; i <= times; i++) weight -= rate / sqrtf((float)i);
    return weight;
}

typedef struct client {
    mr_ps *ps;
    mr_ps_table *tables[TABLES];
    uint64_t keys[KEYS];
    uint32_t lengths[KEYS];
} client;

static void join(const ps_world *world, client *client) {
    const mr_ps_array arrays[] = {{.name = "weights", .dims = 2, .shape = {3, 4}}};
    const mr_ps_table_options options[TABLES] = {
        {.dim = DIM},
        {.kind = MR_PS_VECTORS, .dtype = MR_F32},
        {.kind = MR_PS_DENSE, .arrays = arrays, .array_count = 1, .block = BLOCK, .optimizer = "adagrad", .rate = rate},
    };
    static const char *const names[TABLES] = {"rows", "vectors", "model"};
    client->ps = ps_world_connect(world, 0);
    assert_non_null(client->ps);
    for (int i = 0; i < TABLES; i++)
        must(mr_ps_table_create(client->ps, names[i], &options[i], PS_WORLD_PATIENCE_US, &client->tables[i]));
    for (int i = 0; i < KEYS; i++) {
        client->keys[i] = key_at(i);
        client->lengths[i] = 2;
    }
}

static void leave(client *client) {
    for (int i = 0; i < TABLES; i++) mr_ps_table_free(client->tables[i]);
    mr_ps_close(client->ps);
}

static void push(client *client) {
    float rows[KEYS * DIM], vectors[KEYS * 2], ones[ITEMS];
    for (int i = 0; i < KEYS * DIM; i++) rows[i] = row_at(i);
    for (int i = 0; i < KEYS * 2; i++) vectors[i] = vector_at(i);
    for (int i = 0; i < ITEMS; i++) ones[i] = 1;
    must(mr_ps_push(client->tables[0], client->keys, KEYS, rows, NULL, NULL, NULL));
    must(mr_ps_push(client->tables[1], client->keys, KEYS, vectors, client->lengths, NULL, NULL));
    must(mr_ps_push_array(client->tables[2], 0, ones, 0, ITEMS, NULL, NULL));
}

/* As it is after so many pushes. */
static void assert_tables(client *client, int times) {
    float rows[KEYS * DIM], vectors[KEYS * 2], weights[ITEMS];
    must(mr_ps_pull(client->tables[0], client->keys, KEYS, rows, NULL, NULL, NULL));
    must(mr_ps_pull(client->tables[1], client->keys, KEYS, vectors, client->lengths, NULL, NULL));
    must(mr_ps_pull_array(client->tables[2], 0, weights, 0, ITEMS, NULL, NULL));
    for (int i = 0; i < KEYS * DIM; i++) assert_true(rows[i] == row_at(i) * (float)times);
    for (int i = 0; i < KEYS * 2; i++) assert_true(vectors[i] == vector_at(i) * (float)times);
    for (int i = 0; i < ITEMS; i++) assert_true(fabsf(weights[i] - tuned_at(times)) < 1e-5f);
}

static ps_world begin_world(void) {
    ps_world world = {.servers = 1, .workers = 1, .slots = SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    assert_true(ps_world_init(&world));
    return world;
}

/* ---- Files. */

static char *path_of(const char *folder, const char *name) { return xasprintf("%s/%s", folder, name); }

static char *sample(const char *release, const char *name) {
    const char *source = getenv("MINIRAY_TEST_SOURCE");
    return xasprintf("%s/tests/formats/%s/%s", source == NULL ? "." : source, release, name);
}

static buffer read_bytes(const char *path) {
    buffer file;
    buffer_init(&file, FILE_MAX);
    must(buffer_reserve(&file, FILE_MAX));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_msg("%s is missing", path);
    ssize_t size = read(fd, file.data, FILE_MAX);
    assert_true(size > 0);
    file.size = (size_t)size;
    close(fd);
    return file;
}

static void write_bytes(const char *path, span bytes) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes.data, bytes.size), bytes.size);
    assert_int_equal(close(fd), 0);
}

static void copy_file(const char *from, const char *to) {
    buffer bytes = read_bytes(from);
    write_bytes(to, span_of(bytes.data, bytes.size));
    buffer_fini(&bytes);
}

/* All files of a folder but sockets. */
static void copy_folder(const char *from, const char *to) {
    DIR *folder = opendir(from);
    if (folder == NULL) fail_msg("%s is missing", from);
    for (struct dirent *item; (item = readdir(folder)) != NULL;) {
        char *source = path_of(from, item->d_name), *target = path_of(to, item->d_name);
        struct stat facts;
        if (stat(source, &facts) == 0 && S_ISREG(facts.st_mode)) copy_file(source, target);
        free(source);
        free(target);
    }
    closedir(folder);
}

static void remove_folder(const char *path) {
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *item; (item = readdir(folder)) != NULL;) unlinkat(dirfd(folder), item->d_name, 0);
    closedir(folder);
    assert_int_equal(rmdir(path), 0);
}

/* A copy of a folder of samples. */
static void begin_copy(const char *release, const char *name, char folder[TEMP_FOLDER_MAX]) {
    char *from = sample(release, name);
    assert_true(temp_folder(folder));
    copy_folder(from, folder);
    free(from);
}

/* Another byte there; the sum at the end is right again, if the file has one. */
static void change(const char *path, size_t offset, uint8_t byte, bool sealed) {
    buffer bytes = read_bytes(path);
    assert_true(offset < bytes.size && bytes.data[offset] != byte);
    bytes.data[offset] = byte;
    uint64_t sum = format_sum(span_of(bytes.data, bytes.size - sizeof sum));
    if (sealed) memcpy(bytes.data + bytes.size - sizeof sum, &sum, sizeof sum);
    write_bytes(path, span_of(bytes.data, bytes.size));
    buffer_fini(&bytes);
}

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

/* ---- Values of a coordinator. */

enum { VALUES_MAX = 16 };

typedef struct values {
    uint64_t generation;
    archive_record records[VALUES_MAX]; /* keys and values are owned */
    size_t count;
} values;

static span copy_of(span bytes) {
    uint8_t *copy = xmalloc(bytes.size + 1);
    if (bytes.size != 0) memcpy(copy, bytes.data, bytes.size);
    return span_of(copy, bytes.size);
}

static bool take_value(void *context, uint64_t generation, const archive_record *record) {
    values *values = context;
    if (values->count == VALUES_MAX) return false;
    archive_record *kept = &values->records[values->count++];
    *kept = *record;
    kept->key = copy_of(record->key);
    kept->value = copy_of(record->value);
    return true;
}

static values load_values(archive archive) {
    values values = {0};
    must(archive.ops->load(archive.self, take_value, &values, &values.generation));
    return values;
}

static void save_values(archive archive, const values *values) {
    for (size_t i = 0; i < values->count; i++)
        must(archive.ops->save(archive.self, &(archive_content){values->generation, values->records, i + 1}, i));
}

static void values_fini(values *values) {
    for (size_t i = 0; i < values->count; i++) {
        free((void *)(uintptr_t)values->records[i].key.data);
        free((void *)(uintptr_t)values->records[i].value.data);
    }
}

static span value_of(const values *values, const char *key) {
    for (size_t i = 0; i < values->count; i++)
        if (values->records[i].key.size == strlen(key) && memcmp(values->records[i].key.data, key, strlen(key)) == 0)
            return values->records[i].value;
    fail_msg("there is no value '%s'", key);
    return (span){0};
}

/* ---- Writing the samples of this version. */

static char *make_folder(const char *at, const char *name) {
    char *path = path_of(at, name);
    if (mkdir(path, 0755) != 0) fail_msg("%s cannot be made, or is there already", path);
    return path;
}

static void end_world(ps_world *world) {
    kill(world->server[0], SIGTERM);
    assert_int_equal(child_wait(world->server[0], WAIT_MS), 0);
    kill(world->scheduler, SIGTERM);
    assert_int_equal(child_wait(world->scheduler, WAIT_MS), 0);
    world->server[0] = world->scheduler = 0;
}

static void write_scheduler(const char *folder, const char *export) {
    ps_world world = begin_world();
    client client;
    uint64_t step, number;
    mr_ps_piece piece;
    assert_true(ps_world_start_scheduler(&world));
    ps_world_start_server(&world, 0);
    join(&world, &client);
    must(mr_ps_barrier(client.ps, "begin", MR_PS_WORKERS, PS_WORLD_PATIENCE_US));
    must(mr_ps_data_cut(client.ps, parts, 2, PS_WORLD_PATIENCE_US));
    for (int i = 0; i < 2; i++) {
        must(mr_ps_begin(client.ps, PS_WORLD_PATIENCE_US, &step));
        must(mr_ps_data_piece(client.ps, 2, PS_WORLD_PATIENCE_US, &piece));
        push(&client);
        must(mr_ps_end(client.ps));
        must(mr_ps_settle(client.ps, PS_WORLD_PATIENCE_US));
    }
    must(mr_ps_data_leave(client.ps, PS_WORLD_PATIENCE_US));
    must(mr_ps_checkpoint(world.address, PS_WORLD_PATIENCE_US, &number));
    leave(&client);
    end_world(&world);
    copy_folder(world.folder, folder);
    must(mr_ps_checkpoint_export(folder, 0, export));
    assert_true(ps_world_fini(&world));
}

static void write_image(const char *from, const char *to) {
    char *path = path_of(from, "coordinator.db");
    sqlite *sqlite;
    image image = {0};
    must(sqlite_open(path, &sqlite));
    must(disk_open(to, &image.disk));
    values values = load_values(sqlite_archive(sqlite));
    save_values(image_archive(&image), &values);
    values_fini(&values);
    disk_close(image.disk);
    sqlite_close(sqlite);
    free(path);
}

static void write_feedback(const char *folder) {
    char *path = path_of(folder, "rank-2");
    const uint64_t keys[] = {5, 6};
    const float rests[] = {0.5f, -0.25f, 0.75f, 2};
    float *stretch;
    memoir *memoir = memoir_create(0);
    memoir_keep(memoir, path);
    memoir_begin(memoir, RANK, GENERATION, 0);
    for (uint64_t step = 0; step < STEP; step++) { /* so there are records of what has changed, too */
        feedback_write(memoir_of(memoir, 1), &(feedback_keys){.keys = keys, .count = 2, .dim = 2}, rests);
        must(feedback_stretch(memoir_of(memoir, 9), 0, 200, FIRST, RESTS, &stretch));
        for (int i = 0; i < RESTS; i++) stretch[i] = rest_at(i);
        memoir_end(memoir, step + 1);
    }
    memoir_destroy(memoir);
    free(path);
}

static void write_samples(void **state) {
    const char *folder = *state;
    char *scheduler = make_folder(folder, "scheduler"), *image = make_folder(folder, "scheduler-image");
    char *export = make_folder(folder, "export"), *feedback = make_folder(folder, "feedback");
    write_scheduler(scheduler, export);
    write_image(scheduler, image);
    write_feedback(feedback);
    free(scheduler);
    free(image);
    free(export);
    free(feedback);
}

/* ---- The folder of a scheduler. */

static bool has_sqlite(void) {
    char folder[TEMP_FOLDER_MAX];
    sqlite *sqlite = NULL;
    assert_true(temp_folder(folder));
    char *path = path_of(folder, "try.db");
    mr_status status = sqlite_open(path, &sqlite);
    if (status == MR_OK) sqlite_close(sqlite);
    if (status == MR_NOT_FOUND) print_message("this machine has no SQLite: its samples are not read\n");
    free(path);
    remove_folder(folder);
    return status == MR_OK;
}

static void a_scheduler_continues(void **state) {
    const char *release = *state;
    if (!has_sqlite()) skip();
    ps_world world = begin_world();
    client client;
    char *from = sample(release, "scheduler");
    copy_folder(from, world.folder);
    free(from);
    assert_true(ps_world_start_scheduler(&world));
    ps_world_start_server(&world, 0);
    join(&world, &client);
    assert_tables(&client, 2);
    push(&client); /* the state of optimizers is there, too */
    assert_tables(&client, 3);
    must(mr_ps_data_cut(client.ps, parts, 2, PS_WORLD_PATIENCE_US));
    assert_int_equal(mr_ps_data_cut(client.ps, parts, 1, PS_WORLD_PATIENCE_US), MR_EXISTS);
    leave(&client);
    assert_true(ps_world_fini(&world));
}

typedef struct expected {
    char folder[TEMP_FOLDER_MAX];
    unsigned found, known;
} expected;

/* In another process: one that rejects nothing would serve forever. */
static int start_and_fail(void *argument) {
    const expected *expected = argument;
    char *address = xasprintf("unix:%s/s", expected->folder);
    mr_ps_scheduler_options options = {.listen = address,
                                       .folder = expected->folder,
                                       .workers = 1,
                                       .servers = 1,
                                       .slots = SLOTS,
                                       .copies = 1,
                                       .consistency = MR_PS_ASP};
    CHILD_CHECK(mr_ps_run_scheduler(&options) == MR_CORRUPT);
    CHILD_CHECK(has_both(mr_last_error(), expected->found, expected->known));
    CHILD_CHECK(strstr(mr_last_error(), expected->folder) != NULL);
    free(address);
    return 0;
}

static void assert_not_started(expected *expected, unsigned found, unsigned known) {
    expected->found = found;
    expected->known = known;
    assert_int_equal(child_run(start_and_fail, expected, WAIT_MS), 0);
    remove_folder(expected->folder);
}

/* SQLite's user_version lies at 60, its least byte last. */
static void another_database_is_rejected(void **state) {
    expected expected;
    if (!has_sqlite()) skip();
    begin_copy(*state, "scheduler", expected.folder);
    char *path = path_of(expected.folder, "coordinator.db");
    change(path, 63, 9, false);
    free(path);
    assert_not_started(&expected, 9, SQLITE_ARCHIVE_FORMAT);
}

static void another_value_is_rejected(void **state) {
    static const struct {
        const char *key;
        size_t offset;
        uint8_t byte;
        unsigned found, known;
    } changes[] = {{CHART_KEY, 0, 99, 99, CHART_LAYOUT},
                   {ROSTER_KEY, 0, 99, 99, ROSTER_LAYOUT},
                   {CORPUS_KEY, 0, 99, 99, CORPUS_LAYOUT},
                   {CATALOGUE_KEY, 3, '9', 9, 2}};
    if (!has_sqlite()) skip();
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        expected expected;
        sqlite *sqlite;
        begin_copy(*state, "scheduler", expected.folder);
        char *path = path_of(expected.folder, "coordinator.db");
        must(sqlite_open(path, &sqlite));
        values values = load_values(sqlite_archive(sqlite));
        ((uint8_t *)(uintptr_t)value_of(&values, changes[i].key).data)[changes[i].offset] = changes[i].byte;
        save_values(sqlite_archive(sqlite), &values);
        values_fini(&values);
        sqlite_close(sqlite);
        free(path);
        assert_not_started(&expected, changes[i].found, changes[i].known);
    }
}

static void the_image_has_the_same_values(void **state) {
    char folder[TEMP_FOLDER_MAX];
    image image = {0};
    chart chart = {0};
    catalogue catalogue;
    corpus corpus = {0};
    roster roster = {0};
    begin_copy(*state, "scheduler-image", folder);
    must(disk_open(folder, &image.disk));
    values values = load_values(image_archive(&image));
    must(chart_follow(&chart, value_of(&values, CHART_KEY)));
    assert_true(chart.slot_count == SLOTS && chart.rank_count == 1 && chart.consistency.kind == CONSISTENCY_ASP);
    must(catalogue_decode(value_of(&values, CATALOGUE_KEY), &catalogue));
    assert_int_equal(catalogue.count, TABLES);
    assert_string_equal(catalogue.tables[2].arrays[0].name, "weights");
    must(corpus_decode(value_of(&values, CORPUS_KEY), &corpus));
    assert_true(corpus.count == 2 && corpus.sizes[0] == parts[0] && corpus.sizes[1] == parts[1]);
    must(roster_decode(value_of(&values, ROSTER_KEY), &roster));
    chart_fini(&chart);
    catalogue_fini(&catalogue);
    corpus_fini(&corpus);
    roster_fini(&roster);
    values_fini(&values);

    char *path = path_of(folder, IMAGE_FILE);
    uint64_t generation;
    change(path, 3, '9', true);
    values = (struct values){0};
    assert_rejected(image_archive(&image).ops->load(&image, take_value, &values, &generation), 9, 3);
    assert_int_equal(values.count, 0);
    free(path);
    disk_close(image.disk);
    remove_folder(folder);
}

/* ---- Checkpoints. */

static void another_manifest_is_rejected(void **state) {
    expected expected;
    mr_ps_checkpoints *all = NULL;
    begin_copy(*state, "scheduler", expected.folder);
    must(mr_ps_checkpoints_get(expected.folder, &all));
    assert_true(all->count > 0 && all->list[0].damage[0] == '\0' && all->list[0].table_count == TABLES);
    mr_ps_checkpoints_free(all);
    char *path = path_of(expected.folder, DEPOT_MANIFEST);
    change(path, 3, '9', true);
    free(path);
    assert_rejected(mr_ps_checkpoints_get(expected.folder, &all), 9, 3);
    assert_rejected(mr_ps_checkpoint_export(expected.folder, 0, expected.folder), 9, 3);
    if (has_sqlite())
        assert_not_started(&expected, 9, 3);
    else
        remove_folder(expected.folder);
}

static void files_of_slots_are_read(void **state) {
    char *folder = sample(*state, "scheduler");
    DIR *files = opendir(folder);
    size_t count = 0;
    assert_non_null(files);
    for (struct dirent *item; (item = readdir(files)) != NULL;) {
        if (strncmp(item->d_name, "shard-", 6) != 0) continue;
        char *path = path_of(folder, item->d_name);
        buffer file = read_bytes(path), shard;
        buffer_init(&shard, FILE_MAX);
        must(slot_file_decode(span_of(file.data, file.size), &shard));
        char *number = memmem(file.data, file.size, SLOT_FILE_FORMAT, strlen(SLOT_FILE_FORMAT));
        assert_non_null(number);
        number[strlen(SLOT_FILE_NAME)] = '9';
        assert_rejected(slot_file_decode(span_of(file.data, file.size), &shard), 9, 1);
        buffer_fini(&shard);
        buffer_fini(&file);
        free(path);
        count++;
    }
    assert_true(count >= SLOTS);
    closedir(files);
    free(folder);
}

static const float *tensor(const safetensors *list, const char *name, size_t items) {
    const safetensor *found = safetensors_find(list, name);
    if (found == NULL) fail_msg("there is no '%s'", name);
    assert_true(found->dtype == SAFETENSORS_F32 && found->data.size == items * sizeof(float));
    return (const float *)(const void *)found->data.data;
}

/* The library does not read it: others do, as safetensors. */
static void an_export_is_as_it_was(void **state) {
    char *folder = sample(*state, "export"), *path = NULL;
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (struct dirent *item; (item = readdir(files)) != NULL;)
        if (strncmp(item->d_name, "checkpoint-", 11) == 0) path = path_of(folder, item->d_name);
    closedir(files);
    assert_non_null(path);
    buffer file = read_bytes(path);
    safetensors list = {0};
    must(safetensors_read(span_of(file.data, file.size), &list));
    assert_string_equal(safetensors_text_of(&list, "format"), "miniray checkpoint 1");
    const float *rows = tensor(&list, "rows/values", KEYS * DIM), *weights = tensor(&list, "model/weights", ITEMS);
    for (int i = 0; i < KEYS * DIM; i++) assert_true(rows[i] == row_at(i) * 2); /* keys ascend */
    for (int i = 0; i < ITEMS; i++) assert_true(fabsf(weights[i] - tuned_at(2)) < 1e-5f);
    safetensors_fini(&list);
    buffer_fini(&file);
    free(path);
    free(folder);
}

/* ---- Feedback. */

static void feedback_is_read(void **state) {
    char folder[TEMP_FOLDER_MAX];
    const uint64_t keys[] = {5, 6};
    float rests[4] = {0}, *stretch;
    begin_copy(*state, "feedback", folder);
    char *path = path_of(folder, "rank-2");
    memoir *memoir = memoir_create(0);
    memoir_keep(memoir, path);
    memoir_begin(memoir, RANK, GENERATION, STEP);
    assert_non_null(memoir_find(memoir, 1));
    feedback_read(memoir_find(memoir, 1), &(feedback_keys){.keys = keys, .count = 2, .dim = 2}, rests);
    assert_true(rests[0] == 0.5f && rests[1] == -0.25f && rests[2] == 0.75f && rests[3] == 2);
    must(feedback_stretch(memoir_of(memoir, 9), 0, 200, FIRST, RESTS, &stretch));
    for (int i = 0; i < RESTS; i++) assert_true(stretch[i] == rest_at(i));
    assert_int_equal(memoir_look_at(memoir).begun_empty, 0);
    memoir_destroy(memoir);
    free(path);
    remove_folder(folder);
}

/* The rank goes on without: that is said on stderr, and the file stays. */
static void other_feedback_is_rejected(void **state) {
    char folder[TEMP_FOLDER_MAX], text[1024] = "";
    begin_copy(*state, "feedback", folder);
    char *path = path_of(folder, "rank-2"), *said = path_of(folder, "stderr");
    change(path, 7, '9', false);
    buffer before = read_bytes(path);
    int to = open(said, O_RDWR | O_CREAT | O_CLOEXEC, 0600), kept = dup(2);
    assert_true(to >= 0 && kept >= 0 && fflush(stderr) == 0 && dup2(to, 2) == 2);
    memoir *memoir = memoir_create(0);
    memoir_keep(memoir, path);
    memoir_begin(memoir, RANK, GENERATION, STEP);
    bool empty = memoir_find(memoir, 1) == NULL;
    memoir_end(memoir, STEP + 1);
    memoir_destroy(memoir);
    assert_int_equal(dup2(kept, 2), 2);
    close(kept);
    assert_true(empty && pread(to, text, sizeof text - 1, 0) > 0);
    close(to);
    assert_true(has_both(text, 9, 1));
    assert_non_null(strstr(text, path));
    buffer after = read_bytes(path);
    assert_int_equal(after.size, before.size);
    assert_memory_equal(after.data, before.data, before.size);
    buffer_fini(&before);
    buffer_fini(&after);
    free(path);
    free(said);
    remove_folder(folder);
}

/* ---- The runtime's protocol. */

typedef struct stranger { /* a program of another release */
    call_peer peer;
    link_id link;
    bool linked, answered;
    mr_status status;
    char text[ERROR_TEXT_MAX];
} stranger;

static void ignore(void *context, const call_request *request) {}
static void on_linked(void *context, link_id link, const peer *peer) { ((stranger *)context)->linked = true; }

static void on_answer(void *argument, call_id id, const call_result *result) {
    stranger *stranger = argument;
    stranger->answered = true;
    stranger->status = result->status;
    snprintf(stranger->text, sizeof stranger->text, "%.*s", (int)result->payload.size,
             result->payload.size == 0 ? "" : (const char *)result->payload.data);
}

static void another_runtime_protocol_is_rejected(void **state) {
    static const call_handlers handlers = {.on_request = ignore, .on_link_open = on_linked};
    enum { OTHER = WIRE_VERSION + 1, JOIN_SIZE = 9, TURN_US = 10000 };
    char words[ERROR_TEXT_MAX];
    stranger stranger = {0};
    mr_context *mr;
    uint8_t *payload;
    must(mr_init(&(mr_options){.num_workers = 1}, &mr));
    must(call_peer_open(&stranger.peer, WIRE_SHM, mr_address(mr), "stranger", &handlers, &stranger));
    transport transport = stranger.peer.env.transport;
    must(transport.ops->open(transport.self, "shm:node", &stranger.link));
    for (int64_t us = 0; !stranger.linked && us < PS_WORLD_PATIENCE_US; us += TURN_US)
        call_peer_turn(&stranger.peer, TURN_US);
    must(calls_begin(stranger.peer.calls, stranger.link, NODE_JOIN, JOIN_SIZE, &payload));
    writer writer = writer_of(payload, JOIN_SIZE);
    writer_u32(&writer, OTHER);
    writer_u8(&writer, WIRE_WATCHER);
    writer_u32(&writer, (uint32_t)getpid());
    (void)calls_commit(stranger.peer.calls, 0, stranger.link, JOIN_SIZE, NULL, on_answer, &stranger);
    for (int64_t us = 0; !stranger.answered && us < PS_WORLD_PATIENCE_US; us += TURN_US)
        call_peer_turn(&stranger.peer, TURN_US);
    assert_int_equal(stranger.status, MR_DENIED);
    snprintf(words, sizeof words, "version %d of the runtime's protocol, the node version %d: use the same", OTHER,
             WIRE_VERSION);
    assert_non_null(strstr(stranger.text, words));
    call_peer_close(&stranger.peer);
    mr_shutdown(mr);
}

int main(int argc, char **argv) {
    static const char *const releases[] = RELEASES;
    mr_context *mr;
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* a worker: serves here */
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(write_samples, argv[2])};
        return cmocka_run_group_tests(tests, NULL, NULL);
    }
    const struct CMUnitTest others[] = {cmocka_unit_test(another_runtime_protocol_is_rejected)};
    int failed = 0;
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        void *release = (void *)(uintptr_t)releases[i];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(a_scheduler_continues, release),
            cmocka_unit_test_prestate(another_database_is_rejected, release),
            cmocka_unit_test_prestate(another_value_is_rejected, release),
            cmocka_unit_test_prestate(the_image_has_the_same_values, release),
            cmocka_unit_test_prestate(another_manifest_is_rejected, release),
            cmocka_unit_test_prestate(files_of_slots_are_read, release),
            cmocka_unit_test_prestate(an_export_is_as_it_was, release),
            cmocka_unit_test_prestate(feedback_is_read, release),
            cmocka_unit_test_prestate(other_feedback_is_rejected, release),
        };
        print_message("release %s\n", releases[i]);
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed + cmocka_run_group_tests(others, NULL, NULL); /* at last: a runtime has threads */
}
