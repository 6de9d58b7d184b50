/* runtime_owner_test.c — values whose owner is killed while other processes have references: an existing value
 * survives, with all values it refers to; a pending value fails with an error that names its owner and the cause of
 * death. The test is the driver: its workers are this same binary, started again. */
#include <fcntl.h>
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
#include "runtime/process/context.h"
#include "runtime/refs/attachment.h"
#include "tests/support/future_assert.h"
#include "tests/support/object_listing.h"
#include "tests/support/runtime_main.h"
#include "tests/support/temp_dir.h"

enum { PATIENCE_US = 20 * 1000 * 1000, STEP_US = 2000, BLOB = 20 * 1000, CHAIN = 3000, MANY = 1500 };

/* ---- Tasks and actors. */

/* Waits until a file of that name exists; returns the last argument, or fails if that is negative. */
MR_TASK(when_told) {
    mr_span path;
    int64_t number;
    char text[TEMP_DIR_FOLDER_MAX + 16];
    MR_TRY(mr_arg_str(call, 0, &path));
    MR_TRY(mr_arg_int(call, 1, &number));
    snprintf(text, sizeof text, "%.*s", (int)path.size, (const char *)path.data);
    while (access(text, F_OK) != 0 && !mr_call_cancelled(call)) usleep(STEP_US);
    return number < 0 ? mr_fail(call, "it was told so") : mr_return(call, mr_int(number));
}

typedef struct owner {
    mr_ref ref; /* kept reference */
} owner;
MR_CREATE(Owner) { return mr_set_self(call, calloc(1, sizeof(owner)), free); }
MR_METHOD(Owner, pid) { return mr_return(call, mr_int(getpid())); }

/* Returns a list of `count` futures, each of which becomes `number` when its file exists. */
MR_METHOD(Owner, promise) {
    mr_value path;
    int64_t number, count;
    mr_ref refs[MANY];
    mr_arg args[MANY];
    MR_TRY(mr_arg_value(call, 0, &path));
    MR_TRY(mr_arg_int(call, 1, &number));
    MR_TRY(mr_arg_int(call, 2, &count));
    for (int64_t i = 0; i < count; i++) {
        MR_TRY(mr_call_task(mr_call_context(call), "when_told", &refs[i], mr_value_arg(&path), mr_int(number)));
        args[i] = mr_future(refs[i]);
    }
    mr_status status = mr_return(call, mr_list(args, (size_t)count));
    for (int64_t i = 0; i < count; i++) mr_release(mr_call_context(call), refs[i]);
    return status;
}

/* A list of `inner`, which are released. */
static mr_status put_list(mr_context *context, const mr_ref *inner, size_t count, mr_ref *out) {
    mr_arg args[3];
    for (size_t i = 0; i < count; i++) args[i] = mr_future(inner[i]);
    mr_status status = mr_put(context, mr_list(args, count), out);
    for (size_t i = 0; i < count; i++) mr_release(context, inner[i]);
    return status;
}

/* Returns, in a list, a future of [future of 7, future of BLOB bytes, future of [the first of them again, future of
 * 8]]. */
MR_METHOD(Owner, tree) {
    mr_context *context = mr_call_context(call);
    mr_ref leaves[3], deep[2], root;
    static const uint8_t blob[BLOB];
    MR_TRY(mr_put(context, mr_int(7), &leaves[0]));
    MR_TRY(mr_put(context, mr_bytes(blob, sizeof blob), &leaves[1]));
    deep[0] = leaves[0];
    MR_TRY(mr_retain(context, deep[0]));
    MR_TRY(mr_put(context, mr_int(8), &deep[1]));
    MR_TRY(put_list(context, deep, 2, &leaves[2]));
    MR_TRY(put_list(context, leaves, 3, &root));
    mr_arg item = mr_future(root);
    mr_status status = mr_return(call, mr_list(&item, 1));
    mr_release(context, root);
    return status;
}

MR_METHOD(Owner, chain) { /* each is a list with the future of the next, the last is empty */
    mr_context *context = mr_call_context(call);
    int64_t length;
    mr_ref at = {{0}}, next;
    MR_TRY(mr_arg_int(call, 0, &length));
    for (int64_t i = 0; i < length; i++) {
        MR_TRY(put_list(context, &at, i > 0, &next));
        at = next;
    }
    mr_arg item = mr_future(at);
    mr_status status = mr_return(call, mr_list(&item, 1));
    mr_release(context, at);
    return status;
}

MR_METHOD(Owner, keep) { /* keeps the future in a list */
    owner *self = mr_self(call);
    mr_value list, item;
    MR_TRY(mr_arg_value(call, 0, &list));
    MR_TRY(mr_value_item(&list, 0, &item));
    MR_TRY(mr_value_ref(&item, &self->ref));
    return mr_retain(mr_call_context(call), self->ref);
}

static object_state state_of(mr_context *context, mr_ref ref) {
    context_lock(context);
    const object *object = object_find(&context->worker.objects, ref);
    object_state state = object == NULL ? OBJECT_PENDING : object->state;
    context_unlock(context);
    return state;
}

MR_METHOD(Owner, has) { /* whether the kept object is ready, without a request for it */
    owner *self = mr_self(call);
    return mr_return(call, mr_int(state_of(mr_call_context(call), self->ref) == OBJECT_READY));
}

MR_METHOD(Owner, show) {
    owner *self = mr_self(call);
    mr_value value;
    MR_TRY(mr_get(mr_call_context(call), self->ref, PATIENCE_US, &value));
    mr_status status = mr_return(call, mr_value_arg(&value));
    mr_value_release(&value);
    return status;
}

MR_METHOD(Owner, lends) { /* number of borrows and waits of other processes */
    mr_context *context = mr_call_context(call);
    context_lock(context);
    int64_t exported = (int64_t)context->worker.borrow_rpc.borrow.borrowed;
    for (const list *at = context->worker.borrow_rpc.askers.next; at != &context->worker.borrow_rpc.askers;
         at = at->next)
        exported++;
    context_unlock(context);
    return mr_return(call, mr_int(exported));
}

/* ---- Helpers. */

typedef struct story {
    mr_actor owner;
    char folder[TEMP_DIR_FOLDER_MAX], path[TEMP_DIR_FOLDER_MAX + 16];
} story;

static story begin(void) {
    story story;
    assert_true(temp_dir_folder(story.folder));
    snprintf(story.path, sizeof story.path, "%s/now", story.folder);
    assert_int_equal(mr_new_actor(mr, "Owner", &story.owner), MR_OK);
    return story;
}

static void tell(const story *story) {
    int file = open(story->path, O_CREAT | O_CLOEXEC, 0600);
    assert_true(file >= 0);
    close(file);
}

static int64_t ask(mr_actor actor, const char *method) {
    mr_ref ref;
    assert_int_equal(mr_call_actor(mr, actor, method, &ref), MR_OK);
    return future_assert_int(mr, ref);
}

static void kill_owner(const story *story) { /* kills the owner, and waits until this process has noticed */
    mr_ref ref;
    int pid = (int)ask(story->owner, "pid");
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (mr_call_actor(mr, story->owner, "pid", &ref) == MR_OK && future_assert_failure(mr, ref) == MR_OK) {}
}

static void end(const story *story) {
    mr_actor_release(mr, story->owner);
    (void)unlink(story->path);
    assert_int_equal(rmdir(story->folder), 0);
    assert_true(object_listing_empties(mr));
}

static mr_ref item_of(mr_ref list, size_t index) { /* item of a list, retained */
    mr_value value, item;
    mr_ref ref;
    assert_int_equal(mr_get(mr, list, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_item(&value, index, &item), MR_OK);
    assert_int_equal(mr_value_ref(&item, &ref), MR_OK);
    assert_int_equal(mr_retain(mr, ref), MR_OK);
    mr_value_release(&value);
    return ref;
}

static mr_ref promised(const story *story, int64_t number) { /* a pending future of the owner */
    mr_ref list;
    assert_int_equal(mr_call_actor(mr, story->owner, "promise", &list, mr_str(story->path), mr_int(number), mr_int(1)),
                     MR_OK);
    mr_ref ref = item_of(list, 0);
    mr_release(mr, list);
    assert_int_equal(state_of(mr, ref), OBJECT_PENDING);
    return ref;
}

static void comes(mr_ref ref, object_state state) { /* waits until the object is in this state, without a request */
    for (int64_t waited = 0; waited < PATIENCE_US && state_of(mr, ref) != state; waited += STEP_US) usleep(STEP_US);
    assert_int_equal(state_of(mr, ref), state);
}

/* ---- Tests. */

static void a_reference_sent_before_its_object_exists(void **state) {
    story story = begin();
    mr_ref ref = promised(&story, 42);
    tell(&story);
    comes(ref, OBJECT_READY);
    kill_owner(&story);
    assert_int_equal(future_assert_int(mr, ref), 42);
    end(&story);
}

/* The owner's reference is sent through this driver to another actor, which then has the only reference. */
static void a_third_process_keeps_an_object(void **state) {
    story story = begin();
    mr_actor metadata;
    mr_ref ref = promised(&story, 43), kept;
    mr_arg item = mr_future(ref);
    mr_value value;
    assert_int_equal(mr_new_actor(mr, "Owner", &metadata), MR_OK);
    assert_int_equal(mr_call_actor(mr, metadata, "keep", &kept, mr_list(&item, 1)), MR_OK);
    assert_int_equal(mr_get(mr, kept, PATIENCE_US, &value), MR_OK);
    mr_value_release(&value);
    mr_release(mr, kept);
    mr_release(mr, ref);
    tell(&story);
    for (int64_t waited = 0; waited < PATIENCE_US && ask(metadata, "has") == 0; waited += STEP_US) usleep(STEP_US);
    kill_owner(&story);
    assert_int_equal(ask(metadata, "show"), 43);
    mr_actor_release(mr, metadata);
    end(&story);
}

static void an_object_that_refers_to_others(void **state) {
    story story = begin();
    mr_ref list, root, blob, deep;
    mr_value value;
    mr_span bytes;
    assert_int_equal(mr_call_actor(mr, story.owner, "tree", &list), MR_OK);
    root = item_of(list, 0);
    mr_release(mr, list);
    kill_owner(&story);
    assert_int_equal(future_assert_int(mr, item_of(root, 0)), 7);
    blob = item_of(root, 1);
    assert_int_equal(mr_get(mr, blob, PATIENCE_US, &value), MR_OK);
    assert_int_equal(mr_value_bytes(&value, &bytes), MR_OK);
    assert_int_equal(bytes.size, BLOB);
    mr_value_release(&value);
    mr_release(mr, blob);
    deep = item_of(root, 2);
    mr_release(mr, root);
    assert_int_equal(future_assert_int(mr, item_of(deep, 0)), 7);
    assert_int_equal(future_assert_int(mr, item_of(deep, 1)), 8);
    mr_release(mr, deep);
    end(&story);
}

static int reach(mr_ref ref) { /* number of ready items of a chain */
    context_lock(mr);
    const object *object = object_find(&mr->worker.objects, ref);
    int count = 0;
    while (object != NULL && object->state == OBJECT_READY) {
        const attachment *inside = object->owner == NULL ? NULL : object->owner->attachment;
        object = inside == NULL || inside->ref_count == 0 ? NULL : inside->refs[0].object;
        count++;
    }
    context_unlock(mr);
    return count;
}

/* A chain too long for one message: further messages follow. */
static void a_long_chain(void **state) {
    story story = begin();
    mr_ref list, at;
    assert_int_equal(mr_call_actor(mr, story.owner, "chain", &list, mr_int(CHAIN)), MR_OK);
    at = item_of(list, 0);
    mr_release(mr, list);
    for (int64_t waited = 0; waited < PATIENCE_US && reach(at) < CHAIN; waited += STEP_US) usleep(STEP_US);
    assert_int_equal(reach(at), CHAIN);
    kill_owner(&story);
    for (int i = 1; i < CHAIN; i++) {
        mr_ref next = item_of(at, 0);
        mr_release(mr, at);
        at = next;
    }
    mr_release(mr, at);
    end(&story);
}

static void a_reference_to_an_object_that_never_existed(void **state) {
    story story = begin();
    mr_ref ref = promised(&story, 44);
    mr_value value;
    kill_owner(&story);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_OBJECT_LOST);
    assert_non_null(strstr(mr_last_error(), "SIGKILL"));
    mr_actor metadata; /* an actor without a link to the owner */
    mr_arg item = mr_future(ref);
    mr_ref kept, shown;
    assert_int_equal(mr_new_actor(mr, "Owner", &metadata), MR_OK);
    assert_int_equal(mr_call_actor(mr, metadata, "keep", &kept, mr_list(&item, 1)), MR_OK);
    assert_int_equal(mr_call_actor(mr, metadata, "show", &shown), MR_OK);
    mr_release(mr, kept);
    assert_int_equal(mr_get(mr, shown, PATIENCE_US, &value), MR_OBJECT_LOST);
    assert_non_null(strstr(mr_last_error(), "SIGKILL"));
    mr_release(mr, shown);
    mr_actor_release(mr, metadata);
    mr_release(mr, ref);
    end(&story);
}

static void a_failure(void **state) {
    story story = begin();
    mr_ref ref = promised(&story, -1);
    mr_value value;
    tell(&story);
    comes(ref, OBJECT_FAILED);
    kill_owner(&story);
    assert_int_equal(mr_get(mr, ref, PATIENCE_US, &value), MR_TASK_FAILED);
    assert_non_null(strstr(mr_last_error(), "it was told so"));
    mr_release(mr, ref);
    end(&story);
}

/* No request stays pending. */
static void a_reference_released_before_its_object_exists(void **state) {
    story story = begin();
    mr_ref ref = promised(&story, 45);
    assert_true(ask(story.owner, "lends") > 0);
    mr_release(mr, ref);
    for (int64_t waited = 0; waited < PATIENCE_US && ask(story.owner, "lends") > 0; waited += STEP_US) usleep(STEP_US);
    assert_int_equal(ask(story.owner, "lends"), 0);
    tell(&story);
    kill_owner(&story);
    end(&story);
}

/* More references than are fetched at once; their owner answers calls meanwhile. */
static void very_many(void **state) {
    story story = begin();
    mr_ref list, *refs = calloc(MANY, sizeof *refs);
    assert_int_equal(mr_call_actor(mr, story.owner, "promise", &list, mr_str(story.path), mr_int(1), mr_int(MANY)),
                     MR_OK);
    for (size_t i = 0; i < MANY; i++) refs[i] = item_of(list, i);
    mr_release(mr, list);
    assert_true(ask(story.owner, "lends") >= MANY);
    tell(&story);
    for (size_t i = 0; i < MANY; i++) comes(refs[i], OBJECT_READY);
    kill_owner(&story);
    for (size_t i = 0; i < MANY; i++) assert_int_equal(future_assert_int(mr, refs[i]), 1);
    free(refs);
    end(&story);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reference_sent_before_its_object_exists),
        cmocka_unit_test(a_third_process_keeps_an_object),
        cmocka_unit_test(an_object_that_refers_to_others),
        cmocka_unit_test(a_long_chain),
        cmocka_unit_test(a_reference_to_an_object_that_never_existed),
        cmocka_unit_test(a_failure),
        cmocka_unit_test(a_reference_released_before_its_object_exists),
        cmocka_unit_test(very_many),
    };
    return runtime_main(tests);
}
