/* model_copy_test.c — models that workers export as copies: results of a sync, and reuse of the places of copies. The
 * test is the driver: its workers are this same binary, started again. */
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
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"
#include "tests/support/sync_fixture.h"

enum { PATIENCE_US = 20 * 1000 * 1000, ITEMS = 50 * 1000, ITEMS_MOST = 32 * ITEMS, PLACES = 8 };

/* ---- A worker: a model of two tensors, all of whose floats are equal. */

typedef struct worker {
    mr_model_copy *model_copy;
    float floats[ITEMS_MOST + 1]; /* maximal size; the last float is the tensor with one number */
    int64_t items;                /* items of the other tensor */
    int64_t exported;             /* number of exports */
    int64_t refuses;              /* the worker refuses to export or to send */
} worker;

static void worker_free(void *self) {
    mr_model_copy_close(((worker *)self)->model_copy);
    free(self);
}

MR_CREATE(Waiter) {
    double value;
    MR_TRY(mr_arg_float(call, 0, &value));
    worker *self = calloc(1, sizeof *self);
    MR_TRY(mr_model_copy_open(mr_call_context(call), &self->model_copy));
    self->items = ITEMS;
    for (size_t i = 0; i < ITEMS_MOST + 1; i++) self->floats[i] = (float)value;
    return mr_set_self(call, self, worker_free);
}

MR_METHOD(Waiter, lend_weights) {
    worker *self = mr_self(call);
    if (self->refuses != 0) return mr_fail(call, "not now");
    mr_arg items[] = {mr_vector(self->floats, (size_t)self->items),
                      mr_tensor_of(MR_F32, self->floats + ITEMS_MOST, 0, NULL)},
           loan;
    mr_arg weights = mr_map((mr_arg[]){mr_str("w"), items[0], mr_str("b"), items[1]}, 2);
    bool exported = mr_model_copy_export(self->model_copy, call, weights, &loan) == MR_OK;
    self->exported += exported;
    return mr_return(call, exported ? loan : weights);
}

MR_METHOD(Waiter, take_weights) {
    worker *self = mr_self(call);
    mr_value weights, item;
    mr_tensor tensor;
    MR_TRY(mr_arg_value(call, 0, &weights));
    mr_iter iter = mr_value_iter(&weights);
    for (size_t i = 0; mr_iter_next(&iter, &item) && mr_iter_next(&iter, &item); i++) { /* name, tensor */
        MR_TRY(mr_value_tensor(&item, &tensor));
        memcpy(self->floats + i * ITEMS_MOST, tensor.data, tensor.bytes);
    }
    return MR_OK;
}

MR_METHOD(Waiter, add) { /* a step of training */
    worker *self = mr_self(call);
    double value;
    MR_TRY(mr_arg_float(call, 0, &value));
    for (size_t i = 0; i < ITEMS_MOST + 1; i++) self->floats[i] += (float)value;
    return MR_OK;
}

MR_METHOD(Waiter, resize) { /* resizes the model; new items equal the last one */
    worker *self = mr_self(call);
    int64_t before = self->items;
    MR_TRY(mr_arg_int(call, 0, &self->items));
    for (int64_t i = before; i < self->items; i++) self->floats[i] = self->floats[ITEMS_MOST];
    return MR_OK;
}

MR_METHOD(Waiter, value) { /* value of all the floats */
    const worker *self = mr_self(call);
    if (self->floats[ITEMS_MOST] != self->floats[0]) return mr_fail(call, "the number is not what the items are");
    for (size_t i = 0; i < (size_t)self->items; i++)
        if (self->floats[i] != self->floats[0])
            return mr_fail(call, "item %zu is %g, the first is %g", i, (double)self->floats[i],
                           (double)self->floats[0]);
    return mr_return(call, mr_float((double)self->floats[0]));
}

MR_METHOD(Waiter, exported) { return mr_return(call, mr_int(((worker *)mr_self(call))->exported)); }

MR_METHOD(Waiter, refuse) { return mr_arg_int(call, 0, &((worker *)mr_self(call))->refuses); }

/* Requests the model of a worker, and drops it. */
MR_TASK(ask_in_vain) {
    mr_actor worker;
    mr_ref exported;
    mr_value value;
    MR_TRY(mr_arg_actor(call, 0, &worker));
    MR_TRY(mr_call_actor(mr_call_context(call), worker, "lend_weights", &exported));
    MR_TRY(mr_get(mr_call_context(call), exported, PATIENCE_US, &value));
    bool is_exported = mr_value_kind(&value) == MR_KIND_TUPLE;
    mr_value_release(&value);
    mr_release(mr_call_context(call), exported);
    return mr_return(call, mr_int(is_exported));
}

/* The same, in a process that outlives the request. */
MR_CREATE(Asker) { return mr_set_self(call, malloc(1), free); }

MR_METHOD(Asker, ask) { return ask_in_vain(call); }

static mr_status pid(mr_call *call) { return mr_return(call, mr_int(getpid())); }

__attribute__((constructor)) static void register_more(void) { /* adds methods to the server's class */
    mr_register_method("Waiter", "arm", sync_fixture_arm_method);
    mr_register_method("miniray.ModelServer", "arm", sync_fixture_arm_method);
    mr_register_method("miniray.ModelServer", "pid", pid);
}

/* ---- Helpers. */

static const mr_sync_options lending = {
    .size = sizeof(mr_sync_options), .get_method = "lend_weights", .set_method = "take_weights"};

static mr_actor hire(double value) {
    mr_actor made;
    assert_int_equal(mr_new_actor(mr, "Waiter", &made, mr_float(value)), MR_OK);
    return made;
}

static sync_fixture make_team(const char *strategy) { /* three workers whose floats are 0, 10 and 20 */
    sync_fixture fixture = {.server = sync_fixture_server(strategy)};
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) fixture.workers[w] = hire(10 * w);
    return fixture;
}

static mr_ref sync_begin(mr_actor server, const mr_actor *workers, size_t count) {
    mr_ref ref;
    assert_int_equal(mr_model_sync(mr, server, workers, count, &lending, &ref), MR_OK);
    return ref;
}

static int64_t sync_all(const sync_fixture *fixture) {
    return future_assert_int(mr, sync_begin(fixture->server, fixture->workers, SYNC_FIXTURE_WORKERS));
}

static mr_status sync_failure(const sync_fixture *fixture) {
    return future_assert_failure(mr, sync_begin(fixture->server, fixture->workers, SYNC_FIXTURE_WORKERS));
}

static int64_t ask_int(mr_actor actor, const char *method) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, actor, method, &ref), MR_OK);
    return future_assert_int(mr, ref);
}

static int64_t times_exported(mr_actor worker) { return ask_int(worker, "exported"); }

static void refuse(mr_actor worker, bool refuses) {
    assert_int_equal(mr_call_actor(mr, worker, "refuse", NULL, mr_int(refuses)), MR_OK);
}

/* A server whose process may be restarted `restarts` times, -1: never; lost calls are sent again as often. */
static mr_actor lasting_server(int restarts) {
    const mr_actor_options options =
        MR_OPTIONS(mr_actor_options, .max_restarts = restarts, .max_call_retries = restarts);
    mr_actor server;
    assert_int_equal(mr_model_server_create(mr, NULL, &options, &server), MR_OK);
    return server;
}

/* ---- Tests. */

static void places_are_used_again(void **state) {
    sync_fixture fixture = make_team(NULL);
    for (int round = 1; round <= 3 * PLACES; round++) {
        assert_int_equal(sync_all(&fixture), round);
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
            assert_int_equal(times_exported(fixture.workers[w]), round);
            assert_true(sync_fixture_value(fixture.workers[w]) == 9 + round);
            sync_fixture_add(fixture.workers[w], w);
        }
    }
    sync_fixture_dismiss(&fixture);
}

static void sync_and_forget(const sync_fixture *fixture) {
    mr_release(mr, sync_begin(fixture->server, fixture->workers, SYNC_FIXTURE_WORKERS));
}

static void steps_before_a_sync_are_in_it_and_steps_after_see_it(void **state) {
    sync_fixture fixture = make_team("max");
    sync_fixture_check_order(&fixture, sync_and_forget);
    sync_fixture_dismiss(&fixture);
}

static void a_worker_listed_twice_exports_twice(void **state) {
    sync_fixture fixture = make_team(NULL);
    const mr_actor workers[] = {fixture.workers[0], fixture.workers[2], fixture.workers[2], fixture.workers[0]};
    for (int round = 1; round <= 3; round++) {
        assert_int_equal(future_assert_int(mr, sync_begin(fixture.server, workers, 4)), round);
        assert_true(sync_fixture_value(fixture.workers[0]) == 10 && sync_fixture_value(fixture.workers[2]) == 10);
        assert_int_equal(times_exported(fixture.workers[0]), 2 * round);
    }
    sync_fixture_dismiss(&fixture);
}

/* Two servers at once, each with syncs that no thread waits for. */
static void two_servers_take_turns(void **state) {
    sync_fixture fixture = make_team("max");
    mr_actor other = sync_fixture_server("max");
    mr_ref syncs[20];
    for (size_t i = 0; i < 20; i++) {
        sync_fixture_add(fixture.workers[i % SYNC_FIXTURE_WORKERS], 100);
        syncs[i] = sync_begin(i % 2 == 0 ? fixture.server : other, fixture.workers, SYNC_FIXTURE_WORKERS);
    }
    for (size_t i = 0; i < 20; i++) assert_int_equal(future_assert_int(mr, syncs[i]), i / 2 + 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 2000);
    mr_actor_release(mr, other);
    sync_fixture_dismiss(&fixture);
}

/* A worker occurs in the list more often than it has places. All occurrences export the same model, so the surplus ones
 * share one place. */
static void a_worker_listed_more_often_than_there_are_places_exports(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_actor workers[3 * PLACES];
    for (int i = 0; i < 3 * PLACES; i++) workers[i] = fixture.workers[i == 0 ? 0 : 2];
    for (int round = 1; round <= 2; round++) {
        assert_int_equal(future_assert_int(mr, sync_begin(fixture.server, workers, 3 * PLACES)), round);
        assert_int_equal(times_exported(fixture.workers[2]), round * (3 * PLACES - 1));
        float expected = 20.f * (3 * PLACES - 1) / (3 * PLACES);
        if (round == 1) assert_true(sync_fixture_value(fixture.workers[2]) == (double)expected);
    }
    assert_true(sync_fixture_value(fixture.workers[0]) == sync_fixture_value(fixture.workers[2]));
    sync_fixture_dismiss(&fixture);
}

static mr_ref lend(mr_actor worker) {
    mr_ref exported;
    assert_int_equal(mr_call_actor(mr, worker, "lend_weights", &exported), MR_OK);
    return exported;
}

/* Calls the server's aggregation, which returns three values, two of them for the server. */
static void aggregate(mr_actor server, mr_ref exported, mr_ref out[3]) {
    const mr_arg args[] = {mr_int(0), mr_nil(), mr_int(0), mr_future(exported)};
    const mr_call_options three = MR_OPTIONS(mr_call_options, .num_returns = 3);
    assert_int_equal(mr_actor_submit(mr, server, "aggregate", &three, args, 4, out), MR_OK);
}

static void aggregate_gives(mr_actor server, mr_ref exported, mr_status expected) {
    mr_ref made[3];
    aggregate(server, exported, made);
    for (int i = 0; i < 3; i++) assert_int_equal(future_assert_failure(mr, made[i]), expected);
}

/* Requests a model from a process that then ends. Returns whether the model was exported as a copy. */
static int64_t ask_in_vain_of(mr_actor worker) {
    const mr_task_options alone = MR_OPTIONS(mr_task_options, .max_calls = 1);
    mr_arg args[] = {mr_handle(worker)};
    mr_ref ref;
    assert_int_equal(mr_task_submit(mr, "ask_in_vain", &alone, args, 1, &ref), MR_OK);
    return future_assert_int(mr, ref);
}

/* A server that dies after it has read a copy can read the copy again in its next process, until the place is reused;
 * later content of the place is never read. */
static void a_copy_can_be_read_until_its_place_is_reused(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_ref exported = lend(fixture.workers[1]);
    for (int round = 0; round < 3; round++) {
        aggregate_gives(fixture.server, exported, MR_OK);
        assert_int_equal(ask_in_vain_of(fixture.workers[1]), 1); /* other workers have places of their own */
    }
    assert_int_equal(sync_all(&fixture), 1);
    aggregate_gives(fixture.server, exported, MR_BUSY);
    mr_release(mr, exported);
    assert_int_equal(sync_all(&fixture), 2);
    sync_fixture_dismiss(&fixture);
}

/* A worker exports again after any sync that failed before the server had read the copy. */
static void syncs_that_fail_give_places_back(void **state) {
    sync_fixture fixture = make_team("max");
    refuse(fixture.workers[2], true);
    for (int round = 1; round <= 2 * PLACES + 1; round++) { /* a worker fails */
        assert_int_equal(sync_failure(&fixture), MR_TASK_FAILED);
        assert_int_equal(times_exported(fixture.workers[0]), round);
        sync_fixture_add(fixture.workers[0], 1); /* each round exports another model */
    }
    refuse(fixture.workers[2], false);
    assert_int_equal(mr_actor_kill(mr, fixture.server), MR_OK);
    for (int round = 1; round <= 2 * PLACES + 1; round++) { /* the server is dead */
        assert_int_equal(sync_failure(&fixture), MR_ACTOR_DIED);
        assert_int_equal(times_exported(fixture.workers[0]), 2 * PLACES + 1 + round);
        sync_fixture_add(fixture.workers[0], 1);
    }
    mr_actor_release(mr, fixture.server);
    fixture.server = sync_fixture_server("max");
    for (int round = 1; round <= PLACES + 1; round++) {
        assert_int_equal(sync_all(&fixture), round);
        assert_int_equal(times_exported(fixture.workers[0]), 2 * (2 * PLACES + 1) + round);
    }
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++)
        assert_true(sync_fixture_value(fixture.workers[w]) == 2 * (2 * PLACES + 1));
    sync_fixture_dismiss(&fixture);
}

/* While a living process may still read its copy, models are sent in messages. */
static void copies_for_other_callers_stay_until_those_are_gone(void **state) {
    sync_fixture fixture = make_team(NULL);
    for (int round = 1; round <= 3 * PLACES; round++) {
        (void)ask_in_vain_of(fixture.workers[1]); /* result depends on the ends of the other processes */
        sync_fixture_add(fixture.workers[1], 1);
    }
    int64_t until = clock_now_us(clock_real()) + PATIENCE_US, before;
    do { /* until the worker has noticed one end */
        assert_true(clock_now_us(clock_real()) < until);
        before = times_exported(fixture.workers[1]);
        assert_int_equal(sync_failure(&fixture), MR_OK);
    } while (times_exported(fixture.workers[1]) == before);
    sync_fixture_dismiss(&fixture);
}

static void await_stop(pid_t process) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    for (int64_t end = clock_now_us(clock_real()) + PATIENCE_US; strstr(text, ") T ") == NULL; usleep(1000)) {
        assert_true(clock_now_us(clock_real()) < end);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        if (fgets(text, sizeof text, file) == NULL) text[0] = '\0';
        fclose(file);
    }
}

/* There are as many callers as places: the next caller gets the model in a message until one caller has ended. */
static void with_no_place_left_models_are_sent(void **state) {
    sync_fixture fixture = make_team(NULL);
    mr_actor askers[PLACES];
    for (int i = 0; i < PLACES; i++) {
        mr_ref asked;
        assert_int_equal(mr_new_actor(mr, "Asker", &askers[i]), MR_OK);
        assert_int_equal(mr_call_actor(mr, askers[i], "ask", &asked, mr_handle(fixture.workers[1])), MR_OK);
        assert_int_equal(future_assert_int(mr, asked), 1);
        sync_fixture_add(fixture.workers[1], 3);
    }
    for (int round = 1; round <= 2; round++) {
        assert_int_equal(sync_all(&fixture), round);
        assert_int_equal(times_exported(fixture.workers[1]), PLACES);
        assert_int_equal(times_exported(fixture.workers[0]), round); /* no other process has called that worker */
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 18);
    }
    assert_int_equal(mr_actor_kill(mr, askers[3]), MR_OK);
    int64_t until = clock_now_us(clock_real()) + PATIENCE_US;
    do { /* until the worker has noticed the end */
        assert_true(clock_now_us(clock_real()) < until);
        assert_int_equal(sync_failure(&fixture), MR_OK);
    } while (times_exported(fixture.workers[1]) == PLACES);
    for (int i = 0; i < PLACES; i++) mr_actor_release(mr, askers[i]);
    sync_fixture_dismiss(&fixture);
}

static void resize(mr_actor worker, int64_t items) {
    assert_int_equal(mr_call_actor(mr, worker, "resize", NULL, mr_int(items)), MR_OK);
}

/* The place of a growing model is resized; earlier copies do not change. */
static void a_place_grows_with_the_model(void **state) {
    static const int64_t sizes[] = {ITEMS, 2 * ITEMS, ITEMS, 31 * ITEMS, 31 * ITEMS + 7, ITEMS_MOST, 3 * ITEMS};
    sync_fixture fixture = make_team(NULL);
    int64_t round = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) resize(fixture.workers[w], sizes[i]);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(sync_all(&fixture), ++round);
            for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
                assert_int_equal(times_exported(fixture.workers[w]), round);
                assert_true(sync_fixture_value(fixture.workers[w]) == 9 + round);
                sync_fixture_add(fixture.workers[w], w);
            }
        }
    }
    sync_fixture_dismiss(&fixture);
}

/* Places are memory that nothing else can use. After any number of unread copies of large models, memory is left for
 * other objects. */
static void unread_copies_leave_memory_for_others(void **state) {
    sync_fixture fixture = make_team("max");
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) resize(fixture.workers[w], ITEMS_MOST);
    for (int i = 1; i <= PLACES + 1; i++)
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
            sync_fixture_add(fixture.workers[w], 1);
            assert_int_equal(future_assert_failure(mr, lend(fixture.workers[w])), MR_OK);
            assert_int_equal(times_exported(fixture.workers[w]), i);
        }
    assert_int_equal(sync_all(&fixture), 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++)
        assert_true(sync_fixture_value(fixture.workers[w]) == 20 + PLACES + 1);
    sync_fixture_dismiss(&fixture);
}

/* Like a_worker_listed_more_often_than_there_are_places_exports, with models so large that only two places are
 * allowed. */
static void a_worker_listed_often_exports_a_large_model(void **state) {
    sync_fixture fixture = make_team(NULL);
    const mr_actor workers[] = {fixture.workers[1], fixture.workers[1], fixture.workers[1], fixture.workers[1]};
    resize(fixture.workers[1], ITEMS_MOST);
    for (int round = 1; round <= 2; round++) {
        assert_int_equal(future_assert_int(mr, sync_begin(fixture.server, workers, 4)), round);
        assert_int_equal(times_exported(fixture.workers[1]), 4 * round);
        assert_true(sync_fixture_value(fixture.workers[1]) == 10);
    }
    sync_fixture_dismiss(&fixture);
}

/* Stops the server while it reads the second worker's copy. */
static pid_t stop_while_it_reads(const sync_fixture *fixture, mr_ref *exported, mr_ref made[3]) {
    pid_t process = (pid_t)ask_int(fixture->server, "pid");
    *exported = lend(fixture->workers[1]);
    sync_fixture_arm(fixture->server, "train.piece=stop");
    aggregate(fixture->server, *exported, made);
    await_stop(process);
    return process;
}

/* The server has begun to read when a larger model needs the place: the server reads the old content to its end. */
static void a_place_that_is_read_may_be_outgrown(void **state) {
    if (failpoint_count() == 0) skip();
    sync_fixture fixture = make_team(NULL);
    mr_ref exported, made[3];
    pid_t process = stop_while_it_reads(&fixture, &exported, made);
    resize(fixture.workers[1], ITEMS_MOST);
    for (int i = 0; i < PLACES; i++) {
        sync_fixture_add(fixture.workers[1], 1);
        assert_int_equal(future_assert_failure(mr, lend(fixture.workers[1])), MR_OK);
    }
    assert_int_equal(times_exported(fixture.workers[1]), PLACES + 1);
    kill(process, SIGCONT);
    mr_value model, item;
    mr_tensor tensor;
    assert_int_equal(mr_get(mr, made[2], PATIENCE_US, &model), MR_OK);
    mr_iter iter = mr_value_iter(&model);
    assert_true(mr_iter_next(&iter, &item) && mr_iter_next(&iter, &item));
    assert_int_equal(mr_value_tensor(&item, &tensor), MR_OK);
    assert_int_equal(tensor.bytes, ITEMS * sizeof(float));
    for (size_t i = 0; i < ITEMS; i++) assert_true(((const float *)tensor.data)[i] == 10);
    mr_value_release(&model);
    for (int i = 0; i < 3; i++) mr_release(mr, made[i]);
    mr_release(mr, exported);
    sync_fixture_dismiss(&fixture);
}

/* The place is reused after the server has seen that the copy is there. */
static void a_slow_server_sees_that_a_place_was_used(void **state) {
    if (failpoint_count() == 0) skip();
    sync_fixture fixture = make_team(NULL);
    mr_ref exported, made[3];
    pid_t process = stop_while_it_reads(&fixture, &exported, made);
    for (int i = 0; i < PLACES; i++) { /* all other places, and the one that is being read */
        mr_ref unread = lend(fixture.workers[1]);
        assert_int_equal(future_assert_failure(mr, unread), MR_OK);
        sync_fixture_add(fixture.workers[1], 1);
    }
    assert_int_equal(times_exported(fixture.workers[1]), PLACES + 1);
    kill(process, SIGCONT);
    for (int i = 0; i < 3; i++) assert_int_equal(future_assert_failure(mr, made[i]), MR_BUSY);
    mr_release(mr, exported);
    assert_int_equal(sync_all(&fixture), 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++)
        assert_true(sync_fixture_value(fixture.workers[w]) == (double)(float)(38 / 3.));
    sync_fixture_dismiss(&fixture);
}

/* The dead server's call is retried by its next process, which finds all copies. */
static void server_dies_and_tries_again(const char *point) {
    sync_fixture fixture = make_team(NULL);
    mr_actor_release(mr, fixture.server);
    fixture.server = lasting_server(2);
    for (int round = 0; round < 2; round++) {
        sync_fixture_arm(fixture.server, point);
        assert_int_equal(sync_all(&fixture), round + 1);
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) {
            assert_true(sync_fixture_value(fixture.workers[w]) == 10 + round);
            assert_int_equal(times_exported(fixture.workers[w]), round + 1);
            sync_fixture_add(fixture.workers[w], w);
        }
    }
    sync_fixture_dismiss(&fixture);
}

static void a_server_that_dies_reads_again(void **state) {
    if (failpoint_count() == 0) skip();
    server_dies_and_tries_again("train.piece=kill");
    server_dies_and_tries_again("train.aggregated=kill");
}

/* A sync that fails at the server releases the places. */
static void models_that_do_not_match_are_read(void **state) {
    sync_fixture fixture = make_team("weighted");
    mr_ref ref;
    assert_int_equal(mr_model_set_weight(mr, fixture.server, 0, -5, &ref), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_OK);
    for (int round = 1; round <= 2 * PLACES; round++) {
        assert_int_equal(future_assert_failure(mr, sync_begin(fixture.server, fixture.workers, SYNC_FIXTURE_WORKERS)),
                         MR_INVALID);
        assert_int_equal(times_exported(fixture.workers[0]), round);
    }
    sync_fixture_dismiss(&fixture);
}

/* A process dies at this point. The others keep their models, and the next sync works. */
static void dies_at(const char *point, bool server) {
    sync_fixture fixture = make_team(NULL);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 10 * w);
    mr_actor *victim = server ? &fixture.server : &fixture.workers[1];
    mr_actor_release(mr, fixture.server);
    fixture.server = lasting_server(-1);
    sync_fixture_arm(*victim, point);
    assert_int_not_equal(future_assert_failure(mr, sync_begin(fixture.server, fixture.workers, SYNC_FIXTURE_WORKERS)),
                         MR_OK);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++)
        if (server || w != 1) assert_true(sync_fixture_value(fixture.workers[w]) == 10 * w);
    mr_actor_release(mr, *victim);
    *victim = server ? sync_fixture_server(NULL) : hire(10);
    assert_int_equal(sync_all(&fixture), 1);
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture.workers[w]) == 10);
    sync_fixture_dismiss(&fixture);
}

static void deaths(void **state) {
    if (failpoint_count() == 0) skip();
    dies_at("train.piece=kill", true);
    dies_at("train.tray_filled=kill", false);
}

/* The context is that of a call, and valid only while this body runs. */
MR_TASK(misuse) {
    static float large[4 << 20];
    mr_context *context = mr_call_context(call);
    mr_model_copy *model_copy;
    mr_arg loan, fits = mr_vector(large, ITEMS);
    MR_TRY(mr_model_copy_open(context, &model_copy));
    const mr_status refused[] = {
        mr_model_copy_open(NULL, &model_copy),
        mr_model_copy_open(context, NULL),
        mr_model_copy_export(NULL, call, fits, &loan),
        mr_model_copy_export(model_copy, NULL, fits, &loan),
        mr_model_copy_export(model_copy, call, fits, NULL),
        mr_model_copy_export(model_copy, call, mr_vector(NULL, ITEMS), &loan),
        mr_model_copy_export(model_copy, call, mr_vector(large, 10), &loan),
        mr_model_copy_export(model_copy, call, mr_vector(large, sizeof large / sizeof *large), &loan),
        mr_model_copy_export(model_copy, call, mr_int(1), &loan),
    };
    int64_t wrong = mr_model_copy_export(model_copy, call, fits, &loan) != MR_OK;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) wrong += refused[i] != MR_INVALID;
    mr_model_copy_close(model_copy);
    mr_model_copy_close(NULL);
    return mr_return(call, mr_int(wrong));
}

static void misuse_is_refused(void **state) {
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "misuse", &ref), MR_OK);
    assert_int_equal(future_assert_int(mr, ref), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_used_again),
        cmocka_unit_test(steps_before_a_sync_are_in_it_and_steps_after_see_it),
        cmocka_unit_test(a_worker_listed_twice_exports_twice),
        cmocka_unit_test(two_servers_take_turns),
        cmocka_unit_test(a_worker_listed_more_often_than_there_are_places_exports),
        cmocka_unit_test(a_copy_can_be_read_until_its_place_is_reused),
        cmocka_unit_test(syncs_that_fail_give_places_back),
        cmocka_unit_test(copies_for_other_callers_stay_until_those_are_gone),
        cmocka_unit_test(with_no_place_left_models_are_sent),
        cmocka_unit_test(a_place_grows_with_the_model),
        cmocka_unit_test(unread_copies_leave_memory_for_others),
        cmocka_unit_test(a_worker_listed_often_exports_a_large_model),
        cmocka_unit_test(a_place_that_is_read_may_be_outgrown),
        cmocka_unit_test(a_slow_server_sees_that_a_place_was_used),
        cmocka_unit_test(a_server_that_dies_reads_again),
        cmocka_unit_test(models_that_do_not_match_are_read),
        cmocka_unit_test(deaths),
        cmocka_unit_test(misuse_is_refused),
    };
    /* Less memory than all places of a team's large models would need. Beside two places of each worker, the free
     * memory always has a piece that is large enough for one more place. */
    return runtime_main_with(tests, .num_workers = 2, .store_bytes = 128u << 20);
}
