/* gpu_test.c — GPUs assigned to tasks and actors. No GPU is needed: the test reads only their numbers. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/runtime_fixture.h"
#include "tests/support/test_child.h"

static mr_context *mr;

MR_TASK(gpus) {
    int64_t ms;
    MR_TRY(mr_arg_int(call, 0, &ms));
    poll(NULL, 0, (int)ms);
    const char *devices = getenv("CUDA_VISIBLE_DEVICES");
    return mr_return(call, mr_str(devices == NULL ? "unset" : devices));
}

/* Numbers of mr_gpu_ids as a text; the count precedes them. */
MR_TASK(gpu_ids) {
    int ids[2] = {-1, -1};
    char text[64];
    size_t count = mr_gpu_ids(mr_call_context(call), ids, 2);
    snprintf(text, sizeof text, "%zu: %d %d", count, ids[0], ids[1]);
    return mr_return(call, mr_str(text));
}

MR_CREATE(Device) { return MR_OK; }
MR_METHOD(Device, gpus) { return mr_return(call, mr_str(getenv("CUDA_VISIBLE_DEVICES"))); }

static bool gives(mr_ref ref, char out[64]) {
    mr_value value;
    mr_span text;
    if (mr_get(mr, ref, RUNTIME_FIXTURE_PATIENCE_US, &value) != MR_OK || mr_value_str(&value, &text) != MR_OK) {
        fprintf(stderr, "%s\n", mr_last_error());
        return false;
    }
    snprintf(out, 64, "%.*s", (int)text.size, (const char *)text.data);
    mr_value_release(&value);
    mr_release(mr, ref);
    return true;
}

static bool ask(double gpus, int64_t ms, mr_ref *out) {
    return mr_task_submit(mr, "gpus", &MR_OPTIONS(mr_task_options, .num_gpus = gpus), MR_ARGS(mr_int(ms)), out) ==
           MR_OK;
}

static bool ask_ids(double gpus, mr_ref *out) {
    return mr_task_submit(mr, "gpu_ids", &MR_OPTIONS(mr_task_options, .num_gpus = gpus), NULL, 0, out) == MR_OK;
}

static int look_at_gpus(void *argument) {
    mr_ref refs[2];
    char one[64], other[64];
    mr_actor device;
    runtime_fixture_enter(argument);
    unsetenv("CUDA_VISIBLE_DEVICES");
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 2, .num_gpus = 3, .store_bytes = 16 << 20), &mr) ==
                     MR_OK);
    TEST_CHILD_CHECK(ask(0, 0, &refs[0]) && gives(refs[0], one) && strcmp(one, "") == 0);
    TEST_CHILD_CHECK(ask(3, 0, &refs[0]) && gives(refs[0], one) && strcmp(one, "0,1,2") == 0);
    TEST_CHILD_CHECK(ask_ids(3, &refs[0]) && gives(refs[0], one) && strcmp(one, "3: 0 1") == 0);
    TEST_CHILD_CHECK(ask_ids(1, &refs[0]) && gives(refs[0], one) && strcmp(one, "1: 0 -1") == 0);
    TEST_CHILD_CHECK(ask_ids(0, &refs[0]) && gives(refs[0], one) && strcmp(one, "0: -1 -1") == 0);
    TEST_CHILD_CHECK(mr_gpu_ids(mr, NULL, 0) == 0);
    TEST_CHILD_CHECK(ask(1, 300, &refs[0]) && ask(1, 300, &refs[1])); /* in one worker or in two */
    TEST_CHILD_CHECK(gives(refs[0], one) && gives(refs[1], other) && strlen(one) == 1 && strlen(other) == 1);
    TEST_CHILD_CHECK(mr_actor_create(mr, "Device", &MR_OPTIONS(mr_actor_options, .num_gpus = 3), NULL, 0, &device) ==
                     MR_OK);
    TEST_CHILD_CHECK(mr_call_actor(mr, device, "gpus", &refs[0]) == MR_OK);
    TEST_CHILD_CHECK(gives(refs[0], one) && strcmp(one, "0,1,2") == 0);
    TEST_CHILD_CHECK(ask(0, 0, &refs[0]) && gives(refs[0], one) && strcmp(one, "") == 0);
    TEST_CHILD_CHECK(mr_actor_kill(mr, device) == MR_OK);
    TEST_CHILD_CHECK(ask(0.5, 0, &refs[0]) && gives(refs[0], one) && strcmp(one, "0") == 0);
    mr_shutdown(mr);
    return 0;
}

static void workers_see_what_they_were_given(void **state) {
    assert_int_equal(test_child_run(look_at_gpus, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static int have_none(void *argument) {
    mr_ref ref;
    char text[64];
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    TEST_CHILD_CHECK(runtime_fixture_open(argument, &mr) == MR_OK);
    TEST_CHILD_CHECK(ask(0, 0, &ref) && gives(ref, text) && strcmp(text, "7") == 0);
    mr_shutdown(mr);
    return 0;
}

/* The node sees only some devices. Workers see a part of those, under the node's numbers. */
static int are_shown_some(void *argument) {
    mr_ref ref;
    char text[64];
    runtime_fixture_enter(argument);
    setenv("CUDA_VISIBLE_DEVICES", "5, 2,GPU-0a1b", 1);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .num_gpus = 4), &mr) == MR_INVALID);
    TEST_CHILD_CHECK(strstr(mr_last_error(), "CUDA_VISIBLE_DEVICES shows 3") != NULL);
    TEST_CHILD_CHECK(mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .num_gpus = 3, .store_bytes = 16 << 20), &mr) ==
                     MR_OK);
    TEST_CHILD_CHECK(ask(3, 0, &ref) && gives(ref, text) && strcmp(text, "5,2,GPU-0a1b") == 0);
    TEST_CHILD_CHECK(ask(1, 0, &ref) && gives(ref, text) && strcmp(text, "5") == 0);
    TEST_CHILD_CHECK(ask_ids(2, &ref) && gives(ref, text) && strcmp(text, "2: 5 2") == 0);
    TEST_CHILD_CHECK(ask(0, 0, &ref) && gives(ref, text) && strcmp(text, "") == 0);
    mr_shutdown(mr);
    return 0;
}

static void the_node_has_what_it_was_shown(void **state) {
    assert_int_equal(test_child_run(are_shown_some, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

static void without_gpus_nothing_is_changed(void **state) {
    assert_int_equal(test_child_run(have_none, *state, RUNTIME_FIXTURE_CHILD_MS), 0);
    runtime_fixture_gone(*state, "mr_shutdown");
}

#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, runtime_fixture_make, runtime_fixture_unmake)

int main(void) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(workers_see_what_they_were_given),
        IN_A_WORLD(the_node_has_what_it_was_shown),
        IN_A_WORLD(without_gpus_nothing_is_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
