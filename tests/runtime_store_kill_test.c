/* runtime_store_kill_test.c — large values and references, with a worker or the driver killed at each step (every
 * failpoint of the store and of the runtime's use of it), and with a full disk. The remaining processes get the right
 * value or an error with the cause; then another round works; then nothing is left. All tests but that of the disk need
 * a build with failpoints. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/failpoint.h"
#include "miniray/runtime.h"
#include "tests/support/object_listing.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

enum { PATIENCE_US = 60 * 1000 * 1000, FLOATS = 1 << 18, MB = 1 << 20, CHILD_MS = 120 * 1000, SKIPPED = 77 };

static mr_context *mr;

/* ---- Tasks and actors. */

MR_TASK(arm) { /* kills this worker at the nth visit of a failpoint */
    mr_span text;
    char spec[128];
    MR_TRY(mr_arg_str(call, 0, &text));
    snprintf(spec, sizeof spec, "%.*s", (int)text.size, (const char *)text.data);
    return failpoint_arm(spec);
}

MR_TASK(doubled) { /* returns a large value, and a reference to another */
    mr_tensor tensor;
    mr_value list, item, inner;
    mr_ref ref;
    MR_TRY(mr_arg_tensor(call, 0, &tensor));
    MR_TRY(mr_arg_value(call, 1, &list));
    MR_TRY(mr_value_item(&list, 0, &item));
    MR_TRY(mr_value_ref(&item, &ref));
    MR_TRY(mr_get(mr_call_context(call), ref, PATIENCE_US, &inner));
    mr_tensor other;
    mr_status status = mr_value_tensor(&inner, &other);
    float *data = malloc(tensor.bytes);
    for (size_t i = 0; status == MR_OK && i < tensor.bytes / sizeof *data; i++)
        data[i] = ((const float *)tensor.data)[i] + ((const float *)other.data)[i];
    if (status == MR_OK) status = mr_return(call, mr_vector(data, tensor.bytes / sizeof *data));
    free(data);
    mr_value_release(&inner);
    return status;
}

MR_TASK(slow_tensor) {
    usleep(2000);
    float *data = calloc(FLOATS, sizeof *data);
    for (int i = 0; i < FLOATS; i++) data[i] = 1;
    mr_status status = mr_return(call, mr_vector(data, FLOATS));
    free(data);
    return status;
}

MR_TASK(started) { /* returns a reference, owned by the worker, to the result of a task */
    mr_ref ref;
    MR_TRY(mr_task_submit(mr_call_context(call), "slow_tensor", NULL, NULL, 0, &ref));
    mr_arg item = mr_future(ref);
    mr_status status = mr_return(call, mr_list(&item, 1));
    mr_release(mr_call_context(call), ref);
    return status;
}

/* ---- One round: values go to workers and back. */

static bool is_right(mr_ref ref, float with) {
    mr_value value;
    mr_tensor tensor;
    if (mr_get(mr, ref, PATIENCE_US, &value) != MR_OK) return mr_last_error()[0] != '\0'; /* an error has a text */
    bool right = mr_value_tensor(&value, &tensor) == MR_OK && tensor.bytes == FLOATS * sizeof(float) &&
                 ((const float *)tensor.data)[FLOATS - 1] == with;
    mr_value_release(&value);
    return right;
}

static bool round_trip(void) {
    float *data = calloc(FLOATS, sizeof *data);
    for (int i = 0; i < FLOATS; i++) data[i] = 1;
    mr_ref put, made, list, sum, more;
    bool fine = true;
    if (mr_put(mr, mr_vector(data, FLOATS), &put) == MR_OK) {
        mr_arg item = mr_future(put);
        if (mr_call_task(mr, "doubled", &made, mr_vector(data, FLOATS), mr_list(&item, 1)) == MR_OK) {
            if (mr_call_task(mr, "doubled", &more, mr_future(made), mr_list(&item, 1)) == MR_OK) {
                fine = is_right(more, 3) && fine;
                mr_release(mr, more);
            }
            fine = is_right(made, 2) && fine;
            mr_release(mr, made);
        }
        if (mr_call_task(mr, "started", &list) == MR_OK) {
            if (mr_call_task(mr, "doubled", &sum, mr_future(put), mr_future(list)) == MR_OK) {
                fine = is_right(sum, 2) && fine;
                mr_release(mr, sum);
            }
            mr_release(mr, list);
        }
        mr_release(mr, put);
    }
    free(data);
    return fine;
}

static bool open_runtime(size_t megabytes) {
    return mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .store_bytes = megabytes * MB), &mr) == MR_OK;
}

/* ---- A worker dies at a point; the driver continues. */

static bool is_on_the_way(const char *name) {
    return strncmp(name, "store.", 6) == 0 || strncmp(name, "runtime.", 8) == 0;
}

static int lose_a_worker(void *argument) {
    const char *const *names = argument;
    mr_value value;
    mr_ref ref;
    TEST_CHILD_CHECK(open_runtime(64));
    for (size_t i = 0; names[i] != NULL; i++) {
        char spec[128];
        snprintf(spec, sizeof spec, "%s=kill@%zu", names[i], 1 + i % 3);
        TEST_CHILD_CHECK(mr_call_task(mr, "arm", &ref, mr_str(spec)) == MR_OK);
        if (mr_get(mr, ref, PATIENCE_US, &value) == MR_OK) mr_value_release(&value);
        mr_release(mr, ref);
        for (int round = 0; round < 2; round++) {
            if (round_trip()) continue;
            fprintf(stderr, "wrong after %s: %s\n", spec, mr_last_error());
            return 1;
        }
        TEST_CHILD_CHECK(object_listing_settles(mr, 0));
    }
    mr_shutdown(mr);
    return 0;
}

static void a_worker_that_is_killed_anywhere(void **state) {
    if (failpoint_count() == 0) skip();
    const char *names[256] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < failpoint_count() && count < 255; i++) {
        bool known = false;
        for (size_t j = 0; j < count; j++) known = known || strcmp(names[j], failpoint_at(i)->name) == 0;
        if (!known && is_on_the_way(failpoint_at(i)->name)) names[count++] = failpoint_at(i)->name;
    }
    assert_true(count > 15);
    assert_int_equal(test_child_run(lose_a_worker, names, CHILD_MS), 0);
}

/* ---- The driver dies, or its node: nothing is left. */

static int die_yourself(void *argument) {
    if (!open_runtime(64)) return 1;
    if (failpoint_arm(argument) != MR_OK) return 2;
    (void)round_trip();
    return 0; /* the failpoint was not reached */
}

static void a_program_that_is_killed_anywhere(void **state) {
    if (failpoint_count() == 0) skip();
    static const char *const points[] = {
        "store.create=kill",          "store.seal=kill",          "store.take=kill",
        "store.viewed=kill",          "store.unview=kill",        "store.drop=kill@2",
        "runtime.cargo_written=kill", "runtime.cargo_taken=kill", "runtime.transit_took=kill",
        "runtime.lender_say=kill"};
    char folder[TEMP_DIR_FOLDER_MAX];
    assert_true(temp_dir_folder(folder));
    setenv("TMPDIR", folder, 1);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        char point[64];
        strcpy(point, points[i]);
        int code = test_child_run(die_yourself, point, CHILD_MS);
        if (code != 0) assert_int_equal(code, -SIGKILL);
    }
    unsetenv("TMPDIR");
    for (int i = 0; i < 1000 && rmdir(folder) != 0; i++) usleep(10000); /* the nodes remove their files when they end */
    assert_int_not_equal(access(folder, F_OK), 0);
}

/* ---- A full disk, or a limit of its use. */

static int fill_the_disk(void) {
    enum { COUNT = 40 };
    float *data = calloc(MB, sizeof *data);
    mr_ref refs[COUNT];
    int put = 0;
    TEST_CHILD_CHECK(open_runtime(64));
    mr_status status = MR_OK;
    while (put < COUNT && status == MR_OK) {
        data[0] = (float)put;
        status = mr_put(mr, mr_vector(data, MB), &refs[put]);
        if (status == MR_OK) put++;
    }
    TEST_CHILD_CHECK(status == MR_NOMEM); /* not all objects fit, and the error reports it */
    TEST_CHILD_CHECK(strstr(mr_last_error(), "arena_bytes") != NULL);
    TEST_CHILD_CHECK(put > 8);
    mr_value none;
    /* The first object, which is on disk, does not fit into memory again. */
    TEST_CHILD_CHECK(mr_get(mr, refs[0], PATIENCE_US, &none) == MR_NOMEM);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "no more can be spilled") != NULL &&
                     strstr(mr_last_error(), "arena_bytes") != NULL);
    for (int i = put - 1; i >= 0; i--) { /* no object is lost: the last ones are in memory, the first ones on disk */
        mr_value value;
        mr_tensor tensor;
        TEST_CHILD_CHECK(mr_get(mr, refs[i], PATIENCE_US, &value) == MR_OK);
        TEST_CHILD_CHECK(mr_value_tensor(&value, &tensor) == MR_OK && ((const float *)tensor.data)[0] == (float)i);
        mr_value_release(&value);
        mr_release(mr, refs[i]);
    }
    TEST_CHILD_CHECK(object_listing_settles(mr, 0));
    TEST_CHILD_CHECK(mr_put(mr, mr_vector(data, MB), &refs[0]) == MR_OK); /* memory is free again */
    mr_release(mr, refs[0]);
    free(data);
    mr_shutdown(mr);
    return 0;
}

static int fill_a_small_disk(void *argument) {
    const char *folder = argument;
    bool apart = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!apart || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=8m") != 0)
        return SKIPPED;
    setenv("MINIRAY_SPILL_DIR", folder, 1);
    return fill_the_disk();
}

static void a_disk_that_is_full(void **state) {
    char folder[TEMP_DIR_FOLDER_MAX];
    assert_true(temp_dir_folder(folder));
    int code = test_child_run(fill_a_small_disk, folder, CHILD_MS);
    rmdir(folder);
    if (code == SKIPPED) skip(); /* a small disk cannot be mounted without permission */
    assert_int_equal(code, 0);
}

static int fill_what_is_allowed(void *argument) {
    setenv("MINIRAY_SPILL_BYTES_MAX", "8M", 1);
    return fill_the_disk();
}

static void a_disk_of_which_little_may_be_used(void **state) {
    assert_int_equal(test_child_run(fill_what_is_allowed, NULL, CHILD_MS), 0);
}

/* Viewed objects stay in memory: they are not spilled. */
static int look_at_everything(void *argument) {
    enum { COUNT = 40 };
    float *data = calloc(MB, sizeof *data);
    mr_ref refs[COUNT];
    mr_value values[COUNT];
    int put = 0;
    TEST_CHILD_CHECK(open_runtime(64));
    mr_status status = MR_OK;
    while (put < COUNT && status == MR_OK) {
        status = mr_put(mr, mr_vector(data, MB), &refs[put]);
        if (status != MR_OK) break;
        TEST_CHILD_CHECK(mr_get(mr, refs[put], PATIENCE_US, &values[put]) == MR_OK);
        put++;
    }
    TEST_CHILD_CHECK(status == MR_NOMEM && put > 8);
    mr_ref ref;
    TEST_CHILD_CHECK(mr_call_task(mr, "doubled", &ref, mr_vector(data, MB)) == MR_NOMEM); /* the same for arguments */
    for (int i = 0; i < put; i++) {
        mr_value_release(&values[i]);
        mr_release(mr, refs[i]);
    }
    TEST_CHILD_CHECK(object_listing_settles(mr, 0));
    free(data);
    mr_shutdown(mr);
    return 0;
}

static void memory_that_is_all_in_use(void **state) {
    assert_int_equal(test_child_run(look_at_everything, NULL, CHILD_MS), 0);
}

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_is_killed_anywhere),
        cmocka_unit_test(a_program_that_is_killed_anywhere),
        cmocka_unit_test(a_disk_that_is_full),
        cmocka_unit_test(a_disk_of_which_little_may_be_used),
        cmocka_unit_test(memory_that_is_all_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
