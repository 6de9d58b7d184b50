/* model_sync_test.c — a model server and its workers, as processes: the values of a sync, the workers that receive
 * them, and errors. The test is the driver: its workers are this same binary, started again. */
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

#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"
#include "tests/support/sync_fixture.h"

enum { PATIENCE_US = 20 * 1000 * 1000, ITEMS = 40 * 1000 /* ITEMS: too large for a value in a message */ };

/* ---- A worker: a model of two tensors, all of whose floats are equal. */

typedef struct worker {
    float *large, small;
    int64_t steps; /* a counter; a sync takes the first worker's value */
    int64_t items;
    mr_tensor_kind tensor_kind;
    bool named; /* the weights are a map */
    bool fails;
    bool is_doomed; /* the worker dies when its weights are set */
} worker;

static void worker_free(void *self) {
    free(((worker *)self)->large);
    free(self);
}

static void fill(worker *self, float value) {
    for (int64_t i = 0; i < self->items; i++) self->large[i] = value;
    self->small = value;
}

MR_CREATE(Worker) { /* value, tensor_kind, named, items */
    worker *self = calloc(1, sizeof *self);
    double value;
    int64_t tensor_kind = 0, named = 0;
    self->items = ITEMS;
    MR_TRY(mr_arg_float(call, 0, &value));
    if (mr_arg_count(call) > 1) MR_TRY(mr_arg_int(call, 1, &tensor_kind));
    if (mr_arg_count(call) > 2) MR_TRY(mr_arg_int(call, 2, &named));
    if (mr_arg_count(call) > 3) MR_TRY(mr_arg_int(call, 3, &self->items));
    self->tensor_kind = (mr_tensor_kind)tensor_kind;
    self->named = named != 0;
    self->large = calloc((size_t)self->items + 1, sizeof *self->large);
    fill(self, (float)value);
    return mr_set_self(call, self, worker_free);
}

MR_METHOD(Worker, get_weights) {
    worker *self = mr_self(call);
    if (self->fails) return mr_fail(call, "no weights today");
    int64_t shape[] = {self->items};
    mr_arg large = mr_tensor_of(MR_F32, self->large, 1, shape), small = mr_tensor_of(MR_F32, &self->small, 0, NULL);
    mr_arg steps = mr_tensor_of(MR_I64, &self->steps, 0, NULL);
    large.tensor_kind = small.tensor_kind = steps.tensor_kind = (uint8_t)self->tensor_kind;
    mr_arg list[] = {large, small, steps};
    mr_arg map[] = {mr_str("large"), large, mr_str("small"), small, mr_str("steps"), steps};
    return mr_return(call, self->named ? mr_map(map, 3) : mr_list(list, 3));
}

static mr_status part_of(const mr_value *weights, size_t index, const char *name, mr_tensor *out) {
    mr_value item;
    MR_TRY(mr_value_kind(weights) == MR_KIND_MAP ? mr_value_field(weights, name, &item)
                                                 : mr_value_item(weights, index, &item));
    return mr_value_tensor(&item, out);
}

MR_METHOD(Worker, set_weights) {
    worker *self = mr_self(call);
    mr_value weights;
    mr_tensor large, small, steps;
    if (self->is_doomed) kill(getpid(), SIGKILL);
    MR_TRY(mr_arg_value(call, 0, &weights));
    MR_TRY(part_of(&weights, 0, "large", &large));
    MR_TRY(part_of(&weights, 1, "small", &small));
    MR_TRY(part_of(&weights, 2, "steps", &steps));
    if (large.bytes != (size_t)self->items * sizeof(float)) return mr_fail(call, "%zu bytes", large.bytes);
    if ((large.tensor_kind == MR_TORCH) != (self->tensor_kind == MR_TORCH))
        return mr_fail(call, "it has the kind %d", (int)large.tensor_kind);
    memcpy(self->large, large.data, large.bytes);
    memcpy(&self->small, small.data, sizeof self->small);
    memcpy(&self->steps, steps.data, sizeof self->steps);
    return MR_OK;
}

MR_METHOD(Worker, add) { /* a step of training */
    worker *self = mr_self(call);
    double value;
    MR_TRY(mr_arg_float(call, 0, &value));
    fill(self, self->small + (float)value);
    self->steps++;
    return MR_OK;
}

MR_METHOD(Worker, fail_from_now_on) {
    worker *self = mr_self(call);
    int64_t fails;
    MR_TRY(mr_arg_int(call, 0, &fails));
    self->fails = fails != 0;
    return MR_OK;
}

MR_METHOD(Worker, die_when_set) {
    worker *self = mr_self(call);
    self->is_doomed = true;
    return MR_OK;
}

MR_METHOD(Worker, die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

/* The value of all the floats; fails if they differ. */
MR_METHOD(Worker, value) {
    worker *self = mr_self(call);
    for (int64_t i = 0; i < self->items; i++)
        if (self->large[i] != self->small) return mr_fail(call, "item %lld differs", (long long)i);
    return mr_return(call, mr_float((double)self->small));
}

/* ---- Helpers. */

static void hire(mr_actor *out, double value, int64_t tensor_kind, int64_t named, int64_t items) {
    assert_int_equal(
        mr_new_actor(mr, "Worker", out, mr_float(value), mr_int(tensor_kind), mr_int(named), mr_int(items)), MR_OK);
}

static sync_fixture make_team(const char *strategy) { /* three workers, whose floats are 0, 10 and 20 */
    sync_fixture fixture = {.server = sync_fixture_server(strategy)};
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) hire(&fixture.workers[w], 10 * w, MR_NUMPY, 0, ITEMS);
    return fixture;
}

static int64_t sync_all(const sync_fixture *fixture) {
    mr_ref ref;
    assert_int_equal(mr_model_sync(mr, fixture->server, fixture->workers, SYNC_FIXTURE_WORKERS, NULL, &ref), MR_OK);
    return future_assert_int(mr, ref);
}

static void sync_and_forget(const sync_fixture *fixture) {
    assert_int_equal(mr_model_sync(mr, fixture->server, fixture->workers, SYNC_FIXTURE_WORKERS, NULL, NULL), MR_OK);
}

static void sync_fails(const sync_fixture *fixture, const mr_sync_options *options, mr_status expected,
                       const char *why) {
    mr_ref ref;
    mr_value value;
    assert_int_equal(mr_model_sync(mr, fixture->server, fixture->workers, SYNC_FIXTURE_WORKERS, options, &ref), MR_OK);
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    if (strstr(mr_last_error(), why) == NULL) print_message("%s\n", mr_last_error());
    assert_int_equal(status, expected);
    assert_non_null(strstr(mr_last_error(), why));
    if (options == NULL) assert_null(strstr(mr_last_error(), "publish")); /* nor another call of the sync */
    assert_null(strstr(mr_last_error(), "could not start"));
    mr_release(mr, ref);
}

static mr_value stats_of(mr_actor server) {
    mr_ref ref;
    mr_value stats;
    assert_int_equal(mr_model_stats(mr, server, &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &stats), MR_OK);
    mr_release(mr, ref);
    return stats;
}

static void stat_text(mr_actor server, const char *field, char *out, size_t size) {
    mr_value stats = stats_of(server), value;
    mr_span text = {"", 0};
    assert_int_equal(mr_value_field(&stats, field, &value), MR_OK);
    if (mr_value_kind(&value) != MR_KIND_NIL) assert_int_equal(mr_value_str(&value, &text), MR_OK);
    snprintf(out, size, "%.*s", (int)text.size, (const char *)text.data);
    mr_value_release(&stats);
}

static int64_t stat_int(mr_actor server, const char *field) {
    mr_value stats = stats_of(server), value;
    int64_t number = -1;
    assert_int_equal(mr_value_field(&stats, field, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &number), MR_OK);
    mr_value_release(&stats);
    return number;
}

/* ---- Tests. */

static void all_have_the_average_then(void **state) {
    sync_fixture fixture = make_team(NULL);
    assert_int_equal(sync_all(&fixture), 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 10);
    assert_int_equal(stat_int(fixture.server, "version"), 1);
    assert_int_equal(stat_int(fixture.server, "num_syncs"), 1);
    assert_int_equal(stat_int(fixture.server, "bytes"), ITEMS * 4 + 4 + 8);
    char text[64];
    stat_text(fixture.server, "strategy", text, sizeof text);
    assert_string_equal(text, "AverageStrategy");
    stat_text(fixture.server, "last_error", text, sizeof text);
    assert_string_equal(text, "");
    sync_fixture_dismiss(&fixture);
}

static void steps_before_a_sync_are_in_it_and_steps_after_see_it(void **state) {
    sync_fixture fixture = make_team("max");
    sync_fixture_check_order(&fixture, sync_and_forget);
    assert_int_equal(stat_int(fixture.server, "version"), SYNC_FIXTURE_ROUNDS);
    sync_fixture_dismiss(&fixture);
}

static void pulling_and_pushing(void **state) {
    sync_fixture fixture = make_team("momentum");
    mr_ref ref;
    mr_value value, item;
    mr_tensor tensor;
    assert_int_equal(mr_model_pull(mr, fixture.server, &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_kind(&value), MR_KIND_NIL);
    mr_release(mr, ref);

    sync_and_forget(&fixture); /* 10 in all workers */
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) sync_fixture_add(fixture.workers[w], 10);
    assert_int_equal(sync_all(&fixture), 2); /* 0.9 · 10 + 0.1 · 20 */
    assert_int_equal(mr_model_pull(mr, fixture.server, &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_item(&value, 0, &item), MR_OK);
    assert_int_equal(mr_value_tensor(&item, &tensor), MR_OK);
    assert_int_equal(tensor.shape[0], ITEMS);
    assert_true(((const float *)tensor.data)[ITEMS - 1] == 0.9f * 10 + (float)(1 - 0.9) * 20);
    mr_arg pushed = mr_value_arg(&value);
    assert_int_equal(mr_model_push(mr, fixture.server, pushed, &ref), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 3);
    mr_value_release(&value);
    assert_int_equal(mr_model_push(mr, fixture.server, mr_str("no weights"), &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_INVALID);
    sync_fixture_dismiss(&fixture);
}

static void weights_of_workers(void **state) {
    sync_fixture fixture = make_team("weighted");
    assert_int_equal(mr_model_set_weight(mr, fixture.server, 0, 1, NULL), MR_OK);
    assert_int_equal(mr_model_set_weight(mr, fixture.server, 1, 1, NULL), MR_OK);
    assert_int_equal(mr_model_set_weight(mr, fixture.server, 2, 2, NULL), MR_OK);
    assert_int_equal(sync_all(&fixture), 1);
    assert_true(sync_fixture_value(fixture.workers[0]) == 12.5);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++)
        assert_int_equal(mr_model_set_weight(mr, fixture.server, w, 0, NULL), MR_OK);
    sync_fails(&fixture, NULL, MR_INVALID, "add up to 0");
    mr_ref ref;
    assert_int_equal(mr_model_set_weight(mr, fixture.server, -1, 1, &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_INVALID);
    assert_int_equal(stat_int(fixture.server, "version"), 1);
    sync_fixture_dismiss(&fixture);
}

static void each_worker_gets_the_tensor_kind_that_it_sent(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_actor_release(mr, fixture.workers[1]);
    hire(&fixture.workers[1], 40, MR_TORCH, 0, ITEMS);
    assert_int_equal(sync_all(&fixture), 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 20);
    sync_fixture_dismiss(&fixture);
}

static void maps_are_weights_too(void **state) {
    sync_fixture fixture = make_team(NULL);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
        mr_actor_release(mr, fixture.workers[w]);
        hire(&fixture.workers[w], 3 * w, MR_TORCH, 1, ITEMS);
    }
    assert_int_equal(sync_all(&fixture), 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 3);
    sync_fixture_dismiss(&fixture);
}

static void an_error_names_the_difference(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_actor_release(mr, fixture.workers[2]);
    hire(&fixture.workers[2], 0, MR_NUMPY, 0, ITEMS + 1);
    sync_fails(&fixture, NULL, MR_INVALID,
               "tensor 0 of worker 2 is float32[40001], that of worker 0 is float32[40000]");
    assert_ptr_equal(strstr(mr_last_error(), "tensor 0 of worker 2"), mr_last_error());
    mr_actor_release(mr, fixture.workers[2]);
    hire(&fixture.workers[2], 0, MR_NUMPY, 1, ITEMS);
    sync_fails(&fixture, NULL, MR_INVALID, "worker 2");
    assert_true(sync_fixture_value(fixture.workers[1]) == 10); /* the others are unchanged */
    char text[512];
    stat_text(fixture.server, "last_error", text, sizeof text);
    assert_non_null(strstr(text, "worker 2"));
    assert_int_equal(stat_int(fixture.server, "version"), 0);
    sync_fixture_dismiss(&fixture);
}

static void set_failing(mr_actor worker, int64_t fails) {
    assert_int_equal(mr_call_actor(mr, worker, "fail_from_now_on", NULL, mr_int(fails)), MR_OK);
}

static void errors_are_raised_once_by_the_next(void **state) {
    sync_fixture fixture = make_team(NULL);
    set_failing(fixture.workers[1], 1);
    sync_fails(&fixture, NULL, MR_TASK_FAILED, "no weights today"); /* the error was read, so none is pending */
    set_failing(fixture.workers[1], 0);
    assert_int_equal(sync_all(&fixture), 1);

    set_failing(fixture.workers[1], 1);
    sync_and_forget(&fixture);
    set_failing(fixture.workers[1], 0);
    char text[512];
    stat_text(fixture.server, "last_error", text, sizeof text); /* a call behind the sync, which has failed by now */
    assert_non_null(strstr(text, "no weights today"));
    sync_fails(&fixture, NULL, MR_TASK_FAILED, "no weights today"); /* the pending error of the earlier sync */
    assert_int_equal(sync_all(&fixture), 2);

    set_failing(fixture.workers[1], 1);
    sync_and_forget(&fixture);
    set_failing(fixture.workers[1], 0);
    mr_ref ref;
    assert_int_equal(mr_model_pull(mr, fixture.server, &ref), MR_OK); /* the same, without reading the earlier error */
    assert_int_equal(future_assert_failure(mr, ref), MR_TASK_FAILED);
    assert_int_equal(mr_model_pull(mr, fixture.server, &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_OK);
    assert_int_equal(sync_all(&fixture), 3);
    sync_fixture_dismiss(&fixture);
}

static void the_dead_are_named_or_skipped(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, fixture.workers[0], "die", &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
    sync_fails(&fixture, NULL, MR_ACTOR_DIED, "SIGKILL");
    sync_fails(&fixture, NULL, MR_ACTOR_DIED, "worker 0 died, because ");
    char text[512];
    stat_text(fixture.server, "last_error", text, sizeof text);
    assert_ptr_equal(strstr(text, "worker 0: "), text);
    const mr_sync_options skip = MR_OPTIONS(mr_sync_options, .skip_dead = 1);
    assert_int_equal(mr_model_sync(mr, fixture.server, fixture.workers, SYNC_FIXTURE_WORKERS, &skip, &ref), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 1);
    assert_true(sync_fixture_value(fixture.workers[1]) == 15 && sync_fixture_value(fixture.workers[2]) == 15);
    set_failing(fixture.workers[1], 1); /* a failure is no death */
    sync_fails(&fixture, &skip, MR_TASK_FAILED, "worker 1 failed in get_weights, because no weights today");
    sync_fails(&fixture, &skip, MR_TASK_FAILED, "no weights today");
    stat_text(fixture.server, "last_error", text, sizeof text);
    assert_string_equal(text, "worker 1: no weights today");
    for (int w = 1; w < SYNC_FIXTURE_WORKERS; w++) {
        assert_int_equal(mr_call_actor(mr, fixture.workers[w], "die", &ref), MR_OK);
        assert_int_equal(future_assert_failure(mr, ref), MR_ACTOR_DIED);
    }
    sync_fails(&fixture, &skip, MR_ACTOR_DIED, "no worker is alive (0 of 3)");
    sync_fixture_dismiss(&fixture);
}

static void an_error_names_the_dead_worker(void **state) {
    sync_fixture fixture = make_team(NULL);
    assert_int_equal(mr_call_actor(mr, fixture.workers[2], "die_when_set", NULL), MR_OK);
    sync_fails(&fixture, NULL, MR_ACTOR_DIED, "worker 2 died, because ");
    char text[512];
    stat_text(fixture.server, "last_error", text, sizeof text);
    assert_non_null(strstr(text, "set_weights of worker 2"));
    assert_int_equal(stat_int(fixture.server, "version"), 0);
    sync_fixture_dismiss(&fixture);
}

static void misuse_is_refused(void **state) {
    mr_actor server;
    mr_ref ref;
    assert_int_equal(mr_model_server_create(mr, &MR_OPTIONS(mr_sync_strategy, .name = "mean"), NULL, &server),
                     MR_INVALID);
    assert_non_null(strstr(mr_last_error(), "average, weighted"));
    assert_int_equal(
        mr_model_server_create(mr, &MR_OPTIONS(mr_sync_strategy, .name = "momentum", .momentum = 2), NULL, &server),
        MR_INVALID);
    sync_fixture fixture = make_team(NULL);
    assert_int_equal(mr_model_sync(mr, fixture.server, fixture.workers, 0, NULL, &ref), MR_INVALID);
    assert_int_equal(mr_model_sync(mr, fixture.server, NULL, 2, NULL, &ref), MR_INVALID);
    assert_int_equal(mr_model_sync(NULL, fixture.server, fixture.workers, 2, NULL, &ref), MR_INVALID);
    assert_int_equal(mr_model_pull(NULL, fixture.server, &ref), MR_INVALID);
    sync_fixture_dismiss(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_have_the_average_then),
        cmocka_unit_test(steps_before_a_sync_are_in_it_and_steps_after_see_it),
        cmocka_unit_test(pulling_and_pushing),
        cmocka_unit_test(weights_of_workers),
        cmocka_unit_test(each_worker_gets_the_tensor_kind_that_it_sent),
        cmocka_unit_test(maps_are_weights_too),
        cmocka_unit_test(an_error_names_the_difference),
        cmocka_unit_test(errors_are_raised_once_by_the_next),
        cmocka_unit_test(the_dead_are_named_or_skipped),
        cmocka_unit_test(an_error_names_the_dead_worker),
        cmocka_unit_test(misuse_is_refused),
    };
    return runtime_main_with(tests, .num_workers = 2);
}
