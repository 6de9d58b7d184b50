/* cancel_test.c — cancelled tasks and calls: those that wait, those that run, and bodies that do not check for
 * cancellation. Bodies and the test communicate through files of a folder. */
#include <pthread.h>
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
#include "miniray/runtime.h"
#include "runtime/process/context.h"
#include "tests/support/temp_dir.h"

enum { PATIENCE_US = 20 * 1000 * 1000, PATIENCE_MS = PATIENCE_US / 1000, PATH_SIZE = TEMP_DIR_FOLDER_MAX + 32 };

static mr_context *mr;
static char folder[TEMP_DIR_FOLDER_MAX];

/* ---- Marks in the folder. */

static void path_of(const char *where, const char *name, char out[PATH_SIZE]) {
    snprintf(out, PATH_SIZE, "%s/%s", where, name);
}

static void mark(const char *where, const char *name) {
    char path[PATH_SIZE];
    path_of(where, name, path);
    FILE *file = fopen(path, "a");
    if (file == NULL || fputc('x', file) == EOF || fclose(file) != 0) abort();
}

static int marks(const char *where, const char *name) {
    char path[PATH_SIZE];
    path_of(where, name, path);
    FILE *file = fopen(path, "r");
    if (file == NULL) return 0;
    int count = 0;
    while (fgetc(file) != EOF) count++;
    fclose(file);
    return count;
}

static bool await_mark(const char *where, const char *name) {
    for (int i = 0; i < PATIENCE_MS && marks(where, name) == 0; i++) usleep(1000);
    return marks(where, name) > 0;
}

/* Argument 0 of every body: the folder. */
static mr_status folder_of(mr_call *call, char out[TEMP_DIR_FOLDER_MAX]) {
    mr_span text;
    MR_TRY(mr_arg_str(call, 0, &text));
    snprintf(out, TEMP_DIR_FOLDER_MAX, "%.*s", (int)text.size, (const char *)text.data);
    return MR_OK;
}

/* ---- Tasks and actors. */

MR_TASK(leave_mark) {
    char where[TEMP_DIR_FOLDER_MAX];
    MR_TRY(folder_of(call, where));
    mark(where, "ran");
    return mr_return(call, mr_int(1));
}

MR_TASK(nothing) { return MR_OK; }

/* Never checks for cancellation and never ends. */
MR_TASK(deaf) {
    char where[TEMP_DIR_FOLDER_MAX];
    MR_TRY(folder_of(call, where));
    mark(where, "deaf");
    for (;;) pause();
}

MR_TASK(hold_on) {
    char where[TEMP_DIR_FOLDER_MAX];
    MR_TRY(folder_of(call, where));
    for (int i = 0; i < PATIENCE_MS * 10 && marks(where, "go") == 0; i++) usleep(100);
    return MR_OK;
}

MR_TASK(die) {
    char where[TEMP_DIR_FOLDER_MAX];
    MR_TRY(folder_of(call, where));
    mark(where, "died");
    return kill(getpid(), SIGKILL);
}

/* Starts a child after the test has cancelled this task, which never checks for cancellation; writes the child's result
 * for the test. */
MR_TASK(late_parent) {
    char where[TEMP_DIR_FOLDER_MAX];
    mr_context *here = mr_call_context(call);
    mr_ref child;
    mr_value value;
    MR_TRY(folder_of(call, where));
    mark(where, "parent");
    if (!await_mark(where, "cancelled")) return MR_TIMEOUT;
    mr_status status;
    while ((status = mr_call_task(here, "leave_mark", &child, mr_str(where))) == MR_OK) {
        status = mr_get(here, child, MR_FOREVER, &value); /* a late cancellation ends the child, too */
        mr_release(here, child);
        if (status == MR_CANCELLED) break;
        if (status == MR_OK) mr_value_release(&value);
    }
    mark(where, status == MR_CANCELLED ? "child cancelled" : "child failed");
    return status;
}

MR_CREATE(Bell) { return mr_set_self(call, calloc(1, sizeof(int)), free); }
MR_METHOD(Bell, ring) { return mr_return(call, mr_int(++*(int *)mr_self(call))); }
MR_METHOD(Bell, until_cancelled) {
    char where[TEMP_DIR_FOLDER_MAX];
    MR_TRY(folder_of(call, where));
    mark(where, "rings");
    while (!mr_call_cancelled(call)) usleep(1000);
    mark(where, "stopped");
    return MR_OK;
}
/* Calls another Bell, which never answers, and waits for that call. */
MR_METHOD(Bell, have_it_rung) {
    mr_context *here = mr_call_context(call);
    char where[TEMP_DIR_FOLDER_MAX];
    mr_actor other;
    mr_ref ref;
    mr_value value;
    MR_TRY(folder_of(call, where));
    MR_TRY(mr_arg_actor(call, 1, &other));
    MR_TRY(mr_call_actor(here, other, "until_cancelled", &ref, mr_str(where)));
    return mr_get(here, ref, MR_FOREVER, &value);
}

/* Defers one call and answers others meanwhile. */
MR_CREATE(Desk) { return mr_set_self(call, calloc(1, sizeof(mr_call *)), free); }
MR_METHOD(Desk, hold) {
    mr_defer(call);
    *(mr_call **)mr_self(call) = call;
    return MR_OK;
}
/* Continues the deferred call: calls a Bell for it. */
MR_METHOD(Desk, go_on) {
    mr_context *here = mr_call_context(call);
    char where[TEMP_DIR_FOLDER_MAX];
    mr_actor doorbell;
    mr_ref ref;
    MR_TRY(folder_of(call, where));
    MR_TRY(mr_arg_actor(call, 1, &doorbell));
    mr_resume(here, *(mr_call **)mr_self(call));
    mr_status status = mr_call_actor(here, doorbell, "until_cancelled", &ref, mr_str(where));
    mr_resume(here, NULL);
    if (status == MR_OK) mr_release(here, ref);
    return status;
}
MR_METHOD(Desk, give_up) {
    mr_call *held = *(mr_call **)mr_self(call);
    mr_finish(held, mr_fail(held, "nobody wants it"));
    return MR_OK;
}

/* Starts the task that argument 1 names, and returns its future. */
MR_CREATE(Giver) { return mr_set_self(call, calloc(1, sizeof(mr_ref)), free); }
MR_METHOD(Giver, give) {
    char where[TEMP_DIR_FOLDER_MAX], name[64];
    mr_span text;
    mr_ref *ref = mr_self(call);
    MR_TRY(folder_of(call, where));
    MR_TRY(mr_arg_str(call, 1, &text));
    snprintf(name, sizeof name, "%.*s", (int)text.size, (const char *)text.data);
    mr_task_options options = MR_OPTIONS(mr_task_options, .max_retries = -1);
    mr_arg arg = mr_str(where);
    MR_TRY(mr_task_submit(mr_call_context(call), name, &options, &arg, 1, ref));
    mr_arg item = mr_future(*ref);
    return mr_return(call, mr_list(&item, 1));
}
MR_METHOD(Giver, outcome) { /* status of the future as its owner sees it */
    const mr_ref *ref = mr_self(call);
    mr_value value;
    mr_status status = mr_get(mr_call_context(call), *ref, PATIENCE_US, &value);
    if (status == MR_OK) mr_value_release(&value);
    mr_release(mr_call_context(call), *ref);
    return mr_return(call, mr_int(status));
}

MR_TASK(until_cancelled) {
    char where[TEMP_DIR_FOLDER_MAX];
    MR_TRY(folder_of(call, where));
    mark(where, "rings");
    while (!mr_call_cancelled(call)) usleep(1000);
    mark(where, "stopped");
    return MR_OK;
}

/* Ends when the test creates a file, or when cancelled. */
MR_TASK(until_told) {
    char where[TEMP_DIR_FOLDER_MAX];
    MR_TRY(folder_of(call, where));
    mark(where, "rings");
    while (!mr_call_cancelled(call) && marks(where, "cancelled") == 0) usleep(1000);
    mark(where, mr_call_cancelled(call) ? "stopped" : "ran");
    return MR_OK;
}

/* Starts one until_told, and waits for it until cancelled. */
MR_TASK(parent_of_one) {
    char where[TEMP_DIR_FOLDER_MAX];
    mr_context *here = mr_call_context(call);
    mr_ref child;
    unsigned char ready;
    size_t count;
    MR_TRY(folder_of(call, where));
    MR_TRY(mr_call_task(here, "until_told", &child, mr_str(where)));
    while (!mr_call_cancelled(call))
        if (mr_wait(here, &child, 1, 1, 10 * 1000, &ready, &count) == MR_OK) usleep(1000);
    mark(where, "parent");
    return MR_OK;
}

/* ---- Tests. */

static mr_status outcome(mr_ref ref, int64_t *number) {
    mr_value value;
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    if (status == MR_OK) {
        if (number != NULL) assert_int_equal(mr_value_int(&value, number), MR_OK);
        mr_value_release(&value);
    }
    mr_release(mr, ref);
    return status;
}

static void a_call_that_waits_is_removed(void **state) {
    mr_actor doorbell;
    mr_ref busy, late, refs[8], never;
    int64_t number;
    assert_int_equal(mr_new_actor(mr, "Bell", &doorbell), MR_OK);
    assert_int_equal(mr_call_actor(mr, doorbell, "until_cancelled", &busy, mr_str(folder)), MR_OK);
    assert_true(await_mark(folder, "rings"));
    for (int i = 0; i < 8; i++) assert_int_equal(mr_call_actor(mr, doorbell, "ring", &refs[i]), MR_OK);
    for (int i = 0; i < 8; i += 2) assert_int_equal(mr_cancel(mr, refs[i]), MR_OK);
    for (int i = 0; i < 8; i += 2) assert_int_equal(outcome(refs[i], NULL), MR_CANCELLED);
    assert_int_equal(mr_cancel_force(mr, busy), MR_INVALID);
    assert_int_equal(mr_cancel(mr, busy), MR_OK); /* the running call is cancelled */
    assert_int_equal(outcome(busy, NULL), MR_CANCELLED);
    assert_true(await_mark(folder, "stopped"));
    for (int i = 1; i < 8; i += 2) {
        assert_int_equal(outcome(refs[i], &number), MR_OK);
        assert_int_equal(number, i / 2 + 1); /* cancelled calls between them never ran */
    }
    /* A cancelled call whose arguments are pending holds back no other call. */
    assert_int_equal(mr_call_task(mr, "deaf", &never, mr_str(folder)), MR_OK);
    assert_int_equal(mr_call_actor(mr, doorbell, "ring", &late, mr_future(never)), MR_OK);
    assert_int_equal(mr_call_actor(mr, doorbell, "ring", &refs[0]), MR_OK);
    assert_int_equal(mr_cancel(mr, late), MR_OK);
    assert_int_equal(outcome(late, NULL), MR_CANCELLED);
    assert_int_equal(outcome(refs[0], &number), MR_OK);
    assert_int_equal(number, 5);
    assert_true(await_mark(folder, "deaf"));
    assert_int_equal(mr_cancel_force(mr, never), MR_OK);
    assert_int_equal(outcome(never, NULL), MR_CANCELLED);
    mr_actor_release(mr, doorbell);
}

static void a_method_takes_its_calls_along(void **state) {
    mr_actor first, second;
    mr_ref ref;
    assert_int_equal(mr_new_actor(mr, "Bell", &first), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Bell", &second), MR_OK);
    assert_int_equal(mr_call_actor(mr, first, "have_it_rung", &ref, mr_str(folder), mr_handle(second)), MR_OK);
    assert_true(await_mark(folder, "rings"));
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    assert_int_equal(outcome(ref, NULL), MR_CANCELLED);
    assert_true(await_mark(folder, "stopped"));
    mr_actor_release(mr, first);
    mr_actor_release(mr, second);
}

static void a_deferred_call_takes_along_what_was_started_for_it(void **state) {
    mr_actor desk, doorbell;
    mr_ref held, gone_on, given_up;
    assert_int_equal(mr_new_actor(mr, "Desk", &desk), MR_OK);
    assert_int_equal(mr_new_actor(mr, "Bell", &doorbell), MR_OK);
    assert_int_equal(mr_call_actor(mr, desk, "hold", &held), MR_OK);
    assert_int_equal(mr_call_actor(mr, desk, "go_on", &gone_on, mr_str(folder), mr_handle(doorbell)), MR_OK);
    assert_int_equal(outcome(gone_on, NULL), MR_OK);
    assert_true(await_mark(folder, "rings"));
    assert_int_equal(mr_cancel(mr, held), MR_OK);
    assert_int_equal(outcome(held, NULL), MR_CANCELLED);
    assert_true(await_mark(folder, "stopped"));
    assert_int_equal(mr_call_actor(mr, desk, "give_up", &given_up), MR_OK);
    assert_int_equal(outcome(given_up, NULL), MR_OK);
    mr_actor_release(mr, desk);
    mr_actor_release(mr, doorbell);
}

/* A future of a task that the Giver has started, received by this process: retained. */
static mr_ref given(mr_actor giver, const char *name) {
    mr_ref list, ref;
    mr_value value, item;
    assert_int_equal(mr_call_actor(mr, giver, "give", &list, mr_str(folder), mr_str(name)), MR_OK);
    assert_int_equal(mr_get(mr, list, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_item(&value, 0, &item), MR_OK);
    assert_int_equal(mr_value_ref(&item, &ref), MR_OK);
    assert_int_equal(mr_retain(mr, ref), MR_OK);
    mr_value_release(&value);
    mr_release(mr, list);
    return ref;
}

static void assert_child_goes_on(mr_ref parent) {
    assert_true(await_mark(folder, "rings"));
    assert_int_equal(mr_cancel_only(mr, parent), MR_OK);
    assert_int_equal(outcome(parent, NULL), MR_CANCELLED);
    assert_true(await_mark(folder, "parent")); /* the parent was cancelled, and so was its child, if any */
    mark(folder, "cancelled");
    assert_true(await_mark(folder, "ran"));
    assert_int_equal(marks(folder, "stopped"), 0);
}

static void children_continue_if_only_the_parent_is_cancelled(void **state) {
    mr_ref parent;
    assert_int_equal(mr_call_task(mr, "parent_of_one", &parent, mr_str(folder)), MR_OK);
    assert_child_goes_on(parent);
}

/* The task's parent is cancelled by the process that started the parent. */
static void and_if_another_process_does_it(void **state) {
    mr_actor giver;
    assert_int_equal(mr_new_actor(mr, "Giver", &giver), MR_OK);
    assert_child_goes_on(given(giver, "parent_of_one"));
    mr_actor_release(mr, giver);
}

/* The worker is killed; tasks that waited in that worker without retries run nevertheless. */
static void force_ends_what_does_not_listen(void **state) {
    enum { BEHIND = 16, BEFORE = 200 };
    mr_ref deaf, behind[BEHIND], missing;
    mr_arg args[] = {mr_str(folder)};
    mr_task_options once = MR_OPTIONS(mr_task_options, .max_retries = -1);
    int64_t number;
    for (int i = 0; i < BEFORE; i++) { /* short tasks: several are sent to a worker at once */
        assert_int_equal(mr_call_task(mr, "nothing", &behind[0]), MR_OK);
        assert_int_equal(outcome(behind[0], NULL), MR_OK);
    }
    assert_int_equal(mr_call_task(mr, "deaf", &deaf, mr_str(folder)), MR_OK);
    for (int i = 0; i < BEHIND; i++)
        assert_int_equal(mr_task_submit(mr, "leave_mark", &once, args, 1, &behind[i]), MR_OK);
    assert_true(await_mark(folder, "deaf"));
    assert_int_equal(mr_cancel_force(mr, deaf), MR_OK);
    assert_int_equal(outcome(deaf, NULL), MR_CANCELLED);
    for (int i = 0; i < BEHIND; i++) assert_int_equal(outcome(behind[i], &number), MR_OK);
    assert_int_equal(marks(folder, "deaf"), 1); /* no retry */
    assert_int_equal(marks(folder, "ran"), BEHIND);
    assert_int_equal(mr_cancel_force(mr, deaf), MR_NOT_FOUND);
    assert_int_equal(mr_call_task(mr, "leave_mark", &missing, mr_future(behind[0])), MR_INVALID);
}

/* The first task ends by itself; the second begins and kills the worker. Only then, before its result has arrived, is
 * the first cancelled by force. False: the second task was not queued in the same worker, which is not guaranteed. */
static bool force_comes_too_late(void) {
    enum { BEFORE = 200, HELD_MS = 500 };
    mr_ref held, dies, ref;
    mr_arg args[] = {mr_str(folder)};
    mr_task_options once = MR_OPTIONS(mr_task_options, .max_retries = -1);
    char go[PATH_SIZE];
    int before = marks(folder, "died");
    path_of(folder, "go", go);
    unlink(go);
    for (int i = 0; i < BEFORE; i++) { /* short tasks: several are sent to a worker at once */
        assert_int_equal(mr_call_task(mr, "nothing", &ref), MR_OK);
        assert_int_equal(outcome(ref, NULL), MR_OK);
    }
    assert_int_equal(mr_task_submit(mr, "hold_on", &once, args, 1, &held), MR_OK);
    assert_int_equal(mr_task_submit(mr, "die", &once, args, 1, &dies), MR_OK);
    context_lock(mr); /* with the lock held, no thread reads messages */
    mark(folder, "go");
    for (int i = 0; i < HELD_MS && marks(folder, "died") == before; i++) usleep(1000);
    bool died = marks(folder, "died") > before;
    mr_status status = died ? invocation_cancel(object_find(&mr->worker.objects, held), WIRE_BY_FORCE) : MR_OK;
    context_unlock(mr);
    assert_int_equal(status, MR_OK);
    assert_int_equal(outcome(held, NULL), died ? MR_CANCELLED : MR_OK);
    assert_int_equal(outcome(dies, NULL), MR_WORKER_DIED);
    assert_int_equal(marks(folder, "died"), before + 1);
    return died;
}

/* A task that has begun, and has no retries, is not repeated. */
static void force_that_comes_too_late_repeats_nothing(void **state) {
    enum { ROUNDS = 10 };
    for (int i = 0; i < ROUNDS; i++)
        if (force_comes_too_late()) return;
    skip(); /* on a machine where all tasks are slow */
}

static void a_cancelled_body_starts_no_more(void **state) {
    mr_ref ref;
    assert_int_equal(mr_call_task(mr, "late_parent", &ref, mr_str(folder)), MR_OK);
    assert_true(await_mark(folder, "parent"));
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    assert_int_equal(outcome(ref, NULL), MR_CANCELLED);
    mark(folder, "cancelled");
    assert_true(await_mark(folder, "child cancelled"));
    assert_int_equal(mr_call_task(mr, "leave_mark", &ref, mr_str(folder)), MR_OK); /* the worker is alive */
    assert_int_equal(outcome(ref, NULL), MR_OK);
}

/* A process that has received the future of a task may cancel the task; the owner carries out the cancellation. */
static void a_future_of_another_process(void **state) {
    mr_actor giver;
    mr_ref seen;
    int64_t status;
    assert_int_equal(mr_new_actor(mr, "Giver", &giver), MR_OK);
    mr_ref ref = given(giver, "until_cancelled");
    assert_true(await_mark(folder, "rings"));
    assert_int_equal(mr_cancel(mr, ref), MR_OK);
    assert_int_equal(outcome(ref, NULL), MR_CANCELLED);
    assert_true(await_mark(folder, "stopped"));
    assert_int_equal(mr_call_actor(mr, giver, "outcome", &seen), MR_OK);
    assert_int_equal(outcome(seen, &status), MR_OK);
    assert_int_equal(status, MR_CANCELLED);

    ref = given(giver, "deaf"); /* by force, too */
    assert_true(await_mark(folder, "deaf"));
    assert_int_equal(mr_cancel_force(mr, ref), MR_OK);
    assert_int_equal(outcome(ref, NULL), MR_CANCELLED);
    assert_int_equal(mr_call_actor(mr, giver, "outcome", &seen), MR_OK);
    assert_int_equal(outcome(seen, &status), MR_OK);
    assert_int_equal(status, MR_CANCELLED);

    ref = given(giver, "nothing"); /* a finished task keeps its result */
    mr_value value;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    mr_value_release(&value);
    assert_int_equal(mr_cancel(mr, ref), MR_NOT_FOUND);
    mr_release(mr, ref);
    mr_actor_release(mr, giver);
}

/* The owner, which would have to cancel the task, is dead. */
static void a_future_of_a_process_that_is_gone(void **state) {
    mr_actor giver;
    assert_int_equal(mr_new_actor(mr, "Giver", &giver), MR_OK);
    mr_ref ref = given(giver, "until_cancelled");
    assert_true(await_mark(folder, "rings"));
    assert_int_equal(mr_actor_kill(mr, giver), MR_OK);
    mr_value value;
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OBJECT_LOST);
    assert_int_equal(mr_cancel(mr, ref), MR_NOT_FOUND); /* the future has failed by now */
    mr_release(mr, ref);
    mr_actor_release(mr, giver);
}

static void *waits(void *argument) {
    const mr_ref *ref = argument;
    mr_value value;
    return (void *)(intptr_t)mr_get(mr, *ref, PATIENCE_US, &value);
}

/* A thread that sleeps until a result arrives wakes up when another thread cancels the task, although no message
 * arrives. */
static void another_thread_waits_for_it(void **state) {
    mr_actor doorbell;
    mr_ref busy, late;
    pthread_t thread;
    void *status;
    assert_int_equal(mr_new_actor(mr, "Bell", &doorbell), MR_OK);
    assert_int_equal(mr_call_actor(mr, doorbell, "until_cancelled", &busy, mr_str(folder)), MR_OK);
    assert_true(await_mark(folder, "rings"));
    assert_int_equal(mr_call_actor(mr, doorbell, "ring", &late, mr_future(busy)), MR_OK);
    assert_int_equal(pthread_create(&thread, NULL, waits, &late), 0);
    usleep(50 * 1000); /* the thread most probably sleeps by now */
    int64_t began_us = clock_now_us(clock_real());
    assert_int_equal(mr_cancel(mr, late), MR_OK);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, MR_CANCELLED);
    assert_true(clock_now_us(clock_real()) - began_us < PATIENCE_US / 2); /* before the timeout of the wait */
    mr_release(mr, late);
    assert_int_equal(mr_cancel(mr, busy), MR_OK);
    assert_int_equal(outcome(busy, NULL), MR_CANCELLED);
    mr_actor_release(mr, doorbell);
}

static int set_up(void **state) {
    if (!temp_dir_folder(folder)) return 1;
    return mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 32 << 20), &mr) != MR_OK;
}

static int tear_down(void **state) {
    static const char *const names[] = {"ran",   "deaf",    "parent",          "cancelled",    "go",
                                        "rings", "stopped", "child cancelled", "child failed", "died"};
    char path[PATH_SIZE];
    mr_shutdown(mr);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        path_of(folder, names[i], path);
        unlink(path);
    }
    return rmdir(folder);
}

int main(int argc, char **argv) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_call_that_waits_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_thread_waits_for_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_method_takes_its_calls_along, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_deferred_call_takes_along_what_was_started_for_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(children_continue_if_only_the_parent_is_cancelled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(and_if_another_process_does_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(force_ends_what_does_not_listen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(force_that_comes_too_late_repeats_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cancelled_body_starts_no_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_future_of_another_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_future_of_a_process_that_is_gone, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
