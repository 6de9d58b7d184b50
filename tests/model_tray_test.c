/* model_tray_test.c — models that workers lend as copies: what a sync makes of them, and what of the tray is used
 * again. The test is the program: its workers are this same binary, started again. */
#include "miniray/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "tests/support/result.h"
#include "tests/support/runtime_main.h"
#include "tests/support/team.h"

enum { PATIENCE_US = 20 * 1000 * 1000, ITEMS = 50 * 1000, PLACES = 8 };

/* ---- A worker: a model of two tensors, all of whose floats are the same. */

typedef struct worker {
    mr_tray *tray;
    float floats[ITEMS + 1];
    int64_t lent; /* how often */
} worker;

static void worker_free(void *self) {
    mr_tray_close(((worker *)self)->tray);
    free(self);
}

MR_CREATE(Waiter) { /* value */
    double value;
    MR_TRY(mr_arg_float(call, 0, &value));
    worker *self = calloc(1, sizeof *self);
    MR_TRY(mr_tray_open(mr_call_context(call), &self->tray));
    for (size_t i = 0; i < ITEMS + 1; i++) self->floats[i] = (float)value;
    return mr_set_self(call, self, worker_free);
}

MR_METHOD(Waiter, lend_weights) {
    worker *self = mr_self(call);
    mr_arg items[] = {mr_vector(self->floats, ITEMS), mr_tensor_of(MR_F32, self->floats + ITEMS, 0, NULL)}, loan;
    mr_arg weights = mr_map((mr_arg[]){mr_str("w"), items[0], mr_str("b"), items[1]}, 2);
    bool lent = mr_tray_lend(self->tray, weights, &loan) == MR_OK;
    self->lent += lent;
    return mr_return(call, lent ? loan : weights);
}

MR_METHOD(Waiter, take_weights) {
    worker *self = mr_self(call);
    mr_value weights, item;
    mr_tensor tensor;
    MR_TRY(mr_arg_value(call, 0, &weights));
    mr_iter iter = mr_value_iter(&weights);
    for (size_t i = 0; mr_iter_next(&iter, &item) && mr_iter_next(&iter, &item); i++) { /* a name, a tensor */
        MR_TRY(mr_value_tensor(&item, &tensor));
        memcpy(self->floats + i * ITEMS, tensor.data, tensor.bytes);
    }
    return MR_OK;
}

MR_METHOD(Waiter, add) { /* a step of training */
    worker *self = mr_self(call);
    double value;
    MR_TRY(mr_arg_float(call, 0, &value));
    for (size_t i = 0; i < ITEMS + 1; i++) self->floats[i] += (float)value;
    return MR_OK;
}

MR_METHOD(Waiter, value) { /* what all its floats are */
    const worker *self = mr_self(call);
    for (size_t i = 0; i < ITEMS + 1; i++)
        if (self->floats[i] != self->floats[0])
            return mr_fail(call, "item %zu is %g, the first is %g", i, (double)self->floats[i],
                           (double)self->floats[0]);
    return mr_return(call, mr_float((double)self->floats[0]));
}

MR_METHOD(Waiter, lent) { return mr_return(call, mr_int(((worker *)mr_self(call))->lent)); }

__attribute__((constructor)) static void register_more(void) { /* the server's class has a method of ours, too */
    mr_register_method("Waiter", "arm", team_arm_method);
    mr_register_method("miniray.ModelServer", "arm", team_arm_method);
}

/* ---- Helpers. */

static const mr_sync_options lending = {.get_method = "lend_weights", .set_method = "take_weights"};

static mr_actor hire(double value) {
    mr_actor made;
    assert_int_equal(mr_new_actor(mr, "Waiter", &made, mr_float(value)), MR_OK);
    return made;
}

static team make_team(const char *strategy) { /* of workers whose floats are 0, 10 and 20 */
    team team = {.server = team_server(strategy)};
    for (int w = 0; w < TEAM_WORKERS; w++) team.workers[w] = hire(10 * w);
    return team;
}

static mr_ref sync_begin(mr_actor server, const mr_actor *workers, size_t count) {
    mr_ref ref;
    assert_int_equal(mr_model_sync(mr, server, workers, count, &lending, &ref), MR_OK);
    return ref;
}

static int64_t sync_all(const team *team) {
    return result_int(mr, sync_begin(team->server, team->workers, TEAM_WORKERS));
}

static int64_t times_lent(mr_actor worker) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, worker, "lent", &ref), MR_OK);
    return result_int(mr, ref);
}

/* ---- Tests. */

static void places_are_used_again(void **state) {
    team team = make_team(NULL);
    for (int round = 1; round <= 3 * PLACES; round++) {
        assert_int_equal(sync_all(&team), round);
        for (int w = 0; w < TEAM_WORKERS; w++) {
            assert_int_equal(times_lent(team.workers[w]), round);
            assert_true(team_value(team.workers[w]) == 9 + round);
            team_add(team.workers[w], w);
        }
    }
    team_dismiss(&team);
}

static void sync_and_forget(const team *team) { mr_release(mr, sync_begin(team->server, team->workers, TEAM_WORKERS)); }

static void steps_before_a_sync_are_in_it_and_steps_after_see_it(void **state) {
    team team = make_team("max");
    team_check_order(&team, sync_and_forget);
    team_dismiss(&team);
}

static void who_is_there_twice_lends_twice(void **state) {
    team team = make_team(NULL);
    const mr_actor workers[] = {team.workers[0], team.workers[2], team.workers[2], team.workers[0]};
    for (int round = 1; round <= 3; round++) {
        assert_int_equal(result_int(mr, sync_begin(team.server, workers, 4)), round);
        assert_true(team_value(team.workers[0]) == 10 && team_value(team.workers[2]) == 10);
        assert_int_equal(times_lent(team.workers[0]), 2 * round);
    }
    team_dismiss(&team);
}

/* Two servers at once, each with syncs that nobody waits for. */
static void two_servers_take_turns(void **state) {
    team team = make_team("max");
    mr_actor other = team_server("max");
    mr_ref syncs[20];
    for (size_t i = 0; i < 20; i++) {
        team_add(team.workers[i % TEAM_WORKERS], 100);
        syncs[i] = sync_begin(i % 2 == 0 ? team.server : other, team.workers, TEAM_WORKERS);
    }
    for (size_t i = 0; i < 20; i++) assert_int_equal(result_int(mr, syncs[i]), i / 2 + 1);
    for (int w = 0; w < TEAM_WORKERS; w++) assert_true(team_value(team.workers[w]) == 2000);
    mr_actor_release(mr, other);
    team_dismiss(&team);
}

static void what_nobody_reads_keeps_its_place(void **state) {
    team team = make_team(NULL);
    mr_ref unread[PLACES + 3];
    for (size_t i = 0; i < PLACES + 3; i++) {
        assert_int_equal(mr_call_actor(mr, team.workers[1], "lend_weights", &unread[i]), MR_OK);
        mr_value value = result_value(mr, unread[i]);
        assert_int_equal(mr_value_kind(&value), i < PLACES ? MR_KIND_TUPLE : MR_KIND_MAP);
        mr_value_release(&value);
    }
    assert_int_equal(sync_all(&team), 1); /* it is sent */
    assert_int_equal(times_lent(team.workers[1]), PLACES);
    for (int w = 0; w < TEAM_WORKERS; w++) assert_true(team_value(team.workers[w]) == 10);
    team_dismiss(&team);
}

static void a_loan_is_read_once(void **state) {
    team team = make_team(NULL);
    mr_ref lent, sync[3];
    assert_int_equal(mr_call_actor(mr, team.workers[1], "lend_weights", &lent), MR_OK);
    const mr_arg args[] = {mr_int(0), mr_nil(), mr_int(0), mr_future(lent)};
    const mr_task_options three = {.num_returns = 3};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(mr_actor_submit(mr, team.server, "aggregate", &three, args, 4, sync), MR_OK);
        for (int i = 0; i < 3; i++) assert_int_equal(result_failure(mr, sync[i]), round == 0 ? MR_OK : MR_BUSY);
    }
    mr_release(mr, lent);
    assert_int_equal(sync_all(&team), 1);
    team_dismiss(&team);
}

/* A sync that fails at the server gives the places back. */
static void models_that_do_not_match_are_read(void **state) {
    team team = make_team("weighted");
    mr_ref ref;
    assert_int_equal(mr_model_set_weight(mr, team.server, 0, -5, &ref), MR_OK);
    assert_int_equal(result_failure(mr, ref), MR_OK);
    for (int round = 1; round <= 2 * PLACES; round++) {
        assert_int_equal(result_failure(mr, sync_begin(team.server, team.workers, TEAM_WORKERS)), MR_INVALID);
        assert_int_equal(times_lent(team.workers[0]), round);
    }
    team_dismiss(&team);
}

/* Whoever dies where: the others keep what they have, and the next sync is as ever. */
static void dies_at(const char *point, bool server) {
    team team = make_team(NULL);
    for (int w = 0; w < TEAM_WORKERS; w++) assert_true(team_value(team.workers[w]) == 10 * w);
    mr_actor *victim = server ? &team.server : &team.workers[1];
    team_arm(*victim, point);
    assert_int_not_equal(result_failure(mr, sync_begin(team.server, team.workers, TEAM_WORKERS)), MR_OK);
    for (int w = 0; w < TEAM_WORKERS; w++)
        if (server || w != 1) assert_true(team_value(team.workers[w]) == 10 * w);
    mr_actor_release(mr, *victim);
    *victim = server ? team_server(NULL) : hire(10);
    assert_int_equal(sync_all(&team), 1);
    for (int w = 0; w < TEAM_WORKERS; w++) assert_true(team_value(team.workers[w]) == 10);
    team_dismiss(&team);
}

static void deaths(void **state) {
    if (failpoint_count() == 0) skip();
    dies_at("train.piece=kill", true);
    dies_at("train.tray_filled=kill", false);
}

static void misuse_is_refused(void **state) {
    static float large[4 << 20];
    mr_tray *tray;
    mr_arg loan;
    assert_int_equal(mr_tray_open(NULL, &tray), MR_INVALID);
    assert_int_equal(mr_tray_open(mr, NULL), MR_INVALID);
    assert_int_equal(mr_tray_open(mr, &tray), MR_OK);
    assert_int_equal(mr_tray_lend(NULL, mr_vector(large, ITEMS), &loan), MR_INVALID);
    assert_int_equal(mr_tray_lend(tray, mr_vector(large, ITEMS), NULL), MR_INVALID);
    assert_int_equal(mr_tray_lend(tray, mr_vector(NULL, ITEMS), &loan), MR_INVALID);
    assert_int_equal(mr_tray_lend(tray, mr_vector(large, 10), &loan), MR_INVALID);
    assert_int_equal(mr_tray_lend(tray, mr_vector(large, sizeof large / sizeof *large), &loan), MR_INVALID);
    assert_int_equal(mr_tray_lend(tray, mr_int(1), &loan), MR_INVALID);
    assert_int_equal(mr_tray_lend(tray, mr_vector(large, ITEMS), &loan), MR_OK);
    mr_tray_close(tray);
    mr_tray_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_used_again),
        cmocka_unit_test(steps_before_a_sync_are_in_it_and_steps_after_see_it),
        cmocka_unit_test(who_is_there_twice_lends_twice),
        cmocka_unit_test(two_servers_take_turns),
        cmocka_unit_test(what_nobody_reads_keeps_its_place),
        cmocka_unit_test(a_loan_is_read_once),
        cmocka_unit_test(models_that_do_not_match_are_read),
        cmocka_unit_test(deaths),
        cmocka_unit_test(misuse_is_refused),
    };
    return runtime_main(tests);
}
