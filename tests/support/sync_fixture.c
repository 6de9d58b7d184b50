/* sync_fixture.c — see sync_fixture.h. */
#include "tests/support/sync_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"

mr_actor sync_fixture_server(const char *strategy) {
    mr_actor server;
    assert_int_equal(mr_model_server_create(mr, &MR_OPTIONS(mr_sync_strategy, .name = strategy), NULL, &server), MR_OK);
    return server;
}

void sync_fixture_dismiss(const sync_fixture *fixture) {
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) mr_actor_release(mr, fixture->workers[w]);
    mr_actor_release(mr, fixture->server);
}

double sync_fixture_value(mr_actor worker) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, worker, "value", &ref), MR_OK);
    return future_assert_float(mr, ref);
}

void sync_fixture_add(mr_actor worker, double value) {
    assert_int_equal(mr_call_actor(mr, worker, "add", NULL, mr_float(value)), MR_OK);
}

void sync_fixture_arm(mr_actor actor, const char *point) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, actor, "arm", &ref, mr_str(point)), MR_OK);
    assert_int_equal(future_assert_failure(mr, ref), MR_OK);
}

mr_status sync_fixture_arm_method(mr_call *call) {
    mr_span text;
    char name[64];
    MR_TRY(mr_arg_str(call, 0, &text));
    snprintf(name, sizeof name, "%.*s", (int)text.size, (const char *)text.data);
    return failpoint_arm(name);
}

void sync_fixture_check_order(const sync_fixture *fixture, void (*sync)(const struct sync_fixture *fixture)) {
    double expected = 20;
    for (int round = 1; round <= SYNC_FIXTURE_ROUNDS; round++) {
        for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) /* a different worker is ahead in each round */
            sync_fixture_add(fixture->workers[w], w == round % SYNC_FIXTURE_WORKERS ? round : -round);
        sync(fixture);
        /* Max of 0 - 1, 10 + 1 and 20 - 1 in round 1; equal values from then on. */
        expected = round > 1 ? expected + round : 19;
    }
    for (int w = 0; w < SYNC_FIXTURE_WORKERS; w++) assert_true(sync_fixture_value(fixture->workers[w]) == expected);
}
