/* samples.c — see samples.h. */
#include "tests/support/samples.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/format.h"
#include "kv/client/feedback_file.h"
#include "miniray/model.h"
#include "net/disk.h"
#include "net/value.h"
#include "tests/support/status_assert.h"
#include "train/model_checkpoint.h"

enum { BLOCK = 5 };
static const float rate = 0.5f;
const uint64_t sample_parts[SAMPLE_PARTS] = {7, 5};

/* ---- Content of the samples. */

uint64_t sample_key(int i) { return (uint64_t)i * 7919 + 3; }
float sample_row(int i) { return (float)i + 1; }
float sample_vector(int i) { return (float)i * 0.25f; }
float sample_rest(int i) { return (float)i * 0.125f - 3; }

float sample_weight(int times) {
    float weight = 0;
    for (int i = 1; i <= times; i++) weight -= rate / sqrtf((float)i);
    return weight;
}

void sample_client_join(const ps_fixture *fixture, sample_client *client) {
    const mr_ps_array arrays[] = {{.name = "weights", .dims = 2, .shape = {3, 4}}};
    const mr_ps_table_options options[SAMPLE_TABLES] = {
        MR_OPTIONS(mr_ps_table_options, .dim = SAMPLE_DIM),
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS, .dtype = MR_F32),
        MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = arrays, .array_count = 1, .block = BLOCK,
                   .optimizer = "adagrad", .rate = rate),
    };
    static const char *const names[SAMPLE_TABLES] = {"rows", "vectors", "model"};
    client->ps = ps_fixture_connect(fixture, 0);
    assert_non_null(client->ps);
    for (int i = 0; i < SAMPLE_TABLES; i++)
        must(mr_ps_table_create(client->ps, names[i], &options[i], PS_FIXTURE_PATIENCE_US, &client->tables[i]));
    for (int i = 0; i < SAMPLE_KEYS; i++) {
        client->keys[i] = sample_key(i);
        client->lengths[i] = 2;
    }
}

void sample_client_leave(sample_client *client) {
    for (int i = 0; i < SAMPLE_TABLES; i++) mr_ps_table_free(client->tables[i]);
    mr_ps_close(client->ps);
}

void sample_client_push(sample_client *client) {
    float rows[SAMPLE_KEYS * SAMPLE_DIM], vectors[SAMPLE_KEYS * 2], ones[SAMPLE_ITEMS];
    for (int i = 0; i < SAMPLE_KEYS * SAMPLE_DIM; i++) rows[i] = sample_row(i);
    for (int i = 0; i < SAMPLE_KEYS * 2; i++) vectors[i] = sample_vector(i);
    for (int i = 0; i < SAMPLE_ITEMS; i++) ones[i] = 1;
    must(mr_ps_push(client->tables[0], client->keys, SAMPLE_KEYS, rows, NULL, NULL, NULL));
    must(mr_ps_push(client->tables[1], client->keys, SAMPLE_KEYS, vectors, client->lengths, NULL, NULL));
    must(mr_ps_push_array(client->tables[2], 0, ones, 0, SAMPLE_ITEMS, NULL, NULL));
}

void sample_client_check(sample_client *client, int times) {
    float rows[SAMPLE_KEYS * SAMPLE_DIM], vectors[SAMPLE_KEYS * 2], weights[SAMPLE_ITEMS];
    must(mr_ps_pull(client->tables[0], client->keys, SAMPLE_KEYS, rows, NULL, NULL, NULL));
    must(mr_ps_pull(client->tables[1], client->keys, SAMPLE_KEYS, vectors, client->lengths, NULL, NULL));
    must(mr_ps_pull_array(client->tables[2], 0, weights, 0, SAMPLE_ITEMS, NULL, NULL));
    for (int i = 0; i < SAMPLE_KEYS * SAMPLE_DIM; i++) assert_true(rows[i] == sample_row(i) * (float)times);
    for (int i = 0; i < SAMPLE_KEYS * 2; i++) assert_true(vectors[i] == sample_vector(i) * (float)times);
    for (int i = 0; i < SAMPLE_ITEMS; i++) assert_true(fabsf(weights[i] - sample_weight(times)) < 1e-5f);
}

ps_fixture sample_world(void) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = SAMPLE_SLOTS, .copies = 1, .consistency = MR_PS_ASP};
    assert_true(ps_fixture_init(&fixture));
    return fixture;
}

/* ---- Files. */

char *sample_path(const char *folder, const char *name) { return xasprintf("%s/%s", folder, name); }

char *sample_of(const char *release, const char *name) {
    const char *source = getenv("MINIRAY_TEST_SOURCE");
    return xasprintf("%s/tests/formats/%s/%s", source == NULL ? "." : source, release, name);
}

buffer sample_read(const char *path) {
    buffer file;
    buffer_init(&file, SAMPLE_FILE_MAX);
    must(buffer_reserve(&file, SAMPLE_FILE_MAX));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail_msg("%s is missing", path);
    ssize_t size = read(fd, file.data, SAMPLE_FILE_MAX);
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
    buffer bytes = sample_read(from);
    write_bytes(to, span_of(bytes.data, bytes.size));
    buffer_fini(&bytes);
}

void sample_copy_files(const char *from, const char *to) {
    DIR *folder = opendir(from);
    if (folder == NULL) fail_msg("%s is missing", from);
    for (struct dirent *item; (item = readdir(folder)) != NULL;) {
        char *source = sample_path(from, item->d_name), *target = sample_path(to, item->d_name);
        struct stat facts;
        if (stat(source, &facts) == 0 && S_ISREG(facts.st_mode)) copy_file(source, target);
        free(source);
        free(target);
    }
    closedir(folder);
}

void sample_remove(const char *path) {
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *item; (item = readdir(folder)) != NULL;) unlinkat(dirfd(folder), item->d_name, 0);
    closedir(folder);
    assert_int_equal(rmdir(path), 0);
}

void sample_copy(const char *release, const char *name, char folder[TEMP_DIR_FOLDER_MAX]) {
    char *from = sample_of(release, name);
    assert_true(temp_dir_folder(folder));
    sample_copy_files(from, folder);
    free(from);
}

void sample_change(const char *path, size_t offset, uint8_t byte, size_t summed) {
    buffer bytes = sample_read(path);
    uint64_t sum;
    if (summed == SAMPLE_SUMMED_ALL) summed = bytes.size - sizeof sum;
    assert_true(offset < bytes.size && bytes.data[offset] != byte && summed <= bytes.size - sizeof sum);
    bytes.data[offset] = byte;
    sum = format_sum(span_of(bytes.data, summed));
    if (summed != 0) memcpy(bytes.data + summed, &sum, sizeof sum);
    write_bytes(path, span_of(bytes.data, bytes.size));
    buffer_fini(&bytes);
}

/* ---- Values of a metadata store. */

static span copy_of(span bytes) {
    uint8_t *copy = xmalloc(bytes.size + 1);
    if (bytes.size != 0) memcpy(copy, bytes.data, bytes.size);
    return span_of(copy, bytes.size);
}

bool sample_values_take(void *context, uint64_t generation, const metadata_storage_record *record) {
    sample_values *values = context;
    if (values->count == SAMPLE_VALUES_MAX) return false;
    metadata_storage_record *kept = &values->records[values->count++];
    *kept = *record;
    kept->key = copy_of(record->key);
    kept->value = copy_of(record->value);
    return true;
}

sample_values sample_values_load(metadata_storage storage) {
    sample_values values = {0};
    must(storage.ops->load(storage.self, sample_values_take, &values, &values.generation));
    return values;
}

void sample_values_save(metadata_storage storage, const sample_values *values) {
    for (size_t i = 0; i < values->count; i++)
        must(storage.ops->save(storage.self, &(metadata_storage_content){values->generation, values->records, i + 1},
                               i));
}

void sample_values_fini(sample_values *values) {
    for (size_t i = 0; i < values->count; i++) {
        free((void *)(uintptr_t)values->records[i].key.data);
        free((void *)(uintptr_t)values->records[i].value.data);
    }
}

span sample_values_of(const sample_values *values, const char *key) {
    for (size_t i = 0; i < values->count; i++)
        if (values->records[i].key.size == strlen(key) && memcmp(values->records[i].key.data, key, strlen(key)) == 0)
            return values->records[i].value;
    fail_msg("there is no value '%s'", key);
    return (span){0};
}

/* ---- Writing the samples of this version. */

static char *make_folder(const char *at, const char *name) {
    char *path = sample_path(at, name);
    if (mkdir(path, 0755) != 0) fail_msg("%s cannot be made, or is there already", path);
    return path;
}

static void write_scheduler(const char *folder, const char *export) {
    ps_fixture fixture = sample_world();
    sample_client client;
    uint64_t step, number;
    mr_ps_data_batch piece;
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    sample_client_join(&fixture, &client);
    must(mr_ps_barrier(client.ps, "begin", MR_PS_WORKERS, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_dataset_define(client.ps, sample_parts, 2, PS_FIXTURE_PATIENCE_US));
    for (int i = 0; i < 2; i++) {
        must(mr_ps_begin(client.ps, PS_FIXTURE_PATIENCE_US, &step));
        must(mr_ps_dataset_next(client.ps, 2, PS_FIXTURE_PATIENCE_US, &piece));
        sample_client_push(&client);
        must(mr_ps_end(client.ps));
        must(mr_ps_flush(client.ps, PS_FIXTURE_PATIENCE_US));
    }
    must(mr_ps_dataset_leave(client.ps, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_checkpoint(fixture.address, PS_FIXTURE_PATIENCE_US, &number));
    sample_client_leave(&client);
    assert_true(ps_fixture_terminate(&fixture.server[0]));
    assert_true(ps_fixture_terminate(&fixture.scheduler));
    sample_copy_files(fixture.folder, folder);
    char *lock = sample_path(folder, "scheduler.lock");
    assert_int_equal(unlink(lock), 0);
    free(lock);
    must(mr_ps_checkpoint_export(folder, 0, export));
    assert_true(ps_fixture_fini(&fixture));
}

static void write_feedback(const char *folder) {
    char *path = sample_path(folder, "rank-2");
    const uint64_t keys[] = {5, 6};
    const float rests[] = {0.5f, -0.25f, 0.75f, 2};
    float *stretch;
    feedback_file *file = feedback_file_create(0);
    feedback_file_keep(file, path);
    feedback_file_begin(file, SAMPLE_RANK, SAMPLE_GENERATION, 0);
    for (uint64_t step = 0; step < SAMPLE_STEP; step++) { /* makes records of changes exist, too */
        error_feedback_write(feedback_file_of(file, 1), &(error_feedback_keys){.keys = keys, .count = 2, .dim = 2},
                             rests);
        must(error_feedback_stretch(feedback_file_of(file, 9), 0, 200, SAMPLE_FIRST, SAMPLE_RESTS, &stretch));
        for (int i = 0; i < SAMPLE_RESTS; i++) stretch[i] = sample_rest(i);
        feedback_file_end(file, step + 1);
    }
    feedback_file_destroy(file);
    free(path);
}

/* ---- A checkpoint of a model server. */

static const float sample_model_weights[] = {1, 2, 3, 4.5f};
static const int64_t sample_model_steps = 7;
static const double sample_model_shares[] = {1, NAN, 2.5};

void sample_model_write(const char *folder) {
    const int64_t two[] = {2, 2};
    const mr_arg layer[] = {mr_str("weight"), mr_tensor_of(MR_F32, sample_model_weights, 2, two)};
    const mr_arg all[] = {mr_str("layer"), mr_map(layer, 1), mr_str("steps"),
                          mr_tensor_of(MR_I64, &sample_model_steps, 0, NULL)};
    const mr_arg model = mr_map(all, 2);
    const mr_model_checkpoint facts = {.strategy = "momentum",
                                       .momentum = 0.8,
                                       .trim = 0.1,
                                       .version = 5,
                                       .num_syncs = 4,
                                       .weights = sample_model_shares,
                                       .weight_count = 3,
                                       .state = {"a state", 7}};
    value_plan plan;
    value_doc doc;
    mr_value root;
    must(value_measure(&model, SIZE_MAX, &plan));
    uint8_t *bytes = xmalloc(plan.value_size + 1);
    value_write_plain(&model, &plan, bytes);
    must(value_open_plain(&doc, span_of(bytes, plan.value_size), &root));
    must(mr_model_checkpoint_write(folder, &facts, &root));
    value_close(&doc);
    free(bytes);
}

void sample_model_check(const char *folder) {
    model_checkpoint_file file;
    must(model_checkpoint_open(folder, &file));
    const mr_model_checkpoint *facts = &file.facts;
    assert_string_equal(facts->strategy, "momentum");
    assert_true(facts->momentum == 0.8 && facts->trim == 0.1 && facts->version == 5 && facts->num_syncs == 4);
    assert_int_equal(facts->weight_count, 3);
    assert_true(facts->weights[0] == 1 && isnan(facts->weights[1]) && facts->weights[2] == 2.5);
    assert_int_equal(facts->state.size, 7);
    assert_memory_equal(facts->state.data, "a state", 7);
    const safetensor *weights = safetensors_find(&file.list, "layer.weight"),
                     *steps = safetensors_find(&file.list, "steps");
    assert_true(weights != NULL && steps != NULL && weights->dims == 2 && steps->dims == 0);
    assert_memory_equal(weights->data.data, sample_model_weights, sizeof sample_model_weights);
    assert_memory_equal(steps->data.data, &sample_model_steps, sizeof sample_model_steps);
    assert_int_equal(file.tensors.count, 2);
    assert_int_equal(file.model.kind, MR_KIND_MAP);
    assert_int_equal(file.model.items.count, 2);
    model_checkpoint_close(&file);
}

void samples_write(const char *folder) {
    char *model = sample_path(folder, "model");
    sample_model_write(model);
    free(model);
    char *scheduler = make_folder(folder, "scheduler");
    char *export = make_folder(folder, "export"), *feedback = make_folder(folder, "feedback");
    write_scheduler(scheduler, export);
    write_feedback(feedback);
    free(scheduler);
    free(export);
    free(feedback);
}
