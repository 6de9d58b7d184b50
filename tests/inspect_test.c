/* inspect_test.c — inspection of a running driver: what tasks wait for and why, processes that are stopped or dead,
 * long lists of pending tasks. */
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

#include "tests/support/inspect_fixture.h"
#include "tests/support/sanitized.h"

enum { MANY = SANITIZED ? 20 * 1000 : 200 * 1000 };

/* ---- Tasks and actors. */

MR_TASK(die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

/* Starts a task, and waits for it. */
MR_TASK(parent) {
    mr_value path, value;
    mr_ref child;
    MR_TRY(mr_arg_value(call, 0, &path));
    MR_TRY(mr_call_task(mr_call_context(call), "hold", &child, mr_value_arg(&path)));
    MR_TRY(mr_get(mr_call_context(call), child, MR_FOREVER, &value));
    mr_value_release(&value);
    mr_release(mr_call_context(call), child);
    return MR_OK;
}

MR_CREATE(Echo) { return MR_OK; }
MR_METHOD(Echo, nothing) { return MR_OK; }

/* ---- Tests. */

static void an_idle_node_is_shown(void **state) {
    inspect_fixture_start(2);
    mr_value status = inspect_fixture_ask("status", NULL, 100), node = inspect_fixture_field(&status, "node"), row;
    assert_true(inspect_fixture_number(&node, "pid") > 0);
    assert_string_equal(inspect_fixture_text(&node, "address"), seen.address);
    assert_string_equal(inspect_fixture_text(&node, "version"), mr_version());
    assert_int_equal(inspect_fixture_number(&status, "pending"), 0);
    assert_int_equal(inspect_fixture_number(&status, "objects"), 0);
    assert_true(inspect_fixture_find_row(&status, "resources", "name", "cpu", &row));
    assert_int_equal(inspect_fixture_number(&row, "total"), 2000);
    assert_int_equal(inspect_fixture_number(&row, "free"), 2000);
    mr_value_release(&status);
    mr_value answer;
    assert_int_equal(mr_inspect_ask(seen.inspect, "weather", NULL, 1, &answer), MR_INVALID);
    assert_int_equal(mr_inspect_ask(seen.inspect, "why", NULL, 1, &answer), MR_INVALID);
    assert_int_equal(mr_inspect_ask(seen.inspect, "why", "t1", 1, &answer), MR_INVALID);
    assert_int_equal(mr_inspect_ask(seen.inspect, "why", "t999:1", 1, &answer), MR_NOT_FOUND);
    inspect_fixture_assert_has(mr_last_error(), "it has ended, or never existed");
    assert_int_equal(mr_inspect_ask(seen.inspect, "why", "p999", 1, &answer), MR_NOT_FOUND);
    assert_int_equal(mr_inspect_ask(seen.inspect, "why", "a1:1", 1, &answer), MR_NOT_FOUND);
    inspect_fixture_stop();
}

static void waiting_tasks_name_their_cause(void **state) {
    mr_ref first, second, third, never;
    char id[32], worker[32], reasons[4096];
    inspect_fixture_start(1);
    assert_int_equal(mr_call_task(seen.mr, "hold", &first, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    assert_int_equal(mr_call_task(seen.mr, "add", &second, mr_future(first), mr_int(1)), MR_OK);
    assert_int_equal(mr_call_task(seen.mr, "add", &third, mr_future(second), mr_int(1)), MR_OK);
    assert_int_equal(mr_task_submit(seen.mr, "add", &MR_OPTIONS(mr_task_options, .num_gpus = 64),
                                    MR_ARGS(mr_int(1), mr_int(2)), &never),
                     MR_OK);
    mr_value tasks = inspect_fixture_ask_all("tasks", 100), row;
    assert_int_equal(inspect_fixture_number(&tasks, "total"), 4);
    assert_true(inspect_fixture_find_row(&tasks, "tasks", "state", "arguments", &row));
    assert_string_equal(inspect_fixture_text(&row, "name"), "add");
    assert_true(inspect_fixture_find_row(&tasks, "tasks", "state", "queued", &row));
    assert_string_equal(inspect_fixture_text(&row, "needs"), "cpu=1, gpu=64");
    snprintf(id, sizeof id, "%s", inspect_fixture_text(&row, "id"));
    mr_value_release(&tasks);

    inspect_fixture_why(id, reasons);
    inspect_fixture_assert_has(reasons, "it needs cpu=1, gpu=64, but this machine has only cpu=1 in total");
    inspect_fixture_assert_has(reasons, "num_gpus");

    char last[32];
    inspect_fixture_await_row("tasks", "state", "arguments", "arguments", last);
    inspect_fixture_why(last, reasons); /* the steps: argument, its task, that task's worker */
    inspect_fixture_assert_has(reasons, "of its arguments is still pending; the first is o");
    inspect_fixture_assert_has(reasons, "task hold|it was sent to p");
    inspect_fixture_assert_has(reasons, " worker, process ");
    inspect_fixture_await_row("workers", "state", "leased", "leased", worker);
    inspect_fixture_open_gate();
    inspect_fixture_finish(third);
    inspect_fixture_finish(second);
    inspect_fixture_finish(first);
    assert_int_equal(mr_cancel(seen.mr, never), MR_OK);
    mr_release(seen.mr, never);
    inspect_fixture_stop();
}

static void a_worker_that_waits_names_what_for(void **state) {
    mr_ref ref;
    char id[32], reasons[4096];
    inspect_fixture_start(1);
    assert_int_equal(mr_call_task(seen.mr, "parent", &ref, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("workers", "state", "waits", "waits", id);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id); /* in the worker that has the parent's CPU */
    inspect_fixture_await_row("tasks", "name", "parent", "sent", id);
    inspect_fixture_why(id, reasons);
    inspect_fixture_assert_has(reasons, "task parent|it was sent to p");
    inspect_fixture_assert_has(reasons, "|it waits for 1 object; the first is o");
    inspect_fixture_assert_has(reasons, "task hold|it was sent to p");
    inspect_fixture_open_gate();
    inspect_fixture_finish(ref);
    inspect_fixture_stop();
}

static void an_actor_that_cannot_start_holds_its_calls(void **state) {
    mr_actor actor, alive;
    mr_ref ref, other;
    char id[32], reasons[4096];
    inspect_fixture_start(1);
    assert_int_equal(mr_actor_create(seen.mr, "Echo", &MR_OPTIONS(mr_actor_options, .num_gpus = 1, .name = "greedy"),
                                     MR_ARGS(), &actor),
                     MR_OK);
    assert_int_equal(mr_call_actor(seen.mr, actor, "nothing", &ref), MR_OK);
    assert_int_equal(mr_new_actor(seen.mr, "Echo", &alive), MR_OK);
    assert_int_equal(mr_call_actor(seen.mr, alive, "nothing", &other), MR_OK);
    inspect_fixture_finish(other);
    inspect_fixture_await_row("actors", "name", "greedy", "pending", id);
    inspect_fixture_await_row("actors", "state", "alive", "alive", id);
    inspect_fixture_await_row("tasks", "name", "nothing", "queued", id);
    inspect_fixture_why(id, reasons);
    inspect_fixture_assert_has(reasons, "call of nothing on a");
    inspect_fixture_assert_has(reasons, "actor of class Echo|it needs gpu=1, but this machine has only cpu=1 in total");
    assert_int_equal(mr_actor_kill(seen.mr, actor), MR_OK);
    inspect_fixture_await_row("actors", "name", "greedy", "dead", id);
    mr_value value;
    assert_int_equal(mr_get(seen.mr, ref, INSPECT_FIXTURE_PATIENCE_US, &value), MR_ACTOR_DIED);
    mr_release(seen.mr, ref);
    inspect_fixture_stop();
}

static void objects_are_shown_with_their_sizes(void **state) {
    static float data[100000];
    mr_ref small, large;
    char reasons[4096], id[32];
    inspect_fixture_start(1);
    assert_int_equal(mr_put(seen.mr, mr_int(1), &small), MR_OK);
    assert_int_equal(mr_put(seen.mr, mr_vector(data, 100000), &large), MR_OK);
    mr_value objects = inspect_fixture_ask_all("objects", 1), rows = inspect_fixture_field(&objects, "objects"), row;
    assert_int_equal(inspect_fixture_number(&objects, "total"), 2);
    assert_true(inspect_fixture_number(&objects, "bytes") >= (int64_t)sizeof data);
    assert_int_equal(mr_value_count(&rows), 1); /* the largest object */
    assert_int_equal(mr_value_item(&rows, 0, &row), MR_OK);
    assert_true(inspect_fixture_number(&row, "bytes") >= (int64_t)sizeof data);
    assert_string_equal(inspect_fixture_text(&row, "held_by"), "driver");
    snprintf(id, sizeof id, "%s", inspect_fixture_text(&row, "id"));
    mr_value_release(&objects);
    inspect_fixture_why(id, reasons);
    inspect_fixture_assert_has(reasons, "is ready, ");
    mr_value memory = inspect_fixture_ask_all("memory", 100), largest = inspect_fixture_field(&memory, "largest");
    assert_int_equal(mr_value_count(&largest), 2);
    assert_true(inspect_fixture_find_row(&memory, "processes", "role", "driver", &row));
    assert_int_equal(inspect_fixture_number(&row, "objects"), 2);
    mr_value_release(&memory);
    mr_release(seen.mr, small);
    mr_release(seen.mr, large);
    assert_int_equal(mr_inspect_ask(seen.inspect, "why", id, 1, &memory), MR_NOT_FOUND); /* the object was released */
    inspect_fixture_assert_has(mr_last_error(), "has no object o");
    inspect_fixture_stop();
}

/* Holders of an object in a process: the driver, a task that has the object as an argument, a value that contains it.
 * Objects that are being created are listed, too. */
static void objects_say_who_holds_them(void **state) {
    mr_ref made, put, inside, sum, list;
    char id[32];
    mr_value objects, row;
    inspect_fixture_start(1);
    assert_int_equal(mr_call_task(seen.mr, "hold", &made, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    assert_int_equal(mr_put(seen.mr, mr_int(5), &put), MR_OK);
    assert_int_equal(mr_call_task(seen.mr, "add", &sum, mr_future(made), mr_future(put)), MR_OK);
    mr_release(seen.mr, put); /* the task still holds the object */
    assert_int_equal(mr_put(seen.mr, mr_str("inside"), &inside), MR_OK);
    mr_arg item = mr_future(inside);
    assert_int_equal(mr_put(seen.mr, mr_list(&item, 1), &list), MR_OK);
    objects = inspect_fixture_ask_all("objects", 100);
    assert_int_equal(inspect_fixture_number(&objects, "total"), 5);
    /* object `made` */
    assert_true(inspect_fixture_find_row(&objects, "objects", "held_by", "driver, task argument, in flight", &row));
    /* object `put` */
    assert_true(inspect_fixture_find_row(&objects, "objects", "held_by", "task argument", &row));
    /* object `sum` */
    assert_true(inspect_fixture_find_row(&objects, "objects", "held_by", "driver, in flight", &row));
    assert_true(inspect_fixture_find_row(&objects, "objects", "held_by", "driver, inside values", &row));
    assert_true(inspect_fixture_find_row(&objects, "objects", "held_by", "driver", &row)); /* object `list` */
    mr_value_release(&objects);
    mr_release(seen.mr, inside);
    mr_release(seen.mr, list);
    inspect_fixture_open_gate();
    inspect_fixture_finish(sum);
    inspect_fixture_finish(made);
    inspect_fixture_stop();
}

/* Puts a large value, and so waits until memory is free. */
MR_TASK(put_large) {
    static float data[1 << 22];
    mr_ref ref;
    mr_status status;
    while ((status = mr_put(mr_call_context(call), mr_vector(data, 1 << 22), &ref)) == MR_NOMEM) {}
    if (status == MR_OK) mr_release(mr_call_context(call), ref);
    return status;
}

/* All memory is occupied by objects that the driver views, and a task needs memory. */
static void a_worker_that_waits_for_memory_says_so(void **state) {
    static float data[1 << 20];
    enum { MOST = 64 };
    mr_ref refs[MOST], ref;
    mr_value values[MOST];
    char id[32], reasons[4096] = "";
    int count = 0;
    setenv("MINIRAY_ARENA_BYTES", "67108864", 1);
    inspect_fixture_start(1);
    unsetenv("MINIRAY_ARENA_BYTES");
    while (count < MOST && /* until an allocation times out */
           mr_put(seen.mr, mr_vector(data, 1 << 20), &refs[count]) == MR_OK) {
        assert_int_equal(mr_get(seen.mr, refs[count], INSPECT_FIXTURE_PATIENCE_US, &values[count]), MR_OK);
        count++;
    }
    assert_int_equal(mr_call_task(seen.mr, "put_large", &ref), MR_OK);
    inspect_fixture_await_row("tasks", "name", "put_large", "sent", id);
    for (int i = 0; i < INSPECT_FIXTURE_TRIES && strstr(reasons, "|it waits for store memory: ") == NULL; i++)
        inspect_fixture_why(id, reasons); /* the wait may begin anew between two queries */
    inspect_fixture_assert_has(reasons, "task put_large|it was sent to p");
    inspect_fixture_assert_has(reasons, "|it waits for store memory: ");
    while (count-- > 0) {
        mr_value_release(&values[count]);
        mr_release(seen.mr, refs[count]);
    }
    inspect_fixture_finish(ref);
    inspect_fixture_stop();
}

/* A stopped process cannot answer: the answer names it and contains the other processes' parts. */
static void a_stopped_worker_is_silent(void **state) {
    mr_ref ref;
    char id[32];
    inspect_fixture_start(1);
    assert_int_equal(mr_call_task(seen.mr, "hold", &ref, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("workers", "state", "leased", "leased", id);
    mr_value workers = inspect_fixture_ask("workers", NULL, 100), row;
    assert_true(inspect_fixture_find_row(&workers, "workers", "id", id, &row));
    pid_t pid = (pid_t)inspect_fixture_number(&row, "pid");
    mr_value_release(&workers);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    mr_value tasks = inspect_fixture_ask("tasks", NULL, 100), silent = inspect_fixture_field(&tasks, "silent");
    for (int i = 0; i < INSPECT_FIXTURE_TRIES && mr_value_count(&silent) == 0; i++) { /* SIGSTOP takes effect later */
        mr_value_release(&tasks);
        tasks = inspect_fixture_ask("tasks", NULL, 100);
        silent = inspect_fixture_field(&tasks, "silent");
    }
    assert_int_equal(inspect_fixture_number(&tasks, "total"), 1);
    assert_int_equal(mr_value_count(&silent), 1);
    assert_int_equal(mr_value_item(&silent, 0, &row), MR_OK);
    assert_int_equal(inspect_fixture_number(&row, "pid"), pid);
    assert_string_equal(inspect_fixture_text(&row, "silent"), "did not answer within 1 s");
    mr_value_release(&tasks);
    assert_int_equal(kill(pid, SIGCONT), 0);
    inspect_fixture_open_gate();
    inspect_fixture_finish(ref);
    inspect_fixture_stop();
}

static int64_t item(const mr_value *row, size_t index) {
    mr_value value;
    int64_t result = -1;
    assert_int_equal(mr_value_item(row, index, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &result), MR_OK);
    return result;
}

typedef struct told {                              /* data of a timeline */
    int64_t adds, running, rings, gone, submitted; /* submitted: calls of `add` that drivers submitted */
} told;

static told read_timeline(void) {
    told told = {0};
    mr_value answer = inspect_fixture_ask("timeline", NULL, 10000), rings = inspect_fixture_field(&answer, "rings"),
             ring, row, name;
    int64_t now_us = inspect_fixture_number(&answer, "now_us");
    for (mr_iter iter = mr_value_iter(&rings); mr_iter_next(&iter, &ring); told.rings++) {
        mr_value rows = inspect_fixture_field(&ring, "events"), gone = inspect_fixture_field(&ring, "gone_us");
        if (mr_value_kind(&gone) == MR_KIND_INT) {
            told.gone++;
            inspect_fixture_assert_has(inspect_fixture_text(&ring, "why"), "signal 9");
        }
        for (mr_iter at = mr_value_iter(&rows); mr_iter_next(&at, &row);) {
            mr_span span;
            assert_int_equal(mr_value_count(&row), 9);
            assert_int_equal(mr_value_item(&row, 3, &name), MR_OK);
            assert_int_equal(mr_value_str(&name, &span), MR_OK);
            assert_in_range(item(&row, 0), inspect_fixture_number(&ring, "opened_us"), now_us);
            if (item(&row, 1) != 0) assert_in_range(item(&row, 1), item(&row, 0), now_us);
            bool submits = strcmp(inspect_fixture_text(&ring, "role"), "driver") == 0,
                 adds = span.size == 3 && memcmp(span.data, "add", 3) == 0;
            if (adds) *(submits ? &told.submitted : &told.adds) += item(&row, 6);
            if (!submits && span.size == 4 && memcmp(span.data, "hold", 4) == 0 && item(&row, 1) == 0) told.running++;
        }
    }
    mr_value_release(&answer);
    return told;
}

/* The trace lists every call, shows a running call as running, and a dead worker with the task that it ran. */
static void the_timeline_has_what_ran(void **state) {
    mr_ref refs[100], dying, running;
    mr_value value;
    char id[32];
    inspect_fixture_start(1);
    for (int i = 0; i < 100; i++) assert_int_equal(mr_call_task(seen.mr, "add", &refs[i], mr_int(i), mr_int(1)), MR_OK);
    for (int i = 0; i < 100; i++) inspect_fixture_finish(refs[i]);
    assert_int_equal(mr_task_submit(seen.mr, "die", &MR_OPTIONS(mr_task_options, .max_retries = -1), NULL, 0, &dying),
                     MR_OK);
    assert_int_equal(mr_get(seen.mr, dying, INSPECT_FIXTURE_PATIENCE_US, &value), MR_WORKER_DIED);
    mr_release(seen.mr, dying);
    assert_int_equal(mr_call_task(seen.mr, "hold", &running, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    told told = {0};
    /* until the call has begun */
    for (int i = 0; i < INSPECT_FIXTURE_TRIES && told.running == 0; i++) told = read_timeline();
    assert_int_equal(told.running, 1);
    assert_int_equal(told.adds, 100);
    assert_in_range(told.submitted, 100, 200); /* a busy worker returns some calls, which are submitted again */
    assert_int_equal(told.gone, 1);
    assert_true(told.rings >= 2);
    char reasons[4096];
    inspect_fixture_why(id, reasons);
    inspect_fixture_assert_has(reasons, "it runs hold for p");
    inspect_fixture_open_gate();
    inspect_fixture_finish(running);
    inspect_fixture_stop();
}

static void many_pending_tasks_are_counted_and_a_few_are_shown(void **state) {
    mr_ref first;
    char id[32];
    inspect_fixture_start(1);
    assert_int_equal(mr_call_task(seen.mr, "hold", &first, mr_str(seen.gate)), MR_OK);
    inspect_fixture_await_row("tasks", "name", "hold", "sent", id);
    mr_ref *refs = malloc(MANY * sizeof *refs);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(mr_call_task(seen.mr, "add", &refs[i], mr_int(i), mr_int(1)), MR_OK);
    mr_value tasks = inspect_fixture_ask_all("tasks", 50), rows = inspect_fixture_field(&tasks, "tasks");
    assert_int_equal(inspect_fixture_number(&tasks, "total"), MANY + 1);
    assert_int_equal(mr_value_count(&rows), 50);
    mr_value_release(&tasks);
    for (int i = MANY - 1; i >= 0; i--) {
        assert_int_equal(mr_cancel(seen.mr, refs[i]), MR_OK);
        mr_release(seen.mr, refs[i]);
    }
    free(refs);
    inspect_fixture_open_gate();
    inspect_fixture_finish(first);
    inspect_fixture_stop();
}

static void json_is_made_of_anything(void **state) {
    const mr_arg inner[] = {mr_int(-1), mr_float(0.5), mr_nil(), mr_bool(true), mr_str("a \"b\"\n")};
    const mr_arg pairs[] = {mr_str("list"),   mr_list(inner, 5), mr_str("none"),
                            mr_list(NULL, 0), mr_str("ref"),     mr_future((mr_ref){{1, 2}})};
    char *json;
    assert_int_equal(mr_inspect_json(mr_map(pairs, 3), &json), MR_OK);
    assert_string_equal(json, "{\"list\":[-1,0.5,null,true,\"a \\\"b\\\"\\n\"],\"none\":[],\"ref\":\"ref\"}");
    free(json);
}

static void a_node_that_is_killed_is_told_at_once(void **state) {
    inspect_fixture_start(1);
    mr_value status = inspect_fixture_ask("status", NULL, 1), node = inspect_fixture_field(&status, "node"), answer;
    pid_t pid = (pid_t)inspect_fixture_number(&node, "pid");
    mr_value_release(&status);
    assert_int_equal(kill(pid, SIGKILL), 0);
    mr_status outcome = MR_OK;
    for (int i = 0; i < INSPECT_FIXTURE_TRIES && outcome == MR_OK; i++) { /* SIGKILL takes effect later */
        outcome = mr_inspect_ask(seen.inspect, "status", NULL, 1, &answer);
        if (outcome == MR_OK) mr_value_release(&answer);
    }
    assert_int_equal(outcome, MR_CLOSED);
    mr_inspect *another;
    outcome = MR_CLOSED;
    for (int i = 0; i < INSPECT_FIXTURE_TRIES && outcome == MR_CLOSED; i++)
        outcome = mr_inspect_open(seen.address, &another);
    assert_int_equal(outcome, MR_NOT_FOUND);
    assert_int_equal(mr_inspect_open("/nowhere/at/all", &another), MR_NOT_FOUND);
    assert_int_equal(mr_inspect_open("", &another), MR_INVALID);
    inspect_fixture_stop();
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &seen.mr) != MR_OK;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_node_is_shown),
        cmocka_unit_test(waiting_tasks_name_their_cause),
        cmocka_unit_test(a_worker_that_waits_names_what_for),
        cmocka_unit_test(an_actor_that_cannot_start_holds_its_calls),
        cmocka_unit_test(objects_are_shown_with_their_sizes),
        cmocka_unit_test(objects_say_who_holds_them),
        cmocka_unit_test(a_worker_that_waits_for_memory_says_so),
        cmocka_unit_test(a_stopped_worker_is_silent),
        cmocka_unit_test(the_timeline_has_what_ran),
        cmocka_unit_test(many_pending_tasks_are_counted_and_a_few_are_shown),
        cmocka_unit_test(json_is_made_of_anything),
        cmocka_unit_test(a_node_that_is_killed_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
