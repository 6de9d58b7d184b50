/* train_test.c — trainers whose workers, in C, die or lack methods. The test is the driver: its workers are this same
 * binary, started again. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "miniray/train.h"
#include "tests/support/temp_dir.h"

enum { WORKERS = 3, EPOCHS = 7, WEIGHTS = 4 };

static mr_context *mr;

/* ---- A worker: its weights depend only on its arguments, its shard and the epochs. */

typedef struct learner {
    int64_t id, shard;
    float weights[WEIGHTS];
    char *folder; /* folder of the files that kill the worker */
} learner;

static void learner_destroy(void *self) {
    free(((learner *)self)->folder);
    free(self);
}

/* If the file of that name exists, the worker removes the file, and dies. */
static void stumble(const learner *self, const char *where, int64_t epoch) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s-%lld-%lld", self->folder, where, (long long)self->id, (long long)epoch);
    if (unlink(path) == 0) kill(getpid(), SIGKILL);
}

/* Waits while a file exists, and reports in another file, if that exists, that the worker trains. */
static void dawdle(const learner *self, int64_t epoch) {
    char path[256];
    snprintf(path, sizeof path, "%s/count-%lld", self->folder, (long long)self->id);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0 && write(fd, "x", 1) != 1) abort();
    if (fd >= 0) close(fd);
    snprintf(path, sizeof path, "%s/hold-%lld-%lld", self->folder, (long long)self->id, (long long)epoch);
    while (access(path, F_OK) == 0) usleep(1000);
}

MR_CREATE(Learner) {
    learner *self = calloc(1, sizeof *self);
    mr_span folder;
    MR_TRY(mr_set_self(call, self, learner_destroy));
    MR_TRY(mr_arg_int(call, 0, &self->id));
    MR_TRY(mr_arg_str(call, 1, &folder));
    self->folder = strndup(folder.data, folder.size);
    self->shard = -1;
    for (int i = 0; i < WEIGHTS; i++) self->weights[i] = (float)(self->id + i);
    return MR_OK;
}

MR_METHOD(Learner, load_data_shard) {
    learner *self = mr_self(call);
    int64_t shards;
    stumble(self, "load", 0);
    MR_TRY(mr_arg_int(call, 0, &self->shard));
    MR_TRY(mr_arg_int(call, 1, &shards));
    return shards == WORKERS ? MR_OK : mr_fail(call, "%lld shards", (long long)shards);
}

MR_METHOD(Learner, train_epoch) {
    learner *self = mr_self(call);
    int64_t epoch;
    MR_TRY(mr_arg_int(call, 0, &epoch));
    stumble(self, "train", epoch);
    dawdle(self, epoch);
    for (int i = 0; i < WEIGHTS; i++)
        self->weights[i] = self->weights[i] * 0.7f + (float)(self->shard + 1) / 3 + (float)(epoch * i) * 0.1f;
    mr_arg result[] = {mr_str("loss"), mr_float((double)self->weights[0]), mr_str("id"), mr_int(self->id)};
    return mr_return(call, mr_map(result, 2));
}

MR_METHOD(Learner, get_weights) {
    learner *self = mr_self(call);
    stumble(self, "get", 0);
    mr_arg weights = mr_vector(self->weights, WEIGHTS);
    return mr_return(call, mr_list(&weights, 1));
}

MR_METHOD(Learner, set_weights) {
    learner *self = mr_self(call);
    mr_value list, item;
    mr_tensor tensor;
    stumble(self, "set", 0);
    MR_TRY(mr_arg_value(call, 0, &list));
    MR_TRY(mr_value_item(&list, 0, &item));
    MR_TRY(mr_value_tensor(&item, &tensor));
    memcpy(self->weights, tensor.data, sizeof self->weights);
    return MR_OK;
}

/* A worker with fewer methods. */
MR_CREATE(Idler) { return mr_set_self(call, calloc(1, 1), free); }
MR_METHOD(Idler, train_epoch) {
    int64_t epoch;
    MR_TRY(mr_arg_int(call, 0, &epoch));
    if (epoch == 2) return mr_fail(call, "the third is too much");
    mr_arg result[] = {mr_str("epoch"), mr_int(epoch)};
    return mr_return(call, mr_map(result, 1));
}
MR_CREATE(Mute) { return mr_set_self(call, calloc(1, 1), free); }
MR_METHOD(Mute, train_epoch) { return MR_OK; }
MR_CREATE(Nothing) { return mr_set_self(call, calloc(1, 1), free); }

/* ---- Scenes. */

typedef struct scene {
    char folder[TEMP_DIR_FOLDER_MAX];
    mr_arg args[1];
    mr_trainer_options options;
    mr_trainer *trainer;
} scene;

static void curse(const scene *scene, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scene->folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void begin(scene *scene, mr_trainer_options options) {
    assert_true(temp_dir_folder(scene->folder));
    scene->args[0] = mr_str(scene->folder);
    scene->options = options;
    if (scene->options.worker_class == NULL) scene->options.worker_class = "Learner";
    scene->options.num_workers = WORKERS;
    scene->options.args = scene->args;
    scene->options.arg_count = 1;
    assert_int_equal(mr_trainer_create(mr, &scene->options, &scene->trainer), MR_OK);
}

static mr_status epoch(scene *scene, int64_t number) {
    mr_value result;
    MR_TRY(mr_trainer_epoch(scene->trainer, number, true, &result));
    mr_value_release(&result);
    return MR_OK;
}

static void end(scene *scene) {
    mr_trainer_destroy(scene->trainer);
    assert_true(temp_dir_is_empty(scene->folder)); /* every planned death has happened */
    assert_int_equal(rmdir(scene->folder), 0);
}

static double field(const mr_value *result, const char *name) {
    mr_value value;
    double number;
    assert_int_equal(mr_value_field(result, name, &value), MR_OK);
    assert_int_equal(mr_value_float(&value, &number), MR_OK);
    return number;
}

/* The weights of a worker. */
static void weights_of(const scene *scene, size_t worker, float out[WEIGHTS]) {
    mr_actor actor;
    mr_ref ref;
    mr_value list, item;
    mr_tensor tensor;
    assert_int_equal(mr_trainer_worker(scene->trainer, worker, &actor), MR_OK);
    assert_int_equal(mr_call_actor(mr, actor, "get_weights", &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, MR_FOREVER, &list), MR_OK);
    assert_int_equal(mr_value_item(&list, 0, &item), MR_OK);
    assert_int_equal(mr_value_tensor(&item, &tensor), MR_OK);
    memcpy(out, tensor.data, WEIGHTS * sizeof *out);
    mr_value_release(&list);
    mr_release(mr, ref);
}

/* Runs all epochs with these deaths; `out`: all weights at the end. */
static void run(mr_trainer_options options, const char *const *deaths, size_t count, float out[WORKERS][WEIGHTS]) {
    scene scene;
    mr_trainer_report report;
    options.max_failures = (int)count;
    begin(&scene, options);
    for (size_t i = 0; i < count; i++) curse(&scene, deaths[i]);
    for (int64_t i = 0; i < EPOCHS; i++)
        if (epoch(&scene, i) != MR_OK) fail_msg("epoch %d: %s", (int)i, mr_last_error());
    for (size_t i = 0; i < WORKERS; i++) weights_of(&scene, i, out[i]);
    mr_trainer_report_get(scene.trainer, &report);
    assert_int_equal(report.failures, count);
    assert_int_equal(report.epochs, EPOCHS);
    end(&scene);
}

/* Checks that with these deaths the bits at the end equal those of an undisturbed run. */
static void check_deaths(mr_trainer_options options, const char *const *deaths, size_t count) {
    float calm[WORKERS][WEIGHTS], disturbed[WORKERS][WEIGHTS];
    run(options, NULL, 0, calm);
    run(options, deaths, count, disturbed);
    assert_memory_equal(calm, disturbed, sizeof calm);
}
#define CHECK_DEATHS(options, ...) \
    check_deaths(options, (const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

/* ---- Tests. */

static void the_bits_are_the_same_with_every_compiler(void **state) {
    float weights[WORKERS][WEIGHTS];
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    run(MR_OPTIONS(mr_trainer_options, .sync_interval = 2), NULL, 0, weights);
    for (size_t i = 0; i < sizeof weights; i++) hash = (hash ^ ((const uint8_t *)weights)[i]) * 1099511628211u;
    assert_true(hash == UINT64_C(0xd9bcd407a40d8bbd));
}

static void an_epoch_trains_averages_and_syncs(void **state) {
    scene scene;
    mr_value result, synced;
    bool is_synced;
    float weights[WORKERS][WEIGHTS];
    begin(&scene, MR_OPTIONS(mr_trainer_options, .sync_interval = 2));
    for (int64_t i = 0; i < 4; i++) {
        assert_int_equal(mr_trainer_epoch(scene.trainer, i, true, &result), MR_OK);
        assert_true(field(&result, "id") == 1);
        assert_int_equal(mr_value_field(&result, "synced", &synced), MR_OK);
        assert_int_equal(mr_value_bool(&synced, &is_synced), MR_OK);
        assert_int_equal(is_synced, i % 2 == 1);
        mr_value_release(&result);
        for (size_t w = 0; w < WORKERS; w++) weights_of(&scene, w, weights[w]);
        assert_int_equal(memcmp(weights[0], weights[1], sizeof weights[0]) == 0, is_synced);
        assert_int_equal(memcmp(weights[0], weights[2], sizeof weights[0]) == 0, is_synced);
    }
    assert_int_equal(mr_trainer_history(scene.trainer, 3, &result), MR_OK);
    assert_true(field(&result, "loss") > 0);
    mr_value_release(&result);
    assert_int_equal(mr_trainer_history(scene.trainer, 4, &result), MR_NOT_FOUND);
    end(&scene);
}

static void a_worker_without_shard_or_result_will_do(void **state) {
    scene scene;
    begin(&scene, MR_OPTIONS(mr_trainer_options, .worker_class = "Idler", .sync_interval = -1));
    assert_int_equal(epoch(&scene, 0), MR_OK);
    assert_int_equal(epoch(&scene, 1), MR_OK);
    end(&scene);
}

static void a_train_epoch_that_returns_nothing_is_logged_once(void **state) {
    scene scene;
    char text[4096];
    begin(&scene, MR_OPTIONS(mr_trainer_options, .worker_class = "Mute", .sync_interval = -1));
    int fd = memfd_create("log", MFD_CLOEXEC);
    log_set_fd(fd);
    for (int i = 0; i < 2; i++) assert_int_equal(epoch(&scene, i), MR_OK);
    log_set_fd(STDERR_FILENO);
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    close(fd);
    assert_true(size > 0);
    text[size] = '\0';
    char *told = strstr(text, "train_epoch of worker 0 returned nothing");
    assert_non_null(told);
    assert_null(strstr(told + 1, "train_epoch of"));
    end(&scene);
}

static void a_missing_method_is_named(void **state) {
    scene scene;
    begin(&scene, MR_OPTIONS(mr_trainer_options, .worker_class = "Nothing"));
    assert_int_equal(epoch(&scene, 0), MR_NOT_FOUND);
    assert_non_null(strstr(mr_last_error(), "train_epoch"));
    end(&scene);
    begin(&scene, MR_OPTIONS(mr_trainer_options, .worker_class = "Idler"));
    assert_int_not_equal(epoch(&scene, 0), MR_OK);
    assert_non_null(strstr(mr_last_error(), "get_weights"));
    end(&scene);
}

static void a_failure_is_the_workers_own(void **state) {
    scene scene;
    size_t worker;
    mr_ref ref;
    mr_value value;
    begin(&scene, MR_OPTIONS(mr_trainer_options, .worker_class = "Idler", .sync_interval = -1, .max_failures = 3));
    assert_int_equal(epoch(&scene, 2), MR_TASK_FAILED); /* a failed task does not count as a death */
    assert_non_null(strstr(mr_last_error(), "the third is too much"));
    assert_int_equal(mr_trainer_failed(scene.trainer, &worker, &ref), MR_OK);
    assert_true(worker < WORKERS);
    assert_int_equal(mr_get(mr, ref, 0, &value), MR_TASK_FAILED);
    assert_int_equal(epoch(&scene, 3), MR_OK);
    end(&scene);
}

static void a_death_is_an_error_that_names_the_worker(void **state) {
    scene scene;
    begin(&scene, MR_OPTIONS(mr_trainer_options, .num_workers = WORKERS));
    curse(&scene, "train-1-2");
    assert_int_equal(epoch(&scene, 0), MR_OK);
    assert_int_equal(epoch(&scene, 1), MR_OK);
    assert_int_equal(epoch(&scene, 2), MR_ACTOR_DIED);
    assert_non_null(strstr(mr_last_error(), "worker 1"));
    assert_non_null(strstr(mr_last_error(), "max_failures (0) is reached"));
    end(&scene);
}

static void a_worker_that_dies_in_an_epoch_repeats_it(void **state) {
    CHECK_DEATHS((mr_trainer_options)MR_INIT(mr_trainer_options), "train-1-3");
    CHECK_DEATHS((mr_trainer_options)MR_INIT(mr_trainer_options), "train-0-0", "train-2-0", "train-1-6");
}

static void a_worker_dead_between_syncs_repeats_since_the_last(void **state) {
    CHECK_DEATHS(MR_OPTIONS(mr_trainer_options, .sync_interval = 3), "train-1-4");
    CHECK_DEATHS(MR_OPTIONS(mr_trainer_options, .sync_interval = 3), "train-1-1", "train-0-5", "train-2-6");
}

static void a_death_in_a_sync_does_not_spoil_it(void **state) {
    CHECK_DEATHS(MR_OPTIONS(mr_trainer_options, .sync_interval = 3), "get-1-0");
    CHECK_DEATHS(MR_OPTIONS(mr_trainer_options, .sync_interval = 2), "set-2-0");
    CHECK_DEATHS((MR_OPTIONS(mr_trainer_options,
                             .strategy = &MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = 0.5))),
                 "set-0-0", "get-1-0");
}

static void a_worker_that_dies_while_loading_loads_again(void **state) {
    CHECK_DEATHS((mr_trainer_options)MR_INIT(mr_trainer_options), "load-1-0");
}

static void deaths_beyond_the_limit_are_an_error(void **state) {
    scene scene;
    begin(&scene, MR_OPTIONS(mr_trainer_options, .max_failures = 1));
    curse(&scene, "train-1-0");
    curse(&scene, "train-2-1");
    assert_int_equal(epoch(&scene, 0), MR_OK);
    assert_int_equal(epoch(&scene, 1), MR_ACTOR_DIED);
    assert_non_null(strstr(mr_last_error(), "max_failures (1) is reached"));
    end(&scene);
}

static void a_program_that_calls_workers_itself_can_mend_them(void **state) {
    scene scene;
    mr_actor actor;
    size_t mended;
    float before[WEIGHTS], after[WEIGHTS];
    begin(&scene, MR_OPTIONS(mr_trainer_options, .max_failures = 1));
    assert_int_equal(epoch(&scene, 0), MR_OK);
    assert_int_equal(mr_trainer_recover(scene.trainer, &mended), MR_OK);
    assert_int_equal(mended, 0);
    weights_of(&scene, 1, before);
    assert_int_equal(mr_trainer_worker(scene.trainer, 1, &actor), MR_OK);
    assert_int_equal(mr_actor_kill(mr, actor), MR_OK);
    assert_int_equal(mr_trainer_recover(scene.trainer, &mended), MR_OK);
    assert_int_equal(mended, 1);
    weights_of(&scene, 1, after);
    assert_memory_equal(before, after, sizeof before);
    end(&scene);
}

typedef struct hunter { /* kills each worker that has done the epoch; the last one is spared, and waits for that */
    scene *scene;
    int64_t epoch;
    size_t killed;
} hunter;

static bool hunt(void *user, size_t done) {
    hunter *hunter = user;
    mr_actor actor;
    for (; hunter->killed < done && hunter->killed < WORKERS - 1; hunter->killed++) {
        assert_int_equal(mr_trainer_worker(hunter->scene->trainer, hunter->killed, &actor), MR_OK);
        assert_int_equal(mr_actor_kill(mr, actor), MR_OK);
        char path[256];
        snprintf(path, sizeof path, "%s/hold-%zu-%lld", hunter->scene->folder, hunter->killed + 1,
                 (long long)hunter->epoch);
        assert_int_equal(unlink(path), 0); /* the next worker may continue */
    }
    return true;
}

static off_t count_of(const scene *scene, size_t worker) {
    char path[256];
    struct stat stat;
    snprintf(path, sizeof path, "%s/count-%zu", scene->folder, worker);
    assert_int_equal(lstat(path, &stat), 0);
    assert_int_equal(unlink(path), 0);
    return stat.st_size;
}

/* Each worker but the last ends its epoch, and is killed before the last one has ended its own. */
static void epochs_of_a_worker_that_dies_count(void **state) {
    scene scene;
    hunter hunter = {.scene = &scene};
    char name[64];
    float calm[WORKERS][WEIGHTS], hunted[WEIGHTS];
    run((mr_trainer_options)MR_INIT(mr_trainer_options), NULL, 0, calm);
    begin(&scene, MR_OPTIONS(mr_trainer_options, .max_failures = EPOCHS * WORKERS, .poll = hunt, .user = &hunter));
    assert_int_equal(mr_trainer_start(scene.trainer), MR_OK);
    for (size_t i = 0; i < WORKERS; i++) {
        snprintf(name, sizeof name, "count-%zu", i);
        curse(&scene, name);
    }
    for (hunter.epoch = 0; hunter.epoch < EPOCHS; hunter.epoch++) {
        for (size_t i = 1; i < WORKERS; i++) {
            snprintf(name, sizeof name, "hold-%zu-%lld", i, (long long)hunter.epoch);
            curse(&scene, name);
        }
        hunter.killed = 0;
        if (epoch(&scene, hunter.epoch) != MR_OK) fail_msg("epoch %d: %s", (int)hunter.epoch, mr_last_error());
    }
    for (size_t i = 0; i < WORKERS; i++) {
        weights_of(&scene, i, hunted);
        assert_memory_equal(hunted, calm[i], sizeof hunted);
        assert_int_equal(count_of(&scene, i), EPOCHS); /* no epoch was done twice */
    }
    mr_trainer_report report;
    mr_trainer_report_get(scene.trainer, &report);
    assert_int_equal(report.failures, EPOCHS * (WORKERS - 1));
    end(&scene);
}

static bool until_the_second(void *user, size_t done) { return ++*(int *)user < 2; }

static void poll_can_end_the_training(void **state) {
    scene scene;
    mr_value result;
    int polls = -1000;
    begin(&scene, MR_OPTIONS(mr_trainer_options, .poll = until_the_second, .user = &polls));
    assert_int_equal(epoch(&scene, 0), MR_OK);
    polls = 1;
    assert_int_equal(epoch(&scene, 1), MR_CANCELLED);
    assert_int_equal(mr_trainer_history(scene.trainer, 0, &result), MR_OK);
    mr_value_release(&result);
    assert_int_equal(mr_trainer_history(scene.trainer, 1, &result), MR_NOT_FOUND);
    end(&scene);
}

static void wrong_options_are_refused(void **state) {
    mr_trainer *trainer;
    mr_trainer_options none = MR_OPTIONS(mr_trainer_options, .worker_class = "Learner"),
                       nobody = MR_OPTIONS(mr_trainer_options, .num_workers = 1),
                       negative = MR_OPTIONS(mr_trainer_options, .num_workers = 1, .worker_class = "Learner",
                                             .max_failures = -1);
    assert_int_equal(mr_trainer_create(mr, &none, &trainer), MR_INVALID);
    assert_int_equal(mr_trainer_create(mr, &nobody, &trainer), MR_INVALID);
    assert_int_equal(mr_trainer_create(mr, &negative, &trainer), MR_INVALID);
    mr_trainer_destroy(NULL);
}

static int set_up(void **state) {
    mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = 64 << 20), &mr);
    if (status != MR_OK) print_message("mr_init: %s\n", mr_last_error());
    return status != MR_OK;
}

static int tear_down(void **state) {
    mr_shutdown(mr);
    return 0;
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_epoch_trains_averages_and_syncs),
        cmocka_unit_test(a_worker_without_shard_or_result_will_do),
        cmocka_unit_test(a_train_epoch_that_returns_nothing_is_logged_once),
        cmocka_unit_test(a_missing_method_is_named),
        cmocka_unit_test(a_failure_is_the_workers_own),
        cmocka_unit_test(a_death_is_an_error_that_names_the_worker),
        cmocka_unit_test(the_bits_are_the_same_with_every_compiler),
        cmocka_unit_test(a_worker_that_dies_in_an_epoch_repeats_it),
        cmocka_unit_test(a_worker_dead_between_syncs_repeats_since_the_last),
        cmocka_unit_test(a_death_in_a_sync_does_not_spoil_it),
        cmocka_unit_test(a_worker_that_dies_while_loading_loads_again),
        cmocka_unit_test(epochs_of_a_worker_that_dies_count),
        cmocka_unit_test(deaths_beyond_the_limit_are_an_error),
        cmocka_unit_test(a_program_that_calls_workers_itself_can_mend_them),
        cmocka_unit_test(poll_can_end_the_training),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
