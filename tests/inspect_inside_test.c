/* inspect_inside_test.c — inspection of a driver's own node: resources, nodes, the timeline; and descriptions by a
 * process of itself (mr_on_describe); causes in the errors of waits. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/inspect_fixture.h"

static char who[] = "the test";
static _Atomic bool mute; /* in a worker: the describe hook waits for ever */

static size_t describe(void *user, char *out, size_t size) {
    while (mute) pause();
    return (size_t)snprintf(out, size, "first line of %s\nsecond line", (const char *)user);
}

MR_TASK(hold_mute) {
    mr_value path;
    mr_ref child;
    mute = true;
    MR_TRY(mr_arg_value(call, 0, &path));
    MR_TRY(mr_call_task(mr_call_context(call), "hold", &child, mr_value_arg(&path)));
    MR_TRY(mr_get(mr_call_context(call), child, MR_FOREVER, &path));
    mr_value_release(&path);
    mr_release(mr_call_context(call), child);
    return MR_OK;
}

/* Free resources while a body of the driver runs. */
MR_TASK(free_cpus) {
    mr_inspect *inspect;
    mr_value answer, row;
    MR_TRY(mr_inspect_within(mr_call_context(call), &inspect));
    MR_TRY(mr_inspect_ask(inspect, "resources", NULL, 0, &answer));
    mr_inspect_close(inspect);
    bool found = inspect_fixture_find_row(&answer, "resources", "name", "cpu", &row);
    int64_t free_milli = found ? inspect_fixture_number(&row, "free") : -1;
    mr_value_release(&answer);
    return mr_return(call, mr_int(free_milli));
}

static int64_t cpus_free(mr_inspect *inspect) {
    mr_value answer, row;
    assert_int_equal(mr_inspect_ask(inspect, "resources", NULL, 0, &answer), MR_OK);
    assert_true(inspect_fixture_find_row(&answer, "resources", "name", "cpu", &row));
    assert_int_equal(inspect_fixture_number(&row, "total"), 2000);
    int64_t milli = inspect_fixture_number(&row, "free");
    mr_value_release(&answer);
    return milli;
}

static void a_program_sees_its_resources(void **state) {
    mr_inspect *own;
    mr_ref held, asked;
    mr_value value;
    char id[32];
    int64_t seen_free;
    inspect_fixture_start(2);
    assert_int_equal(mr_inspect_within(seen.mr, &own), MR_OK);
    assert_int_equal(cpus_free(own), 2000);
    assert_int_equal(mr_call_task(seen.mr, "hold", &held, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    int64_t milli = 0;
    for (int i = 0; i < INSPECT_FIXTURE_TRIES && milli != 1000; i++) { /* until an unused second lease is returned */
        milli = cpus_free(own);
        usleep(1000);
    }
    assert_int_equal(milli, 1000);
    assert_int_equal(mr_call_task(seen.mr, "free_cpus", &asked), MR_OK);
    assert_int_equal(mr_get(seen.mr, asked, INSPECT_FIXTURE_PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &seen_free), MR_OK);
    assert_int_equal(seen_free, 0);
    mr_value_release(&value);
    mr_release(seen.mr, asked);
    inspect_fixture_open_gate();
    inspect_fixture_finish(held);
    mr_inspect_close(own);
    inspect_fixture_stop();
}

static void a_program_sees_its_node(void **state) {
    mr_inspect *own;
    mr_value answer, nodes, node, cpu;
    char host[64] = "";
    inspect_fixture_start(2);
    gethostname(host, sizeof host - 1);
    assert_int_equal(mr_inspect_within(seen.mr, &own), MR_OK);
    assert_int_equal(mr_inspect_ask(own, "nodes", NULL, 10, &answer), MR_OK);
    nodes = inspect_fixture_field(&answer, "nodes");
    assert_int_equal(mr_value_count(&nodes), 1);
    assert_int_equal(mr_value_item(&nodes, 0, &node), MR_OK);
    assert_string_equal(inspect_fixture_text(&node, "address"), seen.address);
    assert_string_equal(inspect_fixture_text(&node, "host"), host);
    assert_int_equal(strlen(inspect_fixture_text(&node, "id")), 8);
    assert_true(inspect_fixture_number(&node, "pid") > 0 && inspect_fixture_number(&node, "arena_bytes") > 0);
    assert_true(inspect_fixture_find_row(&node, "resources", "name", "cpu", &cpu));
    mr_value_release(&answer);
    mr_inspect_close(own);
    inspect_fixture_stop();
}

static void a_program_takes_its_timeline(void **state) {
    mr_inspect *own;
    mr_ref ref;
    mr_trace trace;
    inspect_fixture_start(1);
    assert_int_equal(mr_inspect_within(seen.mr, &own), MR_OK);
    assert_int_equal(mr_call_task(seen.mr, "add", &ref, mr_int(1), mr_int(2)), MR_OK);
    inspect_fixture_finish(ref);
    assert_int_equal(mr_inspect_trace(own, 100, &trace), MR_OK);
    assert_int_equal(trace.calls, 1);
    assert_true(trace.workers >= 1);
    assert_int_equal(trace.size, strlen(trace.json));
    inspect_fixture_assert_has(trace.json, "\"name\":\"add\"");
    inspect_fixture_assert_has(trace.json, " driver\"");
    inspect_fixture_assert_has(trace.json, "\"cat\":\"submit\"");
    /* A flow event. */
    inspect_fixture_assert_has(trace.json, "\"ph\":\"s\",\"name\":\"call\",\"cat\":\"call\",\"id\":1");
    inspect_fixture_assert_has(trace.json, "\"ph\":\"f\",\"name\":\"call\",\"cat\":\"call\",\"id\":1");
    assert_null(strstr(trace.json, "\"id\":2"));
    free(trace.json);
    mr_inspect_close(own);
    inspect_fixture_stop();
}

/* The text of the answer's last step, which is about the worker of the task. */
static void words(const char *id, char out[256]) {
    mr_value answer = inspect_fixture_ask("why", id, 0), steps = inspect_fixture_field(&answer, "steps"), step;
    assert_int_equal(mr_value_item(&steps, mr_value_count(&steps) - 1, &step), MR_OK);
    snprintf(out, 256, "%s", inspect_fixture_text(&step, "does"));
    mr_value_release(&answer);
}

static void a_running_body_is_described(void **state) {
    mr_ref ref;
    char id[32], does[256] = "";
    inspect_fixture_start(1);
    assert_int_equal(mr_call_task(seen.mr, "hold", &ref, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    for (int i = 0; i < 20 && strstr(does, "second") == NULL; i++) words(id, does); /* late on a busy machine */
    assert_string_equal(does, "first line of the test\nsecond line");
    inspect_fixture_open_gate();
    inspect_fixture_finish(ref);
    inspect_fixture_stop();
}

/* The hook never returns; neither the task's caller nor the query waits for the hook. */
static void a_hanging_hook_does_not_delay_others(void **state) {
    mr_ref ref;
    char id[32], worker[32], reasons[4096], does[256];
    inspect_fixture_start(1);
    assert_int_equal(mr_call_task(seen.mr, "hold_mute", &ref, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("workers", "state", "waits", "waits", worker);
    inspect_fixture_await_row("tasks", "name", "hold_mute", "sent", id);
    inspect_fixture_why(id, reasons); /* the first query starts the hook */
    mr_value answer = inspect_fixture_ask("why", worker, 0), steps = inspect_fixture_field(&answer, "steps"), step;
    assert_int_equal(mr_value_item(&steps, 0, &step), MR_OK);
    snprintf(does, sizeof does, "%s", inspect_fixture_text(&step, "does"));
    mr_value_release(&answer);
    inspect_fixture_assert_has(does, "no description: the process still answers an earlier query");
    inspect_fixture_assert_has(reasons, "task hold|it was sent to p"); /* the other steps of the answer are there */
    inspect_fixture_open_gate();
    inspect_fixture_finish(ref);
    inspect_fixture_stop();
}

/* Waits for an object that does not come in time; returns the error. */
static const char *time_out(mr_ref ref) {
    mr_value value;
    assert_int_equal(mr_get(seen.mr, ref, 100 * 1000, &value), MR_TIMEOUT);
    return mr_last_error();
}

/* The same, with an answer of the node: an overloaded machine's node can miss the time of a query. */
static const char *time_out_with_cause(mr_ref ref) {
    const char *error = time_out(ref);
    for (int i = 0; i < INSPECT_FIXTURE_TRIES && strstr(error, "not answer") != NULL; i++) error = time_out(ref);
    return error;
}

/* Each of these is about the task itself, or about what it waits for. */
static void a_timeout_names_its_cause(void **state) {
    mr_ref held, after, impossible, queued;
    char id[32], text[512];
    inspect_fixture_start(1);
    assert_int_equal(mr_call_task(seen.mr, "hold", &held, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    inspect_fixture_await_row("workers", "state", "leased", "leased", id);
    assert_int_equal(mr_call_task(seen.mr, "add", &after, mr_future(held), mr_int(1)), MR_OK);
    assert_int_equal(mr_task_submit(seen.mr, "add", &MR_OPTIONS(mr_task_options, .num_cpus = 0.5),
                                    MR_ARGS(mr_int(1), mr_int(1)), &queued),
                     MR_OK);
    assert_int_equal(mr_task_submit(seen.mr, "add", &MR_OPTIONS(mr_task_options, .num_gpus = 8),
                                    MR_ARGS(mr_int(1), mr_int(1)), &impossible),
                     MR_OK);
    inspect_fixture_assert_has(time_out_with_cause(held), "waiting for task 'hold' (object o");
    inspect_fixture_assert_has(mr_last_error(), "; cause: p");
    inspect_fixture_assert_has(mr_last_error(), "): it runs hold for p");
    inspect_fixture_assert_has(mr_last_error(), "; `miniray why o");
    inspect_fixture_assert_has(time_out_with_cause(after), "): it runs hold for p"); /* the cause of its argument */
    inspect_fixture_assert_has(time_out_with_cause(queued),
                               " (task add): it needs a worker with cpu=0.5; of cpu=1 only cpu=0 is");
    inspect_fixture_assert_has(time_out_with_cause(impossible),
                               "it needs cpu=1, gpu=8, but this machine has only cpu=1 in total");
    size_t failed;
    for (int i = 0; i == 0 || (i < INSPECT_FIXTURE_TRIES && strstr(mr_last_error(), "not answer") != NULL); i++)
        assert_int_equal(mr_wait_all(seen.mr, (mr_ref[]){after, held}, 2, 100 * 1000, &failed), MR_TIMEOUT);
    inspect_fixture_assert_has(mr_last_error(), "): it runs hold for p");
    assert_int_equal(mr_why(seen.mr, after, MR_FOREVER, text, sizeof text), MR_OK);
    inspect_fixture_assert_has(text, "task 'add' (object o");
    inspect_fixture_assert_has(text, "): it runs hold for p");
    assert_int_equal(mr_cancel(seen.mr, impossible), MR_OK);
    inspect_fixture_open_gate();
    inspect_fixture_finish(held);
    inspect_fixture_finish(after);
    inspect_fixture_finish(queued);
    mr_release(seen.mr, impossible);
    mr_ref one;
    assert_int_equal(mr_put(seen.mr, mr_int(1), &one), MR_OK);
    assert_int_equal(mr_why(seen.mr, one, MR_FOREVER, text, sizeof text), MR_OK);
    assert_string_equal(text, "");
    mr_release(seen.mr, one);
    inspect_fixture_stop();
}

static int64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* A timeout is at most 0.1 s late (ten times that, on a busy machine), and says that the node does not answer. */
static void a_stopped_node_does_not_delay_a_timeout(void **state) {
    mr_ref held;
    char id[32];
    inspect_fixture_start(1);
    mr_value answer = inspect_fixture_ask("nodes", NULL, 1), nodes = inspect_fixture_field(&answer, "nodes"), node;
    assert_int_equal(mr_value_item(&nodes, 0, &node), MR_OK);
    pid_t pid = (pid_t)inspect_fixture_number(&node, "pid");
    mr_value_release(&answer);
    assert_int_equal(mr_call_task(seen.mr, "hold", &held, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    int64_t begun_us = now_us();
    inspect_fixture_assert_has(time_out(held), "; cause: unknown: the node did not answer in time");
    assert_true(now_us() - begun_us < 100 * 1000 + 1000 * 1000);
    assert_int_equal(kill(pid, SIGCONT), 0);
    inspect_fixture_open_gate();
    inspect_fixture_finish(held);
    inspect_fixture_stop();
}

int main(void) {
    mr_on_describe(describe, who);
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &seen.mr) != MR_OK;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_sees_its_resources),
        cmocka_unit_test(a_program_sees_its_node),
        cmocka_unit_test(a_program_takes_its_timeline),
        cmocka_unit_test(a_running_body_is_described),
        cmocka_unit_test(a_hanging_hook_does_not_delay_others),
        cmocka_unit_test(a_timeout_names_its_cause),
        cmocka_unit_test(a_stopped_node_does_not_delay_a_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
