/* future_api.c — public functions of miniray/runtime.h about futures (put, get, wait, cancel, release), and about
 * arguments that a body keeps. Tested by tests/runtime_value_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/value.h"
#include "net/value_token.h"
#include "runtime/common/shutdown_error.h"
#include "runtime/process/wait_cause.h"
#include "runtime/worker/call.h"

/* ---- mr_put. */

/* `values` is NULL for a scalar. */
static mr_status put_locked(mr_context *mr, span scalar, value_pack *values, mr_ref *out) {
    object *object = object_create(&mr->worker.objects, true);
    if (object == NULL) return MR_NOMEM;
    if (values != NULL)
        object_fulfil(&mr->worker.objects, object, values, 0);
    else
        object_fulfil_small(&mr->worker.objects, object, scalar);
    *out = object->ref;
    object_drop(&mr->worker.objects, object);
    return MR_OK;
}

static mr_status put(mr_context *mr, value_pack_item *item, mr_ref *out) {
    MR_TRY(context_check(mr, out));
    uint8_t scalar[VALUE_SCALAR_MAX];
    value_pack *values = NULL;
    if (item->arg->kind == MR_KIND_REF)
        return error_set(MR_INVALID, "mr_put of a future: it is an object already; pass it on as it is");
    size_t size = item->fill != NULL ? 0 : value_write_scalar(item->arg, scalar);
    if (size == 0) {
        attachment_packer packer = core_worker_packer(&mr->worker);
        atomic_fetch_add(&mr->packing, 1);
        mr_status status = attachment_pack(&packer, item, 1, &values);
        if (status != MR_OK) atomic_fetch_sub(&mr->packing, 1);
        MR_TRY(status);
    }
    context_lock(mr);
    mr_status status = context_state_of(mr) >= CONTEXT_CLOSING ? shutdown_error_error()
                                                               : put_locked(mr, span_of(scalar, size), values, out);
    value_pack_unref(values);
    if (size == 0) atomic_fetch_sub(&mr->packing, 1);
    return context_done(mr, status);
}

mr_status mr_put(mr_context *mr, mr_arg value, mr_ref *out) { return put(mr, &(value_pack_item){.arg = &value}, out); }

mr_status mr_put_filled(mr_context *mr, mr_arg value, mr_fill_fn *fill, void *user, mr_ref *out) {
    if (fill == NULL) return error_set(MR_INVALID, "mr_put_filled: `fill` is NULL");
    return put(mr, &(value_pack_item){.arg = &value, .fill = &(value_pack_fill){fill, user}}, out);
}

/* ---- mr_get, mr_wait and the like. */

typedef struct view { /* record held by a mr_value of mr_get, unless it is a scalar */
    slab_place slot;
    value_doc doc;
    mr_context *mr;
    object *object; /* held */
} view;

static void view_release(value_doc *doc) {
    view *view = container_of(doc, struct view, doc);
    mr_context *mr = view->mr;
    value_close(doc);
    if (!context_is_ours(mr)) return; /* the parent process releases the view */
    context_lock(mr);
    if (view->object->owner != NULL) attachment_hide(view->object->owner, view->object->index);
    object_drop(&mr->worker.objects, view->object);
    slab_give(&mr->views, view);
    mr->view_count--;
    context_left(mr);
}

void context_views_init(mr_context *mr) { slab_init(&mr->views, sizeof(view)); }

static mr_status open_shown(mr_context *mr, object *object, const value_pack_entry *entry, mr_value *out) {
    view *view = slab_take(&mr->views);
    if (view == NULL) return MR_NOMEM;
    mr_status status = value_pack_entry_open(entry, &view->doc, out);
    if (status != MR_OK) {
        slab_give(&mr->views, view);
        return status;
    }
    view->mr = mr;
    view->object = object_hold(object);
    view->doc.release = view_release;
    mr->view_count++;
    return MR_OK;
}

static mr_status open_view(mr_context *mr, object *object, mr_value *out) {
    if (object->value.kind == VALUE_PACK_PLAIN && value_read_scalar(object->value.bytes, out)) return MR_OK;
    value_pack_entry entry = object->value;
    /* the value may be in the store; view_release hides it again */
    if (object->owner != NULL) MR_TRY(attachment_show(object->owner, object->index, true, &entry));
    mr_status status = open_shown(mr, object, &entry, out);
    if (status != MR_OK && object->owner != NULL) attachment_hide(object->owner, object->index);
    return status;
}

static const arena *locate(mr_context *mr, const void *bytes, uint64_t *offset) { /* as store_provider_locate */
    context_lock(mr);
    const arena *arena = store_provider_locate(&mr->worker.provider, bytes, offset);
    context_unlock(mr);
    return arena;
}

/* Reads the arena itself, as other processes see it, not this process's copies of its pages. */
mr_status mr_read_sealed(mr_context *mr, const void *bytes, size_t size, void *out) {
    MR_TRY(context_check(mr, out));
    if (bytes == NULL && size > 0)
        return error_set(MR_INVALID, "mr_read_sealed: `bytes` is NULL, but `size` is %zu", size);
    uint64_t offset;
    const arena *arena = size == 0 ? NULL : locate(mr, bytes, &offset);
    if (size > 0) memcpy(out, arena == NULL ? bytes : arena_at(arena, offset), size);
    return MR_OK;
}

bool mr_is_private_copy(mr_context *mr, const void *bytes) {
    uint64_t offset;
    return context_check(mr, bytes) == MR_OK && locate(mr, bytes, &offset) != NULL;
}

mr_status context_keep(mr_context *mr, value_pack *owner, uint32_t index, mr_value *out) {
    object *object = object_create(&mr->worker.objects, false);
    if (object == NULL) return MR_NOMEM;
    object_fulfil(&mr->worker.objects, object, owner, index);
    mr_status status = open_view(mr, object, out);
    object_drop(&mr->worker.objects, object);
    return status;
}

object *context_object_of(const mr_value *value) {
    const value_doc *doc = value_view_is_root(value) ? value_view_doc(value) : NULL;
    if (doc == NULL || doc->release != view_release) return NULL;
    return ((const view *)((const char *)doc - offsetof(view, doc)))->object;
}

mr_status mr_arg_keep(mr_call *call, size_t index, mr_value *out) {
    mr_value value;
    MR_TRY(mr_arg_value(call, index, &value));
    value_pack *owner = call->args_owner;
    if (owner == NULL) { /* small: stored in the call itself */
        mr_arg passed = mr_value_arg(&value);
        MR_TRY(value_pack_create(&(value_pack_item){.arg = &passed}, 1, &owner));
        index = 0;
    }
    context_lock(call->mr);
    mr_status status = context_keep(call->mr, owner, (uint32_t)index, out);
    if (owner != call->args_owner) value_pack_unref(owner);
    return context_done(call->mr, status);
}

typedef struct many { /* a wait for some of several objects */
    mr_context *mr;
    poller_waiter waiter;
    size_t left;
} many;

typedef struct one {
    object_waiter waiter;
    many *many;
} one;

static void one_came(object_waiter *waiter, object *object) {
    many *many = container_of(waiter, one, waiter)->many;
    if (many->left > 0 && --many->left == 0) poller_finish(&many->mr->poller, &many->waiter);
}

/* Not inline: the parts of the text would occupy registers in the loop over all objects of an mr_wait. */
static __attribute__((cold, noinline)) object *not_found(mr_ref ref) {
    error_set(MR_NOT_FOUND, "this process does not have object " OBJECT_ID ": it was released", OBJECT_ID_OF(ref));
    return NULL;
}

static object *find_object(mr_context *mr, mr_ref ref) {
    object *object = object_find(&mr->worker.objects, ref);
    return object != NULL ? object : not_found(ref);
}

mr_status context_wait_object(mr_context *mr, object *object, int64_t timeout_us) {
    many many = {.mr = mr, .left = 1};
    one alone = {.waiter.fn = one_came, .many = &many};
    poller_waiter_init(&many.waiter);
    object_wait(&mr->worker.objects, object, &alone.waiter);
    mr_status status = context_wait_answering(mr, &many.waiter, timeout_us);
    object_unwait(&alone.waiter);
    return status == MR_TIMEOUT ? wait_cause_timed_out(mr, object, timeout_us + context_waited_us(mr)) : status;
}

/* Gets an object that is pending, or no scalar. */
static __attribute__((noinline)) mr_status get_slowly(mr_context *mr, object *object, int64_t timeout_us,
                                                      mr_value *out) {
    object_hold(object);
    mr_status status = object->state == OBJECT_PENDING ? context_wait_object(mr, object, timeout_us) : MR_OK;
    if (status == MR_OK) {
        object_see(&mr->worker.objects, object);
        status = object->state == OBJECT_FAILED ? failure_raise(object->failure) : open_view(mr, object, out);
    }
    object_drop(&mr->worker.objects, object);
    return status;
}

static mr_status get_locked(mr_context *mr, mr_ref ref, int64_t timeout_us, mr_value *out) {
    object *object = find_object(mr, ref);
    if (object == NULL) return MR_NOT_FOUND;
    if (object->state == OBJECT_READY && object->value.kind == VALUE_PACK_PLAIN &&
        value_read_scalar(object->value.bytes, out)) {
        object->seen = true;
        return MR_OK;
    }
    return get_slowly(mr, object, timeout_us, out);
}

typedef struct get_again {
    mr_ref ref;
    mr_value *out;
} get_again;

static mr_status get_step(mr_context *mr, void *what, int64_t timeout_us) {
    const get_again *again = what;
    return get_locked(mr, again->ref, timeout_us, again->out);
}

mr_status mr_get(mr_context *mr, mr_ref ref, int64_t timeout_us, mr_value *out) {
    MR_TRY(context_check(mr, out));
    context_lock(mr);
    mr_status status = context_done(mr, get_locked(mr, ref, timeout_us, out));
    if (__builtin_expect(status != CONTEXT_INTERRUPTED, 1)) return status;
    return context_resume(mr, get_step, &(get_again){ref, out}, timeout_us);
}

/* Sets which objects are ready, and their number. MR_NOT_FOUND: this process does not have one (any more). */
static mr_status note_ready(mr_context *mr, const mr_ref *refs, size_t count, unsigned char *ready, size_t *total) {
    size_t there = 0;
    for (size_t i = 0; i < count; i++) {
        const object *object = find_object(mr, refs[i]);
        if (object == NULL) return MR_NOT_FOUND;
        ready[i] = object->state != OBJECT_PENDING;
        there += ready[i];
    }
    *total = there;
    return MR_OK;
}

/* Waits until `more` of the objects that are not `ready` are. */
static mr_status wait_for(mr_context *mr, const mr_ref *refs, size_t count, const unsigned char *ready, size_t more,
                          int64_t timeout_us) {
    one *ones;
    MR_TRY(alloc_try(count * sizeof(one), &ones));
    many many = {.mr = mr, .left = more};
    poller_waiter_init(&many.waiter);
    for (size_t i = 0; i < count; i++) {
        ones[i] = (one){.waiter.fn = one_came, .many = &many};
        list_init(&ones[i].waiter.place);
        if (!ready[i]) object_wait(&mr->worker.objects, object_find(&mr->worker.objects, refs[i]), &ones[i].waiter);
    }
    mr_status status = context_wait_answering(mr, &many.waiter, timeout_us);
    for (size_t i = 0; i < count; i++) object_unwait(&ones[i].waiter);
    free(ones);
    return status;
}

static mr_status wait_locked(mr_context *mr, const mr_ref *refs, size_t count, size_t want, int64_t timeout_us,
                             unsigned char *ready, size_t *ready_count) {
    size_t there;
    MR_TRY(note_ready(mr, refs, count, ready, &there));
    mr_status status = MR_OK;
    if (there < want) {
        status = wait_for(mr, refs, count, ready, want - there, timeout_us);
        if (status != MR_OK && status != MR_TIMEOUT) return status;
        MR_TRY(note_ready(mr, refs, count, ready, &there));
        if (status == MR_TIMEOUT)
            error_set(MR_TIMEOUT, "timed out after %.3g s: %zu of %zu futures are ready, %zu are needed",
                      (double)(timeout_us + context_waited_us(mr)) / 1e6, there, count, want);
    }
    *ready_count = there;
    return status;
}

typedef struct wait_again {
    const mr_ref *refs;
    size_t count, want;
    unsigned char *ready;
    size_t *ready_count;
} wait_again;

static mr_status wait_step(mr_context *mr, void *what, int64_t timeout_us) {
    const wait_again *again = what;
    return wait_locked(mr, again->refs, again->count, again->want, timeout_us, again->ready, again->ready_count);
}

mr_status mr_wait(mr_context *mr, const mr_ref *refs, size_t count, size_t want, int64_t timeout_us,
                  unsigned char *ready, size_t *ready_count) {
    MR_TRY(context_check(mr, ready_count));
    if (count > 0 && (refs == NULL || ready == NULL))
        return error_set(MR_INVALID, "mr_wait: `refs` or `ready` is NULL, but `count` is %zu", count);
    if (want > count) return error_set(MR_INVALID, "mr_wait: `want` is %zu, but there are %zu futures", want, count);
    wait_again again = {refs, count, want, ready, ready_count};
    context_lock(mr);
    mr_status status = context_done(mr, wait_step(mr, &again, timeout_us));
    return status == CONTEXT_INTERRUPTED ? context_resume(mr, wait_step, &again, timeout_us) : status;
}

/* ---- mr_wait_all. */

typedef struct whole { /* a wait for all of several objects, or for a failure */
    mr_context *mr;
    poller_waiter waiter;
    size_t left; /* pending objects */
} whole;

typedef struct part {
    object_waiter waiter;
    object *object; /* held; NULL: it was not pending */
    whole *whole;
} part;

static void part_came(object_waiter *waiter, object *object) {
    whole *whole = container_of(waiter, part, waiter)->whole;
    whole->left--;
    bool over = whole->left == 0 || object->state == OBJECT_FAILED;
    if (over && !whole->waiter.done) poller_finish(&whole->mr->poller, &whole->waiter);
}

typedef struct wait_all_again {
    const mr_ref *refs;
    size_t count;
    size_t *failed;
} wait_all_again;

/* Finds the first failed object, else the first pending one. MR_NOT_FOUND: this process does not have one. */
static mr_status find_first(mr_context *mr, const wait_all_again *all, size_t *failed, object **pending) {
    *failed = all->count;
    *pending = NULL;
    for (size_t i = 0; i < all->count && *failed == all->count; i++) {
        object *object = find_object(mr, all->refs[i]);
        if (object == NULL) return MR_NOT_FOUND;
        if (object->state == OBJECT_FAILED) *failed = i;
        if (object->state == OBJECT_PENDING && *pending == NULL) *pending = object;
    }
    return MR_OK;
}

static mr_status wait_for_parts(mr_context *mr, const wait_all_again *all, int64_t timeout_us) {
    part *parts;
    MR_TRY(alloc_try(all->count * sizeof(part), &parts));
    whole whole = {.mr = mr};
    poller_waiter_init(&whole.waiter);
    for (size_t i = 0; i < all->count; i++) {
        object *object = object_find(&mr->worker.objects, all->refs[i]);
        parts[i] = (part){.waiter.fn = part_came, .whole = &whole};
        if (object == NULL || object->state != OBJECT_PENDING) continue;
        parts[i].object = object_hold(object);
        whole.left++;
        object_wait(&mr->worker.objects, object, &parts[i].waiter);
    }
    mr_status status = context_wait_answering(mr, &whole.waiter, timeout_us);
    for (size_t i = 0; i < all->count; i++) {
        if (parts[i].object == NULL) continue;
        object_unwait(&parts[i].waiter);
        object_drop(&mr->worker.objects, parts[i].object);
    }
    free(parts);
    return status;
}

static mr_status wait_all_step(mr_context *mr, void *what, int64_t timeout_us) {
    const wait_all_again *all = what;
    object *pending;
    size_t failed;
    MR_TRY(find_first(mr, all, &failed, &pending));
    mr_status status = MR_OK;
    if (failed == all->count && pending != NULL) {
        status = wait_for_parts(mr, all, timeout_us);
        if (status != MR_OK && status != MR_TIMEOUT) return status;
        MR_TRY(find_first(mr, all, &failed, &pending));
    }
    if (failed == all->count && pending != NULL)
        return wait_cause_timed_out(mr, pending, timeout_us + context_waited_us(mr));
    *all->failed = failed;
    return MR_OK;
}

mr_status mr_wait_all(mr_context *mr, const mr_ref *refs, size_t count, int64_t timeout_us, size_t *failed) {
    MR_TRY(context_check(mr, failed));
    if (count > 0 && refs == NULL)
        return error_set(MR_INVALID, "mr_wait_all: `refs` is NULL, but `count` is %zu", count);
    wait_all_again all = {refs, count, failed};
    context_lock(mr);
    mr_status status = context_done(mr, wait_all_step(mr, &all, timeout_us));
    return status == CONTEXT_INTERRUPTED ? context_resume(mr, wait_all_step, &all, timeout_us) : status;
}

mr_status mr_why(mr_context *mr, mr_ref ref, int64_t timeout_us, char *out, size_t room) {
    char text[WAIT_CAUSE_TEXT_MAX] = "";
    MR_TRY(context_check(mr, out));
    context_lock(mr);
    object *object = find_object(mr, ref);
    if (object != NULL && object->state == OBJECT_PENDING)
        wait_cause_write(mr, object, timeout_us < 0 ? WAIT_CAUSE_US : timeout_us, text);
    context_unlock(mr);
    if (object == NULL) return MR_NOT_FOUND;
    snprintf(out, room, "%s", text);
    return MR_OK;
}

/* Opens a failure as an error value, in an object that only the view holds. */
static mr_status open_error(mr_context *mr, const failure *failure, mr_value *out) {
    value_pack *values;
    MR_TRY(failure_pack(failure, &values));
    mr_status status = context_keep(mr, values, 0, out);
    value_pack_unref(values);
    return status;
}

mr_status mr_failure(mr_context *mr, mr_ref ref, mr_value *out) {
    MR_TRY(context_check(mr, out));
    context_lock(mr);
    object *object = find_object(mr, ref);
    mr_status status = MR_NOT_FOUND;
    if (object != NULL && object->state == OBJECT_FAILED) {
        object_see(&mr->worker.objects, object);
        status = open_error(mr, object->failure, out);
    } else if (object != NULL) {
        status = error_set(MR_INVALID, "mr_failure: object " OBJECT_ID " %s", OBJECT_ID_OF(ref),
                           object->state == OBJECT_READY ? "did not fail" : "is still pending");
    }
    return context_done(mr, status);
}

mr_status mr_failure_detail(mr_context *mr, mr_ref ref, void *out, size_t room, size_t *size) {
    MR_TRY(context_check(mr, size));
    if (out == NULL) room = 0;
    context_lock(mr);
    object *object = find_object(mr, ref);
    mr_status status = object == NULL ? MR_NOT_FOUND : MR_OK;
    span detail = object != NULL && object->state == OBJECT_FAILED ? failure_detail(object->failure) : (span){0};
    size_t copied = detail.size < room ? detail.size : room;
    if (copied > 0) memcpy(out, detail.data, copied);
    if (status == MR_OK) *size = detail.size;
    return context_done(mr, status);
}

static mr_status cancel(mr_context *mr, mr_ref ref, wire_how how) {
    object *object = find_object(mr, ref);
    if (object == NULL) return MR_NOT_FOUND;
    if (!object->foreign || object->state != OBJECT_PENDING) return invocation_cancel(object, how);
    return borrow_rpc_cancel(&mr->worker.borrow_rpc, object, how);
}

/* Cancels, and waits while there is no room for the message that WIRE_BY_FORCE and WIRE_ALONE send first (MR_BUSY). */
static mr_status cancel_when_told(mr_context *mr, mr_ref ref, wire_how how) {
    MR_TRY(context_check(mr, mr));
    mr_status status;
    context_lock(mr);
    while ((status = cancel(mr, ref, how)) == MR_BUSY) context_pause(mr);
    return context_done(mr, status);
}

mr_status mr_cancel(mr_context *mr, mr_ref ref) { return cancel_when_told(mr, ref, WIRE_WITH_CHILDREN); }
mr_status mr_cancel_force(mr_context *mr, mr_ref ref) { return cancel_when_told(mr, ref, WIRE_BY_FORCE); }
mr_status mr_cancel_only(mr_context *mr, mr_ref ref) { return cancel_when_told(mr, ref, WIRE_ALONE); }

mr_status mr_retain(mr_context *mr, mr_ref ref) {
    MR_TRY(context_check(mr, mr));
    context_lock(mr);
    object *object = find_object(mr, ref);
    if (object != NULL) object_name(object);
    context_unlock(mr);
    return object != NULL ? MR_OK : MR_NOT_FOUND;
}

void mr_release(mr_context *mr, mr_ref ref) {
    if (!context_is_ours(mr)) return;
    context_lock(mr);
    object *object = object_find(&mr->worker.objects, ref);
    if (object != NULL) object_unname(&mr->worker.objects, object);
    context_unlock(mr);
}
