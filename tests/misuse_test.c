/* misuse_test.c — every function of the public headers, used wrongly: without a context or a place for the result, with
 * invalid names, with released objects, in a forked child. Each returns an error that names the mistake, and the
 * runtime continues. (A context after mr_shutdown and a call after its end are freed memory: their use is
 * undefined.) */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "miniray/admin.h"
#include "miniray/placement.h"
#include "miniray/runtime.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_child.h"

enum { PATIENCE_US = 20 * 1000 * 1000, CHILD_MS = 60 * 1000 };

static mr_context *mr;

MR_TASK(one) { return mr_return(call, mr_int(1)); }
MR_CREATE(Thing) { return MR_OK; }
MR_METHOD(Thing, one) { return mr_return(call, mr_int(1)); }

/* Mistakes of a body, selected by argument 0. Returns the status. */
MR_TASK(wrong_body) {
    int64_t which;
    double number;
    mr_value value;
    mr_ref ref;
    mr_actor actor;
    mr_span text;
    mr_tensor tensor;
    mr_status status = MR_OK;
    MR_TRY(mr_arg_int(call, 0, &which));
    switch (which) {
    case 0: status = mr_arg_value(call, 7, &value); break;
    case 1: status = mr_arg_keep(call, SIZE_MAX, &value); break;
    case 2: status = mr_arg_float(call, 1, &number); break;
    case 3: status = mr_arg_str(call, 0, &text); break;
    case 4: status = mr_arg_tensor(call, 0, &tensor); break;
    case 5: status = mr_arg_ref(call, 0, &ref); break;
    case 6: status = mr_arg_actor(call, 0, &actor); break;
    case 7: status = mr_return_at(call, 1, mr_nil()); break;
    case 8: status = mr_yield(call, mr_nil()); break;
    case 9: status = mr_set_self(call, NULL, NULL); break;
    case 10: status = mr_on_cancel(call, NULL, NULL); break;
    case 11: status = mr_return(call, mr_list(NULL, 3)); break;
    case 12: status = mr_return(call, mr_text("\xff\xfe", 2)); break;
    default: break;
    }
    char said[256];
    snprintf(said, sizeof said, "%s", mr_last_error());
    if (status == MR_OK || said[0] == '\0') return mr_fail(call, "number %d was not refused", (int)which);
    return mr_return(call, mr_int(status));
}

/* Calls that bodies may not make: no effect, and the body continues. */
MR_TASK(beyond_its_place) {
    mr_context *again;
    mr_status status = mr_init(NULL, &again);
    if (status != MR_INVALID || strstr(mr_last_error(), "mr_call_context") == NULL)
        return mr_fail(call, "mr_init: %s, '%s'", mr_status_name(status), mr_last_error());
    mr_shutdown(mr_call_context(call));
    mr_finish(call, MR_OK);
    return mr_return(call, mr_int(getpid()));
}

/* Starts this program again, as a separate driver. */
MR_TASK(starts_a_program) {
    char command[PATH_MAX + 32];
    mr_span path;
    MR_TRY(mr_arg_str(call, 0, &path));
    snprintf(command, sizeof command, "IS_A_PROGRAM=1 '%.*s'", (int)path.size, (const char *)path.data);
    return mr_return(call, mr_int(system(command)));
}

/* ---- Helpers. */

static void refused(mr_status status, mr_status expected, const char *says, int line) {
    if (status == expected && strstr(mr_last_error(), says) != NULL) return;
    fail_msg("line %d: %s, '%s'", line, mr_status_name(status), mr_last_error());
}
#define REFUSED(status, expected, says) refused(status, expected, says, __LINE__)

static void still_works(void) {
    mr_ref ref;
    mr_value value;
    assert_int_equal(mr_call_task(mr, "one", &ref), MR_OK);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
}

static int64_t result_of(mr_ref ref) {
    mr_value value;
    int64_t number;
    if (mr_get(mr, ref, PATIENCE_US, &value) != MR_OK) fail_msg("%s", mr_last_error());
    assert_int_equal(mr_value_int(&value, &number), MR_OK);
    mr_value_release(&value);
    mr_release(mr, ref);
    return number;
}

static mr_ref put_one(void) {
    mr_ref ref;
    assert_int_equal(mr_put(mr, mr_int(1), &ref), MR_OK);
    return ref;
}

static void nothing(void *user, mr_ref ref) {}

/* Calls every function that takes a context, with an unusable context. Returns the number of functions that did not
 * refuse. */
static int use_all(mr_context *context) {
    mr_ref ref = {{1, 2}};
    mr_actor actor = {{1, 2}};
    mr_value value;
    mr_batch *group;
    mr_inspect *inspect;
    mr_placement_group placement = {{0}};
    mr_actor_info facts;
    unsigned char ready;
    size_t size;
    int wrong = 0;
    wrong += mr_task_submit(context, "one", NULL, NULL, 0, &ref) != MR_INVALID;
    wrong += mr_actor_create(context, "Thing", NULL, NULL, 0, &actor) != MR_INVALID;
    wrong += mr_actor_submit(context, actor, "one", NULL, NULL, 0, &ref) != MR_INVALID;
    wrong += mr_actor_find(context, "it", NULL, &actor) != MR_INVALID;
    wrong += mr_actor_retain(context, actor) != MR_INVALID;
    wrong += mr_actor_kill(context, actor) != MR_INVALID;
    wrong += mr_actor_restart(context, actor) != MR_INVALID;
    wrong += mr_actor_info_get(context, actor, &facts) != MR_INVALID;
    wrong += mr_batch_open(context, &group) != MR_INVALID;
    wrong += mr_put(context, mr_int(1), &ref) != MR_INVALID;
    wrong += mr_get(context, ref, 0, &value) != MR_INVALID;
    wrong += mr_wait(context, &ref, 1, 1, 0, &ready, &size) != MR_INVALID;
    wrong += mr_why(context, ref, 0, (char *)&size, sizeof size) != MR_INVALID;
    wrong += mr_on_ready(context, ref, nothing, NULL) != MR_INVALID;
    wrong += mr_read_sealed(context, &size, sizeof size, &size) != MR_INVALID;
    wrong += mr_is_private_copy(context, &size);
    wrong += mr_failure(context, ref, &value) != MR_INVALID;
    wrong += mr_failure_detail(context, ref, NULL, 0, &size) != MR_INVALID;
    wrong += mr_join(context, &ref, 1, &ref) != MR_INVALID;
    wrong += mr_stream_next(context, ref, 0, &ref) != MR_INVALID;
    wrong += mr_stream_peek(context, ref, &ref) != MR_INVALID;
    wrong += mr_cancel(context, ref) != MR_INVALID;
    wrong += mr_cancel_force(context, ref) != MR_INVALID;
    wrong += mr_cancel_only(context, ref) != MR_INVALID;
    wrong += mr_retain(context, ref) != MR_INVALID;
    wrong += mr_serve(context, 0) != MR_INVALID;
    wrong += mr_placement_group_create(context, &(mr_placement_group_options)MR_INIT(mr_placement_group_options),
                                       &placement) != MR_INVALID;
    wrong += mr_placement_group_wait(context, placement, 0) != MR_INVALID;
    wrong += mr_inspect_within(context, &inspect) != MR_INVALID;
    mr_release(context, ref);
    mr_actor_release(context, actor);
    mr_placement_group_remove(context, placement);
    mr_serve_wake(context);
    mr_yield_cpu(context);
    mr_resume(context, NULL);
    wrong += mr_gpu_ids(context, NULL, 3) != 0;
    return wrong;
}

/* ---- Without a runtime. */

static void without_a_runtime(void **state) {
    assert_int_equal(use_all(NULL), 0);
    REFUSED(mr_get(NULL, (mr_ref){{0}}, 0, &(mr_value){{0}}), MR_INVALID, "mr_init");
    assert_string_equal(mr_address(NULL), "");
    mr_shutdown(NULL);
    mr_batch_cancel(NULL);
    mr_inspect_close(NULL);
    REFUSED(mr_init(NULL, NULL), MR_INVALID, "out");
    REFUSED(mr_batch_task(NULL, "one", NULL, NULL, 0, NULL), MR_INVALID, "batch is NULL");
    REFUSED(mr_batch_actor(NULL, (mr_actor){{0}}, "one", NULL, NULL, 0, NULL), MR_INVALID, "batch is NULL");
    REFUSED(mr_batch_submit(NULL), MR_INVALID, "batch is NULL");
}

static void without_a_place_for_the_answer(void **state) {
    mr_ref ref = put_one();
    unsigned char ready;
    size_t size;
    REFUSED(mr_actor_create(mr, "Thing", NULL, NULL, 0, NULL), MR_INVALID, "out");
    REFUSED(mr_actor_find(mr, "it", NULL, NULL), MR_INVALID, "out");
    REFUSED(mr_actor_info_get(mr, (mr_actor){{0}}, NULL), MR_INVALID, "out");
    REFUSED(mr_batch_open(mr, NULL), MR_INVALID, "out");
    REFUSED(mr_put(mr, mr_int(1), NULL), MR_INVALID, "out");
    REFUSED(mr_get(mr, ref, 0, NULL), MR_INVALID, "out");
    REFUSED(mr_why(mr, ref, 0, NULL, 1), MR_INVALID, "out");
    REFUSED(mr_wait(mr, &ref, 1, 1, 0, NULL, &size), MR_INVALID, "`ready` is NULL");
    REFUSED(mr_wait(mr, &ref, 1, 1, 0, &ready, NULL), MR_INVALID, "out");
    REFUSED(mr_failure(mr, ref, NULL), MR_INVALID, "out");
    REFUSED(mr_failure_detail(mr, ref, NULL, 100, NULL), MR_INVALID, "out");
    REFUSED(mr_stream_next(mr, ref, 0, NULL), MR_INVALID, "out");
    REFUSED(mr_stream_peek(mr, ref, NULL), MR_INVALID, "out");
    REFUSED(mr_on_ready(mr, ref, NULL, NULL), MR_INVALID, "`fn` is NULL");
    REFUSED(mr_read_sealed(mr, &size, sizeof size, NULL), MR_INVALID, "out");
    REFUSED(mr_read_sealed(mr, NULL, 1, &size), MR_INVALID, "NULL");
    assert_false(mr_is_private_copy(mr, NULL));
    REFUSED(mr_inspect_within(mr, NULL), MR_INVALID, "out");
    REFUSED(mr_inspect_open("/nowhere/at/all", NULL), MR_INVALID, "out");
    mr_release(mr, ref);
    still_works();
}

static void without_what_was_counted(void **state) {
    mr_ref ref;
    mr_actor actor;
    mr_arg broken = mr_list(NULL, 3);
    size_t size;
    unsigned char ready;
    REFUSED(mr_task_submit(mr, "one", NULL, NULL, 3, &ref), MR_INVALID, "`count` is 3");
    REFUSED(mr_actor_create(mr, "Thing", NULL, NULL, 1, &actor), MR_INVALID, "`count` is 1");
    REFUSED(mr_task_submit(mr, "one", NULL, &broken, SIZE_MAX, &ref), MR_TOO_LARGE, "arguments");
    REFUSED(mr_actor_submit(mr, (mr_actor){{0}}, "one", NULL, &broken, SIZE_MAX / 2, &ref), MR_TOO_LARGE, "arguments");
    REFUSED(mr_task_submit(mr, "one", NULL, &broken, 1, &ref), MR_INVALID, "argument 0");
    REFUSED(mr_put(mr, mr_bytes(NULL, 5), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_bytes(NULL, 500000), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_vector(NULL, 5), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_vector(NULL, 500000), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_text("\xff", 1), &ref), MR_INVALID, "UTF-8");
    REFUSED(mr_put(mr, mr_tensor_of(99, "", 1, NULL), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_tensor_of(MR_F32, "", 99, NULL), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_tensor_of(MR_F32, "", 1, (int64_t[]){-1}), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_tensor_of(MR_F32, "", 2, (int64_t[]){INT64_MAX, 4}), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, (mr_arg){.kind = 77}, &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_custom_arg(&(mr_custom){.format = 0}), &ref), MR_INVALID, "");
    REFUSED(mr_put(mr, mr_custom_arg(&(mr_custom){.format = 1, .buffer_count = 2}), &ref), MR_INVALID, "2 buffers");
    REFUSED(mr_put(mr, mr_map(NULL, 2), &ref), MR_INVALID, "2 items");
    REFUSED(mr_wait(mr, NULL, 2, 1, 0, &ready, &size), MR_INVALID, "`count` is 2");
    REFUSED(mr_join(mr, NULL, 2, &ref), MR_INVALID, "`count` is 2");
    still_works();
}

/* Impossible sizes are refused without a read, and sums of sizes do not overflow. */
static void sizes_that_cannot_be(void **state) {
    mr_ref ref;
    const mr_arg small[] = {mr_int(1), mr_int(2)};
    const mr_arg large[] = {mr_bytes("x", SIZE_MAX / 2), mr_bytes("x", SIZE_MAX / 2), mr_bytes("xxxx", 4)};
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX - 4096, SIZE_MAX / 2 + 1, (size_t)1 << 60};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        REFUSED(mr_put(mr, mr_bytes("x", sizes[i]), &ref), MR_TOO_LARGE, "bytes");
        REFUSED(mr_put(mr, mr_text("x", sizes[i]), &ref), MR_TOO_LARGE, "bytes");
        REFUSED(mr_put(mr, mr_list(small, sizes[i]), &ref), MR_TOO_LARGE, "items");
        REFUSED(mr_put(mr, mr_map(small, sizes[i]), &ref), MR_TOO_LARGE, "items");
    }
    REFUSED(mr_put(mr, mr_list(large, 3), &ref), MR_TOO_LARGE, "bytes");
    REFUSED(mr_put(mr, mr_tensor_of(MR_U8, "x", 1, (int64_t[]){INT64_MAX}), &ref), MR_TOO_LARGE, "bytes");
    still_works();
}

static void made_of_nothing(void **state) {
    mr_ref ref;
    const mr_arg none[] = {mr_str(NULL), mr_value_arg(NULL), mr_tensor_arg(NULL), mr_custom_arg(NULL)};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        REFUSED(mr_put(mr, none[i], &ref), MR_INVALID, "NULL");
        REFUSED(mr_put(mr, mr_list(&none[i], 1), &ref), MR_INVALID, "NULL");
        REFUSED(mr_task_submit(mr, "one", NULL, &none[i], 1, &ref), MR_INVALID, "argument 0");
    }
    mr_register_task(NULL, NULL);
    mr_register_task("without a body", NULL);
    mr_register_method(NULL, NULL, NULL);
    REFUSED(mr_task_submit(mr, "without a body", NULL, NULL, 0, &ref), MR_NOT_FOUND, "without a body");
    still_works();
}

static void too_deep(void **state) {
    enum { DEPTH = 2000 };
    mr_arg *nest = calloc(DEPTH, sizeof *nest);
    mr_ref ref;
    nest[0] = mr_int(1);
    for (int i = 1; i < DEPTH; i++) nest[i] = mr_list(&nest[i - 1], 1);
    mr_status status = mr_put(mr, nest[DEPTH - 1], &ref);
    assert_true(status == MR_INVALID || status == MR_TOO_LARGE);
    assert_non_null(strstr(mr_last_error(), "deep"));
    free(nest);
    still_works();
}

/* ---- Names and options. */

static void names_that_cannot_be(void **state) {
    mr_ref ref;
    mr_actor actor;
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const bad[] = {NULL, "", longest};
    for (size_t i = 0; i < 3; i++) {
        REFUSED(mr_task_submit(mr, bad[i], NULL, NULL, 0, &ref), MR_INVALID, "name");
        REFUSED(mr_actor_create(mr, bad[i], NULL, NULL, 0, &actor), MR_INVALID, "name");
        REFUSED(mr_actor_submit(mr, (mr_actor){{0}}, bad[i], NULL, NULL, 0, &ref), MR_INVALID, "name");
        REFUSED(mr_actor_find(mr, bad[i], NULL, &actor), MR_INVALID, "name");
        if (i == 0) continue;
        REFUSED(mr_actor_find(mr, "it", bad[i], &actor), MR_INVALID, "name");
        REFUSED(mr_actor_create(mr, "Thing", &MR_OPTIONS(mr_actor_options, .name = bad[i]), NULL, 0, &actor),
                MR_INVALID, "name");
        mr_actor_options options = MR_OPTIONS(mr_actor_options, .name = "it", .name_space = bad[i]);
        REFUSED(mr_actor_create(mr, "Thing", &options, NULL, 0, &actor), MR_INVALID, "name");
    }
    REFUSED(mr_task_submit(mr, "none such", NULL, NULL, 0, &ref), MR_NOT_FOUND, "registered ");
    REFUSED(mr_actor_create(mr, "None", NULL, NULL, 0, &actor), MR_NOT_FOUND, "registered ");
    REFUSED(mr_actor_find(mr, "nobody", NULL, &actor), MR_NOT_FOUND, "nobody");
    still_works();
}

static void options_that_cannot_be(void **state) {
    static const mr_task_options bad[] = {
        {.num_returns = -1},   {.num_returns = 1 << 20},
        {.num_gpus = -1},      {.resources = "what"},
        {.resources = "a=-1"}, {.resources = "a=1,a"},
        {.num_cpus = 1e300},   {.num_returns = MR_STREAM, .stream_ahead = -1},
    };
    mr_ref refs[2];
    mr_actor actor;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        mr_task_options options = bad[i];
        options.size = sizeof options;
        mr_status status = mr_task_submit(mr, "one", &options, NULL, 0, refs);
        if (status != MR_INVALID || mr_last_error()[0] == '\0') fail_msg("options %zu: %s", i, mr_status_name(status));
    }
    REFUSED(mr_actor_create(mr, "Thing", &MR_OPTIONS(mr_actor_options, .max_concurrency = -1), NULL, 0, &actor),
            MR_INVALID, "");
    REFUSED(mr_actor_create(mr, "Thing", &MR_OPTIONS(mr_actor_options, .max_concurrency = 1 << 20), NULL, 0, &actor),
            MR_INVALID, "max_concurrency");
    REFUSED(mr_actor_create(mr, "Thing", &MR_OPTIONS(mr_actor_options, .about = {"", 1 << 20}), NULL, 0, &actor),
            MR_TOO_LARGE, "about");
    still_works();
}

static void a_runtime_that_cannot_be(void **state) {
    mr_context *other;
    const char *const no_words[] = {NULL};
    REFUSED(mr_init(&MR_OPTIONS(mr_options, .worker = no_words), &other), MR_INVALID, "is empty");
    assert_int_not_equal(mr_init(&MR_OPTIONS(mr_options, .store_bytes = SIZE_MAX), &other), MR_OK);
    assert_non_null(strstr(mr_last_error(), "the limit is"));
    still_works();
}

/* ---- Released objects. */

static void released_references_are_refused(void **state) {
    mr_ref ref = put_one(), other;
    mr_value value;
    mr_actor actor;
    unsigned char ready;
    size_t size;
    char text[8];
    mr_arg arg = mr_future(ref);
    mr_release(mr, ref);
    mr_release(mr, ref);
    for (int i = 0; i < 2; i++) { /* first a released object, then one that never existed */
        REFUSED(mr_get(mr, ref, -1, &value), MR_NOT_FOUND, "does not have");
        REFUSED(mr_why(mr, ref, -1, text, sizeof text), MR_NOT_FOUND, "does not have");
        REFUSED(mr_wait(mr, &ref, 1, 1, -1, &ready, &size), MR_NOT_FOUND, "does not have");
        REFUSED(mr_on_ready(mr, ref, nothing, NULL), MR_NOT_FOUND, "does not have");
        REFUSED(mr_failure(mr, ref, &value), MR_NOT_FOUND, "does not have");
        REFUSED(mr_failure_detail(mr, ref, NULL, 0, &size), MR_NOT_FOUND, "does not have");
        REFUSED(mr_join(mr, &ref, 1, &other), MR_INVALID, "does not have");
        REFUSED(mr_stream_next(mr, ref, -1, &other), MR_NOT_FOUND, "does not have");
        REFUSED(mr_cancel(mr, ref), MR_NOT_FOUND, "does not have");
        REFUSED(mr_cancel_force(mr, ref), MR_NOT_FOUND, "does not have");
        REFUSED(mr_cancel_only(mr, ref), MR_NOT_FOUND, "does not have");
        REFUSED(mr_retain(mr, ref), MR_NOT_FOUND, "does not have");
        REFUSED(mr_task_submit(mr, "one", NULL, &arg, 1, &other), MR_INVALID, "does not have");
        REFUSED(mr_put(mr, mr_list(&arg, 1), &other), MR_INVALID, "does not have");
        mr_release(mr, ref);
        ref = (mr_ref){{UINT64_MAX, UINT64_MAX}};
        arg = mr_future(ref);
    }
    REFUSED(mr_actor_retain(mr, (mr_actor){{3, 4}}), MR_NOT_FOUND, "handle");
    REFUSED(mr_actor_kill(mr, (mr_actor){{3, 4}}), MR_NOT_FOUND, "actor");
    REFUSED(mr_actor_restart(mr, (mr_actor){{3, 4}}), MR_NOT_FOUND, "actor");
    mr_actor_release(mr, (mr_actor){{3, 4}});
    assert_int_equal(mr_actor_submit(mr, (mr_actor){{3, 4}}, "one", NULL, NULL, 0, &other), MR_OK);
    assert_true(mr_get(mr, other, PATIENCE_US, &value) != MR_OK); /* an actor that the node does not know */
    mr_release(mr, other);
    assert_int_equal(mr_new_actor(mr, "Thing", &actor), MR_OK);
    assert_int_equal(mr_actor_kill(mr, actor), MR_OK);
    assert_int_equal(mr_call_actor(mr, actor, "one", &other), MR_OK);
    REFUSED(mr_get(mr, other, PATIENCE_US, &value), MR_ACTOR_DIED, "");
    mr_release(mr, other);
    mr_actor_release(mr, actor);
    mr_actor_release(mr, actor);
    still_works();
}

static void bodies_are_refused_too(void **state) {
    for (int i = 0; i <= 12; i++) {
        mr_ref ref;
        mr_value value;
        int64_t status = MR_OK;
        assert_int_equal(mr_call_task(mr, "wrong_body", &ref, mr_int(i), mr_str("text")), MR_OK);
        mr_status got = mr_get(mr, ref, PATIENCE_US, &value);
        if (got != MR_OK) fail_msg("body %d: %s", i, mr_last_error());
        assert_int_equal(mr_value_int(&value, &status), MR_OK);
        if (status != MR_INVALID && !(i == 9 && status == MR_NOMEM))
            fail_msg("body %d: %s", i, mr_status_name((mr_status)status));
        mr_value_release(&value);
        mr_release(mr, ref);
    }
}

static void a_body_does_not_end_its_worker(void **state) {
    mr_ref ref, again;
    assert_int_equal(mr_call_task(mr, "beyond_its_place", &ref), MR_OK);
    int64_t worker = result_of(ref);
    assert_int_equal(mr_call_task(mr, "beyond_its_place", &again), MR_OK);
    assert_int_equal(result_of(again), worker);
}

static void a_body_may_start_a_program(void **state) {
    char path[PATH_MAX];
    mr_ref ref;
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(size > 0);
    path[size] = '\0';
    assert_int_equal(mr_call_task(mr, "starts_a_program", &ref, mr_str(path)), MR_OK);
    assert_int_equal(result_of(ref), 0);
}

/* A driver that a task starts has its own runtime and workers. */
static int be_a_program(void) {
    mr_ref ref;
    mr_value value;
    mr_status status = mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 32 << 20), &mr);
    if (status == MR_OK) status = mr_call_task(mr, "one", &ref);
    if (status == MR_OK) status = mr_get(mr, ref, PATIENCE_US, &value);
    if (status != MR_OK) fprintf(stderr, "%s\n", mr_last_error());
    mr_shutdown(mr);
    return status != MR_OK;
}

/* ---- A forked child has a copy of the context, and every function refuses it. */

static mr_value large;

static int in_a_child(void *argument) {
    TEST_CHILD_CHECK(use_all(mr) == 0);
    TEST_CHILD_CHECK(mr_get(mr, (mr_ref){{0}}, 0, &(mr_value){{0}}) == MR_INVALID &&
                     strstr(mr_last_error(), "forked") != NULL);
    TEST_CHILD_CHECK(mr_batch_submit(argument) == MR_INVALID);
    mr_batch_cancel(argument);
    mr_value_release(&large);
    mr_shutdown(mr); /* no effect */
    return 0;
}

static void a_forked_child_does_no_harm(void **state) {
    enum { FLOATS = 100 * 1000 };
    mr_batch *group;
    mr_ref ref;
    mr_tensor tensor;
    float *data = calloc(FLOATS, sizeof *data);
    assert_int_equal(mr_put(mr, mr_vector(data, FLOATS), &ref), MR_OK);
    free(data);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &large), MR_OK);
    assert_int_equal(mr_batch_open(mr, &group), MR_OK);
    assert_int_equal(test_child_run(in_a_child, group, CHILD_MS), 0);
    still_works();
    assert_int_equal(mr_value_tensor(&large, &tensor), MR_OK);
    assert_true(((const float *)tensor.data)[FLOATS - 1] == 0);
    mr_value_release(&large);
    mr_release(mr, ref);
    assert_int_equal(mr_batch_submit(group), MR_OK);
}

/* ---- The other headers. */

static void looking_wrongly(void **state) {
    mr_inspect *inspect;
    mr_value value;
    char *text;
    assert_int_not_equal(mr_inspect_open("/nowhere/at/all", &inspect), MR_OK);
    assert_int_equal(mr_inspect_within(mr, &inspect), MR_OK);
    REFUSED(mr_inspect_ask(inspect, "everything", NULL, 0, &value), MR_INVALID, "");
    REFUSED(mr_inspect_ask(inspect, NULL, NULL, 0, &value), MR_INVALID, "");
    REFUSED(mr_inspect_ask(inspect, "why", NULL, 0, &value), MR_INVALID, "");
    REFUSED(mr_inspect_ask(inspect, "why", "no id at all", 0, &value), MR_INVALID, "");
    REFUSED(mr_inspect_ask(inspect, "status", NULL, 0, NULL), MR_INVALID, "");
    REFUSED(mr_inspect_ask(NULL, "status", NULL, 0, &value), MR_INVALID, "");
    REFUSED(mr_inspect_json(mr_list(NULL, 2), &text), MR_INVALID, "");
    REFUSED(mr_inspect_json(mr_nil(), NULL), MR_INVALID, "");
    mr_inspect_close(inspect);
    mr_node_info info;
    assert_int_not_equal(mr_node_stop("/nowhere/at/all", &info), MR_OK);
    REFUSED(mr_node_start(&MR_OPTIONS(mr_node_options, .resources = "what"), &info), MR_INVALID, "");
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 8];
    assert_true(temp_dir_folder(folder));
    snprintf(path, sizeof path, "%s/node", folder);
    assert_int_equal(mr_node_start(&MR_OPTIONS(mr_node_options, .address = path, .store_bytes = 32 << 20), NULL),
                     MR_OK);
    assert_int_equal(mr_node_stop(path, NULL), MR_OK);
    assert_int_equal(rmdir(folder), 0);
    still_works();
}

static int set_up(void **state) {
    return mr_init(&MR_OPTIONS(mr_options, .num_workers = 1, .store_bytes = 32 << 20), &mr) != MR_OK;
}

static int tear_down(void **state) {
    mr_shutdown(mr);
    return 0;
}

int main(int argc, char **argv) {
    if (getenv("MINIRAY_BOOT") != NULL) return mr_init(NULL, &mr) != MR_OK; /* worker: runs its tasks */
    if (getenv("IS_A_PROGRAM") != NULL) return be_a_program();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_runtime),
        cmocka_unit_test(without_a_place_for_the_answer),
        cmocka_unit_test(without_what_was_counted),
        cmocka_unit_test(too_deep),
        cmocka_unit_test(sizes_that_cannot_be),
        cmocka_unit_test(made_of_nothing),
        cmocka_unit_test(a_body_does_not_end_its_worker),
        cmocka_unit_test(a_body_may_start_a_program),
        cmocka_unit_test(names_that_cannot_be),
        cmocka_unit_test(options_that_cannot_be),
        cmocka_unit_test(a_runtime_that_cannot_be),
        cmocka_unit_test(released_references_are_refused),
        cmocka_unit_test(bodies_are_refused_too),
        cmocka_unit_test(a_forked_child_does_no_harm),
        cmocka_unit_test(looking_wrongly),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
