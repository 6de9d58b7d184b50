/* actor_state_test.c — the state that an actor's next process gets (mr_state_set), and calls that are sent again to it
 * (mr_call_number): an actor that is killed at any instant counts each call once. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "base/rng.h"
#include "miniray/runtime.h"
#include "tests/support/future_assert.h"
#include "tests/support/runtime_main.h"
#include "tests/support/status_assert.h"
#include "tests/support/sync_fixture.h"

enum { CALLERS_MAX = 8, LARGE = 8 << 20, PATIENCE_US = 20 * 1000 * 1000 };

/* ---- A ledger adds numbers. Its state: the sum, for each caller its last call and the answer, and a large value. */

typedef struct ledger_line {
    uint64_t caller, number;
    int64_t sum;
} ledger_line;

typedef struct ledger {
    int64_t sum, starts;
    ledger_line lines[CALLERS_MAX];
    size_t count;
    mr_value large; /* held */
} ledger;

static void ledger_free(void *self) {
    mr_value_release(&((ledger *)self)->large);
    free(self);
}

static mr_status keep(mr_call *call, const ledger *ledger) {
    const mr_arg parts[] = {mr_int(ledger->sum), mr_bytes(ledger->lines, ledger->count * sizeof *ledger->lines),
                            mr_int(ledger->starts), mr_value_arg(&ledger->large)};
    return mr_state_set(call, parts, 4);
}

static mr_status recall(mr_call *call, ledger *ledger) {
    mr_value value;
    mr_span lines;
    if (mr_state_get(call, 0, &value) == MR_NOT_FOUND) return MR_OK;
    MR_TRY(mr_value_int(&value, &ledger->sum));
    MR_TRY(mr_state_get(call, 1, &value));
    MR_TRY(mr_value_bytes(&value, &lines));
    memcpy(ledger->lines, lines.data, lines.size);
    ledger->count = lines.size / sizeof *ledger->lines;
    mr_value_release(&value);
    MR_TRY(mr_state_get(call, 2, &value));
    MR_TRY(mr_value_int(&value, &ledger->starts));
    return mr_state_get(call, 3, &ledger->large);
}

MR_CREATE(Ledger) {
    ledger *self = calloc(1, sizeof *self);
    MR_TRY(mr_set_self(call, self, ledger_free));
    MR_TRY(recall(call, self));
    self->starts++;
    return keep(call, self);
}

static ledger_line *line_of(ledger *self, uint64_t caller) {
    for (size_t i = 0; i < self->count; i++)
        if (self->lines[i].caller == caller) return &self->lines[i];
    if (self->count == CALLERS_MAX) return NULL;
    self->lines[self->count] = (ledger_line){.caller = caller};
    return &self->lines[self->count++];
}

MR_METHOD(Ledger, add) { /* returns the sum */
    ledger *self = mr_self(call);
    uint64_t caller, number = mr_call_number(call, &caller);
    int64_t value;
    ledger_line *line = line_of(self, caller);
    MR_TRY(mr_arg_int(call, 0, &value));
    if (number == 0 || line == NULL) return mr_fail(call, "call %llu", (unsigned long long)number);
    if (number <= line->number) return mr_return(call, mr_int(line->sum));
    self->sum += value;
    *line = (ledger_line){caller, number, self->sum};
    MR_TRY(keep(call, self));
    return mr_return(call, mr_int(self->sum));
}

MR_METHOD(Ledger, hold) { /* a large value */
    ledger *self = mr_self(call);
    mr_value_release(&self->large);
    MR_TRY(mr_arg_keep(call, 0, &self->large));
    return keep(call, self);
}

MR_METHOD(Ledger, large) { return mr_return(call, mr_value_arg(&((ledger *)mr_self(call))->large)); }
MR_METHOD(Ledger, starts) { return mr_return(call, mr_int(((ledger *)mr_self(call))->starts)); }
MR_METHOD(Ledger, pid) { return mr_return(call, mr_int(getpid())); }
MR_METHOD(Ledger, arm) { return sync_fixture_arm_method(call); }

MR_METHOD(Ledger, set) { /* the argument as the only part */
    mr_value value;
    MR_TRY(mr_arg_value(call, 0, &value));
    const mr_arg part = mr_value_arg(&value);
    return mr_state_set(call, &part, 1);
}

MR_METHOD(Ledger, count) { /* parts of the state */
    int64_t count = 0;
    for (mr_value value; mr_state_get(call, (size_t)count, &value) == MR_OK; count++) mr_value_release(&value);
    return mr_return(call, mr_int(count));
}

MR_CREATE(Keeper) { return mr_set_self(call, malloc(1), free); }

MR_METHOD(Keeper, set) { /* a text as the only part */
    mr_value value;
    MR_TRY(mr_arg_value(call, 0, &value));
    const mr_arg part = mr_value_arg(&value);
    return mr_state_set(call, &part, 1);
}

MR_METHOD(Keeper, get) { /* size · 1000 + first byte; fails unless all bytes are equal */
    mr_value value;
    mr_span bytes;
    MR_TRY(mr_state_get(call, 0, &value));
    MR_TRY(mr_value_bytes(&value, &bytes));
    const uint8_t *data = bytes.data;
    int64_t answer = (int64_t)bytes.size * 1000 + data[0];
    bool equal = memcmp(data, data + 1, bytes.size - 1) == 0;
    mr_value_release(&value);
    return equal ? mr_return(call, mr_int(answer)) : mr_fail(call, "%zu bytes differ", bytes.size);
}

MR_METHOD(Keeper, pid) { return mr_return(call, mr_int(getpid())); }
MR_METHOD(Keeper, arm) { return sync_fixture_arm_method(call); }

MR_METHOD(Ledger, set_none) { return mr_state_set(call, NULL, 0); }
MR_METHOD(Ledger, set_many) {
    mr_arg parts[MR_STATE_PARTS_MAX + 1];
    for (size_t i = 0; i <= MR_STATE_PARTS_MAX; i++) parts[i] = mr_int(0);
    return mr_state_set(call, parts, MR_STATE_PARTS_MAX + 1);
}

MR_TASK(set_in_a_task) {
    const mr_arg part = mr_int(1);
    return mr_state_set(call, &part, 1);
}

MR_TASK(add_in_a_task) { /* ledger, times: another caller */
    mr_actor actor;
    int64_t times;
    MR_TRY(mr_arg_actor(call, 0, &actor));
    MR_TRY(mr_arg_int(call, 1, &times));
    for (int64_t i = 0; i < times; i++) {
        const mr_call_options again = MR_OPTIONS(mr_call_options, .max_retries = MR_NO_LIMIT);
        mr_ref ref;
        mr_value value;
        MR_TRY(mr_actor_submit(mr_call_context(call), actor, "add", &again, MR_ARGS(mr_int(1)), &ref));
        MR_TRY(mr_get(mr_call_context(call), ref, PATIENCE_US, &value));
        mr_release(mr_call_context(call), ref);
    }
    return MR_OK;
}

/* ---- Helpers. */

static mr_actor make(void) {
    mr_actor actor;
    const mr_actor_options options =
        MR_OPTIONS(mr_actor_options, .max_restarts = MR_NO_LIMIT, .max_call_retries = MR_NO_LIMIT);
    must(mr_actor_create(mr, "Ledger", &options, NULL, 0, &actor));
    return actor;
}

static int64_t ask(mr_actor actor, const char *method) {
    mr_ref ref;
    must(mr_call_actor(mr, actor, method, &ref));
    return future_assert_int(mr, ref);
}

static int64_t add(mr_actor actor, int64_t value) {
    mr_ref ref;
    must(mr_call_actor(mr, actor, "add", &ref, mr_int(value)));
    return future_assert_int(mr, ref);
}

static void kill_process(mr_actor actor) { assert_int_equal(kill((pid_t)ask(actor, "pid"), SIGKILL), 0); }

static void hold(mr_actor actor, float *items, float value) {
    const int64_t shape[] = {LARGE / (int64_t)sizeof *items};
    mr_ref ref;
    for (int64_t i = 0; i < shape[0]; i++) items[i] = value;
    must(mr_call_actor(mr, actor, "hold", &ref, mr_tensor_of(MR_F32, items, 1, shape)));
    assert_int_equal(future_assert_failure(mr, ref), MR_OK);
}

static float first_of_large(mr_actor actor) {
    mr_ref ref;
    mr_tensor tensor;
    must(mr_call_actor(mr, actor, "large", &ref));
    mr_value value = future_assert_value(mr, ref);
    must(mr_value_tensor(&value, &tensor));
    assert_int_equal(tensor.bytes, LARGE);
    const float *items = tensor.data;
    assert_true(items[0] == items[LARGE / sizeof *items - 1]);
    float first = items[0];
    mr_value_release(&value);
    return first;
}

/* ---- Tests. */

static void the_next_process_has_the_state(void **state) {
    mr_actor actor = make();
    for (int round = 1; round <= 3; round++) {
        assert_int_equal(add(actor, round), round * (round + 1) / 2);
        assert_int_equal(ask(actor, "starts"), round);
        kill_process(actor);
    }
    assert_int_equal(add(actor, 0), 6);
    assert_int_equal(ask(actor, "starts"), 4);
    assert_int_equal(ask(actor, "count"), 4);
    mr_actor_release(mr, actor);
}

/* The object of a large part outlives the process that sent it, the one that kept it, and later states that keep it. */
static void a_large_part_is_kept_where_it_lies(void **state) {
    float *items = malloc(LARGE);
    mr_actor actor = make();
    for (int round = 1; round <= 12; round++) {
        hold(actor, items, (float)round); /* 64 MB have room for a few: earlier ones are freed */
        kill_process(actor);
        assert_true(first_of_large(actor) == (float)round);
        add(actor, 1);
        kill_process(actor);
        assert_true(first_of_large(actor) == (float)round);
    }
    mr_actor_release(mr, actor);
    for (int round = 1; round <= 12; round++) { /* a dead actor keeps nothing */
        actor = make();
        hold(actor, items, (float)-round);
        must(mr_actor_kill(mr, actor));
        mr_actor_release(mr, actor);
    }
    free(items);
}

/* A call whose answer is lost is sent again, and counted once; so are the calls behind it. */
static void a_repeated_call_is_known(void **state) {
    if (failpoint_count() == 0) skip();
    static const char *const points[] = {"runtime.state_made=kill", "runtime.state_written=kill",
                                         "runtime.state_saved=kill", "runtime.state_saved=kill@3"};
    for (size_t p = 0; p < sizeof points / sizeof *points; p++) {
        enum { CALLS = 6 };
        mr_actor actor = make();
        mr_ref refs[CALLS], armed;
        assert_int_equal(ask(actor, "starts"), 1);
        must(mr_actor_submit(mr, actor, "arm", &MR_OPTIONS(mr_call_options, .max_retries = -1),
                             MR_ARGS(mr_str(points[p])), &armed));
        for (int i = 0; i < CALLS; i++) must(mr_call_actor(mr, actor, "add", &refs[i], mr_int(1)));
        assert_int_equal(future_assert_failure(mr, armed), MR_OK);
        for (int i = 0; i < CALLS; i++) assert_int_equal(future_assert_int(mr, refs[i]), i + 1);
        assert_int_equal(ask(actor, "starts"), 2);
        mr_actor_release(mr, actor);
    }
}

/* Kills at any instant, while two processes call. */
static void no_kill_loses_or_repeats_a_call(void **state) {
    enum { ROUNDS = 25, CALLS = 40, TIMES = 300 };
    mr_actor actor = make();
    mr_ref other, refs[CALLS];
    rng rng;
    rng_init(&rng, 11);
    must(mr_call_task(mr, "add_in_a_task", &other, mr_handle(actor), mr_int(TIMES)));
    for (int round = 0; round < ROUNDS; round++) {
        pid_t process = (pid_t)ask(actor, "pid");
        for (int i = 0; i < CALLS; i++) must(mr_call_actor(mr, actor, "add", &refs[i], mr_int(1000)));
        usleep((useconds_t)rng_below(&rng, 1500));
        kill(process, SIGKILL);
        int64_t before = 0;
        for (int i = 0; i < CALLS; i++) {
            int64_t sum = future_assert_int(mr, refs[i]);
            assert_int_equal(sum / 1000, round * CALLS + i + 1);
            assert_true(sum > before);
            before = sum;
        }
    }
    assert_int_equal(future_assert_failure(mr, other), MR_OK);
    assert_int_equal(add(actor, 0), 1000 * ROUNDS * CALLS + TIMES);
    assert_true(ask(actor, "starts") > 1 && ask(actor, "starts") <= ROUNDS + 1);
    mr_actor_release(mr, actor);
}

static mr_status set_text(mr_actor actor, size_t size, char byte) {
    static char text[300 * 1000];
    mr_ref ref;
    memset(text, byte, size);
    must(mr_actor_submit(mr, actor, "set", &MR_OPTIONS(mr_call_options, .max_retries = -1),
                         MR_ARGS(mr_bytes(text, size)), &ref));
    return future_assert_failure(mr, ref);
}

/* States of any size, in messages, in several parts and in objects; a death while the node lends more memory leaves the
 * state before. */
static void a_state_may_grow(void **state) {
    static const size_t sizes[] = {10, 3000, 10, 5000, 40000, 63000, 300 * 1000, 20};
    mr_actor actor;
    const mr_actor_options options =
        MR_OPTIONS(mr_actor_options, .max_restarts = MR_NO_LIMIT, .max_call_retries = MR_NO_LIMIT);
    must(mr_actor_create(mr, "Keeper", &options, NULL, 0, &actor));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char byte = (char)('a' + i);
        int64_t expected = (int64_t)sizes[i] * 1000 + byte;
        must(set_text(actor, sizes[i], byte));
        assert_int_equal(ask(actor, "get"), expected);
        kill_process(actor);
        assert_int_equal(ask(actor, "get"), expected);
        if (failpoint_count() == 0) continue;
        mr_ref armed;
        must(set_text(actor, 10, 'x')); /* memory for small states */
        must(mr_call_actor(mr, actor, "arm", &armed, mr_str("runtime.state_lent=kill")));
        assert_int_equal(future_assert_failure(mr, armed), MR_OK);
        assert_int_equal(set_text(actor, 60000, 'y'), MR_ACTOR_DIED);
        assert_int_equal(ask(actor, "get"), 10 * 1000 + 'x');
    }
    mr_actor_release(mr, actor);
}

static void refused(mr_ref ref, const char *why) {
    mr_value value;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_INVALID);
    if (strstr(mr_last_error(), why) == NULL) fail_msg("%s", mr_last_error());
    mr_release(mr, ref);
}

static void misuse_is_refused(void **state) {
    mr_actor actor = make();
    mr_ref ref, inside;
    must(mr_call_actor(mr, actor, "set_none", &ref));
    refused(ref, "0 parts; a state has 1 to 16");
    must(mr_call_actor(mr, actor, "set_many", &ref));
    refused(ref, "17 parts");
    must(mr_call_task(mr, "set_in_a_task", &ref));
    refused(ref, "set_in_a_task is not a method of an actor");
    must(mr_put(mr, mr_int(3), &inside));
    mr_arg item = {.kind = MR_KIND_REF, .ref = inside}, handle = mr_handle(actor);
    must(mr_call_actor(mr, actor, "set", &ref, mr_list(&item, 1)));
    refused(ref, "1 futures or handles in the state");
    must(mr_call_actor(mr, actor, "set", &ref, mr_list(&handle, 1)));
    refused(ref, "1 futures or handles in the state");
    mr_release(mr, inside);
    kill_process(actor);
    assert_int_equal(ask(actor, "starts"), 2); /* the state is that of the creation */
    must(mr_call_actor(mr, actor, "set", &ref, mr_str("one part")));
    assert_int_equal(future_assert_failure(mr, ref), MR_OK);
    assert_int_equal(ask(actor, "count"), 1);
    mr_actor_release(mr, actor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_process_has_the_state),
        cmocka_unit_test(a_large_part_is_kept_where_it_lies),
        cmocka_unit_test(a_repeated_call_is_known),
        cmocka_unit_test(no_kill_loses_or_repeats_a_call),
        cmocka_unit_test(a_state_may_grow),
        cmocka_unit_test(misuse_is_refused),
    };
    return runtime_main(tests);
}
