/* shared_model_test.c — models in shared memory, synced in place: what workers see, and the state after a process is
 * killed during a sync. The test is the driver: its workers are this same binary, started again. */
#include "miniray/model.h"

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
#include "base/rng.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"
#include "tests/support/sync_fixture.h"

enum { PATIENCE_US = 20 * 1000 * 1000, ITEMS = 300 * 1000, EXTRA = 1000 };

/* ---- A worker: a model of two tensors, all of whose floats are equal, and private bytes after it. */

typedef struct worker {
    mr_shared_model *share; /* NULL: the worker sends copies */
    float *floats;          /* ITEMS and one more, then EXTRA */
    bool exported;          /* exported in the last sync */
} worker;

static void worker_free(void *self) {
    worker *worker = self;
    if (worker->share == NULL) free(worker->floats);
    mr_shared_model_close(worker->share);
    free(worker);
}

MR_CREATE(Sharer) { /* value, shared or not */
    size_t bytes = (ITEMS + 1 + EXTRA) * sizeof(float);
    double value;
    int64_t shares;
    MR_TRY(mr_arg_float(call, 0, &value));
    MR_TRY(mr_arg_int(call, 1, &shares));
    worker *self = calloc(1, sizeof *self);
    if (shares != 0) MR_TRY(mr_shared_model_open(mr_call_context(call), bytes, &self->share));
    self->floats = shares != 0 ? mr_shared_model_data(self->share) : malloc(bytes);
    for (size_t i = 0; i < ITEMS + 1; i++) self->floats[i] = (float)value;
    for (size_t i = 0; i < EXTRA; i++) self->floats[ITEMS + 1 + i] = (float)i;
    return mr_set_self(call, self, worker_free);
}

static void tensors_of(const worker *self, mr_tensor out[2]) {
    out[0] = (mr_tensor){.dtype = MR_F32, .dims = 1, .shape = {ITEMS}, .data = self->floats, .bytes = 4 * ITEMS};
    out[1] = (mr_tensor){.dtype = MR_F32, .dims = 0, .data = self->floats + ITEMS, .bytes = 4};
}

MR_METHOD(Sharer, get_weights) {
    mr_tensor tensors[2];
    tensors_of(mr_self(call), tensors);
    return mr_return(call, mr_list((mr_arg[]){mr_tensor_arg(&tensors[0]), mr_tensor_arg(&tensors[1])}, 2));
}

MR_METHOD(Sharer, lend_weights) {
    const worker *self = mr_self(call);
    mr_tensor tensors[2];
    tensors_of(self, tensors);
    if (self->share == NULL) return Sharer_get_weights(call);
    return mr_shared_model_return(call, self->share, tensors, 2);
}

MR_METHOD(Sharer, take_weights) {
    worker *self = mr_self(call);
    mr_value weights, item;
    mr_tensor tensor;
    MR_TRY(mr_arg_value(call, 0, &weights));
    self->exported = false;
    if (self->share != NULL) MR_TRY(mr_shared_model_apply(self->share, &weights, &self->exported));
    if (self->exported) return MR_OK;
    MR_TRY(mr_value_item(&weights, 0, &item));
    MR_TRY(mr_value_tensor(&item, &tensor));
    memcpy(self->floats, tensor.data, tensor.bytes);
    self->floats[ITEMS] = self->floats[0];
    return MR_OK;
}

MR_METHOD(Sharer, add) { /* a step of training */
    worker *self = mr_self(call);
    double value;
    MR_TRY(mr_arg_float(call, 0, &value));
    for (size_t i = 0; i < ITEMS + 1; i++) self->floats[i] += (float)value;
    return MR_OK;
}

/* The value of all the floats; fails if they differ, or if the private bytes have changed. */
MR_METHOD(Sharer, value) {
    const worker *self = mr_self(call);
    for (size_t i = 0; i < ITEMS + 1; i++)
        if (self->floats[i] != self->floats[0])
            return mr_fail(call, "item %zu is %g, the first is %g", i, (double)self->floats[i],
                           (double)self->floats[0]);
    for (size_t i = 0; i < EXTRA; i++)
        if (self->floats[ITEMS + 1 + i] != (float)i) return mr_fail(call, "a float behind the model has changed");
    return mr_return(call, mr_float((double)self->floats[0]));
}

MR_METHOD(Sharer, was_exported) { return mr_return(call, mr_int(((worker *)mr_self(call))->exported)); }

static mr_status pid(mr_call *call) { return mr_return(call, mr_int(getpid())); }

__attribute__((constructor)) static void register_more(void) { /* adds methods to the server's class */
    static const char *const classes[] = {"Sharer", "miniray.ModelServer"};
    for (size_t i = 0; i < 2; i++) {
        mr_register_method(classes[i], "arm", sync_fixture_arm_method);
        mr_register_method(classes[i], "pid", pid);
    }
}

/* ---- Helpers. */

static const mr_sync_options in_place = {
    .size = sizeof(mr_sync_options), .get_method = "lend_weights", .set_method = "take_weights"};

static mr_actor hire(double value, int64_t shares) {
    mr_actor made;
    assert_int_equal(mr_new_actor(mr, "Sharer", &made, mr_float(value), mr_int(shares)), MR_OK);
    return made;
}

static sync_fixture make_team(const char *strategy) { /* three workers whose floats are 0, 10 and 20 */
    sync_fixture fixture = {.server = sync_fixture_server(strategy)};
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) fixture.workers[w] = hire(10 * w, 1);
    return fixture;
}

static mr_ref sync_begin(const sync_fixture *fixture) {
    mr_ref ref;
    assert_int_equal(mr_model_sync(mr, fixture->server, fixture->workers, SYNC_FIXTURE_WORKERS, &in_place, &ref),
                     MR_OK);
    return ref;
}

static int64_t sync_all(const sync_fixture *fixture) { return future_assert_int(mr, sync_begin(fixture)); }

static int64_t ask_int(mr_actor actor, const char *method) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, actor, method, &ref), MR_OK);
    return future_assert_int(mr, ref);
}

static float first_float(const mr_value *weights) {
    mr_value item;
    mr_tensor tensor;
    assert_int_equal(mr_value_item(weights, 0, &item), MR_OK);
    assert_int_equal(mr_value_tensor(&item, &tensor), MR_OK);
    return ((const float *)tensor.data)[ITEMS - 1];
}

/* ---- Tests. */

static void a_sync_is_in_place(void **state) {
    sync_fixture fixture = make_team(NULL);
    for (int round = 1; round <= 4; round++) { /* uses both halves of the memory twice */
        assert_int_equal(sync_all(&fixture), round);
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
            assert_int_equal(ask_int(fixture.workers[w], "was_exported"), 1);
            assert_true(sync_fixture_value(fixture.workers[w]) == 9 + round);
            sync_fixture_add(fixture.workers[w], w);
        }
    }
    sync_fixture_dismiss(&fixture);
}

static void sync_and_forget(const sync_fixture *fixture) { mr_release(mr, sync_begin(fixture)); }

static void steps_before_a_sync_are_in_it_and_steps_after_see_it(void **state) {
    sync_fixture fixture = make_team("max");
    sync_fixture_check_order(&fixture, sync_and_forget);
    sync_fixture_dismiss(&fixture);
}

static void everything_else_is_a_snapshot(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_ref ref;
    mr_value mine, theirs;
    assert_int_equal(sync_all(&fixture), 1);
    assert_int_equal(mr_call_actor(mr, fixture.workers[1], "get_weights", &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &mine), MR_OK);
    mr_release(mr, ref);
    assert_int_equal(mr_model_pull(mr, fixture.server, &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &theirs), MR_OK);
    mr_release(mr, ref);
    for (int round = 0; round < 2; round++) {
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) sync_fixture_add(fixture.workers[w], 5);
        assert_int_equal(sync_all(&fixture), 2 + round);
    }
    assert_true(sync_fixture_value(fixture.workers[1]) == 20);
    assert_true(first_float(&mine) == 10 && first_float(&theirs) == 10);
    mr_value_release(&mine);
    mr_value_release(&theirs);
    sync_fixture_dismiss(&fixture);
}

static void shared_and_sent_models_sync_together(void **state) {
    for (int lends = 0; lends < SYNC_FIXTURE_WORKERS; lends++) { /* the first model defines the layout */
        sync_fixture fixture = {.server = sync_fixture_server("momentum")};
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) fixture.workers[w] = hire(10 * w, w == lends);
        assert_int_equal(sync_all(&fixture), 1);
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) sync_fixture_add(fixture.workers[w], 10);
        assert_int_equal(sync_all(&fixture), 2);
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
            assert_true(sync_fixture_value(fixture.workers[w]) == (double)(0.9f * 10 + (float)(1 - 0.9) * 20));
            assert_int_equal(ask_int(fixture.workers[w], "was_exported"), w == lends);
        }
        sync_fixture_dismiss(&fixture);
    }
}

/* Of two requests to a worker the later one counts. */
static void a_model_exported_again_is_neither_written_nor_imported(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_ref first, second, sync[3];
    assert_int_equal(mr_call_actor(mr, fixture.workers[0], "lend_weights", &first), MR_OK);
    assert_int_equal(mr_call_actor(mr, fixture.workers[0], "lend_weights", &second), MR_OK);
    assert_int_equal(mr_wait(mr, &second, 1, 1, PATIENCE_US, (unsigned char[1]){0}, &(size_t){0}), MR_OK);
    mr_arg args[] = {mr_int(0), mr_nil(), mr_int(0), mr_future(first)};
    const mr_call_options three = MR_OPTIONS(mr_call_options, .num_returns = 3);
    assert_int_equal(mr_actor_submit(mr, fixture.server, "aggregate", &three, args, 4, sync), MR_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(future_assert_failure(mr, sync[i]), MR_BUSY);
    args[3] = mr_future(second);
    assert_int_equal(mr_actor_submit(mr, fixture.server, "aggregate", &three, args, 4, sync), MR_OK);
    mr_ref third, taken;
    assert_int_equal(mr_wait(mr, sync, 3, 3, PATIENCE_US, (unsigned char[3]){0}, &(size_t){0}), MR_OK);
    /* Exported, but not accepted. */
    assert_int_equal(mr_call_actor(mr, fixture.workers[0], "lend_weights", &third), MR_OK);
    assert_int_equal(mr_call_actor(mr, fixture.workers[0], "take_weights", &taken, mr_future(sync[0])), MR_OK);
    assert_int_equal(future_assert_failure(mr, taken), MR_BUSY);
    for (int i = 0; i < 3; i++) mr_release(mr, sync[i]);
    mr_release(mr, first);
    mr_release(mr, second);
    mr_release(mr, third);
    assert_true(sync_fixture_value(fixture.workers[0]) == 0);
    assert_int_equal(sync_all(&fixture), 1);
    assert_true(sync_fixture_value(fixture.workers[0]) == 10);
    assert_int_equal(ask_int(fixture.workers[0], "was_exported"), 1);
    sync_fixture_dismiss(&fixture);
}

static void where_windows_cannot_move_the_new_half_is_copied(void **state) {
    if (failpoint_count() == 0) skip();
    for (int nth = 1; nth <= 3; nth++) {
        char point[64];
        snprintf(point, sizeof point, "train.share_mremap=error@%d", nth);
        sync_fixture fixture = make_team(NULL);
        sync_fixture_arm(fixture.workers[1], point);
        for (int round = 1; round <= 3; round++) {
            assert_int_equal(sync_all(&fixture), round);
            for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
                assert_true(sync_fixture_value(fixture.workers[w]) == 9 + round);
                sync_fixture_add(fixture.workers[w], 1);
            }
        }
        sync_fixture_dismiss(&fixture);
    }
}

/* A process dies at this point. Each other model is entirely of the old version or entirely of the new one; the next
 * sync, with a new server or a new worker, is in place again. */
static void dies_at(const char *point, bool server) {
    sync_fixture fixture = make_team(NULL);
    const mr_actor_options mortal = MR_OPTIONS(mr_actor_options, .max_restarts = -1);
    mr_actor_release(mr, fixture.server);
    assert_int_equal(mr_model_server_create(mr, NULL, &mortal, &fixture.server), MR_OK);
    /* all workers run */
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 10 * w);
    mr_actor *victim = server ? &fixture.server : &fixture.workers[1];
    sync_fixture_arm(*victim, point);
    assert_int_not_equal(future_assert_failure(mr, sync_begin(&fixture)), MR_OK);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
        if (!server && w == 1) continue;
        double value = sync_fixture_value(fixture.workers[w]); /* `value` reads the whole model */
        assert_true(value == 10 * w || (!server && value == 10));
    }
    mr_actor_release(mr, *victim);
    *victim = server ? sync_fixture_server(NULL) : hire(10, 1);
    assert_int_equal(sync_all(&fixture), 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
        assert_true(sync_fixture_value(fixture.workers[w]) == sync_fixture_value(fixture.workers[0]));
        assert_int_equal(ask_int(fixture.workers[w], "was_exported"), 1);
    }
    sync_fixture_dismiss(&fixture);
}

static void deaths_at_every_point(void **state) {
    if (failpoint_count() == 0) skip();
    dies_at("train.loan_begun=kill", true);
    dies_at("train.piece=kill@3", true);
    dies_at("train.loan_ends=kill", true);
    dies_at("train.lent=kill", false);
    dies_at("train.taking=kill", false);
    dies_at("train.taken=kill", false);
}

/* The call of a dead server is retried by the server's next process, which writes the model, whether or not the model
 * was written before. */
static void server_dies_and_tries_again(const char *point) {
    const mr_actor_options options = MR_OPTIONS(mr_actor_options, .max_restarts = 1, .max_call_retries = 1);
    sync_fixture fixture = make_team(NULL);
    mr_actor_release(mr, fixture.server);
    assert_int_equal(mr_model_server_create(mr, NULL, &options, &fixture.server), MR_OK);
    sync_fixture_arm(fixture.server, point);
    assert_int_equal(sync_all(&fixture), 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
        assert_true(sync_fixture_value(fixture.workers[w]) == 10);
        assert_int_equal(ask_int(fixture.workers[w], "was_exported"), 1);
    }
    sync_fixture_dismiss(&fixture);
}

static void a_server_that_dies_writes_again(void **state) {
    if (failpoint_count() == 0) skip();
    server_dies_and_tries_again("train.loan_begun=kill");
    server_dies_and_tries_again("train.piece=kill@3");
    server_dies_and_tries_again("train.loan_ends=kill@2");
    server_dies_and_tries_again("train.aggregated=kill");
}

/* Kills the victim from outside after a random time. */
static void deaths_at_any_instant(void **state) {
    rng rng;
    rng_init(&rng, 7);
    for (int round = 0; round < 12; round++) {
        sync_fixture fixture = make_team(NULL);
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 10 * w);
        bool server = round % 2 == 0;
        mr_actor victim = server ? fixture.server : fixture.workers[2];
        pid_t process = (pid_t)ask_int(victim, "pid");
        mr_ref sync = sync_begin(&fixture);
        int64_t until = clock_now_us(clock_real()) + (int64_t)rng_below(&rng, 3000);
        while (clock_now_us(clock_real()) < until) continue;
        kill(process, SIGKILL);
        (void)future_assert_failure(mr, sync); /* the sync may have ended before the death */
        for (int w = 0; w < (server ? SYNC_FIXTURE_WORKERS : SYNC_FIXTURE_WORKERS - 1); w++) {
            double value = sync_fixture_value(fixture.workers[w]);
            assert_true(value == 10 * w || value == 10);
        }
        sync_fixture_dismiss(&fixture);
    }
}

/* A worker that died after it shared its model counts as dead: its memory is freed when the node has noticed the
 * death. */
static void a_worker_that_exported_and_died_is_dead(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_ref exported[2], sync[4];
    for (int w = 0; w < 2; w++) {
        assert_int_equal(mr_call_actor(mr, fixture.workers[w], "lend_weights", &exported[w]), MR_OK);
        assert_int_equal(mr_wait(mr, &exported[w], 1, 1, PATIENCE_US, (unsigned char[1]){0}, &(size_t){0}), MR_OK);
    }
    kill((pid_t)ask_int(fixture.workers[1], "pid"), SIGKILL);
    mr_arg args[] = {mr_int(0), mr_nil(), mr_int(0), mr_future(exported[0]), mr_future(exported[1])};
    const mr_call_options four = MR_OPTIONS(mr_call_options, .num_returns = 4);
    mr_status status = MR_OK;
    for (int64_t end = clock_now_us(clock_real()) + PATIENCE_US; status != MR_ACTOR_DIED; usleep(1000)) {
        assert_true(clock_now_us(clock_real()) < end);
        assert_int_equal(mr_actor_submit(mr, fixture.server, "aggregate", &four, args, 5, sync), MR_OK);
        for (int i = 0; i < 4; i++)
            status = future_assert_failure(mr, sync[i]); /* as long as the memory exists, the server can write it */
        assert_true(status == MR_OK || status == MR_BUSY || status == MR_ACTOR_DIED);
    }
    mr_release(mr, exported[0]);
    assert_int_equal(mr_call_actor(mr, fixture.workers[0], "lend_weights", &exported[0]), MR_OK);
    args[0] = mr_int(1); /* dead workers are skipped */
    args[3] = mr_future(exported[0]);
    assert_int_equal(mr_actor_submit(mr, fixture.server, "aggregate", &four, args, 5, sync), MR_OK);
    mr_value model;
    assert_int_equal(mr_get(mr, sync[3], PATIENCE_US, &model), MR_OK);
    assert_true(first_float(&model) == 0);
    mr_value_release(&model);
    for (int i = 0; i < 4; i++) mr_release(mr, sync[i]);
    for (int w = 0; w < 2; w++) mr_release(mr, exported[w]);
    sync_fixture_dismiss(&fixture);
}

static void misuse_is_refused(void **state) {
    mr_shared_model *share;
    assert_int_equal(mr_shared_model_open(NULL, 100, &share), MR_INVALID);
    assert_int_equal(mr_shared_model_open(mr, 0, &share), MR_INVALID);
    assert_int_equal(mr_shared_model_open(mr, SIZE_MAX, &share), MR_TOO_LARGE);
    assert_int_equal(mr_shared_model_open(mr, 100, &share), MR_OK);
    const int64_t nine = 9;
    mr_arg outside = mr_tensor_of(MR_U8, "elsewhere", 1, &nine), inside, loan;
    inside = mr_tensor_of(MR_U8, mr_shared_model_data(share), 1, &nine);
    assert_int_equal(mr_shared_model_export(NULL, inside, &loan), MR_INVALID);
    assert_int_equal(mr_shared_model_export(share, inside, NULL), MR_INVALID);
    assert_int_equal(mr_shared_model_export(share, outside, &loan), MR_INVALID);
    assert_int_equal(mr_shared_model_export(share, mr_list((mr_arg[]){inside, outside}, 2), &loan), MR_INVALID);
    assert_int_equal(mr_shared_model_export(share, mr_list(NULL, 0), &loan), MR_INVALID);
    assert_int_equal(mr_shared_model_export(share, mr_list((mr_arg[]){inside, mr_int(3)}, 2), &loan), MR_OK);
    bool taken;
    assert_int_equal(mr_shared_model_apply(share, &(mr_value){0}, &taken), MR_OK);
    assert_false(taken);
    mr_shared_model_close(share);
    mr_shared_model_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sync_is_in_place),
        cmocka_unit_test(steps_before_a_sync_are_in_it_and_steps_after_see_it),
        cmocka_unit_test(everything_else_is_a_snapshot),
        cmocka_unit_test(shared_and_sent_models_sync_together),
        cmocka_unit_test(a_model_exported_again_is_neither_written_nor_imported),
        cmocka_unit_test(where_windows_cannot_move_the_new_half_is_copied),
        cmocka_unit_test(deaths_at_every_point),
        cmocka_unit_test(a_server_that_dies_writes_again),
        cmocka_unit_test(deaths_at_any_instant),
        cmocka_unit_test(a_worker_that_exported_and_died_is_dead),
        cmocka_unit_test(misuse_is_refused),
    };
    return runtime_main(tests);
}
