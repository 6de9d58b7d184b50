/* model_save_test.c — checkpoints of model servers: a server that begins with one continues with the same bits, a torn
 * or damaged one is never used, and one that contradicts the options is an error. */
#include <ftw.h>
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
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/hash.h"
#include "base/safetensors.h"
#include "miniray/model.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"
#include "tests/support/samples.h"
#include "tests/support/status_assert.h"
#include "tests/support/sync_fixture.h"
#include "tests/support/temp_dir.h"
#include "train/model_checkpoint.h"

enum { ITEMS = 30 * 1000, SCHOLARS = 3, PATIENCE_US = 20 * 1000 * 1000 };

/* ---- A scholar: a map of a list and a counter. */

typedef struct scholar {
    float items[ITEMS];
    double one;
    int64_t steps, number;
} scholar;

MR_CREATE(Scholar) { /* number */
    scholar *self = calloc(1, sizeof *self);
    MR_TRY(mr_arg_int(call, 0, &self->number));
    return mr_set_self(call, self, free);
}

MR_METHOD(Scholar, step) {
    scholar *self = mr_self(call);
    self->steps++;
    for (int64_t i = 0; i < ITEMS; i++)
        self->items[i] = self->items[i] * 0.7f + (float)((i * 7 + self->number * 13 + self->steps * 31) % 1009) / 1009;
    self->one += 1.0 / (double)(self->steps + self->number);
    return MR_OK;
}

MR_METHOD(Scholar, get_weights) {
    scholar *self = mr_self(call);
    const int64_t shape[] = {ITEMS / 100, 100};
    const mr_arg list[] = {mr_tensor_of(MR_F32, self->items, 2, shape), mr_tensor_of(MR_F64, &self->one, 0, NULL)};
    const mr_arg map[] = {mr_str("net"), mr_list(list, 2), mr_str("steps"),
                          mr_tensor_of(MR_I64, &self->steps, 0, NULL)};
    return mr_return(call, mr_map(map, 2));
}

MR_METHOD(Scholar, set_weights) {
    scholar *self = mr_self(call);
    mr_value weights, net, item;
    mr_tensor tensor;
    MR_TRY(mr_arg_value(call, 0, &weights));
    MR_TRY(mr_value_field(&weights, "net", &net));
    MR_TRY(mr_value_item(&net, 0, &item));
    MR_TRY(mr_value_tensor(&item, &tensor));
    memcpy(self->items, tensor.data, sizeof self->items);
    MR_TRY(mr_value_item(&net, 1, &item));
    MR_TRY(mr_value_tensor(&item, &tensor));
    memcpy(&self->one, tensor.data, sizeof self->one);
    MR_TRY(mr_value_field(&weights, "steps", &item));
    MR_TRY(mr_value_tensor(&item, &tensor));
    memcpy(&self->steps, tensor.data, sizeof self->steps);
    return MR_OK;
}

MR_METHOD(Scholar, hash) {
    const scholar *self = mr_self(call);
    return mr_return(call, mr_int((int64_t)(hash_on(HASH_BEGIN, self, offsetof(scholar, number)) >> 1)));
}

static mr_status pid(mr_call *call) { return mr_return(call, mr_int(getpid())); }

__attribute__((constructor)) static void register_more(void) { /* adds methods to the server's class */
    mr_register_method("miniray.ModelServer", "arm", sync_fixture_arm_method);
    mr_register_method("miniray.ModelServer", "pid", pid);
}

/* ---- Helpers. */

static void temp_dir_make(char folder[TEMP_DIR_FOLDER_MAX]) { assert_true(temp_dir_folder(folder)); }

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *place) { return remove(path); }

static void temp_dir_remove(const char *folder) {
    assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void hire(mr_actor scholars[SCHOLARS]) {
    for (int s = 0; s < SCHOLARS; s++) must(mr_new_actor(mr, "Scholar", &scholars[s], mr_int(s)));
}

static void dismiss(const mr_actor scholars[SCHOLARS]) {
    for (int s = 0; s < SCHOLARS; s++) mr_actor_release(mr, scholars[s]);
}

static int64_t ask(mr_actor actor, const char *method) {
    mr_ref ref;
    must(mr_call_actor(mr, actor, method, &ref));
    return future_assert_int(mr, ref);
}

static int64_t step_and_sync(mr_actor server, const mr_actor scholars[SCHOLARS]) {
    mr_ref ref;
    for (int s = 0; s < SCHOLARS; s++) must(mr_call_actor(mr, scholars[s], "step", NULL));
    must(mr_model_sync(mr, server, scholars, SCHOLARS, NULL, &ref));
    return future_assert_int(mr, ref);
}

static mr_actor create(const char *strategy) {
    mr_actor server;
    must(mr_model_server_create(mr, &MR_OPTIONS(mr_sync_strategy, .name = strategy, .momentum = 0.8), NULL, &server));
    return server;
}

static mr_actor restore(const char *folder) {
    mr_actor server;
    must(mr_model_server_open(mr, NULL, &MR_OPTIONS(mr_checkpoint_options, .restore = folder), NULL, &server));
    return server;
}

static void save(mr_actor server, const char *folder) {
    mr_ref ref;
    mr_span text;
    must(mr_model_save(mr, server, folder, &ref));
    mr_value value = future_assert_value(mr, ref);
    must(mr_value_str(&value, &text));
    assert_int_equal(text.size, strlen(folder));
    assert_memory_equal(text.data, folder, text.size);
    mr_value_release(&value);
}

static int64_t stat_of(mr_actor server, const char *field) {
    mr_ref ref;
    mr_value value;
    int64_t number;
    must(mr_model_stats(mr, server, &ref));
    mr_value stats = future_assert_value(mr, ref);
    must(mr_value_field(&stats, field, &value));
    must(mr_value_int(&value, &number));
    mr_value_release(&stats);
    return number;
}

static void open_fails(const mr_sync_strategy *strategy, const mr_checkpoint_options *options, mr_status expected,
                       const char *why) {
    mr_actor server;
    assert_int_equal(mr_model_server_open(mr, strategy, options, NULL, &server), expected);
    if (strstr(mr_last_error(), why) == NULL) fail_msg("%s", mr_last_error());
}

/* ---- Tests. */

static void a_restored_server_continues(void **state) {
    static const char *const strategies[] = {"momentum", "weighted", "average"};
    char folder[TEMP_DIR_FOLDER_MAX];
    for (size_t i = 0; i < 3; i++) {
        mr_actor scholars[SCHOLARS], server = create(strategies[i]);
        int64_t hashes[2];
        temp_dir_make(folder);
        hire(scholars);
        if (i == 1) must(mr_model_set_weight(mr, server, 1, 5, NULL));
        for (int64_t round = 1; round <= 3; round++) assert_int_equal(step_and_sync(server, scholars), round);
        save(server, folder);
        for (int saved = 0; saved < 2; saved++) {
            if (saved) { /* a new server and new scholars, with the model */
                mr_actor_release(mr, server);
                dismiss(scholars);
                server = restore(folder);
                hire(scholars);
                mr_ref model;
                must(mr_model_pull(mr, server, &model));
                for (int s = 0; s < SCHOLARS; s++)
                    must(mr_call_actor(mr, scholars[s], "set_weights", NULL, mr_future(model)));
                mr_release(mr, model);
            }
            assert_int_equal(stat_of(server, "version"), 3);
            assert_int_equal(stat_of(server, "num_syncs"), 3);
            assert_int_equal(stat_of(server, "bytes"), ITEMS * 4 + 8 + 8);
            assert_int_equal(step_and_sync(server, scholars), 4);
            assert_int_equal(step_and_sync(server, scholars), 5);
            hashes[saved] = ask(scholars[0], "hash");
        }
        assert_int_equal(hashes[0], hashes[1]);
        mr_actor_release(mr, server);
        dismiss(scholars);
        temp_dir_remove(folder);
    }
}

static void before_the_first_sync(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_actor server = create("max"), scholars[SCHOLARS];
    temp_dir_make(folder);
    save(server, folder);
    mr_actor_release(mr, server);
    server = restore(folder);
    hire(scholars);
    assert_int_equal(stat_of(server, "version"), 0);
    assert_int_equal(step_and_sync(server, scholars), 1);
    mr_actor_release(mr, server);
    dismiss(scholars);
    temp_dir_remove(folder);
}

/* The restored state is the server's own: its next process does not read the checkpoint again. */
static void a_restored_server_survives_its_death(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_actor server = create("momentum"), scholars[SCHOLARS];
    temp_dir_make(folder);
    hire(scholars);
    step_and_sync(server, scholars);
    save(server, folder);
    mr_actor_release(mr, server);
    server = restore(folder);
    assert_int_equal(stat_of(server, "version"), 1);
    temp_dir_remove(folder);
    kill((pid_t)ask(server, "pid"), SIGKILL);
    assert_int_equal(stat_of(server, "version"), 1);
    assert_int_equal(step_and_sync(server, scholars), 2);
    kill((pid_t)ask(server, "pid"), SIGKILL);
    assert_int_equal(stat_of(server, "version"), 2);
    mr_actor_release(mr, server);
    dismiss(scholars);
}

static mr_model_checkpoint facts_of(uint64_t version) {
    return (mr_model_checkpoint){.strategy = "average", .momentum = 0.9, .trim = 0.1, .version = version};
}

static mr_value value_of(mr_arg arg) { /* the caller releases it */
    mr_ref ref;
    must(mr_put(mr, arg, &ref));
    mr_value value;
    must(mr_get(mr, ref, PATIENCE_US, &value));
    mr_release(mr, ref);
    return value;
}

static uint64_t version_of(const char *folder) {
    mr_model_checkpoint facts;
    must(mr_model_checkpoint_peek(folder, &facts));
    return facts.version;
}

/* Any tree, any dtype, any name; the file is safetensors, with names from the tree. */
static void trees_come_back(void **state) {
    static const double doubles[] = {1.5, -2.5};
    static const float floats[] = {1, 2, 3};
    static const uint16_t halves[] = {1, 2};
    static const double weights[] = {1, 2.5};
    const int64_t two[] = {2}, three[] = {3, 1}, none[] = {0, 7}, many[] = {1, 1, 1, 1, 1, 1, 1, 3};
    char long_key[300];
    memset(long_key, 'x', sizeof long_key);
    mr_arg pair[] = {mr_str("a.b"), mr_tensor_of(MR_F64, doubles, 1, two)};
    mr_arg deep[] = {mr_str("b"), mr_tensor_of(MR_F32, floats, 2, three)}, inside[] = {mr_str("a"), mr_map(deep, 1)};
    mr_arg row[] = {mr_map(pair, 1),
                    mr_map(inside, 1),
                    mr_tensor_of(MR_F16, halves, 1, two),
                    mr_tensor_of(MR_BF16, halves, 1, two),
                    mr_int(7),
                    mr_str("text"),
                    mr_nil()};
    mr_arg all[] = {mr_str("net"),
                    mr_tuple(row, 7),
                    mr_int(-3),
                    mr_tensor_of(MR_F32, floats, 8, many),
                    mr_text(long_key, sizeof long_key),
                    mr_tensor_of(MR_U8, NULL, 2, none),
                    mr_str(".dot"),
                    mr_tensor_of(MR_BOOL, "\1\0", 1, two),
                    mr_str(""),
                    mr_tensor_of(MR_I8, "\5\6", 1, two)};
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_value model = value_of(mr_map(all, 5));
    mr_model_checkpoint facts = facts_of(9);
    model_checkpoint_file file;
    weight_tree tensors;
    temp_dir_make(folder);
    facts.num_syncs = 4;
    facts.weights = weights;
    facts.weight_count = 2;
    facts.state = (mr_span){"any bytes", 9};
    must(mr_model_checkpoint_write(folder, &facts, &model));
    must(model_checkpoint_open(folder, &file));
    assert_string_equal(file.facts.strategy, "average");
    assert_true(file.facts.version == 9 && file.facts.num_syncs == 4 && file.facts.momentum == 0.9);
    assert_int_equal(file.facts.weight_count, 2);
    assert_memory_equal(file.facts.weights, weights, sizeof weights);
    assert_int_equal(file.facts.state.size, 9);
    assert_memory_equal(file.facts.state.data, "any bytes", 9);
    mr_value read = value_of(file.model);
    must(weight_tree_match(&(weight_tree_source){.root = model}, &(weight_tree_source){.root = read}, "copy", 0,
                           &tensors));
    assert_int_equal(tensors.count, 8);
    assert_memory_equal(tensors.tensors[0].data, doubles, sizeof doubles);
    assert_memory_equal(tensors.tensors[1].data, floats, sizeof floats);
    assert_memory_equal(tensors.tensors[7].data, "\5\6", 2);
    assert_non_null(safetensors_find(&file.list, "net.2"));
    assert_non_null(safetensors_find(&file.list, "-3"));
    assert_non_null(safetensors_find(&file.list, ".tensor.5"));
    weight_tree_close(&tensors);
    mr_value_release(&read);
    mr_value_release(&model);
    model_checkpoint_close(&file);
    temp_dir_remove(folder);
}

static void damage(const char *path, long at, bool cuts) {
    if (cuts) {
        assert_int_equal(truncate(path, at), 0);
        return;
    }
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 0x10, file);
    fclose(file);
}

/* Each byte of the manifest and of the file counts. */
static void a_damaged_checkpoint_is_never_used(void **state) {
    static const char *const names[] = {"manifest", "model-0.safetensors"};
    const float items[] = {1, 2, 3, 4};
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_arg item = mr_vector(items, 4);
    mr_value model = value_of(mr_list(&item, 1));
    const mr_model_checkpoint facts = facts_of(1);
    for (size_t n = 0; n < 2; n++)
        for (int cuts = 0; cuts < 2; cuts++)
            for (long at = 0;; at += n == 0 ? 1 : 7) {
                model_checkpoint_file file;
                struct stat about;
                temp_dir_make(folder);
                must(mr_model_checkpoint_write(folder, &facts, &model));
                char *path = xasprintf("%s/%s", folder, names[n]);
                assert_int_equal(lstat(path, &about), 0);
                bool done = at >= about.st_size;
                if (!done) damage(path, at, cuts);
                mr_status status = model_checkpoint_open(folder, &file);
                if (done) must(status);
                if (done) model_checkpoint_close(&file);
                if (!done && status != MR_CORRUPT) fail_msg("byte %ld of %s: status %d", at, names[n], (int)status);
                if (!done && strstr(mr_last_error(), folder) == NULL) fail_msg("%s", mr_last_error());
                free(path);
                temp_dir_remove(folder);
                if (done) break;
            }
    mr_value_release(&model);
}

static void another_format_is_rejected(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    const mr_model_checkpoint facts = facts_of(1);
    temp_dir_make(folder);
    must(mr_model_checkpoint_write(folder, &facts, &(mr_value){0}));
    char *path = xasprintf("%s/manifest", folder);
    sample_change(path, 3, '7', SAMPLE_SUMMED_ALL);
    open_fails(NULL, &MR_OPTIONS(mr_checkpoint_options, .restore = folder), MR_CORRUPT,
               "manifest has format 7; this version reads format 1: use the Miniray release that wrote it");
    assert_non_null(strstr(mr_last_error(), folder));
    free(path);
    temp_dir_remove(folder);
}

/* A server that is killed while it saves leaves the checkpoint before; its next process saves it. */
static void a_save_that_is_killed(void **state) {
    if (failpoint_count() == 0) skip();
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_actor server = create("average"), scholars[SCHOLARS];
    mr_ref armed, saved;
    model_checkpoint_file file;
    temp_dir_make(folder);
    hire(scholars);
    for (int64_t version = 1; version <= 3; version++) {
        assert_int_equal(step_and_sync(server, scholars), version);
        must(mr_call_actor(mr, server, "arm", &armed, mr_str("train.checkpoint_written=stop")));
        assert_int_equal(future_assert_failure(mr, armed), MR_OK);
        pid_t process = (pid_t)ask(server, "pid");
        must(mr_model_save(mr, server, folder, &saved));
        char path[64], text[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
        while (strstr(text, ") T ") == NULL) {
            FILE *about = fopen(path, "r");
            assert_non_null(about);
            if (fgets(text, sizeof text, about) == NULL) text[0] = '\0';
            fclose(about);
            usleep(1000);
        }
        if (version == 1)
            assert_int_equal(model_checkpoint_open(folder, &file), MR_NOT_FOUND);
        else
            assert_int_equal(version_of(folder), version - 1);
        kill(process, SIGKILL);
        assert_int_equal(future_assert_failure(mr, saved), MR_OK);
        must(model_checkpoint_open(folder, &file));
        assert_int_equal(file.facts.version, version);
        model_checkpoint_close(&file);
    }
    mr_actor_release(mr, server);
    dismiss(scholars);
    temp_dir_remove(folder);
}

static void contradictions_are_errors(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], other[TEMP_DIR_FOLDER_MAX];
    mr_actor server = create("momentum");
    temp_dir_make(folder);
    temp_dir_make(other);
    save(server, folder);
    const mr_checkpoint_options options = MR_OPTIONS(mr_checkpoint_options, .restore = folder);
    open_fails(&MR_OPTIONS(mr_sync_strategy, .name = "median"), &options, MR_INVALID,
               "the strategy is 'median', but the checkpoint");
    assert_non_null(strstr(mr_last_error(), "is of strategy 'momentum'"));
    open_fails(&MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = 0.5), &options, MR_INVALID,
               "momentum is 0.5, but the checkpoint");
    assert_non_null(strstr(mr_last_error(), "was made with 0.8"));
    open_fails(&MR_OPTIONS(mr_sync_strategy, .momentum = -1), &options, MR_INVALID, "momentum is 0, but");
    must(mr_model_server_open(mr, &MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = 0.8), &options, NULL,
                              &server));
    assert_int_equal(stat_of(server, "version"), 0);
    open_fails(NULL, &MR_OPTIONS(mr_checkpoint_options, .restore = other), MR_NOT_FOUND, "there is no checkpoint");
    open_fails(NULL, &MR_OPTIONS(mr_checkpoint_options, .restore = ""), MR_INVALID,
               "the path of the checkpoint is \"\"");
    open_fails(NULL, &MR_OPTIONS(mr_checkpoint_options, .restore = other, .checkpoint_dir = folder), MR_INVALID,
               "has a checkpoint, too");
    open_fails(NULL, &MR_OPTIONS(mr_checkpoint_options, .checkpoint_dir = other, .checkpoint_every = -1), MR_INVALID,
               "checkpoint_every is -1; expected seconds, above 0");
    open_fails(NULL, &MR_OPTIONS(mr_checkpoint_options, .checkpoint_every = 5), MR_INVALID, "need checkpoint_dir");
    mr_ref ref;
    assert_int_equal(mr_model_save(mr, server, "", &ref), MR_INVALID);
    must(mr_model_save(mr, server, "/proc/no such folder", &ref));
    assert_int_not_equal(future_assert_failure(mr, ref), MR_OK);
    mr_actor_release(mr, server);
    temp_dir_remove(folder);
    temp_dir_remove(other);
}

static mr_actor open_in(const char *folder, int resume) {
    mr_actor server;
    const mr_checkpoint_options options =
        MR_OPTIONS(mr_checkpoint_options, .checkpoint_dir = folder, .checkpoint_every = 0.02, .resume = resume);
    must(mr_model_server_open(mr, &MR_OPTIONS(mr_sync_strategy, .name = "momentum"), &options, NULL, &server));
    return server;
}

static void await_version(const char *folder, uint64_t version) {
    for (int64_t end = clock_now_us(clock_real()) + PATIENCE_US;; usleep(2000)) {
        assert_true(clock_now_us(clock_real()) < end);
        if (model_checkpoint_exists(folder) && version_of(folder) == version) return;
    }
}

static void a_folder_is_continued(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_actor scholars[SCHOLARS], server;
    temp_dir_make(folder);
    hire(scholars);
    for (int64_t life = 0; life < 3; life++) {
        server = open_in(folder, 0);
        for (int64_t round = 1; round <= 5; round++)
            assert_int_equal(step_and_sync(server, scholars), 5 * life + round);
        await_version(folder, (uint64_t)(5 * (life + 1))); /* also the last version, after which nothing comes */
        if (life == 1) kill((pid_t)ask(server, "pid"), SIGKILL);
        if (life == 1) assert_int_equal(step_and_sync(server, scholars), 11);
        if (life == 1) await_version(folder, 11);
        must(mr_actor_kill(mr, server));
        mr_actor_release(mr, server);
        if (life == 1) {
            server = open_in(folder, 0);
            assert_int_equal(stat_of(server, "version"), 11);
            mr_actor_release(mr, server);
            break;
        }
    }
    for (int number = 1; number <= 2; number++) {
        char *old = xasprintf("%s/old-%d", folder, number);
        server = open_in(folder, -1);
        assert_int_equal(stat_of(server, "version"), 0);
        assert_int_equal(version_of(old), number == 1 ? 11 : 1);
        assert_int_equal(step_and_sync(server, scholars), 1);
        await_version(folder, 1);
        mr_actor_release(mr, server);
        if (number == 1) {
            server = restore(old);
            assert_int_equal(stat_of(server, "version"), 11);
            mr_actor_release(mr, server);
        }
        free(old);
    }
    dismiss(scholars);
    temp_dir_remove(folder);
}

/* A server that ends because its last handle was released writes what is not written yet. */
static void the_last_version_is_written_at_the_end(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_actor scholars[SCHOLARS], server;
    temp_dir_make(folder);
    hire(scholars);
    must(mr_model_server_open(mr, NULL, &MR_OPTIONS(mr_checkpoint_options, .checkpoint_dir = folder), NULL, &server));
    assert_int_equal(step_and_sync(server, scholars), 1);
    await_version(folder, 1); /* the first one at once, the next one in 30 s */
    assert_int_equal(step_and_sync(server, scholars), 2);
    usleep(20 * 1000);
    assert_int_equal(version_of(folder), 1);
    mr_actor_release(mr, server);
    await_version(folder, 2);
    dismiss(scholars);
    temp_dir_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restored_server_continues),
        cmocka_unit_test(before_the_first_sync),
        cmocka_unit_test(a_restored_server_survives_its_death),
        cmocka_unit_test(trees_come_back),
        cmocka_unit_test(a_damaged_checkpoint_is_never_used),
        cmocka_unit_test(another_format_is_rejected),
        cmocka_unit_test(a_save_that_is_killed),
        cmocka_unit_test(contradictions_are_errors),
        cmocka_unit_test(a_folder_is_continued),
        cmocka_unit_test(the_last_version_is_written_at_the_end),
    };
    return runtime_main_with(tests, .num_workers = 2);
}
