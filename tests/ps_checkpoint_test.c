/* ps_checkpoint_test.c — checkpoints on disk: listed, exported as one file, damaged; by the library and by the
 * command. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/safetensors.h"
#include "tests/support/ps_fixture.h"
#include "tests/support/samples.h"
#include "tests/support/status_assert.h"

enum { SLOTS = 5, DIM = 3, KEYS = 40, ROWS = 4, COLUMNS = 6, ITEMS = ROWS * COLUMNS, STEPS = 3 };

typedef struct scene {
    ps_fixture fixture;
    uint64_t keys[KEYS];
    uint32_t lengths[KEYS];
    float rows[KEYS * DIM], vectors[KEYS * 2], array[ITEMS], untouched[ITEMS];
} scene;

static void said(mr_status got, mr_status wanted, const char *words) {
    assert_int_equal(got, wanted);
    assert_said(words);
}

/* Waits for a checkpoint that begins after all pushes so far. With BSP a snapshot is taken between two rounds, so the
 * loop makes rounds until the checkpoint has the number of the step. */
static void wait_for_checkpoint(const ps_fixture *fixture, mr_ps *ps) {
    int64_t until_us = clock_now_us(clock_real()) + PS_FIXTURE_PATIENCE_US;
    for (uint64_t told = ps_fixture_checkpoint(fixture), step; ps_fixture_checkpoint(fixture) < told + 2 + STEPS;) {
        assert_true(clock_now_us(clock_real()) < until_us);
        must(mr_ps_end(ps));
        must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        usleep(10000);
    }
}

/* Creates a table of each kind. The second array of the dense table gets no push, nor does one block of the first. */
static void train(scene *scene) {
    const mr_ps_array arrays[] = {{.name = "weights", .dims = 2, .shape = {ROWS, COLUMNS}},
                                  {.name = "bias", .dims = 1, .shape = {ITEMS}}};
    const mr_ps_table_options rows = MR_OPTIONS(mr_ps_table_options, .dim = DIM, .optimizer = "adagrad",
                                                .initializer = "uniform:-1:1"),
                              vectors = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_VECTORS, .dtype = MR_F32),
                              dense = MR_OPTIONS(mr_ps_table_options, .kind = MR_PS_DENSE, .arrays = arrays,
                                                 .array_count = 2, .block = 5, .optimizer = "momentum",
                                                 .initializer = "normal:0:1");
    mr_ps *ps = ps_fixture_connect(&scene->fixture, 0);
    assert_non_null(ps);
    mr_ps_table *tables[3];
    uint64_t step;
    float ones[KEYS * DIM];
    for (size_t i = 0; i < KEYS * DIM; i++) ones[i] = (float)i + 1;
    for (uint32_t i = 0; i < KEYS; i++) {
        scene->keys[i] = i * UINT64_C(7919) + 3;
        scene->lengths[i] = 2;
    }
    must(mr_ps_table_create(ps, "rows", &rows, PS_FIXTURE_PATIENCE_US, &tables[0]));
    must(mr_ps_table_create(ps, "vectors", &vectors, PS_FIXTURE_PATIENCE_US, &tables[1]));
    must(mr_ps_table_create(ps, "model", &dense, PS_FIXTURE_PATIENCE_US, &tables[2]));
    for (int i = 0; i < STEPS; i++) {
        must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        mr_ps_ticket tickets[3];
        must(mr_ps_push(tables[0], scene->keys, KEYS, ones, NULL, NULL, &tickets[0]));
        must(mr_ps_push(tables[1], scene->keys, KEYS, ones, scene->lengths, NULL, &tickets[1]));
        must(mr_ps_push_array(tables[2], 0, ones, 5, ITEMS - 5, NULL, &tickets[2]));
        must(mr_ps_end(ps));
        must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    }
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    must(mr_ps_pull(tables[0], scene->keys, KEYS, scene->rows, NULL, NULL, NULL));
    must(mr_ps_pull(tables[1], scene->keys, KEYS, scene->vectors, scene->lengths, NULL, NULL));
    must(mr_ps_pull_array(tables[2], 0, scene->array, 0, ITEMS, NULL, NULL));
    must(mr_ps_pull_array(tables[2], 1, scene->untouched, 0, ITEMS, NULL, NULL));
    wait_for_checkpoint(&scene->fixture, ps);
    for (int i = 0; i < 3; i++) mr_ps_table_free(tables[i]);
    mr_ps_close(ps);
}

/* Trains with checkpoints, and ends the scheduler; the folder stays as it is. */
static void begin(scene *scene, mr_ps_consistency consistency) {
    *scene = (struct scene){.fixture = {.servers = 2,
                                        .workers = 1,
                                        .slots = SLOTS,
                                        .copies = 2,
                                        .checkpoint_us = 50000,
                                        .consistency = consistency}};
    assert_true(ps_fixture_init(&scene->fixture));
    assert_true(ps_fixture_start_scheduler(&scene->fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&scene->fixture, i);
    train(scene);
    ps_fixture_kill(&scene->fixture, &scene->fixture.scheduler);
    for (uint32_t i = 0; i < 2; i++) ps_fixture_kill(&scene->fixture, &scene->fixture.server[i]);
    assert_int_equal(unlink(scene->fixture.address + strlen("unix:")), 0); /* the scheduler's socket */
}

/* ---- As a file. */

static const safetensor *tensor(const safetensors *list, const char *name, safetensors_dtype dtype, uint64_t size) {
    const safetensor *found = safetensors_find(list, name);
    if (found == NULL) fprintf(stderr, "there is no '%s'\n", name);
    assert_true(found != NULL && found->dtype == dtype);
    assert_int_equal(found->data.size, size);
    return found;
}

static void has_all(const scene *scene, const char *path) {
    buffer file = sample_read(path);
    safetensors list = {0};
    must(safetensors_read(span_of(file.data, file.size), &list));
    assert_int_equal(list.count, 7);
    const safetensor *rows = tensor(&list, "rows/values", SAFETENSORS_F32, sizeof scene->rows);
    assert_true(rows->dims == 2 && rows->shape[0] == KEYS && rows->shape[1] == DIM);
    assert_memory_equal(rows->data.data, scene->rows, sizeof scene->rows);
    assert_memory_equal(tensor(&list, "rows/keys", SAFETENSORS_U64, sizeof scene->keys)->data.data, scene->keys,
                        sizeof scene->keys);
    assert_memory_equal(tensor(&list, "vectors/keys", SAFETENSORS_U64, sizeof scene->keys)->data.data, scene->keys,
                        sizeof scene->keys);
    assert_memory_equal(tensor(&list, "vectors/lengths", SAFETENSORS_U32, sizeof scene->lengths)->data.data,
                        scene->lengths, sizeof scene->lengths);
    assert_memory_equal(tensor(&list, "vectors/values", SAFETENSORS_F32, sizeof scene->vectors)->data.data,
                        scene->vectors, sizeof scene->vectors);
    const safetensor *array = tensor(&list, "model/weights", SAFETENSORS_F32, sizeof scene->array);
    assert_true(array->dims == 2 && array->shape[0] == ROWS && array->shape[1] == COLUMNS);
    assert_memory_equal(array->data.data, scene->array, sizeof scene->array);
    assert_memory_equal(tensor(&list, "model/bias", SAFETENSORS_F32, sizeof scene->untouched)->data.data,
                        scene->untouched, sizeof scene->untouched);
    safetensors_fini(&list);
    buffer_fini(&file);
}

static void lists_and_exports(mr_ps_consistency consistency) {
    static const char *const names[] = {"rows", "vectors", "model"};
    scene scene;
    mr_ps_checkpoints *all;
    char path[TEMP_DIR_FOLDER_MAX + 64], within[TEMP_DIR_FOLDER_MAX];
    begin(&scene, consistency);
    must(mr_ps_checkpoints_get(scene.fixture.folder, &all));
    assert_in_range(all->count, 1, 3);
    for (uint32_t i = 1; i < all->count; i++) assert_true(all->list[i].number < all->list[i - 1].number);
    const mr_ps_checkpoint_info *one = &all->list[0];
    assert_string_equal(one->damage, "");
    assert_true(consistency == MR_PS_BSP ? one->step >= STEPS : one->step == -1);
    assert_int_equal(one->slots, SLOTS + (consistency == MR_PS_BSP));
    assert_true(one->bytes > sizeof scene.rows && one->written_us > INT64_C(1600000000000000));
    assert_int_equal(one->table_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const mr_ps_checkpoint_table *table = &one->tables[0];
        while (strcmp(table->name, names[i]) != 0) assert_true(++table < one->tables + 3);
        const uint64_t rows[] = {KEYS, KEYS, ITEMS - 5}, width[] = {DIM, 2, 1};
        assert_true((uint32_t)table->kind == i && table->dtype == MR_F32 && table->dim == (i == 0 ? DIM : 0));
        assert_int_equal(table->rows, rows[i]);
        assert_int_equal(table->bytes, rows[i] * width[i] * sizeof(float));
    }
    snprintf(path, sizeof path, "%s/manifest.export", scene.fixture.folder);
    must(mr_ps_checkpoint_export(scene.fixture.folder, one->number, path));
    has_all(&scene, path);
    assert_true(temp_dir_folder(within));
    must(mr_ps_checkpoint_export(scene.fixture.folder, 0, within));
    snprintf(path, sizeof path, "%s/checkpoint-%llu.safetensors", within, (unsigned long long)one->number);
    has_all(&scene, path);
    assert_true(unlink(path) == 0 && rmdir(within) == 0);
    mr_ps_checkpoints_free(all);
    assert_true(ps_fixture_fini(&scene.fixture));
}

static void a_checkpoint_of_rounds_is_read(void **state) { lists_and_exports(MR_PS_BSP); }
static void a_checkpoint_without_rounds_is_read(void **state) { lists_and_exports(MR_PS_ASP); }

/* ---- Damage, and invalid requests. */

static void spoil(const char *path) {
    char byte = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 100) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, 100) == 1);
    close(fd);
}

/* Damages the file of slot 0 of the newest checkpoint. */
static void a_damaged_checkpoint_is_reported(void **state) {
    scene scene;
    mr_ps_checkpoints *all;
    char path[TEMP_DIR_FOLDER_MAX + 64], to[TEMP_DIR_FOLDER_MAX + 64];
    uint32_t damaged = 0;
    begin(&scene, MR_PS_BSP);
    snprintf(to, sizeof to, "%s/manifest.export", scene.fixture.folder);
    for (uint32_t place = 0; place < 4; place++) {
        snprintf(path, sizeof path, "%s/shard-%u-0.safetensors", scene.fixture.folder, place);
        if (access(path, R_OK) == 0) spoil(path);
    }
    must(mr_ps_checkpoints_get(scene.fixture.folder, &all));
    for (uint32_t i = 0; i < all->count; i++)
        damaged += strstr(all->list[i].damage, "-0.safetensors is damaged") != NULL;
    assert_int_equal(damaged, all->count);
    assert_int_equal(all->list[0].table_count, 3);
    said(mr_ps_checkpoint_export(scene.fixture.folder, all->list[0].number, to), MR_CORRUPT,
         "-0.safetensors is damaged");
    assert_true(access(to, F_OK) != 0);
    mr_ps_checkpoints_free(all);
    snprintf(path, sizeof path, "%s/manifest", scene.fixture.folder);
    spoil(path);
    must(mr_ps_checkpoints_get(scene.fixture.folder, &all));
    const mr_ps_checkpoint_info *last = &all->list[all->count - 1];
    assert_true(last->number == 0 && last->table_count == 0);
    assert_string_equal(last->damage, "manifest is damaged");
    mr_ps_checkpoints_free(all);
    assert_true(ps_fixture_fini(&scene.fixture));
}

static void a_missing_checkpoint_is_reported(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_ps_checkpoints *all = NULL;
    scene scene;
    assert_true(temp_dir_folder(folder));
    said(mr_ps_checkpoints_get(folder, &all), MR_NOT_FOUND, "no checkpoint in");
    said(mr_ps_checkpoint_export(folder, 1, "x"), MR_NOT_FOUND, "no checkpoint in");
    assert_int_equal(rmdir(folder), 0);
    said(mr_ps_checkpoints_get(folder, &all), MR_NOT_FOUND, "does not exist");
    said(mr_ps_checkpoints_get(NULL, &all), MR_INVALID, "folder or out is NULL");
    said(mr_ps_checkpoint_export(NULL, 1, "x"), MR_INVALID, "folder or path is NULL");
    said(mr_ps_checkpoint_export(folder, 1, ""), MR_INVALID, "path is NULL or empty");
    mr_ps_checkpoints_free(NULL);
    begin(&scene, MR_PS_ASP);
    said(mr_ps_checkpoint_export(scene.fixture.folder, 999999, "x"), MR_NOT_FOUND, "no checkpoint 999999 in");
    said(mr_ps_checkpoint_export(scene.fixture.folder, 0, "/nowhere/at/all"), MR_IO, "/nowhere/at/all.new");
    assert_true(ps_fixture_fini(&scene.fixture));
}

/* ---- The command. */

static int run(const char *arguments, const char *folder, char *text, size_t room) {
    char line[4096];
    const char *build = getenv("MINIRAY_TEST_BUILD");
    assert_non_null(build);
    snprintf(line, sizeof line, "%s/miniray ps checkpoint --checkpoint-dir %s %s 2>&1", build, folder, arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t size = fread(text, 1, room - 1, pipe);
    text[size] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void the_command_lists_and_exports(void **state) {
    scene scene;
    char text[16384], line[TEMP_DIR_FOLDER_MAX + 96], path[TEMP_DIR_FOLDER_MAX + 64];
    begin(&scene, MR_PS_BSP);
    const char *folder = scene.fixture.folder;
    assert_int_equal(run("list", folder, text, sizeof text), 0);
    assert_true(strstr(text, "NUMBER") != NULL && strstr(text, "whole") != NULL && strstr(text, "model") != NULL);
    assert_int_equal(run("list --json", folder, text, sizeof text), 0);
    assert_ptr_equal(strstr(text, "{\"format\":2,\"checkpoints\":[{\"number\":"), text);
    assert_non_null(strstr(text, "\"whole\":true"));
    assert_true(strstr(text, "\"step\":") != NULL && strstr(text, "\"step\":null") == NULL);
    snprintf(path, sizeof path, "%s/manifest.export", folder);
    snprintf(line, sizeof line, "export latest %s", path);
    assert_int_equal(run(line, folder, text, sizeof text), 0);
    has_all(&scene, path);
    static const struct {
        const char *arguments, *words;
        int code;
    } wrong[] = {
        {"", "use list, export NUMBER FILE, or create", 2},
        {"create 7", "unexpected argument '7'", 2},
        {"list --scheduler unix:/x", "--scheduler is an option of create", 2},
        {"create --scheduler nowhere", "nowhere", 2},
        {"delete", "unknown command 'delete'", 2},
        {"list more", "unexpected argument 'more'", 2},
        {"export", "number of a checkpoint and a file", 2},
        {"export -- -1 x", "not '-1'", 2},
        {"export 0 x", "not '0'", 2},
        {"export --json 1 x", "--json is an option of list", 2},
        {"export 1 x y", "unexpected argument 'y'", 2},
        {"export 999999 x", "no checkpoint 999999 in", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int code = run(wrong[i].arguments, folder, text, sizeof text);
        if (code != wrong[i].code || strstr(text, wrong[i].words) == NULL)
            fprintf(stderr, "'%s' ended with %d: %s\n", wrong[i].arguments, code, text);
        assert_int_equal(code, wrong[i].code);
        assert_non_null(strstr(text, wrong[i].words));
    }
    assert_int_equal(run("list", "/nowhere", text, sizeof text), 1);
    assert_non_null(strstr(text, "the directory /nowhere does not exist"));
    assert_true(ps_fixture_fini(&scene.fixture));
}

static uint64_t create(const ps_fixture *fixture) {
    char text[4096], line[TEMP_DIR_FOLDER_MAX + 96];
    snprintf(line, sizeof line, "create --scheduler %s", fixture->address);
    int code = run(line, fixture->folder, text, sizeof text);
    if (code != 0) fprintf(stderr, "create ended with %d: %s\n", code, text);
    assert_int_equal(code, 0);
    return strtoull(text, NULL, 10);
}

/* Makes steps as rank 0, pulls the table in the next step, and ends inside that step. `saves`: a checkpoint is created
 * by the rank, inside the step. */
static void use(const ps_fixture *fixture, uint64_t steps, bool saves, float out[2]) {
    const mr_ps_table_options options = MR_OPTIONS(mr_ps_table_options, .dim = 1);
    const uint64_t keys[] = {3, 8};
    const float ones[] = {1, 2};
    mr_ps *ps = ps_fixture_connect(fixture, 0);
    assert_non_null(ps);
    mr_ps_table *sums;
    mr_ps_ticket ticket;
    uint64_t step;
    must(mr_ps_table_create(ps, "sums", &options, PS_FIXTURE_PATIENCE_US, &sums));
    for (uint64_t i = 0; i < steps; i++) {
        must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
        must(mr_ps_push(sums, keys, 2, ones, NULL, NULL, &ticket));
        must(mr_ps_end(ps));
    }
    must(mr_ps_flush(ps, PS_FIXTURE_PATIENCE_US));
    must(mr_ps_begin(ps, PS_FIXTURE_PATIENCE_US, &step));
    must(mr_ps_pull(sums, keys, 2, out, NULL, NULL, NULL));
    if (saves) {
        uint64_t number;
        must(mr_ps_push(sums, keys, 2, ones, NULL, NULL, &ticket));
        must(mr_ps_checkpoint(fixture->address, PS_FIXTURE_PATIENCE_US, &number));
        assert_int_equal(number, step);
    }
    mr_ps_table_free(sums);
    mr_ps_close(ps);
}

/* No round ends: the only rank is inside a step, or has ended. */
static void a_model_without_workers_is_saved(void **state) {
    ps_fixture fixture = {.servers = 2, .workers = 1, .slots = 4, .copies = 1, .consistency = MR_PS_BSP};
    float seen[2], after[2];
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, 0, NULL));
    assert_int_equal(create(&fixture), 1); /* before the first step: the tables have their initial values */
    use(&fixture, 3, true, seen);
    assert_true(seen[0] == 3 && seen[1] == 6);
    assert_int_equal(create(&fixture), 3); /* nothing new */
    use(&fixture, 2, false, seen);
    assert_true(seen[0] == 5 && seen[1] == 10);
    assert_int_equal(create(&fixture), 5);
    uint64_t generation = ps_fixture_generation(&fixture);
    for (uint32_t i = 0; i < 2; i++) ps_fixture_kill(&fixture, &fixture.server[i]);
    for (uint32_t i = 0; i < 2; i++) ps_fixture_start_server(&fixture, i);
    assert_true(ps_fixture_full(&fixture, generation, NULL));
    use(&fixture, 0, false, after);
    assert_memory_equal(after, seen, sizeof seen);
    assert_true(ps_fixture_fini(&fixture));
}

static void the_command_makes_one(void **state) {
    ps_fixture fixture = {.servers = 1, .workers = 1, .slots = 2, .copies = 1, .consistency = MR_PS_ASP};
    char text[4096], line[TEMP_DIR_FOLDER_MAX + 96];
    assert_true(ps_fixture_init(&fixture));
    assert_true(ps_fixture_start_scheduler(&fixture));
    ps_fixture_start_server(&fixture, 0);
    snprintf(line, sizeof line, "create --scheduler %s", fixture.address);
    assert_int_equal(run(line, fixture.folder, text, sizeof text), 0);
    unsigned long long number = strtoull(text, NULL, 10);
    assert_true(number != 0);
    mr_ps_checkpoints *all;
    must(mr_ps_checkpoints_get(fixture.folder, &all));
    assert_true(all->list[0].number == number && all->list[0].damage[0] == '\0');
    mr_ps_checkpoints_free(all);
    assert_true(ps_fixture_fini(&fixture));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoint_of_rounds_is_read),   cmocka_unit_test(a_checkpoint_without_rounds_is_read),
        cmocka_unit_test(a_damaged_checkpoint_is_reported), cmocka_unit_test(a_missing_checkpoint_is_reported),
        cmocka_unit_test(the_command_lists_and_exports),    cmocka_unit_test(the_command_makes_one),
        cmocka_unit_test(a_model_without_workers_is_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
