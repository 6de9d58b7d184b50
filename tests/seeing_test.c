/* seeing_test.c — a program looked at while it runs: what it waits for and why, processes that are stopped or gone,
 * more pending tasks than anybody wants to read. The test is the program; its workers are this same binary, started
 * again. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/inspect.h"
#include "miniray/runtime.h"
#include "tests/support/temp.h"

enum { PATIENCE_US = 20 * 1000 * 1000, MANY = 200 * 1000, TRIES = 2000 };

static const char *outside; /* TMPDIR as it was */
static mr_context *mr;
static mr_inspect *inspect;
static char folder[TEMP_FOLDER_MAX], gate[TEMP_FOLDER_MAX + 8], address[512];

/* ---- What workers do. */

/* Runs until the test opens the gate. */
MR_TASK(hold) {
    mr_span path;
    MR_TRY(mr_arg_str(call, 0, &path));
    char name[TEMP_FOLDER_MAX + 8];
    snprintf(name, sizeof name, "%.*s", (int)path.size, (const char *)path.data);
    while (access(name, F_OK) != 0) usleep(1000);
    return mr_return(call, mr_int(1));
}

MR_TASK(add) {
    int64_t a, b;
    MR_TRY(mr_arg_int(call, 0, &a));
    MR_TRY(mr_arg_int(call, 1, &b));
    return mr_return(call, mr_int(a + b));
}

MR_TASK(die) {
    kill(getpid(), SIGKILL);
    return MR_OK;
}

/* Waits for a task of its own. */
MR_TASK(parent) {
    mr_value path, value;
    mr_ref child;
    MR_TRY(mr_arg_value(call, 0, &path));
    MR_TRY(mr_call_task(mr_call_context(call), "hold", &child, mr_pass(&path)));
    MR_TRY(mr_get(mr_call_context(call), child, MR_FOREVER, &value));
    mr_value_release(&value);
    mr_release(mr_call_context(call), child);
    return MR_OK;
}

MR_CREATE(Echo) { return MR_OK; }
MR_METHOD(Echo, nothing) { return MR_OK; }

/* ---- Finding the node: the one socket below our folder. */

static bool find_socket(const char *path, int depth) {
    DIR *dir = opendir(path);
    if (dir == NULL) return false;
    bool found = false;
    for (struct dirent *entry; !found && (entry = readdir(dir)) != NULL;) {
        char below[512];
        struct stat status;
        if (entry->d_name[0] == '.') continue;
        snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        if (lstat(below, &status) != 0) continue;
        if (S_ISSOCK(status.st_mode)) {
            snprintf(address, sizeof address, "%s", below);
            found = true;
        } else if (S_ISDIR(status.st_mode) && depth > 0) {
            found = find_socket(below, depth - 1);
        }
    }
    closedir(dir);
    return found;
}

static void start(int workers) {
    assert_true(temp_folder(folder));
    setenv("XDG_RUNTIME_DIR", folder, 1);
    setenv("TMPDIR", folder, 1);
    snprintf(gate, sizeof gate, "%s/gate", folder);
    assert_int_equal(mr_init(&(mr_options){.num_workers = workers}, &mr), MR_OK);
    assert_true(find_socket(folder, 3));
    assert_int_equal(mr_inspect_open(address, &inspect), MR_OK);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) { return remove(path); }

static void stop(void) {
    mr_inspect_close(inspect);
    mr_shutdown(mr);
    if (outside != NULL) setenv("TMPDIR", outside, 1);
    if (outside == NULL) unsetenv("TMPDIR");
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- Reading. */

static mr_value ask(const char *what, const char *id, size_t limit) {
    mr_value answer;
    mr_status status = mr_inspect_ask(inspect, what, id, limit, &answer);
    if (status != MR_OK) print_error("%s: %s\n", mr_status_name(status), mr_last_error());
    assert_int_equal(status, MR_OK);
    return answer;
}

static mr_value field(const mr_value *map, const char *key) {
    mr_value value;
    assert_int_equal(mr_value_field(map, key, &value), MR_OK);
    return value;
}

/* The same with everybody's answer: on a busy machine one may not come in time. */
static mr_value ask_all(const char *what, size_t limit) {
    for (int i = 0;; i++) {
        mr_value answer = ask(what, NULL, limit), silent = field(&answer, "silent");
        if (mr_value_count(&silent) == 0 || i == 20) return answer;
        mr_value_release(&answer);
    }
}

static int64_t number(const mr_value *map, const char *key) {
    mr_value value = field(map, key);
    int64_t result;
    assert_int_equal(mr_value_int(&value, &result), MR_OK);
    return result;
}

static const char *text(const mr_value *map, const char *key) {
    static char texts[4][512];
    static unsigned next;
    char *out = texts[next++ % 4];
    mr_value value = field(map, key);
    mr_span span = {0};
    if (mr_value_kind(&value) == MR_KIND_STR) assert_int_equal(mr_value_str(&value, &span), MR_OK);
    snprintf(out, 512, "%.*s", (int)span.size, (const char *)span.data);
    return out;
}

/* The first row of that list whose field is this; false: none. */
static bool find_row(const mr_value *answer, const char *list, const char *key, const char *value, mr_value *out) {
    mr_value rows = field(answer, list), row;
    for (mr_iter iter = mr_value_iter(&rows); mr_iter_next(&iter, &row);) {
        if (strcmp(text(&row, key), value) != 0) continue;
        *out = row;
        return true;
    }
    return false;
}

/* Looks again and again until the row is as expected: processes start and settle by and by. */
static void await_row(const char *what, const char *key, const char *value, const char *state, char id[32]) {
    for (int i = 0; i < TRIES; i++) {
        mr_value answer = ask(what, NULL, 1000), row;
        bool found = find_row(&answer, what, key, value, &row) && strcmp(text(&row, "state"), state) == 0;
        if (found) snprintf(id, 32, "%s", text(&row, "id"));
        mr_value_release(&answer);
        if (found) return;
        usleep(5000);
    }
    fail_msg("no %s with %s=%s became %s", what, key, value, state);
}

/* All steps of the answer in one text: "t4:3 task hold|because|release\n…". */
static void why(const char *id, char out[4096]) {
    mr_value answer = ask("why", id, 0), steps = field(&answer, "steps"), step;
    size_t used = 0;
    out[0] = '\0';
    for (mr_iter iter = mr_value_iter(&steps); mr_iter_next(&iter, &step) && used < 4000;)
        used += (size_t)snprintf(out + used, 4096 - used, "%s %s|%s|%s\n", text(&step, "id"), text(&step, "what"),
                                 text(&step, "because"), text(&step, "release"));
    mr_value_release(&answer);
}

static void assert_has(const char *whole, const char *part) {
    if (strstr(whole, part) == NULL) print_error("'%s' is not in:\n%s\n", part, whole);
    assert_non_null(strstr(whole, part));
}

static void open_gate(void) { close(open(gate, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)); }

static void finish(mr_ref ref) {
    mr_value value;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
}

/* ---- Tests. */

static void an_idle_node_is_shown(void **state) {
    start(2);
    mr_value status = ask("status", NULL, 100), node = field(&status, "node"), row;
    assert_true(number(&node, "pid") > 0);
    assert_string_equal(text(&node, "address"), address);
    assert_string_equal(text(&node, "version"), mr_version());
    assert_int_equal(number(&status, "pending"), 0);
    assert_int_equal(number(&status, "objects"), 0);
    assert_true(find_row(&status, "resources", "name", "cpu", &row));
    assert_int_equal(number(&row, "total"), 2000);
    assert_int_equal(number(&row, "free"), 2000);
    mr_value_release(&status);
    mr_value answer;
    assert_int_equal(mr_inspect_ask(inspect, "weather", NULL, 1, &answer), MR_INVALID);
    assert_int_equal(mr_inspect_ask(inspect, "why", NULL, 1, &answer), MR_INVALID);
    assert_int_equal(mr_inspect_ask(inspect, "why", "t1", 1, &answer), MR_INVALID);
    assert_int_equal(mr_inspect_ask(inspect, "why", "t999:1", 1, &answer), MR_NOT_FOUND);
    assert_int_equal(mr_inspect_ask(inspect, "why", "p999", 1, &answer), MR_NOT_FOUND);
    assert_int_equal(mr_inspect_ask(inspect, "why", "a1:1", 1, &answer), MR_NOT_FOUND);
    stop();
}

static void what_waits_says_for_what(void **state) {
    mr_ref first, second, third, never;
    char id[32], worker[32], reasons[4096];
    start(1);
    assert_int_equal(mr_call_task(mr, "hold", &first, mr_str(gate)), MR_OK);
    await_row("tasks", "name", "hold", "sent", id);
    assert_int_equal(mr_call_task(mr, "add", &second, mr_future(first), mr_int(1)), MR_OK);
    assert_int_equal(mr_call_task(mr, "add", &third, mr_future(second), mr_int(1)), MR_OK);
    assert_int_equal(
        mr_task_submit(mr, "add", &(mr_task_options){.num_gpus = 64}, MR_ARGS(mr_int(1), mr_int(2)), &never), MR_OK);
    mr_value tasks = ask_all("tasks", 100), row;
    assert_int_equal(number(&tasks, "total"), 4);
    assert_true(find_row(&tasks, "tasks", "state", "arguments", &row));
    assert_string_equal(text(&row, "name"), "add");
    assert_true(find_row(&tasks, "tasks", "state", "queued", &row));
    assert_string_equal(text(&row, "needs"), "cpu=1, gpu=64");
    snprintf(id, sizeof id, "%s", text(&row, "id"));
    mr_value_release(&tasks);

    why(id, reasons);
    assert_has(reasons, "it needs cpu=1, gpu=64, and this machine has cpu=1 at all");
    assert_has(reasons, "num_gpus");

    char last[32];
    await_row("tasks", "state", "arguments", "arguments", last);
    why(last, reasons); /* an argument, which a task makes, which is in a worker */
    assert_has(reasons, "of its arguments is not there yet; the first is o");
    assert_has(reasons, "task hold|it is with p");
    assert_has(reasons, " worker, process ");
    await_row("workers", "state", "leased", "leased", worker);
    open_gate();
    finish(third);
    finish(second);
    finish(first);
    assert_int_equal(mr_cancel(mr, never), MR_OK);
    mr_release(mr, never);
    stop();
}

static void a_worker_that_waits_names_what_for(void **state) {
    mr_ref ref;
    char id[32], reasons[4096];
    start(1);
    assert_int_equal(mr_call_task(mr, "parent", &ref, mr_str(gate)), MR_OK);
    await_row("workers", "state", "waits", "waits", id);
    await_row("tasks", "name", "hold", "sent", id); /* in the worker that it lent its slot to */
    await_row("tasks", "name", "parent", "sent", id);
    why(id, reasons);
    assert_has(reasons, "task parent|it is with p");
    assert_has(reasons, "|it waits for 1 objects; the first is o");
    assert_has(reasons, "task hold|it is with p");
    open_gate();
    finish(ref);
    stop();
}

static void an_actor_that_cannot_start_holds_its_calls(void **state) {
    mr_actor actor, alive;
    mr_ref ref, other;
    char id[32], reasons[4096];
    start(1);
    assert_int_equal(
        mr_actor_create(mr, "Echo", &(mr_task_options){.num_gpus = 1, .name = "greedy"}, MR_ARGS(), &actor), MR_OK);
    assert_int_equal(mr_call_actor(mr, actor, "nothing", &ref), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Echo", &alive), MR_OK);
    assert_int_equal(mr_call_actor(mr, alive, "nothing", &other), MR_OK);
    finish(other);
    await_row("actors", "name", "greedy", "pending", id);
    await_row("actors", "state", "alive", "alive", id);
    await_row("tasks", "name", "nothing", "queued", id);
    why(id, reasons);
    assert_has(reasons, "call of nothing to a");
    assert_has(reasons, "actor of class Echo|it needs gpu=1, and this machine has cpu=1 at all");
    assert_int_equal(mr_actor_kill(mr, actor), MR_OK);
    await_row("actors", "name", "greedy", "dead", id);
    mr_value value;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_ACTOR_DIED);
    mr_release(mr, ref);
    stop();
}

static void objects_are_shown_with_their_sizes(void **state) {
    static float data[100000];
    mr_ref small, large;
    char reasons[4096], id[32];
    start(1);
    assert_int_equal(mr_put(mr, mr_int(1), &small), MR_OK);
    assert_int_equal(mr_put(mr, mr_vector(data, 100000), &large), MR_OK);
    mr_value objects = ask_all("objects", 1), rows = field(&objects, "objects"), row;
    assert_int_equal(number(&objects, "total"), 2);
    assert_true(number(&objects, "bytes") >= (int64_t)sizeof data);
    assert_int_equal(mr_value_count(&rows), 1); /* the largest */
    assert_int_equal(mr_value_item(&rows, 0, &row), MR_OK);
    assert_true(number(&row, "bytes") >= (int64_t)sizeof data);
    snprintf(id, sizeof id, "%s", text(&row, "id"));
    mr_value_release(&objects);
    why(id, reasons);
    assert_has(reasons, "is there, ");
    mr_value memory = ask_all("memory", 100), largest = field(&memory, "largest");
    assert_int_equal(mr_value_count(&largest), 2);
    mr_value_release(&memory);
    mr_release(mr, small);
    mr_release(mr, large);
    stop();
}

/* A process that is stopped cannot answer: the others are shown, and it is named. */
static void a_stopped_worker_is_silent(void **state) {
    mr_ref ref;
    char id[32];
    start(1);
    assert_int_equal(mr_call_task(mr, "hold", &ref, mr_str(gate)), MR_OK);
    await_row("workers", "state", "leased", "leased", id);
    mr_value workers = ask("workers", NULL, 100), row;
    assert_true(find_row(&workers, "workers", "id", id, &row));
    pid_t pid = (pid_t)number(&row, "pid");
    mr_value_release(&workers);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    mr_value tasks = ask("tasks", NULL, 100), silent = field(&tasks, "silent");
    for (int i = 0; i < TRIES && mr_value_count(&silent) == 0; i++) { /* the signal takes its time */
        mr_value_release(&tasks);
        tasks = ask("tasks", NULL, 100);
        silent = field(&tasks, "silent");
    }
    assert_int_equal(number(&tasks, "total"), 1);
    assert_int_equal(mr_value_count(&silent), 1);
    assert_int_equal(mr_value_item(&silent, 0, &row), MR_OK);
    assert_int_equal(number(&row, "pid"), pid);
    assert_string_equal(text(&row, "silent"), "did not answer in time");
    mr_value_release(&tasks);
    assert_int_equal(kill(pid, SIGCONT), 0);
    open_gate();
    finish(ref);
    stop();
}

static int64_t item(const mr_value *row, size_t index) {
    mr_value value;
    int64_t result = -1;
    assert_int_equal(mr_value_item(row, index, &value), MR_OK);
    assert_int_equal(mr_value_int(&value, &result), MR_OK);
    return result;
}

typedef struct told { /* of a timeline */
    int64_t adds, running, rings, gone;
} told;

static told read_timeline(void) {
    told told = {0};
    mr_value answer = ask("timeline", NULL, 10000), rings = field(&answer, "rings"), ring, row, name;
    int64_t now_us = number(&answer, "now_us");
    for (mr_iter iter = mr_value_iter(&rings); mr_iter_next(&iter, &ring); told.rings++) {
        mr_value rows = field(&ring, "events"), gone = field(&ring, "gone_us");
        if (mr_value_kind(&gone) == MR_KIND_INT) {
            told.gone++;
            assert_has(text(&ring, "why"), "signal 9");
        }
        for (mr_iter at = mr_value_iter(&rows); mr_iter_next(&at, &row);) {
            mr_span span;
            assert_int_equal(mr_value_count(&row), 9);
            assert_int_equal(mr_value_item(&row, 3, &name), MR_OK);
            assert_int_equal(mr_value_str(&name, &span), MR_OK);
            assert_in_range(item(&row, 0), number(&ring, "opened_us"), now_us);
            if (item(&row, 1) != 0) assert_in_range(item(&row, 1), item(&row, 0), now_us);
            if (span.size == 3 && memcmp(span.data, "add", 3) == 0) told.adds += item(&row, 6);
            if (span.size == 4 && memcmp(span.data, "hold", 4) == 0 && item(&row, 1) == 0) told.running++;
        }
    }
    mr_value_release(&answer);
    return told;
}

/* Every call is there, one that runs is running, and a worker that died is remembered with what it ran. */
static void the_timeline_has_what_ran(void **state) {
    mr_ref refs[100], dying, running;
    mr_value value;
    char id[32];
    start(1);
    for (int i = 0; i < 100; i++) assert_int_equal(mr_call_task(mr, "add", &refs[i], mr_int(i), mr_int(1)), MR_OK);
    for (int i = 0; i < 100; i++) finish(refs[i]);
    assert_int_equal(mr_task_submit(mr, "die", &(mr_task_options){.max_retries = -1}, NULL, 0, &dying), MR_OK);
    assert_int_equal(mr_get(mr, dying, PATIENCE_US, &value), MR_WORKER_DIED);
    mr_release(mr, dying);
    assert_int_equal(mr_call_task(mr, "hold", &running, mr_str(gate)), MR_OK);
    await_row("tasks", "name", "hold", "sent", id);
    told told = {0};
    for (int i = 0; i < TRIES && told.running == 0; i++) told = read_timeline(); /* it is about to begin */
    assert_int_equal(told.running, 1);
    assert_int_equal(told.adds, 100);
    assert_int_equal(told.gone, 1);
    assert_true(told.rings >= 2);
    char reasons[4096];
    why(id, reasons);
    assert_has(reasons, "it runs hold for p");
    open_gate();
    finish(running);
    stop();
}

static void many_pending_tasks_are_counted_and_a_few_are_shown(void **state) {
    mr_ref first;
    char id[32];
    start(1);
    assert_int_equal(mr_call_task(mr, "hold", &first, mr_str(gate)), MR_OK);
    await_row("tasks", "name", "hold", "sent", id);
    mr_ref *refs = malloc(MANY * sizeof *refs);
    for (int i = 0; i < MANY; i++) assert_int_equal(mr_call_task(mr, "add", &refs[i], mr_int(i), mr_int(1)), MR_OK);
    mr_value tasks = ask_all("tasks", 50), rows = field(&tasks, "tasks");
    assert_int_equal(number(&tasks, "total"), MANY + 1);
    assert_int_equal(mr_value_count(&rows), 50);
    mr_value_release(&tasks);
    for (int i = MANY - 1; i >= 0; i--) {
        assert_int_equal(mr_cancel(mr, refs[i]), MR_OK);
        mr_release(mr, refs[i]);
    }
    free(refs);
    open_gate();
    finish(first);
    stop();
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
    start(1);
    mr_value status = ask("status", NULL, 1), node = field(&status, "node"), answer;
    pid_t pid = (pid_t)number(&node, "pid");
    mr_value_release(&status);
    assert_int_equal(kill(pid, SIGKILL), 0);
    mr_status outcome = MR_OK;
    for (int i = 0; i < TRIES && outcome == MR_OK; i++) { /* the signal takes its time */
        outcome = mr_inspect_ask(inspect, "status", NULL, 1, &answer);
        if (outcome == MR_OK) mr_value_release(&answer);
    }
    assert_int_equal(outcome, MR_CLOSED);
    mr_inspect *another;
    outcome = MR_CLOSED;
    for (int i = 0; i < TRIES && outcome == MR_CLOSED; i++) outcome = mr_inspect_open(address, &another);
    assert_int_equal(outcome, MR_NOT_FOUND);
    assert_int_equal(mr_inspect_open("/nowhere/at/all", &another), MR_NOT_FOUND);
    assert_int_equal(mr_inspect_open("", &another), MR_INVALID);
    stop();
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK;
    outside = getenv("TMPDIR") == NULL ? NULL : strdup(getenv("TMPDIR"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_node_is_shown),
        cmocka_unit_test(what_waits_says_for_what),
        cmocka_unit_test(a_worker_that_waits_names_what_for),
        cmocka_unit_test(an_actor_that_cannot_start_holds_its_calls),
        cmocka_unit_test(objects_are_shown_with_their_sizes),
        cmocka_unit_test(a_stopped_worker_is_silent),
        cmocka_unit_test(the_timeline_has_what_ran),
        cmocka_unit_test(many_pending_tasks_are_counted_and_a_few_are_shown),
        cmocka_unit_test(json_is_made_of_anything),
        cmocka_unit_test(a_node_that_is_killed_is_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
