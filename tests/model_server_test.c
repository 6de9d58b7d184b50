/* model_server_test.c — the model server survives its death: a training whose server is killed, at every failpoint or
 * at any instant, ends with the bits, the version and the counts of a training without deaths. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/hash.h"
#include "base/rng.h"
#include "miniray/model.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"
#include "tests/support/status_assert.h"
#include "tests/support/sync_fixture.h"

enum { ITEMS = 40 * 1000, PUPILS = 3, PATIENCE_US = 20 * 1000 * 1000, POINTS_MAX = 256 };

/* ---- A pupil: a model of one tensor, in its own or in shared memory. A step changes each item in its own way. */

typedef struct pupil {
    float *items;
    mr_shared_model *share; /* NULL: `items` is its own memory */
    int64_t number, steps;
} pupil;

static void pupil_free(void *self) {
    pupil *pupil = self;
    if (pupil->share != NULL)
        mr_shared_model_close(pupil->share);
    else
        free(pupil->items);
    free(pupil);
}

MR_CREATE(Pupil) { /* number, shares */
    pupil *self = calloc(1, sizeof *self);
    int64_t shares;
    MR_TRY(mr_arg_int(call, 0, &self->number));
    MR_TRY(mr_arg_int(call, 1, &shares));
    if (shares != 0) MR_TRY(mr_shared_model_open(mr_call_context(call), ITEMS * sizeof *self->items, &self->share));
    self->items = shares != 0 ? mr_shared_model_data(self->share) : malloc(ITEMS * sizeof *self->items);
    for (int64_t i = 0; i < ITEMS; i++) self->items[i] = (float)((i * 31 + self->number * 7) % 1013) / 1013;
    return mr_set_self(call, self, pupil_free);
}

MR_METHOD(Pupil, step) {
    pupil *self = mr_self(call);
    self->steps++;
    for (int64_t i = 0; i < ITEMS; i++)
        self->items[i] = self->items[i] * 0.9f + (float)((i * 7 + self->number * 13 + self->steps * 31) % 1009) / 1009;
    return MR_OK;
}

MR_METHOD(Pupil, get_weights) {
    pupil *self = mr_self(call);
    const int64_t shape[] = {ITEMS};
    const mr_tensor tensor = {MR_F32, MR_NUMPY, 1, {ITEMS}, self->items, ITEMS * sizeof *self->items};
    if (self->share != NULL) return mr_shared_model_return(call, self->share, &tensor, 1);
    mr_arg item = mr_tensor_of(MR_F32, self->items, 1, shape);
    return mr_return(call, mr_list(&item, 1));
}

MR_METHOD(Pupil, set_weights) {
    pupil *self = mr_self(call);
    mr_value weights, item;
    mr_tensor tensor;
    bool applied = false;
    MR_TRY(mr_arg_value(call, 0, &weights));
    if (self->share != NULL) MR_TRY(mr_shared_model_apply(self->share, &weights, &applied));
    if (applied) return MR_OK;
    MR_TRY(mr_value_item(&weights, 0, &item));
    MR_TRY(mr_value_tensor(&item, &tensor));
    memcpy(self->items, tensor.data, tensor.bytes);
    return MR_OK;
}

static int64_t hash_of(const void *bytes, size_t size) { return (int64_t)(hash_on(HASH_BEGIN, bytes, size) >> 1); }

MR_METHOD(Pupil, hash) {
    const pupil *self = mr_self(call);
    return mr_return(call, mr_int(hash_of(self->items, ITEMS * sizeof *self->items)));
}

static mr_status pid(mr_call *call) { return mr_return(call, mr_int(getpid())); }

__attribute__((constructor)) static void register_more(void) { /* adds methods to the server's class */
    mr_register_method("miniray.ModelServer", "arm", sync_fixture_arm_method);
    mr_register_method("miniray.ModelServer", "pid", pid);
}

/* ---- A training. */

typedef struct course { /* how a training is done */
    const char *strategy;
    bool shares;
} course;

typedef struct outcome {
    int64_t models[PUPILS], pulled; /* hashes */
    int64_t version, syncs;
    uint32_t starts; /* of the server's process */
} outcome;

typedef struct training {
    mr_actor server, pupils[PUPILS];
} training;

static training training_open(const course *course) {
    training made;
    must(mr_model_server_create(mr, &MR_OPTIONS(mr_sync_strategy, .name = course->strategy), NULL, &made.server));
    for (int p = 0; p < PUPILS; p++)
        must(mr_new_actor(mr, "Pupil", &made.pupils[p], mr_int(p), mr_int(course->shares)));
    return made;
}

static void training_close(const training *training) {
    for (int p = 0; p < PUPILS; p++) mr_actor_release(mr, training->pupils[p]);
    mr_actor_release(mr, training->server);
}

static mr_ref step_and_sync(const training *training) {
    mr_ref ref;
    for (int p = 0; p < PUPILS; p++) must(mr_call_actor(mr, training->pupils[p], "step", NULL));
    must(mr_model_sync(mr, training->server, training->pupils, PUPILS, NULL, &ref));
    return ref;
}

static int64_t ask_int(mr_actor actor, const char *method) {
    mr_ref ref;
    /* a call that was sent before the death of the process is lost, and not sent again */
    for (mr_status status = MR_ACTOR_DIED;;) {
        mr_value value;
        int64_t number = 0;
        must(mr_call_actor(mr, actor, method, &ref));
        status = mr_get(mr, ref, PATIENCE_US, &value);
        if (status == MR_OK) must(mr_value_int(&value, &number));
        if (status == MR_OK) mr_value_release(&value);
        mr_release(mr, ref);
        if (status == MR_OK) return number;
        assert_int_equal(status, MR_ACTOR_DIED);
    }
}

static int64_t stat_of(const mr_value *stats, const char *field) {
    mr_value value;
    int64_t number;
    must(mr_value_field(stats, field, &value));
    must(mr_value_int(&value, &number));
    return number;
}

static int64_t hash_pulled(mr_actor server) {
    mr_ref ref;
    mr_value item;
    mr_tensor tensor;
    must(mr_model_pull(mr, server, &ref));
    mr_value value = future_assert_value(mr, ref);
    must(mr_value_item(&value, 0, &item));
    must(mr_value_tensor(&item, &tensor));
    int64_t hash = hash_of(tensor.data, tensor.bytes);
    mr_value_release(&value);
    return hash;
}

static outcome outcome_of(const training *training) {
    static mr_actor_info info;
    outcome made = {.pulled = hash_pulled(training->server)};
    mr_ref ref;
    for (int p = 0; p < PUPILS; p++) made.models[p] = ask_int(training->pupils[p], "hash");
    must(mr_model_stats(mr, training->server, &ref));
    mr_value stats = future_assert_value(mr, ref);
    made.version = stat_of(&stats, "version");
    made.syncs = stat_of(&stats, "num_syncs");
    mr_value_release(&stats);
    must(mr_actor_info_get(mr, training->server, &info));
    made.starts = info.starts;
    return made;
}

static void assert_same(const outcome *one, const outcome *other) {
    for (int p = 0; p < PUPILS; p++) assert_int_equal(one->models[p], other->models[p]);
    assert_int_equal(one->pulled, other->pulled);
    assert_int_equal(one->version, other->version);
    assert_int_equal(one->syncs, other->syncs);
}

static mr_ref push(const training *training) {
    static float items[ITEMS];
    const int64_t shape[] = {ITEMS};
    mr_ref ref;
    for (int64_t i = 0; i < ITEMS; i++) items[i] = (float)(i % 97);
    mr_arg item = mr_tensor_of(MR_F32, items, 1, shape);
    must(mr_model_push(mr, training->server, mr_list(&item, 1), &ref));
    return ref;
}

/* Four syncs, a push, and weights of workers. The server is killed at the failpoint, between the first sync and the
 * end; all calls of that time are submitted at once. */
static outcome train(const course *course, const char *failpoint) {
    const training training = training_open(course);
    mr_ref refs[4], pushed, armed;
    assert_int_equal(future_assert_int(mr, step_and_sync(&training)), 1);
    for (int p = 0; p < PUPILS && strcmp(course->strategy, "weighted") == 0; p++)
        must(mr_model_set_weight(mr, training.server, p, 1 + p, NULL));
    if (failpoint != NULL) {
        must(mr_actor_submit(mr, training.server, "arm", &MR_OPTIONS(mr_call_options, .max_retries = -1),
                             MR_ARGS(mr_str(failpoint)), &armed));
        (void)future_assert_failure(mr, armed); /* the failpoint may be on the way of the answer */
    }
    refs[0] = step_and_sync(&training);
    pushed = push(&training);
    refs[1] = step_and_sync(&training);
    if (strcmp(course->strategy, "weighted") == 0) must(mr_model_set_weight(mr, training.server, 1, 0.5, NULL));
    refs[2] = step_and_sync(&training);
    assert_int_equal(future_assert_int(mr, refs[0]), 2);
    assert_int_equal(future_assert_int(mr, pushed), 3);
    assert_int_equal(future_assert_int(mr, refs[1]), 4);
    assert_int_equal(future_assert_int(mr, refs[2]), 5);
    outcome made = outcome_of(&training);
    training_close(&training);
    return made;
}

/* ---- Tests. */

/* The failpoints that a server may pass, each name once. */
static size_t points_of(const char *names[POINTS_MAX]) {
    static const char *const prefixes[] = {"train.", "runtime.", "store.", "port.", "ring.", "arena."};
    size_t count = 0;
    for (size_t i = 0; i < failpoint_count() && count < POINTS_MAX; i++) {
        const char *name = failpoint_at(i)->name;
        bool wanted = false, known = false;
        for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes; p++)
            wanted = wanted || strncmp(name, prefixes[p], strlen(prefixes[p])) == 0;
        for (size_t j = 0; j < count; j++) known = known || strcmp(names[j], name) == 0;
        if (wanted && !known) names[count++] = name;
    }
    return count;
}

/* Kills the server at the nth visit of every failpoint. Returns how many trainings had a death. */
static int sweep(const course *course, int nth) {
    const char *names[POINTS_MAX];
    size_t count = points_of(names);
    const outcome expected = train(course, NULL);
    int deaths = 0;
    for (size_t i = 0; i < count; i++) {
        char point[96];
        snprintf(point, sizeof point, "%s=kill@%d", names[i], nth);
        const outcome made = train(course, point);
        assert_same(&made, &expected);
        deaths += made.starts > 1;
    }
    return deaths;
}

static void deaths_at_every_failpoint(void **state) {
    if (failpoint_count() == 0) skip();
    assert_true(sweep(&(course){"momentum", false}, 1) >= 8);
    assert_true(sweep(&(course){"momentum", true}, 2) >= 5);
    assert_true(sweep(&(course){"weighted", false}, 3) >= 4);
}

/* The server is killed fifty times during one training. */
static void deaths_at_any_instant(void **state) {
    enum { SYNCS = 100, KILLS = 50 };
    static const course courses[] = {{"momentum", false}, {"momentum", true}};
    rng rng;
    rng_init(&rng, 5);
    for (size_t c = 0; c < 2; c++) {
        outcome made[2];
        for (int killed = 0; killed < 2; killed++) {
            const training training = training_open(&courses[c]);
            mr_ref refs[SYNCS];
            for (int i = 0; i < SYNCS; i += 2) {
                pid_t process = (pid_t)ask_int(training.server, "pid");
                refs[i] = step_and_sync(&training);
                refs[i + 1] = step_and_sync(&training);
                if (!killed) continue;
                usleep((useconds_t)rng_below(&rng, 3000));
                kill(process, SIGKILL);
            }
            for (int i = 0; i < SYNCS; i++) assert_int_equal(future_assert_int(mr, refs[i]), i + 1);
            made[killed] = outcome_of(&training);
            training_close(&training);
        }
        assert_same(&made[0], &made[1]);
        assert_int_equal(made[0].starts, 1);
        assert_int_equal(made[1].starts, KILLS + 1);
    }
}

/* The error that a server keeps, and the weights of workers, are there after its death. */
static void facts_survive(void **state) {
    const course course = {"weighted", false};
    const training training = training_open(&course);
    mr_ref ref;
    for (int p = 0; p < PUPILS; p++) must(mr_model_set_weight(mr, training.server, p, 0, NULL));
    assert_int_equal(future_assert_failure(mr, step_and_sync(&training)), MR_INVALID);
    kill((pid_t)ask_int(training.server, "pid"), SIGKILL);
    must(mr_model_stats(mr, training.server, &ref));
    mr_value stats = future_assert_value(mr, ref), error;
    mr_span text;
    must(mr_value_field(&stats, "last_error", &error));
    must(mr_value_str(&error, &text));
    assert_non_null(memmem(text.data, text.size, "add up to 0", 11));
    mr_value_release(&stats);
    assert_int_equal(future_assert_failure(mr, step_and_sync(&training)), MR_INVALID); /* the weights are still 0 */
    training_close(&training);
}

MR_TASK(sync_as_another) { /* server, pupils…: a process that has not created the server */
    mr_actor server, pupils[PUPILS];
    mr_ref ref;
    mr_value value;
    MR_TRY(mr_arg_actor(call, 0, &server));
    for (size_t p = 0; p < PUPILS; p++) MR_TRY(mr_arg_actor(call, 1 + p, &pupils[p]));
    for (int i = 0; i < 20; i++) {
        MR_TRY(mr_model_sync(mr_call_context(call), server, pupils, PUPILS, NULL, &ref));
        MR_TRY(mr_get(mr_call_context(call), ref, PATIENCE_US, &value));
        mr_release(mr_call_context(call), ref);
    }
    return MR_OK;
}

static void calls_of_other_processes_are_sent_again(void **state) {
    const course course = {"average", false};
    const training training = training_open(&course);
    mr_ref ref;
    (void)ask_int(training.server, "pid");
    must(mr_call_task(mr, "sync_as_another", &ref, mr_handle(training.server), mr_handle(training.pupils[0]),
                      mr_handle(training.pupils[1]), mr_handle(training.pupils[2])));
    for (int i = 0; i < 5; i++) {
        usleep(2000);
        kill((pid_t)ask_int(training.server, "pid"), SIGKILL);
    }
    assert_int_equal(future_assert_failure(mr, ref), MR_OK);
    assert_int_equal(outcome_of(&training).version, 20);
    training_close(&training);
}

static void a_server_without_restarts_stays_dead(void **state) {
    const mr_actor_options mortal = MR_OPTIONS(mr_actor_options, .max_restarts = -1);
    training training = training_open(&(course){"average", false});
    mr_actor_release(mr, training.server);
    must(mr_model_server_create(mr, NULL, &mortal, &training.server));
    kill((pid_t)ask_int(training.server, "pid"), SIGKILL);
    assert_int_equal(future_assert_failure(mr, step_and_sync(&training)), MR_ACTOR_DIED);
    training_close(&training);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deaths_at_every_failpoint),
        cmocka_unit_test(deaths_at_any_instant),
        cmocka_unit_test(facts_survive),
        cmocka_unit_test(calls_of_other_processes_are_sent_again),
        cmocka_unit_test(a_server_without_restarts_stays_dead),
    };
    return runtime_main_with(tests, .num_workers = 2);
}
