/* runtime_handles_test.c — an actor lives as long as a process has a handle of it, and then ends. */
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

#include "miniray/runtime.h"
#include "tests/support/object_listing.h"
#include "tests/support/runtime_main.h"
#include "tests/support/temp_dir.h"

enum { PATIENCE_US = 30 * 1000 * 1000 };

/* ---- Tasks and actors. */

MR_CREATE(Counter) { return mr_set_self(call, calloc(1, sizeof(int64_t)), free); }
MR_METHOD(Counter, add) {
    int64_t *count = mr_self(call);
    usleep(1000);
    return mr_return(call, mr_int(++*count));
}
MR_METHOD(Counter, pid) { return mr_return(call, mr_int(getpid())); }

/* Writes a file, named by its creator, when its state is destroyed. */
static void leave_file(void *path) {
    FILE *file = fopen(path, "w");
    if (file != NULL) fclose(file);
    free(path);
}
MR_CREATE(Leaver) {
    mr_span path;
    MR_TRY(mr_arg_str(call, 0, &path));
    return mr_set_self(call, strndup(path.data, path.size), leave_file);
}
MR_METHOD(Leaver, pid) { return mr_return(call, mr_int(getpid())); }

/* Keeps the handle of another actor. */
MR_CREATE(Keeper) { return mr_set_self(call, calloc(1, sizeof(mr_actor)), free); }
MR_METHOD(Keeper, keep) {
    mr_actor *self = mr_self(call);
    MR_TRY(mr_arg_actor(call, 0, self));
    return mr_actor_retain(mr_call_context(call), *self);
}
MR_METHOD(Keeper, pass_on) {
    mr_actor *self = mr_self(call);
    return mr_return(call, mr_handle(*self));
}
MR_METHOD(Keeper, drop) {
    mr_actor *self = mr_self(call);
    mr_actor_release(mr_call_context(call), *self);
    return MR_OK;
}

MR_TASK(use) { /* uses the handle for a while */
    mr_actor counter;
    int64_t number = 0;
    MR_TRY(mr_arg_actor(call, 0, &counter));
    for (int i = 0; i < 20; i++) {
        mr_ref ref;
        mr_value value;
        MR_TRY(mr_call_actor(mr_call_context(call), counter, "add", &ref));
        MR_TRY(mr_get(mr_call_context(call), ref, PATIENCE_US, &value));
        MR_TRY(mr_value_int(&value, &number));
        mr_value_release(&value);
        mr_release(mr_call_context(call), ref);
    }
    return mr_return(call, mr_int(number));
}

MR_TASK(make_counter) {
    mr_actor counter;
    MR_TRY(mr_new_actor(mr_call_context(call), "Counter", &counter));
    mr_status status = mr_return(call, mr_handle(counter));
    mr_actor_release(mr_call_context(call), counter);
    return status;
}

/* ---- Helpers. */

static int64_t result(mr_ref ref) {
    mr_value value;
    int64_t number = -1;
    mr_status status = mr_get(mr, ref, PATIENCE_US, &value);
    if (status != MR_OK) print_message("%s\n", mr_last_error());
    assert_int_equal(status, MR_OK);
    if (mr_value_kind(&value) == MR_KIND_INT) assert_int_equal(mr_value_int(&value, &number), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
    return number;
}

static mr_actor new_actor(const char *class_name) {
    mr_actor actor;
    assert_int_equal(mr_actor_create(mr, class_name, NULL, NULL, 0, &actor), MR_OK);
    return actor;
}

static int64_t call(mr_actor actor, const char *method) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, actor, method, &ref), MR_OK);
    return result(ref);
}

/* Waits until the actor's process has ended. */
static void assert_ends(int64_t pid) {
    for (int i = 0; i < 3000 && kill((pid_t)pid, 0) == 0; i++) usleep(10000);
    assert_int_not_equal(kill((pid_t)pid, 0), 0);
}

/* Asserts that the actor lives, and that no message in flight ends it. */
static void assert_lives(mr_actor actor) {
    (void)object_listing_of(mr); /* the node has processed all earlier messages */
    assert_true(call(actor, "pid") > 0);
}

/* ---- Tests. */

static void the_last_handle_ends_it(void **state) {
    mr_actor counter = new_actor("Counter");
    int64_t pid = call(counter, "pid");
    assert_int_equal(mr_actor_retain(mr, counter), MR_OK);
    mr_actor_release(mr, counter);
    assert_lives(counter);
    mr_actor_release(mr, counter);
    assert_ends(pid);
    assert_int_equal(mr_actor_retain(mr, counter), MR_NOT_FOUND);
}

/* The last handle's end destroys the actor's state; a killed actor does not destroy its state. */
static void its_state_ends_with_the_last_handle(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    mr_actor leaver;
    assert_true(temp_dir_folder(folder));
    snprintf(path, sizeof path, "%s/left", folder);
    for (int killed = 1; killed >= 0; killed--) {
        assert_int_equal(mr_new_actor(mr, "Leaver", &leaver, mr_str(path)), MR_OK);
        int64_t pid = call(leaver, "pid");
        if (killed) assert_int_equal(mr_actor_kill(mr, leaver), MR_OK);
        mr_actor_release(mr, leaver);
        assert_ends(pid);
        assert_int_equal(access(path, F_OK) == 0, !killed);
    }
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

static void calls_that_were_made_run_first(void **state) {
    enum { CALLS = 50 };
    mr_actor counter = new_actor("Counter");
    mr_ref pid, refs[CALLS];
    assert_int_equal(mr_call_actor(mr, counter, "pid", &pid), MR_OK);
    for (int i = 0; i < CALLS; i++) assert_int_equal(mr_call_actor(mr, counter, "add", &refs[i]), MR_OK);
    mr_actor_release(mr, counter);
    for (int i = 0; i < CALLS; i++) assert_int_equal(result(refs[i]), i + 1);
    assert_ends(result(pid));
}

static void a_task_that_has_it_keeps_it(void **state) {
    mr_actor counter = new_actor("Counter");
    int64_t pid = call(counter, "pid");
    mr_ref used;
    assert_int_equal(mr_call_task(mr, "use", &used, mr_handle(counter)), MR_OK);
    mr_actor_release(mr, counter);
    assert_int_equal(result(used), 20);
    assert_ends(pid);
}

static void another_actor_keeps_it(void **state) {
    mr_actor metadata = new_actor("Keeper"), counter = new_actor("Counter");
    int64_t pid = call(counter, "pid");
    mr_ref ref;
    mr_value value;
    mr_actor back;
    assert_int_equal(mr_call_actor(mr, metadata, "keep", &ref, mr_handle(counter)), MR_OK);
    (void)result(ref);
    mr_actor_release(mr, counter);
    assert_lives(counter);
    assert_int_equal(mr_call_actor(mr, metadata, "pass_on", &ref), MR_OK); /* the call also returns the handle */
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_actor(&value, &back), MR_OK);
    assert_int_equal(mr_actor_retain(mr, back), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
    (void)call(metadata, "drop");
    assert_lives(counter);
    mr_actor_release(mr, back);
    assert_ends(pid);
    mr_actor_release(mr, metadata);
}

/* The handle of a dead process does not keep the actor alive. */
static void a_metadata_that_dies_lets_go(void **state) {
    mr_actor metadata = new_actor("Keeper"), counter = new_actor("Counter");
    int64_t pid = call(counter, "pid");
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, metadata, "keep", &ref, mr_handle(counter)), MR_OK);
    (void)result(ref);
    mr_actor_release(mr, counter);
    assert_lives(counter);
    assert_int_equal(mr_actor_kill(mr, metadata), MR_OK);
    assert_ends(pid);
    mr_actor_release(mr, metadata);
}

static void a_result_is_a_handle(void **state) {
    mr_ref ref;
    mr_value value;
    mr_actor counter;
    assert_int_equal(mr_call_task(mr, "make_counter", &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_actor(&value, &counter), MR_OK);
    int64_t pid = call(counter, "pid");
    assert_lives(counter); /* the value holds the actor after its creator has released it */
    mr_value_release(&value);
    mr_release(mr, ref);
    assert_ends(pid);
}

static void a_detached_one_stays(void **state) {
    mr_actor counter, found;
    mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "stays", .detached = 1);
    assert_int_equal(mr_actor_create(mr, "Counter", &options, NULL, 0, &counter), MR_OK);
    (void)call(counter, "pid");
    mr_actor_release(mr, counter);
    assert_int_equal(mr_actor_find(mr, "stays", NULL, &found), MR_OK);
    assert_lives(found);
    assert_int_equal(mr_actor_kill(mr, found), MR_OK);
    mr_actor_release(mr, found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_state_ends_with_the_last_handle),
        cmocka_unit_test(the_last_handle_ends_it),
        cmocka_unit_test(calls_that_were_made_run_first),
        cmocka_unit_test(a_task_that_has_it_keeps_it),
        cmocka_unit_test(another_actor_keeps_it),
        cmocka_unit_test(a_metadata_that_dies_lets_go),
        cmocka_unit_test(a_result_is_a_handle),
        cmocka_unit_test(a_detached_one_stays),
    };
    return runtime_main(tests);
}
